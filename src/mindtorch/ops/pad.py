"""Padding, sliding blocks (``unfold``, ``fold``) and the channel-to-space rearrangements."""

from __future__ import annotations

from typing import Any

import numpy as np

from mindtorch.core.errors import check
from mindtorch.core.signature import to_ints
from mindtorch.engine.host import fold as B
from mindtorch.engine.host import pad as K
from mindtorch.engine.host.layout import like
from mindtorch.ops.table import composite, op

Ints = tuple[int, ...]


# ------------------------------------------------------------------------------------------ padding
@op(
    "pad_constant(T input, ints pads, any value)",
    ns="_C",
    node="ConstantPadNdBackward0",
    grad=dict(input=lambda g, pads: pad_constant(g, tuple(-p for p in pads), 0)),
)
def pad_constant(a: np.ndarray, pads: Ints, value: Any) -> np.ndarray:
    """Enlarged and filled; negative amounts crop."""
    return like(K.constant(a, pads, value), a)


def _constant(input: Any, pads: Ints, value: Any) -> Any:
    d = input.a.ndim
    check(len(pads) % 2 == 0, RuntimeError, "Length of pad must be even but instead it equals " + str(len(pads)))
    check(
        len(pads) <= 2 * d,
        RuntimeError,
        "Padding length should be less than or equal to two times the input dimension "
        f"but got padding length {len(pads)} and input of dimension {d}",
    )
    for i in range(len(pads) // 2):
        n = input.a.shape[d - 1 - i]
        low, high = pads[2 * i], pads[2 * i + 1]
        check(
            n + low + high >= 0 and n + min(low, 0) + min(high, 0) >= 0,
            RuntimeError,
            f"narrow(): length must be non-negative. Padding ({low}, {high}) removes more than the {n} elements of "
            f"dimension {d - 1 - i}",
        )
    kind = input.a.dtype.kind
    if value is None:
        value = 0
    elif kind in "iu":
        value = int(value)
    elif kind == "b":
        value = bool(value)
    return pad_constant(input, pads, value)


@composite("constant_pad_nd(T input, ints pad, N value=0)", ns="torch")
def constant_pad_nd(input: Any, pad: Any, value: Any) -> Any:
    """Padding with a number; negative amounts crop."""
    return _constant(input, to_ints(pad), value)


_MODE_NAMES = {"reflect": "Reflection", "replicate": "Replication"}


def _indexed_rule(g: Any, pads: Ints, mode: str, input_shape: Any) -> Any:
    return pad_indexed_grad(g, pads, mode, tuple(input_shape))


def _indexed_kernel(a: np.ndarray, pads: Ints, mode: str) -> np.ndarray:
    return like(K.indexed(a, pads, mode), a)


_INDEXED = {
    (mode, d): op(
        f"pad_{mode}{d}d(T input, ints pads, str mode)",
        ns="_C",
        node=f"{_MODE_NAMES[mode]}Pad{d}DBackward0" if mode in _MODE_NAMES else "PadCircularBackward0",
        grad=dict(input=_indexed_rule),
    )(_indexed_kernel)
    for mode in ("reflect", "replicate", "circular")
    for d in (1, 2, 3)
}


@op(
    "pad_indexed_grad(T grad, ints pads, str mode, ints size)",
    ns="_C",
    half="f32",
    grad=dict(grad=lambda g, pads, mode: _INDEXED[mode, len(pads) // 2](g, pads, mode)),
)
def pad_indexed_grad(g: np.ndarray, pads: Ints, mode: str, size: Ints) -> np.ndarray:
    """Transpose of reading padding; ``size`` is the whole shape of the input."""
    return like(K.indexed_grad(g, pads, mode, size), g)


def _check_indexed(shape: Ints, pads: Ints, mode: str) -> None:
    d = len(pads) // 2
    if not 1 <= d <= 3 or len(shape) not in (d + 1, d + 2):
        raise NotImplementedError(
            f"Padding size {len(pads)} is not supported for {len(shape)}D input tensor."
            if d <= 3
            else "Only 2D, 3D, 4D, 5D padding with non-constant padding are supported for now"
        )
    for i in range(d):
        axis = len(shape) - 1 - i
        low, high, n = pads[2 * i], pads[2 * i + 1], shape[axis]
        if mode == "reflect":
            check(
                low < n and high < n,
                RuntimeError,
                f"Argument #{4 + 2 * i}: Padding size should be less than the corresponding input dimension, but got: "
                f"padding ({low}, {high}) at dimension {axis} of input {list(shape)}",
            )
        elif mode == "circular":
            check(low <= n and high <= n, RuntimeError, "Padding value causes wrapping around more than once.")
        check(
            n + low + high >= 1,
            RuntimeError,
            f"input size {n} of dimension {axis} is too small for padding ({low}, {high}): the output would be empty",
        )


@composite("pad(T input, any pad, str mode='constant', any value=None)", ns="F")
def pad(input: Any, pad: Any, mode: str, value: Any) -> Any:
    """``pad``: (low, high) of the last dimension, then of the one before; constant, reflect, replicate or circular."""
    pads = to_ints(pad)
    check(len(pads) % 2 == 0, RuntimeError, "Padding length must be divisible by 2")
    if mode == "constant":
        return _constant(input, pads, value)
    check(value is None or value == 0, RuntimeError, f'Padding mode "{mode}" doesn\'t take in value argument')
    if mode not in ("reflect", "replicate", "circular"):
        raise NotImplementedError(f"Unrecognised padding mode {mode}")
    _check_indexed(input.a.shape, pads, mode)
    return _INDEXED[mode, len(pads) // 2](input, pads, mode)


# ------------------------------------------------------------------------------------------ sliding blocks
_BLOCK = "ints kernel, ints dilation, ints padding, ints stride"


def _unfold_rule(g: Any, kernel: Ints, dilation: Ints, padding: Ints, stride: Ints, input_shape: Any) -> Any:
    return col2im(g, tuple(input_shape[2:]), kernel, dilation, padding, stride)


@op(f"im2col(T input, {_BLOCK})", ns="_C", node="Im2ColBackward0", half="f32", grad=dict(input=_unfold_rule))
def im2col(a: np.ndarray, kernel: Any, dilation: Any, padding: Any, stride: Any) -> np.ndarray:
    """(N, C, H, W) to (N, C * kh * kw, blocks)."""
    return B.unfold(a, kernel, dilation, padding, stride)


@op(
    f"col2im(T input, ints size, {_BLOCK})",
    ns="_C",
    node="Col2ImBackward0",
    half="f32",
    grad=dict(input=lambda g, kernel, dilation, padding, stride: im2col(g, kernel, dilation, padding, stride)),
)
def col2im(a: np.ndarray, size: Any, kernel: Any, dilation: Any, padding: Any, stride: Any) -> np.ndarray:
    """(N, C * kh * kw, blocks) to (N, C, *size), overlaps added."""
    return B.fold(a, size, kernel, dilation, padding, stride)


def _pair(value: Any, what: str, name: str) -> Any:
    values = to_ints(value)
    check(len(values) in (1, 2), RuntimeError, f"{name}: expected {what} to be one int or two, but got {list(values)}")
    return values * 2 if len(values) == 1 else values


def _block_args(kernel_size: Any, dilation: Any, padding: Any, stride: Any, name: str) -> Any:
    kernel, spread = _pair(kernel_size, "kernel_size", name), _pair(dilation, "dilation", name)
    pads, steps = _pair(padding, "padding", name), _pair(stride, "stride", name)
    for what, values in (("kernel size", kernel), ("stride", steps), ("dilation", spread)):
        check(
            min(values) > 0,
            RuntimeError,
            f"{what} should be greater than zero, but got {' '.join(map(str, values))}",
        )
    check(min(pads) >= 0, RuntimeError, f"padding should be non-negative, but got {pads}")
    return kernel, spread, pads, steps


@composite("unfold(T input, any kernel_size, any dilation=1, any padding=0, any stride=1)", ns="F")
def unfold(input: Any, kernel_size: Any, dilation: Any, padding: Any, stride: Any) -> Any:
    """Every block of (N, C, H, W) as a column: (N, C * kh * kw, blocks)."""
    kernel, spread, pads, steps = _block_args(kernel_size, dilation, padding, stride, "unfold")
    kind = input.a.dtype.kind
    if kind in "iu":
        names = {"int64": "Long", "int32": "Int", "uint8": "Byte", "int16": "Short", "int8": "Char"}
        raise NotImplementedError(f"\"im2col_out_cpu\" not implemented for '{names.get(input.a.dtype.name, kind)}'")
    batched = input.a.ndim == 4
    check(
        input.a.ndim in (3, 4),
        RuntimeError,
        "Expected 3D or 4D (batch mode) tensor with possibly 0 batch size and other non-zero dimensions for input, "
        f"but got: {list(input.a.shape)}",
    )
    x = input if batched else input.unsqueeze(0)
    size = x.a.shape[2:]
    found = B.blocks(size, kernel, spread, pads, steps)
    check(
        min(found) >= 1,
        RuntimeError,
        f"Given input with spatial size {size}, kernel_size={kernel}, dilation={spread}, padding={pads}, calculated "
        f"shape of the array of sliding blocks as {found}, but its components must be at least one.",
    )
    y = im2col(x, kernel, spread, pads, steps)
    return y if batched else y.squeeze(0)


@composite("fold(T input, any output_size, any kernel_size, any dilation=1, any padding=0, any stride=1)", ns="F")
def fold(input: Any, output_size: Any, kernel_size: Any, dilation: Any, padding: Any, stride: Any) -> Any:
    """Columns (N, C * kh * kw, blocks) added back into (N, C, *output_size)."""
    size = _pair(output_size, "output_size", "fold")
    kernel, spread, pads, steps = _block_args(kernel_size, dilation, padding, stride, "fold")
    shape = input.a.shape
    check(
        len(shape) in (2, 3) and 0 not in shape[-2:],
        RuntimeError,
        "Expected 2D or 3D (batch mode) tensor for input with possibly 0 batch size and non-zero dimensions for input, "
        f"but got: {list(shape)}",
    )
    check(
        shape[-2] % (kernel[0] * kernel[1]) == 0,
        RuntimeError,
        f"Expected size of input's dimension 1 to be divisible by the product of kernel_size, but got "
        f"input.size(1)={shape[-2]} and kernel_size={kernel}.",
    )
    down, across = B.blocks(size, kernel, spread, pads, steps)
    check(
        down >= 1 and across >= 1 and shape[-1] == down * across,
        RuntimeError,
        f"Given output_size={size}, kernel_size={kernel}, dilation={spread}, padding={pads}, stride={steps}, expected "
        f"size of input's dimension 2 to match the calculated number of sliding blocks {down} * {across} = "
        f"{down * across}, but got input.size(2)={shape[-1]}.",
    )
    x = input if len(shape) == 3 else input.unsqueeze(0)
    y = col2im(x, size, kernel, spread, pads, steps)
    return y if len(shape) == 3 else y.squeeze(0)


# ------------------------------------------------------------------------------------------ channels and space
def _factor(value: int, name: str) -> int:
    check(value > 0, RuntimeError, f"{name} expects a positive factor, but got {value}")
    return int(value)


def _image(input: Any, name: str) -> tuple[int, ...]:
    """The shape of a (*, C, H, W) input."""
    shape = input.a.shape
    check(
        len(shape) >= 3,
        RuntimeError,
        f"{name} expects input to have at least 3 dimensions, but got input with {len(shape)} dimension(s)",
    )
    return shape


@composite("pixel_shuffle(T input, int upscale_factor)", ns="torch F", node="PixelShuffleBackward0")
def pixel_shuffle(input: Any, upscale_factor: int) -> Any:
    """(*, C * r * r, H, W) to (*, C, H * r, W * r)."""
    r, shape = _factor(upscale_factor, "pixel_shuffle"), _image(input, "pixel_shuffle")
    c, h, w = shape[-3:]
    check(
        c % (r * r) == 0,
        RuntimeError,
        "pixel_shuffle expects its input's 'channel' dimension to be divisible by the square of upscale_factor, "
        f"but input.size(-3)={c} is not divisible by {r * r}",
    )
    lead, n = shape[:-3], len(shape) - 3
    parts = input.reshape(*lead, c // (r * r), r, r, h, w)
    order = (*range(n), n, n + 3, n + 1, n + 4, n + 2)
    return parts.permute(*order).reshape(*lead, c // (r * r), h * r, w * r)


@composite("pixel_unshuffle(T input, int downscale_factor)", ns="torch F", node="PixelUnshuffleBackward0")
def pixel_unshuffle(input: Any, downscale_factor: int) -> Any:
    """(*, C, H * r, W * r) to (*, C * r * r, H, W)."""
    r, shape = _factor(downscale_factor, "pixel_unshuffle"), _image(input, "pixel_unshuffle")
    c, h, w = shape[-3:]
    for what, n, at in (("height", h, -2), ("width", w, -1)):
        check(
            n % r == 0,
            RuntimeError,
            f"pixel_unshuffle expects {what} to be divisible by downscale_factor, "
            f"but input.size({at})={n} is not divisible by {r}",
        )
    lead, n = shape[:-3], len(shape) - 3
    parts = input.reshape(*lead, c, h // r, r, w // r, r)
    order = (*range(n), n, n + 2, n + 4, n + 1, n + 3)
    return parts.permute(*order).reshape(*lead, c * r * r, h // r, w // r)


@composite("channel_shuffle(T input, int groups)", ns="torch F", node="ChannelShuffleBackward0")
def channel_shuffle(input: Any, groups: int) -> Any:
    """Channels (N, g * c, *) regrouped as (N, c * g, *)."""
    shape = input.a.shape
    check(
        len(shape) > 2,
        RuntimeError,
        f"channel_shuffle expects input with > 2 dims, but got input with sizes {list(shape)}",
    )
    groups = _factor(groups, "channel_shuffle")
    check(
        shape[1] % groups == 0,
        RuntimeError,
        f"Number of channels must be divisible by groups. Got {shape[1]} channels and {groups} groups.",
    )
    parts = input.reshape(shape[0], groups, shape[1] // groups, *shape[2:])
    return parts.transpose(1, 2).reshape(*shape)
