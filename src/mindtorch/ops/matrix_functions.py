"""Functions of matrices and maps: exponential, powers, tensor inverses, Vandermonde, randomised low-rank
factorisation."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mindtorch.core.errors import check
from mindtorch.core.signature import to_int, to_ints
from mindtorch.core.tensor import Tensor, constant
from mindtorch.engine.host import linalg as K
from mindtorch.ops import notes
from mindtorch.ops.linalg import matmul, mh
from mindtorch.ops.linalg_solve import inv, linalg_solve
from mindtorch.ops.table import SPACES, composite, op


def _matrix_exp_grad(g: Tensor, A: Tensor) -> Tensor:  # noqa: N803
    """Upper right block of the exponential of [[A^H, G], [0, A^H]]."""
    n = A.shape[-1]
    ah = mh(A)
    cat = SPACES["torch"]["cat"]
    top = cat([ah, g], -1)
    low = cat([ah.new_zeros(ah.shape), ah], -1)
    return _matrix_exp(cat([top, low], -2)).narrow(-2, 0, n).narrow(-1, n, n)


_matrix_exp = op("linalg_matrix_exp(T A)", ns="_C", half="f32", grad={"A": lambda g, A: _matrix_exp_grad(g, A)})(
    K.matrix_exp
)


@composite("matrix_exp(T A)", ns="torch Tensor linalg", note=notes.HALF)
def matrix_exp(A: Tensor) -> Tensor:  # noqa: N803
    """Exponential of square matrices."""
    return _matrix_exp(A)


@composite("matrix_power(T A, int n)", ns="torch Tensor linalg", out=True)
def matrix_power(A: Tensor, n: int) -> Tensor:  # noqa: N803
    """Integer power of square matrices; negative powers go through the inverse."""
    check(A.a.ndim >= 2, RuntimeError, "linalg.matrix_power: The input tensor A must have at least 2 dimensions.")
    check(
        A.shape[-1] == A.shape[-2],
        RuntimeError,
        f"linalg.matrix_power: A must be batches of square matrices, but they are {A.shape[-2]} by "
        f"{A.shape[-1]} matrices",
    )
    n = to_int(n)
    if n == 0:
        return A.masked_fill(constant(np.ones((), bool)), 0) + constant(np.eye(A.shape[-1], dtype=A.a.dtype))
    base = inv(A) if n < 0 else A
    n = abs(n)
    r: Tensor | None = None
    while n:
        if n & 1:
            r = base if r is None else matmul(r, base)
        n >>= 1
        if n:
            base = matmul(base, base)
    return r.clone() if r is A else r  # type: ignore[return-value, union-attr]


@composite("tensorinv(T A, int ind=2)", ns="linalg", out=True)
def tensorinv(A: Tensor, ind: int = 2) -> Tensor:  # noqa: N803
    """Inverse of the linear map that ``A`` is from its last dimensions to its first ``ind``."""
    check(ind > 0, RuntimeError, f"Expected a strictly positive integer for 'ind', got {ind}")
    first, last = tuple(A.shape[:ind]), tuple(A.shape[ind:])
    n, m = math.prod(first), math.prod(last)
    check(
        n == m,
        RuntimeError,
        f"Expected self to satisfy the requirement prod(self.shape[ind:]) == prod(self.shape[:ind]), but got "
        f"{m} != {n}",
    )
    return inv(A.reshape((n, m))).reshape((*last, *first))


@composite("tensorsolve(T A, T B, any dims=None)", ns="linalg", out=True)
def tensorsolve(A: Tensor, B: Tensor, dims: Any = None) -> Tensor:  # noqa: N803
    """X with ``tensordot(A, X, X.ndim) = B``."""
    if dims is not None:
        moved = to_ints(dims)
        A = A.movedim(moved, tuple(range(A.a.ndim - len(moved), A.a.ndim)))  # noqa: N806
    shape = tuple(A.shape[B.a.ndim :])
    n = math.prod(shape)
    check(
        n == B.a.size,
        RuntimeError,
        f"Expected self to satisfy the requirement prod(self.shape[other.ndim:]) == "
        f"prod(self.shape[:other.ndim]), but got "
        f"{n} != {B.a.size}",
    )
    return linalg_solve(A.reshape((n, n)), B.reshape(-1)).reshape(shape)


@composite("vander(T x, *, any N=None)", ns="linalg")
def linalg_vander(x: Tensor, *, N: Any = None) -> Tensor:  # noqa: N803
    """Powers 0, 1, ... of the elements, along a new last dimension."""
    from mindtorch.ops.scan import cumprod

    x = x.reshape((1,)) if x.a.ndim == 0 else x
    n = x.shape[-1] if N is None else to_int(N)
    check(n > 1, RuntimeError, f"N must be greater than 1, but got {n}")
    body = cumprod(x.unsqueeze(-1).expand((*x.shape, n - 1)), -1)
    one = body.new_ones((*x.shape, 1))
    return SPACES["torch"]["cat"]([one, body], -1)


@composite("diagonal(T A, *, int offset=0, int dim1=-2, int dim2=-1)", ns="linalg")
def linalg_diagonal(A: Tensor, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:  # noqa: N803
    """View of the diagonals of matrices."""
    return A.diagonal(offset, dim1, dim2)


# ------------------------------------------------------------------------------------------ low rank
def _basis(A: Tensor, q: int, niter: int, M: Any) -> Tensor:  # noqa: N803
    """Orthonormal columns that nearly span the range of ``A - M``, by randomised subspace iteration."""
    from mindtorch.ops.linalg_decomp import linalg_qr

    def apply(x: Tensor) -> Tensor:
        return matmul(A, x) if M is None else matmul(A, x) - matmul(M, x)

    def back(x: Tensor) -> Tensor:
        return matmul(mh(A), x) if M is None else matmul(mh(A), x) - matmul(mh(M), x)

    r = SPACES["torch"]["randn"](A.shape[-1], q, dtype=A.dtype, device=A.device)
    basis = linalg_qr(apply(r))[0]
    for _ in range(niter):
        basis = linalg_qr(back(basis))[0]
        basis = linalg_qr(apply(basis))[0]
    return basis


@composite("svd_lowrank(T A, any q=6, any niter=2, any M=None)", ns="torch")
def svd_lowrank(A: Tensor, q: Any = 6, niter: Any = 2, M: Any = None) -> Any:  # noqa: N803
    """(U, S, V) of a rank-``q`` approximation of ``A - M``."""
    from mindtorch.ops.linalg_decomp import linalg_svd

    q = 6 if q is None else q
    m, n = A.shape[-2:]
    if M is not None:
        M = M.expand(A.shape)  # noqa: N806
    if m < n:
        A, M = mh(A), None if M is None else mh(M)  # noqa: N806
    basis = _basis(A, q, niter, M)
    b = matmul(mh(basis), A)
    if M is not None:
        b = b - matmul(mh(basis), M)
    u, s, vh = linalg_svd(b, False)
    u, v = matmul(basis, u), mh(vh)
    return (v, s, u) if m < n else (u, s, v)


@composite("pca_lowrank(T A, any q=None, any center=True, any niter=2)", ns="torch")
def pca_lowrank(A: Tensor, q: Any = None, center: Any = True, niter: Any = 2) -> Any:  # noqa: N803
    """(U, S, V) of a rank-``q`` approximation of ``A`` (of the centred ``A`` when ``center``)."""
    m, n = A.shape[-2:]
    q = min(6, m, n) if q is None else q
    check(
        0 <= q <= min(m, n),
        ValueError,
        f"q(={q}) must be non-negative integer and not greater than min(m, n)={min(m, n)}",
    )
    check(niter >= 0, ValueError, f"niter(={niter}) must be non-negative integer")
    if center:
        A = A - A.mean((-2,), keepdim=True)  # noqa: N806
    return svd_lowrank(A, q, niter, None)
