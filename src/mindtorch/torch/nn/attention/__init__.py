"""Choosing an attention implementation. There is one on the CPU; the choice is accepted so that scripts run."""

from __future__ import annotations

import contextlib
import enum
from collections.abc import Iterator
from typing import Any

from mindtorch.log import ignored

__all__ = ["WARN_FOR_UNFUSED_KERNELS", "SDPBackend", "sdpa_kernel"]

WARN_FOR_UNFUSED_KERNELS = False


class SDPBackend(enum.IntEnum):
    """Implementations PyTorch knows."""

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4


@contextlib.contextmanager
def sdpa_kernel(backends: Any, set_priority: bool = False) -> Iterator[None]:
    """Name the backends that may be used inside. Numbers do not depend on it. TypeError for other things than SDPBackend."""
    wanted = list(backends) if isinstance(backends, (list, tuple, set)) else [backends]
    if not all(isinstance(b, SDPBackend) for b in wanted):
        raise TypeError(f"Backend must be an instance of SDPBackend or a list of SDPBackend instances, got {backends}")
    if SDPBackend.MATH not in wanted or set_priority:
        ignored("sdpa_kernel", "backends", "scaled_dot_product_attention has one implementation on the CPU")
    yield
