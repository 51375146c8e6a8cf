"""`StepClock`: splits steps into phases, from the ranges that DataLoader, backward and Optimizer announce themselves.

A step lasts from one request for a batch to the next; without a DataLoader from one optimiser step to the next. What lies
between two ranges belongs to the phase that the next range ends: what comes before backward is forward, between backward
and the optimiser (clipping) optimiser, behind the optimiser's step other. So the phases add up to the step.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from mindtorch.core import observe
from mindtorch.engine import used
from mindtorch.engine.host import jit

PHASES = ("data", "transfer", "forward", "backward", "optimizer", "other")


class Step:
    """Seconds of one step by phase. ``first`` marks the first one from its loader, which pays for preparations."""

    def __init__(self, loader: Any, first: bool) -> None:
        self.loader, self.first = loader, first
        self.phases = dict.fromkeys(PHASES, 0.0)
        self.iterators: set[int] = set()
        self.last = ""
        self.trained = False
        self.prepared = 0.0
        """Seconds of compiling and loading kernels, which later steps do not pay."""
        self.segments: list[tuple[str, float, float]] = []
        """Phase, begin and end of each stretch of the step, without gaps, in seconds of ``time.perf_counter``."""

    def spend(self, phase: str, begin: float, end: float) -> None:
        """The time from ``begin`` to ``end`` belongs to ``phase``."""
        self.phases[phase] += end - begin
        if end > begin:
            self.segments.append((phase, begin, end))

    @property
    def total(self) -> float:
        """Seconds of the whole step."""
        return sum(self.phases.values())

    @property
    def steady(self) -> bool:
        """Whether its time is that of later steps, too: it is not the first one, and no kernel was compiled or loaded in it."""
        return not self.first and self.prepared <= 0.02 * self.total


class Enough(SystemExit):
    """Ends the program when as many steps as wanted are timed. No ``except Exception`` stops it."""


def synchronize() -> None:
    """Wait for what was sent to a device, so that its time is counted where it was asked for."""
    from mindtorch.core.device import accelerators

    if accelerators():
        from mindtorch.torch import accelerator

        accelerator.synchronize()


class StepClock:
    """Listens from `start` to `stop`; ``steps`` holds the finished steps.

    ``limit`` raises `Enough` after so many timed steps (first ones not counted). ``workers`` gives loader number ``which``
    (in order of first use) another ``num_workers``. ``tick`` is called with each finished step.
    """

    nodes = False

    def __init__(
        self, limit: int | None = None, workers: int | None = None, which: int = 0, tick: Callable[[Step], None] | None = None
    ) -> None:
        self.steps: list[Step] = []
        self.loaders: list[Any] = []
        self._limit, self._workers, self._which, self._tick = limit, workers, which, tick
        self._open: list[Step] = []
        self._of: dict[int, Any] = {}
        self._ranges: list[str] = []
        self._mark = 0.0
        self._thread = threading.get_ident()
        self._pending: Any = None
        self._timed = 0

    def start(self) -> None:
        """Listen."""
        observe.RANGES.append(self)
        used.LISTENERS.append(self._kernel)
        jit.hear(True)
        self._mark = self._now()

    def stop(self) -> None:
        """Listen no longer. The step that was going on is not counted."""
        if self in observe.RANGES:
            observe.RANGES.remove(self)
        if self._kernel in used.LISTENERS:
            used.LISTENERS.remove(self._kernel)
        jit.hear(bool(used.LISTENERS))
        self._open.clear()

    def _kernel(self, name: str, prepared: int) -> None:
        if prepared and self._open:
            self._open[-1].prepared += prepared / 1e9

    # ------------------------------------------------------------------ the listener
    def enter(self, kind: str, name: str, what: Any) -> str | None:
        """A range begins."""
        if threading.get_ident() != self._thread or kind in ("user", "node") or name == "to cpu":
            return None
        if kind == "loader":
            self._seen(what)
            return None
        now = self._now()
        if kind == "data" and "data" not in self._ranges:
            self._request(what, now)
        elif not self._open:
            if not (self.steps and self.steps[-1].loader is None):
                self._mark = now  # else the step began where the last one ended
            self._open.append(Step(None, not self.steps))
        self._attribute(kind, now)
        self._ranges.append(kind)
        if name.startswith("Optimizer.step#"):
            self._open[-1].trained = True
            return "step"
        return kind

    def leave(self, token: str | None) -> None:
        """A range ends."""
        if token is None or not self._ranges:
            return
        now = self._now()
        kind = self._ranges[-1]
        if self._open:
            step = self._open[-1]
            step.spend(kind, self._mark, now)
            step.last = kind
        self._mark = now
        self._ranges.pop()
        if kind == "data" and isinstance(sys.exc_info()[1], StopIteration):
            self._exhausted()
        elif token == "step" and self._open and self._open[-1].loader is None and not self._ranges:
            self._close(self._open.pop())

    # ------------------------------------------------------------------ steps
    def _now(self) -> float:
        synchronize()
        return time.perf_counter()

    def _seen(self, loader: Any) -> None:
        if not any(known is loader for known in self.loaders):
            if self._workers is not None and len(self.loaders) == self._which:
                loader.num_workers = self._workers
                if self._workers and loader.prefetch_factor is None:
                    loader.prefetch_factor = 2
            self.loaders.append(loader)
        self._pending = loader

    def _loader(self, iterator: Any) -> Any:
        if id(iterator) not in self._of:
            self._of[id(iterator)] = (self._pending, iterator)  # the iterator is kept, so that its id stays its own
        return self._of[id(iterator)][0]

    def _attribute(self, kind: str, now: float) -> None:
        """Give the time since the last range to a phase, now that a range of ``kind`` begins."""
        step = self._open[-1]
        if self._ranges:
            phase = self._ranges[-1]
        elif kind == "optimizer" and step.last in ("backward", "optimizer"):
            phase = "optimizer"
        elif kind in ("data", "transfer") and step.last in ("backward", "optimizer"):
            phase = "other"
        else:
            phase = "forward"
        step.spend(phase, self._mark, now)
        self._mark = now

    def _request(self, iterator: Any, now: float) -> None:
        """A batch is asked for: the next step begins, unless a second loader gives its part of the same one."""
        me = id(iterator)
        if any(me in s.iterators for s in self._open):
            while me not in self._open[-1].iterators:
                self._finish(self._open.pop(), now)
            if self._open[-1].last == "data" and len(self._open[-1].iterators) > 1:
                return
            self._finish(self._open.pop(), now)
        elif self._open and self._open[-1].last == "data":
            self._open[-1].iterators.add(me)
            return
        elif self._open and self._open[-1].loader is None:
            self._open.pop()
        elif self._open:
            self._attribute("data", now)  # a loop inside a step, such as an evaluation: the step goes on behind it
        loader = self._loader(iterator)
        step = Step(loader, not any(s.loader is loader for s in self.steps))
        step.iterators.add(me)
        self._open.append(step)
        self._mark = now

    def _finish(self, step: Step, now: float) -> None:
        rest = "other" if step.last in ("optimizer", "backward") else "forward"
        step.spend(rest, self._mark, now)
        self._mark = now
        self._close(step)

    def _close(self, step: Step) -> None:
        self.steps.append(step)
        self._timed += step.steady and (step.trained or step.loader is None)
        if self._tick is not None:
            self._tick(step)
        if self._limit is not None and self._timed >= self._limit:
            raise Enough(0)

    def _exhausted(self) -> None:
        if self._open and self._open[-1].iterators:
            self._open.pop()
