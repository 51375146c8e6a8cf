"""Kernels of cross entropy, negative log likelihood and mean squared error on raw float arrays.

Inputs of class losses come as rows (m, classes) with int64 targets (m,). ``weight`` may be None. Rows whose target is
``ignore`` contribute nothing. Sums run in float64 and are rounded once.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mindtorch.core.errors import shown
from mindtorch.engine.host import jit
from mindtorch.engine.host.jit import fused
from mindtorch.engine.host.quiet import quiet
from mindtorch.engine.host.softmax import GUARD, ROW, exp_sum, row_max

F32 = np.dtype(np.float32)
F = np.float32
NONE32 = np.empty(0, np.float32)
_ONE: dict[int, np.ndarray] = {}
_RANGE: dict[int, np.ndarray] = {}


def _one(n: int) -> np.ndarray:
    got = _ONE.get(n)
    if got is None:
        got = _ONE[n] = np.ones(n, np.float32)
    return got


def _range(n: int) -> np.ndarray:
    got = _RANGE.get(n)
    if got is None:
        if n > 4096:
            return np.arange(n)
        got = _RANGE[n] = np.arange(n)
    return got


def check_targets(t: np.ndarray, classes: int, ignore: int) -> bool:
    """Whether some target equals ``ignore``. IndexError for a target that is neither that nor in [0, classes)."""
    if not t.size:
        return False
    if t.size <= 64:
        values = t.tolist()
        low, high = min(values), max(values)
    else:
        low, high = int(np.minimum.reduce(t)), int(np.maximum.reduce(t))
    if low >= 0 and high < classes:
        return 0 <= ignore < classes and bool((t == ignore).any())
    bad = t[((t < 0) | (t >= classes)) & (t != ignore)]
    if bad.size:
        raise shown(IndexError(f"Target {int(bad[0])} is out of bounds."))
    return True


# ---------------------------------------------------------------------- cross entropy of logits
def _ce_fall(x: np.ndarray, t: np.ndarray, ignore: int, out: np.ndarray, nt: int) -> None:
    with quiet():
        z = x - x.max(1, keepdims=True)
        keep = t != ignore
        safe = np.where(keep, t, 0)
        out[:] = np.where(keep, np.log(np.exp(z).sum(1)) - z[_range(len(t)), safe], 0)


@fused(_ce_fall, parallel=True, reduction=True, helpers=ROW)
def _ce_rows(x, t, ignore, out, nt):  # type: ignore[no-untyped-def]
    m, n = x.shape
    step = (m + nt - 1) // nt
    for k in prange(nt):  # type: ignore[name-defined]  # noqa: F821
        for i in range(k * step, min(m, (k + 1) * step)):
            if t[i] == ignore:
                out[i] = F(0.0)
                continue
            r = x[i]
            top = row_max(r)
            out[i] = F(math.log(exp_sum(r, top))) - (r[t[i]] - top)


def _no_twin(*args: Any) -> bool:
    """NumPy twin: never called, because ``summed`` asks ``tick`` first and its caller has a path of its own."""
    raise RuntimeError("the compiled loss kernel is not in use")


@fused(_no_twin, reduction=True, helpers=ROW)
def _ce_sum(x, t, out, divisor):  # type: ignore[no-untyped-def]
    m, n = x.shape
    total = 0.0
    for i in range(m):
        if t[i] < 0 or t[i] >= n:
            return False
        r = x[i]
        top = row_max(r)
        total += F(math.log(exp_sum(r, top))) - (r[t[i]] - top)
    out[0] = total / divisor
    return True


def summed(x: np.ndarray, t: np.ndarray, ignore: int, divisor: int) -> np.ndarray | None:
    """Sum of the row losses over ``divisor``, 0-dim, in one pass on one thread.

    None when the loop is not in use, the batch is large, or a target is ``ignore`` or out of range.
    """
    n = x.shape[1]
    if x.size >= jit.PARALLEL_MIN or 0 <= ignore < n or (_ce_sum.compiled is None and not _ce_sum.tick(x.size)):
        return None
    out = np.empty(1, F32)
    try:
        return out.reshape(()) if _ce_sum(x, t, out, divisor) else None
    except RuntimeError:
        return None


def _ce_back_fall(x: np.ndarray, t: np.ndarray, ignore: int, g: np.ndarray, out: np.ndarray, nt: int) -> None:
    with quiet():
        np.exp(x - x.max(1, keepdims=True), out=out)
        out /= out.sum(1, keepdims=True)
        keep = t != ignore
        rows = _range(len(t))[keep]
        out[rows, t[keep]] -= 1
        out *= np.where(keep, g, 0).astype(x.dtype)[:, None]
        if not keep.all():
            out[~keep] = 0


@fused(_ce_back_fall, parallel=True, reduction=True, helpers=ROW)
def _ce_back_rows(x, t, ignore, g, out, nt):  # type: ignore[no-untyped-def]
    m, n = x.shape
    step = (m + nt - 1) // nt
    for k in prange(nt):  # type: ignore[name-defined]  # noqa: F821
        for i in range(k * step, min(m, (k + 1) * step)):
            o = out[i]
            if t[i] == ignore:
                for j in range(n):
                    o[j] = F(0.0)
                continue
            r = x[i]
            top = row_max(r)
            s = F(0.0)
            for j in range(n):
                e = exp32(r[j] - top)  # type: ignore[name-defined]  # noqa: F821
                o[j] = e
                s += e
            scale = g[i] / s
            for j in range(n):
                o[j] = o[j] * scale
            o[t[i]] -= g[i]


def _small_losses(x: np.ndarray, t: np.ndarray) -> np.ndarray | None:
    """Row losses of a small unweighted batch without shifting by the maximum; None when that could overflow."""
    q = x.ravel()
    if not float(q.dot(q)) < GUARD:
        return None
    m, n = x.shape
    s = np.exp(x).dot(_one(n))
    np.log(s, s)
    s -= q.take(_range(m) * n + t)
    return s


def row_losses(x: np.ndarray, t: np.ndarray, ignore: int, masked: bool) -> np.ndarray:
    """log(sum(exp(x))) - x[target] of every row, 0 for ignored rows."""
    slow = x.dtype is F32 and not (_ce_rows.compiled is not None or _ce_rows.tick(x.size))
    if slow and not masked and x.size <= 4096:
        got = _small_losses(x, t)
        if got is not None:
            return got
    out = np.empty(len(t), x.dtype)
    if x.size:
        kernel = _ce_rows if x.dtype is F32 else _ce_fall
        kernel(x, t, ignore, out, jit.threads_for(x.size))
    return out


def row_gradients(x: np.ndarray, t: np.ndarray, ignore: int, g: np.ndarray) -> np.ndarray:
    """(softmax(x) - one_hot(target)) * g per row (g: one factor a row), 0 for ignored rows."""
    out = np.empty(x.shape, x.dtype)
    if x.size:
        kernel = _ce_back_rows if x.dtype is F32 else _ce_back_fall
        kernel(x, t, ignore, g, out, jit.threads_for(x.size))
    return out


def row_weights(t: np.ndarray, w: np.ndarray | None, ignore: int, masked: bool, dtype: Any) -> tuple[Any, float]:
    """(factor of each row or None for all 1, their sum)."""
    if w is None:
        if not masked:
            return None, float(t.size)
        f = (t != ignore).astype(dtype)
    else:
        f = w.take(np.where(t == ignore, 0, t) if masked else t).astype(dtype, copy=False)
        if masked:
            f = np.where(t == ignore, np.zeros((), dtype), f)
    return f, float(f.sum(dtype=np.float64))


def reduce_rows(rows: np.ndarray, total: float, reduction: str) -> Any:
    """Sum or weighted mean (by ``total``) of row losses as a 0-dim array; ``none`` gives the rows."""
    if reduction == "none":
        return rows
    if rows.dtype is F32 and rows.size <= 64:
        value = float(rows.dot(_one(rows.size)))
    else:
        value = float(rows.sum(dtype=np.float64))
    if reduction == "mean":
        value = (
            value / total
            if total
            else (math.nan if value == 0 or math.isnan(value) else math.copysign(math.inf, value))
        )
    return np.array(value, rows.dtype)


# ---------------------------------------------------------------------- mean squared error
def mse(a: np.ndarray, b: np.ndarray, reduction: str) -> Any:
    """(a - b)^2: elementwise, or its sum or mean."""
    with quiet():
        d = np.subtract(a, b)
        if reduction == "none":
            return np.square(d, d) if d.ndim else np.square(d)
        if d.size <= 4096:
            q = d.ravel()
            value = float(q.dot(q))
        else:
            value = float(np.square(d, d).sum(dtype=np.float64))
        if reduction == "mean":
            value = value / d.size if d.size else math.nan
        return np.array(value, d.dtype)
