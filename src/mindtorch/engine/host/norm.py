"""Normalisation kernels on raw float arrays: layer, batch, group and RMS norm with their derivatives.

Layer norm recomputes its row statistics in the backward pass (they are cheap while a row is in cache, and nothing is
kept for it); batch and group norm keep mean and inverse deviation. Float32 goes to fused loops once numba is in use.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mindtorch.engine.host import jit
from mindtorch.engine.host.jit import fused
from mindtorch.engine.host.quiet import quiet

F = np.float32
F32 = np.dtype(np.float32)
NONE32 = np.empty(0, np.float32)


class _Mean(dict):  # type: ignore[type-arg]
    def __missing__(self, n: int) -> np.ndarray:
        self[n] = got = np.full((n, n), 1.0 / n, np.float32)
        return got


MEAN = _Mean()
"""n -> full((n, n), 1/n): ``x.dot(MEAN[n])`` is the row mean in every column."""


def _flat32(w: np.ndarray | None) -> np.ndarray:
    if w is None:
        return NONE32
    return np.ascontiguousarray(w, F32).reshape(-1)


def _rows(a: np.ndarray, n: int) -> np.ndarray:
    return np.ascontiguousarray(a).reshape(a.size // n if n else 0, n)


# ---------------------------------------------------------------------- layer norm
def _ln_plain(x: np.ndarray, w: Any, b: Any, eps: float) -> np.ndarray:
    with quiet():
        mean = x.mean(-1, keepdims=True)
        d = x - mean
        var = np.square(d).mean(-1, keepdims=True)
        d *= 1 / np.sqrt(var + np.asarray(eps, x.dtype))
        if w is not None and w.size:
            d = d * w.reshape(-1)
        if b is not None and b.size:
            d = d + b.reshape(-1)
        return d


def _ln_fall(x: np.ndarray, w: np.ndarray, b: np.ndarray, out: np.ndarray, eps: float, nt: int) -> None:
    out[:] = _ln_plain(x, w, b, eps)


def _row_moments(r, scale, eps):  # type: ignore[no-untyped-def]
    """Mean of a row and 1 / its deviation; ``scale`` is 1 / its length."""
    s = F(0.0)
    for j in range(r.size):
        s += r[j]
    mean = s * scale
    v = F(0.0)
    for j in range(r.size):
        d = r[j] - mean
        v += d * d
    return mean, F(1.0 / math.sqrt(v * scale + eps))  # type: ignore[name-defined]  # noqa: F821


@fused(_ln_fall, parallel=True, reduction=True, helpers=(_row_moments,))
def _ln_rows(x, w, b, out, eps, nt):  # type: ignore[no-untyped-def]
    m, n = x.shape
    step = (m + nt - 1) // nt
    scale = F(1.0 / n)
    has_w = w.size > 0
    has_b = b.size > 0
    for t in prange(nt):  # type: ignore[name-defined]  # noqa: F821
        for i in range(t * step, min(m, (t + 1) * step)):
            r = x[i]
            o = out[i]
            mean, rstd = _row_moments(r, scale, eps)
            if has_w and has_b:
                for j in range(n):
                    o[j] = (r[j] - mean) * rstd * w[j] + b[j]
            elif has_w:
                for j in range(n):
                    o[j] = (r[j] - mean) * rstd * w[j]
            elif has_b:
                for j in range(n):
                    o[j] = (r[j] - mean) * rstd + b[j]
            else:
                for j in range(n):
                    o[j] = (r[j] - mean) * rstd


def layer_norm(x: np.ndarray, w: np.ndarray | None, b: np.ndarray | None, n: int, eps: float) -> np.ndarray:
    """x normalised over its last ``n`` elements, times w plus b (both of ``n`` elements or None)."""
    if x.dtype is F32:
        if _ln_rows.compiled is not None or _ln_rows.tick(x.size):
            out = np.empty(x.shape, F32)
            two = out.reshape(out.size // n, n) if n else out.reshape(0, 1)
            if x.size:
                _ln_rows(_rows(x, n), _flat32(w), _flat32(b), two, eps, jit.threads_for(x.size))
            return out
        if n <= 64 and x.size <= 4096 and w is not None and b is not None:
            return _ln_small(x, w, b, n, eps)
    return _ln_plain(_rows(x, n), w, b, eps).reshape(x.shape)


def _ln_small(x: np.ndarray, w: np.ndarray, b: np.ndarray, n: int, eps: float) -> np.ndarray:
    mean = MEAN[n]
    r = x if x.ndim == 2 else x.reshape(-1, n)
    with quiet():
        d = r - r.dot(mean)
        v = (d * d).dot(mean)
        v += eps
        np.sqrt(v, v)
        d /= v
        d *= w.reshape(-1)
        d += b.reshape(-1)
    return d if x.ndim == 2 else d.reshape(x.shape)


def _ln_back_fall(g: np.ndarray, x: np.ndarray, w: np.ndarray, gx: np.ndarray, gw: np.ndarray, gb: np.ndarray,
                  eps: float, nt: int) -> None:  # fmt: skip
    with quiet():
        d = x - x.mean(-1, keepdims=True)
        rstd = 1 / np.sqrt(np.square(d).mean(-1, keepdims=True) + np.asarray(eps, x.dtype))
        d *= rstd
        gw[0] = (g * d).sum(0)
        gb[0] = g.sum(0)
        h = g * w if w.size else g
        gx[:] = rstd * (h - h.mean(-1, keepdims=True) - d * (h * d).mean(-1, keepdims=True))


@fused(_ln_back_fall, parallel=True, reduction=True, helpers=(_row_moments,))
def _ln_back_rows(g, x, w, gx, gw, gb, eps, nt):  # type: ignore[no-untyped-def]
    m, n = x.shape
    step = (m + nt - 1) // nt
    scale = F(1.0 / n)
    has_w = w.size > 0
    for t in prange(nt):  # type: ignore[name-defined]  # noqa: F821
        ow = gw[t]
        ob = gb[t]
        for i in range(t * step, min(m, (t + 1) * step)):
            r = x[i]
            h = g[i]
            o = gx[i]
            mean, rstd = _row_moments(r, scale, eps)
            s1 = F(0.0)
            s2 = F(0.0)
            if has_w:
                for j in range(n):
                    q = h[j] * w[j]
                    s1 += q
                    s2 += q * (r[j] - mean)
            else:
                for j in range(n):
                    s1 += h[j]
                    s2 += h[j] * (r[j] - mean)
            c1 = s1 * scale
            c2 = s2 * scale * rstd * rstd
            if has_w:
                for j in range(n):
                    o[j] = rstd * (h[j] * w[j] - c1 - (r[j] - mean) * c2)
            else:
                for j in range(n):
                    o[j] = rstd * (h[j] - c1 - (r[j] - mean) * c2)
            for j in range(n):
                ow[j] += h[j] * ((r[j] - mean) * rstd)
                ob[j] += h[j]


def _ln_back_single(
    g: np.ndarray, x: np.ndarray, w: np.ndarray | None, eps: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows of one element: the gradient is 0 up to rounding, and 1 / sqrt(eps) makes PyTorch's rounding visible.

    So it is rounded here as there: products in float32, three of them fused with the addition that follows (exact in
    float64, rounded once).
    """
    w = np.ones((), F32) if w is None else np.asarray(w, F32).reshape(())
    wide = np.float64
    rstd = F32.type(1) / np.sqrt(F32.type(eps))
    with quiet():
        db = g * w
        ds = g * x * w
        b = (db.astype(wide) * x - ds).astype(F32) * rstd * rstd * rstd
        c = (-b.astype(wide) * x - db * rstd).astype(F32)
        gx = (b.astype(wide) * x + rstd * g * w).astype(F32) + c
        gw = (x.astype(wide) * rstd - x * rstd).astype(F32) * g
    return gx, gw.sum(dtype=F32).reshape(1), g.sum(dtype=F32).reshape(1)


def layer_norm_backward(
    g: np.ndarray, x: np.ndarray, w: np.ndarray | None, n: int, eps: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Gradients of input (x's shape), weight and bias (``n`` elements each)."""
    if x.size == 0:
        return np.zeros_like(x), np.zeros(n, x.dtype), np.zeros(n, x.dtype)
    if n == 1 and x.dtype == F32 and g.dtype == F32:
        return _ln_back_single(g, x, w, eps)
    nt = jit.threads_for(x.size)
    gx = np.empty(x.shape, x.dtype)
    gw, gb = np.zeros((nt, n), x.dtype), np.zeros((nt, n), x.dtype)
    wf = np.empty(0, x.dtype) if w is None else np.ascontiguousarray(w, x.dtype).reshape(-1)
    kernel = _ln_back_rows if x.dtype is F32 and g.dtype is F32 else _ln_back_fall
    kernel(_rows(g, n), _rows(x, n), wf, gx.reshape(-1, n), gw, gb, eps, nt)
    return gx, (gw[0] if nt == 1 else gw.sum(0)), (gb[0] if nt == 1 else gb.sum(0))


# ---------------------------------------------------------------------- batch norm: x as (N, C, L)
def _planes(x: np.ndarray) -> np.ndarray:
    x = np.ascontiguousarray(x)
    return x.reshape(x.shape[0], x.shape[1], -1) if x.ndim != 3 else x


def _bn_stats_fall(x: np.ndarray, mean: np.ndarray, var: np.ndarray, nt: int) -> None:
    with quiet():
        mean[:] = x.mean((0, 2), dtype=np.float64)
        var[:] = np.square(x - mean.astype(x.dtype)[:, None]).mean((0, 2), dtype=np.float64)


@fused(_bn_stats_fall, parallel=True, reduction=True)
def _bn_stats(x, mean, var, nt):  # type: ignore[no-untyped-def]
    m, c, n = x.shape
    step = (c + nt - 1) // nt
    for t in prange(nt):  # type: ignore[name-defined]  # noqa: F821
        for k in range(t * step, min(c, (t + 1) * step)):
            total = 0.0
            for i in range(m):
                r = x[i, k]
                s = F(0.0)
                for j in range(n):
                    s += r[j]
                total += s
            mu = F(total / (m * n))
            total = 0.0
            for i in range(m):
                r = x[i, k]
                s = F(0.0)
                for j in range(n):
                    d = r[j] - mu
                    s += d * d
                total += s
            mean[k] = mu
            var[k] = total / (m * n)


def _stats2_fall(x: np.ndarray, mean: np.ndarray, var: np.ndarray) -> None:
    with quiet():
        # np.mean costs several times its sum at small sizes
        n = len(x)
        np.divide(np.add.reduce(x, 0, np.float64), n, mean)
        d = x - mean.astype(x.dtype)
        np.divide(np.add.reduce(d * d, 0, np.float64), n, var)


@fused(_stats2_fall)
def _stats2(x, mean, var):  # type: ignore[no-untyped-def]
    m, c = x.shape
    mean[:] = 0.0
    var[:] = 0.0
    for i in range(m):
        r = x[i]
        for k in range(c):
            mean[k] += r[k]
    for k in range(c):
        mean[k] /= m
    for i in range(m):
        r = x[i]
        for k in range(c):
            d = r[k] - mean[k]
            var[k] += d * d
    for k in range(c):
        var[k] /= m


def _back2_fall(g: np.ndarray, x: np.ndarray, mean: np.ndarray, a: np.ndarray, inv: np.ndarray, s1: np.ndarray,
                s2: np.ndarray, out: np.ndarray, training: bool) -> None:  # fmt: skip
    with quiet():
        d = x - mean.astype(x.dtype)
        s1[:] = g.sum(0, dtype=np.float64)
        s2[:] = (g * d).sum(0, dtype=np.float64)
        if training:
            c2 = (s2 * inv * inv / x.shape[0]).astype(x.dtype)
            out[:] = (g - (s1 / x.shape[0]).astype(x.dtype) - d * c2) * a.astype(x.dtype)
        else:
            out[:] = g * a.astype(x.dtype)


@fused(_back2_fall)
def _back2(g, x, mean, a, inv, s1, s2, out, training):  # type: ignore[no-untyped-def]
    m, c = x.shape
    s1[:] = 0.0
    s2[:] = 0.0
    for i in range(m):
        h = g[i]
        r = x[i]
        for k in range(c):
            s1[k] += h[k]
            s2[k] += h[k] * (r[k] - mean[k])
    for i in range(m):
        h = g[i]
        r = x[i]
        o = out[i]
        if training:
            for k in range(c):
                o[k] = F((h[k] - s1[k] / m - (r[k] - mean[k]) * (s2[k] * inv[k] * inv[k] / m)) * a[k])
        else:
            for k in range(c):
                o[k] = F(h[k] * a[k])


def batch_stats(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and biased variance of each channel (dim 1), as float64 arrays of C elements."""
    c = x.shape[1]
    mean, var = np.empty(c), np.empty(c)
    p = _planes(x)
    if x.dtype is not F32:
        _bn_stats_fall(p, mean, var, 1)
    elif p.shape[2] == 1:
        _stats2(p.reshape(p.shape[0], c), mean, var)
    else:
        _bn_stats(p, mean, var, jit.threads_for(x.size))
    return mean, var


def _affine_fall(x: np.ndarray, a: np.ndarray, mean: np.ndarray, b: np.ndarray, out: np.ndarray, nt: int) -> None:
    with quiet():
        np.subtract(x, mean[:, None], out=out)
        out *= a[:, None]
        out += b[:, None]


@fused(_affine_fall, parallel=True)
def _affine(x, a, mean, b, out, nt):  # type: ignore[no-untyped-def]
    m, c, n = x.shape
    total = m * c
    step = (total + nt - 1) // nt
    for t in prange(nt):  # type: ignore[name-defined]  # noqa: F821
        for i in range(t * step, min(total, (t + 1) * step)):
            k = i % c
            r = x[i // c, k]
            o = out[i // c, k]
            p = a[k]
            q = b[k]
            u = mean[k]
            for j in range(n):
                o[j] = (r[j] - u) * p + q


def normalise(x: np.ndarray, mean: np.ndarray, invstd: np.ndarray, w: np.ndarray | None, b: np.ndarray | None) -> Any:
    """(x - mean) * invstd * w + b per channel (dim 1); all vectors have C elements."""
    dt = x.dtype
    a = (invstd if w is None else invstd * w).astype(dt, copy=False)
    shift = np.zeros(a.shape, dt) if b is None else b.astype(dt, copy=False)
    mu = mean.astype(dt, copy=False)
    p = _planes(x)
    if p.shape[2] == 1:
        with quiet():
            out = np.subtract(p[:, :, 0], mu)
            out *= a
            out += shift
            return out.reshape(x.shape)
    out = np.empty(p.shape, dt)
    kernel = _affine if dt is F32 else _affine_fall
    kernel(
        p, np.ascontiguousarray(a), np.ascontiguousarray(mu), np.ascontiguousarray(shift), out, jit.threads_for(x.size)
    )
    return out.reshape(x.shape)


def _bn_sums_fall(g: np.ndarray, x: np.ndarray, mean: np.ndarray, s1: np.ndarray, s2: np.ndarray, nt: int) -> None:
    with quiet():
        s1[:] = g.sum((0, 2), dtype=np.float64)
        s2[:] = (g * (x - mean[:, None])).sum((0, 2), dtype=np.float64)


@fused(_bn_sums_fall, parallel=True, reduction=True)
def _bn_sums(g, x, mean, s1, s2, nt):  # type: ignore[no-untyped-def]
    m, c, n = x.shape
    step = (c + nt - 1) // nt
    for t in prange(nt):  # type: ignore[name-defined]  # noqa: F821
        for k in range(t * step, min(c, (t + 1) * step)):
            u = mean[k]
            t1 = 0.0
            t2 = 0.0
            for i in range(m):
                r = x[i, k]
                h = g[i, k]
                p = F(0.0)
                q = F(0.0)
                for j in range(n):
                    p += h[j]
                    q += h[j] * (r[j] - u)
                t1 += p
                t2 += q
            s1[k] = t1
            s2[k] = t2


def _bn_apply_fall(g: np.ndarray, x: np.ndarray, mean: np.ndarray, a: np.ndarray, c1: np.ndarray, c2: np.ndarray,
                   out: np.ndarray, nt: int) -> None:  # fmt: skip
    with quiet():
        np.subtract(x, mean[:, None], out=out)
        out *= -c2[:, None]
        out += g
        out -= c1[:, None]
        out *= a[:, None]


@fused(_bn_apply_fall, parallel=True)
def _bn_apply(g, x, mean, a, c1, c2, out, nt):  # type: ignore[no-untyped-def]
    m, c, n = x.shape
    total = m * c
    step = (total + nt - 1) // nt
    for t in prange(nt):  # type: ignore[name-defined]  # noqa: F821
        for i in range(t * step, min(total, (t + 1) * step)):
            k = i % c
            r = x[i // c, k]
            h = g[i // c, k]
            o = out[i // c, k]
            u = mean[k]
            p = a[k]
            e1 = c1[k]
            e2 = c2[k]
            for j in range(n):
                o[j] = (h[j] - e1 - (r[j] - u) * e2) * p


def batch_norm_backward(
    g: np.ndarray, x: np.ndarray, w: np.ndarray | None, mean: np.ndarray, invstd: np.ndarray, training: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Gradients of input, weight and bias; ``mean``/``invstd`` are those the forward pass used."""
    dt = x.dtype
    p, q = _planes(x), _planes(g)
    c, count = p.shape[1], p.shape[0] * p.shape[2]
    s1, s2 = np.empty(c), np.empty(c)
    mu = mean.astype(dt, copy=False)
    nt = jit.threads_for(x.size)
    inv = invstd.astype(np.float64)
    scale = inv if w is None else inv * w
    fast = dt is F32 and g.dtype is F32
    if fast and p.shape[2] == 1:
        out = np.empty(x.shape, dt)
        two = (q.shape[0], c)
        _back2(q.reshape(two), p.reshape(two), mean.astype(np.float64), scale, inv, s1, s2, out.reshape(two), training)
        return out, (s2 * inv).astype(dt), s1.astype(dt)
    a = np.ascontiguousarray(scale.astype(dt))
    (_bn_sums if fast else _bn_sums_fall)(q, p, mu, s1, s2, nt)
    out = np.empty(p.shape, dt)
    with quiet():
        c1 = (s1 / count if training else np.zeros(c)).astype(dt)
        c2 = (s2 * inv * inv / count if training else np.zeros(c)).astype(dt)
    if training:
        (_bn_apply if fast else _bn_apply_fall)(q, p, mu, a, c1, c2, out, nt)
    else:
        np.multiply(q, a[:, None], out=out)
    return out.reshape(x.shape), (s2 * inv).astype(dt), s1.astype(dt)


# ---------------------------------------------------------------------- group norm: x as (N, G, D, L)
def group_norm(
    x: np.ndarray, groups: int, w: np.ndarray | None, b: np.ndarray | None, eps: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(result, mean, rstd): statistics over each group of channels; mean and rstd have shape (N, groups)."""
    n, c = x.shape[:2]
    per = c // groups
    planes = np.ascontiguousarray(x).reshape(1, n * groups, -1)
    mean, var = (
        batch_stats(planes) if planes.shape[2] > 1 else (planes[0, :, 0].astype(np.float64), np.zeros(n * groups))
    )
    with quiet():
        rstd = 1 / np.sqrt(var + eps)
    a = np.repeat(rstd.reshape(n, groups), per, 1)
    if w is not None:
        a = a * w
    mu = np.repeat(mean.reshape(n, groups), per, 1)
    shift = np.zeros((n, c)) if b is None else np.broadcast_to(b, (n, c))
    dt = x.dtype
    flat = planes.reshape(1, n * c, -1)
    out = np.empty(flat.shape, dt)
    vectors = [np.ascontiguousarray(v.reshape(-1), dt) for v in (a, mu, shift)]
    if flat.shape[2]:
        kernel = _affine if dt is F32 else _affine_fall
        kernel(flat, *vectors, out, jit.threads_for(x.size))
    return out.reshape(x.shape), mean.astype(dt).reshape(n, groups), rstd.astype(dt).reshape(n, groups)


def _gn_apply_fall(h: np.ndarray, x: np.ndarray, mu: np.ndarray, a: np.ndarray, c1: np.ndarray, c2: np.ndarray,
                   out: np.ndarray, nt: int) -> None:  # fmt: skip
    with quiet():
        np.multiply(h, a[:, None], out=out)
        d = x - mu[:, None]
        d *= c2[:, None]
        out -= d
        out -= c1[:, None]


@fused(_gn_apply_fall, parallel=True)
def _gn_apply(h, x, mu, a, c1, c2, out, nt):  # type: ignore[no-untyped-def]
    m, n = x.shape
    step = (m + nt - 1) // nt
    for t in prange(nt):  # type: ignore[name-defined]  # noqa: F821
        for i in range(t * step, min(m, (t + 1) * step)):
            r = x[i]
            q = h[i]
            o = out[i]
            u = mu[i]
            p = a[i]
            e1 = c1[i]
            e2 = c2[i]
            for j in range(n):
                o[j] = q[j] * p - (r[j] - u) * e2 - e1


def group_norm_backward(
    g: np.ndarray, x: np.ndarray, w: np.ndarray | None, mean: np.ndarray, rstd: np.ndarray, groups: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Gradients of input, weight and bias."""
    n, c = x.shape[:2]
    per, dt = c // groups, x.dtype
    flat, h = (np.ascontiguousarray(v).reshape(1, n * c, -1) for v in (x, g))
    count = per * flat.shape[2]
    mu = np.ascontiguousarray(np.repeat(mean, per, 1).reshape(-1), dt)
    s1, s2 = np.empty(n * c), np.empty(n * c)
    nt = jit.threads_for(x.size)
    fast = dt is F32 and g.dtype is F32
    (_bn_sums if fast else _bn_sums_fall)(h, flat, mu, s1, s2, nt)
    r = np.repeat(rstd.astype(np.float64), per, 1)
    s1, s2 = s1.reshape(n, c), s2.reshape(n, c)
    gw, gb = (s2 * r).sum(0), s1.sum(0)
    wide = np.ones(c) if w is None else w.astype(np.float64)
    with quiet():
        c1 = np.repeat((s1 * wide).reshape(n, groups, per).sum(2) / count, per, 1)
        c2 = np.repeat((s2 * wide).reshape(n, groups, per).sum(2) / count, per, 1) * r * r
    out = np.empty(flat.shape, dt)
    vectors = [np.ascontiguousarray(v.reshape(-1), dt) for v in (wide * r, c1 * r, c2 * r)]
    (_gn_apply if fast else _gn_apply_fall)(h[0], flat[0], mu, *vectors, out[0], nt)
    return out.reshape(x.shape), gw.astype(dt), gb.astype(dt)
