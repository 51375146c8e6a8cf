"""Tells glibc to keep large freed blocks: without it every big temporary is mapped and page-faulted anew (up to 5x).

``ensure()`` acts once per process, when the first operation is called: importing changes nothing. ``MINDTORCH_MALLOC=0``
leaves the allocator alone. On a C library without ``mallopt`` nothing happens; when a value is refused the largest one every glibc accepts is tried.
"""

from __future__ import annotations

import os

_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
_MMAP_THRESHOLDS = (1 << 30, 32 << 20)
_TRIM_THRESHOLD = 2**31 - 1

_state: bool | None = None


def ensure() -> bool:
    """Set the thresholds on the first call; True when glibc accepted a setting (the answer is kept)."""
    global _state
    if _state is None:
        _state = os.environ.get("MINDTORCH_MALLOC", "1") != "0" and _set_thresholds()
    return _state


def _set_thresholds() -> bool:
    import ctypes

    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return False
    mallopt.argtypes = (ctypes.c_int, ctypes.c_int)
    mallopt.restype = ctypes.c_int
    # mallopt returns 1 for success; newer releases may cap the mmap threshold and refuse the larger value
    if not any(mallopt(_M_MMAP_THRESHOLD, value) == 1 for value in _MMAP_THRESHOLDS):
        return False
    return mallopt(_M_TRIM_THRESHOLD, _TRIM_THRESHOLD) == 1
