"""How kernels and rows report bad input: PyTorch's exception type, and a message that names op, argument and value."""

from __future__ import annotations


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
