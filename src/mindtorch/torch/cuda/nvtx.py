"""``torch.cuda.nvtx``: ranges and marks in the profile of an accelerator that goes by the name of cuda."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from mindtorch.core.device import accelerators
from mindtorch.torch.autograd.profiler import record_function

__all__ = ["mark", "range", "range_end", "range_pop", "range_push", "range_start"]

_PUSHED: list[record_function] = []
_STARTED: dict[int, record_function] = {}
_NUMBERS = itertools.count(1)


def _begin(msg: str) -> record_function:
    if "cuda" not in accelerators():
        raise RuntimeError("NVTX functions not installed. Are you sure you have a CUDA build?")
    return record_function(msg).__enter__()


def range_push(msg: str) -> int:
    """Begin a nested range; returns its depth, from 0. RuntimeError without a device."""
    _PUSHED.append(_begin(msg))
    return len(_PUSHED) - 1


def range_pop() -> int:
    """End the innermost range; returns the depth it had, -1 when none is open."""
    if _PUSHED:
        _PUSHED.pop().__exit__(None, None, None)
        return len(_PUSHED)
    return -1


def range_start(msg: str) -> int:
    """Begin a range that may overlap others; returns the number by which :func:`range_end` ends it."""
    number = next(_NUMBERS)
    _STARTED[number] = _begin(msg)
    return number


def range_end(range_id: int) -> None:
    """End the range that :func:`range_start` began. KeyError when there is none of this number."""
    _STARTED.pop(range_id).__exit__(None, None, None)


def mark(msg: str) -> None:
    """A moment: a range without length."""
    _begin(msg).__exit__(None, None, None)


@contextmanager
def range(msg: str, *args: Any, **kwargs: Any) -> Iterator[None]:  # noqa: A001 - public name
    """``with range("name {}", i):``; the text is formatted by the arguments."""
    range_push(msg.format(*args, **kwargs))
    try:
        yield
    finally:
        range_pop()
