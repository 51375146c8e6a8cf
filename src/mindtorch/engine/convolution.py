"""Convolution of 1, 2 and 3 spatial dimensions: brings every case to 2-d and chooses the kernel.

1-d is 2-d of height 1; 3-d unfolds depth into channels. ``MINDTORCH_KERNELS``: ``auto`` (default) measures by size,
``host`` never loads MindSpore, ``mindspore`` uses its kernel wherever it can express the case.
``pads`` is (low..., high...) over the spatial dimensions; arrays may have any strides and any dtype NumPy multiplies.
"""

from __future__ import annotations

import os

import numpy as np

from mindtorch.engine.host import alloc, conv, direct
from mindtorch.engine.host.conv import Geometry
from mindtorch.engine.host.jit import num_threads, ready

Ints = tuple[int, ...]

MINDSPORE_CALL = 100_000_000
"""Multiply-adds from which one MindSpore call is at least as fast as im2col on two threads."""
MINDSPORE_LOAD = 100_000_000_000
"""Multiply-adds this process must have spent on such calls before MindSpore is loaded (1.2 s)."""
DIRECT = 16
"""Channels per group (in and out) up to which the compiled direct kernel beats a matrix product."""
_MODES = ("auto", "host", "mindspore")

_mode: str | None = None
_spent = 0


def mode() -> str:
    """The kernel family in force. ValueError when ``MINDTORCH_KERNELS`` is none of auto, host, mindspore."""
    global _mode
    if _mode is None:
        value = os.environ.get("MINDTORCH_KERNELS", "auto").strip().lower() or "auto"
        if value not in _MODES:
            raise ValueError(f"MINDTORCH_KERNELS must be one of {', '.join(_MODES)}, got {value!r}")
        _mode = value
    return _mode


def set_mode(value: str) -> None:
    """Choose the kernel family from Python; ``auto``, ``host`` or ``mindspore``."""
    global _mode
    if value not in _MODES:
        raise ValueError(f"kernels must be one of {', '.join(_MODES)}, got {value!r}")
    _mode = value


def _mindspore(dtype: np.dtype, work: int, kernel: Ints, pads: Ints, groups: int) -> bool:
    """Whether MindSpore's kernel takes this 2-d call of ``work`` multiply-adds."""
    global _spent
    chosen = mode()
    if chosen == "host" or dtype != np.float32 or min(pads) < 0 or work == 0:
        return False
    from mindtorch.engine.mindspore import door

    if chosen == "mindspore":
        return door.computes_cpu()
    if work < MINDSPORE_CALL or kernel == (1, 1) or groups > 1 or num_threads() == 1:
        return False
    if not door.loaded():
        _spent += work
        if _spent < MINDSPORE_LOAD:
            return False
    return door.computes_cpu()


def out_size(size: Ints, kernel: Ints, stride: Ints, pads: Ints, dilation: Ints) -> Ints:
    """Spatial size of the output."""
    d = len(size)
    return tuple(
        (size[i] + pads[i] + pads[i + d] - dilation[i] * (kernel[i] - 1) - 1) // stride[i] + 1 for i in range(d)
    )


def _high(size: Ints, out: Ints, kernel: Ints, geo: Geometry) -> Ints:
    """The high padding that makes ``out`` exact (MindSpore wants it; floor division leaves it open)."""
    return tuple(
        (out[i] - 1) * geo.stride[i] + geo.dilation[i] * (kernel[i] - 1) + 1 - size[i] - geo.low[i] for i in (0, 1)
    )


def _pads4(size: Ints, out: Ints, kernel: Ints, geo: Geometry) -> tuple[int, int, int, int]:
    high = _high(size, out, kernel, geo)
    # pixels no window reaches show as a negative high padding between -(stride - 1) and 0
    fixed = [0 if -geo.stride[i] < high[i] < 0 else high[i] for i in (0, 1)]
    return geo.low[0], fixed[0], geo.low[1], fixed[1]


def _is_direct(channels: int, per_group: int, outputs: int, groups: int, kernel: Ints) -> bool:
    """Few enough channels per group that a matrix product would mostly wait for memory."""
    if groups > 1 and per_group == 1:
        return True
    return ready() and kernel != (1, 1) and per_group <= DIRECT and outputs // groups <= DIRECT


# ------------------------------------------------------------------------------------------ 2-d
def _forward2d(x: np.ndarray, w: np.ndarray, b: np.ndarray | None, geo: Geometry, out: Ints) -> np.ndarray:
    kernel, size = w.shape[2:], (out[0], out[1])
    pads = _pads4(x.shape[2:], size, kernel, geo)
    if _mindspore(x.dtype, x.shape[0] * size[0] * size[1] * w.size, kernel, pads, geo.groups):
        from mindtorch.engine.mindspore import conv as device

        y = device.forward(x, w, geo.stride, pads, geo.dilation, geo.groups)
        if b is not None:
            y += b[:, None, None]
        return y
    if _is_direct(x.shape[1], w.shape[1], w.shape[0], geo.groups, kernel):
        return direct.forward(x, w, b, geo, size)
    return conv.forward(x, w, b, geo, size)


def _input_grad2d(g: np.ndarray, w: np.ndarray, geo: Geometry, size: Ints) -> np.ndarray:
    kernel, shape = w.shape[2:], (size[0], size[1])
    pads = _pads4(shape, g.shape[2:], kernel, geo)
    if _mindspore(g.dtype, g.shape[0] * g.shape[2] * g.shape[3] * w.size, kernel, pads, geo.groups):
        from mindtorch.engine.mindspore import conv as device

        return device.input_grad(g, w, geo.stride, pads, geo.dilation, geo.groups, shape)
    channels = geo.groups * w.shape[1]
    depthwise = geo.groups > 1 and w.shape[1] == 1
    if depthwise or (
        geo.stride == (1, 1) and _is_direct(w.shape[0], w.shape[0] // geo.groups, channels, geo.groups, kernel)
    ):
        return direct.input_grad(g, w, geo, shape)
    return conv.input_grad(g, w, geo, shape)


def _weight_grad2d(g: np.ndarray, x: np.ndarray, geo: Geometry, kernel: Ints) -> np.ndarray:
    taps = (kernel[0], kernel[1])
    pads = _pads4(x.shape[2:], g.shape[2:], taps, geo)
    work = g.size * taps[0] * taps[1] * (x.shape[1] // geo.groups)
    if _mindspore(g.dtype, work, taps, pads, geo.groups):
        from mindtorch.engine.mindspore import conv as device

        return device.weight_grad(g, x, geo.stride, pads, geo.dilation, geo.groups, taps)
    if _is_direct(x.shape[1], x.shape[1] // geo.groups, g.shape[1], geo.groups, taps):
        return direct.weight_grad(g, x, geo, taps)
    return conv.weight_grad(g, x, geo, taps)


# ------------------------------------------------------------------------------------------ depth into channels
def _unfold_depth(x: np.ndarray, out: int, taps: int, stride: int, low: int, dilation: int) -> np.ndarray:
    """x (N, C, D, H, W) as (N * out, C * taps, H, W): every output plane with the input planes it reads."""
    n, c, depth, h, w = x.shape
    planes = np.zeros((n, out, c, taps, h, w), x.dtype)
    for t in range(taps):
        first, last = conv.span(t * dilation, out, depth, stride, low)
        if last > first:
            at = first * stride + t * dilation - low
            src = x[:, :, at : at + (last - first - 1) * stride + 1 : stride]
            planes[:, first:last, :, t] = src.swapaxes(1, 2)
    return planes.reshape(n * out, c * taps, h, w)


def _fold_depth(planes: np.ndarray, n: int, depth: int, taps: int, stride: int, low: int, dilation: int) -> np.ndarray:
    """Transpose of ``_unfold_depth``: (N * out, C * taps, H, W) to (N, C, depth, H, W)."""
    h, w = planes.shape[2:]
    parts = planes.reshape(n, -1, planes.shape[1] // taps, taps, h, w)
    x = np.zeros((n, parts.shape[2], depth, h, w), planes.dtype)
    for t in range(taps):
        first, last = conv.span(t * dilation, parts.shape[1], depth, stride, low)
        if last > first:
            at = first * stride + t * dilation - low
            x[:, :, at : at + (last - first - 1) * stride + 1 : stride] += parts[:, first:last, :, t].swapaxes(1, 2)
    return x


def _flat_weight(w: np.ndarray) -> np.ndarray:
    """(O, C, kd, kh, kw) as (O, C * kd, kh, kw)."""
    return np.ascontiguousarray(w).reshape(w.shape[0], w.shape[1] * w.shape[2], *w.shape[3:])


def _plane_major(a: np.ndarray) -> np.ndarray:
    """(N, O, D, H, W) as (N * D, O, H, W)."""
    n, o, d, h, w = a.shape
    return np.ascontiguousarray(a.swapaxes(1, 2)).reshape(n * d, o, h, w)


# ------------------------------------------------------------------------------------------ any number of dimensions
def _geometry(stride: Ints, pads: Ints, dilation: Ints, groups: int) -> Geometry:
    """The last two dimensions' geometry; 1-d gets a height of 1."""
    d = len(stride)
    low = pads[:d]
    if d == 1:
        return Geometry((1, stride[0]), (0, low[0]), (1, dilation[0]), groups)
    return Geometry((stride[-2], stride[-1]), (low[-2], low[-1]), (dilation[-2], dilation[-1]), groups)


def forward(
    x: np.ndarray, w: np.ndarray, b: np.ndarray | None, stride: Ints, pads: Ints, dilation: Ints, groups: int
) -> np.ndarray:
    """Convolution of x (N, C, *size) with w (O, C/groups, *kernel) plus bias (O,)."""
    alloc.ensure()
    d = len(stride)
    out = out_size(x.shape[2:], w.shape[2:], stride, pads, dilation)
    geo = _geometry(stride, pads, dilation, groups)
    x, w = np.ascontiguousarray(x), np.ascontiguousarray(w)
    if d == 2:
        return _forward2d(x, w, b, geo, out)
    if d == 1:
        return _forward2d(x[:, :, None], w[:, :, None], b, geo, (1, *out))[:, :, 0]
    planes = _unfold_depth(x, out[0], w.shape[2], stride[0], pads[0], dilation[0])
    y = _forward2d(planes, _flat_weight(w), b, geo, out[1:])
    return np.ascontiguousarray(y.reshape(x.shape[0], out[0], *y.shape[1:]).swapaxes(1, 2))


def input_grad(
    g: np.ndarray, w: np.ndarray, size: Ints, stride: Ints, pads: Ints, dilation: Ints, groups: int
) -> np.ndarray:
    """Transpose of ``forward`` in x: g (N, O, *out) and w (O, C/groups, *kernel) to (N, C, *size)."""
    alloc.ensure()
    d = len(stride)
    geo = _geometry(stride, pads, dilation, groups)
    g, w = np.ascontiguousarray(g), np.ascontiguousarray(w)
    if d == 2:
        return _input_grad2d(g, w, geo, size)
    if d == 1:
        return _input_grad2d(g[:, :, None], w[:, :, None], geo, (1, *size))[:, :, 0]
    planes = _input_grad2d(_plane_major(g), _flat_weight(w), geo, size[1:])
    return _fold_depth(planes, g.shape[0], size[0], w.shape[2], stride[0], pads[0], dilation[0])


def weight_grad(
    g: np.ndarray, x: np.ndarray, kernel: Ints, stride: Ints, pads: Ints, dilation: Ints, groups: int
) -> np.ndarray:
    """Transpose of ``forward`` in w: g (N, O, *out) and x (N, C, *size) to (O, C/groups, *kernel)."""
    alloc.ensure()
    d = len(stride)
    geo = _geometry(stride, pads, dilation, groups)
    g, x = np.ascontiguousarray(g), np.ascontiguousarray(x)
    if d == 2:
        return _weight_grad2d(g, x, geo, kernel)
    if d == 1:
        return _weight_grad2d(g[:, :, None], x[:, :, None], geo, (1, *kernel))[:, :, 0]
    planes = _unfold_depth(x, g.shape[2], kernel[0], stride[0], pads[0], dilation[0])
    dw = _weight_grad2d(_plane_major(g), planes, geo, kernel[1:])
    return dw.reshape(g.shape[1], x.shape[1] // groups, *kernel)
