"""What ``python -m mindtorch convert`` prints: tables of tensors and differences, and a bar that counts bytes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from mindtorch.formats.weights import Row
from mindtorch.tools.weight_diff import Difference


def size(n: float) -> str:
    """``1536`` as ``1.5 KiB``."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if n < 1024:
            return f"{n:.0f} {unit}" if unit == "B" else f"{n:.1f} {unit}"
        n /= 1024
    return f"{n:.1f} TiB"


def console() -> Any:
    """Where tables go. Files and pipes get lines as long as they need to be: names must not be cut."""
    from rich.console import Console

    return Console(highlight=False, soft_wrap=False) if sys.stdout.isatty() else Console(highlight=False, width=1000)


def _table(*columns: str, right: tuple[str, ...] = ()) -> Any:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for c in columns:
        table.add_column(c, justify="right" if c in right else "left", overflow="fold")
    return table


def _escaped(text: str) -> str:
    from rich.markup import escape

    return escape(text)


def elements(row: Row) -> int:
    """Number of elements of a tensor."""
    return int(np.prod(row.shape, dtype=object))


def _shape(shape: Iterable[int]) -> str:
    return f"({', '.join(map(str, shape))})"


def summary(rows: list[Row]) -> Any:
    """Tensors, parameters and bytes of each dtype and in all."""
    table = _table("dtype", "tensors", "parameters", "bytes", "size", right=("tensors", "parameters", "bytes", "size"))
    kinds = sorted({r.dtype for r in rows})
    for kind in [*kinds, "all"] if len(kinds) != 1 else kinds:
        of = [r for r in rows if kind in ("all", r.dtype)]
        n = sum(r.nbytes for r in of)
        table.add_row(kind, f"{len(of):,}", f"{sum(map(elements, of)):,}", f"{n:,}", size(n))
    return table


def listing(rows: list[Row]) -> Any:
    """One line for each tensor."""
    table = _table("name", "dtype", "shape", "parameters", "bytes", right=("parameters", "bytes"))
    for r in rows:
        table.add_row(_escaped(r.name), r.dtype, _shape(r.shape), f"{elements(r):,}", f"{r.nbytes:,}")
    return table


def _what(value: Any) -> tuple[str, str]:
    """dtype and shape of one side of a comparison."""
    if value is None:
        return "-", "-"
    if isinstance(value, np.ndarray):
        return value.dtype.name, _shape(value.shape)
    return type(value).__name__, repr(value)[:40]


def _pair(a: str, b: str) -> str:
    return a if a == b else f"{a} | {b}"


def comparison(rows: list[Difference], everything: bool) -> Any:
    """One line for each name that differs, or with ``everything`` for each."""
    table = _table(
        "name", "status", "dtype", "shape", "max diff", "mean diff", "cosine", "within", right=("max diff", "mean diff")
    )
    for r in rows:
        if not (everything or r.status != "equal"):
            continue
        (da, sa), (db, sb) = _what(r.a), _what(r.b)
        numbers = ["", "", "", ""]
        if r.apart is not None:
            numbers = [f"{r.apart.max:.3g}", f"{r.apart.mean:.3g}", f"{r.apart.cosine:.6f}", f"{r.apart.ratio:.2%}"]
        style = {"equal": None, "close": "yellow"}.get(r.status, "red")
        table.add_row(_escaped(r.name), r.status, _pair(da, db), _escaped(_pair(sa, sb)), *numbers, style=style)
    return table


@contextmanager
def bar(quiet: bool, totals: dict[str, int]) -> Iterator[Callable[[str, int], Any]]:
    """A progress bar by bytes on stderr, one line for each phase; silent when ``quiet`` or stderr is no terminal."""
    if quiet or not sys.stderr.isatty():
        yield lambda phase, n: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(binary_units=True), TransferSpeedColumn())
    with Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True), transient=True) as progress:
        tasks: dict[str, Any] = {}

        def advance(phase: str, n: int) -> None:
            if phase not in tasks:
                tasks[phase] = progress.add_task(phase, total=totals.get(phase))
            progress.advance(tasks[phase], n)

        yield advance
