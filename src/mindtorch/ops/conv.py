"""Convolutions: three trilinear rows whose derivatives are each other, and the public functions over them.

``_C.conv_nd`` (output from input and weight), ``_C.conv_input`` (input from output and weight: also the transposed
convolution) and ``_C.conv_weight`` (weight from output and input). Input (N, C, *size), weight (O, C/groups, *kernel);
``pads`` is (low..., high...) over the spatial dimensions.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mindtorch.core.errors import check
from mindtorch.core.signature import to_ints
from mindtorch.core.tensor import Tensor
from mindtorch.engine import convolution as K
from mindtorch.engine.host.layout import like
from mindtorch.ops import notes
from mindtorch.ops.table import composite, op, vjp

Ints = tuple[int, ...]


# ------------------------------------------------------------------------------------------ the three rows
def _conj(t: Tensor) -> Tensor:
    return t.conj() if t.is_complex() else t


def _conv_vjp(
    g: Any, needs: Any, input: Any, weight: Any, stride: Ints, pads: Ints, dilation: Ints, groups: int
) -> tuple[Any, Any, Any]:
    gi = gw = gb = None
    if needs[0]:
        gi = conv_input(g, _conj(weight), None, tuple(input.shape[2:]), stride, pads, dilation, groups)
    if needs[1]:
        gw = conv_weight(g, _conj(input), tuple(weight.shape[2:]), stride, pads, dilation, groups)
    if needs[2]:
        gb = channel_sum(g)
    return gi, gw, gb


@op(
    "conv_nd(T input, T weight, T? bias, ints stride, ints pads, ints dilation, int groups)",
    ns="_C",
    half="f32",
    node="ConvolutionBackward0",
    grad=vjp(("input", "weight", "bias"), _conv_vjp),
    note=f"convolutions and transposed convolutions: {notes.HALF}",
)
def conv_nd(a: np.ndarray, w: np.ndarray, b: Any, stride: Ints, pads: Ints, dilation: Ints, groups: int) -> np.ndarray:
    """Convolution of matching arrays; the public functions have checked them."""
    return like(K.forward(a, w, b, stride, pads, dilation, groups), a, w)


def _input_vjp(
    g: Any, needs: Any, grad: Any, weight: Any, stride: Ints, pads: Ints, dilation: Ints, groups: int
) -> tuple[Any, Any, Any]:
    gg = gw = gb = None
    if needs[0]:
        exact = _exact(tuple(g.shape[2:]), tuple(grad.shape[2:]), tuple(weight.shape[2:]), stride, pads, dilation)
        gg = conv_nd(g, _conj(weight), None, stride, exact, dilation, groups)
    if needs[1]:
        gw = conv_weight(_conj(grad), g, tuple(weight.shape[2:]), stride, pads, dilation, groups)
    if needs[2]:
        gb = channel_sum(g)
    return gg, gw, gb


def _exact(size: Ints, out: Ints, kernel: Ints, stride: Ints, pads: Ints, dilation: Ints) -> Ints:
    """Pads whose high side makes a convolution of ``size`` give exactly ``out``."""
    low = pads[: len(size)]
    high = tuple(
        (o - 1) * s + d * (k - 1) + 1 - n - p for n, o, k, s, p, d in zip(size, out, kernel, stride, low, dilation)
    )
    return low + high


@op(
    "conv_input(T grad, T weight, T? bias, ints size, ints stride, ints pads, ints dilation, int groups)",
    ns="_C",
    half="f32",
    node="ConvolutionBackward0",
    grad=vjp(("grad", "weight", "bias"), _input_vjp),
)
def conv_input(
    g: np.ndarray, w: np.ndarray, b: Any, size: Ints, stride: Ints, pads: Ints, dilation: Ints, groups: int
) -> np.ndarray:
    """Transpose of ``conv_nd`` in its input, plus a bias per output channel."""
    y = K.input_grad(g, w, size, stride, pads, dilation, groups)
    if b is not None:
        y += b.reshape(-1, *(1,) * len(size))
    return like(y, g, w)


def _weight_vjp(
    g: Any, needs: Any, grad: Any, input: Any, stride: Ints, pads: Ints, dilation: Ints, groups: int
) -> tuple[Any, Any]:
    gg = gi = None
    if needs[0]:
        exact = _exact(tuple(input.shape[2:]), tuple(grad.shape[2:]), tuple(g.shape[2:]), stride, pads, dilation)
        gg = conv_nd(_conj(input), g, None, stride, exact, dilation, groups)
    if needs[1]:
        gi = conv_input(_conj(grad), g, None, tuple(input.shape[2:]), stride, pads, dilation, groups)
    return gg, gi


@op(
    "conv_weight(T grad, T input, ints kernel, ints stride, ints pads, ints dilation, int groups)",
    ns="_C",
    half="f32",
    node="ConvolutionBackwardBackward0",
    grad=vjp(("grad", "input"), _weight_vjp),
)
def conv_weight(
    g: np.ndarray, a: np.ndarray, kernel: Ints, stride: Ints, pads: Ints, dilation: Ints, groups: int
) -> np.ndarray:
    """Transpose of ``conv_nd`` in its weight."""
    return K.weight_grad(g, a, kernel, stride, pads, dilation, groups)


@op(
    "channel_sum(T grad)",
    ns="_C",
    half="f32",
    grad=dict(grad=lambda g, grad_shape: g.reshape(1, -1, *(1,) * (len(grad_shape) - 2)).expand(grad_shape)),
)
def channel_sum(g: np.ndarray) -> np.ndarray:
    """Sum of (N, C, *size) over all dimensions but the second."""
    rows = np.ascontiguousarray(g).reshape(g.shape[0], g.shape[1], -1)
    return np.add.reduce(np.add.reduce(rows, axis=2), axis=0)


# ------------------------------------------------------------------------------------------ checks
_C_NAMES = {
    "float32": "float",
    "float64": "double",
    "float16": "c10::Half",
    "bfloat16": "c10::BFloat16",
    "complex64": "c10::complex<float>",
    "complex128": "c10::complex<double>",
    "int64": "long int",
    "int32": "int",
    "int16": "short int",
    "int8": "signed char",
    "uint8": "unsigned char",
    "bool": "bool",
}
_SCALAR_NAMES = {
    "float32": "Float",
    "float64": "Double",
    "float16": "Half",
    "bfloat16": "BFloat16",
    "complex64": "ComplexFloat",
    "complex128": "ComplexDouble",
    "int64": "Long",
    "int32": "Int",
    "int16": "Short",
    "int8": "Char",
    "uint8": "Byte",
    "bool": "Bool",
}


def _dtypes(input: Tensor, weight: Tensor, bias: Tensor | None) -> None:
    have = input.k.dtype
    name = str(have).removeprefix("torch.")
    if bias is not None and bias.k.dtype is not have:
        other = str(bias.k.dtype).removeprefix("torch.")
        raise RuntimeError(
            f"Input type ({_C_NAMES.get(name, name)}) and bias type ({_C_NAMES.get(other, other)}) should be the same"
        )
    if weight.k.dtype is not have:
        other = str(weight.k.dtype).removeprefix("torch.")
        raise RuntimeError(
            f"expected scalar type {_SCALAR_NAMES.get(name, name)} but found {_SCALAR_NAMES.get(other, other)}"
        )
    if name == "bool":
        raise NotImplementedError("\"slow_conv2d_cpu\" not implemented for 'Bool'")


def _expand(value: Any, d: int, name: str) -> Ints:
    """One number or one per dimension."""
    values = to_ints(value)
    if len(values) == d:
        return values
    if len(values) == 1:
        return values * d
    raise RuntimeError(
        f"expected {name} to be a single integer value or a list of {d} values to match the convolution dimensions, "
        f"but got {name}={list(values)}"
    )


def _positive(stride: Ints, padding: Ints, dilation: Ints, groups: int) -> None:
    check(min(stride) > 0, RuntimeError, "non-positive stride is not supported")
    check(min(padding) >= 0, RuntimeError, "negative padding is not supported")
    check(min(dilation) > 0, RuntimeError, f"dilation should be greater than zero, but got {list(dilation)}")
    check(groups > 0, RuntimeError, "non-positive groups is not supported")


def _batched(input: Any, d: int, name: str) -> tuple[Tensor, bool]:
    """The input with a batch dimension, and whether it had one."""
    shape = input.a.shape
    if len(shape) == d + 2:
        return input, True
    if len(shape) == d + 1:
        return input.unsqueeze(0), False
    raise RuntimeError(
        f"Expected {d + 1}D (unbatched) or {d + 2}D (batched) input to {name}, but got input of size: {list(shape)}"
    )


def _shapes(input: Tensor, weight: Tensor, bias: Tensor | None, pads: Ints, dilation: Ints, groups: int) -> None:
    x, w = input.a.shape, weight.a.shape
    d = len(x) - 2
    check(
        len(w) == d + 2,
        RuntimeError,
        f"expected weight of {d + 2} dimensions to match the convolution dimensions, but got weight of size {list(w)}",
    )
    check(
        w[0] >= groups,
        RuntimeError,
        f"Given groups={groups}, expected weight to be at least {groups} at dimension 0, but got weight of size {list(w)} instead",
    )
    check(
        w[0] % groups == 0,
        RuntimeError,
        f"Given groups={groups}, expected weight to be divisible by {groups} at dimension 0, "
        f"but got weight of size [{list(w)}] instead",
    )
    check(
        x[1] == w[1] * groups,
        RuntimeError,
        f"Given groups={groups}, weight of size {list(w)}, expected input{list(x)} to have {w[1] * groups} channels, "
        f"but got {x[1]} channels instead",
    )
    check(
        bias is None or bias.a.shape == (w[0],),
        RuntimeError,
        f"Given weight of size {list(w)}, expected bias to be 1-dimensional with {w[0]} elements, "
        f"but got bias of size {list(bias.a.shape) if bias is not None else None} instead",
    )
    padded = [n + pads[i] + pads[i + d] for i, n in enumerate(x[2:])]
    window = [dilation[i] * (k - 1) + 1 for i, k in enumerate(w[2:])]
    check(
        all(p >= k for p, k in zip(padded, window)),
        RuntimeError,
        f"Calculated padded input size per channel: ({' x '.join(map(str, padded))}). Kernel size: "
        f"({' x '.join(map(str, window))}). Kernel size can't be greater than actual input size",
    )


def _pads(padding: Any, kernel: Ints, stride: Ints, dilation: Ints) -> Ints:
    """(low..., high...) from numbers, 'valid' or 'same'; 'same' puts the odd one on the high side."""
    d = len(kernel)
    if not isinstance(padding, str):
        one = _expand(padding, d, "padding")
        return one + one
    if padding == "valid":
        return (0,) * (2 * d)
    check(padding == "same", RuntimeError, f"Invalid padding string: '{padding}'")
    check(max(stride) == 1, RuntimeError, "padding='same' is not supported for strided convolutions")
    total = [dilation[i] * (kernel[i] - 1) for i in range(d)]
    low = tuple(t // 2 for t in total)
    return low + tuple(t - p for t, p in zip(total, low))


# ------------------------------------------------------------------------------------------ public functions
def _conv(
    d: int, input: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any, groups: int, name: str
) -> Any:
    x, batched = _batched(input, d, name)
    _dtypes(x, weight, bias)
    stride, dilation = _expand(stride, d, "stride"), _expand(dilation, d, "dilation")
    kernel = weight.a.shape[2:]
    if len(kernel) != d:
        _shapes(x, weight, bias, (0,) * (2 * d), dilation, groups)
    pads = _pads(padding, kernel, stride, dilation)
    _positive(stride, pads, dilation, groups)
    _shapes(x, weight, bias, pads, dilation, groups)
    y = conv_nd(x, weight, bias, stride, pads, dilation, groups)
    return y if batched else y.squeeze(0)


def _conv_row(d: int) -> Any:
    name = f"conv{d}d"

    def conv(input: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any, groups: int) -> Any:
        return _conv(d, input, weight, bias, stride, padding, dilation, groups, name)

    conv.__name__ = name
    conv.__doc__ = f"Convolution over {d} dimension{'s' if d > 1 else ''}; padding may be 'same' or 'valid'."
    sig = f"{name}(T input, T weight, T? bias=None, ints stride=1, any padding=0, ints dilation=1, int groups=1)"
    return composite(sig, ns="torch F")(conv)


conv1d, conv2d, conv3d = _conv_row(1), _conv_row(2), _conv_row(3)


def _transpose_shapes(x: Ints, w: Ints, bias: Any, groups: int) -> None:
    check(
        len(w) == len(x),
        RuntimeError,
        f"expected weight of {len(x)} dimensions to match the convolution dimensions, but got weight of size {list(w)}",
    )
    check(
        x[1] == w[0],
        RuntimeError,
        f"Given transposed=1, weight of size {list(w)}, expected input{list(x)} to have {w[0]} channels, "
        f"but got {x[1]} channels instead",
    )
    check(
        w[0] % groups == 0,
        RuntimeError,
        f"Given groups={groups}, expected weight to be divisible by {groups} at dimension 0, "
        f"but got weight of size [{list(w)}] instead",
    )
    check(
        bias is None or bias.a.shape == (w[1] * groups,),
        RuntimeError,
        f"Given transposed=1, weight of size {list(w)}, expected bias to be 1-dimensional with {w[1] * groups} "
        f"elements, but got bias of size {list(bias.a.shape) if bias is not None else None} instead",
    )


_AXES = {1: ("width",), 2: ("height", "width"), 3: ("depth", "height", "width")}


def _conv_transpose(
    d: int,
    input: Any,
    weight: Any,
    bias: Any,
    stride: Any,
    padding: Any,
    output_padding: Any,
    groups: int,
    dilation: Any,
    name: str,
) -> Any:
    x, batched = _batched(input, d, name)
    if isinstance(padding, str):
        raise TypeError(f"{name}(): argument 'padding' must be tuple of ints, not str")
    _dtypes(x, weight, bias)
    stride, dilation = _expand(stride, d, "stride"), _expand(dilation, d, "dilation")
    padding, extra = _expand(padding, d, "padding"), _expand(output_padding, d, "output_padding")
    _positive(stride, padding, dilation, groups)
    check(min(extra) >= 0, RuntimeError, "negative output_padding is not supported")
    _transpose_shapes(x.a.shape, weight.a.shape, bias, groups)
    fits = all(e < s or e < t for e, s, t in zip(extra, stride, dilation))
    if not fits:
        named = [("output_padding", extra), ("stride", stride), ("dilation", dilation)]
        found = " ".join(f"{what}_{axis}: {v}" for what, vs in named for axis, v in zip(_AXES[d], vs))
        raise RuntimeError(f"output padding must be smaller than either stride or dilation, but got {found}")
    kernel, before = weight.a.shape[2:], x.a.shape[2:]
    size = tuple(
        (n - 1) * s - 2 * p + t * (k - 1) + e + 1
        for n, s, p, t, k, e in zip(before, stride, padding, dilation, kernel, extra)
    )
    check(
        min(size) > 0,
        RuntimeError,
        f"Given input size per channel: ({' x '.join(map(str, before))}). Calculated output size per channel: "
        f"({' x '.join(map(str, size))}). Output size is too small",
    )
    y = conv_input(x, weight, bias, size, stride, padding + padding, dilation, groups)
    return y if batched else y.squeeze(0)


def _transpose_row(d: int) -> Any:
    name = f"conv_transpose{d}d"

    def conv(
        input: Any,
        weight: Any,
        bias: Any,
        stride: Any,
        padding: Any,
        output_padding: Any,
        groups: int,
        dilation: Any,
    ) -> Any:
        return _conv_transpose(d, input, weight, bias, stride, padding, output_padding, groups, dilation, name)

    conv.__name__ = name
    conv.__doc__ = f"Transposed convolution over {d} dimension{'s' if d > 1 else ''}; weight (C, O/groups, *kernel)."
    sig = (
        f"{name}(T input, T weight, T? bias=None, ints stride=1, any padding=0, ints output_padding=0, int groups=1, "
        "ints dilation=1)"
    )
    return composite(sig, ns="torch F")(conv)


conv_transpose1d, conv_transpose2d, conv_transpose3d = _transpose_row(1), _transpose_row(2), _transpose_row(3)


@composite(
    "convolution(T input, T weight, T? bias, ints stride, ints padding, ints dilation, bool transposed, "
    "ints output_padding, int groups)",
    ns="torch",
)
def convolution(
    input: Any,
    weight: Any,
    bias: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: int,
) -> Any:
    """Convolution or transposed convolution over as many dimensions as the weight has."""
    d = weight.a.ndim - 2
    check(
        1 <= d <= 3, RuntimeError, f"convolution: weight must have 3 to 5 dimensions, got size {list(weight.a.shape)}"
    )
    if transposed:
        return _conv_transpose(d, input, weight, bias, stride, padding, output_padding, groups, dilation, "convolution")
    return _conv(d, input, weight, bias, stride, padding, dilation, groups, "convolution")


@composite("conv_tbc(T input, T weight, T bias, int pad=0)", ns="torch F")
def conv_tbc(input: Tensor, weight: Tensor, bias: Tensor, pad: int) -> Tensor:
    """1-d convolution of (time, batch, channels) with a weight (width, channels in, channels out), zeros padded in time."""
    check(input.a.ndim == 3, RuntimeError, "Input must have 3 dims: time, batch, in_channel")
    check(weight.a.ndim == 3, RuntimeError, "Weight tensor must have 3 dims: kernel_width, in_channels, out_channels.")
    check(bias.a.ndim == 1, RuntimeError, "Bias must be 1-D")
    check(
        input.a.shape[2] == weight.a.shape[1],
        RuntimeError,
        "Input dim 2 (input channels) is not == dim 1 in the weight tensor",
    )
    check(
        weight.a.shape[2] == bias.a.shape[0],
        RuntimeError,
        "Bias size must equal dim 2 in the weight tensor (output channels).",
    )
    return conv1d(input.permute(1, 2, 0), weight.permute(2, 1, 0), bias, padding=pad).permute(2, 0, 1)
