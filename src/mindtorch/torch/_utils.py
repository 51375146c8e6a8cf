"""How tensors become pickles and come back: the functions that checkpoints name; copying with shared memory kept."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import numpy as np

from mindtorch import log
from mindtorch.core import dtype as _d
from mindtorch.core.tensor import Parameter, Tensor, address, root_array
from mindtorch.formats.pth_sparse import LAYOUTS, dense
from mindtorch.formats.pth_storage import RAW_DTYPES, STORAGE_OF_DTYPE
from mindtorch.torch.storage import TypedStorage, UntypedStorage, tensor_over

_INTERNAL = frozenset({"_grad", "_retains", "_backward_hooks"})
"""Entries of a tensor's instance dict that are state of autograd, not of the user."""


class RawDtype:
    """A dtype that files may name and that has no arithmetic here: its tensors are loaded as their bytes."""

    def __init__(self, name: str) -> None:
        self.name = name

    def taken_as(self) -> Any:
        """The dtype that takes its place. RuntimeError for elements that are not one byte."""
        if RAW_DTYPES[self.name] != 1:
            raise RuntimeError(f"the file holds a tensor of dtype torch.{self.name}, which mindtorch does not have")
        log.once(
            logging.WARNING,
            f"torch.load: there is no arithmetic for torch.{self.name}: such tensors are loaded as their raw bytes "
            "(torch.uint8). Save them as bfloat16 or float32 in PyTorch to compute with them",
        )
        return _d.uint8

    def __repr__(self) -> str:
        return f"torch.{self.name}"


# ------------------------------------------------------------------------------------------ rebuilding


def _bytes_of(storage: Any) -> UntypedStorage:
    if not isinstance(storage, (TypedStorage, UntypedStorage)):
        raise TypeError(f"the file builds a tensor over a {type(storage).__name__}, which is no storage")
    return storage.untyped()


def _finish(t: Tensor, requires_grad: Any, backward_hooks: Any = None) -> Tensor:
    if requires_grad:
        t.requires_grad_(True)
    if backward_hooks:
        t._backward_hooks = backward_hooks
    return t


def _rebuild_tensor(storage: Any, storage_offset: int, size: Sequence[int], stride: Sequence[int]) -> Tensor:
    """A tensor over a typed storage."""
    return tensor_over(_bytes_of(storage), storage.dtype, storage_offset, size, stride)


def _rebuild_tensor_v2(
    storage: Any,
    storage_offset: int,
    size: Sequence[int],
    stride: Sequence[int],
    requires_grad: bool,
    backward_hooks: Any,
    metadata: Any = None,
) -> Tensor:
    """A tensor over a typed storage, with ``requires_grad``; ``metadata`` may ask for the conjugate or the negative."""
    t = _rebuild_tensor(storage, storage_offset, size, stride)
    return _finish(_with_metadata(t, metadata) if metadata else t, requires_grad, backward_hooks)


def _rebuild_tensor_v3(
    storage: Any,
    storage_offset: int,
    size: Sequence[int],
    stride: Sequence[int],
    requires_grad: bool,
    backward_hooks: Any,
    dtype: Any,
    metadata: Any = None,
) -> Tensor:
    """As v2 for dtypes that have no storage class of their own."""
    if isinstance(dtype, RawDtype):
        dtype = dtype.taken_as()
    t = tensor_over(_bytes_of(storage), dtype, storage_offset, size, stride)
    return _finish(_with_metadata(t, metadata) if metadata else t, requires_grad, backward_hooks)


def _with_metadata(t: Tensor, metadata: Any) -> Tensor:
    for key, value in metadata.items():
        if value and key == "conj":
            t = _solid(t).conj().resolve_conj()
        elif value and key == "neg":
            t = -_solid(t)
    return t


def _solid(t: Tensor) -> Tensor:
    """``t``, refused when it is far larger than its memory: a file may claim any size for an expanded tensor."""
    if t.numel() * t.element_size() > (1 << 20) + 4 * root_array(t).nbytes:
        raise RuntimeError(f"the file asks for arithmetic on a tensor expanded to {tuple(t.shape)}")
    return t


def _rebuild_parameter(data: Tensor, requires_grad: bool, backward_hooks: Any) -> Parameter:
    """A Parameter over ``data``."""
    p = Parameter(data, requires_grad)
    if backward_hooks:
        p._backward_hooks = backward_hooks
    return p


def _rebuild_parameter_with_state(data: Tensor, requires_grad: bool, backward_hooks: Any, state: Any) -> Parameter:
    """A Parameter that carried attributes of its own."""
    return _set_state(_rebuild_parameter(data, requires_grad, backward_hooks), state)


def _set_state(t: Any, state: Any) -> Any:
    if isinstance(state, tuple):
        state = {**(state[0] or {}), **(state[1] or {})}
    if not isinstance(t, Tensor) or not isinstance(state, dict):
        raise TypeError(f"the file gives state of type {type(state).__name__} to a {type(t).__name__}")
    t.__dict__.update({k: v for k, v in state.items() if k not in _INTERNAL})
    return t


def _rebuild_from_type_v2(func: Any, new_type: type, args: tuple[Any, ...], state: Any) -> Tensor:
    """A tensor of a subclass, or with attributes: ``func(*args)`` seen as ``new_type``, then given ``state``."""
    t = func(*args)
    if type(t) is not new_type:
        if not (isinstance(new_type, type) and issubclass(new_type, Tensor)):
            raise TypeError(
                f"the file holds a tensor of the class {getattr(new_type, '__qualname__', new_type)!r}, which is not one of "
                "mindtorch's tensors here: import its module under mindtorch, or save tensor.as_subclass(torch.Tensor)"
            )
        t = t.as_subclass(new_type)
    give = getattr(type(t), "__setstate__", None)
    if give is not None and give is not getattr(Tensor, "__setstate__", None):
        give(t, state)
        return t
    return _set_state(t, state)


_rebuild_from_type_v2.__module__ = "mindtorch.torch._tensor"  # the name that files give it


def _rebuild_meta_tensor_no_storage(dtype: Any, size: Any, stride: Any, requires_grad: bool) -> Tensor:
    """A tensor on the meta device."""
    import mindtorch.torch as torch

    return torch.empty_strided(tuple(size), tuple(stride), dtype=dtype, device="meta", requires_grad=requires_grad)


def _rebuild_device_tensor_from_numpy(data: np.ndarray, dtype: Any, device: Any, requires_grad: bool) -> Tensor:
    """A tensor that another back end saved as a NumPy array."""
    from mindtorch.core.tensor import wrap

    if not isinstance(data, np.ndarray):
        raise TypeError(f"the file builds a tensor over a {type(data).__name__}, which is no NumPy array")
    return _finish(wrap(np.array(data)).to(dtype), requires_grad)


def _rebuild_device_tensor_from_cpu_tensor(data: Tensor, dtype: Any, device: Any, requires_grad: bool) -> Tensor:
    """A tensor that another back end saved as a host tensor."""
    return _finish(_solid(data).to(dtype).detach(), requires_grad)


def _rebuild_sparse_tensor(layout: Any, data: Any) -> Tensor:
    """A sparse tensor of any layout, as a dense one: there are no sparse tensors here. Warns."""
    from mindtorch.core.tensor import wrap

    kind = str(layout).removeprefix("torch.")
    if kind not in LAYOUTS:
        raise RuntimeError(f"the file holds a tensor of layout {layout}, which cannot be rebuilt; save it as to_dense()")
    parts = dict(zip(LAYOUTS[kind], data))
    size, values = parts.pop("size"), _solid(parts.pop("values")).detach().a
    indices = [_solid(v).a for k, v in parts.items() if k != "is_coalesced"]
    log.once(logging.WARNING, f"torch.load: a tensor of layout {layout} is loaded as a dense one")
    return wrap(dense(kind, size, values, indices))


def _rebuild_qtensor(*_args: Any) -> Tensor:
    """Raises: there are no quantized tensors."""
    raise RuntimeError(
        "the file holds a quantized tensor, which mindtorch does not have; save it as tensor.dequantize()"
    )


def _rebuild_nested_tensor(*_args: Any) -> Tensor:
    """Raises: there are no nested tensors in checkpoints."""
    raise RuntimeError("the file holds a nested tensor, which cannot be rebuilt; save tensor.unbind() instead")


def _rebuild_wrapper_subclass(cls: type, *_args: Any) -> Tensor:
    """Raises: subclasses without memory cannot be rebuilt."""
    raise RuntimeError(f"the file holds a wrapper subclass {cls.__name__}, which cannot be rebuilt")


# ------------------------------------------------------------------------------------------ taking apart


def untyped_storage(t: Tensor) -> UntypedStorage:
    """The memory behind ``t`` as a storage; views of one memory give storages of the same address."""
    if t.device.type == "meta":
        return UntypedStorage(0, device="meta")
    s = UntypedStorage(root_array(t))
    s.cell = t.v
    return s


def typed_storage(t: Tensor) -> TypedStorage:
    """The memory behind ``t`` in elements of its dtype."""
    return TypedStorage(wrap_storage=untyped_storage(t), dtype=t.dtype, _internal=True)


def _place(t: Tensor, storage: UntypedStorage) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
    a = t.a
    offset = (address(a) - storage.data_ptr()) // a.itemsize if a.size and storage.nbytes() else 0
    return offset, a.shape, tuple(s // a.itemsize for s in a.strides)


def _user_state(t: Tensor) -> dict[str, Any]:
    return {k: v for k, v in t.__dict__.items() if k not in _INTERNAL}


def _reduce_data(t: Tensor) -> tuple[Any, tuple[Any, ...]]:
    """``(function, arguments)`` that make the plain tensor again."""
    grad = bool(t.requires_grad)
    if t.device.type == "meta":
        return _rebuild_meta_tensor_no_storage, (t.dtype, tuple(t.shape), tuple(t.stride()), grad)
    storage = untyped_storage(t)
    place = _place(t, storage)
    if t.k.np in STORAGE_OF_DTYPE:
        typed = TypedStorage(wrap_storage=storage, dtype=t.dtype, _internal=True)
        return _rebuild_tensor_v2, (typed, *place, grad, OrderedDict())
    return _rebuild_tensor_v3, (storage, *place, grad, OrderedDict(), t.dtype)


def reduce_tensor(t: Tensor, protocol: int = 2) -> Any:
    """What ``Tensor.__reduce_ex__`` returns: tensors are rebuilt over their storage: shared memory stays shared."""
    cls, state = type(t), _user_state(t)
    if cls is Parameter:
        parts = (t.detach(), t.requires_grad, OrderedDict())
        return (_rebuild_parameter_with_state, (*parts, state)) if state else (_rebuild_parameter, parts)
    func, args = _reduce_data(t)
    own_state = getattr(cls, "__getstate__", None)
    if cls is not Tensor and own_state is not None and own_state is not getattr(object, "__getstate__", None):
        return _rebuild_from_type_v2, (func, cls, args, t.__getstate__())
    if cls is Tensor and not state:
        return func, args
    return _rebuild_from_type_v2, (func, cls, args, state)
