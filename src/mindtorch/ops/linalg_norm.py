"""Vector and matrix norms of torch.linalg."""

from __future__ import annotations

from typing import Any

import numpy as np

from mindtorch.core import dtype as D
from mindtorch.core.errors import check, wrap_dim
from mindtorch.core.signature import is_number, to_ints
from mindtorch.core.tensor import Tensor
from mindtorch.engine.host import reduce as R
from mindtorch.ops.reduce import dims_of, restore
from mindtorch.ops.table import composite, op


def _vnorm_grad(g: Tensor, input: Tensor, ord: float, dim: Any, keepdim: bool, out: Tensor) -> Tensor:
    g, n = restore(g, input, dim, keepdim), restore(out, input, dim, keepdim)
    if ord == 0:
        return input.new_zeros(input.shape)
    if ord == 1:
        return input.sgn() * g
    if ord == 2:
        return input * (g / n).masked_fill(n == 0, 0)
    if ord in (np.inf, -np.inf):
        hit = (input.abs() == n) | (n.isnan() & input.isnan())
        hit = hit.to(n.dtype)
        many = hit.sum(dim, keepdim=True) if dim else hit.sum()
        return input.sgn() * (hit * (g / many))
    size = input.abs()
    scale = g / n.pow(ord - 1)
    if ord < 2:
        return input.sgn() * size.pow(ord - 1).masked_fill(input == 0, 0) * scale.masked_fill(n == 0, 0)
    return input * size.pow(ord - 2) * scale.masked_fill(n == 0, 0)


_vector_norm = op(
    "linalg_vector_norm(T input, float ord, dims? dim, bool keepdim)",
    half="f32",
    ns="_C",
    grad={"input": lambda g, input, ord, dim, keepdim, out: _vnorm_grad(g, input, ord, dim, keepdim, out)},
)(R.vector_norm)


def _floating(name: str, x: Tensor) -> None:
    if x.k.cat < D.FLOAT:
        raise RuntimeError(f"{name}: Expected a floating point or complex tensor as input. Got {x.dtype}")


@composite("vector_norm(T x, any ord=2, any dim=None, bool keepdim=False, *, any dtype=None)", ns="linalg", out=True)
def vector_norm(x: Tensor, ord: Any = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """The ``ord``-norm of all elements, or of those over ``dim``."""
    _floating("linalg.vector_norm", x)
    if dtype is not None and dtype is not x.dtype:
        x = x.to(dtype)
    return _vector_norm(x, float(ord), dims_of(dim), bool(keepdim))


def _matrix_dims(x: Tensor, dim: Any, name: str) -> tuple[int, int]:
    dims = to_ints(dim)
    check(len(dims) == 2, RuntimeError, f"{name}: dim must be a 2-tuple. Got {list(dims)}")
    a, b = (wrap_dim(d, x.a.ndim) for d in dims)
    check(a != b, RuntimeError, f"{name}: dims must be different. Got ({dims[0]}, {dims[1]})")
    return a, b


@composite(
    "matrix_norm(T A, any ord='fro', any dim=(-2, -1), bool keepdim=False, *, any dtype=None)", ns="linalg", out=True
)
def matrix_norm(
    A: Tensor,  # noqa: N803 - PyTorch's name
    ord: Any = "fro",
    dim: Any = (-2, -1),
    keepdim: bool = False,
    *,
    dtype: Any = None,
) -> Tensor:
    """Norm of matrices: fro, nuc, inf, -inf, 1, -1, 2, -2."""
    _floating("linalg.matrix_norm", A)
    check(A.a.ndim >= 2, RuntimeError, "linalg.matrix_norm: The input tensor A must have at least 2 dimensions.")
    if dtype is not None:
        A = A.to(dtype)  # noqa: N806
    i, j = _matrix_dims(A, dim, "linalg.matrix_norm")
    if ord == "fro":
        return _vector_norm(A, 2.0, (i, j), bool(keepdim))
    check(
        ord in ("nuc", 1, -1, 2, -2, np.inf, -np.inf), RuntimeError, f"linalg.matrix_norm: Order {ord} not supported."
    )
    if ord in ("nuc", 2, -2):
        from mindtorch.ops.linalg_decomp import svdvals

        s = svdvals(A.movedim((i, j), (-2, -1)))
        r = s.sum(-1) if ord == "nuc" else s.amax(-1) if ord == 2 else s.amin(-1)
        return _unreduce(r, i, j) if keepdim else r
    first, second = (i, j) if abs(ord) == 1 else (j, i)
    sums = A.abs().sum(first, keepdim=True)
    r = sums.amax(second, keepdim=True) if ord > 0 else sums.amin(second, keepdim=True)
    return r if keepdim else r.squeeze((i, j))


def _unreduce(r: Tensor, i: int, j: int) -> Tensor:
    for d in sorted((i, j)):
        r = r.unsqueeze(d)
    return r


@composite("norm(T A, any ord=None, any dim=None, bool keepdim=False, *, any dtype=None)", ns="linalg", out=True)
def linalg_norm(
    A: Tensor,  # noqa: N803 - PyTorch's name
    ord: Any = None,
    dim: Any = None,
    keepdim: bool = False,
    *,
    dtype: Any = None,
) -> Tensor:
    """Vector or matrix norm, chosen by ``ord``, ``dim`` and the number of dimensions."""
    _floating("linalg.norm", A)
    dims = dims_of(dim)
    if ord is None:
        return vector_norm(A, 2, dims, keepdim, dtype=dtype)
    if dims is None:
        check(
            A.a.ndim in (1, 2),
            RuntimeError,
            f"linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. Got {A.a.ndim}D.",
        )
        dims = (0,) if A.a.ndim == 1 else (0, 1)
    if len(dims) == 2 and (isinstance(ord, str) or is_number(ord)):
        return matrix_norm(A, ord, dims, keepdim, dtype=dtype)
    check(not isinstance(ord, str), RuntimeError, f"linalg.norm: Order {ord} not supported for vectors")
    return vector_norm(A, ord, dims, keepdim, dtype=dtype)


@composite("frobenius_norm(T input, any dim=(), bool keepdim=False)", ns="torch", out=True)
def frobenius_norm(input: Tensor, dim: Any = (), keepdim: bool = False) -> Tensor:
    """2-norm over one or two dimensions (all when empty)."""
    return vector_norm(input, 2.0, dim, keepdim)


@composite("nuclear_norm(T input, any dim=(-2, -1), bool keepdim=False)", ns="torch", out=True)
def nuclear_norm(input: Tensor, dim: Any = (-2, -1), keepdim: bool = False) -> Tensor:
    """Sum of singular values over two dimensions."""
    return matrix_norm(input, "nuc", dim, keepdim)
