"""The zip container of PyTorch checkpoints: a reader that trusts nothing, a writer that only ever appends.

Records are stored, not compressed, each starting at a multiple of 64 bytes, so that a reader can map them into memory.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from mindtorch.formats.checksum import crc32

ALIGNMENT = 64
NEWEST = 10
"""The highest version of the container that PyTorch defines so far."""

_U32 = 0xFFFFFFFF
_LOCAL = struct.Struct("<IHHHHHIIIHH")
_CENTRAL = struct.Struct("<IHHHHHHIIIHHHHHII")
_CHUNK = 1 << 19
"""Bytes read before their checksum is taken, so that the processor's cache still has them."""
_MANY = 8 << 20
"""From this many bytes on, records are read and checked by two threads."""


def threads() -> int:
    """How many threads read large records: two are enough to saturate memory."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores, 2)


class ZipWriter:
    """Writes records one after the other to ``file`` (only ``write`` is used), all below the folder ``root``.

    With ``checked=False`` every checksum is written as zero, as PyTorch does on request. Contents start at multiples of
    ``alignment``.
    """

    def __init__(self, file: Any, root: str, checked: bool = True, alignment: int = ALIGNMENT) -> None:
        self.file = file
        self.alignment = alignment
        self.checked = checked
        self.root = root
        self.at = 0
        self.entries: list[tuple[bytes, int, int, int]] = []

    def _write(self, data: Any) -> None:
        self.file.write(data)
        self.at += data.nbytes if isinstance(data, (np.ndarray, memoryview)) else len(data)

    def record(self, name: str, data: Any) -> None:
        """Append ``data`` (bytes or a flat uint8 array) as ``root/name``."""
        view = memoryview(data).cast("B") if len(data) else memoryview(b"")
        self._head(name, view.nbytes, crc32(view) if self.checked else 0)
        self._write(view)

    def _head(self, name: str, size: int, crc: int) -> None:
        path = f"{self.root}/{name}".encode()
        big = size >= _U32
        extra = struct.pack("<HHQQ", 1, 16, size, size) if big else b""
        pad = -(self.at + _LOCAL.size + len(path) + len(extra) + 4) % self.alignment
        extra += struct.pack("<2sH", b"FB", pad) + b"Z" * pad
        short = _U32 if big else size
        self.entries.append((path, self.at, size, crc))
        self._write(
            _LOCAL.pack(0x04034B50, 45 if big else 20, 0x800, 0, 0, 33, crc, short, short, len(path), len(extra))
        )
        self._write(path + extra)

    def gap(self, name: str, size: int) -> None:
        """Append a record of ``size`` bytes that are left to be written by somebody else; its checksum is 0."""
        self._head(name, size, 0)
        if getattr(self.file, "seekable", bool)():
            self.file.seek(size, os.SEEK_CUR)
        else:
            for at in range(0, size, _CHUNK):
                self.file.write(bytes(min(_CHUNK, size - at)))
        self.at += size

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


@dataclass
class Record:
    """One entry of the directory."""

    name: str
    at: int
    size: int
    packed: int
    crc: int
    method: int
    entry: int = 0
    """Where its entry in the directory is."""
    end: int = 0
    unsummed: bool = False
    """Written with torch.serialization.skip_data: the contents came later, every copy of the checksum is zero."""


def _broken(why: str) -> RuntimeError:
    return RuntimeError(f"the checkpoint is corrupted: {why}")


class ZipReader:
    """The records of an open binary ``file``; ``path`` is needed for memory mapping and for reading in parallel.

    A mapping is copy-on-write; with ``shared`` what is written to it is written to the file.
    """

    def __init__(self, file: Any, path: str | None = None, shared: bool = False) -> None:
        self.file = file
        self.path = path
        self.fd = file.fileno() if path is not None and hasattr(os, "pread") else None
        self.shared = shared
        end = file.seek(0, 2)
        self.length = file.tell() if end is None else end
        self.records = {r.name: r for r in _directory(file, self.length)}
        self.ahead: dict[str, Any] = {}
        self.pool: Any = None
        self.stop = False
        self.map: np.ndarray | None = None
        self.root = self._find_root()
        version = self.records.get(self.root + "version")
        # torch.serialization.set_crc32_options(False) writes zeros for every checksum.
        self.checked = not all(r.crc == 0 for r in self.records.values())
        if version is not None:
            self._check_version(self.read("version"))

    def _find_root(self) -> str:
        pickles = [n for n in self.records if n.endswith("/data.pkl")]
        if not pickles:
            raise RuntimeError(
                "the file is a zip archive but no PyTorch checkpoint: it has no record data.pkl; "
                f"it holds {sorted(self.records)[:5]}"
                + ("; read it with numpy.load" if all(n.endswith(".npy") for n in self.records) else "")
            )
        return min(pickles, key=lambda n: n.count("/"))[: -len("data.pkl")]

    @staticmethod
    def _check_version(text: bytes) -> None:
        try:
            version = int(text)
        except ValueError:
            raise _broken(f"its version is {text[:20]!r}") from None
        if not 1 <= version <= NEWEST:
            raise RuntimeError(
                f"the checkpoint has version {version} of the container; versions 1 to {NEWEST} can be read: "
                "save it again with an older PyTorch"
            )

    def has(self, name: str) -> bool:
        """Whether there is a record ``name``."""
        return self.root + name in self.records

    def size(self, name: str) -> int:
        """Bytes of a record."""
        return self._info(name).size

    def _info(self, name: str) -> Record:
        info = self.records.get(self.root + name)
        if info is None:
            raise _broken(f"its record {name} is missing")
        return info

    def _bytes(self, at: int, count: int) -> bytes:
        """A few bytes of the file; fewer at its end."""
        return _at(self.file, at, count) if self.fd is None else os.pread(self.fd, count, at)

    def _offset(self, r: Record) -> int:
        """Where the contents start; the local header must agree with the directory."""
        own = r.name.encode()
        head = self._bytes(r.at, _LOCAL.size + len(own))
        if len(head) != _LOCAL.size + len(own) or head[:4] != b"PK\x03\x04":
            raise _broken(f"no record starts where {r.name} should")
        _, _, flags, method, _, _, crc, _, _, name, extra = _LOCAL.unpack_from(head)
        start = r.at + _LOCAL.size + name + extra
        if method != r.method or name != len(own) or not head.endswith(own) or start + r.packed > r.end:
            raise _broken(f"the record {r.name} is not what the directory says")
        if r.crc == 0 and r.name.startswith(self.root + "data/"):
            # With flag 8 the second copy of the checksum follows the contents instead of being in the header.
            after = self._bytes(start + r.packed, 8)
            r.unsummed = after == b"PK\x07\x08" + bytes(4) if flags & 8 else crc == 0
        return start

    # ------------------------------------------------------------------------------------ contents
    def read(self, name: str) -> bytes:
        """One record, checksum verified."""
        return self.array(name).tobytes()

    def array(self, name: str) -> np.ndarray:
        """One record as fresh writable flat uint8 memory, checksum verified."""
        if name in self.ahead:
            return self.ahead.pop(name).result()
        r = self._info(name)
        start = self._offset(r)
        if r.method:
            return self._inflated(r, start)
        self.file.seek(start)
        return self._filled(r, np.empty(r.size, np.uint8), lambda part, _: read_into(self.file, part))

    def _filled(self, r: Record, data: np.ndarray, read: Callable[[np.ndarray, int], int]) -> np.ndarray:
        """``data`` filled by ``read(part, position)``; each part is summed while the processor's cache still has it."""
        done, crc = 0, 0
        while done < r.size:
            n = read(data[done : done + _CHUNK], done)
            if not n:
                raise RuntimeError(f"the checkpoint is truncated: record {r.name} has {done} of {r.size} bytes")
            if self.checked:
                crc = crc32(data[done : done + n], crc)
            done += n
        return self._verified(r, data, crc)

    def _verified(self, r: Record, data: np.ndarray, crc: int) -> np.ndarray:
        if self.checked and crc != r.crc and not r.unsummed:
            raise _broken(f"checksum of record {r.name} does not match its contents")
        return data

    def _inflated(self, r: Record, start: int) -> np.ndarray:
        self.file.seek(start)
        data, done, left = np.empty(r.size, np.uint8), 0, r.packed
        stream = zlib.decompressobj(-15)
        try:
            while done < r.size and not stream.eof:
                raw = stream.unconsumed_tail or self.file.read(min(left, _CHUNK))
                left -= 0 if stream.unconsumed_tail else len(raw)
                piece = stream.decompress(raw, min(r.size - done, _CHUNK))
                if not piece and not raw:
                    break
                data[done : done + len(piece)] = np.frombuffer(piece, np.uint8)
                done += len(piece)
            more = b"" if stream.eof else stream.decompress(stream.unconsumed_tail, 1)
        except zlib.error as e:
            raise _broken(f"record {r.name}: {e}") from e
        if done < r.size or more:
            raise _broken(f"record {r.name} does not unpack to {r.size} bytes")
        return self._verified(r, data, crc32(data))

    def mapped(self, name: str, width: int = 1) -> np.ndarray:
        """One record mapped: read when touched. Its checksum is not verified.

        A record that is not aligned to ``width`` bytes is copied; RuntimeError when the mapping is shared.
        """
        r = self._info(name)
        if self.path is None or r.method:
            raise RuntimeError(
                f"record {name} cannot be mapped: that needs a path and uncompressed records; load without mmap=True"
            )
        if r.size == 0:
            return np.empty(0, np.uint8)
        if self.map is None:
            mapped = np.memmap(self.path, np.uint8, "r+" if self.shared else "c")
            self.map = mapped.view(np.ndarray)  # its slices are made in a fraction of the time
        start = self._offset(r)
        part = self.map[start : start + r.size]
        if start % width and self.shared:
            raise RuntimeError(f"record {name} is not aligned in the file and cannot be mapped shared: use MAP_PRIVATE")
        if self.shared and r.crc:
            self._forget_sum(r, start)
        return part.copy() if start % width else part

    def _forget_sum(self, r: Record, start: int) -> None:
        """Zero the copies of a checksum in the file: what will be written through the map cannot be known now."""
        assert self.map is not None
        places = [r.entry + 16, r.at + 14]
        if self.map[r.at + 6] & 8 and self.map[start + r.packed :][:4].tobytes() == b"PK\x07\x08":
            places.append(start + r.packed + 4)
        for at in places:
            self.map[at : at + 4] = 0
        r.crc = 0

    # ------------------------------------------------------------------------------------ reading ahead
    def read_ahead(self, folder: str) -> None:
        """Start to read the stored records of ``folder`` with threads, in the order of the file."""
        root = self.root + folder
        wanted = [r for r in self.records.values() if r.name.startswith(root) and not r.method and r.size]
        if self.path is None or threads() == 1 or sum(r.size for r in wanted) < _MANY:
            return
        from concurrent.futures import ThreadPoolExecutor

        self.pool = ThreadPoolExecutor(threads())
        for r in sorted(wanted, key=lambda r: r.at):
            start = self._offset(r)
            # Memory from this thread: what a worker sets aside comes from the worker's arena and is never used again.
            data = np.empty(r.size, np.uint8)
            self.ahead[r.name[len(self.root) :]] = self.pool.submit(self._fetch, r, start, data)

    def _fetch(self, r: Record, start: int, data: np.ndarray) -> np.ndarray:
        fd = self.file.fileno()
        return self._filled(r, data, lambda part, at: 0 if self.stop else os.preadv(fd, [memoryview(part)], start + at))

    def close(self) -> None:
        """Stop the threads of `read_ahead`."""
        if self.pool is not None:
            self.stop = True
            self.pool.shutdown(wait=True, cancel_futures=True)
            self.ahead.clear()


# ------------------------------------------------------------------------------------------ the directory


def _at(file: Any, offset: int, count: int) -> bytes:
    try:
        file.seek(offset)
    except (OverflowError, OSError, ValueError):
        return b""  # an offset that no file has
    data = file.read(count)
    while data and len(data) < count:
        more = file.read(count - len(data))  # unbuffered files may give less than they have
        if not more:
            break
        data += more
    return data


def _directory(file: Any, length: int) -> list[Record]:
    """All entries, checked against each other: no name twice, no two records over the same bytes, no bombs."""
    tail = _at(file, max(0, length - 65557), 65557)
    found = tail.rfind(b"PK\x05\x06")
    if found < 0 or len(tail) - found < 22:
        raise RuntimeError("the checkpoint is truncated or corrupted: the directory at the end of the file is missing")
    end = max(0, length - 65557) + found
    _, _, _, _, count, size, start, comment = struct.unpack("<IHHHHIIH", tail[found : found + 22])
    if comment != length - end - 22:
        raise _broken("the end of its directory is damaged")
    wide = _at(file, end - 20, 20) if end >= 20 else b""
    if wide[:4] == b"PK\x06\x07":
        # It says where the wide record is, unless bytes in front of the archive have moved everything.
        at = struct.unpack("<Q", wide[8:16])[0]
        head = _at(file, at, 56)
        if head[:4] != b"PK\x06\x06" and end >= 76:
            at = end - 76
            head = _at(file, at, 56)
        if len(head) != 56 or head[:4] != b"PK\x06\x06":
            raise _broken("the end of its directory is damaged")
        count, size, start = struct.unpack("<QQQ", head[32:56])
        end = at
    # Bytes in front of the archive shift every offset.
    shift = end - size - start
    if shift < 0 or size > length or count > size // _CENTRAL.size:
        raise _broken("its directory does not fit into the file")
    records = list(_entries(_at(file, start + shift, size), count, shift, start + shift))
    if len({r.name for r in records}) != len(records):
        raise _broken("two records have the same name")
    _check_places(records, start + shift)
    _check_sizes(records, length)
    return records


def _entries(text: bytes, count: int, shift: int, place_of_text: int) -> Iterable[Record]:
    at = 0
    for _ in range(count):
        if len(text) - at < _CENTRAL.size or text[at : at + 4] != b"PK\x01\x02":
            raise _broken("its directory ends too early")
        fields = _CENTRAL.unpack_from(text, at)
        flags, method, crc, packed, size, n, m, k, place = *fields[3:5], *fields[7:13], fields[16]
        entry = place_of_text + at
        at += _CENTRAL.size
        raw, extra = text[at : at + n], text[at + n : at + n + m]
        at += n + m + k
        try:
            name = raw.decode()
        except UnicodeDecodeError:
            raise _broken(f"a record is called {raw!r}") from None
        if flags & 1 or method not in (0, 8):
            raise RuntimeError(f"record {name} is encrypted or packed in a way PyTorch does not use (method {method})")
        size, packed, place = _wide(extra, size, packed, place)
        if not method and size != packed:
            raise _broken(f"record {name} has two sizes")
        yield Record(name, place + shift, size, packed, crc, method, entry)


def _wide(extra: bytes, *fields: int) -> list[int]:
    """Sizes and offset with those that need 64 bits taken from the extra field."""
    got = list(fields)
    while len(extra) >= 4:
        kind, n = struct.unpack_from("<HH", extra)
        if kind == 1:
            need = [i for i, v in enumerate(got) if v == _U32]
            if n < 8 * len(need) or len(extra) < 4 + n:
                raise _broken("its directory is damaged (64-bit sizes)")
            for place, i in enumerate(need):
                got[i] = struct.unpack_from("<Q", extra, 4 + 8 * place)[0]
            break
        extra = extra[4 + n :]
    return got


def _check_places(records: list[Record], directory: int) -> None:
    """Every record ends before the next one starts; the last before the directory."""
    after = directory
    for r in sorted(records, key=lambda r: r.at, reverse=True):
        r.end, after = after, r.at
        if r.at + _LOCAL.size + len(r.name.encode()) + r.packed > r.end:
            raise RuntimeError(f"the checkpoint is truncated or corrupted: record {r.name} overlaps what follows it")


def _check_sizes(records: list[Record], length: int) -> None:
    """Refuse records that unpack to absurd sizes: memory must stay within reach of what the file itself takes."""
    packed = [r for r in records if r.method]
    for r in packed:
        if r.name.endswith(".pkl") and r.size > max(4 << 20, 100 * r.packed):
            raise _bomb(r.name, r.size, r.packed)
    total = sum(r.size for r in packed)
    if total > max(64 << 20, 100 * length):
        raise _bomb("all its records", total, length)


def _bomb(what: str, size: int, packed: int) -> RuntimeError:
    return RuntimeError(
        f"the checkpoint is refused as a zip bomb: {what} would grow from {packed} to {size} bytes; "
        "if it is genuine, store its records without compression (zip -0)"
    )


def read_into(file: Any, data: np.ndarray) -> int:
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


def is_zip(path: Any) -> bool:
    """Whether the file at ``path`` starts as a zip archive does."""
    with open(path, "rb") as file:
        return file.read(4) == b"PK\x03\x04"
