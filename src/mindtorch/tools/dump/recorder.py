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

    @property
    def key(self) -> str:
        """``NN_ReLU_0``."""
        return f"{self.kind}_{self.name}_{self.count}"


class Recorder:
    """Keeps the state of a dump between ``start`` and ``stop``."""

    def __init__(self, net: Any, frame: str, output_path: str, retain_backward: bool) -> None:
        self.frame = frame
        self.net = weakref.ref(net)
        self.retain_backward = retain_backward
        self.files = DumpFiles(output_path, frame)
        self.settings = Settings()
        self.running = False
        self.step = 0
        self._fresh = True
        self._saw_step = False
        self.paths = {id(m): name for name, m in net.named_modules()}
        self.parameters = {id(p): name for name, p in net.named_parameters()}
        self._counts: dict[tuple[str, str], int] = {}
        self._in_range = False
        self._range_done = False
        self.module_stack: list[str] = []
        self._known: dict[int, Any] = {}
        self._lock = threading.RLock()
        self._pid = os.getpid()
        atexit.register(self.files.flush)

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
        self.module_stack.clear()
        self.files.flush()

    def alive(self) -> bool:
        """Whether this process is to record: the one that started, not a worker forked from it."""
        return self.running and os.getpid() == self._pid

    def next_step(self) -> None:
        """The next forward call begins another step."""
        self._saw_step = not self._fresh

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
        call = Call(kind, name, count, path, frames, self.capture(inputs, copy=True), {}, owner)
        if owner is not None:
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
        if self.settings.overflow_check:
            if not any(v.stats and (v.stats.nan or v.stats.inf) for v in outs):
                return
            self._stack_of(call)
        if call.owner is not None and call.owner._buffers:
            call.weights["buffers"] = self._members(call.owner._buffers)
        with self._lock:
            for role, found in (("input", call.inputs), ("output", outs)):
                for v in found:
                    self._write(f"{call.key}_forward_{role}{v.suffix}", v)
            self._record(call, outs)
        if self.retain_backward and gradients:
            for label, t in outputs:
                if values.is_tensor(t) and values.requires_grad(t):
                    t.register_hook(self._watcher(call, file_index(label)))

    def _record(self, call: Call, outs: list[Value]) -> None:
        record: dict[str, Any] = {"call": call.key, "step": self.step, "phase": "forward", "module": call.module}
        record.update(call.weights)
        bad = {
            f"{role}{v.suffix}": [v.stats.nan, v.stats.inf]
            for role, found in (("input", call.inputs), ("output", outs))
            for v in found
            if v.stats is not None and (v.stats.nan or v.stats.inf)
        }
        if bad:
            record["not_finite"] = bad
        self.files.call(record)

    def fail(self, call: Call, why: str) -> None:
        """The call raised: its inputs are kept, which is what one wants to see then."""
        with self._lock:
            for v in call.inputs:
                self._write(f"{call.key}_forward_input{v.suffix}", v)
            self.files.call({"call": call.key, "step": self.step, "phase": "forward", "module": call.module, "failed": why})

    def _watcher(self, call: Call, suffix: str) -> Any:
        def hook(grad: Any) -> None:
            if not self.alive():
                return
            with self._lock:
                for v in self.capture([("", grad)]):
                    v.suffix = suffix
                    self._write(f"{call.key}_backward_input{suffix}", v)
                    self._backward_record(call, suffix, v)

        return hook

    def _backward_record(self, call: Call, suffix: str, v: Value) -> None:
        record: dict[str, Any] = {"call": call.key, "step": self.step, "phase": "backward", "module": call.module}
        record["value"] = suffix
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

    def optimizer(self, name: str, phase: str, groups: Any) -> None:
        """Gradients before, and weights after, an optimiser's step; ``phase`` is "grads" or "weights"."""
        found: dict[str, Any] = {}
        for group in groups:
            for p in group["params"]:
                path = self.parameters.get(id(p))
                t = p.grad if phase == "grads" else p
                if path is not None and t is not None:
                    found[path] = self._brief(t)
        self.files.call({"optimizer": name, "step": self.step, phase: found})

    # ------------------------------------------------------------------ values
    def _members(self, table: dict[str, Any]) -> dict[str, Any]:
        return {k: self._brief(t) for k, t in table.items() if t is not None}

    def _brief(self, t: Any) -> list[Any] | None:
        try:
            return brief(self._statistics(t, values.to_array(t)))
        except TypeError:
            return None

    def _statistics(self, t: Any, a: np.ndarray) -> values.Stats:
        """Statistics of a tensor, computed once as long as it is not written to."""
        key = id(t)
        version = getattr(t, "_version", None)
        got = self._known.get(key)
        if got is not None and got[0]() is t and got[1] == version and got[2] == a.shape:
            return got[3]
        s = values.statistics(a)
        if len(self._known) > 200:
            self._known.clear()
        try:
            self._known[key] = (weakref.ref(t), version, a.shape, s)
        except TypeError:
            return s
        return s

    def capture(self, found: Iterable[tuple[str, Any]], copy: bool = False) -> list[Value]:
        """The values worth keeping, as they are now; ``copy`` when they are written later."""
        s = self.settings
        out = []
        for label, x in found:
            v = self._tensor(label, x, copy) if values.is_tensor(x) else None if s.filter_data else _number(label, x)
            if v is not None:
                out.append(v)
        return out

    def _tensor(self, label: str, t: Any, copy: bool) -> Value | None:
        s = self.settings
        dtype = values.dtype_name(t)
        shape = tuple(int(n) for n in t.shape)
        if s.filter_data and (not shape or 0 in shape or not ("float" in dtype or "complex" in dtype)):
            return None
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


def _number(label: str, x: Any) -> Value | None:
    """A Python number among the arguments."""
    if isinstance(x, bool) or not isinstance(x, (int, float, complex)):
        if not isinstance(x, bool):
            return None
    a = np.asarray(x)
    if a.dtype == object:
        return None
    return Value(file_index(label), f"<class '{type(x).__name__}'>", (), a, values.statistics(a), "")
