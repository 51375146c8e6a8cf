"""Running reductions along one dimension, and finite differences and integrals built on them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mindtorch.core import dtype as D
from mindtorch.core.errors import check, wrap_dim
from mindtorch.core.signature import to_int
from mindtorch.core.tensor import Tensor, constant
from mindtorch.engine.host import scan as K
from mindtorch.ops.table import SPACES, composite, op


def _back_sum(g: Tensor, dim: int) -> Tensor:
    """Cumulative sum from the far end."""
    return g if g.a.ndim == 0 else cumsum(g.flip((dim,)), dim).flip((dim,))


cumsum = op(
    "cumsum(T input, dim dim, *, dtype? dtype=None)",
    half="f32",
    inplace=True,
    out=True,
    grad={"input": lambda g, dim: _back_sum(g, dim)},
)(K.cumsum)


def _cumprod_grad(g: Tensor, input: Tensor, out: Tensor, dim: int) -> Tensor:
    if input.dtype is not out.dtype:
        input = input.to(out.dtype)
    if input.a.ndim == 0:
        return g
    if not (input.a == 0).any():
        return _back_sum(g * out.conj(), dim) / input.conj()
    d = wrap_dim(dim, input.a.ndim)
    x = input.movedim(d, -1)
    n = x.shape[-1]
    # Row k of the square holds x with element k replaced by 1; its running products are the derivatives by x[k].
    eye = constant(np.eye(n, dtype=bool))
    square = x.unsqueeze(-2).expand((*x.shape[:-1], n, n)).masked_fill(eye, 1)
    run = cumprod(square, -1).masked_fill(constant(np.tri(n, n, -1, dtype=bool)), 0)
    return (run.conj() * g.movedim(d, -1).unsqueeze(-2)).sum(-1).movedim(-1, d)


cumprod = op(
    "cumprod(T input, dim dim, *, dtype? dtype=None)",
    half="f32",
    inplace=True,
    out=True,
    grad={"input": lambda g, input, out, dim: _cumprod_grad(g, input, out, dim)},
)(K.cumprod)


def _scatter_back(g: Any, input: Tensor, dim: int, out: Any) -> Tensor:
    if input.a.ndim == 0:
        return g[0]
    return g[0].new_zeros(input.a.shape).scatter_add(dim, out[1], g[0])


def _cum_extreme(name: str, kernel: Any) -> Any:
    return op(
        f"{name}(T input, dim dim)",
        half="f32",
        out=True,
        structseq="values indices",
        nondiff=(1,),
        grad={"input": lambda g, input, dim, out: _scatter_back(g, input, dim, out)},
    )(kernel)


cummax = _cum_extreme("cummax", K.cummax)
cummin = _cum_extreme("cummin", K.cummin)


def _logcumsumexp_grad(g: Tensor, input: Tensor, out: Tensor, dim: int) -> Tensor:
    """In logarithms, positive and negative gradients apart, so that nothing overflows."""
    if input.a.ndim == 0:
        return g

    def back(log_g: Tensor) -> Tensor:
        t = log_g - out
        return logcumsumexp(t.flip((dim,)), dim).flip((dim,)) + input

    if input.dtype.is_complex:
        return back(g.conj().log()).exp().conj()
    low = -math.inf
    pos = back(g.masked_fill(g <= 0, 1).log().masked_fill(g <= 0, low)).exp()
    neg = back((-g).masked_fill(g >= 0, 1).log().masked_fill(g >= 0, low)).exp()
    return pos - neg


logcumsumexp = op(
    "logcumsumexp(T input, dim dim)",
    half="f32",
    out=True,
    grad={"input": lambda g, input, out, dim: _logcumsumexp_grad(g, input, out, dim)},
)(K.logcumsumexp)


# ------------------------------------------------------------------------------------------ differences, integrals
@composite("diff(T input, int n=1, any dim=-1, any prepend=None, any append=None)", out=True)
def diff(input: Tensor, n: int = 1, dim: Any = -1, prepend: Any = None, append: Any = None) -> Tensor:
    """``n``-th forward difference along ``dim``, after joining ``prepend`` and ``append``."""
    check(input.a.ndim > 0, RuntimeError, "diff expects input to be at least one-dimensional")
    check(n >= 0, RuntimeError, f"order must be non-negative but got {n}")
    d = wrap_dim(to_int(dim), input.a.ndim)
    if n == 0:
        return input.clone()
    parts = [t for t in (prepend, input, append) if t is not None]
    if len(parts) > 1:
        input = SPACES["torch"]["cat"](parts, d)
    for _ in range(min(n, input.shape[d])):
        m = max(input.shape[d] - 1, 0)
        first, second = input.narrow(d, 0, m), input.narrow(d, input.shape[d] - m, m)
        input = second.logical_xor(first) if input.dtype is D.bool_ else second - first
    return input


def _steps(y: Tensor, x: Any, dim: int) -> Tensor:
    """Distances between the sample points, shaped to multiply slices of ``y``."""
    if x.a.ndim == 1:
        check(
            x.shape[0] == y.shape[dim],
            RuntimeError,
            f"trapezoid: There must be one `x` value for each sample point, got {x.shape[0]} for {y.shape[dim]}",
        )
        shape = [1] * y.a.ndim
        shape[dim] = max(x.shape[0] - 1, 0)
        return diff(x).reshape(shape)
    if x.a.ndim < y.a.ndim:
        x = x.reshape((1,) * (y.a.ndim - x.a.ndim) + x.a.shape)
    return diff(x, 1, dim)


def _slabs(y: Tensor, x: Any, dx: Any, dim: Any) -> tuple[Tensor, int]:
    check(y.dtype is not D.bool_, RuntimeError, "trapezoid: received a bool input for `y`, but bool is not supported")
    d = wrap_dim(to_int(dim), y.a.ndim)
    n = y.shape[d]
    m = max(n - 1, 0)
    both = y.narrow(d, 0, m) + y.narrow(d, n - m, m)
    if x is not None:
        check(
            x.dtype is not D.bool_, RuntimeError, "trapezoid: received a bool input for `x`, but bool is not supported"
        )
        return both * _steps(y, x, d) / 2, d
    return both * dx / 2, d


def _args(x: Any, dx: Any) -> tuple[Any, Any]:
    """``x`` may be a number in the place of ``dx``."""
    if x is not None and not isinstance(x, Tensor):
        return None, x
    check(x is None or dx is None, TypeError, "trapezoid(): give x or dx, not both")
    return x, 1 if dx is None else dx


@composite("trapezoid(T y, any x=None, *, any dx=None, any dim=-1)", ns="torch")
def trapezoid(y: Tensor, x: Any = None, *, dx: Any = None, dim: Any = -1) -> Tensor:
    """Integral of ``y`` along ``dim`` by the trapezoidal rule, at points ``x`` or with spacing ``dx``."""
    x, dx = _args(x, dx)
    slabs, d = _slabs(y, x, dx, dim)
    return slabs.sum(d)


@composite("trapz(T y, any x=None, *, any dx=None, any dim=-1)", ns="torch")
def trapz(y: Tensor, x: Any = None, *, dx: Any = None, dim: Any = -1) -> Tensor:
    """Alias of ``trapezoid``."""
    return trapezoid(y, x, dx=dx, dim=dim)


@composite("cumulative_trapezoid(T y, any x=None, *, any dx=None, any dim=-1)", ns="torch")
def cumulative_trapezoid(y: Tensor, x: Any = None, *, dx: Any = None, dim: Any = -1) -> Tensor:
    """Running integral of ``y`` along ``dim``."""
    x, dx = _args(x, dx)
    slabs, d = _slabs(y, x, dx, dim)
    return slabs.cumsum(d)
