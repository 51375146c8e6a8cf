"""Depthwise 2-d convolution (one input channel per group): compiled plane kernels, shifted products without numba.

The padded plane is kept in ``sw`` phases (column q * sw + phase), so that every stride reads contiguous rows.
Images (N, C, H, W), weights (O, 1, kh, kw) with O a multiple of C. Arguments are C-contiguous.
"""

from __future__ import annotations

import numpy as np

from mindtorch.engine.host.conv import Geometry, span
from mindtorch.engine.host.jit import fused, threads_for

PARALLEL = 1 << 17


def _shifts(x, size, kernel, sh, sw, ph, pw, dh, dw):  # type: ignore[no-untyped-def]
    """For each tap (i, j): the window of x it reads and the outputs (rows, columns) it reaches."""
    for i in range(kernel[0]):
        a, b = span(i * dh, size[0], x.shape[2], sh, ph)
        for j in range(kernel[1]):
            p, q = span(j * dw, size[1], x.shape[3], sw, pw)
            if b > a and q > p:
                ys, xs = a * sh + i * dh - ph, p * sw + j * dw - pw
                src = x[:, :, ys : ys + (b - a - 1) * sh + 1 : sh, xs : xs + (q - p - 1) * sw + 1 : sw]
                yield i, j, src, (slice(a, b), slice(p, q))


def _split(a: np.ndarray, channels: int) -> np.ndarray:
    """(N, O, h, w) as (N, C, multiplier, h, w)."""
    return a.reshape(a.shape[0], channels, -1, *a.shape[2:])


def _forward_numpy(x, w, out, sh, sw, ph, pw, dh, dw, threads):  # type: ignore[no-untyped-def]
    channels = x.shape[1]
    out5, w5 = _split(out, channels), w.reshape(channels, -1, *w.shape[2:])
    for i, j, src, (ys, xs) in _shifts(x, out.shape[2:], w.shape[2:], sh, sw, ph, pw, dh, dw):
        out5[:, :, :, ys, xs] += src[:, :, None] * w5[:, :, i, j, None, None]


@fused(_forward_numpy, parallel=True)
def _forward(x, w, out, sh, sw, ph, pw, dh, dw, threads):  # type: ignore[no-untyped-def]
    n, channels, height, width = x.shape
    o, oh, ow = out.shape[1], out.shape[2], out.shape[3]
    kh, kw, mult = w.shape[2], w.shape[3], out.shape[1] // x.shape[1]
    hp = (oh - 1) * sh + (kh - 1) * dh + 1
    wp = ow + ((kw - 1) * dw) // sw + 1
    for t in prange(n * channels):  # noqa: F821
        b, c = t // channels, t % channels
        buf = np.zeros((hp, sw, wp), x.dtype)
        for y in range(hp):
            if 0 <= y - ph < height:
                src = x[b, c, y - ph]
                for phase in range(sw):
                    off = phase - pw
                    lo = 0
                    if off < 0:
                        lo = (sw - 1 - off) // sw
                    count = min(wp - lo, (width - 1 - lo * sw - off) // sw + 1)
                    dst, line = buf[y, phase][lo:], src[lo * sw + off :]
                    for q in range(count):
                        dst[q] = line[q * sw]
        for k in range(mult):
            f = w[c * mult + k, 0]
            for r in range(oh):
                row = out[b, c * mult + k, r]
                for i in range(kh):
                    y = r * sh + i * dh
                    j = 0
                    while j + 2 < kw:
                        j1, j2 = (j + 1) * dw, (j + 2) * dw
                        s0 = buf[y, (j * dw) % sw][(j * dw) // sw :]
                        s1 = buf[y, j1 % sw][j1 // sw :]
                        s2 = buf[y, j2 % sw][j2 // sw :]
                        f0, f1, f2 = f[i, j], f[i, j + 1], f[i, j + 2]
                        for q in range(ow):
                            row[q] += f0 * s0[q] + f1 * s1[q] + f2 * s2[q]
                        j += 3
                    while j < kw:
                        s0 = buf[y, (j * dw) % sw][(j * dw) // sw :]
                        f0 = f[i, j]
                        for q in range(ow):
                            row[q] += f0 * s0[q]
                        j += 1


def _input_numpy(g, w, dx, sh, sw, ph, pw, dh, dw, threads):  # type: ignore[no-untyped-def]
    channels = dx.shape[1]
    g5, w5 = _split(g, channels), w.reshape(channels, -1, *w.shape[2:])
    for i, j, dst, (ys, xs) in _shifts(dx, g.shape[2:], w.shape[2:], sh, sw, ph, pw, dh, dw):
        dst += np.add.reduce(g5[:, :, :, ys, xs] * w5[:, :, i, j, None, None], axis=2)


@fused(_input_numpy, parallel=True)
def _input(g, w, dx, sh, sw, ph, pw, dh, dw, threads):  # type: ignore[no-untyped-def]
    n, channels, height, width = dx.shape
    oh, ow = g.shape[2], g.shape[3]
    kh, kw, mult = w.shape[2], w.shape[3], g.shape[1] // dx.shape[1]
    hp = (oh - 1) * sh + (kh - 1) * dh + 1
    wp = ow + ((kw - 1) * dw) // sw + 1
    for t in prange(n * channels):  # noqa: F821
        b, c = t // channels, t % channels
        buf = np.zeros((hp, sw, wp), g.dtype)
        for k in range(mult):
            f = w[c * mult + k, 0]
            for r in range(oh):
                row = g[b, c * mult + k, r]
                for i in range(kh):
                    for j in range(kw):
                        dst = buf[r * sh + i * dh, (j * dw) % sw][(j * dw) // sw :]
                        f0 = f[i, j]
                        for q in range(ow):
                            dst[q] += f0 * row[q]
        for y in range(hp):
            if 0 <= y - ph < height:
                line = dx[b, c, y - ph]
                for phase in range(sw):
                    off = phase - pw
                    lo = 0
                    if off < 0:
                        lo = (sw - 1 - off) // sw
                    count = min(wp - lo, (width - 1 - lo * sw - off) // sw + 1)
                    src, dst = buf[y, phase][lo:], line[lo * sw + off :]
                    for q in range(count):
                        dst[q * sw] = src[q]


def _weight_numpy(g, x, dweight, sh, sw, ph, pw, dh, dw, threads):  # type: ignore[no-untyped-def]
    channels = x.shape[1]
    g5, d5 = _split(g, channels), dweight.reshape(channels, -1, *dweight.shape[2:])
    for i, j, src, (ys, xs) in _shifts(x, g.shape[2:], dweight.shape[2:], sh, sw, ph, pw, dh, dw):
        d5[:, :, i, j] = np.einsum("ncmhw,nchw->cm", g5[:, :, :, ys, xs], src, optimize=False)


@fused(_weight_numpy, parallel=True, reduction=True)
def _weight(g, x, dweight, sh, sw, ph, pw, dh, dw, threads):  # type: ignore[no-untyped-def]
    n, channels, height, width = x.shape
    oh, ow = g.shape[2], g.shape[3]
    kh, kw, mult = dweight.shape[2], dweight.shape[3], g.shape[1] // x.shape[1]
    hp = (oh - 1) * sh + (kh - 1) * dh + 1
    wp = ow + ((kw - 1) * dw) // sw + 1
    for c in prange(channels):  # noqa: F821
        buf = np.zeros((hp, sw, wp), x.dtype)
        for b in range(n):
            for y in range(hp):
                if 0 <= y - ph < height:
                    src = x[b, c, y - ph]
                    for phase in range(sw):
                        off = phase - pw
                        lo = 0
                        if off < 0:
                            lo = (sw - 1 - off) // sw
                        count = min(wp - lo, (width - 1 - lo * sw - off) // sw + 1)
                        dst, line = buf[y, phase][lo:], src[lo * sw + off :]
                        for q in range(count):
                            dst[q] = line[q * sw]
            for k in range(mult):
                d = dweight[c * mult + k, 0]
                for i in range(kh):
                    for j in range(kw):
                        column, phase = (j * dw) // sw, (j * dw) % sw
                        total = d[i, j]
                        for r in range(oh):
                            row, line = g[b, c * mult + k, r], buf[r * sh + i * dh, phase][column:]
                            for q in range(ow):
                                total += row[q] * line[q]
                        d[i, j] = total


def forward(x: np.ndarray, w: np.ndarray, b: np.ndarray | None, geo: Geometry, size: tuple[int, int]) -> np.ndarray:
    """Depthwise convolution plus bias: (N, O, *size)."""
    shape = (x.shape[0], w.shape[0], *size)
    out = np.zeros(shape, x.dtype)
    if b is not None:
        out += b[:, None, None]
    _forward(x, w, out, *geo.stride, *geo.low, *geo.dilation, threads_for(out.size * w[0].size, 8 * PARALLEL))
    return out


def input_grad(g: np.ndarray, w: np.ndarray, geo: Geometry, size: tuple[int, int]) -> np.ndarray:
    """Transpose of ``forward`` in its input: (N, C, *size)."""
    dx = np.zeros((g.shape[0], geo.groups, *size), g.dtype)
    _input(g, w, dx, *geo.stride, *geo.low, *geo.dilation, threads_for(g.size * w[0].size, 8 * PARALLEL))
    return dx


def weight_grad(g: np.ndarray, x: np.ndarray, geo: Geometry, kernel: tuple[int, int]) -> np.ndarray:
    """Transpose of ``forward`` in its weight: (O, 1, *kernel)."""
    dw = np.zeros((g.shape[1], 1, *kernel), g.dtype)
    _weight(g, x, dw, *geo.stride, *geo.low, *geo.dilation, threads_for(g.size * dw[0].size, 8 * PARALLEL))
    return dw
