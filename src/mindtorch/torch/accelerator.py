"""``torch.accelerator`` in a process without one."""

from __future__ import annotations

from typing import Any

from mindtorch.core.device import accelerators as _accelerators


class AcceleratorError(RuntimeError):
    """Raised by PyTorch for errors an accelerator reports; here for ``except`` clauses that name it."""


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


if _accelerators():
    from mindtorch.torch import _accelerator as _a

    _f = _a.present()
    is_available, device_count = _f["is_available"], _f["device_count"]
    current_device_index = current_device_idx = _f["current_device"]
    set_device_index = set_device_idx = _f["set_device"]
    current_stream, set_stream, synchronize, empty_cache = (
        _f["current_stream"], _f["set_stream"], _f["synchronize"], _f["empty_cache"],
    )  # fmt: skip
    memory_stats, memory_allocated, max_memory_allocated = _f["memory_stats"], _f["memory_allocated"], _f["max_memory_allocated"]
    memory_reserved, max_memory_reserved = _f["memory_reserved"], _f["max_memory_reserved"]
    reset_peak_memory_stats = _f["reset_peak_memory_stats"]

    def current_accelerator(check_available: bool = False) -> Any:
        """The accelerator's device, without an index."""
        return _a.device(next(iter(_accelerators())))
