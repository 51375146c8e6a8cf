"""Which kernel computes: said by the places that choose one, heard by profilers.

Callers look whether there are `LISTENERS` before they call `say`. What nobody speaks for was computed by NumPy.
"""

from __future__ import annotations

import os
from collections.abc import Callable

LISTENERS: list[Callable[[str], None]] = []
"""Called with the name of each kernel, in the thread that runs it: "numba softmax_rows", "MindSpore Conv2D"."""


def say(name: str) -> None:
    """A kernel of this name runs now."""
    for listener in LISTENERS:
        listener(name)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=LISTENERS.clear)
