"""Values of aligned calls, paired and measured once, for the tables and for the verdict."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from mindtorch.tools.compare.align import Pair, align
from mindtorch.tools.compare.measure import Measured, Tolerance, measure
from mindtorch.tools.compare.read import Datum, Entry, Step
from mindtorch.tools.compare.tables import Row


def pair_data(a: list[Datum], b: list[Datum]) -> list[tuple[Datum | None, Datum | None]]:
    """Values of two calls by their place; those left over (a keyword on one side) by shape, then in order."""
    right = {d.item.index: d for d in b}
    out: list[tuple[Datum | None, Datum | None]] = []
    alone: list[Datum] = []
    for d in a:
        if d.item.index in right:
            out.append((d, right.pop(d.item.index)))
        else:
            alone.append(d)
    rest = list(right.values())
    for d in alone:
        same = next((r for r in rest if r.shape == d.shape), rest[0] if rest else None)
        if same is not None:
            rest.remove(same)
        out.append((d, same))
    return out + [(None, r) for r in rest]


def rows_of(pair: Pair, role: str, tolerance: Tolerance) -> list[Row]:
    """Measured rows of inputs, outputs or grads of a pair of calls."""
    left, right = (list(getattr(e, role)) if e is not None else [] for e in pair)
    out = []
    for a, b in pair_data(left, right):
        out.append(Row(pair, a, b, measure(a, b, tolerance) if a is not None and b is not None else None))
    return out


@dataclass
class Seen:
    """One pair of calls with its rows."""

    pair: Pair
    inputs: list[Row] = field(default_factory=list)
    outputs: list[Row] = field(default_factory=list)
    grads: list[Row] = field(default_factory=list)

    @property
    def entry(self) -> Entry:
        """The call of the first side, of the second when only that has one."""
        e = self.pair[0] or self.pair[1]
        if e is None:
            raise ValueError("a pair of calls without calls")
        return e

    @property
    def both(self) -> bool:
        """Whether both sides made the call."""
        return self.pair[0] is not None and self.pair[1] is not None

    @property
    def marker(self) -> bool:
        """Whether this is where a module begins, and no call."""
        return self.entry.kind == "LAYER"


class StepRows:
    """Everything of one step of both runs, aligned and measured."""

    def __init__(self, a: Step, b: Step, tolerance: Tolerance, backward: bool = True) -> None:
        self.a, self.b, self.tolerance = a, b, tolerance
        self.seen: list[Seen] = []
        for pair in align(a.forward, b.forward):
            s = Seen(pair)
            if not s.marker:
                s.inputs, s.outputs = rows_of(pair, "inputs", tolerance), rows_of(pair, "outputs", tolerance)
                s.grads = rows_of(pair, "grads", tolerance) if backward else []
            self.seen.append(s)
        self.partner = {s.pair[0].key: s for s in self.seen if s.pair[0] is not None and not s.marker}
        self.partner_b = {s.pair[1].key: s for s in self.seen if s.pair[1] is not None and not s.marker}
        self.grad_scale = max((_size(r) for s in self.seen for r in s.grads), default=0.0)

    @property
    def calls(self) -> list[Seen]:
        """Without module markers."""
        return [s for s in self.seen if not s.marker]

    @property
    def unmatched(self) -> list[Entry]:
        """Calls that one side alone made."""
        return [s.entry for s in self.calls if not s.both]

    def consumers(self, key: str, side: int = 0) -> list[Seen]:
        """Calls that took an output of call ``key`` as input."""
        return [s for s in self.calls if (e := s.pair[side]) is not None and key in e.sources.values()]

    def forward_rows(self) -> list[Row]:
        """Rows of the forward table, a row without values for each module marker."""
        out: list[Row] = []
        for s in self.seen:
            out += [Row(s.pair, None, None, None)] if s.marker else s.inputs + s.outputs
        return out

    def backward_rows(self) -> list[Row]:
        """Rows of the backward table: last calls first."""
        return [r for s in reversed(self.calls) for r in s.grads]


def _size(r: Row) -> float:
    tops = [abs(v) for d in (r.a, r.b) if d is not None for v in (d.max, d.min) if math.isfinite(v)]
    if not tops and r.measured is not None:
        tops = [r.measured.scale]
    return max(tops, default=0.0)


def grad_floor(r: Row, largest: float) -> float:
    """Difference of a gradient that is rounding beside the largest gradient of the step.

    Gradients that are themselves nothing beside it (behind a normalisation that takes them away) carry the rounding of all
    layers before them.
    """
    small = r.measured is not None and r.measured.scale < 1e-4 * largest
    return (1e-6 if small else 1e-7) * largest


def dtype_word(text: str) -> str:
    """dtypes of all frameworks in one spelling."""
    return text.removeprefix("torch.").lower()


def apart(m: Measured | None, floor: float, tolerance: Tolerance, a: Any, b: Any) -> str:
    """Why a measured row counts as different, "" when it does not.

    An element beyond the tolerance counts unless it is noise beside the whole tensor; a tensor as a whole counts when its
    relative difference is beyond rtol, unless all of it is below ``floor``, the noise of what it was computed from.
    """
    if m is None or a is None or b is None:
        return ""
    if m.problem:
        return m.problem
    if dtype_word(a.dtype) != dtype_word(b.dtype):
        return f"dtypes differ: {dtype_word(a.dtype)} and {dtype_word(b.dtype)}"
    if math.isinf(m.relative):
        return "NaN or infinite elements on one side" if any(m.nan) and not all(m.nan) else "infinite difference"
    rtol, _ = tolerance.of(a, b)
    if dtype_word(a.dtype) in ("float64", "complex128"):
        rtol *= 1e-3
    top = float(m.max_diff) if math.isfinite(float(m.max_diff)) else m.relative * m.scale
    if m.relative > rtol and top > floor:
        return how(m)
    # Single elements count where the tolerance is fine; with few bits one unit in the last place is more than atol.
    if m.exact and not m.close and 0.1 * rtol < m.relative and rtol < 5e-4 and not any(m.nan):
        return how(m)
    return ""


def how(m: Measured) -> str:
    """How far apart, in words."""
    if not m.exact:
        return f"statistics {m.relative:.2g} apart (relative)"
    share = f"{100 * (m.ratio or 0.0):.2f} % within tolerance, " if m.ratio is not None else ""
    return f"{share}largest difference {float(m.max_diff):.3g} beside values up to {m.scale:.3g}, cosine {m.cosine:.6f}"
