"""The loader's side of its workers: starting, feeding, waiting, noticing deaths, ending."""

from __future__ import annotations

import multiprocessing
import os
import signal
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import wait
from typing import Any

from . import transport
from .failure import Failure
from .worker import EndOfData, Job, open_ends, worker_main

_GRACE = 5.0
"""Seconds a worker may take to end by itself."""
_CHECK = 1.0
"""Seconds between looks whether silent workers are alive."""
_THREAD_LIMITS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def _hang_up(conn: Any) -> None:
    """Close a pipe for both sides, also when processes forked meanwhile still hold a copy of it."""
    try:
        with socket.fromfd(conn.fileno(), socket.AF_UNIX, socket.SOCK_STREAM) as s:
            s.shutdown(socket.SHUT_RDWR)
    except OSError:
        # The worker has gone first.
        pass
    conn.close()


class _Worker:
    """A process and the loader's end of its pipe."""

    def __init__(self, process: Any, conn: Any) -> None:
        self.process, self.conn = process, conn
        self.tasks = 0
        self.exhausted = False


def _default_context() -> Any:
    """The start method the script has chosen, or fork where there is one."""
    if multiprocessing.get_start_method(allow_none=True) is None and hasattr(os, "fork") and sys.platform != "darwin":
        return multiprocessing.get_context("fork")
    return multiprocessing.get_context()


@contextmanager
def _few_threads(forked: bool) -> Any:
    """Children that start anew read their thread limits from the environment."""
    if forked:
        yield
        return
    before = {name: os.environ.get(name) for name in _THREAD_LIMITS}
    os.environ.update(dict.fromkeys(_THREAD_LIMITS, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


class Pool:
    """Workers of one loader.

    Tasks are numbered in the sampler's order and dealt out in turn; results are handed back in that order, or as they
    come with ``in_order=False``. The pipe of a worker that dies ends, so a death is noticed at once and never waited
    for.
    """

    def __init__(self, loader: Any, base_seed: int) -> None:
        self.pid = os.getpid()
        self.workers: list[_Worker] = []
        self.ahead = loader.prefetch_factor * loader.num_workers
        self.in_order = loader.in_order
        self.timeout = loader.timeout
        self.iterable = bool(loader._dataset_kind)
        self.epoch = 0
        context = loader.multiprocessing_context or _default_context()
        forked = context.get_start_method() == "fork"
        try:
            with _few_threads(forked):
                for i in range(loader.num_workers):
                    self._start(context, forked, loader, base_seed, i)
        except BaseException:
            self.close()
            raise

    def _start(self, context: Any, forked: bool, loader: Any, base_seed: int, i: int) -> None:
        ours, theirs = context.Pipe(duplex=True)
        job = Job(
            dataset=loader.dataset,
            iterable=self.iterable,
            auto_collation=loader._auto_collation,
            collate_fn=loader.collate_fn,
            drop_last=loader.drop_last,
            base_seed=base_seed,
            worker_id=i,
            num_workers=loader.num_workers,
            init_fn=loader.worker_init_fn,
            parent=self.pid,
            forked=forked,
        )
        open_ends.add(ours)
        process = context.Process(target=worker_main, args=(job, theirs), name=f"mindtorch-worker-{i}", daemon=True)
        self.workers.append(_Worker(process, ours))
        try:
            process.start()
        finally:
            # Only the worker may hold its end, or its death would not show.
            theirs.close()

    # ---- an epoch

    def start_epoch(self, indices: Iterator[Any]) -> None:
        """Forget what is under way and give out the first tasks from ``indices``."""
        self.epoch += 1
        self.indices = indices
        self.sent = self.wanted = 0
        self.turn = 0
        self.owner: dict[int, _Worker] = {}
        self.ready: dict[int, Any] = {}
        for w in self.workers:
            w.tasks, w.exhausted = 0, False
        for _ in range(self.ahead):
            self._give_task()

    def _give_task(self) -> None:
        if not any(not w.exhausted for w in self.workers):
            return
        try:
            index = next(self.indices)
        except StopIteration:
            return
        worker = self._choose()
        self.owner[self.sent] = worker
        worker.tasks += 1
        try:
            transport.send(worker.conn, (self.epoch, self.sent, index))
        except (BrokenPipeError, ConnectionResetError):
            self._dead(worker)
        self.sent += 1

    def _choose(self) -> _Worker:
        """The next worker in turn; without an order to keep, one that is not behind the others."""
        n = len(self.workers)
        live = [w for w in (self.workers[(self.turn + i) % n] for i in range(n)) if not w.exhausted]
        worker = live[0] if self.in_order else min(live, key=lambda w: w.tasks)
        self.turn = (self.workers.index(worker) + 1) % n
        return worker

    def next(self) -> Any:
        """The next batch. StopIteration at the end; a worker's exception is raised here."""
        if not self.workers:
            raise StopIteration
        while True:
            number = self._ready_number()
            if number is not None:
                return self._hand_out(self.ready.pop(number))
            if not self.owner:
                raise StopIteration
            self._receive()

    def _ready_number(self) -> int | None:
        if not self.in_order:
            return next(iter(self.ready), None)
        # Numbers that an exhausted worker left unanswered are skipped.
        while self.wanted < self.sent and self.wanted not in self.owner and self.wanted not in self.ready:
            self.wanted += 1
        if self.wanted in self.ready:
            self.wanted += 1
            return self.wanted - 1
        return None

    def _hand_out(self, result: Any) -> Any:
        self._give_task()
        if isinstance(result, Failure):
            result.reraise()
        return result

    # ---- waiting

    def _receive(self) -> None:
        """Wait until something arrives, and take in all that has."""
        conns = {w.conn: w for w in self.workers}
        deadline = time.monotonic() + self.timeout if self.timeout else None
        while True:
            slice_ = _CHECK if deadline is None else min(_CHECK, max(0.0, deadline - time.monotonic()))
            found = wait(list(conns), slice_)
            if found:
                break
            if deadline is not None and time.monotonic() >= deadline:
                raise RuntimeError(f"DataLoader timed out after {self.timeout} seconds")
            for worker in self.workers:
                # A process the worker had started may keep its pipe open after its death.
                if not worker.process.is_alive() and not worker.conn.poll(0):
                    self._dead(worker)
        for conn in found:
            worker = conns[conn]  # type: ignore[index]
            try:
                epoch, number, result = transport.receive(conn)
            except (EOFError, ConnectionResetError):
                self._dead(worker)
            if epoch == self.epoch:
                self._take(worker, number, result)

    def _take(self, worker: _Worker, number: int, result: Any) -> None:
        worker.tasks -= 1
        del self.owner[number]
        if isinstance(result, EndOfData):
            worker.exhausted = True
            # What else it was given will not be answered.
            for n in [n for n, w in self.owner.items() if w is worker]:
                del self.owner[n]
            self._give_task()
        else:
            self.ready[number] = result

    def _dead(self, worker: _Worker) -> None:
        process = worker.process
        process.join(_GRACE)
        code = process.exitcode
        how = ""
        if code is not None and code < 0:
            try:
                how = f": killed by signal {signal.Signals(-code).name}"
            except ValueError:
                how = f": killed by signal {-code}"
            if code == -signal.SIGKILL:
                how += " (the system does that when memory runs out)"
        elif code is not None:
            how = f": exit status {code}"
        pid = process.pid
        self.close()
        raise RuntimeError(f"DataLoader worker (pid(s) {pid}) exited unexpectedly{how}")

    # ---- the end

    def close(self) -> None:
        """End the workers: they leave when their pipe ends; those that do not in time are terminated."""
        if os.getpid() != self.pid:
            return
        workers, self.workers = self.workers, []
        self.owner, self.ready = {}, {}
        for w in workers:
            open_ends.discard(w.conn)
            _hang_up(w.conn)
        deadline = time.monotonic() + _GRACE
        for w in workers:
            if w.process.pid is None:
                continue
            w.process.join(max(0.0, deadline - time.monotonic()))
            if w.process.is_alive():
                w.process.terminate()
                w.process.join(_GRACE)
                if w.process.is_alive():
                    w.process.kill()
                    w.process.join()
