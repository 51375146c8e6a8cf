"""Activation rows of ``nn.functional`` (and those that are also torch functions or Tensor methods).

Each activation is one op with its own backward op in ``_C``; the functional form with ``inplace=`` is a thin composite.
Derivatives of the backward ops are written with public ops, so any order works.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mindtorch.core import modes
from mindtorch.core.errors import check, wrap_dim
from mindtorch.core.tensor import Tensor
from mindtorch.engine.host import activation as K
from mindtorch.ops.pointwise_unary import sigmoid, tanh
from mindtorch.ops.table import composite, op, put

SELU_ALPHA = 1.6732632423543772848170429916717
SELU_SCALE = 1.0507009873554804934193349852946
_NAMES = {"int64": "Long", "int32": "Int", "int16": "Short", "int8": "Char", "uint8": "Byte", "bool": "Bool"}


def floating(name: str, a: np.ndarray) -> None:
    """NotImplementedError unless the array is floating, worded as PyTorch's kernels do."""
    if a.dtype.kind not in "fV":
        kind = _NAMES.get(a.dtype.name, a.dtype.name)
        raise NotImplementedError(f"\"{name}\" not implemented for '{kind}': convert the input with .float() first")


def _op(sig: str, **options: Any) -> Callable[[Callable[..., Any]], Any]:
    return op(sig, half="f32", **options)


def _functional(sig: str, fn: Any) -> Any:
    """``F.name(input, ..., inplace=False)`` over an op with an in-place twin."""
    twin = fn.row.inplace_fn

    def call(*args: Any) -> Any:
        return twin(*args[:-1]) if args[-1] else fn(*args[:-1])

    call.__doc__ = fn.__doc__
    return composite(sig, ns="F")(call)


def _slope(name: str, kernel: Callable[..., Any], second: Callable[..., Tensor] | None = None) -> Any:
    """The op ``name_backward(grad, input)``: grad times the slope of ``name`` at input. ``second`` is its derivative by
    input; without it that is 0."""

    def backward(g: np.ndarray, a: np.ndarray) -> Any:
        return kernel(g, a)

    backward.__doc__ = f"grad times the slope of {name} at input."
    grad: dict[str, Any] = {"grad": lambda g, input: row(g, input)}
    if second is not None:
        grad["input"] = second
    row = _op(f"{name}_backward(T grad, T input)", ns="_C", grad=grad)(backward)
    return row


def _unary(name: str, node: str, kernel: Callable[..., Any], backward: Any) -> Any:
    """The op ``_name(input)`` for floating inputs, with its in-place twin."""

    def forward(a: np.ndarray) -> Any:
        floating(f"{name}_cpu", a)
        return kernel(a)

    grad = {"input": lambda g, input: backward(g, input)}
    return _op(f"_{name}(T input)", ns="_C", inplace=True, node=node, grad=grad)(forward)


# ---------------------------------------------------------------------- relu and its kin
@_op(
    "threshold_backward(T grad, T input, N threshold)",
    ns="_C",
    grad={"grad": lambda g, input, threshold: threshold_backward(g, input, threshold)},
)
def threshold_backward(g: np.ndarray, a: np.ndarray, threshold: float) -> Any:
    """g where input > threshold, else 0."""
    return K.threshold_backward(g, a, threshold)


relu = _op("relu(T input)", inplace=True, grad={"input": lambda g, out: threshold_backward(g, out, 0)})(K.relu)
_functional("relu(T input, bool inplace=False)", relu)
put("F", relu_=relu.row.inplace_fn)


@_op(
    "_threshold(T input, N threshold, N value)",
    ns="_C",
    inplace=True,
    node="ThresholdBackward0",
    grad={"input": lambda g, input, threshold: threshold_backward(g, input, threshold)},
)
def _threshold(a: np.ndarray, threshold: float, value: float) -> Any:
    return K.threshold(a, threshold, value)


_functional("threshold(T input, N threshold, N value, bool inplace=False)", _threshold)
composite("threshold(T input, N threshold, N value)", ns="torch")(
    lambda input, threshold, value: _threshold(input, threshold, value)
)
put("F torch", threshold_=_threshold.row.inplace_fn)


@_op(
    "hardtanh_backward(T grad, T input, N low, N high)",
    ns="_C",
    grad={"grad": lambda g, input, low, high: hardtanh_backward(g, input, low, high)},
)
def hardtanh_backward(g: np.ndarray, a: np.ndarray, low: float, high: float) -> Any:
    """grad where input is strictly inside (low, high) or nan, else 0."""
    return K.between(g, a, low, high)


def _clip_op(name: str, label: str) -> Any:
    @_op(
        f"{name}(T input, N low, N high)",
        ns="_C",
        inplace=True,
        node=label,
        grad={"input": lambda g, input, low, high: hardtanh_backward(g, input, low, high)},
    )
    def clip(a: np.ndarray, low: float, high: float) -> Any:
        return K.clip(a, low, high)

    return clip


_hardtanh = _clip_op("_hardtanh", "HardtanhBackward0")


@composite("hardtanh(T input, N min_val=-1.0, N max_val=1.0, bool inplace=False)", ns="F")
def hardtanh(input: Tensor, min_val: float, max_val: float, inplace: bool) -> Tensor:
    """Input limited to [min_val, max_val]. ValueError when min_val exceeds max_val."""
    if min_val > max_val:
        raise ValueError("min_val cannot be greater than max_val")
    return _hardtanh.row.inplace_fn(input, min_val, max_val) if inplace else _hardtanh(input, min_val, max_val)


@composite("hardtanh_(T input, N min_val=-1.0, N max_val=1.0)", ns="F")
def hardtanh_(input: Tensor, min_val: float, max_val: float) -> Tensor:
    """In-place hardtanh."""
    return hardtanh(input, min_val, max_val, True)


@composite("relu6(T input, bool inplace=False)", ns="F")
def relu6(input: Tensor, inplace: bool) -> Tensor:
    """Input limited to [0, 6]."""
    return _hardtanh.row.inplace_fn(input, 0, 6) if inplace else _hardtanh(input, 0, 6)


@_op(
    "leaky_relu_backward(T grad, T input, N slope)",
    ns="_C",
    grad={"grad": lambda g, input, slope: leaky_relu_backward(g, input, slope)},
)
def leaky_relu_backward(g: np.ndarray, a: np.ndarray, slope: float) -> Any:
    """g where input > 0, else slope * g."""
    return K.leaky_relu_backward(g, a, slope)


@_op(
    "_leaky_relu(T input, N negative_slope=0.01)",
    ns="_C",
    inplace=True,
    node="LeakyReluBackward0",
    grad={"input": lambda g, input, negative_slope: leaky_relu_backward(g, input, negative_slope)},
)
def _leaky_relu(a: np.ndarray, slope: float) -> Any:
    floating("leaky_relu_cpu", a)
    return K.leaky_relu(a, slope)


_functional("leaky_relu(T input, N negative_slope=0.01, bool inplace=False)", _leaky_relu)
put("F", leaky_relu_=_leaky_relu.row.inplace_fn)


# ---------------------------------------------------------------------- exponential units
def _second(slope2: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Derivative by ``input`` of a backward op ``grad * slope(input)``: g * grad * slope'(input)."""
    return lambda g, grad, input: g * grad * slope2(input)


def _elu_input(g: Tensor, grad: Tensor, input: Tensor, alpha: float, scale: float, input_scale: float) -> Tensor:
    low = (input.clamp(max=0) * input_scale).exp() * (scale * alpha * input_scale * input_scale)
    return (g * grad * low).masked_fill(input > 0, 0)


@_op(
    "elu_backward(T grad, T input, N alpha, N scale, N input_scale)",
    ns="_C",
    grad={
        "grad": lambda g, input, alpha, scale, input_scale: elu_backward(g, input, alpha, scale, input_scale),
        "input": _elu_input,
    },
)
def elu_backward(g: np.ndarray, a: np.ndarray, alpha: float, scale: float, input_scale: float) -> Any:
    """grad times the slope of elu at input."""
    return K.elu_backward(g, a, alpha, scale, input_scale)


def _single(alpha: float) -> float:
    """PyTorch's celu derivative reads alpha in single precision, whatever the tensor's dtype."""
    return 1.0 / float(np.float32(alpha))


def _elu_family(name: str, label: str, slope: Callable[[float, float], float]) -> Any:
    @_op(
        f"{name}(T input, N alpha=1.0, N scale=1.0, N input_scale=1.0)",
        ns="_C",
        inplace=True,
        node=label,
        grad={
            "input": lambda g, input, alpha, scale, input_scale: elu_backward(
                g, input, alpha, scale, slope(alpha, input_scale)
            ),
        },
    )
    def elu(a: np.ndarray, alpha: float, scale: float, input_scale: float) -> Any:
        floating("elu_cpu", a)
        return K.elu(a, alpha, scale, input_scale)

    return elu


_elu = _elu_family("_elu", "EluBackward0", lambda alpha, input_scale: input_scale)
_celu = _elu_family("_celu", "CeluBackward0", lambda alpha, input_scale: _single(alpha))
_functional("elu(T input, N alpha=1.0, bool inplace=False)", _elu)
composite("elu_(T input, N alpha=1.0)", ns="F")(lambda input, alpha: _elu.row.inplace_fn(input, alpha))


@composite("selu(T input, bool inplace=False)", ns="F torch")
def selu(input: Tensor, inplace: bool) -> Tensor:
    """scale * elu(input) with the self-normalising constants."""
    fn = _elu.row.inplace_fn if inplace else _elu
    return fn(input, SELU_ALPHA, SELU_SCALE, 1.0)


composite("selu_(T input)", ns="F torch")(lambda input: _elu.row.inplace_fn(input, SELU_ALPHA, SELU_SCALE, 1.0))


@composite("celu(T input, N alpha=1.0, bool inplace=False)", ns="F torch")
def celu(input: Tensor, alpha: float, inplace: bool) -> Tensor:
    """max(0, x) + min(0, alpha * (exp(x / alpha) - 1)). RuntimeError when alpha is 0."""
    check(alpha != 0, RuntimeError, "ZeroDivisionError: alpha cannot be 0 for CELU")
    fn = _celu.row.inplace_fn if inplace else _celu
    return fn(input, alpha, 1.0, 1.0 / alpha)


composite("celu_(T input, N alpha=1.0)", ns="F torch")(lambda input, alpha: celu(input, alpha, True))


# ---------------------------------------------------------------------- gelu, silu, mish, softplus
def _gelu_second(input: Tensor, approximate: str) -> Tensor:
    if approximate == "none":
        return (input * input * -0.5).exp() * 0.3989422804014327 * (2 - input * input)
    k, c = K.KAPPA, 0.044715
    x2 = input * input
    t = ((input + x2 * input * c) * k).tanh()
    du = (x2 * (3 * c) + 1) * k
    sech = 1 - t * t
    return sech * du + input * sech * (0.5 * (6 * c * k) * input - t * du * du)


@_op(
    "gelu_backward(T grad, T input, str approximate)",
    ns="_C",
    grad={
        "grad": lambda g, input, approximate: gelu_backward(g, input, approximate),
        "input": lambda g, grad, input, approximate: g * grad * _gelu_second(input, approximate),
    },
)
def gelu_backward(g: np.ndarray, a: np.ndarray, approximate: str) -> Any:
    """grad times the slope of gelu at input."""
    return K.gelu_backward(g, a) if approximate == "none" else K.gelu_tanh_backward(g, a)


@_op(
    "gelu(T input, *, str approximate='none')",
    ns="F",
    grad={"input": lambda g, input, approximate: gelu_backward(g, input, approximate)},
)
def gelu(a: np.ndarray, approximate: str = "none") -> Any:
    """x * Phi(x); approximate="tanh" uses the tanh form."""
    if a.dtype.kind != "f":
        floating("GeluKernelImpl", a)
    if approximate == "none":
        return K.gelu(a)
    check(approximate == "tanh", RuntimeError, f"approximate argument must be either none or tanh, got {approximate!r}")
    return K.gelu_tanh(a)


def _silu_second(input: Tensor) -> Tensor:
    s = input.sigmoid()
    d = s * (1 - s)
    return d * (2 + input * (1 - 2 * s))


silu_backward = _slope("silu", K.silu_backward, _second(_silu_second))


@_op(
    "_silu(T input)",
    ns="_C",
    inplace=True,
    node="SiluBackward0",
    grad={"input": lambda g, input: silu_backward(g, input)},
)
def _silu(a: np.ndarray) -> Any:
    if a.dtype.kind == "c":
        return K.complex_silu(a)
    floating("silu_cpu", a)
    return K.silu(a)


@composite("silu(T input, bool inplace=False)", ns="F")
def silu(input: Tensor, inplace: bool) -> Tensor:
    """input * sigmoid(input). Complex input is accepted, but not differentiated (as in PyTorch)."""
    check(
        not (input.k.cat == 3 and input.requires_grad and modes.state.grad),
        RuntimeError,
        "silu does not support automatic differentiation for outputs with complex dtype. Write input * "
        "input.sigmoid().",
    )
    return _silu.row.inplace_fn(input) if inplace else _silu(input)


def _mish_second(input: Tensor) -> Tensor:
    s = input.sigmoid()
    t = softplus_op(input, 1.0, 20.0).tanh()
    sech = 1 - t * t
    return sech * s * (2 + input * (1 - s) - 2 * input * t * s)


mish_backward = _slope("mish", K.mish_backward, _second(_mish_second))
_mish = _unary("mish", "MishBackward0", K.mish, mish_backward)


_functional("mish(T input, bool inplace=False)", _mish)


def _softplus_input(g: Tensor, grad: Tensor, input: Tensor, beta: float, threshold: float) -> Tensor:
    s = (input * beta).sigmoid()
    return (g * grad * (s * (1 - s) * beta)).masked_fill(input * beta > threshold, 0)


@_op(
    "softplus_backward(T grad, T input, N beta, N threshold)",
    ns="_C",
    grad={
        "grad": lambda g, input, beta, threshold: softplus_backward(g, input, beta, threshold),
        "input": _softplus_input,
    },
)
def softplus_backward(g: np.ndarray, a: np.ndarray, beta: float, threshold: float) -> Any:
    """grad times the slope of softplus at input."""
    return K.softplus_backward(g, a, beta, threshold)


@_op(
    "softplus(T input, N beta=1.0, N threshold=20.0)",
    ns="F",
    out=True,
    grad={"input": lambda g, input, beta, threshold: softplus_backward(g, input, beta, threshold)},
)
def softplus(a: np.ndarray, beta: float, threshold: float) -> Any:
    """log(1 + exp(beta * x)) / beta; x itself where beta * x exceeds the threshold."""
    floating("softplus_cpu", a)
    return K.softplus(a, beta, threshold)


softplus_op = softplus


log_sigmoid_backward = _slope(
    "log_sigmoid", K.logsigmoid_backward, _second(lambda input: -(input.sigmoid() * (1 - input.sigmoid())))
)


@_op(
    "logsigmoid(T input)",
    ns="F",
    out=True,
    node="LogSigmoidBackward0",
    grad={"input": lambda g, input: log_sigmoid_backward(g, input)},
)
def logsigmoid(a: np.ndarray) -> Any:
    """log(sigmoid(x))."""
    floating("log_sigmoid_cpu", a)
    return K.logsigmoid(a)


# ---------------------------------------------------------------------- hard variants and shrinks
hardswish_backward = _slope(
    "hardswish",
    K.hardswish_backward,
    lambda g, grad, input: (g * grad / 3).masked_fill((input <= -3) | (input >= 3), 0),
)
_hardswish = _unary("hardswish", "HardswishBackward0", K.hardswish, hardswish_backward)


_functional("hardswish(T input, bool inplace=False)", _hardswish)


hardsigmoid_backward = _slope("hardsigmoid", K.hardsigmoid_backward)
_hardsigmoid = _unary("hardsigmoid", "HardsigmoidBackward0", K.hardsigmoid, hardsigmoid_backward)


_functional("hardsigmoid(T input, bool inplace=False)", _hardsigmoid)


@_op(
    "shrink_backward(T grad, T input, N lambd)",
    ns="_C",
    grad={"grad": lambda g, input, lambd: shrink_backward(g, input, lambd)},
)
def shrink_backward(g: np.ndarray, a: np.ndarray, lambd: float) -> Any:
    """grad where |input| > lambd, else 0."""
    return K.shrink_backward(g, a, lambd)


@_op(
    "hardshrink(T input, N lambd=0.5)",
    ns="F torch Tensor",
    out=True,
    grad={"input": lambda g, input, lambd: shrink_backward(g, input, lambd)},
)
def hardshrink(a: np.ndarray, lambd: float) -> Any:
    """x where |x| > lambd, else 0."""
    floating("hardshrink_cpu", a)
    return K.hardshrink(a, lambd)


@_op(
    "softshrink(T input, N lambd=0.5)",
    ns="F",
    out=True,
    grad={"input": lambda g, input, lambd: shrink_backward(g, input, lambd)},
)
def softshrink(a: np.ndarray, lambd: float) -> Any:
    """x moved towards 0 by lambd. RuntimeError for a negative lambd."""
    floating("softshrink_cpu", a)
    check(lambd >= 0, RuntimeError, f"lambda must be greater or equal to 0, but found to be {lambd}.")
    return K.softshrink(a, lambd)


@composite("tanhshrink(T input)", ns="F")
def tanhshrink(input: Tensor) -> Tensor:
    """x - tanh(x)."""
    return input - input.tanh()


@composite("softsign(T input)", ns="F")
def softsign(input: Tensor) -> Tensor:
    """x / (1 + |x|)."""
    return input / (input.abs() + 1)


# ---------------------------------------------------------------------- prelu and glu
@_op(
    "_prelu(T input, T weight)",
    ns="_C",
    promote="same",
    node="PreluKernelBackward0",
    grad={
        "input": lambda g, input, weight: (g * weight).where(input <= 0, g),
        "weight": lambda g, input: (g * input).masked_fill(input > 0, 0),
    },
)
def _prelu(a: np.ndarray, w: np.ndarray) -> Any:
    return K.prelu(a, w)


@composite("prelu(T input, T weight)", ns="F torch Tensor")
def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """x for x > 0, else weight * x; weight has 1 element or one per channel (dim 1)."""
    check(
        weight.dtype == input.dtype,
        RuntimeError,
        f"prelu: Type promoting not supported. Got {input.dtype} and {weight.dtype}",
    )
    shape: list[int] = []
    if weight.numel() != 1:
        check(input.ndim > 0, RuntimeError, "prelu: not allow zero-dim input tensor with several parameters.")
        channels = input.shape[1] if input.ndim >= 2 else 1
        check(
            channels == weight.numel(),
            RuntimeError,
            f"Mismatch of parameter numbers and input channel size. Found parameter numbers = {weight.numel()} "
            f"and channel size = {channels}.",
        )
        shape = [1] * input.ndim
        shape[1 if input.ndim > 1 else 0] = weight.numel()
    elif input.ndim:
        shape = [1] * input.ndim
    check(
        weight.ndim <= 1,
        RuntimeError,
        f"prelu: Expected `weight` to be a scalar or 1D tensor, but got: ndim = {weight.ndim}",
    )
    return _prelu(input, weight.reshape(shape))


@composite("glu(T input, int dim=-1)", ns="F", node="GluBackward0")
def glu(input: Tensor, dim: int) -> Tensor:
    """First half along dim times the sigmoid of the second half. RuntimeError for an odd size."""
    check(input.ndim > 0, RuntimeError, "glu does not support 0-dimensional tensors")
    d = wrap_dim(dim, input.ndim)
    size = input.shape[d]
    check(size % 2 == 0, RuntimeError, f"Halving dimension must be even, but dimension {d} is size {size}")
    return input.narrow(d, 0, size // 2) * input.narrow(d, size // 2, size // 2).sigmoid()


put("F", sigmoid=sigmoid, tanh=tanh)
