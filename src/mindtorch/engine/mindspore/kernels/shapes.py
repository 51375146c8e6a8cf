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
    if any(0 in t.shape for t in ts):
        raise Unsupported("empty parts")
    if len({str(t.dtype) for t in ts}) > 1:
        raise Unsupported("parts of several dtypes")
    return ts


@kernel("cat")
def _cat(ts: list[Any], dim: int = 0) -> Any:
    ts = [t for t in ts if 0 not in t.shape] or ts
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
    if len(times) < x.ndim:
        raise Unsupported("fewer counts than dimensions")
    if 0 in x.shape or 0 in times:
        shape = (1,) * (len(times) - x.ndim) + tuple(x.shape)
        return _moves().zeros_of([n * t for n, t in zip(shape, times)], x.dtype)
    return ops.tile(x, tuple(times))


@kernel("tril")
def _tril(x: Any, diagonal: int = 0) -> Any:
    return _band(x, diagonal, False)


@kernel("triu")
def _triu(x: Any, diagonal: int = 0) -> Any:
    return _band(x, diagonal, True)


def _moves() -> Any:
    from mindtorch.engine.mindspore.kernels import moves

    return moves


def _band(x: Any, diagonal: int, upper: bool) -> Any:
    """Zeros outside, chosen and not multiplied: a NaN outside is gone."""
    import numpy as np

    if x.ndim < 2:
        raise Unsupported("fewer than two dimensions")
    if 0 in x.shape:
        return x
    n, m = x.shape[-2:]
    keep = np.tri(n, m, diagonal - 1 if upper else diagonal, dtype=bool)
    mask = ms.Tensor.from_numpy(~keep if upper else keep)
    return ops.select(mint.broadcast_to(mask, x.shape), x, zeros(x))


@kernel("index_select")
def _index_select(x: Any, dim: int, index: Any) -> Any:
    from mindtorch.engine.mindspore.kernels.moves import zeros_of

    if not x.ndim:
        return x
    n = index.shape[0] if index.ndim else 1
    if 0 in x.shape or not n:
        return zeros_of(tuple(n if i == dim % x.ndim else k for i, k in enumerate(x.shape)), x.dtype)
    return ops.gather(x, index.astype(ms.int64).reshape((-1,)), dim)


@kernel("gather")
def _gather(x: Any, dim: int, index: Any, sparse_grad: bool = False) -> Any:
    if 0 in index.shape:
        from mindtorch.engine.mindspore.kernels.moves import zeros_of

        return zeros_of(index.shape, x.dtype)
    if not x.ndim or not index.ndim:
        shape = tuple(index.shape)
        return ops.gather_elements(x.reshape((-1,)), 0, index.astype(ms.int64).reshape((-1,))).reshape(shape)
    return ops.gather_elements(x, dim, index.astype(ms.int64))


@kernel("embedding_rows")
def _embedding_rows(weight: Any, indices: Any, *rest: Any) -> Any:
    if 0 in weight.shape or 0 in indices.shape:
        raise Unsupported("no rows")
    return ops.gather(weight, indices.astype(ms.int64), 0)


@kernel("scatter_add")
def _scatter_add(x: Any, dim: int, index: Any, src: Any) -> Any:
    if 0 in index.shape:
        return x
    if x.dtype == ms.bool_:
        raise Unsupported("truth values")
    if not x.ndim:
        return mint.add(x, src.reshape(()))
    if tuple(index.shape) != tuple(src.shape):
        src = src[tuple(slice(0, n) for n in index.shape)]
    return ops.tensor_scatter_elements(x, index.astype(ms.int64), src, dim, "add")


@kernel("index_add")
def _index_add(x: Any, dim: int, index: Any, source: Any, alpha: Any = 1) -> Any:
    if 0 in source.shape:
        return x
    if x.dtype == ms.bool_:
        raise Unsupported("truth values")
    src = source if alpha == 1 else mint.mul(source, beside(alpha, source))
    if str(x.dtype).startswith(("Complex", "BFloat")):
        at = _moves().numbered(x.shape).take(_moves()._hosted(index).reshape(-1), dim)
        return mint.add(x, _moves().added(src, at, x.shape))
    if not x.ndim or not source.ndim:
        if x.ndim:
            return _index_add(x, dim, index.reshape((1,)), src.reshape((1,)))
        return mint.add(x, total(src))
    shape = [1] * x.ndim
    shape[dim] = -1
    at = mint.broadcast_to(index.astype(ms.int64).reshape(tuple(shape)), src.shape)
    return ops.tensor_scatter_elements(x, at, src, dim, "add")


@kernel("one_hot")
def _one_hot(t: Any, classes: int = -1) -> Any:
    if 0 in t.shape:
        raise Unsupported("nothing to mark")
    low, high = int(t.min()), int(t.max())
    classes = high + 1 if classes == -1 else classes
    if low < 0 or high >= classes:
        raise Unsupported("classes that PyTorch refuses")
    rows = ms.Tensor(list(range(classes)), ms.int64)
    return ops.equal(t.astype(ms.int64).reshape((*t.shape, 1)), rows).astype(ms.int64)






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
