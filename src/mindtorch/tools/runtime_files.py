"""MindSpore's Runtime Profiler writes three files, none of them a csv or a trace as tools expect them: this reads them.

``RuntimeProfilerSummary<ns>.csv`` is text, ``RuntimeProfilerDetail<ns>.csv`` has ``name:value`` pairs,
``RuntimeProfilerJson<ns>.json`` is a list of trace events without thread names. MindSpore labels neither forward nor backward:
:class:`Phase` ranges recorded beside it do.
"""

from __future__ import annotations

import csv
import glob
import json
import os
import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

_STEP = re.compile(r"\[Step:(\d+),? step_time:(\d+)(\w+), module_total_time:(\d+)")
_RECORD = re.compile(
    r"(?P<kind>module|stage):(?P<name>[^,]*), event:(?P<event>[^,]*), op:(?P<op>.*), start_time:(?P<start>\d+), "
    r"end_time:(?P<end>\d+), dur_time:,(?P<dur>\d+),(?P<unit>\w+), tid:(?P<tid>\d+), pid:(?P<pid>\d+)$"
)
_LINE = re.compile(r"\s*(?P<kind>Module|Event|EventInner|Op|Stage):(?P<name>.*?), (?P<figures>(?:total|average)_time:.*)$")
_FIGURE = re.compile(r"(\w+):([\d.]+)")
_UNITS = {"ns": 1, "us": 1000}
COLUMNS = ("step", "kind", "module", "event", "op", "start_ns", "duration_ns", "tid", "pid", "phase")


@dataclass(frozen=True)
class Record:
    """One span of MindSpore's. Times are nanoseconds since the epoch."""

    step: int
    kind: str
    """ "module" or "stage": a stage covers what modules do in it."""
    name: str
    event: str
    op: str
    start: int
    duration: int
    tid: int
    pid: int


@dataclass(frozen=True)
class Figure:
    """One line of the summary: times in nanoseconds, ``percent`` None where MindSpore prints none."""

    kind: str
    name: str
    total: float
    average: float
    count: int
    percent: float | None
    inside: tuple[str, ...] = ()
    """The lines it stands under, outermost first."""


@dataclass
class StepSummary:
    """One step of the summary file. Times in nanoseconds."""

    step: int
    step_time: int
    module_time: int
    figures: list[Figure] = field(default_factory=list)


@dataclass(frozen=True)
class Phase:
    """A range set beside MindSpore's records: "forward", "backward", "optimizer" or any other name. Nanoseconds since the epoch."""

    name: str
    start: int
    end: int


class Unreadable(ValueError):
    """The file is not what MindSpore's Runtime Profiler writes."""


def find(folder: str) -> list[tuple[str, str, str]]:
    """(summary, detail, json) of every recording in ``folder`` and its ``rank_*`` folders, oldest first.

    Raises FileNotFoundError when there is none.
    """
    sets = []
    for where in (folder, *sorted(glob.glob(os.path.join(glob.escape(folder), "rank_*")))):
        for path in sorted(glob.glob(os.path.join(glob.escape(where), "RuntimeProfilerDetail*.csv"))):
            stamp = os.path.basename(path)[len("RuntimeProfilerDetail") : -len(".csv")]
            both = (os.path.join(where, f"RuntimeProfilerSummary{stamp}.csv"), os.path.join(where, f"RuntimeProfilerJson{stamp}.json"))
            if all(os.path.exists(p) for p in both):
                sets.append((both[0], path, both[1]))
    if not sets:
        raise FileNotFoundError(
            f"{folder}: no files of MindSpore's Runtime Profiler; set MS_ENABLE_RUNTIME_PROFILER=1 before the program starts, call "
            "_framework_profiler_step_start and _end in it, and let it end normally"
        )
    return sets


def read_detail(path: str) -> list[Record]:
    """All records of a detail file."""
    records, step = [], 0
    with open(path, encoding="utf-8", errors="replace") as f:
        for number, line in enumerate(f, 1):
            line = line.rstrip("\n")
            head = _STEP.match(line)
            if head:
                step = int(head[1])
                continue
            if not line.strip():
                continue
            m = _RECORD.match(line)
            if m is None:
                raise Unreadable(f"{path}, line {number}: not a record of the Runtime Profiler: {line[:80]!r}")
            scale = _UNITS.get(m["unit"], 1)
            row = (m["kind"], m["name"], m["event"], m["op"], int(m["start"]), int(m["dur"]) * scale, int(m["tid"]), int(m["pid"]))
            records.append(Record(step, *row))
    return records


_DEPTH = {"Module": 0, "Stage": 0, "Event": 1, "EventInner": 1, "Op": 2}


def read_summary(path: str) -> list[StepSummary]:
    """The steps of a summary file. An op that MindSpore lists by total and by average time comes once."""
    steps: list[StepSummary] = []
    above: list[str] = []
    with open(path, encoding="utf-8", errors="replace") as f:
        for line in f:
            head = _STEP.match(line)
            if head:
                scale = _UNITS.get(head[3], 1)
                steps.append(StepSummary(int(head[1]), int(head[2]) * scale, int(head[4]) * scale))
                continue
            m = _LINE.match(line)
            if m is None:
                continue
            if not steps:
                raise Unreadable(f"{path}: figures before the first step")
            depth = _DEPTH[m["kind"]]
            above[depth:] = [m["name"]]
            scale = 1000 if "us," in m["figures"] else 1
            n = {k: float(v) for k, v in _FIGURE.findall(m["figures"])}
            made = Figure(
                m["kind"], m["name"], n["total_time"] * scale, n["average_time"] * scale, int(n["total_count"]),
                n.get("percent"), tuple(above[:depth]),
            )  # fmt: skip
            if made not in steps[-1].figures:
                steps[-1].figures.append(made)
    if not steps:
        raise Unreadable(f"{path}: no step of the Runtime Profiler in it")
    return steps


def read_json(path: str) -> list[dict[str, Any]]:
    """The events of a json file."""
    with open(path, encoding="utf-8", errors="replace") as f:
        try:
            events = json.load(f)
        except ValueError as e:
            raise Unreadable(f"{path}: {e}") from None
    if not isinstance(events, list):
        raise Unreadable(f"{path}: a list of events was expected, got {type(events).__name__}")
    return events


# ------------------------------------------------------------------------------------------ phases
class Phases:
    """Which phase a moment lies in; of nested ones the innermost."""

    def __init__(self, phases: Iterable[Phase]) -> None:
        self.sorted = sorted(phases, key=lambda p: (p.start, -p.end))
        self.starts = [p.start for p in self.sorted]

    def at(self, moment: int) -> str:
        """Name of the phase, "" outside all."""
        for i in range(bisect_right(self.starts, moment) - 1, -1, -1):
            if self.sorted[i].end >= moment:
                return self.sorted[i].name
        return ""


def write_csv(records: Sequence[Record], path: str, phases: Iterable[Phase] = ()) -> None:
    """A csv that spreadsheets and pandas read: one line a record, ops with commas quoted. Columns: `COLUMNS`."""
    where = Phases(phases)
    with open(path, "w", encoding="utf-8", newline="") as f:
        out = csv.writer(f)
        out.writerow(COLUMNS)
        for r in records:
            out.writerow((r.step, r.kind, r.name, r.event, r.op, r.start, r.duration, r.tid, r.pid, where.at(r.start)))


@dataclass
class OpTime:
    """What one op took, nanoseconds."""

    op: str
    phase: str
    total: int = 0
    count: int = 0

    @property
    def average(self) -> float:
        """Nanoseconds a call."""
        return self.total / self.count


@dataclass
class Summary:
    """The guide's figures, nanoseconds. ``phases`` are the ranges given; a phase nobody marked is not there."""

    steps: int
    step_total: int
    phases: dict[str, int]
    ops: list[OpTime]

    def text(self, rows: int = 10) -> str:
        """For a reader; ops ranked in each phase."""
        lines = [f"{self.steps} steps, {self.step_total / self.steps / 1e6:.3f} ms each"]
        lines += [f"  {name:10} {total / self.steps / 1e6:10.3f} ms a step" for name, total in self.phases.items()]
        for phase in dict.fromkeys(o.phase for o in self.ops):
            lines.append(f"ops{' of ' + phase if phase else ''}, by total time:")
            for o in [o for o in self.ops if o.phase == phase][:rows]:
                lines.append(f"  {o.total / 1e6:10.3f} ms {o.count:6d} x {o.average / 1e3:10.1f} us  {o.op}")
        return "\n".join(lines)


_WORK = ("RunOp", "KernelLaunch", "DeviceTask", "LaunchTask", "FrontendTask")
"""Events that stand for an op's work, the outermost first: of those only one counts for an op, or it counts twice."""


def summarise(records: Sequence[Record], steps: Sequence[StepSummary], phases: Iterable[Phase] = ()) -> Summary:
    """Step total, the time of each phase, and ops ranked within their phase."""
    marked = list(phases)
    where = Phases(marked)
    kinds: dict[str, set[str]] = defaultdict(set)
    for r in records:
        kinds[r.op].add(r.event)
    ops: dict[tuple[str, str], OpTime] = {}
    for r in records:
        counted = next((e for e in _WORK if e in kinds[r.op]), None)
        if r.kind == "module" and r.op and r.event == counted:
            phase = where.at(r.start)
            o = ops.setdefault((r.op, phase), OpTime(r.op, phase))
            o.total, o.count = o.total + r.duration, o.count + 1
    times: dict[str, int] = defaultdict(int)
    for p in marked:
        times[p.name] += p.end - p.start
    ranked = sorted(ops.values(), key=lambda o: -o.total)
    return Summary(len(steps), sum(s.step_time for s in steps), dict(times), ranked)


def merge_trace(files: Iterable[str], path: str, phases: Iterable[Phase] = (), more: Iterable[dict[str, Any]] = ()) -> None:
    """One trace for chrome://tracing and Perfetto of several json files: numbers for process and thread, threads named after
    what they mostly do, phases on a row of their own. ``more``: events of another profiler with microsecond times since the epoch."""
    events: list[dict[str, Any]] = []
    work: dict[tuple[int, int], dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for file in files:
        for e in read_json(file):
            pid, tid = int(e["pid"]), int(e["tid"])
            events.append({**e, "pid": pid, "tid": tid, "cat": e["name"].split("::")[0]})
            work[pid, tid][e["name"].split("::")[0]] += 1
    first = min((p for p, _ in work), default=os.getpid())
    for p in phases:
        times = {"ts": p.start / 1e3, "dur": (p.end - p.start) / 1e3}
        events.append({"ph": "X", "name": p.name, "cat": "phase", "pid": first, "tid": 0, **times})
    events.extend(more)
    # Chrome's viewer holds times as doubles: microseconds since 1970 would lose their fraction.
    begin = min((float(e["ts"]) for e in events if "ts" in e), default=0.0)
    for e in events:
        if "ts" in e:
            e["ts"] = float(e["ts"]) - begin
    names = [{"ph": "M", "name": "thread_name", "pid": first, "tid": 0, "args": {"name": "phases"}}]
    for (pid, tid), kinds in work.items():
        label = f"{max(kinds, key=lambda k: kinds[k])} ({tid})"
        names.append({"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": {"name": label}})
    with open(path, "w", encoding="utf-8") as f:
        json.dump({"displayTimeUnit": "ms", "traceEvents": [*names, *events]}, f)
