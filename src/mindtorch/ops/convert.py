"""Between dtypes, devices, layouts, and Python: ``to``, ``clone``, ``contiguous``, ``item``, ``numpy`` and their kin."""

from __future__ import annotations

from typing import Any

import numpy as np

from mindtorch import log
from mindtorch.core import accelerate, observe
from mindtorch.core import device as _device
from mindtorch.core import dtype as D
from mindtorch.core.dispatch import as_meta, slow
from mindtorch.core.legacy import TYPES
from mindtorch.core.tape import type_name
from mindtorch.core.tensor import Tensor
from mindtorch.engine.host.quiet import quiet
from mindtorch.ops.table import op, put


def _cast_back(g: Any, input_dtype: Any) -> Any:
    if g.k.cat == D.COMPLEX and input_dtype.category < D.COMPLEX:
        g = g.real
    return g if g.k.dtype is input_dtype else _cast(g, input_dtype)


@op("_cast(T input, any dtype)", ns="_C", node="ToCopyBackward0", grad={"input": _cast_back})
def _cast(a: np.ndarray, dtype: Any) -> np.ndarray:
    if a.dtype.kind == "c" and dtype.np.kind != "c":
        a = a.real if dtype is not D.bool_ else a
    if a.dtype.kind == "b" or (a.dtype.kind in "iuf" and dtype.np.itemsize == 8 and dtype.np.kind == "f"):
        return a.astype(dtype.np)  # nothing to warn of
    with quiet():
        if a.dtype.kind == "f" and dtype.np.kind in "iu" and dtype.np.itemsize < 4:
            return a.astype(np.int64).astype(dtype.np)
        return a.astype(dtype.np)


@op("clone(T input, *, any memory_format=None)", grad={"input": lambda g: g})
def clone(a: np.ndarray, memory_format: Any = None) -> np.ndarray:
    """A copy with history; dense layouts are kept, others become contiguous."""
    order = "C" if memory_format is not None and "contiguous" in str(memory_format) else "K"
    if 0 in a.strides and a.size > 1:
        order = "C"
    return np.array(a, copy=True, order=order)  # type: ignore[call-overload]


@op("_contiguous(T input)", ns="_C", node="CloneBackward0", grad={"input": lambda g: g})
def _contiguous(a: np.ndarray) -> np.ndarray:
    return np.array(a, order="C", copy=True)


@op("_channels_last(T input)", ns="_C", node="CloneBackward0", grad={"input": lambda g: g})
def _channels_last(a: np.ndarray) -> np.ndarray:
    return np.moveaxis(np.ascontiguousarray(np.moveaxis(a, 1, -1)), -1, 1)


def _wants_channels_last(memory_format: Any) -> bool:
    return memory_format is not None and "channels_last" in str(memory_format)


def is_channels_last(a: np.ndarray) -> bool:
    """Whether dimension 1 is the innermost in memory of a 4-d or 5-d array."""
    return a.ndim in (4, 5) and np.moveaxis(a, 1, -1).flags.c_contiguous


def contiguous(self: Tensor, memory_format: Any = None) -> Tensor:
    """The tensor itself when its memory is in order, else a copy that is."""
    if _wants_channels_last(memory_format):
        return self if is_channels_last(self.a) else _channels_last(self)
    return self if self.a.flags.c_contiguous else _contiguous(self)


def is_contiguous(self: Tensor, memory_format: Any = None) -> bool:
    """Whether elements lie in memory in row-major (or channels-last) order."""
    if _wants_channels_last(memory_format):
        return is_channels_last(self.a)
    return self.a.flags.c_contiguous


# ------------------------------------------------------------------------------------------ to
def _parse_to(args: tuple[Any, ...], kw: dict[str, Any]) -> tuple[Any, Any, bool, Any]:
    dtype, dev = kw.pop("dtype", None), kw.pop("device", None)
    copy, mf = kw.pop("copy", False), kw.pop("memory_format", None)
    if kw.pop("non_blocking", False):
        log.without_effect("Tensor.to", "copies are made at once", quietly=True, non_blocking=(True, False))
    other = kw.pop("other", None)
    if kw:
        raise TypeError(f"to() got an unexpected keyword argument '{next(iter(kw))}'")
    rest = list(args)
    if rest:
        first = rest.pop(0)
        if isinstance(first, Tensor):
            other = first
        elif isinstance(first, D.dtype):
            dtype = first
        elif first is not None or dev is None:
            dev = first
            if rest and (isinstance(rest[0], D.dtype) or rest[0] is None):
                dtype = rest.pop(0) or dtype
    if len(rest) >= 2:
        copy = rest[1]
    if other is not None:
        dtype, dev = other.k.dtype, other.k.device
    if dtype is not None and not isinstance(dtype, D.dtype):
        known = {float: D.float64, int: D.int64, bool: D.bool_, complex: D.complex128}
        if dtype not in known:
            raise TypeError(f"to(): dtype must be torch.dtype, not {type(dtype).__name__}")
        dtype = known[dtype]
    return dtype, dev, bool(copy), mf


def to(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """This tensor with another dtype and/or device; itself when nothing changes (unless ``copy``)."""
    if not kwargs and len(args) == 1 and args[0].__class__ is D.dtype:
        return self if args[0] is self.k.dtype else _cast(self, args[0])
    dtype, dev, copy, mf = _parse_to(args, kwargs)
    x = self
    if dev is not None:
        dev = _device.available(dev)
        if dev.type != x.k.device.type:
            return _formatted(_move(x, dev, dtype), mf)
    if dtype is not None and dtype is not x.k.dtype:
        x = _cast(x, dtype)
    elif copy:
        x = clone(x)
    return _formatted(x, mf)


def _formatted(x: Tensor, memory_format: Any) -> Tensor:
    return x if memory_format is None or "preserve" in str(memory_format) else contiguous(x, memory_format)


def _move(x: Tensor, dev: Any, dtype: Any) -> Tensor:
    if dev.type == "meta":
        return as_meta(x.a.shape, dtype or x.k.dtype)
    if x.k.device.type != "meta":
        moved = slow(_to_device.row, (x, dev, x.k.device))
        return moved if dtype is None or dtype is moved.k.dtype else _cast(moved, dtype)
    raise NotImplementedError("Cannot copy out of meta tensor; no data! Use torch.empty_like(x, device='cpu') and fill it.")


@op("_to_device(T input, any device, any origin)", ns="_C", half="native", node="ToCopyBackward0",
    grad={"input": lambda g, origin: g.to(origin)})  # fmt: skip
def _to_device(a: np.ndarray, device: Any, origin: Any) -> np.ndarray:
    return accelerate.moved(a, device)


def _caster(d: D.dtype) -> Any:
    def cast(self: Tensor, memory_format: Any = None) -> Tensor:
        return _formatted(self if self.k.dtype is d else _cast(self, d), memory_format)

    cast.__doc__ = f"``to({d!r})``."
    return cast


def type_(self: Tensor, dtype: Any = None, non_blocking: bool = False) -> Any:
    """The name of this tensor's type, or the tensor converted to ``dtype`` (a dtype, type name or typed class)."""
    kind = self.k.device.type
    if dtype is None:
        return f"torch.{type_name(self.k.dtype)}" if kind == "cpu" else f"torch.{kind}.{type_name(self.k.dtype)}"
    dev: Any = self.k.device
    if isinstance(dtype, str):
        front, _, name = dtype.rpartition(".")
        dev = {"": "cpu", "torch": "cpu"}.get(front, front.removeprefix("torch."))
        if name not in TYPES or (dev != "cpu" and dev not in _device.accelerators()):
            raise ValueError(f"invalid type: {dtype!r}")
        dtype = TYPES[name].dtype
    elif not isinstance(dtype, D.dtype):
        dev = getattr(dtype, "device", "cpu" if dtype is not Tensor else dev)
        dtype = getattr(dtype, "dtype", None) if dtype is not Tensor else D.get_default_dtype()
        if not isinstance(dtype, D.dtype):
            raise TypeError("type(): argument 'dtype' must be a torch.dtype, a type name or a typed tensor class")
    return to(self, dev, dtype)


def cuda(self: Tensor, device: Any = None, non_blocking: bool = False, memory_format: Any = None) -> Tensor:
    """Move to the CUDA device that an accelerator stands for; AssertionError without one, as in PyTorch's CPU build."""
    where = _device.device("cuda" if device is None else device)
    if where.type == "cpu":
        raise RuntimeError("Invalid device, must be cuda device")
    log.without_effect("Tensor.cuda", "copies are made at once", quietly=True, non_blocking=(non_blocking, False))
    return _formatted(to(self, where), memory_format)


def npu(self: Tensor, device: Any = None, non_blocking: bool = False, memory_format: Any = None) -> Tensor:
    """Move to the NPU; RuntimeError when there is none."""
    where = _device.device("npu" if device is None else f"npu:{device}" if isinstance(device, int) else device)
    if where.type == "cpu":
        raise RuntimeError("Invalid device, must be npu device")
    log.without_effect("Tensor.npu", "copies are made at once", quietly=True, non_blocking=(non_blocking, False))
    return _formatted(to(self, where), memory_format)


def record_stream(self: Tensor, stream: Any) -> None:
    """Keeps the memory until the work of ``stream`` is done: kernels here are waited for, so it is done already.

    NotImplementedError on the CPU, as in PyTorch.
    """
    if self.k.device.type == "cpu":
        raise NotImplementedError("Could not run 'aten::record_stream' with arguments from the 'CPU' backend: a CPU tensor has no stream")
    if not hasattr(stream, "stream_id"):
        raise TypeError(f"record_stream(): argument 'stream' must be a torch.Stream, not {type(stream).__name__}")


def cpu(self: Tensor, memory_format: Any = None) -> Tensor:
    """The tensor on the CPU."""
    return _formatted(to(self, _device.cpu), memory_format)


# ------------------------------------------------------------------------------------------ to Python
def item(self: Tensor) -> Any:
    """The value of a one-element tensor as a Python number."""
    a = self.a
    if a.size != 1:
        raise RuntimeError(f"a Tensor with {a.size} elements cannot be converted to Scalar")
    if self.k.device.type == "meta":
        raise RuntimeError("Tensor.item() cannot be called on meta tensors")
    r = a.item()
    if self.k.dtype is D.bfloat16:
        r = float(r)
    return observe.read(self, r) if observe.OBSERVERS else r


def tolist(self: Tensor) -> Any:
    """Nested lists of Python numbers."""
    return self.a.astype(np.float32).tolist() if self.k.dtype is D.bfloat16 else self.a.tolist()


def numpy(self: Tensor, *, force: bool = False) -> np.ndarray:
    """The memory as an ndarray, shared. RuntimeError when gradients are recorded (use ``detach()``)."""
    if self.n is not None and not force:
        raise RuntimeError("Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.")
    if self.k.dtype is D.bfloat16:
        raise TypeError("Got unsupported ScalarType BFloat16; convert with .float() first")
    if self.k.device.type == "meta":
        raise TypeError("can't convert meta device type tensor to numpy: it has no data")
    if self.a.__class__ is not np.ndarray and self.k.device.type != "cpu":
        raise TypeError(
            f"can't convert {self.k.device} device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory first."
        )
    return self.a


def _array(self: Tensor, dtype: Any = None, copy: Any = None) -> np.ndarray:
    a = numpy(self)
    return a if dtype is None else a.astype(dtype, copy=False)


def _scalar(kind: Any) -> Any:
    def convert(self: Tensor) -> Any:
        v = item(self)
        if kind is not complex and isinstance(v, complex) and v.imag == 0:
            v = v.real
        return kind(v)

    return convert


def _bool(self: Tensor) -> bool:
    n = self.a.size
    if n == 1:
        return bool(self.a.item() != 0)
    if n == 0:
        raise RuntimeError("Boolean value of Tensor with no values is ambiguous")
    raise RuntimeError("Boolean value of Tensor with more than one value is ambiguous")


def _index(self: Tensor) -> int:
    if self.a.size != 1 or self.k.cat > D.INT:
        raise TypeError("only integer tensors of a single element can be converted to an index")
    return int(self.a.item())


def _dlpack(self: Tensor, **kwargs: Any) -> Any:
    if self.n is not None:
        raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
    if self.k.device.type != "cpu":
        raise BufferError(f"Can't export a tensor on {self.k.device} by DLPack: its memory is MindSpore's; use tensor.cpu(), or to_mindspore()")
    return self.a.__dlpack__()


put(
    "Tensor",
    to=to, type=type_, cuda=cuda, npu=npu, record_stream=record_stream, cpu=cpu, contiguous=contiguous, is_contiguous=is_contiguous, item=item, tolist=tolist,
    numpy=numpy, __array__=_array, __bool__=_bool, __float__=_scalar(float), __int__=_scalar(int), __complex__=_scalar(complex),
    __index__=_index, __dlpack__=_dlpack, __dlpack_device__=lambda self: self.a.__dlpack_device__(),
    type_as=lambda self, other: to(self, other.k.device, other.k.dtype),
    float=_caster(D.float32), double=_caster(D.float64), half=_caster(D.float16), bfloat16=_caster(D.bfloat16),
    long=_caster(D.int64), int=_caster(D.int32), short=_caster(D.int16), char=_caster(D.int8), byte=_caster(D.uint8),
    bool=_caster(D.bool_), cfloat=_caster(D.complex64), cdouble=_caster(D.complex128),
    chalf=_caster(D.complex64),
)  # fmt: skip


@op("fill(T input, TN value)", promote="first", half="native",
    grad={"input": lambda g: g * 0, "value": lambda g: g.sum()})  # fmt: skip
def fill(a: np.ndarray, value: Any) -> np.ndarray:
    """``value`` everywhere, in the shape and dtype of ``input``."""
    z = np.empty(a.shape, a.dtype)
    v = np.asarray(value)
    if v.ndim:
        raise RuntimeError(f"fill only supports 0-dimension value tensor but got tensor with {v.ndim} dimensions.")
    with quiet():
        z[...] = v.astype(a.dtype) if not (v.dtype.kind == "c" and a.dtype.kind != "c") else v.real
    return z


def fill_(self: Tensor, value: Any) -> Tensor:
    """Write ``value`` everywhere."""
    if observe.OBSERVERS:
        return observe.run(_FILL, _fill, (self, value), {})
    return _fill(self, value)


def _fill(self: Tensor, value: Any) -> Tensor:
    from mindtorch.core import modes, views
    from mindtorch.core.tensor import cell_of

    if modes.state.grad and (self.n is not None or (isinstance(value, Tensor) and value.n is not None)):
        return views.inplace(fill.row, (self, value))
    v = value.a if isinstance(value, Tensor) else value
    if not self.a.flags.writeable or self.v is not None:
        views.check_writable(self, "fill_")
    if isinstance(value, Tensor) and value.a.ndim:
        raise RuntimeError(f"fill_ only supports 0-dimension value tensor but got tensor with {value.a.ndim} dimensions.")
    with quiet():
        self.a[...] = np.asarray(v).astype(self.a.dtype)
    cell_of(self).bump()
    return self


def zero_(self: Tensor) -> Tensor:
    """Write zero everywhere."""
    if observe.OBSERVERS:
        return observe.run(_ZERO, _fill, (self, 0), {})
    return _fill(self, 0)


_FILL, _ZERO = observe.Whole(fill_), observe.Whole(zero_)
put("Tensor", fill_=fill_, zero_=zero_)
put("torch", fill_=fill_, zero_=zero_)
