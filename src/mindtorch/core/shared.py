"""Memory that several processes see: `share` moves an array into it, and pickling for another process sends the region.

A region is an unnamed file mapped by everyone. Forked children have the mapping; spawned ones, and those behind a
``multiprocessing`` queue, are handed the file's descriptor and map it again.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from typing import Any

import numpy as np

from mindtorch.core.tensor import Parameter, Tensor, wrap


class Region(mmap.mmap):
    """A mapping that knows its file."""

    fd: int

    def __del__(self) -> None:
        if hasattr(self, "fd"):
            os.close(self.fd)


def _map(fd: int, size: int) -> Region:
    region = Region(fd, size)
    region.fd = fd
    return region


def _file(size: int) -> int:
    """An open file without a name."""
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create("mindtorch")
    else:
        fd, path = tempfile.mkstemp()
        os.unlink(path)
    os.ftruncate(fd, size)
    return fd


def region_of(a: Any) -> Region | None:
    """The region an array lies in, None for ordinary memory."""
    base = a
    while isinstance(base, np.ndarray):
        base = base.base
    base = base.obj if isinstance(base, memoryview) else base
    return base if isinstance(base, Region) else None


def share(a: np.ndarray) -> np.ndarray:
    """``a`` itself when it is shared already, else a copy in a new region."""
    if region_of(a) is not None:
        return a
    size = max(a.nbytes, 1)
    out = np.ndarray(a.shape, a.dtype, _map(_file(size), size))
    out[...] = a
    return out


def _pack(a: np.ndarray, region: Region) -> tuple[Any, ...]:
    from multiprocessing import reduction

    start = np.frombuffer(region, np.uint8).__array_interface__["data"][0]
    offset = a.__array_interface__["data"][0] - start
    return reduction.DupFd(region.fd), len(region), offset, a.shape, a.strides, a.dtype


def _unpack(handle: Any, size: int, offset: int, shape: Any, strides: Any, dtype: Any) -> np.ndarray:
    return np.ndarray(shape, dtype, _map(handle.detach(), size), offset, strides)


def _rebuild(kind: type[Tensor], packed: tuple[Any, ...], requires_grad: bool) -> Tensor:
    register()
    t = wrap(_unpack(*packed))
    return Parameter(t, requires_grad) if kind is Parameter else t.requires_grad_(requires_grad)


def _reduce(t: Tensor) -> Any:
    region = region_of(t.a)
    if region is None:
        return t.__reduce_ex__(2)
    if t.requires_grad and not t.is_leaf:
        raise RuntimeError(
            "a tensor in shared memory that is the result of recorded operations cannot be sent to another process: "
            "send tensor.detach()"
        )
    return _rebuild, (type(t), _pack(t.a, region), t.requires_grad)


def register() -> None:
    """Let multiprocessing pickle tensors in shared memory as what they are; all others travel by value."""
    from multiprocessing.reduction import ForkingPickler

    ForkingPickler.register(Tensor, _reduce)
    ForkingPickler.register(Parameter, _reduce)
