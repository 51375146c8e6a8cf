"""Dense 2-d convolution on the host: im2col into a cache-sized block, then one BLAS product per block.

Arrays are C-contiguous: images (N, C, H, W), weights (O, C/groups, kh, kw). ``Geometry`` carries stride, low padding,
dilation and groups; the output size is given by the caller, so the high padding never has to be known. Three trilinear
kernels: ``forward``, ``input_grad``, ``weight_grad``. Products with a 1x1 window skip the copy.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mindtorch.engine.host.jit import fused

# im2col stays on one thread: its OpenMP threads would spin against those of the BLAS product that follows (2x slower)
BLOCK = 1 << 19
"""Elements of one im2col block: 2 MB of float32 stay in the second-level cache."""
MIN_COLUMNS = 256
"""Columns below which a product no longer amortises the packing of the weights."""
DIRECT_COLUMNS = 64
"""Output positions per image from which a 1x1 convolution is one product per image."""


class Geometry(NamedTuple):
    """Stride, low padding and dilation (height, width) and the number of groups."""

    stride: tuple[int, int]
    low: tuple[int, int]
    dilation: tuple[int, int]
    groups: int


# ------------------------------------------------------------------------------------------ im2col, col2im
def span(taps: int, out: int, size: int, stride: int, low: int) -> tuple[int, int]:
    """Range of output positions whose tap at offset ``taps`` lies inside an axis of ``size`` elements."""
    first = max(0, -((taps - low) // stride)) if taps < low else 0
    last = (size - 1 - taps + low) // stride + 1 if size - 1 - taps + low >= 0 else 0
    last = min(out, last)
    return min(first, last), last


def _im2col_numpy(x, col, n0, c0, r0, sh, sw, ph, pw, dh, dw):  # type: ignore[no-untyped-def]
    height, width = x.shape[2:]
    channels, kh, kw, m, rows, ow = col.shape
    images = x[n0 : n0 + m, c0 : c0 + channels]
    for i in range(kh):
        y = i * dh + r0 * sh
        a, b = span(y, rows, height, sh, ph)
        for j in range(kw):
            p, q = span(j * dw, ow, width, sw, pw)
            part = col[:, i, j]
            if b - a < rows or q - p < ow:
                part[...] = 0
            if b > a and q > p:
                ys, xs = a * sh + y - ph, p * sw + j * dw - pw
                src = images[:, :, ys : ys + (b - a - 1) * sh + 1 : sh, xs : xs + (q - p - 1) * sw + 1 : sw]
                part[:, :, a:b, p:q] = src.swapaxes(0, 1)


@fused(_im2col_numpy, helpers=(span,))
def im2col(x, col, n0, c0, r0, sh, sw, ph, pw, dh, dw):  # type: ignore[no-untyped-def]
    """col (C, kh, kw, m, rows, ow) from images n0.. of x, channels c0.., output rows r0..; zeros outside."""
    height, width = x.shape[2], x.shape[3]
    channels, kh, kw, m, rows, ow = col.shape
    for c in range(channels):
        for i in range(kh):
            for j in range(kw):
                off = j * dw - pw
                lo, hi = span(j * dw, ow, width, sw, pw)
                for b in range(m):
                    plane = x[n0 + b, c0 + c]
                    for r in range(rows):
                        row = col[c, i, j, b, r]
                        y = (r0 + r) * sh - ph + i * dh
                        if y < 0 or y >= height:
                            row[:] = 0
                            continue
                        for q in range(lo):
                            row[q] = 0
                        for q in range(hi, ow):
                            row[q] = 0
                        dst = row[lo:hi]
                        if sw == 1:
                            src = plane[y][lo + off : hi + off]
                            for q in range(dst.size):
                                dst[q] = src[q]
                        else:
                            src = plane[y][lo * sw + off :]
                            for q in range(dst.size):
                                dst[q] = src[q * sw]


def _col2im_numpy(col, x, n0, c0, r0, sh, sw, ph, pw, dh, dw):  # type: ignore[no-untyped-def]
    height, width = x.shape[2:]
    channels, kh, kw, m, rows, ow = col.shape
    images = x[n0 : n0 + m, c0 : c0 + channels]
    for i in range(kh):
        y = i * dh + r0 * sh
        a, b = span(y, rows, height, sh, ph)
        for j in range(kw):
            p, q = span(j * dw, ow, width, sw, pw)
            if b > a and q > p:
                ys, xs = a * sh + y - ph, p * sw + j * dw - pw
                dst = images[:, :, ys : ys + (b - a - 1) * sh + 1 : sh, xs : xs + (q - p - 1) * sw + 1 : sw]
                dst += col[:, i, j, :, a:b, p:q].swapaxes(0, 1)


@fused(_col2im_numpy, helpers=(span,))
def col2im(col, x, n0, c0, r0, sh, sw, ph, pw, dh, dw):  # type: ignore[no-untyped-def]
    """Adds col (C, kh, kw, m, rows, ow) into images n0.. of x: the transpose of ``im2col``."""
    height, width = x.shape[2], x.shape[3]
    channels, kh, kw, m, rows, ow = col.shape
    for c in range(channels):
        for i in range(kh):
            for j in range(kw):
                off = j * dw - pw
                lo, hi = span(j * dw, ow, width, sw, pw)
                for b in range(m):
                    plane = x[n0 + b, c0 + c]
                    for r in range(rows):
                        y = (r0 + r) * sh - ph + i * dh
                        if y < 0 or y >= height:
                            continue
                        src = col[c, i, j, b, r][lo:hi]
                        if sw == 1:
                            dst = plane[y][lo + off : hi + off]
                            for q in range(src.size):
                                dst[q] += src[q]
                        else:
                            dst = plane[y][lo * sw + off :]
                            for q in range(src.size):
                                dst[q * sw] += src[q]


# ------------------------------------------------------------------------------------------ blocking
def _blocks(n: int, depth: int, oh: int, ow: int, floor: int) -> list[tuple[int, int, int, int]]:
    """Blocks (first image, images, first row, rows) of at most about BLOCK elements of ``depth`` per column.

    ``floor``: least number of columns worth one product. Whole images are grouped; an image too big is cut into rows.
    """
    columns = max(floor, BLOCK // max(depth, 1))
    if oh * ow > columns:
        rows = max(1, columns // ow)
        return [(i, 1, r, min(rows, oh - r)) for i in range(n) for r in range(0, oh, rows)]
    m = max(1, columns // max(oh * ow, 1))
    return [(i, min(m, n - i), 0, oh) for i in range(0, n, m)]


def _buffer(blocks: list[tuple[int, int, int, int]], depth: int, ow: int, dtype: np.dtype) -> np.ndarray:
    return np.empty(max((m * rows for _, m, _, rows in blocks), default=0) * ow * depth, dtype)


def _is_direct(k: tuple[int, ...], geo: Geometry, positions: int) -> bool:
    return k == (1, 1) and geo.low == (0, 0) and positions >= DIRECT_COLUMNS


def _picked(x: np.ndarray, stride: tuple[int, int], oh: int, ow: int) -> np.ndarray:
    """The pixels a 1x1 window visits."""
    if stride == (1, 1) and x.shape[2:] == (oh, ow):
        return x
    return np.ascontiguousarray(x[:, :, : (oh - 1) * stride[0] + 1 : stride[0], : (ow - 1) * stride[1] + 1 : stride[1]])


# ------------------------------------------------------------------------------------------ the three kernels
def forward(x: np.ndarray, w: np.ndarray, b: np.ndarray | None, geo: Geometry, size: tuple[int, int]) -> np.ndarray:
    """Convolution of x (N, C, H, W) with w (O, C/groups, kh, kw) plus bias (O,): (N, O, *size)."""
    n, o, (oh, ow), groups = x.shape[0], w.shape[0], size, geo.groups
    out = np.empty((n, o, oh, ow), x.dtype)
    if out.size == 0:
        return out
    if w.shape[1] == 0:
        out[...] = 0 if b is None else b[:, None, None]
        return out
    if _is_direct(w.shape[2:], geo, oh * ow):
        cols = _picked(x, geo.stride, oh, ow).reshape(n, groups, w.shape[1], oh * ow)
        np.matmul(w.reshape(groups, o // groups, -1), cols, out=out.reshape(n, groups, o // groups, oh * ow))
        if b is not None:
            out += b[:, None, None]
        return out
    for group in range(groups):
        part = slice(group * (o // groups), (group + 1) * (o // groups))
        _forward_group(x, w[part], None if b is None else b[part], geo, group, out[:, part])
    return out


def _forward_group(
    x: np.ndarray, w: np.ndarray, b: np.ndarray | None, geo: Geometry, group: int, out: np.ndarray
) -> None:
    o, c, kh, kw = w.shape
    n, _, oh, ow = out.shape
    w2 = w.reshape(o, -1)
    depth = w2.shape[1]
    blocks = _blocks(n, depth, oh, ow, MIN_COLUMNS)
    buffer = _buffer(blocks, depth, ow, x.dtype)
    shift = None if b is None else b[:, None]
    for first, m, r0, rows in blocks:
        columns = m * rows * ow
        col = buffer[: depth * columns]
        im2col(x, col.reshape(c, kh, kw, m, rows, ow), first, group * c, r0, *geo.stride, *geo.low, *geo.dilation)
        col = col.reshape(depth, columns)
        if m == 1:
            dst = out[first].reshape(o, oh * ow)[:, r0 * ow : r0 * ow + columns]
            np.matmul(w2, col, out=dst)
            if shift is not None:
                dst += shift
            continue
        product = (w2 @ col).reshape(o, m, rows, ow).swapaxes(0, 1)
        if shift is None:
            out[first : first + m] = product
        else:
            np.add(product, shift[:, :, None], out=out[first : first + m])


def input_grad(g: np.ndarray, w: np.ndarray, geo: Geometry, size: tuple[int, int]) -> np.ndarray:
    """Transpose of ``forward`` in its input: g (N, O, oh, ow), w (O, C/groups, kh, kw) to (N, C, *size)."""
    n, o, oh, ow = g.shape
    groups, c = geo.groups, w.shape[1]
    if _is_direct(w.shape[2:], geo, oh * ow):
        shape = (n, groups * c, *size)
        cols = np.matmul(w.reshape(groups, o // groups, c).swapaxes(1, 2), g.reshape(n, groups, o // groups, oh * ow))
        if geo.stride == (1, 1) and size == (oh, ow):
            return cols.reshape(shape)
        dx = np.zeros(shape, g.dtype)
        (sh, sw) = geo.stride
        dx[:, :, : (oh - 1) * sh + 1 : sh, : (ow - 1) * sw + 1 : sw] = cols.reshape(n, groups * c, oh, ow)
        return dx
    dx = np.zeros((n, groups * c, *size), g.dtype)
    if g.size == 0 or dx.size == 0:
        return dx
    for group in range(groups):
        part = slice(group * (o // groups), (group + 1) * (o // groups))
        _input_grad_group(g[:, part], w[part], geo, group, dx)
    return dx


def _rows_of(g: np.ndarray, first: int, m: int, r0: int, rows: int) -> np.ndarray:
    """Gradient rows of some images as a matrix (O, m * rows * ow)."""
    o, oh, ow = g.shape[1:]
    if m == 1:
        return g[first].reshape(o, oh * ow)[:, r0 * ow : (r0 + rows) * ow]
    return g[first : first + m, :, r0 : r0 + rows].swapaxes(0, 1).reshape(o, m * rows * ow)


def _input_grad_group(g: np.ndarray, w: np.ndarray, geo: Geometry, group: int, dx: np.ndarray) -> None:
    o, c, kh, kw = w.shape
    n, _, oh, ow = g.shape
    wt = w.reshape(o, -1).T
    depth = wt.shape[0]
    blocks = _blocks(n, depth, oh, ow, MIN_COLUMNS)
    buffer = _buffer(blocks, depth, ow, g.dtype)
    for first, m, r0, rows in blocks:
        columns = m * rows * ow
        col = buffer[: depth * columns]
        np.matmul(wt, _rows_of(g, first, m, r0, rows), out=col.reshape(depth, columns))
        block = col.reshape(c, kh, kw, m, rows, ow)
        col2im(block, dx, first, group * c, r0, *geo.stride, *geo.low, *geo.dilation)


def weight_grad(g: np.ndarray, x: np.ndarray, geo: Geometry, kernel: tuple[int, int]) -> np.ndarray:
    """Transpose of ``forward`` in its weight: g (N, O, oh, ow), x (N, C, H, W) to (O, C/groups, *kernel)."""
    n, o, oh, ow = g.shape
    groups, c = geo.groups, x.shape[1] // geo.groups
    if g.size == 0 or x.size == 0:
        return np.zeros((o, c, *kernel), g.dtype)
    if _is_direct(kernel, geo, oh * ow):
        cols = _picked(x, geo.stride, oh, ow).reshape(n, groups, c, oh * ow)
        product = np.matmul(g.reshape(n, groups, o // groups, oh * ow), cols.swapaxes(2, 3))
        return np.add.reduce(product, axis=0).reshape(o, c, 1, 1)
    dw = np.empty((o, c, *kernel), g.dtype)
    for group in range(groups):
        part = slice(group * (o // groups), (group + 1) * (o // groups))
        _weight_grad_group(g[:, part], x, geo, group, dw[part])
    return dw


def _weight_grad_group(g: np.ndarray, x: np.ndarray, geo: Geometry, group: int, dw: np.ndarray) -> None:
    n, _, oh, ow = g.shape
    o, c, kh, kw = dw.shape
    depth = c * kh * kw
    # each block adds a whole (O, depth) matrix: few columns would be dominated by that addition
    blocks = _blocks(n, depth, oh, ow, 4 * MIN_COLUMNS)
    buffer = _buffer(blocks, depth, ow, x.dtype)
    total = dw.reshape(o, depth)
    for index, (first, m, r0, rows) in enumerate(blocks):
        columns = m * rows * ow
        col = buffer[: depth * columns]
        im2col(x, col.reshape(c, kh, kw, m, rows, ow), first, group * c, r0, *geo.stride, *geo.low, *geo.dilation)
        col = col.reshape(depth, columns)
        lhs = _rows_of(g, first, m, r0, rows)
        if index == 0:
            np.matmul(lhs, col.T, out=total)
        else:
            total += lhs @ col.T
