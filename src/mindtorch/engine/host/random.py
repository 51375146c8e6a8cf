"""Distributions over a raw stream, with PyTorch's rules for how many draws are taken and how they are rounded.

``*_into(s, a, ...)`` fill the array ``a`` (any dtype, any strides) from the stream ``s``. Elements are visited in
memory order, as PyTorch's iterators do: the transposed view of an array receives the same numbers as the array.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mindtorch.core.errors import check
from mindtorch.engine.host import boxmuller, mt19937
from mindtorch.engine.host.mt19937 import Stream
from mindtorch.engine.host.quiet import quiet

F32 = np.dtype(np.float32)
F64 = np.dtype(np.float64)
_U = np.uint64
SMALL = 128
"""Up to this many elements a few NumPy calls are quicker than a fused kernel's."""
DIGITS = {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53}
"""Bits of the significand: the largest integer each dtype counts to without gaps is 2 ** bits."""


def in_memory_order(a: np.ndarray) -> np.ndarray:
    """``a`` with its dimensions permuted so that strides fall: C-contiguous when ``a`` is dense."""
    if a.flags.c_contiguous or a.ndim < 2:
        return a
    order = sorted(range(a.ndim), key=lambda i: -abs(a.strides[i]) if a.shape[i] > 1 else 0)
    return a.transpose(order)


def put(a: np.ndarray, values: np.ndarray) -> None:
    """Write flat ``values`` into ``a`` in memory order, rounding to its dtype."""
    t = in_memory_order(a)
    v = values.reshape(t.shape)
    if v.dtype is t.dtype:
        t[...] = v
        return
    with quiet():
        t[...] = v


def flat(a: np.ndarray) -> np.ndarray | None:
    """The memory of a dense ``a`` as one dimension, or None when it has gaps."""
    t = in_memory_order(a)
    return t.reshape(-1) if t.flags.c_contiguous else None


def as_real(a: np.ndarray) -> np.ndarray:
    """A complex array as a real one with a last dimension of 2, sharing memory."""
    r = a.real
    return np.lib.stride_tricks.as_strided(r, (*a.shape, 2), (*a.strides, r.itemsize))


def rounded(values: np.ndarray, np_dtype: Any) -> np.ndarray:
    """float64 values as PyTorch stores them: half types are reached through float32."""
    with quiet():
        return values.astype(F32).astype(np_dtype) if np_dtype.itemsize == 2 else values.astype(np_dtype)


# ------------------------------------------------------------------------------------------ uniform
def uniform(s: Stream, n: int, np_dtype: np.dtype, low: float = 0.0, high: float = 1.0) -> np.ndarray:
    """``n`` uniforms in [low, high): 24 bits and one draw each, float64 53 bits and two draws."""
    if n <= SMALL and low == 0.0 and high == 1.0 and np_dtype in (F32, F64):
        return s.unit(n) if np_dtype == F64 else s.unit32(n)
    if np_dtype == F64:
        out = np.empty(n)
        mt19937.uniform64(s.st, out)
        if low != 0.0 or high != 1.0:
            with quiet():
                out = boxmuller.fma64(out, high - low, low)
    else:
        out = np.empty(n, F32)
        lo, hi = np.float32(low), np.float32(high)
        with quiet():
            mt19937.uniform32(s.st, out, lo, hi - lo)
            if np_dtype != F32:
                out = out.astype(np_dtype)
    if low != 0.0 or high != 1.0 or np_dtype.itemsize == 2:
        with quiet():
            lo, hi = np_dtype.type(low), np_dtype.type(high)
            if lo != hi:
                out[out == hi] = lo
    return out


def uniform_into(s: Stream, a: np.ndarray, low: float, high: float) -> None:
    """``uniform_``: see :func:`uniform`; complex arrays draw their real and imaginary parts in turn."""
    if a.dtype.kind == "c":
        a = as_real(a)
    put(a, uniform(s, a.size, a.dtype, low, high))


# ------------------------------------------------------------------------------------------ normal
def normal(
    s: Stream, n: int, np_dtype: np.dtype, mean: float = 0.0, std: float = 1.0, dense: bool = True
) -> np.ndarray:
    """``n`` normals: in blocks of 16 from 16 elements up when the target is contiguous, else in pairs of doubles."""
    if n < 16 or not dense:
        v = boxmuller.pairs(s, n)
        if mean != 0.0 or std != 1.0:
            with quiet():
                v = boxmuller.fma64(v, std, mean)
        return v if np_dtype == F64 else v.astype(F32) if np_dtype == F32 else rounded(v, np_dtype)
    whole = n - n % 16
    wide = np_dtype == F64
    out = np.empty(n, F64 if wide else F32)
    _blocks(s, out[:whole], mean, std)
    if whole != n:
        if wide:
            s.bg.random_raw(2 * (n - whole))
        elif np_dtype == F32:
            s.bg.random_raw(n - whole)
        _blocks(s, out[n - 16 :], mean, std)
    if out.dtype != np_dtype:
        with quiet():
            out = out.astype(np_dtype)
    return out


def _blocks(s: Stream, out: np.ndarray, mean: float, std: float) -> None:
    if out.dtype == F32:
        boxmuller.blocks32(s.st, out, np.float32(mean), np.float32(std))
        return
    boxmuller.blocks64(s.st, out)
    if mean != 0.0 or std != 1.0:
        with quiet():
            out[:] = boxmuller.fma64(out, std, mean)


def normal_into(s: Stream, a: np.ndarray, mean: float, std: float) -> None:
    """``normal_``: complex arrays get independent parts of variance ``std ** 2 / 2`` each."""
    if a.dtype.kind == "c":
        a, std = as_real(a), std / math.sqrt(2.0)
    put(a, normal(s, a.size, a.dtype, mean, std, bool(a.flags.c_contiguous)))


# ------------------------------------------------------------------------------------------ from one uniform
def bernoulli_limit(p: float) -> int:
    """The integer that a 53-bit draw must stay below for an event of probability ``p``."""
    return math.ceil(p * 2.0**53)


def bernoulli(s: Stream, n: int, p: float, np_dtype: np.dtype, yes: float = 1.0) -> np.ndarray:
    """``n`` draws of ``yes`` with probability ``p``, else 0."""
    if np_dtype in (F32, F64) or np_dtype == np.bool_:
        out = np.empty(n, np_dtype)
        mt19937.below(s.st, out, bernoulli_limit(p), np_dtype.type(yes))
        return out
    out = np.empty(n, np.bool_)
    mt19937.below(s.st, out, bernoulli_limit(p), np.True_)
    return out.astype(np_dtype) if yes == 1 else out.astype(np_dtype) * np_dtype.type(yes)


def bernoulli_tensor(s: Stream, p: np.ndarray) -> np.ndarray:
    """True with probability ``p[i]``: a 24-bit draw each, 53 bits for float64 probabilities. A contiguous array."""
    wide = p.dtype == F64
    check_probabilities(p)
    u = s.unit(p.size) if wide else s.unit32(p.size)
    return np.asarray(u.reshape(p.shape) < (p if wide else p.astype(F32)))


def check_probabilities(p: np.ndarray) -> None:
    """RuntimeError unless all of ``p`` is in [0, 1]."""
    if p.size:
        q = p.astype(F32) if p.dtype.itemsize == 2 else p
        check(
            bool(((q >= 0) & (q <= 1)).all()),
            RuntimeError,
            "Expected p_in >= 0 && p_in <= 1 to be true, but got false.",
        )


def exponential(s: Stream, n: int, np_dtype: np.dtype, rate: float = 1.0) -> np.ndarray:
    """-log(1 - D) / rate, two draws each."""
    out = np.empty(n)
    boxmuller.log_draws(s.st, out, -1.0 / rate)
    return out if np_dtype == F64 else rounded(out, np_dtype)


def cauchy(s: Stream, n: int, np_dtype: np.dtype, median: float, sigma: float) -> np.ndarray:
    """median + sigma tan(pi (D - 1/2)), two draws each."""
    with quiet():
        v = np.tan(math.pi * (s.unit(n) - 0.5))
        return rounded(v if median == 0 and sigma == 1 else boxmuller.fma64(sigma, v, median), np_dtype)


def geometric(s: Stream, n: int, np_dtype: np.dtype, p: float) -> np.ndarray:
    """Trials up to and with the first success: ceil(log(D) / log(1 - p)), two draws each."""
    with quiet():
        v = np.ceil(np.log(s.unit(n)) / math.log1p(-p)) if p < 1 else np.ceil(np.log(s.unit(n)) / -np.inf)
        return rounded(v, np_dtype) if np_dtype.kind not in "iub" else v.astype(np.int64).astype(np_dtype)


def log_normal(s: Stream, n: int, np_dtype: np.dtype, mean: float, std: float) -> np.ndarray:
    """exp of normals drawn in pairs."""
    with quiet():
        v = boxmuller.pairs(s, n)
        return rounded(np.exp(boxmuller.fma64(v, std, mean)), np_dtype)


# ------------------------------------------------------------------------------------------ integers
def integers(s: Stream, n: int, low: int, high: int) -> np.ndarray:
    """``n`` int64 in [low, high): one draw each below a range of 2**28, two above. ``high`` may be 2**63."""
    span = high - low
    if span < 1 << 28:
        if n <= SMALL:
            small = (s.bg.random_raw(n) % _U(span)).view(np.int64)
            return small + low if low else small
        out = np.empty(n, np.int64)
        mt19937.modulo(s.st, out, span, low)
        return out
    w = s.longs(n)
    if span == 1 << 64:
        return w.view(np.int64)
    w %= _U(span)
    return (w + _U(low & 0xFFFFFFFFFFFFFFFF)).view(np.int64)


def random_default(s: Stream, n: int, np_dtype: np.dtype, name: str) -> np.ndarray:
    """``random_()``: the whole non-negative range of an integer dtype, the gapless integers of a floating one."""
    if np_dtype == np.bool_:
        return (s.raw(n) & _U(1)).astype(np.bool_)
    if np_dtype.kind in "iu" and np_dtype.itemsize == 8:
        w = s.longs(n)
        return (w & _U(0x7FFFFFFFFFFFFFFF)).view(np.int64) if np_dtype.kind == "i" else w
    if np_dtype.kind in "iu":
        return (s.raw(n) & _U(np.iinfo(np_dtype).max)).astype(np_dtype)
    span = (1 << DIGITS[name]) + 1
    w = s.longs(n) if name == "float64" else s.raw(n)
    v = w % _U(span)
    return v.astype(F64) if name == "float64" else v.astype(F32).astype(np_dtype)


def permutation(s: Stream, n: int) -> np.ndarray:
    """A permutation of 0..n-1 as int64: n - 1 draws."""
    out = np.arange(n, dtype=np.int64)
    if n > 1:
        mt19937.shuffle(s.st, out)
    return out


# ------------------------------------------------------------------------------------------ multinomial
def multinomial(s: Stream, p: np.ndarray, k: int, replacement: bool) -> np.ndarray:
    """Indices (int64) drawn from the unnormalised weights in the last dimension of ``p`` (1 or 2 dimensions)."""
    w = p.astype(F32) if p.dtype.itemsize == 2 else p
    rows = w.reshape(-1, w.shape[-1])
    _check_weights(rows, k, replacement)
    if not replacement or k == 1:
        q = exponential(s, p.size, p.dtype).reshape(rows.shape)
        with quiet():
            score = (rows / q.astype(w.dtype)).astype(p.dtype).astype(w.dtype)
        if k == 1:
            out = score.argmax(-1)[:, None]
        else:
            out = np.argsort(-score, -1, kind="stable")[:, :k]
    else:
        edges = np.cumsum(rows, -1)
        edges = (edges / edges[:, -1:]).astype(F64)
        u = s.unit(rows.shape[0] * k).reshape(rows.shape[0], k)
        if u.size * rows.shape[1] <= 4096:
            out = (edges[:, None, :] < u[:, :, None]).sum(-1)
        else:
            out = np.stack([np.searchsorted(e, v) for e, v in zip(edges, u)])
        out = np.minimum(out, rows.shape[1] - 1)
    return np.ascontiguousarray(out.astype(np.int64)).reshape((*p.shape[:-1], k))


def _check_weights(rows: np.ndarray, k: int, replacement: bool) -> None:
    if rows.size == 0:
        return
    with quiet():
        total = rows.sum(-1)
    text = "probability tensor contains either `inf`, `nan` or element < 0"
    check(rows.min() >= 0 and (bool(np.isfinite(total).all()) or bool(np.isfinite(rows).all())), RuntimeError, text)
    check(total.min() > 0, RuntimeError, "invalid multinomial distribution (sum of probabilities <= 0)")
    if not replacement and k > 1:
        enough = np.count_nonzero(rows, -1) >= k
        text = "invalid multinomial distribution (with replacement=False, not enough non-negative category to sample)"
        check(bool(enough.all()), RuntimeError, text)
