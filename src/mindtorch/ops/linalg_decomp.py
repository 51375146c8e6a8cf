"""Factorisations of matrices and their derivatives: LU, Cholesky, QR, eigenvalues, singular values, LDL,
Householder."""

from __future__ import annotations

from typing import Any

import numpy as np

from mindtorch.core import dtype as D
from mindtorch.core.errors import check
from mindtorch.core.tensor import Tensor, constant, values
from mindtorch.engine.host import linalg as K
from mindtorch.ops import notes
from mindtorch.ops.linalg import matmul, mh
from mindtorch.ops.table import NS, SPACES, composite, op, put


class LinAlgError(RuntimeError):
    """A factorisation failed: the matrix is singular, or not positive definite, or LAPACK did not converge."""

    __module__ = "torch.linalg"


put("linalg", LinAlgError=LinAlgError)
NS["LinAlgError"] = LinAlgError


def raise_info(name: str, info: np.ndarray, what: str) -> None:
    """LinAlgError naming the first matrix whose ``info`` is not 0."""
    bad = np.flatnonzero(info)
    if bad.size:
        batch = f"(Batch element {bad[0]}): " if info.ndim else ""
        raise LinAlgError(f"{name}: {batch}" + what.format(int(info.reshape(-1)[bad[0]])))


SINGULAR = "The solver failed because the input matrix is singular (diagonal element {0} is zero)."
NOT_POSITIVE = (
    "The factorization could not be completed because the input is not positive-definite (the leading minor of "
    "order {0} "
    "is not positive-definite)."
)
NO_INVERSE = (
    "The diagonal element {0} is zero, the inversion could not be completed because the input matrix is singular."
)


def add(*parts: Tensor | None) -> Tensor | None:
    """Sum of the parts that are not None."""
    r = None
    for p in parts:
        if p is not None:
            r = p if r is None else r + p
    return r


def eye_like(x: Tensor, n: int) -> Tensor:
    """Identity of size ``n`` in the dtype of ``x``."""
    return constant(np.eye(n, dtype=x.a.dtype))


def herm(x: Tensor) -> Tensor:
    """``x + x^H`` with the real part of the diagonal counted once."""
    r = x + mh(x)
    d = r.diagonal(0, -2, -1)
    return r - (d / 2).diag_embed()


def _tri(upper: bool, x: Tensor, b: Tensor, left: bool = True, unit: bool = False) -> Tensor:
    from mindtorch.ops.linalg_solve import solve_triangular

    return solve_triangular(x, b, upper=upper, left=left, unitriangular=unit)


# ------------------------------------------------------------------------------------------ LU
def _lu_parts(g: Tensor, lu: Tensor) -> tuple[Any, ...]:
    """Gradient of packed LU as gradients of L and U, with L and U."""
    m, n = lu.shape[-2:]
    k = min(m, n)
    low = lu.narrow(-1, 0, k).tril(-1) + constant(np.eye(m, k, dtype=lu.a.dtype))
    up = lu.narrow(-2, 0, k).triu()
    return g.narrow(-1, 0, k).tril(-1), g.narrow(-2, 0, k).triu(), low, up


def lu_grad(gl: Tensor | None, gu: Tensor | None, low: Tensor, up: Tensor, perm: Tensor) -> Tensor:
    """Gradient of A = P L U, any shape. The part of the larger factor outside the square block is solved for apart."""
    m, n, k = low.shape[-2], up.shape[-1], low.shape[-1]
    l1, u1 = low.narrow(-2, 0, k), up.narrow(-1, 0, k)
    phi_l: Tensor | None = None if gl is None else matmul(mh(l1), gl.narrow(-2, 0, k))
    phi_u: Tensor | None = None if gu is None else matmul(gu.narrow(-1, 0, k), mh(u1))
    right = bottom = None
    if n > k and gu is not None:
        gu2, u2 = gu.narrow(-1, k, n - k), up.narrow(-1, k, n - k)
        phi_l = add(phi_l, -matmul(gu2, mh(u2)))
        right = _tri(True, mh(l1), gu2, unit=True)
    if m > k and gl is not None:
        gl2, l2 = gl.narrow(-2, k, m - k), low.narrow(-2, k, m - k)
        phi_u = add(phi_u, -matmul(mh(l2), gl2))
        bottom = _tri(False, mh(u1), gl2, left=False)
    phi = add(None if phi_l is None else phi_l.tril(-1), None if phi_u is None else phi_u.triu())
    block = _tri(True, mh(l1), _tri(False, mh(u1), phi, left=False), unit=True)
    cat = SPACES["torch"]["cat"]
    if n > k:
        block = cat([block, right if right is not None else up.narrow(-1, k, n - k) * 0], -1)
    if m > k:
        block = cat([block, bottom if bottom is not None else low.narrow(-2, k, m - k) * 0], -2)
    return matmul(perm, block)


def _lu_factor_grad(g: Any, out: Any) -> Tensor:
    gl, gu, low, up = _lu_parts(g[0], out[0])
    p = constant(K.permutation_matrix(values(out[1]), low.shape[-2], low.a.dtype))
    return lu_grad(gl, gu, low, up, p)


_lu_factor = op(
    "linalg_lu_factor_ex(T A, bool pivot)",
    ns="_C",
    nondiff=(1, 2),
    grad={"A": lambda g, out: _lu_factor_grad(g, out)},
)(K.lu_factor)


@composite(
    "lu_factor_ex(T A, *, bool pivot=True, bool check_errors=False)", ns="linalg", out=True, structseq="LU pivots info"
)
def lu_factor_ex(A: Tensor, *, pivot: bool = True, check_errors: bool = False) -> Any:  # noqa: N803
    """Packed LU, pivots, and per matrix 0 or the place of the first zero pivot."""
    lu, piv, info = _lu_factor(A, pivot)
    if check_errors:
        raise_info(
            "linalg.lu_factor_ex",
            info.a,
            "U[{0},{0}] is zero and using it on lu_solve would result in a division by zero.",
        )
    return lu_factor_ex.row.structseq(lu, piv, info)


@composite("lu_factor(T A, *, bool pivot=True)", ns="linalg", out=True, structseq="LU pivots")
def lu_factor(A: Tensor, *, pivot: bool = True) -> Any:  # noqa: N803
    """Packed LU and pivots. LinAlgError when singular."""
    lu, piv, info = _lu_factor(A, pivot)
    raise_info(
        "torch.linalg.lu_factor",
        info.a,
        "U[{0},{0}] is zero and using it on lu_solve would result in a division by zero.",
    )
    return lu_factor.row.structseq(lu, piv)


@composite(
    "lu_unpack(T LU_data, T LU_pivots, bool unpack_data=True, bool unpack_pivots=True)",
    ns="torch",
    out=True,
    structseq="P L U",
    node="LuUnpackBackward0",
)
def lu_unpack(
    LU_data: Tensor,  # noqa: N803
    LU_pivots: Tensor,  # noqa: N803
    unpack_data: bool = True,
    unpack_pivots: bool = True,
) -> Any:
    """P, L, U of a packed factor."""
    m, n = LU_data.shape[-2:]
    k = min(m, n)
    empty = LU_data.new_empty((0,))
    p, low, up = empty, empty, empty
    if unpack_pivots:
        check(
            LU_pivots.dtype is D.int32,
            RuntimeError,
            f"torch.lu_unpack: LU_pivots is expected to be a contiguous tensor of torch.int32 dtype, got "
            f"{LU_pivots.dtype}",
        )
        p = constant(K.permutation_matrix(values(LU_pivots), m, LU_data.a.dtype))
    if unpack_data:
        low = LU_data.narrow(-1, 0, k).tril(-1) + constant(np.eye(m, k, dtype=LU_data.a.dtype))
        up = LU_data.narrow(-2, 0, k).triu()
    return lu_unpack.row.structseq(p, low, up)


@composite("lu(T A, *, bool pivot=True)", node="LinalgLuBackward0", ns="linalg", out=True, structseq="P L U")
def linalg_lu(A: Tensor, *, pivot: bool = True) -> Any:  # noqa: N803
    """A = P L U."""
    lu, piv, _ = _lu_factor(A, pivot)
    return linalg_lu.row.structseq(*lu_unpack(lu, piv))


@composite("lu(T A, bool pivot=True, bool get_infos=False)", out=True)
def torch_lu(A: Tensor, pivot: bool = True, get_infos: bool = False) -> Any:  # noqa: N803
    """Packed LU and pivots (and info when asked for); raises for a singular matrix otherwise."""
    lu, piv, info = _lu_factor(A, pivot)
    if get_infos:
        return lu, piv, info
    raise_info("torch.lu", info.a, SINGULAR)
    return lu, piv


# ------------------------------------------------------------------------------------------ Cholesky
def _cholesky_grad(g: Tensor, low: Tensor, upper: bool) -> Tensor:
    if upper:
        g, low = mh(g), mh(low)
    phi = matmul(mh(low), g).tril()
    phi = (phi + mh(phi.tril(-1))) / 2
    return _tri(True, mh(low), _tri(False, low, phi, left=False))


_cholesky = op(
    "linalg_cholesky_ex(T input, bool upper)",
    ns="_C",
    nondiff=(1,),
    node="LinalgCholeskyExBackward0",
    grad={"input": lambda g, out, upper: _cholesky_grad(g[0], out[0], upper)},
)(K.cholesky)


@composite(
    "cholesky_ex(T input, *, bool upper=False, bool check_errors=False)", ns="linalg", out=True, structseq="L info"
)
def cholesky_ex(input: Tensor, *, upper: bool = False, check_errors: bool = False) -> Any:
    """Cholesky factor and, per matrix, 0 or the order of the minor that is not positive definite."""
    low, info = _cholesky(input, upper)
    if check_errors:
        raise_info("linalg.cholesky_ex", info.a, NOT_POSITIVE)
    return cholesky_ex.row.structseq(low, info)


@composite("cholesky(T input, *, bool upper=False)", ns="linalg", out=True)
def linalg_cholesky(input: Tensor, *, upper: bool = False) -> Tensor:
    """Cholesky factor. LinAlgError when not positive definite."""
    low, info = _cholesky(input, upper)
    raise_info("linalg.cholesky", info.a, NOT_POSITIVE)
    return low


@composite("cholesky(T input, bool upper=False)", node="CholeskyBackward0", out=True)
def cholesky(input: Tensor, upper: bool = False) -> Tensor:
    """Cholesky factor. LinAlgError when not positive definite."""
    low, info = _cholesky(input, upper)
    raise_info("cholesky", info.a, NOT_POSITIVE)
    return low


# ------------------------------------------------------------------------------------------ QR
def _qr_grad(g: Any, out: Any, mode: str) -> Tensor:
    q, r = out
    gq, gr = g
    check(
        mode != "r",
        RuntimeError,
        "The derivative of linalg.qr depends on Q, which is not computed when mode='r'. Please use linalg.qr(A, "
        "mode='reduced') if you are going to require gradients.",
    )
    m, n = q.shape[-2], r.shape[-1]
    check(
        mode == "reduced" or m <= n,
        RuntimeError,
        "The QR decomposition is not differentiable when mode='complete' and nrows > ncols.",
    )
    if m < n:
        r1, g2 = r.narrow(-1, 0, m), None
        if gr is not None:
            g2 = gr.narrow(-1, m, n - m)
            gq = add(gq, matmul(q, matmul(r.narrow(-1, m, n - m), mh(g2))))
            gr = gr.narrow(-1, 0, m)
        first = _qr_square(gq, gr, q, r1)
        second = matmul(q, g2) if g2 is not None else r.narrow(-1, m, n - m) * 0
        return SPACES["torch"]["cat"]([first, second], -1)
    return _qr_square(gq, gr, q, r)


def _qr_square(gq: Tensor | None, gr: Tensor | None, q: Tensor, r: Tensor) -> Tensor:
    mid = add(None if gr is None else matmul(gr, mh(r)), None if gq is None else -matmul(mh(q), gq))
    if mid is None:
        return matmul(q, r) * 0
    left = matmul(q, herm(mid.triu()))
    left = left if gq is None else gq + left
    return _tri(False, mh(r), left, left=False)


_qr = op("linalg_qr(T A, str mode)", ns="_C", grad={"A": lambda g, out, mode: _qr_grad(g, out, mode)})(K.qr)


@composite("qr(T A, any mode='reduced')", ns="linalg", out=True, structseq="Q R")
def linalg_qr(A: Tensor, mode: Any = "reduced") -> Any:  # noqa: N803
    """(Q, R); mode reduced, complete, or r (R only, empty Q)."""
    return linalg_qr.row.structseq(*_qr(A, mode))


@composite("qr(T input, bool some=True)", out=True, structseq="Q R")
def qr(input: Tensor, some: bool = True) -> Any:
    """(Q, R), complete unless ``some``."""
    return qr.row.structseq(*_qr(input, "reduced" if some else "complete"))


_geqrf = op("geqrf(T input)", out=True, structseq="a tau")(K.geqrf)


# ------------------------------------------------------------------------------------------ eigenvalues
def _gaps(w: Tensor, conj: bool = False) -> Tensor:
    """E[i, j] = w[j] - w[i], infinite on the diagonal."""
    e = w.unsqueeze(-2) - w.unsqueeze(-1)
    e = e.conj() if conj else e
    return e.masked_fill(constant(np.eye(w.shape[-1], dtype=bool)), np.inf)


def _eigh_grad(g: Any, out: Any) -> Tensor:
    (gw, gv), (w, v) = g, out
    if gv is None:
        return matmul(v * gw.unsqueeze(-2), mh(v))
    mid = matmul(mh(v), gv) / _gaps(w)
    if gw is not None:
        mid = mid + gw.diag_embed()
    return matmul(matmul(v, (mid + mh(mid)) / 2), mh(v))


_eigh = op("linalg_eigh(T A, str UPLO)", ns="_C", grad={"A": lambda g, out: _eigh_grad(g, out)})(K.eigh)


@composite("eigh(T A, any UPLO='L')", ns="linalg", out=True, structseq="eigenvalues eigenvectors", note=notes.LAPACK)
def eigh(A: Tensor, UPLO: Any = "L") -> Any:  # noqa: N803
    """Eigenvalues (ascending) and eigenvectors of Hermitian matrices; only the triangle ``UPLO`` is read."""
    return eigh.row.structseq(*_eigh(A, UPLO))


@composite("eigvalsh(T A, any UPLO='L')", ns="linalg", out=True)
def eigvalsh(A: Tensor, UPLO: Any = "L") -> Tensor:  # noqa: N803
    """Eigenvalues of Hermitian matrices."""
    return _eigh(A, UPLO)[0]


def _eig_grad(g: Any, out: Any, dtype: Any) -> Tensor:
    from mindtorch.ops.linalg_solve import linalg_solve

    (gw, gv), (w, v) = g, out
    vh = mh(v)
    if gv is None:
        r = linalg_solve(vh, gw.unsqueeze(-1) * vh)
    else:
        part = matmul(vh, gv)
        d = part.diagonal(0, -2, -1).real
        mid = (part - matmul(vh, v) * d.unsqueeze(-2)) / _gaps(w, True)
        if gw is not None:
            mid = mid + gw.diag_embed()
        r = linalg_solve(vh, matmul(mid, vh))
    return r if dtype.is_complex else r.real


_eig = op("linalg_eig(T A)", ns="_C", grad={"A": lambda g, out, A_dtype: _eig_grad(g, out, A_dtype)})(K.eig)


@composite("eig(T A)", ns="linalg", out=True, structseq="eigenvalues eigenvectors", note=notes.LAPACK)
def linalg_eig(A: Tensor) -> Any:  # noqa: N803
    """Complex eigenvalues and eigenvectors (columns of norm 1)."""
    return linalg_eig.row.structseq(*_eig(A))


@composite("eigvals(T A)", ns="linalg", out=True)
def eigvals(A: Tensor) -> Tensor:  # noqa: N803
    """Complex eigenvalues."""
    return _eig(A)[0]


# ------------------------------------------------------------------------------------------ singular values
def _skew(x: Tensor) -> Tensor:
    return x - mh(x)


def _svd_grad(g: Any, out: Any, full: bool) -> Tensor:
    (gu, gs, gvh), (u, s, vh) = g, out
    k = s.shape[-1]
    if full:
        u, vh = u.narrow(-1, 0, k), vh.narrow(-2, 0, k)
        gu = gu if gu is None else gu.narrow(-1, 0, k)
        gvh = gvh if gvh is None else gvh.narrow(-2, 0, k)
    if gu is None and gvh is None:
        return matmul(u * gs.unsqueeze(-2), vh)
    m, n = u.shape[-2], vh.shape[-1]
    mid = None if gs is None else gs.to(u.dtype).diag_embed()
    sq = s * s
    gap = sq.unsqueeze(-2) - sq.unsqueeze(-1)
    gap = gap.masked_fill(constant(np.eye(k, dtype=bool)), 1.0)
    uhgu = None if gu is None else _skew(matmul(mh(u), gu))
    vhgv = None if gvh is None else _skew(matmul(vh, mh(gvh)))
    if uhgu is not None:
        mid = add(mid, (uhgu / gap) * s.unsqueeze(-2))
        if u.dtype.is_complex:
            mid = mid + (uhgu.diagonal(0, -2, -1) / (2 * s)).diag_embed()
    if vhgv is not None:
        mid = add(mid, s.unsqueeze(-1) * (vhgv / gap))
    r = matmul(matmul(u, mid), vh)
    if gu is not None and m > k:
        x = gu / s.unsqueeze(-2)
        r = r + matmul(x - matmul(u, matmul(mh(u), x)), vh)
    if gvh is not None and n > k:
        x = gvh / s.unsqueeze(-1)
        r = r + matmul(u, x - matmul(matmul(x, mh(vh)), vh))
    return r


_svd = op(
    "linalg_svd(T A, bool full)", ns="_C", structseq="U S Vh", grad={"A": lambda g, out, full: _svd_grad(g, out, full)}
)(K.svd)
_svdvals = op("_linalg_svdvals(T A)", ns="_C", grad={})(K.svdvals)


@composite("svd(T A, any full_matrices=True, *, any driver=None)", ns="linalg", out=True, structseq="U S Vh", note=notes.LAPACK)
def linalg_svd(A: Tensor, full_matrices: Any = True, *, driver: Any = None) -> Any:  # noqa: N803
    """(U, S, Vh). ``driver`` chooses a CUDA routine: RuntimeError when given for a CPU tensor, as PyTorch's."""
    check(
        driver is None,
        RuntimeError,
        f"torch.linalg.svd: keyword argument `driver=` is only supported on CUDA inputs with cuSOLVER backend, "
        f"got {driver!r}",
    )
    return linalg_svd.row.structseq(*_svd(A, bool(full_matrices)))


@composite("svdvals(T A, *, any driver=None)", ns="linalg", out=True)
def svdvals(A: Tensor, *, driver: Any = None) -> Tensor:  # noqa: N803
    """Singular values, descending."""
    check(
        driver is None,
        RuntimeError,
        f"torch.linalg.svd: keyword argument `driver=` is only supported on CUDA inputs, got {driver!r}",
    )
    return _svdvals(A) if A.n is None else _svd(A, False)[1]


@composite("svd(T input, bool some=True, bool compute_uv=True)", out=True, structseq="U S V")
def svd(input: Tensor, some: bool = True, compute_uv: bool = True) -> Any:
    """(U, S, V) with ``input = U diag(S) V^H``; zeros for U and V unless ``compute_uv``."""
    make = svd.row.structseq
    if not compute_uv:
        m, n = input.shape[-2:]
        batch = tuple(input.shape[:-2])
        return make(input.new_zeros((*batch, m, m)), svdvals(input), input.new_zeros((*batch, n, n)))
    u, s, vh = _svd(input, not some)
    return make(u, s, mh(vh))


# ------------------------------------------------------------------------------------------ LDL, Householder
_ldl = op("linalg_ldl_factor_ex(T A, bool hermitian)", ns="_C")(K.ldl_factor)
_ldl_solve = op("linalg_ldl_solve(T LD, T pivots, T B, bool hermitian)", ns="_C")(K.ldl_solve)


@composite(
    "ldl_factor_ex(T A, *, bool hermitian=False, bool check_errors=False)",
    ns="linalg",
    out=True,
    structseq="LD pivots info",
)
def ldl_factor_ex(A: Tensor, *, hermitian: bool = False, check_errors: bool = False) -> Any:  # noqa: N803
    """Packed LDL factor of symmetric (Hermitian) matrices, pivots, info."""
    ld, piv, info = _ldl(A, hermitian)
    if check_errors:
        raise_info(
            "torch.linalg.ldl_factor_ex",
            info.a,
            "The factorization could not be completed: D[{0},{0}] is exactly zero.",
        )
    return ldl_factor_ex.row.structseq(ld, piv, info)


@composite("ldl_factor(T A, *, bool hermitian=False)", ns="linalg", out=True, structseq="LD pivots", note=notes.LAPACK)
def ldl_factor(A: Tensor, *, hermitian: bool = False) -> Any:  # noqa: N803
    """Packed LDL factor and pivots."""
    ld, piv, info = _ldl(A, hermitian)
    raise_info(
        "torch.linalg.ldl_factor", info.a, "The factorization could not be completed: D[{0},{0}] is exactly zero."
    )
    return ldl_factor.row.structseq(ld, piv)


@composite("ldl_solve(T LD, T pivots, T B, *, bool hermitian=False)", ns="linalg", out=True)
def ldl_solve(LD: Tensor, pivots: Tensor, B: Tensor, *, hermitian: bool = False) -> Tensor:  # noqa: N803
    """Solution of ``A X = B`` from the LDL factor of A."""
    return _ldl_solve(LD, pivots, B, hermitian)


def _reflect(x: Tensor, v: Tensor, tau: Tensor) -> Tensor:
    """``(I - tau v v^H) x`` for one reflector per batch element: ``v`` (…, m, 1), ``tau`` (…)."""
    return x - tau.unsqueeze(-1).unsqueeze(-1) * matmul(v, matmul(mh(v), x))


def _vectors(a: Tensor) -> Tensor:
    """Householder vectors as columns: below the diagonal as stored, 1 on it."""
    m, k = a.shape[-2:]
    return a.tril(-1) + constant(np.eye(m, k, dtype=a.a.dtype))


@composite(
    "householder_product(T input, T tau)",
    ns="linalg", out=True, node="LinalgHouseholderProductBackward0", keeps=("input",),
)
def householder_product(input: Tensor, tau: Tensor) -> Tensor:
    """First columns of the product of the Householder reflectors stored in ``input`` and ``tau``."""
    m, n = input.shape[-2:]
    check(
        m >= n,
        RuntimeError,
        "torch.linalg.householder_product: input.shape[-2] must be greater than or equal to input.shape[-1]",
    )
    check(
        n >= tau.shape[-1],
        RuntimeError,
        "torch.linalg.householder_product: input.shape[-1] must be greater than or equal to tau.shape[-1]",
    )
    v = _vectors(input)
    r = constant(np.eye(m, n, dtype=input.a.dtype)).expand((*input.shape[:-2], m, n))
    for i in reversed(range(tau.shape[-1])):
        r = _reflect(r, v.narrow(-1, i, 1), tau.select(-1, i))
    if tau.shape[-1] == 0:  # no reflector: the identity, connected to the graph with a zero gradient
        return input.masked_fill(constant(np.ones((), bool)), 0) + r
    return r


@composite("orgqr(T input, T input2)", out=True)
def orgqr(input: Tensor, input2: Tensor) -> Tensor:
    """Alias of ``linalg.householder_product``."""
    return householder_product(input, input2)


@composite(
    "ormqr(T input, T tau, T other, bool left=True, bool transpose=False)",
    out=True, node="OrmqrBackward0", keeps=("input", "tau", "other"),
)
def ormqr(input: Tensor, tau: Tensor, other: Tensor, left: bool = True, transpose: bool = False) -> Tensor:
    """Product of ``other`` with the Q (or Q^H) of the reflectors in ``input`` and ``tau``."""
    if not left:
        return mh(ormqr(input, tau, mh(other), True, not transpose))
    k = tau.shape[-1]
    v = _vectors(input.narrow(-1, 0, k))
    order = range(k) if transpose else reversed(range(k))
    r = other
    for i in order:
        t = tau.select(-1, i)
        t = t.conj() if transpose and t.dtype.is_complex else t
        r = _reflect(r, v.narrow(-1, i, 1), t)
    return r
