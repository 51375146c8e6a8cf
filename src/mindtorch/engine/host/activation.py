"""Activation functions and their first derivatives on raw float arrays.

Float32 arrays of some size go to fused loops (one pass over memory); small ones and float64 go through NumPy.
Every function returns a fresh array. NaN propagates as in PyTorch's kernels.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mindtorch.engine.host import fastmath, jit
from mindtorch.engine.host.fastmath import F
from mindtorch.engine.host.jit import fused
from mindtorch.engine.host.quiet import EXTOBJ as E
from mindtorch.engine.host.quiet import quiet

F32 = np.dtype(np.float32)
_ZERO = {
    np.dtype(t): np.zeros((), t) for t in (np.float32, np.float64, np.int64, np.int32, np.int16, np.int8, np.uint8)
}
_ZERO32 = _ZERO[F32]
KAPPA = 0.7978845608028654  # sqrt(2 / pi)
ISQRT2 = 0.7071067811865476
SIXTH = float(np.float32(1.0 / 6.0))
"""PyTorch multiplies the gradient of hardsigmoid by 1/6 in single precision, also for float64."""


# ---------------------------------------------------------------------- fused loops
def _map1(x, out, p, q, nt):  # type: ignore[no-untyped-def]
    p = F(p)
    q = F(q)
    n = x.size
    step = (n + nt - 1) // nt
    for t in prange(nt):  # type: ignore[name-defined]  # noqa: F821
        xs = x[t * step : min(n, (t + 1) * step)]
        os = out[t * step : min(n, (t + 1) * step)]
        for i in range(xs.size):
            os[i] = body(xs[i], p, q)  # type: ignore[name-defined]  # noqa: F821


def _map2(g, x, out, p, q, nt):  # type: ignore[no-untyped-def]
    p = F(p)
    q = F(q)
    n = x.size
    step = (n + nt - 1) // nt
    for t in prange(nt):  # type: ignore[name-defined]  # noqa: F821
        gs = g[t * step : min(n, (t + 1) * step)]
        xs = x[t * step : min(n, (t + 1) * step)]
        os = out[t * step : min(n, (t + 1) * step)]
        for i in range(xs.size):
            os[i] = gs[i] * body(xs[i], p, q)  # type: ignore[name-defined]  # noqa: F821


def _flat(a: np.ndarray) -> np.ndarray:
    return (a if a.flags.c_contiguous else np.ascontiguousarray(a)).reshape(-1)


def _lifted(plain: Callable[..., Any], a: np.ndarray, p: float, q: float) -> Any:
    """``plain`` over an array of at least one dimension: NumPy scalars promote with Python numbers."""
    with quiet():
        return plain(a, p, q) if a.ndim else plain(a.reshape(1), p, q).reshape(())


def _forward(plain: Callable[..., Any], body: Callable[..., Any]) -> Callable[..., Any]:
    """A unary map: ``plain(x, p, q)`` over arrays, ``body(x, p, q)`` over float32 scalars inside the fused loop."""

    def fallback(x: np.ndarray, out: np.ndarray, p: float, q: float, nt: int) -> None:
        with quiet():
            out[:] = plain(x, p, q)

    loop = fused(fallback, parallel=True, helpers=(body,))(_map1)

    def call(a: np.ndarray, p: float = 0.0, q: float = 0.0) -> np.ndarray:
        if a.dtype is not F32 or (loop.compiled is None and not loop.tick(a.size)):
            return _lifted(plain, a, p, q)
        out = np.empty(a.shape, F32)
        loop(_flat(a), out.reshape(-1), p, q, jit.threads_for(a.size))
        return out

    return call


def _backward(plain: Callable[..., Any], body: Callable[..., Any]) -> Callable[..., Any]:
    """``g * slope(x)``: like :func:`_forward` with the incoming gradient first."""

    def fallback(g: np.ndarray, x: np.ndarray, out: np.ndarray, p: float, q: float, nt: int) -> None:
        with quiet():
            out[:] = g * plain(x, p, q)

    loop = fused(fallback, parallel=True, helpers=(body,))(_map2)

    def call(g: np.ndarray, a: np.ndarray, p: float = 0.0, q: float = 0.0) -> np.ndarray:
        fits = a.dtype is F32 and g.dtype is F32 and g.shape == a.shape
        if not fits or (loop.compiled is None and not loop.tick(a.size)):
            with quiet():
                return g * _lifted(plain, a, p, q)
        out = np.empty(a.shape, F32)
        loop(_flat(g), _flat(a), out.reshape(-1), p, q, jit.threads_for(a.size))
        return out

    return call


# ---------------------------------------------------------------------- scalar bodies (float32, nopython)
def silu1(x, p, q):  # type: ignore[no-untyped-def]
    return x / (F(1.0) + exp32(-x))  # type: ignore[name-defined]  # noqa: F821


def silu2(x, p, q):  # type: ignore[no-untyped-def]
    s = F(1.0) / (F(1.0) + exp32(-x))  # type: ignore[name-defined]  # noqa: F821
    return s * (F(1.0) + x * (F(1.0) - s))


def gelu1(x, p, q):  # type: ignore[no-untyped-def]
    return F(0.5) * x * (F(1.0) + erf32(x * F(0.7071067811865476)))  # type: ignore[name-defined]  # noqa: F821


def gelu2(x, p, q):  # type: ignore[no-untyped-def]
    cdf = F(0.5) * (F(1.0) + erf32(x * F(0.7071067811865476)))  # type: ignore[name-defined]  # noqa: F821
    pdf = F(0.3989422804014327) * exp32(F(-0.5) * x * x)  # type: ignore[name-defined]  # noqa: F821
    return cdf + x * pdf


def gelut1(x, p, q):  # type: ignore[no-untyped-def]
    u = F(1.5957691216057308) * (x + F(0.044715) * x * x * x)
    return x / (F(1.0) + exp32(-u))  # type: ignore[name-defined]  # noqa: F821


def gelut2(x, p, q):  # type: ignore[no-untyped-def]
    u = F(1.5957691216057308) * (x + F(0.044715) * x * x * x)
    s = F(1.0) / (F(1.0) + exp32(-u))  # type: ignore[name-defined]  # noqa: F821
    return s + x * s * (F(1.0) - s) * F(1.5957691216057308) * (F(1.0) + F(0.134145) * x * x)


def mish1(x, p, q):  # type: ignore[no-untyped-def]
    w = exp32(min(x, F(20.0)))  # type: ignore[name-defined]  # noqa: F821
    n = w * (w + F(2.0))
    return x * (n / (n + F(2.0)))


def mish2(x, p, q):  # type: ignore[no-untyped-def]
    w = exp32(min(x, F(20.0)))  # type: ignore[name-defined]  # noqa: F821
    n = w * (w + F(2.0))
    t = n / (n + F(2.0))
    s = F(1.0) / (F(1.0) + exp32(-x))  # type: ignore[name-defined]  # noqa: F821
    return t + x * s * (F(1.0) - t * t)


def softplus1(x, p, q):  # type: ignore[no-untyped-def]
    z = x * p
    e = exp32(-abs(z))  # type: ignore[name-defined]  # noqa: F821
    y = (max(z, F(0.0)) + log1p32(e)) / p  # type: ignore[name-defined]  # noqa: F821
    return x if z > q else y


def softplus2(x, p, q):  # type: ignore[no-untyped-def]
    z = x * p
    y = F(1.0) / (F(1.0) + exp32(-z))  # type: ignore[name-defined]  # noqa: F821
    return F(1.0) if z > q else y


def logsig1(x, p, q):  # type: ignore[no-untyped-def]
    return min(x, F(0.0)) - log1p32(exp32(-abs(x)))  # type: ignore[name-defined]  # noqa: F821


def logsig2(x, p, q):  # type: ignore[no-untyped-def]
    return F(1.0) / (F(1.0) + exp32(x))  # type: ignore[name-defined]  # noqa: F821


def leaky1(x, p, q):  # type: ignore[no-untyped-def]
    return x if x > F(0.0) else x * p


def leaky2(x, p, q):  # type: ignore[no-untyped-def]
    return F(1.0) if x > F(0.0) else p


def hswish1(x, p, q):  # type: ignore[no-untyped-def]
    return x * min(max(x + F(3.0), F(0.0)), F(6.0)) / F(6.0)


def hswish2(x, p, q):  # type: ignore[no-untyped-def]
    y = x / F(3.0) + F(0.5)
    y = F(0.0) if x <= F(-3.0) else y
    return y if x < F(3.0) else F(1.0)


def elu1(x, p, q):  # type: ignore[no-untyped-def]
    y = expm1_32(min(x, F(0.0))) * p  # type: ignore[name-defined]  # noqa: F821
    return y if x <= F(0.0) else x * q


def elu2(x, p, q):  # type: ignore[no-untyped-def]
    y = exp32(min(x, F(0.0))) * p  # type: ignore[name-defined]  # noqa: F821
    return y if x <= F(0.0) else q


# ---------------------------------------------------------------------- the same over arrays
def _c(x: np.ndarray, v: float) -> np.ndarray:
    """``v`` as a 0-dim array of x's dtype, so that no Python number reaches NumPy's promotion."""
    return np.asarray(v, x.dtype)


def _sigmoid(x: np.ndarray) -> Any:
    return 1 / (1 + np.exp(-x))


def _gelu(x: np.ndarray, p: float, q: float) -> Any:
    return x * _c(x, 0.5) * (1 + fastmath.erf(x * _c(x, ISQRT2)))


def _gelu_slope(x: np.ndarray, p: float, q: float) -> Any:
    cdf = _c(x, 0.5) * (1 + fastmath.erf(x * _c(x, ISQRT2)))
    return cdf + x * (_c(x, 0.3989422804014327) * np.exp(_c(x, -0.5) * x * x))


def _gelut(x: np.ndarray, p: float, q: float) -> Any:
    return x * _c(x, 0.5) * (1 + np.tanh(_c(x, KAPPA) * (x + _c(x, 0.044715) * (x * x * x))))


def _gelut_slope(x: np.ndarray, p: float, q: float) -> Any:
    x2 = x * x
    t = np.tanh(_c(x, KAPPA) * (x + _c(x, 0.044715) * (x2 * x)))
    return _c(x, 0.5) * ((1 + t) + x * (1 - t * t) * _c(x, KAPPA) * (1 + _c(x, 3 * 0.044715) * x2))


def _mish(x: np.ndarray, p: float, q: float) -> Any:
    w = np.exp(np.minimum(x, _c(x, 20.0)))
    n = w * (w + 2)
    return x * (n / (n + 2))


def _mish_slope(x: np.ndarray, p: float, q: float) -> Any:
    w = np.exp(np.minimum(x, _c(x, 20.0)))
    n = w * (w + 2)
    t = n / (n + 2)
    return t + x * _sigmoid(x) * (1 - t * t)


def _softplus(x: np.ndarray, p: float, q: float) -> Any:
    z = x * _c(x, p)
    y = (np.maximum(z, _c(x, 0.0)) + np.log1p(np.exp(-np.abs(z)))) / _c(x, p)
    return np.where(z > _c(x, q), x, y)


def _softplus_slope(x: np.ndarray, p: float, q: float) -> Any:
    z = x * _c(x, p)
    return np.where(z > _c(x, q), _c(x, 1.0), _sigmoid(z))


def _hardswish_slope(x: np.ndarray, p: float, q: float) -> Any:
    y = np.where(x <= -3, _c(x, 0.0), x / _c(x, 3.0) + _c(x, 0.5))
    return np.where(x < 3, y, _c(x, 1.0))


def complex_silu(a: np.ndarray) -> np.ndarray:
    """a / (1 + exp(-a)) for complex a."""
    with quiet():
        return a / (a.dtype.type(1) + np.exp(-a))


silu = _forward(lambda x, p, q: x * _sigmoid(x), silu1)
gelu = _forward(_gelu, gelu1)
gelu_tanh = _forward(_gelut, gelut1)
mish = _forward(_mish, mish1)
softplus = _forward(_softplus, softplus1)
logsigmoid = _forward(lambda x, p, q: np.minimum(x, _c(x, 0.0)) - np.log1p(np.exp(-np.abs(x))), logsig1)
leaky_relu = _forward(lambda x, p, q: np.where(x > 0, x, x * _c(x, p)), leaky1)
hardswish = _forward(
    lambda x, p, q: x * np.minimum(np.maximum(x + _c(x, 3.0), _c(x, 0.0)), _c(x, 6.0)) / _c(x, 6.0), hswish1
)

gelu_backward = _backward(_gelu_slope, gelu2)
gelu_tanh_backward = _backward(_gelut_slope, gelut2)
mish_backward = _backward(_mish_slope, mish2)
softplus_backward = _backward(_softplus_slope, softplus2)
logsigmoid_backward = _backward(lambda x, p, q: _sigmoid(-x), logsig2)
leaky_relu_backward = _backward(lambda x, p, q: np.where(x > 0, _c(x, 1.0), _c(x, p)), leaky2)
hardswish_backward = _backward(_hardswish_slope, hswish2)


def _silu_slope(x: np.ndarray, p: float, q: float) -> Any:
    s = _sigmoid(x)
    return s * (1 + x * (1 - s))


silu_backward = _backward(_silu_slope, silu2)


# ---------------------------------------------------------------------- relu and thresholds
def _relu_fallback(x: np.ndarray, out: np.ndarray) -> None:
    np.maximum(x, _ZERO[F32], out, extobj=E)


@fused(_relu_fallback, exact=True)
def _relu_loop(x, out):  # type: ignore[no-untyped-def]
    # written so that a nan stays; NumPy's maximum with one number is not vectorised
    for i in range(x.size):
        out[i] = F(0.0) if x[i] <= F(0.0) else x[i]


def relu(a: np.ndarray) -> Any:
    """max(a, 0); any real dtype but bool (RuntimeError)."""
    if a.dtype is F32 and a.size < 1024:
        return np.maximum(a, _ZERO32, extobj=E)
    zero = _ZERO.get(a.dtype)
    if zero is None:
        if a.dtype.kind == "b":
            raise RuntimeError("Boolean inputs not supported for relu")
        zero = np.zeros((), a.dtype)
    if a.dtype is F32 and (_relu_loop.compiled is not None or _relu_loop.tick(a.size)):
        out = np.empty(a.shape, F32)
        _relu_loop(_flat(a), out.reshape(-1))
        return out
    return np.maximum(a, zero, extobj=E)


def _threshold_fallback(g: np.ndarray, x: np.ndarray, out: np.ndarray, p: float, nt: int) -> None:
    np.copyto(out, g)
    np.putmask(out, np.less_equal(x, _c(x, p), extobj=E), 0)


@fused(_threshold_fallback, parallel=True)
def _threshold_loop(g, x, out, p, nt):  # type: ignore[no-untyped-def]
    p = F(p)
    n = x.size
    step = (n + nt - 1) // nt
    for t in prange(nt):  # type: ignore[name-defined]  # noqa: F821
        gs = g[t * step : min(n, (t + 1) * step)]
        xs = x[t * step : min(n, (t + 1) * step)]
        os = out[t * step : min(n, (t + 1) * step)]
        for i in range(xs.size):
            os[i] = F(0.0) if xs[i] <= p else gs[i]


def threshold_backward(g: np.ndarray, a: np.ndarray, threshold: float = 0) -> np.ndarray:
    """g where a > threshold (or a is nan), else 0."""
    fits = a.size >= 2048 and a.dtype is F32 and g.dtype is F32
    if not fits or (_threshold_loop.compiled is None and not _threshold_loop.tick(a.size)):
        out = g.copy()
        limit = _ZERO[a.dtype] if threshold == 0 and a.dtype in _ZERO else _c(a, threshold)
        np.putmask(out, np.less_equal(a, limit, extobj=E), 0)
        return out
    out = np.empty(a.shape, np.float32)
    _threshold_loop(_flat(g), _flat(a), out.reshape(-1), threshold, jit.threads_for(a.size, 1_000_000))
    return out


def threshold(a: np.ndarray, threshold: float, value: float) -> Any:
    """a where a > threshold (or a is nan), else value."""
    with quiet():
        return np.where(a <= threshold, _c(a, value), a)


def clip(a: np.ndarray, low: float, high: float) -> Any:
    """a limited to [low, high]; nan stays."""
    return np.minimum(np.maximum(a, _c(a, low), extobj=E), _c(a, high), extobj=E)


def between(g: np.ndarray, a: np.ndarray, low: float, high: float) -> np.ndarray:
    """g where low < a < high or a is nan, else 0 (derivative of a clip)."""
    with quiet():
        out = np.array(g)
        np.putmask(out, (a <= low) | (a >= high), 0)
    return out


def hardsigmoid_backward(g: np.ndarray, a: np.ndarray) -> Any:
    """g / 6 where -3 < a < 3, else 0."""
    with quiet():
        return np.where((a > -3) & (a < 3), g * _c(g, SIXTH), _c(g, 0.0))


# ---------------------------------------------------------------------- exponential units and shrinks
def _elu(x: np.ndarray, p: float, q: float) -> Any:
    return np.where(x <= 0, np.expm1(np.minimum(x, _c(x, 0.0))) * _c(x, p), x * _c(x, q))


def _elu_slope(x: np.ndarray, p: float, q: float) -> Any:
    return np.where(x <= 0, np.exp(np.minimum(x, _c(x, 0.0))) * _c(x, p), _c(x, q))


_elu_map, _elu_slope_map = _forward(_elu, elu1), _backward(_elu_slope, elu2)


def elu(a: np.ndarray, alpha: float, scale: float, input_scale: float) -> Any:
    """scale * a for a > 0, else scale * alpha * (exp(input_scale * a) - 1)."""
    if input_scale == 1:
        return _elu_map(a, alpha * scale, scale)
    with quiet():
        low = np.expm1(np.minimum(a, _c(a, 0.0)) * _c(a, input_scale)) * _c(a, alpha * scale)
        return np.where(a <= 0, low, a * _c(a, scale))


def elu_backward(g: np.ndarray, a: np.ndarray, alpha: float, scale: float, input_scale: float) -> Any:
    """g times the slope of elu at the input a."""
    if input_scale == 1:
        return _elu_slope_map(g, a, alpha * scale, scale)
    with quiet():
        low = g * _c(a, input_scale * alpha * scale) * np.exp(np.minimum(a, _c(a, 0.0)) * _c(a, input_scale))
        return np.where(a <= 0, low, g * _c(a, scale))


def hardsigmoid(a: np.ndarray) -> Any:
    """min(max(a + 3, 0), 6) / 6."""
    with quiet():
        return np.minimum(np.maximum(a + _c(a, 3.0), _c(a, 0.0)), _c(a, 6.0)) / _c(a, 6.0)


def hardshrink(a: np.ndarray, lambd: float) -> Any:
    """a where |a| > lambd (or nan), else 0."""
    with quiet():
        return np.where((a >= -lambd) & (a <= lambd), _c(a, 0.0), a)


def shrink_backward(g: np.ndarray, a: np.ndarray, lambd: float) -> Any:
    """g where |a| > lambd (or nan), else 0."""
    with quiet():
        return np.where((a >= -lambd) & (a <= lambd), _c(g, 0.0), g)


def softshrink(a: np.ndarray, lambd: float) -> Any:
    """a - lambd above lambd, a + lambd below -lambd, else 0 (nan stays)."""
    with quiet():
        k = _c(a, lambd)
        return np.where(a > k, a - k, np.where(a < -k, a + k, a * _c(a, 0.0)))


def prelu(a: np.ndarray, w: np.ndarray) -> Any:
    """a for a > 0, else w * a, w broadcast against a."""
    with quiet():
        return np.where(a > 0, a, a * w)
