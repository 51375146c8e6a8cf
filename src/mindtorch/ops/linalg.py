"""Matrix products, distances, covariance. Kernels: engine/host/linalg; see linalg_norm, linalg_decomp, linalg_solve,
einsum."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from mindtorch.core import dtype as D
from mindtorch.core.errors import check, wrap_dim
from mindtorch.core.observe import whole
from mindtorch.core.signature import to_int, to_ints
from mindtorch.core.tape import sum_to
from mindtorch.core.tensor import Tensor, constant
from mindtorch.engine.host import linalg as K
from mindtorch.ops.linalg_norm import vector_norm
from mindtorch.ops.table import SPACES, alias, composite, op, put, vjp


def mh(x: Tensor) -> Tensor:
    """Conjugate transpose of the last two dimensions."""
    t = x.transpose(-2, -1)
    return t.conj() if x.k.cat == D.COMPLEX else t


def _c(x: Tensor) -> Tensor:
    return x.conj() if x.k.cat == D.COMPLEX else x


def _conj_number(v: Any) -> Any:
    return v.conjugate() if isinstance(v, complex) else v


def _rows(x: Tensor) -> Tensor:
    """All leading dimensions flattened into one."""
    shape = x.a.shape
    return x.reshape((math.prod(shape[:-1]), shape[-1]))


# ------------------------------------------------------------------------------------------ matmul
def _matmul_grad(g: Tensor, needs: Sequence[bool], input: Tensor, other: Tensor) -> tuple[Any, Any]:
    na, nb = input.a.ndim, other.a.ndim
    if na == 2 == nb:
        return matmul(g, mh(other)) if needs[0] else None, matmul(mh(input), g) if needs[1] else None
    if na == 1 == nb:
        return g * _c(other) if needs[0] else None, g * _c(input) if needs[1] else None
    if nb == 1:
        ga = g.unsqueeze(-1) * _c(other) if needs[0] else None
        gb = matmul(_c(_rows(input).transpose(0, 1)), g.reshape(-1)) if needs[1] else None
        return ga, gb
    if na == 1:
        g = g.unsqueeze(-2)
        ga = sum_to(matmul(g, mh(other)).squeeze(-2), input.a.shape) if needs[0] else None
        gb = _c(input).unsqueeze(-1) * g if needs[1] else None
        return ga, gb
    ga = sum_to(matmul(g, mh(other)), input.a.shape) if needs[0] else None
    gb = None
    if needs[1] and nb == 2:
        gb = matmul(mh(_rows(input)), _rows(g))
    elif needs[1]:
        gb = sum_to(matmul(mh(input), g), other.a.shape)
    return ga, gb


_MM: dict[str, Any] = {
    "half": "f32",
    "out": True,
    "grad": vjp(("input", "other"), lambda g, needs, input, other: _matmul_grad(g, needs, input, other),
                input=("other",), other=("input",)),
}
_NAMES = {
    "input.a.ndim == 2 and other.a.ndim == 2": "MmBackward0",
    "input.a.ndim == 2 and other.a.ndim == 1": "MvBackward0",
    "input.a.ndim == 1 and other.a.ndim == 1": "DotBackward0",
    "input.a.ndim == 1 and other.a.ndim == 2": "SqueezeBackward4",
    "input.a.ndim == 2 and other.n is not None": "CloneBackward0",
}
"""PyTorch builds matmul from other operations: the one that is left as ``grad_fn``, by the ranks of the operands."""
matmul = op(
    "matmul(T input, T other)", ns="torch Tensor linalg", node="UnsafeViewBackward0", nodes=_NAMES, **_MM
)(K.matmul)


def _exact(name: str, first: str, second: str, na: int, nb: int) -> Any:
    rule = {
        "mm": lambda g, needs, input, mat2: _matmul_grad(g, needs, input, mat2),
        "mv": lambda g, needs, input, vec: _matmul_grad(g, needs, input, vec),
        "dot": lambda g, needs, input, tensor: _matmul_grad(g, needs, input, tensor),
    }
    return op(
        f"{name}(T {first}, T {second})",
        half="f32",
        out=True,
        grad=vjp((first, second), rule["mm" if name == "bmm" else name], **{first: (second,), second: (first,)}),
    )(K.exact(name, na, nb))


mm = _exact("mm", "input", "mat2", 2, 2)
alias("spmm", mm, ns="torch")
bmm = _exact("bmm", "input", "mat2", 3, 3)
mv = _exact("mv", "input", "vec", 2, 1)
dot = _exact("dot", "input", "tensor", 1, 1)
_dot = K.exact("vdot", 1, 1)


@composite("__rmatmul__(T input, T other)", ns="Tensor")
def rmatmul(input: Tensor, other: Tensor) -> Tensor:
    """``other @ input``."""
    return matmul(other, input)


@op(
    "vdot(T input, T other)",
    half="f32",
    out=True,
    grad={"input": lambda g, other: g.conj() * other, "other": lambda g, input: g * input},
)
def vdot(a: np.ndarray, b: np.ndarray) -> Any:
    """Dot product with ``input`` conjugated."""
    return _dot(a.conj(), b)


@composite("inner(T input, T other)", out=True)
def inner(input: Tensor, other: Tensor) -> Tensor:
    """Sums of products over the last dimensions."""
    if input.a.ndim == 0 or other.a.ndim == 0:
        return input * other
    check(
        input.shape[-1] == other.shape[-1],
        RuntimeError,
        f"inner() the last dimension must match on both input tensors but got shapes {list(input.shape)} and "
        f"{list(other.shape)}",
    )
    return tensordot(input, other, [[-1], [-1]])


@composite("outer(T input, T vec2)", out=True)
def outer(input: Tensor, vec2: Tensor) -> Tensor:
    """All products of the elements of two vectors."""
    check(
        input.a.ndim == 1 and vec2.a.ndim == 1,
        RuntimeError,
        f"outer: Expected 1-D arguments, but got {input.a.ndim}D and {vec2.a.ndim}D",
    )
    return input.unsqueeze(-1) * vec2


alias("ger", "outer")


# ------------------------------------------------------------------------------------------ add and multiply
def _scaled(x: Tensor | None, s: Any) -> Tensor | None:
    return x if x is None or s == 1 else x * _conj_number(s)


def _addmm_grad(g: Tensor, needs: Any, shape: Any, a: Tensor, b: Tensor, beta: Any, alpha: Any) -> tuple[Any, ...]:
    gi = sum_to(_scaled(g, beta), shape) if needs[0] else None
    ga, gb = _matmul_grad(g, needs[1:], a, b)
    return gi, _scaled(ga, alpha), _scaled(gb, alpha)


_ADD: dict[str, Any] = {"half": "f32", "inplace": True, "out": True}
addmm = op(
    "addmm(T input, T mat1, T mat2, *, N beta=1, N alpha=1)",
    grad=vjp(
        ("input", "mat1", "mat2"),
        lambda g, needs, input_shape, mat1, mat2, beta, alpha: _addmm_grad(g, needs, input_shape, mat1, mat2, beta, alpha),
        mat1=("mat2",),
        mat2=("mat1",),
    ),
    **_ADD,
)(K.add_product("addmm", 2, 2))
addmv = op(
    "addmv(T input, T mat, T vec, *, N beta=1, N alpha=1)",
    grad=vjp(
        ("input", "mat", "vec"),
        lambda g, needs, input_shape, mat, vec, beta, alpha: _addmm_grad(g, needs, input_shape, mat, vec, beta, alpha),
        mat=("vec",),
        vec=("mat",),
    ),
    **_ADD,
)(K.add_product("addmv", 2, 1))
baddbmm = op(
    "baddbmm(T input, T batch1, T batch2, *, N beta=1, N alpha=1)",
    grad=vjp(
        ("input", "batch1", "batch2"),
        lambda g, needs, input_shape, batch1, batch2, beta, alpha: _addmm_grad(g, needs, input_shape, batch1, batch2, beta, alpha),
        batch1=("batch2",),
        batch2=("batch1",),
    ),
    **_ADD,
)(K.add_product("baddbmm", 3, 3))


def _addbmm_grad(g: Tensor, needs: Any, shape: Any, a: Tensor, b: Tensor, beta: Any, alpha: Any) -> tuple[Any, ...]:
    gi = sum_to(_scaled(g, beta), shape) if needs[0] else None
    ga, gb = _matmul_grad(g.unsqueeze(0).expand((a.shape[0], *g.shape)), needs[1:], a, b)
    return gi, _scaled(ga, alpha), _scaled(gb, alpha)


addbmm = op(
    "addbmm(T input, T batch1, T batch2, *, N beta=1, N alpha=1)",
    grad=vjp(
        ("input", "batch1", "batch2"),
        lambda g, needs, input_shape, batch1, batch2, beta, alpha: _addbmm_grad(g, needs, input_shape, batch1, batch2, beta, alpha),
        batch1=("batch2",),
        batch2=("batch1",),
    ),
    **_ADD,
)(K.add_product("addbmm", 3, 3))


def _number(v: Any, x: Tensor) -> Any:
    """A factor as an integer tensor sees it: cut to an integer."""
    return int(v) if x.dtype.category < D.FLOAT and isinstance(v, float) else v


def _combine(input: Tensor, product: Tensor, beta: Any, alpha: Any) -> Tensor:
    beta, alpha = _number(beta, input), _number(alpha, product)
    if alpha != 1:
        product = product * alpha
    if beta == 0:
        return product
    return (input if beta == 1 else input * beta) + product


@composite(
    "addr(T input, T vec1, T vec2, *, N beta=1, N alpha=1)",
    inplace=True, out=True, node="AddrBackward0",
)
def addr(input: Tensor, vec1: Tensor, vec2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """``beta * input + alpha * outer(vec1, vec2)``."""
    product = outer(vec1, vec2)
    if input.dtype is D.bool_ and product.dtype is D.bool_:
        product = product & bool(alpha)
        return (input & bool(beta)) | product
    return _combine(input.expand(product.shape), product, beta, alpha)


# ------------------------------------------------------------------------------------------ tensor products
@composite("tensordot(T a, T b, any dims=2)", ns="torch", out=True)
def tensordot(a: Tensor, b: Tensor, dims: Any = 2) -> Tensor:
    """Contraction of ``a`` and ``b``: the last/first ``dims`` dimensions, or two lists of dimensions."""
    if isinstance(dims, Tensor):
        dims = dims.tolist() if dims.a.size > 1 else int(dims.a)
    if isinstance(dims, (tuple, list)):
        da, db = (to_ints(d) for d in dims)
        da = [wrap_dim(d, a.a.ndim) for d in da]
        db = [wrap_dim(d, b.a.ndim) for d in db]
    else:
        n = to_int(dims)
        check(n >= 0, RuntimeError, f"tensordot expects dims >= 0, but got dims={n}")
        check(
            n <= min(a.a.ndim, b.a.ndim),
            RuntimeError,
            f"tensordot expects dims < ndim_a or ndim_b, but got dims={n} for {a.a.ndim} and {b.a.ndim} dimensions",
        )
        da, db = list(range(a.a.ndim - n, a.a.ndim)), list(range(n))
    check(len(da) == len(db), RuntimeError, "both dimension lists should have same length")
    for i, j in zip(da, db):
        check(
            a.shape[i] == b.shape[j] or 1 in (a.shape[i], b.shape[j]),
            RuntimeError,
            f"contracted dimensions need to match, but first has size {a.shape[i]} in dim {i} and second has size "
            f"{b.shape[j]} in dim {j}",
        )
        if a.shape[i] != b.shape[j]:
            a, b = (a.sum(i, True, dtype=a.dtype), b) if b.shape[j] == 1 else (a, b.sum(j, True, dtype=b.dtype))
    ra = [i for i in range(a.a.ndim) if i not in da]
    rb = [i for i in range(b.a.ndim) if i not in db]
    k = int(np.prod([a.shape[i] for i in da]))
    rows, cols = [a.shape[i] for i in ra], [b.shape[i] for i in rb]
    left = a.permute((*ra, *da)).reshape((int(np.prod(rows)), k))
    right = b.permute((*db, *rb)).reshape((k, int(np.prod(cols))))
    return mm(left, right).reshape((*rows, *cols))


@composite("kron(T input, T other)", out=True)
def kron(input: Tensor, other: Tensor) -> Tensor:
    """Kronecker product."""
    n = max(input.a.ndim, other.a.ndim)
    sa = (1,) * (n - input.a.ndim) + input.a.shape
    sb = (1,) * (n - other.a.ndim) + other.a.shape
    left = input.reshape([x for s in sa for x in (s, 1)])
    right = other.reshape([x for s in sb for x in (1, s)])
    if input.n is not None or other.n is not None:
        left, right = left.clone(), right.clone()  # what is saved must not follow later writes to the arguments
    return (left * right).reshape([p * q for p, q in zip(sa, sb)])


def _order(shapes: list[int]) -> list[list[int]]:
    """Split points of the cheapest bracketing of a matrix chain with the given row/column sizes."""
    n = len(shapes) - 1
    cost = [[0] * n for _ in range(n)]
    split = [[0] * n for _ in range(n)]
    for span in range(1, n):
        for i in range(n - span):
            j = i + span
            options = [cost[i][k] + cost[k + 1][j] + shapes[i] * shapes[k + 1] * shapes[j + 1] for k in range(i, j)]
            cost[i][j] = min(options)
            split[i][j] = i + options.index(cost[i][j])
    return split


@composite("multi_dot(TL tensors)", ns="linalg", out=True, node="ViewBackward0")
def multi_dot(tensors: Any) -> Tensor:
    """Product of a chain of matrices in the cheapest order; first and last may be vectors."""
    ts = list(tensors)
    check(len(ts) >= 2, RuntimeError, f"multi_dot(): expected at least 2 tensors but got {len(ts)}")
    first, last = ts[0].a.ndim == 1, ts[-1].a.ndim == 1
    if first:
        ts[0] = ts[0].unsqueeze(0)
    if last:
        ts[-1] = ts[-1].unsqueeze(-1)
    for i, t in enumerate(ts):
        check(t.a.ndim == 2, RuntimeError, f"multi_dot(): tensor {i} must be 2D but got {t.a.ndim}D")
    split = _order([ts[0].shape[0]] + [t.shape[1] for t in ts])

    def chain(i: int, j: int) -> Tensor:
        return ts[i] if i == j else mm(chain(i, split[i][j]), chain(split[i][j] + 1, j))

    r = chain(0, len(ts) - 1)
    if first:
        r = r.squeeze(0)
    return r.squeeze(-1) if last else r


@whole
def chain_matmul(*matrices: Tensor, out: Tensor | None = None) -> Tensor:
    """Product of matrices in the cheapest order (the older name of ``linalg.multi_dot``)."""
    r = multi_dot(list(matrices)) if len(matrices) > 1 else matrices[0]
    return r if out is None else out.copy_(r)


# ------------------------------------------------------------------------------------------ distances
def _euclid_grad(g: Tensor, needs: Any, x1: Tensor, x2: Tensor, out: Tensor) -> tuple[Any, Any]:
    r = (g / out).masked_fill(out == 0, 0)
    ga = x1 * r.sum(-1, keepdim=True) - matmul(r, x2) if needs[0] else None
    gb = x2 * r.sum(-2).unsqueeze(-1) - matmul(r.transpose(-2, -1), x1) if needs[1] else None
    return (None if ga is None else sum_to(ga, x1.a.shape)), (None if gb is None else sum_to(gb, x2.a.shape))


_euclid = op(
    "_euclidean_dist(T x1, T x2)",
    half="f32",
    ns="_C",
    grad=vjp(("x1", "x2"), lambda g, needs, x1, x2, out: _euclid_grad(g, needs, x1, x2, out)),
)(K.euclid)


@composite(
    "cdist(T x1, T x2, float p=2.0, any compute_mode='use_mm_for_euclid_dist_if_necessary')",
    ns="torch",
    node="CdistBackward0", keeps=("x1", "x2"),
)
def cdist(x1: Tensor, x2: Tensor, p: float = 2.0, compute_mode: Any = "use_mm_for_euclid_dist_if_necessary") -> Tensor:
    """p-norm distances between the rows of ``x1`` (…, P, M) and ``x2`` (…, R, M)."""
    modes = ("use_mm_for_euclid_dist_if_necessary", "use_mm_for_euclid_dist", "donot_use_mm_for_euclid_dist")
    if compute_mode in (0, 1, 2, None):
        compute_mode = modes[compute_mode or 0]
    check(compute_mode in modes, ValueError, f"{compute_mode} is not a valid value for compute_mode")
    check(
        x1.a.ndim >= 2 and x2.a.ndim >= 2 and x1.shape[-1] == x2.shape[-1],
        RuntimeError,
        f"cdist: X1 and X2 must have the same number of columns. X1: {list(x1.shape)} X2: {list(x2.shape)}",
    )
    check(p >= 0, RuntimeError, f"cdist only supports non-negative p values, got {p}")
    many = x1.shape[-2] > 25 or x2.shape[-2] > 25
    if p == 2 and (compute_mode == modes[1] or (compute_mode == modes[0] and many)):
        return _euclid(x1, x2)
    return vector_norm(x1.unsqueeze(-2) - x2.unsqueeze(-3), float(p), (-1,))


@composite("pdist(T input, float p=2.0)", ns="torch F", node="PdistBackward0", keeps=("input",))
def pdist(input: Tensor, p: float = 2.0) -> Tensor:
    """p-norm distances between all pairs of rows, in the order (0,1), (0,2), ..."""
    check(input.a.ndim == 2, RuntimeError, f"pdist only supports 2D tensors, got: {input.a.ndim}D")
    i, j = np.triu_indices(input.shape[0], 1)
    i, j = constant(i.astype(np.int64)), constant(j.astype(np.int64))
    return vector_norm(input.index_select(0, i) - input.index_select(0, j), float(p), (-1,))


# ------------------------------------------------------------------------------------------ small products
def _cross(a: Tensor, b: Tensor, dim: int) -> Tensor:
    def part(x: Tensor, shift: int) -> Tensor:
        return x.roll(-shift, dim)

    return part(a, 1) * part(b, 2) - part(a, 2) * part(b, 1)


@composite("cross(T input, T other, any dim=None)", out=True)
def cross(input: Tensor, other: Tensor, dim: Any = None) -> Tensor:
    """Cross product along ``dim`` (the first dimension of size 3 when None)."""
    if dim is None:
        shape = input.shape
        found = [i for i, n in enumerate(shape) if n == 3]
        check(bool(found), RuntimeError, f"no dimension of size 3 in input, got shape {list(shape)}")
        dim = found[0] - len(shape)
    return linalg_cross(input, other, dim=dim)


@composite(
    "cross(T input, T other, *, any dim=-1)", ns="linalg", out=True, node="LinalgCrossBackward0", keeps=("input", "other")
)
def linalg_cross(input: Tensor, other: Tensor, *, dim: Any = -1) -> Tensor:
    """Cross product along ``dim``, with broadcasting."""
    check(
        input.a.ndim == other.a.ndim,
        RuntimeError,
        f"linalg.cross: inputs must have the same number of dimensions, got {input.a.ndim} and {other.a.ndim}",
    )
    d = wrap_dim(to_int(dim), input.a.ndim)
    check(
        input.shape[d] == 3 and other.shape[d] == 3,
        RuntimeError,
        f"linalg.cross: inputs dimension {dim} must have length 3. Got {input.shape[d]} and {other.shape[d]}",
    )
    return _cross(input, other, d)


@composite("vecdot(T x, T y, *, any dim=-1)", ns="linalg", out=True)
def vecdot(x: Tensor, y: Tensor, *, dim: Any = -1) -> Tensor:
    """Dot products along ``dim`` with ``x`` conjugated, with broadcasting."""
    check(
        x.dtype.category >= D.FLOAT,
        RuntimeError,
        f"linalg.vecdot: Expected a floating point or complex tensor as input. Got {x.dtype}",
    )
    return (_c(x) * y).sum(to_int(dim))


@composite("trace(T input)", node="TraceBackward0")
def trace(input: Tensor) -> Tensor:
    """Sum of the diagonal of a matrix."""
    check(input.a.ndim == 2, RuntimeError, f"trace: expected a matrix, but got tensor with dim {input.a.ndim}")
    return input.diagonal().sum()


@whole
def block_diag(*tensors: Any) -> Tensor:
    """Block-diagonal matrix of the given matrices (vectors count as rows, scalars as 1 by 1)."""
    ts = []
    for i, t in enumerate(tensors):
        check(
            t.a.ndim <= 2,
            RuntimeError,
            f"torch.block_diag: Input tensors must have 2 or fewer dimensions. Input {i} has {t.a.ndim} dimensions",
        )
        ts.append(t.reshape((1,) * (2 - t.a.ndim) + t.a.shape))
    if not ts:
        return constant(np.zeros((1, 0), D.get_default_dtype().np))
    d = ts[0].dtype
    for t in ts:
        d = D.promote_types(d, t.dtype)
    width = sum(t.shape[1] for t in ts)
    rows, at = [], 0
    for t in ts:
        n = t.shape[0]
        before, after = at, width - at - t.shape[1]
        parts = [t.to(d).new_zeros((n, before)), t.to(d), t.to(d).new_zeros((n, after))]
        rows.append(SPACES["torch"]["cat"](parts, 1))
        at += t.shape[1]
    return SPACES["torch"]["cat"](rows, 0)


@composite("cov(T input, *, int correction=1, T? fweights=None, T? aweights=None)")
def cov(input: Tensor, *, correction: int = 1, fweights: Any = None, aweights: Any = None) -> Tensor:
    """Covariance of the rows, with optional frequency and reliability weights of the columns."""
    check(
        input.a.ndim <= 2, RuntimeError, f"cov(): expected input to have two or fewer dimensions but got {input.a.ndim}"
    )
    check(input.dtype is not D.bool_, RuntimeError, "cov(): bool dtype is not supported for input")
    x = input.reshape((1, -1)) if input.a.ndim < 2 else input
    if x.dtype.category < D.FLOAT:
        x = x.to(D.get_default_dtype())
    n = x.shape[1]
    w = fweights
    if aweights is not None:
        w = aweights if w is None else w * aweights
    total: Any = n if w is None else w.sum()
    if w is None:
        mean = x.sum(1, keepdim=True) / n if n else x.sum(1, keepdim=True)
        norm_: Any = n - correction
    else:
        mean = (x * w).sum(1, keepdim=True) / total
        if aweights is None or correction == 0:
            norm_ = total - correction
        else:
            norm_ = total - correction * (w * aweights).sum() / total
        norm_ = float(norm_) if not norm_.requires_grad else norm_
    if not isinstance(norm_, Tensor) and norm_ <= 0:
        import warnings

        warnings.warn(
            "cov(): degrees of freedom is <= 0. Correction should be strictly less than the reduction factor.",
            UserWarning,
            stacklevel=3,
        )
        norm_ = 0
    x = x - mean
    right = _c((x if w is None else x * w).transpose(0, 1))
    return (mm(x, right) / norm_).squeeze()


@composite("corrcoef(T input)")
def corrcoef(input: Tensor) -> Tensor:
    """Correlation coefficients of the rows."""
    check(
        input.a.ndim <= 2,
        RuntimeError,
        f"corrcoef(): expected input to have two or fewer dimensions but got {input.a.ndim}",
    )
    c = cov(input)
    if c.a.ndim == 0:
        return c / c
    d = (c.diagonal().real if c.dtype.is_complex else c.diagonal()).sqrt()
    c = c / d.unsqueeze(1) / d
    if c.dtype.is_complex:
        return SPACES["torch"]["complex"](c.real.clamp(-1, 1), c.imag.clamp(-1, 1))
    return c.clamp(-1, 1)


put("torch", chain_matmul=chain_matmul, block_diag=block_diag)


OPERATORS = {"__matmul__": matmul}
