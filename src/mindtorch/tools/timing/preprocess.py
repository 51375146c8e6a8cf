"""What preparing one batch costs in this process, and which transform or line of it is the slowest."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator
from types import CodeType, FrameType
from typing import Any, NamedTuple

_BATCHES = 3
_PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + os.sep


class Parts(NamedTuple):
    """Seconds of one batch: its samples, and putting them together."""

    samples: float
    collate: float

    @property
    def seconds(self) -> float:
        """Both."""
        return self.samples + self.collate


@contextlib.contextmanager
def _same_random() -> Iterator[None]:
    """Leave all random streams as they were: looking at a program must not change its numbers."""
    import random

    import numpy as np

    import mindtorch.torch as torch

    states = random.getstate(), np.random.get_state(), torch.get_rng_state()
    try:
        yield
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])
        torch.set_rng_state(states[2])


def _indices(loader: Any) -> list[Any] | None:
    """Indices of one batch, None for iterable datasets."""
    if not hasattr(loader.dataset, "__getitem__") or not hasattr(loader.dataset, "__len__"):
        return None
    if loader.batch_size is not None:
        return list(range(min(loader.batch_size, len(loader.dataset))))
    first = next(iter(loader.batch_sampler if loader.batch_sampler is not None else loader.sampler), None)
    return None if first is None else list(first) if isinstance(first, (list, tuple)) else [first]


def measure(loader: Any) -> Parts | None:
    """Times of a batch (the best of three), None when the dataset cannot be indexed or raises."""
    best: Parts | None = None
    with _same_random():
        try:
            indices = _indices(loader)
            if not indices:
                return None
            for _ in range(_BATCHES):
                began = time.perf_counter()
                samples = [loader.dataset[i] for i in indices]
                between = time.perf_counter()
                loader.collate_fn(samples)
                parts = Parts(between - began, time.perf_counter() - between)
                best = parts if best is None or parts.seconds < best.seconds else best
        except Exception:  # noqa: BLE001 - the dataset is the user's; a figure is missing then, and the program has run
            return None
    return best


# ------------------------------------------------------------------------------------------ the slowest part
def slowest(loader: Any, parts: Parts) -> str | None:
    """The slowest transform, or the slowest line of ``__getitem__`` or ``collate_fn``, with its share of a batch."""
    indices = _indices(loader)
    if not indices:
        return None
    with _same_random():
        if parts.collate > parts.samples:
            samples = [loader.dataset[i] for i in indices]
            return _line(loader.collate_fn, lambda: loader.collate_fn(samples), "collate_fn")
        return _transform(loader.dataset, indices) or _line(
            type(loader.dataset).__getitem__, lambda: [loader.dataset[i] for i in indices], f"{type(loader.dataset).__name__}.__getitem__"
        )


class _Timed:
    """A transform, and the seconds spent in it."""

    def __init__(self, inner: Any) -> None:
        self.inner, self.seconds = inner, 0.0

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        began = time.perf_counter()
        try:
            return self.inner(*args, **kwargs)
        finally:
            self.seconds += time.perf_counter() - began


def _composed(dataset: Any) -> list[list[Any]]:
    """Lists of transforms held by a dataset, or by the dataset it wraps."""
    found: list[list[Any]] = []
    seen: set[int] = set()
    while dataset is not None and id(dataset) not in seen:
        seen.add(id(dataset))
        for value in vars(dataset).values() if hasattr(dataset, "__dict__") else ():
            stages = getattr(value, "transforms", None)
            if isinstance(stages, list) and stages and all(callable(t) for t in stages):
                found.append(stages)
        dataset = getattr(dataset, "dataset", None)
    return found


def _transform(dataset: Any, indices: list[Any]) -> str | None:
    lists = _composed(dataset)
    if not lists:
        return None
    kept = [list(stages) for stages in lists]
    timed = [[_Timed(t) for t in stages] for stages in kept]
    began = time.perf_counter()
    try:
        for stages, replaced in zip(lists, timed):
            stages[:] = replaced
        for i in indices:
            dataset[i]
        total = time.perf_counter() - began
    finally:
        for stages, before in zip(lists, kept):
            stages[:] = before
    worst = max((t for stages in timed for t in stages), key=lambda t: t.seconds)
    if worst.seconds < 0.3 * total:
        return None
    return f"transform {worst.inner!r} ({worst.seconds / total * 100:.0f} % of the samples)"


def _code(fn: Any) -> CodeType | None:
    fn = getattr(fn, "func", fn)
    fn = getattr(fn, "__func__", fn)
    if not hasattr(fn, "__code__"):  # an object that is called
        fn = vars(type(fn)).get("__call__")
    return getattr(fn, "__code__", None)


def _line(fn: Any, run: Callable[[], Any], name: str) -> str:
    code = _code(fn)
    if code is None or code.co_filename.startswith(_PACKAGE):
        return f"{name} ({getattr(fn, '__name__', type(fn).__name__)})"
    spent = line_times(code, run)
    if not spent:
        return name
    line, seconds = max(spent.items(), key=lambda item: item[1])
    import linecache

    source = linecache.getline(code.co_filename, line).strip()
    share = seconds / sum(spent.values()) * 100
    return f"{name}, {code.co_filename}:{line}: {source} ({share:.0f} % of it)"


@contextlib.contextmanager
def traced(function: Any) -> Iterator[None]:
    """``function`` is this thread's trace function inside the block; the former one is put back."""
    before = sys.gettrace()
    sys.settrace(function)
    try:
        yield
    finally:
        sys.settrace(before)


def line_times(code: CodeType, run: Callable[[], Any]) -> dict[int, float]:
    """Seconds by line of the function with ``code`` while ``run()`` runs."""
    spent: dict[int, float] = {}
    at: dict[int, tuple[int, float]] = {}

    def local(frame: FrameType, event: str, arg: Any) -> Any:
        now = time.perf_counter()
        line, since = at.get(id(frame), (0, now))
        if line:
            spent[line] = spent.get(line, 0.0) + now - since
        at[id(frame)] = (frame.f_lineno if event != "return" else 0, time.perf_counter())
        return local

    def calls(frame: FrameType, event: str, arg: Any) -> Any:
        if frame.f_code is code:
            at[id(frame)] = (0, time.perf_counter())
            return local
        return None

    with traced(calls):
        run()
    return spent
