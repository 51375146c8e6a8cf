"""Ordered messages between the processes of a job, over MindSpore's Send and Recv.

MindSpore matches messages between two processes by their order alone and drops what comes after a wait of 30 s. So everything
starts with a *frame* of fixed size: kind, group, tag, number, and either the data (up to ``ROOM`` bytes) or its length, the data
following in messages of its own. A reader puts aside frames it was not looking for, so Send/Recv and collectives may
interleave. Before a MindSpore collective all members send each other a frame and read until they have everybody's: then the
streams between them are empty, and nobody is late.

A process that has sent nothing to another for a while puts its next frame into the store first. A reader whose wait was given up
takes the frame from there, and meanwhile looks whether the other process still lives.
"""

from __future__ import annotations

import concurrent.futures
import os
import queue
import socket
import struct
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from mindtorch.engine.mindspore.collectives import WAIT, Lost, Wire

from .store import DistError, DistStoreError, Store

__all__ = ["ROOM", "Channel", "DistBackendError", "DistNetworkError"]

_HEAD = struct.Struct("<BIQQqQ")  # kind, bytes inside, bytes behind, group, tag, frame number
_SIZE = 4096
ROOM = _SIZE - 64
"""Bytes of data that travel inside a frame."""
_CHUNK = 32 << 20
_LATE = WAIT - 10
DATA, TOKEN = 1, 2


class DistBackendError(DistError):
    """A collective failed."""


class DistNetworkError(DistError):
    """Another process cannot be reached."""


class Channel:
    """This process's end: ``rank`` of ``size``. ``wire`` is None when there is only one."""

    def __init__(self, wire: Wire | None, store: Store, rank: int, size: int) -> None:
        self.wire = wire
        self.store = store
        self.rank = rank
        self.size = size
        self.timeout = 1800.0
        self._lock = threading.RLock()
        self._box: dict[tuple[int, int, int, int], list[np.ndarray]] = {}
        self._sent = [0] * size
        self._read = [0] * size
        self._last = [time.monotonic()] * size
        self._queue: queue.Queue[tuple[Callable[[], Any], concurrent.futures.Future[Any]]] = queue.Queue()
        self._pending = 0
        self._count = threading.Lock()
        self._thread: threading.Thread | None = None
        self._mates: list[tuple[str, int]] = []
        self._host = socket.gethostname()

    # who is there ---------------------------------------------------------------------------------------------------

    def introduce(self) -> None:
        """Exchange host and process id through the store, so that a reader can tell a slow process from a dead one."""
        self.store.set(f"mate/{self.rank}", f"{self._host} {os.getpid()}")
        for r in range(self.size):
            host, pid = self.store.get(f"mate/{r}").decode().rsplit(" ", 1)
            self._mates.append((host, int(pid)))

    def _check_alive(self, r: int) -> None:
        """DistBackendError if ``r`` was a process of this machine and is none any more."""
        host, pid = self._mates[r]
        if host == self._host and not _runs(pid):
            raise DistBackendError(f"rank {r} (process {pid}) has ended and rank {self.rank} needs it; its own output says why")

    # frames ---------------------------------------------------------------------------------------------------------

    def send(self, to: int, kind: int, group: int, tag: int, data: np.ndarray) -> None:
        """Send ``data`` (uint8) to rank ``to``; returns when it is on its way."""
        assert self.wire is not None
        n = data.nbytes
        frame = np.zeros(_SIZE, np.uint8)
        inside = n if n <= ROOM else 0
        number = self._sent[to]
        self._sent[to] = number + 1
        head = _HEAD.pack(kind, inside, n - inside, group & (2**64 - 1), tag, number)
        frame[: len(head)] = np.frombuffer(head, np.uint8)
        frame[64 : 64 + inside] = data[:inside]
        # MindSpore tries for most of a minute to reach a process that is gone
        self._check_alive(to)
        if time.monotonic() - self._last[to] > _LATE:
            self.store.set(f"late/{self.rank}/{to}/{number}", frame.tobytes())
        try:
            self.wire.send(to, frame)
            if n > inside:
                for i in range(0, n, _CHUNK):
                    self.wire.send(to, data[i : i + _CHUNK])
        except Lost as error:
            raise DistNetworkError(f"rank {self.rank}: {error}") from error
        self._last[to] = time.monotonic()

    def receive(self, source: int, kind: int, group: int, tag: int, timeout: float | None = None) -> np.ndarray:
        """The next data of that kind, group and tag from rank ``source``, reading its stream until it comes."""
        key = (source, kind, group & (2**64 - 1), tag)
        limit = time.monotonic() + (self.timeout if timeout is None else timeout)
        while not self._box.get(key):
            self._next(source, limit)
        waiting = self._box[key]
        data = waiting.pop(0)
        if not waiting:
            del self._box[key]
        return data

    def _next(self, source: int, limit: float) -> None:
        """Read one frame of ``source`` and put its data into the box."""
        assert self.wire is not None
        frame = np.zeros(_SIZE, np.uint8)
        number = self._read[source]
        self._read[source] = number + 1
        try:
            if not self.wire.recv(source, frame):
                frame = self._missed(source, number, limit)
            kind, inside, behind, group, tag, there = _HEAD.unpack_from(frame)
            if there != number:
                raise DistBackendError(
                    f"rank {self.rank} expected message {number} of rank {source} and got {there}: the order of messages between "
                    "them was broken, for example by a collective that failed in one of them"
                )
            data = frame[64 : 64 + inside]
            if behind:
                data = np.empty(behind, np.uint8)
                for i in range(0, behind, _CHUNK):
                    if not self.wire.recv(source, data[i : i + _CHUNK]):
                        raise DistNetworkError(f"rank {source} stopped in the middle of a message of {behind} bytes")
        except Lost as error:
            self._check_alive(source)
            raise DistNetworkError(f"rank {self.rank}: {error}") from error
        self._box.setdefault((source, kind, group, tag), []).append(data)

    def _missed(self, source: int, number: int, limit: float) -> np.ndarray:
        """The frame ``number`` of ``source`` from the store: its sender knows that it is late."""
        key = f"late/{source}/{self.rank}/{number}"
        while True:
            try:
                if self.store.check([key]):
                    raw = self.store.get(key)
                    self.store.delete_key(key)
                    return np.frombuffer(raw, np.uint8)
            except DistStoreError as error:
                raise DistBackendError(f"rank {self.rank} waits for rank {source}, and {error}") from error
            self._check_alive(source)
            if time.monotonic() > limit:
                raise DistBackendError(
                    f"rank {self.rank} waited for rank {source} longer than the timeout of init_process_group; does every rank "
                    "call the same collectives in the same order?"
                )
            time.sleep(0.05)

    # running operations ---------------------------------------------------------------------------------------------

    def run(self, job: Callable[[], Any]) -> Any:
        """Run ``job`` behind everything submitted before, and return its result."""
        if self._pending and threading.current_thread() is not self._thread:
            return self.submit(job).result()
        with self._lock:
            return job()

    def submit(self, job: Callable[[], Any]) -> concurrent.futures.Future[Any]:
        """Run ``job`` in the thread that runs asynchronous operations, in order."""
        f: concurrent.futures.Future[Any] = concurrent.futures.Future()
        if self._thread is None:
            self._thread = threading.Thread(target=self._loop, name="mindtorch collectives", daemon=True)
            self._thread.start()
        with self._count:
            self._pending += 1
        self._queue.put((job, f))
        return f

    def _loop(self) -> None:
        while True:
            job, f = self._queue.get()
            with self._lock:
                try:
                    value, error = job(), None
                except BaseException as e:
                    value, error = None, e
            with self._count:
                self._pending -= 1
            if error is None:
                f.set_result(value)
            else:
                f.set_exception(error)


def _runs(pid: int) -> bool:
    """Whether a process of this machine runs; one that has ended and was not collected does not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    try:
        with open(f"/proc/{pid}/stat", "rb") as f:
            return f.read().rpartition(b")")[2].split()[0] not in (b"Z", b"X")
    except OSError:
        return True
