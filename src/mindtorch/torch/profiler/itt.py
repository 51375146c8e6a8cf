"""``torch.profiler.itt``: marks for Intel's VTune, which is not looked for here: ``is_available()`` says so."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from mindtorch.torch.autograd.profiler import record_function

__all__ = ["is_available", "mark", "range", "range_pop", "range_push"]


def is_available() -> bool:
    """Whether marks reach VTune: never."""
    return False


def _refuse(name: str) -> Any:
    raise RuntimeError(f"torch.profiler.itt.{name}(): ITT functions are not available here; use torch.profiler.record_function")


def range_push(msg: str) -> int:
    """RuntimeError, as in a PyTorch without ITT."""
    return _refuse("range_push")


def range_pop() -> int:
    """RuntimeError, as in a PyTorch without ITT."""
    return _refuse("range_pop")


def mark(msg: str) -> None:
    """RuntimeError, as in a PyTorch without ITT."""
    _refuse("mark")


@contextlib.contextmanager
def range(msg: str, *args: Any, **kwargs: Any) -> Iterator[None]:  # noqa: A001 - public name
    """The block as a range of profiles; ``msg`` is formatted with the further arguments."""
    with record_function(msg.format(*args, **kwargs)):
        yield
