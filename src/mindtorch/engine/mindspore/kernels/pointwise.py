"""MindSpore kernels, element by element: arithmetic, comparison, logic, activations and their backward formulas."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mindtorch.engine.mindspore import door
from mindtorch.engine.mindspore.kernels import Unsupported, find, kernel, np_dtype

ms = door.load()
mint, ops = ms.mint, ms.ops
_FLOATS = (ms.float16, ms.bfloat16, ms.float32, ms.float64)
_INTS = (ms.int8, ms.int16, ms.int32, ms.int64, ms.uint8)
_COMPLEX = (ms.complex64, ms.complex128)


def _is_tensor(x: Any) -> bool:
    return isinstance(x, ms.Tensor)


def beside(x: Any, like: Any) -> Any:
    """A number as a 0-d tensor of the dtype of ``like``; tensors as they are."""
    return x if _is_tensor(x) else ms.Tensor(x, like.dtype)


def zeros(x: Any) -> Any:
    """Zeros of the shape and dtype of ``x``."""
    return mint.broadcast_to(ms.Tensor(0, x.dtype), x.shape)


def nothing(shape: Any, like: Any) -> Any:
    """A tensor without elements, of the dtype of ``like``."""
    from mindtorch.engine.mindspore.kernels.moves import zeros_of

    return zeros_of(shape, like.dtype)


def pair(a: Any, b: Any) -> tuple[Any, Any]:
    """Two operands as tensors of one dtype."""
    return (a, beside(b, a)) if _is_tensor(a) else (beside(a, b), b)


def _unary(name: str, fn: Callable[..., Any], floats_only: bool = False) -> None:
    def run(x: Any) -> Any:
        return fn(x)

    run.__name__ = name
    kernel(name)(run)


for _name in ("neg", "exp", "expm1", "log", "log1p", "sqrt", "rsqrt", "square", "reciprocal", "sin", "cos", "tan", "sinh", "cosh",
              "atanh", "sinc", "sigmoid", "isfinite", "isinf", "erf", "erfc",
              "logical_not"):  # fmt: skip
    _unary(_name, getattr(mint, _name))
# mint's have no kernel on the CPU target; the older primitives are the same functions.
for _name in ("sgn", "deg2rad", "rad2deg", "isposinf", "isreal", "lgamma", "exp2", "log2", "log10", "asin",
              "acos", "atan", "asinh", "acosh"):  # fmt: skip
    if hasattr(ops, _name):
        _unary(_name, getattr(ops, _name))


def _single(name: str) -> None:
    fn = getattr(ops, name)

    def run(x: Any) -> Any:
        if x.dtype == ms.float64:
            raise Unsupported("MindSpore's has single precision for float64")
        return fn(x)

    run.__name__ = name
    kernel(name)(run)


for _name in ("bessel_j0", "bessel_j1"):
    _single(_name)


@kernel("tanh")
def _tanh(x: Any) -> Any:
    # MindSpore's own tanh on the CPU is off by 9e-5.
    if x.dtype in _COMPLEX:
        return mint.tanh(x)
    e = mint.expm1(mint.abs(x) * -2)
    return mint.sign(x) * (mint.sub(beside(0, e), e) / (e + 2))


def refuse(x: Any, kinds: Any) -> None:
    """Leave dtypes that PyTorch refuses here to the host kernel, which says so."""
    if x.dtype in kinds:
        raise Unsupported(f"dtype {x.dtype}")


_NOT_REAL = (*_COMPLEX, ms.bool_)
_NOT_FLOAT = (*_INTS, *_NOT_REAL)


@kernel("frac")
def _frac(x: Any) -> Any:
    refuse(x, _NOT_FLOAT)
    return mint.sub(x, mint.trunc(x))


def _real_only(name: str) -> None:
    fn = getattr(mint, name)

    def run(x: Any) -> Any:
        refuse(x, _COMPLEX if name == "sign" else _NOT_REAL)
        return fn(x) if x.dtype in _FLOATS or name == "sign" else x

    run.__name__ = name
    kernel(name)(run)


for _name in ("sign", "floor", "ceil", "trunc"):
    _real_only(_name)


@kernel("isneginf")
def _isneginf(x: Any) -> Any:
    refuse(x, _COMPLEX)
    if x.dtype not in _FLOATS:
        return mint.not_equal(x, x)
    return ops.equal(x, beside(-np.inf, x))


@kernel("bitwise_not")
def _bitwise_not(x: Any) -> Any:
    refuse(x, (*_FLOATS, *_COMPLEX))
    return mint.logical_not(x) if x.dtype == ms.bool_ else mint.sub(beside(255 if x.dtype == ms.uint8 else -1, x), x)


@kernel("abs")
def _abs(x: Any) -> Any:
    refuse(x, (ms.bool_,))
    if x.dtype in _COMPLEX:
        return ops.ComplexAbs()(x)
    return mint.abs(x)


@kernel("isnan")
def _isnan(x: Any) -> Any:
    return mint.not_equal(x, x)


@kernel("round")
def _round(x: Any, decimals: int = 0) -> Any:
    if not decimals:
        return mint.round(x)
    if x.dtype not in _FLOATS:
        raise Unsupported("whole numbers to decimals")
    ten = beside(10.0 ** abs(decimals), x)
    return mint.div(mint.round(mint.mul(x, ten)), ten) if decimals > 0 else mint.mul(mint.round(mint.div(x, ten)), ten)


@kernel("add")
def _add(x: Any, y: Any, alpha: Any = 1) -> Any:
    x, y = pair(x, y)
    if x.dtype == ms.bool_:
        return mint.logical_or(x, y) if alpha else mint.logical_or(x, x)
    return mint.add(x, y if alpha == 1 else mint.mul(y, beside(alpha, y)))


@kernel("sub")
def _sub(x: Any, y: Any, alpha: Any = 1) -> Any:
    x, y = pair(x, y)
    refuse(x, (ms.bool_,))
    return mint.sub(x, y if alpha == 1 else mint.mul(y, beside(alpha, y)))


@kernel("mul")
def _mul(x: Any, y: Any) -> Any:
    x, y = pair(x, y)
    return mint.logical_and(x, y) if x.dtype == ms.bool_ else mint.mul(x, y)


@kernel("_true_div")
def _true_div(x: Any, y: Any) -> Any:
    x, y = pair(x, y)
    if x.dtype in _COMPLEX and bool(ops.equal(ops.ComplexAbs()(y), ms.Tensor(0, _real_of(y))).any()):
        raise Unsupported("a complex division by zero")
    if x.dtype in _COMPLEX or door.target() != "CPU" or 0 in x.shape or 0 in y.shape:
        return mint.div(x, y)
    # MindSpore's CPU target forgets the sign of a zero divisor; its reciprocal keeps it.
    zero = ops.equal(y, beside(0, y))
    r = mint.div(x, y)
    return ops.where(zero, mint.mul(x, mint.reciprocal(y)), r) if bool(zero.any()) else r


@kernel("signbit")
def negative(x: Any) -> Any:
    """Whether the sign is set, of zeros too, which MindSpore's own overlooks."""
    below = mint.less(x, beside(0, x))
    if x.dtype not in _FLOATS or 0 in x.shape:
        return below
    return mint.logical_or(below, mint.less(mint.reciprocal(x), beside(0, x)))


@kernel("copysign")
def _copysign(x: Any, y: Any) -> Any:
    x, y = pair(x, y)
    refuse(x, _NOT_FLOAT)
    size = mint.abs(x)
    return ops.where(negative(y), mint.neg(size), size)


def _real_of(x: Any) -> Any:
    return ms.float32 if x.dtype == ms.complex64 else ms.float64


@kernel("pow")
def _pow(x: Any, y: Any) -> Any:
    if not _is_tensor(y) and x.dtype not in _INTS:
        if y == 2:
            return mint.mul(x, x)
        if y == 0.5:
            return mint.sqrt(x)
    if _is_tensor(x) and x.dtype in _INTS:
        if _is_tensor(y) or not isinstance(y, int) or not 0 <= y <= 64:
            raise Unsupported("powers of whole numbers go through floats in MindSpore")
        r = mint.add(mint.sub(x, x), beside(1, x))
        for _ in range(y):
            r = mint.mul(r, x)
        return r
    return mint.pow(*pair(x, y))


def _quotient(x: Any, y: Any, toward_zero: bool) -> tuple[Any, Any]:
    """Quotient and remainder of whole numbers, exact: MindSpore's CPU target divides long ones in float64.

    What a quotient is off by shows in the remainder, which is exact even where the product wraps; two rounds leave one.
    """
    q = ops.FloorDiv()(x, y)
    r = mint.sub(x, mint.mul(q, y))
    none = beside(0, r)
    if x.dtype == ms.int64:
        for _ in range(2):
            more = ops.FloorDiv()(r, y)
            q, r = mint.add(q, more), mint.sub(r, mint.mul(more, y))
        wrong = mint.logical_and(mint.not_equal(r, none), mint.not_equal(mint.less(r, none), mint.less(y, none)))
        q, r = mint.sub(q, wrong.astype(q.dtype)), mint.add(r, mint.mul(wrong.astype(r.dtype), y))
        wrong = mint.logical_and(mint.logical_not(mint.not_equal(mint.less(r, none), mint.less(y, none))), _reaches(r, y))
        q, r = mint.add(q, wrong.astype(q.dtype)), mint.sub(r, mint.mul(wrong.astype(r.dtype), y))
    if toward_zero:
        turn = mint.logical_and(mint.not_equal(r, none), mint.not_equal(mint.less(x, none), mint.less(y, none)))
        step = turn.astype(x.dtype)
        q, r = mint.add(q, step), mint.sub(r, mint.mul(step, y))
    return q, r


def _reaches(r: Any, y: Any) -> Any:
    """Whether a remainder of the divisor's sign is as large as the divisor."""
    none = beside(0, r)
    return _where(mint.less(y, none), mint.less_equal(r, y), mint.greater_equal(r, y))


def _divisible(y: Any) -> None:
    if bool(ops.equal(y, beside(0, y)).any()):
        raise Unsupported("division by zero")


@kernel("_mode_div")
def _mode_div(x: Any, y: Any, mode: str) -> Any:
    x, y = pair(x, y)
    refuse(x, _NOT_REAL)
    if x.dtype in _INTS and mode is not None:
        _divisible(y)
        return _quotient(x, y, mode == "trunc")[0]
    q = _floored(x, y) if mode == "floor" else _true_div(x, y)
    return mint.trunc(q) if mode == "trunc" else q


def _left(x: Any, y: Any, floored: bool) -> Any:
    """What division leaves, with the sign of the divisor when ``floored``; MindSpore's own knows no infinite divisor."""
    if 0 in x.shape or 0 in y.shape:
        return mint.sub(x, y)
    endless = mint.isinf(y)
    r = (mint.remainder if floored else mint.fmod)(x, ops.where(endless, beside(1, y), y))
    whole = mint.add(x, mint.sub(x, x))  # NaN where x is infinite
    if floored:
        other = mint.logical_and(mint.not_equal(x, beside(0, x)), mint.not_equal(mint.less(x, beside(0, x)), mint.less(y, beside(0, y))))
        whole = ops.where(other, mint.add(y, mint.sub(x, x)), whole)
    return ops.where(endless, whole, r)


def _floored(x: Any, y: Any) -> Any:
    """The floor of the quotient, from what an exact division leaves."""
    rest = _left(x, y, False)
    q = mint.div(mint.sub(x, rest), y)
    none = beside(0, q)
    below = mint.logical_and(mint.not_equal(rest, none), mint.not_equal(mint.less(rest, none), mint.less(y, none)))
    q = mint.sub(q, below.astype(q.dtype))
    whole = mint.floor(q)
    whole = mint.add(whole, mint.greater(mint.sub(q, whole), beside(0.5, q)).astype(q.dtype))
    return ops.where(ops.equal(y, none), _true_div(x, y), whole)


def _divide(name: str) -> None:
    def run(x: Any, y: Any) -> Any:
        x, y = pair(x, y)
        refuse(x, _NOT_REAL)
        if x.dtype not in _INTS:
            return _floored(x, y) if name == "floor_divide" else _left(x, y, name == "remainder")
        _divisible(y)
        return _quotient(x, y, name == "fmod")[0 if name == "floor_divide" else 1]

    run.__name__ = name
    kernel(name)(run)


for _name in ("remainder", "fmod", "floor_divide"):
    _divide(_name)


def _binary(name: str, fn: Callable[..., Any]) -> None:
    def run(x: Any, y: Any) -> Any:
        return fn(*pair(x, y))

    run.__name__ = name
    kernel(name)(run)


def _wider(name: str) -> None:
    fn = getattr(mint, name)

    def run(x: Any, y: Any) -> Any:
        x, y = pair(x, y)
        shape = np.broadcast_shapes(tuple(x.shape), tuple(y.shape))
        if 0 in shape:
            return nothing(shape, x)
        r = fn(x, y)
        if x.dtype not in _FLOATS:
            return r
        # MindSpore's extremes pass over NaNs; the sum keeps them.
        s = mint.add(x, y)
        bad = mint.logical_or(mint.not_equal(x, x), mint.not_equal(y, y))
        return _where(bad, s, r)

    run.__name__ = name
    kernel(name)(run)


for _name in ("maximum", "minimum"):
    _wider(_name)
@kernel("xlogy")
def _xlogy(x: Any, y: Any) -> Any:
    x, y = pair(x, y)
    refuse(x, _NOT_FLOAT)
    none = mint.logical_and(ops.equal(x, beside(0, x)), ops.equal(y, y))
    return ops.where(none, beside(0, x), mint.xlogy(x, y))


def _shift(name: str) -> None:
    fn = getattr(ops, name)

    def run(x: Any, y: Any) -> Any:
        x, y = pair(x, y)
        refuse(x, (*_FLOATS, *_NOT_REAL))
        if name == "bitwise_right_shift":
            return fn(x, y)
        # Counts outside the word give 0.
        bits = 8 * np_dtype(x).itemsize
        inside = mint.logical_and(mint.greater_equal(y, beside(0, y)), mint.less(y, beside(bits, y)))
        r = fn(x, _where(inside, y, zeros(y)) if tuple(y.shape) else y)
        shape = tuple(r.shape)
        return _where(mint.broadcast_to(inside, shape), r, zeros(r))

    run.__name__ = name
    kernel(name)(run)


_shift("bitwise_left_shift")
_shift("bitwise_right_shift")
for _name in ("gcd", "bitwise_and", "ne", "lt", "le", "gt", "ge"):
    _binary(_name, getattr(mint, _name))
_binary("eq", ops.equal)


def _skipping(name: str, fn: Callable[..., Any]) -> None:
    def run(x: Any, y: Any) -> Any:
        x, y = pair(x, y)
        shape = np.broadcast_shapes(tuple(x.shape), tuple(y.shape))
        x, y = mint.broadcast_to(x, shape), mint.broadcast_to(y, shape)
        r = fn(x, y)
        return _where(mint.not_equal(x, x), y, _where(mint.not_equal(y, y), x, r)) if x.dtype in _FLOATS else r

    run.__name__ = name
    kernel(name)(run)


_skipping("fmax", mint.maximum)
_skipping("fmin", mint.minimum)


def _log_of_sum(name: str, exp: Callable[..., Any], scale: float) -> None:
    """log(exp(x) + exp(y)) in a base, by the larger one."""

    def run(x: Any, y: Any) -> Any:
        x, y = pair(x, y)
        if x.dtype not in _FLOATS:
            raise Unsupported(f"dtype {x.dtype}")
        top = mint.maximum(x, y)
        r = mint.add(top, mint.mul(mint.log1p(exp(mint.neg(mint.abs(mint.sub(x, y))))), beside(scale, x)))
        r = _where(mint.isinf(top), top, r)
        bad = mint.logical_or(mint.not_equal(x, x), mint.not_equal(y, y))
        return _where(bad, mint.add(x, y), r)

    run.__name__ = name
    kernel(name)(run)


_log_of_sum("logaddexp", mint.exp, 1.0)
_log_of_sum("logaddexp2", ops.exp2, 1 / np.log(2))
for _name in ("atan2", "bitwise_or", "bitwise_xor", "hypot", "heaviside", "lcm", "igamma", "igammac"):
    if hasattr(ops, _name):
        _binary(_name, getattr(ops, _name))


@kernel("zeta")
def _zeta(x: Any, y: Any) -> Any:
    x, y = pair(x, y)
    shape = np.broadcast_shapes(tuple(x.shape), tuple(y.shape))
    return ops.zeta(mint.broadcast_to(x, shape), mint.broadcast_to(y, shape))




def _logic(name: str) -> None:
    fn = getattr(mint, name)

    def run(x: Any, y: Any) -> Any:
        return fn(x.astype(ms.bool_), y.astype(ms.bool_))

    run.__name__ = name
    kernel(name)(run)


for _name in ("logical_and", "logical_or", "logical_xor"):
    _logic(_name)


@kernel("clamp")
def _clamp(x: Any, low: Any = None, high: Any = None) -> Any:
    if low is not None:
        x = find("maximum")(x, low)
    return x if high is None else find("minimum")(x, high)


@kernel("clamp_min")
def _clamp_min(x: Any, low: Any) -> Any:
    return find("maximum")(x, low)


@kernel("clamp_max")
def _clamp_max(x: Any, high: Any) -> Any:
    return find("minimum")(x, high)


@kernel("clamp_backward")
def _clamp_backward(g: Any, x: Any, low: Any = None, high: Any = None) -> Any:
    keep = None
    if low is not None:
        keep = mint.greater_equal(*pair(x, low))
    if high is not None:
        below = mint.less_equal(*pair(x, high))
        keep = below if keep is None else mint.logical_and(keep, below)
    return g if keep is None else _where(keep, g, zeros(g))


def _where(mask: Any, a: Any, b: Any) -> Any:
    return ops.select(mask, a, b) if a.shape == b.shape == mask.shape else ops.where(mask, a, b)


@kernel("_where")
def where(a: Any, b: Any, mask: Any) -> Any:
    """Elements of ``a`` where the mask is true, of ``b`` elsewhere."""
    a, b = pair(a, b) if _is_tensor(a) or _is_tensor(b) else (a, b)
    return _where(mask.astype(ms.bool_), a, b)


@kernel("masked_fill")
def _masked_fill(x: Any, mask: Any, value: Any) -> Any:
    shape = np.broadcast_shapes(tuple(x.shape), tuple(mask.shape))
    mask, x = (t if tuple(t.shape) == shape else mint.broadcast_to(t, shape) for t in (mask, x))
    return _where(mask, mint.broadcast_to(beside(value, x).astype(x.dtype), shape), x)


@kernel("lerp")
def _lerp(x: Any, end: Any, weight: Any) -> Any:
    w = beside(weight, x)
    return mint.add(x, mint.mul(w, mint.sub(end, x)))


@kernel("addcmul")
def _addcmul(x: Any, a: Any, b: Any, value: Any = 1) -> Any:
    p = mint.mul(a, b)
    return mint.add(x, p if value == 1 else mint.mul(p, beside(value, p)))


@kernel("addcdiv")
def _addcdiv(x: Any, a: Any, b: Any, value: Any = 1) -> Any:
    p = mint.div(a, b)
    return mint.add(x, p if value == 1 else mint.mul(p, beside(value, p)))


@kernel("_cast")
def _cast(x: Any, dtype: Any) -> Any:
    from mindtorch.engine.mindspore.array import cast

    if x.dtype in _COMPLEX and dtype.np.kind != "c":
        raise Unsupported("complex to real")
    if dtype.np.kind == "b":
        return mint.not_equal(x, beside(0, x)) if x.dtype != ms.bool_ else x
    return cast(x, dtype.np)


@kernel("clone")
def _clone(x: Any, memory_format: Any = None) -> Any:
    if memory_format is not None and "channels" in str(memory_format):
        raise Unsupported("channels_last layout")
    return x


@kernel("_contiguous")
def _contiguous(x: Any) -> Any:
    return x


@kernel("fill")
def _fill(x: Any, value: Any) -> Any:
    v = beside(value, x).astype(x.dtype)
    return mint.broadcast_to(v, x.shape)


# ------------------------------------------------------------------------------------------ activations
@kernel("relu")
def _relu(x: Any) -> Any:
    refuse(x, _NOT_REAL)
    return _where(mint.less_equal(x, beside(0, x)), zeros(x), x)


@kernel("threshold_backward")
def _threshold_backward(g: Any, x: Any, threshold: Any) -> Any:
    return _where(mint.less_equal(x, beside(threshold, x)), zeros(g), g)


@kernel("sigmoid_backward")
def _sigmoid_backward(g: Any, y: Any) -> Any:
    return mint.mul(g, mint.mul(y, mint.sub(beside(1, y), y)))


@kernel("tanh_backward")
def _tanh_backward(g: Any, y: Any) -> Any:
    return mint.mul(g, mint.sub(beside(1, y), mint.mul(y, y)))


@kernel("_silu")
def _silu(x: Any) -> Any:
    return mint.mul(x, mint.sigmoid(x))


@kernel("silu_backward")
def _silu_backward(g: Any, x: Any) -> Any:
    s = mint.sigmoid(x)
    return mint.mul(g, mint.mul(s, mint.add(mint.mul(x, mint.sub(beside(1, s), s)), beside(1, s))))


_SQRT_HALF = 0.7071067811865476
_SQRT_2_PI = 0.7978845608028654
_INV_SQRT_2PI = 0.3989422804014327


@kernel("gelu")
def _gelu(x: Any, approximate: str = "none") -> Any:
    if x.dtype not in _FLOATS:
        raise Unsupported("gelu of whole numbers")
    if approximate == "none":
        return x * 0.5 * (mint.erf(x * _SQRT_HALF) + 1.0)
    return x * 0.5 * (_tanh((x + x * x * x * 0.044715) * _SQRT_2_PI) + 1.0)


@kernel("gelu_backward")
def _gelu_backward(g: Any, x: Any, approximate: str = "none") -> Any:
    if approximate == "none":
        cdf = (mint.erf(x * _SQRT_HALF) + 1.0) * 0.5
        return g * (cdf + x * mint.exp(x * x * -0.5) * _INV_SQRT_2PI)
    t = _tanh((x + x * x * x * 0.044715) * _SQRT_2_PI)
    inner = (x * x * (3 * 0.044715) + 1.0) * _SQRT_2_PI
    return g * ((t + 1.0) * 0.5 + x * 0.5 * (mint.mul(t, t) * -1.0 + 1.0) * inner)
