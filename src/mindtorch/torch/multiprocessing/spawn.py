"""``spawn``: the same function in several processes, errors brought home with their traceback."""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import os
import pickle
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from typing import Any

__all__ = [
    "ProcessContext",
    "ProcessExitedException",
    "ProcessRaisedException",
    "SpawnContext",
    "spawn",
    "start_processes",
]


class ProcessException(Exception):  # noqa: N818 - public name
    """A process ended badly: its index and pid."""

    def __init__(self, msg: str, error_index: int, pid: int) -> None:
        super().__init__(msg)
        self.msg, self.error_index, self.pid = msg, error_index, pid

    def __reduce__(self) -> Any:
        return type(self), (self.msg, self.error_index, self.pid)


class ProcessRaisedException(ProcessException):
    """A process raised; the message holds its traceback."""


class ProcessExitedException(ProcessException):
    """A process exited with a bad status or was killed."""

    def __init__(
        self, msg: str, error_index: int, error_pid: int, exit_code: int, signal_name: str | None = None
    ) -> None:
        super().__init__(msg, error_index, error_pid)
        self.exit_code, self.signal_name = exit_code, signal_name

    def __reduce__(self) -> Any:
        return type(self), (self.msg, self.error_index, self.pid, self.exit_code, self.signal_name)


def _wrap(fn: Callable[..., Any], i: int, args: tuple[Any, ...], error_file: str) -> None:
    """Runs in the child: an exception's text goes to ``error_file``."""
    try:
        fn(i, *args)
    except KeyboardInterrupt:
        sys.exit(1)
    except Exception:
        with open(error_file, "wb") as f:
            pickle.dump(traceback.format_exc(), f)
        sys.exit(1)


class ProcessContext:
    """Processes started by `start_processes`."""

    def __init__(self, processes: list[Any], error_files: list[str]) -> None:
        self.processes = processes
        self.error_files = error_files
        self.sentinels = {p.sentinel: i for i, p in enumerate(processes)}

    def pids(self) -> list[int]:
        """Process ids."""
        return [int(p.pid) for p in self.processes]

    def _end_all(self, grace: float | None) -> None:
        for p in self.processes:
            if p.is_alive():
                p.terminate()
        end = time.monotonic() + (30 if grace is None else grace)
        for p in self.processes:
            p.join(max(0.0, end - time.monotonic()))
            if p.is_alive():
                p.kill()
                p.join()

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:
        """Wait; True when all have ended well. Raises what a process raised, after ending the others."""
        if not self.sentinels:
            return True
        failed = None
        for sentinel in multiprocessing.connection.wait(list(self.sentinels), timeout=timeout):
            index = self.sentinels.pop(sentinel)  # type: ignore[arg-type]
            self.processes[index].join()
            if self.processes[index].exitcode != 0:
                failed = index
                break
        if failed is None:
            return not self.sentinels
        self._end_all(grace_period)
        raise self._error(failed)

    def _error(self, index: int) -> ProcessException:
        p = self.processes[index]
        path = self.error_files[index]
        if os.path.exists(path) and os.path.getsize(path):
            with open(path, "rb") as f:
                text = pickle.load(f)
            return ProcessRaisedException(
                f"\n\n-- Process {index} terminated with the following error:\n{text}", index, p.pid
            )
        if p.exitcode < 0:
            name = signal.Signals(-p.exitcode).name
            message = f"process {index} terminated with signal {name}"
            return ProcessExitedException(message, index, p.pid, p.exitcode, name)
        return ProcessExitedException(
            f"process {index} terminated with exit code {p.exitcode}", index, p.pid, p.exitcode
        )


class SpawnContext(ProcessContext):
    """A `ProcessContext` of the spawn method."""


def start_processes(
    fn: Callable[..., Any],
    args: tuple[Any, ...] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
    numa_options: Any = None,
) -> Any:
    """Start ``fn(i, *args)`` for i below ``nprocs``; wait for them, or return a `ProcessContext`."""
    if numa_options is not None:
        raise RuntimeError("start_processes: numa_options is not supported; start the program under numactl instead")
    ctx: Any = multiprocessing.get_context(start_method)
    folder = tempfile.mkdtemp(prefix="mindtorch-spawn-")
    processes, files = [], []
    for i in range(nprocs):
        files.append(os.path.join(folder, f"{i}.error"))
        p = ctx.Process(target=_wrap, args=(fn, i, args, files[-1]), daemon=daemon)
        p.start()
        processes.append(p)
    context = (SpawnContext if start_method == "spawn" else ProcessContext)(processes, files)
    if not join:
        return context
    try:
        while not context.join():
            continue
    finally:
        for path in files:
            if os.path.exists(path):
                os.unlink(path)
        os.rmdir(folder)
    return None


def spawn(
    fn: Callable[..., Any],
    args: tuple[Any, ...] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> Any:
    """`start_processes` with the spawn method."""
    return start_processes(fn, args, nprocs, join, daemon, start_method)
