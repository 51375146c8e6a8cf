"""MindSpore kernels of sets and counts: distinct elements, histograms.

Where a result's size follows from the values, what decides it is read; the elements themselves stay where they are.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mindtorch.engine.mindspore import door
from mindtorch.engine.mindspore.kernels import Unsupported, kernel
from mindtorch.engine.mindspore.kernels.activations import number
from mindtorch.engine.mindspore.kernels.moves import _hosted, chosen, const, numbered, zeros_of
from mindtorch.engine.mindspore.kernels.order import order
from mindtorch.engine.mindspore.kernels.pointwise import _where, zeros
from mindtorch.engine.mindspore.kernels.reductions import total

ms = door.load()
mint, ops = ms.mint, ms.ops
_REAL = (ms.float32, ms.float64)


# ------------------------------------------------------------------------------------------ bins
@kernel("histc")
def _histc(x: Any, bins: int, low: float, high: float) -> Any:
    if 0 in x.shape or x.dtype not in _REAL or bins < 1:
        raise Unsupported("a histogram of this")
    y = x.reshape((-1,)).astype(ms.float64)
    low, high = float(low), float(high)
    if low == high:
        low, high = float(y.min()), float(y.max())
    if low == high:
        low, high = low - 1, high + 1
    if not (math.isfinite(low) and math.isfinite(high)) or low > high:
        raise Unsupported("bounds that PyTorch refuses")
    inside = mint.logical_and(mint.greater_equal(y, number(low, y)), mint.less_equal(y, number(high, y)))
    place = mint.div(mint.mul(mint.sub(y, number(low, y)), number(bins, y)), number(high - low, y))
    place = _where(inside, place, mint.add(zeros(place), number(bins + 1, place)))
    at = mint.floor(place).astype(ms.int32)
    last = ops.equal(y, number(high, y))
    at = _where(mint.logical_or(last, mint.logical_and(inside, ops.equal(at, ms.Tensor(bins, ms.int32)))),
                mint.add(zeros(at), ms.Tensor(bins - 1, ms.int32)), at)  # fmt: skip
    ones = mint.add(zeros(x.reshape((-1,))), number(1, x))
    return ops.unsorted_segment_sum(ones, at, bins + 2).narrow(0, 0, bins)


# ------------------------------------------------------------------------------------------ distinct elements
def _sorted_runs(x: Any) -> tuple[Any, np.ndarray, np.ndarray]:
    """Order of the flat elements, and where each run of equals starts in it (read: it decides the result's size)."""
    flat = x.reshape((-1,))
    at = order(flat, 0)
    s = ops.gather(flat.astype(ms.int32) if flat.dtype == ms.bool_ else flat, at, 0)
    new = np.ones(flat.shape[0], bool)
    if flat.shape[0] > 1:
        a, b = s.narrow(0, 1, flat.shape[0] - 1), s.narrow(0, 0, flat.shape[0] - 1)
        new[1:] = _hosted(mint.not_equal(a, b))
    return at, new, np.flatnonzero(new)


@kernel("_unique2")
def _unique2(x: Any) -> Any:
    if 0 in x.shape:
        raise Unsupported("nothing")
    at, new, starts = _sorted_runs(x)
    place = _hosted(at)
    group = np.cumsum(new) - 1
    inverse = np.empty(len(place), np.int64)
    inverse[place] = group
    counts = np.diff(np.append(starts, len(place))).astype(np.int64)
    return chosen([x], place[starts]), ms.Tensor(inverse.reshape(tuple(x.shape))), ms.Tensor(counts)


@kernel("_distinct")
def _distinct(x: Any) -> Any:
    return _unique2(x)[0]


@kernel("unique_consecutive")
def _unique_consecutive(x: Any, dim: Any = None) -> Any:
    if 0 in x.shape or (dim is not None and not x.ndim):
        raise Unsupported("nothing, or a scalar")
    y = x.reshape((-1, 1)) if dim is None else mint.transpose(x, 0, dim).reshape((x.shape[dim], -1))
    n = y.shape[0]
    new = np.ones(n, bool)
    if n > 1:
        y = y.astype(ms.int32) if y.dtype == ms.bool_ else y
        new[1:] = _hosted(ops.ReduceAny()(mint.not_equal(y.narrow(0, 1, n - 1), y.narrow(0, 0, n - 1)), (1,)))
    starts = np.flatnonzero(new)
    group = (np.cumsum(new) - 1).astype(np.int64)
    counts = np.diff(np.append(starts, n)).astype(np.int64)
    at = starts if dim is None else numbered(x.shape).take(starts, dim)
    group = group.reshape(tuple(x.shape)) if dim is None else group
    return chosen([x], at), ms.Tensor(group), ms.Tensor(counts)


@kernel("unique_dim")
def _unique_dim(x: Any, dim: int) -> Any:
    """Rows in lexicographic order: stable sorts by the last column first."""
    if 0 in x.shape or not x.ndim:
        raise Unsupported("nothing, or a scalar")
    dim %= x.ndim
    n = x.shape[dim]
    rows = chosen([x], np.moveaxis(numbered(x.shape), dim, 0).reshape(n, -1))
    rows = rows.astype(ms.int32) if rows.dtype == ms.bool_ else rows
    if rows.shape[1] > 64:
        raise Unsupported("slices of more than 64 elements")
    at = const(np.arange(n, dtype=np.int64))
    for j in range(rows.shape[1] - 1, -1, -1):
        column = ops.gather(rows.narrow(1, j, 1).reshape((n,)), at, 0)
        at = ops.gather(at, order(column, 0), 0)
    s = ops.gather(rows, at, 0)
    new = np.ones(n, bool)
    if n > 1:
        new[1:] = _hosted(ops.ReduceAny()(mint.not_equal(s.narrow(0, 1, n - 1), s.narrow(0, 0, n - 1)), (1,)))
    place, starts = _hosted(at), np.flatnonzero(new)
    inverse = np.empty(n, np.int64)
    inverse[place] = np.cumsum(new) - 1
    counts = np.diff(np.append(starts, n)).astype(np.int64)
    return chosen([x], numbered(x.shape).take(place[starts], dim)), ms.Tensor(inverse), ms.Tensor(counts)


@kernel("_histogramdd")
def _histogramdd(x: Any, edges: list[Any], weight: Any, density: bool) -> Any:
    n, shape = x.shape[0], tuple(e.shape[0] - 1 for e in edges)
    if x.dtype not in _REAL:
        raise Unsupported("a histogram of whole numbers")
    if 0 in x.shape:
        none = zeros_of(shape, x.dtype)
        return mint.div(none, none) if density else none
    flat, ok = None, None
    for j, e in enumerate(edges):
        e = e.astype(x.dtype)
        v = x.narrow(1, j, 1)
        place = mint.sub(total(mint.less_equal(e.reshape((1, -1)), v).astype(ms.int64), 1), ms.Tensor(1, ms.int64))
        place = mint.minimum(place, ms.Tensor(shape[j] - 1, ms.int64))
        inside = mint.logical_and(mint.greater_equal(v, e.narrow(0, 0, 1)), mint.less_equal(v, e.narrow(0, shape[j], 1)))
        inside = inside.reshape((n,))
        ok = inside if ok is None else mint.logical_and(ok, inside)
        flat = place if flat is None else mint.add(mint.mul(flat, ms.Tensor(shape[j], ms.int64)), place)
    cells = math.prod(shape)
    flat = _where(ok, flat, mint.add(zeros(flat), ms.Tensor(cells, ms.int64)))
    w = mint.add(zeros(flat).astype(ms.float64), ms.Tensor(1, ms.float64)) if weight is None else weight.reshape((-1,))
    h = ops.unsorted_segment_sum(w.astype(ms.float64), flat.astype(ms.int32), cells + 1).narrow(0, 0, cells).reshape(shape)
    if density:
        h = mint.div(h.astype(x.dtype).astype(ms.float64), total(h))
        for j, e in enumerate(edges):
            e = e.astype(ms.float64)
            width = mint.sub(e.narrow(0, 1, shape[j]), e.narrow(0, 0, shape[j]))
            h = mint.div(h, width.reshape(tuple(shape[j] if i == j else 1 for i in range(len(shape)))))
    return h.astype(x.dtype)
