"""MindSpore kernels of linear algebra: factorisations, solutions and products by letters."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mindtorch.engine.mindspore import door
from mindtorch.engine.mindspore.kernels import Unsupported, kernel, np_dtype
from mindtorch.engine.mindspore.kernels.convolution import bilinear
from mindtorch.engine.mindspore.kernels.moves import _hosted, const, zeros_of
from mindtorch.engine.mindspore.kernels.reductions import total

ms = door.load()
mint, ops = ms.mint, ms.ops
_REAL = (ms.float32, ms.float64)
_COMPLEX = (ms.complex64, ms.complex128)


def _ready(*ts: Any, kinds: tuple[Any, ...] = (*_REAL, *_COMPLEX)) -> None:
    if any(0 in t.shape for t in ts):
        raise Unsupported("matrices without elements")
    if any(t.dtype not in kinds for t in ts):
        raise Unsupported(f"matrices of {ts[0].dtype}")


def _finite(*ts: Any) -> None:
    """What MindSpore could not compute is left to the host kernel, whose answers for singular matrices are PyTorch's."""
    for t in ts:
        a = ops.Real()(t) if t.dtype in _COMPLEX else t
        if not bool(mint.isfinite(a).all()):
            raise Unsupported("a singular matrix, or one with numbers that are not finite")


def _each(x: Any) -> Any:
    return x.reshape((-1, *x.shape[-2:]))


def _t(x: Any) -> Any:
    return mint.transpose(x, -2, -1)


def _h(x: Any) -> Any:
    return _t(ops.Conj()(x) if x.dtype in _COMPLEX else x)


def _eye(x: Any) -> Any:
    n = x.shape[-1]
    eye = const(np.eye(n, dtype=np_dtype(x)))
    return mint.broadcast_to(eye, (*x.shape[:-2], n, n)) if x.ndim > 2 else eye


@kernel("linalg_cholesky_ex")
def _cholesky(x: Any, upper: bool) -> Any:
    _ready(x, kinds=_REAL)
    low = ops.cholesky(_lower_half(x, upper))
    _finite(low)
    return (_t(low) if upper else low), zeros_of(x.shape[:-2], ms.int32)


def _lower_half(x: Any, upper: bool) -> Any:
    """The symmetric matrix that one triangle stands for."""
    n = x.shape[-1]
    low = np.tri(n, dtype=np_dtype(x))
    y = _t(x) if upper else x
    part, strict = mint.mul(y, const(low)), mint.mul(y, const(low - np.eye(n, dtype=low.dtype)))
    return mint.add(part, _t(strict))


@kernel("linalg_inv_ex")
def _inverse(x: Any) -> Any:
    _ready(x)
    r = ops.MatrixInverse()(x) if x.shape[-1] > 1 else mint.div(ms.Tensor(1, x.dtype), x)
    _finite(r)
    return r, zeros_of(x.shape[:-2], ms.int32)


@kernel("linalg_det")
def _det(x: Any) -> Any:
    _ready(x)
    shape = tuple(x.shape[:-2])
    return (ops.MatrixDeterminant()(_each(x)) if x.shape[-1] > 1 else x).reshape(shape)


@kernel("linalg_slogdet")
def _slogdet(x: Any) -> Any:
    _ready(x)
    if x.shape[-1] == 1:
        if x.dtype in _COMPLEX:
            raise Unsupported("a complex number")
        sign, log = mint.sign(x), mint.log(mint.abs(x))
    else:
        sign, log = ops.LogMatrixDeterminant()(_each(x))
    _finite(sign, log)
    shape = tuple(x.shape[:-2])
    log = ops.Real()(log) if log.dtype in _COMPLEX else log
    return sign.reshape(shape), log.reshape(shape)


def _spread(a: Any, b: Any) -> tuple[Any, Any]:
    """Both operands with the batch they share."""
    if tuple(a.shape[:-2]) == tuple(b.shape[:-2]):
        return a, b
    lead = np.broadcast_shapes(tuple(a.shape[:-2]), tuple(b.shape[:-2]))
    return mint.broadcast_to(a, (*lead, *a.shape[-2:])), mint.broadcast_to(b, (*lead, *b.shape[-2:]))


@kernel("_linalg_solve_ex")
def _solve(a: Any, b: Any, left: bool) -> Any:
    _ready(a, b)
    a, b = _spread(a, b)
    lead = tuple(a.shape[:-2])
    if not left:
        a, b = _t(a), _t(b)
    shape = tuple(b.shape)
    r = ops.MatrixSolve()(_each(a), _each(b)).reshape(shape)
    _finite(r)
    return (r if left else _t(r)), zeros_of(lead, ms.int32)


@kernel("linalg_solve_triangular")
def triangular(a: Any, b: Any, upper: bool, left: bool, unit: bool) -> Any:
    """Solution with a triangular matrix."""
    if 0 in a.shape or 0 in b.shape:
        lead = np.broadcast_shapes(tuple(a.shape[:-2]), tuple(b.shape[:-2]))
        return zeros_of((*lead, *b.shape[-2:]), b.dtype)
    _ready(a, b)
    a, b = _spread(a, b)
    if not left:
        a, b, upper = _t(a), _t(b), not upper
    n = a.shape[-1]
    tri = np.tri(n, dtype=bool).T if upper else np.tri(n, dtype=bool)
    keep = tri & ~np.eye(n, dtype=bool) if unit else tri
    a = mint.mul(a, const(keep.astype(np_dtype(a))))
    a = mint.add(a, _eye(a)) if unit else a
    shape = tuple(b.shape)
    r = ops.MatrixTriangularSolve(lower=not upper)(_each(a), _each(b)).reshape(shape)
    _finite(r)
    return r if left else _t(r)


@kernel("cholesky_solve")
def _cholesky_solve(b: Any, low: Any, upper: bool = False) -> Any:
    _ready(b, low)
    low = _h(low) if upper else low
    return triangular(_h(low), triangular(low, b, False, True, False), True, True, False)


@kernel("cholesky_inverse")
def _cholesky_inverse(low: Any, upper: bool = False) -> Any:
    _ready(low)
    return _cholesky_solve(_eye(low), low, upper)


@kernel("linalg_qr")
def _qr(x: Any, mode: str) -> Any:
    _ready(x)
    q, r = ops.qr(x, mode="complete" if mode == "complete" else "reduced")
    return (zeros_of((0,), x.dtype), r) if mode == "r" else (q, r)


@kernel("geqrf")
def _geqrf(x: Any) -> Any:
    _ready(x, kinds=_REAL)
    return ops.geqrf(x)


@kernel("_linalg_svdvals")
def _svdvals(x: Any) -> Any:
    _ready(x)
    return ops.svd(x, compute_uv=False)


@kernel("linalg_svd")
def svd(x: Any, full: bool) -> Any:
    """Left vectors, singular values, right vectors (transposed); signs are MindSpore's."""
    _ready(x)
    s, u, v = ops.svd(x, full_matrices=full)
    return u, s, _h(v)


@kernel("linalg_eigh")
def _eigh(x: Any, uplo: str) -> Any:
    _ready(x, kinds=_REAL)
    from mindspore.scipy import linalg

    n, shape = x.shape[-1], tuple(x.shape)
    got = [linalg.eigh(_each(x)[i], lower=uplo.upper() == "L") for i in range(math.prod(shape[:-2]))]
    return ops.stack([w for w, _ in got]).reshape((*shape[:-2], n)), ops.stack([v for _, v in got]).reshape(shape)


@kernel("linalg_lu_factor_ex")
def _lu_factor(x: Any, pivot: bool) -> Any:
    """MindSpore factors square matrices. A tall one is the first columns of a square one, whose pivots come column by column;
    the columns that a wide one has more follow from the factor of its first."""
    _ready(x, kinds=_REAL)
    if not pivot:
        raise Unsupported("no pivoting, which PyTorch refuses on the CPU")
    m, n = x.shape[-2:]
    if n < m:
        more = mint.broadcast_to(const(np.eye(m, dtype=np_dtype(x))[:, : m - n]), (*x.shape[:-2], m, m - n))
        lu, pivots = _square_lu(ops.concat([x, more], -1))
        # What the columns beyond have swapped in the first ones is swapped back.
        lu = mint.gather(lu.narrow(-1, 0, n), x.ndim - 2, _rows(pivots, n, n, back=True))
        pivots = pivots.narrow(-1, 0, n)
    else:
        lu, pivots = _square_lu(x.narrow(-1, 0, m) if n > m else x)
        if n > m:
            rest = mint.gather(x.narrow(-1, m, n - m), x.ndim - 2, _rows(pivots, 0, n - m))
            lu = ops.concat([lu, triangular(lu, rest, False, True, True)], -1)
    _finite(lu)
    k = min(m, n)
    diagonal = total(mint.mul(lu.narrow(-2, 0, k).narrow(-1, 0, k), const(np.eye(k, dtype=np_dtype(lu)))), -1)
    if bool(ops.equal(diagonal, ms.Tensor(0, x.dtype)).any()):
        raise Unsupported("a singular matrix: its place is reported by the host kernel")
    return lu, pivots, zeros_of(x.shape[:-2], ms.int32)


def _square_lu(x: Any) -> tuple[Any, Any]:
    """Packed factors and pivots counted from 1, matrix by matrix."""
    from mindspore.scipy import linalg

    shape = tuple(x.shape)
    got = [linalg.lu_factor(_each(x)[i]) for i in range(math.prod(shape[:-2]))]
    pivots = mint.add(ops.stack([p for _, p in got]).astype(ms.int32), ms.Tensor(1, ms.int32))
    return ops.stack([a for a, _ in got]).reshape(shape), pivots.reshape(shape[:-1])


def _rows(pivots: Any, start: int, columns: int, back: bool = False) -> Any:
    """Index of the rows that the swaps from ``start`` on bring about (or back), for each of the columns."""
    m = pivots.shape[-1]
    flat = _hosted(pivots).reshape(-1, m)
    order = np.tile(np.arange(m), (flat.shape[0], 1))
    for row, swaps in zip(order, flat):
        for i in range(start, m):
            row[i], row[swaps[i] - 1] = row[swaps[i] - 1], row[i]
    at = (order.argsort(1) if back else order).reshape(*pivots.shape[:-1], m, 1)
    return const(np.broadcast_to(at, (*at.shape[:-1], columns)).astype(np.int64))


@kernel("_linalg_pinv")
def _pinv(x: Any, limit: Any, hermitian: bool) -> Any:
    if 0 in x.shape:
        return zeros_of((*x.shape[:-2], x.shape[-1], x.shape[-2]), x.dtype)
    if hermitian:
        w, v = _eigh(x, "L")
        inverse = _inverse_above(w, mint.greater(mint.abs(w), limit.astype(w.dtype)))
        return ops.matmul(mint.mul(v, mint.unsqueeze(inverse, -2)), _h(v))
    u, s, vh = svd(x, False)
    keep = mint.greater(s, limit.astype(s.dtype))
    inverse = _inverse_above(s, keep).astype(x.dtype)
    return ops.matmul(mint.mul(_h(vh), mint.unsqueeze(inverse, -2)), _h(u))


@kernel("_linalg_lstsq")
def _lstsq(a: Any, b: Any, rcond: float, driver: str) -> Any:
    """By singular values: solution, rank and the values themselves. In double, so that small ones are told from rounding."""
    _ready(a, b)
    dtype = a.dtype
    wide = ms.complex128 if dtype in _COMPLEX else ms.float64
    u, s, vh = svd(a.astype(wide), False)
    keep = mint.greater(s, mint.mul(s.narrow(-1, 0, 1), ms.Tensor(rcond, s.dtype)))
    inverse = mint.unsqueeze(_inverse_above(s, keep).astype(wide), -1)
    x = ops.matmul(_h(vh), mint.mul(inverse, ops.matmul(_h(u), b.astype(wide))))
    real = ms.float32 if dtype in (ms.float32, ms.complex64) else ms.float64
    return x.astype(dtype), total(keep.astype(ms.int64), -1), s.astype(real)


@kernel("_linalg_cofactor")
def _cofactor(x: Any) -> Any:
    """Products of all singular values but one, between the singular vectors."""
    _ready(x, kinds=_REAL)
    u, s, vh = svd(x, True)
    n = s.shape[-1]
    others = mint.mul(mint.unsqueeze(s, -2), const(1 - np.eye(n, dtype=np_dtype(s))))
    others = ops.ReduceProd()(mint.add(others, const(np.eye(n, dtype=np_dtype(s)))), (s.ndim,))
    turn = mint.mul(_det(u), _det(vh))
    r = ops.matmul(mint.mul(u, mint.unsqueeze(others, -2)), vh)
    return mint.mul(r, turn.reshape((*turn.shape, 1, 1)))


def _inverse_above(s: Any, keep: Any) -> Any:
    return ops.select(keep, mint.div(ms.Tensor(1, s.dtype), s), zeros_of(s.shape, s.dtype))


@kernel("linalg_matrix_exp")
def _matrix_exp(x: Any) -> Any:
    """Scaling, a series and squaring."""
    _ready(x, kinds=_REAL)
    if x.dtype == ms.float32:  # squaring doubles errors: single precision would lose half of the digits
        return _matrix_exp(x.astype(ms.float64)).astype(ms.float32)
    norm = float(mint.max(ops.ReduceSum()(mint.abs(x), (x.ndim - 1,))))
    if not math.isfinite(norm):
        raise Unsupported("numbers that are not finite")
    s = max(0, math.ceil(math.log2(norm / 0.25))) if norm > 0.25 else 0
    y = mint.div(x, ms.Tensor(2.0**s, x.dtype))
    r = _eye(x)
    for k in range(14, 0, -1):
        r = mint.add(_eye(x), mint.div(ops.matmul(y, r), ms.Tensor(k, x.dtype)))
    for _ in range(s):
        r = ops.matmul(r, r)
    return r


# ------------------------------------------------------------------------------------------ products by letters
@kernel("_einsum_pair")
@bilinear
def _einsum_pair(x: Any, y: Any, spec: str) -> Any:
    if 0 in x.shape or 0 in y.shape or x.dtype not in (ms.float16, ms.bfloat16, *_REAL):
        raise Unsupported("a product of nothing, or of whole numbers")
    inputs, out = spec.split("->")
    lx, ly = inputs.split(",")
    batch = [c for c in lx if c in ly and c in out]
    gone = [c for c in lx if c in ly and c not in out]
    mine, theirs = [c for c in lx if c not in ly], [c for c in ly if c not in lx]
    x = _permuted(x, [lx.index(c) for c in (*batch, *mine, *gone)])
    y = _permuted(y, [ly.index(c) for c in (*batch, *gone, *theirs)])
    nb, nx, ng = len(batch), len(mine), len(gone)
    sb, sx, sy = x.shape[:nb], x.shape[nb : nb + nx], y.shape[nb + ng :]
    k = math.prod(x.shape[nb + nx :])
    n = math.prod(sb)
    r = ops.matmul(x.reshape((n, math.prod(sx), k)), y.reshape((n, k, math.prod(sy)))).reshape((*sb, *sx, *sy))
    have = [*batch, *mine, *theirs]
    return _permuted(r, [have.index(c) for c in out])


def _permuted(x: Any, order: list[int]) -> Any:
    return x if order == list(range(x.ndim)) else mint.permute(x, tuple(order))
