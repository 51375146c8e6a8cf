"""The tables that the weight functions print, with TroubleShooter's titles and columns."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from mindtorch.tools.distance import Distance
from mindtorch.tools.grid import grid


def titled(title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A table with a title above its columns."""
    body = grid(columns, rows)
    inner = body.index("\n") - 2
    lines = ["+" + "-" * inner + "+", "|" + title.center(inner) + "|"]
    return "\n".join([*lines, body])


def conversion_table(rows: Iterable[Sequence[Any]]) -> str:
    """Old name, new name, status, old shape, new shape."""
    columns = (
        "Parameter name of torch", "Parameter name of MindSpore", "Conversion status",
        "Parameter shape of torch", "Parameter shape of MindSpore",
    )  # fmt: skip
    return titled("The list of conversion result", columns, rows)


def cut(number: float, digits: int) -> float:
    """``number`` without the digits behind ``digits``, not rounded: 0.99999 stays visible as less than 1."""
    if not math.isfinite(number):
        return number
    return int(number * 10**digits) / 10**digits


def distance_cells(d: Distance) -> tuple[str, str, str, str]:
    """Result of allclose, ratio, cosine similarity, mean & max differences, as texts."""
    gaps = f"{cut(d.mean, 5):.5f}, {cut(d.max, 5):.5f}"
    return str(d.allclose), f"{cut(d.ratio, 4):.2%}", f"{cut(d.cosine, 5):.5f}", gaps
