"""Host kernels that run along one dimension: cumulative sums, products, extrema. float32 carries in double, as
PyTorch."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mindtorch.core.errors import check, wrap_dim
from mindtorch.engine.host.jit import fused
from mindtorch.engine.host.quiet import quiet

F4 = np.dtype(np.float32)
F8 = np.dtype(np.float64)


# The ``body`` of a loop is the step from one running value to the next.
def _rows(a, out, first):  # type: ignore[no-untyped-def]
    for i in range(a.shape[0]):
        s = first
        for j in range(a.shape[1]):
            s = body(s, a[i, j])  # type: ignore[name-defined]  # noqa: F821
            out[i, j] = s


def _middle(a, out, first):  # type: ignore[no-untyped-def]
    p, n, k = a.shape
    carry = np.empty(k, np.float64)
    for b in range(p):
        carry[:] = first
        for i in range(n):
            row = a[b, i]
            to = out[b, i]
            for c in range(k):
                carry[c] = body(carry[c], row[c])  # type: ignore[name-defined]  # noqa: F821
                to[c] = carry[c]


def _plus(s, x):  # type: ignore[no-untyped-def]
    return s + x


def _times(s, x):  # type: ignore[no-untyped-def]
    return s * x


def _compiled(a: np.ndarray, d: int, rows: Any, middle: Any, first: float) -> np.ndarray | None:
    """Running sums or products along ``d`` by the compiled loops; None while they are not in use."""
    last = d == a.ndim - 1
    loop = rows if last else middle
    if loop.compiled is None and not loop.tick(a.size):
        return None
    out = np.empty(a.shape, F4)
    n = a.shape[d]
    shape = (-1, n) if last else (math.prod(a.shape[:d]), n, math.prod(a.shape[d + 1 :]))
    loop(a.reshape(shape), out.reshape(shape), first)
    return out


def _typed(a: np.ndarray, dtype: Any) -> np.ndarray:
    if dtype is not None:
        with quiet():
            return a.astype(dtype.np, copy=False)
    return a.astype(np.int64) if a.dtype.kind in "biu" and a.dtype != np.int64 else a


def _accumulate(fn: np.ufunc, step: Any) -> Any:
    first = float(fn.identity)

    def twin(a: np.ndarray, out: np.ndarray, first: float) -> None:
        with quiet():
            out[...] = fn.accumulate(a, axis=1, dtype=F8)

    rows, middle = fused(twin, helpers=(step,))(_rows), fused(twin, helpers=(step,))(_middle)

    def kernel(a: np.ndarray, dim: int, dtype: Any = None) -> np.ndarray:
        d = wrap_dim(dim, a.ndim)
        a = _typed(a, dtype)
        if a.ndim == 0:
            return a.copy()
        if a.dtype == F4 and a.flags.c_contiguous and a.size:
            got = _compiled(a, d, rows, middle, first)
            if got is not None:
                return got
        wide = F8 if a.dtype.itemsize <= 4 and a.dtype.kind in "fV" else a.dtype
        with quiet():
            return fn.accumulate(a, axis=d, dtype=wide).astype(a.dtype, copy=False)

    return kernel


cumsum = _accumulate(np.add, _plus)
cumprod = _accumulate(np.multiply, _times)


def _cum_extreme(fn: np.ufunc, beats: np.ufunc) -> Any:
    """Running extreme and where it was last met; a nan stays, with the place of the newest nan."""

    def kernel(a: np.ndarray, dim: int) -> tuple[np.ndarray, np.ndarray]:
        check(a.dtype.kind != "c", NotImplementedError, "cummax/cummin: complex tensors have no order")
        d = wrap_dim(dim, a.ndim)
        if a.ndim == 0 or not a.size:
            return a.copy(), np.zeros(a.shape, np.int64)
        v = fn.accumulate(a, axis=d)
        hit = a == v
        if a.dtype.kind == "f":
            hit |= np.isnan(a)
        at = np.arange(a.shape[d]).reshape([-1 if i == d else 1 for i in range(a.ndim)])
        return v, np.maximum.accumulate(np.where(hit, at, 0), axis=d)

    return kernel


cummax = _cum_extreme(np.maximum, np.greater_equal)
cummin = _cum_extreme(np.minimum, np.less_equal)


def logcumsumexp(a: np.ndarray, dim: int) -> np.ndarray:
    """``log(cumsum(exp(a)))`` without overflow."""
    check(a.dtype.kind in "fc", NotImplementedError, f"\"logcumsumexp_out_cpu\" not implemented for '{a.dtype.name}'")
    d = wrap_dim(dim, a.ndim)
    if a.ndim == 0 or not a.size:
        return a.copy()
    with quiet():
        if a.dtype.kind == "f":
            return np.logaddexp.accumulate(a, axis=d, dtype=F8).astype(a.dtype)
        rows = np.moveaxis(a, d, 0).astype(np.complex128)
        out = np.empty_like(rows)
        carry = out[0] = rows[0]
        for i in range(1, rows.shape[0]):
            carry = out[i] = _log_add(carry, rows[i])
        return np.moveaxis(out, 0, d).astype(a.dtype)


def _log_add(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    first = x.real >= y.real
    hi, lo = np.where(first, x, y), np.where(first, y, x)
    r = hi + np.log(1 + np.exp(lo - hi))
    return np.where(np.isneginf(hi.real), -np.inf + 1j * r.imag, r)
