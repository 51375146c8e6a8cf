"""MindSpore kernels of special functions: its own where they are accurate, compositions where these are exact enough."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from mindtorch.engine.mindspore import door
from mindtorch.engine.mindspore.kernels import Unsupported, kernel
from mindtorch.engine.mindspore.kernels.activations import number
from mindtorch.engine.mindspore.kernels.moves import _hosted
from mindtorch.engine.mindspore.kernels.order import extreme_at, isnan, order
from mindtorch.engine.mindspore.kernels.pointwise import _where, negative, pair, zeros
from mindtorch.engine.mindspore.kernels.reductions import total

ms = door.load()
mint, ops = ms.mint, ms.ops
_REAL = (ms.float32, ms.float64)


def _own(name: str, fn: Callable[..., Any]) -> None:
    def run(x: Any) -> Any:
        if x.dtype not in _REAL:
            raise Unsupported(f"dtype {x.dtype}")
        if "_k" not in name:
            return fn(x)
        # Not defined for negative numbers, where MindSpore says infinity.
        below = mint.less(x, number(0, x))
        return _where(below, mint.add(zeros(x), number(np.nan, x)), fn(x))

    run.__name__ = name
    kernel(name)(run)


for _name, _theirs in (("i0e", "bessel_i0e"), ("i1", "bessel_i1"), ("i1e", "bessel_i1e"), ("modified_bessel_i0", "bessel_i0"),
                       ("modified_bessel_i1", "bessel_i1"), ("modified_bessel_k0", "bessel_k0"),
                       ("modified_bessel_k1", "bessel_k1"), ("scaled_modified_bessel_k0", "bessel_k0e"),
                       ("scaled_modified_bessel_k1", "bessel_k1e")):  # fmt: skip
    _own(_name, getattr(ops, _theirs))


@kernel("spherical_bessel_j0")
def _spherical_j0(x: Any) -> Any:
    """sin(x) / x, by its series near 0."""
    if x.dtype not in _REAL:
        raise Unsupported(f"dtype {x.dtype}")
    s = mint.mul(x, x)
    near = number(1, x)
    for k in (110, 72, 42, 20, 6):
        near = mint.sub(number(1, x), mint.mul(mint.div(s, number(k, x)), near))
    small = mint.less(mint.abs(x), number(0.5, x))
    safe = _where(small, mint.add(zeros(x), number(1, x)), x)
    far = mint.div(mint.sin(safe), safe)
    far = _where(mint.isinf(x), zeros(x), far)
    return _where(small, near, far)


_TAIL = math.sqrt(0.5)


@kernel("i0")
def _i0(x: Any) -> Any:
    return ops.bessel_i0(_wide(x)).astype(x.dtype)  # single precision would overflow early


@kernel("erfinv")
def _erfinv(x: Any) -> Any:
    """MindSpore's (good to 1e-4) made exact by Newton's method up to a half; beyond from the smaller tail of the normal distribution."""
    a = mint.abs(_wide(x))
    edge = mint.greater_equal(a, number(1, a))
    tail = mint.logical_and(mint.greater(a, number(0.5, a)), mint.logical_not(edge))
    inner = _where(mint.less_equal(a, number(0.5, a)), a, zeros(a))
    y = ops.erfinv(inner)
    for _ in range(3):
        miss = mint.sub(mint.erf(y), inner)
        y = mint.sub(y, mint.mul(miss, mint.mul(mint.exp(mint.mul(y, y)), number(math.sqrt(math.pi) / 2, a))))
    beyond = _ndtri(mint.mul(mint.sub(number(1, a), _where(tail, a, _full(0.75, a))), number(0.5, a)))
    y = _where(tail, mint.mul(beyond, number(-_TAIL, a)), y)
    y = _where(ops.equal(a, number(1, a)), _full(np.inf, a), _where(edge, _full(np.nan, a), y))
    return _where(isnan(a), a, mint.mul(y, mint.sign(x).astype(a.dtype))).astype(x.dtype)


# Terms of the asymptotic series of digamma: Bernoulli numbers B(2k) over 2k.
_DIGAMMA = tuple(b / (2 * k) for k, b in enumerate((1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6), 1))


@kernel("digamma")
def _digamma(x: Any) -> Any:
    """By its series beyond 10, reached by steps of one, and by reflection below 0; MindSpore's own is good to 2e-5."""
    y = _wide(x)
    below = mint.less(y, zeros(y))
    z = _where(below, mint.sub(number(1, y), y), y)
    steps = zeros(y)
    for _ in range(10):
        small = mint.less(z, number(10, y))
        steps = mint.add(steps, _where(small, mint.div(number(1, y), z), zeros(y)))
        z = _where(small, mint.add(z, number(1, y)), z)
    w = mint.div(number(1, y), mint.mul(z, z))
    series = zeros(y)
    for term in reversed(_DIGAMMA):
        series = mint.mul(mint.add(series, number(term, y)), w)
    r = mint.sub(mint.sub(mint.sub(mint.log(z), mint.div(number(0.5, y), z)), series), steps)
    part = mint.sub(y, mint.round(y))  # tan has period one here, and keeps its digits next to a pole
    pole = mint.logical_and(below, ops.equal(part, zeros(y)))
    turned = mint.div(number(math.pi, y), mint.tan(mint.mul(_where(pole, _full(0.25, y), part), number(math.pi, y))))
    r = _where(below, mint.sub(r, turned), r)
    r = _where(pole, _full(np.nan, y), r)
    r = _where(ops.equal(y, zeros(y)), _where(negative(y), _full(np.inf, y), _full(-np.inf, y)), r)
    return _where(ops.equal(y, _full(-np.inf, y)), _full(np.nan, y), r).astype(x.dtype)


def _trigamma(x: Any) -> Any:
    """Reflection below a half, steps of one, the asymptotic series; in the precision of ``x``, whose errors near the poles are PyTorch's."""
    one, pi = number(1, x), number(np.float32(math.pi) if x.dtype == ms.float32 else math.pi, x)
    low = mint.less(x, number(0.5, x))
    base = _where(low, mint.sub(one, x), x)
    sine = mint.sin(mint.mul(x, pi))
    r = _where(low, mint.neg(mint.div(mint.mul(pi, pi), mint.mul(sine, sine))), zeros(x))
    for _ in range(6):
        r = mint.add(r, mint.div(one, mint.mul(base, base)))
        base = mint.add(base, one)
    i = mint.div(one, mint.mul(base, base))
    series = zeros(x)
    for c in (-1 / 30, 1 / 42, -1 / 30, 1 / 6):
        series = mint.mul(mint.add(series, number(c, x)), i)
    tail = mint.add(mint.add(one, mint.div(number(0.5, x), base)), series)
    r = mint.add(r, mint.div(tail, base))
    return _where(low, mint.neg(r), r)


@kernel("polygamma")
def _polygamma(n: int, x: Any) -> Any:
    if n > 1 and x.dtype != ms.float32:
        raise Unsupported(f"MindSpore's polygamma of {x.dtype} has single precision")
    if n == 0:
        return _digamma(x)
    if n == 1:
        return _trigamma(x)
    return ops.polygamma(ms.Tensor(n, ms.int64), x)


# ------------------------------------------------------------------------------------------ orthogonal polynomials
Step = Callable[[Any, int, Any, Any], Any]


def _polynomial(name: str, first: Callable[[Any], Any], step: Step, start: Any = None, most: int = 64) -> None:
    """Degree by degree, each element keeping its own degree; beyond ``most`` the host kernel has closed forms."""

    def run(x: Any, n: Any) -> Any:
        x, n = pair(x, n)
        if x.dtype not in _REAL:
            raise Unsupported(f"dtype {x.dtype}")
        degrees = _hosted(n)
        if not degrees.size or not np.isfinite(degrees).all() or degrees.max() > most:
            raise Unsupported(f"degrees beyond {most}")
        shape = np.broadcast_shapes(tuple(x.shape), tuple(n.shape))
        wide = mint.broadcast_to(x, shape).astype(ms.float64)
        degree = mint.broadcast_to(n, shape).astype(ms.int64)
        z = wide if start is None else start(wide)
        one = mint.add(zeros(z), number(1, z))
        r, q, p = one, one, first(z)
        for k in range(1, int(degrees.max()) + 1):
            r = _where(ops.equal(degree, ms.Tensor(k, ms.int64)), p, r)
            q, p = p, step(z, k, p, q)
        return _where(mint.less(degree, ms.Tensor(0, ms.int64)), zeros(r), r).astype(x.dtype)

    run.__name__ = name
    kernel(name)(run)


def _times(x: Any, a: float, b: float = 0.0) -> Any:
    """a x + b."""
    return mint.add(mint.mul(x, number(a, x)), number(b, x))


def _two_x(x: Any, k: int, p: Any, q: Any) -> Any:
    return mint.sub(mint.mul(_times(x, 2), p), q)


def _by(x: Any, k: float) -> Any:
    return mint.mul(x, number(k, x))


for _prefix, _start in (("", None), ("shifted_", lambda x: _times(x, 2, -1))):
    for _kind, _first in (("t", lambda x: x), ("u", lambda x: _times(x, 2)), ("v", lambda x: _times(x, 2, -1)),
                          ("w", lambda x: _times(x, 2, 1))):  # fmt: skip
        _polynomial(f"{_prefix}chebyshev_polynomial_{_kind}", _first, _two_x, _start)
_polynomial("hermite_polynomial_h", lambda x: _times(x, 2),
            lambda x, k, p, q: mint.sub(mint.mul(_times(x, 2), p), _by(q, 2 * k)))  # fmt: skip
_polynomial("hermite_polynomial_he", lambda x: x, lambda x, k, p, q: mint.sub(mint.mul(x, p), _by(q, k)))
_polynomial("laguerre_polynomial_l", lambda x: _times(x, -1, 1),
            lambda x, k, p, q: _by(mint.sub(mint.mul(_times(x, -1, 2 * k + 1), p), _by(q, k)), 1 / (k + 1)))  # fmt: skip
_polynomial("legendre_polynomial_p", lambda x: x,
            lambda x, k, p, q: _by(mint.sub(mint.mul(_times(x, 2 * k + 1), p), _by(q, k)), 1 / (k + 1)))  # fmt: skip


# ------------------------------------------------------------------------------------------ scans and modes
@kernel("logcumsumexp")
def _logcumsumexp(x: Any, dim: int) -> Any:
    """By doubling: each element takes in the one 1, 2, 4, ... places before it."""
    if x.dtype not in _REAL or 0 in x.shape:
        raise Unsupported("nothing, or other than floats")
    if not x.ndim:
        return x
    if x.dtype == ms.float32:  # its slope is the exponential of a difference of results: their errors show there
        return _logcumsumexp(x.astype(ms.float64), dim).astype(ms.float32)
    dim %= x.ndim
    n, step, v = x.shape[dim], 1, x
    while step < n:
        old = v.narrow(dim, 0, n - step)
        new = v.narrow(dim, step, n - step)
        v = ops.concat([v.narrow(dim, 0, step), _log_add(old, new)], dim)
        step *= 2
    return v


def _log_add(a: Any, b: Any) -> Any:
    top = mint.maximum(a, b)
    gap = mint.neg(mint.abs(mint.sub(a, b)))
    r = mint.add(top, mint.log1p(mint.exp(gap)))
    r = _where(ops.equal(a, b), mint.add(a, number(math.log(2), a)), r)
    return _where(mint.logical_or(isnan(a), isnan(b)), mint.add(a, b), r)


@kernel("mode")
def _mode(x: Any, dim: int = -1, keepdim: bool = False) -> Any:
    """The end of the longest run of the sorted elements; the first of several."""
    if not x.ndim:
        return x, ms.Tensor(0, ms.int64)
    if 0 in x.shape or x.dtype not in (*_REAL, ms.int32, ms.int64):
        raise Unsupported(f"dtype {x.dtype}, or nothing")
    dim %= x.ndim
    n = x.shape[dim]
    y = x if dim == x.ndim - 1 else mint.transpose(x, dim, -1)
    at = order(y, -1)
    s = ops.gather_elements(y, y.ndim - 1, at)
    # How many of the elements up to here equal this one: its place in its run.
    same = ops.equal(mint.unsqueeze(s, -1), mint.unsqueeze(s, -2))
    run = total(mint.mul(same.astype(ms.int32), ms.Tensor(np.tri(n, dtype=np.int32))), -1)
    end = mint.unsqueeze(extreme_at(run, -1)[1], -1)
    v, i = (ops.gather_elements(t, y.ndim - 1, end) for t in (s, at))
    v, i = (t if dim == x.ndim - 1 else mint.transpose(t, dim, -1) for t in (v, i))
    return (v, i) if keepdim else (v.squeeze(dim), i.squeeze(dim))


# ------------------------------------------------------------------------------------------ tails of the normal distribution
_ROOT_PI = math.sqrt(math.pi)


def _wide(x: Any) -> Any:
    if x.dtype not in _REAL:
        raise Unsupported(f"dtype {x.dtype}")
    return x.astype(ms.float64)


def _full(v: float, x: Any) -> Any:
    return mint.add(zeros(x), number(v, x))


def _erfcx64(x: Any) -> Any:
    """exp(x^2) erfc(x): the product up to 2, Laplace's continued fraction beyond."""
    far = mint.greater(x, number(2, x))
    near_x = _where(far, zeros(x), x)
    near = mint.mul(mint.exp(mint.mul(near_x, near_x)), mint.erfc(near_x))
    far_x = _where(far, x, _full(2, x))
    t = far_x
    for k in range(60, 0, -1):
        t = mint.add(far_x, mint.div(number(k / 2, x), t))
    return _where(far, mint.div(number(1 / _ROOT_PI, x), t), near)


@kernel("erfcx")
def _erfcx(x: Any) -> Any:
    y = _wide(x)
    return _where(isnan(y), y, _erfcx64(_where(isnan(y), zeros(y), y))).astype(x.dtype)


def _log_ndtr64(x: Any) -> Any:
    low = mint.less(x, number(-1, x))
    z = _where(low, x, _full(-1, x))
    tail = mint.log(mint.mul(_erfcx64(mint.mul(z, number(-_TAIL, x))), number(0.5, x)))
    tail = mint.sub(tail, mint.mul(mint.mul(z, z), number(0.5, x)))
    return _where(low, tail, mint.log1p(mint.mul(mint.erfc(mint.mul(x, number(_TAIL, x))), number(-0.5, x))))


@kernel("log_ndtr")
def _log_ndtr(x: Any) -> Any:
    y = _wide(x)
    bad = isnan(y)
    r = _log_ndtr64(_where(bad, zeros(y), y))
    r = _where(ops.equal(y, number(-np.inf, y)), _full(-np.inf, y), r)
    return _where(bad, y, r).astype(x.dtype)


@kernel("ndtri")
def _ndtri(x: Any) -> Any:
    """Newton's method on the logarithm of the smaller tail, which is nearly straight there."""
    p = _wide(x)
    ok = mint.logical_and(mint.greater(p, number(0, p)), mint.less(p, number(1, p)))
    q = _where(ok, p, _full(0.5, p))
    upper = mint.greater(q, number(0.5, p))
    q = _where(upper, mint.sub(number(1, p), q), q)
    want = mint.log(q)
    z = mint.neg(mint.sqrt(mint.maximum(mint.mul(mint.add(want, number(math.log(2), p)), number(-2, p)), zeros(p))))
    for _ in range(9):
        now = _log_ndtr64(z)
        slope = mint.exp(mint.sub(mint.mul(mint.mul(z, z), number(-0.5, p)), now))
        z = mint.sub(z, mint.div(mint.sub(now, want), mint.mul(slope, number(1 / math.sqrt(2 * math.pi), p))))
    z = _where(upper, mint.neg(z), z)
    edge = _where(ops.equal(p, zeros(p)), _full(-np.inf, p), _full(np.nan, p))
    edge = _where(ops.equal(p, _full(1, p)), _full(np.inf, p), edge)
    return _where(ok, z, edge).astype(x.dtype)


@kernel("frexp")
def _frexp(x: Any) -> Any:
    if x.dtype != ms.float32:
        raise Unsupported(f"mantissas of {x.dtype}")
    y = x.astype(ms.float64)
    plain = mint.logical_and(mint.isfinite(y), mint.not_equal(y, zeros(y)))
    a = _where(plain, mint.abs(y), _full(0.5, y))
    e = mint.add(mint.floor(mint.log(a) * (1 / math.log(2))), number(1, y))
    m = mint.div(a, mint.pow(_full(2, y), e))
    # The logarithm may be off by one next to a power of two.
    high, low = mint.greater_equal(m, number(1, y)), mint.less(m, number(0.5, y))
    e = mint.sub(mint.add(e, high.astype(y.dtype)), low.astype(y.dtype))
    m = mint.div(a, mint.pow(_full(2, y), e))
    m = _where(plain, mint.mul(m, mint.sign(y)), y)
    return m.astype(x.dtype), _where(plain, e, zeros(e)).astype(ms.int32)
