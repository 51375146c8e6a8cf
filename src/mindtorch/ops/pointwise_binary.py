"""Element-wise arithmetic of two or more tensors beyond add/sub/mul/div: powers, remainders, extrema, interpolation."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from mindtorch.core.errors import check
from mindtorch.core.tensor import Tensor
from mindtorch.engine.host import multiply_add as M
from mindtorch.engine.host import pointwise as K
from mindtorch.ops.table import alias, composite, op

LN2 = math.log(2.0)


def _zeros(g: Tensor) -> Tensor:
    return g.new_zeros(g.shape)


# ------------------------------------------------------------------------------------------ powers
def _pow_grad_input(g: Tensor, input: Tensor, exponent: Any) -> Tensor:
    if not isinstance(exponent, Tensor):
        if exponent == 0:
            return _zeros(g)
        return g * (exponent * pow_(input, exponent - 1)).conj()
    slope = (exponent * pow_(input, exponent - 1)).conj()
    return (g * slope).masked_fill(exponent == 0, 0)


def _pow_grad_exponent(g: Tensor, input: Any, exponent: Tensor, out: Tensor) -> Tensor:
    if not isinstance(input, Tensor):
        if not isinstance(input, complex) and input > 0:  # the logarithm of a number stays exact for half tensors
            return g * (out * math.log(input)).conj()
        input = out.new_full((), input)
    base = input if input.dtype is out.dtype else input.to(out.dtype)
    at_zero = (base == 0) & ((exponent.real if exponent.dtype.is_complex else exponent) >= 0)
    return g * (out * base.log()).masked_fill(at_zero, 0).conj()


pow_ = op(
    "pow(TN input, TN exponent)",
    nodes={
        "isinstance(input, (int, float, complex))": "PowBackward2",
        "not isinstance(exponent, (int, float, complex))": "PowBackward1",
    },
    promote="same",
    inplace=True,
    out=True,
    grad=dict(
        input=lambda g, input, exponent: _pow_grad_input(g, input, exponent),
        exponent=lambda g, input, exponent, out: _pow_grad_exponent(g, input, exponent, out),
    ),
)(K.power)


def _double(*operands: Any) -> list[Any]:
    """The operands in double precision (complex when any is): what ``float_power`` computes in."""
    from mindtorch.core import dtype as D

    wide = any(x.dtype.is_complex if isinstance(x, Tensor) else isinstance(x, complex) for x in operands)
    d = D.complex128 if wide else D.float64
    return [x.to(d) if isinstance(x, Tensor) else x for x in operands]


@composite("float_power(TN input, TN exponent)", out=True)
def float_power(input: Any, exponent: Any) -> Tensor:
    """``input ** exponent`` computed and returned in float64 or complex128."""
    base, exp = _double(input, exponent)
    if not isinstance(base, Tensor):
        base = exp.new_full((), base)
    return pow_(base, exp)


@composite("float_power_(T input, TN exponent)", ns="Tensor")
def float_power_(input: Tensor, exponent: Any) -> Tensor:
    """In place; ``input`` must already be float64 (complex128)."""
    result = float_power(input, exponent)
    names = {"float64": "Double", "complex128": "ComplexDouble"}
    check(
        input.dtype is result.dtype,
        RuntimeError,
        f"the base given to float_power_ has dtype {K.scalar_name(input.a.dtype)} but the operation's result requires "
        f"dtype {names[result.dtype.name]}",
    )
    return input.copy_(result)


# ------------------------------------------------------------------------------------------ remainders
def _quotient(input: Any, other: Tensor) -> Tensor:
    if not isinstance(input, Tensor):
        input = other.new_full((), input)
    return input.div(other, rounding_mode="floor")


def _modulo(sig: str, node: str, quotient: Callable[..., Tensor], kernel: Any) -> Any:
    """``input - quotient * other``."""
    return op(
        sig,
        nodes={"not isinstance(other, (int, float, complex))": node},
        promote="same",
        inplace=True,
        out=True,
        grad=dict(input=lambda g: g, other=lambda g, input, other: -g * quotient(input, other)),
        note="exact also where the quotient is beyond the dtype's range, where PyTorch's vectorised code gives NaN",
    )(kernel)


remainder = _modulo("remainder(TN input, TN other)", "RemainderBackward1", _quotient, K.remainder)
fmod = _modulo("fmod(T input, TN other)", "FmodBackward1", lambda a, b: a.div(b, rounding_mode="trunc"), K.fmod)
floor_divide = op("floor_divide(TN input, TN other)", promote="same", inplace=True, out=True)(K.floor_divide)

# ------------------------------------------------------------------------------------------ geometry and signs
atan2 = op(
    "atan2(T input, T other)",
    promote="float",
    inplace=True,
    out=True,
    grad=dict(
        input=lambda g, input, other: g * _over(other, input * input + other * other),
        other=lambda g, input, other: g * _over(-input, input * input + other * other),
    ),
)(K.kinds_only(np.arctan2, "atan2_cpu", "c"))
alias("arctan2", "atan2")


def _over(a: Tensor, b: Tensor) -> Tensor:
    """``a / b``, 0 where ``b`` is 0."""
    return (a / b).masked_fill(b == 0, 0)


hypot = op(
    "hypot(T input, T other)",
    promote="same",
    inplace=True,
    out=True,
    grad=dict(input=lambda g, input, out: g * (input / out), other=lambda g, other, out: g * (other / out)),
)(K.kinds_only(np.hypot, "hypot_cpu", "biuc"))
copysign = op(
    "copysign(T input, TN other)",
    promote="float",
    inplace=True,
    out=True,
    grad=dict(
        input=lambda g, input, out: g * (out / input).masked_fill(input == 0, 0),
        other=lambda g: _zeros(g),
    ),
)(K.kinds_only(np.copysign, "copysign_cpu", "c"))
nextafter = op(
    "nextafter(T input, T other)",
    promote="same",
    half="native",
    inplace=True,
    out=True,
    grad=dict(
        input=lambda g, input, other: g.masked_fill(input == other, 0),
        other=lambda g: _zeros(g),
    ),
)(K.kinds_only(np.nextafter, "nextafter_cpu", "biuc"))


@composite("ldexp(T input, T other)", inplace=True, out=True, node="LdexpBackward0")
def ldexp(input: Tensor, other: Tensor) -> Tensor:
    """``input * 2 ** other``."""
    return input * pow_(2.0, other)


# ------------------------------------------------------------------------------------------ log of sums
logaddexp = op(
    "logaddexp(T input, T other)",
    promote="same",
    out=True,
    grad=dict(
        input=lambda g, input, other: g / (1 + (other - input).exp()).conj(),
        other=lambda g, input, other: g / (1 + (input - other).exp()).conj(),
    ),
)(K.logaddexp)
logaddexp2 = op(
    "logaddexp2(T input, T other)",
    promote="same",
    out=True,
    grad=dict(
        input=lambda g, input, other: g / (1 + (other - input).exp2()),
        other=lambda g, input, other: g / (1 + (input - other).exp2()),
    ),
)(K.kinds_only(np.logaddexp2, "logaddexp2_cpu", "biuc"))


# ------------------------------------------------------------------------------------------ extrema
def _extremum(name: str, uf: np.ufunc, greater: bool) -> Any:
    def grad_input(g: Tensor, input: Tensor, other: Tensor) -> Tensor:
        loses = input < other if greater else input > other
        return (g / 2).where(input == other, g).masked_fill(loses, 0)

    def grad_other(g: Tensor, input: Tensor, other: Tensor) -> Tensor:
        loses = input > other if greater else input < other
        return (g / 2).where(input == other, g).masked_fill(loses, 0)

    return op(f"{name}(T input, T other)", promote="same", out=True, grad=dict(input=grad_input, other=grad_other))(
        K.real_only(uf, f"{name} not implemented for complex tensors.")
    )


def _ignoring_nan(name: str, uf: np.ufunc, greater: bool) -> Any:
    def wins(input: Tensor, other: Tensor) -> Tensor:
        better = input >= other if greater else input <= other
        return better | other.isnan()

    return op(
        f"{name}(T input, T other)",
        promote="same",
        out=True,
        grad=dict(
            input=lambda g, input, other: g.masked_fill(~wins(input, other), 0),
            other=lambda g, input, other: g.masked_fill(wins(input, other), 0),
        ),
    )(K.real_only(uf, f"{name} not implemented for complex tensors."))


maximum = _extremum("maximum", np.maximum, True)
minimum = _extremum("minimum", np.minimum, False)
fmax = _ignoring_nan("fmax", np.fmax, True)
fmin = _ignoring_nan("fmin", np.fmin, False)


# ------------------------------------------------------------------------------------------ clamp
def _clamp_bound_grad(g: Tensor, hit: Tensor) -> Tensor:
    return g.masked_fill(~hit, 0)


def _clamp_min_hit(input: Tensor, min: Any, max: Any) -> Tensor:
    hit = input < min
    return hit if max is None else hit & (min < max)


def _clamp_max_hit(input: Tensor, min: Any, max: Any) -> Tensor:
    hit = input > max
    return hit if min is None else hit | (max < min)


clamp = op(
    "clamp(T input, TN? min=None, TN? max=None)",
    nodes={"isinstance(min, (int, float)) or isinstance(max, (int, float))": "ClampBackward1"},
    promote="same",
    inplace=True,
    out=True,
    grad=dict(
        input=lambda g, input, min, max: clamp_backward(g, input, min, max),
        min=lambda g, input, min, max: _clamp_bound_grad(g, _clamp_min_hit(input, min, max)),
        max=lambda g, input, min, max: _clamp_bound_grad(g, _clamp_max_hit(input, min, max)),
    ),
)(K.clamp)
alias("clip", "clamp")
clamp_backward = op(
    "clamp_backward(T grad_output, T input, TN? min, TN? max)",
    promote="same",
    ns="_C",
    grad=dict(grad_output=lambda g, input, min, max: clamp_backward(g, input, min, max)),
)(K.clamp_backward)
clamp_min = op(
    "clamp_min(T input, TN min)",
    nodes={"not isinstance(min, (int, float, complex))": "ClampMinBackward1"},
    promote="same",
    inplace=True,
    out=True,
    grad=dict(
        input=lambda g, input, min: g.masked_fill(~(input >= min), 0),
        min=lambda g, input, min: g.masked_fill(~(input < min), 0),
    ),
)(K.kinds_only(np.maximum, "maximum_cpu", "c"))
clamp_max = op(
    "clamp_max(T input, TN max)",
    nodes={"not isinstance(max, (int, float, complex))": "ClampMaxBackward1"},
    promote="same",
    inplace=True,
    out=True,
    grad=dict(
        input=lambda g, input, max: g.masked_fill(~(input <= max), 0),
        max=lambda g, input, max: g.masked_fill(~(input > max), 0),
    ),
)(K.kinds_only(np.minimum, "minimum_cpu", "c"))
heaviside = op("heaviside(T input, T values)", promote="none", inplace=True, out=True)(K.heaviside)


# ------------------------------------------------------------------------------------------ interpolation
def _lerp_grad_input(g: Tensor, weight: Any) -> Tensor:
    return g * (1 - weight.conj()) if isinstance(weight, Tensor) else g * (1 - _conj(weight))


def _conj(number: Any) -> Any:
    return number.conjugate() if isinstance(number, complex) else number


lerp = op(
    "lerp(T input, T end, TN weight)",
    nodes={"not isinstance(weight, (int, float, complex))": "LerpBackward1"},
    promote="same",
    inplace=True,
    out=True,
    into=M.lerp_into,
    grad=dict(
        input=lambda g, weight: _lerp_grad_input(g, weight),
        end=lambda g, weight: g * (weight.conj() if isinstance(weight, Tensor) else _conj(weight)),
        weight=lambda g, input, end: g * (end - input).conj(),
    ),
)(M.lerp)
addcmul = op(
    "addcmul(T input, T tensor1, T tensor2, *, N value=1)",
    promote="same",
    inplace=True,
    out=True,
    into=M.addcmul_into,
    grad=dict(
        input=lambda g: g,
        tensor1=lambda g, tensor2, value: g * (tensor2 * value).conj(),
        tensor2=lambda g, tensor1, value: g * (tensor1 * value).conj(),
    ),
)(M.addcmul)


def _addcdiv(a: np.ndarray, b: np.ndarray, c: np.ndarray, value: Any) -> np.ndarray:
    check(
        a.dtype.kind in "fc",
        RuntimeError,
        "Integer division with addcdiv is no longer supported, and in a future release addcdiv will perform a true "
        "division of tensor1 and tensor2. Use (input + value * torch.trunc(tensor1 / tensor2)).to(input.dtype) or "
        "(input + value * (tensor1 / tensor2)) for float inputs.",
    )
    return M.addcdiv(a, b, c, value)


addcdiv = op(
    "addcdiv(T input, T tensor1, T tensor2, *, N value=1)",
    promote="same",
    inplace=True,
    out=True,
    into=M.addcdiv_into,
    grad=dict(
        input=lambda g: g,
        tensor1=lambda g, tensor2, value: g * (value / tensor2).conj(),
        tensor2=lambda g, tensor1, tensor2, value: -g * (value * tensor1 / (tensor2 * tensor2)).conj(),
    ),
)(_addcdiv)

# ------------------------------------------------------------------------------------------ integers and bits
gcd = op("gcd(T input, T other)", promote="same", inplace=True, out=True)(K.kinds_only(np.gcd, "gcd_cpu", "bfc"))
lcm = op("lcm(T input, T other)", promote="same", inplace=True, out=True)(K.kinds_only(np.lcm, "lcm_cpu", "bfc"))


def _bits(name: str, kernel: Any) -> Any:
    return op(f"{name}(TN input, TN other)", promote="same", inplace=True, out=True)(kernel)


bitwise_and = _bits("bitwise_and", K.kinds_only(np.bitwise_and, "bitwise_and_cpu", "fc"))
bitwise_or = _bits("bitwise_or", K.kinds_only(np.bitwise_or, "bitwise_or_cpu", "fc"))
bitwise_xor = _bits("bitwise_xor", K.kinds_only(np.bitwise_xor, "bitwise_xor_cpu", "fc"))
bitwise_left_shift = _bits("bitwise_left_shift", lambda a, b: K.shift(a, b, True))
bitwise_right_shift = _bits("bitwise_right_shift", lambda a, b: K.shift(a, b, False))


def swapped(fn: Any) -> Any:
    """The reflected operator: ``fn(other, self)``."""

    def reflected(self: Tensor, other: Any) -> Any:
        return fn(other, self)

    reflected.__name__ = fn.__name__
    return reflected


OPERATORS = {
    "__pow__": pow_,
    "__rpow__": swapped(pow_),
    "__mod__": remainder,
    "__rmod__": swapped(remainder),
    "__floordiv__": floor_divide,
    "__rfloordiv__": swapped(floor_divide),
    "__and__": bitwise_and,
    "__rand__": bitwise_and,
    "__or__": bitwise_or,
    "__ror__": bitwise_or,
    "__xor__": bitwise_xor,
    "__rxor__": bitwise_xor,
    "__lshift__": bitwise_left_shift,
    "__rlshift__": swapped(bitwise_left_shift),
    "__rshift__": bitwise_right_shift,
    "__rrshift__": swapped(bitwise_right_shift),
    "__ipow__": pow_.row.inplace_fn,
    "__imod__": remainder.row.inplace_fn,
    "__ifloordiv__": floor_divide.row.inplace_fn,
    "__iand__": bitwise_and.row.inplace_fn,
    "__ior__": bitwise_or.row.inplace_fn,
    "__ixor__": bitwise_xor.row.inplace_fn,
    "__ilshift__": bitwise_left_shift.row.inplace_fn,
    "__irshift__": bitwise_right_shift.row.inplace_fn,
}
