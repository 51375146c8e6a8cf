"""Reductions: sums, moments, extrema, logical reductions, norms of torch's first-level names. Kernels:
engine/host/reduce."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

from mindtorch.core import dtype as D
from mindtorch.core.errors import check, wrap_dim
from mindtorch.core.signature import is_number, to_int, to_ints
from mindtorch.core.tensor import Tensor, constant
from mindtorch.engine.host import reduce as K
from mindtorch.ops.table import composite, op


# ------------------------------------------------------------------------------------------ helpers
def dims_of(dim: Any) -> tuple[int, ...] | None:
    """A dim argument of a composite as a tuple (None stays None)."""
    return None if dim is None else to_ints(dim)


def restore(t: Tensor, input: Tensor, dim: Any, keepdim: bool) -> Tensor:
    """A reduced tensor with its reduced dimensions back as size 1 (a full reduction broadcasts as it is)."""
    return _restored(t, input.a.ndim, dim, keepdim)


def _restored(t: Tensor, n: int, dim: Any, keepdim: bool) -> Tensor:
    if keepdim or dim is None or n == 0:
        return t
    dims = (dim,) if dim.__class__ is int else dim
    for d in sorted(d % n for d in dims):
        t = t.unsqueeze(d)
    return t


def spread(g: Tensor, shape: tuple[int, ...], dim: Any, keepdim: bool) -> Tensor:
    """The gradient of a sum over an input of ``shape``: ``g`` expanded over the reduced dimensions."""
    return _restored(g, len(shape), dim, keepdim).expand(shape)


def at_index(g: Tensor, shape: tuple[int, ...], dim: int, keepdim: bool, index: Tensor) -> Tensor:
    """Gradient of a reduction that picks one element per slice: ``g`` at ``index``, 0 elsewhere."""
    if not shape:
        return g.reshape(())
    if not keepdim:
        g, index = g.unsqueeze(dim), index.unsqueeze(dim)
    return g.new_zeros(shape).scatter(dim, index, g)


def share(g: Tensor, input: Tensor, out: Tensor, dim: Any, keepdim: bool) -> Tensor:
    """Gradient of an extreme: ties share it equally."""
    mask = restore(out, input, dim, keepdim) == input
    mask = mask.to(g.dtype)
    n = mask.sum(dim, keepdim=True) if dim else mask.sum()
    return restore(g, input, dim, keepdim) * mask / n


def _share_all(g: Tensor, input: Tensor, out: Tensor) -> Tensor:
    mask = input.isnan() if bool(out.isnan()) else input == out
    mask = mask.to(g.dtype)
    return (g / mask.sum()) * mask


def _counted(shape: tuple[int, ...], dim: Any) -> int:
    return K.count(shape, K.axes(dim, len(shape)))


# ------------------------------------------------------------------------------------------ sums and means
sum_ = op(
    "sum(T input, dims? dim=None, bool keepdim=False, *, dtype? dtype=None)",
    half="f32",
    out=True,
    nodes={"dim is not None or keepdim": "SumBackward1"},
    grad={"input": lambda g, input_shape, dim, keepdim: spread(g, input_shape, dim, keepdim)},
)(K.sum_)
mean = op(
    "mean(T input, dims? dim=None, bool keepdim=False, *, dtype? dtype=None)",
    nodes={"dim is not None or keepdim": "MeanBackward1"},
    half="f32",
    out=True,
    grad={
        "input": lambda g, input_shape, dim, keepdim: spread(g, input_shape, dim, keepdim) / _counted(input_shape, dim)
    },
)(K.mean)
nansum = op(
    "nansum(T input, dims? dim=None, bool keepdim=False, *, dtype? dtype=None)",
    half="f32",
    out=True,
    grad={
        "input": lambda g, input, dim, keepdim: (
            spread(g, input.a.shape, dim, keepdim).to(input.dtype).masked_fill(input.isnan(), 0)
        )
    },
)(K.nansum)


@composite("nanmean(T input, any dim=None, bool keepdim=False, *, any dtype=None)", out=True)
def nanmean(input: Tensor, dim: Any, keepdim: bool, *, dtype: Any = None) -> Tensor:
    """Mean of the elements that are not nan. RuntimeError for integers."""
    check(
        input.dtype.category >= D.FLOAT,
        RuntimeError,
        f"nanmean(): expected input to have floating point or complex dtype but got {input.dtype}",
    )
    n = (~input.isnan().detach()).sum(dim, keepdim)
    return nansum(input, dim, keepdim, dtype=dtype) / n


def _prod_grad(g: Tensor, input: Tensor, out: Tensor, dim: Any, keepdim: bool) -> Tensor:
    if input.a.ndim == 0:
        return g.reshape(())
    if not (input.a == 0).any():
        return restore(g * out.conj(), input, dim, keepdim) / input.conj()
    if dim is None:
        flat = input.reshape(-1)
        return (g * _others(flat, 0).conj()).reshape(input.shape)
    (d,) = dim
    return restore(g, input, dim, keepdim) * _others(input, d).conj()


def _others(x: Tensor, d: int) -> Tensor:
    """For each element the product of all others along ``d``: a cumulative product from either side, shifted by one."""
    from mindtorch.ops.scan import cumprod

    n = x.shape[d]
    one = x.narrow(d, 0, 1).detach() * 0 + 1
    parts = [one, x.narrow(d, 0, n - 1)]
    left = cumprod(_cat(parts, d), d)
    back = x.flip((d,))
    right = cumprod(_cat([one, back.narrow(d, 0, n - 1)], d), d).flip((d,))
    return left * right


def _cat(parts: list[Tensor], d: int) -> Tensor:
    from mindtorch.ops.table import SPACES

    return SPACES["torch"]["cat"](parts, d)


_prod = op(
    "prod(T input, dims? dim=None, bool keepdim=False, *, dtype? dtype=None)",
    nodes={"dim is not None or keepdim": "ProdBackward1"},
    half="f32",
    ns="_C",
    grad={"input": lambda g, input, dim, keepdim, out: _prod_grad(g, input, out, dim, keepdim)},
)(K.prod)


@composite("prod(T input, any dim=None, bool keepdim=False, *, any dtype=None)", out=True)
def prod(input: Tensor, dim: Any, keepdim: bool, *, dtype: Any = None) -> Tensor:
    """Product of all elements, or over one dimension."""
    if dtype is not None and dtype is not input.dtype:
        input = input.to(dtype)
    return _prod(input, None if dim is None else (to_int(dim),), keepdim, dtype=dtype)


# ------------------------------------------------------------------------------------------ variance
def _var_grad(g: Tensor, input: Tensor, dim: Any, correction: float, keepdim: bool) -> Tensor:
    n = max(_counted(input.a.shape, dim) - correction, 0)
    m = input.mean(dim, keepdim=True) if dim else input.mean()
    scale = restore(g, input, dim, keepdim)
    diff = input - m
    if n == 0:
        return scale * (diff * math.inf)
    return scale * (2.0 / n) * diff


def _std_grad(g: Tensor, out: Tensor, input: Tensor, dim: Any, correction: float, keepdim: bool) -> Tensor:
    half = (g / (out * 2)).masked_fill(out == 0, 0)
    return _var_grad(half, input, dim, correction, keepdim)


def _mean_back(g: Tensor, input: Tensor, dim: Any, keepdim: bool) -> Tensor:
    return spread(g, input.a.shape, dim, keepdim) / _counted(input.a.shape, dim)


def _add(a: Tensor | None, b: Tensor | None) -> Tensor | None:
    return b if a is None else a if b is None else a + b


_SIG = "(T input, dims? dim=None, float correction=1.0, bool keepdim=False)"
_var = op(
    f"var{_SIG}",
    half="f32",
    ns="_C",
    grad={"input": lambda g, input, dim, correction, keepdim: _var_grad(g, input, dim, correction, keepdim)},
)(lambda a, dim, correction, keepdim: K.var_mean(a, dim, correction, keepdim)[0])
_std = op(
    f"std{_SIG}",
    half="f32",
    ns="_C",
    grad={"input": lambda g, out, input, dim, correction, keepdim: _std_grad(g, out, input, dim, correction, keepdim)},
)(lambda a, dim, correction, keepdim: K.var_mean(a, dim, correction, keepdim, True)[0])


def _pair_grad(
    g: Any, out: Any, input: Tensor, dim: Any, correction: float, keepdim: bool, root: bool
) -> Tensor | None:
    first = None
    if g[0] is not None:
        first = (
            _std_grad(g[0], out[0], input, dim, correction, keepdim)
            if root
            else _var_grad(g[0], input, dim, correction, keepdim)
        )
    return _add(first, None if g[1] is None else _mean_back(g[1], input, dim, keepdim))


def _with_mean(name: str, root: bool) -> Any:
    return op(
        f"{name}{_SIG}",
        half="f32",
        ns="_C",
        grad={
            "input": lambda g, out, input, dim, correction, keepdim: _pair_grad(
                g, out, input, dim, correction, keepdim, root
            )
        },
    )(lambda a, dim, correction, keepdim: K.var_mean(a, dim, correction, keepdim, root))


_var_mean, _std_mean = _with_mean("var_mean", False), _with_mean("std_mean", True)


def _moment(name: str, row: Any, ns: str) -> Any:
    """The public form: ``(dim, unbiased, keepdim)``, ``(unbiased)`` or ``(dim, *, correction, keepdim)``."""

    def fn(input: Tensor, dim: Any = None, unbiased: Any = None, keepdim: Any = None, *, correction: Any = None) -> Any:
        if isinstance(dim, bool):
            dim, unbiased = None, dim
        if unbiased is not None:
            if correction is not None:
                raise TypeError(f"{name}(): give unbiased= or correction=, not both")
            correction = int(unbiased)
        correction = 1.0 if correction is None else float(correction)
        dims = dims_of(dim)
        if input.k.cat < D.FLOAT:
            raise RuntimeError(
                f"{name}: only support floating point and complex dtypes, got {input.dtype}; use .float() to convert"
            )
        if (input.a.size if dims is None else _counted(input.a.shape, dims)) <= correction:
            warnings.warn(
                f"{name}(): degrees of freedom is <= 0. Correction should be strictly less than the reduction factor "
                "(input numel divided by output numel).",
                UserWarning,
                stacklevel=3,
            )
        return row(input, dims, correction, bool(keepdim))

    fn.__doc__ = f"``{name}`` over ``dim`` (all when None) with divisor N - correction (default 1)."
    fn.__name__ = name
    sig = f"{name}(T input, any dim=None, any unbiased=None, any keepdim=None, *, any correction=None)"
    return composite(sig, ns=ns, out=ns != "torch")(fn)


var = _moment("var", _var, "torch Tensor")
std = _moment("std", _std, "torch Tensor")
var_mean = _moment("var_mean", _var_mean, "torch")
std_mean = _moment("std_mean", _std_mean, "torch")

# ------------------------------------------------------------------------------------------ extrema
_VALUE = {
    "half": "f32",
    "out": True,
    "grad": {"input": lambda g, input, dim, keepdim, out: share(g, input, out, dim, keepdim)},
}
amax = op("amax(T input, dims dim=(), bool keepdim=False)", **dict(_VALUE))(K.extreme("amax", np.maximum))
amin = op("amin(T input, dims dim=(), bool keepdim=False)", **dict(_VALUE))(K.extreme("amin", np.minimum))


def _index_grad(g: Any, shape: tuple[int, ...], dim: int, keepdim: bool, index: Tensor) -> Tensor:
    return at_index(g[0], shape, dim, keepdim, index)


def picker(name: str, kernel: Any, sig: str = "dim dim, bool keepdim=False", **options: Any) -> Any:
    """An internal row of a reduction over ``dim`` giving (values, indices); the gradient goes to the index."""
    return op(
        f"{name}(T input, {sig})",
        half="f32",
        ns="_C",
        structseq="values indices",
        nondiff=(1,),
        grad={"input": lambda g, input_shape, dim, keepdim, out1: _index_grad(g, input_shape, dim, keepdim, out1)},
        **options,
    )(kernel)


_max_dim = picker("max", K.extreme_at("max", "argmax"))
_min_dim = picker("min", K.extreme_at("min", "argmin"))
_ALL = {"half": "f32", "ns": "_C", "grad": {"input": lambda g, input, out: _share_all(g, input, out)}}
_max_all = op("max_all(T input)", node="MaxBackward1", **dict(_ALL))(K.extreme("max", np.maximum))
_min_all = op("min_all(T input)", node="MinBackward1", **dict(_ALL))(K.extreme("min", np.minimum))


def _extreme(name: str, whole: Any, along: Any, binary: str) -> Any:
    def fn(input: Tensor, dim: Any = None, keepdim: bool = False, *, other: Any = None) -> Any:
        if dim is None and other is None:
            return whole(input)
        second = dim if other is None else other
        if isinstance(second, Tensor):
            return getattr(input, binary)(second)
        return along(input, to_int(dim), bool(keepdim))

    fn.__name__ = name
    fn.__doc__ = f"``{name}`` of all elements, over ``dim`` (values, indices), or of two tensors element by element."
    return composite(f"{name}(T input, any dim=None, bool keepdim=False, *, any other=None)", out=True)(fn)


max_ = _extreme("max", _max_all, _max_dim, "maximum")
min_ = _extreme("min", _min_all, _min_dim, "minimum")
argmax = op("argmax(T input, dim? dim=None, bool keepdim=False)", half="f32", out=True)(
    K.arg_extreme("argmax", "argmax")
)
argmin = op("argmin(T input, dim? dim=None, bool keepdim=False)", half="f32", out=True)(
    K.arg_extreme("argmin", "argmin")
)


def _aminmax_grad(g: Any, input: Tensor, dim: Any, keepdim: bool, out: Any) -> Tensor | None:
    dims = None if dim is None else (dim,)
    r = None
    for gi, oi in zip(g, out):
        if gi is not None:
            r = _add(r, share(gi, input, oi, dims, keepdim))
    return r


aminmax = op(
    "aminmax(T input, *, dim? dim=None, bool keepdim=False)",
    half="f32",
    out=True,
    structseq="min max",
    grad={"input": lambda g, input, dim, keepdim, out: _aminmax_grad(g, input, dim, keepdim, out)},
)(K.aminmax)

# ------------------------------------------------------------------------------------------ logical
all_ = op("all(T input, dims? dim=None, bool keepdim=False)", out=True)(K.all_)
any_ = op("any(T input, dims? dim=None, bool keepdim=False)", out=True)(K.any_)
count_nonzero = op("count_nonzero(T input, dims? dim=None)")(K.count_nonzero)


# ------------------------------------------------------------------------------------------ logsumexp, shapes
def _lse_grad(g: Tensor, input: Tensor, dim: Any, keepdim: bool, out: Tensor) -> Tensor:
    top = restore(out, input, dim, keepdim)
    top = top.masked_fill(top == -math.inf, 0) if not input.dtype.is_complex else top
    return restore(g, input, dim, keepdim) * (input - top).exp().conj()


logsumexp = op(
    "logsumexp(T input, dims dim, bool keepdim=False)",
    promote="float",
    out=True,
    ns="torch Tensor special",
    grad={"input": lambda g, input, dim, keepdim, out: _lse_grad(g, input, dim, keepdim, out)},
)(K.logsumexp)


@composite("sum_to_size(T input, ints* size)", ns="Tensor")
def sum_to_size(input: Tensor, *size: Any) -> Tensor:
    """Sum down to ``size``, which must be broadcastable to the tensor's shape."""
    want = tuple(size[0]) if len(size) == 1 and not isinstance(size[0], int) else tuple(size)
    have = input.a.shape
    lead = len(have) - len(want)
    fits = lead >= 0 and all(w in (1, h) for w, h in zip(want, have[lead:]))
    check(fits, RuntimeError, f"size {list(want)} is not expandable to size {list(have)}.")
    dims = [*range(lead), *(i + lead for i, w in enumerate(want) if w == 1 and have[i + lead] != 1)]
    if not want:
        return input.sum()
    out = input.sum(tuple(dims), keepdim=True) if dims else input
    return out.view(want) if out.a.shape != want else out


# ------------------------------------------------------------------------------------------ norms of the first level
@composite("norm(T input, any p='fro', any dim=None, bool keepdim=False, *, any dtype=None)", out=True)
def norm(input: Tensor, p: Any, dim: Any, keepdim: bool, *, dtype: Any = None) -> Tensor:
    """Vector norm over ``dim`` (all elements when None); ``"fro"`` is the 2-norm, ``"nuc"`` the sum of singular
    values."""
    from mindtorch.ops import linalg_norm as linalg

    if isinstance(dim, Tensor):
        dim = tuple(dim.tolist())
    if isinstance(p, str):
        check(p in ("fro", "nuc"), RuntimeError, f"norm(): p must be 'fro', 'nuc' or a number, got {p!r}")
        if p == "nuc":
            return linalg.matrix_norm(input, "nuc", (-2, -1) if dim is None else dim, keepdim, dtype=dtype)
        p = 2.0
    p = 2.0 if p is None else p
    if not (is_number(p) or isinstance(p, Tensor)):
        raise TypeError(f"norm(): p must be a number, got {type(p).__name__}")
    return linalg.vector_norm(input, float(p), dims_of(dim), keepdim, dtype=dtype)


@composite("dist(T input, T other, N p=2)", node="DistBackward0", keeps=("input", "other"))
def dist(input: Tensor, other: Tensor, p: Any = 2) -> Tensor:
    """p-norm of ``input - other``."""
    return norm(input - other, p)


_renorm_scale = op("renorm_scale(T input, N p, dim dim, N maxnorm)", half="f32", ns="_C", grad={})(K.renorm)


@composite("renorm(T input, N p, int dim, N maxnorm)", inplace=True, out=True, node="RenormBackward0")
def renorm(input: Tensor, p: Any, dim: int, maxnorm: Any) -> Tensor:
    """Each slice along ``dim`` scaled down so that its p-norm is at most ``maxnorm``."""
    check(p > 0, RuntimeError, f"renorm: non-positive-norm not supported, got p={p}")
    check(maxnorm >= 0, RuntimeError, f"renorm: expected maxnorm to be >= 0 but got {maxnorm}")
    check(input.a.ndim > 1, RuntimeError, f"renorm: input needs at least 2 dimensions, got {input.a.ndim} dimensions")
    dim = wrap_dim(to_int(dim), input.a.ndim)
    if input.n is None:
        return input * _renorm_scale(input, p, dim, maxnorm)
    n = norm(input, p, tuple(i for i in range(input.a.ndim) if i != dim), True)
    scale = (maxnorm / (n + 1e-7)).masked_fill(n <= maxnorm, 1.0)
    return input * scale


# ------------------------------------------------------------------------------------------ quantiles
_MODES = ("linear", "lower", "higher", "midpoint", "nearest")


def _quantile(input: Tensor, q: Any, dim: Any, keepdim: bool, interpolation: str, skip: bool) -> Tensor:
    name = "nanquantile" if skip else "quantile"
    check(input.a.size > 0, RuntimeError, f"{name}() input tensor must be non-empty")
    check(
        input.a.dtype.name in ("float32", "float64"),
        RuntimeError,
        f"{name}() input tensor must be either float or double dtype, got {input.dtype}",
    )
    check(
        interpolation in _MODES,
        RuntimeError,
        f"{name}() interpolation must be one of linear, lower, higher, midpoint or nearest, but got {interpolation}",
    )
    if not isinstance(q, Tensor):
        check(is_number(q), TypeError, f"{name}(): argument 'q' must be Tensor or float, not {type(q).__name__}")
        check(0 <= q <= 1, RuntimeError, f"{name}() q must be in the range [0, 1] but got {q}")
        q = constant(np.asarray(q, input.a.dtype))
    check(q.a.ndim <= 1, RuntimeError, f"{name}() q must be a scalar or 1D tensor")
    check(q.dtype is input.dtype, RuntimeError, f"{name}() q tensor must be same dtype as the input tensor")
    check(bool(((q.a >= 0) & (q.a <= 1)).all()), RuntimeError, f"{name}() q values must be in the range [0, 1]")
    shape = list(input.a.shape)
    if dim is None:
        x = input.reshape(-1)
        final = [1] * len(shape) if keepdim else []
    else:
        d = wrap_dim(to_int(dim), len(shape))
        x = input.unsqueeze(-1).transpose(d, -1).squeeze(d) if shape else input.reshape(1)
        final = shape[:d] + ([1] if keepdim else []) + shape[d + 1 :] if shape else []
        x = input.movedim(d, -1) if shape else x
    s = x.sort(-1).values
    return _between(s, q, interpolation, skip, final)


def _between(s: Tensor, q: Tensor, interpolation: str, skip: bool, final: list[int]) -> Tensor:
    """Values at the ranks ``q * (n - 1)`` of sorted rows, the quantiles in front."""
    n = s.shape[-1]
    bad = np.isnan(s.a)
    if skip:
        last = np.maximum((~bad).sum(-1, keepdims=True) - 1, 0).astype(s.a.dtype)
        ranks = q.reshape(-1) * constant(last)
    else:
        ranks = (q.reshape(-1) * (n - 1)).expand((*s.shape[:-1], q.a.size))
        if bad[..., -1:].any():
            ranks = ranks.masked_fill(constant(bad[..., -1:]), float(n - 1))
    low = {"higher": ranks.ceil, "nearest": ranks.round}.get(interpolation, ranks.floor)()
    lo = s.gather(-1, low.detach().to(D.int64))
    if interpolation in ("linear", "midpoint"):
        hi = s.gather(-1, ranks.detach().ceil().to(D.int64))
        weight = ranks - low if interpolation == "linear" else (ranks.detach() * 0 + 0.5)
        lo = lo.lerp(hi, weight)
    lo = lo.movedim(-1, 0)
    return lo.reshape((q.a.size, *final) if q.a.ndim else tuple(final))


_QSIG = "(T input, any q, any dim=None, bool keepdim=False, *, str interpolation='linear')"


@composite(f"quantile{_QSIG}", out=True)
def quantile(input: Tensor, q: Any, dim: Any, keepdim: bool, *, interpolation: str = "linear") -> Tensor:
    """Quantiles ``q`` (float or 1-D tensor: then the first dimension of the result); nan anywhere gives nan."""
    return _quantile(input, q, dim, keepdim, interpolation, False)


@composite(f"nanquantile{_QSIG}", out=True)
def nanquantile(input: Tensor, q: Any, dim: Any, keepdim: bool, *, interpolation: str = "linear") -> Tensor:
    """Quantiles of the elements that are not nan."""
    return _quantile(input, q, dim, keepdim, interpolation, True)


# ------------------------------------------------------------------------------------------ median, mode, kthvalue
def _lower_median(a: np.ndarray, skip: bool) -> np.ndarray:
    """Place (in sorted order, nan last) of the lower median of each last-axis row."""
    n = a.shape[-1]
    if a.dtype.kind != "f":
        return np.full((*a.shape[:-1], 1), (n - 1) // 2)
    bad = np.isnan(a)
    good = n - bad.sum(-1, keepdims=True)
    if skip:
        return np.maximum(good - 1, 0) // 2
    return np.where(good < n, np.minimum(good, n - 1), (n - 1) // 2)


def _median_kernel(skip: bool) -> Any:
    def kernel(a: np.ndarray, dim: int, keepdim: bool) -> tuple[np.ndarray, np.ndarray]:
        check(a.dtype.kind not in "cb", NotImplementedError, f"median: not implemented for {a.dtype.name} tensors")
        if a.ndim == 0:
            return a.copy(), np.zeros((), np.int64)
        d = wrap_dim(dim, a.ndim)
        check(a.shape[d] > 0, IndexError, f"median(): Expected reduction dim {d} to have non-zero size.")
        x = np.moveaxis(a, d, -1)
        order = x.argsort(-1, kind="stable")
        i = np.take_along_axis(order, _lower_median(x, skip), -1)
        v = np.take_along_axis(x, i, -1)
        v, i = np.moveaxis(v, -1, d), np.moveaxis(i, -1, d)
        return (v, i) if keepdim else (v.squeeze(d), i.squeeze(d))

    return kernel


def _median_all(skip: bool) -> Any:
    def kernel(a: np.ndarray) -> Any:
        check(a.dtype.kind not in "cb", NotImplementedError, f"median: not implemented for {a.dtype.name} tensors")
        if not a.size:
            return np.asarray(np.nan if a.dtype.kind == "f" else np.iinfo(a.dtype).min).astype(a.dtype)
        s = np.sort(a.ravel())
        return s[_lower_median(s, skip)[0]]

    return kernel


def _median(name: str, skip: bool) -> Any:
    along = picker(name, _median_kernel(skip), node=f"{name.capitalize()}Backward1")
    whole = op(f"{name}_all(T input)", node=f"{name.capitalize()}Backward0", **dict(_ALL))(_median_all(skip))

    def fn(input: Tensor, dim: Any = None, keepdim: bool = False) -> Any:
        return whole(input) if dim is None else along(input, to_int(dim), bool(keepdim))

    fn.__name__ = name
    fn.__doc__ = "The lower median of all elements, or over ``dim`` (values, indices)."
    return composite(f"{name}(T input, any dim=None, bool keepdim=False)", out=True)(fn)


median = _median("median", False)
nanmedian = _median("nanmedian", True)


# ------------------------------------------------------------------------------------------ hash
@op("hash_tensor(T input, dims? dim=None, bool keepdim=False, *, int mode=0)", out=True, grad={})
def hash_tensor(a: np.ndarray, dim: Any, keepdim: bool, mode: int) -> np.ndarray:
    """Exclusive or of the 64-bit patterns (of float64, or int64) of the elements, as uint64."""
    check(mode == 0, RuntimeError, f"Unknown hash_tensor mode: {mode}")
    check(a.dtype.kind != "c", NotImplementedError, f"\"xor_sum_cpu\" not implemented for '{a.dtype}': hash view_as_real of it")
    axes = tuple(range(a.ndim)) if not dim else tuple(sorted(wrap_dim(d, a.ndim) for d in dim))
    check(
        a.size > 0 or bool(dim),
        RuntimeError,
        "hash_tensor: Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim with the "
        "'dim' argument.",
    )
    for d in axes if a.ndim else ():
        check(axes.count(d) == 1, RuntimeError, f"dim {d} appears multiple times in the list of dims")
        check(a.shape[d] > 0, IndexError, f"hash_tensor: Expected reduction dim {d} to have non-zero size.")
    wide = a.astype(np.int64 if a.dtype.kind in "biu" else np.float64).view(np.uint64)
    return np.bitwise_xor.reduce(wide, axis=axes if a.ndim else None, keepdims=keepdim and a.ndim > 0)
