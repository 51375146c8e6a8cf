"""Checkpoints from before the zip container: the pickle stream (PyTorch 0.2 .. 1.5, or on request) and the tar."""

from __future__ import annotations

import io
import pickle
import struct
import sys
import tarfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from mindtorch.formats.pth_pickle import SafeUnpickler, UnknownGlobal
from mindtorch.formats.pth_storage import STORAGE_TYPES, StorageData, as_text, strided, type_name
from mindtorch.formats.pth_zip import read_into

MAGIC = 0x1950A86A20F9469CFC6C
PROTOCOL = 1001
_FORM = {"protocol_version": PROTOCOL, "little_endian": True, "type_sizes": {"short": 2, "int": 4, "long": 4}}
_BROKEN = (
    ArithmeticError, AttributeError, LookupError, MemoryError, OSError, RecursionError, TypeError, ValueError,
    struct.error, tarfile.TarError,
)  # fmt: skip

Unpickle = Callable[[Any, Callable[[Any], Any]], Any]
"""``(stream, persistent)`` -> the next object of the stream, read with the caller's rules."""


@contextmanager
def _parsing() -> Iterator[None]:
    """Nonsense in a file is a RuntimeError, however it is noticed."""
    try:
        yield
    except _BROKEN as e:
        raise RuntimeError(f"the checkpoint is corrupted: {type(e).__name__} {str(e)[:200]}") from e


def named(module: str, name: str) -> Any:
    """Storage classes by their name, everything else as a stand-in: for reading the outline of a file."""
    return name if name in STORAGE_TYPES else UnknownGlobal(module, name)


def _outline(stream: Any, persistent: Callable[[Any], Any]) -> Any:
    """The next object of the stream, in which nothing but plain containers and text is real. Runs nothing."""
    return SafeUnpickler(stream, named, persistent, encoding="bytes").load()


def _plain(stream: Any, what: str, kind: type) -> Any:
    def refuse(pid: Any) -> Any:
        raise pickle.UnpicklingError("the file is corrupted: a persistent id outside the main object")

    try:
        value = _outline(stream, refuse)
    except pickle.UnpicklingError as e:
        raise pickle.UnpicklingError(f"{what}: {e}") from e
    if not isinstance(value, kind):
        raise RuntimeError(
            f"Invalid magic number; corrupt file? ({what} is {type(value).__name__}, not {kind.__name__})"
        )
    return value


def _fill(stream: Any, data: np.ndarray, itemsize: int, key: str) -> None:
    """Read ``count`` and the elements of one storage into ``data``."""
    head = stream.read(8)
    if len(head) != 8:
        raise RuntimeError(f"the checkpoint is truncated: storage {key} is missing")
    count = struct.unpack("<q", head)[0]
    if count * itemsize != data.nbytes:
        raise RuntimeError(
            f"the checkpoint is corrupted: storage {key} has {count} elements, its pickle says otherwise"
        )
    got = read_into(stream, data)
    if got != data.nbytes:
        raise RuntimeError(f"the checkpoint is truncated: storage {key} has {got} of {data.nbytes} bytes")


class _Storages:
    """Answers the persistent ids of a stream: first with nothing, to learn sizes, then with the caller's storages."""

    def __init__(self, make: Callable[[StorageData], Any], limit: int) -> None:
        self.make = make
        self.limit = limit
        self.roots: dict[str, StorageData] = {}
        self.made: dict[str, Any] = {}

    def note(self, pid: Any) -> Any:
        """Learn of a storage; its memory is made when all sizes are known to fit into the file."""
        if not isinstance(pid, tuple) or not pid:
            raise pickle.UnpicklingError("the file is corrupted: a persistent id is no tuple")
        kind = as_text(pid[0])
        if kind == "module" and len(pid) > 1:
            return pid[1]
        if kind != "storage" or len(pid) != 6:
            raise pickle.UnpicklingError("the file is corrupted: it has an unknown persistent id")
        _, cls, key, location, count, view = pid
        name = type_name(cls)
        root = StorageData(name, np.empty(0, np.uint8), as_text(location), as_text(key))
        known = self.roots.setdefault(root.key, root)
        if known.name != name:
            raise pickle.UnpicklingError(f"the file is corrupted: storage {root.key} is both {known.name} and {name}")
        if known is root:
            size = count * root.dtype.itemsize if isinstance(count, int) else -1
            self.limit -= size
            if size < 0 or self.limit < 0:
                raise RuntimeError(f"the checkpoint is truncated: storage {root.key} is larger than the file")
            root.data = np.empty(size, np.uint8)
        if view is not None:
            _part(known, *view)
        return None

    def answer(self, pid: Any) -> Any:
        """What the pickle gets for a persistent id that `note` has seen."""
        if as_text(pid[0]) == "module":
            return pid[1]
        root, view = self.roots[as_text(pid[2])], pid[5]
        part = root if view is None else _part(root, *view)
        if part.key not in self.made:
            self.made[part.key] = self.make(part)
        return self.made[part.key]


def _part(root: StorageData, key: Any, offset: Any, length: Any) -> StorageData:
    """A storage that is a stretch of another one."""
    step = root.dtype.itemsize
    if offset < 0 or length < 0 or (offset + length) * step > root.data.nbytes:
        raise RuntimeError(f"the checkpoint is corrupted: view {as_text(key)} leaves its storage")
    return StorageData(root.name, root.data[offset * step : (offset + length) * step], root.location, as_text(key))


def read_stream(file: Any, unpickle: Unpickle, make: Callable[[StorageData], Any]) -> Any:
    """The object of a legacy stream. ``make`` turns a storage, filled, into the caller's class.

    The main object comes before its storages in the file, so its outline is read first.
    """
    with _parsing():
        if _plain(file, "magic number", int) != MAGIC:
            raise RuntimeError("Invalid magic number; corrupt file?")
        version = _plain(file, "protocol version", int)
        if version != PROTOCOL:
            raise RuntimeError(f"Invalid protocol version: {version}")
        _plain(file, "system information", dict)
        here = file.tell()
        file.seek(0, 2)
        storages = _Storages(make, file.tell() - here)
        file.seek(here)
        _outline(file, storages.note)
        filled = set()
        for key in _plain(file, "list of storages", list):
            root = storages.roots.get(as_text(key))
            if root is None or root.key in filled:
                raise RuntimeError(f"the checkpoint is corrupted: it stores {as_text(key)} twice, or for nothing")
            _fill(file, root.data, root.dtype.itemsize, root.key)
            filled.add(root.key)
        missing = sorted(storages.roots.keys() - filled)
        if missing:
            raise RuntimeError(f"the checkpoint is corrupted: storage {missing[0]} is missing")
        end = file.tell()
        file.seek(here)
    value = unpickle(file, storages.answer)
    file.seek(end)
    return value


def write_stream(file: Any, protocol: int, dump: Callable[[Any, Callable[..., Any]], None]) -> None:
    """Write a legacy stream; ``dump(file, pid_of)`` pickles, ``pid_of(marker, storage)`` makes persistent ids."""
    for head in (MAGIC, PROTOCOL, {**_FORM, "little_endian": sys.byteorder == "little"}):
        pickle.dump(head, file, protocol=protocol)
    kept: dict[str, StorageData] = {}

    def pid_of(marker: Any, data: StorageData) -> Any:
        kept.setdefault(data.key, data)
        return ("storage", marker, data.key, data.location, len(data), None)

    dump(file, pid_of)
    pickle.dump(sorted(kept), file, protocol=protocol)
    file.flush()
    for key in sorted(kept):
        file.write(struct.pack("<q", len(kept[key])))
        file.write(memoryview(np.ascontiguousarray(kept[key].data)))


def is_tar(file: Any) -> bool:
    """Whether ``file`` at its present position starts a tar archive; the position is kept."""
    here = file.tell()
    head = file.read(512)
    file.seek(here)
    return (len(head) == 512 and head[257:262] == b"ustar") or (len(head) == 512 and _old_tar(head))


def _old_tar(head: bytes) -> bool:
    try:
        total = int(head[148:156].strip(b" \0") or b"-1", 8)
    except ValueError:
        return False
    return total == sum(head[:148]) + 8 * 32 + sum(head[156:])


def read_tar(file: Any, unpickle: Unpickle, make_tensor: Callable[[np.ndarray, StorageData], Any]) -> Any:
    """The object of a tar checkpoint (PyTorch 0.1): members storages, tensors, pickle. Nothing is extracted to disk."""
    with _parsing():
        parts = _members(file)
        storages = _tar_storages(parts["storages"])
        tensors: dict[int, Any] = {}
        stream = parts["tensors"]
        for _ in range(_plain(stream, "number of tensors", int)):
            key, storage_id, _kind = _plain(stream, "tensor", tuple)
            (ndim,) = struct.unpack("<i", _exactly(stream, 4))
            _exactly(stream, 4)
            size = struct.unpack(f"<{ndim}q", _exactly(stream, 8 * ndim))
            stride = struct.unpack(f"<{ndim}q", _exactly(stream, 8 * ndim))
            (offset,) = struct.unpack("<q", _exactly(stream, 8))
            root = storages[storage_id]
            tensors[int(key)] = make_tensor(strided(root.data, root.dtype, offset, size, stride), root)

    def persistent(pid: Any) -> Any:
        if isinstance(pid, tuple) and pid:
            return pid[0]
        if not str(pid)[:20].isdecimal() or int(str(pid)[:20]) not in tensors:
            raise pickle.UnpicklingError("the file is corrupted: it names a tensor that it does not hold")
        return tensors[int(str(pid)[:20])]

    return unpickle(parts["pickle"], persistent)


def _members(file: Any) -> dict[str, io.BytesIO]:
    here = file.tell()
    file.seek(0, 2)
    length = file.tell()
    file.seek(here)
    parts = {}
    with tarfile.open(fileobj=file, mode="r:") as tar:
        for name in ("storages", "tensors", "pickle"):
            try:
                member = tar.getmember(name)
            except KeyError:
                raise RuntimeError(
                    f"the file is a tar archive but no PyTorch checkpoint: it has no member {name!r}"
                ) from None
            stream = tar.extractfile(member) if member.isreg() and not member.issparse() else None
            if stream is None or member.size > length:
                raise RuntimeError(f"the checkpoint is corrupted: its member {name!r} is no plain file")
            parts[name] = io.BytesIO(stream.read())
    return parts


def _tar_storages(stream: Any) -> dict[Any, StorageData]:
    storages: dict[Any, StorageData] = {}
    limit = len(stream.getbuffer())
    for _ in range(_plain(stream, "number of storages", int)):
        key, location, cls = _plain(stream, "storage", tuple)
        root = StorageData(type_name(cls), np.empty(0, np.uint8), as_text(location), as_text(key))
        size = struct.unpack("<q", _exactly(stream, 8))[0] * root.dtype.itemsize
        if not 0 <= size <= limit:
            raise RuntimeError(f"the checkpoint is truncated: storage {root.key} is larger than the file")
        root.data = np.frombuffer(bytearray(_exactly(stream, size)), np.uint8)
        storages[key] = root
    for key, root_key, offset, length in _plain(stream, "storage views", list):
        storages[key] = _part(storages[root_key], key, offset, length)
    return storages


def _exactly(stream: Any, n: int) -> bytes:
    data = stream.read(n) if n >= 0 else b""
    if n < 0 or len(data) != n:
        raise RuntimeError("the checkpoint is truncated")
    return data
