"""``a + scale * b`` and its kin (addcmul, addcdiv, lerp): what optimisers and averages are written with.

float32 products and the sum that follows are rounded once, as PyTorch's fused instruction does. The ``_into`` forms write
into their first array and tell whether they could: they only take contiguous float32 arrays of one shape.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from mindtorch.engine.host.jit import Fused, fused
from mindtorch.engine.host.pointwise import ONE, fma, refuse
from mindtorch.engine.host.quiet import EXTOBJ, quiet

F4 = np.dtype(np.float32)


def _fits(loop: Fused, a: np.ndarray, b: np.ndarray, c: np.ndarray | None = None) -> bool:
    """Whether the compiled loop applies to these operands."""
    return (
        a.dtype is F4
        and b.dtype is F4
        and a.shape == b.shape
        and a.flags.c_contiguous
        and b.flags.c_contiguous
        and (c is None or (c.dtype is F4 and c.shape == a.shape and c.flags.c_contiguous))
        and (loop.compiled is not None or loop.tick(a.size))
    )


# ------------------------------------------------------------------------------------------ a + alpha * b
def _np_axpy(a: np.ndarray, b: np.ndarray, alpha: Any, out: np.ndarray) -> None:
    out[...] = fma(b, np.asarray(alpha), a)


def _np_axpy_into(a: np.ndarray, b: np.ndarray, alpha: Any) -> None:
    _np_axpy(a, b, alpha, a)


# A loop whose output may be its input is not vectorised, so writing in place has loops of its own.
@fused(_np_axpy_into, exact=True)
def _axpy_into(a, b, alpha):  # type: ignore[no-untyped-def]
    for i in range(a.size):
        a[i] = fma32(b[i], alpha, a[i])  # noqa: F821


@fused(_np_axpy, exact=True)
def _axpy(a, b, alpha, out):  # type: ignore[no-untyped-def]
    for i in range(a.size):
        out[i] = fma32(b[i], alpha, a[i])  # noqa: F821


def axpy(a: np.ndarray, b: np.ndarray, alpha: Any) -> np.ndarray:
    """``a + alpha * b`` of float arrays, broadcast."""
    scale = a.dtype.type(alpha)
    if _fits(_axpy, a, b):
        out = np.empty(a.shape, F4)
        _axpy(a.reshape(-1), b.reshape(-1), scale, out.reshape(-1))
        return out
    return fma(b, np.asarray(scale), a)


def axpy_into(a: np.ndarray, b: np.ndarray, alpha: Any) -> bool:
    """``a += alpha * b``."""
    if a.dtype is F8:
        if b.dtype is not F8 or a.shape != b.shape or not (a.flags.c_contiguous and b.flags.c_contiguous):
            return False
        flat = a.reshape(-1)
        _axpy64(flat, b.reshape(-1), float(alpha), flat)
        return True
    if not _fits(_axpy_into, a, b):
        return False
    _axpy_into(a.reshape(-1), b.reshape(-1), F4.type(alpha))
    return True


_SPLIT = 134217729.0  # 2**27 + 1: halves of a float64, products of which are exact
F8 = np.dtype(np.float64)


_mul, _add, _sub = (functools.partial(f, extobj=EXTOBJ) for f in (np.multiply, np.add, np.subtract))


def _np_axpy64(a: np.ndarray, b: np.ndarray, alpha: Any, out: np.ndarray) -> None:
    """The errors of product and sum are carried along, so that only the end is rounded."""
    alpha = float(alpha)
    if math.frexp(alpha)[0] in (0.5, -0.5):  # the product with a power of two has no error
        _add(a, _mul(b, alpha), out)
        return
    t = alpha * _SPLIT
    high = t - (t - alpha)
    low = alpha - high
    t = _mul(b, _SPLIT)
    b_high = _sub(t, _sub(t, b))
    b_low = _sub(b, b_high)
    p = _mul(b, alpha)
    lost = _add(_add(_add(_sub(_mul(b_high, high), p), _mul(b_high, low)), _mul(b_low, high)), _mul(b_low, low))
    s = _add(p, a)
    z = _sub(s, p)
    r = _add(s, _add(_add(_sub(p, _sub(s, z)), _sub(a, z)), lost))
    out[...] = r if np.isfinite(r).all() else np.where(np.isfinite(r), r, s)


@fused(_np_axpy64, exact=True)
def _axpy64(a, b, alpha, out):  # type: ignore[no-untyped-def]
    for i in range(a.size):
        out[i] = fma64(b[i], alpha, a[i])  # noqa: F821


def axpy64(a: np.ndarray, b: np.ndarray, alpha: float) -> np.ndarray:
    """``a + alpha * b`` of float64 arrays, broadcast, rounded once."""
    if a.shape == b.shape and a.flags.c_contiguous and b.flags.c_contiguous:
        out = np.empty(a.shape, F8)
        _axpy64(a.reshape(-1), b.reshape(-1), np.float64(alpha), out.reshape(-1))
    else:
        out = np.empty(np.broadcast(a, b).shape, F8)
        _np_axpy64(a, b, np.float64(alpha), out)
    return out


# ------------------------------------------------------------------------------------------ a + value * b * c
def _np_addcmul(a: np.ndarray, b: np.ndarray, c: np.ndarray, value: Any, out: np.ndarray) -> None:
    out[...] = fma(b if value == 1 else b * value, c, a)


def _np_addcmul_into(a: np.ndarray, b: np.ndarray, c: np.ndarray, value: Any) -> None:
    _np_addcmul(a, b, c, value, a)


@fused(_np_addcmul_into, exact=True)
def _addcmul_into(a, b, c, value):  # type: ignore[no-untyped-def]
    for i in range(a.size):
        a[i] = fma32(value * b[i], c[i], a[i])  # noqa: F821


@fused(_np_addcmul, exact=True)
def _addcmul(a, b, c, value, out):  # type: ignore[no-untyped-def]
    for i in range(a.size):
        out[i] = fma32(value * b[i], c[i], a[i])  # noqa: F821


def addcmul(a: np.ndarray, b: np.ndarray, c: np.ndarray, value: Any) -> np.ndarray:
    """``a + (value * b) * c``; integer tensors truncate ``value`` as PyTorch does."""
    refuse("addcmul_cpu_out", a, "b")
    v = a.dtype.type(value)
    if _fits(_addcmul, a, b, c):
        out = np.empty(a.shape, F4)
        _addcmul(a.reshape(-1), b.reshape(-1), c.reshape(-1), v, out.reshape(-1))
        return out
    return fma(b if value == 1 else np.multiply(b, np.asarray(v), extobj=EXTOBJ), c, a)


def addcmul_into(a: np.ndarray, b: np.ndarray, c: np.ndarray, value: Any) -> bool:
    """``a += (value * b) * c``."""
    if not _fits(_addcmul_into, a, b, c):
        return False
    _addcmul_into(a.reshape(-1), b.reshape(-1), c.reshape(-1), F4.type(value))
    return True


# ------------------------------------------------------------------------------------------ a + value * b / c
def _np_addcdiv(a: np.ndarray, b: np.ndarray, c: np.ndarray, value: Any, out: np.ndarray) -> None:
    with quiet():
        out[...] = a + (b if value == 1 else b * value) / c


def _np_addcdiv_into(a: np.ndarray, b: np.ndarray, c: np.ndarray, value: Any) -> None:
    _np_addcdiv(a, b, c, value, a)


@fused(_np_addcdiv_into, exact=True)
def _addcdiv_into(a, b, c, value):  # type: ignore[no-untyped-def]
    for i in range(a.size):
        a[i] = a[i] + (value * b[i]) / c[i]


@fused(_np_addcdiv, exact=True)
def _addcdiv(a, b, c, value, out):  # type: ignore[no-untyped-def]
    for i in range(a.size):
        out[i] = a[i] + (value * b[i]) / c[i]


def addcdiv(a: np.ndarray, b: np.ndarray, c: np.ndarray, value: Any) -> np.ndarray:
    """``a + (value * b) / c`` on floating arrays."""
    if _fits(_addcdiv, a, b, c):
        out = np.empty(a.shape, F4)
        _addcdiv(a.reshape(-1), b.reshape(-1), c.reshape(-1), F4.type(value), out.reshape(-1))
        return out
    with quiet():
        t = b if value == 1 else b * a.dtype.type(value)
        t = t / c
        if t.shape == np.broadcast(a, t).shape and t.ndim:
            t += a
            return t
        return a + t


def addcdiv_into(a: np.ndarray, b: np.ndarray, c: np.ndarray, value: Any) -> bool:
    """``a += (value * b) / c``."""
    if not _fits(_addcdiv_into, a, b, c):
        return False
    _addcdiv_into(a.reshape(-1), b.reshape(-1), c.reshape(-1), F4.type(value))
    return True


# ------------------------------------------------------------------------------------------ interpolation
def _np_lerp(a: np.ndarray, b: np.ndarray, w: Any, out: np.ndarray) -> None:
    out[...] = _lerp_plain(a, b, np.asarray(w))


def _np_lerp_into(a: np.ndarray, b: np.ndarray, w: Any) -> None:
    _np_lerp(a, b, w, a)


@fused(_np_lerp_into, exact=True)
def _lerp_into(a, b, w):  # type: ignore[no-untyped-def]
    one = np.float32(1.0)
    if abs(w) < np.float32(0.5):
        for i in range(a.size):
            a[i] = fma32(w, b[i] - a[i], a[i])  # noqa: F821
    else:
        for i in range(a.size):
            a[i] = fma32(w - one, b[i] - a[i], b[i])  # noqa: F821


@fused(_np_lerp, exact=True)
def _lerp(a, b, w, out):  # type: ignore[no-untyped-def]
    one = np.float32(1.0)
    if abs(w) < np.float32(0.5):
        for i in range(a.size):
            out[i] = fma32(w, b[i] - a[i], a[i])  # noqa: F821
    else:
        for i in range(a.size):
            out[i] = fma32(w - one, b[i] - a[i], b[i])  # noqa: F821


def _lerp_plain(a: np.ndarray, b: np.ndarray, w: np.ndarray) -> np.ndarray:
    d = np.asarray(np.subtract(b, a, extobj=EXTOBJ))
    return fma(w, d, a) if abs(w.item()) < 0.5 else fma(np.asarray(w - ONE[w.dtype]), d, b)


def lerp(a: np.ndarray, b: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Linear interpolation; from the nearer end, so that weight 1 gives ``b`` exactly."""
    refuse("lerp_kernel_scalar", a, "biu")
    if w.ndim == 0:
        if _fits(_lerp, a, b):
            out = np.empty(a.shape, F4)
            _lerp(a.reshape(-1), b.reshape(-1), F4.type(w), out.reshape(-1))
            return out
        return _lerp_plain(a, b, w)
    d = np.asarray(np.subtract(b, a, extobj=EXTOBJ))
    with quiet():
        near = np.abs(w) < 0.5
        return np.where(near, fma(w, d, a), fma(w - ONE[w.dtype], d, b))


def lerp_into(a: np.ndarray, b: np.ndarray, w: np.ndarray) -> bool:
    """``a`` moved towards ``b`` in place; ``w`` is 0-dim."""
    if w.ndim or not _fits(_lerp_into, a, b):
        return False
    _lerp_into(a.reshape(-1), b.reshape(-1), F4.type(w))
    return True
