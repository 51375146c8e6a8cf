"""Host kernels that reduce dimensions: sums, products, moments, extrema, norms, logical reductions.

Arrays in, arrays (or NumPy scalars) out. ``dim`` is None or a tuple; None and ``()`` reduce everything. Floating sums
go
through BLAS (`` x @ ones ``): faster than ``np.add.reduce`` at every size and accurate, because its partial sums are
many.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.core.multiarray import c_einsum

from mindtorch.core.errors import check
from mindtorch.engine.host import row_reduce, sums
from mindtorch.engine.host.quiet import EXTOBJ, quiet

F4 = np.dtype(np.float32)
F8 = np.dtype(np.float64)
I8 = np.dtype(np.int64)
_BLOCK = 4096
"""Longest run summed by one BLAS dot product: its partial sums are then at most 64 elements long."""
_ones: dict[tuple[int, Any], np.ndarray] = {}


def ones(n: int, d: Any) -> np.ndarray:
    """A cached vector of ones."""
    v = _ones.get((n, d))
    if v is None:
        if len(_ones) > 512:
            _ones.clear()
        v = np.ones(n, d)
        if n <= 1 << 20:
            _ones[n, d] = v
    return v


def axes(dim: Sequence[int] | None, ndim: int) -> tuple[int, ...] | None:
    """Sorted non-negative axes; None means all. IndexError when out of range, RuntimeError when repeated."""
    if dim is None or len(dim) == 0:
        return None
    n = ndim or 1
    out = []
    for d in dim:
        if not -n <= d < n:
            raise IndexError(f"Dimension out of range (expected to be in range of [{-n}, {n - 1}], but got {d})")
        out.append(d % n)
    if len(out) > 1:
        out.sort()
        for p, q in zip(out, out[1:]):
            check(p != q, RuntimeError, f"dim {p} appears multiple times in the list of dims")
    return tuple(out) if ndim else None


def kept(shape: tuple[int, ...], ax: tuple[int, ...] | None) -> tuple[int, ...]:
    """``shape`` with reduced axes of size 1."""
    if ax is None:
        return (1,) * len(shape)
    return tuple(1 if i in ax else n for i, n in enumerate(shape))


def count(shape: tuple[int, ...], ax: tuple[int, ...] | None) -> int:
    """Number of elements that go into one result."""
    if ax is None:
        return math.prod(shape)
    return math.prod([shape[i] for i in ax])


# ------------------------------------------------------------------------------------------ sums
def total(a: np.ndarray) -> Any:
    """Sum of all elements of a float32 or float64 array."""
    n = a.size
    v = a.ravel()
    if sums.MIN <= n <= sums.MAX:
        exact = sums.total(v)
        if exact is not None:
            return exact
    if n <= _BLOCK:
        return v.dot(ones(n, v.dtype))
    m = n - n % 1024
    r = v[:m].reshape(-1, 1024).dot(ones(1024, v.dtype)).sum(dtype=F8)
    if m < n:
        r = r + float(v[m:].dot(ones(n - m, v.dtype)))
    with quiet():
        return v.dtype.type(r)


def _wide(a: np.ndarray) -> bool:
    """Whether NumPy's own row additions are PyTorch's to the bit, and fast: whole vectors, many of them."""
    return a.size >= 16384 and a.shape[2] >= 256 and a.shape[2] % 32 == 0


def _fold(a: np.ndarray) -> np.ndarray:
    """``_cascade`` with narrow rows joined first: NumPy adds rows quickly only when they are wide."""
    p, n, k = a.shape
    f = 512 // k
    if f < 2 or n < 4 * f:
        return _cascade(a)
    m = n - n % f
    r = np.add.reduce(_cascade(a[:, :m].reshape(p, m // f, f * k)).reshape(p, f, k), 1)
    if m < n:
        r += np.add.reduce(a[:, m:], 1)
    return r


def _cascade(a: np.ndarray) -> np.ndarray:
    """Sum of (P, n, K) over n as PyTorch adds rows: runs of 16, runs of 16 of those, and so on, four levels deep."""
    p, n, k = a.shape
    with quiet():
        if n <= 16:
            return np.add.reduce(a, 1)
        step = 1 << max(4, -(-(n - 1).bit_length() // 4))
        r = None
        for _ in range(3):
            g = a.shape[1] // step
            tail = np.add.reduce(a[:, g * step :], 1)
            r = tail if r is None else r + tail
            a = np.add.reduce(a[:, : g * step].reshape(p, g, step, k), 2)
            if g == 0:
                return r
        return r + np.add.reduce(a, 1)


def axis_sum(a: np.ndarray, ax: tuple[int, ...]) -> np.ndarray:
    """Sum of a float32 or float64 array over sorted axes, one run of adjacent axes after the other."""
    if not a.flags.c_contiguous:
        a = np.ascontiguousarray(a)
    shape = list(a.shape)
    i = len(ax) - 1
    while i >= 0:
        lo = hi = ax[i]
        while i > 0 and ax[i - 1] == lo - 1:
            i -= 1
            lo -= 1
        i -= 1
        n = math.prod(shape[lo : hi + 1])
        outer = math.prod(shape[:lo])
        inner = math.prod(shape[hi + 1 :])
        exact = None
        if inner == 1:
            x = a.reshape(outer, n)
            exact = sums.sum_last(x) if sums.MIN <= x.size <= sums.MAX else None
            a = x.dot(ones(n, a.dtype)) if exact is None else exact
        else:
            x = a.reshape(outer, n, inner)
            exact = sums.sum_rows(x) if x.size >= sums.MIN else None
            if exact is not None:
                a = exact
            elif outer == 1 and n <= 128 and x.size < 16384:
                a = ones(n, a.dtype).dot(x[0])
            else:
                a = _fold(x)
        del shape[lo : hi + 1]
    return a.reshape(shape)


def _exact(a: np.ndarray, dim: int) -> np.ndarray | None:
    """A matrix summed over one dimension in PyTorch's order; None when the compiled kernels do not apply."""
    if not a.flags.c_contiguous:
        return None
    if dim == 1 or dim == -1:
        return sums.sum_last(a) if a.size <= sums.MAX else None
    rows = sums.sum_rows(a[None]) if (dim == 0 or dim == -2) and sums.rows.compiled is not None else None
    return None if rows is None else rows[0]


def sum_(a: np.ndarray, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Any:
    """Sum; integers and bool give int64 unless ``dtype`` says otherwise."""
    d = a.dtype
    if not dim and not keepdim and dtype is None and (d is F4 or d is F8):
        return total(a)
    if a.ndim == 2 and dim.__class__ is tuple and len(dim) == 1 and (d is F4 or d is F8) and not dtype:
        x = dim[0]
        if a.size >= sums.MIN:
            r = _exact(a, x)
            if r is not None:
                return r[:, None] if keepdim and x in (1, -1) else r[None] if keepdim else r
        elif x == 1 or x == -1:
            r = a.dot(ones(a.shape[1], d))
            return r[:, None] if keepdim else r
        elif x == 0 or x == -2:
            r = ones(a.shape[0], d).dot(a)
            return r[None] if keepdim else r
    if dtype is not None:
        a = _cast(a, dtype.np)
        if dtype.np.itemsize == 2 and dtype.np.kind in "fV":
            a = a.astype(F4)
            return np.asarray(sum_(a, dim, keepdim)).astype(dtype.np)
        d = a.dtype
    if d is F4 or d is F8 or d == F4 or d == F8:
        if not dim and not keepdim:
            return total(a)
        ax = axes(dim, a.ndim)
        if ax is None:
            r = np.asarray(total(a))
        else:
            r = axis_sum(a, ax)
        return r.reshape(kept(a.shape, ax)) if keepdim else r
    if d.kind == "b" and dtype is None and not keepdim and not dim:
        return I8.type(np.count_nonzero(a))
    ax = axes(dim, a.ndim)
    if d.kind in "biu":
        if dtype is None or d.kind == "b":
            d = I8 if dtype is None else dtype.np
        return np.add.reduce(a, axis=ax, dtype=d, keepdims=keepdim)
    with quiet():
        return np.add.reduce(a, axis=ax, keepdims=keepdim)


def _cast(a: np.ndarray, d: np.dtype) -> np.ndarray:
    if a.dtype == d:
        return a
    with quiet():
        return (a.real if a.dtype.kind == "c" and d.kind != "c" else a).astype(d)


_NAMES = {"bool": "Bool", "uint8": "Byte", "int8": "Char", "int16": "Short", "int32": "Int", "int64": "Long"}


def mean(a: np.ndarray, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Any:
    """Mean of floating or complex elements (or of elements cast to ``dtype``)."""
    kind = (a.dtype if dtype is None else dtype.np).kind
    if kind in "biu":
        got = _NAMES.get(a.dtype.name, a.dtype.name)
        where = "input" if dtype is None else "output"
        raise RuntimeError(
            f"mean(): could not infer output dtype. Input dtype must be either a floating point or complex "
            f"dtype. Got: {got}"
            if dtype is None
            else f"mean(): expected a floating point or complex dtype for the {where}, got {dtype}"
        )
    if dtype is not None:
        narrow = dtype.np.itemsize == 2
        r = np.asarray(mean(_cast(a, F4 if narrow else dtype.np), dim, keepdim))
        return r.astype(dtype.np) if narrow else r
    r = sum_(a, dim, keepdim)
    n = a.shape[dim[0]] if dim and len(dim) == 1 and a.ndim else count(a.shape, axes(dim, a.ndim))
    d = a.dtype
    if r.__class__ is np.ndarray and r.ndim:
        return np.divide(r, d.type(n), out=r, extobj=EXTOBJ)
    return np.divide(r, d.type(n), extobj=EXTOBJ)


def nansum(a: np.ndarray, dim: Any, keepdim: bool, dtype: Any) -> Any:
    """Sum that counts nan as 0."""
    check(a.dtype.kind != "c", RuntimeError, "nansum does not support complex inputs")
    if a.dtype.kind == "f":
        a = np.where(np.isnan(a), a.dtype.type(0), a)
    return sum_(a, dim, keepdim, dtype)


def _halved(a: np.ndarray) -> np.ndarray:
    """Products of the two halves of the last axis, until it is short: vector work, where NumPy's reduce is scalar."""
    while a.shape[-1] >= 16:
        h = a.shape[-1] // 2
        odd = a[..., 2 * h :]
        a = a[..., :h] * a[..., h : 2 * h]
        if odd.shape[-1]:
            a[..., :1] *= odd
    return a


def prod(a: np.ndarray, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Any:
    """Product; integers and bool give int64 unless ``dtype`` says otherwise."""
    ax = axes(dim, a.ndim)
    if dtype is not None:
        narrow = dtype.np.itemsize == 2 and dtype.np.kind in "fV"
        a = _cast(a, F4 if narrow else dtype.np)
        with quiet():
            r = np.multiply.reduce(a, axis=ax, keepdims=keepdim, dtype=a.dtype)
            return np.asarray(r).astype(dtype.np) if narrow else r
    d = I8 if a.dtype.kind in "biu" else a.dtype
    if ax is not None and len(ax) == 1 and ax[0] == a.ndim - 1:
        fast = row_reduce.prod_last(a, keepdim)
        if fast is not None:
            return fast
    with quiet():
        if ax is not None and len(ax) == 1 and ax[0] == a.ndim - 1 and a.shape[-1] >= 32 and a.dtype.kind == "f":
            a = _halved(a)
        return np.multiply.reduce(a, axis=ax, keepdims=keepdim, dtype=d)


# ------------------------------------------------------------------------------------------ moments
def _moments(a: np.ndarray, ax: tuple[int, ...] | None, correction: float) -> tuple[np.ndarray, np.ndarray]:
    """Variance and mean in double precision, reduced axes kept."""
    x = a.astype(F8)
    n = count(a.shape, ax)
    with quiet():
        if ax is None:
            m = np.asarray(total(x) / F8.type(n))
            x -= m
            v = x.ravel()
            s = np.asarray(v.dot(v))
        else:
            m = axis_sum(x, ax).reshape(kept(a.shape, ax)) / F8.type(n)
            x -= m
            x *= x
            s = axis_sum(x, ax)
        return s / F8.type(max(n - correction, 0.0)), m


def _small_moments(a: np.ndarray, axis: int | None, correction: float, root: bool) -> Any:
    """Variance and mean of a small float32 array over one axis of two, or all of it; None when nothing is left to
    divide by."""
    n = a.size if axis is None else a.shape[axis]
    if n - correction <= 0 or n == 0:
        return None
    x = a.astype(F8)
    if axis is None:
        v = x.ravel()
        one = ones(n, F8)
        m = v.dot(one) / n
        v = np.subtract(v, m, extobj=EXTOBJ)
        s = v.dot(v) / (n - correction)
    else:
        if axis == 0:
            x = x.T
        one = ones(n, F8)
        m = x.dot(one)
        m /= n
        np.subtract(x, m[:, None], x, extobj=EXTOBJ)
        s = c_einsum("ij,ij->i", x, x)
        s /= n - correction
    if root:
        s = np.sqrt(s, extobj=EXTOBJ)
    with quiet():
        return np.asarray(s).astype(F4), np.asarray(m).astype(F4)


def var_mean(
    a: np.ndarray, dim: Any, correction: float, keepdim: bool, root: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Variance (standard deviation with ``root``) and mean. Complex input: variance of the parts added, complex
    mean."""
    ax = axes(dim, a.ndim)
    if a.dtype is F4 and (ax is None or len(ax) == 1):
        got = row_reduce.moments(a, None if ax is None else ax[0], correction, keepdim, root)
        if got is not None:
            return got
    if a.dtype is F4 and a.size <= 4096 and not keepdim and (ax is None or (a.ndim == 2 and len(ax) == 1)):
        fast = _small_moments(a, None if ax is None else ax[0], correction, root)
        if fast is not None:
            return fast
    check(a.dtype.kind in "fc", RuntimeError, "std and var only support floating point and complex dtypes")
    if a.dtype.kind == "c":
        d = a.real.dtype
        (vr, mr), (vi, mi) = _moments(a.real, ax, correction), _moments(a.imag, ax, correction)
        v, m = vr + vi, mr + 1j * mi
    else:
        d = a.dtype
        v, m = _moments(a, ax, correction)
    shape = kept(a.shape, ax)
    final = shape if keepdim else tuple(s for i, s in enumerate(a.shape) if ax is not None and i not in ax)
    with quiet():
        v = np.sqrt(v) if root else v
        return np.asarray(v, d).reshape(final), np.asarray(m).astype(a.dtype).reshape(final)


# ------------------------------------------------------------------------------------------ extrema
def _nonempty(name: str, a: np.ndarray, ax: tuple[int, ...] | None) -> None:
    if a.size:
        return
    if ax is None:
        raise RuntimeError(
            f"{name}(): Expected reduction dim to be specified for input.numel() == 0. "
            "Specify the reduction dim with the 'dim' argument."
        )
    for d in ax:
        check(a.shape[d], IndexError, f"{name}(): Expected reduction dim {d} to have non-zero size.")


def extreme(name: str, fn: np.ufunc) -> Any:
    """``kernel(a, dim, keepdim)``: maximum or minimum; nan wins."""

    def kernel(a: np.ndarray, dim: Any = None, keepdim: bool = False) -> Any:
        if a.dtype.kind == "c":
            raise NotImplementedError(f'"{name}" not implemented for complex tensors: they have no order')
        if dim is None and not keepdim and a.size:
            return fn.reduce(a.ravel())
        ax = axes(dim, a.ndim)
        if not a.size:
            _nonempty(name, a, ax)
        if ax is None and not keepdim:
            return fn.reduce(a.ravel())
        if ax is not None and len(ax) == 1:
            return fn.reduce(a, ax[0], None, None, keepdim)
        return fn.reduce(a, axis=ax, keepdims=keepdim)

    return kernel


@functools.lru_cache(maxsize=64)
def _starts(size: int, n: int) -> np.ndarray:
    """Flat positions of the first elements of rows of length ``n``."""
    return np.arange(0, size, n)


def pick(a: np.ndarray, i: np.ndarray, axis: int) -> np.ndarray:
    """``a`` at index ``i`` (kept axis removed) along ``axis``."""
    if axis == a.ndim - 1 and a.flags.c_contiguous:
        flat = i.ravel() + _starts(a.size, a.shape[-1]) if i.size else i.ravel()
        return a.reshape(-1).take(flat).reshape(i.shape)
    return np.take_along_axis(a, np.expand_dims(i, axis), axis).squeeze(axis)


def extreme_at(name: str, method: str) -> Any:
    """``kernel(a, dim, keepdim) -> (values, indices)``; the first of equal elements, the first nan."""

    def kernel(a: np.ndarray, dim: int, keepdim: bool) -> tuple[np.ndarray, np.ndarray]:
        if a.dtype.kind == "c":
            raise NotImplementedError(f'"{name}" not implemented for complex tensors: they have no order')
        (d,) = axes((dim,), a.ndim) or (None,)
        if d is None:
            return a.copy(), np.zeros((), I8)
        if not a.size:
            _nonempty(name, a, (d,))
        i = np.asarray(getattr(a, method)(d)) if a.size else np.zeros(a.shape[:d] + a.shape[d + 1 :], I8)
        v = pick(a, i, d)
        return (np.expand_dims(v, d), np.expand_dims(i, d)) if keepdim else (v, i)

    return kernel


def arg_extreme(name: str, method: str) -> Any:
    """``kernel(a, dim, keepdim) -> index``; without ``dim`` into the flattened array."""

    def kernel(a: np.ndarray, dim: int | None, keepdim: bool) -> np.ndarray:
        if a.dtype.kind in "cb":
            if a.dtype.kind == "b":
                raise RuntimeError(f"{name}(): does not support bool input; convert the tensor with .int()")
            raise NotImplementedError(f"\"{name}_cpu\" not implemented for '{a.dtype.name}': complex has no order")
        ax = axes(None if dim is None else (dim,), a.ndim)
        if not a.size:
            if ax is None:
                raise IndexError(f"{name}(): Expected reduction dim to be specified for input.numel() == 0.")
            _nonempty(name, a, ax)
            d = ax[0]
            shape = a.shape[:d] + ((1,) if keepdim else ()) + a.shape[d + 1 :]
            return np.zeros(shape, I8)
        if ax is None:
            r = np.asarray(getattr(a.ravel(), method)())
            return r.reshape((1,) * a.ndim) if keepdim else r
        return np.asarray(getattr(a, method)(ax[0], keepdims=keepdim))

    return kernel


def aminmax(a: np.ndarray, dim: int | None, keepdim: bool) -> tuple[np.ndarray, np.ndarray]:
    """Smallest and largest element."""
    check(a.dtype.kind != "c", NotImplementedError, '"aminmax" not implemented for complex tensors: they have no order')
    ax = axes(None if dim is None else (dim,), a.ndim)
    if not a.size:
        _nonempty("aminmax", a, ax)
    lo, hi = np.minimum.reduce(a, axis=ax, keepdims=keepdim), np.maximum.reduce(a, axis=ax, keepdims=keepdim)
    return np.asarray(lo), np.asarray(hi)


# ------------------------------------------------------------------------------------------ logical
def _logical(fn: np.ufunc) -> Any:
    def kernel(a: np.ndarray, dim: Any = None, keepdim: bool = False) -> Any:
        r = fn.reduce(a if a.dtype.kind == "b" else a != 0, axis=axes(dim, a.ndim), keepdims=keepdim)
        return np.asarray(r).astype(np.uint8) if a.dtype == np.uint8 else r

    return kernel


all_ = _logical(np.logical_and)
any_ = _logical(np.logical_or)


def count_nonzero(a: np.ndarray, dim: Any) -> Any:
    """Number of elements that are not 0."""
    return np.asarray(np.count_nonzero(a, axis=axes(dim, a.ndim)), I8)


# ------------------------------------------------------------------------------------------ logsumexp, norms
def logsumexp(a: np.ndarray, dim: Any, keepdim: bool) -> Any:
    """``log(sum(exp(a)))`` shifted by the largest element."""
    ax = axes(dim, a.ndim)
    if ax is not None and len(ax) == 1 and ax[0] == a.ndim - 1:
        fast = row_reduce.logsumexp_last(a, keepdim)
        if fast is not None:
            return fast
    with quiet():
        if not a.size:
            return np.log(np.add.reduce(np.exp(a), axis=ax, keepdims=keepdim))
        m = np.maximum.reduce(a.real, axis=ax, keepdims=True)
        inf = np.isinf(m)
        if inf.any():
            m = np.where(inf, m.dtype.type(0), m)
        s = np.asarray(sum_(np.exp(a - m), tuple(range(a.ndim)) if ax is None else ax, True))
        r = np.log(s) + m
    if keepdim:
        return r
    return r.reshape(tuple(n for i, n in enumerate(a.shape) if ax is not None and i not in ax))


def _sum_squares(a: np.ndarray, ax: tuple[int, ...] | None, keepdim: bool) -> Any:
    """Sum of squares, in one pass where the memory layout allows it."""
    if a.size >= 64 and (ax is None or len(ax) == 1):
        got = row_reduce.square_sum(a, None if ax is None else ax[0], keepdim)
        if got is not None:
            return got
    if not keepdim and a.size <= _BLOCK:
        if ax is None:
            v = a.ravel()
            return v.dot(v)
        if a.ndim == 2 and len(ax) == 1:
            return c_einsum("ij,ij->i" if ax[0] else "ij,ij->j", a, a)
    if a.flags.c_contiguous and a.size > _BLOCK and not keepdim:
        if ax is None:
            v = a.reshape(-1)
            m = v.size - v.size % 1024
            x = v[:m].reshape(-1, 1024)
            tail = v[m:]
            return a.dtype.type(np.einsum("ij,ij->i", x, x).sum(dtype=F8) + tail.dot(tail))
        if ax == (a.ndim - 1,) and a.shape[-1] <= _BLOCK:
            return np.einsum("...j,...j->...", a, a)
    return sum_(a * a, ax, keepdim)


def vector_norm(a: np.ndarray, ord: float, dim: Any, keepdim: bool) -> Any:
    """The ``ord``-norm of the elements over ``dim``; result is real."""
    ax = axes(dim, a.ndim)
    if not a.size and (ord < 0 or ord == np.inf):
        if ax is None or any(a.shape[d] == 0 for d in ax):
            raise RuntimeError(
                f"linalg.vector_norm cannot compute the {ord} norm on an empty tensor because the operation does not "
                "have an identity"
            )
    if ord == 2 and a.dtype.kind == "f":
        with quiet():
            s = _sum_squares(a, ax, keepdim)
        return np.sqrt(s, extobj=EXTOBJ)
    with quiet():
        if ord == 0:
            return np.add.reduce(a != 0, axis=ax, keepdims=keepdim, dtype=a.real.dtype)
        x = np.absolute(a)
        if ord == 1:
            return sum_(x, ax, keepdim)
        if ord == 2:
            return np.sqrt(sum_(x * x, ax, keepdim))
        if ord == np.inf:
            return np.maximum.reduce(x, axis=ax, keepdims=keepdim)
        if ord == -np.inf:
            return np.minimum.reduce(x, axis=ax, keepdims=keepdim)
        t = x.dtype.type
        return np.power(sum_(np.power(x, t(ord)), ax, keepdim), t(1.0 / ord))


def renorm(a: np.ndarray, p: float, dim: int, maxnorm: float) -> np.ndarray:
    """Scale factor per slice of ``dim`` that brings its p-norm down to ``maxnorm``; broadcastable to ``a``."""
    rest = tuple(i for i in range(a.ndim) if i != dim % a.ndim)
    n = np.asarray(vector_norm(a, p, rest, True))
    with quiet():
        return np.where(n > maxnorm, n.dtype.type(maxnorm) / (n + n.dtype.type(1e-7)), n.dtype.type(1))
