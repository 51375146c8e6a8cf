"""Views by strides: ``as_strided`` onto the storage of a tensor, and the sliding windows of ``unfold``."""

from __future__ import annotations

from typing import Any

import numpy as np

from mindtorch.core.errors import check, wrap_dim
from mindtorch.core.tensor import root_array
from mindtorch.ops.table import op, put, view


def _positions(geometry: Any) -> np.ndarray:
    """Storage position of every element of a (shape, strides in elements, offset)."""
    shape, strides, at = geometry
    index = np.full((), at, np.int64)
    for n, s in zip(shape, strides):
        index = index[..., None] + np.arange(n) * s
    return index


@op("_strided_move(T input, any source, any target, any shared)", ns="_C",
    grad={"input": lambda g, source, target, shared: _strided_move(g, target, source, shared)})  # fmt: skip
def _strided_move(a: np.ndarray, source: Any, target: Any, shared: Any) -> np.ndarray:
    """Add the elements of ``a`` to a storage of zeros by one geometry, and read it by another.

    Elements that several places of the geometry ``shared`` (that of the op's input) show are divided among these.
    """
    put_at, get_at = _positions(source).reshape(-1), _positions(target)
    count = np.bincount(_positions(shared).reshape(-1))
    n = 1 + max((int(i.max()) for i in (put_at, get_at) if i.size), default=0)
    flat = np.zeros(max(n, count.size), a.dtype)
    np.add.at(flat, put_at, a.reshape(-1))
    if count.size and count.max() > 1:
        flat[: count.size] /= np.maximum(count, 1).astype(a.dtype)
    return flat[get_at]


@view("_as_strided(T input, any geometry, any mine)", ns="_C", node="AsStridedBackward0",
      grad={"input": lambda g, geometry, mine: _strided_move(g, geometry, mine, mine)})  # fmt: skip
def _as_strided(a: np.ndarray, geometry: Any, mine: Any) -> np.ndarray:
    raise RuntimeError("as_strided needs the storage")


def as_strided(input: Any, size: Any, stride: Any, storage_offset: Any = None) -> Any:
    """A view onto the storage of ``input`` with any sizes and strides (in elements)."""
    root = root_array(input)
    size, stride = tuple(int(s) for s in size), tuple(int(s) for s in stride)
    check(len(size) == len(stride), RuntimeError, "mismatch in length of strides and shape")
    check(all(s >= 0 for s in stride), RuntimeError, "as_strided: Negative strides are not supported at the moment")
    start = input.storage_offset() if storage_offset is None else int(storage_offset)
    need = start + 1 + sum((n - 1) * s for n, s in zip(size, stride)) if all(size) else 0
    check(
        need <= root.size,
        RuntimeError,
        f"setStorage: sizes {list(size)}, strides {list(stride)}, storage offset {start}, and itemsize {root.itemsize} "
        f"requiring a storage size of {need * root.itemsize} are out of bounds for storage of size {root.nbytes}",
    )
    item = root.itemsize
    buffer = root if root.__class__ is np.ndarray else root.view(np.ndarray)
    r = np.ndarray(size, root.dtype, buffer, start * item if all(size) else 0, tuple(s * item for s in stride))
    return _strided_tensor(input, r, size, stride, start)


def _strided_tensor(x: Any, r: np.ndarray, size: Any, stride: Any, start: int) -> Any:
    from mindtorch.core.dispatch import finish

    if x.a.__class__ is not np.ndarray:
        r = x.a.seen_as(r)
    mine = (tuple(x.a.shape), tuple(x.stride()), x.storage_offset())
    t = finish(_as_strided.row, r, (x, (size, stride, start), mine))
    t.b = (x, as_strided, (size, stride, start))
    return t


put("torch", as_strided=as_strided)
put("Tensor", as_strided=as_strided)


def _unfold_back(g: Any, dimension: int, size: int, step: int, input_shape: Any) -> Any:
    return _unfold_backward(g, input_shape, dimension, size, step)


@op("_unfold_backward(T input, any shape, int dimension, int size, int step)", ns="_C",
    grad={"input": lambda g, dimension, size, step: g.unfold(dimension, size, step)})  # fmt: skip
def _unfold_backward(a: np.ndarray, shape: Any, dimension: int, size: int, step: int) -> np.ndarray:
    z = np.zeros(shape, a.dtype)
    if not shape:
        return a.reshape(())
    d = wrap_dim(dimension, len(shape))
    lead = (slice(None),) * d
    for i in range(a.shape[d]):
        z[(*lead, slice(i * step, i * step + size))] += np.moveaxis(a[(*lead, i)], -1, d)
    return z


@view("unfold(T input, dim dimension, int size, int step)", ns="Tensor", grad={"input": _unfold_back})
def unfold(a: np.ndarray, dimension: int, size: int, step: int) -> np.ndarray:
    """Windows of ``size`` every ``step`` along a dimension, as a new last dimension, sharing memory."""
    if a.ndim == 0:
        check(size <= 1, RuntimeError, f"maximum size for tensor at dimension 0 is 1 but size is {size}")
        return a.reshape((size,))
    d = wrap_dim(dimension, a.ndim)
    n = a.shape[d]
    check(size <= n, RuntimeError, f"maximum size for tensor at dimension {d} is {n} but size is {size}")
    check(step > 0, RuntimeError, f"step is {step} but must be > 0")
    count = (n - size) // step + 1
    shape = (*a.shape[:d], count, *a.shape[d + 1 :], size)
    strides = (*a.strides[:d], a.strides[d] * step, *a.strides[d + 1 :], a.strides[d])
    return np.lib.stride_tricks.as_strided(a, shape, strides)
