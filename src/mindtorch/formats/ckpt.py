"""MindSpore's ``.ckpt`` files, read and written without MindSpore.

A file is one protobuf message: a list of values, each a name and a tensor (dims, type name, raw little-endian bytes).
Tensors above 512 MiB are written as several values in a row with the same name. ``crc_num`` and ten bytes may follow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np

from mindtorch.formats.checksum import crc32
from mindtorch.formats.source import COMPLEX, Source, as_pairs, copy_into, from_pairs, opened, shaped, target, truth

TYPES: dict[str, np.dtype[Any]] = {
    "Bool": np.dtype(np.bool_),
    "Int8": np.dtype(np.int8),
    "UInt8": np.dtype(np.uint8),
    "Int16": np.dtype(np.int16),
    "UInt16": np.dtype(np.uint16),
    "Int32": np.dtype(np.int32),
    "UInt32": np.dtype(np.uint32),
    "Int64": np.dtype(np.int64),
    "UInt64": np.dtype(np.uint64),
    "Float16": np.dtype(np.float16),
    "BFloat16": np.dtype(ml_dtypes.bfloat16),
    "Float32": np.dtype(np.float32),
    "Float64": np.dtype(np.float64),
    "Complex64": np.dtype(np.complex64),
    "Complex128": np.dtype(np.complex128),
}
"""NumPy type of every tensor type that is read. MindSpore itself writes complex numbers but cannot read them."""

_NAMES = {v: k for k, v in TYPES.items() if not k.startswith("Complex")}
_SLICE = 512 << 20
_CRC = b"crc_num"
_MAX_DIMS = 64


def _broken(why: str) -> RuntimeError:
    return RuntimeError(f"the MindSpore checkpoint is corrupted: {why}")


@dataclass
class Entry:
    """One tensor of a file: where its bytes are."""

    name: str
    kind: str
    shape: tuple[int, ...]
    pieces: list[tuple[int, int]] = field(default_factory=list)

    @property
    def nbytes(self) -> int:
        """Bytes of the values."""
        return sum(b - a for a, b in self.pieces)


# ------------------------------------------------------------------------------------------ the wire format


def _varint(data: memoryview, at: int, end: int) -> tuple[int, int]:
    """A base-128 number and the position behind it."""
    value = shift = 0
    while True:
        if at >= end:
            raise _broken("it ends within a number; the file is truncated")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, at
        shift += 7
        if shift >= 70:
            raise _broken("a number has more than ten bytes")


def _fields(data: memoryview, at: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """``(number, wire type, start, end)`` of every field of a message; for varints start is the value itself."""
    while at < end:
        key, at = _varint(data, at, end)
        number, wire = key >> 3, key & 7
        if number == 0 or number >= 1 << 29:
            raise _broken(f"field number {number} cannot be")
        if wire == 0:
            value, at = _varint(data, at, end)
            yield number, wire, value, at
            continue
        if wire == 2:
            size, at = _varint(data, at, end)
        elif wire in (1, 5):
            size = 8 if wire == 1 else 4
        else:
            raise _broken(f"wire type {wire} does not occur in checkpoints")
        if size > end - at:
            raise _broken(f"a field of {size} bytes where {end - at} are left; the file is truncated")
        yield number, wire, at, at + size
        at += size


def _text(data: memoryview, start: int, end: int, what: str) -> str:
    try:
        return bytes(data[start:end]).decode()
    except UnicodeDecodeError:
        raise _broken(f"{what} is no UTF-8 text") from None


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


def _tensor(data: memoryview, at: int, end: int, name: str) -> Entry:
    dims: list[int] = []
    kind: str | None = None
    piece: tuple[int, int] | None = None
    for number, wire, a, b in _fields(data, at, end):
        if number == 1 and wire == 0:
            dims.append(_signed(a))
        elif number == 1 and wire == 2:  # packed, as other protobuf writers may do
            while a < b and len(dims) <= _MAX_DIMS:
                value, a = _varint(data, a, b)
                dims.append(_signed(value))
        elif number == 2 and wire == 2:
            kind = _text(data, a, b, f"the type of {name!r}")
        elif number == 3 and wire == 2:
            piece = (a, b)
        if len(dims) > _MAX_DIMS:
            raise _broken(f"tensor {name!r} has more than {_MAX_DIMS} dimensions")
    if kind is None or piece is None or min(dims, default=0) < 0:
        raise _broken(f"tensor {name!r} lacks its type or its values, or has a negative size")
    return Entry(name, kind, tuple(dims), [piece])


def _value(data: memoryview, at: int, end: int) -> Entry:
    name: str | None = None
    found: tuple[int, int] | None = None
    for number, wire, a, b in _fields(data, at, end):
        if number == 1 and wire == 2:
            name = _text(data, a, b, "a name")
        elif number == 2 and wire == 2:
            found = (a, b)
        elif number == 3 and wire == 2:
            raise RuntimeError(f"the MindSpore checkpoint holds the MapTensor {name!r}; a hash table has no array form")
    if name is None or found is None:
        raise _broken("a value without name or tensor")
    return _tensor(data, *found, name)


def _body(data: memoryview, check: bool) -> memoryview:
    """The message without the checksum behind it, which is verified when there is one."""
    if len(data) < 17 or data[-17:-10] != _CRC:
        return data
    stored = int.from_bytes(data[-10:], "big")
    if check and crc32(data[:-17]) != stored:
        raise _broken("its checksum does not match its contents")
    return data[:-17]


def scan(data: memoryview, check: bool = True) -> dict[str, Entry]:
    """What a file holds, by name. ``check`` verifies the checksum, if any. RuntimeError for a broken file."""
    body = _body(data, check)
    entries: dict[str, Entry] = {}
    last: Entry | None = None
    for number, wire, a, b in _fields(body, 0, len(body)):
        if number != 1 or wire != 2:
            raise _broken(f"field {number} does not occur in checkpoints; the file may be encrypted")
        new = _value(body, a, b)
        if last is not None and last.name == new.name:
            if (last.kind, last.shape) != (new.kind, new.shape):
                raise _broken(f"the slices of {new.name!r} differ in type or shape")
            last.pieces += new.pieces
            continue
        if new.name in entries:
            raise _broken(f"it holds {new.name!r} twice")
        entries[new.name] = last = new
    for entry in entries.values():
        _check_size(entry)
    return entries


def _check_size(entry: Entry) -> None:
    if entry.kind == "str":
        if entry.nbytes % 4:
            raise _broken(f"the text {entry.name!r} has {entry.nbytes} bytes, which are no UTF-32")
        return
    if entry.kind not in TYPES:
        raise RuntimeError(
            f"the MindSpore checkpoint holds {entry.name!r} of type {entry.kind!r}, which NumPy has no type for"
        )
    item = TYPES[entry.kind].itemsize
    if entry.shape == (0,) and entry.nbytes == item:  # how older releases wrote a number
        entry.shape = ()
    count = 1
    for n in entry.shape:
        count *= n
        if n > 1 << 48 or count > 1 << 62:
            raise _broken(f"tensor {entry.name!r} of shape {entry.shape} is larger than any memory")
    if count * item != entry.nbytes:
        raise _broken(f"tensor {entry.name!r} of shape {entry.shape} needs {count * item} bytes, has {entry.nbytes}")


# ------------------------------------------------------------------------------------------ reading


def _load(data: memoryview, entry: Entry) -> Any:
    if entry.kind == "str":
        text = b"".join(bytes(data[a:b]) for a, b in entry.pieces)
        try:
            return text.decode("utf-32-le")
        except UnicodeDecodeError:
            raise _broken(f"the text {entry.name!r} is no UTF-32") from None
    flat = np.empty(entry.nbytes, np.uint8)
    at = 0
    for a, b in entry.pieces:
        copy_into(flat[at : at + b - a], data, a)
        at += b - a
    if entry.kind == "Bool":
        flat = truth(flat)
    return shaped(flat, TYPES[entry.kind], entry.shape, entry.name)


def read(f: Source, progress: Callable[[int], Any] | None = None, check: bool = True) -> dict[str, Any]:
    """The tensors of a file (path, bytes or binary file) as fresh arrays, texts as str, in the file's order.

    Complex numbers that `write` stored as pairs come back as such. RuntimeError for a broken or unreadable file.
    """
    with opened(f) as data:
        result: dict[str, Any] = {}
        for entry in scan(data, check).values():
            result[entry.name] = _load(data, entry)
            if progress is not None:
                progress(entry.nbytes)
    return from_pairs(result)


# ------------------------------------------------------------------------------------------ writing


def _number(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _block(number: int, size: int) -> bytes:
    return _number(number << 3 | 2) + _number(size)


def _record(name: str, dims: tuple[int, ...], kind: str, size: int) -> bytes:
    """Everything of a value that comes before its ``size`` raw bytes."""
    tensor = b"".join(b"\x08" + _number(n) for n in dims)
    tensor += _block(2, len(kind)) + kind.encode() + _block(3, size)
    tag = name.encode()
    value = _block(1, len(tag)) + tag + _block(2, len(tensor) + size) + tensor
    return _block(1, len(value) + size) + value


def _plain(name: str, value: Any) -> tuple[tuple[int, ...], str, np.ndarray]:
    """Dims, type name and flat bytes of anything a file can hold."""
    if isinstance(value, str):
        return (0,), "str", np.frombuffer(value.encode("utf-32-le"), np.uint8)
    if isinstance(value, (bool, int, float)):
        value = np.asarray(value)
    if not isinstance(value, (np.ndarray, np.generic)):
        raise TypeError(f"a MindSpore checkpoint cannot hold {name!r} of type {type(value).__name__}")
    array = np.asarray(value)
    if array.dtype not in _NAMES:
        raise TypeError(
            f"a MindSpore checkpoint cannot hold {name!r}: MindSpore reads no {array.dtype}{_advice(array)}"
        )
    flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    return array.shape, _NAMES[array.dtype], flat


def _advice(array: np.ndarray) -> str:
    if array.dtype.kind == "c":
        return "; store it as pairs of real numbers (complex='pairs', on the command line --complex pairs)"
    return "; convert it to float32 or float16 first" if array.dtype.itemsize == 1 else ""


def write(
    f: Any,
    values: Mapping[str, Any],
    *,
    crc: bool = False,
    complex: str = "refuse",
    progress: Callable[[int], Any] | None = None,
) -> None:
    """Write arrays, numbers and texts to ``f``, a path (replaced when all is written) or a binary file.

    ``crc`` adds the checksum that ``mindspore.load_checkpoint(crc_check=True)`` verifies. ``complex="pairs"`` stores a
    complex tensor ``w`` as real ``w@complex64`` (or 128) with a last dimension of 2; "refuse" raises TypeError, because
    MindSpore cannot read complex numbers. TypeError for anything else MindSpore has no type for.
    """
    if complex not in COMPLEX:
        raise ValueError(f"complex must be 'refuse' or 'pairs', got {complex!r}")
    if complex == "pairs":
        values = as_pairs(values)
    plain = {str(k): _plain(str(k), v) for k, v in values.items()}
    total = 0
    with target(f) as file:
        for name, (dims, kind, flat) in plain.items():
            # MindSpore joins neighbours of one name, so even an empty tensor needs one record.
            for at in range(0, max(len(flat), 1), _SLICE):
                piece = memoryview(flat[at : at + _SLICE])
                head = _record(name, dims, kind, len(piece))
                for part in (head, piece):
                    file.write(part)
                    total = crc32(part, total) if crc else 0
                if progress is not None:
                    progress(len(piece))
        if crc:
            file.write(_CRC + total.to_bytes(10, "big"))
