"""How a batch travels from a worker to the loader: small ones through the pipe, large ones through anonymous shared
memory.

The memory is a memfd whose descriptor crosses the pipe, so nothing has a name in a file system: whichever process
dies, the kernel frees it, and the receiver's arrays lie directly in it (no copy on the receiving side).
"""

from __future__ import annotations

import io
import mmap
import os
import pickle
import socket
from multiprocessing import reduction
from typing import Any

import numpy as np

from mindtorch.core.tensor import Tensor, wrap

INLINE_LIMIT = 64 * 1024
"""Messages below this many bytes are cheaper to copy through the pipe than to map."""
_ALIGN = 64
_HAS_MEMFD = hasattr(os, "memfd_create")


def _tensor(array: np.ndarray, number: int | None, requires_grad: bool) -> Any:
    if number is not None:
        from mindtorch.core.tensor import PLAIN

        array = array.view(PLAIN[number].np)
    t = wrap(array)
    return t.requires_grad_(True) if requires_grad else t


class _Pickler(pickle.Pickler):
    """Protocol 5 with buffers outside of the stream, for tensors too."""

    def reducer_override(self, obj: Any) -> Any:
        if type(obj) is not Tensor or obj.device.type != "cpu":
            return NotImplemented
        if obj.requires_grad and not obj.is_leaf:
            raise RuntimeError(
                "a DataLoader worker cannot send a tensor that requires grad and is not a leaf; return tensor.detach()"
            )
        array, number = np.ascontiguousarray(obj.a).reshape(obj.a.shape), None
        if array.dtype.kind == "V" or array.dtype.num >= 24:
            # Types NumPy does not know itself (bfloat16 and the like) cannot be exported as buffers: send the bits.
            number = array.dtype.num
            array = array.view(f"u{array.dtype.itemsize}")
        return _tensor, (array, number, obj.requires_grad)


def pack(obj: Any) -> tuple[bytes, list[memoryview]]:
    """The pickled object and the large buffers left out of it."""
    buffers: list[memoryview] = []
    stream = io.BytesIO()

    def keep(buffer: pickle.PickleBuffer) -> bool:
        raw = buffer.raw()
        if raw.nbytes < 1024:
            return True
        buffers.append(raw)
        return False

    _Pickler(stream, protocol=5, buffer_callback=keep).dump(obj)
    return stream.getvalue(), buffers


def _padded(n: int) -> int:
    return -(-n // _ALIGN) * _ALIGN


def send(conn: Any, obj: Any) -> None:
    """Send ``obj`` over ``conn`` (a duplex pipe). Whatever pickling raises is raised before anything is sent."""
    body, buffers = pack(obj)
    sizes = [b.nbytes for b in buffers]
    if not buffers or len(body) + sum(sizes) < INLINE_LIMIT or not _HAS_MEMFD:
        conn.send_bytes(pickle.dumps((None, body, [bytes(b) for b in buffers])))
        return
    fd = os.memfd_create("mindtorch-batch", os.MFD_CLOEXEC)
    try:
        os.ftruncate(fd, sum(map(_padded, sizes)))
        offset = 0
        for b in buffers:
            _write(fd, b, offset)
            offset += _padded(b.nbytes)
        conn.send_bytes(pickle.dumps((sizes, body, [])))
        with socket.fromfd(conn.fileno(), socket.AF_UNIX, socket.SOCK_STREAM) as s:
            reduction.sendfds(s, [fd])
    finally:
        os.close(fd)


def _write(fd: int, data: memoryview, offset: int) -> None:
    while data.nbytes:
        n = os.pwrite(fd, data, offset)
        data, offset = data[n:], offset + n


def receive(conn: Any) -> Any:
    """The next object from ``conn``. EOFError when the other end is gone."""
    sizes, body, buffers = pickle.loads(conn.recv_bytes())
    if sizes is None:
        return pickle.loads(body, buffers=[bytearray(b) for b in buffers])
    with socket.fromfd(conn.fileno(), socket.AF_UNIX, socket.SOCK_STREAM) as s:
        (fd,) = reduction.recvfds(s, 1)
    try:
        # Mapping all pages at once is cheaper than a page fault each.
        whole = memoryview(
            mmap.mmap(fd, sum(map(_padded, sizes)), flags=mmap.MAP_SHARED | getattr(mmap, "MAP_POPULATE", 0))
        )
    finally:
        os.close(fd)
    views, offset = [], 0
    for size in sizes:
        views.append(whole[offset : offset + size])
        offset += _padded(size)
    return pickle.loads(body, buffers=views)
