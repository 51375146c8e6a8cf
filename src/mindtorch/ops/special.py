"""Special functions: error functions, gamma, Bessel, zeta, orthogonal polynomials. Kernels: engine/host/special."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mindtorch.core import dtype as D
from mindtorch.core.errors import check
from mindtorch.core.tensor import Tensor, constant
from mindtorch.engine.host import special as K
from mindtorch.ops import notes
from mindtorch.ops import pointwise_unary as _unary  # noqa: F401 - its rows get names here
from mindtorch.ops import softmax as _softmax  # noqa: F401
from mindtorch.ops.table import SPACES, alias, composite, op

_TWO_OVER_SQRT_PI = 2 / math.sqrt(math.pi)
_SQRT_2 = math.sqrt(2.0)


def _row(name: str, kernel: Any, ns: str = "special", inplace: bool = False, note: str = "", **grad: Any) -> Any:
    options: dict[str, Any] = {"grad": grad, "note": note} if grad else {"note": note}
    return op(f"{name}(T input)", promote="float", inplace=inplace, out=True, ns=ns, **options)(kernel)


def _everywhere(name: str, kernel: Any, **grad: Any) -> Any:
    """A row under its torch, Tensor and special name."""
    return _row(name, kernel, "torch Tensor special", True, **grad)


def _exp_square(x: Tensor, factor: float) -> Tensor:
    return (x * x * factor).exp()


# ------------------------------------------------------------------------------------------ error functions
erf = _everywhere("erf", K.erf, input=lambda g, input: g * (_TWO_OVER_SQRT_PI * _exp_square(input, -1.0)))
erfc = _everywhere(
    "erfc", K.scipy_ufunc("erfc"), input=lambda g, input: g * (-_TWO_OVER_SQRT_PI * _exp_square(input, -1.0))
)
erfinv = _everywhere("erfinv", K.erfinv, input=lambda g, input: g * (0.5 * math.sqrt(math.pi) * _exp_square(erfinv(input), 1.0)))
erfcx = _row("erfcx", K.scipy_ufunc("erfcx"), input=lambda g, input, out: g * (2 * input * out - _TWO_OVER_SQRT_PI))


@composite("ndtr(T input)", ns="special", out=True)
def ndtr(input: Tensor) -> Tensor:
    """The normal distribution function by erf, as PyTorch's: it keeps no input, and is 0 below about -5.6 in float32."""
    return (erf(input * math.sqrt(0.5)) + 1) * 0.5


ndtri = _row("ndtri", K.scipy_ufunc("ndtri"), input=lambda g, out: g * (math.sqrt(2 * math.pi) * _exp_square(out, 0.5)))
log_ndtr = _row(
    "log_ndtr",
    K.scipy_ufunc("log_ndtr"),
    input=lambda g, input: g / erfcx(input * (-1 / _SQRT_2)) * math.sqrt(2 / math.pi),
)

# ------------------------------------------------------------------------------------------ gamma
lgamma = _row("lgamma", K.lgamma, "torch Tensor", True, input=lambda g, input: g * digamma(input))
alias("gammaln", lgamma, ns="special")
digamma = _everywhere("digamma", K.digamma, input=lambda g, input: g * polygamma(1, input))
alias("psi", digamma, ns="special")
_polygamma = op(
    "polygamma(int order, T input)",
    promote="float",
    ns="_C",
    grad={"input": lambda g, order, input: g * _polygamma(order + 1, input)},
)(K.polygamma)


@composite("polygamma(int n, T input)", ns="torch special", out=True)
def polygamma(n: int, input: Tensor) -> Tensor:
    """``n``-th derivative of digamma."""
    return _polygamma(n, input)


@composite("polygamma(T input, int n)", ns="Tensor", inplace=True)
def _polygamma_method(input: Tensor, n: int) -> Tensor:
    """``torch.polygamma(n, input)``."""
    return polygamma(n, input)


@composite("mvlgamma(T input, int p)", inplace=True, out=True, node="MvlgammaBackward0", keeps=("input",))
def mvlgamma(input: Tensor, p: int) -> Tensor:
    """Log of the multivariate gamma function of dimension ``p``."""
    return multigammaln(input, p)


@composite("multigammaln(T input, int p)", ns="special", out=True)
def multigammaln(input: Tensor, p: int) -> Tensor:
    """Log of the multivariate gamma function of dimension ``p``."""
    check(p >= 1, RuntimeError, f"p has to be greater than or equal to 1, got {p}")
    x = input if input.dtype.category >= D.FLOAT else input.to(D.get_default_dtype())
    steps = constant((np.arange(p) * -0.5).astype(x.a.dtype))
    return lgamma(x.unsqueeze(-1) + steps).sum(-1) + (p * (p - 1) / 4.0) * math.log(math.pi)


# ------------------------------------------------------------------------------------------ Bessel
def _i1_grad(g: Tensor, input: Tensor, out: Tensor) -> Tensor:
    small = input.abs() <= float(np.finfo(input.a.dtype).eps) if input.a.dtype.itemsize > 2 else input == 0
    safe = input.masked_fill(small, 1.0)
    return g * (i0(input) - out / safe).masked_fill(small, 0.5)


def _i1e_grad(g: Tensor, input: Tensor, out: Tensor) -> Tensor:
    small = input.abs() <= float(np.finfo(input.a.dtype).eps) if input.a.dtype.itemsize > 2 else input == 0
    safe = input.masked_fill(small, 1.0)
    return g * (i0e(input) - out * (safe.sgn() + safe.reciprocal())).masked_fill(small, 0.5)


i0 = _everywhere("i0", K.scipy_ufunc("i0"), input=lambda g, input: g * i1(input))
i0e = _row("i0e", K.scipy_ufunc("i0e"), input=lambda g, input, out: g * (i1e(input) - input.sgn() * out))
i1 = _row("i1", K.scipy_ufunc("i1"), input=lambda g, input, out: _i1_grad(g, input, out))
i1e = _row("i1e", K.scipy_ufunc("i1e"), input=lambda g, input, out: _i1e_grad(g, input, out))
_NOTES = {
    name: notes.EXACT.format(f"{off}, in float64 too") for name, off in (("bessel_j0", "2e-7"), ("bessel_j1", "4e-7"), ("bessel_y0", "2e-7"), ("bessel_y1", "8e-7"))
}
for _name, _fn in (
    ("bessel_j0", "j0"),
    ("bessel_j1", "j1"),
    ("bessel_y0", "y0"),
    ("bessel_y1", "y1"),
    ("modified_bessel_i0", "i0"),
    ("modified_bessel_i1", "i1"),
    ("modified_bessel_k0", "k0"),
    ("modified_bessel_k1", "k1"),
):
    _row(_name, K.scipy_ufunc(_fn), note=_NOTES.get(_name, ""))
for _name, _fn in (("scaled_modified_bessel_k0", "k0e"), ("scaled_modified_bessel_k1", "k1e")):
    op(f"{_name}(T x)", promote="float", out=True, ns="special")(K.scipy_ufunc(_fn))
spherical_bessel_j0 = op("spherical_bessel_j0(T x)", promote="float", out=True, ns="special")(K.spherical_j0)
airy_ai = op("airy_ai(T x)", promote="float", out=True, ns="special", note=notes.EXACT.format("3e-6, in float64 too"))(K.airy_ai)


# ------------------------------------------------------------------------------------------ logs and entropy
def _xlog_grad(g: Tensor, input: Any, slope: Tensor, other: Tensor, edge: float) -> Tensor:
    if isinstance(input, Tensor):
        slope = slope.masked_fill((input == 0) & (other <= edge), 0)
    return g * slope


xlogy = op(
    "xlogy(TN input, TN other)",
    promote="float",
    inplace=True,
    out=True,
    ns="torch Tensor special",
    grad={
        "input": lambda g, input, other: _xlog_grad(g, input, _as(other, g).log(), _as(other, g), 0.0),
        "other": lambda g, input, other: g * (input / other),
    },
)(K.xlog("xlogy", np.log))
xlog1py = op(
    "xlog1py(TN input, TN other)",
    promote="float",
    out=True,
    ns="special",
    grad={
        "input": lambda g, input, other: _xlog_grad(g, input, _as(other, g).log1p(), _as(other, g), -1.0),
        "other": lambda g, input, other: g * (input / (other + 1)),
    },
)(K.xlog("xlog1py", np.log1p))
entr = _row("entr", K.entr, input=lambda g, input: g * (-input.log() - 1))


def _as(v: Any, like: Tensor) -> Tensor:
    return v if isinstance(v, Tensor) else like.new_full((), v)


def _logit_grad(g: Tensor, input: Tensor, eps: Any) -> Tensor:
    lo, hi = (0.0, 1.0) if eps is None else (float(eps), 1.0 - float(eps))
    outside = (input < lo) | (input > hi)
    return (g / (input * (1 - input))).masked_fill(outside, math.nan if eps is None else 0.0)


logit = op(
    "logit(T input, float? eps=None)",
    promote="float",
    inplace=True,
    out=True,
    ns="torch Tensor special",
    grad={"input": lambda g, input, eps: _logit_grad(g, input, eps)},
)(K.logit)


# ------------------------------------------------------------------------------------------ incomplete gamma
def _no_first(name: str) -> Any:
    def rule(g: Tensor) -> Tensor:
        raise RuntimeError(f"the derivative for '{name}: input' is not implemented")

    return rule


def _gamma_density(g: Tensor, input: Tensor, other: Tensor) -> Tensor:
    return g * ((input - 1) * other.log() - other - lgamma(input)).exp()


igamma = op(
    "igamma(T input, T other)",
    promote="float",
    inplace=True,
    out=True,
    grad={"input": _no_first("igamma"), "other": lambda g, input, other: _gamma_density(g, input, other)},
    note=notes.EXACT.format("8e-6, in float64 2e-9"),
)(K.scipy_ufunc("gammainc"))
igammac = op(
    "igammac(T input, T other)",
    promote="float",
    inplace=True,
    out=True,
    grad={"input": _no_first("igammac"), "other": lambda g, input, other: -_gamma_density(g, input, other)},
    note=igamma.row.note,
)(K.scipy_ufunc("gammaincc"))
alias("gammainc", igamma, ns="special")
alias("gammaincc", igammac, ns="special")

zeta = op(
    "zeta(TN input, TN other)",
    promote="float",
    out=True,
    ns="special",
    grad={
        "input": _no_first("zeta"),
        "other": lambda g, input, other: g * (-input * zeta(input + 1, other)),
    },
)(K.zeta)

# ------------------------------------------------------------------------------------------ polynomials
for _name, _kernel in (
    ("chebyshev_polynomial_t", K.chebyshev_t),
    ("chebyshev_polynomial_u", K.chebyshev_u),
    ("chebyshev_polynomial_v", K.chebyshev_v),
    ("chebyshev_polynomial_w", K.chebyshev_w),
    ("shifted_chebyshev_polynomial_t", K.shifted(K.chebyshev_t)),
    ("shifted_chebyshev_polynomial_u", K.shifted(K.chebyshev_u)),
    ("shifted_chebyshev_polynomial_v", K.shifted(K.chebyshev_v)),
    ("shifted_chebyshev_polynomial_w", K.shifted(K.chebyshev_w)),
    ("hermite_polynomial_h", K.hermite_h),
    ("hermite_polynomial_he", K.hermite_he),
    ("laguerre_polynomial_l", K.laguerre_l),
    ("legendre_polynomial_p", K.legendre_p),
):
    op(f"{_name}(TN x, TN n)", promote="float", out=True, ns="special")(_kernel)


# ------------------------------------------------------------------------------------------ names shared with torch
for _name in ("exp2", "expm1", "log1p", "sinc", "round"):
    alias(_name, _name, ns="special")
alias("expit", "sigmoid", ns="special")


@composite("softmax(T input, int dim, *, any dtype=None)", ns="special")
def softmax(input: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
    """``torch.softmax``."""
    return SPACES["torch"]["softmax"](input, dim, dtype=dtype)


@composite("log_softmax(T input, int dim, *, any dtype=None)", ns="special")
def log_softmax(input: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
    """``torch.log_softmax``."""
    return SPACES["torch"]["log_softmax"](input, dim, dtype=dtype)
