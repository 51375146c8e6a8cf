"""The callable that ``torch.compile`` and ``mindtorch.graph`` give back, and what it knows of its function."""

from __future__ import annotations

import functools
import logging
import sys
import weakref
from collections.abc import Callable
from typing import Any

from mindtorch import log
from mindtorch.core import observe
from mindtorch.graph import calls, choice, readings
from mindtorch.graph.calls import Entry, NotCaptured, entry_from, own_history, sign
from mindtorch.graph.capture import Recorder, allowed_now, recording
from mindtorch.graph.readings import PATHS, Diverged
from mindtorch.graph.watch import Stopped, Watch

LIMIT = 32
"""Specialisations of one function; past that it runs eagerly, as it would recompile for ever."""
SPLIT: weakref.WeakSet[Any] = weakref.WeakSet()
"""Modules whose calls were made graphs of their own, because something around them could not be captured."""


class Compiled:
    """``fn`` with captured programs. ``report`` holds, for :func:`explain`, breaks as (reason, file:line)."""

    def __init__(self, fn: Callable[..., Any], fullgraph: bool = False, backend: str = "auto", owner: Any = None) -> None:
        self.fn, self.fullgraph, self.backend, self.owner = fn, fullgraph, backend, owner
        self.entries: dict[Any, list[Entry]] = {}
        self.count = 0
        self.breaks: list[tuple[str, str]] = []
        self.eager_only = backend == "eager"
        self.parts: list[Any] = []
        self.splits: list[tuple[str, str]] = []
        self.watch: Watch | None = None
        functools.update_wrapper(self, fn, updated=())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The result of ``fn``."""
        if self.eager_only or calls.state.capturing or allowed_now() is not None:
            return self.fn(*args, **kwargs)
        objects: list[Any] = []
        try:
            key, tensors = sign(args, kwargs, objects)
            entries = self.entries.get(key)
        except TypeError:  # an argument that cannot be part of a key
            return self.fn(*args, **kwargs)
        paths = 0
        for entry in entries or ():
            state = entry.guard()
            if state is not None:
                try:
                    return self.run(entry, [tensors[n] for n in entry.inputs] + state, args, kwargs)
                except Diverged:
                    paths += 1
        if paths >= PATHS:
            self.stop([(f"{self.splits[-1][0]}, and more than {PATHS} were met", self.splits[-1][1])], self.watch)
            return self.fn(*args, **kwargs)
        return self.capture(key, tensors, objects, args, kwargs)

    def run(self, entry: Entry, given: list[Any], args: Any, kwargs: Any) -> Any:
        """The result by one program, or eagerly where that is better. Diverged: the program is of another path."""
        if entry.program.effects and observe.RANGES:  # a tool wants to see the phases of the step
            return self.fn(*args, **kwargs)
        if entry.written and _overlap(entry, given):
            return self.fn(*args, **kwargs)
        if entry.chosen is None:
            if self.backend in choice.MEASURED:
                return choice.timed(self.name, entry, given, lambda: self.fn(*args, **kwargs), self.backend == "best")
            entry.chosen = "mindspore" if self.backend == "mindspore" and entry.compile_mindspore() else "host"
            entry.use(entry.chosen)
        return self.fn(*args, **kwargs) if entry.chosen == "eager" else entry(given)

    @property
    def name(self) -> str:
        """The function's name, the class's for modules."""
        return _name(self.fn)

    def __get__(self, obj: Any, cls: Any = None) -> Any:
        return self if obj is None else functools.partial(self, obj)

    def capture(self, key: Any, tensors: Any, objects: Any, args: Any, kwargs: Any) -> Any:
        """Run eagerly under a recorder, and keep the program when it is sound."""
        if self.count >= LIMIT:
            self.stop([(f"more than {LIMIT} specialisations", "the call")])
            return self.fn(*args, **kwargs)
        if sys.getprofile() is not None:
            log.once(logging.INFO, f"graph of {_name(self.fn)}: runs eagerly while another profiler is running")
            return self.fn(*args, **kwargs)
        self.count += 1
        watch = Watch(strict=self.fullgraph)
        rec = Recorder(watch, tensors)
        calls.state.capturing = True
        try:
            with recording(watch, rec):
                out = self.fn(*args, **kwargs)
                history = own_history(rec, watch, out)
        except Stopped as e:
            self.stop(list(watch.reasons), watch, e)
        finally:
            calls.state.capturing = False
            rec.finished = True
        try:
            owner = self.owner if self.owner is not None else getattr(self.fn, "__self__", None)
            roots = [*objects, *([owner] if owner is not None else []), self.fn]
            roots = [_plain_function(r) for r in roots]
            entry = entry_from(rec, watch, tensors, roots, out, (args, kwargs), history)
            entry.held = objects  # type: ignore[attr-defined]
            if rec.splits:
                self.watch = watch
                self.splits += [r for r in rec.splits if r not in self.splits]
                self.breaks += [r for r in rec.splits if r not in self.breaks]
            self.entries.setdefault(key, []).append(entry)
        except (NotCaptured, Stopped) as e:
            reasons = list(watch.reasons)
            if str(e):
                reasons.append((str(e), _place(self.fn)))
            self.stop(reasons, watch)
        return readings.plain(out)

    def stop(self, reasons: list[tuple[str, str]], watch: Watch | None = None, at: BaseException | None = None) -> None:
        """The function runs eagerly from now on, the modules it calls as graphs of their own. RuntimeError: ``fullgraph``."""
        self.breaks += [r for r in reasons if r not in self.breaks]
        text = "; ".join(f"{where}: {why}" for why, where in reasons[:3])
        if self.fullgraph:
            error = RuntimeError(
                f"graph of {_name(self.fn)}: cannot be captured whole (fullgraph=True): {text}. Run it eagerly (PyNative) "
                "first to see that it works, then move this line out of the function, or leave fullgraph out"
            )
            raise error.with_traceback(None if at is None else at.__traceback__) from None
        if any(why == "another profiler is running" for why, _ in reasons):
            self.count -= 1
            return
        self.eager_only = True
        parts = split(self, watch)
        log.once(
            logging.INFO if parts else logging.WARNING,
            f"graph of {_name(self.fn)}: runs eagerly ({text})" + (f"; {parts} modules in it run as graphs" if parts else ""),
        )


class KeptOut:
    """A function that no function which calls it is captured with (``torch.compiler.disable``)."""

    def __init__(self, fn: Callable[..., Any], reason: str | None) -> None:
        self.fn, self.reason = fn, reason
        functools.update_wrapper(self, fn, updated=())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.fn(*args, **kwargs)

    def __get__(self, obj: Any, cls: Any = None) -> Any:
        return self if obj is None else functools.partial(self, obj)


def _overlap(entry: Entry, given: list[Any]) -> bool:
    """Whether an argument shares memory with what the program writes to."""
    import numpy as np

    n = len(entry.inputs)
    return any(given[j] is not t and np.may_share_memory(given[j].a, t.a) for j in set(entry.written) for t in given[:n])


def split(compiled: Compiled, watch: Watch | None) -> int:
    """Make the modules that a function calls graphs of their own. How many."""
    from mindtorch.torch.nn import Module

    found: list[Any] = []
    if isinstance(compiled.owner, Module):
        found = list(compiled.owner.children())
    elif watch is not None:
        for code, (scope, cells) in list(watch.frames.items()):
            if str(scope.get("__name__", "")).startswith("mindtorch"):
                continue
            named = [*(scope[n] for n in code.co_names if n in scope), *cells.values()]
            found += [m for m in named if isinstance(m, Module)]
            owner = [getattr(m, "__self__", None) for m in named]
            found += [m for m in owner if isinstance(m, Module)]
    done = 0
    for m in found:
        if m.__dict__.get("_compiled_call_impl") is None and sum(1 for _ in m.modules()) > 1:
            own(m, compiled.backend)
            compiled.parts.append(m)
            done += 1
    return done


def own(module: Any, backend: str = "auto", fullgraph: bool = False) -> Compiled:
    """Let calls of ``module`` itself run as a graph."""
    from mindtorch.torch.nn.modules import _hooks

    got = Compiled(module._call_impl, fullgraph, backend, owner=module)
    module.__dict__["_compiled_call_impl"] = got
    _hooks.mark_hooked()
    SPLIT.add(module)
    return got


def reset() -> None:
    """Let modules that were made graphs on the way run eagerly again."""
    for m in list(SPLIT):
        m.__dict__.pop("_compiled_call_impl", None)
    SPLIT.clear()


def _plain_function(f: Any) -> Any:
    return f.__func__ if hasattr(f, "__func__") and hasattr(f, "__self__") else f


def _name(fn: Any) -> str:
    owner = getattr(fn, "__self__", None)
    return type(owner).__name__ if owner is not None else getattr(fn, "__qualname__", type(fn).__name__)


def _place(fn: Any) -> str:
    owner = getattr(fn, "__self__", None)
    code = getattr(getattr(type(owner), "forward", fn) if owner is not None else fn, "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code is not None else "the call"
