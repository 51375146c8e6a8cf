"""Data of a PyTorch program, such as a DataLoader's batch, for a mindtorch network; and back. Memory is shared."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from mindtorch.tools import frameworks
from mindtorch.tools.values import is_tensor

__all__ = ["convert_to_ms_tensor", "convert_to_torch_tensor"]

# Types NumPy has no PyTorch counterpart for: passed as integers of their width and looked at anew.
_BITS = {"bfloat16": "int16", "float8_e4m3fn": "uint8", "float8_e5m2": "uint8", "float8_e4m3fnuz": "uint8",
         "float8_e5m2fnuz": "uint8"}  # fmt: skip


def _is_ours(x: Any) -> bool:
    return any(c.__module__.startswith("mindtorch.") and c.__name__ == "Tensor" for c in type(x).__mro__)


def _is_mindspore(x: Any) -> bool:
    ms = sys.modules.get("mindspore")
    return ms is not None and isinstance(x, ms.Tensor)


def _usable(a: np.ndarray) -> np.ndarray:
    """The array itself, or a copy where a tensor cannot lie over it: read-only, foreign byte order, backward strides."""
    if not a.dtype.isnative:
        a = a.astype(a.dtype.newbyteorder("="))
    ok = a.flags.writeable and all(s >= 0 and s % a.itemsize == 0 for s in a.strides)
    return a if ok and a.flags.aligned else a.copy()


def _array_of_pytorch(t: Any) -> np.ndarray:
    """A PyTorch tensor's memory; TypeError for tensors without strides (sparse, meta, quantized)."""
    t = t.detach()
    if str(t.layout) != "torch.strided" or t.device.type == "meta" or t.is_quantized:
        raise TypeError(
            f"convert_to_ms_tensor takes dense tensors with values; got layout {t.layout} on {t.device}"
            f"{', quantized' if t.is_quantized else ''}. Convert with .to_dense() or .dequantize() first"
        )
    t = t.resolve_conj().resolve_neg().cpu()
    name = str(t.dtype).removeprefix("torch.")
    if name in _BITS:
        torch = frameworks.load(frameworks.PYTORCH)
        return t.view(getattr(torch, _BITS[name])).numpy().view(getattr(ml_dtypes, name))
    return t.numpy()


def _to_ours(x: Any) -> Any:
    import mindtorch.torch as torch

    if is_tensor(x):
        return x if _is_ours(x) else torch.from_numpy(_usable(_array_of_pytorch(x)))
    if _is_mindspore(x):
        return torch.from_numpy(_usable(_array_of_mindspore(x)))
    return torch.from_numpy(_usable(np.asarray(x)))


def _array_of_mindspore(x: Any) -> np.ndarray:
    """A MindSpore tensor's values; its own bfloat16 class is not the one of ml_dtypes, but has the same bits."""
    a = x.asnumpy()
    return a.view(np.uint16).view(ml_dtypes.bfloat16) if a.dtype.name == "bfloat16" else a


def _to_pytorch(x: Any) -> Any:
    from mindtorch.core.tensor import values

    torch = frameworks.load(frameworks.PYTORCH)
    if is_tensor(x) and not _is_ours(x):
        return x
    if is_tensor(x):
        if x.device.type == "meta":
            raise TypeError("convert_to_torch_tensor: a meta tensor has no values")
        a = values(x.detach().resolve_conj().resolve_neg())
    else:
        a = _array_of_mindspore(x) if _is_mindspore(x) else np.asarray(x)
    a = _usable(a)
    name = a.dtype.name
    if name in _BITS:
        return torch.from_numpy(a.view(_BITS[name])).view(getattr(torch, name))
    return torch.from_numpy(a)


def _number(x: Any) -> np.ndarray:
    """A Python number as PyTorch's collation makes it: float32 and int64."""
    return np.array(x, np.float32 if isinstance(x, float) else np.complex64 if isinstance(x, complex) else np.int64)


def _mapping(data: Mapping[Any, Any], convert: Callable[[Any], Any]) -> Any:
    items = {k: convert(v) for k, v in data.items()}
    if type(data) is dict:
        return items
    try:
        if isinstance(data, defaultdict):
            return type(data)(data.default_factory, items)
        return type(data)(items)  # type: ignore[call-arg]
    except (TypeError, ValueError):
        return items


def _packed(data: Any, convert: Callable[[Any], Any], ours: bool) -> Any:
    """A PackedSequence of the other framework."""
    frame = frameworks.load(frameworks.MINDTORCH if ours else frameworks.PYTORCH)
    return frame.nn.utils.rnn.PackedSequence(*map(convert, data))


def _sequence(data: Sequence[Any], convert: Callable[[Any], Any]) -> Any:
    items = [convert(v) for v in data]
    if isinstance(data, tuple):
        return type(data)(*items) if hasattr(data, "_fields") else tuple(items)
    if type(data) is list:
        return items
    try:
        return type(data)(items)  # type: ignore[call-arg]
    except (TypeError, ValueError):
        return items


def _walk(data: Any, leaf: Callable[[Any], Any], name: str) -> Any:
    def convert(x: Any) -> Any:
        if x is None or isinstance(x, (bool, str, bytes)):
            return x
        if is_tensor(x) or _is_mindspore(x):
            return leaf(x)
        if isinstance(x, (np.ndarray, np.generic)):
            # Texts, objects and dates have no tensors.
            return leaf(x) if x.dtype.kind in "biufc" or x.dtype.name in _BITS else x
        if isinstance(x, (int, float, complex)):
            return leaf(_number(x))
        if isinstance(x, Mapping):
            return _mapping(x, convert)
        if isinstance(x, tuple) and type(x).__name__ == "PackedSequence":
            return _packed(x, convert, leaf is _to_ours)
        if isinstance(x, Sequence) and not isinstance(x, (range, memoryview, bytearray)):
            return _sequence(x, convert)
        if isinstance(x, range):
            return _sequence(list(x), convert)
        raise TypeError(
            f"{name} takes tensors, NumPy arrays, numbers, texts, and mappings and sequences of these; "
            f"got {type(x).__module__}.{type(x).__qualname__}"
        )

    return convert(data)


def convert_to_ms_tensor(data: Any) -> Any:
    """``data`` with every PyTorch or MindSpore tensor and NumPy array in it as a mindtorch tensor of its shape and dtype.

    Memory is shared where a tensor can lie over it (not for read-only arrays, other devices, and MindSpore's own
    tensors, which hand out copies). Gradients are not followed. Floats become float32 tensors and ints int64 tensors
    without dimensions; bools, texts and None stay as they are. Dicts, lists, tuples and named tuples keep their types.
    TypeError for anything else, and for sparse, quantized or meta tensors. PyTorch need not be installed.
    """
    return _walk(data, _to_ours, "convert_to_ms_tensor")


def convert_to_torch_tensor(data: Any) -> Any:
    """The inverse of `convert_to_ms_tensor`: mindtorch and MindSpore tensors and arrays as tensors of the real PyTorch.

    ImportError when PyTorch is not installed and there is something to convert.
    """
    return _walk(data, _to_pytorch, "convert_to_torch_tensor")
