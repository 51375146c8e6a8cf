"""Which kernel computes: said by the places that choose one, heard by profilers.

Callers look whether there are `LISTENERS` before they call `say`. What nobody speaks for was computed by NumPy.
"""

from __future__ import annotations

import os
from collections.abc import Callable

LISTENERS: list[Callable[[str, int], None]] = []
"""Called with the name of each kernel ("numba softmax_rows", "MindSpore Conv2D"), in the thread that runs it, and the nanoseconds
that its preparation took. The name is empty when only something was prepared."""


def say(name: str, prepared: int = 0) -> None:
    """A kernel of this name runs now, or has run; ``prepared``: nanoseconds of compiling or loading, which later calls do not pay."""
    for listener in LISTENERS:
        listener(name, prepared)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=LISTENERS.clear)
