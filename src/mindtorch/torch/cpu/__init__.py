"""``torch.cpu``: the device functions that generic programs call, for the CPU."""

from __future__ import annotations

import contextlib
from typing import Any

from mindtorch.torch.cpu import amp as amp  # noqa: PLC0414 - public submodule

__all__ = [
    "Stream",
    "StreamContext",
    "amp",
    "current_device",
    "current_stream",
    "device_count",
    "is_available",
    "is_initialized",
    "set_device",
    "stream",
    "synchronize",
]


class Stream:
    """Operations run in program order; a stream has nothing to hold."""

    def __init__(self, priority: int = -1) -> None:
        self.priority = priority

    def wait_stream(self, stream: Any) -> None:
        """Nothing to wait for."""

    def record_event(self) -> None:
        """Nothing to record."""

    def wait_event(self, event: Any) -> None:
        """Nothing to wait for."""


StreamContext = contextlib.nullcontext


def is_available() -> bool:
    """True."""
    return True


def is_initialized() -> bool:
    """True."""
    return True


def synchronize(device: Any = None) -> None:
    """Returns when all operations are done: they are done when they return."""


def device_count() -> int:
    """1."""
    return 1


def current_device() -> str:
    """ "cpu"."""
    return "cpu"


def set_device(device: Any) -> None:
    """There is one CPU device; nothing to choose."""


def current_stream(device: Any = None) -> Stream:
    """The stream."""
    return Stream()


def stream(stream: Any) -> Any:
    """A context without effect."""
    return contextlib.nullcontext()
