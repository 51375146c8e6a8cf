"""``compare``: two dumps, every rank and every step, as tables and as an object."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from mindtorch import log
from mindtorch.tools.compare import tables
from mindtorch.tools.compare.align import Pair
from mindtorch.tools.compare.measure import Measured, Tolerance
from mindtorch.tools.compare.nan import NanOrigin, nan_origin
from mindtorch.tools.compare.read import Entry, RankDump, Step, ranks
from mindtorch.tools.compare.rows import StepRows
from mindtorch.tools.compare.verdict import Divergence, Judge
from mindtorch.tools.compare.weights import compare_weights


@dataclass
class StepResult:
    """Tables and unmatched calls of one step of one rank."""

    rank: int
    step: int
    tables: dict[str, tables.Table]
    unmatched: list[Entry]
    rows: StepRows
    first: Divergence | None
    dumps: tuple[RankDump, RankDump]


@dataclass
class Comparison:
    """The result of comparing two dumps. It is true when they agree."""

    origin: str
    target: str
    frames: tuple[str, str] = ("", "")
    steps: list[StepResult] = field(default_factory=list)
    weights: list[tuple[str, str, Measured | None]] = field(default_factory=list)
    nan: list[NanOrigin] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def first(self) -> Divergence | None:
        """The first divergence: of the earliest step, and of the lowest rank within it."""
        found = [s.first for s in self.steps if s.first is not None]
        return min(found, key=lambda d: (d.step, d.rank)) if found else None

    @property
    def ok(self) -> bool:
        """Whether no divergence was found."""
        return self.first is None

    def __bool__(self) -> bool:
        return self.ok

    @property
    def unmatched(self) -> list[Entry]:
        """Calls that one side alone made."""
        return [e for s in self.steps for e in s.unmatched]

    def summary(self) -> str:
        """The verdict in words."""
        n = sum(len(s.rows.calls) for s in self.steps)
        lines = [f"{n} calls in {len(self.steps)} steps compared, {len(self.unmatched)} of them on one side only"]
        first = self.first
        lines.append(first.text() if first is not None else "No divergence.")
        lines += [o.text() for o in self.nan]
        if self.unmatched:
            shown = ", ".join(f"{e.shown} (step {e.step})" for e in self.unmatched[:10])
            lines.append(f"On one side only: {shown}{', ...' if len(self.unmatched) > 10 else ''}")
        return "\n".join(lines + self.notes)

    def text(self) -> str:
        """All tables, and the verdict behind them."""
        parts = [tables.table_c(self.weights).text()] if self.weights else []
        for s in self.steps:
            parts += [t.text() for t in s.tables.values()]
        return "\n".join([*parts, self.summary()])

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "origin": self.origin, "target": self.target, "ok": self.ok, "frames": list(self.frames),
            "first": self.first.as_dict() if self.first else None, "nan": [o.__dict__ for o in self.nan],
            "unmatched": [e.key for e in self.unmatched], "steps": len(self.steps), "notes": self.notes,
        }  # fmt: skip


@dataclass
class Options:
    """How to compare."""

    tolerance: Tolerance = field(default_factory=Tolerance)
    ignore_unmatched: bool = False
    ignore_backward: bool = False
    with_tables: bool = True


def compare(origin: str, target: str, options: Options | None = None, output_path: str | None = None) -> Comparison:
    """Compare two dumps. csv files go to ``output_path`` when it is given, of rank n > 0 into ``rank<n>`` below it.

    ValueError when a path holds no dump or the two have no rank in common.
    """
    options = options or Options()
    left, right = ranks(origin), ranks(target)
    common = sorted(set(left) & set(right))
    if not common:
        if len(left) == len(right) == 1:
            pairs = [(*left, *right)]
        else:
            raise ValueError(f"no rank in common: {sorted(left)} in {origin}, {sorted(right)} in {target}")
    else:
        pairs = [(r, r) for r in common]
    out = Comparison(origin, target)
    only = sorted(set(left) ^ set(right))
    if only and common:
        out.notes.append(f"Ranks of one side only, not compared: {only}")
    for r, q in pairs:
        _rank(out, r, RankDump(left[r]), RankDump(right[q]), options, output_path)
    return out


def _rank(out: Comparison, rank: int, a: RankDump, b: RankDump, options: Options, output_path: str | None) -> None:
    out.frames = (a.framework, b.framework)
    by_phase = not (a.has_calls and b.has_calls)
    left, right = a.steps(by_phase), b.steps(by_phase)
    if len(left) != len(right):
        note = f"rank {rank}: {len(left)} steps and {len(right)} steps; the first {min(len(left), len(right))} are compared"
        log.logger().warning("api_dump_compare: %s", note)
        out.notes.append(note)
    if a.weights and b.weights:
        out.weights += compare_weights(a.weights, b.weights, options.tolerance)
    for dump, steps, side in ((a, left, "origin"), (b, right, "target")):
        found = nan_origin(dump, steps, side)
        if found is not None:
            out.nan.append(found)
    judge = Judge(a, b, options.tolerance, rank)
    found_one = False
    for number, (x, y) in enumerate(zip(left, right)):
        result = _step(rank, number, a, b, x, y, options)
        # After the first divergence everything differs: later steps have tables, and no verdict.
        result.first = None if found_one else judge.step(number, result.rows)
        found_one = found_one or result.first is not None
        out.steps.append(result)
        if output_path is not None:
            folder = output_path if rank == 0 else os.path.join(output_path, f"rank{rank}")
            for name, table in result.tables.items():
                table.save(os.path.join(folder, f"ts_api_{name}_{number}.csv"))
    if judge.note:
        out.notes.append(judge.note)


def _step(rank: int, number: int, a: RankDump, b: RankDump, x: Step, y: Step, options: Options) -> StepResult:
    rows = StepRows(x, y, options.tolerance, not options.ignore_backward)
    made = dict(_tables(number, a, b, rows, options)) if options.with_tables else {}
    return StepResult(rank, number, made, rows.unmatched, rows, None, (a, b))


def _tables(number: int, a: RankDump, b: RankDump, rows: StepRows, options: Options) -> Iterator[tuple[str, tables.Table]]:
    frames = (a.framework, b.framework)
    wide = "mindtorch" in frames
    pairs: list[Pair] = [s.pair for s in rows.seen]
    forward, backward = rows.forward_rows(), rows.backward_rows()
    if options.ignore_unmatched:
        pairs = [p for p in pairs if None not in p]
        forward = [r for r in forward if None not in r.pair and (r.a is None) == (r.b is None)]
        backward = [r for r in backward if r.a is not None and r.b is not None]
    if not wide:
        yield "mapping", tables.mapping(pairs, frames)
    for name, found in (("forward_compare", forward), ("backward_compare", backward)):
        if name.startswith("backward") and not found:
            continue
        title = f"The {name.partition('_')[0]} comparison results of step {number}"
        values = [r for r in found if r.a is not None or r.b is not None]
        if not (a.has_arrays and b.has_arrays):
            yield name, tables.table_d(title, values, frames, wide)
        elif wide:
            yield name, tables.table_b(title, found, frames, markers=name.startswith("forward"))
        else:
            yield name, tables.table_a(title, values, frames)
