"""Storages of a PyTorch checkpoint as flat NumPy memory: type names, element types, checked strided views."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from operator import index
from typing import Any

import ml_dtypes
import numpy as np

STORAGE_TYPES: dict[str, np.dtype[Any]] = {
    "DoubleStorage": np.dtype(np.float64),
    "FloatStorage": np.dtype(np.float32),
    "HalfStorage": np.dtype(np.float16),
    "BFloat16Storage": np.dtype(ml_dtypes.bfloat16),
    "LongStorage": np.dtype(np.int64),
    "IntStorage": np.dtype(np.int32),
    "ShortStorage": np.dtype(np.int16),
    "CharStorage": np.dtype(np.int8),
    "ByteStorage": np.dtype(np.uint8),
    "BoolStorage": np.dtype(np.bool_),
    "ComplexFloatStorage": np.dtype(np.complex64),
    "ComplexDoubleStorage": np.dtype(np.complex128),
    "QInt8Storage": np.dtype(np.int8),
    "QUInt8Storage": np.dtype(np.uint8),
    "QInt32Storage": np.dtype(np.int32),
    "QUInt4x2Storage": np.dtype(np.uint8),
    "QUInt2x4Storage": np.dtype(np.uint8),
    "UntypedStorage": np.dtype(np.uint8),
}
"""Element type in memory of every storage class a checkpoint can name."""

DTYPES: dict[str, np.dtype[Any]] = {
    "float64": np.dtype(np.float64),
    "float32": np.dtype(np.float32),
    "float16": np.dtype(np.float16),
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
    "int64": np.dtype(np.int64),
    "int32": np.dtype(np.int32),
    "int16": np.dtype(np.int16),
    "int8": np.dtype(np.int8),
    "uint8": np.dtype(np.uint8),
    "uint16": np.dtype(np.uint16),
    "uint32": np.dtype(np.uint32),
    "uint64": np.dtype(np.uint64),
    "bool": np.dtype(np.bool_),
    "complex64": np.dtype(np.complex64),
    "complex128": np.dtype(np.complex128),
    "float8_e4m3fn": np.dtype(ml_dtypes.float8_e4m3fn),
    "float8_e5m2": np.dtype(ml_dtypes.float8_e5m2),
    "float8_e4m3fnuz": np.dtype(ml_dtypes.float8_e4m3fnuz),
    "float8_e5m2fnuz": np.dtype(ml_dtypes.float8_e5m2fnuz),
    "float8_e8m0fnu": np.dtype(ml_dtypes.float8_e8m0fnu),
}
"""NumPy type of every torch dtype name that can be held."""

RAW_DTYPES = {
    **dict.fromkeys((n for n in DTYPES if n.startswith("float8")), 1),
    **dict.fromkeys(("float4_e2m1fn_x2", "bits8", "bits1x8", "bits2x4", "bits4x2"), 1),
    "bits16": 2,
}
"""Bytes of an element of the dtypes without arithmetic; the layer above may take them as plain bytes."""

STORAGE_OF_DTYPE = {
    np_dtype: name for name, np_dtype in reversed(list(STORAGE_TYPES.items())) if not name.startswith(("Q", "Untyped"))
}
"""Storage class that a tensor of a NumPy dtype is saved with; dtypes without one use UntypedStorage."""


@dataclass(eq=False)
class StorageData:
    """One storage as read from, or to be written to, a file."""

    name: str
    data: np.ndarray
    location: str = "cpu"
    key: str = ""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Element type."""
        return STORAGE_TYPES[self.name]

    def __len__(self) -> int:
        return self.data.nbytes // self.dtype.itemsize


def as_text(value: Any) -> str:
    """A key or location of a file as text: old files have bytes there, hostile ones anything."""
    if type(value) is str and len(value) < 1000:
        return value
    return value.decode("ascii", "replace") if isinstance(value, bytes) else str(value)[:1000]


def type_name(cls: Any) -> str:
    """The name of a storage class found in a pickle; UnpicklingError when it is not one."""
    name = cls if isinstance(cls, str) else getattr(cls, "__name__", "")
    if name not in STORAGE_TYPES:
        raise pickle.UnpicklingError(f"the file names {name or cls!r} as a storage type, which is none")
    return name


def strided(
    data: np.ndarray, dtype: np.dtype[Any], offset: int, size: Sequence[int], stride: Sequence[int]
) -> np.ndarray:
    """The view ``(offset, size, stride)``, counted in elements, over the flat bytes ``data``.

    Refuses a view that leaves the storage (RuntimeError): the numbers come from a file.
    """
    try:
        offset, size, stride = index(offset), tuple(map(index, size)), tuple(map(index, stride))
    except TypeError:
        raise RuntimeError("the file describes an impossible tensor: a size, stride or offset is no integer") from None
    if len(size) != len(stride) or offset < 0 or min(size, default=0) < 0 or min(stride, default=0) < 0:
        raise RuntimeError(f"the file describes an impossible tensor: size {size}, stride {stride}, offset {offset}")
    item = dtype.itemsize
    count = data.nbytes // item
    last = offset
    for n, step in zip(size, stride):
        last += (n - 1) * step
    if 0 in size:
        last = offset - 1
    if last >= count:
        raise RuntimeError(
            f"the file describes a tensor that leaves its storage: size {size}, stride {stride}, offset {offset} "
            f"need {last + 1} elements of {dtype}, the storage has {count}"
        )
    if len(size) > 32:
        raise RuntimeError(f"the file describes a tensor of {len(size)} dimensions; 32 are possible")
    bytes_stride = tuple([s * item for s in stride])
    if 0 in size:
        return np.ndarray(size, dtype, buffer=data[:0], strides=bytes_stride)
    return np.ndarray(size, dtype, buffer=data, offset=offset * item, strides=bytes_stride)
