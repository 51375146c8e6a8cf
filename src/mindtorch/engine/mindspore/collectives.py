"""MindSpore's communication between processes, as raw arrays in and out: the only place that touches it.

``Wire`` is one process's end. It offers what MindSpore 2.10 has on its CPU target and nothing else: Send and Recv of bytes,
AllReduce of the dtypes in ``REDUCES``, Broadcast and AllGather of bytes, groups of ranks. Two properties decide how it may be used:

- messages between two processes are matched by their order alone, collectives and Send/Recv together;
- MindSpore gives up a wait after 30 s, and the message it waited for is then lost.

The callers keep that order and never wait in a collective for a process that is late (``torch/distributed/channel.py``).
"""

from __future__ import annotations

import os
import sys
import time
from datetime import timedelta
from typing import Any

import numpy as np

from mindtorch.engine.mindspore import door

REDUCES = {np.dtype(t) for t in (np.float32, np.float16, np.int8, np.int16, np.int32, np.int64)}
"""dtypes whose AllReduce MindSpore's CPU library has, each with every operation of ``OPERATIONS``."""
OPERATIONS = {"sum", "prod", "min", "max"}
WAIT = 30.0
"""Seconds after which MindSpore gives up a wait; fixed in its library."""
_SLACK = 2.0


_NEEDED = (
    "dist_comm_isend_op", "dist_comm_irecv_op", "dist_comm_all_reduce_op", "dist_comm_broadcast_op", "all_gather", "TCPStore",
)  # fmt: skip


def _starter(functions: Any, management: Any, with_store: bool) -> Any:
    """MindSpore's function that joins processes through a store. RuntimeError when this release lacks what is used here.

    It is private. Its public caller, ``mindspore.mint.distributed.init_process_group``, refuses every backend but hccl, and
    ``mindspore.communication.init`` wants a scheduler process: that is the way of programs started by msrun.
    """
    start = getattr(management, "_init_with_store", None)
    missing = [n for n in _NEEDED if not hasattr(functions, n)]
    if missing:
        raise RuntimeError(f"{_release()} has no {', '.join(missing)} in mindspore.mint.distributed: {_REMEDY}")
    if with_store and start is None:
        raise RuntimeError(
            f"{_release()} has no mindspore.communication.management._init_with_store, by which processes join without a "
            f"scheduler: start the program with msrun instead, or {_REMEDY}"
        )
    return start


def _release() -> str:
    import mindspore

    return f"init_process_group: MindSpore {mindspore.__version__}"


_REMEDY = "install a MindSpore of the range this package asks for (2.10.0 is tested)"


class Lost(RuntimeError):
    """A message could not be delivered or read: the other process is gone, or the order of messages was broken."""


class Wire:
    """Joins ``size`` processes through MindSpore's own store at ``host:port``, which rank 0 serves.

    With an empty ``host`` the job is the one msrun started: rank and size are what its scheduler says. RuntimeError when
    MindSpore cannot be loaded or the processes do not meet within ``timeout`` seconds.
    """

    def __init__(self, host: str, port: int, rank: int, size: int, timeout: float) -> None:
        # its communication library reports every closed connection at warning level
        os.environ.setdefault("GLOG_v", "3")
        door.load()
        import mindspore.communication as communication
        from mindspore.communication import management
        from mindspore.mint import distributed
        from mindspore.mint.distributed import distributed as functions

        start = _starter(functions, management, bool(host))
        self._communication = communication
        self._distributed = distributed
        self._functions = functions
        limit = timedelta(seconds=timeout)
        hook = sys.excepthook
        try:
            if host:
                self._store = distributed.TCPStore(host, port, size, rank == 0, limit)
                start("mccl", limit, size, rank, self._store, "")
            else:
                communication.init("mccl")
        finally:
            # MindSpore puts a hook of its own over whatever the program has installed
            sys.excepthook = hook
        self.rank: int = communication.get_rank()
        self.size: int = communication.get_group_size()
        self.world: str = communication.GlobalComm.WORLD_COMM_GROUP

    def send(self, to: int, a: np.ndarray) -> None:
        """Send the bytes of ``a`` (uint8, contiguous) to rank ``to``. Returns when they are in its memory, read or not."""
        try:
            self._functions.dist_comm_isend_op(door.tensor(a), to, self.world, 0)
        except RuntimeError as error:
            raise Lost(f"sending {a.nbytes} bytes to rank {to} failed: the process is gone or unreachable") from error

    def recv(self, source: int, a: np.ndarray) -> bool:
        """Fill ``a`` (uint8, contiguous) with the next message of rank ``source``. False when none came within ``WAIT``.

        After False that message is lost: it will be thrown away when it arrives.
        """
        begin = time.monotonic()
        try:
            self._functions.dist_comm_irecv_op(door.tensor(a), 0, source, self.world)
        except RuntimeError as error:
            if time.monotonic() - begin >= WAIT - _SLACK:
                return False
            raise Lost(f"receiving {a.nbytes} bytes from rank {source} failed") from error
        return True

    def group(self, name: str, ranks: list[int]) -> None:
        """Make a group for collectives. Its members call this, at the same time, and nobody else."""
        self._communication.create_group(name, ranks)

    def all_reduce(self, a: np.ndarray, operation: str, group: str) -> None:
        """In place over the group; ``a`` is contiguous, of a dtype in ``REDUCES``."""
        self._functions.dist_comm_all_reduce_op(door.tensor(a), operation, group, False)

    def broadcast(self, a: np.ndarray, source: int, here: int, group: str) -> None:
        """The bytes of the member ``source`` into ``a`` of all; ``source`` and ``here`` count within the group."""
        self._functions.dist_comm_broadcast_op(door.tensor(a), source, here, group, False)

    def all_gather(self, a: np.ndarray, outs: list[np.ndarray], group: str) -> None:
        """The bytes of member i into ``outs[i]``, all equally long."""
        self._distributed.all_gather([door.tensor(o) for o in outs], door.tensor(a), group=group)


def schedule() -> None:
    """Be msrun's scheduler process: returns when the job is over."""
    door.load()
    import mindspore.communication as communication

    communication.init()
