"""``torch.utils.benchmark``: `Timer` times a statement, `Measurement` holds the times, `Compare` puts several in a table."""

from __future__ import annotations

from mindtorch.torch.utils.benchmark.compare import Colorize, Compare
from mindtorch.torch.utils.benchmark.measurement import Measurement, TaskSpec, select_unit, trim_sigfig, unit_to_english
from mindtorch.torch.utils.benchmark.timer import Language, Timer, timer

__all__ = [
    "Colorize", "Compare", "Language", "Measurement", "TaskSpec", "Timer", "select_unit", "timer", "trim_sigfig", "unit_to_english",
]  # fmt: skip
