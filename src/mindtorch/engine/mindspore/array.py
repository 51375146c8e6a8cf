"""Memory on an accelerator, seen through an ``ndarray`` that has the geometry and none of the values.

A :class:`DeviceArray` is a NumPy array over host memory that is reserved and never touched: its shape, strides, dtype and
address are those the tensor would have in memory, so NumPy itself works out every view. The values are an ``ms.Tensor``
held by the :class:`Store` that all views share. Reading a view asks MindSpore for that part; writing replaces the store's
tensor by a new one, because MindSpore's in-place and strided writes are lost on some targets.

Nothing here touches the untouched memory: NumPy functions that reach a DeviceArray compute on the host and the result goes
back to the device.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mindtorch.engine.mindspore import door

BFLOAT16_NAME = "bfloat16"


class Held:
    """Bytes held by the stores that live, and the most there were."""

    __slots__ = ("now", "peak")

    def __init__(self) -> None:
        self.now = self.peak = 0

    def add(self, change: int) -> None:
        """Note ``change`` bytes more."""
        self.now += change
        self.peak = max(self.peak, self.now)


HELD = Held()


class Store:
    """One allocation: ``value`` (an ms.Tensor whose elements in row-major order are the memory), its address and device."""

    __slots__ = ("address", "device", "np", "size", "value")

    def __init__(self, value: Any, address: int, device: Any, np_dtype: np.dtype, size: int) -> None:
        self.value = value
        self.address = address
        self.device = device
        self.np = np_dtype
        self.size = size
        HELD.add(size * np_dtype.itemsize)

    def __del__(self) -> None:
        if HELD is not None:  # at the end of the process the module may be taken apart already
            HELD.add(-self.size * self.np.itemsize)


class DeviceArray(np.ndarray):
    """Geometry of a tensor on an accelerator (see the module's text). ``store`` holds the values."""

    store: Store

    def __array_finalize__(self, obj: Any) -> None:
        self.store = getattr(obj, "store", None)  # type: ignore[assignment]

    # ------------------------------------------------------------------------------ what NumPy's C code would read
    def astype(self, dtype: Any, *args: Any, **kwargs: Any) -> Any:
        """A converted copy on the same device; itself when ``copy=False`` and nothing changes."""
        dtype = np.dtype(dtype)
        if dtype == self.dtype:
            return self if kwargs.get("copy") is False else self.copy()
        if "c" in (self.dtype.kind, dtype.kind):
            with np.errstate(all="ignore"):
                return put(host(self).astype(dtype), self.store.device)
        return made(cast(read(self), dtype), self.store.device, dtype)

    def copy(self, order: Any = "C") -> Any:
        """The same values in a store of their own."""
        return made(read(self), self.store.device, self.dtype)

    def beside(self, a: np.ndarray) -> DeviceArray:
        """A host array's values on this array's device."""
        return put(a, self.store.device)

    def seen_as(self, r: np.ndarray) -> DeviceArray:
        """A view that NumPy made of this array's untouched memory, on the device again."""
        return adopt(r, self.store)

    def whole(self) -> DeviceArray:
        """A copy of the whole memory that this is a view of, flat."""
        return made(_flat(self.store.value), self.store.device, self.store.np)

    def within(self, whole: DeviceArray) -> DeviceArray:
        """The view of ``whole`` that this array is of its own memory."""
        at = _address(self) - self.store.address
        memory = ghost(whole).view(np.uint8).data if whole.size else bytearray(16)
        return adopt(np.ndarray(self.shape, self.dtype, memory, at if self.size else 0, self.strides), whole.store)

    def on_host(self) -> np.ndarray:
        """The values with the same strides, not to be written to."""
        return host(self)

    def item(self, *args: Any) -> Any:
        """One element as a Python number."""
        return host(self).item(*args)

    def tolist(self) -> Any:
        """Nested lists of Python numbers."""
        return host(self).tolist()

    def tobytes(self, order: Any = "C") -> bytes:
        """The elements' bytes in row-major order."""
        return host(self).tobytes(order)

    def fill(self, value: Any) -> None:
        """Write ``value`` everywhere."""
        write(self, np.full(self.shape, value, self.dtype))

    def __setitem__(self, key: Any, value: Any) -> None:
        if key is Ellipsis or (isinstance(key, slice) and key == slice(None)) or key == ():
            write(self, _broadcast(value, self))
            return
        part = np.ndarray.__getitem__(self, key)
        if isinstance(part, DeviceArray) and part.base is not None and np.may_share_memory(part, self):
            write(part, _broadcast(value, part))
            return
        h = host(self).copy()
        h[key] = _plain(value)
        write(self, h)

    def __getitem__(self, key: Any) -> Any:
        part = np.ndarray.__getitem__(self, key)
        if isinstance(part, DeviceArray):
            if np.may_share_memory(part, self) or not part.size:
                return part
        return put(np.asarray(host(self)[_plain(key)]), self.store.device)

    def __bool__(self) -> bool:
        return bool(host(self))

    def __float__(self) -> float:
        return float(host(self))

    def __int__(self) -> int:
        return int(host(self))

    def __iter__(self) -> Any:
        return iter(host(self))

    def __repr__(self) -> str:
        return f"DeviceArray({host(self)!r}, device={self.store.device})"

    __str__ = __repr__

    def __reduce__(self) -> Any:
        return host(self).copy().__reduce__()

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, out: Any = None, **kwargs: Any) -> Any:
        device = self.store.device
        r = getattr(ufunc, method)(*_plain(inputs), **_plain(kwargs))
        rs = r if isinstance(r, tuple) else (r,)
        if out is None:
            done = tuple(put(np.asarray(x), device) for x in rs)
        else:
            for o, x in zip(out, rs):
                if isinstance(o, DeviceArray):
                    write(o, np.asarray(x))
                else:
                    np.copyto(o, x, casting="unsafe")
            done = out
        return done if isinstance(r, tuple) else done[0]

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if func in _GEOMETRY:
            return super().__array_function__(func, types, args, kwargs)
        if func is np.copyto:
            return _copyto(*args, **kwargs)
        r = func(*_plain(args), **_plain(kwargs))
        device = self.store.device
        if isinstance(r, np.ndarray):
            return put(r, device)
        if isinstance(r, (tuple, list)):
            return type(r)([put(x, device) if isinstance(x, np.ndarray) else x for x in r])
        return r


def _on_host(name: str) -> Callable[..., Any]:
    plain = getattr(np.ndarray, name)

    def method(self: DeviceArray, *args: Any, **kwargs: Any) -> Any:
        r = plain(host(self), *_plain(args), **_plain(kwargs))
        return put(np.asarray(r), self.store.device) if isinstance(r, (np.ndarray, np.generic)) else r

    method.__name__ = name
    method.__doc__ = f"``ndarray.{name}``, computed on the host."
    return method


for _name in ("all", "any", "argmax", "argmin", "argsort", "choose", "clip", "compress", "conj", "cumprod", "cumsum", "dot",
              "flatten", "max", "mean", "min", "nonzero", "prod", "repeat", "round", "searchsorted", "std", "sum", "take",
              "trace", "var"):  # fmt: skip
    setattr(DeviceArray, _name, _on_host(_name))

_GEOMETRY = {
    np.shape, np.ndim, np.size, np.transpose, np.swapaxes, np.moveaxis, np.rollaxis, np.expand_dims, np.squeeze,
    np.shares_memory, np.may_share_memory, np.broadcast_shapes, np.result_type, np.can_cast, np.iscomplexobj,
    np.isrealobj, np.diagonal, np.array_split, np.split,
}  # fmt: skip


def _plain(x: Any) -> Any:
    if isinstance(x, DeviceArray):
        return host(x)
    if isinstance(x, (tuple, list)):
        return type(x)([_plain(v) for v in x])
    if isinstance(x, dict):
        return {k: _plain(v) for k, v in x.items()}
    return x


def _copyto(dst: Any, src: Any, casting: str = "same_kind", where: Any = True) -> None:
    if not isinstance(dst, DeviceArray):
        np.copyto(dst, _plain(src), casting=casting, where=_plain(where))  # type: ignore[call-overload]
        return
    if where is True and isinstance(src, DeviceArray) and src.shape == dst.shape and src.store.device == dst.store.device:
        write_tensor(dst, cast(read(src), dst.dtype))
        return
    h = host(dst).copy()
    np.copyto(h, _plain(src), casting=casting, where=_plain(where))  # type: ignore[call-overload]
    write(dst, h)


def _broadcast(value: Any, like: np.ndarray) -> np.ndarray:
    v = np.asarray(_plain(value))
    with np.errstate(all="ignore"):
        return np.broadcast_to(v, like.shape).astype(like.dtype)


# ------------------------------------------------------------------------------------------ to and from the host
def _ms_dtype(np_dtype: np.dtype) -> Any:
    ms = door.load()
    return ms.bool_ if np_dtype.kind == "b" else getattr(ms, np_dtype.name)


def upload(a: np.ndarray) -> Any:
    """The array as an ms.Tensor with memory of its own."""
    ms = door.load()
    a = np.array(host(a) if isinstance(a, DeviceArray) else a, order="C", copy=True, subok=False)
    if a.dtype.name == BFLOAT16_NAME:
        return ms.Tensor(a.astype(np.float32), ms.bfloat16)
    return ms.Tensor.from_numpy(a)


def download(t: Any, np_dtype: np.dtype) -> np.ndarray:
    """The values of an ms.Tensor as an ndarray of ``np_dtype``."""
    a = t.asnumpy()
    if a.dtype is np_dtype:
        return a
    if np_dtype.name == BFLOAT16_NAME and a.dtype.itemsize == 2:
        return np.ascontiguousarray(a).view(np.uint16).view(np_dtype).reshape(a.shape)
    if a.dtype.name == BFLOAT16_NAME:
        a = a.astype(np.float32)
    with np.errstate(all="ignore"):
        return a.astype(np_dtype)


def host(a: DeviceArray) -> np.ndarray:
    """The values of a view as an ndarray with the same strides; it must not be written to."""
    s = a.store
    flat = np.ascontiguousarray(download(s.value, s.np))
    start = _address(a) - s.address
    r = np.ndarray(a.shape, a.dtype, _bytes(flat), start if a.size else 0, a.strides)  # type: ignore[arg-type]
    r.flags.writeable = False
    return r


def _bytes(flat: np.ndarray) -> Any:
    """The memory of a dense array as a buffer of bytes (NumPy has no buffer format for bfloat16)."""
    return flat.reshape(-1).view(np.uint8).data if flat.nbytes else bytearray(16)


def put(a: np.ndarray, device: Any) -> DeviceArray:
    """The array's values on ``device``, laid out row-major."""
    if isinstance(a, DeviceArray):
        return a if a.store.device == device else made(read(a), device, a.dtype)
    a = np.asarray(a)
    return made(upload(a), device, a.dtype, a.shape)


def laid(a: np.ndarray, device: Any) -> DeviceArray:
    """The array's values on ``device`` with the same order of strides where the elements are dense, row-major otherwise."""
    order = sorted(range(a.ndim), key=lambda i: -a.strides[i])
    inner = a.transpose(order)
    if a.flags.c_contiguous or not inner.flags.c_contiguous:
        return put(a, device)
    r = put(inner, device)
    return adopt(ghost(r).transpose(np.argsort(order)), r.store)


def duplicate(a: DeviceArray) -> DeviceArray:
    """The same values in a store of their own, in the same order of strides where the elements are dense."""
    order = sorted(range(a.ndim), key=lambda i: -a.strides[i])
    inner = ghost(a).transpose(order)
    if a.flags.c_contiguous or not inner.flags.c_contiguous:
        return made(read(a), a.store.device, a.dtype)
    r = made(read(adopt(inner, a.store)), a.store.device, a.dtype)
    return adopt(ghost(r).transpose(np.argsort(order)), r.store)


def made(value: Any, device: Any, np_dtype: np.dtype, shape: Any = None) -> DeviceArray:
    """A fresh DeviceArray over the ms.Tensor ``value``."""
    shape = tuple(value.shape) if shape is None else shape
    ghost = np.empty(shape, np_dtype)
    r = ghost.view(DeviceArray)
    r.store = Store(value, _address(ghost), device, np_dtype, ghost.size)
    return r


def adopt(r: np.ndarray, store: Store) -> DeviceArray:
    """A view that NumPy made of the untouched memory, given its store again."""
    v = r.view(DeviceArray)
    v.store = store
    return v


def channels_last(a: DeviceArray) -> DeviceArray:
    """The same values with dimension 1 innermost in memory, a property of the geometry and of the order in the store."""
    inner = read(a).permute((0, *range(2, a.ndim), 1))
    r = made(inner, a.store.device, a.dtype)
    return adopt(np.moveaxis(ghost(r), -1, 1), r.store)


def ghost(a: DeviceArray) -> np.ndarray:
    """The geometry alone, as a plain ndarray: what view kernels are given."""
    return a.view(np.ndarray)


def _address(a: np.ndarray) -> int:
    return a.__array_interface__["data"][0]


# ------------------------------------------------------------------------------------------ on the device
def cast(t: Any, np_dtype: np.dtype) -> Any:
    """The ms.Tensor in another dtype, by C's rules: floats reach narrow integers through int64."""
    d = _ms_dtype(np_dtype)
    if t.dtype == d:
        return t
    if np_dtype.kind in "iu" and np_dtype.itemsize < 4 and str(t.dtype) in _FLOATS:
        t = t.astype(door.load().int64)
    return t.astype(d)


_FLOATS = ("Float16", "BFloat16", "Float32", "Float64")


def read(a: DeviceArray) -> Any:
    """The view's values as an ms.Tensor of its shape."""
    s = a.store
    v = s.value
    if a.dtype is not s.np and a.dtype != s.np:
        if a.nbytes != s.size * s.np.itemsize or not a.flags.c_contiguous:
            return upload(host(a))
        # Bytes from a file seen as numbers: they stay numbers.
        s.value, s.np, s.size = upload(host(a)), a.dtype, a.size
        v = s.value
    if a.size == s.size and a.flags.c_contiguous:
        return v if tuple(v.shape) == a.shape else v.reshape(a.shape)
    start = (_address(a) - s.address) // a.itemsize
    if not a.size or not a.itemsize:
        return upload(np.empty(a.shape, a.dtype))
    if a.flags.c_contiguous:
        return _flat(v).narrow(0, start, a.size).reshape(a.shape)
    got = _transposed(a, _flat(v), start)
    return got if got is not None else _gather(_flat(v), positions(a), a.shape)


def _flat(v: Any) -> Any:
    return v if v.ndim == 1 else v.reshape((-1,))


def _transposed(a: np.ndarray, flat: Any, start: int) -> Any:
    """Permuted or expanded dense memory, by MindSpore's permute and broadcast_to; None for anything else."""
    item = a.itemsize
    real = [i for i, (n, s) in enumerate(zip(a.shape, a.strides)) if n > 1 and s != 0]
    if any(a.strides[i] < 0 for i in real):
        return None
    order = sorted(real, key=lambda i: -a.strides[i])
    expect = item
    for i in reversed(order):
        if a.strides[i] != expect:
            return None
        expect *= a.shape[i]
    n = expect // item
    dense = flat.narrow(0, start, n).reshape(tuple(a.shape[i] for i in order) or (1,))
    if not order:
        return dense.reshape((1,) * a.ndim).broadcast_to(a.shape)
    placed = sorted(order)
    dense = dense.permute(*[order.index(i) for i in placed])
    dense = dense.reshape(tuple(a.shape[i] if i in order else 1 for i in range(a.ndim)))
    return dense if tuple(dense.shape) == a.shape else dense.broadcast_to(a.shape)


def positions(a: np.ndarray) -> np.ndarray:
    """Index of every element of a view in its store, in row-major order of the view."""
    start = (_address(a) - a.store.address) // a.itemsize  # type: ignore[attr-defined]
    p = np.full((), start, np.int64)
    for n, s in zip(a.shape, a.strides):
        p = p[..., None] + np.arange(n, dtype=np.int64) * (s // a.itemsize)
    return p.reshape(-1)


def _gather(flat: Any, at: np.ndarray, shape: Sequence[int]) -> Any:
    ms = door.load()
    bits = _movable(flat)
    got = ms.ops.gather(bits, ms.Tensor.from_numpy(at), 0).reshape(tuple(shape))
    return got if bits is flat else got.view(flat.dtype)


def _movable(t: Any) -> Any:
    """The tensor as something that can be moved by elements: bfloat16 by its bits, as MindSpore's CPU target lacks kernels for it."""
    ms = door.load()
    return t.view(ms.int16) if t.dtype == ms.bfloat16 else t


def write(a: DeviceArray, values: np.ndarray) -> None:
    """Host values into the view."""
    if not a.size:
        return
    with np.errstate(all="ignore"):
        values = np.broadcast_to(np.asarray(values), a.shape).astype(a.dtype)
    s = a.store
    if a.dtype == s.np and a.size == s.size and a.flags.c_contiguous:
        s.value = upload(values)
        return
    if a.dtype == s.np and a.flags.c_contiguous:
        write_tensor(a, upload(values))
        return
    flat = np.array(download(s.value, s.np), order="C").reshape(-1)
    target = np.ndarray(a.shape, a.dtype, _bytes(flat), _address(a) - s.address, a.strides)  # type: ignore[arg-type]
    target[...] = values
    s.value = upload(flat)


def write_tensor(a: DeviceArray, t: Any) -> None:
    """An ms.Tensor of the view's shape and dtype into the view: the store gets a new tensor."""
    s = a.store
    if not a.size:
        return
    if a.dtype != s.np:
        write(a, download(t, a.dtype))
        return
    if a.size == s.size and a.flags.c_contiguous:
        s.value = t
        return
    plain = t.dtype
    flat, t = _movable(_flat(s.value)), _movable(t.reshape((-1,)))
    start = (_address(a) - s.address) // a.itemsize
    ms = door.load()
    if a.flags.c_contiguous:
        end = start + a.size
        parts = [flat.narrow(0, 0, start)] if start else []
        parts.append(t)
        if end < s.size:
            parts.append(flat.narrow(0, end, s.size - end))
        try:
            r = ms.ops.concat(parts, 0)
            s.value = r if r.dtype == plain else r.view(plain)
            return
        except (TypeError, RuntimeError):
            pass
    try:
        at = ms.Tensor.from_numpy(positions(a))
        r = ms.ops.tensor_scatter_elements(flat, at, t, 0)
        s.value = r if r.dtype == plain else r.view(plain)
    except (TypeError, RuntimeError, ValueError):
        write(a, download(t if t.dtype == plain else t.view(plain), a.dtype).reshape(a.shape))
