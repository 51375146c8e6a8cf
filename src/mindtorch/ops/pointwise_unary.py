"""Element-wise operations of one tensor: rows, aliases, operators. Derivatives use the result where PyTorch saves it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mindtorch.core.errors import check
from mindtorch.core.tensor import Tensor
from mindtorch.engine.host import pointwise as K
from mindtorch.engine.host.quiet import ufunc
from mindtorch.ops.table import alias, composite, op

LN2 = math.log(2.0)
LN10 = math.log(10.0)


def _zeros(g: Tensor) -> Tensor:
    return g.new_zeros(g.shape)


def _float_op(name: str, kernel: Any, **grad: Any) -> Any:
    """A row with floating result, in-place twin and ``out``."""
    return op(f"{name}(T input)", promote="float", inplace=True, out=True, grad=grad)(kernel)


def _same_op(name: str, kernel: Any, **grad: Any) -> Any:
    """A row that keeps the input's dtype."""
    return op(f"{name}(T input)", inplace=True, out=True, grad=grad)(kernel)


# ------------------------------------------------------------------------------------------ exponentials and roots
exp = op(
    "exp(T input)",
    promote="float",
    inplace=True,
    out=True,
    direct=(np.exp, f"input.a.size < {K.LARGE}"),
    grad=dict(input=lambda g, out: g * out.conj()),
)(K.exp)
exp2 = _float_op("exp2", K.exp2, input=lambda g, out: g * out.conj() * LN2)
expm1 = _float_op("expm1", ufunc(np.expm1), input=lambda g, out: g * (out.conj() + 1))
log = _float_op("log", ufunc(np.log), input=lambda g, input: g.div(input.conj()))
log2 = _float_op("log2", K.log2, input=lambda g, input: g / (input.conj() * LN2))
log10 = _float_op("log10", ufunc(np.log10), input=lambda g, input: g / (input.conj() * LN10))
log1p = _float_op("log1p", ufunc(np.log1p), input=lambda g, input: g / (input.conj() + 1))
sqrt = _float_op("sqrt", ufunc(np.sqrt), input=lambda g, out: g / (2 * out.conj()))
rsqrt = _float_op("rsqrt", K.rsqrt, input=lambda g, out: -0.5 * g * (out * out * out).conj())
square = op("square(T input)", inplace=True, out=True, node="PowBackward0", grad=dict(input=lambda g, input: g * (2.0 * input.conj())))(
    K.square
)
reciprocal = _float_op("reciprocal", K.reciprocal, input=lambda g, out: -g * (out * out).conj())

# ------------------------------------------------------------------------------------------ trigonometry
sin = _float_op("sin", ufunc(np.sin), input=lambda g, input: g * input.cos().conj())
cos = _float_op("cos", ufunc(np.cos), input=lambda g, input: g * -input.sin().conj())
tan = _float_op("tan", ufunc(np.tan), input=lambda g, out: g * (1 + out * out).conj())
asin = _float_op("asin", ufunc(np.arcsin), input=lambda g, input: g * (1 - input * input).rsqrt().conj())
acos = _float_op("acos", ufunc(np.arccos), input=lambda g, input: g * -((1 - input * input).rsqrt()).conj())
atan = _float_op("atan", ufunc(np.arctan), input=lambda g, input: g / (input * input + 1).conj())
sinh = _float_op("sinh", ufunc(np.sinh), input=lambda g, input: g * input.cosh().conj())
cosh = _float_op("cosh", ufunc(np.cosh), input=lambda g, input: g * input.sinh().conj())
tanh = _float_op("tanh", ufunc(np.tanh), input=lambda g, out: tanh_backward(g, out))
asinh = _float_op("asinh", ufunc(np.arcsinh), input=lambda g, input: g * (input * input + 1).rsqrt().conj())


def _acosh_grad(g: Tensor, input: Tensor) -> Tensor:
    if input.dtype.is_complex:
        return g * ((input + 1).rsqrt() * (input - 1).rsqrt()).conj()
    return g * (input * input - 1).rsqrt()


acosh = _float_op("acosh", ufunc(np.arccosh), input=lambda g, input: _acosh_grad(g, input))
atanh = _float_op("atanh", ufunc(np.arctanh), input=lambda g, input: g / (1 - input * input).conj())
for _name in ("sin", "cos", "tan", "sinh", "cosh", "tanh"):
    alias(f"arc{_name}", f"a{_name}")


def _sinc_grad(g: Tensor, input: Tensor) -> Tensor:
    x = input * math.pi
    slope = (x * x.cos() - x.sin()) / (x * input)
    return g * slope.masked_fill(input == 0, 0).conj()


sinc = _float_op("sinc", K.sinc, input=lambda g, input: _sinc_grad(g, input))
sigmoid = _float_op("sigmoid", K.sigmoid, input=lambda g, out: sigmoid_backward(g, out))


sigmoid_backward = op(
    "sigmoid_backward(T grad_output, T output)",
    promote="same",
    ns="_C",
    grad=dict(
        grad_output=lambda g, output: sigmoid_backward(g, output.conj()),
        output=lambda g, grad_output, output: g.conj() * grad_output * (1 - 2 * output).conj(),
    ),
)(K.sigmoid_backward)
tanh_backward = op(
    "tanh_backward(T grad_output, T output)",
    promote="same",
    ns="_C",
    grad=dict(
        grad_output=lambda g, output: tanh_backward(g, output.conj()),
        output=lambda g, grad_output, output: g.conj() * grad_output * (-2 * output).conj(),
    ),
)(K.tanh_backward)

# ------------------------------------------------------------------------------------------ sign and magnitude
abs_ = _same_op("abs", K.abs_, input=lambda g, input: g * input.sgn())
alias("absolute", "abs")
sign = _same_op("sign", K.sign, input=lambda g: _zeros(g))


def _sgn_grad(g: Tensor, input: Tensor, out: Tensor) -> Tensor:
    if not input.dtype.is_complex:
        return _zeros(g)
    r = input.abs()
    return ((g - out * (g * out.conj()).real) / r).masked_fill(r == 0, 0)


sgn = _same_op("sgn", K.sgn, input=lambda g, input, out: _sgn_grad(g, input, out))
signbit = op("signbit(T input)", out=True)(K.signbit)


@composite("positive(T input)")
def positive(input: Tensor) -> Tensor:
    """``input`` itself. RuntimeError for bool."""
    check(input.a.dtype != np.bool_, RuntimeError, "The `+` operator, on a bool tensor is not supported.")
    return input


def _angle_grad(g: Tensor, input: Tensor) -> Tensor:
    if not input.dtype.is_complex:
        return _zeros(g)
    square_ = input.real * input.real + input.imag * input.imag
    scale = (g / square_).masked_fill(square_ == 0, 0)
    return complex_(scale * -input.imag, scale * input.real)


angle = op("angle(T input)", promote="float", out=True, grad=dict(input=lambda g, input: _angle_grad(g, input)))(
    K.angle
)


@composite("resolve_conj(T input)")
def resolve_conj(input: Tensor) -> Tensor:
    """``input`` itself: conjugates are computed at once here, so nothing is pending."""
    return input


@composite("resolve_neg(T input)")
def resolve_neg(input: Tensor) -> Tensor:
    """``input`` itself: negations are computed at once here, so nothing is pending."""
    return input


conj_physical = _same_op("conj_physical", K.conj_physical, input=lambda g: g.conj())


# ------------------------------------------------------------------------------------------ rounding
floor = _same_op("floor", K.rounding(np.floor, "floor"), input=lambda g: _zeros(g))
ceil = _same_op("ceil", K.rounding(np.ceil, "ceil"), input=lambda g: _zeros(g))
trunc = _same_op("trunc", K.rounding(np.trunc, "trunc"), input=lambda g: _zeros(g))
alias("fix", "trunc")
frac = op("frac(T input)", half="f32", inplace=True, out=True, grad=dict(input=lambda g: g))(K.frac)
round_ = op(
    "round(T input, *, int decimals=0)", half="f32", inplace=True, out=True, nodes={"decimals": "RoundBackward1"},
    grad=dict(input=lambda g: _zeros(g))
)(K.round_decimals)
deg2rad = _float_op("deg2rad", lambda a: K.scaled(a, math.pi / 180, "deg2rad"), input=lambda g: g * (math.pi / 180))
rad2deg = _float_op("rad2deg", lambda a: K.scaled(a, 180 / math.pi, "rad2deg"), input=lambda g: g * (180 / math.pi))


@op(
    "nan_to_num(T input, float? nan=None, float? posinf=None, float? neginf=None)",
    inplace=True,
    out=True,
    grad=dict(input=lambda g, input: g.masked_fill(~input.isfinite(), 0)),
)
def nan_to_num(a: np.ndarray, nan: float | None, posinf: float | None, neginf: float | None) -> np.ndarray:
    """nan and infinities replaced by finite numbers."""
    return K.nan_to_num(a, nan, posinf, neginf)


# ------------------------------------------------------------------------------------------ tests
isnan = op("isnan(T input)")(K.test_special(np.isnan, False))
isinf = op("isinf(T input)")(K.test_special(np.isinf, False))
isfinite = op("isfinite(T input)")(K.test_special(np.isfinite, True))
isposinf = op("isposinf(T input)", out=True)(lambda a: K.isinf_signed(a, np.inf, "isposinf"))
isneginf = op("isneginf(T input)", out=True)(lambda a: K.isinf_signed(a, -np.inf, "isneginf"))
isreal = op("isreal(T input)")(K.isreal)
logical_not = op("logical_not(T input)", inplace=True, out=True)(ufunc(np.logical_not))
bitwise_not = op("bitwise_not(T input)", inplace=True, out=True)(K.bitwise_not)

# ------------------------------------------------------------------------------------------ parts
frexp = op(
    "frexp(T input)",
    half="f32",
    out=True,
    structseq="mantissa exponent",
    nondiff=(1,),
    grad=dict(input=lambda g, out: g[0] / exp2(out[1].to(g[0].dtype))),
)(K.frexp)
complex_ = op(
    "complex(T real, T imag)",
    promote="none",
    out=True,
    ns="torch",
    grad=dict(real=lambda g: g.real, imag=lambda g: g.imag),
)(K.complex_)


def _polar_grad_angle(g: Tensor, out: Tensor) -> Tensor:
    return g.imag * out.real - g.real * out.imag


polar = op(
    "polar(T abs, T angle)",
    promote="none",
    out=True,
    ns="torch",
    grad=dict(
        abs=lambda g, out: (g.conj() * out.sgn()).real,
        angle=lambda g, out: _polar_grad_angle(g, out),
    ),
)(K.polar)


def _invert(x: Tensor) -> Tensor:
    check(
        x.a.dtype.kind in "biu",
        TypeError,
        "~ (operator.invert) is only implemented on integer and Boolean-type tensors",
    )
    return bitwise_not(x)


OPERATORS = {"__abs__": abs_, "__pos__": positive, "__invert__": _invert}
