"""MindSpore's Runtime Profiler, on and off (it records only in a process started with ``MS_ENABLE_RUNTIME_PROFILER=1``), and its
profiler of kernels."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from mindtorch.engine.mindspore import door


def start() -> None:
    """Begin a step of MindSpore's record; loads MindSpore."""
    from mindspore._c_expression import _framework_profiler_step_start

    _framework_profiler_step_start()


def stop() -> None:
    """End the step. The files are written when the process ends normally."""
    from mindspore._c_expression import _framework_profiler_step_end

    _framework_profiler_step_end()


@contextmanager
def kernels(folder: str) -> Iterator[None]:
    """MindSpore's profiler around a block; when it is over its csv files lie in folders below ``folder``. Loads MindSpore."""
    door.load()
    from mindspore.profiler import ProfilerActivity, profile, tensorboard_trace_handler

    with profile(activities=[ProfilerActivity.CPU], on_trace_ready=tensorboard_trace_handler(folder)):
        yield
