"""What the file formats share: bytes from a path, memory or open file; complex numbers as pairs; clean truth values."""

from __future__ import annotations

import io
import mmap
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np

from mindtorch.formats.files import atomic_write

Source = Any
"""A path, bytes-like memory, or a binary file open for reading."""

_PIECE = 16 << 20
COMPLEX = ("refuse", "pairs")
_MARKS: dict[Any, str] = {np.dtype(np.complex64): "@complex64", np.dtype(np.complex128): "@complex128"}


class _Map(mmap.mmap):
    """A read-only map made here: nothing is lost when its pages are given back."""


@contextmanager
def opened(f: Source) -> Iterator[memoryview]:
    """All bytes of ``f``. A path is mapped, so only what is touched is read; RuntimeError when the file is empty."""
    if isinstance(f, (str, os.PathLike)):
        with open(f, "rb") as file:
            if os.fstat(file.fileno()).st_size == 0:
                raise RuntimeError(f"{os.fspath(f)}: the file is empty")
            mapped = _Map(file.fileno(), 0, access=mmap.ACCESS_READ)
        view = memoryview(mapped)
        try:
            yield view
        finally:
            # Slices may live on in an exception's traceback or in arrays; the map then goes with the last of them.
            with suppress(BufferError):
                view.release()
                mapped.close()
        return
    data = memoryview(f if isinstance(f, (bytes, bytearray, memoryview)) else f.read()).cast("B")
    if not len(data):
        raise RuntimeError("the file is empty")
    yield data


@contextmanager
def target(f: Any) -> Iterator[Any]:
    """A binary file to write to: ``f`` itself, or one that becomes the path ``f`` when the block ends well."""
    if isinstance(f, (str, os.PathLike)):
        with atomic_write(os.fspath(f)) as file:
            yield file
    elif isinstance(f, io.IOBase) or hasattr(f, "write"):
        yield f
    else:
        raise TypeError(f"expected a path or a binary file to write to, got {type(f).__name__}")


def release(data: memoryview, start: int, end: int) -> None:
    """Say that a part of a mapped file has been read: its pages need no memory any more. Others are left alone."""
    mapped = data.obj
    if isinstance(mapped, _Map) and hasattr(mmap, "MADV_DONTNEED") and len(mapped) >= end:
        start, end = -(-start // mmap.PAGESIZE) * mmap.PAGESIZE, end // mmap.PAGESIZE * mmap.PAGESIZE
        if end > start:
            mapped.madvise(mmap.MADV_DONTNEED, start, end - start)


def copy_into(flat: np.ndarray, data: memoryview, start: int) -> None:
    """Fill ``flat`` with the bytes of ``data`` from ``start`` on, giving a map's pages back on the way."""
    for at in range(0, len(flat), _PIECE):
        end = min(at + _PIECE, len(flat))
        flat[at:end] = np.frombuffer(data[start + at : start + end], np.uint8)
        release(data, start + at, start + end)


def truth(flat: np.ndarray) -> np.ndarray:
    """Bytes of a bool tensor with every value 0 or 1, as NumPy relies on."""
    return flat if flat.size == 0 or flat.max() <= 1 else (flat != 0).view(np.uint8)


def as_pairs(values: Mapping[str, Any]) -> dict[str, Any]:
    """Complex arrays as real ones with a last dimension of 2, their dtype in the name: ``w`` becomes ``w@complex64``."""
    result: dict[str, Any] = {}
    for name, value in values.items():
        mark = _MARKS.get(value.dtype) if isinstance(value, np.ndarray) else None
        if mark is not None:
            real = np.float32 if value.dtype == np.complex64 else np.float64
            flat = np.ascontiguousarray(value).reshape(-1)
            name, value = name + mark, flat.view(real).reshape(*value.shape, 2)
        result[name] = value
    return result


def from_pairs(values: Mapping[str, Any]) -> dict[str, Any]:
    """Undo `as_pairs`."""
    result: dict[str, Any] = {}
    for name, value in values.items():
        for dtype, mark in _MARKS.items():
            real = np.float32 if dtype == np.complex64 else np.float64
            if (
                name.endswith(mark)
                and isinstance(value, np.ndarray)
                and value.dtype == real
                and value.shape[-1:] == (2,)
            ):
                name = name[: -len(mark)]
                value = np.ascontiguousarray(value).reshape(-1).view(dtype).reshape(value.shape[:-1])
                break
        result[name] = value
    return result


def shaped(flat: np.ndarray, dtype: np.dtype[Any], shape: tuple[int, ...], name: str) -> np.ndarray:
    """Flat bytes as an array; RuntimeError for sizes NumPy cannot index (possible when one of them is 0)."""
    try:
        return flat.view(dtype).reshape(shape)
    except ValueError:
        raise RuntimeError(f"the file is corrupted: tensor {name!r} cannot have the shape {shape}") from None
