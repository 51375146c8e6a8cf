"""Advice on a script's speed, each piece measured on the script's own tensors before it is given.

``python -m mindtorch tune train.py`` is the command line of :func:`tune`.
"""

from __future__ import annotations

import json
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from mindtorch.tools.advice.record import Enough, Loop, Recorder, recording
from mindtorch.tools.advice.trial import THRESHOLD, Hint

__all__ = ["Advice", "Hint", "advise", "tune"]


@dataclass
class Advice:
    """What was found. ``loops`` says what was measured, ``hints`` are sorted by gain, ``failure`` is the script's traceback."""

    hints: list[Hint] = field(default_factory=list)
    loops: list[dict[str, Any]] = field(default_factory=list)
    tried: list[str] = field(default_factory=list)
    failure: str | None = None
    untried: list[str] = field(default_factory=list)
    """Rules whose trial raised, with the reason: the script goes on without their advice."""

    def json(self) -> str:
        """For a machine."""
        rows = [h.json() for h in self.hints]
        return json.dumps({"hints": rows, "loops": self.loops, "tried": self.tried, "failure": self.failure, "untried": self.untried}, indent=1)

    def text(self) -> str:
        """For a reader."""
        from mindtorch.tools.advice.sources import shown

        lines = [
            f"{x['kind']} step: {x['milliseconds']:.3f} ms ({x['data']:.3f} ms of it waiting for data), {x['steps']} steps timed"
            for x in self.loops
        ]
        for i, h in enumerate(self.hints, 1):
            lines += [
                "",
                f"{i}. {h.rule}: {shown(h.file)}:{h.line}  saves {h.gain:.0%} of the {h.step_kind} step"
                f" ({h.before:.3f} -> {h.after:.3f} ms, measured)",
                f"     {h.text}",
                f"   {h.message}",
            ]
        if not self.hints and self.loops:
            lines.append(f"nothing to say: none of the {len(self.tried)} rules saves {THRESHOLD:.0%} of a step")
        if not self.loops:
            lines.append("no step was seen: the script has no DataLoader loop of three batches and no optimiser that steps")
        lines += [f"could not be tried: {x}" for x in self.untried]
        if self.failure:
            lines += ["", "the script ended with an exception:", self.failure.rstrip()]
        return "\n".join(lines)


def _rules(everything: bool) -> list[Callable[[Loop], Iterator[Hint]]]:
    from mindtorch.tools.advice import rules_loops as loops
    from mindtorch.tools.advice import rules_ops as ops
    from mindtorch.tools.advice import rules_training as training

    rules: list[Callable[[Loop], Iterator[Hint]]] = [
        ops.power, ops.tiny, ops.repeated_to, ops.needless_copy, ops.cat_in_loop, ops.accidental_double,
        loops.item_in_loop, loops.rows, loops.printing, loops.attention,
        training.no_grad, training.zero_grad, training.checkpoint, training.collate, training.workers,
    ]  # fmt: skip
    return [*rules, training.amp, training.batch_size, training.graph] if everything else rules


def advise(recorder: Recorder, everything: bool = False) -> Advice:
    """Try all rules on what was recorded. ``everything``: also those that change numbers (mixed precision, batch size) or
    need compiling (graph mode)."""
    rules = _rules(everything)
    advice = Advice(tried=[r.__name__ for r in rules])
    for loop in recorder.loops.values():
        if not loop.seconds:
            continue
        times = {"milliseconds": loop.seconds * 1e3, "data": loop.per_step("data") * 1e3}
        advice.loops.append({"kind": loop.kind, "steps": len(loop.plain), **times})
        for rule in rules:
            try:
                advice.hints += rule(loop)
            except Exception as e:  # a script's own code runs in trials, and may raise anything
                advice.untried.append(f"{rule.__name__}: {type(e).__name__}: {e}")
    best: dict[tuple[str, str, int], Hint] = {}
    for h in advice.hints:  # a line that serves training and evaluation is named once
        k = h.rule, h.file, h.line
        if k not in best or h.gain > best[k].gain:
            best[k] = h
    advice.hints = sorted(best.values(), key=lambda h: -h.gain)
    return advice


def tune(run: Callable[[], Any], steps: int = 12, seconds: float = 60.0, everything: bool = False) -> Advice:
    """Run a program (a function that takes nothing) under observation and advise on it.

    Each loop over a DataLoader is left after ``steps`` batches, later passes over it after one; a program without loaders
    ends after ``steps`` optimiser steps. Nothing new is begun after ``seconds``.
    """
    if steps < 6:
        raise ValueError(f"tune: steps must be at least 6 (some are timed, two are observed), got {steps}")
    failure = None
    with recording(Recorder(steps, seconds)) as recorder:
        try:
            run()
        except (Enough, SystemExit):
            pass
        except Exception:
            failure = traceback.format_exc(limit=-4)
    advice = advise(recorder, everything)
    advice.failure = failure
    return advice
