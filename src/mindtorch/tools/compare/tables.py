"""The tables of ``api_dump_compare`` with the columns of TroubleShooter 1.0.18, and their csv files."""

from __future__ import annotations

import csv
import io
import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from mindtorch.tools.appending import replace
from mindtorch.tools.compare.align import Pair
from mindtorch.tools.compare.measure import Measured, decimals, percent
from mindtorch.tools.compare.read import Datum
from mindtorch.tools.grid import grid, plain, red

_NAME, _RATIO, _NUMBERS, _SHAPE = 45, 17, 25, 18
_WIDTHS = (_NAME, _NAME, _RATIO, _RATIO, _NUMBERS, _NUMBERS, _NUMBERS, _SHAPE, _SHAPE)


@dataclass
class Row:
    """One value of a pair of calls, measured; a side is None where it is missing."""

    pair: Pair
    a: Datum | None
    b: Datum | None
    measured: Measured | None


@dataclass
class Table:
    """Title, columns and cells; colours are taken out for csv."""

    title: str
    columns: tuple[str, ...]
    rows: list[tuple[str, ...]] = field(default_factory=list)

    def text(self) -> str:
        """For the terminal."""
        return f"{self.title}\n{grid(self.columns, self.rows)}"

    def save(self, path: str) -> None:
        """As csv, all fields quoted, mode 0600; an existing file is replaced in one step."""
        out = io.StringIO()
        writer = csv.writer(out, dialect="unix")
        writer.writerow(self.columns)
        writer.writerows([plain(c) for c in row] for row in self.rows)
        out.write("\n")  # the files of TroubleShooter end in an empty line
        os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
        replace(path, lambda f: f.write(out.getvalue().encode("utf-8")), 0o600)


# ------------------------------------------------------------------------------------------ A: no mindtorch
def mapping(pairs: Iterable[Pair], frames: tuple[str, str]) -> Table:
    """Which call is which."""
    rows = [tuple(e.key if e is not None else "None" for e in p) for p in pairs]
    return Table("The APIs mapping results", _names(frames), rows)


def _names(frames: tuple[str, str]) -> tuple[str, str]:
    return f"ORIGIN NET ({frames[0]})", f"TARGET NET ({frames[1]})"


def table_a(title: str, rows: Iterable[Row], frames: tuple[str, str]) -> Table:
    """PyTorch against MindSpore, or two runs of one framework."""
    columns = (
        *_names(frames), "shape of orig", "shape of target", "result of allclose", "ratio of allclose", "cosine similarity",
        "mean & max diffs",
    )  # fmt: skip
    out = []
    for r in rows:
        m = r.measured
        head = (_file(r.a), _file(r.b), _shape(r.a), _shape(r.b))
        if m is None:
            out.append((*head, "None", "None", "None", "None"))
        elif m.problem:
            out.append((*head, "False", m.problem, decimals(m.cosine), "nan, nan"))
        else:
            diffs = f"{decimals(m.mean_diff)}, {decimals(m.max_diff)}"
            out.append((*head, str(m.close), percent(m.ratio or 0.0), decimals(m.cosine), diffs))
    return Table(title, columns, out)


def _file(d: Datum | None) -> str:
    return "None" if d is None else d.name


def _shape(d: Datum | None) -> str:
    return "None" if d is None else str(d.shape)


# ------------------------------------------------------------------------------------------ B: mindtorch on a side
def table_b(title: str, rows: Sequence[Row], frames: tuple[str, str], markers: bool) -> Table:
    """PyTorch against mindtorch; ``markers``: module markers and dashes between calls, as in the forward table."""
    columns = (
        *_names(frames), "ratio of allclose", "cosine similarity", "mean cmp (pt, mt)", "max cmp (pt, mt)", "min cmp (pt, mt)",
        "shape cmp (pt, mt)", "dtype cmp (pt, mt)",
    )  # fmt: skip
    out: list[tuple[str, ...]] = []
    for i, r in enumerate(rows):
        entry = r.pair[0] or r.pair[1]
        if entry is not None and entry.kind == "LAYER":
            label = [f"LAYER: {e.name}".center(_NAME, "-") if e is not None else "None" for e in r.pair]
            out.append((*label, *("-" * w for w in _WIDTHS[2:])))
            continue
        out.append(_row_b(r))
        after = rows[i + 1] if i + 1 < len(rows) else None
        if markers and after is not None and after.pair != r.pair and not _is_layer(after):
            out.append(tuple("-" * w for w in _WIDTHS))
    return Table(title, columns, out)


def _is_layer(r: Row) -> bool:
    return any(e is not None and e.kind == "LAYER" for e in r.pair)


def _row_b(r: Row) -> tuple[str, ...]:
    names = tuple("None" if d is None else d.item.shown for d in (r.a, r.b))
    m = r.measured
    if m is None:
        return (*names, *(["None"] * 7))
    if m.problem:
        ratio = red(m.problem)
    else:
        ratio = _painted(percent(m.ratio or 0.0), (m.ratio or 0.0) < 0.95)
    cos = _painted(decimals(m.cosine), m.cosine < 0.95)
    return (*names, ratio, cos, *(_both(m, k) for k in ("mean", "max", "min")), _equal(m, "shape"), _equal(m, "dtype"))


def _painted(text: str, bad: bool) -> str:
    return red(text) if bad else text


def _both(m: Measured, key: str) -> str:
    x, y = m.a[key], m.b[key]
    base = abs(float(y)) or 1.0
    apart = abs(float(x) - float(y)) / base > 0.05 if math.isfinite(float(x)) and math.isfinite(float(y)) else x != y
    return _painted(f"{decimals(x)}, {decimals(y)}", bool(apart))


def _equal(m: Measured, key: str) -> str:
    x, y = m.a[key], m.b[key]
    return str(x) if x == y else red(f"{x}, {y}")


# ------------------------------------------------------------------------------------------ C: weights, D: statistics
def table_c(rows: Iterable[tuple[str, str, Measured | None]]) -> Table:
    """Weights by name."""
    columns = (
        "Parameter name of PyTorch", "Parameter name of MindTorch", "ratio of allclose", "cosine similarity", "mean cmp", "max cmp",
        "min cmp", "shape", "dtype",
    )  # fmt: skip
    out = []
    for a, b, m in rows:
        if m is None:
            out.append((a, b, *(["None"] * 7)))
            continue
        ratio = red(m.problem) if m.problem else _painted(percent(m.ratio or 0.0), (m.ratio or 0.0) < 0.95)
        cos = _painted(decimals(m.cosine), m.cosine < 0.95)
        out.append((a, b, ratio, cos, *(_both(m, k) for k in ("mean", "max", "min")), _equal(m, "shape"), _equal(m, "dtype")))
    return Table("The weights", columns, out)


def table_d(title: str, rows: Iterable[Row], frames: tuple[str, str], shown: bool) -> Table:
    """When there are statistics only; ``shown``: names as table B writes them."""
    columns = (*_names(frames), "shape of orig", "shape of target", "max diff", "min diff", "mean diff")
    out = []
    for r in rows:
        names = tuple("None" if d is None else d.item.shown if shown else d.name for d in (r.a, r.b))
        diffs = [decimals(abs(r.a.__dict__[k] - r.b.__dict__[k])) if r.a and r.b else "None" for k in ("max", "min", "mean")]
        out.append((*names, _shape(r.a), _shape(r.b), *diffs))
    return Table(title, columns, out)

