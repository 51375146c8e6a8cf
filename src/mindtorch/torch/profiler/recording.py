"""The event recorder: ops from the dispatcher's observers, phases from its listeners, modules from their global hooks.

Nothing is patched and nothing is installed until :meth:`Recorder.start`. Each thread has a lane of its own; events of a
lane nest.
"""

from __future__ import annotations

import os
import sys
import threading
from time import perf_counter_ns
from typing import Any

from mindtorch.core import observe
from mindtorch.core.tensor import Leaf, Out, Tensor
from mindtorch.engine import used
from mindtorch.engine.host import jit
from mindtorch.torch.profiler import calls, flops
from mindtorch.torch.profiler.memory import Ledger
from mindtorch.torch.profiler.names import PYTHON, name_of, part_name

_HERE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + os.sep
_DEEPEST = 48


class Event:
    """One span of a lane. Times in ns of ``time.perf_counter_ns``."""

    __slots__ = (
        "backward", "base", "end", "flops", "inplace", "kernel", "kind", "memory", "module", "named", "parent", "phase", "prepared", "row", "seq",
        "shapes", "stack", "start", "thread",
    )  # fmt: skip

    @property
    def name(self) -> str:
        """As PyTorch's profiler shows it."""
        return self.named or name_of(self.row, self.inplace)


class Lane:
    """What one thread is doing."""

    def __init__(self) -> None:
        thread = threading.current_thread()
        self.ident, self.name = thread.native_id or 0, thread.name
        self.main = thread is threading.main_thread()
        self.top: Event | None = None
        self.modules: list[str] = []
        self.newest = 0
        self.shadow: Any = None


class Options:
    """What is kept of each event besides its times."""

    def __init__(self, shapes: bool = False, memory: bool = False, stack: bool = False, count_flops: bool = False) -> None:
        self.shapes, self.memory, self.stack, self.flops = shapes, memory, stack, count_flops


class Recorder:
    """Records from :meth:`start` to :meth:`stop`; ``events`` is in order of their beginnings."""

    nodes = True
    parent_only = True

    def __init__(self, options: Options | None = None) -> None:
        self.options = options or Options()
        self.events: list[Event] = []
        self.lanes: list[Lane] = []
        self.began = self.ended = 0
        self._local = threading.local()
        self._hooks: list[Any] = []
        self._paths: dict[int, str] = {}
        self._roots: list[Any] = []
        self._optimizers: dict[int, Any] = {}
        self.ledger: Ledger | None = None
        self.loose: list[tuple[int, int, Lane]] = []
        """When, bytes, thread: memory that was freed outside all events."""

    # ------------------------------------------------------------------ on and off
    def start(self) -> None:
        """Observe from now on."""
        from mindtorch.torch.nn.modules import module

        self._hooks = [
            module.register_module_forward_pre_hook(self._enter_module),
            module.register_module_forward_hook(self._leave_module, always_call=True),
        ]
        if self.options.memory:
            self.ledger = Ledger(self._freed)
        used.LISTENERS.append(self._kernel)
        jit.hear(True)
        calls.hear(self)
        observe.RANGES.append(self)
        observe.attach(self)
        self.began = perf_counter_ns()

    def stop(self) -> None:
        """Observe no longer; what is still open ends now."""
        self.ended = perf_counter_ns()
        observe.detach(self)
        observe.RANGES.remove(self)
        calls.unhear(self)
        if self._kernel in used.LISTENERS:
            used.LISTENERS.remove(self._kernel)
        jit.hear(bool(used.LISTENERS))
        for handle in self._hooks:
            handle.remove()
        if self.ledger is not None:
            self._name_memory(self.ledger)
            self.ledger.close()
        for lane in self.lanes:
            while lane.top is not None:
                lane.top.end = self.ended
                lane.top = lane.top.parent

    def clear(self) -> None:
        """Forget what was recorded; open events stay open."""
        self.events = [e for e in self.events if not e.end]
        self.loose = []
        if self.ledger is not None:
            self.ledger.close()
            self.ledger = Ledger(self._freed)
        self.began = perf_counter_ns()

    # ------------------------------------------------------------------ spans
    def _lane(self) -> Lane:
        try:
            return self._local.lane
        except AttributeError:
            lane = self._local.lane = Lane()
            self.lanes.append(lane)
            return lane

    def _open(self, lane: Lane, kind: str, named: str | None, row: Any) -> Event:
        e = Event()
        e.kind, e.named, e.row = kind, named, row
        e.parent = top = lane.top
        e.thread = lane
        e.inplace = False
        e.phase = top.phase if top is not None else ""
        e.backward = observe.state.walks > 0
        e.module = lane.modules[-1] if lane.modules else ""
        e.seq = -1
        e.end = e.memory = e.flops = e.prepared = 0
        e.base = lane.newest
        e.shapes = e.stack = None
        e.kernel = ""
        if self.options.stack:
            e.stack = _stack()
        lane.top = e
        self.events.append(e)
        return e

    @staticmethod
    def _close(e: Event, now: int) -> None:
        """End ``e`` and whatever inside it was left open by an exception."""
        e.end = now
        lane = e.thread
        top = lane.top
        while top is not None and top is not e:
            if not top.end:
                top.end = now
            top = top.parent
        if top is e:
            lane.top = e.parent

    # ------------------------------------------------------------------ ops
    def before(self, row: Any, args: Any) -> Event | None:
        """An op begins. A row that calls the row of the same name (a check around a kernel) is one event."""
        lane = self._lane()
        top = lane.top
        if top is not None and top.kind == "op" and (top.row.name == row.name if top.row is not None else top.named == name_of(row)):
            return None
        if row.name in PYTHON and getattr(row, "kind", "composite") == "composite":
            return None
        named = None
        if row.name == "_part":
            named = part_name(args[1])
        e = self._open(lane, "op", named, row)
        if lane.shadow is not None:
            e.inplace = bool(args) and args[0] is lane.shadow
            lane.shadow = None
        if self.options.shapes:
            e.shapes = [_shape(a) for a in args]
        e.start = perf_counter_ns()
        return e

    def after(self, row: Any, args: Any, out: Any, token: Event | None) -> None:
        """An op has returned."""
        now = perf_counter_ns()
        if token is None:
            return
        self._close(token, now)
        first = out[0] if out.__class__ in (tuple, list) and out else out
        if isinstance(first, Tensor):
            n = first.n
            if n is not None and n.__class__ is not Leaf:
                q = (n.node if n.__class__ is Out else n).q
                if q > token.base:
                    token.seq = q
                    if q > token.thread.newest:
                        token.thread.newest = q
        if not token.kernel and getattr(row, "kind", "") in _KERNELS:
            token.kernel = _KERNELS[row.kind]
        if self.ledger is not None and getattr(row, "kind", "op") != "view":
            token.memory += self.ledger.took(args, out, _label(token, first), token.thread)
        if self.options.flops:
            counted = flops.of(row, args, out, token.backward)
            token.flops = counted[1] if counted else 0

    def failed(self, token: Event | None) -> None:
        """An op has raised."""
        if token is not None:
            self._close(token, perf_counter_ns())

    def call_begins(self, names: tuple[str, ...], args: Any) -> list[Event] | None:
        """A public function that is no row is called: see `calls`."""
        lane = self._lane()
        if lane.top is not None and lane.top.named == names[0] and lane.top.kind == "op":
            return None
        shapes = [_shape(a) for a in args] if self.options.shapes else None
        opened = []
        for name in names:
            e = self._open(lane, "op", name, None)
            e.shapes, e.start = shapes, perf_counter_ns()
            opened.append(e)
        return opened

    def call_ends(self, token: list[Event] | None, args: Any, out: Any) -> None:
        """It has returned, or raised (``out`` is None)."""
        now = perf_counter_ns()
        if token is None:
            return
        inner = token[-1]
        called = any(e.parent is inner for e in self.events[self.events.index(inner) + 1 :]) if self.events[-1] is not inner else False
        if not called:  # what calls a row leaves the computing to it
            inner.kernel = inner.kernel or "NumPy"
        if self.ledger is not None and isinstance(out, Tensor):
            inner.memory += self.ledger.took(args, out, _label(inner, out), inner.thread)
        for e in reversed(token):
            self._close(e, now)

    def shadowed(self, shadow: Any, x: Any) -> None:
        """The next op on ``shadow`` computes the new value of ``x``: it is the in-place form."""
        self._lane().shadow = shadow

    # ------------------------------------------------------------------ kernels and memory
    def _kernel(self, name: str, prepared: int = 0) -> None:
        """A kernel that is not NumPy computes for what is going on in this thread."""
        top = self._lane().top
        if top is not None:
            top.prepared += prepared
        if top is not None and name and name not in top.kernel.split(" + "):
            top.kernel = f"{top.kernel} + {name}" if top.kernel else name

    def _freed(self, size: int) -> Lane:
        """Memory died in this thread."""
        lane = self._lane()
        if lane.top is not None:
            lane.top.memory -= size
        else:
            self.loose.append((perf_counter_ns(), -size, lane))
        return lane

    def _state_of(self, optimizer: Any) -> list[Any]:
        return [v for s in optimizer.state.values() if isinstance(s, dict) for v in s.values()]

    def _name_memory(self, ledger: Ledger) -> None:
        """Say which memory is parameters, gradients and state, now that all modules and optimisers have shown themselves."""
        for module in self._roots:
            parameters = list(module.parameters())
            ledger.label(parameters, "PARAMETER")
            ledger.label([p.grad for p in parameters if p.grad is not None], "GRADIENT")
        for optimizer in self._optimizers.values():
            ledger.label(self._state_of(optimizer), "OPTIMIZER_STATE")

    # ------------------------------------------------------------------ phases and modules
    def enter(self, kind: str, name: str, what: Any) -> Event | None:
        """A phase begins."""
        if kind == "loader":
            return None
        e = self._open(self._lane(), kind, name, None)
        if kind == "node":
            e.seq = getattr(what, "q", -1) if what.__class__ is not Leaf else -1
        elif kind in ("backward", "optimizer", "data", "transfer"):
            e.phase = kind
            if kind == "optimizer" and self.ledger is not None and id(what) not in self._optimizers:
                self._optimizers[id(what)] = what
                self.ledger.label(self._state_of(what), "OPTIMIZER_STATE")
        e.start = perf_counter_ns()
        return e

    def leave(self, token: Event | None) -> None:
        """A phase ends."""
        if token is None:
            return
        now = perf_counter_ns()
        if self.ledger is not None and token.phase == "optimizer" and token.kind == "optimizer":
            for optimizer in self._optimizers.values():  # its state is made by no op
                token.memory += self.ledger.found(self._state_of(optimizer), "OPTIMIZER_STATE", token.thread)
        self._close(token, now)

    def _enter_module(self, module: Any, args: Any) -> None:
        lane = self._lane()
        if id(module) not in self._paths:
            self._adopt(module)
        if self.ledger is not None and not lane.modules:
            self.ledger.label([*args], "INPUT")
        lane.modules.append(self._paths[id(module)])
        e = self._open(lane, "module", f"nn.Module: {type(module).__name__}", None)
        e.start = perf_counter_ns()

    def _leave_module(self, module: Any, args: Any, out: Any) -> None:
        now = perf_counter_ns()
        lane = self._lane()
        path = self._paths.get(id(module))
        e = lane.top
        while e is not None and not (e.kind == "module" and e.module == path):
            e = e.parent
        if e is not None:
            self._close(e, now)
            lane.modules.pop()

    def _adopt(self, root: Any) -> None:
        """Names for a module and all modules in it. Kept alive: another module must not take over an id."""
        self._roots.append(root)
        home = type(root).__name__
        for name, m in root.named_modules():
            self._paths.setdefault(id(m), f"{home}.{name}" if name else home)


def _shape(a: Any) -> Any:
    if isinstance(a, Tensor):
        return list(a.a.shape)
    if a.__class__ in (list, tuple) and a and isinstance(a[0], Tensor):
        return [list(t.a.shape) for t in a]
    return []


_KERNELS = {"op": "NumPy", "view": "view"}
"""What computes a row of this kind when no kernel has spoken up. A composite leaves it to the rows it calls."""


def _label(e: Event, out: Any) -> str:
    """What memory made in ``e`` is, until more is known."""
    if e.phase in ("data", "transfer"):
        return "INPUT"
    if e.phase == "optimizer":
        return "OPTIMIZER_STATE"
    if e.backward:
        return "AUTOGRAD_DETAIL"
    return "ACTIVATION" if isinstance(out, Tensor) and out.n is not None and out.n.__class__ is not Leaf else "TEMPORARY"


def _stack() -> list[tuple[Any, int]]:
    """Code and line of the user's frames, innermost first."""
    found = []
    frame = sys._getframe(3)
    while frame is not None and len(found) < _DEEPEST:
        code = frame.f_code
        if not code.co_filename.startswith((_HERE, "<mindtorch")):
            found.append((code, frame.f_lineno))
        frame = frame.f_back  # type: ignore[assignment]
    return found


def located(stack: list[tuple[Any, int]] | None) -> list[str]:
    """Frames as ``file(line): function``."""
    return [f"{code.co_filename}({line}): {code.co_name}" for code, line in stack or []]
