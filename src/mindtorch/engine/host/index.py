"""Host kernels that read or write through index arrays. Every result is a new array; inputs are never written to.

Bounds are checked here, because NumPy accepts negative indices where PyTorch refuses them. Loops over (outer, dim, inner)
are compiled once they have seen enough work; until then the same result comes from flat NumPy indexing.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from mindtorch.core.errors import check, wrap_dim
from mindtorch.engine.host import index_loops as loops
from mindtorch.engine.host.pointwise import scalar_name
from mindtorch.engine.host.quiet import quiet

LARGE = 4096
"""Elements from which compiled kernels are tried."""
I8 = np.dtype(np.int64)
U8 = np.dtype(np.uint64)


# ------------------------------------------------------------------------------------------ checks
def need_index(name: str, i: np.ndarray) -> None:
    """RuntimeError unless ``i`` is int32 or int64."""
    check(
        i.dtype.kind == "i" and i.dtype.itemsize >= 4,
        RuntimeError,
        f"{name}(): Expected dtype int32/int64 for index, got {scalar_name(i.dtype)}: convert it with .long()",
    )


def bounds(i: np.ndarray, size: int, dim: int, exc: type[Exception], negative: bool = False, head: str = "") -> None:
    """``exc`` naming the first index outside ``[0, size)`` (``[-size, size)`` when ``negative``)."""
    if not i.size:
        return
    flat = i.ravel()
    if i.dtype is I8 and not negative:  # as unsigned numbers, negative ones are the largest
        bad = flat.item(flat.view(U8).argmax())
        if 0 <= bad < size:
            return
        raise exc(f"{head}index {bad} is out of bounds for dimension {dim} with size {size}")
    low, high = flat.item(flat.argmin()), flat.item(flat.argmax())
    if high >= size or low < (-size if negative else 0):
        bad = high if high >= size else low
        raise exc(f"{head}index {bad} is out of bounds for dimension {dim} with size {size}")


def _at_least_1d(a: np.ndarray) -> np.ndarray:
    return a.reshape(1) if a.ndim == 0 else a


Shape = tuple[int, ...]


def _inside(i: Shape, a: Shape, dim: int, src: Shape | None) -> None:
    """Index sizes must not exceed those of ``a`` outside ``dim``, nor those of ``src`` anywhere."""
    ok = all(n <= m for d, (n, m) in enumerate(zip(i, a)) if d != dim)
    if src is None:
        where = next((d for d, (n, m) in enumerate(zip(i, a)) if d != dim and n > m), 0)
        check(
            ok,
            RuntimeError,
            f"Size does not match at dimension {where} expected index {list(i)} to be no larger than self {list(a)} apart "
            f"from dimension {dim}",
        )
        return
    check(
        ok and len(i) == len(src) and all(n <= m for n, m in zip(i, src)),
        RuntimeError,
        f"Expected index {list(i)} to be no larger than self {list(a)} apart from dimension {dim} and to be no larger size "
        f"than src {list(src)}",
    )


# ------------------------------------------------------------------------------------------ flat positions
def _blocks(shape: tuple[int, ...], dim: int) -> tuple[int, int, int]:
    """Sizes before, at and after ``dim``."""
    outer = inner = 1
    for n in shape[:dim]:
        outer *= n
    for n in shape[dim + 1 :]:
        inner *= n
    return outer, shape[dim], inner


def _offsets(shape: Shape, dim: int, index_shape: Shape) -> tuple[int, np.ndarray | None]:
    """Stride of ``dim`` in a C-contiguous array of ``shape``, and what the other coordinates add (None: nothing)."""
    stride = 1
    strides = [0] * len(shape)
    for d in range(len(shape) - 1, -1, -1):
        strides[d] = stride
        stride *= shape[d]
    total: np.ndarray | None = None
    for d, n in enumerate(index_shape):
        if d != dim and n > 1:
            part = (np.arange(n) * strides[d]).reshape((n,) + (1,) * (len(index_shape) - 1 - d))
            total = part if total is None else total + part
    return strides[dim], total


@functools.lru_cache(maxsize=256)
def _plan(shape: Shape, dim: int, index_shape: Shape, src: Shape | None) -> tuple[int, int, np.ndarray | None, bool]:
    """(dim, stride, offsets, whether the compiled loops can apply) for checked shapes; offsets only of small indices."""
    check(
        len(index_shape) == len(shape),
        RuntimeError,
        f"Index tensor must have the same number of dimensions as input tensor, got {len(index_shape)} and {len(shape)}",
    )
    dim = wrap_dim(dim, len(shape))
    _inside(index_shape, shape, dim, src)
    size = math.prod(index_shape)
    aligned = all(n == m for d, (n, m) in enumerate(zip(index_shape, shape)) if d != dim)
    stride, offsets = _offsets(shape, dim, index_shape) if size < LARGE else (0, None)
    return dim, stride, offsets, aligned


def _flat_positions(shape: Shape, dim: int, i: np.ndarray) -> np.ndarray:
    """Positions in a C-contiguous array of ``shape`` that ``i`` selects along ``dim``."""
    return _positions(i, *_offsets(shape, dim, i.shape))


def _positions(i: np.ndarray, stride: int, offsets: np.ndarray | None) -> np.ndarray:
    pos = i * stride if stride != 1 else i
    return pos if offsets is None else pos + offsets


def _crop(a: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """The leading corner of ``a`` with ``shape``."""
    return a if a.shape == shape else a[tuple(slice(n) for n in shape)]


# ------------------------------------------------------------------------------------------ reading
def index_select(a: np.ndarray, dim: int, i: np.ndarray) -> np.ndarray:
    """Slices of ``a`` along ``dim`` in the order of the 1-d ``i``. IndexError for an index out of range."""
    if i.ndim != 1:
        check(i.ndim == 0, IndexError, "index_select(): Index is supposed to be a vector")
        i = i.reshape(1)
    if i.dtype is not I8:
        check(
            i.dtype == np.int32 or i.dtype == I8,
            RuntimeError,
            "index_select(): Expected dtype int32 or int64 for index",
        )
    if a.ndim == 0:
        check(
            i.size == 1,
            RuntimeError,
            f"index_select(): Index to scalar can have only 1 value, got {i.size} value(s)",
        )
        bounds(i, 1, 0, IndexError)
        return a.copy()
    if i.size:
        flat = i if i.dtype is I8 else i.astype(I8)
        bad = flat.item(np.ascontiguousarray(flat).view(U8).argmax())
        if not 0 <= bad < a.shape[dim]:
            raise IndexError(
                f"index out of range in self: index {bad} for dimension {dim} with size {a.shape[dim]} in index_select()"
            )
    return a.take(i, dim)


def gather(a: np.ndarray, dim: int, i: np.ndarray) -> np.ndarray:
    """``out[p] = a[p with p[dim] replaced by i[p]]``, shape of ``i``. RuntimeError for an index out of range."""
    if i.size == 0:
        return np.empty(i.shape, a.dtype)
    if i.dtype is not I8:
        need_index("gather", i)
    shape = i.shape
    if a.ndim == 0 or not shape:
        a, i = _at_least_1d(a), _at_least_1d(i)
    dim, stride, offsets, aligned = _plan(a.shape, dim, i.shape, None)
    if aligned and a.dtype.kind in "fiu" and i.dtype is I8 and loops.ready(loops.gather, i.size):
        out = np.empty(shape, a.dtype)
        outer, size, inner = _blocks(a.shape, dim)
        a3 = np.ascontiguousarray(a).reshape(outer, size, inner)
        if loops.gather(a3, np.ascontiguousarray(i).reshape(outer, -1, inner), out.reshape(outer, -1, inner)):
            return out
    bounds(i, a.shape[dim], dim, RuntimeError)
    pos = _positions(i, stride, offsets) if stride else _flat_positions(a.shape, dim, i)
    return a.reshape(-1).take(pos).reshape(shape)


def take(a: np.ndarray, i: np.ndarray) -> np.ndarray:
    """Elements of the flattened ``a``; negative indices count from the end. IndexError out of range."""
    check(i.dtype == I8, RuntimeError, f"take(): Expected a long tensor for index, but got {scalar_name(i.dtype)}")
    _flat_bounds(i, a.size)
    return a.reshape(-1).take(i)


def _flat_bounds(i: np.ndarray, size: int) -> None:
    if i.size:
        low, high = int(i.min()), int(i.max())
        if low < -size or high >= size:
            bad = high if high >= size else low
            raise IndexError(f"out of range: tried to access index {bad} on a tensor of {size} elements.")


def masked_select(a: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """1-d array of the elements of ``a`` where ``mask`` holds; both broadcast."""
    check(mask.dtype == np.bool_, RuntimeError, "masked_select: expected BoolTensor for mask")
    if a.shape != mask.shape:
        a, mask = np.broadcast_arrays(a, mask)
    return np.atleast_1d(a[mask])


def nonzero(a: np.ndarray) -> np.ndarray:
    """Positions of the elements that are not zero: int64, shape (count, ndim)."""
    if a.ndim == 0:
        return np.empty((1 if a != 0 else 0, 0), I8)
    return np.ascontiguousarray(np.transpose(a.nonzero()))


# ------------------------------------------------------------------------------------------ scatter
_IDENTITY = {"sum": 0, "mean": 0, "prod": 1}
_AT = {"sum": np.add, "mean": np.add, "prod": np.multiply, "amax": np.maximum, "amin": np.minimum}


def _identity(reduce: str, d: np.dtype) -> Any:
    """The neutral element of a reduction in dtype ``d``."""
    if reduce in _IDENTITY:
        return _IDENTITY[reduce]
    if d.kind in "fV":
        return -np.inf if reduce == "amax" else np.inf
    if d.kind == "b":
        return reduce == "amin"
    info = np.iinfo(d)
    return info.min if reduce == "amax" else info.max


def _prepare(a: np.ndarray, dim: int, i: np.ndarray, src: np.ndarray | None, name: str) -> tuple[Any, ...]:
    """Checked operands of a scatter: a fresh copy of ``a``, its at least 1-d view, index, cropped source, plan."""
    out = a.copy()
    if i.size == 0:
        return out, None, i, src, None
    if i.dtype is not I8:
        need_index(name, i)
    view = out
    if a.ndim == 0 or i.ndim == 0:
        view, i = _at_least_1d(out), _at_least_1d(i)
        src = None if src is None else _at_least_1d(src)
    plan = _plan(view.shape, dim, i.shape, None if src is None else src.shape)
    if src is not None:
        check(src.dtype == a.dtype, RuntimeError, f"{name}(): Expected self.dtype to be equal to src.dtype")
        src = _crop(src, i.shape)
    return out, view, i, src, plan


def _looped(loop: Any, view: np.ndarray, i: np.ndarray, src: np.ndarray | None, plan: tuple[Any, ...]) -> bool:
    """Run a compiled scatter loop when it applies. RuntimeError for an index out of range, here or in ``bounds``."""
    d = view.dtype
    if src is not None and plan[3] and i.dtype is I8 and d.kind in "fiu" and d.itemsize > 2 and loops.ready(loop, i.size):
        outer, size, inner = _blocks(view.shape, plan[0])
        at, values = np.ascontiguousarray(i), np.ascontiguousarray(src)
        if loop(view.reshape(outer, size, inner), at.reshape(outer, -1, inner), values.reshape(outer, -1, inner)):
            return True
    bounds(i, view.shape[plan[0]], plan[0], RuntimeError)
    return False


def _scatter_positions(view: np.ndarray, i: np.ndarray, plan: tuple[Any, ...]) -> np.ndarray:
    """Flat positions in ``view`` as a 1-d array."""
    dim, stride, offsets, _ = plan
    return (_positions(i, stride, offsets) if stride else _flat_positions(view.shape, dim, i)).reshape(-1)


def scatter(a: np.ndarray, dim: int, i: np.ndarray, src: np.ndarray | None, value: Any) -> np.ndarray:
    """A copy of ``a`` with ``src`` (or the number ``value``) written where ``i`` points along ``dim``."""
    out, view, i, src, plan = _prepare(a, dim, i, src, "scatter")
    if view is None:
        return out
    if _looped(loops.scatter, view, i, src, plan):
        return out
    pos = _scatter_positions(view, i, plan)
    if src is None:
        with quiet():
            out.reshape(-1)[pos] = np.asarray(value).astype(out.dtype)
    else:
        out.reshape(-1)[pos] = src.reshape(-1)
    return out


def scatter_reduce(
    a: np.ndarray, dim: int, i: np.ndarray, src: np.ndarray, reduce: str, include_self: bool, name: str = "scatter"
) -> np.ndarray:
    """A copy of ``a`` with ``src`` reduced into it where ``i`` points (sum, prod, mean, amax, amin)."""
    check(
        reduce in _AT,
        RuntimeError,
        f"reduce argument must be either sum, prod, mean, amax or amin, got {reduce}",
    )
    out, view, i, src, plan = _prepare(a, dim, i, src, name)
    if view is None:
        return out
    if reduce == "sum" and include_self:
        if _looped(loops.scatter_add, view, i, src, plan):
            return out
    else:
        bounds(i, view.shape[plan[0]], plan[0], RuntimeError)
    _reduce_at(out.reshape(-1), _scatter_positions(view, i, plan), src.reshape(-1), reduce, include_self)
    return out


def _reduce_at(flat: np.ndarray, pos: np.ndarray, src: np.ndarray, reduce: str, include_self: bool) -> None:
    """Reduce ``src`` into the 1-d ``flat`` at ``pos``."""
    with quiet():
        if not include_self:
            flat[pos] = _identity(reduce, flat.dtype)
        _AT[reduce].at(flat, pos, src)
        if reduce == "mean":
            count = np.full(flat.shape, 1 if include_self else 0, I8)
            np.add.at(count, pos, 1)
            np.maximum(count, 1, out=count)
            flat[...] = flat // count if flat.dtype.kind in "iu" else (flat / count.astype(flat.real.dtype))


# ------------------------------------------------------------------------------------------ whole slices
def _slices(name: str, a: np.ndarray, dim: int, i: np.ndarray, src: np.ndarray) -> tuple[int, np.ndarray, np.ndarray]:
    """Checked (dim, index, source) of index_add and its kin; everything at least 1-d."""
    need_index(name, i)
    check(
        name != "index_copy_" or i.dtype == I8,
        RuntimeError,
        f"index_copy_(): Expected a long tensor for index, but got {scalar_name(i.dtype)}",
    )
    check(i.ndim <= 1, IndexError, f"{name}(): Index is supposed to be a vector, but got dim: {i.ndim}")
    check(
        a.dtype == src.dtype,
        RuntimeError,
        f"{name}(): self ({scalar_name(a.dtype)}) and source ({scalar_name(src.dtype)}) must have the same scalar type",
    )
    i = _at_least_1d(i)
    v, s = _at_least_1d(a), _at_least_1d(src)
    dim = wrap_dim(dim, v.ndim)
    check(
        s.ndim == v.ndim,
        RuntimeError,
        f"{name}(): source must have as many dimensions as self, got {src.ndim} and {a.ndim}",
    )
    check(
        i.size == s.shape[dim],
        IndexError if name == "index_copy_" else RuntimeError,
        f"{name}(): Number of indices ({i.size}) should be equal to source.size(dim): ({s.shape[dim]}), for dim: {dim}",
    )
    check(
        all(n == m for d, (n, m) in enumerate(zip(v.shape, s.shape)) if d != dim),
        RuntimeError,
        f"{name}(): Source/destination tensor must have same slice shapes. Destination shape: {list(v.shape)} and source "
        f"shape: {list(s.shape)} at dimension {dim}",
    )
    return dim, i, s


def _np_index_add(out: np.ndarray, i: np.ndarray, src: np.ndarray) -> None:
    if src.shape[2] * src.shape[0] >= 32:
        for k, j in enumerate(i.tolist()):
            out[:, j] += src[:, k]
        return
    np.add.at(out, (slice(None), i), src)


def index_add(a: np.ndarray, dim: int, i: np.ndarray, src: np.ndarray, alpha: Any) -> np.ndarray:
    """A copy of ``a`` with ``alpha * src`` added to the slices ``i`` along ``dim``."""
    d, i, s = _slices("index_add_", a, dim, i, src)
    out = np.array(a, order="C", copy=True)
    if not i.size:
        return out
    if alpha != 1:
        s = s * s.dtype.type(alpha)
    outer, size, inner = _blocks(_at_least_1d(out).shape, d)
    o3 = out.reshape(outer, size, inner)
    s3 = np.ascontiguousarray(s).reshape(outer, i.size, inner)
    if _add_slices(o3, i, s3):
        return out
    bounds(i, size, d, RuntimeError)
    _np_index_add(o3, i, s3)
    return out


def _add_slices(out: np.ndarray, i: np.ndarray, src: np.ndarray) -> bool:
    """``out[:, i[k]] += src[:, k]`` by the compiled loop; False when it is not in use or an index is out of range.

    In the second case the caller raises: ``out`` is then half written.
    """
    d = out.dtype
    if d.kind not in "fiu" or d.itemsize <= 2 or not loops.ready(loops.slices_add, src.size):
        return False
    return loops.slices_add(out, np.ascontiguousarray(i), src)


def index_copy(a: np.ndarray, dim: int, i: np.ndarray, src: np.ndarray) -> np.ndarray:
    """A copy of ``a`` with the slices ``i`` along ``dim`` replaced by those of ``src``."""
    d, i, s = _slices("index_copy_", a, dim, i, src)
    out = np.array(a, order="C", copy=True)
    v = _at_least_1d(out)
    bounds(i, v.shape[d], d, IndexError, head="index_copy_(): ")
    v[(slice(None),) * d + (i,)] = s
    return out


def index_fill(a: np.ndarray, dim: int, i: np.ndarray, value: np.ndarray) -> np.ndarray:
    """A copy of ``a`` with the slices ``i`` along ``dim`` set to the 0-d ``value``; negative indices allowed."""
    check(i.dtype == I8, IndexError, "index_fill_(): Expected dtype int64 for index.")
    check(
        value.ndim == 0,
        RuntimeError,
        f"index_fill_ only supports a 0-dimensional value tensor, but got tensor with {value.ndim} dimension(s).",
    )
    out = np.array(a, order="C", copy=True)
    v, i = _at_least_1d(out), _at_least_1d(i)
    d = wrap_dim(dim, v.ndim)
    bounds(i, v.shape[d], d, IndexError, negative=True)
    with quiet():
        v[(slice(None),) * d + (i,)] = value.astype(a.dtype)
    return out


def index_reduce(
    a: np.ndarray, dim: int, i: np.ndarray, src: np.ndarray, reduce: str, include_self: bool
) -> np.ndarray:
    """A copy of ``a`` with the slices of ``src`` reduced into the slices ``i`` (prod, mean, amax, amin)."""
    check(
        reduce in ("prod", "mean", "amax", "amin"),
        RuntimeError,
        f"index_reduce(): Expected reduce to be one of prod, mean, amax or amin but got {reduce}.",
    )
    d, i, s = _slices("index_reduce_", a, dim, i, src)
    out = np.array(a, order="C", copy=True)
    v = _at_least_1d(out)
    if i.size:
        bad = int(i.max()) if i.max() >= v.shape[d] else int(i.min())
        check(0 <= bad < v.shape[d], IndexError, f"index out of range in self: index {bad} for dimension {d}")
        full = np.broadcast_to(i.reshape((-1,) + (1,) * (v.ndim - 1 - d)), s.shape)
        pos = _flat_positions(v.shape, d, full).reshape(-1)
        _reduce_at(out.reshape(-1), pos, s.reshape(-1), reduce, include_self)
    return out


# ------------------------------------------------------------------------------------------ any positions
def index_put(
    a: np.ndarray, indices: list[np.ndarray], where: tuple[int, ...], values: np.ndarray, accumulate: bool
) -> np.ndarray:
    """A copy of ``a`` with ``values`` written (or added) at ``indices``; ``where`` lists the positions they index."""
    check(
        a.dtype == values.dtype,
        RuntimeError,
        "Index put requires the source and destination dtypes match, got "
        f"{scalar_name(a.dtype)} for the destination and {scalar_name(values.dtype)} for the source.",
    )
    out = np.array(a, order="C", copy=True)
    key: list[Any] = [slice(None)] * (max(where, default=-1) + 1)
    for p, i in zip(where, indices):
        key[p] = i
    at = tuple(key)
    try:
        if accumulate and len(indices) == 1 and _accumulated(out, indices[0], where[0], values):
            return out
        if accumulate:
            np.add.at(out, at, values)
        else:
            out[at] = values
    except IndexError as e:
        raise IndexError(str(e).replace("axis", "dimension")) from None
    return out


def _accumulated(out: np.ndarray, i: np.ndarray, dim: int, values: np.ndarray) -> bool:
    """Slices added at one int64 index array, by the compiled loop; False when that does not apply."""
    if i.dtype is not I8 or not i.size or out.ndim == 0 or values.shape != out.shape[:dim] + i.shape + out.shape[dim + 1 :]:
        return False
    outer, size, inner = _blocks(out.shape, dim)
    flat = i.reshape(-1)
    low = flat.item(flat.argmin())
    if low < -size or flat.item(flat.argmax()) >= size:
        return False
    flat = np.where(flat < 0, flat + size, flat) if low < 0 else flat
    return _add_slices(out.reshape(outer, size, inner), flat, np.ascontiguousarray(values).reshape(outer, -1, inner))


def put(a: np.ndarray, i: np.ndarray, src: np.ndarray, accumulate: bool) -> np.ndarray:
    """A copy of ``a`` with ``src`` written (or added) at positions of its flattened form."""
    check(
        a.dtype == src.dtype,
        RuntimeError,
        "put_(): self and source expected to have the same dtype, but got self.dtype = "
        f"{scalar_name(a.dtype)} and source.dtype = {scalar_name(src.dtype)}",
    )
    check(i.dtype == I8, RuntimeError, f"put_(): Expected a long tensor for index, but got {scalar_name(i.dtype)}")
    check(
        src.size == i.size,
        IndexError,
        "put_(): Expected source and index to have the same number of elements, but got source.numel() = "
        f"{src.size}, index.numel() = {i.size}",
    )
    _flat_bounds(i, a.size)
    out = np.array(a, order="C", copy=True)
    flat, at = out.reshape(-1), i.reshape(-1)
    if accumulate:
        np.add.at(flat, np.where(at < 0, at + flat.size, at), src.reshape(-1))
    else:
        flat[at] = src.reshape(-1)
    return out


def need_mask(name: str, mask: np.ndarray) -> None:
    """RuntimeError unless ``mask`` is bool."""
    if mask.dtype != np.bool_:
        long = {"int64": "long int", "int32": "int", "float32": "float", "uint8": "unsigned char"}
        raise RuntimeError(
            f"{name} only supports boolean masks, but got mask with dtype {long.get(mask.dtype.name, mask.dtype.name)}"
        )


def masked_fill(a: np.ndarray, mask: np.ndarray, value: np.ndarray) -> np.ndarray:
    """``value`` (0-d) where ``mask`` holds, else ``a``; broadcast."""
    need_mask("masked_fill_", mask)
    check(
        value.ndim == 0,
        RuntimeError,
        f"masked_fill_ only supports a 0-dimensional value tensor, but got tensor with {value.ndim} dimension(s).",
    )
    if value.dtype is not a.dtype:
        check(
            not (value.dtype.kind == "c" and a.dtype.kind != "c"),
            RuntimeError,
            f"value cannot be converted to type {a.dtype.name} without overflow",
        )
        value = value.astype(a.dtype)
    if mask.shape == a.shape:
        r = a.copy()
        np.putmask(r, mask, value)
        return r
    shape = np.broadcast(a, mask).shape
    r = a.copy() if shape == a.shape else np.array(np.broadcast_to(a, shape))
    np.copyto(r, value, where=mask)
    return r


def masked_scatter(a: np.ndarray, mask: np.ndarray, src: np.ndarray) -> np.ndarray:
    """``a`` with the places where ``mask`` holds filled by the elements of ``src`` in order; broadcast."""
    need_mask("masked_scatter", mask)
    check(
        a.dtype == src.dtype,
        RuntimeError,
        f"masked_scatter: expected self and source to have same dtypes but got {scalar_name(a.dtype)} and "
        f"{scalar_name(src.dtype)}",
    )
    shape = np.broadcast(a, mask).shape
    r = np.array(np.broadcast_to(a, shape), order="C", copy=True)
    m = np.broadcast_to(mask, shape)
    n = int(np.count_nonzero(m))
    check(
        src.size >= n,
        RuntimeError,
        f"Number of elements of source < number of ones in mask: {src.size} < {n}",
    )
    if r.ndim == 0:
        return src.reshape(-1)[:1].reshape(()).copy() if n else r
    r[m] = src.reshape(-1)[:n]
    return r


# ------------------------------------------------------------------------------------------ writing into a view
def write_view(a: np.ndarray, src: np.ndarray, view: Any) -> np.ndarray:
    """A copy of ``a`` where ``view(copy)``, a NumPy view, holds ``src``. RuntimeError when the shapes differ."""
    out = np.array(a, order="C", copy=True)
    v = view(out)
    check(
        v.shape == src.shape,
        RuntimeError,
        f"expected src to have a size equal to the slice of self. src size = {list(src.shape)}, slice size = "
        f"{list(v.shape)}",
    )
    with quiet():
        v[...] = src
    return out
