"""Writing NumPy arrays as PyTorch checkpoints: PyTorch finds tensors in the file. Arrays that overlap stay views."""

from __future__ import annotations

import numbers
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from mindtorch.formats.pth import Hooks, save
from mindtorch.formats.pth_pickle import Global
from mindtorch.formats.pth_storage import DTYPES, STORAGE_OF_DTYPE, StorageData
from mindtorch.formats.source import target

_TORCH_NAMES = {dtype: name for name, dtype in DTYPES.items()}


# The pickler writes functions by name: these two stand for the functions of that name in torch._utils.
def _rebuild_tensor_v2(*args: Any) -> None:
    raise TypeError("only the name of this function is ever used, in files for PyTorch")


def _rebuild_tensor_v3(*args: Any) -> None:
    raise TypeError("only the name of this function is ever used, in files for PyTorch")


class _Tensor:
    """A tensor to be pickled: a view of a storage."""

    def __init__(self, array: np.ndarray, storage: StorageData, offset: int) -> None:
        self.array = array
        self.storage = storage
        self.offset = offset

    def __reduce__(self) -> Any:
        dtype = self.array.dtype
        stride = tuple(s // dtype.itemsize for s in self.array.strides)
        args = (self.storage, self.offset, self.array.shape, stride, False, OrderedDict())
        if self.storage.name == "UntypedStorage":
            return _rebuild_tensor_v3, (*args, Global("torch", _TORCH_NAMES[dtype]))
        return _rebuild_tensor_v2, args


class _ArrayHooks(Hooks):
    def storage_of(self, obj: Any) -> StorageData | None:
        """The storage itself."""
        return obj if isinstance(obj, StorageData) else None

    def rename(self, module: str) -> str:
        """Where PyTorch has the functions above."""
        return "torch._utils" if module == __name__ else module


def _usable(array: np.ndarray) -> bool:
    """Whether PyTorch can have this view: strides that are whole and not negative."""
    item = array.dtype.itemsize
    return all(s >= 0 and s % item == 0 for s in array.strides)


def _groups(arrays: dict[str, np.ndarray]) -> list[list[str]]:
    """Names of arrays whose memory overlaps, together."""
    spans = []
    for name, a in arrays.items():
        start, end = np.byte_bounds(a) if a.size else (a.ctypes.data, a.ctypes.data)
        spans.append((start, end, name))
    spans.sort(key=lambda s: s[:2])
    groups: list[list[str]] = []
    reach = -1
    for start, end, name in spans:
        if groups and start < reach:
            groups[-1].append(name)
            reach = max(reach, end)
        else:
            groups.append([name])
            reach = end
    return groups


def _tensors(arrays: dict[str, np.ndarray]) -> dict[str, _Tensor]:
    result: dict[str, _Tensor] = {}
    for i, names in enumerate(_groups(arrays)):
        group = {n: arrays[n] for n in names}
        dtypes = {a.dtype for a in group.values()}
        item = next(iter(dtypes)).itemsize
        lo = min(a.ctypes.data for a in group.values())
        whole = len(group) > 1 and len(dtypes) == 1 and all(_usable(a) for a in group.values())
        if not whole or any((a.ctypes.data - lo) % item for a in group.values()):
            for n, a in group.items():
                flat = np.ascontiguousarray(a)
                result[n] = _Tensor(flat.reshape(a.shape), _storage(flat, f"{i}.{n}"), 0)
            continue
        hi = max(np.byte_bounds(a)[1] for a in group.values())
        span = np.lib.stride_tricks.as_strided(group[names[0]], ((hi - lo) // item,), (item,))
        storage = _storage(span, str(i))
        for n, a in group.items():
            result[n] = _Tensor(a, storage, (a.ctypes.data - lo) // item)
    return result


def _storage(flat: np.ndarray, key: str) -> StorageData:
    name = STORAGE_OF_DTYPE.get(flat.dtype, "UntypedStorage")
    return StorageData(name, flat.reshape(-1).view(np.uint8), "cpu", key)


def _plain(name: str, value: Any) -> Any:
    """Numbers and texts as Python's own, so that ``torch.load`` needs to trust no other class."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (str, bool, numbers.Number)):
        return value
    raise TypeError(f"a checkpoint for PyTorch cannot hold {name!r} of type {type(value).__name__}")


class _Counting:
    """A file that reports what is written to it."""

    def __init__(self, file: Any, progress: Callable[[int], Any]) -> None:
        self.file = file
        self.progress = progress

    def write(self, data: Any) -> int:
        n = self.file.write(data)
        self.progress(memoryview(data).nbytes)
        return n

    def flush(self) -> None:
        self.file.flush()


def write(f: Any, values: Mapping[str, Any], progress: Callable[[int], Any] | None = None) -> None:
    """Write ``{name: array, number or text}`` to ``f`` (path or binary file) as ``torch.load`` reads it: an OrderedDict.

    Arrays that share memory become tensors that share a storage. TypeError for what PyTorch has no type for.
    """
    arrays = {k: v for k, v in values.items() if isinstance(v, np.ndarray)}
    for name, a in arrays.items():
        if a.dtype not in _TORCH_NAMES:
            raise TypeError(f"a checkpoint for PyTorch cannot hold {name!r}: PyTorch has no dtype for {a.dtype}")
    tensors = _tensors(arrays)
    obj = OrderedDict((k, tensors[k] if k in tensors else _plain(k, v)) for k, v in values.items())
    if progress is None:
        save(obj, f, _ArrayHooks())
        return
    with target(f) as file:
        save(obj, _Counting(file, progress), _ArrayHooks())
