"""How kernels and rows report bad input: PyTorch's exception type, and a message that names op, argument and value."""

from __future__ import annotations

import functools
import os
import sys
from types import TracebackType
from typing import Any


def check(cond: object, exc: type[Exception], message: str) -> None:
    """Raise ``exc(message)`` unless ``cond`` holds."""
    if not cond:
        raise shown(exc(message))


def shown(error: Exception) -> Exception:
    """Mark an error of a kernel as worded for the user: dispatch passes it on as it is."""
    error.shown = True  # type: ignore[attr-defined]
    return error


def wrap_dim(dim: int, ndim: int) -> int:
    """A possibly negative dimension as one in ``[0, ndim)``; a 0-dim tensor accepts -1 and 0. IndexError otherwise."""
    n = ndim or 1
    if -n <= dim < n:
        return dim + n if dim < 0 else dim
    raise IndexError(f"Dimension out of range (expected to be in range of [{-n}, {n - 1}], but got {dim})")


# ------------------------------------------------------------------------------------------ tracebacks
_HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_INSIDE = (*(f"{_HERE}{room}{os.sep}" for room in ("core", "ops", "engine")), "<mindtorch")
"""Frames of these files say nothing about the user's program."""


def inside(tb: TracebackType) -> bool:
    """Whether a traceback entry is of dispatch, of a kernel or of generated code."""
    return tb.tb_frame.f_code.co_filename.startswith(_INSIDE)


def whole_tracebacks() -> bool:
    """Whether the user asked to see the frames inside operations: ``MINDTORCH_TRACEBACK=full`` or ``MSA_LOG=0``."""
    return os.environ.get("MINDTORCH_TRACEBACK") == "full" or os.environ.get("MSA_LOG", "").strip() == "0"


def last_outside(tb: TracebackType | None) -> TracebackType | None:
    """The last entry of ``tb`` that is not inside an operation, None when all are."""
    last = None
    while tb is not None:
        if not inside(tb):
            last = tb
        tb = tb.tb_next
    return last


def trim(error: BaseException) -> BaseException:
    """``error`` without the frames it passed inside operations; what the user's own code called from there added is kept."""
    if whole_tracebacks():
        return error
    last = last_outside(error.__traceback__)
    if last is None:
        error = error.with_traceback(None)
    else:
        last.tb_next = None
    before = error.__context__
    while before is not None and before.__traceback__ is not None and inside(before.__traceback__):
        before = before.__context__  # met and handled inside: not the user's doing
    if before is not error.__context__ and error.__cause__ is None:
        error.__context__, error.__suppress_context__ = before, False
    return error


def bounded(fn: Any) -> Any:
    """Decorator of a public function: its errors leave without the frames below it."""

    @functools.wraps(fn)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        try:
            return fn(*args, **kwargs)
        except Exception as err:
            __tracebackhide__ = True  # noqa: F841 - what test runners and notebooks look for
            raise trim(err)  # noqa: B904

    return wrapped


def show_trimmed(show: Any) -> Any:
    """An excepthook that ends tracebacks where the user's program called an operation, and passes on to ``show``."""

    def excepthook(kind: type[BaseException], value: BaseException, tb: TracebackType | None) -> None:
        if not whole_tracebacks():
            last = last_outside(tb)
            if last is not None:
                last.tb_next = None
        show(kind, value, tb)

    return excepthook


def install_hook() -> None:
    """Trim what an uncaught error shows, unless another tool has taken that over already."""
    if sys.excepthook is sys.__excepthook__:
        sys.excepthook = show_trimmed(sys.__excepthook__)
