"""Loads MindSpore once, late, with the settings it needs on the CPU, and says whether it may be loaded at all.

Refused in DataLoader workers and in forked children: MindSpore's runtime threads do not survive a fork, and a worker
never has enough work to repay 1.2 s.
"""

from __future__ import annotations

import importlib
import importlib.util
import logging
import os
import sys
import threading
from time import perf_counter_ns
from types import ModuleType
from typing import Any

import numpy as np

from mindtorch import log
from mindtorch.engine import used

_ISA = "ONEDNN_MAX_CPU_ISA"
_lock = threading.RLock()
_module: ModuleType | None = None
_failure: str | None = None
_found: bool | None = None
_worker = False
_forked = False
_blocking = False
"""Whether kernels are done when their launch returns."""


def _after_fork() -> None:
    global _forked
    _forked = True


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def mark_worker() -> None:
    """Declare this process a DataLoader worker: MindSpore is never loaded in it."""
    global _worker
    _worker = True


def in_worker() -> bool:
    """True in a DataLoader worker or a forked child. ``MINDTORCH_WORKER=1`` marks processes started by other means."""
    if _worker or _forked or os.environ.get("MINDTORCH_WORKER", "0") not in {"", "0"}:
        return True
    processes = sys.modules.get("multiprocessing.process")
    return processes is not None and bool(processes.current_process().daemon)


def available() -> bool:
    """Whether MindSpore is installed, may be loaded in this process, and has not failed to load."""
    global _found
    if _failure is not None or in_worker():
        return False
    if _found is None:
        _found = _module is not None or importlib.util.find_spec("mindspore") is not None
    return _found


def driver() -> bool:
    """Whether the machine has Ascend's driver."""
    return os.path.exists("/dev/davinci_manager")


def target() -> str:
    """MindSpore's device target in this process: "Ascend" where its driver is present, unless it is simulated; else "CPU"."""
    simulated = os.environ.get("MINDTORCH_NPU_SIM", "") not in ("", "0")
    return "Ascend" if driver() and not simulated else "CPU"


def computes_cpu() -> bool:
    """Whether MindSpore may compute CPU tensors: it is available, and its target is the CPU."""
    return available() and target() == "CPU"


def program() -> ModuleType:
    """MindSpore as the program itself uses it, for work on the program's own Cells: imported, no setting of it changed.

    ImportError when it is not installed.
    """
    return importlib.import_module("mindspore")


def loaded() -> bool:
    """Whether MindSpore has been loaded through this door."""
    return _module is not None


def load() -> ModuleType:
    """The mindspore module, imported on first use. RuntimeError, with the reason, when it may not be or fails."""
    global _module, _failure
    if _module is not None and not _forked:
        return _module
    if in_worker():
        raise RuntimeError(
            "MindSpore is not loaded in DataLoader workers and forked processes; compute in the main process, "
            "or start the process with the 'spawn' method and without daemon=True"
        )
    with _lock:
        if _module is None:
            if _failure is not None:
                raise RuntimeError(_failure)
            began = perf_counter_ns()
            try:
                _module = _import()
                used.say("", perf_counter_ns() - began)
            except Exception as error:
                _failure = f"MindSpore could not be loaded: {error}"
                raise RuntimeError(_failure) from error
    return _module


def _import() -> ModuleType:
    """Import with oneDNN held to AVX2: with AVX-512 releases 2.9 and 2.10 fall into a reference loop."""
    global _blocking
    ours = _ISA not in os.environ
    if ours:
        os.environ[_ISA] = "AVX2"
    try:
        import mindspore

        try:
            mindspore.set_device(target())
            # asynchronous launch costs 10 to 80 times the kernel on few cores
            mindspore.runtime.launch_blocking()
            _blocking = True
        except RuntimeError as error:
            # The program used MindSpore before us: its runtime takes no settings any more, and results are the same.
            log.once(logging.WARNING, f"MindSpore was in use before mindtorch could set blocking launch; its kernels start slower ({error})")
        if target() == "CPU":
            _wake(mindspore)
    finally:
        # oneDNN has read it by now; a real PyTorch loaded later in this process must not inherit it
        if ours:
            os.environ.pop(_ISA, None)
    return mindspore


def settle() -> None:
    """Wait for what was launched, if the program set ``pynative_synchronize`` and launching does not wait by itself.

    MindSpore reads that setting before its first kernel only; here it counts from where the program sets it.
    """
    if not _blocking and _module is not None and _module.get_context("pynative_synchronize"):
        wait()


def wait() -> None:
    """Wait for all kernels launched so far. RuntimeError of a kernel that failed behind the program's back."""
    if _blocking or _module is None:
        return
    try:
        room = importlib.import_module("mindspore.graph.api")
    except ImportError:  # releases before 2.9
        room = importlib.import_module("mindspore.common.api")
    room._pynative_executor.sync()


def _wake(mindspore: Any) -> None:
    """Run one small convolution, so that oneDNN reads its settings now, while they are in place."""
    one = mindspore.Tensor.from_numpy(np.ones((1, 1, 3, 3), np.float32))
    mindspore.ops.Conv2D(1, 3)(one, one).asnumpy()


def tensor(a: np.ndarray) -> Any:
    """The array as an ms.Tensor sharing its memory (``a`` must be C-contiguous, else it is copied)."""
    return load().Tensor.from_numpy(a)
