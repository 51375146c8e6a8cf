"""The accelerator's runtime through ``mindspore.runtime``: waiting, memory, names. On the simulated device the truth is the host's."""

from __future__ import annotations

from typing import Any

from mindtorch.engine.mindspore import array, door


def target() -> str:
    """MindSpore's device target: "Ascend" or "CPU"."""
    return str(door.load().get_context("device_target"))


def synchronize() -> None:
    """Wait for all kernels that were launched. On the CPU target launching mostly waits already (``engine.mindspore.door``)."""
    if door.loaded() and target() != "CPU":
        door.load().runtime.synchronize()
    else:
        door.wait()


def device_name() -> str:
    """The device as MindSpore names it; the simulation says that it is one."""
    if target() == "CPU":
        return "MindSpore CPU target (simulated accelerator)"
    return str(door.load().hal.get_device_name(0))


def _figure(name: str, own: int) -> int:
    if not door.loaded() or target() == "CPU":
        return own
    return int(getattr(door.load().runtime, name)())


def memory_allocated() -> int:
    """Bytes held by tensors."""
    return _figure("memory_allocated", array.HELD.now)


def max_memory_allocated() -> int:
    """The most bytes held at once since the start or the last reset."""
    return _figure("max_memory_allocated", array.HELD.peak)


def memory_reserved() -> int:
    """Bytes the allocator holds; on the simulated device those of tensors."""
    return _figure("memory_reserved", array.HELD.now)


def max_memory_reserved() -> int:
    """The most bytes the allocator held."""
    return _figure("max_memory_reserved", array.HELD.peak)


def reset_peak() -> None:
    """Start the peak figures again from what is held now."""
    array.HELD.peak = array.HELD.now
    if door.loaded() and target() != "CPU":
        door.load().runtime.reset_peak_memory_stats()


def empty_cache() -> None:
    """Give unused memory back to the device."""
    if door.loaded() and target() != "CPU":
        door.load().runtime.empty_cache()


def properties() -> dict[str, Any]:
    """Name and total memory in bytes."""
    import os

    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if target() != "CPU":
        total = int(door.load().hal.get_device_properties(0).total_memory)
    return {"name": device_name(), "total_memory": total, "major": 0, "minor": 0, "multi_processor_count": 1}
