"""The text of ``key_averages().table()``: PyTorch's columns, order, units and widths."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

_COLUMN = 12
_FLOPS = ("FLOPs", "KFLOPs", "MFLOPs", "GFLOPs", "TFLOPs", "PFLOPs")


class Widths(NamedTuple):
    """Widest columns: names, source lines, shapes. None is without limit."""

    name: int | None
    source: int | None
    shapes: int | None


def time_text(us: float, unit: str | None = None) -> str:
    """Microseconds with three decimals in s, ms or us: the largest unit that fits, or the given one."""
    if unit not in (None, "s", "ms", "us"):
        raise ValueError(f"time_unit must be 's', 'ms' or 'us', got {unit!r}")
    if unit is None:
        unit = "s" if us >= 1e6 else "ms" if us >= 1e3 else "us"
    return f"{us / {'s': 1e6, 'ms': 1e3, 'us': 1.0}[unit]:.3f}{unit}"


def memory_text(n: int) -> str:
    """Bytes with two decimals in GB, MB or KB, or whole."""
    for size, unit in ((1 << 30, "GB"), (1 << 20, "MB"), (1 << 10, "KB")):
        if abs(n) >= size:
            return f"{n / size:.2f} {unit}"
    return f"{n} B"


def _share(part: float, whole: float) -> str:
    if whole == 0:
        return "NaN" if part else "0.00%"
    return f"{part * 100 / whole:.2f}%"


def _fit(text: str, width: int) -> str:
    return text[: width - 3] + "..." if len(text) > width else text


def _width(texts: Sequence[str], limit: int | None) -> int:
    widest = max((len(t) for t in texts), default=0) + 4
    return widest if limit is None else min(widest, limit)


def _sorted(events: Sequence[Any], by: str | None) -> list[Any]:
    if by is None:
        return list(events)
    for e in events:
        if not isinstance(getattr(e, by, None), (int, float)):
            raise AttributeError(
                f"table(): sort_by={by!r} names no figure of {type(e).__name__}; use cpu_time, cpu_time_total, "
                "self_cpu_time_total, cpu_memory_usage, self_cpu_memory_usage, flops or count"
            )
    return sorted(events, key=lambda e: getattr(e, by), reverse=True)


class _Column(NamedTuple):
    title: str
    width: int
    cell: Callable[[Any], str]


def _figures(total: float, unit: str | None) -> list[_Column]:
    def time(name: str) -> Callable[[Any], str]:
        return lambda e: time_text(getattr(e, name), unit)

    return [
        _Column("Self CPU %", _COLUMN, lambda e: _share(e.self_cpu_time_total, total)),
        _Column("Self CPU", _COLUMN, time("self_cpu_time_total")),
        _Column("CPU total %", _COLUMN, lambda e: _share(e.cpu_time_total, total)),
        _Column("CPU total", _COLUMN, time("cpu_time_total")),
        _Column("CPU time avg", _COLUMN, time("cpu_time")),
    ]


def _flops_column(events: Sequence[Any]) -> _Column:
    most = max((e.flops or 0 for e in events), default=0)
    step = min(int(math.log10(most) / 3), len(_FLOPS) - 1) if most > 0 else 0
    scale = 10.0 ** (-3 * step)
    return _Column(
        f"Total {_FLOPS[step]}", max(_COLUMN, len(_FLOPS[step]) + 6), lambda e: f"{e.flops * scale:8.3f}" if e.flops else "--"
    )


def _columns(events: Sequence[Any], w: Widths, unit: str | None, memory: bool, flops: bool) -> list[_Column]:
    name = _width([e.key for e in events], w.name)
    columns = [_Column("Name", name, lambda e: _fit(e.key, name))]
    columns += _figures(sum(e.self_cpu_time_total for e in events), unit)
    if memory:
        columns.append(_Column("CPU Mem", _COLUMN, lambda e: memory_text(e.cpu_memory_usage)))
        columns.append(_Column("Self CPU Mem", _COLUMN, lambda e: memory_text(e.self_cpu_memory_usage)))
    columns.append(_Column("# of Calls", _COLUMN, lambda e: str(e.count)))
    if any(e.input_shapes for e in events):
        shapes = max(_width([str(e.input_shapes) for e in events], w.shapes), len("Input Shapes"))
        columns.append(_Column("Input Shapes", shapes, lambda e: _fit(str(e.input_shapes), shapes)))
    lines = [s for e in events for s in e.stack or []]
    if lines:
        source = max(_width(lines, w.source), len("Source Location"))
        columns.append(_Column("Source Location", source, lambda e: _path_fit(e.stack[0], source) if e.stack else ""))
    if flops:
        columns.append(_flops_column(events))
    return columns


def _path_fit(text: str, width: int) -> str:
    """The end of a source line: that is where the function is."""
    return "..." + text[len(text) - width + 3 :] if len(text) > width else text


def text(
    events: Sequence[Any], sort_by: str | None, row_limit: int, widths: Widths, header: str | None, top_level: bool,
    unit: str | None, memory: bool, flops: bool,
) -> str:  # fmt: skip
    """The table. Rows beyond ``row_limit`` (-1: none) are left out; the sums are those of all rows."""
    if not events:
        return ""
    events = _sorted(events, sort_by)
    columns = _columns(events, widths, unit, memory, flops)
    rule = "".join("-" * c.width + "  " for c in columns)
    lines = []
    if header is not None:
        lines += ["=" * len(rule), header]
    if top_level:
        lines += ["=" * len(rule), "This report only display top-level ops statistics"]
    lines += [rule, "".join(f"{c.title:>{c.width}}  " for c in columns), rule]
    shown = [e for e in events if not top_level or e.cpu_parent is None]
    for e in shown if row_limit < 0 else shown[:row_limit]:
        lines.append("".join(f"{c.cell(e):>{c.width}}  " for c in columns))
        if any(c.title == "Source Location" for c in columns):
            for frame in (e.stack or [])[1:]:
                cells = ((_path_fit(frame, c.width) if c.title == "Source Location" else "", c.width) for c in columns)
                lines.append("".join(f"{t:>{n}}  " for t, n in cells))
    total = sum(e.self_cpu_time_total for e in events)
    return "\n".join([*lines, rule, f"Self CPU time total: {time_text(total, unit)}", ""])
