"""The worker process: reads tasks, fetches batches, sends them back."""

from __future__ import annotations

import os
import queue
import random
import threading
from dataclasses import dataclass
from typing import Any

import mindtorch.torch as torch

from . import transport
from .failure import Failure
from .fetch import make_fetcher

open_ends: set[Any] = set()
"""The loader's ends of all pipes open in this process. A forked worker inherits and must close them, or the workers of
another loader would never see their pipe end."""


@dataclass
class WorkerInfo:
    """What `get_worker_info` tells: id, number of workers, seed, and this worker's copy of the dataset."""

    id: int
    num_workers: int
    seed: int
    dataset: Any


_info: WorkerInfo | None = None


def get_worker_info() -> WorkerInfo | None:
    """The present worker's `WorkerInfo`; None in the main process."""
    return _info


class EndOfData:
    """Sent by a worker whose iterable dataset is exhausted."""


@dataclass
class Job:
    """All a worker needs to know, pickled once when it starts by spawning."""

    dataset: Any
    iterable: bool
    auto_collation: bool
    collate_fn: Any
    drop_last: bool
    base_seed: int
    worker_id: int
    num_workers: int
    init_fn: Any
    parent: int
    forked: bool


def _settle(job: Job) -> None:
    """Limits and seeds of a fresh worker: one thread, no compiler, no MindSpore, the streams PyTorch's workers have."""
    from mindtorch.engine.host import jit
    from mindtorch.engine.mindspore import door

    jit.forbid()
    door.mark_worker()
    torch.set_num_threads(1)
    single_threaded_blas()
    seed = job.base_seed + job.worker_id
    random.seed(seed)
    torch.manual_seed(seed)
    import numpy as np

    # PyTorch seeds NumPy from this entropy, so workers of one loader differ and runs repeat.
    base = job.base_seed
    entropy = [job.worker_id, base & 0xFFFFFFFF, base >> 32, 0]
    np.random.seed(np.random.SeedSequence(entropy).generate_state(4))


def single_threaded_blas() -> None:
    """Ask the BLAS inside NumPy for one thread: its pool does not survive a fork, and workers share few cores."""
    import ctypes
    import glob

    import numpy as np

    for path in glob.glob(os.path.join(os.path.dirname(os.path.dirname(np.__file__)), "numpy.libs", "*openblas*")):
        lib = ctypes.CDLL(path)
        for name in ("openblas_set_num_threads64_", "scipy_openblas_set_num_threads64_", "openblas_set_num_threads"):
            fn = getattr(lib, name, None)
            if fn is not None:
                fn(1)
                break


class _Tasks:
    """Tasks read off the pipe by a thread of their own, so that the loader never blocks in sending them.

    A task is ``(epoch, number, index)``; tasks of an epoch the loader has given up are dropped. None means: end.
    """

    def __init__(self, conn: Any, parent: int) -> None:
        self.conn, self.parent = conn, parent
        self.queue: queue.SimpleQueue = queue.SimpleQueue()
        self.epoch = 0
        threading.Thread(target=self._read, daemon=True, name="mindtorch-tasks").start()

    def _read(self) -> None:
        try:
            while True:
                while not self.conn.poll(5.0):
                    if os.getppid() != self.parent:
                        # The loader was killed; a sibling may still hold its end of the pipe open.
                        os._exit(1)
                task = transport.receive(self.conn)
                self.epoch = task[0]
                self.queue.put(task)
        except (EOFError, OSError):
            self.queue.put(None)

    def __iter__(self) -> _Tasks:
        return self

    def __next__(self) -> tuple:
        while True:
            task = self.queue.get()
            if task is None:
                raise StopIteration
            if task[0] == self.epoch:
                return task


def worker_main(job: Job, conn: Any) -> None:
    """Entry point of a worker. Returns when the loader closes its end of ``conn``."""
    global _info
    if job.forked:
        for other in open_ends:
            other.close()
    open_ends.clear()
    try:
        _settle(job)
        _info = WorkerInfo(job.worker_id, job.num_workers, job.base_seed + job.worker_id, job.dataset)
        _serve(job, conn)
    except (KeyboardInterrupt, BrokenPipeError, ConnectionResetError):
        # Ctrl-C reaches the loader's process too, which reports it; a closed pipe means nobody is waiting any more.
        return


def _serve(job: Job, conn: Any) -> None:
    where = f"in DataLoader worker process {job.worker_id}"
    failure = None
    if job.init_fn is not None:
        try:
            job.init_fn(job.worker_id)
        except Exception as e:
            failure = Failure(e, where)
    tasks = _Tasks(conn, job.parent)
    epoch, fetcher, ended = None, None, False
    for now, number, index in tasks:
        if now != epoch:
            epoch, fetcher, ended = now, None, False
        if ended:
            continue
        result: Any
        if failure is not None:
            result, failure = failure, None
        else:
            try:
                if fetcher is None:
                    args = (job.dataset, job.auto_collation, job.collate_fn, job.drop_last)
                    fetcher = make_fetcher(job.iterable, *args)
                result = fetcher.fetch(index)
            except Exception as e:
                if job.iterable and isinstance(e, StopIteration):
                    result, ended = EndOfData(), True
                else:
                    result = Failure(e, where)
        _reply(conn, (now, number, result), where)


def _reply(conn: Any, message: tuple, where: str) -> None:
    try:
        transport.send(conn, message)
    except (BrokenPipeError, ConnectionResetError):
        raise
    except Exception as e:
        transport.send(conn, (*message[:2], Failure(e, where)))
