"""How far two arrays are apart, in the numbers TroubleShooter's tables show."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np


class Distance(NamedTuple):
    """``allclose`` is True, False or a text (shapes differ); ``ratio`` the share of close elements; ``mean`` and ``max``
    of the absolute differences, over the elements that differ.
    """

    allclose: Any
    ratio: float
    cosine: float
    mean: float
    max: float


SHAPES = "Shape is inconsistent"
_PIECE = 1 << 20


def _numbers(a: np.ndarray) -> np.ndarray:
    """Values with enough digits to subtract: float64, long double for large integers, complex stays complex."""
    if a.dtype.kind == "c":
        return a.astype(np.complex128)
    if a.dtype.kind in "iu" and a.dtype.itemsize == 8:
        return a.astype(np.longdouble)
    return a.astype(np.float64)


class _Sums:
    """Running sums over pieces of two arrays, so that no whole copy in float64 is ever made."""

    def __init__(self) -> None:
        self.close = self.differing = 0
        self.total = self.max = self.aa = self.bb = 0.0
        self.ab: complex = 0.0

    def add(self, a: np.ndarray, b: np.ndarray, rtol: float, atol: float, equal_nan: bool) -> None:
        with np.errstate(all="ignore"):
            a, b = _numbers(a), _numbers(b)
            unequal = a != b
            if equal_nan:
                unequal &= ~(np.isnan(a) & np.isnan(b))
            self.close += int(np.isclose(a, b, rtol=rtol, atol=atol, equal_nan=equal_nan).sum())
            if unequal.any():
                gap = np.abs(a[unequal] - b[unequal])
                self.differing += gap.size
                self.total += float(gap.sum())
                self.max = max(self.max, float(gap.max())) if not np.isnan(gap).any() else math.nan
            self.aa += float((np.abs(a) ** 2).sum())
            self.bb += float((np.abs(b) ** 2).sum())
            self.ab += complex((a * b.conj()).sum())


def distance(a: np.ndarray, b: np.ndarray, rtol: float = 1e-4, atol: float = 1e-4, equal_nan: bool = False) -> Distance:
    """The distance of ``a`` from the reference ``b``. Bit-equal values give exactly (True, 1, 1, 0, 0)."""
    if a.shape != b.shape:
        return Distance(SHAPES, 0.0, math.nan, math.nan, math.nan)
    flat_a, flat_b = a.reshape(-1), b.reshape(-1)
    sums = _Sums()
    for at in range(0, flat_a.size, _PIECE):
        sums.add(flat_a[at : at + _PIECE], flat_b[at : at + _PIECE], rtol, atol, equal_nan)
    if not sums.differing:
        return Distance(True, 1.0, 1.0, 0.0, 0.0)
    return Distance(
        sums.close == a.size,
        sums.close / a.size,
        _cosine(sums),
        sums.total / sums.differing,
        sums.max,
    )


def _cosine(sums: _Sums) -> float:
    na, nb, tiny = math.sqrt(sums.aa), math.sqrt(sums.bb), np.finfo(float).eps
    if na <= tiny and nb <= tiny:
        return 1.0
    if na <= tiny or nb <= tiny or not math.isfinite(na * nb):
        return math.nan
    return min(1.0, max(-1.0, sums.ab.real / (na * nb)))
