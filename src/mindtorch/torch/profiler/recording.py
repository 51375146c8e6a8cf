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
from mindtorch.torch.profiler import flops
from mindtorch.torch.profiler.names import name_of, part_name

_HERE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + os.sep
_DEEPEST = 48


class Event:
    """One span of a lane. Times in ns of ``time.perf_counter_ns``."""

    __slots__ = (
        "backward", "base", "end", "flops", "inplace", "kind", "memory", "module", "named", "parent", "phase", "row", "seq",
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

    # ------------------------------------------------------------------ on and off
    def start(self) -> None:
        """Observe from now on."""
        from mindtorch.torch.nn.modules import module

        self._hooks = [
            module.register_module_forward_pre_hook(self._enter_module),
            module.register_module_forward_hook(self._leave_module, always_call=True),
        ]
        observe.RANGES.append(self)
        observe.attach(self)
        self.began = perf_counter_ns()

    def stop(self) -> None:
        """Observe no longer; what is still open ends now."""
        self.ended = perf_counter_ns()
        observe.detach(self)
        observe.RANGES.remove(self)
        for handle in self._hooks:
            handle.remove()
        for lane in self.lanes:
            while lane.top is not None:
                lane.top.end = self.ended
                lane.top = lane.top.parent

    def clear(self) -> None:
        """Forget what was recorded; open events stay open."""
        self.events = [e for e in self.events if not e.end]
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
        e.end = e.memory = e.flops = 0
        e.base = lane.newest
        e.shapes = e.stack = None
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
        if top is not None and top.row is not None and top.row.name == row.name:
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
        if self.options.memory:
            token.memory = _allocated(row, args, out)
        if self.options.flops:
            counted = flops.of(row, args, out, token.backward)
            token.flops = counted[1] if counted else 0

    def failed(self, token: Event | None) -> None:
        """An op has raised."""
        if token is not None:
            self._close(token, perf_counter_ns())

    def shadowed(self, shadow: Any, x: Any) -> None:
        """The next op on ``shadow`` computes the new value of ``x``: it is the in-place form."""
        self._lane().shadow = shadow

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
        e.start = perf_counter_ns()
        return e

    def leave(self, token: Event | None) -> None:
        """A phase ends."""
        if token is not None:
            self._close(token, perf_counter_ns())

    def _enter_module(self, module: Any, args: Any) -> None:
        lane = self._lane()
        if id(module) not in self._paths:
            self._adopt(module)
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


def _allocated(row: Any, args: Any, out: Any) -> int:
    """Bytes of results that are new memory."""
    if getattr(row, "kind", "op") == "view":
        return 0
    import numpy as np

    given = [t for a in args for t in (a if a.__class__ in (list, tuple) else (a,)) if isinstance(t, Tensor)]
    total = 0
    for t in out if out.__class__ in (tuple, list) else (out,):
        if not isinstance(t, Tensor) or any(t is g for g in given):
            continue
        if t.a.__class__ is np.ndarray and any(g.a.__class__ is np.ndarray and np.may_share_memory(t.a, g.a) for g in given):
            continue
        total += t.a.size * t.k.np.itemsize
    return total


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
