"""Host kernels of special functions: SciPy's ufuncs (loaded on first use) and the orthogonal polynomials."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mindtorch.core.errors import check
from mindtorch.engine.host.jit import fused
from mindtorch.engine.host.quiet import EXTOBJ, quiet

F4 = np.dtype(np.float32)
LARGE = 16_384
_loaded: dict[str, Any] = {}


def _refuse_complex(name: str, a: np.ndarray) -> None:
    if a.dtype.kind == "c":
        raise NotImplementedError(f"\"{name}\" not implemented for '{a.dtype.name}': the function takes real tensors")


def scipy_ufunc(name: str) -> Callable[..., Any]:
    """Kernel over ``scipy.special.<name>``, real arguments, keeping the dtype of the first."""

    def kernel(*arrays: np.ndarray) -> Any:
        fn = _loaded.get(name)
        if fn is None:
            from scipy import special

            fn = _loaded[name] = getattr(special, name)
        a = arrays[0]
        if a.dtype.kind == "c":
            _refuse_complex(name, a)
        if fn.__class__ is np.ufunc:
            r = fn(*arrays, extobj=EXTOBJ)
        else:
            with quiet():
                r = fn(*arrays)
        return r if r.dtype == a.dtype else r.astype(a.dtype)

    return kernel


# ------------------------------------------------------------------------------------------ error function
_erf_small = scipy_ufunc("erf")


def _np_erf(x: np.ndarray, out: np.ndarray) -> None:
    out[...] = _erf_small(x)


@fused(_np_erf)
def _erf_flat(x, out):  # type: ignore[no-untyped-def]
    for i in range(x.size):
        out[i] = erf32(x[i])  # noqa: F821 - predefined by engine.host.jit


def erf(a: np.ndarray) -> Any:
    """Error function."""
    if a.dtype == F4 and a.size >= LARGE and a.flags.c_contiguous:
        out = np.empty(a.shape, F4)
        _erf_flat(a.reshape(-1), out.reshape(-1))
        return out
    return _erf_small(a)


_erfinv = scipy_ufunc("erfinv")


def erfinv(a: np.ndarray) -> Any:
    """Inverse error function; nan outside [-1, 1] (masked first: SciPy reports each such element, slowly)."""
    if a.dtype.kind == "c":
        return _erfinv(a)
    outside = np.abs(a) > 1
    if not np.any(outside):
        return _erfinv(a)
    return np.where(outside, a.dtype.type(np.nan), _erfinv(np.where(outside, a.dtype.type(0), a)))


# ------------------------------------------------------------------------------------------ gamma and zeta
_gammaln = scipy_ufunc("gammaln")


def lgamma(a: np.ndarray) -> Any:
    """Log of the magnitude of gamma; infinite at both infinities."""
    r = np.asarray(_gammaln(a))
    low = r == -np.inf
    return np.where(low, r.dtype.type(np.inf), r) if low.any() else r


_psi = scipy_ufunc("psi")


def digamma(a: np.ndarray) -> Any:
    """Logarithmic derivative of gamma: infinite (signed) at 0, nan at negative integers."""
    with quiet():
        low = a < 0
        if np.any(low):  # by reflection, as PyTorch: SciPy is slow here
            x = a.astype(np.float64)
            frac = x - np.trunc(x)
            mirror = np.where(low, np.pi / np.tan(np.pi * frac), 0)
            mirror = np.where(low & (frac == 0), np.nan, mirror)
            r = (_psi(np.where(low, 1 - x, x)) - mirror).astype(a.dtype)
        else:
            r = np.asarray(_psi(a))
        zero = a == 0
        if np.any(zero):
            r = np.where(zero, np.copysign(a.dtype.type(np.inf), -a), r)
        return r


_zeta = scipy_ufunc("zeta")


def zeta(a: np.ndarray, b: np.ndarray) -> Any:
    """Hurwitz zeta function."""
    return _zeta(a, b)


def _trigamma(x: np.ndarray) -> np.ndarray:
    """Second derivative of log gamma: reflection below 1/2, recurrence up to 6, asymptotic series.

    In the precision of ``x``, as PyTorch: near the poles its float32 result is off by 1e-5, and ours is the same.
    """
    c = x.dtype.type
    one = c(1)
    low = x < c(0.5)
    base = np.where(low, one - x, x)
    sine = np.sin(c(np.pi) * x)
    r = np.where(low, -(c(np.pi) * c(np.pi)) / (sine * sine), c(0))
    for _ in range(6):
        r = r + one / (base * base)
        base = base + one
    i = one / (base * base)
    r = r + (one + one / (c(2) * base) + i * (c(1 / 6) - i * (c(1 / 30) - i * c(1 / 42)))) / base
    return np.where(low, -r, r)


def polygamma(n: int, a: np.ndarray) -> Any:
    """n-th derivative of digamma."""
    check(n >= 0, RuntimeError, f"polygamma(n, x) does not support negative n, got n={n}.")
    _refuse_complex("polygamma", a)
    if n == 0:
        return digamma(a)
    from math import factorial

    with quiet():
        if n == 1:
            return _trigamma(a)
        x = a.astype(np.float64)
        sign = 1.0 if n % 2 else -1.0
        scale = float(factorial(n)) if n < 170 else np.inf
        return (sign * scale * _zeta(np.asarray(n + 1.0), x)).astype(a.dtype)


def logit(a: np.ndarray, eps: float | None) -> Any:
    """``log(x / (1 - x))``, of ``x`` clamped to [eps, 1 - eps] when given."""
    _refuse_complex("logit", a)
    with quiet():
        one = a.dtype.type(1)
        if eps is not None:
            lo, hi = a.dtype.type(eps), one - a.dtype.type(eps)
            a = np.minimum(np.maximum(a, lo), hi)
        return np.log(a / (one - a))


def xlog(name: str, fn: Any) -> Callable[..., Any]:
    """``x * fn(y)``, 0 where x is 0 (nan where y is)."""

    def kernel(a: np.ndarray, b: np.ndarray) -> Any:
        _refuse_complex(name, a)
        with quiet():
            r = a * fn(b)
            zero = (a == 0) & ~np.isnan(b)
            return np.where(zero, r.dtype.type(0), r) if np.any(zero) else r

    return kernel


def entr(a: np.ndarray) -> Any:
    """``-x log x``; 0 at 0, -inf below."""
    _refuse_complex("entr", a)
    with quiet():
        t = a.dtype.type
        r = -a * np.log(a)
        return np.where(a == 0, t(0), np.where(a < 0, t(-np.inf), r))


def spherical_j0(a: np.ndarray) -> Any:
    """``sin(x) / x``."""
    _refuse_complex("spherical_bessel_j0", a)
    with quiet():
        x = a.astype(np.float64)
        r = np.where(x == 0, 1.0, np.sin(x) / x)
        return np.where(np.isinf(x), 0.0, r).astype(a.dtype)


def airy_ai(a: np.ndarray) -> Any:
    """Airy function Ai."""
    _refuse_complex("airy_ai", a)
    from scipy.special import airy

    with quiet():
        x = a.astype(np.float64)
        r = np.asarray(airy(x)[0])
        far = np.isfinite(x) & (np.abs(x) > 1e6)  # SciPy gives NaN there
        if np.any(far):
            size = np.where(far, np.abs(x), 1.0)
            wave = np.sin(size * np.sqrt(size) * (2 / 3) + np.pi / 4) / (np.sqrt(np.pi) * np.sqrt(np.sqrt(size)))
            r = np.where(far, np.where(x > 0, 0.0, wave), r)
        return r.astype(a.dtype)


# ------------------------------------------------------------------------------------------ polynomials
def _recurrence(x: np.ndarray, n: np.ndarray, first: np.ndarray, step: Callable[..., Any]) -> np.ndarray:
    """Value of degree ``n`` at ``x``: p0 = 1, p1 = ``first``, p(k+1) = step(k, p(k), p(k-1))."""
    out = np.where(n < 0, 0.0, np.ones_like(x))
    p, q = np.ones_like(x), first
    top = int(n.max()) if n.size else 0
    k = 1
    if n.size and top == n.min() >= 1:
        while k < top:
            p, q = q, step(k, q, p)
            k += 1
        return q
    while k <= top:
        out = np.where(n == k, q, out)
        p, q = q, step(k, q, p)
        k += 1
    return out


def polynomial(name: str, first: Any, step: Any, edge: Any = None, limit: int | None = None) -> Callable[..., Any]:
    """Kernel of an orthogonal polynomial: ``first(x)`` is degree 1, ``step(x)(k, p, q)`` the recurrence.

    ``edge(x, n, r)`` fixes values where the recurrence loses accuracy; beyond degree ``limit`` the result is nan.
    """

    def kernel(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        _refuse_complex(name, a)
        with quiet():
            x, m = np.broadcast_arrays(a.astype(np.float64), b)
            n = np.nan_to_num(m, nan=-1.0, posinf=-1.0, neginf=-1.0).astype(np.int64)
            cap = limit if limit is not None else None
            steps = n if cap is None else np.minimum(n, cap)
            trig = edge is not None and (n > 6).any()
            inner = np.where((np.abs(x) < 1) & (n > 6), 0, steps) if trig else steps
            r = _recurrence(x, inner, first(x), step(x))
            if edge is not None:
                r = edge(x, n, r)
            if cap is not None:
                r = np.where(n > cap, np.nan, r)
            r = np.where(n < 0, 0.0, r)
            return r.astype(a.dtype)

    return kernel


def _even(n: np.ndarray, yes: Any, no: Any) -> np.ndarray:
    return np.where(n % 2 == 0, yes, no)


def _edge_t(x: np.ndarray, n: np.ndarray, r: np.ndarray) -> np.ndarray:
    r = np.where((np.abs(x) < 1) & (n > 6), np.cos(n * np.arccos(x)), r)
    return np.where(x == 1, 1.0, np.where(x == -1, _even(n, 1.0, -1.0), r))


def _edge_u(x: np.ndarray, n: np.ndarray, r: np.ndarray) -> np.ndarray:
    t = np.arccos(x)
    r = np.where((np.abs(x) < 1) & (n > 6), np.sin((n + 1.0) * t) / np.sin(t), r)
    return np.where(x == 1, n + 1.0, np.where(x == -1, _even(n, n + 1.0, -(n + 1.0)), r))


def _edge_v(x: np.ndarray, n: np.ndarray, r: np.ndarray) -> np.ndarray:
    t = np.arccos(x)
    r = np.where((np.abs(x) < 1) & (n > 6), np.cos((n + 0.5) * t) / np.cos(t / 2), r)
    return np.where(x == 1, 1.0, np.where(x == -1, _even(n, 2.0 * n + 1, -(2.0 * n + 1)), r))


def _edge_w(x: np.ndarray, n: np.ndarray, r: np.ndarray) -> np.ndarray:
    t = np.arccos(x)
    r = np.where((np.abs(x) < 1) & (n > 6), np.sin((n + 0.5) * t) / np.sin(t / 2), r)
    return np.where(x == 1, 2.0 * n + 1, np.where(x == -1, _even(n, 1.0, -1.0), r))


def _cheb(x: np.ndarray) -> Any:
    return lambda k, p, q: 2 * x * p - q


chebyshev_t = polynomial("chebyshev_polynomial_t", lambda x: x, _cheb, _edge_t)
chebyshev_u = polynomial("chebyshev_polynomial_u", lambda x: 2 * x, _cheb, _edge_u)
chebyshev_v = polynomial("chebyshev_polynomial_v", lambda x: 2 * x - 1, _cheb, _edge_v)
chebyshev_w = polynomial("chebyshev_polynomial_w", lambda x: 2 * x + 1, _cheb, _edge_w)


def shifted(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """The polynomial at ``2 x - 1``."""
    return lambda a, b: kernel(a.astype(np.float64) * 2 - 1, b).astype(a.dtype)


HERMITE_LIMIT = 512
hermite_h = polynomial(
    "hermite_polynomial_h", lambda x: 2 * x, lambda x: lambda k, p, q: 2 * x * p - 2 * k * q, None, HERMITE_LIMIT
)
hermite_he = polynomial(
    "hermite_polynomial_he", lambda x: x, lambda x: lambda k, p, q: x * p - k * q, None, HERMITE_LIMIT
)
laguerre_l = polynomial(
    "laguerre_polynomial_l", lambda x: 1 - x, lambda x: lambda k, p, q: ((2 * k + 1 - x) * p - k * q) / (k + 1)
)
legendre_p = polynomial(
    "legendre_polynomial_p", lambda x: x, lambda x: lambda k, p, q: ((2 * k + 1) * x * p - k * q) / (k + 1)
)
