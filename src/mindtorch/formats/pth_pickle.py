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
_MARK = object()
_PIECE = 1 << 20
_FORMS = {form: struct.Struct(form) for form in ("<i", "<B", "<H", "<I", "<Q", ">d")}
_BROKEN = (ArithmeticError, AttributeError, LookupError, MemoryError, RecursionError, TypeError, ValueError, struct.error)
"""What nonsense in a pickle can raise inside a step; UnpicklingError and RuntimeError say more and pass."""

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
    """Reads one pickle from ``file``.

    ``find(module, name)`` returns an allowed global or raises; ``persistent(pid)`` answers persistent ids;
    ``build(object, state)`` may give state to objects of the caller's classes (returns False when it declines);
    ``calls(value)`` says whether an allowed global may be called too (all may without it).
    """

    def __init__(
        self,
        file: Any,
        find: Find,
        persistent: Callable[[Any], Any],
        build: Callable[[Any, Any], bool] | None = None,
        encoding: str = "utf-8",
        calls: Callable[[Any], bool] | None = None,
    ) -> None:
        self.file = file
        self.find = find
        self.persistent = persistent
        self.build = build
        self.calls = calls
        self.encoding = encoding
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}
        self.found: dict[int, Any] = {}
        self.asking = False

    # ------------------------------------------------------------------------------------ reading
    def _read(self, n: int) -> bytes:
        # In pieces, because a file object sets memory aside for the size that a broken pickle may claim.
        data = self.file.read(n if n < _PIECE else _PIECE)
        if n > _PIECE and len(data) == _PIECE:
            pieces, left = [data], n - _PIECE
            while left and pieces[-1]:
                pieces.append(self.file.read(min(left, _PIECE)))
                left -= len(pieces[-1])
            data = b"".join(pieces)
        if len(data) != n:
            raise UnpicklingError(_CUT)
        return data

    def _line(self) -> bytes:
        line = self.file.readline(_PIECE)
        if not line.endswith(b"\n"):
            raise UnpicklingError(_CUT)
        return line[:-1]

    def _number(self, form: str) -> int:
        s = _FORMS[form]
        data = self.file.read(s.size)
        if len(data) != s.size:
            raise UnpicklingError(_CUT)
        return s.unpack(data)[0]

    def _byte(self) -> int:
        data = self.file.read(1)
        if not data:
            raise UnpicklingError(_CUT)
        return data[0]

    def load(self) -> Any:
        """The object; UnpicklingError when the stream is broken or names something that is not allowed."""
        read, steps = self.file.read, _STEPS
        while True:
            code = read(1)
            if not code:
                raise UnpicklingError(_CUT)
            if code == b".":
                if len(self.stack) != 1:
                    raise UnpicklingError("the pickle is broken: it does not end with one object")
                return self.stack.pop()
            step = steps.get(code)
            if step is None:
                raise UnpicklingError(f"pickle opcode {code!r} is not allowed in a checkpoint")
            try:
                step(self)
            except _BROKEN as e:
                if self.asking:
                    raise  # the caller's own error
                why = f"{type(e).__name__} {str(e)[:200]}"
                raise UnpicklingError(f"the pickle is broken at opcode {code!r}: {why}") from e

    # ------------------------------------------------------------------------------------ helpers of the steps
    def _pop_mark(self) -> list[Any]:
        for i in range(len(self.stack) - 1, -1, -1):
            if self.stack[i] is _MARK:
                items = self.stack[i + 1 :]
                del self.stack[i:]
                return items
        raise UnpicklingError("the pickle is broken: a mark is missing")

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

    def _allowed(self, fn: Any) -> Any:
        if id(fn) not in self.found or not callable(fn):
            raise UnpicklingError(f"the pickle calls a {type(fn).__name__}, which it did not name as a global")
        if self.calls is not None and not self.calls(fn):
            raise UnpicklingError(f"the pickle calls {getattr(fn, '__name__', fn)}, which may be named only")
        return fn

    def _reduce(self) -> None:
        args = self.stack.pop()
        fn = self._allowed(self.stack[-1])
        if not isinstance(args, tuple):
            raise UnpicklingError(f"the pickle is broken: arguments of {fn!r} are no tuple")
        self.stack[-1] = (_CAREFUL.get(fn, fn) if isinstance(fn, type) else fn)(*args)

    def _new(self, kwargs: dict[str, Any]) -> None:
        args = self.stack.pop()
        cls = self._allowed(self.stack[-1])
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
            raise UnpicklingError(f"the pickle gives state to a {type(target).__name__}, which is not allowed")

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
        items = tuple(self.stack[len(self.stack) - n :])
        if len(items) != n or any(i is _MARK for i in items):
            raise UnpicklingError("the pickle is broken: too few objects")
        del self.stack[len(self.stack) - n :]
        self.stack.append(items)


def _pushing() -> dict[bytes, Callable[[SafeUnpickler], Any]]:
    """Opcodes that push one value."""
    s: dict[bytes, Callable[[SafeUnpickler], Any]] = {}

    def push(code: bytes, value: Callable[[SafeUnpickler], Any]) -> None:
        s[code] = lambda u: u.stack.append(value(u))

    def quoted(u: SafeUnpickler) -> Any:
        line = u._line()
        if len(line) < 2 or line[:1] not in b"'\"" or line[-1:] != line[:1]:
            raise UnpicklingError("the pickle is broken: a string without quotes")
        return u._old_text(codecs.escape_decode(line[1:-1])[0])  # type: ignore[attr-defined]

    for code, value in ((b"N", None), (b"\x88", True), (b"\x89", False), (b"(", _MARK), (b")", ())):
        push(code, lambda u, v=value: v)
    for code, make in ((b"]", list), (b"}", dict), (b"\x8f", set)):
        push(code, lambda u, make=make: make())
    for code, form in ((b"J", "<i"), (b"K", "<B"), (b"M", "<H"), (b"G", ">d")):
        push(code, lambda u, form=form: u._number(form))
    push(b"I", SafeUnpickler._int_line)
    push(b"L", lambda u: int(u._line().rstrip(b"L")))
    push(b"F", lambda u: float(u._line()))
    push(b"\x8a", lambda u: int.from_bytes(u._read(u._byte()), "little", signed=True))
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
    push(b"t", lambda u: tuple(u._pop_mark()))
    push(b"l", lambda u: list(u._pop_mark()))
    push(b"\x91", lambda u: frozenset(map(hashable, u._pop_mark())))
    push(b"c", lambda u: u._global(u._line().decode(), u._line().decode()))
    push(b"h", lambda u: u.memo[u._byte()])
    push(b"j", lambda u: u.memo[u._number("<I")])
    push(b"g", lambda u: u.memo[int(u._line())])
    push(b"2", lambda u: u.stack[-1])
    push(b"Q", lambda u: u._persistent(u.stack.pop()))
    push(b"P", lambda u: u._persistent(u._line().decode("ascii")))
    return s


def _steps() -> dict[bytes, Callable[[SafeUnpickler], Any]]:
    """What every allowed opcode does."""
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

    def drop(u: SafeUnpickler) -> None:
        u.stack.pop()

    def protocol(u: SafeUnpickler) -> None:
        if u._byte() > 5:
            raise UnpicklingError("the pickle has a protocol newer than 5")

    def keep(n: Callable[[SafeUnpickler], int]) -> Callable[[SafeUnpickler], None]:
        def step(u: SafeUnpickler) -> None:
            u.memo[n(u)] = u.stack[-1]

        return step

    s[b"d"], s[b"\x93"], s[b"s"], s[b"0"], s[b"\x80"] = dictionary, stack_global, one_item, drop, protocol
    s[b"1"] = lambda u: u._pop_mark() and None
    s[b"q"], s[b"r"] = keep(lambda u: u._byte()), keep(lambda u: u._number("<I"))
    s[b"p"], s[b"\x94"] = keep(lambda u: int(u._line())), keep(lambda u: len(u.memo))
    s[b"\x95"] = lambda u: u._number("<Q")
    s[b"a"] = lambda u: u._append([u.stack.pop()])
    s[b"e"] = lambda u: u._append(u._pop_mark())
    s[b"u"] = lambda u: u._put(u._pop_mark())
    s[b"\x90"] = lambda u: u._add(u._pop_mark())
    for code, n in ((b"\x85", 1), (b"\x86", 2), (b"\x87", 3)):
        s[code] = lambda u, n=n: u._top(n)
    s[b"R"], s[b"b"] = SafeUnpickler._reduce, SafeUnpickler._give_state
    s[b"\x81"] = lambda u: u._new({})
    s[b"\x92"] = lambda u: u._new(u.stack.pop())
    return s


_STEPS = _steps()


class Global:
    """Stands for ``module.name`` in an object to be pickled, whether or not such a thing can be imported."""

    def __init__(self, module: str, name: str) -> None:
        self.module = module
        self.__name__ = name


class NamingPickler(pickle._Pickler):  # type: ignore[misc,name-defined]
    """The standard pickler, except that ``rename(module)`` chooses the module name written for a class or function."""

    dispatch: ClassVar[dict[Any, Any]] = dict(pickle._Pickler.dispatch)  # type: ignore[attr-defined]

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
