"""Pooling on the host over the last d dimensions of an array whose leading dimensions are planes.

Maxima: NaN wins, the first of equal values is the index, the last of several NaN (PyTorch's rule); a window of -inf has
its first position. Indices are flat positions inside the plane. Averages are separable sums of shifted slices.
``size`` and ``out`` are spatial sizes; windows are described by per-dimension tuples kernel, stride, low, dilation.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from functools import lru_cache

import numpy as np

from mindtorch.engine.host.conv import span
from mindtorch.engine.host.jit import fused, threads_for
from mindtorch.engine.host.quiet import EXTOBJ, quiet

Ints = tuple[int, ...]
PARALLEL = 1 << 17
SMALL = 4096
"""Elements below which one pass with indices is faster than one NumPy call per tap."""


def out_size(size: Ints, kernel: Ints, stride: Ints, low: Ints, dilation: Ints, ceil_mode: bool) -> Ints:
    """Number of windows per dimension; a last one added by ``ceil_mode`` starts inside the input or its low padding."""
    sizes = []
    for n, k, s, p, d in zip(size, kernel, stride, low, dilation):
        room = n + 2 * p - d * (k - 1) - 1
        out = (room + s - 1) // s + 1 if ceil_mode else room // s + 1
        if ceil_mode and (out - 1) * s >= n + p:
            out -= 1
        sizes.append(out)
    return tuple(sizes)


def _least(dtype: np.dtype) -> object:
    if dtype.kind in "iu":
        return np.iinfo(dtype).min
    return False if dtype.kind == "b" else -math.inf


def _taps(size: Ints, out: Ints, kernel: Ints, stride: Ints, low: Ints, dilation: Ints) -> Iterator[tuple]:
    """For each tap in row-major order: slices of the input it reads, slices of the output it reaches, input starts."""
    axes = []
    for n, o, k, s, p, d in zip(size, out, kernel, stride, low, dilation):
        spans = [(t, *span(t * d, o, n, s, p)) for t in range(k)]
        axes.append(
            [(slice(a * s + t * d - p, (b - 1) * s + t * d - p + 1, s), slice(a, b)) for t, a, b in spans if b > a]
        )
    for taps in itertools.product(*axes):
        yield tuple(t[0] for t in taps), tuple(t[1] for t in taps)


def _positions(size: Ints, src: tuple[slice, ...], dtype: np.dtype) -> np.ndarray:
    """Flat positions of the elements a tuple of slices picks from a plane."""
    flat = np.zeros((1,) * len(size), dtype)
    for axis, (n, part) in enumerate(zip(size, src)):
        shape = [1] * len(size)
        shape[axis] = -1
        flat = flat * n + np.arange(part.start, part.stop, part.step, dtype=dtype).reshape(shape)
    return flat


# ------------------------------------------------------------------------------------------ maximum with index
def _first_index(size: Ints, out: Ints, stride: Ints, low: Ints, dilation: Ints) -> np.ndarray:
    """Position of each window's first element inside the input."""
    flat = np.zeros((1,) * len(size), np.int32)
    for axis, (n, o, s, p, d) in enumerate(zip(size, out, stride, low, dilation)):
        start = np.arange(o, dtype=np.int32) * s - p
        start += np.where(start < 0, -(start // d) * d, 0).astype(np.int32)
        shape = [1] * len(size)
        shape[axis] = -1
        flat = flat * n + start.reshape(shape)
    return flat


def _max_any(
    x: np.ndarray, out: Ints, kernel: Ints, stride: Ints, low: Ints, dilation: Ints
) -> tuple[np.ndarray, np.ndarray]:
    """Values and int32 indices by one pass of slices per tap; any dtype, any number of dimensions."""
    size = x.shape[1:]
    best = np.full((x.shape[0], *out), _least(x.dtype), x.dtype)
    index = np.empty(best.shape, np.int32)
    index[...] = _first_index(size, out, stride, low, dilation)
    floating = x.dtype.kind == "f"
    for src, dst in _taps(size, out, kernel, stride, low, dilation):
        value = x[(slice(None), *src)]
        held = best[(slice(None), *dst)]
        wins = np.greater(value, held, extobj=EXTOBJ)
        if floating:
            wins |= np.not_equal(value, value, extobj=EXTOBJ)
        np.copyto(held, value, where=wins)
        np.copyto(index[(slice(None), *dst)], _positions(size, src, np.dtype(np.int32)), where=wins)
    return best, index


def _max2d_numpy(x, best, index, kh, kw, sh, sw, ph, pw, dh, dw, threads):  # type: ignore[no-untyped-def]
    values, where = _max_any(x, best.shape[1:], (kh, kw), (sh, sw), (ph, pw), (dh, dw))
    best[...], index[...] = values, where


@fused(_max2d_numpy, parallel=True)
def _max2d(x, best, index, kh, kw, sh, sw, ph, pw, dh, dw, threads):  # type: ignore[no-untyped-def]
    planes, height, width = x.shape
    oh, ow = best.shape[1], best.shape[2]
    for p in prange(planes):  # noqa: F821
        plane = x[p]
        for r in range(oh):
            top = r * sh - ph
            while top < 0:
                top += dh
            bottom = min(r * sh - ph + (kh - 1) * dh + 1, height)
            row, at = best[p, r], index[p, r]
            for q in range(ow):
                left = q * sw - pw
                while left < 0:
                    left += dw
                right = min(q * sw - pw + (kw - 1) * dw + 1, width)
                here = top * width + left
                value = plane[top, left]
                y = top
                while y < bottom:
                    line = plane[y]
                    z = left
                    while z < right:
                        v = line[z]
                        # not (v <= value) is also true for NaN on either side; a held NaN yields only to a NaN
                        if v > value or v != v:
                            value = v
                            here = y * width + z
                        z += dw
                    y += dh
                row[q] = value
                at[q] = here


def _max2x2_numpy(x, best, index, threads):  # type: ignore[no-untyped-def]
    _max2d_numpy(x, best, index, 2, 2, 2, 2, 0, 0, 1, 1, threads)


@fused(_max2x2_numpy, parallel=True)
def _max2x2(x, best, index, threads):  # type: ignore[no-untyped-def]
    planes, width = x.shape[0], np.int32(x.shape[2])
    oh, ow = best.shape[1], best.shape[2]
    for p in prange(planes):  # noqa: F821
        for r in range(oh):
            upper, lower = x[p, 2 * r], x[p, 2 * r + 1]
            row, at = best[p, r], index[p, r]
            start = np.int32(2 * r) * width
            for q in range(ow):
                a, b, c, d = upper[2 * q], upper[2 * q + 1], lower[2 * q], lower[2 * q + 1]
                base = start + np.int32(2 * q)
                here = base
                if b > a or b != b:
                    a = b
                    here = base + np.int32(1)
                if c > a or c != c:
                    a = c
                    here = base + width
                if d > a or d != d:
                    a = d
                    here = base + width + np.int32(1)
                row[q] = a
                at[q] = here


def max_pool(
    x: np.ndarray, out: Ints, kernel: Ints, stride: Ints, low: Ints, dilation: Ints
) -> tuple[np.ndarray, np.ndarray]:
    """x (*lead, *size) to values and int32 indices (*lead, *out)."""
    d = len(out)
    lead, size = x.shape[:-d], x.shape[-d:]
    planes = np.ascontiguousarray(x).reshape(math.prod(lead), *size)
    shape = (*lead, *out)
    if d == 1:
        planes = planes[:, None]
        out, kernel, stride, low, dilation = (1, *out), (1, *kernel), (1, *stride), (0, *low), (1, *dilation)
    if d == 3 or x.dtype.kind == "b" or (max(dilation) > 1 and max(low) > 0):
        # padding with dilation can leave a window without any element: only the slice version expects that
        values, where = _max_any(planes, out, kernel, stride, low, dilation)
        return values.reshape(shape), where.reshape(shape)
    values, where = np.empty((len(planes), *out), x.dtype), np.empty((len(planes), *out), np.int32)
    if planes.size:
        threads = threads_for(planes.size, PARALLEL)
        if kernel == (2, 2) and stride == (2, 2) and low == (0, 0) and dilation == (1, 1) and _fits(planes, out):
            _max2x2(planes, values, where, threads)
        else:
            _max2d(planes, values, where, *kernel, *stride, *low, *dilation, threads)
    return values.reshape(shape), where.reshape(shape)


def _fits(planes: np.ndarray, out: Ints) -> bool:
    return 2 * out[0] <= planes.shape[1] and 2 * out[1] <= planes.shape[2]


def max_values(x: np.ndarray, out: Ints, kernel: Ints, stride: Ints, low: Ints, dilation: Ints) -> np.ndarray:
    """The maxima alone, one axis after the other."""
    d = len(out)
    loop = _max2x2 if kernel == (2, 2) else _max2d
    if x.size < SMALL and d < 3 and (loop.compiled is not None or loop.tick(x.size)):
        return max_pool(x, out, kernel, stride, low, dilation)[0]
    for axis in range(-1, -d - 1, -1):
        k, s, p, n, o = kernel[axis], stride[axis], low[axis], x.shape[axis], out[axis]
        if k == 1 and s == 1 and p == 0 and n == o:
            continue
        x = _reduce_axis(np.maximum, x, axis, o, k, s, p, dilation[axis], _least(x.dtype))
    return x


def _at(ndim: int, axis: int, part: slice) -> tuple[slice, ...]:
    index = [slice(None)] * ndim
    index[axis] = part
    return tuple(index)


def _reduce_axis(
    ufunc: np.ufunc, x: np.ndarray, axis: int, out: int, k: int, s: int, p: int, d: int, start: object
) -> np.ndarray:
    """Windows of one axis reduced by a binary ufunc: shifted strided slices."""
    shape = list(x.shape)
    n, shape[axis] = shape[axis], out
    parts, full = _spans(n, out, k, s, p, d)
    if full:
        # start from two taps that reach every output: no fill, one pass less
        a, b = full
        y = ufunc(x[_at(x.ndim, axis, _source(a, s, p, d))], x[_at(x.ndim, axis, _source(b, s, p, d))], extobj=EXTOBJ)
        rest = [part for part in parts if part is not a and part is not b]
    else:
        y = np.full(shape, start, x.dtype)
        rest = parts
    for part in rest:
        if part[2] > part[1]:
            dst = y[_at(x.ndim, axis, slice(part[1], part[2]))]
            ufunc(dst, x[_at(x.ndim, axis, _source(part, s, p, d))], out=dst, extobj=EXTOBJ)
    return y


@lru_cache(maxsize=512)
def _spans(
    n: int, out: int, k: int, s: int, p: int, d: int
) -> tuple[list[tuple[int, int, int]], list[tuple[int, int, int]]]:
    """Every tap with the outputs it reaches, and the first two that reach all of them (if there are two)."""
    parts = [(t, *span(t * d, out, n, s, p)) for t in range(k)]
    full = [part for part in parts if part[1] == 0 and part[2] == out]
    return parts, full[:2] if len(full) >= 2 else []


def _source(part: tuple[int, int, int], s: int, p: int, d: int) -> slice:
    t, first, last = part
    begin = first * s + t * d - p
    return slice(begin, begin + (last - first - 1) * s + 1, s)


# ------------------------------------------------------------------------------------------ moving values by index
def _scatter_numpy(g, index, dx):  # type: ignore[no-untyped-def]
    planes, size = dx.shape
    flat = index.astype(np.int64) + np.arange(planes, dtype=np.int64)[:, None] * size
    if g.dtype.kind == "c":
        np.add.at(dx.reshape(-1), flat, g)
        return
    total = np.bincount(flat.reshape(-1), weights=g.reshape(-1), minlength=planes * size)
    dx[...] = total.reshape(dx.shape)


@fused(_scatter_numpy)
def _scatter(g, index, dx):  # type: ignore[no-untyped-def]
    for p in range(g.shape[0]):
        row, at, dst = g[p], index[p], dx[p]
        for q in range(row.size):
            dst[at[q]] += row[q]


def scatter_add(g: np.ndarray, index: np.ndarray, size: Ints) -> np.ndarray:
    """g and index (*lead, *out): adds g at flat plane positions of zeros (*lead, *size)."""
    d = len(size)
    lead = g.shape[: g.ndim - d]
    planes = math.prod(lead)
    dx = np.zeros((planes, math.prod(size)), g.dtype)
    if g.size:
        flat = np.ascontiguousarray(index).reshape(planes, -1)
        if flat.dtype.kind != "i" or flat.dtype.itemsize < 4:
            flat = flat.astype(np.int64)
        _scatter(np.ascontiguousarray(g).reshape(planes, -1), flat, dx)
    return dx.reshape(*lead, *size)


def gather(x: np.ndarray, index: np.ndarray, d: int) -> np.ndarray:
    """x (*lead, *size) read at flat plane positions index (*lead, *out): (*lead, *out)."""
    lead = x.shape[: x.ndim - d]
    planes, size = math.prod(lead), math.prod(x.shape[x.ndim - d :])
    offset = (np.arange(planes, dtype=np.int64) * size).reshape(*lead, *(1,) * d)
    return np.ascontiguousarray(x).reshape(-1).take(index + offset)


def unpool(x: np.ndarray, index: np.ndarray, size: Ints) -> np.ndarray:
    """Values placed at flat plane positions; a repeated position keeps the last. The caller has checked the range."""
    d = len(size)
    lead = x.shape[: x.ndim - d]
    planes = math.prod(lead)
    out = np.zeros((planes, math.prod(size)), x.dtype)
    if x.size:
        np.put_along_axis(out, index.reshape(planes, -1), x.reshape(planes, -1), 1)
    return out.reshape(*lead, *size)


# ------------------------------------------------------------------------------------------ averages
@lru_cache(maxsize=256)
def divisor(
    size: Ints, out: Ints, kernel: Ints, stride: Ints, low: Ints, include_pad: bool, override: int | None
) -> np.ndarray | int:
    """What each window's sum is divided by: one number, or an array over ``out``."""
    if override is not None:
        return override
    counts = []
    for n, o, k, s, p in zip(size, out, kernel, stride, low):
        start = np.arange(o, dtype=np.int64) * s - p
        end = np.minimum(start + k, n + p)
        counts.append(end - start if include_pad else np.minimum(end, n) - np.maximum(start, 0))
    if all((c == c[0]).all() for c in counts if c.size):
        return math.prod(int(c[0]) for c in counts if c.size)
    total = counts[0]
    for c in counts[1:]:
        total = total[..., None] * c
    return total


def avg_pool(
    x: np.ndarray, out: Ints, kernel: Ints, stride: Ints, low: Ints, include_pad: bool, override: int | None
) -> np.ndarray:
    """Window means (*lead, *out) of x (*lead, *size); integers divide towards zero."""
    d = len(out)
    y = x
    for axis in range(-1, -d - 1, -1):
        y = _reduce_axis(np.add, y, axis, out[axis], kernel[axis], stride[axis], low[axis], 1, 0)
    by = divisor(x.shape[-d:], out, kernel, stride, low, include_pad, override)
    if x.dtype.kind in "iu":
        return (np.sign(y) * np.sign(by) * (np.abs(y) // np.abs(by))).astype(x.dtype)
    by = np.asarray(by, x.dtype)
    if y is x:
        return np.divide(y, by, extobj=EXTOBJ)
    return np.divide(y, by, out=y, extobj=EXTOBJ)


def avg_pool_grad(
    g: np.ndarray, size: Ints, kernel: Ints, stride: Ints, low: Ints, include_pad: bool, override: int | None
) -> np.ndarray:
    """Transpose of ``avg_pool``: g (*lead, *out) to (*lead, *size)."""
    d = len(size)
    by = divisor(size, g.shape[-d:], kernel, stride, low, include_pad, override)
    g = np.divide(g, np.asarray(by, g.dtype), extobj=EXTOBJ)
    for axis in range(-d, 0):
        g = _spread_axis(g, axis, size[axis], kernel[axis], stride[axis], low[axis])
    return g


def _spread_axis(g: np.ndarray, axis: int, n: int, k: int, s: int, p: int) -> np.ndarray:
    """Transpose of a window sum along one axis."""
    shape = list(g.shape)
    out, shape[axis] = shape[axis], n
    if k == s and p == 0 and n == out * k:
        return np.repeat(g, k, axis)
    dx = np.zeros(shape, g.dtype)
    for t in range(k):
        first, last = span(t, out, n, s, p)
        if last > first:
            begin = first * s + t - p
            dx[_at(g.ndim, axis, slice(begin, begin + (last - first - 1) * s + 1, s))] += g[
                _at(g.ndim, axis, slice(first, last))
            ]
    return dx


# ------------------------------------------------------------------------------------------ adaptive windows
def bounds(n: int, out: int) -> tuple[np.ndarray, np.ndarray]:
    """First and one-past-last element of each of ``out`` windows that share ``n`` elements."""
    i = np.arange(out, dtype=np.int64)
    return i * n // out, -((-(i + 1) * n) // out)


def _weights(n: int, out: int, dtype: np.dtype) -> np.ndarray:
    """Averaging matrix (out, n)."""
    first, last = bounds(n, out)
    j = np.arange(n)
    inside = (j >= first[:, None]) & (j < last[:, None])
    return inside / (last - first)[:, None].astype(dtype)


def _apply(x: np.ndarray, matrix: np.ndarray, axis: int) -> np.ndarray:
    """The matrix (out, n) applied along one axis (negative)."""
    if axis == -1:
        return x @ matrix.T
    if axis == -2:
        return matrix @ x
    return np.ascontiguousarray(np.moveaxis(np.moveaxis(x, axis, -1) @ matrix.T, -1, axis))


def adaptive_avg(x: np.ndarray, out: Ints) -> np.ndarray:
    """Means over windows that share the input evenly: (*lead, *out)."""
    d = len(out)
    size = x.shape[-d:]
    if all(o and n % o == 0 for n, o in zip(size, out)):
        kernel = tuple(n // o for n, o in zip(size, out))
        if all(o == 1 for o in out) and x.size:
            lead, count = x.shape[:-d], math.prod(size)
            flat = np.ascontiguousarray(x).reshape(-1, count)
            with quiet():
                return (flat @ np.ones(count, x.dtype) / np.asarray(count, x.dtype)).reshape(*lead, *out)
        return avg_pool(x, out, kernel, kernel, (0,) * d, True, None)
    with quiet():
        y = x
        for axis in range(-1, -d - 1, -1):
            if out[axis] != size[axis]:
                y = _apply(y, _weights(size[axis], out[axis], x.dtype).astype(x.dtype), axis)
        if y.size and not np.isfinite(np.add.reduce(y, axis=None)):
            # a matrix product would carry inf and NaN into windows that do not hold them
            y = _adaptive_avg_slices(x, out)
    return y


def _cells(size: Ints, out: Ints) -> Iterator[tuple[Ints, tuple[slice, ...]]]:
    axes = [[slice(int(a), int(b)) for a, b in zip(*bounds(n, o))] for n, o in zip(size, out)]
    for where in itertools.product(*(range(o) for o in out)):
        yield where, tuple(axis[i] for axis, i in zip(axes, where))


def _adaptive_avg_slices(x: np.ndarray, out: Ints) -> np.ndarray:
    d = len(out)
    y = np.empty((*x.shape[:-d], *out), x.dtype)
    for where, part in _cells(x.shape[-d:], out):
        y[(..., *where)] = x[(..., *part)].mean(axis=tuple(range(-d, 0)))
    return y


def adaptive_avg_grad(g: np.ndarray, size: Ints) -> np.ndarray:
    """Transpose of ``adaptive_avg``: g (*lead, *out) to (*lead, *size)."""
    d = len(size)
    out = g.shape[-d:]
    if all(o and n % o == 0 for n, o in zip(size, out)):
        kernel = tuple(n // o for n, o in zip(size, out))
        if all(o == 1 for o in out):
            share = np.divide(g, np.asarray(math.prod(size), g.dtype), extobj=EXTOBJ)
            return np.ascontiguousarray(np.broadcast_to(share, (*g.shape[:-d], *size)))
        return avg_pool_grad(g, size, kernel, kernel, (0,) * d, True, None)
    with quiet():
        for axis in range(-d, 0):
            if size[axis] != out[axis]:
                g = _apply(g, np.ascontiguousarray(_weights(size[axis], out[axis], g.dtype).T).astype(g.dtype), axis)
    return g


def adaptive_max(x: np.ndarray, out: Ints) -> tuple[np.ndarray, np.ndarray]:
    """Maxima and int32 flat positions over windows that share the input evenly: (*lead, *out)."""
    d = len(out)
    size = x.shape[-d:]
    if all(o and n % o == 0 for n, o in zip(size, out)):
        kernel = tuple(n // o for n, o in zip(size, out))
        return max_pool(x, out, kernel, kernel, (0,) * d, (1,) * d)
    lead = x.shape[:-d]
    values, where = np.empty((*lead, *out), x.dtype), np.empty((*lead, *out), np.int32)
    for cell, part in _cells(size, out):
        window = x[(..., *part)]
        best, flat = _argmax(window.reshape(*lead, -1))
        values[(..., *cell)] = best
        spot = np.unravel_index(flat, window.shape[len(lead) :])
        starts = [p.start for p in part]
        where[(..., *cell)] = np.ravel_multi_index([s + a for s, a in zip(starts, spot)], size)
    return values, where


def _argmax(flat: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Maximum over the last axis and its position: the first, or the last NaN."""
    at = flat.argmax(-1)
    best = np.take_along_axis(flat, at[..., None], -1)[..., 0]
    bad = best != best
    if flat.dtype.kind == "f" and bad.any():
        last = flat.shape[-1] - 1 - np.isnan(flat)[..., ::-1].argmax(-1)
        at = np.where(bad, last, at)
    return best, at


# ------------------------------------------------------------------------------------------ fractional windows
def _starts(sample: np.ndarray, n: int, out: int, k: int) -> np.ndarray:
    """Window starts (planes, out) drawn from one uniform number per plane, computed in the sample's precision."""
    at = np.empty((len(sample), out), np.int64)
    if out > 1:
        alpha = sample.dtype.type(n - k) / sample.dtype.type(out - 1)
        i = np.arange(out - 1, dtype=sample.dtype)
        at[:, :-1] = ((i + sample[:, None]) * alpha).astype(np.int64) - (sample * alpha).astype(np.int64)[:, None]
    if out:
        at[:, -1] = n - k
    return at


def fractional_max(x: np.ndarray, out: Ints, kernel: Ints, samples: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Maxima and int64 positions (*lead, *out); ``samples`` (planes, d): 3-d in axis order, 2-d width first."""
    d = len(out)
    lead, size = x.shape[:-d], x.shape[-d:]
    planes = np.ascontiguousarray(x).reshape(math.prod(lead), math.prod(size))
    order = (1, 0) if d == 2 else tuple(range(d))
    flat = np.zeros((len(planes), *(1,) * (2 * d)), np.int64)
    for axis in range(d):
        at = _starts(samples[:, order[axis]], size[axis], out[axis], kernel[axis])
        spots = at[:, :, None] + np.arange(kernel[axis])
        shape = [len(planes)] + [1] * (2 * d)
        shape[1 + axis], shape[1 + d + axis] = out[axis], kernel[axis]
        flat = flat * size[axis] + spots.reshape(shape)
    flat = flat.reshape(len(planes), math.prod(out), math.prod(kernel))
    best, tap = _argmax(np.take_along_axis(planes[:, None], flat, 2))
    where = np.take_along_axis(flat, tap[..., None], 2)[..., 0]
    return best.reshape(*lead, *out), where.reshape(*lead, *out)
