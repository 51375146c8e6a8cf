"""Times of one statement and what describes it."""

from __future__ import annotations

import dataclasses
import math
import statistics
import textwrap
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

_UNITS = (("ns", 1e-9), ("us", 1e-6), ("ms", 1e-3), ("s", 1.0))
_ENGLISH = {"ns": "nanosecond", "us": "microsecond", "ms": "millisecond", "s": "second"}
_UNSTABLE, _VERY_UNSTABLE = 0.1, 0.25
"""Interquartile range over median from which on a measurement is doubted."""

_FINEST, _MOST_DIGITS = 25e-9, 4


def select_unit(t: float) -> tuple[str, float]:
    """The unit in which ``t`` seconds read best, and its length in seconds: ``("us", 1e-06)``."""
    best = _UNITS[0]
    for unit in _UNITS:
        if t >= unit[1]:
            best = unit
    return best


def unit_to_english(u: str) -> str:
    """``us`` -> ``microsecond``."""
    return _ENGLISH[u]


def trim_sigfig(x: float, n: int) -> float:
    """``x`` rounded to ``n`` significant digits. AssertionError when ``n`` is not an int."""
    if n != int(n):
        raise AssertionError(f"n must be an int, got {n!r}")
    if x == 0:
        return 0.0
    scale = 10 ** (math.ceil(math.log10(abs(x))) - n)
    return float(round(x / scale) * scale) if scale >= 1 else float(round(x, n - math.ceil(math.log10(abs(x)))))


@dataclasses.dataclass(init=True, repr=False, eq=True, frozen=True)
class TaskSpec:
    """What was timed, and under which labels it is shown."""

    stmt: str
    setup: str
    global_setup: str = ""
    label: str | None = None
    sub_label: str | None = None
    description: str | None = None
    env: str | None = None
    num_threads: int = 1

    @property
    def title(self) -> str:
        """Label and sub-label, else the statement."""
        if self.label is not None:
            return self.label + (f": {self.sub_label}" if self.sub_label else "")
        if "\n" not in self.stmt:
            return self.stmt + (f": {self.sub_label}" if self.sub_label else "")
        return (f"stmt:{f' ({self.sub_label})' if self.sub_label else ''}\n") + textwrap.indent(self.stmt, "  ")

    def setup_str(self) -> str:
        """The setup as it is shown, "" when there is none."""
        if self.setup == "pass" or not self.setup:
            return ""
        if "\n" in self.setup:
            return "setup:\n" + textwrap.indent(self.setup, "  ")
        return f"setup: {self.setup}"

    def summarize(self) -> str:
        """Title, description, setup and environment, those that there are."""
        parts = [self.title, self.description or "", self.setup_str(), self.env or ""]
        return "\n".join(p for p in parts if p)


@dataclasses.dataclass(init=True, repr=False)
class Measurement:
    """``raw_times`` in seconds, each of ``number_per_run`` runs of the statement of ``task_spec``."""

    number_per_run: int
    raw_times: list[float]
    task_spec: TaskSpec
    metadata: dict[Any, Any] | None = None

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or "task_spec" not in self.__dict__:
            raise AttributeError(name)
        return getattr(self.task_spec, name)

    @property
    def times(self) -> list[float]:
        """Seconds of one run, one entry for each measurement."""
        return [t / self.number_per_run for t in self.raw_times]

    @property
    def mean(self) -> float:
        """Mean of the times. ValueError without any."""
        return statistics.fmean(self._some())

    @property
    def median(self) -> float:
        """Median of the times. ValueError without any."""
        return statistics.median(self._some())

    @property
    def iqr(self) -> float:
        """From the 25th to the 75th percentile."""
        import numpy as np

        low, high = np.percentile(self._some(), [25, 75])
        return float(high - low)

    @property
    def significant_figures(self) -> int:
        """How many digits the spread of the times leaves meaningful: 1 to 4."""
        times = sorted(self._some())
        n = len(times)
        inner = times[n // 4 : math.ceil(3 * n / 4)]
        scatter = statistics.pstdev(inner) if len(inner) > 1 else 0.0
        # Nothing is known more exactly than the clock and the interpreter allow.
        doubt = max(1.645 * scatter / math.sqrt(len(inner)), _FINEST)
        return min(max(math.floor(math.log10(self.median / doubt)), 1), _MOST_DIGITS)

    @property
    def has_warnings(self) -> bool:
        """Whether the times scatter so much that they are to be doubted."""
        return not self.meets_confidence()

    @property
    def title(self) -> str:
        """Title of the task."""
        return self.task_spec.title

    @property
    def env(self) -> str:
        """Environment of the task."""
        return self.task_spec.env or "Unspecified env"

    @property
    def as_row_name(self) -> str:
        """Name of the row in a table."""
        return self.task_spec.sub_label or self.task_spec.stmt or "[Unknown]"

    def meets_confidence(self, threshold: float = _UNSTABLE) -> bool:
        """Whether the interquartile range is below ``threshold`` of the median."""
        return self.iqr / self.median < threshold if self.median else True

    def _some(self) -> list[float]:
        if not self.raw_times:
            raise ValueError("Measurement: there are no times; run blocked_autorange() or timeit() first")
        return self.times

    def __repr__(self) -> str:
        lines = [f"<torch.utils.benchmark.utils.common.Measurement object at {id(self):#x}>", self.task_spec.summarize()]
        unit, length = select_unit(self.median)
        digits = self.significant_figures
        n = len(self.raw_times)

        def show(t: float) -> str:
            return f"{trim_sigfig(t / length, max(digits, 3)):.{2 if t / length < 10 else 1 if t / length < 100 else 0}f} {unit}"

        if n == 1:
            lines.append(f"  {show(self.median)}")
        else:
            lines.append(f"  {'Median' if n > 2 else 'Mean'}: {show(self.median if n > 2 else self.mean)}")
            if n >= 4:
                import numpy as np

                low, high = np.percentile(self.times, [25, 75])
                lines.append(f"  IQR:    {show(self.iqr)} ({low / length:.2f} to {high / length:.2f})")
        runs = f"{self.number_per_run} runs {'per measurement' if n > 1 else ''}"
        threads = self.task_spec.num_threads
        lines.append(f"  {n} measurement{'s' if n > 1 else ''}, {runs}, {threads} thread{'s' if threads > 1 else ''}")
        if n > 1 and not self.meets_confidence():
            word = "very high" if not self.meets_confidence(_VERY_UNSTABLE) else "moderate"
            share = self.iqr / self.median * 100
            lines.append(f"  WARNING: Interquartile range is {share:.1f}% of the median measurement: a {word} scatter.")
        return "\n".join(lines)

    @staticmethod
    def merge(measurements: Iterable[Measurement]) -> list[Measurement]:
        """Measurements of equal tasks put together."""
        groups: dict[TaskSpec, list[Measurement]] = defaultdict(list)
        for m in measurements:
            groups[m.task_spec].append(m)
        return [Measurement(1, [t for m in ms for t in m.times], spec) for spec, ms in groups.items()]
