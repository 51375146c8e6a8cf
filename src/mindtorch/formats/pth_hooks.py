"""What a checkpoint's pickle may name and what becomes of it: the default answers build NumPy arrays."""

from __future__ import annotations

import pickle
from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np

from mindtorch.formats import pth_numpy
from mindtorch.formats.pth_pickle import UnknownGlobal
from mindtorch.formats.pth_sparse import LAYOUTS
from mindtorch.formats.pth_storage import DTYPES, RAW_DTYPES, STORAGE_TYPES, StorageData, strided

SAFE_BUILTINS: dict[tuple[str, str], Any] = {
    ("collections", "OrderedDict"): OrderedDict,
    ("collections", "Counter"): Counter,
    ("builtins", "set"): set,
    ("builtins", "frozenset"): frozenset,
    ("builtins", "complex"): complex,
    ("builtins", "bytearray"): bytearray,
}
"""Globals outside torch that every checkpoint may name."""


class Hooks:
    """What the layer above decides. The methods here build NumPy arrays; the torch layer overrides them.

    ``unknown="keep"`` puts an inert `Unknown` where the file names a class or function that is not allowed;
    ``"refuse"`` raises UnpicklingError.
    """

    def __init__(self, unknown: str = "refuse") -> None:
        if unknown not in ("refuse", "keep"):
            raise ValueError(f"unknown must be 'refuse' or 'keep', not {unknown!r}")
        self.unknown = unknown
        self.globals = {**SAFE_BUILTINS, **_ARRAY_GLOBALS, **pth_numpy.NUMPY}
        self.globals.update(pth_numpy.old_globals(lambda a: self.tensor(a, None), self.parameter))

    def find(self, module: str, name: str) -> Any:
        """An allowed global, or UnpicklingError."""
        got = self.globals.get((module, name))
        if got is not None:
            return got
        if module.partition(".")[0] == "torch" and name in STORAGE_TYPES:
            return name
        if module == "torch" and (name in DTYPES or name in RAW_DTYPES or name.startswith("per_")):
            return f"torch.{name}"
        if module == "mindtorch.torch" and name in STORAGE_TYPES:
            return name
        if module == "torch" and name.replace("Tensor", "Storage") in STORAGE_TYPES:
            return name
        if self.unknown == "keep":
            return UnknownGlobal(module, name)
        raise pickle.UnpicklingError(f"Unsupported global: GLOBAL {module}.{name} was not an allowed global by default")

    def calls(self, value: Any) -> bool:
        """Whether an allowed global may be called by the file, and not only be named."""
        return value is not np.ndarray

    def find_any(self, base: Callable[[str, str], Any], module: str, name: str) -> Any:
        """A global in a file that is trusted; ``base`` imports."""
        return base(module, name)

    def storage(self, data: StorageData) -> Any:
        """The object that stands for a storage."""
        return data

    def tensor(self, array: np.ndarray, storage: StorageData | None) -> Any:
        """A tensor of a tar checkpoint, or (without a storage) of a file of mindtorch 0.4.0."""
        return array

    def parameter(self, array: np.ndarray, requires_grad: bool, state: Any) -> Any:
        """A parameter of a file of mindtorch 0.4.0."""
        return array

    def wants(self, location: str) -> bool:
        """Whether the contents of storages at ``location`` are needed at all."""
        return location != "meta"

    def build(self, target: Any, state: Any) -> bool:
        """Give ``state`` to an object of an allowed class; False to refuse."""
        return pth_numpy.give_old_state(target, state)

    def storage_of(self, obj: Any) -> StorageData | None:
        """The storage behind ``obj`` when it is one (saving); its ``key`` tells storages apart."""
        return None

    def rename(self, module: str) -> str:
        """Module name to be written for a class of ``module``."""
        return module


# ------------------------------------------------------------------------------------------ arrays without tensors


def _array_v2(storage: Any, offset: int, size: Any, stride: Any, *_: Any) -> np.ndarray:
    return strided(_memory(storage).data, storage.dtype, offset, size, stride)


def _array_v3(storage: Any, offset: int, size: Any, stride: Any, _grad: Any, _hooks: Any, dtype: str, *_: Any) -> Any:
    name = dtype.removeprefix("torch.") if isinstance(dtype, str) else ""
    if name not in DTYPES:
        raise pickle.UnpicklingError(f"the file holds a tensor of dtype {dtype}, which NumPy cannot hold")
    return strided(_memory(storage).data, DTYPES[name], offset, size, stride)


def _memory(storage: Any) -> StorageData:
    if not isinstance(storage, StorageData):
        raise pickle.UnpicklingError(f"the file builds a tensor over a {type(storage).__name__}, which is no storage")
    return storage


def _array_of(data: Any, *_: Any) -> Any:
    return data


def _array_of_type(func: Any, _kind: Any, args: Any, _state: Any) -> Any:
    if func not in _ARRAY_GLOBALS.values():
        raise pickle.UnpicklingError("the file builds a tensor with something that is no function for it")
    return func(*args)


def _layout(name: Any) -> str:
    if str(name).removeprefix("torch.") not in ("strided", "_mkldnn", *LAYOUTS):
        raise pickle.UnpicklingError("the file names something as a layout that is none")
    return str(name)


def _sparse(layout: Any, parts: Any) -> dict[str, Any]:
    names = LAYOUTS.get(str(layout).removeprefix("torch."))
    if names is None:
        raise pickle.UnpicklingError(f"the file holds a tensor of layout {layout}, which is none")
    return {"layout": str(layout), **dict(zip(names, parts))}


def _quantized(storage: Any, offset: int, size: Any, stride: Any, quantizer: Any, *_: Any) -> dict[str, Any]:
    return {"int_repr": _array_v2(storage, offset, size, stride), "quantizer": quantizer}


def _meta(dtype: Any, size: Any, *_: Any) -> Any:
    raise pickle.UnpicklingError(f"the file holds a meta tensor of size {tuple(size)}, which has no contents")


_ARRAY_GLOBALS: dict[tuple[str, str], Any] = {
    ("torch._utils", "_rebuild_tensor"): _array_v2,
    ("torch._utils", "_rebuild_tensor_v2"): _array_v2,
    ("torch._utils", "_rebuild_tensor_v3"): _array_v3,
    ("torch._utils", "_rebuild_parameter"): _array_of,
    ("torch._utils", "_rebuild_parameter_with_state"): _array_of,
    ("torch._utils", "_rebuild_device_tensor_from_numpy"): _array_of,
    ("torch._utils", "_rebuild_device_tensor_from_cpu_tensor"): _array_of,
    ("torch._utils", "_rebuild_sparse_tensor"): _sparse,
    ("torch._utils", "_rebuild_qtensor"): _quantized,
    ("torch._utils", "_rebuild_meta_tensor_no_storage"): _meta,
    ("torch._tensor", "_rebuild_from_type_v2"): _array_of_type,
    ("torch.serialization", "_get_layout"): _layout,
    ("torch.jit._pickle", "restore_type_tag"): lambda value, _tag: value,
    ("torch.storage", "_typed"): lambda storage, _dtype: storage,
    ("torch", "Tensor"): "torch.Tensor",
    ("torch.nn.parameter", "Parameter"): "torch.nn.Parameter",
    ("torch", "Size"): tuple,
    ("torch", "device"): lambda kind, index=None: str(kind) if index is None else f"{kind}:{index}",
}
