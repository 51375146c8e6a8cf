"""The safetensors format: eight bytes of length, a JSON header naming types, shapes and offsets, then the raw tensors."""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from mindtorch.formats.source import Source, copy_into, opened, shaped, target, truth

# In the order of the original's enumeration: files are laid out from the last of these to the first, then by name.
TYPES: dict[str, np.dtype[Any]] = {
    "BOOL": np.dtype(np.bool_),
    "U8": np.dtype(np.uint8),
    "I8": np.dtype(np.int8),
    "F8_E5M2": np.dtype(ml_dtypes.float8_e5m2),
    "F8_E4M3": np.dtype(ml_dtypes.float8_e4m3fn),
    "F8_E4M3FNUZ": np.dtype(ml_dtypes.float8_e4m3fnuz),
    "F8_E5M2FNUZ": np.dtype(ml_dtypes.float8_e5m2fnuz),
    "I16": np.dtype(np.int16),
    "U16": np.dtype(np.uint16),
    "F16": np.dtype(np.float16),
    "BF16": np.dtype(ml_dtypes.bfloat16),
    "I32": np.dtype(np.int32),
    "U32": np.dtype(np.uint32),
    "F32": np.dtype(np.float32),
    "C64": np.dtype(np.complex64),
    "F64": np.dtype(np.float64),
    "I64": np.dtype(np.int64),
    "U64": np.dtype(np.uint64),
}
"""NumPy type of every dtype name of the format that NumPy (with ml_dtypes) has."""

_ORDER = {name: i for i, name in enumerate(TYPES)}
_NAMES = {dtype: name for name, dtype in TYPES.items()}
_BITS = {"F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "F8_E8M0": 8}
"""Types that files may have and arrays cannot: bits of one element."""

MAX_HEADER = 100_000_000
_MAX_DIMS = 64


class SafetensorError(RuntimeError):
    """The file is no safetensors file, or a broken one."""


@dataclass(frozen=True)
class Entry:
    """One tensor of a file; ``start`` and ``end`` count from the end of the header."""

    name: str
    kind: str
    shape: tuple[int, ...]
    start: int
    end: int

    @property
    def nbytes(self) -> int:
        """Bytes of the values."""
        return self.end - self.start


def _broken(why: str) -> SafetensorError:
    return SafetensorError(f"the safetensors file is corrupted: {why}")


# ------------------------------------------------------------------------------------------ the header


def _no_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        names = [k for k, _ in pairs]
        raise _broken(f"the header names {next(k for k in names if names.count(k) > 1)!r} twice")
    return result


def _json(text: bytes) -> dict[str, Any]:
    # An honest header has one object and two lists per tensor and little else. Text made of brackets would become
    # some thirty times its size in memory, so it is turned away before it is parsed.
    tensors = text.count(b'"data_offsets"')
    if text.count(b"{") > tensors + 2 + 100 or text.count(b"[") > 2 * tensors + 100 or re.search(rb"\d{25}", text):
        # Names and metadata may contain brackets and digits: only then is it worth looking again, without them.
        bare = re.sub(rb'"(?:[^"\\]|\\.)*"', b"", text)
        if bare.count(b"{") > tensors + 2 or bare.count(b"[") > 2 * tensors or re.search(rb"\d{25}", bare):
            raise _broken("the header is no list of tensors")
    try:
        header = json.loads(text.decode(), object_pairs_hook=_no_twins)
    except UnicodeDecodeError:
        raise _broken("the header is no UTF-8 text") from None
    except (ValueError, RecursionError) as e:
        raise _broken(f"the header is no JSON ({e})") from None
    if not isinstance(header, dict):
        raise _broken("the header is no JSON object")
    return header


def _is_count(n: Any) -> bool:
    return type(n) is int and 0 <= n < 1 << 62


def _entry(name: str, spec: Any) -> Entry:
    if not isinstance(spec, dict) or set(spec) != {"dtype", "shape", "data_offsets"}:
        raise _broken(f"tensor {name!r} needs dtype, shape and data_offsets, and nothing else")
    kind, shape, offsets = spec["dtype"], spec["shape"], spec["data_offsets"]
    if not isinstance(kind, str) or (kind not in TYPES and kind not in _BITS):
        raise SafetensorError(f"the safetensors file holds {name!r} of the unknown dtype {kind!r}")
    if not isinstance(shape, list) or len(shape) > _MAX_DIMS or not all(map(_is_count, shape)):
        raise _broken(f"tensor {name!r} has an impossible shape")
    if not isinstance(offsets, list) or len(offsets) != 2 or not all(map(_is_count, offsets)):
        raise _broken(f"tensor {name!r} has impossible offsets")
    count = 1
    for n in shape:
        count *= n
    bits = count * (_BITS[kind] if kind in _BITS else 8 * TYPES[kind].itemsize)
    start, end = offsets
    if bits % 8 or (end - start) * 8 != bits:
        raise _broken(f"tensor {name!r} of shape {shape} and dtype {kind} does not have {end - start} bytes")
    return Entry(name, kind, tuple(shape), start, end)


def parse(data: memoryview) -> tuple[dict[str, Entry], dict[str, str], int]:
    """Entries by name (in the order of their data), metadata, and where the data starts. `SafetensorError` if broken.

    Tensors must follow each other without gap or overlap and fill the file exactly.
    """
    if len(data) < 8:
        raise _broken("it has less than the eight bytes of the header's length")
    (size,) = struct.unpack("<Q", data[:8])
    if size > MAX_HEADER:
        raise _broken(f"a header of {size} bytes is larger than the allowed {MAX_HEADER}")
    if size > len(data) - 8:
        raise _broken(f"a header of {size} bytes where {len(data) - 8} are left; the file is truncated")
    if size == 0 or data[8:9] != b"{":
        raise _broken("the header does not start with '{'")
    header = _json(bytes(data[8 : 8 + size]))
    metadata = header.pop("__metadata__", None) or {}
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        raise _broken("the metadata are not texts")
    entries = sorted((_entry(k, v) for k, v in header.items()), key=lambda e: (e.start, e.end))
    at = 0
    for e in entries:
        if e.start != at:
            raise _broken(
                f"the data of {e.name!r} {'overlap' if e.start < at else 'leave a gap behind'} the tensor before"
            )
        at = e.end
    if at != len(data) - 8 - size:
        raise _broken(f"the tensors have {at} bytes, the file has {len(data) - 8 - size}; it may be truncated")
    return {e.name: e for e in entries}, metadata, 8 + size


# ------------------------------------------------------------------------------------------ reading


def array_of(data: memoryview, base: int, entry: Entry, copy: bool = True) -> np.ndarray:
    """The values of an entry: a fresh array, or without ``copy`` a read-only view where alignment allows one.

    `SafetensorError` for types that arrays cannot have (4 and 6 bits, bare exponents).
    """
    if entry.kind in _BITS:
        raise SafetensorError(f"tensor {entry.name!r} has dtype {entry.kind}, which mindtorch and NumPy do not have")
    dtype = TYPES[entry.kind]
    flat = np.frombuffer(data[base + entry.start : base + entry.end], np.uint8)
    if copy or flat.ctypes.data % dtype.itemsize:
        flat = np.empty(entry.nbytes, np.uint8)
        copy_into(flat, data, base + entry.start)
    if entry.kind == "BOOL":
        flat = truth(flat)
    return shaped(flat, dtype, entry.shape, entry.name)


def read(f: Source, progress: Callable[[int], Any] | None = None) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """The tensors of ``f`` (path, bytes or binary file) as fresh arrays, in the order of their names, and metadata."""
    result: dict[str, np.ndarray] = {}
    with opened(f) as data:
        entries, metadata, base = parse(data)
        for name in sorted(entries):
            result[name] = array_of(data, base, entries[name])
            if progress is not None:
                progress(entries[name].nbytes)
    return result, metadata


# ------------------------------------------------------------------------------------------ writing


def kind_of(name: str, dtype: np.dtype[Any]) -> str:
    """The format's name of a dtype; TypeError when it has none."""
    if dtype not in _NAMES:
        raise TypeError(f"safetensors cannot hold {name!r} of dtype {dtype}")
    return _NAMES[dtype]


def header_of(values: Mapping[str, np.ndarray], metadata: Mapping[str, str] | None) -> tuple[bytes, list[str]]:
    """The bytes before the data, and the names in the order of the data."""
    for key, text in (metadata or {}).items():
        if not isinstance(key, str) or not isinstance(text, str):
            raise TypeError(f"safetensors metadata must be texts, got {key!r}: {text!r}")
    kinds = {name: kind_of(name, np.asarray(v).dtype) for name, v in values.items()}
    if "__metadata__" in kinds:
        raise ValueError("a tensor cannot be called '__metadata__' in a safetensors file")
    names = sorted(values, key=lambda n: (-_ORDER[kinds[n]], n.encode()))
    header: dict[str, Any] = {"__metadata__": dict(metadata)} if metadata is not None else {}
    at = 0
    for name in names:
        v = values[name]
        header[name] = {"dtype": kinds[name], "shape": list(v.shape), "data_offsets": [at, at + v.nbytes]}
        at += v.nbytes
    head = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    head += b" " * (-len(head) % 8)
    return struct.pack("<Q", len(head)) + head, names


def write(
    f: Any,
    values: Mapping[str, np.ndarray],
    metadata: Mapping[str, str] | None = None,
    progress: Callable[[int], Any] | None = None,
) -> None:
    """Write arrays to ``f``, a path (replaced when all is written) or a binary file.

    TypeError for dtypes the format lacks (complex128, text) and metadata that are not texts.
    """
    head, names = header_of(values, metadata)
    with target(f) as file:
        file.write(head)
        for name in names:
            # Reading the bytes through uint8: memoryview does not know bfloat16.
            flat = np.ascontiguousarray(values[name]).reshape(-1).view(np.uint8)
            file.write(memoryview(flat))
            if progress is not None:
                progress(flat.nbytes)
