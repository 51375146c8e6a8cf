"""One layer and direction of LSTM, GRU and Elman networks over a whole sequence, forward and backward.

Input rows are flat, step after step: ``x`` (B, I) with ``sizes[t]`` rows at step t (all N for a padded batch; not
increasing for a packed one). The input's product is one GEMM for the whole sequence; each step adds the hidden product
and applies the gates in one fused pass. Float32 uses numba for the gates once it is in use, NumPy otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from mindtorch.engine.host.jit import fused
from mindtorch.engine.host.quiet import quiet

F = np.float32
F32 = np.dtype(np.float32)


def steps(sizes: list[int], reverse: bool) -> Iterator[tuple[int, int]]:
    """(first row, rows) of each step in processing order."""
    starts = [0]
    for n in sizes:
        starts.append(starts[-1] + n)
    order = range(len(sizes) - 1, -1, -1) if reverse else range(len(sizes))
    for t in order:
        yield starts[t], sizes[t]


def _sigmoid(x: np.ndarray) -> Any:
    half = np.asarray(0.5, x.dtype)
    return np.tanh(x * half) * half + half


def _previous(y: np.ndarray, h0: np.ndarray, sizes: list[int], reverse: bool) -> np.ndarray:
    """State before each row's step: (B, H)."""
    out = np.empty_like(y)
    current = h0.copy()
    for s, n in steps(sizes, reverse):
        out[s : s + n] = current[:n]
        current[:n] = y[s : s + n]
    return out


def _input_product(x: np.ndarray, w: np.ndarray, b: np.ndarray | None) -> np.ndarray:
    g = x.dot(w.T)
    if b is not None:
        g += b
    return g


def _column_sums(g: np.ndarray) -> np.ndarray:
    return np.ones(g.shape[0], g.dtype).dot(g)


# ---------------------------------------------------------------------- LSTM gates
def _lstm_gates_fall(g: np.ndarray, hw: np.ndarray, c: np.ndarray, y: np.ndarray, cells: np.ndarray) -> None:
    h = c.shape[1]
    with quiet():
        g += hw
        g[:, : 2 * h] = _sigmoid(g[:, : 2 * h])
        g[:, 2 * h : 3 * h] = np.tanh(g[:, 2 * h : 3 * h])
        g[:, 3 * h :] = _sigmoid(g[:, 3 * h :])
        c *= g[:, h : 2 * h]
        c += g[:, :h] * g[:, 2 * h : 3 * h]
        cells[:] = c
        np.multiply(np.tanh(c), g[:, 3 * h :], out=y)


@fused(_lstm_gates_fall)
def _lstm_gates(g, hw, c, y, cells):  # type: ignore[no-untyped-def]
    n, h = c.shape
    for k in range(n):
        r = g[k]
        p = hw[k]
        ri = r[:h]
        rf = r[h : 2 * h]
        rg = r[2 * h : 3 * h]
        ro = r[3 * h :]
        pi = p[:h]
        pf = p[h : 2 * h]
        pg = p[2 * h : 3 * h]
        po = p[3 * h :]
        cr = c[k]
        yr = y[k]
        cc = cells[k]
        for j in range(h):
            ri[j] = F(1.0) / (F(1.0) + exp32(-(ri[j] + pi[j])))  # type: ignore[name-defined]  # noqa: F821
        for j in range(h):
            rf[j] = F(1.0) / (F(1.0) + exp32(-(rf[j] + pf[j])))  # type: ignore[name-defined]  # noqa: F821
        for j in range(h):
            rg[j] = tanh32(rg[j] + pg[j])  # type: ignore[name-defined]  # noqa: F821
        for j in range(h):
            ro[j] = F(1.0) / (F(1.0) + exp32(-(ro[j] + po[j])))  # type: ignore[name-defined]  # noqa: F821
        for j in range(h):
            v = rf[j] * cr[j] + ri[j] * rg[j]
            cr[j] = v
            cc[j] = v
        for j in range(h):
            yr[j] = ro[j] * tanh32(cr[j])  # type: ignore[name-defined]  # noqa: F821


def _lstm_slopes_fall(
    g: np.ndarray, cells: np.ndarray, before: np.ndarray, gy: np.ndarray, dh: np.ndarray, dc: np.ndarray, dg: np.ndarray
) -> None:
    h = dc.shape[1]
    i, f, q, o = (g[:, k * h : (k + 1) * h] for k in range(4))
    with quiet():
        d = dh + gy
        tc = np.tanh(cells)
        dg[:, 3 * h :] = d * tc * o * (1 - o)
        dc += d * o * (1 - tc * tc)
        dg[:, :h] = dc * q * i * (1 - i)
        dg[:, h : 2 * h] = dc * before * f * (1 - f)
        dg[:, 2 * h : 3 * h] = dc * i * (1 - q * q)
        dc *= f


@fused(_lstm_slopes_fall)
def _lstm_slopes(g, cells, before, gy, dh, dc, dg):  # type: ignore[no-untyped-def]
    n, h = dc.shape
    for k in range(n):
        r = g[k]
        i = r[:h]
        f = r[h : 2 * h]
        q = r[2 * h : 3 * h]
        o = r[3 * h :]
        w = dg[k]
        wi = w[:h]
        wf = w[h : 2 * h]
        wq = w[2 * h : 3 * h]
        wo = w[3 * h :]
        cc = cells[k]
        cb = before[k]
        yr = gy[k]
        hr = dh[k]
        cr = dc[k]
        for j in range(h):
            d = hr[j] + yr[j]
            t = tanh32(cc[j])  # type: ignore[name-defined]  # noqa: F821
            wo[j] = d * t * o[j] * (F(1.0) - o[j])
            cr[j] += d * o[j] * (F(1.0) - t * t)
        for j in range(h):
            wi[j] = cr[j] * q[j] * i[j] * (F(1.0) - i[j])
            wf[j] = cr[j] * cb[j] * f[j] * (F(1.0) - f[j])
        for j in range(h):
            wq[j] = cr[j] * i[j] * (F(1.0) - q[j] * q[j])
            cr[j] = cr[j] * f[j]


def _both(b_ih: np.ndarray | None, b_hh: np.ndarray | None) -> np.ndarray | None:
    return None if b_ih is None or b_hh is None else b_ih + b_hh


def lstm(
    x: np.ndarray,
    h0: np.ndarray,
    c0: np.ndarray,
    w_ih: np.ndarray,
    w_hh: np.ndarray,
    b_ih: Any,
    b_hh: Any,
    sizes: list[int],
    reverse: bool,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """(y (B, H), last h, last c, gates (B, 4H), cells (B, H))."""
    gates = _input_product(x, w_ih, _both(b_ih, b_hh))
    width = h0.shape[1]
    y, cells = np.empty((x.shape[0], width), x.dtype), np.empty((x.shape[0], width), x.dtype)
    h, c = h0.copy(), c0.copy()
    turned = np.ascontiguousarray(w_hh.T)
    kernel = _lstm_gates if x.dtype is F32 else _lstm_gates_fall
    whole = len(set(sizes)) <= 1
    state = h
    for s, n in steps(sizes, reverse):
        rows = y[s : s + n]
        kernel(gates[s : s + n], state[:n].dot(turned), c[:n], rows, cells[s : s + n])
        if whole:
            state = rows
        else:
            h[:n] = rows
    return y, (state.copy() if whole else h), c, gates, cells


def lstm_backward(
    grads: tuple[Any, Any, Any],
    x: np.ndarray,
    h0: np.ndarray,
    c0: np.ndarray,
    w_ih: np.ndarray,
    w_hh: np.ndarray,
    y: np.ndarray,
    gates: np.ndarray,
    cells: np.ndarray,
    sizes: list[int],
    reverse: bool,
) -> tuple[np.ndarray, ...]:
    """Gradients of x, h0, c0, w_ih, w_hh and of either bias from those of y, last h and last c (None: zero)."""
    gy = np.zeros_like(y) if grads[0] is None else np.ascontiguousarray(grads[0])
    dh = np.zeros_like(h0) if grads[1] is None else grads[1].copy()
    dc = np.zeros_like(c0) if grads[2] is None else grads[2].copy()
    before = _previous(cells, c0, sizes, reverse)
    slopes = np.empty_like(gates)
    kernel = _lstm_slopes if x.dtype is F32 else _lstm_slopes_fall
    for s, n in steps(sizes, not reverse):
        e = s + n
        kernel(gates[s:e], cells[s:e], before[s:e], gy[s:e], dh[:n], dc[:n], slopes[s:e])
        np.dot(slopes[s:e], w_hh, out=dh[:n])
    hidden = _previous(y, h0, sizes, reverse)
    return slopes.dot(w_ih), dh, dc, slopes.T.dot(x), slopes.T.dot(hidden), _column_sums(slopes)


# ---------------------------------------------------------------------- GRU
def _gru_gates_fall(g: np.ndarray, hw: np.ndarray, h: np.ndarray, y: np.ndarray) -> None:
    n = h.shape[1]
    with quiet():
        g[:, : 2 * n] = _sigmoid(g[:, : 2 * n] + hw[:, : 2 * n])
        g[:, 2 * n :] = np.tanh(g[:, 2 * n :] + g[:, :n] * hw[:, 2 * n :])
        q = g[:, 2 * n :]
        np.add(q, g[:, n : 2 * n] * (h - q), out=y)


@fused(_gru_gates_fall)
def _gru_gates(g, hw, h, y):  # type: ignore[no-untyped-def]
    m, n = h.shape
    for k in range(m):
        r = g[k][:n]
        z = g[k][n : 2 * n]
        q = g[k][2 * n :]
        pr = hw[k][:n]
        pz = hw[k][n : 2 * n]
        pq = hw[k][2 * n :]
        hr = h[k]
        yr = y[k]
        for j in range(n):
            r[j] = F(1.0) / (F(1.0) + exp32(-(r[j] + pr[j])))  # type: ignore[name-defined]  # noqa: F821
        for j in range(n):
            z[j] = F(1.0) / (F(1.0) + exp32(-(z[j] + pz[j])))  # type: ignore[name-defined]  # noqa: F821
        for j in range(n):
            q[j] = tanh32(q[j] + r[j] * pq[j])  # type: ignore[name-defined]  # noqa: F821
        for j in range(n):
            yr[j] = q[j] + z[j] * (hr[j] - q[j])


def _gru_slopes_fall(
    g: np.ndarray, hq: np.ndarray, before: np.ndarray, gy: np.ndarray, dh: np.ndarray, dx: np.ndarray, dw: np.ndarray
) -> None:
    n = dh.shape[1]
    r, z, q = (g[:, k * n : (k + 1) * n] for k in range(3))
    with quiet():
        dh += gy
        dq = dh * (1 - z) * (1 - q * q)
        dx[:, :n] = dq * hq * r * (1 - r)
        dx[:, n : 2 * n] = dh * (before - q) * z * (1 - z)
        dx[:, 2 * n :] = dq
        dw[:, : 2 * n] = dx[:, : 2 * n]
        dw[:, 2 * n :] = dq * r
        dh *= z


@fused(_gru_slopes_fall)
def _gru_slopes(g, hq, before, gy, dh, dx, dw):  # type: ignore[no-untyped-def]
    m, n = dh.shape
    for k in range(m):
        r = g[k][:n]
        z = g[k][n : 2 * n]
        q = g[k][2 * n :]
        xr = dx[k][:n]
        xz = dx[k][n : 2 * n]
        xq = dx[k][2 * n :]
        wr = dw[k][:n]
        wz = dw[k][n : 2 * n]
        wq = dw[k][2 * n :]
        hr = hq[k]
        br = before[k]
        yr = gy[k]
        d = dh[k]
        for j in range(n):
            v = d[j] + yr[j]
            e = v * (F(1.0) - z[j]) * (F(1.0) - q[j] * q[j])
            xq[j] = e
            wq[j] = e * r[j]
            xr[j] = e * hr[j] * r[j] * (F(1.0) - r[j])
            xz[j] = v * (br[j] - q[j]) * z[j] * (F(1.0) - z[j])
            d[j] = v * z[j]
        for j in range(n):
            wr[j] = xr[j]
            wz[j] = xz[j]


def gru(
    x: np.ndarray,
    h0: np.ndarray,
    w_ih: np.ndarray,
    w_hh: np.ndarray,
    b_ih: Any,
    b_hh: Any,
    sizes: list[int],
    reverse: bool,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """(y (B, H), last h, gates r z n (B, 3H), hidden part of n (B, H))."""
    gates = _input_product(x, w_ih, b_ih)
    n_hidden = h0.shape[1]
    y, hidden = np.empty((x.shape[0], n_hidden), x.dtype), np.empty((x.shape[0], n_hidden), x.dtype)
    h = h0.copy()
    turned = np.ascontiguousarray(w_hh.T)
    kernel = _gru_gates if x.dtype is F32 else _gru_gates_fall
    for s, n in steps(sizes, reverse):
        hw = h[:n].dot(turned)
        if b_hh is not None:
            hw += b_hh
        hidden[s : s + n] = hw[:, 2 * n_hidden :]
        rows = y[s : s + n]
        kernel(gates[s : s + n], hw, h[:n], rows)
        h[:n] = rows
    return y, h, gates, hidden


def gru_backward(
    grads: tuple[Any, Any],
    x: np.ndarray,
    h0: np.ndarray,
    w_ih: np.ndarray,
    w_hh: np.ndarray,
    y: np.ndarray,
    gates: np.ndarray,
    hidden: np.ndarray,
    sizes: list[int],
    reverse: bool,
) -> tuple[np.ndarray, ...]:
    """Gradients of x, h0, w_ih, w_hh, b_ih, b_hh from those of y and last h (None: zero)."""
    gy = np.zeros_like(y) if grads[0] is None else np.ascontiguousarray(grads[0])
    dh = np.zeros_like(h0) if grads[1] is None else grads[1].copy()
    before = _previous(y, h0, sizes, reverse)
    dx, dw = np.empty_like(gates), np.empty_like(gates)
    kernel = _gru_slopes if x.dtype is F32 else _gru_slopes_fall
    for s, n in steps(sizes, not reverse):
        e = s + n
        kernel(gates[s:e], hidden[s:e], before[s:e], gy[s:e], dh[:n], dx[s:e], dw[s:e])
        dh[:n] += dw[s:e].dot(w_hh)
    return dx.dot(w_ih), dh, dx.T.dot(x), dw.T.dot(before), _column_sums(dx), _column_sums(dw)


# ---------------------------------------------------------------------- Elman
def elman(
    x: np.ndarray,
    h0: np.ndarray,
    w_ih: np.ndarray,
    w_hh: np.ndarray,
    b_ih: Any,
    b_hh: Any,
    relu: bool,
    sizes: list[int],
    reverse: bool,
) -> tuple[np.ndarray, np.ndarray]:
    """(y (B, H), last h) of h = act(w_ih x + b_ih + w_hh h + b_hh), act being relu or tanh."""
    y = _input_product(x, w_ih, _both(b_ih, b_hh))
    h = h0.copy()
    turned = np.ascontiguousarray(w_hh.T)
    zero = np.zeros((), x.dtype)
    with quiet():
        for s, n in steps(sizes, reverse):
            rows = y[s : s + n]
            rows += h[:n].dot(turned)
            if relu:
                np.maximum(rows, zero, out=rows)
            else:
                np.tanh(rows, out=rows)
            h[:n] = rows
    return y, h


def elman_backward(
    grads: tuple[Any, Any],
    x: np.ndarray,
    h0: np.ndarray,
    w_ih: np.ndarray,
    w_hh: np.ndarray,
    y: np.ndarray,
    relu: bool,
    sizes: list[int],
    reverse: bool,
) -> tuple[np.ndarray, ...]:
    """Gradients of x, h0, w_ih, w_hh and of either bias from those of y and last h (None: zero)."""
    gy = np.zeros_like(y) if grads[0] is None else grads[0]
    dh = np.zeros_like(h0) if grads[1] is None else grads[1].copy()
    d = np.empty_like(y)
    with quiet():
        slope = (y > 0).astype(y.dtype) if relu else 1 - y * y
        for s, n in steps(sizes, not reverse):
            e = s + n
            np.multiply(dh[:n] + gy[s:e], slope[s:e], out=d[s:e])
            np.dot(d[s:e], w_hh, out=dh[:n])
    before = _previous(y, h0, sizes, reverse)
    return d.dot(w_ih), dh, d.T.dot(x), d.T.dot(before), _column_sums(d)
