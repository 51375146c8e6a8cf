"""Keeps NumPy's floating-point warnings inside kernels without touching the user's ``np.seterr``.

A ufunc takes an error mask per call (NumPy 1.x ``extobj``), which costs 27 ns; ``np.errstate`` costs 1.9 us and is
thread-local state, so it is used only around calls that are not ufuncs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

EXTOBJ: list[Any] = [8192, 0, None]
"""Buffer size, error mask (ignore everything), handler: passed as ``extobj=`` to ufuncs."""


class quiet:  # noqa: N801 - used like a function
    """Context in which NumPy reports no floating-point event; restores the caller's state on exit.

    Four times cheaper than ``np.errstate``: it swaps the thread's error object without building dictionaries.
    """

    __slots__ = ("old",)

    def __enter__(self) -> None:
        self.old = np.geterrobj()
        np.seterrobj(EXTOBJ)

    def __exit__(self, *exc: object) -> None:
        np.seterrobj(self.old)


def ufunc(fn: np.ufunc) -> Callable[..., Any]:
    """The ufunc with reports switched off; the raw ufunc stays reachable as ``.ufunc`` for fast paths."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return fn(*args, extobj=EXTOBJ, **kwargs)

    call.__name__ = fn.__name__
    call.ufunc = fn  # type: ignore[attr-defined]
    return call
