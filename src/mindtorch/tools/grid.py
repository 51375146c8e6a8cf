"""Tables of characters, as PrettyTable draws them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def width(text: str) -> int:
    """Columns a text takes on a terminal, colours not counted."""
    return len(_COLOUR.sub("", text))


def grid(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Cells centred between rules of ``+---+``."""
    cells = [[str(c) for c in columns], *([str(c) for c in row] for row in rows)]
    widths = [max(width(row[i]) for row in cells) for i in range(len(columns))]
    rule = "+" + "+".join("-" * (w + 2) for w in widths) + "+"

    def line(row: Sequence[str]) -> str:
        parts = []
        for text, w in zip(row, widths):
            free = w - width(text)
            left = free // 2
            parts.append(" " * (left + 1) + text + " " * (free - left + 1))
        return "|" + "|".join(parts) + "|"

    return "\n".join([rule, line(cells[0]), rule, *(line(r) for r in cells[1:]), rule])


def red(text: str) -> str:
    """``text`` in red on a terminal."""
    return f"\x1b[31m{text}\x1b[0m"


def plain(text: str) -> str:
    """``text`` without colours."""
    return _COLOUR.sub("", text)
