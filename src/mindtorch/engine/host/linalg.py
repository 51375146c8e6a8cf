"""Host kernels of linear algebra: products (BLAS), factorisations and solves (LAPACK through NumPy and SciPy), batched.

Matrices are the last two dimensions. Kernels that can fail return LAPACK's ``info`` per matrix.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mindtorch.core.errors import check
from mindtorch.engine.host.quiet import EXTOBJ, quiet

I4 = np.dtype(np.int32)


# ------------------------------------------------------------------------------------------ products
_KIND = {
    "float32": "float",
    "float64": "double",
    "int64": "long int",
    "int32": "int",
    "complex64": "c10::complex<float>",
}


def same_dtype(a: np.ndarray, b: np.ndarray) -> None:
    """RuntimeError unless both operands of a product have one dtype."""
    if a.dtype != b.dtype:
        x, y = (_KIND.get(t.dtype.name, t.dtype.name) for t in (a, b))
        raise RuntimeError(f"expected m1 and m2 to have the same dtype, but got: {x} != {y}")


def _no_bool(a: np.ndarray) -> None:
    check(a.dtype.kind != "b", RuntimeError, "\"addmm_impl_cpu_\" not implemented for 'Bool'")


def _mismatch(a: np.ndarray, b: np.ndarray) -> RuntimeError:
    if a.ndim == b.ndim == 1:
        return RuntimeError(
            f"inconsistent tensor size, expected tensor [{a.size}] and src [{b.size}] to have the same number "
            f"of elements, but got "
            f"{a.size} and {b.size} elements respectively"
        )
    if b.ndim == 1:
        return RuntimeError(
            f"size mismatch, got input ({a.shape[-2]}), mat ({a.shape[-2]}x{a.shape[-1]}), vec ({b.size})"
        )
    if a.ndim > 2 and b.ndim > 2:
        return RuntimeError(
            f"Expected size for first two dimensions of batch2 tensor to match, got {a.shape} @ {b.shape}"
        )
    rows = int(np.prod(a.shape[:-1])) if a.ndim > 1 else 1
    return RuntimeError(
        f"mat1 and mat2 shapes cannot be multiplied ({rows}x{a.shape[-1]} and {b.shape[-2]}x{b.shape[-1]})"
    )


def matmul(a: np.ndarray, b: np.ndarray) -> Any:
    """Matrix product with PyTorch's rules for 1-D operands and broadcast batches."""
    if a.dtype is not b.dtype:
        same_dtype(a, b)
    na, nb = a.ndim, b.ndim
    if na == 2 == nb or (na == 1 and nb == 1):
        if a.dtype.kind == "b":
            _no_bool(a)
        if a.shape[-1] != b.shape[0]:
            raise _mismatch(a, b)
        return a.dot(b)
    check(na and nb, RuntimeError, f"both arguments to matmul need to be at least 1D, but they are {na}D and {nb}D")
    _no_bool(a)
    inner = b.shape[-2] if nb > 1 else b.shape[0]
    if a.shape[-1] != inner:
        raise _mismatch(a, b)
    if nb <= 2 and a.flags.c_contiguous and a.dtype.kind in "fc":
        k = a.shape[-1]
        rows = a.size // k if k else int(np.prod(a.shape[:-1]))
        return a.reshape(rows, k).dot(b).reshape(a.shape[:-1] + b.shape[1:])
    return np.matmul(a, b)


def _wrong_ndim(name: str, a: np.ndarray, b: np.ndarray) -> RuntimeError:
    """The complaint about operands of a product with fixed numbers of dimensions."""
    if name == "dot":
        return RuntimeError(f"1D tensors expected, but got {a.ndim}D and {b.ndim}D tensors")
    if name == "mv":
        return RuntimeError(f"vector + matrix @ vector expected, got 1, {a.ndim}, {b.ndim}")
    if name == "mm":
        which = "self" if a.ndim != 2 else "mat2"
        return RuntimeError(f"{which} must be a matrix, got {a.ndim}-D and {b.ndim}-D tensors")
    if name == "addmm":
        which, t = ("mat1", a) if a.ndim != 2 else ("mat2", b)
        return RuntimeError(f"{which} must be a matrix, got {t.ndim}-D tensor")
    if name == "bmm":
        which = "batch1" if a.ndim != 3 else "batch2"
        return RuntimeError(f"{which} must be a 3D tensor, got {a.ndim}-D and {b.ndim}-D tensors")
    return RuntimeError(f"{name}: operands have {a.ndim} and {b.ndim} dimensions; use torch.matmul for broadcasting")


def exact(name: str, na: int, nb: int) -> Callable[..., Any]:
    """``matmul`` restricted to operands of exactly ``na`` and ``nb`` dimensions."""

    def kernel(a: np.ndarray, b: np.ndarray) -> Any:
        if a.ndim != na or b.ndim != nb:
            raise _wrong_ndim(name, a, b)
        if na == 3:
            same_dtype(a, b)
            _no_bool(a)
            if a.shape[0] != b.shape[0] or a.shape[2] != b.shape[1]:
                raise RuntimeError(
                    f"Expected size for first two dimensions of batch2 tensor to be: [{a.shape[0]}, {a.shape[2]}] but "
                    f"got: [{b.shape[0]}, {b.shape[1]}]."
                )
            return np.matmul(a, b)
        return matmul(a, b)

    return kernel


def add_product(name: str, na: int, nb: int) -> Callable[..., Any]:
    """Kernel of ``beta * c + alpha * (a @ b)``; ``c`` is not read when ``beta`` is 0; addbmm sums the batch."""
    product = exact(name, na, nb)

    def kernel(c: np.ndarray, a: np.ndarray, b: np.ndarray, beta: Any = 1, alpha: Any = 1) -> Any:
        if a.dtype is not b.dtype:
            same_dtype(a, b)
        r = np.asarray(product(a, b))
        if name == "addbmm":
            r = np.add.reduce(r, 0, dtype=r.dtype)
        return _accumulate(c, r, beta, alpha)

    return kernel


def _accumulate(c: np.ndarray, r: np.ndarray, beta: Any, alpha: Any) -> np.ndarray:
    t = r.dtype.type
    if alpha != 1:
        np.multiply(r, t(alpha), r, extobj=EXTOBJ)
    if beta != 0:
        x = c if beta == 1 else np.multiply(c, t(beta), extobj=EXTOBJ)
        try:
            np.add(r, x, r, extobj=EXTOBJ)
        except ValueError:
            raise RuntimeError(
                f"The expanded size of the tensor {list(r.shape)} must match the existing size {list(c.shape)}"
            ) from None
    return r


# ------------------------------------------------------------------------------------------ LAPACK over batches
def lapack(name: str, *arrays: np.ndarray) -> Any:
    """The LAPACK routine for the arrays' dtype (SciPy, loaded on first use)."""
    from scipy.linalg import get_lapack_funcs

    return get_lapack_funcs((name,), arrays)[0]


def square(name: str, a: np.ndarray) -> None:
    """RuntimeError unless ``a`` holds square matrices of a floating or complex dtype."""
    matrices(name, a)
    if a.shape[-1] != a.shape[-2]:
        raise RuntimeError(
            f"{name}: A must be batches of square matrices, but they are {a.shape[-2]} by {a.shape[-1]} matrices"
        )


def matrices(name: str, a: np.ndarray) -> None:
    """RuntimeError unless ``a`` has two dimensions or more and a floating or complex dtype."""
    check(a.ndim >= 2, RuntimeError, f"{name}: The input tensor A must have at least 2 dimensions.")
    check(
        a.dtype.name in ("float32", "float64", "complex64", "complex128"),
        RuntimeError,
        f"{name}: Expected a floating point or complex tensor as input. Got {a.dtype.name}",
    )


def each(a: np.ndarray) -> np.ndarray:
    """View (or copy) with one batch dimension."""
    return a.reshape((int(np.prod(a.shape[:-2])), *a.shape[-2:]))


def real_dtype(a: np.ndarray) -> np.dtype:
    """dtype of the real part."""
    return np.empty(0, a.dtype).real.dtype


def lu_factor(a: np.ndarray, pivot: bool = True) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Packed LU, 1-based int32 pivots, info."""
    matrices("linalg.lu_factor", a)
    check(pivot, RuntimeError, "linalg.lu_factor: LU without pivoting is not implemented on the CPU")
    x = each(a)
    m, n = a.shape[-2:]
    k = min(m, n)
    lu = np.empty(x.shape, a.dtype)
    piv = np.empty((x.shape[0], k), I4)
    info = np.zeros(x.shape[0], I4)
    if x.shape[0] and k:
        getrf = lapack("getrf", a)
        for i in range(x.shape[0]):
            lu[i], p, info[i] = getrf(x[i])
            piv[i] = p + 1
    batch = a.shape[:-2]
    return lu.reshape(a.shape), piv.reshape((*batch, k)), info.reshape(batch)


def permutation(piv: np.ndarray, m: int) -> np.ndarray:
    """Row order (…, m) that LAPACK's 1-based pivots stand for: row i of P^T A is row order[i] of A."""
    flat = piv.reshape(int(np.prod(piv.shape[:-1])), piv.shape[-1])
    order = np.tile(np.arange(m), (flat.shape[0], 1))
    for row, p in zip(order, flat):
        for i, j in enumerate(p):
            row[i], row[j - 1] = row[j - 1], row[i]
    return order.reshape(*piv.shape[:-1], m)


def permutation_matrix(piv: np.ndarray, m: int, dtype: np.dtype) -> np.ndarray:
    """P with A = P L U."""
    order = permutation(piv, m)
    return np.swapaxes(np.eye(m, dtype=dtype)[order], -1, -2).copy()


def det(a: np.ndarray) -> Any:
    """Determinant."""
    square("linalg.det", a)
    return np.linalg.det(a) if a.shape[-1] else np.ones(a.shape[:-2], a.dtype)


def slogdet(a: np.ndarray) -> tuple[Any, Any]:
    """Sign (unit complex) and log of the magnitude of the determinant."""
    square("linalg.slogdet", a)
    if not a.shape[-1]:
        return np.ones(a.shape[:-2], a.dtype), np.zeros(a.shape[:-2], real_dtype(a))
    s, v = np.linalg.slogdet(a)
    return np.asarray(s, a.dtype), np.asarray(v, real_dtype(a))


def cofactor(a: np.ndarray) -> np.ndarray:
    """Derivative of the determinant by every element (right for singular matrices), conjugated."""
    u, s, vh = np.linalg.svd(a)
    n = s.shape[-1]
    others = np.stack([np.prod(np.delete(s, i, -1), -1) for i in range(n)], -1) if n else s
    phase = np.linalg.det(u) * np.linalg.det(vh)
    core = (u * others[..., None, :]) @ vh
    return (np.conj(phase)[..., None, None] if a.dtype.kind == "c" else phase[..., None, None]) * core


def singular_any(a: np.ndarray) -> bool:
    """Whether some matrix is singular to working precision."""
    if not a.size:
        return False
    s = np.linalg.svd(a, compute_uv=False)
    return bool((s[..., -1] <= s[..., 0] * np.finfo(s.dtype).eps * a.shape[-1]).any())


def inv(a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Inverse and info (1-based place of the zero pivot)."""
    square("linalg.inv", a)
    info = np.zeros(a.shape[:-2], I4)
    if not a.size:
        return a.copy(), info
    try:
        with quiet():
            return np.linalg.inv(a), info
    except np.linalg.LinAlgError:
        return _inv_each(a)


def _inv_each(a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    lu, _, info = lu_factor(a)
    x, y, flat = each(a), each(lu).copy(), info.reshape(-1)
    for i in range(x.shape[0]):
        if not flat[i]:
            y[i] = np.linalg.inv(x[i])
    return y.reshape(a.shape), info


def _rhs(name: str, a: np.ndarray, b: np.ndarray, left: bool) -> tuple[np.ndarray, np.ndarray]:
    same_dtype(a, b)
    n = a.shape[-1]
    check(b.ndim >= 2, RuntimeError, f"{name}: The input tensor B must have at least 2 dimensions.")
    k = b.shape[-2 if left else -1]
    check(
        k == n,
        RuntimeError,
        f"{name}: Incompatible shapes of A and B for the equation AX = B ({list(a.shape)} and {list(b.shape)})",
    )
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    return np.broadcast_to(a, batch + a.shape[-2:]), np.broadcast_to(b, batch + b.shape[-2:])


def solve(a: np.ndarray, b: np.ndarray, left: bool) -> tuple[np.ndarray, np.ndarray]:
    """X of ``A X = B`` (``X A = B``) and info."""
    square("linalg.solve", a)
    info = np.zeros(np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), I4)
    a, b = _rhs("linalg.solve", a, b, left)
    if not left:
        a, b = a.swapaxes(-1, -2), b.swapaxes(-1, -2)
    if not b.size:
        x = np.zeros(b.shape, b.dtype)
    else:
        try:
            with quiet():
                x = np.linalg.solve(a, b)
        except np.linalg.LinAlgError:
            info = lu_factor(a)[2]
            x = np.full(b.shape, np.nan, b.dtype)
            xs, as_, bs = each(x), each(a), each(b)
            for i, bad in enumerate(info.reshape(-1)):
                if not bad:
                    xs[i] = np.linalg.solve(as_[i], bs[i])
            x = xs.reshape(b.shape)
    return (x if left else x.swapaxes(-1, -2)), info


def solve_triangular(a: np.ndarray, b: np.ndarray, upper: bool, left: bool, unit: bool) -> np.ndarray:
    """X of ``A X = B`` (``X A = B``) for triangular A; a zero on the diagonal gives infinities, no error."""
    square("linalg.solve_triangular", a)
    a, b = _rhs("linalg.solve_triangular", a, b, left)
    if not left:
        a, b, upper = a.swapaxes(-1, -2), b.swapaxes(-1, -2), not upper
    out = np.empty(b.shape, b.dtype)
    x, y, o = each(a), each(b), each(out)
    if b.size:
        from scipy.linalg.blas import get_blas_funcs

        trsm = get_blas_funcs("trsm", (a,))
        for i in range(x.shape[0]):
            o[i] = trsm(1.0, x[i], y[i], lower=0 if upper else 1, diag=1 if unit else 0)
    out = o.reshape(b.shape)
    return out if left else out.swapaxes(-1, -2)


def cholesky(a: np.ndarray, upper: bool) -> tuple[np.ndarray, np.ndarray]:
    """Cholesky factor and info (order of the leading minor that is not positive definite)."""
    square("linalg.cholesky", a)
    info = np.zeros(a.shape[:-2], I4)
    if not a.size:
        return a.copy(), info
    x = np.conj(a.swapaxes(-1, -2)) if upper else a
    try:
        r = np.linalg.cholesky(x)
    except np.linalg.LinAlgError:
        potrf = lapack("potrf", a)
        r = np.zeros(a.shape, a.dtype)
        rs, xs, flat = each(r), each(x), info.reshape(-1)
        for i in range(xs.shape[0]):
            rs[i], flat[i] = potrf(xs[i], lower=1, clean=1)
        r = rs.reshape(a.shape)
    return (np.conj(r.swapaxes(-1, -2)) if upper else r), info


def qr(a: np.ndarray, mode: str) -> tuple[np.ndarray, np.ndarray]:
    """Q and R; mode reduced, complete, or r (empty Q)."""
    matrices("linalg.qr", a)
    check(
        mode in ("reduced", "complete", "r"),
        RuntimeError,
        f"qr received unrecognized mode '{mode}' but expected one of 'reduced' (default), 'r', or 'complete'",
    )
    m, n = a.shape[-2:]
    if not a.size:
        k = m if mode == "complete" else min(m, n)
        q = np.zeros((*a.shape[:-2], m, k), a.dtype)
        if mode == "complete":
            q[..., :, :] = np.eye(m, dtype=a.dtype)
        r = np.zeros((*a.shape[:-2], k, n), a.dtype)
        return (np.zeros(0, a.dtype) if mode == "r" else q), r
    if mode == "r":
        only: Any = np.linalg.qr(a, "r")
        return np.zeros(0, a.dtype), only
    which: Any = mode
    q, r = np.linalg.qr(a, which)
    return q, r


def geqrf(a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Householder vectors below R, and the scalars tau."""
    matrices("geqrf", a)
    x = each(a)
    k = min(a.shape[-2:])
    out = np.empty(x.shape, a.dtype)
    tau = np.empty((x.shape[0], k), a.dtype)
    if a.size:
        f = lapack("geqrf", a)
        for i in range(x.shape[0]):
            out[i], tau[i], _, _ = f(x[i])
    return out.reshape(a.shape), tau.reshape((*a.shape[:-2], k))


def eigh(a: np.ndarray, uplo: str) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues (ascending) and vectors of Hermitian matrices."""
    square("linalg.eigh", a)
    u = uplo.upper()
    check(u in ("U", "L"), RuntimeError, f"Expected UPLO argument to be 'L' or 'U', but got {uplo}")
    if not a.size:
        return np.zeros(a.shape[:-1], real_dtype(a)), a.copy()
    letter: Any = u
    w, v = np.linalg.eigh(a, letter)
    return w, v


def eig(a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues and vectors, always complex."""
    square("linalg.eig", a)
    check(bool(np.isfinite(a).all()), RuntimeError, "torch.linalg.eig: input tensor should not contain infs or NaNs.")
    d = np.result_type(a.dtype, np.complex64)
    if not a.size:
        return np.zeros(a.shape[:-1], d), np.zeros(a.shape, d)
    w, v = np.linalg.eig(a)
    return w.astype(d, copy=False), v.astype(d, copy=False)


def svd(a: np.ndarray, full: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """U, S, V^H."""
    matrices("linalg.svd", a)
    m, n = a.shape[-2:]
    k = min(m, n)
    if not a.size:
        batch = a.shape[:-2]
        u = np.zeros((*batch, m, m if full else k), a.dtype)
        vh = np.zeros((*batch, n if full else k, n), a.dtype)
        for x in (u, vh):
            x[...] = np.eye(x.shape[-2], x.shape[-1], dtype=a.dtype)
        return u, np.zeros((*batch, k), real_dtype(a)), vh
    u, s, vh = np.linalg.svd(a, full)
    return u, s, vh


def svdvals(a: np.ndarray) -> np.ndarray:
    """Singular values, descending."""
    matrices("linalg.svdvals", a)
    if not a.size:
        return np.zeros((*a.shape[:-2], min(a.shape[-2:])), real_dtype(a))
    return np.linalg.svd(a, compute_uv=False)


def lstsq(a: np.ndarray, b: np.ndarray, rcond: float, driver: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Least-squares solution, rank, singular values per matrix of equally batched ``a`` and ``b``."""
    from scipy.linalg import lstsq as solve_one

    m, n = a.shape[-2:]
    x, y = each(a), each(b)
    out = np.zeros((x.shape[0], n, b.shape[-1]), a.dtype)
    rank = np.zeros(x.shape[0], np.int64)
    s = np.zeros((x.shape[0], min(m, n)), real_dtype(a))
    if a.size and b.size:
        use = "gelsy" if driver == "gelsy" else "gelss" if driver == "gelss" else "gelsd"
        for i in range(x.shape[0]):
            out[i], _, rank[i], sv = solve_one(x[i], y[i], cond=rcond, lapack_driver=use)
            if sv is not None:
                s[i] = sv
    batch = a.shape[:-2]
    return out.reshape((*batch, *out.shape[1:])), rank.reshape(batch), s.reshape((*batch, s.shape[-1]))


# combinations of I, A, A^2, A^3, A^6 whose products give the Taylor polynomial of degree 18 with five products
# (Bader, Blanes and Casas 2019, "Computing the matrix exponential with an optimized Taylor polynomial approximation")
_TAYLOR18 = (
    (0.0, -0.10036558103014462001, -0.00802924648241156960, -0.00089213849804572995, 0.0),
    (0.0, 0.39784974949964507614, 1.36783778460411719922, 0.49828962252538267755, -0.00063789819459472330),
    (-10.9676396052962062593, 1.68015813878906197182, 0.05717798464788655127, -0.00698210122488052084, 0.00003349750170860705),
    (-0.09043168323908105619, -0.06764045190713819075, 0.06759613017704596460, 0.02955525704293155274, -0.00001391802575160607),
    (0.0, 0.0, -0.09233646193671185927, -0.01693649390020817171, -0.00001400867981820361),
)
_REACH = 3.010066362817634  # norm up to which degree 18 is exact in float32


def _taylor18(a: np.ndarray) -> np.ndarray:
    c = a.real.dtype.type
    a2 = a @ a
    a3 = a2 @ a
    powers = (np.eye(a.shape[-1], dtype=a.dtype), a, a2, a3, a3 @ a3)
    b1, b2, b3, b4, b5 = (sum(c(k) * p for k, p in zip(row, powers)) for row in _TAYLOR18)
    a9 = b1 @ b5 + b4
    return np.asarray(b2 + (b3 + a9) @ a9)


def matrix_exp(a: np.ndarray) -> np.ndarray:
    """Matrix exponential. Large float32 matrices by PyTorch's scheme (scaled polynomial, then squarings) in float32, for
    the sake of its rounding errors; everything else in double."""
    square("linalg.matrix_exp", a)
    if not a.size:
        return a.copy()
    from scipy.linalg import expm

    wide = np.complex128 if a.dtype.kind == "c" else np.float64
    if a.dtype == wide:
        return np.asarray(expm(a))
    x = each(a)
    out = np.empty_like(x)
    norms = np.abs(x).sum(-2).max(-1)
    for i, norm in enumerate(norms):
        if not 1.5 < norm < 1e30:
            out[i] = expm(x[i].astype(wide))
            continue
        halvings = max(int(np.ceil(np.log2(norm / _REACH))), 0)
        with quiet():
            r = _taylor18(x[i] / a.real.dtype.type(2.0**halvings))
            for _ in range(halvings):
                r = r @ r
        out[i] = r
    return out.reshape(a.shape)


def ldl_factor(a: np.ndarray, hermitian: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Packed LDL factor (lower), 1-based int32 pivots, info."""
    square("linalg.ldl_factor", a)
    x = each(a)
    n = a.shape[-1]
    out = np.empty(x.shape, a.dtype)
    piv = np.empty((x.shape[0], n), I4)
    info = np.zeros(x.shape[0], I4)
    if a.size:
        f = lapack("hetrf" if hermitian and a.dtype.kind == "c" else "sytrf", a)
        for i in range(x.shape[0]):
            ld, piv[i], info[i] = f(x[i], lower=1)
            out[i] = np.tril(ld)
    batch = a.shape[:-2]
    return out.reshape(a.shape), piv.reshape((*batch, n)), info.reshape(batch)


def ldl_solve(ld: np.ndarray, piv: np.ndarray, b: np.ndarray, hermitian: bool) -> np.ndarray:
    """X of ``A X = B`` from the packed LDL factor."""
    square("linalg.ldl_solve", ld)
    batch = np.broadcast_shapes(ld.shape[:-2], b.shape[:-2])
    x = each(np.broadcast_to(ld, batch + ld.shape[-2:]))
    p = np.broadcast_to(piv, batch + piv.shape[-1:]).reshape(int(np.prod(batch)), piv.shape[-1])
    y = each(np.broadcast_to(b, batch + b.shape[-2:]))
    out = np.empty(y.shape, b.dtype)
    if b.size:
        f = lapack("hetrs" if hermitian and ld.dtype.kind == "c" else "sytrs", ld)
        for i in range(x.shape[0]):
            out[i], _ = f(x[i], p[i], y[i], lower=1)
    return out.reshape(batch + b.shape[-2:])


# ------------------------------------------------------------------------------------------ distances
def euclid(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Euclidean distances between rows through one matrix product (P by R)."""
    with quiet():
        d = np.matmul(x, -2 * y.swapaxes(-1, -2))
        d += (x * x).sum(-1)[..., :, None]
        d += (y * y).sum(-1)[..., None, :]
        return np.sqrt(np.maximum(d, 0))
