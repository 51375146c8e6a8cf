"""MindSpore kernels that order, rank, search and count: stable sorts by MindSpore's own, with NaNs put last as PyTorch does."""

from __future__ import annotations

from typing import Any

import numpy as np

from mindtorch.engine.mindspore import door
from mindtorch.engine.mindspore.kernels import Unsupported, kernel
from mindtorch.engine.mindspore.kernels.moves import const, zeros_of
from mindtorch.engine.mindspore.kernels.reductions import total

ms = door.load()
mint, ops = ms.mint, ms.ops
FLOATS = (ms.float16, ms.bfloat16, ms.float32, ms.float64)


def isnan(x: Any) -> Any:
    """Where a float is not a number."""
    return mint.not_equal(x, x)


def _ordered(x: Any) -> Any:
    """Values in a dtype with which MindSpore sorts and compares, in the same order."""
    if str(x.dtype).startswith("Complex"):
        raise Unsupported("complex numbers have no order")
    if x.dtype == ms.bfloat16:
        return x.astype(ms.float32)
    return x.astype(ms.int32) if x.dtype in (ms.bool_, ms.int8, ms.int16, ms.uint8) else x


def first_true(mask: Any, dim: int) -> Any:
    """Position of the first true element along ``dim`` (0 where there is none), int64."""
    n = mask.shape[dim]
    shape = tuple(n if i == dim % mask.ndim else 1 for i in range(mask.ndim))
    back = const(np.arange(n, 0, -1, dtype=np.int32).reshape(shape))
    top = ops.ReduceMax()(mint.mul(mask.astype(ms.int32), back), (dim,))
    found = mint.sub(ms.Tensor(n, ms.int32), top)
    return mint.mul(found, mint.greater(top, ms.Tensor(0, ms.int32)).astype(ms.int32)).astype(ms.int64)


def extreme_at(x: Any, dim: int, largest: bool = True, last_nan: bool = False) -> tuple[Any, Any]:
    """Greatest (or least) value along ``dim`` and its first position; a NaN wins. Both without ``dim``."""
    dim %= x.ndim
    y = _ordered(x)
    reduce = ops.ReduceMax if largest else ops.ReduceMin
    if x.dtype in FLOATS:
        bad = isnan(y)
        worst = ms.Tensor(-np.inf if largest else np.inf, y.dtype)
        clean = ops.select(bad, mint.broadcast_to(worst, y.shape), y)
        top = reduce(True)(clean, (dim,))
        hit = mint.logical_and(ops.equal(clean, top), mint.logical_not(bad))
        some = ops.ReduceAny(True)(bad, (dim,))
        hit = mint.logical_or(mint.logical_and(some, bad), mint.logical_and(mint.logical_not(some), hit))
        if last_nan:
            n = y.shape[dim]
            late = mint.sub(ms.Tensor(n - 1, ms.int64), first_true(ops.flip(bad, (dim,)), dim))
            early = first_true(hit, dim)
            at = ops.select(some.reshape(early.shape), late, early)
        else:
            at = first_true(hit, dim)
    else:
        at = first_true(ops.equal(y, reduce(True)(y, (dim,))), dim)
    kept = tuple(1 if i == dim else n for i, n in enumerate(x.shape))
    return _along(x, at.reshape(kept), dim).reshape(at.shape), at


def _along(x: Any, at: Any, dim: int) -> Any:
    if x.dtype in (ms.bool_, ms.bfloat16):
        wide = x.astype(ms.int32 if x.dtype == ms.bool_ else ms.float32)
        return ops.gather_elements(wide, dim, at).astype(x.dtype)
    return ops.gather_elements(x, dim, at)


def order(x: Any, dim: int, descending: bool = False) -> Any:
    """Positions of a stable sort along ``dim``, int64; NaNs count as greater than everything."""
    dim %= x.ndim
    y = _ordered(x)
    if descending:
        turned = order(ops.flip(x.astype(ms.int32) if x.dtype == ms.bool_ else x, (dim,)), dim)
        return mint.sub(ms.Tensor(x.shape[dim] - 1, ms.int64), ops.flip(turned, (dim,)))
    if x.dtype in FLOATS:
        bad = isnan(y)
        clean = ops.select(bad, mint.broadcast_to(ms.Tensor(np.inf, y.dtype), y.shape), y)
        first = ops.Sort(axis=dim)(clean)[1].astype(ms.int64)
        late = ops.gather_elements(bad.astype(ms.int32), dim, first)
        return ops.gather_elements(first, dim, ops.Sort(axis=dim)(late)[1].astype(ms.int64))
    return ops.Sort(axis=dim)(y)[1].astype(ms.int64)


def _empty(x: Any) -> None:
    if 0 in x.shape:
        raise Unsupported("no elements")


def _no_bool(x: Any) -> None:
    if x.dtype == ms.bool_:
        raise Unsupported("truth values, which PyTorch refuses here")


def _kept(t: Any, x: Any, dim: int, keepdim: bool) -> Any:
    return t.reshape(tuple(1 if i == dim % x.ndim else n for i, n in enumerate(x.shape))) if keepdim else t


@kernel("sort")
def _sort(x: Any, dim: int = -1, descending: bool = False, stable: Any = None) -> Any:
    _empty(x)
    if not x.ndim:
        return x, ms.Tensor(0, ms.int64)
    at = order(x, dim, descending)
    return _along(x, at, dim % x.ndim), at


def _extreme(largest: bool) -> Any:
    def run(x: Any, dim: int, keepdim: bool = False) -> Any:
        _empty(x)
        if not x.ndim:
            return x, ms.Tensor(0, ms.int64)
        v, at = extreme_at(x, dim, largest)
        return _kept(v, x, dim, keepdim), _kept(at, x, dim, keepdim)

    return run


kernel("max")(_extreme(True))
kernel("min")(_extreme(False))


def _arg(largest: bool) -> Any:
    def run(x: Any, dim: Any = None, keepdim: bool = False) -> Any:
        _empty(x)
        _no_bool(x)
        if not x.ndim:
            return ms.Tensor(0, ms.int64)
        if dim is None:
            at = extreme_at(x.reshape((-1,)), 0, largest)[1]
            return at.reshape((1,) * x.ndim) if keepdim else at
        return _kept(extreme_at(x, dim, largest)[1], x, dim, keepdim)

    return run


kernel("argmax")(_arg(True))
kernel("argmin")(_arg(False))


def _reduced(largest: bool) -> Any:
    def run(x: Any, dim: Any = (), keepdim: bool = False) -> Any:
        _empty(x)
        if not x.ndim:
            return x
        axes = sorted(d % x.ndim for d in ((dim,) if isinstance(dim, int) else dim)) or list(range(x.ndim))
        if len(set(axes)) != len(axes):
            raise Unsupported("a dimension twice")
        y = _ordered(x)
        r = (ops.ReduceMax if largest else ops.ReduceMin)(keepdim)(y, tuple(axes))
        if x.dtype in FLOATS:
            some = ops.ReduceAny(keepdim)(isnan(y), tuple(axes))
            r = ops.select(some, mint.broadcast_to(ms.Tensor(np.nan, r.dtype), r.shape), r)
        return r.astype(x.dtype)

    return run


kernel("amax")(_reduced(True))
kernel("amin")(_reduced(False))
kernel("max_all")(lambda x: _reduced(True)(x))
kernel("min_all")(lambda x: _reduced(False)(x))


@kernel("aminmax")
def _aminmax(x: Any, dim: Any = None, keepdim: bool = False) -> Any:
    d = () if dim is None else (dim,)
    return _reduced(False)(x, d, keepdim), _reduced(True)(x, d, keepdim)


@kernel("topk")
def _topk(x: Any, number: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
    _empty(x)
    _no_bool(x)
    if not x.ndim:
        return (x, ms.Tensor(0, ms.int64)) if number else (zeros_of((0,), x.dtype), zeros_of((0,), ms.int64))
    if not number:
        raise Unsupported("none of them")
    at = order(x, dim, largest).narrow(dim % x.ndim, 0, number)
    return _along(x, at, dim % x.ndim), at


@kernel("kthvalue")
def _kthvalue(x: Any, number: int, dim: int = -1, keepdim: bool = False) -> Any:
    _empty(x)
    _no_bool(x)
    if not x.ndim:
        return x, ms.Tensor(0, ms.int64)
    at = order(x, dim).narrow(dim % x.ndim, number - 1, 1)
    v = _along(x, at, dim % x.ndim)
    return (v, at) if keepdim else (v.squeeze(dim % x.ndim), at.squeeze(dim % x.ndim))


# ------------------------------------------------------------------------------------------ medians
def _median(skip: bool) -> Any:
    def run(x: Any, dim: int, keepdim: bool = False) -> Any:
        _empty(x)
        _no_bool(x)
        if not x.ndim:
            return x, ms.Tensor(0, ms.int64)
        dim %= x.ndim
        n = x.shape[dim]
        at = order(x, dim)
        shape = tuple(1 if i == dim else m for i, m in enumerate(x.shape))
        spot = mint.broadcast_to(ms.Tensor((n - 1) // 2, ms.int64), shape)
        if x.dtype in FLOATS:
            bad = total(isnan(x).astype(ms.int64), dim, True)
            if skip:
                good = mint.sub(ms.Tensor(n - 1, ms.int64), bad)
                spot = ops.select(mint.less(good, ms.Tensor(0, ms.int64)), zeros_of(shape, ms.int64), _half(good))
            else:
                spot = ops.select(mint.greater(bad, ms.Tensor(0, ms.int64)), mint.sub(ms.Tensor(n, ms.int64), bad), spot)
        i = ops.gather_elements(at, dim, spot)
        v = _along(x, i, dim)
        return (v, i) if keepdim else (v.squeeze(dim), i.squeeze(dim))

    return run


def _half(t: Any) -> Any:
    return ops.FloorDiv()(t.astype(ms.int32), ms.Tensor(2, ms.int32)).astype(ms.int64)


kernel("median")(_median(False))
kernel("nanmedian")(_median(True))
kernel("median_all")(lambda x: _median(False)(x.reshape((-1,)), 0)[0] if x.ndim else x)
kernel("nanmedian_all")(lambda x: _median(True)(x.reshape((-1,)), 0)[0] if x.ndim else x)


# ------------------------------------------------------------------------------------------ running extremes
def _running(largest: bool) -> Any:
    def run(x: Any, dim: int) -> Any:
        _empty(x)
        if not x.ndim:
            return x, ms.Tensor(0, ms.int64)
        dim %= x.ndim
        n = x.shape[dim]
        # By doubling: the best of the last 2**k elements, the later one where they tie.
        place = tuple(n if i == dim else 1 for i in range(x.ndim))
        at = mint.broadcast_to(const(np.arange(n, dtype=np.int64).reshape(place)), x.shape)
        v, step = _ordered(x), 1
        while step < n:
            earlier = np.maximum(np.arange(n) - step, 0)
            pv, pi = ops.gather(v, const(earlier), dim), ops.gather(at, const(earlier), dim)
            keep = mint.greater_equal(v, pv) if largest else mint.less_equal(v, pv)
            if x.dtype in FLOATS:
                keep = mint.logical_or(isnan(v), mint.logical_and(keep, mint.logical_not(isnan(pv))))
            v, at = ops.select(keep, v, pv), ops.select(keep, at, pi)
            step *= 2
        return v.astype(x.dtype), at

    return run


kernel("cummax")(_running(True))
kernel("cummin")(_running(False))


# ------------------------------------------------------------------------------------------ sets and counts
@kernel("_nonzero")
def _nonzero(x: Any) -> Any:
    if 0 in x.shape:
        return zeros_of((0, x.ndim), ms.int64)
    if str(x.dtype).startswith("Complex"):
        raise Unsupported("complex numbers")
    if not x.ndim:
        return zeros_of((int(bool(x)), 0), ms.int64)
    mask = x if x.dtype == ms.bool_ else mint.not_equal(x, ms.Tensor(0, x.dtype))
    if not bool(mask.any()):
        return zeros_of((0, x.ndim), ms.int64)
    return ops.nonzero(mask).astype(ms.int64)


@kernel("isin")
def _isin(x: Any, test: Any, invert: bool) -> Any:
    if 0 in test.shape or 0 in x.shape:
        raise Unsupported("nothing to look for")
    hit = ops.equal(x.reshape((*x.shape, 1)), test.reshape((-1,)))
    hit = ops.ReduceAny()(hit, (x.ndim,))
    return mint.logical_not(hit) if invert else hit


@kernel("bincount")
def _bincount(x: Any, weights: Any = None, minlength: int = 0) -> Any:
    _empty(x)
    if x.dtype in FLOATS or x.dtype == ms.bool_ or str(x.dtype).startswith("Complex") or x.ndim != 1:
        raise Unsupported(f"dtype {x.dtype}")
    low, high = int(x.min()), int(x.max())
    if low < 0:
        raise Unsupported("negative numbers")
    n = max(high + 1, minlength)
    w = ops.ones(x.shape, ms.int64) if weights is None else weights
    w = w if weights is None or w.dtype == ms.float32 else w.astype(ms.float64)
    return ops.unsorted_segment_sum(w, x.astype(ms.int32), n)


@kernel("searchsorted")
def _searchsorted(seq: Any, values: Any, right: bool, narrow: bool, sorter: Any = None) -> Any:
    if 0 in seq.shape or 0 in values.shape:
        return zeros_of(values.shape, ms.int32 if narrow else ms.int64)
    if seq.ndim > 1 and not values.ndim:
        raise Unsupported("a scalar in several rows")
    if sorter is not None:
        seq = ops.gather_elements(seq, seq.ndim - 1, sorter.astype(ms.int64))
    rows = seq.reshape((*seq.shape[:-1], 1, seq.shape[-1])) if seq.ndim > 1 else seq
    v = values.reshape((*values.shape, 1))
    below = mint.less_equal(rows, v) if right else mint.less(rows, v)
    if values.dtype in FLOATS:
        # A NaN is behind everything, and behind other NaNs when searching from the right.
        bad = mint.broadcast_to(isnan(v), below.shape)
        nans = mint.broadcast_to(isnan(rows), below.shape)
        below = mint.logical_or(below, bad if right else mint.logical_and(bad, mint.logical_not(nans)))
    at = total(below.astype(ms.int64), -1)
    return at.astype(ms.int32) if narrow else at
