"""Host kernels of element-wise operations that are more than one NumPy ufunc.

Arrays in, array out; operands already share one dtype (float32 stands in for the half types). Rounding order follows
what PyTorch computes: where it uses a fused multiply-add, float32 is computed with one rounding as well.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from mindtorch.core.errors import check
from mindtorch.engine.host.jit import fused
from mindtorch.engine.host.quiet import EXTOBJ, quiet

F4 = np.dtype(np.float32)
F8 = np.dtype(np.float64)
LARGE = 16_384
"""Elements from which compiled kernels are tried."""
MEDIUM = 2048
"""The same for kernels whose NumPy form is not vectorised (a bound that is one number)."""
ONE = {np.dtype(t): np.ones((), t) for t in (np.float32, np.float64, np.complex64, np.complex128)}
"""0-d ones: a Python number costs a ufunc twice as much."""
_NAMES = {
    "bool": "Bool", "uint8": "Byte", "int8": "Char", "int16": "Short", "int32": "Int", "int64": "Long", "uint16": "UInt16",
    "uint32": "UInt32", "uint64": "UInt64", "float16": "Half", "bfloat16": "BFloat16", "float32": "Float",
    "float64": "Double", "complex64": "ComplexFloat", "complex128": "ComplexDouble",
}  # fmt: skip


@lru_cache(maxsize=64)  # NumPy works a dtype's name out anew each time (7 us), and checks word their message first
def scalar_name(d: np.dtype) -> str:
    """The name PyTorch's messages give a dtype: Float, Long, ..."""
    return _NAMES.get(d.name, d.name)


def refuse(name: str, a: np.ndarray, kinds: str) -> None:
    """NotImplementedError when the dtype kind of ``a`` is one of ``kinds`` (letters of ``numpy.dtype.kind``)."""
    if a.dtype.kind in kinds:
        raise NotImplementedError(f"\"{name}\" not implemented for '{scalar_name(a.dtype)}'")


def _flat(*arrays: np.ndarray) -> bool:
    """Whether all arrays have one shape, are C-contiguous and big enough for a compiled loop."""
    a = arrays[0]
    if a.size < LARGE:
        return False
    return all(b.shape == a.shape and b.flags.c_contiguous for b in arrays)


# ------------------------------------------------------------------------------------------ fused multiply-add
def fma(a: Any, b: Any, c: Any) -> Any:
    """``a * b + c``, rounded once for float32 (through float64, where the product is exact)."""
    if a.dtype == F4:
        t = np.asarray(np.multiply(a.astype(F8), b.astype(F8), extobj=EXTOBJ))
        return np.asarray(np.add(t, c.astype(F8), extobj=EXTOBJ)).astype(F4)
    return np.add(np.multiply(a, b, extobj=EXTOBJ), c, extobj=EXTOBJ)


# ------------------------------------------------------------------------------------------ unary
def abs_(a: np.ndarray) -> np.ndarray:
    """Magnitude; complex input gives its real dtype."""
    refuse("abs_cpu", a, "b")
    return np.absolute(a, extobj=EXTOBJ)


def sign(a: np.ndarray) -> np.ndarray:
    """-1, 0 or 1 of real input; nan gives 0 as in PyTorch."""
    if a.dtype.kind == "c":
        raise NotImplementedError(
            "Unlike NumPy, torch.sign is not intended to support complex numbers. Please use torch.sgn instead."
        )
    if a.dtype.kind == "b":
        return a.copy()
    r = np.sign(a, extobj=EXTOBJ)
    if a.dtype.kind in "fV":
        r = np.asarray(r)
        np.putmask(r, np.isnan(r), 0)
    return r


def sgn(a: np.ndarray) -> np.ndarray:
    """``sign`` for real input, ``z / |z|`` (0 at 0) for complex input."""
    if a.dtype.kind != "c":
        return sign(a)
    with quiet():
        r = np.absolute(a)
        return np.where(r == 0, a.dtype.type(0), a / r).astype(a.dtype, copy=False)


def signbit(a: np.ndarray) -> np.ndarray:
    """True where the sign bit is set."""
    if a.dtype.kind == "c":
        raise NotImplementedError("signbit is not implemented for complex tensors.")
    if a.dtype.kind in "bu":
        return np.zeros(a.shape, np.bool_)
    return np.less(a, 0) if a.dtype.kind == "i" else np.signbit(a)


def rsqrt(a: np.ndarray) -> np.ndarray:
    """``1 / sqrt(a)``."""
    return np.reciprocal(np.sqrt(a, extobj=EXTOBJ), extobj=EXTOBJ)


def reciprocal(a: np.ndarray) -> np.ndarray:
    """``1 / a``."""
    return np.reciprocal(a, extobj=EXTOBJ) if a.dtype.kind == "f" else np.divide(1, a, extobj=EXTOBJ, dtype=a.dtype)


def square(a: np.ndarray) -> np.ndarray:
    """``a * a``; bool gives int64."""
    if a.dtype.kind == "b":
        return a.astype(np.int64)
    return np.multiply(a, a, extobj=EXTOBJ)


def exp2(a: np.ndarray) -> np.ndarray:
    """``2 ** a``."""
    if a.dtype.kind != "c":
        return np.exp2(a, extobj=EXTOBJ)
    return np.exp(a * a.real.dtype.type(np.log(2.0)), extobj=EXTOBJ)


def log2(a: np.ndarray) -> np.ndarray:
    """Base-2 logarithm."""
    if a.dtype.kind != "c":
        return np.log2(a, extobj=EXTOBJ)
    return np.log(a, extobj=EXTOBJ) / a.real.dtype.type(np.log(2.0))


def sinc(a: np.ndarray) -> np.ndarray:
    """``sin(pi a) / (pi a)``, 1 at 0."""
    with quiet():
        x = a * a.real.dtype.type(np.pi)
        r = np.asarray(np.sin(x) / x)
        np.copyto(r, 1, where=a == 0)
        return r


def _np_sigmoid(x: np.ndarray, out: np.ndarray) -> None:
    one = ONE[x.dtype]
    np.negative(x, out, extobj=EXTOBJ)
    np.exp(out, out, extobj=EXTOBJ)
    np.add(out, one, out, extobj=EXTOBJ)
    np.divide(one, out, out, extobj=EXTOBJ)


@fused(_np_sigmoid)
def _sigmoid_flat(x, out):  # type: ignore[no-untyped-def]
    for i in range(x.size):
        out[i] = np.float32(1.0) / (np.float32(1.0) + exp32(-x[i]))  # noqa: F821


def sigmoid(a: np.ndarray) -> np.ndarray:
    """``1 / (1 + exp(-a))``."""
    if a.dtype == F4 and _flat(a):
        out = np.empty(a.shape, F4)
        _sigmoid_flat(a.reshape(-1), out.reshape(-1))
        return out
    r = np.empty(a.shape, a.dtype)
    _np_sigmoid(a, r)
    return r


def sigmoid_backward(g: np.ndarray, y: np.ndarray) -> np.ndarray:
    """``g * (1 - y) * y`` with ``y`` conjugated when complex."""
    if y.dtype.kind == "c":
        return g * ((1 - y) * y).conj()
    r = np.asarray(np.subtract(ONE[y.dtype], y, extobj=EXTOBJ))
    np.multiply(r, g, r, extobj=EXTOBJ)
    return np.multiply(r, y, r, extobj=EXTOBJ)


def tanh_backward(g: np.ndarray, y: np.ndarray) -> np.ndarray:
    """``g * (1 - y * y)`` with ``y`` conjugated when complex."""
    if y.dtype.kind == "c":
        return g * (1 - y * y).conj()
    r = np.asarray(np.multiply(y, y, extobj=EXTOBJ))
    np.subtract(ONE[y.dtype], r, r, extobj=EXTOBJ)
    return np.multiply(r, g, r, extobj=EXTOBJ)


def _np_exp(x: np.ndarray, out: np.ndarray) -> None:
    np.exp(x, out, extobj=EXTOBJ)


@fused(_np_exp)
def _exp_flat(x, out):  # type: ignore[no-untyped-def]
    for i in range(x.size):
        out[i] = exp32(x[i])  # noqa: F821


def exp(a: np.ndarray) -> Any:
    """``e ** a``."""
    if a.dtype is F4 and a.size >= LARGE and a.flags.c_contiguous:
        out = np.empty(a.shape, F4)
        _exp_flat(a.reshape(-1), out.reshape(-1))
        return out
    return np.exp(a, extobj=EXTOBJ)


def rounding(uf: np.ufunc, name: str) -> Any:
    """Kernel of floor/ceil/trunc/round: integers are copied, bool and complex refused."""

    def kernel(a: np.ndarray) -> Any:
        if a.dtype.kind in "fV":
            return uf(a, extobj=EXTOBJ)
        if a.dtype.kind == "c":
            raise NotImplementedError(f"{name} is not supported for complex inputs")
        refuse(f"{name}_vml_cpu", a, "b")
        return a.copy()

    kernel.__name__ = name
    return kernel


def round_decimals(a: np.ndarray, decimals: int) -> np.ndarray:
    """Half-to-even rounding to ``decimals`` places (negative: tens, hundreds, ...)."""
    if decimals == 0:
        return _round(a)
    refuse("round_cpu", a, "biuc")
    with quiet():
        p = a.dtype.type(10.0 ** abs(decimals))
        return np.rint(a * p) / p if decimals > 0 else np.rint(a / p) * p


_round = rounding(np.rint, "round")


def frac(a: np.ndarray) -> np.ndarray:
    """``a - trunc(a)``."""
    refuse("frac_cpu", a, "biuc")
    return np.subtract(a, np.trunc(a, extobj=EXTOBJ), extobj=EXTOBJ)


def scaled(a: np.ndarray, factor: float, name: str) -> np.ndarray:
    """``a * factor`` in the dtype of ``a``; complex input refused."""
    check(a.dtype.kind != "c", RuntimeError, f"{name} is not supported for complex tensors.")
    return np.multiply(a, np.array(factor, a.dtype), extobj=EXTOBJ)


def nan_to_num(a: np.ndarray, nan: float | None, posinf: float | None, neginf: float | None) -> np.ndarray:
    """nan, +inf and -inf replaced (defaults: 0 and the dtype's largest and smallest finite values)."""
    if a.dtype.kind in "biu":
        return a.copy()
    if a.dtype.kind == "c":
        r = np.empty_like(a)
        r.real = nan_to_num(a.real, nan, posinf, neginf)
        r.imag = nan_to_num(a.imag, nan, posinf, neginf)
        return r
    import ml_dtypes

    limits = ml_dtypes.finfo(a.dtype)
    r = a.copy()
    np.copyto(r, a.dtype.type(0.0 if nan is None else nan), where=np.isnan(a))
    np.copyto(r, a.dtype.type(limits.max if posinf is None else posinf), where=a == np.inf)
    np.copyto(r, a.dtype.type(limits.min if neginf is None else neginf), where=a == -np.inf)
    return r


def isinf_signed(a: np.ndarray, limit: float, name: str) -> np.ndarray:
    """True where ``a`` equals ``limit`` (an infinity); complex input refused."""
    check(a.dtype.kind != "c", RuntimeError, f"{name} does not support complex inputs.")
    return np.equal(a, limit) if a.dtype.kind in "fV" else np.zeros(a.shape, np.bool_)


def test_special(uf: np.ufunc, otherwise: bool) -> Any:
    """Kernel of isnan/isinf/isfinite: a constant for bool and integers."""

    def kernel(a: np.ndarray) -> Any:
        if a.dtype.kind in "fcV":
            return uf(a)
        return np.full(a.shape, otherwise, np.bool_)

    kernel.__name__ = uf.__name__
    return kernel


def isreal(a: np.ndarray) -> np.ndarray:
    """True where the imaginary part is zero."""
    return np.equal(a.imag, 0) if a.dtype.kind == "c" else np.ones(a.shape, np.bool_)


def angle(a: np.ndarray) -> np.ndarray:
    """Argument of complex numbers; of real ones 0, pi (negative) or nan."""
    if a.dtype.kind == "c":
        return np.arctan2(a.imag, a.real, extobj=EXTOBJ)
    with quiet():
        r = np.asarray(np.where(a < 0, a.dtype.type(np.pi), a.dtype.type(0)))
        np.copyto(r, a, where=np.isnan(a))
        return r


def conj_physical(a: np.ndarray) -> np.ndarray:
    """A copy, conjugated when complex."""
    return a.conj() if a.dtype.kind == "c" else a.copy()


def bitwise_not(a: np.ndarray) -> np.ndarray:
    """Bits (or truth values) inverted."""
    refuse("bitwise_not_cpu", a, "fcV")
    return np.invert(a)


def frexp(a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mantissa in [0.5, 1) and int32 exponent."""
    check(a.dtype.kind == "f", RuntimeError, "torch.frexp() only supports floating-point dtypes")
    m, e = np.frexp(a, extobj=EXTOBJ)
    return m, np.asarray(e, np.int32)


def complex_(re: np.ndarray, im: np.ndarray) -> np.ndarray:
    """A complex array from its parts (float32 or float64, the same dtype)."""
    _need_parts(re, im)
    r = np.empty(np.broadcast(re, im).shape, np.complex64 if re.dtype == F4 else np.complex128)
    r.real = re
    r.imag = im
    return r


def polar(radius: np.ndarray, phase: np.ndarray) -> np.ndarray:
    """``radius * exp(i phase)``."""
    _need_parts(radius, phase)
    return complex_(radius * np.cos(phase, extobj=EXTOBJ), radius * np.sin(phase, extobj=EXTOBJ))


def _need_parts(a: np.ndarray, b: np.ndarray) -> None:
    for x in (a, b):
        check(
            x.dtype in (F4, F8),
            RuntimeError,
            "Expected both inputs to be Half, Float or Double tensors but got "
            f"{scalar_name(a.dtype)} and {scalar_name(b.dtype)}",
        )
    check(
        a.dtype == b.dtype,
        RuntimeError,
        f"Expected object of scalar type {scalar_name(a.dtype)} but got scalar type {scalar_name(b.dtype)} for second argument",
    )


# ------------------------------------------------------------------------------------------ binary
def _inverse(a: np.ndarray) -> Any:
    return np.divide(ONE[a.dtype], a, extobj=EXTOBJ)


def _times(a: np.ndarray, b: np.ndarray) -> Any:
    return np.multiply(a, b, extobj=EXTOBJ)


_POWERS: dict[Any, Any] = {
    2: lambda a: _times(a, a),
    3: lambda a: _times(_times(a, a), a),
    0.5: lambda a: np.sqrt(a, extobj=EXTOBJ),
    1: lambda a: a.copy(),
    0: lambda a: np.ones(a.shape, a.dtype),
    -1: _inverse,
    -2: lambda a: np.divide(ONE[a.dtype], _times(a, a), extobj=EXTOBJ),
    -0.5: lambda a: np.divide(ONE[a.dtype], np.sqrt(a, extobj=EXTOBJ), extobj=EXTOBJ),
}
"""The exponents PyTorch computes without ``pow`` (a number, or a 0-dim tensor)."""


def power(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """``a ** b``. Integer arrays with negative exponents give 0 or +-1; a negative integer scalar is refused."""
    kind = a.dtype.kind
    if kind in "fc":
        if b.ndim == 0:
            special = _POWERS.get(b.item())
            if special is not None:
                return special(a)
        return np.power(a, b, extobj=EXTOBJ)
    refuse("pow", a, "b")
    if kind == "i" and (b < 0).any():
        check(b.ndim > 0 or a.ndim == 0, RuntimeError, "Integers to negative integer powers are not allowed.")
        r = np.asarray(np.power(a, np.maximum(b, 0)))
        odd = np.where(b & 1, a, 1)
        return np.where(b < 0, np.where(a == 1, 1, np.where(a == -1, odd, 0)), r).astype(a.dtype, copy=False)
    return np.power(a, b)


def _nonzero_divisor(name: str, a: np.ndarray, b: np.ndarray) -> None:
    refuse(name, a, "bc")
    if a.dtype.kind in "iu":
        check(bool(b.all()), RuntimeError, "ZeroDivisionError")


def remainder(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Remainder with the sign of the divisor. RuntimeError for an integer divisor 0."""
    if a.dtype.kind != "f":
        _nonzero_divisor("remainder_cpu", a, b)
    return np.remainder(a, b, extobj=EXTOBJ)


def fmod(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Remainder with the sign of the dividend. RuntimeError for an integer divisor 0."""
    if a.dtype.kind != "f":
        _nonzero_divisor("fmod_cpu", a, b)
    return np.fmod(a, b, extobj=EXTOBJ)


def floor_divide(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Quotient rounded down. RuntimeError for an integer divisor 0."""
    if a.dtype.kind != "f":
        _nonzero_divisor("div_floor_cpu", a, b)
    return np.floor_divide(a, b, extobj=EXTOBJ)


def real_only(uf: np.ufunc, message: str) -> Any:
    """Kernel of a two-operand ufunc that refuses complex operands with RuntimeError."""

    def kernel(a: np.ndarray, b: np.ndarray) -> Any:
        if a.dtype.kind == "c":
            raise RuntimeError(message)
        return uf(a, b, extobj=EXTOBJ)

    kernel.__name__ = uf.__name__
    return kernel


def kinds_only(uf: np.ufunc, name: str, refused: str) -> Any:
    """Kernel of a two-operand ufunc that refuses the dtype kinds ``refused`` with NotImplementedError."""

    def kernel(a: np.ndarray, b: np.ndarray) -> Any:
        if a.dtype.kind in refused:
            refuse(name, a, refused)
        return uf(a, b, extobj=EXTOBJ)

    kernel.__name__ = uf.__name__
    return kernel


def shift(a: np.ndarray, b: np.ndarray, left: bool) -> np.ndarray:
    """Bit shift; counts outside the width give 0 (right shifts of signed numbers: the sign)."""
    refuse("lshift_cpu" if left else "rshift_cpu", a, "bfcV")
    bits = a.dtype.itemsize * 8
    bad = (b < 0) | (b >= bits)
    if left:
        return np.where(bad, 0, np.left_shift(a, np.where(bad, 0, b))).astype(a.dtype, copy=False)
    return (
        np.right_shift(a, np.where(bad, bits - 1, b))
        if a.dtype.kind == "i"
        else np.where(bad, 0, np.right_shift(a, np.where(bad, 0, b))).astype(a.dtype, copy=False)
    )


def logaddexp(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """``log(exp(a) + exp(b))`` without overflow; complex too."""
    refuse("logaddexp_cpu", a, "biu")
    if a.dtype.kind == "f":
        return np.logaddexp(a, b, extobj=EXTOBJ)
    with quiet():
        larger = a.real >= b.real
        m, s = np.where(larger, a, b), np.where(larger, b, a)
        r = m + np.log1p(np.exp(s - m))
        same = np.isinf(a.real) & (a == b)
        return np.where(same, a + a.dtype.type(np.log(2.0)), r).astype(a.dtype, copy=False)


def heaviside(a: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Step function with ``values`` at 0; nan gives 0."""
    check(
        a.dtype.kind != "c" and values.dtype.kind != "c",
        RuntimeError,
        "heaviside is not yet implemented for complex tensors.",
    )
    check(
        a.dtype == values.dtype,
        RuntimeError,
        "heaviside is not yet implemented for tensors with different dtypes.",
    )
    return np.where(a == 0, values, (a > 0).astype(a.dtype))


def _np_clamp(x: np.ndarray, lo: Any, hi: Any, out: np.ndarray) -> None:
    np.minimum(np.maximum(x, lo), hi, out)


@fused(_np_clamp, exact=True)
def _clamp_flat(x, lo, hi, out):  # type: ignore[no-untyped-def]
    for i in range(x.size):
        v = x[i]
        # comparisons with nan are false, so a nan stays
        v = lo if v < lo else v
        out[i] = hi if v > hi else v


def _clamp_fast(a: np.ndarray, lo: np.ndarray | None, hi: np.ndarray | None) -> np.ndarray | None:
    """The compiled loop for numbers as bounds; None when it is not in use, or a bound is nan."""
    if (lo is None and hi is None) or any(b is not None and b.ndim for b in (lo, hi)):
        return None
    if _clamp_flat.compiled is None and not _clamp_flat.tick(a.size):
        return None
    low = F4.type(-np.inf) if lo is None else F4.type(lo)
    high = F4.type(np.inf) if hi is None else F4.type(hi)
    if low != low or high != high:
        return None
    out = np.empty(a.shape, F4)
    _clamp_flat(a.reshape(-1), low, high, out.reshape(-1))
    return out


def clamp(a: np.ndarray, lo: np.ndarray | None, hi: np.ndarray | None) -> np.ndarray:
    """``min(max(a, lo), hi)`` with nan propagated; either bound may be None, not both."""
    kind = a.dtype.kind
    if kind == "c":
        raise NotImplementedError("clamp is not supported for complex types")
    if a.dtype is F4 and a.size >= MEDIUM and a.flags.c_contiguous:
        got = _clamp_fast(a, lo, hi)
        if got is not None:
            return got
    if lo is None:
        if hi is None:
            raise RuntimeError("torch.clamp: At least one of 'min' or 'max' must not be None")
        return np.minimum(a, hi, extobj=EXTOBJ)
    if hi is None:
        return np.maximum(a, lo, extobj=EXTOBJ)
    if kind == "b":
        return np.minimum(np.maximum(a, lo), hi)
    return np.core.umath.clip(a, lo, hi, extobj=EXTOBJ)


def _np_clamp_mask(x: np.ndarray, g: np.ndarray, lo: Any, hi: Any, out: np.ndarray) -> None:
    np.copyto(out, g, where=(x >= lo) & (x <= hi))


@fused(_np_clamp_mask)
def _clamp_mask_flat(x, g, lo, hi, out):  # type: ignore[no-untyped-def]
    for i in range(x.size):
        out[i] = g[i] if (x[i] >= lo and x[i] <= hi) else 0


def clamp_backward(g: np.ndarray, x: np.ndarray, lo: np.ndarray | None, hi: np.ndarray | None) -> np.ndarray:
    """``g`` where ``lo <= x <= hi``, else 0 (nan bounds or values give 0)."""
    if g.dtype == x.dtype == F4 and _flat(g, x) and all(b is None or b.ndim == 0 for b in (lo, hi)):
        out = np.zeros(g.shape, F4)
        low = F4.type(-np.inf) if lo is None else F4.type(lo)
        high = F4.type(np.inf) if hi is None else F4.type(hi)
        _clamp_mask_flat(x.reshape(-1), g.reshape(-1), low, high, out.reshape(-1))
        return out
    mask: Any = True
    if lo is not None:
        mask = np.greater_equal(x, lo)
    if hi is not None:
        mask = np.less_equal(x, hi) if mask is True else mask & np.less_equal(x, hi)
    return np.where(mask, g, np.zeros((), g.dtype))


def _np_where(c: np.ndarray, a: np.ndarray, b: np.ndarray, out: np.ndarray) -> None:
    np.copyto(out, b)
    np.copyto(out, a, where=c)


@fused(_np_where)
def _where_flat(c, a, b, out):  # type: ignore[no-untyped-def]
    for i in range(c.size):
        out[i] = a[i] if c[i] else b[i]


def where(c: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """``a`` where ``c`` holds, else ``b``; all three broadcast."""
    if c.shape == b.shape:
        if a.shape == b.shape:
            if c.size >= LARGE and a.dtype.kind in "fiu" and _flat(c, a, b):
                out = np.empty(a.shape, a.dtype)
                _where_flat(c.reshape(-1), a.reshape(-1), b.reshape(-1), out.reshape(-1))
                return out
            r = b.copy()
            np.putmask(r, c, a)
            return r
        if a.ndim == 0:
            r = b.copy()
            np.putmask(r, c, a)
            return r
    return np.where(c, a, b)


def isclose(a: np.ndarray, b: np.ndarray, rtol: float, atol: float, equal_nan: bool) -> np.ndarray:
    """Element-wise ``|a - b| <= atol + rtol * |b|``, exact equality for infinities."""
    check(a.dtype == b.dtype, RuntimeError, f"{scalar_name(a.dtype)} did not match {scalar_name(b.dtype)}")
    check(rtol >= 0, RuntimeError, f"rtol must be greater than or equal to zero, but got {rtol}")
    check(atol >= 0, RuntimeError, f"atol must be greater than or equal to zero, but got {atol}")
    with quiet():
        close = np.asarray(np.equal(a, b))
        if a.dtype.kind in "fcV" and equal_nan:
            close = close | (np.isnan(a) & np.isnan(b))
        if rtol == 0 and atol == 0:
            return close
        if a.dtype.kind in "biu":
            a, b = a.astype(F8), b.astype(F8)
        elif a.dtype.kind != "c" and a.dtype.itemsize == 2:
            a, b = a.astype(F4), b.astype(F4)
        error = np.absolute(a - b)
        allowed = np.absolute(b) * error.dtype.type(rtol) + error.dtype.type(atol)
        return close | (np.isfinite(error) & (error <= allowed))
