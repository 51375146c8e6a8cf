"""Floating sums in PyTorch's own order of additions, so that results agree bit for bit (compiled; NumPy until then).

PyTorch adds in runs of ``step`` into a first accumulator, ``step`` of those into a second, four levels deep; along the
contiguous dimension it does so for 8 (float64: 4) lanes times 4 interleaved rows, then adds rows, rest and lanes.
"""

from __future__ import annotations

import numpy as np

from mindtorch.engine.host.jit import fused

F4 = np.dtype(np.float32)
MIN, MAX = 256, 32_768
"""Sizes for which the compiled kernels are used once they exist; above ``MAX`` PyTorch splits the sum over threads."""


def lanes(d: np.dtype) -> int:
    """Elements PyTorch's vectors hold in its sum kernels."""
    return 8 if d == F4 else 4


def _add(acc, ao, x, xo, w):  # type: ignore[no-untyped-def]
    """``acc[ao : ao + w] += x[xo : xo + w]``; offsets are unsigned, so that no index is taken from the end."""
    for c in range(w):
        acc[ao + c] += x[xo + c]


def _sixteen(acc, ao, x, at, jump, m):  # type: ignore[no-untyped-def]
    """``m`` rows of 16 elements added to acc[ao : ao + 16], kept in registers meanwhile."""
    u = np.uint64
    s0 = acc[ao + u(0)]
    s1 = acc[ao + u(1)]
    s2 = acc[ao + u(2)]
    s3 = acc[ao + u(3)]
    s4 = acc[ao + u(4)]
    s5 = acc[ao + u(5)]
    s6 = acc[ao + u(6)]
    s7 = acc[ao + u(7)]
    s8 = acc[ao + u(8)]
    s9 = acc[ao + u(9)]
    s10 = acc[ao + u(10)]
    s11 = acc[ao + u(11)]
    s12 = acc[ao + u(12)]
    s13 = acc[ao + u(13)]
    s14 = acc[ao + u(14)]
    s15 = acc[ao + u(15)]
    for _ in range(m):
        s0 += x[at + u(0)]
        s1 += x[at + u(1)]
        s2 += x[at + u(2)]
        s3 += x[at + u(3)]
        s4 += x[at + u(4)]
        s5 += x[at + u(5)]
        s6 += x[at + u(6)]
        s7 += x[at + u(7)]
        s8 += x[at + u(8)]
        s9 += x[at + u(9)]
        s10 += x[at + u(10)]
        s11 += x[at + u(11)]
        s12 += x[at + u(12)]
        s13 += x[at + u(13)]
        s14 += x[at + u(14)]
        s15 += x[at + u(15)]
        at += jump
    acc[ao + u(0)] = s0
    acc[ao + u(1)] = s1
    acc[ao + u(2)] = s2
    acc[ao + u(3)] = s3
    acc[ao + u(4)] = s4
    acc[ao + u(5)] = s5
    acc[ao + u(6)] = s6
    acc[ao + u(7)] = s7
    acc[ao + u(8)] = s8
    acc[ao + u(9)] = s9
    acc[ao + u(10)] = s10
    acc[ao + u(11)] = s11
    acc[ao + u(12)] = s12
    acc[ao + u(13)] = s13
    acc[ao + u(14)] = s14
    acc[ao + u(15)] = s15


def _block(acc, ao, x, at, jump, m, w):  # type: ignore[no-untyped-def]
    """``m`` rows of ``w`` elements added to acc[ao : ao + w]."""
    u = np.uint64
    c = u(0)
    while c + u(16) <= w:
        _sixteen(acc, ao + c, x, at + c, jump, m)
        c += u(16)
    if c < w:
        for _ in range(m):
            _add(acc, ao + c, x, at + c, w - c)
            at += jump


def _run(x, start, count, stride, w, acc, ao):  # type: ignore[no-untyped-def]
    """``count`` rows of ``w`` elements, ``stride`` apart from ``start``, summed four levels deep into acc[ao : ao + w].

    ``acc`` is flat: 64 elements per level from ``ao`` on.
    """
    power = 4
    bits = 0
    while (1 << bits) < count:
        bits += 1
    if bits // 4 > power:
        power = bits // 4
    step = 1 << power
    u = np.uint64
    level = u(64)
    for c in range(u(256)):
        acc[ao + c] = 0
    at = u(start)
    jump = u(stride)
    i = 0
    while i + step <= count:
        _block(acc, ao, x, at, jump, step, w)
        at += jump * u(step)
        i += step
        for lv in range(1, 4):
            to = ao + u(lv) * level
            _add(acc, to, acc, to - level, w)
            for c in range(w):
                acc[to - level + c] = 0
            if (i & ((step - 1) << (lv * power))) != 0:
                break
    _block(acc, ao, x, at, jump, count - i, w)
    for lv in range(1, 4):
        _add(acc, ao, acc, ao + u(lv) * level, w)


def _rows(x, out, p, n, k, wide, acc):  # type: ignore[no-untyped-def]
    u = np.uint64
    zero = u(0)
    for b in range(p):
        c = 0
        while c < k:
            if c + wide <= k:
                w = u(wide)
                _run(x, b * n * k + c, n, k, w, acc, zero)
            else:
                w = u(k - c)
                q = n // 4
                for j in range(4):
                    _run(x, (b * n + j) * k + c, q, 4 * k, w, acc, u(256 * j))
                for i in range(q * 4, n):
                    _add(acc, zero, x, u((b * n + i) * k + c), w)
                for j in range(1, 4):
                    _add(acc, zero, acc, u(256 * j), w)
            at = u(b * k + c)
            for e in range(w):
                out[at + e] = acc[e]
            c += wide


def _last(x, out, r, n, vec, acc):  # type: ignore[no-untyped-def]
    u = np.uint64
    zero = u(0)
    lane = u(vec)
    wide = 4 * vec
    q = n // wide
    for b in range(r):
        _run(x, b * n, q, wide, u(wide), acc, zero)
        i = q * wide
        while i + vec <= n:
            _add(acc, zero, x, u(b * n + i), lane)
            i += vec
        for j in range(1, 4):
            _add(acc, zero, acc, u(j * vec), lane)
        acc[64] = 0
        s = acc[64]
        while i < n:
            s += x[u(b * n + i)]
            i += 1
        for e in range(lane):
            s += acc[e]
        out[b] = s


def _unused(x: np.ndarray, *args: object) -> None:
    """NumPy twin: never called, because callers ask ``tick`` first and have NumPy paths of their own."""
    raise RuntimeError("the compiled sum kernel is not in use")


rows = fused(_unused, helpers=(_add, _sixteen, _block, _run), exact=True)(_rows)
last = fused(_unused, helpers=(_add, _sixteen, _block, _run), exact=True)(_last)


def sum_rows(a: np.ndarray) -> np.ndarray | None:
    """Contiguous (P, n, K) summed over n, or None while the compiled kernel is not in use."""
    if rows.compiled is None and not rows.tick(a.size):
        return None
    p, n, k = a.shape
    out = np.empty((p, k), a.dtype)
    v = lanes(a.dtype)
    try:
        rows(a.reshape(-1), out.reshape(-1), p, n, k, 4 * v if k >= v else 4, np.empty(1024, a.dtype))
    except RuntimeError:
        return None
    return out


def total(v: np.ndarray) -> np.ndarray | None:
    """Contiguous 1-d ``v`` summed to a 0-dim array, or None while the compiled kernel is not in use."""
    fn = last.compiled
    if fn is None:
        got = sum_last(v.reshape(1, v.size))
        return None if got is None else got.reshape(())
    out = np.empty(1, v.dtype)
    fn(v, out, 1, v.size, 8 if v.dtype is F4 else 4, np.empty(256, v.dtype))
    return out.reshape(())


def sum_last(a: np.ndarray) -> np.ndarray | None:
    """Contiguous (R, n) summed over n, or None while the compiled kernel is not in use."""
    if last.compiled is None and not last.tick(a.size):
        return None
    r, n = a.shape
    out = np.empty(r, a.dtype)
    v = lanes(a.dtype)
    try:
        last(a.reshape(-1), out, r, n, v if n >= v else 1, np.empty(256, a.dtype))
    except RuntimeError:
        return None
    return out
