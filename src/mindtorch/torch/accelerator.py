"""``torch.accelerator`` in a process without one."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
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


def _need(what: str) -> None:
    if not is_available():
        raise _absent(what)


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


def _memory(name: str) -> Any:
    def function(device: Any = None, /) -> Any:
        raise _absent(name)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = "RuntimeError: there is no accelerator whose memory could be told."
    return function


get_memory_info, memory_stats = _memory("get_memory_info"), _memory("memory_stats")
memory_allocated, max_memory_allocated = _memory("memory_allocated"), _memory("max_memory_allocated")
memory_reserved, max_memory_reserved = _memory("memory_reserved"), _memory("max_memory_reserved")
reset_peak_memory_stats = _memory("reset_peak_memory_stats")
reset_accumulated_memory_stats = _memory("reset_accumulated_memory_stats")


def empty_host_cache() -> None:
    """RuntimeError, as in PyTorch without a device; with one nothing happens: no pinned host memory is kept."""
    _need("empty_host_cache")


def get_device_capability(device: Any = None) -> dict[str, Any]:
    """``{"supported_dtypes": set}``: dtypes that tensors of the accelerator may have. RuntimeError without one."""
    _need("get_device_capability")
    import mindtorch.torch as torch

    names = "bool uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64 complex64 complex128"
    return {"supported_dtypes": {getattr(torch, n) for n in names.split()}}


@contextlib.contextmanager
def device_index(device: int | None, /) -> Iterator[None]:
    """Makes ``device`` the current one inside the block; None changes nothing. RuntimeError without an accelerator."""
    if device is None:
        yield
        return
    _need("device_index")
    before = current_device_index()
    set_device_index(device)
    try:
        yield
    finally:
        set_device_index(before)


if _accelerators():
    from mindtorch.core.device import device as _device
    from mindtorch.torch._accelerator import present as _present

    _f = _present(next(iter(_accelerators())))
    is_available, device_count = _f["is_available"], _f["device_count"]
    current_device_index = current_device_idx = _f["current_device"]
    set_device_index = set_device_idx = _f["set_device"]
    current_stream, set_stream, synchronize, empty_cache = (
        _f["current_stream"], _f["set_stream"], _f["synchronize"], _f["empty_cache"],
    )  # fmt: skip
    memory_stats, memory_allocated, max_memory_allocated = _f["memory_stats"], _f["memory_allocated"], _f["max_memory_allocated"]
    memory_reserved, max_memory_reserved = _f["memory_reserved"], _f["max_memory_reserved"]
    reset_peak_memory_stats, reset_accumulated_memory_stats = _f["reset_peak_memory_stats"], _f["reset_accumulated_memory_stats"]
    get_memory_info = _f["get_memory_info"]

    def current_accelerator(check_available: bool = False) -> Any:
        """The accelerator's device, without an index."""
        return _device(next(iter(_accelerators())))
