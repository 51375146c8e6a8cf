"""The recorder: what of a call is kept, under which name, and when. How calls are seen is the business of its sides."""

from __future__ import annotations

import atexit
import os
import threading
import weakref
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mindtorch.tools import frameworks, values
from mindtorch.tools.dump.files import NAN, DumpFiles, brief
from mindtorch.tools.dump.names import file_index, shown_call
from mindtorch.tools.dump.stacks import user_stack

MODES = ("all", "list", "range", "api_list")
TYPES = ("all", "npy", "statistics", "stack")
CATEGORIES = ("max", "min", "avg", "md5", "l2norm")


@dataclass
class Settings:
    """What ``api_dump_start`` was asked for."""

    mode: str = "all"
    scope: list[str] = field(default_factory=list)
    dump_type: str = "all"
    filter_data: bool = True
    filter_stack: bool = True
    overflow_check: bool = False
    categories: tuple[str, ...] = ("max", "min", "l2norm")


@dataclass
class Value:
    """One captured tensor or number, waiting for its call to end."""

    suffix: str
    dtype: str
    shape: tuple[int, ...]
    array: np.ndarray | None
    stats: values.Stats | None
    md5: str
    small: list[float] | None = None
    """Set for what the files of TroubleShooter leave out: a 0-d value, or sum and size of an integer tensor."""


@dataclass
class Call:
    """A call that has begun."""

    kind: str
    name: str
    count: int
    module: str
    frames: list[str]
    inputs: list[Value]
    weights: dict[str, Any]
    owner: Any = None
    sources: dict[str, str] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """``NN_ReLU_0``."""
        return f"{self.kind}_{self.name}_{self.count}"


class Recorder:
    """Keeps the state of a dump between ``start`` and ``stop``."""

    every_module = False
    """Whether modules of the user's own classes are calls too."""
    in_layers = False
    """Whether functions called by the layers of ``torch.nn`` are calls too, with keyword arguments as they are written."""

    def __init__(self, net: Any, frame: str, output_path: str, retain_backward: bool) -> None:
        self.frame = frame
        self.retain_backward = retain_backward
        self.files = DumpFiles(output_path, frame)
        self.settings = Settings()
        self.running = False
        self.in_backward: Any = bool
        """Tells whether a backward pass runs: what is called then (a checkpoint's second forward) is not the program's."""
        self.on_step: Any = None
        """Called after every step of an optimiser."""
        self.step = 0
        self._fresh = True
        self._saw_step = False
        self.paths: dict[int, str] = {}
        self.parameters: dict[int, str] = {}
        self._kept: list[Any] = []
        self._roots: dict[str, int] = {}
        self._marked: set[int] = set()
        if net is not None:
            self._name(net, "")
            self._marked = set(self.paths)
        self._counts: dict[tuple[str, str], int] = {}
        self._in_range = False
        self._range_done = False
        self.module_stack: list[str] = []
        self._known: dict[int, Any] = {}
        self._weights: dict[str, tuple[Any, np.ndarray, np.ndarray]] = {}
        self._updates = 0
        self._walked = False
        self.busy = False
        """Whether the recorder itself is using tensors: what the framework is asked for then is not the program's."""
        self._makers: dict[int, tuple[Any, str]] = {}
        self._lock = threading.RLock()
        self._pid = os.getpid()
        atexit.register(self.files.flush)

    def _name(self, net: Any, prefix: str) -> None:
        self._kept.append(net)  # ids are names as long as the objects live
        for name, m in net.named_modules():
            self.paths.setdefault(id(m), f"{prefix}.{name}".strip("."))
        for name, p in net.named_parameters():
            self.parameters.setdefault(id(p), f"{prefix}.{name}".strip("."))

    def adopt(self, net: Any) -> None:
        """Name the modules of a net that is called and was not given to ``api_dump_init``, after its class."""
        word = type(net).__name__
        number = self._roots[word] = self._roots.get(word, 0) + 1
        self._name(net, word if number == 1 else f"{word}#{number}")

    def marked(self, module: Any) -> bool:
        """Whether entering a module is marked: those below the net of ``api_dump_init``."""
        return id(module) in self._marked and bool(self.paths[id(module)])

    def loss(self, t: Any) -> None:
        """``t.backward()`` is about to run."""
        self._walked = True
        if values.is_tensor(t) and len(t.shape) == 0:
            self.files.call({"loss": float(values.to_array(t)), "step": self.step})

    # ------------------------------------------------------------------ life
    def start(self, settings: Settings) -> None:
        """Record from here on."""
        self.settings = settings
        if not self._fresh:
            self._saw_step = True
        self._in_range = self._range_done = False
        self.files.open({"framework": self.frame, "rank": frameworks.rank(), "retain_backward": self.retain_backward})
        self.running = True

    def stop(self) -> None:
        """Record no longer; files are complete."""
        self.running = False
        self._known.clear()
        self._makers.clear()
        self.module_stack.clear()
        self.files.flush()

    def alive(self) -> bool:
        """Whether this process is to record: the one that started, not a worker forked from it."""
        return self.running and not self.busy and os.getpid() == self._pid

    def root(self) -> None:
        """A module is called from outside all modules: in programs without an optimiser, a step begins behind a backward."""
        if self._walked and not self._updates:
            self.next_step()
        self._walked = False

    def next_step(self) -> None:
        """The next forward call begins another step."""
        self._saw_step = not self._fresh
        if self.on_step is not None:
            self.on_step()

    # ------------------------------------------------------------------ calls
    def wanted(self, kind: str, name: str, count: int) -> bool:
        """Whether mode and scope ask for this call."""
        s = self.settings
        key = f"{kind}_{name}_{count}"
        if s.mode == "all":
            return True
        if s.mode == "list":
            return key in s.scope
        if s.mode == "api_list":
            low = key.lower()
            return any(word.lower() in low for word in s.scope)
        if self._range_done:
            return False
        if key == s.scope[0]:
            self._in_range = True
        inside = self._in_range
        if key == s.scope[1]:
            self._in_range, self._range_done = False, True
        return inside

    def begin(self, kind: str, name: str, inputs: Iterable[tuple[str, Any]], owner: Any = None) -> Call | None:
        """A call starts: number it, and capture its inputs before it can change them. None when it is not wanted."""
        if self._saw_step:
            self.step, self._saw_step, self._fresh = self.step + 1, False, True
        count = self._counts.get((kind, name), 0)
        self._counts[kind, name] = count + 1
        self._fresh = False
        if not self.wanted(kind, name, count):
            return None
        path = self.module_stack[-1] if self.module_stack else ""
        frames = user_stack(self.settings.filter_stack, 3)
        inputs = list(inputs)
        call = Call(kind, name, count, path, frames, self.capture(inputs, copy=True), {}, owner, self._sources(inputs))
        if owner is not None and self.settings.dump_type != "stack":
            call.weights = {"params": self._members(owner._parameters)}
        if not self.settings.overflow_check:
            self._stack_of(call)
        return call

    def _stack_of(self, call: Call) -> None:
        shown = shown_call(call.kind, call.name, call.count)
        self.files.frames((f"{shown} forward", call.key), call.frames)

    def end(self, call: Call, outputs: list[tuple[str, Any]], gradients: bool = True) -> None:
        """The call returned: write its inputs, outputs and record, and watch for the gradients of its outputs."""
        outs = self.capture(outputs)
        self._made(call.key, outputs)
        if self.settings.overflow_check:
            if not any(v.stats and (v.stats.nan or v.stats.inf) for v in outs):
                return
            self._stack_of(call)
        if call.owner is not None and call.owner._buffers and self.settings.dump_type != "stack":
            call.weights["buffers"] = self._members(call.owner._buffers)
        with self._lock:
            for role, found in (("input", call.inputs), ("output", outs)):
                for v in found:
                    if v.small is None:
                        self._write(f"{call.key}_forward_{role}{v.suffix}", v)
            self._record(call, outs)
        if self.retain_backward and gradients:
            for label, t in outputs:
                if values.is_tensor(t) and values.requires_grad(t):
                    t.register_hook(self._watcher(call, file_index(label)))

    def entered(self, call: Call, args: Any) -> Any:
        """A module's forward is about to run; what is returned takes the place of its positional arguments, None keeps them."""
        return None

    def _sources(self, inputs: list[tuple[str, Any]]) -> dict[str, str]:
        """Which recorded call made each input."""
        out = {}
        for label, t in inputs:
            maker = self._makers.get(id(t))
            if maker is not None and maker[0]() is t:
                out[file_index(label)] = maker[1]
        return out

    def _made(self, key: str, outputs: list[tuple[str, Any]]) -> None:
        if len(self._makers) > 5000:
            self._makers = {i: m for i, m in self._makers.items() if m[0]() is not None}
        for _, t in outputs:
            if values.is_tensor(t):
                self._makers[id(t)] = (weakref.ref(t), key)

    def _record(self, call: Call, outs: list[Value]) -> None:
        record: dict[str, Any] = {"call": call.key, "step": self.step, "phase": "forward", "module": call.module}
        record.update(call.weights)
        if call.sources:
            record["from"] = call.sources
        bad = {
            f"{role}{v.suffix}": [v.stats.nan, v.stats.inf]
            for role, found in (("input", call.inputs), ("output", outs))
            for v in found
            if v.stats is not None and (v.stats.nan or v.stats.inf)
        }
        if bad:
            record["not_finite"] = bad
        small = {
            f"{role}{v.suffix}": v.small
            for role, found in (("input", call.inputs), ("output", outs))
            for v in found
            if v.small is not None
        }
        if small:
            record["small"] = small
        self.files.call(record)

    def fail(self, call: Call, why: str) -> None:
        """The call raised: its inputs are kept, which is what one wants to see then."""
        with self._lock:
            for v in call.inputs:
                if v.small is None:
                    self._write(f"{call.key}_forward_input{v.suffix}", v)
            self.files.call({"call": call.key, "step": self.step, "phase": "forward", "module": call.module, "failed": why})

    def _watcher(self, call: Call, suffix: str) -> Any:
        def hook(grad: Any) -> None:
            if not self.alive():
                return
            with self._lock:
                for v in self.capture([("", grad)]):
                    v.suffix = suffix
                    if v.small is None:
                        self._write(f"{call.key}_backward_input{suffix}", v)
                    self._backward_record(call, suffix, v)

        return hook

    def _backward_record(self, call: Call, suffix: str, v: Value) -> None:
        record: dict[str, Any] = {"call": call.key, "step": self.step, "phase": "backward", "module": call.module}
        record["value"] = suffix
        if v.small is not None:
            record["small"] = v.small
        if v.stats is not None and (v.stats.nan or v.stats.inf):
            record["not_finite"] = {f"input{suffix}": [v.stats.nan, v.stats.inf]}
        self.files.call(record)

    def layer(self, name: str) -> None:
        """Mark that module ``name`` of the net is entered."""
        if self.settings.overflow_check or self.settings.mode in ("list", "api_list"):
            return
        if self.settings.mode == "range" and not self._in_range:
            return
        if self._saw_step:
            self.step, self._saw_step, self._fresh = self.step + 1, False, True
        flat = "LAYER_" + name.replace(".", "_") + "_forward_input"
        zero = np.zeros(1, np.float32)
        with self._lock:
            self.files.frames((f"LAYER: {name} forward",), user_stack(self.settings.filter_stack, 3))
            self._write(flat, Value("", "torch.float32", (1,), zero, values.Stats(0.0, 0.0, 0.0, 0.0, 0, 0), ""))
            self.files.call({"layer": name, "step": self.step})

    def before_update(self, name: str, groups: Any) -> None:
        """An optimiser is about to step: keep its weights, and write what gradients it has."""
        found: dict[str, Any] = {}
        noisy: list[str] = []
        self._weights = {}
        self._updates += 1
        for group in groups:
            for p in group["params"]:
                path = self.parameters.get(id(p))
                if path is not None and p.grad is not None:
                    g = values.to_array(p.grad)
                    stats = values.statistics(g, quick=True)
                    found[path] = brief(stats)
                    # Where the gradient is rounding noise an adaptive optimiser moves by a full step in either direction.
                    tiny = _below(g, 1e-5 * max(abs(stats.max), abs(stats.min)))
                    if np.count_nonzero(tiny) > g.size - np.count_nonzero(g):
                        noisy.append(path)
                    self._weights[path] = (p, values.to_array(p, copy=True), tiny)
        self.files.call({"optimizer": name, "step": self.step, "grads": found, "noisy": noisy})

    def after_update(self, name: str) -> None:
        """The optimiser has stepped: write by how much each weight moved."""
        moved: dict[str, Any] = {}
        for path, (p, old, tiny) in self._weights.items():
            with np.errstate(all="ignore"):
                step = np.subtract(values.to_array(p), old, out=old)
                np.copyto(step, 0, where=tiny)
                moved[path] = brief(values.statistics(step, quick=True))
        self._weights = {}
        self.files.call({"optimizer": name, "step": self.step, "moved": moved})

    # ------------------------------------------------------------------ values
    def _members(self, table: dict[str, Any]) -> dict[str, Any]:
        was, self.busy = self.busy, True
        try:
            return {k: self._brief(t) for k, t in table.items() if t is not None}
        finally:
            self.busy = was

    def _brief(self, t: Any) -> list[Any] | None:
        """Statistics of a weight or gradient, never remembered: kernels and optimisers write these without a new version."""
        try:
            return brief(values.statistics(values.to_array(t), quick=True))
        except TypeError:
            return None

    def _statistics(self, t: Any, a: np.ndarray) -> values.Stats:
        """Statistics of a tensor, computed once as long as it is not written to."""
        key = id(t)
        try:
            version = t._version
        except RuntimeError:  # tensors of inference mode have none, and may be written to all the same
            return values.statistics(a)
        got = self._known.get(key)
        if got is not None and got[0]() is t and got[1] == version and got[2] == a.shape:
            return got[3]
        s = values.statistics(a)
        if len(self._known) > 200:
            self._known.clear()
        self._known[key] = (weakref.ref(t), version, a.shape, s)
        return s

    def capture(self, found: Iterable[tuple[str, Any]], copy: bool = False) -> list[Value]:
        """The values worth keeping, as they are now; ``copy`` when they are written later."""
        s = self.settings
        out = []
        was, self.busy = self.busy, True
        try:
            for label, x in found:
                v = self._tensor(label, x, copy) if values.is_tensor(x) else None if s.filter_data else _number(label, x)
                if v is not None:
                    out.append(v)
        finally:
            self.busy = was
        return out

    def _tensor(self, label: str, t: Any, copy: bool) -> Value | None:
        s = self.settings
        dtype = values.dtype_name(t)
        shape = tuple(int(n) for n in t.shape)
        if s.filter_data and (not shape or 0 in shape or not ("float" in dtype or "complex" in dtype)):
            return _small(label, t, dtype, shape) if s.dump_type != "stack" and 0 not in shape else None
        if s.dump_type == "stack":
            return Value(file_index(label), dtype, shape, None, None, "")
        try:
            a = values.to_array(t)
        except TypeError:
            return None
        stats = self._statistics(t, a) if s.dump_type != "npy" or s.overflow_check else None
        md5 = values.digest(a) if "md5" in s.categories and s.dump_type != "npy" else ""
        keep = None
        if s.dump_type in ("all", "npy"):
            keep = a.copy() if copy else a
        return Value(file_index(label), dtype, shape, keep, stats, md5)

    def _write(self, name: str, v: Value) -> None:
        s = self.settings
        if s.dump_type in ("all", "npy") and v.array is not None:
            self.files.array(name, v.array)
        asked = s.categories if s.dump_type in ("all", "statistics") else ()
        st = v.stats if v.stats is not None and asked else None
        three = [getattr(st, k) if st is not None and c in asked else NAN for c, k in (("max", "max"), ("min", "min"), ("avg", "mean"))]
        norm = st.norm if st is not None and "l2norm" in asked else []
        self.files.line(name, v.dtype, v.shape, three, v.md5 or [], norm)


def _below(g: np.ndarray, limit: float) -> np.ndarray:
    """Where the elements of a gradient are smaller than ``limit``."""
    if g.dtype.kind == "c":
        return np.abs(g) < limit
    with np.errstate(all="ignore"):
        return (g < limit) & (g > -limit)


def _small(label: str, t: Any, dtype: str, shape: tuple[int, ...]) -> Value | None:
    try:
        a = values.to_array(t)
    except TypeError:
        return None
    if a.dtype.kind == "c":
        a = np.abs(a)
    if a.ndim == 0:
        small = [float(a)]
    elif a.dtype.kind in "biu":
        small = [float(a.sum(dtype=np.float64)), float(a.size)]
    else:
        return None
    bad = not np.isfinite(small[0])
    stats = values.Stats(small[0], small[0], small[0], abs(small[0]), int(np.isnan(small[0])), int(np.isinf(small[0]))) if bad else None
    return Value(file_index(label), dtype, shape, None, stats, "", small)


def _number(label: str, x: Any) -> Value | None:
    """A Python number among the arguments."""
    if isinstance(x, bool) or not isinstance(x, (int, float, complex)):
        return None
    a = np.asarray(x)
    if a.dtype == object:
        return None
    return Value(file_index(label), f"<class '{type(x).__name__}'>", (), a, values.statistics(a), "")
