"""MindSpore kernels that combine elements at index positions: segments of the flat result, reduced by MindSpore.

The index is read for its positions; the values stay where they are.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mindtorch.engine.mindspore import door
from mindtorch.engine.mindspore.kernels import Unsupported, kernel
from mindtorch.engine.mindspore.kernels.moves import _hosted, added, chosen, const, count, numbered
from mindtorch.engine.mindspore.kernels.order import FLOATS

ms = door.load()
mint, ops = ms.mint, ms.ops
_JOIN = {"sum": mint.add, "mean": mint.add, "prod": mint.mul, "amax": mint.maximum, "amin": mint.minimum}


def _segments(src: Any, at: np.ndarray, n: int, how: str) -> Any:
    fn = {"sum": "sum", "mean": "sum", "prod": "prod", "amax": "max", "amin": "min"}[how]
    return getattr(ops, f"unsorted_segment_{fn}")(src, const(at.astype(np.int32)), n)


def combined(x: Any, at: np.ndarray, src: Any, how: str, include_self: bool) -> Any:
    """``x`` with the elements of ``src`` combined at flat positions; places without any keep their value."""
    if not at.size:
        return x
    if str(x.dtype).startswith("Complex") or x.dtype == ms.bool_:
        raise Unsupported(f"dtype {x.dtype}")
    dtype, shape, n = x.dtype, tuple(x.shape), count(x.shape)
    if how == "mean" and dtype not in FLOATS:
        raise Unsupported("means of whole numbers")
    wide = ms.float32 if dtype in (ms.float16, ms.bfloat16) else dtype if dtype in FLOATS else ms.int64
    flat, src, at = x.reshape((-1,)).astype(wide), src.reshape((-1,)).astype(wide), at.reshape(-1)
    times = np.bincount(at, minlength=n)
    got = _segments(src, at, n, how)
    if include_self:
        got = _JOIN[how](flat, got)
    if how == "mean":
        got = mint.div(got, const(np.maximum(times + int(include_self), 1)).astype(wide))
    got = ops.select(const(times > 0), got, flat)
    if how in ("amax", "amin") and wide in (ms.float32, ms.float64):
        # MindSpore's maximum of segments passes over NaNs.
        bad = added(mint.not_equal(src, src).astype(wide), at, (n,))
        bad = mint.greater(bad, ms.Tensor(0, wide))
        if include_self:
            bad = mint.logical_or(bad, mint.not_equal(flat, flat))
        got = ops.select(bad, mint.broadcast_to(ms.Tensor(np.nan, wide), got.shape), got)
    return got.reshape(shape).astype(dtype)


def _spots(x: Any, dim: int, index: np.ndarray) -> np.ndarray:
    """Flat position of every element of a scatter along ``dim``."""
    if not x.ndim:
        return np.zeros(index.shape, np.int64)
    dim %= x.ndim
    where = list(np.indices(index.shape, sparse=True)) if index.ndim else []
    if not index.ndim:
        return index.astype(np.int64)
    where[dim] = index.astype(np.int64)
    if index.size and (index.min() < 0 or index.max() >= x.shape[dim]):
        raise Unsupported("index out of range")
    return numbered(x.shape)[tuple(where)]


def _corner(src: Any, shape: tuple[int, ...]) -> Any:
    if tuple(src.shape) == shape:
        return src
    return chosen([src], numbered(src.shape)[tuple(slice(0, n) for n in shape)])


@kernel("scatter_reduce")
def _scatter_reduce(x: Any, dim: int, index: Any, src: Any, reduce: str, include_self: bool = True) -> Any:
    i = _hosted(index)
    return combined(x, _spots(x, dim, i), _corner(src, i.shape), reduce, include_self)


@kernel("scatter_op")
def _scatter_op(x: Any, dim: int, index: Any, src: Any, reduce: str) -> Any:
    return _scatter_reduce(x, dim, index, src, reduce)


@kernel("index_reduce")
def _index_reduce(x: Any, dim: int, index: Any, source: Any, reduce: str, include_self: bool = True) -> Any:
    i = _hosted(index).reshape(-1)
    if not x.ndim:
        return combined(x.reshape((1,)), i, source, reduce, include_self).reshape(())
    if i.size and (i.min() < 0 or i.max() >= x.shape[dim]):
        raise Unsupported("index out of range")
    return combined(x, numbered(x.shape).take(i, dim), source, reduce, include_self)


@kernel("index_put_at")
def _index_put_at(x: Any, indices: list[Any], where: Any, values: Any, accumulate: bool) -> Any:
    key: list[Any] = [slice(None)] * (max(where, default=-1) + 1)
    for p, i in zip(where, indices):
        key[p] = _hosted(i)
    spots = numbered(x.shape)[tuple(key)]
    source = np.broadcast_to(numbered(values.shape), spots.shape)
    if accumulate:
        if x.dtype == ms.bool_:
            raise Unsupported("accumulation of truth values")
        return mint.add(x, added(chosen([values], source), spots, x.shape))
    n = count(x.shape)
    at = numbered((n,))
    at[spots.reshape(-1)] = source.reshape(-1) + n
    return chosen([x, values], at.reshape(tuple(x.shape)))
