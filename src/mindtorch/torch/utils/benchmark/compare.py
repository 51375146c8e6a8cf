"""`Compare`: measurements as tables: one per label, a row per sub-label, a column per description, blocks per threads."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from mindtorch.torch.utils.benchmark.measurement import Measurement, select_unit, trim_sigfig, unit_to_english

_GREEN, _YELLOW, _RED, _PLAIN = "\033[92m\033[1m", "\033[33m", "\033[91m", "\033[0m"


class Colorize(Enum):
    """What colours compare: nothing, the entries of a column, or those of a row."""

    NONE = "none"
    COLUMNWISE = "columnwise"
    ROWWISE = "rowwise"


class Compare:
    """Tables of ``results``; printing it sorts them out. Equal tasks are merged."""

    def __init__(self, results: list[Measurement]) -> None:
        self._results: list[Measurement] = []
        self.extend_results(results)
        self._trim = self._warn = False
        self._colorize = Colorize.NONE

    def extend_results(self, results: Iterable[Measurement]) -> None:
        """Add measurements. ValueError for anything else."""
        for r in results:
            if not isinstance(r, Measurement):
                raise ValueError(f"Expected an instance of `Measurement`, got {type(r)} instead.")
            self._results.append(r)

    def trim_significant_figures(self) -> None:
        """Show no more digits than the scatter leaves meaningful."""
        self._trim = True

    def colorize(self, rowwise: bool = False) -> None:
        """Colour the best of each column (or row) green, slower ones yellow and red."""
        self._colorize = Colorize.ROWWISE if rowwise else Colorize.COLUMNWISE

    def highlight_warnings(self) -> None:
        """Show beside a time how far it scatters, when that is far."""
        self._warn = True

    def print(self) -> None:
        """Print the tables."""
        print(str(self))

    def __str__(self) -> str:
        merged = Measurement.merge(self._results)
        labels = dict.fromkeys(m.task_spec.label for m in merged)
        return "\n".join(self._table(label, [m for m in merged if m.task_spec.label == label]) for label in labels)

    def _table(self, label: str | None, ms: list[Measurement]) -> str:
        unit, length = select_unit(min(m.median for m in ms))
        columns = list(dict.fromkeys(m.task_spec.description or "" for m in ms))
        envs = list(dict.fromkeys(m.env for m in ms))
        rows = list(dict.fromkeys((m.task_spec.num_threads, m.env, m.as_row_name) for m in ms))
        names = [(f"({e}) " if len(envs) > 1 else "") + n for _, e, n in rows]
        cell = {((m.task_spec.num_threads, m.env, m.as_row_name), m.task_spec.description or ""): m for m in ms}
        texts = {k: self._text(m, length) for k, m in cell.items()}
        wide = {c: max(len(c), *(len(t) for (_, d), t in texts.items() if d == c)) for c in columns}
        first = max(len(n) for n in names) + 8
        out = ["", f"{'':{first}}|  " + "  |  ".join(f"{c:^{wide[c]}}" for c in columns)]
        threads = None
        for row, name in zip(rows, names):
            if row[0] != threads:
                threads = row[0]
                out.append(f"{threads} threads: ".ljust(len(out[1]), "-"))
            cells = (self._coloured(cell, row, c, texts.get((row, c), "").rjust(wide[c])) for c in columns)
            out.append(f"{'      ' + name:{first}}|  " + "  |  ".join(cells))
        width = max(len(s) for s in out[1:3])
        out[0] = "[" + f" {label or ''} ".center(width - 2, "-") + "]"
        return "\n".join([*out, "", f"Times are in {unit_to_english(unit)}s ({unit}).", ""])

    def _text(self, m: Measurement, length: float) -> str:
        value = m.median / length
        text = f"{trim_sigfig(value, m.significant_figures) if self._trim else value:.1f}"
        if self._warn and m.has_warnings:
            text += f" (! {m.iqr / m.median * 100:.0f}%)"
        return text

    def _coloured(self, cell: dict, row: tuple, column: str, text: str) -> str:
        m = cell.get((row, column))
        if m is None or self._colorize is Colorize.NONE:
            return text
        same = [v.median for (r, c), v in cell.items() if (r == row if self._colorize is Colorize.ROWWISE else c == column)]
        ratio = m.median / min(same)
        colour = _GREEN if ratio <= 1.05 else _YELLOW if ratio < 2 else _RED
        return f"{colour}{text}{_PLAIN}"
