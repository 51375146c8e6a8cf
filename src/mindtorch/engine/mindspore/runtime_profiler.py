"""MindSpore's Runtime Profiler: on and off. It records only in a process started with ``MS_ENABLE_RUNTIME_PROFILER=1``."""

from __future__ import annotations


def start() -> None:
    """Begin a step of MindSpore's record; loads MindSpore."""
    from mindspore._c_expression import _framework_profiler_step_start

    _framework_profiler_step_start()


def stop() -> None:
    """End the step. The files are written when the process ends normally."""
    from mindspore._c_expression import _framework_profiler_step_end

    _framework_profiler_step_end()
