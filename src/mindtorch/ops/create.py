"""Creation: tensors from data, filled, ranged and shaped like others."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from mindtorch.core import accelerate, views
from mindtorch.core import device as _device
from mindtorch.core import dtype as D
from mindtorch.core.dispatch import as_meta, write_out
from mindtorch.core.errors import check
from mindtorch.core.signature import is_number, to_int, to_ints
from mindtorch.core.tensor import Tensor, wrap
from mindtorch.engine.host.quiet import quiet
from mindtorch.ops.table import put


def _dtype_of(dtype: Any) -> D.dtype:
    if dtype is None:
        return D.get_default_dtype()
    if isinstance(dtype, D.dtype):
        return dtype
    got = {float: D.get_default_dtype(), int: D.int64, bool: D.bool_, complex: D.default_complex()}.get(dtype)
    if got is None:
        raise TypeError(f"dtype must be torch.dtype, not {type(dtype).__name__} ({dtype!r})")
    return got


def _device_of(device: Any) -> _device.device:
    return _device.get_default_device() if device is None else _device.available(device)


def _made(a: np.ndarray, device: Any, requires_grad: bool = False, out: Any = None, name: str = "") -> Tensor:
    if out is not None:
        write_out(name, out, wrap(a))
        return out
    dev = _device_of(device) if device is not None or _device._default is not _device.cpu or _device._stack() else _device.cpu
    t = wrap(a) if dev is _device.cpu else as_meta(a.shape, D.from_np(a.dtype)) if dev.type == "meta" else wrap(a if dev.type == "cpu" else accelerate.put(a, dev))
    if requires_grad:
        views.requires_grad_(t)
    return t


def _shape(name: str, size: Any) -> tuple[int, ...]:
    if len(size) == 1 and isinstance(size[0], (tuple, list)):
        size = size[0]
    for s in size:
        if s.__class__ is not int or s < 0:
            return _odd_shape(name, size)
    return tuple(size)


def _odd_shape(name: str, size: Any) -> tuple[int, ...]:
    if len(size) == 1 and not isinstance(size[0], (int, np.integer, Tensor)):
        size = size[0]
    elif len(size) == 1 and isinstance(size[0], Tensor) and size[0].a.ndim:
        size = size[0]
    try:
        shape = to_ints(tuple(size))
    except TypeError:
        bad = next((s for s in size if not isinstance(s, (int, np.integer))), size)
        raise TypeError(
            f"{name}(): argument 'size' (position 1) must be tuple of ints, but found element of type "
            f"{type(bad).__name__}"
        ) from None
    for s in shape:
        check(s >= 0, RuntimeError, f"Trying to create tensor with negative dimension {s}: {list(shape)}")
    return shape


def _size_kw(size: Any, kw: dict[str, Any], name: str) -> Any:
    if "size" in kw:
        size = (kw.pop("size"),)
    _no_more(name, kw)
    return size


_ACCEPTED = ("layout", "pin_memory", "memory_format", "names", "generator")


def _no_more(name: str, kw: dict[str, Any]) -> None:
    """Layout, memory format and pinning make no difference to host memory; other keywords are unknown."""
    for k in kw:
        if k not in _ACCEPTED:
            raise TypeError(f"{name}() got an unexpected keyword argument '{k}'")
    if str(kw.get("layout") or "torch.strided") not in ("torch.strided", "strided"):
        raise RuntimeError(f"{name}(): layout {kw['layout']} is not supported; only torch.strided tensors can be made")


# ------------------------------------------------------------------------------------------ filled
def zeros(*size: Any, out: Any = None, dtype: Any = None, device: Any = None, requires_grad: bool = False, **kw: Any) -> Tensor:
    """Zeros of shape ``size`` (ints or one sequence)."""
    shape = _shape("zeros", _size_kw(size, kw, "zeros") if kw else size)
    d = dtype if dtype.__class__ is D.dtype else _dtype_of(dtype)
    if device is not None or requires_grad or out is not None or _device._default is not _device.cpu or _device._stack():
        return _made(np.zeros(shape, d.np), device, requires_grad, out, "zeros")
    return wrap(np.zeros(shape, d.np))


def ones(*size: Any, out: Any = None, dtype: Any = None, device: Any = None, requires_grad: bool = False, **kw: Any) -> Tensor:
    """Ones of shape ``size``."""
    shape = _shape("ones", _size_kw(size, kw, "ones") if kw else size)
    return _made(np.ones(shape, _dtype_of(dtype).np), device, requires_grad, out, "ones")


def empty(*size: Any, out: Any = None, dtype: Any = None, device: Any = None, requires_grad: bool = False, **kw: Any) -> Tensor:
    """Uninitialised memory of shape ``size``."""
    shape = _shape("empty", _size_kw(size, kw, "empty") if kw else size)
    return _made(np.empty(shape, _dtype_of(dtype).np), device, requires_grad, out, "empty")


def full(size: Any, fill_value: Any, *, out: Any = None, dtype: Any = None, device: Any = None, requires_grad: bool = False, **kw: Any) -> Tensor:
    """``fill_value`` everywhere; its type decides the dtype when none is given."""
    _no_more("full", kw)
    value = fill_value.item() if isinstance(fill_value, Tensor) else fill_value
    check(is_number(value), TypeError, f"full(): argument 'fill_value' (position 2) must be Number, not {type(value).__name__}")
    d = D.of_number(value) if dtype is None else _dtype_of(dtype)
    shape = _shape("full", (size,))
    return _made(_filled(shape, value, d), device, requires_grad, out, "full")


def _filled(shape: Any, value: Any, d: D.dtype) -> np.ndarray:
    a = np.empty(shape, d.np)
    if value.__class__ is float and d.np.kind == "f" and (d.np.itemsize == 8 or -3e4 < value < 3e4):
        a.fill(value)
        return a
    with quiet():
        if d.category == D.INT and isinstance(value, (int, np.integer)) and not isinstance(value, bool):
            info = np.iinfo(d.np)
            check(info.min <= value <= info.max, RuntimeError, f"value cannot be converted to type {d.name} without overflow")
        a[...] = np.array(value).astype(d.np)
    return a


def _like(x: Tensor, dtype: Any, maker: Any) -> np.ndarray:
    """An array shaped and laid out like ``x`` (dense layouts are kept, as PyTorch's preserve_format does)."""
    d = x.k.np if dtype is None else _dtype_of(dtype).np
    return maker(x.a, dtype=d, subok=False) if x.a.size and 0 not in x.a.strides else maker(np.empty(x.a.shape, d), dtype=d)


def _liker(name: str, maker: Any) -> Any:
    def like(input: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, **kw: Any) -> Tensor:
        if not isinstance(input, Tensor):
            raise TypeError(f"{name}(): argument 'input' (position 1) must be Tensor, not {type(input).__name__}")
        _no_more(name, kw)
        dev = input.k.device if device is None else device
        return _made(_like(input, dtype, maker), dev, requires_grad)

    like.__name__ = like.__qualname__ = name
    like.__doc__ = f"``{name[:-5]}`` with the shape, dtype and device of ``input``."
    return _overridable(like)


def _overridable(fn: Any) -> Any:
    """Offer calls on subclasses and under modes to ``__torch_function__`` first."""
    import functools

    from mindtorch.core import modes, overrides

    @functools.wraps(fn)
    def call(input: Any, *args: Any, **kwargs: Any) -> Any:
        if (modes.NS["MODE"] or (isinstance(input, Tensor) and not input.k.plain)) and overrides.wanted((input,)):
            r = overrides.call(call, (input, *args), kwargs)
            if r is not NotImplemented:
                return r
        return fn(input, *args, **kwargs)

    return call


zeros_like = _liker("zeros_like", np.zeros_like)
ones_like = _liker("ones_like", np.ones_like)
empty_like = _liker("empty_like", np.empty_like)


def _full_like(input: Any, fill_value: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, **kw: Any) -> Tensor:
    """``fill_value`` with the shape and dtype of ``input``."""
    _no_more("full_like", kw)
    value = fill_value.item() if isinstance(fill_value, Tensor) else fill_value
    d = input.k.dtype if dtype is None else _dtype_of(dtype)
    return _made(_filled(input.a.shape, value, d), input.k.device if device is None else device, requires_grad)


full_like = _overridable(_full_like)


def _new(name: str, maker: Any) -> Any:
    def method(self: Tensor, *size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False, **kw: Any) -> Tensor:
        size = _size_kw(size, kw, name) if kw else size
        d = self.k.dtype if dtype is None else _dtype_of(dtype)
        return _made(maker(_shape(name, size), d.np), self.k.device if device is None else device, requires_grad)

    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"``{name[4:]}`` of the given size with the dtype and device of this tensor."
    return method


def new_full(self: Tensor, size: Any, fill_value: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, **kw: Any) -> Tensor:
    """``full`` with the dtype and device of this tensor."""
    _no_more("new_full", kw)
    d = self.k.dtype if dtype is None else _dtype_of(dtype)
    value = fill_value.item() if isinstance(fill_value, Tensor) else fill_value
    return _made(_filled(_shape("new_full", (size,)), value, d), self.k.device if device is None else device, requires_grad)


def new_tensor(self: Tensor, data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, **kw: Any) -> Tensor:
    """``torch.tensor`` with this tensor's dtype unless another is given."""
    _no_more("new_tensor", kw)
    device = self.k.device if device is None else device
    return tensor(data, dtype=self.k.dtype if dtype is None else dtype, device=device, requires_grad=requires_grad)


# ------------------------------------------------------------------------------------------ strided and small
def empty_strided(size: Any, stride: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, **kw: Any) -> Tensor:
    """Uninitialised memory with the given strides (in elements)."""
    _no_more("empty_strided", kw)
    d = _dtype_of(dtype).np
    size, stride = to_ints(size), to_ints(stride)
    need = 1 + sum((n - 1) * s for n, s in zip(size, stride)) if all(size) else 0
    root = np.empty(max(need, 0), d)
    a = np.ndarray(size, d, root, 0, tuple(s * d.itemsize for s in stride)) if need else np.empty(size, d)
    return _made(a, device, requires_grad)


def empty_permuted(size: Any, physical_layout: Any, **kw: Any) -> Tensor:
    """Uninitialised memory whose dimensions lie in memory in the order ``physical_layout``."""
    size, order = to_ints(size), to_ints(physical_layout)
    strides, step = [0] * len(size), 1
    for d in reversed(order):
        strides[d] = step
        step *= size[d]
    return empty_strided(size, strides, **kw)


def new_empty_strided(self: Tensor, size: Any, stride: Any, *, dtype: Any = None, device: Any = None, **kw: Any) -> Tensor:
    """``empty_strided`` with the dtype of this tensor."""
    return empty_strided(size, stride, dtype=self.k.dtype if dtype is None else dtype, device=device, **kw)


def scalar_tensor(s: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, **kw: Any) -> Tensor:
    """A 0-dim tensor of the default dtype (unless given)."""
    _no_more("scalar_tensor", kw)
    return _made(np.array(s.item() if isinstance(s, Tensor) else s).astype(_dtype_of(dtype).np), device, requires_grad)


def eye(n: Any, m: Any = None, *, out: Any = None, dtype: Any = None, device: Any = None, requires_grad: bool = False, **kw: Any) -> Tensor:
    """Ones on the diagonal of an ``n`` by ``m`` matrix."""
    _no_more("eye", kw)
    n, m = to_int(n), None if m is None else to_int(m)
    check(n >= 0, RuntimeError, f"n must be greater or equal to 0, got {n}")
    check(m is None or m >= 0, RuntimeError, f"m must be greater or equal to 0, got {m}")
    return _made(np.eye(n, m, dtype=_dtype_of(dtype).np), device, requires_grad, out, "eye")


def _num(v: Any) -> Any:
    return v.item() if isinstance(v, (Tensor, np.generic)) else v


def arange(start: Any, end: Any = None, step: Any = 1, *, out: Any = None, dtype: Any = None, device: Any = None, requires_grad: bool = False, **kw: Any) -> Tensor:
    """Values from ``start`` up to but not including ``end``; int64 when all arguments are integers."""
    _no_more("arange", kw)
    start, end, step = _num(start), _num(end), _num(step)
    if end is None:
        start, end = 0, start
    check(step != 0, RuntimeError, "step must be nonzero")
    check((end - start) * step >= 0, RuntimeError, "upper bound and lower bound inconsistent with step sign")
    if dtype is None:
        ints = all(isinstance(v, int) for v in (start, end, step))
        d = out.k.dtype if out is not None else D.int64 if ints else D.get_default_dtype()
    else:
        d = _dtype_of(dtype)
    n = math.ceil((end - start) / step)
    if d.category == D.INT:
        first, by = int(start), int(step)
        a = np.arange(first, first + by * n, by, np.int64) if by else np.full(n, first, np.int64)
        a = a if d is D.int64 else a.astype(d.np)
    else:
        a = np.arange(n, dtype=np.float64)
        if step != 1:
            a *= step
        if start != 0:
            a += start
        a = a.astype(d.np)
    return _made(a, device, requires_grad, out, "arange")


def range_(start: Any = 0, end: Any = None, step: Any = 1, **kw: Any) -> Tensor:
    """Like ``arange`` with the end included (deprecated in PyTorch)."""
    start, end, step = _num(start), _num(end), _num(step)
    n = math.floor((end - start) / step) + 1
    d = _dtype_of(kw.pop("dtype", None))
    return _made((start + np.arange(n, dtype=np.float64) * step).astype(d.np), kw.get("device"), kw.get("requires_grad", False))


def _steps(start: Any, end: Any, steps: int, d: D.dtype) -> np.ndarray:
    """Evenly spaced values counted from both ends, as PyTorch does, in the dtype's own precision."""
    check(steps >= 0, RuntimeError, f"number of steps must be non-negative, got {steps}")
    if steps == 1:
        return np.array([start]).astype(d.np)
    if d.category == D.INT:
        f = (end - start) / max(steps - 1, 1)
        low = np.arange(steps, dtype=np.float64)
        a = np.where(low < steps // 2, start + f * low, end - f * (steps - 1 - low))
        return np.trunc(a).astype(d.np)
    wide = np.complex128 if d.category == D.COMPLEX else np.float64 if d is D.float64 else np.float32
    s: Any = np.asarray(start, wide)
    e: Any = np.asarray(end, wide)
    step = (e - s) / np.asarray(max(steps - 1, 1), wide)
    i = np.arange(steps).astype(wide)
    h = steps // 2
    a = np.empty(steps, wide)
    low, high = a[:h], a[h:]
    np.multiply(i[:h], step, low)
    low += s
    np.multiply(i[: steps - h][::-1], step, high)
    np.subtract(e, high, high)
    return a.astype(d.np, copy=False)


def _range_dtype(dtype: Any, start: Any, end: Any) -> D.dtype:
    if dtype is not None:
        return _dtype_of(dtype)
    return D.default_complex() if isinstance(start, complex) or isinstance(end, complex) else D.get_default_dtype()


def linspace(start: Any, end: Any, steps: Any, *, out: Any = None, dtype: Any = None, device: Any = None, requires_grad: bool = False, **kw: Any) -> Tensor:
    """``steps`` evenly spaced values from ``start`` to ``end``, both included."""
    _no_more("linspace", kw)
    start, end = _num(start), _num(end)
    d = out.k.dtype if dtype is None and out is not None else _range_dtype(dtype, start, end)
    return _made(_steps(start, end, to_int(steps), d), device, requires_grad, out, "linspace")


def logspace(start: Any, end: Any, steps: Any, base: float = 10.0, *, out: Any = None, dtype: Any = None, device: Any = None, requires_grad: bool = False, **kw: Any) -> Tensor:
    """``base`` to the power of evenly spaced exponents."""
    _no_more("logspace", kw)
    start, end = _num(start), _num(end)
    d = _range_dtype(dtype, start, end)
    with quiet():
        wide = D.float64 if d.category < D.COMPLEX else D.complex128
        a = np.power(np.asarray(base, wide.np), _steps(start, end, to_int(steps), wide))
        a = a.astype(d.np)
    return _made(a, device, requires_grad, out, "logspace")


# ------------------------------------------------------------------------------------------ from data
def _first_leaf(data: Any) -> Any:
    while isinstance(data, (list, tuple)) or (hasattr(data, "__getitem__") and hasattr(data, "__len__") and not isinstance(data, (Tensor, np.ndarray, str, bytes, dict))):
        if len(data) == 0:
            return None
        data = data[0]
    return data


def _walk(data: Any) -> Any:
    """Nested sequences with tensors and arrays replaced by lists NumPy understands."""
    if isinstance(data, Tensor):
        return data.a if data.a.ndim else data.a.item()
    if isinstance(data, (list, tuple)):
        return [_walk(x) for x in data]
    if hasattr(data, "__getitem__") and hasattr(data, "__len__") and not isinstance(data, (np.ndarray, str, bytes)):
        return [_walk(data[i]) for i in range(len(data))]
    return data


def _check_rect(data: Any, dim: int = 0) -> None:
    if not isinstance(data, (list, tuple)) or not data:
        return
    lens = [len(x) if isinstance(x, (list, tuple)) else -1 for x in data]
    for n in lens:
        if n != lens[0]:
            if n < 0 or lens[0] < 0:
                raise TypeError("not a sequence") if n < 0 <= lens[0] else ValueError(
                    f"only one element tensors can be converted to Python scalars: expected a number at dim {dim + 1}"
                )
            raise ValueError(f"expected sequence of length {lens[0]} at dim {dim + 1} (got {n})")
    for x in data:
        _check_rect(x, dim + 1)


def _from_sequence(data: Any, dtype: Any) -> np.ndarray:
    leaf = _first_leaf(data)
    if leaf is None and not isinstance(data, (list, tuple)):
        raise RuntimeError(f"Could not infer dtype of {type(data).__name__}")
    if isinstance(leaf, (str, bytes)) :
        raise TypeError(f"new(): invalid data type '{type(leaf).__name__}'")
    flat = _walk(data) if not isinstance(leaf, (int, float)) or isinstance(leaf, np.generic) or _mixed(data) else data
    if dtype is not None and dtype.category == D.INT:
        a = _ints(flat)
    else:
        try:
            a = np.array(flat)
        except ValueError:
            _check_rect(flat)
            raise
    if a.dtype.kind == "O":
        _check_rect(flat)
        bad = next((x for x in a.reshape(-1) if not is_number(x)), None)
        if bad is None:
            raise RuntimeError("Overflow when unpacking long long")
        raise RuntimeError(f"Could not infer dtype of {type(bad).__name__}")
    if a.dtype.kind in "US":
        raise TypeError("new(): invalid data type 'str'")
    if dtype is not None:
        with quiet():
            return a.astype(dtype.np)
    if a.size == 0:
        return a.astype(D.get_default_dtype().np)
    if isinstance(leaf, (np.generic, np.ndarray)):
        return a
    if isinstance(leaf, Tensor):
        return a.astype(leaf.k.np) if leaf.k.cat >= {"b": 0, "i": 1, "u": 1, "f": 2, "c": 3}.get(a.dtype.kind, 2) else a
    if a.dtype.kind == "f":
        return a.astype(D.get_default_dtype().np)
    if a.dtype.kind == "c":
        return a.astype(D.default_complex().np)
    return a.astype(np.int64) if a.dtype.kind in "iu" else a


def _mixed(data: Any) -> bool:
    return any(isinstance(x, (Tensor, np.ndarray)) or (hasattr(x, "__getitem__") and not isinstance(x, (list, tuple))) for x in data)


def _ints(flat: Any) -> np.ndarray:
    a = np.array(flat)
    return a if a.dtype.kind != "f" or a.size else a.astype(np.int64)


def array_of(data: Any, dtype: D.dtype | None, copy: bool) -> np.ndarray:
    """``data`` (number, nested sequence, array, tensor) as an ndarray of ``dtype`` or of the dtype it implies."""
    if isinstance(data, Tensor):
        a = data.a
    elif isinstance(data, np.ndarray):
        a = data if data.dtype.kind != "O" else _from_sequence(data.tolist(), dtype)
        known = D.from_np(a.dtype).np
        if not a.dtype.isnative:
            a = a.astype(a.dtype.newbyteorder("="))
        elif a.dtype.num != known.num:
            a = a.view(known)  # long long is int64 under another number
        if any(s < 0 for s in a.strides):
            check(
                copy,
                ValueError,
                "At least one stride in the given numpy array is negative, and tensors with negative strides are not "
                "currently supported. (You can probably work around this by making a copy of your array with array.copy().)",
            )
            a = a.copy()
    elif isinstance(data, np.generic):
        a = np.asarray(data)
        D.from_np(a.dtype)
    elif is_number(data):
        d = D.of_number(data) if dtype is None else dtype
        if isinstance(data, complex) and d.category < D.COMPLEX:
            raise TypeError(f"can't convert complex to {d.name}")
        if d.category == D.INT and isinstance(data, int) and d is D.int64 and not -(2**63) <= data < 2**63:
            raise RuntimeError("Overflow when unpacking long long")
        with quiet():
            return np.array(data).astype(d.np) if d.category != D.INT or isinstance(data, bool) else np.array(int(data)).astype(d.np)
    elif isinstance(data, Sequence) and not isinstance(data, (str, bytes)):
        return _from_sequence(data, dtype)
    elif hasattr(data, "__array__"):
        return array_of(np.asarray(data), dtype, copy)
    elif hasattr(data, "__dlpack__"):
        return array_of(np.from_dlpack(data), dtype, copy)
    elif hasattr(data, "__getitem__") and hasattr(data, "__len__"):
        return _from_sequence(data, dtype)
    elif isinstance(data, str):
        raise TypeError("new(): invalid data type 'str'")
    else:
        raise RuntimeError(f"Could not infer dtype of {type(data).__name__}")
    if dtype is not None and a.dtype != dtype.np:
        with quiet():
            return a.astype(dtype.np)
    return np.array(a, order="C", copy=True) if copy else a


def tensor(data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, pin_memory: bool = False) -> Tensor:
    """A new tensor that copies ``data``: numbers, nested sequences, arrays or tensors. float32 and int64 by default."""
    d = None if dtype is None else _dtype_of(dtype)
    if isinstance(data, Tensor):
        import warnings

        warnings.warn(
            "To copy construct from a tensor, it is recommended to use sourceTensor.detach().clone() or "
            "sourceTensor.detach().clone().requires_grad_(True), rather than torch.tensor(sourceTensor).",
            UserWarning,
            stacklevel=2,
        )
    return _made(array_of(data, d, True), device, requires_grad)


def as_tensor(data: Any, dtype: Any = None, device: Any = None) -> Any:
    """``data`` as a tensor, without a copy when it already is one, or an array, of the right dtype."""
    d = None if dtype is None else _dtype_of(dtype)
    if isinstance(data, Tensor):
        dev = data.k.device if device is None else _device_of(device)
        return data if d in (None, data.k.dtype) and dev == data.k.device else data.to(dev, d or data.k.dtype)
    if type(data).__module__.partition(".")[0] == "mindspore" and hasattr(data, "asnumpy"):
        from mindtorch.ops.exchange import from_mindspore

        return as_tensor(from_mindspore(data), dtype, device)
    return _made(array_of(data, d, False), device)


def from_numpy(ndarray: Any) -> Tensor:
    """A tensor over the array's own memory. TypeError for types without a torch counterpart."""
    if not isinstance(ndarray, np.ndarray):
        raise TypeError(f"expected np.ndarray (got {type(ndarray).__name__})")
    D.from_np(ndarray.dtype)
    check(ndarray.dtype.isnative, ValueError, "given numpy array has byte order different from the native byte order. Conversion between byte orders is currently not supported.")
    a = array_of(ndarray, None, False)
    return wrap(a if a.__class__ is np.ndarray else a.view(np.ndarray))


def frombuffer(buffer: Any, *, dtype: Any, count: int = -1, offset: int = 0, requires_grad: bool = False) -> Tensor:
    """A one-dimensional tensor over the memory of a buffer."""
    d = _dtype_of(dtype)
    size = memoryview(buffer).nbytes
    check(0 <= offset < max(size, 1), ValueError, f"offset must be non-negative and no greater than buffer length ({size}), but got {offset}")
    return _made(np.frombuffer(buffer, d.np, count, offset), None, requires_grad)


class _Shared:
    """Memory of another library. NumPy calls it read-only because it cannot know; PyTorch writes to it."""

    def __init__(self, a: np.ndarray) -> None:
        self.kept = a
        self.__array_interface__ = {**a.__array_interface__, "data": (a.__array_interface__["data"][0], False)}


class _Capsule:
    """A bare DLPack capsule as the object NumPy asks for one; host memory is device (1, 0)."""

    def __init__(self, capsule: Any) -> None:
        self.capsule = capsule

    def __dlpack__(self, **_: Any) -> Any:
        return self.capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0


def from_dlpack(ext_tensor: Any) -> Tensor:
    """A tensor over the memory of any object with ``__dlpack__``, or of a capsule, which can be used once."""
    if isinstance(ext_tensor, Tensor):
        return ext_tensor.detach()
    a = np.from_dlpack(ext_tensor if hasattr(ext_tensor, "__dlpack__") else _Capsule(ext_tensor))
    return wrap(np.asarray(_Shared(a)))


def to_dlpack(tensor: Tensor) -> Any:
    """A DLPack capsule over the tensor's memory, to be used once."""
    return tensor.__dlpack__()  # type: ignore[attr-defined]


def asarray(obj: Any, *, dtype: Any = None, device: Any = None, copy: bool | None = None, requires_grad: bool = False) -> Tensor:
    """``as_tensor`` with a choice of copying. An untyped storage gives its bytes, seen as ``dtype`` (uint8)."""
    d = None if dtype is None else _dtype_of(dtype)
    if isinstance(getattr(obj, "array", None), np.ndarray) and hasattr(obj, "untyped"):
        obj = np.asarray(obj.untyped().array).view(np.uint8 if d is None else d.np)
    if isinstance(obj, Tensor) and not copy:
        t = as_tensor(obj, d, device)
        return t if t.requires_grad == requires_grad else t.detach().requires_grad_(requires_grad)
    return _made(array_of(obj, d, bool(copy)), device, requires_grad)


put(
    "torch",
    zeros=zeros, ones=ones, empty=empty, full=full, zeros_like=zeros_like, ones_like=ones_like, empty_like=empty_like,
    full_like=full_like, empty_strided=empty_strided, empty_permuted=empty_permuted, scalar_tensor=scalar_tensor, eye=eye,
    arange=arange, range=range_, linspace=linspace, logspace=logspace, tensor=tensor, as_tensor=as_tensor,
    from_numpy=from_numpy, frombuffer=frombuffer, from_dlpack=from_dlpack, to_dlpack=to_dlpack, asarray=asarray,
)  # fmt: skip
put(
    "Tensor",
    new_zeros=_new("new_zeros", np.zeros), new_ones=_new("new_ones", np.ones), new_empty=_new("new_empty", np.empty),
    new_full=new_full, new_tensor=new_tensor, new_empty_strided=new_empty_strided,
)  # fmt: skip
