"""softmax, log_softmax and their derivatives over one dimension of a raw float array.

Three bodies: tiny rows through BLAS products with cached ones under an overflow guard; fused row loops once numba is in
use; the plain max-shifted NumPy formulation otherwise.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mindtorch.engine.host import jit
from mindtorch.engine.host.jit import fused
from mindtorch.engine.host.quiet import EXTOBJ as E
from mindtorch.engine.host.quiet import quiet

F32 = np.dtype(np.float32)
F = np.float32
GUARD = 6400.0
"""Sum of squares under which no element exceeds 80 in size: exp neither overflows nor loses the row sum."""


class _Ones(dict):  # type: ignore[type-arg]
    def __missing__(self, n: int) -> np.ndarray:
        self[n] = got = np.ones((n, n), np.float32)
        return got


SQUARE = _Ones()
"""n -> ones((n, n)): ``x.dot(SQUARE[n])`` is the row sum in every column, with no broadcast afterwards."""


def rows(a: np.ndarray, dim: int) -> tuple[np.ndarray, tuple[int, ...] | None]:
    """``a`` as contiguous rows with ``dim`` last; the second value is the moved shape, None when nothing moved."""
    nd = a.ndim
    if dim == -1 or dim == nd - 1:
        if not a.flags.c_contiguous:
            a = np.ascontiguousarray(a)
        n = a.shape[-1]
        return (a if nd == 2 else a.reshape(a.size // n if n else 0, n)), None
    a = a.swapaxes(dim, -1)
    return np.ascontiguousarray(a).reshape(-1, a.shape[-1]), a.shape


def back(r: np.ndarray, like: np.ndarray, dim: int, moved: tuple[int, ...] | None) -> np.ndarray:
    """Undo :func:`rows`: an array of ``like``'s shape, contiguous."""
    if moved is None:
        return r if like.ndim == 2 else r.reshape(like.shape)
    return np.ascontiguousarray(r.reshape(moved).swapaxes(dim, -1))


# ---------------------------------------------------------------------- fused rows (float32)
def row_max(r):  # type: ignore[no-untyped-def]
    """The maximum, through an order-preserving integer key: vectorises, where a float maximum does not."""
    key = np.int32(-2147483648)
    for j in range(r.size):
        b = f2i(r[j])  # type: ignore[name-defined]  # noqa: F821
        b = b ^ ((b >> np.int32(31)) & np.int32(0x7FFFFFFF))
        key = max(key, b)
    key = key ^ ((key >> np.int32(31)) & np.int32(0x7FFFFFFF))
    return i2f(key)  # type: ignore[name-defined]  # noqa: F821


def exp_sum(r, top):  # type: ignore[no-untyped-def]
    """Sum of ``exp(r - top)``."""
    s = F(0.0)
    for j in range(r.size):
        s += exp32(r[j] - top)  # type: ignore[name-defined]  # noqa: F821
    return s


ROW = (row_max, exp_sum)
"""Helpers of the fused loops over rows of logits. (One that writes exponentials costs a quarter of the loop's speed.)"""


def _fall_forward(x: np.ndarray, out: np.ndarray, log: bool, nt: int) -> None:
    out[:] = _plain(x, log)


@fused(_fall_forward, parallel=True, reduction=True, helpers=ROW)
def _forward_rows(x, out, log, nt):  # type: ignore[no-untyped-def]
    m, n = x.shape
    step = (m + nt - 1) // nt
    for t in prange(nt):  # type: ignore[name-defined]  # noqa: F821
        for i in range(t * step, min(m, (t + 1) * step)):
            r = x[i]
            o = out[i]
            top = row_max(r)
            if log:
                shift = F(math.log(exp_sum(r, top)))
                for j in range(n):
                    o[j] = (r[j] - top) - shift
            else:
                s = F(0.0)
                for j in range(n):
                    e = exp32(r[j] - top)  # type: ignore[name-defined]  # noqa: F821
                    o[j] = e
                    s += e
                inv = F(1.0) / s
                for j in range(n):
                    o[j] = o[j] * inv


def _fall_backward(g: np.ndarray, y: np.ndarray, out: np.ndarray, log: bool, nt: int) -> None:
    out[:] = _plain_backward(g, y, log)


@fused(_fall_backward, parallel=True, reduction=True)
def _backward_rows(g, y, out, log, nt):  # type: ignore[no-untyped-def]
    m, n = y.shape
    step = (m + nt - 1) // nt
    for t in prange(nt):  # type: ignore[name-defined]  # noqa: F821
        for i in range(t * step, min(m, (t + 1) * step)):
            gr = g[i]
            r = y[i]
            o = out[i]
            s = F(0.0)
            if log:
                for j in range(n):
                    s += gr[j]
                for j in range(n):
                    o[j] = gr[j] - exp32(r[j]) * s  # type: ignore[name-defined]  # noqa: F821
            else:
                for j in range(n):
                    s += gr[j] * r[j]
                for j in range(n):
                    o[j] = r[j] * (gr[j] - s)


# ---------------------------------------------------------------------- NumPy
def _plain(x: np.ndarray, log: bool) -> Any:
    with quiet():
        e = x - x.max(-1, keepdims=True)
        if log:
            return e - np.log(np.exp(e).sum(-1, keepdims=True))
        np.exp(e, out=e)
        e /= e.sum(-1, keepdims=True)
        return e


def _plain_backward(g: np.ndarray, y: np.ndarray, log: bool) -> Any:
    with quiet():
        if log:
            return g - np.exp(y) * g.sum(-1, keepdims=True)
        gy = g * y
        return gy - y * gy.sum(-1, keepdims=True)


def run(a: np.ndarray, dim: int, log: bool) -> np.ndarray:
    """softmax (or its logarithm) of ``a`` over ``dim``."""
    fn = _forward_rows.compiled
    if fn is not None and a.ndim == 2 and a.dtype is F32 and 0 < a.size < 65536 and (dim == -1 or dim == 1):
        out = np.empty(a.shape, F32)
        fn(a if a.flags.c_contiguous else np.ascontiguousarray(a), out, log, 1)
        return out
    return _general(a, dim, log)


def _general(a: np.ndarray, dim: int, log: bool) -> np.ndarray:
    if a.size == 0 or a.ndim == 0:
        with quiet():
            return np.subtract(a, a) if log else np.exp(a - a)
    if a.dtype is F32 and (_forward_rows.compiled is not None or _forward_rows.tick(a.size)):
        x, moved = rows(a, dim)
        out = np.empty(x.shape, F32)
        _forward_rows(x, out, log, jit.threads_for(a.size))
        return back(out, a, dim, moved)
    if a.ndim == 2 and (dim == -1 or dim == 1) and a.dtype is F32 and a.size <= 4096 and a.shape[1] <= 64:
        q = a.ravel()
        if float(q.dot(q)) < GUARD:
            e = np.exp(a)
            s = e.dot(SQUARE[a.shape[1]])
            return np.subtract(a, np.log(s, s), s) if log else np.divide(e, s, e)
    x, moved = rows(a, dim)
    return back(_plain(x, log), a, dim, moved)


def softmax(a: np.ndarray, dim: int) -> np.ndarray:
    """exp(a) / sum(exp(a)) over ``dim``."""
    return run(a, dim, False)


def log_softmax(a: np.ndarray, dim: int) -> np.ndarray:
    """a - log(sum(exp(a))) over ``dim``."""
    return run(a, dim, True)


def _back(g: np.ndarray, y: np.ndarray, dim: int, log: bool) -> np.ndarray:
    if y.ndim == 0 or y.size == 0:
        return np.zeros_like(y)
    if g.dtype is F32 and y.dtype is F32:
        if _backward_rows.compiled is not None or _backward_rows.tick(y.size):
            r, moved = rows(y, dim)
            gr, _ = rows(g, dim)
            out = np.empty(r.shape, F32)
            _backward_rows(gr, r, out, log, jit.threads_for(y.size))
            return back(out, y, dim, moved)
        if y.ndim == 2 and (dim == -1 or dim == 1) and y.size <= 4096 and y.shape[1] <= 64:
            return _small_backward(g, y, log)
    r, moved = rows(y, dim)
    gr, _ = rows(g, dim)
    return back(_plain_backward(gr, r, log), y, dim, moved)


def _small_backward(g: np.ndarray, y: np.ndarray, log: bool) -> np.ndarray:
    one = SQUARE[y.shape[1]]
    if log:
        e = np.exp(y, extobj=E)
        np.multiply(e, g.dot(one), e, extobj=E)
        return np.subtract(g, e, e, extobj=E)
    p = np.multiply(g, y, extobj=E)
    s = p.dot(one)
    np.multiply(s, y, s, extobj=E)
    return np.subtract(p, s, p, extobj=E)


def softmax_backward(g: np.ndarray, y: np.ndarray, dim: int) -> np.ndarray:
    """Gradient of the input of softmax from the gradient and value of its result."""
    return _back(g, y, dim, False)


def log_softmax_backward(g: np.ndarray, y: np.ndarray, dim: int) -> np.ndarray:
    """Gradient of the input of log_softmax from the gradient and value of its result."""
    return _back(g, y, dim, True)
