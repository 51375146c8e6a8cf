"""MindSpore kernels of convolutions: oneDNN's primitives for dense float32 planes, windows and a product for the rest.

Shapes are those of the rows: (N, C, *size), (O, C / groups, *kernel), pads low then high. A window is gathered from the
padded input by positions that follow from the shapes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mindtorch.engine.mindspore import conv, door
from mindtorch.engine.mindspore.kernels import Unsupported, kernel
from mindtorch.engine.mindspore.kernels.moves import complex_of, const, count, kept, real_parts, zeros_of
from mindtorch.engine.mindspore.kernels.reductions import total

ms = door.load()
mint, ops = ms.mint, ms.ops
Ints = tuple[int, ...]
_COMPLEX = (ms.complex64, ms.complex128)


def bilinear(fn: Any) -> Any:
    """``fn(a, b, ...)``, linear in both, for complex numbers too: four products of parts."""

    def run(a: Any, b: Any, *args: Any) -> Any:
        if a.dtype not in _COMPLEX and b.dtype not in _COMPLEX:
            return fn(a, b, *args)
        (p, q), (r, s) = (real_parts(t) if t.dtype in _COMPLEX else (t, mint.mul(t, ms.Tensor(0, t.dtype))) for t in (a, b))
        re = mint.sub(fn(p, r, *args), fn(q, s, *args))
        return complex_of(re, mint.add(fn(p, s, *args), fn(q, r, *args)))

    return run


def _as_floats(*ts: Any) -> tuple[Any, ...]:
    """Whole numbers in float64, where sums of them are exact."""
    if ts[0].dtype in (ms.int8, ms.int16, ms.int32, ms.int64, ms.uint8, ms.bool_):
        return tuple(t.astype(ms.float64) for t in ts)
    return ts


def window_positions(size: Sequence[int], out: Ints, kernel_size: Ints, stride: Ints, low: Ints, dilation: Ints) -> np.ndarray:
    """(prod(kernel), prod(out)) flat positions in ``size``, -1 where the window lies in the padding."""
    at = np.zeros((1, 1), np.int64)
    ok = np.ones((1, 1), bool)
    for n, m, k, s, p, d in zip(size, out, kernel_size, stride, low, dilation):
        i = np.arange(k)[:, None] * d + np.arange(m)[None, :] * s - p
        inside = (i >= 0) & (i < n)
        at = (at[:, None, :, None] * n + np.where(inside, i, 0)[None, :, None, :]).reshape(at.shape[0] * k, -1)
        ok = (ok[:, None, :, None] & inside[None, :, None, :]).reshape(ok.shape[0] * k, -1)
    return np.where(ok, at, -1)


def _at(*key: Any) -> np.ndarray:
    return kept(("windows", *key), lambda: window_positions(*key))


def windows(x: Any, at: np.ndarray, fill: Any = 0) -> Any:
    """(N, C, *size) to (N, C, *at.shape): elements at flat positions of each plane, ``fill`` at -1."""
    flat = x.reshape((*x.shape[:2], -1))
    n = flat.shape[2]
    if at.min() < 0:
        edge = mint.broadcast_to(ms.Tensor(fill, x.dtype), (*x.shape[:2], 1))
        flat = ops.concat([flat, edge], 2)
        at = np.where(at < 0, n, at)
    return ops.gather(flat, const(at.reshape(-1)), 2).reshape((*x.shape[:2], *at.shape))


def spread(cols: Any, at: np.ndarray, size: Sequence[int]) -> Any:
    """Transpose of :func:`windows`: (N, C, *at.shape) added up in (N, C, *size)."""
    n, c = cols.shape[:2]
    k = count(size)
    rows = mint.transpose(cols.reshape((n * c, -1)), 0, 1)
    where = np.where(at < 0, k, at).reshape(-1).astype(np.int32)
    got = ops.unsorted_segment_sum(rows, const(where), k + 1).narrow(0, 0, k)
    return mint.transpose(got, 0, 1).reshape((n, c, *size))


def _out_size(size: Sequence[int], k: Sequence[int], stride: Ints, pads: Ints, dilation: Ints) -> Ints:
    d = len(size)
    return tuple(
        (n + pads[i] + pads[d + i] - dilation[i] * (k[i] - 1) - 1) // stride[i] + 1 for i, n in enumerate(size)
    )


def _dense(*ts: Any) -> bool:
    return all(t.dtype == ms.float32 and t.ndim in (3, 4) for t in ts)


def _planes(values: Sequence[int], one: int) -> tuple[int, int]:
    return tuple(values) if len(values) == 2 else (one, values[0])  # type: ignore[return-value]


def _four(pads: Ints) -> conv.Pads:
    return (pads[0], pads[2], pads[1], pads[3]) if len(pads) == 4 else (0, 0, pads[0], pads[1])


def _plane(x: Any) -> Any:
    return x if x.ndim == 4 else x.reshape((*x.shape[:2], 1, x.shape[2]))


@bilinear
def _forward(x: Any, w: Any, stride: Ints, pads: Ints, dilation: Ints, groups: int) -> Any:
    size, k = tuple(x.shape[2:]), tuple(w.shape[2:])
    out = _out_size(size, k, stride, pads, dilation)
    if _dense(x, w) and min(pads) >= 0:
        run = conv._forward(w.shape[0], _planes(k, 1), _planes(stride, 1), _four(pads), _planes(dilation, 1), groups)
        return run(_plane(x), _plane(w)).reshape((x.shape[0], w.shape[0], *out))
    dtype = x.dtype
    x, w = _as_floats(x, w)
    cols = windows(x, _at(size, out, k, stride, pads[: len(size)], dilation))
    cols = cols.reshape((x.shape[0], groups, -1, count(out)))
    rows = w.reshape((1, groups, w.shape[0] // groups, -1))
    rows = mint.broadcast_to(rows, (x.shape[0], *rows.shape[1:]))
    return ops.matmul(rows, cols).reshape((x.shape[0], w.shape[0], *out)).astype(dtype)


@bilinear
def _input_grad(g: Any, w: Any, size: Ints, stride: Ints, pads: Ints, dilation: Ints, groups: int) -> Any:
    k, n = tuple(w.shape[2:]), g.shape[0]
    shape = (n, w.shape[1] * groups, *size)
    if _dense(g, w) and min(pads) >= 0 and _out_size(size, k, stride, pads, dilation) == tuple(g.shape[2:]):
        run = conv._input_grad(w.shape[0], _planes(k, 1), _planes(stride, 1), _four(pads), _planes(dilation, 1), groups)
        return run(_plane(g), _plane(w), (*shape[:2], *_planes(size, 1))).reshape(shape)
    dtype = g.dtype
    g, w = _as_floats(g, w)
    out = tuple(g.shape[2:])
    rows = mint.transpose(w.reshape((1, groups, w.shape[0] // groups, -1)), -2, -1)
    rows = mint.broadcast_to(rows, (n, *rows.shape[1:]))
    cols = ops.matmul(rows, g.reshape((n, groups, -1, count(out))))
    cols = cols.reshape((n, shape[1], count(k), count(out)))
    return spread(cols, _at(size, out, k, stride, pads[: len(size)], dilation), size).astype(dtype)


@bilinear
def _weight_grad(g: Any, x: Any, k: Ints, stride: Ints, pads: Ints, dilation: Ints, groups: int) -> Any:
    size, out = tuple(x.shape[2:]), tuple(g.shape[2:])
    shape = (g.shape[1], x.shape[1] // groups, *k)
    if _dense(g, x) and min(pads) >= 0 and _out_size(size, k, stride, pads, dilation) == out:
        run = conv._weight_grad(shape[0], _planes(k, 1), _planes(stride, 1), _four(pads), _planes(dilation, 1), groups)
        return run(_plane(g), _plane(x), (*shape[:2], *_planes(k, 1))).reshape(shape)
    cols = windows(x, _at(size, out, k, stride, pads[: len(size)], dilation))
    cols = cols.reshape((x.shape[0], groups, -1, count(out)))
    rows = g.reshape((g.shape[0], groups, shape[0] // groups, -1))
    return total(ops.matmul(rows, mint.transpose(cols, -2, -1)), 0).reshape(shape)


def _filled(*ts: Any) -> bool:
    return not any(0 in t.shape for t in ts)


def _biased(y: Any, b: Any) -> Any:
    return y if b is None else mint.add(y, b.reshape((1, -1, *(1,) * (y.ndim - 2))))


@kernel("conv_nd")
def _conv_nd(x: Any, w: Any, b: Any, stride: Ints, pads: Ints, dilation: Ints, groups: int) -> Any:
    if not _filled(x, w):
        raise Unsupported("nothing to convolve")
    return _biased(_forward(x, w, stride, pads, dilation, groups), b)


@kernel("conv_input")
def _conv_input(g: Any, w: Any, b: Any, size: Ints, stride: Ints, pads: Ints, dilation: Ints, groups: int) -> Any:
    if not _filled(g, w):
        raise Unsupported("nothing to convolve")
    return _biased(_input_grad(g, w, size, stride, pads, dilation, groups), b)


@kernel("conv_weight")
def _conv_weight(g: Any, x: Any, k: Ints, stride: Ints, pads: Ints, dilation: Ints, groups: int) -> Any:
    if not _filled(g, x):
        return zeros_of((g.shape[1], x.shape[1] // groups, *k), x.dtype)
    return _weight_grad(g, x, k, stride, pads, dilation, groups)


@kernel("channel_sum")
def _channel_sum(g: Any) -> Any:
    if 0 in g.shape:
        return zeros_of((g.shape[1],), g.dtype)
    return total(g, (0, *range(2, g.ndim)))
