"""channels_last: a result takes the memory order of the arrays it was computed from."""

from __future__ import annotations

import numpy as np

_TO_LAST = {4: (0, 2, 3, 1), 5: (0, 2, 3, 4, 1)}
_FROM_LAST = {4: (0, 3, 1, 2), 5: (0, 4, 1, 2, 3)}


def is_channels_last(a: np.ndarray) -> bool:
    """Whether (N, C, *size) lies in memory as (N, *size, C) and not also as (N, C, *size)."""
    if a.flags.c_contiguous or a.ndim not in _TO_LAST:
        return False
    return bool(a.transpose(_TO_LAST[a.ndim]).flags.c_contiguous)


def like(y: np.ndarray, *sources: np.ndarray) -> np.ndarray:
    """``y`` in channels_last order when one of ``sources`` is, else as it is."""
    if y.ndim in _TO_LAST and any(is_channels_last(a) for a in sources):
        return np.ascontiguousarray(y.transpose(_TO_LAST[y.ndim])).transpose(_FROM_LAST[y.ndim])
    return y
