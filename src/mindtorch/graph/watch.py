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

from mindtorch.core import tensor as _tensor
from mindtorch.core.tensor import Tensor

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
    "is_inference_mode_enabled".split()
)
"""Functions of ``core`` that the Python of a captured function may call."""
_REFUSED = {
    "item": "reads a value", "_bool": "decides by a value", "_index": "uses a value as an index", "tolist": "reads values",
    "numpy": "hands the memory out", "_array": "hands the memory out", "kind": "reads a value",
    "_dlpack": "hands the memory out", "grad": "reads a gradient", "backward": "runs a backward pass",
    "register_hook": "registers a hook", "retain_grad": "keeps a gradient", "requires_grad_": "changes requires_grad",
    "apply": "is a custom autograd.Function", "data": "takes .data", "_version": "reads a version", "equal": "compares values",
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
    "cross_entropy smooth_l1_loss _like tensordot".split()
)
"""Functions of ``ops`` that take a tensor's array in their hands, and look at its shape, dtype or layout only."""
_WHEN = {
    "_attend": lambda local: bool(local["may_be_empty"]),
    "normalise": lambda local: any(not _index(e) for e in _listed(local["index"])),
}
"""Functions that look at values for some arguments only."""
_CREATORS = frozenset(
    f.__code__ for f in (_tensor.wrap, _tensor.constant, _tensor.wrap_like, _tensor.filled_like)
)
_RAW = _tensor.values.__code__
_STORES = frozenset("STORE_ATTR DELETE_ATTR STORE_GLOBAL DELETE_GLOBAL STORE_SUBSCR DELETE_SUBSCR STORE_SLICE".split())


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
def side_effect(code: CodeType) -> int | None:
    """Line of the first statement that changes something other than local variables; None when there is none."""
    line = code.co_firstlineno
    for s in dis.get_instructions(code):
        line = s.positions.lineno or line if s.positions is not None else line
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


def site(frame: FrameType | None) -> str:
    """``file:line`` of the nearest frame of the user's."""
    while frame is not None and (kind_of(frame.f_code) != "user" or frame.f_code.co_filename.startswith("<frozen")):
        frame = frame.f_back
    return "the call" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"


class Watch:
    """Profiles one run. ``reasons`` are why it cannot be repeated without its Python; ``frames`` what guards start from."""

    def __init__(self, trusted: bool = False) -> None:
        self.trusted = trusted
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
        reason = (why, site(frame))
        if reason not in self.reasons:
            self.reasons.append(reason)

    def event(self, frame: FrameType, event: str, arg: Any) -> None:
        """The profiler's callback."""
        if self.importing is not None:
            if event == "return" and frame is self.importing:
                self.importing = None
            return
        if event == "return":
            if frame is self.inside:
                self.inside = None
            elif self.inside is None and not self.trusted and kind_of(frame.f_code) == "user":
                for name in grown(frame.f_code):
                    v = frame.f_locals.get(name)
                    if isinstance(v, (list, dict, set)):
                        self.mutated.append((v, frame.f_code.co_name, site(frame)))
            if frame.f_code in _CREATORS and isinstance(arg, Tensor):
                self.created[id(arg.a)] = arg
        elif event == "call":
            self._call(frame, frame.f_code)
        elif event == "c_call" and self.inside is None and not self.trusted and kind_of(frame.f_code) == "user":
            self._c_call(frame, arg)

    def _call(self, frame: FrameType, code: CodeType) -> None:
        if code.co_name == "_find_and_load" and code.co_filename.startswith("<frozen importlib"):
            self.importing = frame  # what imports run is neither the user's nor part of the program
            return
        kind = kind_of(code)
        if kind == "graph":
            if code.co_qualname == "KeptOut.__call__":
                why = frame.f_locals["self"].reason
                self.refuse("torch.compiler.disable keeps a function out" + (f" ({why})" if why else ""), frame)
            return
        if code is _RAW:
            self.refuse("an operation reads values outside of its kernel", frame)
        if self.inside is not None or self.trusted:
            if kind == "inner" and raw_reader(code):
                self._raw(frame, code)
            elif kind == "user" and not _library(code.co_filename):
                self.refuse(f"an operation calls back into Python ({code.co_name})", frame)
            return
        if kind in ("user", "nn"):
            self._enter(frame, code, kind)
            return
        self.inside = frame
        if kind == "inner":
            self._entry(frame, code)

    def _entry(self, frame: FrameType, code: CodeType) -> None:
        name = code.co_name
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

    def _raw(self, frame: FrameType, code: CodeType) -> None:
        when = _WHEN.get(code.co_name)
        if when is None or when(frame.f_locals):
            self.refuse(f"{code.co_name} reads values outside of a kernel", frame)

    def _enter(self, frame: FrameType, code: CodeType, kind: str) -> None:
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
            line = side_effect(code)
            if line is not None:
                self.reasons.append(
                    (f"{code.co_name} changes something other than its local variables", f"{code.co_filename}:{line}")
                )

    def _c_call(self, frame: FrameType, fn: Any) -> None:
        owner = getattr(fn, "__self__", None)
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


def _listed(index: Any) -> Any:
    return index if isinstance(index, tuple) else (index,)


def _index(e: Any) -> bool:
    """Whether one part of an index has nothing to do with values."""
    if isinstance(e, slice):
        return all(x is None or x.__class__ is int for x in (e.start, e.stop, e.step))
    return e is None or e is Ellipsis or e.__class__ is int or e.__class__ is bool


def _literal(x: Any) -> bool:
    if isinstance(x, (list, tuple)):
        return all(_literal(e) for e in x)
    return x.__class__ in (int, float, bool, complex)
