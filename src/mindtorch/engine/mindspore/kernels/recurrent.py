"""MindSpore kernels of one layer and direction of LSTM, GRU and Elman networks over flat rows, forward and backward.

``sizes[t]`` rows belong to step t; sizes do not increase, so a step's rows continue the first rows of the state.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mindtorch.engine.mindspore import door
from mindtorch.engine.mindspore.kernels import Unsupported, kernel, table
from mindtorch.engine.mindspore.kernels.pointwise import zeros
from mindtorch.engine.mindspore.kernels.reductions import total

ms = door.load()
mint, ops = ms.mint, ms.ops


def _steps(sizes: Any, reverse: bool) -> Iterator[tuple[int, int]]:
    starts = [0]
    for n in sizes:
        starts.append(starts[-1] + n)
    for t in range(len(sizes) - 1, -1, -1) if reverse else range(len(sizes)):
        yield starts[t], sizes[t]


def _t(x: Any) -> Any:
    return mint.transpose(x, 0, 1)


def _tanh(x: Any) -> Any:
    return table()["tanh"](x)


def _rows(x: Any, start: int, n: int) -> Any:
    return x.narrow(0, start, n)


def _under(new: Any, old: Any) -> Any:
    """The first rows replaced by new ones."""
    n = new.shape[0]
    return new if n == old.shape[0] else ops.concat([new, old.narrow(0, n, old.shape[0] - n)], 0)


def _joined(parts: dict[int, Any]) -> Any:
    """Rows of all steps in memory order."""
    got = [parts[s] for s in sorted(parts)]
    return got[0] if len(got) == 1 else ops.concat(got, 0)


def _checked(*ts: Any) -> None:
    if any(0 in t.shape for t in ts):
        raise Unsupported("an empty sequence")


def _product(x: Any, w: Any, b: Any) -> Any:
    y = ops.matmul(x, _t(w))
    return y if b is None else mint.add(y, b)


def _both(a: Any, b: Any) -> Any:
    return None if a is None or b is None else mint.add(a, b)


def _before(y: Any, h0: Any, sizes: Any, reverse: bool) -> Any:
    """State before each row's step."""
    got, now = {}, h0
    for s, n in _steps(sizes, reverse):
        got[s] = _rows(now, 0, n)
        now = _under(_rows(y, s, n), now)
    return _joined(got)


def _columns(x: Any, k: int, h: int) -> Any:
    return x.narrow(1, k * h, h)


def _slope(s: Any) -> Any:
    """Slope of the logistic function from its value."""
    return mint.mul(s, mint.sub(ms.Tensor(1, s.dtype), s))


def _tanh_slope(t: Any) -> Any:
    return mint.sub(ms.Tensor(1, t.dtype), mint.mul(t, t))


# ------------------------------------------------------------------------------------------ LSTM
@kernel("lstm_layer")
def _lstm(x: Any, h0: Any, c0: Any, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any, sizes: Any, reverse: bool) -> Any:
    _checked(x, h0)
    pre, k = _product(x, w_ih, _both(b_ih, b_hh)), h0.shape[1]
    h, c, turned = h0, c0, _t(w_hh)
    ys, gs, cs = {}, {}, {}
    for s, n in _steps(sizes, reverse):
        z = mint.add(_rows(pre, s, n), ops.matmul(_rows(h, 0, n), turned))
        i, f, o = (mint.sigmoid(_columns(z, j, k)) for j in (0, 1, 3))
        q = _tanh(_columns(z, 2, k))
        cs[s] = mint.add(mint.mul(f, _rows(c, 0, n)), mint.mul(i, q))
        gs[s] = ops.concat([i, f, q, o], 1)
        ys[s] = mint.mul(o, _tanh(cs[s]))
        h, c = _under(ys[s], h), _under(cs[s], c)
    return _joined(ys), h, c, _joined(gs), _joined(cs)


@kernel("lstm_layer_backward")
def _lstm_backward(x: Any, h0: Any, c0: Any, w_ih: Any, w_hh: Any, y: Any, gates: Any, cells: Any, gy: Any, gh: Any,
                   gc: Any, sizes: Any, reverse: bool) -> Any:  # fmt: skip
    _checked(x, h0)
    k = h0.shape[1]
    gy, dh, dc = (zeros(t) if g is None else g for g, t in ((gy, y), (gh, h0), (gc, c0)))
    before, slopes = _before(cells, c0, sizes, reverse), {}
    for s, n in _steps(sizes, not reverse):
        i, f, q, o = (_columns(_rows(gates, s, n), j, k) for j in range(4))
        d = mint.add(_rows(dh, 0, n), _rows(gy, s, n))
        t = _tanh(_rows(cells, s, n))
        e = mint.add(_rows(dc, 0, n), mint.mul(mint.mul(d, o), _tanh_slope(t)))
        parts = (
            mint.mul(mint.mul(e, q), _slope(i)),
            mint.mul(mint.mul(e, _rows(before, s, n)), _slope(f)),
            mint.mul(mint.mul(e, i), _tanh_slope(q)),
            mint.mul(mint.mul(d, t), _slope(o)),
        )
        slopes[s] = ops.concat(list(parts), 1)
        dh, dc = _under(ops.matmul(slopes[s], w_hh), dh), _under(mint.mul(e, f), dc)
    all_ = _joined(slopes)
    hidden = _before(y, h0, sizes, reverse)
    turned = _t(all_)
    return ops.matmul(all_, w_ih), dh, dc, ops.matmul(turned, x), ops.matmul(turned, hidden), total(all_, 0)


# ------------------------------------------------------------------------------------------ GRU
@kernel("gru_layer")
def _gru(x: Any, h0: Any, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any, sizes: Any, reverse: bool) -> Any:
    _checked(x, h0)
    pre, k = _product(x, w_ih, b_ih), h0.shape[1]
    h = h0
    ys, gs, hs = {}, {}, {}
    for s, n in _steps(sizes, reverse):
        a, old = _rows(pre, s, n), _rows(h, 0, n)
        b = _product(old, w_hh, b_hh)
        r, z = (mint.sigmoid(mint.add(_columns(a, j, k), _columns(b, j, k))) for j in (0, 1))
        hs[s] = _columns(b, 2, k)
        q = _tanh(mint.add(_columns(a, 2, k), mint.mul(r, hs[s])))
        gs[s] = ops.concat([r, z, q], 1)
        ys[s] = mint.add(q, mint.mul(z, mint.sub(old, q)))
        h = _under(ys[s], h)
    return _joined(ys), h, _joined(gs), _joined(hs)


@kernel("gru_layer_backward")
def _gru_backward(x: Any, h0: Any, w_ih: Any, w_hh: Any, y: Any, gates: Any, hidden: Any, gy: Any, gh: Any, sizes: Any,
                  reverse: bool) -> Any:  # fmt: skip
    _checked(x, h0)
    k = h0.shape[1]
    gy, dh = zeros(y) if gy is None else gy, zeros(h0) if gh is None else gh
    before, dx, dw = _before(y, h0, sizes, reverse), {}, {}
    for s, n in _steps(sizes, not reverse):
        r, z, q = (_columns(_rows(gates, s, n), j, k) for j in range(3))
        d = mint.add(_rows(dh, 0, n), _rows(gy, s, n))
        dq = mint.mul(mint.mul(d, mint.sub(ms.Tensor(1, z.dtype), z)), _tanh_slope(q))
        dz = mint.mul(mint.mul(d, mint.sub(_rows(before, s, n), q)), _slope(z))
        dr = mint.mul(mint.mul(dq, _rows(hidden, s, n)), _slope(r))
        dx[s], dw[s] = ops.concat([dr, dz, dq], 1), ops.concat([dr, dz, mint.mul(dq, r)], 1)
        dh = _under(mint.add(mint.mul(d, z), ops.matmul(dw[s], w_hh)), dh)
    a, b = _joined(dx), _joined(dw)
    return (ops.matmul(a, w_ih), dh, ops.matmul(_t(a), x), ops.matmul(_t(b), before), total(a, 0), total(b, 0))


# ------------------------------------------------------------------------------------------ Elman
@kernel("elman_layer")
def _elman(x: Any, h0: Any, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any, relu: bool, sizes: Any, reverse: bool) -> Any:
    _checked(x, h0)
    pre, h, ys, turned = _product(x, w_ih, _both(b_ih, b_hh)), h0, {}, _t(w_hh)
    act = table()["relu"] if relu else _tanh
    for s, n in _steps(sizes, reverse):
        ys[s] = act(mint.add(_rows(pre, s, n), ops.matmul(_rows(h, 0, n), turned)))
        h = _under(ys[s], h)
    return _joined(ys), h


@kernel("elman_layer_backward")
def _elman_backward(x: Any, h0: Any, w_ih: Any, w_hh: Any, y: Any, gy: Any, gh: Any, relu: bool, sizes: Any,
                    reverse: bool) -> Any:  # fmt: skip
    _checked(x, h0)
    gy, dh = zeros(y) if gy is None else gy, zeros(h0) if gh is None else gh
    slope = mint.greater(y, ms.Tensor(0, y.dtype)).astype(y.dtype) if relu else _tanh_slope(y)
    parts = {}
    for s, n in _steps(sizes, not reverse):
        parts[s] = mint.mul(mint.add(_rows(dh, 0, n), _rows(gy, s, n)), _rows(slope, s, n))
        dh = _under(ops.matmul(parts[s], w_hh), dh)
    d = _joined(parts)
    before = _before(y, h0, sizes, reverse)
    return ops.matmul(d, w_ih), dh, ops.matmul(_t(d), x), ops.matmul(_t(d), before), total(d, 0)
