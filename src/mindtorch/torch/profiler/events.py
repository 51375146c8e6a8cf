"""What a recording gives out: `FunctionEvent`, one per op or range, and `FunctionEventAvg`, one per name."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Any

from mindtorch.torch.profiler import recording, tables

SHOWN = frozenset(["op", "node", "user", "optimizer", "data"])
"""Kinds of spans that are events of their own; the others only show in a trace."""
_SCOPES = {"node": 1, "user": 7, "optimizer": 7, "data": 7}


class DeviceType(Enum):
    """Where an event ran."""

    CPU = 0
    CUDA = 1


class Interval:
    """Begin and end in microseconds from the beginning of the recording."""

    def __init__(self, start: float, end: float) -> None:
        self.start, self.end = start, end

    def elapsed_us(self) -> float:
        """Length in microseconds."""
        return self.end - self.start


class _Times:
    """Figures that single events and averages have in common. Nothing is timed on another device than the host."""

    count = 1
    cpu_time_total: float
    self_cpu_time_total: float
    device_time_total = self_device_time_total = device_time = 0.0
    device_memory_usage = self_device_memory_usage = 0
    device_time_str = device_time_total_str = self_device_time_total_str = "0.000us"
    cuda_time = cuda_time_total = self_cuda_time_total = 0.0
    cuda_memory_usage = self_cuda_memory_usage = 0
    device_type = DeviceType.CPU
    is_async = is_remote = is_legacy = False
    node_id = -1
    use_device: str | None = None
    overload_name = ""

    @property
    def cpu_time(self) -> float:
        """Mean time of one call in microseconds."""
        return 0.0 if self.count == 0 else self.cpu_time_total / self.count

    @property
    def cpu_time_str(self) -> str:
        """``cpu_time`` with its unit."""
        return tables.time_text(self.cpu_time)

    @property
    def cpu_time_total_str(self) -> str:
        """``cpu_time_total`` with its unit."""
        return tables.time_text(self.cpu_time_total)

    @property
    def self_cpu_time_total_str(self) -> str:
        """``self_cpu_time_total`` with its unit."""
        return tables.time_text(self.self_cpu_time_total)


class FunctionEvent(_Times):
    """One call of an op, one node of a backward pass, or one range. Times are in microseconds."""

    def __init__(self, number: int, name: str, span: recording.Event, base: int, thread: int) -> None:
        self.id, self.name, self.key, self.trace_name = number, name, name, name
        self.thread = self.fwd_thread = thread
        self.time_range = Interval((span.start - base) / 1e3, (span.end - base) / 1e3)
        self.cpu_parent: FunctionEvent | None = None
        self.cpu_children: list[FunctionEvent] = []
        self.input_shapes = span.shapes if span.shapes is not None else []
        self.stack = recording.located(span.stack)
        self.module = span.module
        self.scope = _SCOPES.get(span.kind, 0)
        self.is_user_annotation = span.kind in ("user", "optimizer", "data")
        self.is_backward = span.backward
        self.flops: int | None = span.flops or None
        self.sequence_nr = span.seq
        self.kernel, self.prepared = span.kernel, span.prepared
        self.cpu_memory_usage = span.memory

    @property
    def cpu_time_total(self) -> float:  # type: ignore[override]
        """From begin to end, what it called included."""
        return self.time_range.elapsed_us()

    @property
    def self_cpu_time_total(self) -> float:  # type: ignore[override]
        """Without the events it called."""
        return self.cpu_time_total - sum(c.cpu_time_total for c in self.cpu_children)

    @property
    def self_cpu_memory_usage(self) -> int:
        """Bytes, without the events it called."""
        return self.cpu_memory_usage - sum(c.cpu_memory_usage for c in self.cpu_children)

    def append_cpu_child(self, child: FunctionEvent) -> None:
        """Make ``child`` an event that this one called."""
        self.cpu_children.append(child)
        child.cpu_parent = self

    def __repr__(self) -> str:
        return (
            f"<FunctionEvent id={self.id} name={self.name} cpu_time={self.cpu_time_str} start_us={self.time_range.start:.3f} "
            f"end_us={self.time_range.end:.3f} cpu_children={[c.id for c in self.cpu_children]} thread={self.thread} "
            f"input_shapes={self.input_shapes} cpu_memory_usage={self.cpu_memory_usage} seq_nr={self.sequence_nr}>"
        )


class FunctionEventAvg(_Times):
    """Events of one name (and shapes, and stack, when grouped so) added up."""

    def __init__(self) -> None:
        self.key = ""
        self.count = 0
        self.cpu_time_total = self.self_cpu_time_total = 0.0
        self.cpu_memory_usage = self.self_cpu_memory_usage = 0
        self.flops = 0
        self.input_shapes: Any = None
        self.stack: list[str] | None = None
        self.scope = 0
        self.kernel = ""
        self.cpu_parent: FunctionEvent | None = None
        self.cpu_children: list[FunctionEvent] = []
        self.is_user_annotation = False

    def add(self, other: Any) -> FunctionEventAvg:
        """Add an event, or another sum of the same name."""
        if not self.key:
            self.key, self.input_shapes, self.stack, self.scope = other.key, other.input_shapes, other.stack, other.scope
            self.cpu_parent, self.cpu_children = other.cpu_parent, other.cpu_children
            self.is_user_annotation = other.is_user_annotation
        for name in other.kernel.split(", "):
            if name and name not in self.kernel.split(", "):
                self.kernel = f"{self.kernel}, {name}" if self.kernel else name
        self.count += other.count
        self.cpu_time_total += other.cpu_time_total
        self.self_cpu_time_total += other.self_cpu_time_total
        self.cpu_memory_usage += other.cpu_memory_usage
        self.self_cpu_memory_usage += other.self_cpu_memory_usage
        self.flops += other.flops or 0
        return self

    __iadd__ = add

    def __repr__(self) -> str:
        shapes = "" if self.input_shapes is None else str(self.input_shapes)
        return (
            f"<FunctionEventAvg key={self.key} self_cpu_time={self.self_cpu_time_total_str} cpu_time={self.cpu_time_str} "
            f" self_cuda_time=0.000us cuda_time=0.000us input_shapes={shapes} "
            f"cpu_memory_usage={self.cpu_memory_usage} cuda_memory_usage=0>"
        )


class EventList(list):
    """Events, or their averages, with the ways to show them."""

    def __init__(self, events: Iterable[Any] = (), *, profile_memory: bool = False, with_flops: bool = False, trace: Any = None) -> None:
        super().__init__(events)
        self._memory, self._flops, self._trace = profile_memory, with_flops, trace

    @property
    def self_cpu_time_total(self) -> float:
        """Sum of the events' own times in microseconds."""
        return sum(e.self_cpu_time_total for e in self)

    def key_averages(
        self, group_by_input_shapes: bool = False, group_by_stack_n: int = 0, group_by_overload_name: bool = False
    ) -> EventList:
        """One entry per name; per name and shapes, and the innermost ``group_by_stack_n`` frames, when asked."""
        groups: dict[Any, FunctionEventAvg] = {}
        for e in self:
            key = (e.key, str(e.input_shapes) if group_by_input_shapes else None, tuple(e.stack[:group_by_stack_n]))
            groups.setdefault(key, FunctionEventAvg()).add(e)
        for avg in groups.values():
            if not group_by_input_shapes:
                avg.input_shapes = ""
            avg.stack = (avg.stack or [])[:group_by_stack_n]
        return EventList(groups.values(), profile_memory=self._memory, with_flops=self._flops, trace=self._trace)

    def total_average(self) -> FunctionEventAvg:
        """All events in one sum named Total."""
        total = FunctionEventAvg()
        for e in self:
            total.add(e)
        total.key, total.input_shapes, total.stack = "Total", "", None
        return total

    def table(
        self, sort_by: str | None = None, row_limit: int = 100, max_src_column_width: int = 75, max_name_column_width: int = 55,
        max_shapes_column_width: int = 80, header: str | None = None, top_level_events_only: bool = False,
        time_unit: str | None = None,
    ) -> str:  # fmt: skip
        """The table as text, with PyTorch's columns. ``sort_by`` names a figure (``self_cpu_time_total``, ``count`` ...),
        largest first; AttributeError when there is none of that name. ``row_limit=-1`` shows every row."""
        widths = tables.Widths(max_name_column_width, max_src_column_width, max_shapes_column_width)
        return tables.text(self, sort_by, row_limit, widths, header, top_level_events_only, time_unit, self._memory, self._flops)

    def __str__(self) -> str:
        return self.table()

    def export_chrome_trace(self, path: str) -> None:
        """Write the recording for chrome://tracing or Perfetto (gzip when ``path`` ends in .gz)."""
        if self._trace is None:
            raise RuntimeError("export_chrome_trace(): these events come from no recording; call it on a profiler's events()")
        self._trace(path)

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        """Write one line per event for flame graphs: frames from the outermost in, joined by ``;``, and the whole
        microseconds of ``metric`` (``self_cpu_time_total`` or ``self_cuda_time_total``)."""
        allowed = ("self_cpu_time_total", "self_cuda_time_total", "self_device_time_total", "self_xpu_time_total")
        if metric not in allowed:
            raise ValueError(f"metric should be one of: {list(allowed)}, got {metric!r}")
        with open(path, "w", encoding="utf-8") as file:
            for e in self:
                if not e.stack:
                    continue
                value = getattr(e, metric, 0)
                if int(value) > 0:
                    frames = ";".join(s.replace(" ", "_").replace(";", "_") for s in reversed(e.stack))
                    file.write(f"{frames} {int(value)}\n")


class _Loose:
    """Memory that came or went outside all events."""

    kind, name, shapes, stack, module, kernel = "memory", "[memory]", None, None, "", ""
    backward, flops, prepared, seq = False, 0, 0, -1

    def __init__(self, at: int, size: int, thread: Any) -> None:
        self.start = self.end = at
        self.memory, self.thread = size, thread


def build(spans: list[recording.Event], base: int, loose: Iterable[Any] = (), **options: Any) -> EventList:
    """Events of recorded spans. A node of a backward pass is two: the engine's, and in it the function's."""
    made: dict[int, FunctionEvent] = {}
    lanes: dict[int, int] = {}
    out: list[FunctionEvent] = []

    def make(name: str, span: Any) -> FunctionEvent:
        e = FunctionEvent(len(out), name, span, base, lanes.setdefault(id(span.thread), len(lanes) + 1))
        out.append(e)
        return e

    outside = [_Loose(*x) for x in loose]
    for span in spans:
        if not span.end:
            continue
        parent = span.parent
        while parent is not None and id(parent) not in made:
            parent = parent.parent
        if span.kind not in SHOWN:
            if span.memory and parent is not None:
                made[id(parent)].cpu_memory_usage += span.memory
            elif span.memory:
                outside.append(_Loose(span.end, span.memory, span.thread))
            continue
        e = make(f"autograd::engine::evaluate_function: {span.name}" if span.kind == "node" else span.name, span)
        if parent is not None:
            made[id(parent)].append_cpu_child(e)
        if span.kind == "node":
            inner = make(span.name, span)
            inner.cpu_memory_usage = 0
            e.append_cpu_child(inner)
            made[id(span)] = inner
        else:
            made[id(span)] = e
    for e in reversed(out):  # what is recorded is each event's own
        if e.cpu_parent is not None:
            e.cpu_parent.cpu_memory_usage += e.cpu_memory_usage
    if options.get("profile_memory"):
        for x in outside:
            make("[memory]", x)
    return EventList(out, **options)
