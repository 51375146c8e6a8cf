"""MindSpore kernels of layers: products, convolutions, normalisation, losses."""

from __future__ import annotations

from typing import Any

import numpy as np

from mindtorch.engine.mindspore import door
from mindtorch.engine.mindspore.kernels import Unsupported, kernel
from mindtorch.engine.mindspore.kernels.moves import zeros_of
from mindtorch.engine.mindspore.kernels.pointwise import beside
from mindtorch.engine.mindspore.kernels.reductions import mean, total

ms = door.load()
mint, ops = ms.mint, ms.ops
_FLOATS = (ms.float16, ms.bfloat16, ms.float32, ms.float64)


def _filled(*ts: Any) -> None:
    if any(0 in t.shape for t in ts) or ts[0].dtype not in _FLOATS:
        raise Unsupported("nothing, or other than floats")


_WHOLE = (ms.int8, ms.int16, ms.int32, ms.int64, ms.uint8)


@kernel("matmul")
def product(a: Any, b: Any) -> Any:
    """Matrix product of vectors, matrices and batches."""
    if a.dtype != b.dtype or not a.ndim or not b.ndim or a.dtype == ms.bool_:
        raise Unsupported("operands that PyTorch refuses")
    if 0 in a.shape or 0 in b.shape:
        return zeros_of(_shape(a, b), a.dtype)
    if a.ndim == 1 and b.ndim == 1:
        return total(mint.mul(a, b)).astype(a.dtype)
    if a.dtype in _WHOLE:
        if a.ndim == 1 or b.ndim == 1:
            return _vector(a, b)
        return total(mint.mul(mint.unsqueeze(a, -1), mint.unsqueeze(b, -3)), -2).astype(a.dtype)
    return ops.matmul(a, b)


def _vector(a: Any, b: Any) -> Any:
    """Whole numbers: a matrix times a vector, or a vector times a matrix."""
    if b.ndim == 1:
        return total(mint.mul(a, b), -1).astype(a.dtype)
    return total(mint.mul(mint.unsqueeze(a, -1), b), -2).astype(a.dtype)


def _shape(a: Any, b: Any) -> tuple[int, ...]:
    """Shape of the product; RuntimeError of NumPy's kind when operands do not fit."""
    return np.matmul(np.broadcast_to(np.int8(0), tuple(a.shape)), np.broadcast_to(np.int8(0), tuple(b.shape))).shape


def _exact(name: str, na: int, nb: int) -> Any:
    """The product of operands of just these numbers of dimensions, with one batch size."""

    def run(a: Any, b: Any) -> Any:
        if (a.ndim, b.ndim) != (na, nb) or (na == 3 and a.shape[0] != b.shape[0]):
            raise Unsupported("operands that PyTorch refuses")
        return product(a, b)

    run.__name__ = name
    kernel(name)(run)
    return run


_mm, _bmm, _mv, _dot = _exact("mm", 2, 2), _exact("bmm", 3, 3), _exact("mv", 2, 1), _exact("dot", 1, 1)


def _scaled(x: Any, by: Any) -> Any:
    return x if by == 1 else mint.mul(x, beside(by, x))


def _sum_with(name: str, fn: Any) -> None:
    def run(x: Any, a: Any, b: Any, beta: Any = 1, alpha: Any = 1) -> Any:
        p = _scaled(fn(a, b), alpha)
        if np.broadcast_shapes(tuple(x.shape), tuple(p.shape)) != tuple(p.shape):
            raise Unsupported("a summand larger than the product")
        if beta == 0:
            return p
        return mint.add(_scaled(x, beta), p)

    run.__name__ = name
    kernel(name)(run)


_sum_with("addmm", _mm)
_sum_with("addmv", _mv)
_sum_with("baddbmm", _bmm)
_sum_with("addbmm", lambda a, b: total(_bmm(a, b), 0))


def _t(x: Any) -> Any:
    return mint.transpose(x, -2, -1)


@kernel("linear")
def _linear(x: Any, weight: Any, bias: Any = None) -> Any:
    if weight.ndim != 2:
        raise Unsupported("a vector for weight")
    y = product(x, _t(weight))
    return y if bias is None else mint.add(y, bias)


@kernel("linear_input")
def _linear_input(g: Any, weight: Any) -> Any:
    return product(g, weight)


@kernel("linear_weight")
def _linear_weight(g: Any, x: Any) -> Any:
    return product(_t(g.reshape((-1, g.shape[-1]))), x.reshape((-1, x.shape[-1])))


@kernel("linear_bias")
def _linear_bias(g: Any) -> Any:
    return total(g.reshape((-1, g.shape[-1])), 0)


# ------------------------------------------------------------------------------------------ normalisation
@kernel("layer_norm")
def _layer_norm(x: Any, shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Any:
    if not shape:
        raise Unsupported("nothing to normalise")
    if 0 in x.shape:
        return x
    _filled(x)
    d = tuple(range(x.ndim - len(shape), x.ndim))
    away = mint.sub(x, mean(x, d, True))
    v = mean(mint.mul(away, away), d, True)
    y = mint.mul(away, mint.rsqrt(mint.add(v, beside(eps, v))))
    if weight is not None:
        y = mint.mul(y, weight)
    return y if bias is None else mint.add(y, bias)


# ------------------------------------------------------------------------------------------ losses
@kernel("mse")
def _mse(x: Any, target: Any, reduction: str = "mean") -> Any:
    _filled(x, target)
    d = mint.sub(x, target)
    e = mint.mul(d, d)
    return e if reduction == "none" else total(e) if reduction == "sum" else mean(e)
