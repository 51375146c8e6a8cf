"""Direct 2-d convolution for few channels per group: LeNet sizes, first layers, depthwise; strides included.

The padded image of a group is kept flat in ``sh * sw`` phase planes of width ``wq`` (pixel (y, x) is in phase
(y % sh, x % sw) at (y // sh, x // sw)). Output (r, q) of tap t then reads position ``off[t] + r * wq + q``: one long
contiguous loop per tap whatever the stride, at the price of ``wq - ow`` wasted columns per row. Without numba the
im2col product, or shifted products for depthwise, give the result.
"""

from __future__ import annotations

import numpy as np

from mindtorch.engine.host import conv
from mindtorch.engine.host.conv import Geometry, span
from mindtorch.engine.host.jit import fused, threads_for

CHUNK = 1024
"""Flat outputs accumulated at a time: four channels of them stay in the first-level cache."""
ROUND = 16
"""Flat loops are made multiples of this, for a scalar rest costs as much as the vectors before it."""
WORK_PER_THREAD = 1 << 20


# ------------------------------------------------------------------------------------------ without numba
def _geometry(sh: int, sw: int, ph: int, pw: int, dh: int, dw: int, groups: int) -> Geometry:
    return Geometry((sh, sw), (ph, pw), (dh, dw), groups)


def _shifts(x, size, kernel, geo):  # type: ignore[no-untyped-def]
    """For each tap (i, j): the window of x it reads and the outputs (rows, columns) it reaches."""
    (sh, sw), (ph, pw), (dh, dw), _ = geo
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


def _forward_numpy(x, w, bias, out, off, sh, sw, ph, pw, dh, dw, hq, wq, groups, threads):  # type: ignore[no-untyped-def]
    geo = _geometry(sh, sw, ph, pw, dh, dw, groups)
    if w.shape[1] > 1:
        out[...] = conv.forward(x, w, bias, geo, out.shape[2:])
        return
    channels = x.shape[1]
    out[...] = bias[:, None, None]
    out5, w5 = _split(out, channels), w.reshape(channels, -1, *w.shape[2:])
    for i, j, src, (ys, xs) in _shifts(x, out.shape[2:], w.shape[2:], geo):
        out5[:, :, :, ys, xs] += src[:, :, None] * w5[:, :, i, j, None, None]


def _input_numpy(g, w, dx, sh, sw, ph, pw, dh, dw, threads):  # type: ignore[no-untyped-def]
    channels = dx.shape[1]
    g5, w5 = _split(g, channels), w.reshape(channels, -1, *w.shape[2:])
    for i, j, dst, (ys, xs) in _shifts(dx, g.shape[2:], w.shape[2:], _geometry(sh, sw, ph, pw, dh, dw, channels)):
        dst += np.add.reduce(g5[:, :, :, ys, xs] * w5[:, :, i, j, None, None], axis=2)


def _weight_numpy(g, x, parts, off, sh, sw, ph, pw, dh, dw, hq, wq, groups, threads):  # type: ignore[no-untyped-def]
    geo = _geometry(sh, sw, ph, pw, dh, dw, groups)
    kernel = parts.shape[3:]
    parts[1:] = 0
    dw_ = parts[0]
    if dw_.shape[1] > 1:
        dw_[...] = conv.weight_grad(g, x, geo, kernel)
        return
    channels = x.shape[1]
    g5, d5 = _split(g, channels), dw_.reshape(channels, -1, *kernel)
    d5[...] = 0
    for i, j, src, (ys, xs) in _shifts(x, g.shape[2:], kernel, geo):
        d5[:, :, i, j] = np.einsum("ncmhw,nchw->cm", g5[:, :, :, ys, xs], src, optimize=False)


# ------------------------------------------------------------------------------------------ compiled
def _fill(src, buf, sh, sw, ph, pw, hq, wq):  # type: ignore[no-untyped-def]
    """One padded plane into its phases; ``buf`` is zero where nothing is written."""
    height, width = src.shape
    for py in range(sh):
        for px in range(sw):
            plane = buf[(py * sw + px) * hq * wq :]
            lo = 0
            if px - pw < 0:
                lo = (sw - 1 - (px - pw)) // sw
            count = min(wq - lo, (width - 1 - lo * sw - (px - pw)) // sw + 1)
            for y in range(hq):
                iy = y * sh + py - ph
                if iy < 0 or iy >= height or count <= 0:
                    continue
                line, dst = src[iy][lo * sw + px - pw :], plane[y * wq + lo :]
                if sw == 1:
                    for q in range(count):
                        dst[q] = line[q]
                elif sw == 2:
                    for q in range(count):
                        dst[q] = line[2 * q]
                else:
                    for q in range(count):
                        dst[q] = line[sw * q]


@fused(_forward_numpy, parallel=True, helpers=(_fill,))
def _forward(x, w, bias, out, off, sh, sw, ph, pw, dh, dw, hq, wq, groups, threads):  # type: ignore[no-untyped-def]
    n, ch, og = x.shape[0], w.shape[1], out.shape[1] // groups
    oh, ow, taps = out.shape[2], out.shape[3], off.size
    rows = max(1, (CHUNK - ROUND) // wq)
    flat = w.reshape((w.shape[0], ch, taps))
    for t in prange(n * groups):  # noqa: F821
        b, first = t // groups, (t % groups) * og
        buf = np.zeros((ch, sh * sw * hq * wq + ROUND), x.dtype)
        for c in range(ch):
            _fill(x[b, (t % groups) * ch + c], buf[c], sh, sw, ph, pw, hq, wq)
        acc = np.empty(4 * max(CHUNK, wq) + ROUND, x.dtype)
        a0, a1 = acc[:CHUNK], acc[CHUNK : 2 * CHUNK]
        a2, a3 = acc[2 * CHUNK : 3 * CHUNK], acc[3 * CHUNK : 4 * CHUNK]
        if wq > CHUNK - ROUND:
            a0 = acc
        for r0 in range(0, oh, rows):
            r1 = min(oh, r0 + rows)
            length = ((r1 - r0 - 1) * wq + ow + ROUND - 1) // ROUND * ROUND
            o = first
            while o < first + og:
                m = 4 if o + 4 <= first + og and wq <= CHUNK - ROUND else 1
                for q in range(length):
                    a0[q] = bias[o]
                if m == 4:
                    for q in range(length):
                        a1[q] = bias[o + 1]
                        a2[q] = bias[o + 2]
                        a3[q] = bias[o + 3]
                for c in range(ch):
                    base = buf[c][r0 * wq :]
                    k = 0
                    while k + 4 <= taps:
                        s0, s1, s2, s3 = base[off[k] :], base[off[k + 1] :], base[off[k + 2] :], base[off[k + 3] :]
                        w0 = flat[o, c]
                        p0, p1, p2, p3 = w0[k], w0[k + 1], w0[k + 2], w0[k + 3]
                        if m == 4:
                            w1, w2, w3 = flat[o + 1, c], flat[o + 2, c], flat[o + 3, c]
                            x0, x1, x2, x3 = w1[k], w1[k + 1], w1[k + 2], w1[k + 3]
                            y0, y1, y2, y3 = w2[k], w2[k + 1], w2[k + 2], w2[k + 3]
                            z0, z1, z2, z3 = w3[k], w3[k + 1], w3[k + 2], w3[k + 3]
                            for q in range(length):
                                v0, v1, v2, v3 = s0[q], s1[q], s2[q], s3[q]
                                a0[q] += p0 * v0 + p1 * v1 + p2 * v2 + p3 * v3
                                a1[q] += x0 * v0 + x1 * v1 + x2 * v2 + x3 * v3
                                a2[q] += y0 * v0 + y1 * v1 + y2 * v2 + y3 * v3
                                a3[q] += z0 * v0 + z1 * v1 + z2 * v2 + z3 * v3
                        else:
                            for q in range(length):
                                a0[q] += p0 * s0[q] + p1 * s1[q] + p2 * s2[q] + p3 * s3[q]
                        k += 4
                    while k < taps:
                        s0 = base[off[k] :]
                        p0 = flat[o, c, k]
                        if m == 4:
                            p1, p2, p3 = flat[o + 1, c, k], flat[o + 2, c, k], flat[o + 3, c, k]
                            for q in range(length):
                                v0 = s0[q]
                                a0[q] += p0 * v0
                                a1[q] += p1 * v0
                                a2[q] += p2 * v0
                                a3[q] += p3 * v0
                        else:
                            for q in range(length):
                                a0[q] += p0 * s0[q]
                        k += 1
                for r in range(r0, r1):
                    at = (r - r0) * wq
                    d0, e0 = out[b, o, r], a0[at:]
                    for q in range(ow):
                        d0[q] = e0[q]
                    if m == 4:
                        d1, d2, d3 = out[b, o + 1, r], out[b, o + 2, r], out[b, o + 3, r]
                        e1, e2, e3 = a1[at:], a2[at:], a3[at:]
                        for q in range(ow):
                            d1[q] = e1[q]
                        for q in range(ow):
                            d2[q] = e2[q]
                        for q in range(ow):
                            d3[q] = e3[q]
                o += m


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


@fused(_weight_numpy, parallel=True, reduction=True, helpers=(_fill,))
def _weight(g, x, parts, off, sh, sw, ph, pw, dh, dw, hq, wq, groups, threads):  # type: ignore[no-untyped-def]
    n, ch, og = x.shape[0], x.shape[1] // groups, g.shape[1] // groups
    oh, ow, taps, pieces = g.shape[2], g.shape[3], off.size, parts.shape[0]
    # up to the last output, not to the end of its line: ``buf`` ends ROUND behind what the last tap reads there
    length = ((oh - 1) * wq + ow + ROUND - 1) // ROUND * ROUND
    for t in prange(groups * pieces):  # noqa: F821
        piece, group = t // groups, t % groups
        buf = np.zeros((ch, sh * sw * hq * wq + ROUND), x.dtype)
        flat = np.zeros((og, length), x.dtype)
        zero = np.zeros(1, x.dtype)
        total = parts[piece].reshape((g.shape[1], ch, taps))
        total[group * og : (group + 1) * og] = 0
        for b in range(piece * n // pieces, (piece + 1) * n // pieces):
            for c in range(ch):
                _fill(x[b, group * ch + c], buf[c], sh, sw, ph, pw, hq, wq)
            for o in range(og):
                for r in range(oh):
                    src, dst = g[b, group * og + o, r], flat[o, r * wq :]
                    for q in range(ow):
                        dst[q] = src[q]
            o = 0
            while o < og:
                m = 2 if o + 2 <= og else 1
                g0, g1 = flat[o], flat[o + m - 1]
                d0, d1 = total[group * og + o], total[group * og + o + m - 1]
                for c in range(ch):
                    k = 0
                    while k + 4 <= taps:
                        s0, s1 = buf[c][off[k] :], buf[c][off[k + 1] :]
                        s2, s3 = buf[c][off[k + 2] :], buf[c][off[k + 3] :]
                        p0 = p1 = p2 = p3 = x0 = x1 = x2 = x3 = zero[0]
                        if m == 2:
                            for q in range(length):
                                u, v = g0[q], g1[q]
                                p0 += u * s0[q]
                                p1 += u * s1[q]
                                p2 += u * s2[q]
                                p3 += u * s3[q]
                                x0 += v * s0[q]
                                x1 += v * s1[q]
                                x2 += v * s2[q]
                                x3 += v * s3[q]
                            d1[c, k] += x0
                            d1[c, k + 1] += x1
                            d1[c, k + 2] += x2
                            d1[c, k + 3] += x3
                        else:
                            for q in range(length):
                                u = g0[q]
                                p0 += u * s0[q]
                                p1 += u * s1[q]
                                p2 += u * s2[q]
                                p3 += u * s3[q]
                        d0[c, k] += p0
                        d0[c, k + 1] += p1
                        d0[c, k + 2] += p2
                        d0[c, k + 3] += p3
                        k += 4
                    while k < taps:
                        s0 = buf[c][off[k] :]
                        p0 = x0 = zero[0]
                        for q in range(length):
                            p0 += g0[q] * s0[q]
                        d0[c, k] += p0
                        if m == 2:
                            for q in range(length):
                                x0 += g1[q] * s0[q]
                            d1[c, k] += x0
                        k += 1
                o += m


# ------------------------------------------------------------------------------------------ the three kernels
def _plan(kernel: tuple[int, ...], geo: Geometry, size: tuple[int, int]) -> tuple[np.ndarray, int, int]:
    """Tap offsets into the phase planes, and the planes' height and width."""
    (sh, sw), _, (dh, dw), _ = geo
    hq = size[0] + ((kernel[0] - 1) * dh) // sh
    wq = size[1] + ((kernel[1] - 1) * dw) // sw
    y, x = np.arange(kernel[0])[:, None] * dh, np.arange(kernel[1])[None] * dw
    off = ((y % sh) * sw + x % sw) * (hq * wq) + (y // sh) * wq + x // sw
    return np.ascontiguousarray(off, np.int64).reshape(-1), hq, wq


def _threads(outputs: int, weights: int) -> int:
    return threads_for(outputs * weights, 2 * WORK_PER_THREAD)


def _steps(geo: Geometry) -> tuple[int, ...]:
    return (*geo.stride, *geo.low, *geo.dilation)


def forward(x: np.ndarray, w: np.ndarray, b: np.ndarray | None, geo: Geometry, size: tuple[int, int]) -> np.ndarray:
    """Convolution plus bias: (N, O, *size)."""
    out = np.empty((x.shape[0], w.shape[0], *size), x.dtype)
    if out.size:
        off, hq, wq = _plan(w.shape[2:], geo, size)
        bias = np.zeros(w.shape[0], x.dtype) if b is None else np.ascontiguousarray(b)
        _forward(x, w, bias, out, off, *_steps(geo), hq, wq, geo.groups, _threads(out.size, w[0].size))
    return out


def input_grad(g: np.ndarray, w: np.ndarray, geo: Geometry, size: tuple[int, int]) -> np.ndarray:
    """Transpose of ``forward`` in its input for stride 1 or depthwise: (N, C, *size)."""
    o, c, kh, kw = w.shape
    if geo.stride == (1, 1):
        # a convolution with the window turned round
        turned = w.reshape(geo.groups, o // geo.groups, c, kh, kw)[..., ::-1, ::-1].swapaxes(1, 2)
        low = (geo.dilation[0] * (kh - 1) - geo.low[0], geo.dilation[1] * (kw - 1) - geo.low[1])
        turned = np.ascontiguousarray(turned).reshape(geo.groups * c, o // geo.groups, kh, kw)
        return forward(g, turned, None, geo._replace(low=low), size)
    dx = np.zeros((g.shape[0], geo.groups, *size), g.dtype)
    if g.size:
        _input(g, w, dx, *_steps(geo), _threads(g.size, w[0].size))
    return dx


def weight_grad(g: np.ndarray, x: np.ndarray, geo: Geometry, kernel: tuple[int, int]) -> np.ndarray:
    """Transpose of ``forward`` in its weight: (O, C/groups, *kernel)."""
    n, o = g.shape[:2]
    c = x.shape[1] // geo.groups
    if not g.size or not x.size:
        return np.zeros((o, c, *kernel), g.dtype)
    threads = _threads(g.size, c * kernel[0] * kernel[1])
    pieces = 1 if geo.groups >= threads else min(n, threads)
    parts = np.empty((pieces, o, c, *kernel), g.dtype)
    off, hq, wq = _plan(kernel, geo, g.shape[2:])
    _weight(g, x, parts, off, *_steps(geo), hq, wq, geo.groups, threads)
    return parts[0] if pieces == 1 else np.add.reduce(parts, axis=0)
