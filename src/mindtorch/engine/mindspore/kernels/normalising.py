"""MindSpore kernels of normalisation and of losses by class: forward and backward, statistics in the input's precision."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mindtorch.engine.mindspore import door
from mindtorch.engine.mindspore.kernels import Unsupported, kernel
from mindtorch.engine.mindspore.kernels.moves import const, zeros_of
from mindtorch.engine.mindspore.kernels.pointwise import _where, zeros
from mindtorch.engine.mindspore.kernels.reductions import log_softmax, mean, softmax, total

ms = door.load()
mint, ops = ms.mint, ms.ops
_HALF = (ms.float16, ms.bfloat16)
_FLOATS = (*_HALF, ms.float32, ms.float64)


def _floats(*ts: Any) -> None:
    if any(0 in t.shape for t in ts) or ts[0].dtype not in _FLOATS:
        raise Unsupported("nothing, or other than floats")


def _wide(t: Any) -> Any:
    return t.astype(ms.float32) if t is not None and t.dtype in _HALF else t


def _moments(x: Any, d: tuple[int, ...]) -> tuple[Any, Any]:
    """Mean and mean square distance, dimensions kept."""
    m = mean(x, d, True)
    away = mint.sub(x, m)
    return m, mean(mint.mul(away, away), d, True)


def _rstd(v: Any, eps: float) -> Any:
    return mint.div(ms.Tensor(1, v.dtype), mint.sqrt(mint.add(v, ms.Tensor(eps, v.dtype))))


def _channel(v: Any, x: Any) -> Any:
    return v.reshape((1, -1, *(1,) * (x.ndim - 2)))


# ------------------------------------------------------------------------------------------ layer norm
@kernel("layer_norm_backward")
def _layer_norm_backward(g: Any, x: Any, w: Any, n: int, eps: float) -> Any:
    if 0 in x.shape:
        return zeros_of(x.shape, x.dtype), zeros_of((n,), x.dtype), zeros_of((n,), x.dtype)
    _floats(x)
    dtype, shape = x.dtype, tuple(x.shape)
    g, x, w = _wide(g.reshape((-1, n))), _wide(x.reshape((-1, n))), _wide(w)
    m, v = _moments(x, (1,))
    r = _rstd(v, eps)
    h = mint.mul(mint.sub(x, m), r)
    k = g if w is None else mint.mul(g, w.reshape((1, n)))
    inner = mint.sub(mint.sub(k, mean(k, 1, True)), mint.mul(h, mean(mint.mul(k, h), 1, True)))
    gx = mint.mul(inner, r).reshape(shape).astype(dtype)
    return gx, total(mint.mul(g, h), 0).astype(dtype), total(g, 0).astype(dtype)


# ------------------------------------------------------------------------------------------ batch norm
@kernel("native_batch_norm_")
def _batch_norm(x: Any, w: Any, b: Any, running_mean: Any, running_var: Any, training: bool, eps: float) -> Any:
    if x.dtype not in _FLOATS:
        raise Unsupported("other than floats")
    if 0 in x.shape:
        raise Unsupported("nothing to normalise")
    dtype = x.dtype
    x, w, b = _wide(x), _wide(w), _wide(b)
    if training:
        m, v = _moments(x, (0, *range(2, x.ndim)))
    else:
        m, v = _channel(running_mean.astype(x.dtype), x), _channel(running_var.astype(x.dtype), x)
    r = _rstd(v, eps)
    y = mint.mul(mint.sub(x, m), r)
    y = y if w is None else mint.mul(y, _channel(w.astype(x.dtype), x))
    y = y if b is None else mint.add(y, _channel(b.astype(x.dtype), x))
    return y.astype(dtype), m.reshape((-1,)), r.reshape((-1,)), v.reshape((-1,))


@kernel("batch_norm_backward")
def _batch_norm_backward(g: Any, x: Any, w: Any, m: Any, r: Any, training: bool, eps: float) -> Any:
    if 0 in x.shape:
        c = (x.shape[1],)
        return zeros_of(x.shape, x.dtype), zeros_of(c, x.dtype), zeros_of(c, x.dtype)
    _floats(x)
    dtype = x.dtype
    g, x, w = _wide(g), _wide(x), _wide(w)
    d = (0, *range(2, x.ndim))
    m, r = _channel(m.astype(x.dtype), x), _channel(r.astype(x.dtype), x)
    h = mint.mul(mint.sub(x, m), r)
    gw, gb = total(mint.mul(g, h), d), total(g, d)
    k = g
    if training:
        n = ms.Tensor(math.prod(x.shape) // x.shape[1], x.dtype)
        k = mint.sub(mint.sub(g, _channel(mint.div(gb, n), x)), mint.mul(h, _channel(mint.div(gw, n), x)))
    k = mint.mul(k, r)
    k = k if w is None else mint.mul(k, _channel(w.astype(x.dtype), x))
    return k.astype(dtype), gw, gb


# ------------------------------------------------------------------------------------------ group norm
@kernel("native_group_norm_")
def _group_norm(x: Any, groups: int, w: Any, b: Any, eps: float) -> Any:
    n = x.shape[0]
    if 0 in x.shape:
        return x, zeros_of((n, groups), x.dtype), zeros_of((n, groups), x.dtype)
    _floats(x)
    dtype = x.dtype
    wide = _wide(x)
    rows = wide.reshape((n, groups, -1))
    m, v = _moments(rows, (2,))
    r = _rstd(v, eps)
    y = mint.mul(mint.sub(rows, m), r).reshape(tuple(x.shape))
    y = y if w is None else mint.mul(y, _channel(w.astype(y.dtype), x))
    y = y if b is None else mint.add(y, _channel(b.astype(y.dtype), x))
    return y.astype(dtype), m.reshape((n, groups)).astype(dtype), r.reshape((n, groups)).astype(dtype)


@kernel("group_norm_backward")
def _group_norm_backward(g: Any, x: Any, w: Any, m: Any, r: Any, groups: int, eps: float) -> Any:
    c = (x.shape[1],)
    if 0 in x.shape:
        return zeros_of(x.shape, x.dtype), zeros_of(c, x.dtype), zeros_of(c, x.dtype)
    _floats(x)
    dtype, n, shape = x.dtype, x.shape[0], tuple(x.shape)
    g, x, w = _wide(g), _wide(x), _wide(w)
    rows, r = x.reshape((n, groups, -1)), r.astype(x.dtype).reshape((n, groups, 1))
    h = mint.mul(mint.sub(rows, m.astype(x.dtype).reshape((n, groups, 1))), r)
    d = (0, *range(2, x.ndim))
    gw, gb = total(mint.mul(g, h.reshape(shape)), d), total(g, d)
    k = (g if w is None else mint.mul(g, _channel(w, x))).reshape(tuple(rows.shape))
    inner = mint.sub(mint.sub(k, mean(k, 2, True)), mint.mul(h, mean(mint.mul(k, h), 2, True)))
    return mint.mul(inner, r).reshape(shape).astype(dtype), gw.astype(dtype), gb.astype(dtype)


# ------------------------------------------------------------------------------------------ losses by class
def _dim(x: Any) -> int:
    return 1 if x.ndim > 1 else 0


def _hits(x: Any, t: Any, ignore: int) -> tuple[Any, Any]:
    """Whether each element's class is the target, as the input's dtype, and which targets count (both of x.ndim)."""
    t = mint.unsqueeze(t.astype(ms.int64), _dim(x))
    c = x.shape[_dim(x)]
    keep = mint.not_equal(t, ms.Tensor(ignore, ms.int64))
    bad = mint.logical_or(mint.less(t, ms.Tensor(0, ms.int64)), mint.greater_equal(t, ms.Tensor(c, ms.int64)))
    if bool(mint.logical_and(bad, keep).any()):
        raise Unsupported("targets out of range")
    shape = tuple(c if i == _dim(x) else 1 for i in range(x.ndim))
    hit = ops.equal(t, const(np.arange(c, dtype=np.int64).reshape(shape)))
    return mint.logical_and(hit, keep).astype(x.dtype), keep


def _weighted(hit: Any, w: Any) -> Any:
    if w is None:
        return hit
    shape = tuple(-1 if i == _dim(hit) else 1 for i in range(hit.ndim))
    return mint.mul(hit, w.astype(hit.dtype).reshape(shape))


def _fits(x: Any, t: Any) -> None:
    want = (*x.shape[:1], *x.shape[2:]) if x.ndim > 1 else ()
    if tuple(t.shape) != want or not x.ndim:
        raise Unsupported("targets of another shape")


def _picked(x: Any, hit: Any) -> Any:
    """Sum over classes of what was hit; an infinite element that was not hit does not count."""
    return total(_where(ops.equal(hit, ms.Tensor(0, hit.dtype)), zeros(x), mint.mul(x, hit)), _dim(x))


@kernel("nll")
def nll(x: Any, t: Any, w: Any, ignore: int, reduction: str) -> Any:
    """Minus the input at the target class, weighted."""
    _floats(x)
    _fits(x, t)
    hit = _weighted(_hits(x, t, ignore)[0], w)
    losses = mint.neg(_picked(x, hit))
    if reduction == "none":
        return losses
    return total(losses) if reduction == "sum" else mint.div(total(losses), total(hit))


@kernel("cross_entropy_index")
def _cross_entropy(x: Any, t: Any, w: Any, ignore: int, reduction: str) -> Any:
    _floats(x)
    return nll(log_softmax(x, _dim(x)), t, w, ignore, reduction)


def _factors(g: Any, hit: Any, reduction: str) -> Any:
    """The gradient of each row's loss, with one class."""
    if reduction == "none":
        return mint.unsqueeze(g, _dim(hit))
    return g if reduction == "sum" else mint.div(g, total(hit))


@kernel("nll_loss_backward")
def _nll_backward(g: Any, x: Any, t: Any, w: Any, ignore: int, reduction: str) -> Any:
    _floats(x)
    _fits(x, t)
    hit = _weighted(_hits(x, t, ignore)[0], w)
    return _where(ops.equal(hit, ms.Tensor(0, hit.dtype)), zeros(x), mint.neg(mint.mul(hit, _factors(g, hit, reduction))))


@kernel("cross_entropy_backward")
def _cross_entropy_backward(g: Any, x: Any, t: Any, w: Any, ignore: int, reduction: str) -> Any:
    _floats(x)
    _fits(x, t)
    hit = _weighted(_hits(x, t, ignore)[0], w)
    each = total(hit, _dim(x), True)
    r = mint.mul(mint.sub(mint.mul(softmax(x, _dim(x)), each), hit), _factors(g, hit, reduction))
    return _where(mint.broadcast_to(ops.equal(each, ms.Tensor(0, each.dtype)), r.shape), zeros(r), r)
