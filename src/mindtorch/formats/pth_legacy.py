"""Checkpoints from before the zip container: the pickle stream (PyTorch 0.2 .. 1.5, or on request) and the tar."""

from __future__ import annotations

import io
import pickle
import struct
import sys
import tarfile
from collections.abc import Callable
from typing import Any

import numpy as np

from mindtorch.formats.pth_storage import StorageData, strided, type_name
from mindtorch.formats.pth_zip import _read_into

MAGIC = 0x1950A86A20F9469CFC6C
PROTOCOL = 1001
_FORM = {"protocol_version": PROTOCOL, "little_endian": True, "type_sizes": {"short": 2, "int": 4, "long": 4}}

Unpickle = Callable[[Any, Callable[[Any], Any]], Any]
"""``(stream, persistent)`` -> the next object of the stream, read with the caller's rules."""


def _plain(stream: Any, unpickle: Unpickle, what: str, kind: type) -> Any:
    def refuse(pid: Any) -> Any:
        raise pickle.UnpicklingError("the file is corrupted: a persistent id outside the main object")

    try:
        value = unpickle(stream, refuse)
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
    got = _read_into(stream, data)
    if got != data.nbytes:
        raise RuntimeError(f"the checkpoint is truncated: storage {key} has {got} of {data.nbytes} bytes")


class _Storages:
    """Answers the persistent ids of a stream; memory is filled after the main object."""

    def __init__(self, make: Callable[[StorageData], Any], limit: int) -> None:
        self.make = make
        self.limit = limit
        self.roots: dict[str, StorageData] = {}
        self.made: dict[str, Any] = {}

    def persistent(self, pid: Any) -> Any:
        if not isinstance(pid, tuple) or not pid:
            raise pickle.UnpicklingError("the file is corrupted: a persistent id is no tuple")
        kind = pid[0].decode("ascii") if isinstance(pid[0], bytes) else pid[0]
        if kind == "module":
            return pid[1]
        if kind != "storage" or len(pid) != 6:
            raise pickle.UnpicklingError(f"the file is corrupted: unknown persistent id {kind!r}")
        _, cls, key, location, count, view = pid
        key = str(key.decode("ascii") if isinstance(key, bytes) else key)
        location = location.decode("ascii") if isinstance(location, bytes) else location
        if key not in self.roots:
            name = type_name(cls)
            root = StorageData(name, np.empty(0, np.uint8), location, key)
            size = int(count) * root.dtype.itemsize
            if not 0 <= size <= self.limit:
                raise RuntimeError(
                    f"the checkpoint is truncated: storage {key} of {size} bytes is larger than the file"
                )
            root.data = np.empty(size, np.uint8)
            self.roots[key], self.made[key] = root, self.make(root)
        if view is None:
            return self.made[key]
        view_key, offset, length = view
        view_key = str(view_key)
        if view_key not in self.made:
            root = self.roots[key]
            step = root.dtype.itemsize
            if offset < 0 or length < 0 or (offset + length) * step > root.data.nbytes:
                raise RuntimeError(f"the checkpoint is corrupted: view {view_key} leaves its storage")
            part = StorageData(root.name, root.data[offset * step : (offset + length) * step], location, view_key)
            self.made[view_key] = self.make(part)
        return self.made[view_key]


def read_stream(file: Any, unpickle: Unpickle, make: Callable[[StorageData], Any]) -> Any:
    """The object of a legacy stream. ``make`` turns a storage into the caller's class when it is first named."""
    magic = _plain(file, unpickle, "magic number", int)
    if magic != MAGIC:
        raise RuntimeError("Invalid magic number; corrupt file?")
    version = _plain(file, unpickle, "protocol version", int)
    if version != PROTOCOL:
        raise RuntimeError(f"Invalid protocol version: {version}")
    _plain(file, unpickle, "system information", dict)
    here = file.tell()
    file.seek(0, 2)
    limit = file.tell() - here
    file.seek(here)
    storages = _Storages(make, limit)
    value = unpickle(file, storages.persistent)
    for key in _plain(file, unpickle, "list of storages", list):
        root = storages.roots.get(str(key))
        if root is None:
            raise RuntimeError(f"the checkpoint is corrupted: it stores {key!r}, which nothing uses")
        _fill(file, root.data, root.dtype.itemsize, str(key))
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
    with tarfile.open(fileobj=file, mode="r:") as tar:
        parts = {}
        for name in ("storages", "tensors", "pickle"):
            try:
                member = tar.extractfile(name)
            except KeyError:
                member = None
            if member is None:
                raise RuntimeError(f"the file is a tar archive but no PyTorch checkpoint: it has no member {name!r}")
            parts[name] = io.BytesIO(member.read())
    storages = _tar_storages(parts["storages"], unpickle)
    tensors: dict[int, Any] = {}
    stream = parts["tensors"]
    for _ in range(_plain(stream, unpickle, "number of tensors", int)):
        key, storage_id, _kind = _plain(stream, unpickle, "tensor", tuple)
        (ndim,) = struct.unpack("<i", _exactly(stream, 4))
        _exactly(stream, 4)
        size = struct.unpack(f"<{ndim}q", _exactly(stream, 8 * ndim))
        stride = struct.unpack(f"<{ndim}q", _exactly(stream, 8 * ndim))
        (offset,) = struct.unpack("<q", _exactly(stream, 8))
        root = storages[storage_id]
        tensors[int(key)] = make_tensor(strided(root.data, root.dtype, offset, size, stride), root)

    def persistent(pid: Any) -> Any:
        return pid[0] if isinstance(pid, tuple) else tensors[int(pid)]

    return unpickle(parts["pickle"], persistent)


def _tar_storages(stream: Any, unpickle: Unpickle) -> dict[Any, StorageData]:
    storages: dict[Any, StorageData] = {}
    limit = len(stream.getbuffer())
    for _ in range(_plain(stream, unpickle, "number of storages", int)):
        key, location, cls = _plain(stream, unpickle, "storage", tuple)
        root = StorageData(type_name(cls), np.empty(0, np.uint8), str(location), str(key))
        head = _exactly(stream, 8)
        size = struct.unpack("<q", head)[0] * root.dtype.itemsize
        if not 0 <= size <= limit:
            raise RuntimeError(f"the checkpoint is truncated: storage {key} of {size} bytes is larger than the file")
        root.data = np.frombuffer(bytearray(_exactly(stream, size)), np.uint8)
        storages[key] = root
    for key, root_key, offset, length in _plain(stream, unpickle, "storage views", list):
        root = storages[root_key]
        step = root.dtype.itemsize
        if offset < 0 or length < 0 or (offset + length) * step > root.data.nbytes:
            raise RuntimeError(f"the checkpoint is corrupted: view {key} leaves its storage")
        part = root.data[offset * step : (offset + length) * step]
        storages[key] = StorageData(root.name, part, root.location, str(key))
    return storages


def _exactly(stream: Any, n: int) -> bytes:
    data = stream.read(n)
    if n < 0 or len(data) != n:
        raise RuntimeError("the checkpoint is truncated")
    return data
