"""What a function's Python does while it is captured: seen through the profiler, judged by what may be repeated without it.

A captured program leaves the Python away. That is right only when the Python would do the same again: it reads nothing that
guards do not watch, changes nothing outside, and takes no decision from a tensor's values. Whatever is not known to be
harmless is a reason not to capture.
"""

from __future__ import annotations

import dis
import functools
import os
import sys
from types import CodeType, FrameType
from typing import Any

from mindtorch.core import dispatch as _dispatch
from mindtorch.core import dtype as _dtype
from mindtorch.core import function as _function
from mindtorch.core import tape as _tape
from mindtorch.core import tensor as _tensor
from mindtorch.core import views as _views
from mindtorch.core.tensor import Tensor
from mindtorch.graph import readings
from mindtorch.ops import convert as _convert
from mindtorch.ops import subscript as _subscript

_HOME = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_STDLIB = os.path.dirname(os.path.abspath(os.__file__)) + os.sep

_BUILTINS = frozenset(
    "len isinstance issubclass min max sum abs round divmod pow sorted any all getattr hasattr iter next callable chr ord hash "
    "repr format __build_class__".split()
)
_PURE_TYPES = (str, bytes, int, float, complex, bool, tuple, range, slice, frozenset)
_OWN_TYPES = (list, dict, set)
"""Containers whose methods may change them: allowed on those the function made itself."""
_PURE_MODULES = frozenset(("math", "_operator", "operator", "_functools", "itertools", "cmath", "_collections_abc"))

_CORE_ENTRIES = frozenset(
    "shape dtype device ndim itemsize nbytes requires_grad grad_on __enter__ __exit__ __init__ __new__ clone set_grad _stub "
    "_inplace_stub inplace with_out with_kwargs slow is_grad_enabled numel __call__ wrapped __getattr__ __getitem__ __add__ "
    "observed __eq__ __hash__ __repr__ get_default_dtype is_floating_point is_complex wanted has_torch_function "
    "is_inference_mode_enabled set_state restore save_for_backward saved_tensors mark_dirty mark_non_differentiable "
    "set_materialize_grads _finish is_leaf grad_fn".split()
)
"""Functions of ``core`` that the Python of a captured function may call."""
_REFUSED = {
    "tolist": "reads values",
    "numpy": "hands the memory out", "_array": "hands the memory out", "kind": "reads a value",
    "_dlpack": "hands the memory out", "register_hook": "registers a hook", "retain_grad": "keeps a gradient", "requires_grad_": "changes requires_grad",
    "_version": "reads a version", "equal": "compares values",
    "allclose": "compares values", "is_nonzero": "decides by a value", "data_ptr": "reads an address",
    "from_numpy": "takes memory from outside", "frombuffer": "takes memory from outside", "as_tensor": "takes memory from outside",
    "asarray": "takes memory from outside", "from_dlpack": "takes memory from outside", "__repr__": "prints values",
    "__format__": "prints values", "unique": "has a result whose shape depends on values", "set_": "changes its memory",
    "resize_": "changes its memory", "storage": "hands the memory out", "untyped_storage": "hands the memory out",
}  # fmt: skip
_SHAPELIKE = frozenset("shape ndim size dtype strides itemsize nbytes flags base __class__ nonzero".split())
_SAFE_READERS = frozenset(
    "getitem _pick _part _basic _noise _mask _bn_check floating _update_now _caster contiguous is_contiguous _move to "
    "_dropout numel dim size stride _made zeros ones full empty arange eye reshape select narrow detach _name_flash _drawn "
    "cross_entropy smooth_l1_loss _like tensordot _setitem _write copy_ _copy _fill array_of scatter_ _create".split()
)
"""Functions of ``ops`` that take a tensor's array in their hands, and look at its shape, dtype or layout only."""
_WHEN = {
    "_attend": lambda local: bool(local["may_be_empty"]) and local["scores"].k.device.type != "cpu",
    "normalise": lambda local: any(map(_reads, _listed(local["index"]))),
}
"""Functions that look at values for some arguments only."""
_CREATORS = frozenset(
    f.__code__ for f in (_tensor.wrap, _tensor.constant, _tensor.wrap_like, _tensor.filled_like)
)
_LIKE = _tensor.wrap_like.__code__
_RAW = _tensor.values.__code__
_APPLY = _function.Function.apply.__func__.__code__  # type: ignore[attr-defined]
_CUSTOM = frozenset((_APPLY, _function._FunctionNode.apply.__code__))
_ITEM, _NUMBER = _convert.item.__code__, _convert._scalar(float).__code__
_READS = {_convert._bool.__code__: "bool", _convert._index.__code__: "index", _ITEM: None, _NUMBER: None}
_OUT = _dispatch.write_out.__code__
_AS_INDEX = _subscript._array.__code__
_SET_ITEM = _subscript.setitem.__code__
_WALK = _tape.run_backward.__code__
_REBASE = _views.rebase.__code__
_GRAD = _tensor.Tensor.grad.fget.__code__, _tensor.Tensor.grad.fset.__code__  # type: ignore[attr-defined]
_DATA = _tensor.Tensor.data.fget.__code__, _tensor.Tensor.data.fset.__code__  # type: ignore[attr-defined]
_OPTIM = os.path.join(_HOME, "torch", "optim", "")
_CALLS = {
    (os.path.join(_OPTIM, "optimizer.py"), "_hooked.<locals>.wrapper"): "step",
    (os.path.join(_OPTIM, "optimizer.py"), "Optimizer.zero_grad"): "zero_grad",
    (os.path.join(_HOME, "torch", "nn", "modules", "_walk.py"), "Walking.zero_grad"): "zero_grad",
}
"""Public methods that become one step of the program, whatever they do inside."""
_LOG = os.path.join(_HOME, "log.py")
_DRAWS, _DRAWING = os.path.join(_HOME, "ops", "random.py"), "mindtorch.ops.random"
_STATEFUL = tuple(os.path.join(_HOME, "torch", *room) for room in (("optim", ""), ("amp", "grad"), ("utils", ""), ("distributed", "")))
"""Rooms of the public layer whose functions keep state of their own; the others' are known to be repeatable."""
_OPAQUE = ("numba", "llvmlite", "mindspore", "_distutils_hack")
"""Libraries whose insides are nobody's program: what they call in turn (a patched ``inspect``, say) is theirs."""
_STORES = frozenset("STORE_ATTR DELETE_ATTR STORE_GLOBAL DELETE_GLOBAL DELETE_SUBSCR STORE_SLICE".split())


@functools.lru_cache(maxsize=8192)
def kind_of(code: CodeType) -> str:
    """Where a frame belongs: "user", "nn" (the public layer), "row" (a generated function), "inner" or "graph"."""
    file = code.co_filename
    if file.startswith("<mindtorch"):
        return "row"
    if not file.startswith(_HOME):
        return "user"
    room = file[len(_HOME) :].split(os.sep, 1)[0]
    if room == "graph":
        return "graph"
    return "nn" if room in ("torch", "torchvision") else "inner"


def keeps_state(code: CodeType) -> bool:
    """Whether a function is the user's, or of a room whose objects keep state of their own."""
    return kind_of(code) == "user" or code.co_filename.startswith(_STATEFUL)


@functools.lru_cache(maxsize=8192)
def raw_reader(code: CodeType) -> bool:
    """Whether a function of ``ops`` may look at a tensor's values outside of a kernel."""
    if code.co_name in _SAFE_READERS or os.sep + "ops" + os.sep not in code.co_filename:
        return False
    steps = [s for s in dis.get_instructions(code) if s.opname != "CACHE"]
    for s, after in zip(steps, [*steps[1:], steps[-1]]):
        if s.opname == "LOAD_ATTR" and s.argval == "a":
            if after.opname not in ("LOAD_ATTR", "LOAD_METHOD") or after.argval not in _SHAPELIKE:
                return True
    return False


@functools.lru_cache(maxsize=8192)
def side_effect(code: CodeType, ctx: bool = False) -> int | None:
    """Line of the first statement that changes something other than local variables; None when there is none.

    ``ctx``: the first parameter is a context that the function may write attributes to. Items of local tensors are no
    concern of this: an assignment to them is seen as an operation, and to other containers as a change of what is known.
    """
    line = code.co_firstlineno
    before = None
    for s in dis.get_instructions(code):
        line = s.positions.lineno or line if s.positions is not None else line
        if s.opname == "STORE_ATTR" and s.argval == "grad":
            continue  # see item_stores
        own = ctx and s.opname == "STORE_ATTR" and before is not None and before.argval == code.co_varnames[0]
        before = s
        if own:
            continue
        if s.opname in _STORES or (s.opname in ("STORE_DEREF", "DELETE_DEREF") and s.argval in code.co_freevars):
            return line
        if s.opname == "IMPORT_NAME":
            return line
    return None


@functools.lru_cache(maxsize=8192)
def grown(code: CodeType) -> tuple[str, ...]:
    """Local variables that ``+=`` and its kin are applied to: a list among them may be one from outside."""
    steps = [s for s in dis.get_instructions(code) if s.opname != "CACHE"]
    return tuple(
        {
            after.argval
            for s, after in zip(steps, steps[1:])
            if s.opname == "BINARY_OP" and (s.arg or 0) >= 13 and after.opname in ("STORE_FAST", "STORE_DEREF", "STORE_NAME")
        }
    )


@functools.lru_cache(maxsize=8192)
def global_names(code: CodeType) -> frozenset[str]:
    """Names of globals that a function, or one written inside of it, reads."""
    names = {s.argval for s in dis.get_instructions(code) if s.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    for c in code.co_consts:
        if isinstance(c, CodeType):
            names |= global_names(c)
    return frozenset(names)


@functools.lru_cache(maxsize=8192)
def item_stores(code: CodeType) -> dict[int, list[str | None]]:
    """Line -> what items, or ``grad``, are assigned to there: the name of a local variable bound once, None for others."""
    steps = [s for s in dis.get_instructions(code) if s.opname != "CACHE"]
    bound = [s.argval for s in steps if s.opname in ("STORE_FAST", "DELETE_FAST")]
    found: dict[int, list[str | None]] = {}
    for i, s in enumerate(steps):
        attribute = s.opname == "STORE_ATTR" and s.argval == "grad"
        if s.opname != "STORE_SUBSCR" and not attribute:
            continue
        j, pushed = i, int(attribute)
        while j > 0 and pushed != 1:  # the index is what was pushed last
            j -= 1
            pushed += dis.stack_effect(steps[j].opcode, steps[j].arg, jump=False)
        last = steps[j - 1]
        name = last.argval if last.opname == "LOAD_FAST" else None
        if name is not None and bound.count(name) + (name in code.co_varnames[: code.co_argcount]) > 1:
            name = None
        line = s.positions.lineno if s.positions is not None and s.positions.lineno is not None else code.co_firstlineno
        found.setdefault(line, []).append(name)
    return found


def place(frame: FrameType | None) -> tuple[str, int, str] | None:
    """File, line and function of the nearest frame of the user's."""
    while frame is not None and (kind_of(frame.f_code) != "user" or frame.f_code.co_filename.startswith("<frozen")):
        frame = frame.f_back
    return None if frame is None else (frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)


def site(frame: FrameType | None) -> str:
    """``file:line`` of the nearest frame of the user's."""
    found = place(frame)
    return "the call" if found is None else f"{found[0]}:{found[1]}"


class Stopped(BaseException):
    """Leaves a function at its first break. No Exception: neither kernels nor the user's ``except`` may swallow it."""


class Watch:
    """Profiles one run. ``reasons`` are why it cannot be repeated without its Python; ``frames`` what guards start from."""

    def __init__(self, trusted: bool = False, strict: bool = False) -> None:
        self.trusted, self.strict = trusted, strict
        self.recorder: Any = None
        self.paused = False
        self.held: list[Any] = []
        self.opened: list[tuple[FrameType, Any, bool]] = []
        self.called: FrameType | None = None
        self.rebasing: FrameType | None = None
        self.set_items: dict[tuple[int, int], int] = {}
        self.reasons: list[tuple[str, str]] = []
        self.frames: dict[CodeType, tuple[dict[str, Any], dict[str, Any]]] = {}
        self.created: dict[int, Tensor] = {}
        self.mutated: list[Any] = []
        self.inside: FrameType | None = None
        self.importing: FrameType | None = None

    def __enter__(self) -> Watch:
        self.busy = sys.getprofile() is not None
        if self.busy:
            self.reasons.append(("another profiler is running", "the call"))
        else:
            sys.setprofile(self.event)
        return self

    def __exit__(self, *exc: Any) -> None:
        if not self.busy:
            sys.setprofile(None)

    def refuse(self, why: str, frame: FrameType | None) -> None:
        """Note a reason, at the user's line."""
        self.note((why, site(frame)))

    def note(self, reason: tuple[str, str]) -> None:
        """Keep a reason; a strict watch ends the run there."""
        if reason not in self.reasons:
            self.reasons.append(reason)
        if self.strict:
            raise Stopped

    def event(self, frame: FrameType, event: str, arg: Any) -> None:
        """The profiler's callback."""
        if self.paused:
            return
        if self.importing is not None:
            if event == "return" and frame is self.importing:
                self.importing = None
            return
        if event == "return":
            if frame is self.inside:
                self.inside = None
            elif frame is self.called:
                self.called = None
                if frame.f_code.co_name == "call":
                    self.recorder.suspended -= 1
                    self.recorder.drew(frame.f_locals, arg)
                else:
                    self.recorder.end()
            elif frame is self.rebasing:
                self.rebasing = None
                self.recorder.suspended -= 1
            elif self.opened and frame is self.opened[-1][0]:
                _, self.inside, self.trusted = self.opened.pop()
            elif self.inside is self.called is None and not self.trusted and kind_of(frame.f_code) == "user":
                self._left(frame, frame.f_code)
            if frame.f_code in _CREATORS and isinstance(arg, Tensor) and frame.f_code is not _LIKE or (
                frame.f_code is _LIKE and arg is not None and arg.a is not frame.f_locals["x"].a  # no other's memory
            ):
                self.created[id(arg.a)] = arg
        elif event == "call":
            self._call(frame, frame.f_code)
        elif event == "c_call" and self.inside is None and not self.trusted and kind_of(frame.f_code) == "user":
            if self.called is None:
                self._c_call(frame, arg)

    def _left(self, frame: FrameType, code: CodeType) -> None:
        """A function of the user's returns: which containers did it change without calling anything?"""
        names = [*grown(code)]
        for line, containers in item_stores(code).items():
            if self.set_items.pop((id(frame), line), 0) >= len(containers):
                continue  # tensors, all of them
            for name in containers:
                v = frame.f_locals.get(name) if name is not None else None
                if name is None:
                    self.note((f"{code.co_name} may change something other than its local variables", f"{code.co_filename}:{line}"))
                elif not isinstance(v, Tensor):
                    names.append(name)
        for name in names:
            v = frame.f_locals.get(name)
            if isinstance(v, (list, dict, set)):
                self.mutated.append((v, code.co_name, site(frame)))
            elif v is not None and not isinstance(v, (Tensor, int, float, str, tuple, complex, bytes)):
                self.note((f"{code.co_name} may change a {type(v).__name__}", site(frame)))

    def _call(self, frame: FrameType, code: CodeType) -> None:
        if code.co_name == "_find_and_load" and code.co_filename.startswith("<frozen importlib"):
            self.importing = frame  # what imports run is neither the user's nor part of the program
            return
        kind = kind_of(code)
        if kind == "user" and _opaque(code.co_filename):
            self.importing = frame
            return
        if self.called is not None:
            if kind == "user" and not _library(code.co_filename):
                self.refuse(f"{self.called.f_code.co_name} calls back into Python ({code.co_name})", frame)
            return
        if kind == "graph":
            if code.co_qualname == "KeptOut.__call__":
                why = frame.f_locals["self"].reason
                self.refuse("torch.compiler.disable keeps a function out" + (f" ({why})" if why else ""), frame)
            return
        if code is _OUT and not self.recorder.suspended:
            self.recorder.slot(frame.f_locals["o"])  # as it is before it is written to
        if code is _WALK:
            self.recorder.walking()
        elif code is _REBASE and self.rebasing is None:
            self.rebasing = frame  # the tape's own business: what it does there is no part of the program
            self.recorder.suspended += 1
        if code is _RAW and (frame.f_back is None or frame.f_back.f_code is not _AS_INDEX):
            self.refuse("an operation reads values outside of its kernel", frame)
        if kind == "user" and frame.f_back is not None and self._custom(frame.f_back):
            self.opened.append((frame, self.inside, self.trusted))
            self.inside, self.trusted = None, False
            self._enter(frame, code, kind, True)
            return
        if self.inside is not None or self.trusted:
            if kind == "inner" and raw_reader(code):
                self._raw(frame, code)
            elif kind == "user" and not _library(code.co_filename):
                self.refuse(f"an operation calls back into Python ({code.co_name})", frame)
            return
        if kind in ("user", "nn"):
            if kind == "nn" and self._call_of(frame, code):
                return
            self._enter(frame, code, kind)
            return
        if code is _APPLY:
            self.recorder.own = "a custom autograd.Function"
            return
        if code.co_name == "call" and code.co_filename == _DRAWS and _drawing(frame.f_locals):
            self.called = frame
            self.recorder.suspended += 1
            return
        self.inside = frame
        if self.recorder.reads:
            for v in frame.f_locals.values():
                readings.use_all(v)
        if (code is _SET_ITEM or code is _GRAD[1]) and frame.f_back is not None:
            key = (id(frame.f_back), frame.f_back.f_lineno)
            self.set_items[key] = self.set_items.get(key, 0) + 1
        if kind == "inner" and (frame.f_back is None or frame.f_back.f_code is not _APPLY):
            self._entry(frame, code)

    @staticmethod
    def _custom(caller: FrameType) -> bool:
        """Whether a frame is that of a custom Function, which is about to run the user's forward or backward."""
        code = caller.f_code
        return code in _CUSTOM or code.co_name == "wrapped" and code.co_filename == _APPLY.co_filename

    def _call_of(self, frame: FrameType, code: CodeType) -> bool:
        """Begin a step that is a whole call of an optimiser's or module's method. False when the frame is none."""
        what = _CALLS.get((code.co_filename, code.co_qualname))
        if what is None:
            return False
        from mindtorch.graph import effects

        local = frame.f_locals
        owner = local["self"]
        if what == "zero_grad":
            effect = effects.zero_grad(owner, local["set_to_none"])
        else:
            if not type(owner).__module__.startswith("mindtorch."):
                return False
            name = type(owner).__name__
            if local["args"] or local["kwargs"]:
                self.refuse(f"{name}.step takes a closure", frame)
            if owner.defaults.get("differentiable"):
                self.refuse(f"{name}.step is differentiable", frame)
            effect = effects.optimizer_step(owner)
        groups = getattr(owner, "param_groups", None)
        params = list(owner.parameters()) if groups is None else [p for g in groups for p in g["params"]]
        self.called = frame
        self.recorder.begin(effect, params)
        return True

    def _entry(self, frame: FrameType, code: CodeType) -> None:
        name = code.co_name
        if code in _GRAD or code in _DATA:
            self._attribute(frame, code)
            return
        if code in _READS:
            local = frame.f_locals
            how = "int" if local.get("kind") is int else _READS[code]
            if how is not None and local["self"].a.size == 1:
                ask = readings.ASK[how]
                self.recorder.decide(local["self"], how, ask, ask(local["self"].a))
            return
        if code.co_filename == _LOG:
            return  # said once, at the capture
        why = _REFUSED.get(name)
        if why is not None:
            self.refuse(f"{name} {why}", frame)
        elif os.sep + "ops" + os.sep not in code.co_filename:
            if name not in _CORE_ENTRIES:
                self.refuse(f"{name} cannot be part of a graph", frame)
        elif name in ("tensor", "new_tensor", "scalar_tensor"):
            if not _literal(frame.f_locals.get("data", frame.f_locals.get("s"))):
                self.refuse(f"{name} copies values from outside", frame)
        elif raw_reader(code):
            self._raw(frame, code)

    def _attribute(self, frame: FrameType, code: CodeType) -> None:
        local = frame.f_locals
        if code is _GRAD[0]:
            self.recorder.read_grad(local["self"])
        elif code is _GRAD[1]:
            self.recorder.set_grad(local["self"], local["value"])
        elif code is _DATA[1]:
            self.refuse("data puts other memory in a tensor's place", frame)

    def _raw(self, frame: FrameType, code: CodeType) -> None:
        if self.inside is not None and (self.inside.f_code is _SET_ITEM or code is _ITEM and self.inside.f_code is _NUMBER):
            return  # the program reads its index anew; float() of a tensor is item()
        when = _WHEN.get(code.co_name)
        if when is None or when(frame.f_locals):
            self.refuse(f"{code.co_name} reads values outside of a kernel", frame)

    def _enter(self, frame: FrameType, code: CodeType, kind: str, ctx: bool = False) -> None:
        if code in self.frames:
            if code.co_freevars:
                local = frame.f_locals
                known = self.frames[code][1]
                if any(known.get(n) is not local.get(n) for n in code.co_freevars):
                    self.refuse(f"{code.co_name} is called with different closures", frame)
            return
        local = frame.f_locals if code.co_freevars else {}
        self.frames[code] = (frame.f_globals, {n: local[n] for n in code.co_freevars if n in local})
        if kind == "user" and code.co_name != "<module>":
            line = side_effect(code, ctx)
            if line is not None:
                self.note((f"{code.co_name} changes something other than its local variables", f"{code.co_filename}:{line}"))
        elif kind == "nn" and code.co_filename.startswith(_STATEFUL) and side_effect(code) is not None:
            self.refuse(f"{code.co_qualname} changes its state", frame)

    def _c_call(self, frame: FrameType, fn: Any) -> None:
        owner = getattr(fn, "__self__", None)
        if self.recorder.reads and getattr(fn, "__module__", None) != "builtins":
            readings.use_all(owner)
            readings.use_all(self.recorder.reads)  # C may take a number without asking it
        name = getattr(fn, "__name__", "?")
        if owner is not None and not _is_module(owner):
            if isinstance(owner, _PURE_TYPES):
                return
            if type(owner) in _OWN_TYPES:
                if name not in ("get", "items", "keys", "values", "index", "count", "copy"):
                    self.mutated.append((owner, frame.f_code.co_name, site(frame)))
                return
            if isinstance(owner, type) or type(owner).__module__ == "mindtorch.torch":
                return
            self.refuse(f"{type(owner).__name__}.{name} is not known to be repeatable", frame)
            return
        module = getattr(fn, "__module__", None)
        if module == "builtins" and name in _BUILTINS or module in _PURE_MODULES:
            return
        if owner is None and isinstance(getattr(fn, "__objclass__", None), type):
            return
        self.refuse(f"{module or 'built-in'}.{name} is not known to be repeatable", frame)


def _is_module(x: Any) -> bool:
    return type(x) is type(sys)


@functools.lru_cache(maxsize=8192)
def _library(file: str) -> bool:
    """Whether a file is Python's or of a library that kernels call: what they do inside is no program of the user's."""
    parts = file.split("site-packages" + os.sep)
    if len(parts) > 1:
        return parts[1].split(os.sep)[0] in ("numpy", "numba", "scipy", "mindspore", "ml_dtypes", "llvmlite", "_distutils_hack")
    return file.startswith((_STDLIB, "<string>", "<frozen", "<__array_function__"))


@functools.lru_cache(maxsize=8192)
def _opaque(file: str) -> bool:
    """Whether a file belongs to a library whose insides are not looked at."""
    parts = file.split("site-packages" + os.sep)
    return len(parts) > 1 and parts[1].split(os.sep)[0] in _OPAQUE


def _drawing(local: dict[str, Any]) -> bool:
    return getattr(local.get("fn", local.get("full")), "__module__", None) == _DRAWING


def _listed(index: Any) -> Any:
    return index if isinstance(index, tuple) else (index,)


def _index(e: Any) -> bool:
    """Whether one part of an index has nothing to do with values."""
    if isinstance(e, slice):
        return all(x is None or x.__class__ is int for x in (e.start, e.stop, e.step))
    return e is None or e is Ellipsis or e.__class__ is int or e.__class__ is bool


def _reads(e: Any) -> bool:
    """Whether taking a part of an index needs values: not for tensors of positions or masks, which are values themselves."""
    if isinstance(e, Tensor):
        return e.a.ndim == 0 or e.k.dtype is _dtype.uint8
    return not (_index(e) or _literal(e) or isinstance(e, range))


def _literal(x: Any) -> bool:
    if isinstance(x, (list, tuple)):
        return all(_literal(e) for e in x)
    return x.__class__ in (int, float, bool, complex)
