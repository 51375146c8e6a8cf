"""MindSpore kernels of activations, their slopes and element-by-element losses, composed so that the numbers are PyTorch's."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mindtorch.engine.mindspore import door
from mindtorch.engine.mindspore.kernels import Unsupported, kernel, table
from mindtorch.engine.mindspore.kernels.pointwise import _where, pair, zeros
from mindtorch.engine.mindspore.kernels.reductions import total

ms = door.load()
mint, ops = ms.mint, ms.ops
_FLOATS = (ms.float16, ms.bfloat16, ms.float32, ms.float64)


def _like(v: float, x: Any) -> Any:
    return mint.broadcast_to(ms.Tensor(v, x.dtype), x.shape)


def number(v: float, x: Any) -> Any:
    """A number in the dtype of a tensor."""
    return ms.Tensor(v, x.dtype)


def _floats(x: Any) -> None:
    if x.dtype not in _FLOATS:
        raise Unsupported("other than floats")


def tanh(x: Any) -> Any:
    """Hyperbolic tangent, composed."""
    return table()["tanh"](x)


def softplus_of(x: Any) -> Any:
    """log(1 + exp(x)) without overflow."""
    return mint.add(mint.maximum(x, number(0, x)), mint.log1p(mint.exp(mint.neg(mint.abs(x)))))


@kernel("_threshold")
def _threshold(x: Any, threshold: Any, value: Any) -> Any:
    return _where(mint.less_equal(x, number(threshold, x)), _like(value, x), x)


@kernel("_hardtanh")
def _hardtanh(x: Any, low: Any, high: Any) -> Any:
    y = _where(mint.less(x, number(low, x)), _like(low, x), x)
    return _where(mint.greater(y, number(high, x)), _like(high, x), y)


def _outside(x: Any, low: float, high: float) -> Any:
    return mint.logical_or(mint.less_equal(x, number(low, x)), mint.greater_equal(x, number(high, x)))


@kernel("hardtanh_backward")
def _hardtanh_backward(g: Any, x: Any, low: Any, high: Any) -> Any:
    return _where(_outside(x, low, high), zeros(g), g)


@kernel("_leaky_relu")
def _leaky_relu(x: Any, slope: Any = 0.01) -> Any:
    _floats(x)
    return _where(mint.greater(x, number(0, x)), x, mint.mul(x, number(slope, x)))


@kernel("leaky_relu_backward")
def _leaky_relu_backward(g: Any, x: Any, slope: Any) -> Any:
    return _where(mint.greater(x, number(0, x)), g, mint.mul(g, number(slope, g)))


@kernel("_prelu")
def _prelu(x: Any, weight: Any) -> Any:
    _floats(x)
    scaled = mint.mul(x, weight)
    return _where(mint.greater(mint.broadcast_to(x, scaled.shape), number(0, x)), mint.broadcast_to(x, scaled.shape), scaled)


def _elu(x: Any, alpha: Any = 1.0, scale: Any = 1.0, input_scale: Any = 1.0) -> Any:
    _floats(x)
    low = mint.mul(mint.expm1(mint.mul(x, number(input_scale, x))), number(alpha * scale, x))
    return _where(mint.greater(x, number(0, x)), mint.mul(x, number(scale, x)), low)


kernel("_elu")(_elu)


@kernel("_celu")
def _celu(x: Any, alpha: Any = 1.0, scale: Any = 1.0, input_scale: Any = 1.0) -> Any:
    return _elu(x, alpha, scale, input_scale / alpha)


@kernel("elu_backward")
def _elu_backward(g: Any, x: Any, alpha: Any, scale: Any, input_scale: Any) -> Any:
    low = mint.mul(mint.exp(mint.mul(x, number(input_scale, x))), number(alpha * scale * input_scale, x))
    return mint.mul(g, _where(mint.greater(x, number(0, x)), _like(scale, x), low))


@kernel("softplus")
def _softplus(x: Any, beta: Any = 1.0, threshold: Any = 20.0) -> Any:
    _floats(x)
    z = mint.mul(x, number(beta, x))
    return _where(mint.greater(z, number(threshold, x)), x, mint.div(softplus_of(z), number(beta, x)))


@kernel("softplus_backward")
def _softplus_backward(g: Any, x: Any, beta: Any, threshold: Any) -> Any:
    z = mint.mul(x, number(beta, x))
    return _where(mint.greater(z, number(threshold, x)), g, mint.mul(g, mint.sigmoid(z)))


@kernel("logsigmoid")
def _logsigmoid(x: Any) -> Any:
    _floats(x)
    return mint.neg(softplus_of(mint.neg(x)))


@kernel("log_sigmoid_backward")
def _log_sigmoid_backward(g: Any, x: Any) -> Any:
    return mint.mul(g, mint.sigmoid(mint.neg(x)))


@kernel("_mish")
def _mish(x: Any) -> Any:
    _floats(x)
    return mint.mul(x, tanh(softplus_of(x)))


@kernel("mish_backward")
def _mish_backward(g: Any, x: Any) -> Any:
    t = tanh(softplus_of(x))
    slope = mint.mul(mint.mul(x, mint.sigmoid(x)), mint.sub(number(1, x), mint.mul(t, t)))
    return mint.mul(g, mint.add(t, slope))


def _ramp(x: Any) -> Any:
    y = mint.add(x, number(3, x))
    y = _where(mint.less(y, number(0, x)), zeros(y), y)
    return mint.div(_where(mint.greater(y, number(6, x)), _like(6, y), y), number(6, x))


@kernel("_hardsigmoid")
def _hardsigmoid(x: Any) -> Any:
    _floats(x)
    return _ramp(x)


@kernel("hardsigmoid_backward")
def _hardsigmoid_backward(g: Any, x: Any) -> Any:
    return _where(_outside(x, -3, 3), zeros(g), mint.div(g, number(6, g)))


@kernel("_hardswish")
def _hardswish(x: Any) -> Any:
    _floats(x)
    return mint.mul(x, _ramp(x))


@kernel("hardswish_backward")
def _hardswish_backward(g: Any, x: Any) -> Any:
    inner = mint.mul(g, mint.add(mint.div(x, number(3, x)), number(0.5, x)))
    r = _where(mint.less_equal(x, number(-3, x)), zeros(g), inner)
    return _where(mint.greater_equal(x, number(3, x)), g, r)


@kernel("hardshrink")
def _hardshrink(x: Any, lambd: Any = 0.5) -> Any:
    _floats(x)
    return _where(_inside(x, lambd), zeros(x), x)


def _inside(x: Any, lambd: Any) -> Any:
    return mint.less_equal(mint.abs(x), number(lambd, x))


@kernel("softshrink")
def _softshrink(x: Any, lambd: Any = 0.5) -> Any:
    _floats(x)
    return _where(_inside(x, lambd), zeros(x), mint.sub(x, mint.mul(mint.sign(x), number(lambd, x))))


@kernel("shrink_backward")
def _shrink_backward(g: Any, x: Any, lambd: Any) -> Any:
    return _where(_inside(x, lambd), zeros(g), g)


# ------------------------------------------------------------------------------------------ losses of elements
@kernel("mse_loss_backward")
def _mse_backward(g: Any, x: Any, target: Any, reduction: str) -> Any:
    d = mint.mul(mint.sub(x, target), number(2, x))
    if reduction == "mean":
        n = max(math.prod(d.shape), 1)
        d = mint.div(d, number(n, d))
    return mint.mul(d, g)


@kernel("bce_elements")
def _bce_elements(x: Any, target: Any) -> Any:
    x, target = pair(x, target)
    if 0 in x.shape or 0 in target.shape:
        raise Unsupported("no elements")
    low = number(-100, x)
    one = mint.maximum(mint.log(x), low)
    other = mint.maximum(mint.log1p(mint.neg(x)), low)
    return mint.sub(mint.mul(mint.sub(target, number(1, x)), other), mint.mul(target, one))


# ------------------------------------------------------------------------------------------ small functions
@kernel("nan_to_num")
def _nan_to_num(x: Any, nan: Any = None, posinf: Any = None, neginf: Any = None) -> Any:
    if x.dtype not in _FLOATS:
        if str(x.dtype).startswith("Complex"):
            raise Unsupported("complex numbers")
        return x
    from mindtorch.engine.mindspore.kernels import np_dtype

    name = np_dtype(x)
    import ml_dtypes

    info = ml_dtypes.finfo(name)
    big, small = float(info.max), float(info.min)
    y = _where(mint.not_equal(x, x), _like(0.0 if nan is None else nan, x), x)
    y = _where(ops.equal(y, number(np.inf, x)), _like(big if posinf is None else posinf, x), y)
    return _where(ops.equal(y, number(-np.inf, x)), _like(small if neginf is None else neginf, x), y)


@kernel("isclose")
def _isclose(x: Any, y: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Any:
    if str(x.dtype).startswith("Complex") or x.dtype == ms.bool_:
        raise Unsupported("closeness of these")
    same = ops.equal(x, y)
    if x.dtype in _FLOATS:
        near = mint.less_equal(mint.abs(mint.sub(x, y)), mint.add(mint.mul(mint.abs(y), number(rtol, y)), number(atol, y)))
        same = mint.logical_or(same, mint.logical_and(near, mint.isfinite(y)))
        if equal_nan:
            same = mint.logical_or(same, mint.logical_and(mint.not_equal(x, x), mint.not_equal(y, y)))
        return same
    wide = [t.astype(ms.float64) for t in (x, y)]
    bound = mint.add(mint.mul(mint.abs(wide[1]), number(rtol, wide[1])), number(atol, wide[1]))
    return mint.logical_or(same, mint.less_equal(mint.abs(mint.sub(*wide)), bound))


@kernel("nansum")
def _nansum(x: Any, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Any:
    if str(x.dtype).startswith("Complex"):
        raise Unsupported("complex numbers")
    if x.dtype in _FLOATS:
        x = _where(mint.not_equal(x, x), zeros(x), x)
    return total(x, dim, keepdim, dtype)


@kernel("xlog1py")
def _xlog1py(x: Any, y: Any) -> Any:
    x, y = pair(x, y)
    r = mint.mul(x, mint.log1p(y))
    none = mint.logical_and(mint.broadcast_to(ops.equal(x, number(0, x)), r.shape),
                            mint.broadcast_to(ops.equal(y, y), r.shape))  # fmt: skip
    return _where(none, zeros(r), r)


@kernel("entr")
def _entr(x: Any) -> Any:
    r = mint.mul(mint.neg(x), mint.log(x))
    r = _where(ops.equal(x, number(0, x)), zeros(r), r)
    return _where(mint.less(x, number(0, x)), _like(-np.inf, r), r)


@kernel("logit")
def _logit(x: Any, eps: Any = None) -> Any:
    if eps is not None:
        x = _where(mint.less(x, number(eps, x)), _like(eps, x), x)
        x = _where(mint.greater(x, number(1 - eps, x)), _like(1 - eps, x), x)
    return mint.log(mint.div(x, mint.sub(number(1, x), x)))


@kernel("angle")
def _angle(x: Any) -> Any:
    if str(x.dtype).startswith("Complex"):
        raise Unsupported("angle of complex numbers")
    y = x if x.dtype in _FLOATS else x.astype(ms.float32)
    r = _where(mint.less(y, number(0, y)), _like(math.pi, y), zeros(y))
    return _where(mint.not_equal(y, y), y, r)


@kernel("polar")
def _polar(size: Any, angle: Any) -> Any:
    size, angle = (mint.broadcast_to(t, np.broadcast_shapes(tuple(size.shape), tuple(angle.shape))) for t in (size, angle))
    return ops.Complex()(mint.mul(size, mint.cos(angle)), mint.mul(size, mint.sin(angle)))


@kernel("_euclidean_dist")
def _euclidean_dist(a: Any, b: Any) -> Any:
    d = mint.sub(mint.unsqueeze(a, -2), mint.unsqueeze(b, -3))
    return mint.sqrt(total(mint.mul(d, d), -1))


@kernel("linalg_vector_norm")
def _vector_norm(x: Any, ord: float, dim: Any, keepdim: bool) -> Any:
    if x.dtype not in _FLOATS or 0 in x.shape:
        raise Unsupported("norm of complex numbers or of nothing")
    a = mint.abs(x)
    if math.isinf(ord):
        return table()["amax" if ord > 0 else "amin"](a, () if dim is None else dim, keepdim)
    if ord == 0:
        return total(mint.not_equal(a, number(0, a)).astype(a.dtype), dim, keepdim)
    if ord == 1:
        return total(a, dim, keepdim)
    if ord == 2:
        return mint.sqrt(total(mint.mul(a, a), dim, keepdim))
    return mint.pow(total(mint.pow(a, number(ord, a)), dim, keepdim), number(1 / ord, a))


@kernel("renorm_scale")
def _renorm_scale(x: Any, p: Any, dim: int, maxnorm: Any) -> Any:
    axes = tuple(i for i in range(x.ndim) if i != dim % x.ndim)
    n = _vector_norm(x, p, axes, True)
    scaled = mint.div(number(maxnorm, n), mint.add(n, number(1e-7, n)))
    return _where(mint.greater(n, number(maxnorm, n)), scaled, _like(1, n))


@kernel("vdot")
def _vdot(a: Any, b: Any) -> Any:
    if 0 in a.shape:
        raise Unsupported("nothing")
    a = ops.Conj()(a) if str(a.dtype).startswith("Complex") else a
    return total(mint.mul(a, b))
