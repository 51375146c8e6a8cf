"""Running the script: every step's time with nothing attached, then a few steps with every op and the line it comes from."""

from __future__ import annotations

import builtins
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from time import perf_counter, process_time
from typing import Any

from mindtorch.core import observe
from mindtorch.tools.advice.sources import Site, caller

MAX_CALLS = 20000
"""Calls kept of one observed step."""


class Enough(BaseException):
    """Ends the script: what was to be seen was seen."""


@dataclass
class Call:
    """One op as the user's script called it."""

    name: str
    row: Any
    args: Any
    site: Site
    phase: str
    step: int
    out: Any = None
    seconds: float = 0.0
    grad: bool = False
    versions: tuple[int, ...] = ()
    """Of the first tensor argument and of the result, right after the call."""

    def fn(self, *args: Any) -> Any:
        """The call again, with these arguments in place of the recorded ones."""
        if hasattr(self.row, "as_call"):
            pos, kw = self.row.as_call(args)
            return self.row.fn(*pos, **kw)
        if args and isinstance(args[-1], dict):
            return self.row.fn(*args[:-1], **args[-1])
        return self.row.fn(*args)


@dataclass
class ModuleCall:
    """One call of an outermost module."""

    module: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    site: Site
    grad: bool
    out: Any = None


@dataclass
class Span:
    """Time at a line of the user's that is no op: a save, a print, a batch."""

    kind: str
    site: Site | None
    seconds: float
    cpu: float
    what: Any = None


@dataclass
class Step:
    """One pass through a loop of the script."""

    index: int
    observed: bool
    start: float
    began_cpu: float
    wall: float = 0.0
    cpu: float = 0.0
    """Seconds of computing, in all threads of the process."""
    spans: list[Span] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    modules: list[ModuleCall] = field(default_factory=list)
    optimizers: list[tuple[str, Any, Site | None]] = field(default_factory=list)
    backward: bool = False
    cut: bool = False
    """Left before its end: its time says nothing."""

    @property
    def seconds(self) -> float:
        """Its time, without what other programs of the machine took from it: waiting counts for batches and files only."""
        waited = sum(max(x.seconds - x.cpu, 0.0) for x in self.spans if x.kind in ("data", "save"))
        return min(self.wall, self.cpu + waited)


@dataclass
class Loop:
    """All steps over one loader (or, without loaders, all that end with a step of an optimiser)."""

    loader: Any
    steps: list[Step] = field(default_factory=list)

    @property
    def training(self) -> bool:
        """Whether an optimiser steps in it."""
        return any(name == "step" for s in self.steps for name, _, _ in s.optimizers)

    @property
    def kind(self) -> str:
        """What the hints call a step of it."""
        return "training" if self.training else "evaluation"

    @property
    def plain(self) -> list[Step]:
        """Steps whose time counts: the first of all is warm-up."""
        return [s for s in self.steps[1:] if not s.observed and not s.cut and s.wall]

    @property
    def seconds(self) -> float:
        """Time of a step, 0 when too few were seen: the lower quartile, for what disturbs a machine only adds."""
        times = sorted(s.seconds for s in self.plain)
        return times[len(times) // 4] if times else 0.0

    @property
    def observed(self) -> list[Step]:
        """The steps whose ops were recorded."""
        return [s for s in self.steps if s.observed and not s.cut]

    def per_step(self, kind: str) -> float:
        """Seconds of such spans in a plain step, the lower quartile too."""
        times = sorted(sum(x.seconds for x in s.spans if x.kind == kind) for s in self.plain)
        return times[len(times) // 4] if times else 0.0


class Recorder:
    """Listens to phases all the time and to ops in a few steps. ``loops`` is what rules read."""

    nodes = False
    parent_only = True

    def __init__(self, steps: int = 12, seconds: float = 60.0) -> None:
        self.limit, self.deadline = steps, perf_counter() + seconds
        self.loops: dict[int, Loop] = {}
        self.loop: Loop | None = None
        self.step: Step | None = None
        self._iterators: dict[int, list[Any]] = {}
        self._loader: Any = None
        self._depth = 0
        self._module_depth = 0
        self._phase = ""
        self._attached = False

    # -------------------------------------------------------------- steps
    def _observe(self, loop: Loop) -> bool:
        """Whether the next step is one of those recorded: the fourth and fifth, or the last two of a short loop."""
        index = len(loop.steps)
        try:
            length = len(loop.loader) if loop.loader is not None else self.limit
        except TypeError:
            length = self.limit
        length = min(length, self.limit)
        return index in ((3, 4) if length >= 6 else (max(length - 2, 1), max(length - 1, 2)))

    def _begin(self, loop: Loop, now: float) -> None:
        self._end(now)
        self.loop = loop
        self.step = Step(len(loop.steps), self._observe(loop), now, process_time())
        loop.steps.append(self.step)
        if self.step.observed:
            observe.attach(self)
            self._attached = True

    def _end(self, now: float, cut: bool = False) -> None:
        if self._attached:
            observe.detach(self)
            self._attached = False
        if self.step is not None:
            self.step.wall, self.step.cpu, self.step.cut = now - self.step.start, process_time() - self.step.began_cpu, cut
        self.step = None

    # -------------------------------------------------------------- phases
    def enter(self, kind: str, name: str, what: Any) -> Any:
        now = perf_counter()
        if kind == "loader":
            self._end(now, cut=True)
            self._loader = what
        elif kind == "data" and self._phase != "data":
            self._data(what, now)
        site = caller(2)
        if kind == "backward" and self.step is not None:
            self.step.backward = True
        elif kind == "optimizer" and self.step is None and self._loader is None:
            # A loop without a loader: this step ran before there was anything to measure it by.
            self._begin(self.loops.setdefault(0, Loop(None)), now)
        outer, self._phase = self._phase, kind if self._phase != "data" else "data"
        return kind, name, what, site, now, outer, sys.exc_info()[1], process_time()

    def _data(self, iterator: Any, now: float) -> None:
        if now > self.deadline:
            self._end(now, cut=True)
            raise Enough
        if id(iterator) not in self._iterators:
            self._iterators[id(iterator)] = [iterator, self._loader, 0]
        seen = self._iterators[id(iterator)]
        loop = self.loops.setdefault(id(seen[1]), Loop(seen[1]))
        seen[2] += 1
        # Later passes are short ones: one step of each, so that what comes behind the training is reached.
        if len(loop.steps) >= self.limit and seen[2] > 1:
            self._end(now)
            del self._iterators[id(iterator)]
            raise StopIteration
        self._begin(loop, now)

    def leave(self, token: Any) -> None:
        kind, name, what, site, start, self._phase, exception, cpu = token
        now = perf_counter()
        if self.step is None:
            return
        now_raised = sys.exc_info()[1]
        if kind == "data" and isinstance(now_raised, StopIteration) and now_raised is not exception:
            # The loader is through: what was begun is no step.
            self._end(now)
            if self.loop is not None:
                self.loop.steps.pop()
            self._iterators.pop(id(what), None)
            return
        if kind == "optimizer":
            method = name.rsplit(".", 1)[-1]
            self.step.optimizers.append((method, what, site))
            if method == "step" and self.loop is not None and self.loop.loader is None:
                self._begin(self.loop, now)
                if len(self.loop.steps) > self.limit or now > self.deadline:
                    self._end(now, cut=True)
                    raise Enough
        if kind in ("data", "save", "backward", "optimizer"):
            self.step.spans.append(Span(kind, site, now - start, process_time() - cpu, what))

    # -------------------------------------------------------------- ops
    def before(self, row: Any, args: Any) -> Any:
        self._depth += 1
        if self._depth > 1 or observe.state.walks or self.step is None or len(self.step.calls) >= MAX_CALLS:
            return None
        site = caller(2)
        if site is None:
            return None
        from mindtorch import torch

        call = Call(row.name, row, list(args), site, self._phase, self.step.index, grad=torch.is_grad_enabled())
        call.seconds = perf_counter()
        return call

    def after(self, row: Any, args: Any, out: Any, token: Any) -> None:
        self._depth -= 1
        if token is None:
            return
        from mindtorch.tools.advice.trial import tensors

        token.seconds = perf_counter() - token.seconds
        token.out = out
        token.versions = tuple(t._version for t in (*tensors(token.args)[:1], *tensors(out)[:1]))
        if self.step is not None:
            self.step.calls.append(token)

    def failed(self, token: Any) -> None:
        self._depth -= 1

    # -------------------------------------------------------------- modules
    def module_enter(self, module: Any, args: Any, kwargs: Any) -> None:
        from mindtorch import torch

        self._module_depth += 1
        if self._module_depth == 1 and self.step is not None and self.step.observed:
            site = caller(2)
            if site is not None:
                self.step.modules.append(ModuleCall(module, args, dict(kwargs), site, torch.is_grad_enabled()))

    def module_leave(self, module: Any, args: Any, kwargs: Any, out: Any) -> None:
        self._module_depth -= 1
        if self._module_depth == 0 and self.step is not None and self.step.modules:
            if self.step.modules[-1].module is module:
                self.step.modules[-1].out = out

    def printed(self, site: Site, seconds: float) -> None:
        """A call of ``print`` in the script."""
        if self.step is not None:
            self.step.spans.append(Span("print", site, seconds, seconds))

    def close(self) -> None:
        """The script ended: the step it was in is not a whole one."""
        self._end(perf_counter(), cut=True)


@contextmanager
def recording(recorder: Recorder) -> Iterator[Recorder]:
    """Listen while the block runs."""
    from mindtorch.torch.nn.modules import module

    real = builtins.print

    def timed(*args: Any, **kwargs: Any) -> None:
        start = perf_counter()
        real(*args, **kwargs)
        site = caller(2)
        if site is not None and site.direct:
            recorder.printed(site, perf_counter() - start)

    hooks = [
        module.register_module_forward_pre_hook(lambda m, a: recorder.module_enter(m, a, {})),
        module.register_module_forward_hook(lambda m, a, o: recorder.module_leave(m, a, {}, o), always_call=True),
    ]
    observe.RANGES.append(recorder)
    builtins.print = timed
    try:
        yield recorder
    finally:
        builtins.print = real
        recorder.close()
        with suppress(ValueError):
            observe.RANGES.remove(recorder)
        for h in hooks:
            h.remove()


