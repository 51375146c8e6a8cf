"""`Timer`: times a Python statement, warmed up, on a given number of threads."""

from __future__ import annotations

import textwrap
import timeit
from collections.abc import Callable
from enum import Enum
from typing import Any

import mindtorch.torch as torch
from mindtorch.torch.utils.benchmark.measurement import Measurement, TaskSpec


class Language(Enum):
    """Of the statement."""

    PYTHON = 0
    CPP = 1


def timer() -> float:
    """Seconds, after everything that was sent to a device is done."""
    if torch.accelerator.is_available():
        torch.accelerator.synchronize()
    return timeit.default_timer()


class Timer:
    """Times ``stmt``, run after ``setup`` with the names of ``globals`` (and ``torch``).

    ``label``, ``sub_label``, ``description`` and ``env`` are where a `Compare` puts the result. While it runs,
    ``torch.get_num_threads()`` is ``num_threads``. NotImplementedError for ``language`` other than Python.
    """

    def __init__(
        self, stmt: str = "pass", setup: str = "pass", global_setup: str = "", timer: Callable[[], float] = timer,
        globals: dict[str, Any] | None = None, label: str | None = None, sub_label: str | None = None,
        description: str | None = None, env: str | None = None, num_threads: int = 1, language: Any = Language.PYTHON,
    ) -> None:  # fmt: skip
        if language not in (Language.PYTHON, "py", "python"):
            raise NotImplementedError(f"Timer(): language={language!r} would need a C++ compiler; time Python statements")
        if global_setup:
            raise ValueError(f"Timer(): global_setup was provided, but is only used for C++; got {global_setup!r}, use setup")
        if not isinstance(stmt, str):
            raise ValueError("Currently only a `str` stmt is supported.")
        names = dict(globals or {})
        names.setdefault("torch", torch)
        self._globals = names
        stmt, setup = textwrap.dedent(stmt).strip(), textwrap.dedent(setup).strip()
        self._timer = timeit.Timer(stmt=stmt, setup=setup, timer=timer, globals=names)
        self._task_spec = TaskSpec(stmt, setup, "", label, sub_label, description, env, num_threads)

    def _timeit(self, number: int) -> float:
        return max(self._timer.timeit(number), 1e-9)

    def _threaded(self, run: Callable[[], Any]) -> Any:
        before = torch.get_num_threads()
        torch.set_num_threads(self._task_spec.num_threads)
        try:
            return run()
        finally:
            torch.set_num_threads(before)

    def timeit(self, number: int = 1000000) -> Measurement:
        """One measurement of ``number`` runs, after a hundredth of them (at least two) to warm up."""

        def run() -> Measurement:
            self._timeit(max(number // 100, 2))
            return Measurement(number, [self._timeit(number)], self._task_spec)

        return self._threaded(run)

    def repeat(self, repeat: int = -1, number: int = -1) -> None:
        """Refused, as in PyTorch: NotImplementedError."""
        raise NotImplementedError("See `Timer.blocked_autorange.`")

    def autorange(self, callback: Any = None) -> None:
        """Refused, as in PyTorch: NotImplementedError."""
        raise NotImplementedError("See `Timer.blocked_autorange.`")

    def _block_size(self, min_run_time: float) -> int:
        """Runs in one measurement, so many that the timer's own cost is below a thousandth."""
        overhead = sorted(timeit.Timer("pass").timeit(1) for _ in range(5))[2]
        number = 1
        while True:
            taken = self._timeit(number)
            if overhead / taken <= 1e-4 and taken >= min_run_time / 1000:
                return number
            if taken > min_run_time:
                return number
            number *= 10

    def blocked_autorange(self, callback: Callable[[int, float], Any] | None = None, min_run_time: float = 0.2) -> Measurement:
        """Measurements of a fixed number of runs until together they took ``min_run_time`` seconds."""

        def run() -> Measurement:
            number = self._block_size(min_run_time)
            times: list[float] = []
            while not times or sum(times) < min_run_time:
                times.append(self._timeit(number))
                if callback is not None:
                    callback(number, times[-1])
            return Measurement(number, times, self._task_spec)

        return self._threaded(run)

    def adaptive_autorange(
        self, threshold: float = 0.1, *, min_run_time: float = 0.01, max_run_time: float = 10.0,
        callback: Callable[[int, float], Any] | None = None,
    ) -> Measurement:  # fmt: skip
        """Measure until the interquartile range is below ``threshold`` of the median, or ``max_run_time`` is over."""

        def run() -> Measurement:
            number = self._block_size(0.05)
            times: list[float] = []
            while True:
                round_began = sum(times)
                while sum(times) - round_began < min_run_time or not times:
                    times.append(self._timeit(number))
                    if callback is not None:
                        callback(number, times[-1])
                m = Measurement(number, times, self._task_spec)
                if (len(times) > 3 and m.meets_confidence(threshold)) or sum(times) > max_run_time:
                    return m

        return self._threaded(run)

    def collect_callgrind(self, *args: Any, **kwargs: Any) -> None:
        """RuntimeError: instructions are not counted here."""
        raise RuntimeError("collect_callgrind(): needs valgrind's bindings, which are not part of mindtorch; use blocked_autorange()")
