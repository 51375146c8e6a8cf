"""Linear systems, inverses, determinants, least squares and functions of matrices, with their derivatives."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mindtorch.core.errors import check
from mindtorch.core.tape import sum_to
from mindtorch.core.tensor import Tensor, constant, values
from mindtorch.engine.host import linalg as K
from mindtorch.ops.linalg import matmul, mh
from mindtorch.ops.linalg_decomp import (
    NO_INVERSE,
    SINGULAR,
    lu_unpack,
    raise_info,
    svdvals,
)
from mindtorch.ops.linalg_norm import linalg_norm
from mindtorch.ops.table import SPACES, composite, op, put, vjp


# ------------------------------------------------------------------------------------------ solve
def _is_vector(A: Tensor, B: Tensor) -> bool:  # noqa: N803
    """Whether ``B`` is a batch of right-hand sides without a column dimension."""
    return B.a.ndim == 1 or (A.a.ndim - 1 == B.a.ndim and B.shape == A.shape[:-1])


def _solve_grad(g: Any, needs: Any, out: Any, A: Tensor, B: Tensor, left: bool) -> tuple[Any, Any]:  # noqa: N803
    gx, x = g[0], out[0]
    gb = _solve(mh(A), gx, left)[0]
    ga = None
    if needs[0]:
        ga = -matmul(gb, mh(x)) if left else -matmul(mh(x), gb)
        ga = sum_to(ga, A.a.shape)
    return ga, sum_to(gb, B.a.shape) if needs[1] else None


_solve = op(
    "_linalg_solve_ex(T A, T B, bool left)",
    ns="_C",
    nondiff=(1,),
    grad=vjp(("A", "B"), lambda g, needs, out, A, B, left: _solve_grad(g, needs, out, A, B, left), B=()),
    node="LinalgSolveExBackward0",
)(K.solve)


def _solve_any(A: Tensor, B: Tensor, left: bool) -> tuple[Tensor, Tensor]:  # noqa: N803
    vector = _is_vector(A, B)
    check(
        left or not vector,
        RuntimeError,
        "linalg.solve: Vector broadcasting of the left hand side is not supported for left=False.",
    )
    x, info = _solve(A, B.unsqueeze(-1) if vector else B, left)
    return (x.squeeze(-1) if vector else x), info


@composite(
    "solve_ex(T A, T B, *, bool left=True, bool check_errors=False)", ns="linalg", out=True, structseq="result info", node="LinalgSolveExBackward0")
def solve_ex(A: Tensor, B: Tensor, *, left: bool = True, check_errors: bool = False) -> Any:  # noqa: N803
    """Solution of ``A X = B`` (``X A = B``), and info."""
    x, info = _solve_any(A, B, left)
    if check_errors:
        raise_info("torch.linalg.solve_ex", info.a, SINGULAR)
    return solve_ex.row.structseq(x, info)


@composite("solve(T A, T B, *, bool left=True)", ns="linalg", out=True, node="LinalgSolveExBackward0")
def linalg_solve(A: Tensor, B: Tensor, *, left: bool = True) -> Tensor:  # noqa: N803
    """Solution of ``A X = B`` (``X A = B``). LinAlgError when A is singular."""
    x, info = _solve_any(A, B, left)
    raise_info("torch.linalg.solve", info.a, SINGULAR)
    return x


def _triangular_grad(
    g: Tensor,
    needs: Any,
    out: Tensor,
    A: Tensor,
    B: Tensor,
    upper: bool,
    left: bool,
    unit: bool,  # noqa: N803
) -> tuple[Any, Any]:
    gb = _triangular(mh(A), g, not upper, left, unit)
    ga = None
    if needs[0]:
        ga = -matmul(gb, mh(out)) if left else -matmul(mh(out), gb)
        off = int(unit)
        ga = sum_to(ga.triu(off) if upper else ga.tril(-off), A.a.shape)
    return ga, sum_to(gb, B.a.shape) if needs[1] else None


_triangular = op(
    "linalg_solve_triangular(T A, T B, bool upper, bool left, bool unit)",
    ns="_C",
    grad=vjp(
        ("A", "B"),
        lambda g, needs, out, A, B, upper, left, unit: _triangular_grad(g, needs, out, A, B, upper, left, unit),
        B=(),
    ),
)(K.solve_triangular)


@composite(
    "solve_triangular(T input, T B, *, bool upper, bool left=True, bool unitriangular=False)", ns="linalg", out=True
)
def solve_triangular(
    input: Tensor,
    B: Tensor,  # noqa: N803
    *,
    upper: bool,
    left: bool = True,
    unitriangular: bool = False,
) -> Tensor:
    """Solution of ``A X = B`` (``X A = B``) for triangular A; the other triangle is not read."""
    return _triangular(input, B, bool(upper), left, unitriangular)


@composite(
    "triangular_solve(T b, T A, bool upper=True, bool transpose=False, bool unitriangular=False)",
    out=True,
    structseq="solution cloned_coefficient",
    node="TriangularSolveBackward0",
)
def triangular_solve(
    b: Tensor,
    A: Tensor,  # noqa: N803
    upper: bool = True,
    transpose: bool = False,
    unitriangular: bool = False,
) -> Any:
    """(solution of ``A X = b`` or of ``A^T X = b``, copy of A)."""
    m = A.transpose(-2, -1) if transpose else A
    x = _triangular(m, b, upper != transpose, True, unitriangular)
    batch = x.shape[:-2]
    return triangular_solve.row.structseq(x, A.expand((*batch, *A.shape[-2:])).clone())


def _cholesky_solve_grad(g: Tensor, needs: Any, B: Tensor, L: Tensor, upper: bool, out: Tensor) -> tuple[Any, Any]:  # noqa: N803
    gb = cholesky_solve(g, L, upper)
    ga = None
    if needs[1]:
        mid = matmul(gb, mh(out))
        mid = mid + mh(mid)
        ga = sum_to(-matmul(L, mid) if upper else -matmul(mid, L), L.a.shape)
    return (sum_to(gb, B.a.shape) if needs[0] else None), ga


@op(
    "cholesky_solve(T B, T L, bool upper=False)",
    out=True,
    grad=vjp(
        ("B", "L"),
        lambda g, needs, B, L, upper, out: _cholesky_solve_grad(g, needs, B, L, upper, out),  # noqa: N803
    ),
)
def cholesky_solve(b: np.ndarray, low: np.ndarray, upper: bool = False) -> np.ndarray:
    """Solution of ``A X = B`` from the Cholesky factor of A."""
    adjoint = np.conj(low.swapaxes(-1, -2))
    if upper:
        low, adjoint = adjoint, low
    return K.solve_triangular(adjoint, K.solve_triangular(low, b, False, True, False), True, True, False)


def _cholesky_inverse_grad(g: Tensor, L: Tensor, upper: bool, out: Tensor) -> Tensor:  # noqa: N803
    mid = matmul(out, matmul(g + mh(g), out))
    return -matmul(L, mid) if upper else -matmul(mid, L)


@op(
    "cholesky_inverse(T L, bool upper=False)",
    out=True,
    grad={"L": lambda g, L, upper, out: _cholesky_inverse_grad(g, L, upper, out)},  # noqa: N803
)
def cholesky_inverse(low: np.ndarray, upper: bool = False) -> np.ndarray:
    """Inverse of A from its Cholesky factor."""
    K.square("cholesky_inverse", low)
    adjoint = np.conj(low.swapaxes(-1, -2))
    if upper:
        low, adjoint = adjoint, low
    eye = np.eye(low.shape[-1], dtype=low.dtype)
    return K.solve_triangular(adjoint, K.solve_triangular(low, eye, False, True, False), True, True, False)


@composite(
    "lu_solve(T LU, T pivots, T B, *, bool left=True, bool adjoint=False)",
    ns="linalg",
    out=True,
    node="LinalgLuSolveBackward0",
    keeps=("LU",),
)
def linalg_lu_solve(
    LU: Tensor,  # noqa: N803
    pivots: Tensor,
    B: Tensor,  # noqa: N803
    *,
    left: bool = True,
    adjoint: bool = False,
) -> Tensor:
    """Solution of ``A X = B`` (``X A = B``, or with A^H) from packed LU and pivots."""
    if not left:
        return mh(linalg_lu_solve(LU, pivots, mh(B), left=True, adjoint=not adjoint))
    p, _, _ = lu_unpack(LU, pivots, unpack_data=False)
    if adjoint:
        y = _triangular(mh(LU), B, False, True, False)
        return matmul(p, _triangular(mh(LU), y, True, True, True))
    y = _triangular(LU, matmul(p.transpose(-2, -1), B), False, True, True)
    return _triangular(LU, y, True, True, False)


@composite("lu_solve(T b, T LU_data, T LU_pivots)", out=True)
def lu_solve(b: Tensor, LU_data: Tensor, LU_pivots: Tensor) -> Tensor:  # noqa: N803
    """Solution of ``A X = b`` from packed LU and pivots."""
    return linalg_lu_solve(LU_data, LU_pivots, b)


# ------------------------------------------------------------------------------------------ inverse
_inv = op(
    "linalg_inv_ex(T A)",
    ns="_C",
    nondiff=(1,),
    grad={"A": lambda g, out: -matmul(mh(out[0]), matmul(g[0], mh(out[0])))},
)(K.inv)


@composite("inv_ex(T A, *, bool check_errors=False)", ns="linalg", out=True, structseq="inverse info")
def inv_ex(A: Tensor, *, check_errors: bool = False) -> Any:  # noqa: N803
    """Inverse, and per matrix 0 or the place of the zero pivot."""
    x, info = _inv(A)
    if check_errors:
        raise_info("linalg.inv_ex", info.a, NO_INVERSE)
    return inv_ex.row.structseq(x, info)


@composite("inv(T A)", ns="linalg", out=True)
def inv(A: Tensor) -> Tensor:  # noqa: N803
    """Inverse. LinAlgError when singular."""
    x, info = _inv(A)
    raise_info("linalg.inv", info.a, NO_INVERSE)
    return x


@composite("inverse(T input)", out=True)
def inverse(input: Tensor) -> Tensor:
    """Alias of ``linalg.inv``."""
    return inv(input)


# ------------------------------------------------------------------------------------------ determinants
_cofactor = op("_linalg_cofactor(T A)", ns="_C")(K.cofactor)


def _det_grad(g: Tensor, A: Tensor, out: Tensor) -> Tensor:  # noqa: N803
    g = g.unsqueeze(-1).unsqueeze(-1)
    if K.singular_any(A.a):
        return g * _cofactor(A)
    d = (out.conj() if out.dtype.is_complex else out).unsqueeze(-1).unsqueeze(-1)
    return (g * d) * mh(_inv(A)[0])


_det = op("linalg_det(T A)", ns="_C", grad={"A": lambda g, A, out: _det_grad(g, A, out)})(K.det)


@composite("det(T A)", ns="linalg", out=True)
def det(A: Tensor) -> Tensor:  # noqa: N803
    """Determinant."""
    return _det(A)


@composite("det(T input)")
def torch_det(input: Tensor) -> Tensor:
    """Determinant."""
    return _det(input)


def _slogdet_grad(g: Any, A: Tensor, out: Any) -> Tensor:  # noqa: N803
    gs, gl = g
    scale = gl
    if A.dtype.is_complex and gs is not None:
        phase = (gs.conj() * out[0]).imag
        turn = SPACES["torch"]["complex"](phase.new_zeros(phase.shape), -phase)
        scale = turn if gl is None else gl - turn.conj()
    if scale is None:
        return A.new_zeros(A.shape)
    return scale.unsqueeze(-1).unsqueeze(-1) * mh(_inv(A)[0])


_slogdet = op("linalg_slogdet(T A)", ns="_C", grad={"A": lambda g, A, out: _slogdet_grad(g, A, out)})(K.slogdet)


@composite("slogdet(T A)", ns="linalg", out=True, structseq="sign logabsdet")
def slogdet(A: Tensor) -> Any:  # noqa: N803
    """Sign and log of the magnitude of the determinant."""
    return slogdet.row.structseq(*_slogdet(A))


@composite("slogdet(T input)", structseq="sign logabsdet")
def torch_slogdet(input: Tensor) -> Any:
    """Sign and log of the magnitude of the determinant."""
    return torch_slogdet.row.structseq(*_slogdet(input))


@composite("logdet(T input)")
def logdet(input: Tensor) -> Tensor:
    """Log of the determinant; nan when it is negative."""
    sign, value = _slogdet(input)
    if input.dtype.is_complex:
        return sign.log() + value
    return value.masked_fill(sign == -1, math.nan)


# ------------------------------------------------------------------------------------------ pseudo-inverse, rank
def _tolerance(A: Tensor, s: Tensor, atol: Any, rtol: Any) -> Tensor:  # noqa: N803
    """Threshold under which a singular value counts as 0, per matrix (last dimension kept)."""
    top = s.detach().amax(-1, keepdim=True) if s.shape[-1] else s.new_zeros((*s.shape[:-1], 1))
    if rtol is None:
        given = atol is not None and (not isinstance(atol, Tensor) and atol > 0)
        eps = float(np.finfo(s.a.dtype).eps) * max(A.shape[-2:])
        if isinstance(atol, Tensor):
            rtol = (atol > 0).logical_not().to(s.dtype).unsqueeze(-1) * eps
        else:
            rtol = 0.0 if given else eps
    elif isinstance(rtol, Tensor):
        rtol = rtol.unsqueeze(-1)
    limit = top * rtol
    if atol is None:
        return limit
    if isinstance(atol, Tensor):
        return limit.maximum(atol.unsqueeze(-1).to(limit.dtype).expand(_common(limit.shape, atol.unsqueeze(-1).shape)))
    return limit.clamp(min=float(atol))


def _common(*shapes: Any) -> tuple[int, ...]:
    return tuple(np.broadcast_shapes(*[tuple(s) for s in shapes]))


def _pinv_kernel(a: np.ndarray, limit: np.ndarray, hermitian: bool) -> np.ndarray:
    if not a.size:
        return np.zeros((*a.shape[:-2], a.shape[-1], a.shape[-2]), a.dtype)
    if hermitian:
        w, v = np.linalg.eigh(a)
        keep = np.abs(w) > limit
        inv_w = np.where(keep, 1 / np.where(keep, w, 1), 0).astype(w.dtype)
        return (v * inv_w[..., None, :]) @ np.conj(v.swapaxes(-1, -2))
    u, s, vh = np.linalg.svd(a, full_matrices=False)
    keep = s > limit
    inv_s = np.where(keep, 1 / np.where(keep, s, 1), 0).astype(s.dtype)
    return (np.conj(vh.swapaxes(-1, -2)) * inv_s[..., None, :]) @ np.conj(u.swapaxes(-1, -2))


def _pinv_grad(g: Tensor, out: Tensor, A: Tensor) -> Tensor:  # noqa: N803
    """Adjoint of dP = -P dA P + P P^H dA^H (1 - A P) + (1 - P A) dA^H P^H P."""
    ph, gh = mh(out), mh(g)
    first = matmul(matmul(gh, out), ph)
    last = matmul(matmul(ph, out), gh)
    second = first - matmul(A, matmul(out, first))
    third = last - matmul(matmul(last, out), A)
    return second + third - matmul(matmul(ph, g), ph)


_pinv = op("_linalg_pinv(T A, T limit, bool hermitian)", ns="_C", grad={"A": lambda g, out, A: _pinv_grad(g, out, A)})(
    _pinv_kernel
)


@composite("pinv(T A, any rcond=None, any hermitian=None, *, any atol=None, any rtol=None)", ns="linalg", out=True)
def pinv(A: Tensor, rcond: Any = None, hermitian: Any = None, *, atol: Any = None, rtol: Any = None) -> Tensor:  # noqa: N803
    """Moore-Penrose inverse; singular values under max(atol, rtol * largest) count as 0."""
    K.matrices("linalg.pinv", A.a)
    s = _spectrum(A.detach(), bool(hermitian))
    limit = _tolerance(A, s, atol, rcond if rtol is None else rtol)
    return _pinv(A, limit.detach(), bool(hermitian))


def _spectrum(A: Tensor, hermitian: bool) -> Tensor:  # noqa: N803
    """Singular values, or magnitudes of eigenvalues."""
    from mindtorch.ops.linalg_decomp import eigvalsh

    return eigvalsh(A).abs() if hermitian else svdvals(A)


@composite("pinverse(T input, any rcond=1e-15)")
def pinverse(input: Tensor, rcond: Any = 1e-15) -> Tensor:
    """Moore-Penrose inverse."""
    return pinv(input, rcond, False)


@composite(
    "matrix_rank(T A, any tol=None, any hermitian=False, *, any atol=None, any rtol=None)", ns="linalg", out=True
)
def matrix_rank(A: Tensor, tol: Any = None, hermitian: Any = False, *, atol: Any = None, rtol: Any = None) -> Tensor:  # noqa: N803
    """Number of singular values above the tolerance."""
    K.matrices("linalg.matrix_rank", A.a)
    s = _spectrum(A.detach(), bool(hermitian))
    if tol is not None:
        atol, rtol = tol, 0.0
    return (s > _tolerance(A, s, atol, rtol)).sum(-1)


@composite("cond(T A, any p=None)", ns="linalg", out=True)
def cond(A: Tensor, p: Any = None) -> Tensor:  # noqa: N803
    """Condition number in the norm ``p`` (2 when None)."""
    K.matrices("linalg.cond", A.a)
    if p in (None, 2, -2):
        s = svdvals(A)
        hi, lo = s.amax(-1), s.amin(-1)
        return lo / hi if p == -2 else hi / lo
    K.square("linalg.cond", A.a)
    x, info = _inv(A)
    p = float(p) if not isinstance(p, str) else p
    r = linalg_norm(A, p, (-2, -1)) * linalg_norm(x, p, (-2, -1))
    return r.masked_fill(constant(values(info) != 0), math.inf) if values(info).any() else r


# ------------------------------------------------------------------------------------------ least squares
@composite(
    "lstsq(T A, T B, any rcond=None, *, any driver=None)",
    ns="linalg",
    out=True,
    structseq="solution residuals rank singular_values",
    note="driver='gels' solves by singular values too: a matrix without full rank has the least solution, which PyTorch leaves undefined",
)
def lstsq(A: Tensor, B: Tensor, rcond: Any = None, *, driver: Any = None) -> Any:  # noqa: N803
    """Least-squares solution of ``A X = B``, squared residuals, rank, singular values (as the driver computes them)."""
    driver = "gelsy" if driver is None else driver
    check(
        driver in ("gels", "gelsy", "gelsd", "gelss"),
        RuntimeError,
        f"torch.linalg.lstsq: parameter `driver` should be one of (gels, gelsy, gelsd, gelss), got {driver!r}",
    )
    K.matrices("torch.linalg.lstsq", A.a)
    vector = _is_vector(A, B)
    b = B.unsqueeze(-1) if vector else B
    m, n = A.shape[-2:]
    batch = _common(A.shape[:-2], b.shape[:-2])
    cut = float(np.finfo(A.a.dtype).eps) * max(m, n) if rcond is None else float(rcond)
    full_a, full_b = A.expand((*batch, m, n)), b.expand((*batch, *b.shape[-2:]))
    solution, rank, s = _lstsq(full_a.detach(), full_b.detach(), cut, driver)
    if A.n is not None or B.n is not None:
        solution = matmul(pinv(A), b)
    residuals = (solution.reshape(-1)[:0] * 1).real.to(s.dtype)  # empty, yet with a history when the solution has one
    if m > n and driver != "gelsy" and bool((rank.a == n).all()):
        r = matmul(full_a, solution) - full_b
        residuals = ((r * r.conj()).real if r.dtype.is_complex else r * r).sum(-2)
    empty = rank.new_empty((0,))
    return lstsq.row.structseq(
        solution.squeeze(-1) if vector else solution,
        residuals,
        rank if driver != "gels" else empty,
        s if driver in ("gelsd", "gelss") else s.new_empty((0,)),
    )


_lstsq = op("_linalg_lstsq(T A, T B, float rcond, str driver)", ns="_C", grad={})(K.lstsq)


# ------------------------------------------------------------------------------------------ names PyTorch removed
def _removed(name: str, instead: str) -> Any:
    """A function that says what took the place of a name PyTorch has removed, as PyTorch's own stub does."""

    def fn(*args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(f"torch.{name} was deprecated since version 1.9 and is now removed. Use {instead} instead.")

    fn.__name__ = fn.__qualname__ = name
    fn.__doc__ = f"Removed from PyTorch; use ``{instead}``."
    return fn


for _name, _instead in (
    ("symeig", "torch.linalg.eigh"),
    ("eig", "torch.linalg.eig"),
    ("lstsq", "torch.linalg.lstsq"),
    ("solve", "torch.linalg.solve"),
    ("matrix_rank", "torch.linalg.matrix_rank"),
):
    put("torch", **{_name: _removed(_name, _instead)})
    if _name != "matrix_rank":
        put("Tensor", **{_name: _removed(_name, _instead)})
