"""Compiled reductions over runs of a contiguous float32 array: products, moments, log-sum-exp.

Arrays are (outer, n, inner) with the middle one reduced. Each function returns None while its loop is not in use (the
caller has a NumPy path).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mindtorch.engine.host.jit import Fused, fused

F4 = np.dtype(np.float32)
WIDE = 64
"""Columns from which moments down the columns stay with NumPy: a strided walk misses the cache."""


def _unused(*args: Any) -> None:
    """NumPy twin: never called, because callers ask ``_ready`` first and have NumPy paths of their own."""
    raise RuntimeError("the compiled reduction is not in use")


def _ready(loop: Fused, a: np.ndarray) -> bool:
    if a.dtype is not F4 or not a.flags.c_contiguous or not a.size:
        return False
    return loop.compiled is not None or loop.tick(a.size)


def _done(loop: Fused, *args: Any) -> bool:
    """Run ``loop``; False when it does not compile (`_unused` has taken its place)."""
    try:
        loop(*args)
    except RuntimeError:
        return False
    return True


def _parts(a: np.ndarray, axis: int | None) -> tuple[int, int, int]:
    if axis is None:
        return 1, a.size, 1
    shape = a.shape
    return math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :])


def _without(shape: tuple[int, ...], axis: int | None, keep: bool) -> tuple[int, ...]:
    if axis is None:
        return (1,) * len(shape) if keep else ()
    return shape[:axis] + ((1,) if keep else ()) + shape[axis + 1 :]


# ------------------------------------------------------------------------------------------ products
@fused(_unused, reduction=True)
def _prod_rows(x, out):  # type: ignore[no-untyped-def]
    for i in range(x.shape[0]):
        row = x[i]
        p = np.float32(1.0)
        for j in range(row.size):
            p *= row[j]
        out[i] = p


def prod_last(a: np.ndarray, keep: bool) -> np.ndarray | None:
    """Product over the last dimension."""
    if a.shape[-1] < 32 or not _ready(_prod_rows, a):
        return None
    out = np.empty(_without(a.shape, a.ndim - 1, keep), F4)
    return out if _done(_prod_rows, a.reshape(-1, a.shape[-1]), out.reshape(-1)) else None


# ------------------------------------------------------------------------------------------ moments
@fused(_unused, reduction=True)
def _moments(x, var, mean, divisor, root):  # type: ignore[no-untyped-def]
    outer, n, inner = x.shape
    for o in range(outer):
        for k in range(inner):
            s = 0.0
            for j in range(n):
                s += x[o, j, k]
            m = s / n
            s = 0.0
            for j in range(n):
                d = x[o, j, k] - m
                s += d * d
            s /= divisor
            mean[o, k] = m
            var[o, k] = math.sqrt(s) if root else s


def moments(
    a: np.ndarray, axis: int | None, correction: float, keep: bool, root: bool
) -> tuple[np.ndarray, np.ndarray] | None:
    """Variance (deviation with ``root``) and mean over one axis, or over everything, carried in double."""
    outer, n, inner = _parts(a, axis)
    if n - correction <= 0 or inner >= WIDE or not _ready(_moments, a):
        return None
    shape = _without(a.shape, axis, keep)
    var, mean = np.empty(shape, F4), np.empty(shape, F4)
    parts = (a.reshape(outer, n, inner), var.reshape(outer, inner), mean.reshape(outer, inner))
    return (var, mean) if _done(_moments, *parts, n - correction, root) else None


# ------------------------------------------------------------------------------------------ log-sum-exp
@fused(_unused, reduction=True)
def _lse_rows(x, out):  # type: ignore[no-untyped-def]
    for i in range(x.shape[0]):
        row = x[i]
        top = row[0]
        bad = False
        for j in range(row.size):
            v = row[j]
            top = v if v > top else top
            bad = bad or v != v
        if bad:
            out[i] = np.float32(np.nan)
        elif math.isinf(top):
            # all -inf gives -inf; +inf wins over everything
            out[i] = top
        else:
            s = np.float32(0.0)
            for j in range(row.size):
                s += exp32(row[j] - top)  # noqa: F821
            out[i] = np.float32(math.log(s)) + top


def logsumexp_last(a: np.ndarray, keep: bool) -> np.ndarray | None:
    """``log(sum(exp(a)))`` over the last dimension."""
    if not _ready(_lse_rows, a):
        return None
    out = np.empty(_without(a.shape, a.ndim - 1, keep), F4)
    return out if _done(_lse_rows, a.reshape(-1, a.shape[-1]), out.reshape(-1)) else None


# ------------------------------------------------------------------------------------------ sums of squares
@fused(_unused, reduction=True)
def _square_rows(x, out):  # type: ignore[no-untyped-def]
    for i in range(x.shape[0]):
        row = x[i]
        n = row.size
        total = 0.0
        for b in range(0, n, 4096):
            part = row[b : min(n, b + 4096)]
            s = np.float32(0.0)
            for j in range(part.size):
                s += part[j] * part[j]
            total += s
        out[i] = total


def square_sum(a: np.ndarray, axis: int | None, keep: bool) -> np.ndarray | None:
    """Sum of squares over the last dimension or over everything."""
    if (axis is not None and axis != a.ndim - 1) or not _ready(_square_rows, a):
        return None
    out = np.empty(_without(a.shape, axis, keep), F4)
    rows = a.reshape(1, -1) if axis is None else a.reshape(-1, a.shape[-1])
    return out if _done(_square_rows, rows, out.reshape(-1)) else None
