"""``linear`` and ``bilinear``. The products of linear's backward pass are ops, differentiable by each other."""

from __future__ import annotations

from typing import Any

import numpy as np

from mindtorch.core.errors import check
from mindtorch.core.nodes import ORDER
from mindtorch.core.tensor import Tensor
from mindtorch.engine.host.quiet import EXTOBJ as E
from mindtorch.ops.table import composite, op, vjp

_ones: dict[tuple[Any, int], np.ndarray] = {}


def column_sums(g: np.ndarray) -> Any:
    """Sum over all dimensions but the last, as a product with cached ones (BLAS gemv)."""
    rows = g.size // g.shape[-1] if g.shape[-1] else 0
    two = g if g.ndim == 2 else g.reshape(rows, g.shape[-1])
    if g.dtype.kind != "f" or rows > 65536:
        return two.sum(0)
    key = (g.dtype, rows)
    one = _ones.get(key)
    if one is None:
        if len(_ones) > 64:
            _ones.clear()
        one = _ones[key] = np.ones(rows, g.dtype)
    return one.dot(two)


def product(a: np.ndarray, m: np.ndarray) -> Any:
    """a (..., k) times m (k, n): one GEMM over flattened rows (NumPy's dot leaves BLAS beyond two dimensions)."""
    rows = a.size // a.shape[-1] if a.shape[-1] else 0
    if not rows:
        return np.zeros((*a.shape[:-1], m.shape[1]), a.dtype)
    return a.reshape(rows, a.shape[-1]).dot(m).reshape((*a.shape[:-1], m.shape[1]))


@op(
    "linear_input(T grad, T weight)",
    ns="_C",
    half="f32",
    node="MmBackward0",
    grad={"grad": lambda g, weight: linear(g, weight), "weight": lambda g, grad: linear_weight(grad, g)},
)
def linear_input(g: np.ndarray, w: np.ndarray) -> Any:
    """grad (..., out) times weight (out, in): (..., in)."""
    return g.dot(w) if g.ndim <= 2 else product(g, w)


@op(
    "linear_weight(T grad, T input)",
    ns="_C",
    half="f32",
    node="MmBackward0",
    grad={"grad": lambda g, input: linear(input, g), "input": lambda g, grad: linear_input(grad, g)},
)
def linear_weight(g: np.ndarray, x: np.ndarray) -> Any:
    """Sum over rows of the outer products of grad (..., out) and input (..., in): (out, in)."""
    if g.ndim != 2:
        g = g.reshape(-1, g.shape[-1]) if g.size else g.reshape(0, g.shape[-1])
        x = x.reshape(-1, x.shape[-1]) if x.size else x.reshape(g.shape[0], x.shape[-1])
    return g.T.dot(x)


@op(
    "linear_bias(T grad)",
    ns="_C",
    half="f32",
    node="SumBackward1",
    grad={"grad": lambda g, grad_shape: g.expand(grad_shape)},
)
def linear_bias(g: np.ndarray) -> Any:
    """Sum over all dimensions but the last."""
    return column_sums(g)


def _rule(g: Tensor, needs: Any, input: Tensor, weight: Tensor) -> tuple[Any, Any, Any]:
    w = weight.conj() if weight.k.cat == 3 else weight
    gi = linear_input(g, w) if needs[0] else None
    gw = None
    if needs[1]:
        gw = linear_weight(g, input.conj() if input.k.cat == 3 else input)
    return gi, gw, linear_bias(g) if needs[2] else None


def _explain(a: np.ndarray, w: np.ndarray, b: np.ndarray | None) -> None:
    """Raise PyTorch's error for operands that do not fit; return when they do."""
    if w.dtype != a.dtype:
        raise RuntimeError(f"expected m1 and m2 to have the same dtype, but got: {_c_name(a)} != {_c_name(w)}")
    if b is not None and b.dtype != a.dtype:
        raise RuntimeError(f"self and mat2 must have the same dtype, but got {_name(b)} and {_name(a)}")
    rows = a.size // a.shape[-1] if a.ndim and a.shape[-1] else 0
    if w.ndim == 2 and a.ndim and a.shape[-1] != w.shape[1]:
        if a.ndim == 1:
            raise RuntimeError(
                f"size mismatch, got input ({w.shape[0]}), mat ({w.shape[0]}x{w.shape[1]}), vec ({a.shape[0]})"
            )
        raise RuntimeError(
            f"mat1 and mat2 shapes cannot be multiplied ({rows}x{a.shape[-1]} and {w.shape[1]}x{w.shape[0]})"
        )
    check(w.ndim in (1, 2), RuntimeError, f"linear(): weight must have 1 or 2 dimensions, got {w.ndim}")
    check(a.ndim > 0, RuntimeError, "linear(): argument 'input' must have at least 1 dimension")


def _c_name(a: np.ndarray) -> str:
    names = {
        "float32": "float",
        "float64": "double",
        "float16": "c10::Half",
        "bfloat16": "c10::BFloat16",
        "int64": "long int",
        "int32": "int",
    }
    return names.get(a.dtype.name, a.dtype.name)


def _name(a: np.ndarray) -> str:
    names = {
        "float32": "Float",
        "float64": "Double",
        "float16": "Half",
        "bfloat16": "BFloat16",
        "int64": "Long",
        "int32": "Int",
    }
    return names.get(a.dtype.name, a.dtype.name)


@op(
    "linear(T input, T weight, T? bias=None)",
    ns="F",
    half="f32",
    node="UnsafeViewBackward0",
    nodes={
        "input.a.ndim == 2 and bias is not None": "AddmmBackward0",
        "bias is not None": "ViewBackward0",
        "input.a.ndim == 2": "MmBackward0",
        "input.a.ndim == 1": "SqueezeBackward4",
    },
    grad=vjp(("input", "weight", "bias"), _rule, input=("weight",), weight=("input",)),
)
def linear(a: np.ndarray, w: np.ndarray, b: np.ndarray | None) -> Any:
    """input (..., in) times the transpose of weight (out, in), plus bias (out)."""
    if a.dtype is not w.dtype or w.ndim != 2 or a.ndim == 0 or a.shape[-1] != w.shape[1]:
        _explain(a, w, b)
        if w.ndim == 1:
            return _vector(a, w, b)
    r = a.dot(w.T) if a.ndim <= 2 else product(a, w.T)
    if b is None:
        return r
    if b.dtype is not r.dtype:
        _explain(a, w, b)
    return np.add(r, b, r if r.ndim else None, extobj=E)


# PyTorch's addmm takes the bias first and the weight through a transpose, whose node is newer than the input's
ORDER.update({
    ("linear", "AddmmBackward0"): (2, 0, 1),
    ("linear", "ViewBackward0"): (2, 1, 0),
    ("linear", "UnsafeViewBackward0"): (1, 0, 2),
})  # fmt: skip


def _vector(a: np.ndarray, w: np.ndarray, b: np.ndarray | None) -> Any:
    r = np.asarray(a.dot(w))
    return r if b is None else r + b


@composite("bilinear(T input1, T input2, T weight, T? bias=None)", ns="F torch")
def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Any) -> Tensor:
    """input1 (..., a), input2 (..., b), weight (out, a, b): sum over a and b, plus bias (out)."""
    check(
        input1.shape[:-1] == input2.shape[:-1],
        RuntimeError,
        f"bilinear(): input batch dimensions do not match: got {list(input1.shape)} and {list(input2.shape)}",
    )
    out, a, b = weight.shape
    for n, t, want in ((1, input1, a), (2, input2, b)):
        check(
            t.shape[-1] == want,
            RuntimeError,
            f"bilinear(): input{n} size does not match weight size: got {t.shape[-1]} but expected {want}",
        )
    half = linear(input1, weight.transpose(1, 2).reshape(out * b, a)).reshape([*input1.shape[:-1], out, b])
    r = (half * input2.unsqueeze(-2)).sum(-1)
    return r if bias is None else r + bias
