"""Host kernels that order elements: sort, top-k, selection, search, unique values, histograms. nan counts as
largest."""

from __future__ import annotations

from typing import Any

import numpy as np

from mindtorch.core.errors import check, wrap_dim
from mindtorch.engine.host.jit import fused
from mindtorch.engine.host.quiet import quiet

I8 = np.dtype(np.int64)


def _ordered(name: str, a: np.ndarray) -> None:
    if a.dtype.kind == "c":
        raise RuntimeError(f"{name}(): complex tensors have no order")


def argsort(a: np.ndarray, axis: int, descending: bool) -> np.ndarray:
    """Stable order along ``axis``; descending puts nan first and keeps equal elements in place."""
    if not descending:
        return a.argsort(axis, kind="stable")
    flip = tuple(slice(None, None, -1) if i == axis else slice(None) for i in range(a.ndim))
    return a.shape[axis] - 1 - a[flip].argsort(axis, kind="stable")[flip]


def along(x: np.ndarray, i: np.ndarray) -> np.ndarray:
    """``x`` at the indices ``i`` along the last axis (leading shapes equal)."""
    n = x.shape[-1]
    if x.ndim == 1:
        return x.take(i)
    if x.ndim == 2 and x.flags.c_contiguous:
        return x.reshape(-1).take(i + np.arange(0, x.size, n)[:, None]) if x.size else np.take_along_axis(x, i, -1)
    return np.take_along_axis(x, i, -1)


def sort(a: np.ndarray, dim: int, descending: bool, stable: Any = None) -> tuple[np.ndarray, np.ndarray]:
    """Sorted values and their indices. Always stable, so ``stable`` needs no other path."""
    _ordered("sort", a)
    d = wrap_dim(dim, a.ndim)
    if a.ndim == 0:
        return a.copy(), np.zeros((), I8)
    order = argsort(a, d, descending)
    return (along(a, order) if d == a.ndim - 1 else np.take_along_axis(a, order, d)), order


def _no_twin(*args: Any) -> None:
    """NumPy twin: never called, because ``topk`` asks ``tick`` first and has a NumPy path of its own."""
    raise RuntimeError("the compiled top-k kernel is not in use")


@fused(_no_twin)
def _topk_rows(x, k, largest, values, index):  # type: ignore[no-untyped-def]
    for r in range(x.shape[0]):
        row = x[r]
        best = values[r]
        place = index[r]
        have = 0
        for j in range(row.size):
            v = row[j]
            if have == k:
                w = best[k - 1]
                if largest:
                    if not (v > w or (v != v and w == w)):
                        continue
                elif not (v < w or (w != w and v == v)):
                    continue
                p = k - 1
            else:
                p = have
                have += 1
            while p > 0:
                w = best[p - 1]
                if largest:
                    if not (v > w or (v != v and w == w)):
                        break
                elif not (v < w or (w != w and v == v)):
                    break
                best[p] = w
                place[p] = place[p - 1]
                p -= 1
            best[p] = v
            place[p] = j


def _topk_fused(x: np.ndarray, k: int, largest: bool) -> tuple[np.ndarray, np.ndarray] | None:
    """By insertion into the k best so far; None while the compiled kernel is not in use."""
    if not 0 < k <= 64 or x.dtype.kind not in "fi" or not x.flags.c_contiguous:
        return None
    if _topk_rows.compiled is None and not _topk_rows.tick(x.size):
        return None
    n = x.shape[-1]
    rows = x.size // n
    values, index = np.empty((rows, k), x.dtype), np.empty((rows, k), I8)
    try:
        _topk_rows(x.reshape(rows, n), k, largest, values, index)
    except RuntimeError:
        return None
    shape = (*x.shape[:-1], k)
    return values.reshape(shape), index.reshape(shape)


def topk(a: np.ndarray, k: int, dim: int, largest: bool, sorted: bool = True) -> tuple[np.ndarray, np.ndarray]:
    """The ``k`` largest (smallest) elements in order, and their indices."""
    _ordered("topk", a)
    d = wrap_dim(dim, a.ndim)
    n = a.shape[d] if a.ndim else 1
    if not 0 <= k <= n:
        raise RuntimeError(f"selected index k out of range: k={k}, but dimension {d} has size {n}")
    if a.ndim == 0:
        return a.copy(), np.zeros((), I8)
    x = a if d == a.ndim - 1 else np.moveaxis(a, d, -1)
    got = _topk_fused(x, k, largest) if n and d == a.ndim - 1 else None
    if got is not None:
        return got
    if n <= 256 and a.dtype.kind == "f" and not np.isnan(x).any():
        order = (-x if largest else x).argsort(-1, kind="stable")[..., :k]
    elif n > 256 and 0 < k < n // 8 and a.dtype.kind in "f":
        order = _partial(x, k, largest)
    else:
        order = argsort(x, x.ndim - 1, largest)[..., :k]
    v = along(x, order)
    if d == a.ndim - 1:
        return v, np.ascontiguousarray(order)
    return np.ascontiguousarray(np.moveaxis(v, -1, d)), np.ascontiguousarray(np.moveaxis(order, -1, d))


def _partial(x: np.ndarray, k: int, largest: bool) -> np.ndarray:
    """Indices of the k best by selection: cheaper than a full sort for small k."""
    if largest:
        key = np.where(np.isnan(x), -np.inf, -x)
        if np.isinf(key).any():
            return argsort(x, x.ndim - 1, True)[..., :k]
    else:
        key = x
    i = np.argpartition(key, k - 1, axis=-1)[..., :k]
    i.sort(-1)
    picked = np.take_along_axis(key, i, -1)
    return np.take_along_axis(i, picked.argsort(-1, kind="stable"), -1)


def kthvalue(a: np.ndarray, k: int, dim: int, keepdim: bool) -> tuple[np.ndarray, np.ndarray]:
    """The k-th smallest element (from 1) over ``dim`` and its index."""
    _ordered("kthvalue", a)
    d = wrap_dim(dim, a.ndim)
    n = a.shape[d] if a.ndim else 1
    check(n > 0, IndexError, f"kthvalue(): Expected reduction dim {d} to have non-zero size.")
    check(0 < k <= n, RuntimeError, f"kthvalue(): selected number k out of range for dimension {d}: k={k}, size {n}")
    if a.ndim == 0:
        return a.copy(), np.zeros((), I8)
    i = a.argsort(d, kind="stable").take([k - 1], d)
    v = np.take_along_axis(a, i, d)
    return (v, i) if keepdim else (v.squeeze(d), i.squeeze(d))


def mode(a: np.ndarray, dim: int, keepdim: bool) -> tuple[np.ndarray, np.ndarray]:
    """The most frequent element (the smallest of several) and the last place it is at."""
    _ordered("mode", a)
    d = wrap_dim(dim, a.ndim)
    if a.ndim == 0:
        return a.copy(), np.zeros((), I8)
    n = a.shape[d]
    check(n > 0, IndexError, f"mode(): Expected reduction dim {d} to have non-zero size.")
    x = np.moveaxis(a, d, -1)
    order = x.argsort(-1, kind="stable")
    s = np.take_along_axis(x, order, -1)
    at = np.broadcast_to(np.arange(n), s.shape)
    start = np.ones(s.shape, bool)
    start[..., 1:] = s[..., 1:] != s[..., :-1]
    run = at - np.maximum.accumulate(np.where(start, at, 0), axis=-1)
    end = run.argmax(-1)[..., None]
    v, i = np.take_along_axis(s, end, -1), np.take_along_axis(order, end, -1)
    v, i = np.moveaxis(v, -1, d), np.moveaxis(i, -1, d)
    return (v, i) if keepdim else (v.squeeze(d), i.squeeze(d))


# ------------------------------------------------------------------------------------------ unique values
def unique(a: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Sorted distinct elements, the place of each element among them (in the shape of ``a``), and counts."""
    v, inverse, counts = np.unique(a.ravel(), return_inverse=True, return_counts=True, equal_nan=False)
    return v, inverse.reshape(a.shape).astype(I8, copy=False), counts.astype(I8, copy=False)


def distinct(a: np.ndarray) -> np.ndarray:
    """Sorted distinct elements alone (no two nan are equal): small integers by counting, the rest by one sort."""
    v = a.ravel()
    if v.dtype.kind in "iu" and v.dtype.itemsize == 8 and v.size >= 256:
        low, high = v.item(v.argmin()), v.item(v.argmax())
        if high - low < 4 * v.size:
            return (np.bincount(v - low if low else v).nonzero()[0] + low).astype(v.dtype, copy=False)
    v = np.sort(v)
    if v.size < 2:
        return v
    new = np.empty(v.size, bool)
    new[0] = True
    with quiet():
        np.not_equal(v[1:], v[:-1], new[1:])
    return v[new]


def _group(rows: np.ndarray, new: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Starts of runs, run number of each row, run lengths; ``new`` marks the first row of a run."""
    del rows
    starts = new.nonzero()[0]
    return starts, np.cumsum(new) - 1, np.diff(np.append(starts, new.size)).astype(I8)


def unique_dim(a: np.ndarray, dim: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Distinct slices along ``dim`` in lexicographic order, the place of each slice among them, and counts."""
    d = wrap_dim(dim, a.ndim)
    n = a.shape[d]
    if n == 0:
        return a.copy(), np.zeros(0, I8), np.zeros(0, I8)
    rows = np.moveaxis(a, d, 0).reshape(n, a.size // n)
    if rows.shape[1] == 0:
        raise RuntimeError("There are 0 sized dimensions, and they aren't selected, so unique cannot be applied")
    order = np.lexsort(rows.T[::-1])
    s = rows[order]
    new = np.ones(n, bool)
    new[1:] = (s[1:] != s[:-1]).any(1)
    starts, group, counts = _group(s, new)
    inverse = np.empty(n, I8)
    inverse[order] = group
    return np.ascontiguousarray(a.take(order[starts], d)), inverse, counts


def unique_consecutive(a: np.ndarray, dim: int | None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Runs of equal elements (slices along ``dim``) reduced to one; run number of each; run lengths."""
    if dim is None:
        flat = a.ravel()
        new = np.ones(flat.size, bool)
        new[1:] = flat[1:] != flat[:-1]
        starts, group, counts = _group(flat, new)
        return flat[starts], group.reshape(a.shape).astype(I8), counts
    d = wrap_dim(dim, a.ndim)
    n = a.shape[d]
    rows = np.moveaxis(a, d, 0).reshape(n, -1) if a.size else np.zeros((n, 0))
    new = np.ones(n, bool)
    new[1:] = (rows[1:] != rows[:-1]).any(1)
    starts, group, counts = _group(rows, new)
    return np.ascontiguousarray(a.take(starts, d)), group.astype(I8), counts


# ------------------------------------------------------------------------------------------ search
def searchsorted(seq: np.ndarray, v: np.ndarray, right: bool, narrow: bool, sorter: np.ndarray | None) -> np.ndarray:
    """Insertion places of ``v`` into sorted rows (1-D ``seq`` serves all of ``v``)."""
    side: Any = "right" if right else "left"
    out = np.int32 if narrow else I8
    if seq.dtype != v.dtype:
        common = np.result_type(seq, v)
        seq, v = seq.astype(common), v.astype(common)
    if seq.ndim == 1:
        return np.asarray(np.searchsorted(seq, v, side, sorter)).astype(out)
    n = seq.shape[-1]
    batch = int(np.prod(seq.shape[:-1]))
    rows, values = seq.reshape(batch, n), v.reshape(batch, v.shape[-1])
    order = None if sorter is None else sorter.reshape(batch, n)
    r = np.empty(values.shape, out)
    for i in range(rows.shape[0]):
        r[i] = np.searchsorted(rows[i], values[i], side, None if order is None else order[i])
    return r.reshape(v.shape)


def isin(a: np.ndarray, b: np.ndarray, invert: bool) -> np.ndarray:
    """Whether each element of ``a`` is among those of ``b``."""
    return np.isin(a, b, invert=invert)


# ------------------------------------------------------------------------------------------ histograms
def bincount(a: np.ndarray, weights: np.ndarray | None, minlength: int) -> np.ndarray:
    """Number (or summed weight) of each non-negative integer."""
    if a.size:
        check(
            a.ndim == 1 and a.item(a.argmin()) >= 0, RuntimeError, "bincount only supports 1-d non-negative integral inputs."
        )
    check(minlength >= 0, RuntimeError, f"minlength should be >= 0, got {minlength}")
    if weights is None:
        return np.bincount(a, minlength=minlength).astype(I8)
    check(
        a.shape == weights.shape,
        RuntimeError,
        f"weights should be 1-d and have the same length as input, got {list(weights.shape)} for {list(a.shape)}",
    )
    r = np.bincount(a, weights, minlength)
    return r.astype(np.float32) if weights.dtype == np.float32 else r


def histc(a: np.ndarray, bins: int, low: float, high: float) -> np.ndarray:
    """Counts in ``bins`` equal bins of [low, high]; equal bounds mean the range of the data; outside is not counted."""
    check(a.dtype.kind in "fiu", NotImplementedError, f"\"histogram_cpu\" not implemented for '{a.dtype.name}'")
    check(bins > 0, RuntimeError, f"torch.histc(): bins must be > 0, but got {bins}")
    low, high = _outer(a, low, high, "torch.histc")
    if not a.size:
        return np.zeros(bins, a.dtype)
    x = a.ravel().astype(np.float64)
    x = x[(x >= low) & (x <= high)]
    place = np.minimum(((x - low) * bins / (high - low)).astype(I8), bins - 1)
    return np.bincount(place, minlength=bins).astype(a.dtype)


def _outer(a: np.ndarray, low: float, high: float, name: str) -> tuple[float, float]:
    if low == high and a.size:
        low, high = float(a.min()), float(a.max())
    if low == high:
        low, high = low - 1, high + 1
    check(np.isfinite(low) and np.isfinite(high), RuntimeError, f"{name}: range of [{low}, {high}] is not finite")
    check(low < high, RuntimeError, f"{name}: max must be larger than min, got [{low}, {high}]")
    return low, high


def histogramdd(x: np.ndarray, edges: list[np.ndarray], weight: np.ndarray | None, density: bool) -> np.ndarray:
    """Weighted counts of the points ``x`` (N, D) in the grid of ``edges``; the last bin of a dimension is closed."""
    shape = tuple(len(e) - 1 for e in edges)
    ok = np.ones(x.shape[0], bool)
    flat = np.zeros(x.shape[0], I8)
    for j, e in enumerate(edges):
        v = x[:, j]
        ok &= (v >= e[0]) & (v <= e[-1])
        flat = flat * shape[j] + np.clip(np.searchsorted(e, v, "right") - 1, 0, shape[j] - 1)
    w = None if weight is None else weight.ravel()[ok].astype(np.float64)
    h = np.bincount(flat[ok], w, int(np.prod(shape))).reshape(shape).astype(x.dtype)
    if density:
        with quiet():
            volume = np.ones((), np.float64)
            for e in edges:
                volume = np.multiply.outer(volume, np.diff(e))
            h = (h / h.sum() / volume).astype(x.dtype)
    return h


def bin_edges(x: np.ndarray, bins: list[int], range_: Any) -> list[np.ndarray]:
    """Evenly spaced edges per dimension, over ``range_`` (pairs, flattened) or the range of the data."""
    out = []
    for j, n in enumerate(bins):
        check(n > 0, RuntimeError, f"torch.histogram(): bins must be > 0, but got {n}")
        if range_ is not None:
            low, high = float(range_[2 * j]), float(range_[2 * j + 1])
        else:
            v = x[:, j]
            low, high = (float(v.min()), float(v.max())) if v.size else (0.0, 1.0)
        if low == high:
            low, high = low - 0.5, high + 0.5
        check(low < high, RuntimeError, f"torch.histogram(): min should not exceed max, but got [{low}, {high}]")
        out.append(np.linspace(low, high, n + 1).astype(x.dtype))
    return out
