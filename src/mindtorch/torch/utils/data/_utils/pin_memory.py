"""Page-locked memory has no meaning for host arrays: data are returned as they are."""

from __future__ import annotations

from typing import Any


def pin_memory(data: Any, device: Any = None) -> Any:
    """``data`` itself. Kept because scripts import it."""
    return data
