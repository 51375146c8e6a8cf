"""The idx format of MNIST: a magic number that names type and dimensions, sizes, and the values, big-endian."""

from __future__ import annotations

import gzip
import math
import os
import struct
import zlib

import numpy as np

_TYPES = {0x08: "u1", 0x09: "i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}


def find(folder: str, name: str) -> str | None:
    """Path of idx file ``name`` in ``folder``, as it is or with ".gz"; None when there is neither."""
    for path in (os.path.join(folder, name), os.path.join(folder, name + ".gz")):
        if os.path.isfile(path):
            return path
    return None


def _read(path: str) -> bytes:
    with open(path, "rb") as f:
        data = f.read()
    if data[:2] != b"\x1f\x8b":
        return data
    try:
        return gzip.decompress(data)
    except (OSError, EOFError, zlib.error) as e:
        raise ValueError(f"{path}: the gzip data are damaged ({e}); copy the file again") from None


def read(path: str) -> np.ndarray:
    """The array in an idx file, gzipped or not, in native byte order. ValueError that names the file when it is
    damaged."""
    data = _read(path)
    if len(data) < 4:
        raise ValueError(f"{path}: {len(data)} bytes are too few for an idx file (its header has 4 and more)")
    zero, kind, dims = struct.unpack(">HBB", data[:4])
    if zero != 0 or kind not in _TYPES:
        raise ValueError(
            f"{path}: not an idx file, it starts with bytes {data[:4].hex()} (expected 0000, a type, dimensions)"
        )
    start = 4 + 4 * dims
    if dims == 0 or len(data) < start:
        raise ValueError(f"{path}: the header says {dims} dimensions, but the file has {len(data)} bytes")
    shape = struct.unpack(f">{dims}I", data[4:start])
    dtype = np.dtype(_TYPES[kind])
    wanted, there = math.prod(shape) * dtype.itemsize, len(data) - start
    if wanted != there:
        word = "cut off" if there < wanted else "too long"
        raise ValueError(
            f"{path}: the file is {word}: sizes {'x'.join(map(str, shape))} need {wanted} bytes of "
            f"values, but there are {there}"
        )
    array = np.frombuffer(data, dtype, offset=start).reshape(shape)
    return array.astype(dtype.newbyteorder("="), copy=True)
