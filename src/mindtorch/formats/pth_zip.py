"""The zip container of PyTorch checkpoints: a reader that trusts nothing, a writer that only ever appends.

Records are stored, not compressed, each starting at a multiple of 64 bytes, so that a reader can map them into memory.
"""

from __future__ import annotations

import struct
import zipfile
import zlib
from typing import Any

import numpy as np

ALIGNMENT = 64
_U32 = 0xFFFFFFFF
_LOCAL = struct.Struct("<IHHHHHIIIHH")
_CENTRAL = struct.Struct("<IHHHHHHIIIHHHHHII")


class ZipWriter:
    """Writes records one after the other to ``file`` (only ``write`` is used), all below the folder ``root``."""

    def __init__(self, file: Any, root: str) -> None:
        self.file = file
        self.root = root
        self.at = 0
        self.entries: list[tuple[bytes, int, int, int]] = []

    def _write(self, data: Any) -> None:
        self.file.write(data)
        self.at += data.nbytes if isinstance(data, (np.ndarray, memoryview)) else len(data)

    def record(self, name: str, data: Any) -> None:
        """Append ``data`` (bytes or a flat uint8 array) as ``root/name``."""
        path = f"{self.root}/{name}".encode()
        view = memoryview(data).cast("B") if len(data) else memoryview(b"")
        size, crc = view.nbytes, zlib.crc32(view)
        big = size >= _U32
        extra = struct.pack("<HHQQ", 1, 16, size, size) if big else b""
        pad = -(self.at + _LOCAL.size + len(path) + len(extra) + 4) % ALIGNMENT
        extra += struct.pack("<2sH", b"FB", pad) + b"Z" * pad
        short = _U32 if big else size
        self.entries.append((path, self.at, size, crc))
        self._write(
            _LOCAL.pack(0x04034B50, 45 if big else 20, 0x800, 0, 0, 33, crc, short, short, len(path), len(extra))
        )
        self._write(path + extra)
        self._write(view)

    def close(self) -> None:
        """Write the directory."""
        start = self.at
        for path, offset, size, crc in self.entries:
            wide = [n for n in (size, size, offset) if n >= _U32]
            extra = struct.pack(f"<HH{len(wide)}Q", 1, 8 * len(wide), *wide) if wide else b""
            short, at = min(size, _U32), min(offset, _U32)
            need = 45 if wide else 20
            head = (0x02014B50, need, need, 0x800, 0, 0, 33, crc, short, short, len(path), len(extra), 0, 0, 0, 0, at)
            self._write(_CENTRAL.pack(*head) + path + extra)
        size, count = self.at - start, len(self.entries)
        if start >= _U32 or count >= 0xFFFF:
            end = self.at
            self._write(struct.pack("<IQHHIIQQQQ", 0x06064B50, 44, 45, 45, 0, 0, count, count, size, start))
            self._write(struct.pack("<IIQI", 0x07064B50, 0, end, 1))
        few = min(count, 0xFFFF)
        self._write(struct.pack("<IHHHHIIH", 0x06054B50, 0, 0, few, few, min(size, _U32), min(start, _U32), 0))

    def serial(self) -> str:
        """Forty digits that depend on the names and the contents written so far."""
        names = zlib.crc32(b"\0".join(e[0] for e in self.entries))
        sums = zlib.crc32(b"".join(struct.pack("<I", e[3]) for e in self.entries))
        return f"{names:020d}{sums:020d}"


class ZipReader:
    """The records of an open binary ``file``; ``path`` is needed for memory mapping only."""

    def __init__(self, file: Any, path: str | None = None) -> None:
        self.file = file
        self.path = path
        try:
            self.zip = zipfile.ZipFile(file)
        except (zipfile.BadZipFile, EOFError, OSError, struct.error, ValueError) as e:
            raise RuntimeError(
                f"the checkpoint is corrupted: its zip directory cannot be read ({e}); the file is probably truncated"
            ) from e
        self.infos = {i.filename: i for i in self.zip.infolist()}
        pickles = [n for n in self.infos if n.endswith("/data.pkl") and n.count("/") == 1]
        if not pickles:
            raise RuntimeError(
                "the file is a zip archive but no PyTorch checkpoint: it has no record data.pkl; "
                f"it holds {sorted(self.infos)[:5]}"
            )
        self.root = pickles[0][: -len("data.pkl")]
        self.checked = True
        # torch.serialization.set_crc32_options(False) writes no true checksum into any record.
        if self.has("version"):
            self.checked = zlib.crc32(self._stored(self._info("version"))) == self._info("version").CRC

    def has(self, name: str) -> bool:
        """Whether there is a record ``name``."""
        return self.root + name in self.infos

    def names(self) -> list[str]:
        """All records, without the root folder."""
        return [n[len(self.root) :] for n in self.infos if n.startswith(self.root)]

    def _info(self, name: str) -> zipfile.ZipInfo:
        info = self.infos.get(self.root + name)
        if info is None:
            raise RuntimeError(f"the checkpoint is corrupted: its record {name} is missing")
        return info

    def _offset(self, info: zipfile.ZipInfo) -> int:
        self.file.seek(info.header_offset)
        head = self.file.read(_LOCAL.size)
        if len(head) != _LOCAL.size or head[:4] != b"PK\x03\x04":
            raise RuntimeError(f"the checkpoint is corrupted: no record starts where {info.filename} should")
        *_, name, extra = _LOCAL.unpack(head)
        return info.header_offset + _LOCAL.size + name + extra

    def read(self, name: str) -> bytes:
        """One record, checksum verified."""
        return self.array(name).tobytes()

    def array(self, name: str) -> np.ndarray:
        """One record as fresh writable flat uint8 memory, checksum verified."""
        info = self._info(name)
        if info.compress_type == zipfile.ZIP_STORED:
            data = self._stored(info)
        else:
            try:
                data = np.frombuffer(bytearray(self.zip.read(info)), np.uint8)
            except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as e:
                raise RuntimeError(f"the checkpoint is corrupted: record {name}: {e}") from e
        if self.checked and zlib.crc32(data) != info.CRC:
            raise RuntimeError(f"the checkpoint is corrupted: checksum of record {name} does not match its contents")
        return data

    def _stored(self, info: zipfile.ZipInfo) -> np.ndarray:
        if info.compress_type != zipfile.ZIP_STORED:
            return np.frombuffer(self.zip.read(info), np.uint8)
        self.file.seek(self._offset(info))
        data = np.empty(_sane_size(self.file, info), np.uint8)
        got = _read_into(self.file, data)
        if got != info.file_size:
            raise RuntimeError(
                f"the checkpoint is truncated: record {info.filename} has {got} of {info.file_size} bytes"
            )
        return data

    def mapped(self, name: str) -> np.ndarray:
        """One record mapped copy-on-write: read when touched, writes stay private to this process."""
        info = self._info(name)
        if self.path is None or info.compress_type != zipfile.ZIP_STORED:
            raise RuntimeError(f"record {name} cannot be mapped: that needs a path and uncompressed records")
        if info.file_size == 0:
            return np.empty(0, np.uint8)
        return np.asarray(np.memmap(self.path, np.uint8, "c", self._offset(info), (info.file_size,)))


def _sane_size(file: Any, info: zipfile.ZipInfo) -> int:
    """The stored size, refused when the file is smaller: a broken directory must not make us allocate memory."""
    here = file.tell()
    end = file.seek(0, 2)
    end = file.tell() if end is None else end
    file.seek(here)
    if here + info.file_size > end:
        raise RuntimeError(f"the checkpoint is truncated: record {info.filename} ends behind the end of the file")
    return info.file_size


def _read_into(file: Any, data: np.ndarray) -> int:
    """Fill ``data`` from ``file``; returns the bytes read."""
    view, done = memoryview(data), 0
    into = getattr(file, "readinto", None)
    while done < data.nbytes:
        if into is not None:
            n = into(view[done : done + (1 << 30)])
        else:
            chunk = file.read(min(data.nbytes - done, 1 << 30))
            n = len(chunk)
            view[done : done + n] = chunk
        if not n:
            break
        done += n
    return done
