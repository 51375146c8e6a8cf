"""NumPy's ``.npz`` archives: read without trusting what they say of their size, written so that they replace at once.

Types that ``.npy`` files have no name for (bfloat16, float8) are stored as their bits, with the dtype in the member's
name: ``w@bfloat16`` holds uint16.
"""

from __future__ import annotations

import struct
import zipfile
import zlib
from collections.abc import Callable, Mapping
from typing import Any

import ml_dtypes
import numpy as np

from mindtorch.formats.source import Source, opened, release, shaped, target, truth

_EXTRA: dict[str, np.dtype[Any]] = {
    name: np.dtype(getattr(ml_dtypes, name))
    for name in ("bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz")
}
_MAX_HEADER = 1 << 16
_PIECE = 1 << 20
_FREE = 1 << 30
_RATIO = 100


def _broken(why: str) -> RuntimeError:
    return RuntimeError(f"the npz archive is corrupted: {why}")


class _View:
    """Memory as the seekable file that ``zipfile`` asks for, without a copy."""

    def __init__(self, data: memoryview) -> None:
        self.data = data
        self.at = 0

    def seek(self, offset: int, whence: int = 0) -> int:
        self.at = offset + (0, self.at, len(self.data))[whence]
        if self.at < 0:
            raise OSError("seek before the start")
        return self.at

    def tell(self) -> int:
        return self.at

    def seekable(self) -> bool:
        return True

    def read(self, n: int | None = -1) -> bytes:
        end = len(self.data) if n is None or n < 0 else min(self.at + n, len(self.data))
        piece = bytes(self.data[self.at : end])
        release(self.data, self.at, end)
        self.at = max(self.at, end)
        return piece


def _members(archive: zipfile.ZipFile, size: int) -> list[zipfile.ZipInfo]:
    """The members, refused when they overlap, repeat, or expand beyond reason."""
    infos = archive.infolist()
    at, total, seen = 0, 0, set()
    for i in sorted(infos, key=lambda i: i.header_offset):
        if i.header_offset < at:
            raise _broken(f"member {i.filename!r} overlaps another")
        at = i.header_offset + 30 + len(i.filename) + i.compress_size
        total += i.file_size
        if i.filename in seen:
            raise _broken(f"it holds {i.filename!r} twice")
        seen.add(i.filename)
        if i.compress_type == zipfile.ZIP_STORED and i.file_size != i.compress_size:
            raise _broken(f"member {i.filename!r} has two sizes")
    if total > max(_FREE, _RATIO * size):
        raise RuntimeError(
            f"the npz archive of {size} bytes would expand to {total}, more than {_RATIO} times its size: refused"
        )
    return infos


def _header(stream: Any, name: str) -> tuple[tuple[int, ...], bool, np.dtype[Any], int]:
    """Shape, column order, dtype and length of the header of one ``.npy``."""
    start = stream.read(8)
    if len(start) != 8 or start[:6] != b"\x93NUMPY" or start[6] not in (1, 2, 3):
        raise _broken(f"member {name!r} is no array")
    form = "<H" if start[6] == 1 else "<I"
    (size,) = struct.unpack(form, stream.read(struct.calcsize(form)))
    if size > _MAX_HEADER:
        raise _broken(f"member {name!r} has a header of {size} bytes")
    text = stream.read(size)
    # numpy.lib.format evaluates this text as a literal; here only the one form that NumPy writes is taken.
    form_size = struct.calcsize(form)
    shape, fortran, dtype = _literal(text, name)
    return shape, fortran, dtype, 8 + form_size + size


def _literal(text: bytes, name: str) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    import ast

    try:
        spec = ast.literal_eval(text.decode("latin1").strip())
        code, fortran, shape = spec["descr"], spec["fortran_order"], spec["shape"]
        dtype = np.dtype(code) if isinstance(code, str) else None
    except (ValueError, SyntaxError, TypeError, KeyError, RecursionError, MemoryError):
        raise _broken(f"member {name!r} has an unreadable header") from None
    if dtype is None or dtype.kind not in "biufcU" or not isinstance(fortran, bool):
        raise RuntimeError(
            f"the npz archive holds {name!r} of dtype {code!r}; only numbers, truth values and texts are read"
        )
    if (
        not isinstance(shape, tuple)
        or len(shape) > 32
        or any(type(n) is not int or not 0 <= n < 1 << 48 for n in shape)
    ):
        raise _broken(f"member {name!r} has the impossible shape {shape!r}"[:200])
    return shape, fortran, dtype


def _array(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Any:
    with archive.open(info) as stream:
        shape, fortran, dtype, used = _header(stream, info.filename)
        count = 1
        for n in shape:
            count *= n
        if used + count * dtype.itemsize != info.file_size:
            raise _broken(f"member {info.filename!r} of shape {shape} does not have {info.file_size} bytes")
        flat = np.empty(count * dtype.itemsize, np.uint8)
        at = 0
        while piece := stream.read(_PIECE):  # to the very end: the checksum is verified there
            flat[at : at + len(piece)] = np.frombuffer(piece, np.uint8)
            at += len(piece)
    if at != len(flat):
        raise _broken(f"member {info.filename!r} ends too early")
    if dtype.kind == "b":
        flat = truth(flat)
    array = shaped(flat, dtype, shape[::-1] if fortran else shape, info.filename)
    array = array.T if fortran else array
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def _named(name: str, array: np.ndarray) -> tuple[str, Any]:
    """The name without ``.npy`` and without dtype, and the value in that dtype."""
    name = name.removesuffix(".npy")
    stem, _, mark = name.rpartition("@")
    if stem and mark in _EXTRA and array.dtype == np.dtype(f"u{_EXTRA[mark].itemsize}"):
        return stem, array.view(_EXTRA[mark])
    if array.dtype.kind == "U" and array.ndim == 0:
        return name, str(array)
    return name, array


def read(f: Source, progress: Callable[[int], Any] | None = None) -> dict[str, Any]:
    """The arrays of ``f`` (path, bytes or binary file), texts as str. Pickled objects are refused (RuntimeError)."""
    result: dict[str, Any] = {}
    with opened(f) as data:
        try:
            archive = zipfile.ZipFile(_View(data))  # type: ignore[arg-type]
            for info in _members(archive, len(data)):
                name, value = _named(info.filename, _array(archive, info))
                if name in result:
                    raise _broken(f"it holds {name!r} twice")
                result[name] = value
                if progress is not None:
                    progress(info.compress_size)
        except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, struct.error, OSError, ValueError) as e:
            raise _broken(str(e)) from None
    return result


def write(f: Any, values: Mapping[str, Any], progress: Callable[[int], Any] | None = None) -> None:
    """Write arrays, numbers and texts to ``f``, a path (replaced when all is written) or a binary file, uncompressed.

    TypeError for anything else.
    """
    plain: dict[str, np.ndarray] = {}
    for name, value in values.items():
        if not isinstance(value, (np.ndarray, np.generic, str, bool, int, float, complex)):
            raise TypeError(f"an npz archive cannot hold {name!r} of type {type(value).__name__}")
        array = np.asarray(value)
        if array.dtype.name in _EXTRA:
            name, array = f"{name}@{array.dtype.name}", array.view(f"u{array.dtype.itemsize}")
        if array.dtype.kind not in "biufcU":
            raise TypeError(f"an npz archive cannot hold {name!r} of dtype {array.dtype}")
        plain[name] = array
    with target(f) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name, array in plain.items():
            with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)
            if progress is not None:
                progress(array.nbytes)
