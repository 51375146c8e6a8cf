"""MindSpore kernels of layers: products, convolutions, normalisation, losses."""

from __future__ import annotations

from typing import Any

from mindtorch.engine.mindspore import door
from mindtorch.engine.mindspore.kernels import Unsupported, kernel
from mindtorch.engine.mindspore.kernels.pointwise import beside, zeros
from mindtorch.engine.mindspore.kernels.reductions import mean, total

ms = door.load()
mint, ops = ms.mint, ms.ops
_FLOATS = (ms.float16, ms.bfloat16, ms.float32, ms.float64)


def _filled(*ts: Any) -> None:
    if any(0 in t.shape for t in ts) or ts[0].dtype not in _FLOATS:
        raise Unsupported("nothing, or other than floats")


@kernel("matmul", "mm", "bmm", "mv", "dot")
def product(a: Any, b: Any) -> Any:
    """Matrix product of vectors, matrices and batches."""
    _filled(a, b)
    if a.ndim == 1 and b.ndim == 1:
        return total(mint.mul(a, b))
    return ops.matmul(a, b)


def _scaled(x: Any, by: Any) -> Any:
    return x if by == 1 else mint.mul(x, beside(by, x))


@kernel("addmm", "addmv", "baddbmm")
def _addmm(x: Any, a: Any, b: Any, beta: Any = 1, alpha: Any = 1) -> Any:
    p = _scaled(product(a, b), alpha)
    return p if beta == 0 else mint.add(_scaled(x, beta), p)


@kernel("addbmm")
def _addbmm(x: Any, a: Any, b: Any, beta: Any = 1, alpha: Any = 1) -> Any:
    p = _scaled(total(product(a, b), 0), alpha)
    return p if beta == 0 else mint.add(_scaled(x, beta), p)


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
    _filled(g, x)
    return product(_t(g.reshape((-1, g.shape[-1]))), x.reshape((-1, x.shape[-1])))


@kernel("linear_bias")
def _linear_bias(g: Any) -> Any:
    return total(g.reshape((-1, g.shape[-1])), 0)


# ------------------------------------------------------------------------------------------ normalisation
@kernel("layer_norm")
def _layer_norm(x: Any, shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Any:
    _filled(x)
    if not shape:
        raise Unsupported("no dimensions to normalise")
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


__all__ = ["zeros"]
