"""MindSpore kernels that reduce, scan, sort or search along dimensions."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from mindtorch.engine.mindspore import door
from mindtorch.engine.mindspore.array import cast
from mindtorch.engine.mindspore.kernels import Unsupported, kernel
from mindtorch.engine.mindspore.kernels.pointwise import beside, zeros

ms = door.load()
mint, ops = ms.mint, ms.ops
_SMALL = (ms.bool_, ms.int8, ms.int16, ms.int32, ms.uint8)
_FLOATS = (ms.float16, ms.bfloat16, ms.float32, ms.float64)


def dims(x: Any, dim: Any) -> tuple[int, ...]:
    """The dimensions to reduce, not negative; all of them for None or ()."""
    if dim is None or dim == ():
        return tuple(range(x.ndim))
    dim = (dim,) if isinstance(dim, int) else dim
    got = tuple(d + x.ndim if d < 0 else d for d in dim)
    if not x.ndim:
        if any(d not in (0, -1) for d in dim):
            raise Unsupported("dimensions out of range")
        return ()
    if any(not 0 <= d < x.ndim for d in got) or len(set(got)) != len(got):
        raise Unsupported("dimensions out of range")
    return got


def _wide(x: Any, dtype: Any) -> Any:
    """Operands of sums: in ``dtype`` where given, integers in int64."""
    if dtype is not None:
        return cast(x, dtype.np)
    return x.astype(ms.int64) if x.dtype in _SMALL else x


def _not_empty(x: Any) -> None:
    if 0 in x.shape:
        raise Unsupported("no elements")


@kernel("sum")
def total(x: Any, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Any:
    """Sum over dimensions."""
    x = _wide(x, dtype)
    if not x.ndim:
        return x
    d = dims(x, dim)
    if 0 in x.shape:
        shape = tuple(1 if i in d else n for i, n in enumerate(x.shape) if keepdim or i not in d)
        return mint.broadcast_to(ms.Tensor(0, x.dtype), shape)
    return ops.ReduceSum(keepdim)(x, d)


@kernel("mean")
def mean(x: Any, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Any:
    """Mean over dimensions of floats."""
    x = x if dtype is None else cast(x, dtype.np)
    if x.dtype not in _FLOATS:
        raise Unsupported("mean of other than floats")
    _not_empty(x)
    d = dims(x, dim)
    return ops.ReduceMean(keepdim)(x, d) if d else x


@kernel("prod")
def _prod(x: Any, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Any:
    x = _wide(x, dtype)
    _not_empty(x)
    d = dims(x, dim)
    return ops.ReduceProd(keepdim)(x, d) if d else x


def _truth(x: Any) -> Any:
    return x if x.dtype == ms.bool_ else mint.not_equal(x, beside(0, x))


def _truths(which: Any) -> Any:
    def run(x: Any, dim: Any = None, keepdim: bool = False) -> Any:
        _not_empty(x)
        if x.dtype == ms.uint8:
            raise Unsupported("uint8 answers uint8")
        d = dims(x, dim)
        return which(keepdim)(_truth(x), d) if d else _truth(x)

    return run


kernel("all")(_truths(ops.ReduceAll))
kernel("any")(_truths(ops.ReduceAny))


@kernel("count_nonzero")
def _count_nonzero(x: Any, dim: Any = None) -> Any:
    return total(_truth(x).astype(ms.int64), dim)


def _moments(x: Any, dim: Any, correction: float, keepdim: bool) -> tuple[Any, Any]:
    if x.dtype not in _FLOATS:
        raise Unsupported("moments of other than floats")
    d = dims(x, dim)
    n = 1
    for i in d:
        n *= x.shape[i]
    if not d or n - correction <= 0:
        raise Unsupported("too few elements")
    m = mean(x, d, True)
    away = mint.sub(x, m)
    v = total(mint.mul(away, away), d, keepdim)
    return mint.div(v, beside(n - correction, v)), m if keepdim else mean(x, d, False)


@kernel("var")
def _var(x: Any, dim: Any = None, correction: float = 1.0, keepdim: bool = False) -> Any:
    return _moments(x, dim, correction, keepdim)[0]


@kernel("std")
def _std(x: Any, dim: Any = None, correction: float = 1.0, keepdim: bool = False) -> Any:
    return mint.sqrt(_moments(x, dim, correction, keepdim)[0])


@kernel("var_mean")
def _var_mean(x: Any, dim: Any = None, correction: float = 1.0, keepdim: bool = False) -> Any:
    return _moments(x, dim, correction, keepdim)


@kernel("std_mean")
def _std_mean(x: Any, dim: Any = None, correction: float = 1.0, keepdim: bool = False) -> Any:
    v, m = _moments(x, dim, correction, keepdim)
    return mint.sqrt(v), m


def _in_single(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Half precision is widened inside, and the result rounded once."""

    @functools.wraps(fn)
    def run(x: Any, dim: Any, *rest: Any) -> Any:
        if x.dtype not in (ms.float16, ms.bfloat16) or any(hasattr(r, "np") for r in rest):
            return fn(x, dim, *rest)
        return fn(x.astype(ms.float32), dim, *rest).astype(x.dtype)

    return run


@kernel("softmax")
@_in_single
def softmax(x: Any, dim: Any, *rest: Any) -> Any:
    """exp(x - max) / sum, composed: MindSpore's own is off by 1e-6 on the CPU."""
    x = _for_softmax(x, dim, rest)
    if not x.ndim:
        return mint.exp(mint.sub(x, x))
    e = mint.exp(mint.sub(x, ops.ReduceMax(True)(x, (dim,))))
    return mint.div(e, total(e, dim, True))


@kernel("log_softmax")
@_in_single
def log_softmax(x: Any, dim: Any, *rest: Any) -> Any:
    """x - max - log(sum(exp(x - max)))."""
    x = _for_softmax(x, dim, rest)
    if not x.ndim:
        return mint.sub(x, x)
    z = mint.sub(x, ops.ReduceMax(True)(x, (dim,)))
    return mint.sub(z, mint.log(total(mint.exp(z), dim, True)))


def _for_softmax(x: Any, dim: Any, rest: Any) -> Any:
    dtype = next((r for r in rest if r is not None and hasattr(r, "np")), None)
    if dim is None or 0 in x.shape:
        raise Unsupported("softmax of nothing, or along a dimension to be guessed")
    x = x if dtype is None else cast(x, dtype.np)
    if x.dtype not in _FLOATS:
        raise Unsupported("softmax of integers")
    return x


@kernel("softmax_backward")
def _softmax_backward(g: Any, y: Any, dim: int) -> Any:
    p = mint.mul(g, y)
    return mint.sub(p, mint.mul(y, total(p, dim, True)))


@kernel("log_softmax_backward")
def _log_softmax_backward(g: Any, y: Any, dim: int) -> Any:
    return mint.sub(g, mint.mul(mint.exp(y), total(g, dim, True)))


@kernel("logsumexp")
def _logsumexp(x: Any, dim: Any, keepdim: bool = False) -> Any:
    if x.dtype not in _FLOATS or 0 in x.shape:
        raise Unsupported("log-sum-exp of these")
    if not x.ndim:
        return x
    d = dims(x, dim)
    top = ops.ReduceMax(True)(x, d)
    finite = mint.isfinite(top)
    top = ops.select(finite, top, zeros(top))
    s = mint.log(total(mint.exp(mint.sub(x, top)), d, True))
    r = mint.add(s, top)
    return r if keepdim else r.reshape(tuple(n for i, n in enumerate(x.shape) if i not in d))


# ------------------------------------------------------------------------------------------ scans
@kernel("cumsum")
def _cumsum(x: Any, dim: int, dtype: Any = None) -> Any:
    x = _wide(x, dtype)
    if not x.ndim or 0 in x.shape:
        return x
    return ops.CumSum()(x, dim)


@kernel("cumprod")
def _cumprod(x: Any, dim: int, dtype: Any = None) -> Any:
    x = _wide(x, dtype)
    if not x.ndim or 0 in x.shape:
        return x
    return ops.CumProd()(x, dim)
