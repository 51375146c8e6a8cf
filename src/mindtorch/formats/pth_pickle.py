"""Pickles of checkpoints: a reader that runs nothing the caller has not allowed, and a writer that names torch classes.

`SafeUnpickler` interprets the opcodes itself. Everything that can be called, instantiated or given state has come from
the caller's ``find`` function, which answers for an allow-list. An opcode that is not in the table is refused.
"""

from __future__ import annotations

import codecs
import pickle
import struct
from collections import Counter, OrderedDict
from collections.abc import Callable
from types import FunctionType
from typing import Any, ClassVar

UnpicklingError = pickle.UnpicklingError
Find = Callable[[str, str], Any]

_CUT = "the pickle ends too early: the file is truncated"
_PIECE = 1 << 20
_WINDOW = 1 << 16
"""Bytes of a file that are looked at together."""
_PAD = bytes(16)
_FORMS = {form: struct.Struct(form) for form in ("<i", "<B", "<H", "<I", "<Q", ">d")}
_BROKEN = (ArithmeticError, AttributeError, LookupError, MemoryError, RecursionError, TypeError, ValueError, struct.error)
"""What nonsense in a pickle can raise inside a step; UnpicklingError and RuntimeError say more and pass."""

_PUT, _LONG_PUT, _GET, _TEXT, _MARK, _TUPLE, _INT1, _INT2, _TUPLE2, _REDUCE, _STOP = b"qrhX(tKM\x86R."

_RENAMED_MODULES = {"__builtin__": "builtins", "copy_reg": "copyreg"}
_RENAMED_NAMES = {("builtins", "xrange"): "range", ("builtins", "unicode"): "str", ("builtins", "long"): "int"}


def modern_name(module: str, name: str) -> tuple[str, str]:
    """A global's place in Python 3, for pickles of protocol 2 and lower, which use Python 2's names."""
    module = _RENAMED_MODULES.get(module, module)
    return module, _RENAMED_NAMES.get((module, name), name)


def encode_text(text: str, encoding: str = "utf-8") -> bytes:
    """``codecs.encode`` as pickles use it for bytes: text to bytes, nothing else."""
    if not isinstance(text, str) or encoding not in ("latin1", "latin-1", "utf-8", "ascii"):
        raise UnpicklingError(f"_codecs.encode is allowed for text in latin1 or utf-8, not {encoding!r}")
    return codecs.encode(text, encoding)


def hashable(key: Any) -> Any:
    """``key``, refused when hashing it could take for ever or overflow the interpreter's stack.

    Tuples within tuples are hashed recursively and without a cache; large integers can be chosen to collide.
    """
    left, todo = 1000, [key]
    while todo:
        k, left = todo.pop(), left - 1
        if isinstance(k, tuple):
            todo.extend(k[: left + 1])
        if left < 0 or (isinstance(k, int) and abs(k) >> 64):
            raise UnpicklingError("the pickle uses a key that is a very large number or a very large tuple")
    return key


def _careful_bytes(value: Any = b"", encoding: str = "latin-1") -> bytearray:
    if not isinstance(value, (bytes, str)):
        raise UnpicklingError("the pickle makes a bytearray of something else than bytes")
    return bytearray(value if isinstance(value, bytes) else encode_text(value, encoding))


def _careful_dict(pairs: Any = ()) -> OrderedDict[Any, Any]:
    made: OrderedDict[Any, Any] = OrderedDict()
    for key, value in pairs.items() if isinstance(pairs, dict) else pairs:
        made[hashable(key)] = value
    return made


_CAREFUL: dict[type, Callable[..., Any]] = {
    bytearray: _careful_bytes,
    OrderedDict: _careful_dict,
    Counter: lambda counts=(): Counter(_careful_dict(counts)),
    set: lambda items=(): set(map(hashable, items)),
    frozenset: lambda items=(): frozenset(map(hashable, items)),
}
"""How the plain classes are called: never for memory that the pickle only names a size of."""


class Unknown:
    """Stands for an object of a class that is not allowed: what the file says of it, and nothing runs."""

    def __init__(self, module: str, name: str, args: tuple[Any, ...]) -> None:
        self.module = module
        self.name = name
        self.args = args
        self.state: Any = None
        self.items: list[Any] = []
        self.entries: dict[Any, Any] = {}

    def __repr__(self) -> str:
        return f"<{self.module}.{self.name}, not loaded>"


class UnknownGlobal:
    """Stands for a class or function that is not allowed; calling it makes an `Unknown`."""

    def __init__(self, module: str, name: str) -> None:
        self.module = module
        self.name = name

    def __call__(self, *args: Any) -> Unknown:
        return Unknown(self.module, self.name, args)

    def __repr__(self) -> str:
        return f"<{self.module}.{self.name}, not loaded>"


class SafeUnpickler:
    """Reads one pickle from ``source``: its bytes, or a seekable file whose position is after the pickle then.

    ``find(module, name)`` returns an allowed global or raises; ``persistent(pid)`` answers persistent ids;
    ``build(object, state)`` may give state to objects of the caller's classes (returns False when it declines);
    ``calls(value)`` says whether an allowed global may be called too (all may without it).
    """

    def __init__(
        self,
        source: Any,
        find: Find,
        persistent: Callable[[Any], Any],
        build: Callable[[Any, Any], bool] | None = None,
        encoding: str = "utf-8",
        calls: Callable[[Any], bool] | None = None,
    ) -> None:
        # The window on the pickle: data[at:end], then zeros, so that the number after an opcode can always be read.
        # Opcodes up to ``limit`` may run; what one has read beyond the end is noticed before the next.
        whole = isinstance(source, bytes)
        self.file = None if whole else source
        self.data: bytes = source + _PAD if whole else _PAD
        self.at = 0
        self.end = len(self.data) - len(_PAD)
        self.limit = self.end - 1
        self.find = find
        self.persistent = persistent
        self.build = build
        self.calls = calls
        self.encoding = encoding
        self.stack: list[Any] = []
        self.below: list[list[Any]] = []
        """The stacks under each open mark."""
        self.memo: dict[int, Any] = {}
        self.found: dict[int, Any] = {}
        self.able: dict[int, Callable[..., Any]] = {}
        """How each global that may be called is called; ``found`` keeps them alive, so an id stays theirs."""
        self.asking = False

    # ------------------------------------------------------------------------------------ reading
    def _more(self) -> bool:
        """Extend the window; False at the end of the file."""
        new = self.file.read(_WINDOW) if self.file is not None else b""
        if not new:
            self.limit = self.end - 1
            return False
        left = self.data[self.at : self.end]
        self.data = b"".join((left, new, _PAD))
        self.at, self.end = 0, len(left) + len(new)
        self.limit = self.end - len(_PAD)
        return True

    def _read(self, n: int) -> bytes:
        start, stop = self.at, self.at + n
        if stop <= self.end:
            self.at = stop
            return self.data[start:stop]
        # In pieces, because a file object sets memory aside for the size that a broken pickle may claim.
        pieces = [self.data[start : self.end]]
        left = n - len(pieces[0])
        while left and self.file is not None:
            pieces.append(self.file.read(min(left, _PIECE)))
            left -= len(pieces[-1])
            if not pieces[-1]:
                break
        if left:
            raise UnpicklingError(_CUT)
        self.data, self.at, self.end, self.limit = _PAD, 0, 0, -1
        return b"".join(pieces)

    def _line(self) -> bytes:
        while True:
            stop = self.data.find(b"\n", self.at, min(self.end, self.at + _PIECE))
            if stop >= 0:
                line = self.data[self.at : stop]
                self.at = stop + 1
                return line
            if self.end - self.at > _PIECE or not self._more():
                raise UnpicklingError(_CUT)

    def _number(self, form: str) -> int:
        s = _FORMS[form]
        self.at += s.size
        return s.unpack_from(self.data, self.at - s.size)[0]

    def load(self) -> Any:
        """The object; UnpicklingError when the stream is broken or names something that is not allowed."""
        self._run()
        if len(self.stack) != 1 or self.below:
            raise UnpicklingError("the pickle is broken: it does not end with one object")
        if self.file is not None and self.at != self.end:
            self.file.seek(self.file.tell() - (self.end - self.at))
        return self.stack.pop()

    def _go_on(self, at: int) -> tuple[bytes, int, int]:
        """The window, and the position in it, once the next opcode is there."""
        self.at = at
        while self.at > self.limit:
            if not self._more() and self.at > self.limit:
                raise UnpicklingError(_CUT)
        return self.data, self.at, self.limit

    def _run(self) -> None:
        """Follow the opcodes up to the last. The frequent ones are written out, the others are in the table of steps."""
        memo, below, able, u32 = self.memo, self.below, self.able, _FORMS["<I"].unpack_from
        stack, data, at, limit = self.stack, self.data, self.at, self.limit
        code = 0
        try:
            while code != _STOP:
                if at > limit:
                    data, at, limit = self._go_on(at)
                code = data[at]
                at += 1
                if code == _PUT:
                    memo[data[at]] = stack[-1]
                    at += 1
                elif code == _LONG_PUT:
                    memo[u32(data, at)[0]] = stack[-1]
                    at += 4
                elif code == _GET:
                    stack.append(memo[data[at]])
                    at += 1
                elif code == _TEXT and (stop := at + 4 + u32(data, at)[0]) <= limit:
                    stack.append(str(data[at + 4 : stop], "utf-8", "surrogatepass"))
                    at = stop
                elif code == _MARK:
                    below.append(stack)
                    self.stack = stack = []
                elif code == _TUPLE:
                    items = tuple(stack)
                    self.stack = stack = below.pop()
                    stack.append(items)
                elif code == _INT1:
                    stack.append(data[at])
                    at += 1
                elif code == _INT2:
                    stack.append(data[at] | data[at + 1] << 8)
                    at += 2
                elif code == _TUPLE2:
                    stack[-2:] = [(stack[-2], stack[-1])]
                elif code == _REDUCE:
                    args, fn = stack.pop(), stack[-1]
                    if type(args) is not tuple:
                        raise UnpicklingError(f"the pickle is broken: arguments of {fn!r} are no tuple")
                    stack[-1] = (able.get(id(fn)) or self._allowed(fn))(*args)
                else:
                    self.at = at
                    _STEPS[code](self)
                    stack, data, at, limit = self.stack, self.data, self.at, self.limit
            self.at = at
        except _BROKEN as e:
            self._complain(code, e)

    def _complain(self, code: int, e: BaseException) -> None:
        if self.asking:
            raise e  # the caller's own error
        why = f"{type(e).__name__} {str(e)[:200]}"
        raise UnpicklingError(f"the pickle is broken at opcode {bytes([code])!r}: {why}") from e

    # ------------------------------------------------------------------------------------ helpers of the steps
    def _pop_mark(self) -> list[Any]:
        if not self.below:
            raise UnpicklingError("the pickle is broken: a mark is missing")
        items, self.stack = self.stack, self.below.pop()
        return items

    def _global(self, module: str, name: str) -> Any:
        module, name = modern_name(module, name)
        value = encode_text if (module, name) == ("_codecs", "encode") else self.find(module, name)
        self.found[id(value)] = value
        return value

    def _persistent(self, pid: Any) -> Any:
        self.asking = True
        answer = self.persistent(pid)
        self.asking = False
        return answer

    def _allowed(self, fn: Any) -> Callable[..., Any]:
        """How ``fn`` is called; UnpicklingError when the pickle may not call it."""
        if id(fn) not in self.found or not callable(fn):
            raise UnpicklingError(f"the pickle calls a {type(fn).__name__}, which it did not name as a global")
        if self.calls is not None and not self.calls(fn):
            raise UnpicklingError(f"the pickle calls {getattr(fn, '__name__', fn)}, which may be named only")
        self.able[id(fn)] = call = _CAREFUL.get(fn, fn) if isinstance(fn, type) else fn
        return call

    def _new(self, kwargs: dict[str, Any]) -> None:
        args = self.stack.pop()
        cls = self.stack[-1]
        self._allowed(cls)
        if isinstance(cls, UnknownGlobal) and isinstance(args, tuple):
            self.stack[-1] = cls(*args)
            return
        if not isinstance(cls, type) or not isinstance(args, tuple) or not isinstance(kwargs, dict):
            raise UnpicklingError("the pickle makes an instance of something that is no class")
        self.stack[-1] = cls() if cls in _CAREFUL else cls.__new__(cls, *args, **kwargs)

    def _give_state(self) -> None:
        state = self.stack.pop()
        target = self.stack[-1]
        if type(target) is OrderedDict and isinstance(state, dict):
            target.__dict__.update(state)
        elif isinstance(target, Unknown):
            target.state = state
        elif self.build is None or not self.build(target, state):
            cls = type(target)
            raise UnpicklingError(
                f"the pickle gives state to a {cls.__module__}.{cls.__qualname__}, which is not allowed by default "
                "(torch.serialization.add_safe_globals allows a class)"
            )

    def _append(self, items: list[Any]) -> None:
        target = self.stack[-1]
        if isinstance(target, Unknown):
            target = target.items
        if not isinstance(target, list):
            raise UnpicklingError(f"the pickle appends to a {type(target).__name__}")
        target.extend(items)

    def _put(self, pairs: list[Any]) -> None:
        target = self.stack[-1]
        if isinstance(target, Unknown):
            target = target.entries
        if not isinstance(target, dict):
            raise UnpicklingError(f"the pickle sets items of a {type(target).__name__}")
        for key, value in zip(pairs[::2], pairs[1::2], strict=True):
            target[key if type(key) is str else hashable(key)] = value

    def _add(self, items: list[Any]) -> None:
        target = self.stack[-1]
        if not isinstance(target, set):
            raise UnpicklingError(f"the pickle adds to a {type(target).__name__}")
        target.update(map(hashable, items))

    def _old_text(self, data: bytes) -> Any:
        return data if self.encoding == "bytes" else data.decode(self.encoding)

    def _int_line(self) -> Any:
        line = self._line()
        return {b"00": False, b"01": True}.get(line) if line in (b"00", b"01") else int(line)

    def _top(self, n: int) -> None:
        items = tuple(self.stack[-n:])
        if len(items) != n:
            raise UnpicklingError("the pickle is broken: too few objects")
        self.stack[-n:] = [items]

    def _drop(self) -> None:
        if self.stack:
            self.stack.pop()
        else:
            self._pop_mark()


def _pushing() -> dict[bytes, Callable[[SafeUnpickler], Any]]:
    """Opcodes that push one value."""
    s: dict[bytes, Callable[[SafeUnpickler], Any]] = {}

    def push(code: bytes, value: Callable[[SafeUnpickler], Any]) -> None:
        def step(u: SafeUnpickler) -> None:
            made = value(u)  # before the stack is asked for: this may have changed it
            u.stack.append(made)

        s[code] = step

    def quoted(u: SafeUnpickler) -> Any:
        line = u._line()
        if len(line) < 2 or line[:1] not in b"'\"" or line[-1:] != line[:1]:
            raise UnpicklingError("the pickle is broken: a string without quotes")
        return u._old_text(codecs.escape_decode(line[1:-1])[0])  # type: ignore[attr-defined]

    for code, value in ((b"N", None), (b"\x88", True), (b"\x89", False), (b")", ())):
        s[code] = lambda u, v=value: u.stack.append(v)
    for code, make in ((b"]", list), (b"}", dict), (b"\x8f", set)):
        push(code, lambda u, make=make: make())
    for code, form in ((b"J", "<i"), (b"G", ">d")):
        push(code, lambda u, form=form: u._number(form))
    push(b"I", SafeUnpickler._int_line)
    push(b"L", lambda u: int(u._line().rstrip(b"L")))
    push(b"F", lambda u: float(u._line()))
    push(b"\x8a", lambda u: int.from_bytes(u._read(u._number("<B")), "little", signed=True))
    push(b"\x8b", lambda u: int.from_bytes(u._read(u._number("<I")), "little", signed=True))
    for code, form in ((b"X", "<I"), (b"\x8c", "<B"), (b"\x8d", "<Q")):
        push(code, lambda u, form=form: u._read(u._number(form)).decode("utf-8", "surrogatepass"))
    for code, form in ((b"B", "<I"), (b"C", "<B"), (b"\x8e", "<Q")):
        push(code, lambda u, form=form: u._read(u._number(form)))
    push(b"\x96", lambda u: bytearray(u._read(u._number("<Q"))))
    for code, form in ((b"U", "<B"), (b"T", "<I")):
        push(code, lambda u, form=form: u._old_text(u._read(u._number(form))))
    push(b"V", lambda u: u._line().decode("raw-unicode-escape"))
    push(b"S", quoted)
    push(b"l", SafeUnpickler._pop_mark)
    push(b"\x91", lambda u: frozenset(map(hashable, u._pop_mark())))
    push(b"c", lambda u: u._global(u._line().decode(), u._line().decode()))
    push(b"j", lambda u: u.memo[u._number("<I")])
    push(b"g", lambda u: u.memo[int(u._line())])
    push(b"2", lambda u: u.stack[-1])
    push(b"Q", lambda u: u._persistent(u.stack.pop()))
    push(b"P", lambda u: u._persistent(u._line().decode("ascii")))
    return s


def _steps() -> list[Callable[[SafeUnpickler], Any]]:
    """What every opcode does that is not written out in the loop."""
    s = _pushing()

    def dictionary(u: SafeUnpickler) -> None:
        pairs = u._pop_mark()
        u.stack.append({})
        u._put(pairs)

    def stack_global(u: SafeUnpickler) -> None:
        name, module = u.stack.pop(), u.stack.pop()
        if not isinstance(name, str) or not isinstance(module, str):
            raise UnpicklingError("the pickle is broken: a global without a name")
        u.stack.append(u._global(module, name))

    def one_item(u: SafeUnpickler) -> None:
        value, key = u.stack.pop(), u.stack.pop()
        u._put([key, value])

    def protocol(u: SafeUnpickler) -> None:
        if u._number("<B") > 5:
            raise UnpicklingError("the pickle has a protocol newer than 5")

    def refuse(code: bytes) -> Callable[[SafeUnpickler], None]:
        def step(u: SafeUnpickler) -> None:
            raise UnpicklingError(f"pickle opcode {code!r} is not allowed in a checkpoint")

        return step

    def keep(n: Callable[[SafeUnpickler], int]) -> Callable[[SafeUnpickler], None]:
        def step(u: SafeUnpickler) -> None:
            u.memo[n(u)] = u.stack[-1]

        return step

    s[b"d"], s[b"\x93"], s[b"s"], s[b"\x80"] = dictionary, stack_global, one_item, protocol
    s[b"0"] = SafeUnpickler._drop
    s[b"1"] = lambda u: u._pop_mark() and None
    s[b"p"], s[b"\x94"] = keep(lambda u: int(u._line())), keep(lambda u: len(u.memo))
    s[b"\x95"] = lambda u: u._number("<Q")
    s[b"a"] = lambda u: u._append([u.stack.pop()])
    s[b"e"] = lambda u: u._append(u._pop_mark())
    s[b"u"] = lambda u: u._put(u._pop_mark())
    s[b"\x90"] = lambda u: u._add(u._pop_mark())
    for code, n in ((b"\x85", 1), (b"\x87", 3)):
        s[code] = lambda u, n=n: u._top(n)
    s[b"b"] = SafeUnpickler._give_state
    s[b"."] = lambda u: None
    s[b"\x81"] = lambda u: u._new({})
    s[b"\x92"] = lambda u: u._new(u.stack.pop())
    return [s.get(bytes([code])) or refuse(bytes([code])) for code in range(256)]


_STEPS = _steps()


class Global:
    """Stands for ``module.name`` in an object to be pickled, whether or not such a thing can be imported."""

    def __init__(self, module: str, name: str) -> None:
        self.module = module
        self.__name__ = name


_SAVES = {
    type(None): "none", bool: "bool", int: "long", float: "float", bytes: "bytes", bytearray: "bytearray", str: "str",
    tuple: "tuple", list: "list", dict: "dict", set: "set", frozenset: "frozenset", type: "type",
    pickle.PickleBuffer: "picklebuffer",
}  # fmt: skip
"""What the standard pickler writes these types with. Its own table is open to all: dill, once imported, is in it."""


class NamingPickler(pickle._Pickler):  # type: ignore[misc,name-defined]
    """The standard pickler, except that ``rename(module)`` chooses the module name written for a class or function."""

    dispatch: ClassVar[dict[Any, Any]] = {
        kind: getattr(pickle._Pickler, f"save_{name}")  # type: ignore[attr-defined]
        for kind, name in _SAVES.items()
    }

    def __init__(
        self, file: Any, protocol: int, rename: Callable[[str], str], persistent: Callable[[Any], Any]
    ) -> None:
        super().__init__(file, protocol=protocol)
        self.rename = rename
        self._persistent = persistent

    def persistent_id(self, obj: Any) -> Any:
        """Asks the caller's function."""
        return self._persistent(obj)

    def _write_global(self, obj: Any, module: str, name: str) -> None:
        if self.proto >= 4:
            self.save(module)
            self.save(name)
            self.write(pickle.STACK_GLOBAL)
        else:
            self.write(pickle.GLOBAL + module.encode() + b"\n" + name.encode() + b"\n")
        self.memoize(obj)

    def save_global(self, obj: Any, name: str | None = None) -> None:
        """Write a class or function by name, under the module's public name."""
        known = name or getattr(obj, "__qualname__", None) or obj.__name__
        module = pickle.whichmodule(obj, known)  # type: ignore[attr-defined]
        public = self.rename(module)
        if public == module or "." in known:
            super().save_global(obj, name)
            return
        __import__(module)
        import sys

        if getattr(sys.modules[module], known, None) is not obj:
            raise pickle.PicklingError(f"Can't pickle {obj!r}: it's not the same object as {module}.{known}")
        self._write_global(obj, public, known)

    def save_marker(self, obj: Global) -> None:
        """Write a `Global`."""
        self._write_global(obj, obj.module, obj.__name__)

    dispatch[FunctionType] = save_global
    dispatch[Global] = save_marker
