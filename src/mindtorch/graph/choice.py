"""Which backend runs a captured program: measured on the program's own calls, and said.

Eager and host kernels are always compared. ``ms.jit`` costs seconds once, so "auto" tries it where MindSpore is loaded anyway
and the forward pass is long enough for that to come back, "best" always.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from mindtorch import log
from mindtorch.engine.mindspore import door

MEASURED = ("auto", "best")
TRIES = 3
"""Timed calls of each kind before the fastest is kept."""
WORTH = 0.02
"""Seconds of a forward pass from which compiling by MindSpore is tried."""
_ORDER = ("host", "eager", "mindspore")


def turn(times: dict[str, list[float]]) -> str:
    """The kind that was timed least often."""
    return min((k for k in _ORDER if k in times), key=lambda k: len(times[k]))


def fastest(best: dict[str, float], trained: bool) -> str:
    """The kind to keep. In training an even forward pass is a gain for the host program: its derivative gains more."""
    cost = {k: v * (1.2 if trained and k == "eager" else 1.0) for k, v in best.items()}
    return min((k for k in _ORDER if k in cost), key=lambda k: cost[k])


def told(best: dict[str, float]) -> str:
    """Times in words."""
    return ", ".join(f"{k} {1e3 * v:.3g} ms" for k, v in best.items())


def timed(name: str, entry: Any, given: Any, eager: Callable[[], Any], thorough: bool = False) -> Any:
    """One call, on the backend whose turn it is; after enough of them the fastest is kept."""
    times = entry.times
    kind = turn(times)
    if kind != "eager":
        entry.on(kind)
    start = time.perf_counter()
    out = eager() if kind == "eager" else entry(given)
    times[kind].append(time.perf_counter() - start)
    if all(len(t) >= TRIES for t in times.values()):
        best = {k: min(v) for k, v in times.items()}
        if "mindspore" in times or not _try_mindspore(entry, best["host"], thorough):
            settle(name, entry, best)
    return out


def _try_mindspore(entry: Any, host: float, thorough: bool) -> bool:
    """Whether ``ms.jit`` is measured too."""
    if thorough:
        if not door.available():
            entry.notes.append("ms.jit not tried: MindSpore is not available here")
            return False
    elif host <= WORTH:
        entry.notes.append(f"ms.jit not tried: the pass takes less than {1e3 * WORTH:.0f} ms")
        return False
    elif "mindspore" not in sys.modules:
        entry.notes.append("ms.jit not tried: MindSpore is not loaded")
        return False
    if not entry.compile_mindspore():
        return False
    entry.times["mindspore"] = []
    return True


def settle(name: str, entry: Any, best: dict[str, float]) -> None:
    """Keep the fastest, and say so."""
    entry.chosen = fastest(best, entry.trained)
    entry.use("host" if entry.chosen == "eager" else entry.chosen)
    what = "it stays eager, a graph does not pay" if entry.chosen == "eager" else f"backend {entry.chosen} is kept"
    log.logger().info("graph of %s: %s (%s)", name, what, told(best))


class Contest:
    """Two ways to run a backward program, timed by turns; the faster is kept. ``say`` receives the result in words."""

    def __init__(self, runs: dict[str, Callable[..., Any]], say: Callable[[str], None]) -> None:
        self.runs, self.say = runs, say
        self.times: dict[str, list[float]] = {k: [] for k in runs}
        self.chosen: Callable[..., Any] | None = None

    def __call__(self, arrays: Sequence[Any]) -> Any:
        """Results of the program."""
        if self.chosen is not None:
            return self.chosen(arrays)
        kind = turn(self.times)
        start = time.perf_counter()
        out = self.runs[kind](arrays)
        self.times[kind].append(time.perf_counter() - start)
        if all(len(t) >= TRIES for t in self.times.values()):
            best = {k: min(v) for k, v in self.times.items()}
            kind = fastest(best, False)
            self.chosen = self.runs[kind]
            self.say(f"backend {kind} is kept ({told(best)})")
        return out
