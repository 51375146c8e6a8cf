"""Optimiser steps on raw float arrays: in place, in one pass with numba, in blocks with NumPy.

Public tensor ops give the same numbers. Callers switch NumPy's floating point reports off (`quiet`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mindtorch.engine.host import jit
from mindtorch.engine.host.jit import fused

BLOCK = 16_384
"""Elements NumPy works on at a time: several arrays of this size stay in the cache between passes."""
KERNEL_MIN = 2_048
"""Elements from which the one-pass kernels pay their call."""
_EMPTY = {np.dtype(d): np.empty(0, d) for d in ("f4", "f8")}


class Constants:
    """Numbers of an update in the parameters' type: an array for compiled code, 0-d arrays for NumPy, floats for tests.

    A Python number in a ufunc would cost a look-up of its type each time.
    """

    __slots__ = ("arrays", "values", "vector")

    def __init__(self, dtype: np.dtype, *values: float) -> None:
        self.values = values
        self.vector = np.array(values, dtype)
        self.arrays = [self.vector[i, ...] for i in range(len(values))]


def _run(kernel: Any, numpy_body: Callable, c: Constants, *arrays: np.ndarray) -> None:
    """Apply ``kernel`` to flat arrays, or ``numpy_body`` block by block. Empty arrays stand for absent ones."""
    n = arrays[0].size
    if n < KERNEL_MIN:
        numpy_body(c, *arrays)
        return
    if not all(a.flags.c_contiguous for a in arrays):
        numpy_body(c, *arrays)
        return
    flat = [a.reshape(-1) for a in arrays]
    if kernel.compiled is not None or kernel.tick(n):
        kernel(*flat, c.vector, jit.threads_for(n))
        return
    for i in range(0, n, BLOCK):
        numpy_body(c, *(a[i : i + BLOCK] for a in flat))


def _gradient(p: np.ndarray, g: np.ndarray, c: Constants, l2: int, sign: int) -> np.ndarray:
    """The gradient to follow: negated when maximising, with the L2 term. ``l2`` and ``sign`` are places in ``c``."""
    if c.values[sign] < 0:
        g = np.negative(g)
    return g + p * c.arrays[l2] if c.values[l2] != 0 else g


# ---- SGD: c = [-lr, momentum, 1 - dampening, weight decay, nesterov, sign, first]


def _sgd_numpy(c: Constants, p: np.ndarray, g: np.ndarray, b: np.ndarray) -> None:
    k, value = c.arrays, c.values
    g = _gradient(p, g, c, 3, 5)
    if b.size:
        if value[6]:
            b[...] = g
        else:
            np.multiply(b, k[1], b)
            np.add(b, g * k[2] if value[2] != 1 else g, b)
        g = g + b * k[1] if value[4] else b
    np.add(p, g * k[0], p)


def _sgd_fallback(p: np.ndarray, g: np.ndarray, b: np.ndarray, c: np.ndarray, nt: int) -> None:
    _sgd_numpy(Constants(c.dtype, *c.tolist()), p, g, b)


@fused(_sgd_fallback, parallel=True)
def _sgd_loop(p, g, b, c, nt):  # type: ignore[no-untyped-def]
    rate, momentum, keep, l2, nesterov, sign, first = c[0], c[1], c[2], c[3], c[4], c[5], c[6]
    n = p.size
    step = (n + nt - 1) // nt
    for t in prange(nt):  # type: ignore[name-defined]  # noqa: F821
        ps, gs, bs = p[t * step : (t + 1) * step], g[t * step : (t + 1) * step], b[t * step : (t + 1) * step]
        if b.size == 0:
            for i in range(ps.size):
                ps[i] += rate * (sign * gs[i] + l2 * ps[i])
        elif first != 0:
            for i in range(ps.size):
                d = sign * gs[i] + l2 * ps[i]
                bs[i] = d
                ps[i] += rate * (d + momentum * d if nesterov != 0 else d)
        else:
            for i in range(ps.size):
                d = sign * gs[i] + l2 * ps[i]
                m = momentum * bs[i] + keep * d
                bs[i] = m
                ps[i] += rate * (d + momentum * m if nesterov != 0 else m)


def sgd(c: Constants, p: np.ndarray, g: np.ndarray, b: np.ndarray | None = None) -> None:
    """One step of `SGD` in place on ``p`` and the momentum buffer ``b`` (None without momentum)."""
    _run(_sgd_loop, _sgd_numpy, c, p, g, _EMPTY[p.dtype] if b is None else b)


# ---- Adam: c = [1 - beta1, beta2, 1 - beta2, eps, -step size, sqrt(1 - beta2^t), L2, sign, shrink, beta1]


def _adam_numpy(c: Constants, p: np.ndarray, g: np.ndarray, m: np.ndarray, v: np.ndarray, top: np.ndarray) -> None:
    k, value = c.arrays, c.values
    if value[8] != 1:
        np.multiply(p, k[8], p)
    g = _gradient(p, g, c, 6, 7)
    t = g - m
    # PyTorch interpolates from the nearer end.
    if value[0] < 0.5:
        np.multiply(t, k[0], t)
        np.add(m, t, m)
    else:
        np.multiply(t, k[9], t)
        np.subtract(g, t, m)
    np.multiply(v, k[1], v)
    np.multiply(g, k[2], t)
    np.multiply(t, g, t)
    np.add(v, t, v)
    if top.size:
        np.maximum(top, v, out=top)
        v = top
    np.sqrt(v, t)
    np.divide(t, k[5], t)
    np.add(t, k[3], t)
    np.divide(m * k[4], t, t)
    np.add(p, t, p)


def _adam_fallback(
    p: np.ndarray, g: np.ndarray, m: np.ndarray, v: np.ndarray, top: np.ndarray, c: np.ndarray, nt: int
) -> None:
    _adam_numpy(Constants(c.dtype, *c.tolist()), p, g, m, v, top)


@fused(_adam_fallback, parallel=True)
def _adam_loop(p, g, m, v, top, c, nt):  # type: ignore[no-untyped-def]
    w1, b2, w2, eps, size, root = c[0], c[1], c[2], c[3], c[4], c[5]
    l2, sign, shrink, b1 = c[6], c[7], c[8], c[9]
    near = w1 < 0.5
    n = p.size
    step = (n + nt - 1) // nt
    for t in prange(nt):  # type: ignore[name-defined]  # noqa: F821
        ps, gs = p[t * step : (t + 1) * step], g[t * step : (t + 1) * step]
        ms, vs, tops = m[t * step : (t + 1) * step], v[t * step : (t + 1) * step], top[t * step : (t + 1) * step]
        for i in range(ps.size):
            x = ps[i] * shrink
            d = sign * gs[i] + l2 * x
            u = ms[i] + w1 * (d - ms[i]) if near else d - b1 * (d - ms[i])
            w = vs[i] * b2 + w2 * d * d
            ms[i] = u
            vs[i] = w
            if tops.size != 0:
                w = max(tops[i], w)
                tops[i] = w
            ps[i] = x + size * u / (np.sqrt(w) / root + eps)


def adam(
    c: Constants, p: np.ndarray, g: np.ndarray, m: np.ndarray, v: np.ndarray, top: np.ndarray | None = None
) -> None:
    """One step of `Adam` in place on ``p`` and its moments (``top``: the largest ``v`` so far, for AMSGrad)."""
    _run(_adam_loop, _adam_numpy, c, p, g, m, v, _EMPTY[p.dtype] if top is None else top)


# ---- RMSprop: c = [alpha, 1 - alpha, eps, -lr, momentum, L2, sign]


def rmsprop(c: Constants, p: np.ndarray, g: np.ndarray, v: np.ndarray, buf: Any, mean: Any) -> None:
    """One step of `RMSprop` in place on ``p`` and its state (``buf``, ``mean``: None without momentum, not centred)."""
    k = c.arrays
    g = _gradient(p, g, c, 5, 6)
    np.multiply(v, k[0], v)
    t = g * k[1]
    np.multiply(t, g, t)
    np.add(v, t, v)
    if mean is None:
        np.sqrt(v, t)
    else:
        if c.values[1] < 0.5:
            np.add(mean, (g - mean) * k[1], mean)
        else:
            np.subtract(g, (g - mean) * k[0], mean)
        np.multiply(mean, mean, t)
        np.subtract(v, t, t)
        np.sqrt(t, t)
    np.add(t, k[2], t)
    if buf is None:
        np.divide(g * k[3], t, t)
    else:
        np.multiply(buf, k[4], buf)
        np.divide(g, t, t)
        np.add(buf, t, buf)
        np.multiply(buf, k[3], t)
    np.add(p, t, p)


# ---- Adagrad: c = [-rate, eps, L2, sign]


def adagrad(c: Constants, p: np.ndarray, g: np.ndarray, total: np.ndarray) -> None:
    """One step of `Adagrad` in place on ``p`` and the sum of squares."""
    k = c.arrays
    g = _gradient(p, g, c, 2, 3)
    t = g * g
    np.add(total, t, total)
    np.sqrt(total, t)
    np.add(t, k[1], t)
    np.divide(g * k[0], t, t)
    np.add(p, t, p)


def blocks(update: Callable, c: Constants, p: np.ndarray, *others: Any) -> None:
    """Run an update (`rmsprop`, `adagrad`) block by block where all arrays are contiguous; None stays None."""
    there = [a for a in (p, *others) if a is not None]
    if p.size <= 2 * BLOCK or not all(a.flags.c_contiguous for a in there):
        update(c, p, *others)
        return
    flat = [None if a is None else a.reshape(-1) for a in (p, *others)]
    for i in range(0, p.size, BLOCK):
        update(c, *(None if a is None else a[i : i + BLOCK] for a in flat))
