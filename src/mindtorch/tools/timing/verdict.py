"""From the split of the steps to the guide's verdict: is the loader the bottleneck, and how many workers would hide it."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from typing import Any

from mindtorch.tools.timing.clock import PHASES, Step

MANY = 16
"""Recommended workers from which on the preprocessing itself is to be looked at."""


def mean_phases(steps: Sequence[Step]) -> dict[str, float]:
    """Mean seconds by phase; zeros without steps."""
    return {p: sum(s.phases[p] for s in steps) / len(steps) if steps else 0.0 for p in PHASES}


def order(seconds: float) -> int:
    """Order of magnitude: 0.05 -> -2."""
    return math.floor(math.log10(seconds)) if seconds > 0 else -99


def loader_bound(data: float, network: float) -> bool:
    """Whether Data Time is of the same or the neighbouring order of magnitude as Train Time, or of a greater one."""
    return data > 0 and order(network) - order(data) <= 1


def workers_for(preprocess: float, network: float) -> int:
    """``num_workers`` that hides a batch's preprocessing behind the network: their ratio rounded up, at least 1."""
    return max(1, math.ceil(preprocess / network)) if network > 0 else 1


class Split:
    """Means over the timed steps of one program, and what follows from them. Times in seconds."""

    def __init__(self, steps: Sequence[Step]) -> None:
        timed = [s for s in steps if s.steady] or [s for s in steps if not s.first]
        self.compiling = sum(not s.first and not s.steady for s in steps) if any(s.steady for s in steps) else 0
        trained = [s for s in timed if s.trained]
        self.training = bool(trained)
        self.steps = trained or timed
        self.evaluating = [s for s in timed if not s.trained] if trained else []
        self.phases = mean_phases(self.steps)
        self.step = sum(self.phases.values())
        self.data_time = self.phases["data"] + self.phases["transfer"]
        self.train_time = self.phases["forward"] + self.phases["backward"] + self.phases["optimizer"]
        self.loader = self.steps[-1].loader if self.steps else None
        self.bound = self.loader is not None and loader_bound(self.data_time, self.train_time)
        self.workers = getattr(self.loader, "num_workers", None)
        self.preprocess: float | None = None
        self.recommended: int | None = None
        self.slowest: str | None = None
        self.trial: dict[str, Any] | None = None

    def look_at_loader(self) -> None:
        """Measure the preprocessing of a batch in this process and derive the recommendation from it."""
        from mindtorch.tools.timing import preprocess

        if self.loader is None or not self.bound:
            return
        parts = preprocess.measure(self.loader)
        if self.workers == 0:
            self.preprocess = self.phases["data"]
        elif parts is not None:
            self.preprocess = parts.seconds
        else:  # an iterable dataset: with all workers busy each step takes a worker's batch divided by their number
            self.preprocess = (self.data_time + self.train_time) * (self.workers or 1)
        self.recommended = workers_for(self.preprocess, self.train_time)
        if parts is not None and self.recommended > MANY:
            self.slowest = preprocess.slowest(self.loader, parts)

    def as_json(self) -> dict[str, Any]:
        """For ``--json``: times in seconds."""
        return {
            "steps": len(self.steps), "compiling": self.compiling, "training": self.training, "phases": self.phases, "step": self.step, "data_time": self.data_time,
            "train_time": self.train_time, "loader_bound": self.bound, "num_workers": self.workers, "preprocess": self.preprocess,
            "recommended_num_workers": self.recommended, "slowest": self.slowest, "trial": self.trial,
            "evaluation": {"steps": len(self.evaluating), "phases": mean_phases(self.evaluating)} if self.evaluating else None,
            "verdict": _verdict(self) if self.steps else None, "text": text(self),
        }  # fmt: skip


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.3f} ms"


_LABELS = dict(zip(PHASES, ("data", "host to device", "forward", "backward", "optimizer", "other")))


def text(split: Split) -> str:
    """The report for a terminal."""
    if not split.steps:
        return "No step was timed: the first one is left out, and the program made no second one (DataLoader or optimizer steps)."
    what = "training" if split.training else "evaluation"
    more = f" and {split.compiling} that compiled or loaded kernels" if split.compiling else ""
    lines = [f"Mean of {len(split.steps)} {what} steps, the first one{more} left out:"]
    for p in PHASES:
        lines.append(f"  {_LABELS[p]:<15}{_ms(split.phases[p]):>14}{split.phases[p] / split.step * 100:>8.1f} %")
    lines.append(f"  {'step':<15}{_ms(split.step):>14}{100:>8.1f} %")
    if split.evaluating:
        e = mean_phases(split.evaluating)
        total = sum(e.values())
        lines.append(f"Beside them {len(split.evaluating)} evaluation steps of {_ms(total)}, {_ms(e['data'])} of it data.")
    lines.append(f"Data Time {_ms(split.data_time)}, Train Time {_ms(split.train_time)}: " + _verdict(split))
    lines += _advice(split)
    return "\n".join(lines)


def _verdict(split: Split) -> str:
    if split.loader is None:
        return "there is no DataLoader to wait for."
    if split.bound:
        return "the loader is the bottleneck (same or neighbouring order of magnitude)."
    return "the loader is no bottleneck."


def _advice(split: Split) -> list[str]:
    if split.recommended is None or split.preprocess is None:
        return []
    out = [
        f"num_workers is {split.workers}; recommended: {split.recommended} = ceil(preprocessing of a batch {_ms(split.preprocess)} "
        f"/ network {_ms(split.train_time)})."
    ]
    if split.recommended > MANY:
        out.append(f"More than {MANY} workers: make the preprocessing faster first. Slowest part: {split.slowest or 'unknown'}.")
    elif split.workers and split.workers >= split.recommended:
        out.append("As many workers are there already: they start slowly, wait for the disk, or have too few cores.")
    if split.recommended > _cores():
        out.append(f"This machine gives the program {_cores()} cores; more workers than that share them.")
    if split.trial is not None:
        t = split.trial
        gain = (1 - t["step"] / split.step) * 100
        out.append(
            f"Tried with num_workers={t['num_workers']}: step {_ms(t['step'])}, Data Time {_ms(t['data_time'])} "
            f"({'%.1f %% less' % gain if gain >= 0 else '%.1f %% more' % -gain} time per step)."
        )
    return out
