"""``torch.accelerator`` in a process without one."""

from __future__ import annotations

from typing import Any


def is_available() -> bool:
    """False: tensors live on the host."""
    return False


def device_count() -> int:
    """0."""
    return 0


def current_accelerator(check_available: bool = False) -> None:
    """None: there is no accelerator."""
    return


def _absent(what: str) -> RuntimeError:
    return RuntimeError(f"torch.accelerator.{what}: Cannot access accelerator device when none is available; guard it with torch.accelerator.is_available()")


def current_device_index() -> int:
    """RuntimeError: there is no device."""
    raise _absent("current_device_index")


current_device_idx = current_device_index


def set_device_index(device: Any) -> None:
    """RuntimeError: there is no device."""
    raise _absent("set_device_index")


set_device_idx = set_device_index


def current_stream(device: Any = None) -> Any:
    """RuntimeError: there is no device."""
    raise _absent("current_stream")


def set_stream(stream: Any) -> None:
    """RuntimeError: there is no device."""
    raise _absent("set_stream")


def synchronize(device: Any = None) -> None:
    """RuntimeError, as in PyTorch without a device: there is nothing to wait for."""
    raise _absent("synchronize")


def empty_cache() -> None:
    """Nothing is cached."""
