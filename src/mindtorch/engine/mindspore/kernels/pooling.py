"""MindSpore kernels of pooling and resizing: windows for maxima, one product per axis for what is linear.

Averaging and interpolating are products with a matrix per axis; the matrices follow from the sizes alone and are those
of the host kernels.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mindtorch.engine.host import pool as P
from mindtorch.engine.host import resize as R
from mindtorch.engine.mindspore import door
from mindtorch.engine.mindspore.kernels import Unsupported, kernel, np_dtype
from mindtorch.engine.mindspore.kernels.convolution import _at, windows
from mindtorch.engine.mindspore.kernels.moves import _hosted, const, count, kept, linear
from mindtorch.engine.mindspore.kernels.order import FLOATS, extreme_at

ms = door.load()
mint, ops = ms.mint, ms.ops
Ints = tuple[int, ...]


# ------------------------------------------------------------------------------------------ maxima
def _lead(x: Any, d: int) -> Any:
    """(*lead, *size) as (1, lead, *size)."""
    return x.reshape((1, -1, *x.shape[x.ndim - d :]))


def _most(cols: Any, at: np.ndarray, shape: Ints) -> tuple[Any, Any]:
    """Maximum over axis 2 of (1, C, K, P) and its position in the plane, both of ``shape``."""
    v, tap = extreme_at(cols, 2, last_nan=True)
    c, p = v.shape[1], v.shape[2]
    flat = mint.add(mint.mul(tap, ms.Tensor(p, ms.int64)), const(np.arange(p)))
    where = ops.gather(const(at.reshape(-1)), flat.reshape((-1,)), 0)
    return v.reshape(shape), where.reshape((c * p,)).astype(ms.int32).reshape(shape)


def _max_pool(x: Any, out: Ints, k: Ints, stride: Ints, padding: Ints, dilation: Ints) -> tuple[Any, Any]:
    d = len(out)
    if 0 in x.shape or 0 in out or x.dtype == ms.bool_ or str(x.dtype).startswith("Complex"):
        raise Unsupported("nothing to pool, or no order")
    at = _at(tuple(x.shape[-d:]), out, k, stride, padding, dilation)
    least = -np.inf if x.dtype in FLOATS else int(np.iinfo(np_dtype(x)).min)
    return _most(windows(_lead(x, d), at, least), at, (*x.shape[: x.ndim - d], *out))


kernel("max_pool1d_index", "max_pool2d_index", "max_pool3d_index")(_max_pool)


@kernel("max_pool_values")
def _max_pool_values(*args: Any) -> Any:
    return _max_pool(*args)[0]


def _adaptive_positions(size: Ints, out: Ints) -> np.ndarray:
    """(K, prod(out)) positions of the windows; shorter windows repeat their first element."""
    at, ok = np.zeros((1, 1), np.int64), np.ones((1, 1), bool)
    for n, m in zip(size, out):
        first, last = P.bounds(n, m)
        k = int((last - first).max())
        i = first[None, :] + np.arange(k)[:, None]
        inside = i < last[None, :]
        at = (at[:, None, :, None] * n + np.where(inside, i, first)[None, :, None, :]).reshape(at.shape[0] * k, -1)
        ok = (ok[:, None, :, None] & inside[None, :, None, :]).reshape(ok.shape[0] * k, -1)
    return np.where(ok, at, at[:1])


@kernel("adaptive_max_pool1d", "adaptive_max_pool2d", "adaptive_max_pool3d")
def _adaptive_max(x: Any, out: Ints) -> Any:
    d = len(out)
    if 0 in x.shape or 0 in out:
        raise Unsupported("nothing to pool")
    size = tuple(x.shape[-d:])
    at = kept(("adaptive_max", size, out), lambda: _adaptive_positions(size, out))
    return _most(windows(_lead(x, d), at), at, (*x.shape[: x.ndim - d], *out))


@kernel("fractional_max_pool2d", "fractional_max_pool3d")
def _fractional_max(x: Any, samples: Any, out: Ints, k: Ints) -> Any:
    d = len(out)
    if 0 in x.shape:
        raise Unsupported("nothing to pool")
    size, lead = tuple(x.shape[-d:]), tuple(x.shape[: x.ndim - d])
    u = _hosted(samples).reshape(-1, d)
    order = (1, 0) if d == 2 else tuple(range(d))
    flat = np.zeros((len(u), *(1,) * (2 * d)), np.int64)
    for axis in range(d):
        start = P._starts(u[:, order[axis]], size[axis], out[axis], k[axis])
        shape = [len(u)] + [1] * (2 * d)
        shape[1 + axis], shape[1 + d + axis] = out[axis], k[axis]
        flat = flat * size[axis] + (start[:, :, None] + np.arange(k[axis])).reshape(shape)
    at = const(flat.reshape(len(u), count(out) * count(k)))
    cells = ops.gather_elements(x.reshape((len(u), -1)), 1, at).reshape((len(u), count(out), count(k)))
    v, tap = extreme_at(cells, 2, last_nan=True)
    where = ops.gather_elements(at.reshape(cells.shape), 2, tap.reshape((*tap.shape, 1)))
    return v.reshape((*lead, *out)), where.reshape((*lead, *out))


# ------------------------------------------------------------------------------------------ one product per axis
def along(x: Any, matrices: Sequence[np.ndarray | None]) -> Any:
    """Matrices (out, in) applied to the last dimensions of a float tensor, None leaving one as it is."""
    if x.dtype not in FLOATS:
        raise Unsupported("averages of integers")
    dtype = x.dtype
    x = x.astype(ms.float32) if dtype in (ms.float16, ms.bfloat16) else x
    d = len(matrices)
    for i, m in enumerate(matrices):
        if m is None:
            continue
        if 0 in x.shape or 0 in m.shape:
            raise Unsupported("nothing to average")
        axis = x.ndim - d + i
        w = const(np.ascontiguousarray(m.T)).astype(x.dtype)
        y = mint.transpose(x, axis, -1) if axis != x.ndim - 1 else x
        shape = (*y.shape[:-1], m.shape[0])
        y = ops.matmul(y.reshape((-1, y.shape[-1])), w).reshape(shape)
        x = mint.transpose(y, axis, -1) if axis != x.ndim - 1 else y
    return x.astype(dtype)


def _sums(n: int, out: int, k: int, s: int, p: int) -> np.ndarray:
    start = np.arange(out)[:, None] * s - p
    i = np.arange(n)[None, :]
    return ((i >= start) & (i < start + k)).astype(np.float64)


def _avg_matrices(size: Ints, out: Ints, k: Ints, stride: Ints, padding: Ints) -> list[np.ndarray]:
    key = ("avg", size, out, k, stride, padding)
    return kept(key, lambda: [_sums(*a) for a in zip(size, out, k, stride, padding)])


@kernel("avg_pool1d", "avg_pool2d", "avg_pool3d")
def _avg_pool(x: Any, out: Ints, k: Ints, stride: Ints, padding: Ints, pad: bool, divisor: Any) -> Any:
    size = tuple(x.shape[-len(out) :])
    by = P.divisor(size, out, k, stride, padding, pad, divisor)

    def run(x: Any) -> Any:
        y = along(x, _avg_matrices(size, out, k, stride, padding))
        return mint.div(y, const(np.asarray(by)).astype(y.dtype))

    return linear(run)(x)


@kernel("avg_pool_grad")
def _avg_pool_grad(g: Any, size: Ints, k: Ints, stride: Ints, padding: Ints, pad: bool, divisor: Any) -> Any:
    out = tuple(g.shape[-len(size) :])
    by = P.divisor(size, out, k, stride, padding, pad, divisor)

    def run(g: Any) -> Any:
        g = mint.div(g, const(np.asarray(by)).astype(g.dtype))
        return along(g, [m.T for m in _avg_matrices(size, out, k, stride, padding)])

    return linear(run)(g)


@kernel("adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d")
@linear
def _adaptive_avg(x: Any, out: Ints) -> Any:
    size = x.shape[-len(out) :]
    return along(x, [P._weights(n, m, np.dtype(np.float64)) for n, m in zip(size, out)])


@kernel("adaptive_avg_grad")
@linear
def _adaptive_avg_grad(g: Any, size: Ints) -> Any:
    out = g.shape[-len(size) :]
    return along(g, [P._weights(n, m, np.dtype(np.float64)).T for n, m in zip(size, out)])


# ------------------------------------------------------------------------------------------ interpolation
def _real(x: Any) -> Any:
    return np.float64 if x.dtype == ms.float64 else np.float32


@kernel("upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d", "upsample_bicubic2d", "upsample_bilinear2d_aa",
        "upsample_bicubic2d_aa", "upsample_lanczos2d_aa")  # fmt: skip
@linear
def _upsample(x: Any, out: Ints, mode: str, align: bool, scales: Any, antialias: bool) -> Any:
    if x.dtype == ms.uint8:
        raise Unsupported("bytes are resized in fixed point")
    real = _real(x)
    d = len(out)

    def matrix(n: int, m: int, scale: Any) -> np.ndarray:
        eye = np.eye(n, dtype=real)[None]
        return R.resize(eye, (m,), mode, align, (scale,), antialias)[0].T

    return along(x, [matrix(n, m, s) for n, m, s in zip(x.shape[-d:], out, scales)])


@kernel("resize_grad")
@linear
def _resize_grad(g: Any, size: Ints, mode: str, align: bool, scales: Any, antialias: bool) -> Any:
    real = _real(g)
    d = len(size)
    out = tuple(g.shape[-d:])
    if mode == "cubic" and not antialias and out == tuple(size):
        return g

    def matrix(n: int, m: int, scale: Any) -> np.ndarray:
        eye = np.eye(m, dtype=real)[None]
        return R.resize_grad(eye, (n,), mode, align, (scale,), antialias)[0].T

    return along(g, [matrix(n, m, s) for n, m, s in zip(size, out, scales)])
