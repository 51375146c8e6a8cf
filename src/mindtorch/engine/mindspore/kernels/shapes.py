"""MindSpore kernels that move, join, pick and place elements."""

from __future__ import annotations

from typing import Any

from mindtorch.engine.mindspore import door
from mindtorch.engine.mindspore.kernels import Unsupported, kernel
from mindtorch.engine.mindspore.kernels.pointwise import beside, zeros
from mindtorch.engine.mindspore.kernels.reductions import total

ms = door.load()
mint, ops = ms.mint, ms.ops


def _common(ts: list[Any]) -> list[Any]:
    if any(0 in t.shape for t in ts) or any(t.dtype != ts[0].dtype for t in ts):
        raise Unsupported("empty parts, or parts of several dtypes")
    return ts


@kernel("cat")
def _cat(ts: list[Any], dim: int = 0) -> Any:
    return ops.concat(_common(ts), dim) if len(ts) > 1 else ts[0]


@kernel("stack")
def _stack(ts: list[Any], dim: int = 0) -> Any:
    return ops.stack(_common(ts), dim)


@kernel("flip")
def _flip(x: Any, turn: Any) -> Any:
    if not turn or 0 in x.shape:
        return x
    return ops.flip(x, turn)


@kernel("_reshape_copy")
def _reshape_copy(x: Any, shape: Any) -> Any:
    return x.reshape(shape)


@kernel("repeat")
def _repeat(x: Any, times: Any) -> Any:
    if 0 in x.shape or 0 in times or len(times) < x.ndim:
        raise Unsupported("nothing repeated, or fewer counts than dimensions")
    return ops.tile(x, tuple(times))


@kernel("tril")
def _tril(x: Any, diagonal: int = 0) -> Any:
    return mint.mul(x, _band(x, diagonal, False)) if x.dtype != ms.bool_ else mint.logical_and(x, _band(x, diagonal, False))


@kernel("triu")
def _triu(x: Any, diagonal: int = 0) -> Any:
    return mint.mul(x, _band(x, diagonal, True)) if x.dtype != ms.bool_ else mint.logical_and(x, _band(x, diagonal, True))


def _band(x: Any, diagonal: int, upper: bool) -> Any:
    import numpy as np

    if x.ndim < 2 or str(x.dtype).startswith(("Complex", "BFloat")):
        raise Unsupported("a band of this")
    n, m = x.shape[-2:]
    keep = np.tri(n, m, diagonal - 1 if upper else diagonal, dtype=bool)
    return ms.Tensor.from_numpy(~keep if upper else keep).astype(x.dtype)


def _index(i: Any, n: int) -> Any:
    """Indices not negative, as int64."""
    i = i.astype(ms.int64)
    return i


@kernel("index_select")
def _index_select(x: Any, dim: int, index: Any) -> Any:
    if not x.ndim or 0 in x.shape or 0 in index.shape or str(x.dtype).startswith("Complex"):
        raise Unsupported("index_select of this")
    return ops.gather(x, _index(index, x.shape[dim]).reshape((-1,)), dim)


@kernel("gather")
def _gather(x: Any, dim: int, index: Any, sparse_grad: bool = False) -> Any:
    if not x.ndim or not index.ndim or 0 in x.shape or 0 in index.shape:
        raise Unsupported("gather of a scalar or of nothing")
    return ops.gather_elements(x, dim, index.astype(ms.int64))


@kernel("embedding_rows")
def _embedding_rows(weight: Any, indices: Any, *rest: Any) -> Any:
    if 0 in weight.shape or 0 in indices.shape:
        raise Unsupported("no rows")
    return ops.gather(weight, indices.astype(ms.int64), 0)


@kernel("scatter_add")
def _scatter_add(x: Any, dim: int, index: Any, src: Any) -> Any:
    if not x.ndim or 0 in index.shape or x.dtype == ms.bool_:
        raise Unsupported("scatter of a scalar or of nothing")
    if tuple(index.shape) != tuple(src.shape):
        src = src[tuple(slice(0, n) for n in index.shape)]
    return ops.tensor_scatter_elements(x, index.astype(ms.int64), src, dim, "add")


@kernel("index_add")
def _index_add(x: Any, dim: int, index: Any, source: Any, alpha: Any = 1) -> Any:
    if not x.ndim or not source.ndim or 0 in source.shape or x.dtype == ms.bool_:
        raise Unsupported("index_add of a scalar or of nothing")
    src = source if alpha == 1 else mint.mul(source, beside(alpha, source))
    shape = [1] * x.ndim
    shape[dim] = -1
    at = mint.broadcast_to(index.astype(ms.int64).reshape(tuple(shape)), src.shape)
    return ops.tensor_scatter_elements(x, at, src, dim, "add")


@kernel("one_hot")
def _one_hot(t: Any, classes: int = -1) -> Any:
    if classes <= 0 or 0 in t.shape:
        raise Unsupported("number of classes to be found")
    rows = ms.Tensor(list(range(classes)), ms.int64)
    return mint.equal(t.astype(ms.int64).reshape((*t.shape, 1)), rows).astype(ms.int64)


@kernel("pad_constant")
def _pad_constant(x: Any, pads: Any, value: Any) -> Any:
    if any(p < 0 for p in pads) or 0 in x.shape or x.dtype == ms.bool_ or str(x.dtype).startswith(("Complex", "BFloat")):
        raise Unsupported("cropping, or padding of this")
    pairs = [(0, 0)] * (x.ndim - len(pads) // 2) + [(pads[i], pads[i + 1]) for i in range(len(pads) - 2, -1, -2)]
    v = beside(0 if value is None else value, x).astype(x.dtype)
    for d, (before, after) in enumerate(pairs):
        parts = []
        for n in (before, after):
            shape = tuple(n if k == d else m for k, m in enumerate(x.shape))
            parts.append(mint.broadcast_to(v, shape) if n else None)
        if parts[0] is not None or parts[1] is not None:
            x = ops.concat([p for p in (parts[0], x, parts[1]) if p is not None], d)
    return x


@kernel("_slice_backward")
def _slice_backward(*args: Any) -> Any:
    raise Unsupported("strided placement")


@kernel("embedding_dense_backward")
def _embedding_dense_backward(g: Any, indices: Any, rows: int, padding: int = -1, scale: bool = False) -> Any:
    if scale or 0 in indices.shape:
        raise Unsupported("scaled by frequency, or no rows")
    width = g.shape[-1]
    flat = indices.astype(ms.int64).reshape((-1,))
    g = g.reshape((-1, width))
    if padding is not None and padding >= 0:
        keep = mint.not_equal(flat, beside(padding, flat)).astype(g.dtype).reshape((-1, 1))
        g = mint.mul(g, keep)
    base = mint.broadcast_to(ms.Tensor(0, g.dtype), (rows, width))
    return _index_add(base, 0, flat, g)


__all__ = ["total", "zeros"]
