"""What ``torch.npu``, ``torch.cuda`` and ``torch.accelerator`` answer when an accelerator is there.

``MINDTORCH_NPU_SIM=1`` puts MindSpore's CPU target in the accelerator's place, ``MINDTORCH_DEVICE_ALIAS=cuda`` gives it that
name too. Kernels are waited for one by one, so streams keep PyTorch's order by themselves. On Ascend none of this was run.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from types import SimpleNamespace
from typing import Any

from mindtorch.core import generator
from mindtorch.core.device import accelerators, available, device
from mindtorch.engine.mindspore import runtime


class Stream:
    """A queue of kernels. All run in the order of their launch, so that every stream waits for every other."""

    def __init__(self, device: Any = None, priority: int = 0, **_kwargs: Any) -> None:
        self.device = _device(device)
        self.priority = priority
        self.stream_id = 0

    def synchronize(self) -> None:
        """Wait for what was launched."""
        runtime.synchronize()

    def query(self) -> bool:
        """Whether all that was launched is done."""
        runtime.synchronize()
        return True

    def wait_stream(self, stream: Any) -> None:
        """Later work follows the work of ``stream``: it does so already."""
        runtime.synchronize()

    def wait_event(self, event: Any) -> None:
        """Later work follows ``event``."""
        event.synchronize()

    def record_event(self, event: Any = None) -> Any:
        """Record ``event`` (a new one when None) and return it."""
        event = Event() if event is None else event
        event.record(self)
        return event

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *exc: Any) -> None:
        return None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and other.device == self.device

    def __hash__(self) -> int:
        return hash(self.device)


class Event:
    """A moment among the kernels; with ``enable_timing`` two of them measure the milliseconds between."""

    def __init__(self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False) -> None:
        if interprocess:
            raise RuntimeError("Event(): interprocess=True needs device events shared between processes; use torch.distributed.barrier()")
        self.enable_timing = enable_timing
        self._at: float | None = None

    def record(self, stream: Any = None) -> None:
        """Wait for what was launched, and note the time."""
        runtime.synchronize()
        self._at = time.perf_counter()

    def synchronize(self) -> None:
        """Wait for the moment: :meth:`record` did."""

    def wait(self, stream: Any = None) -> None:
        """Later work of ``stream`` follows this event."""

    def query(self) -> bool:
        """Whether the moment has passed."""
        return True

    def elapsed_time(self, end: Event) -> float:
        """Milliseconds from this event to ``end``. RuntimeError when either was not recorded or does not time."""
        if not (self.enable_timing and end.enable_timing):
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        if self._at is None or end._at is None:
            raise ValueError("Both events must be recorded before calculating elapsed time.")
        return (end._at - self._at) * 1000.0


def _device(d: Any) -> device:
    """The accelerator meant by None, an index, a name or a device."""
    names = accelerators()
    if d is None or isinstance(d, int):
        first = next(iter(names.values()))
        return first if d is None else available(device(first.type, d))
    return available(d)


class _Chosen:
    """``with torch.npu.device(i)``: one accelerator belongs to the process, so it is checked and nothing changes."""

    def __init__(self, device: Any = None) -> None:
        if not (isinstance(device, int) and device < 0):
            _device(device)

    def __enter__(self) -> None:
        return None

    def __exit__(self, *exc: Any) -> None:
        return None


class _OnStream:
    """``with torch.npu.stream(s)``."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def __enter__(self) -> Any:
        return self.stream

    def __exit__(self, *exc: Any) -> None:
        return None


def _memory(function: Any) -> Any:
    def call(device: Any = None) -> Any:
        _device(device)
        return function()

    call.__doc__ = function.__doc__
    return call


def _stats(device: Any = None) -> OrderedDict[str, Any]:
    """The memory figures under PyTorch's names."""
    _device(device)
    return OrderedDict(
        {
            "allocated_bytes.all.current": runtime.memory_allocated(),
            "allocated_bytes.all.peak": runtime.max_memory_allocated(),
            "reserved_bytes.all.current": runtime.memory_reserved(),
            "reserved_bytes.all.peak": runtime.max_memory_reserved(),
        }
    )


def _summary(device: Any = None, abbreviated: bool = False) -> str:
    """The memory figures as text."""
    return "\n".join(f"{k:32} {v}" for k, v in _stats(device).items())


def _seed(seed: int) -> None:
    """Seed the stream that the accelerator's tensors are drawn from: the CPU's, so that numbers equal the CPU's."""
    generator.default_generator.manual_seed(int(seed))


def present() -> dict[str, Any]:
    """The functions of a device module for the accelerator that is there."""
    def rng(device: Any = None) -> Any:
        return generator.default_generator.get_state()

    return {
        "Stream": Stream, "Event": Event, "device": _Chosen, "stream": _OnStream, "StreamContext": _OnStream,
        "is_available": lambda: True, "is_initialized": lambda: True, "init": lambda: None, "device_count": lambda: 1,
        "current_device": lambda: 0, "set_device": lambda device: _device(device) and None,
        "synchronize": lambda device=None: runtime.synchronize(),
        "current_stream": lambda device=None: Stream(device), "default_stream": lambda device=None: Stream(device),
        "set_stream": lambda stream: None,
        "memory_allocated": _memory(runtime.memory_allocated), "max_memory_allocated": _memory(runtime.max_memory_allocated),
        "memory_reserved": _memory(runtime.memory_reserved), "max_memory_reserved": _memory(runtime.max_memory_reserved),
        "memory_cached": _memory(runtime.memory_reserved), "reset_peak_memory_stats": _memory(runtime.reset_peak),
        "reset_max_memory_allocated": _memory(runtime.reset_peak), "memory_stats": _stats, "memory_summary": _summary,
        "empty_cache": runtime.empty_cache, "ipc_collect": lambda: None,
        "manual_seed": _seed, "manual_seed_all": _seed, "seed": lambda: generator.default_generator.seed() and None,
        "seed_all": lambda: generator.default_generator.seed() and None,
        "initial_seed": lambda: generator.default_generator.initial_seed(),
        "get_rng_state": rng, "set_rng_state": lambda new_state, device=None: generator.default_generator.set_state(new_state),
        "get_device_name": lambda device=None: runtime.device_name(),
        "get_device_properties": lambda device=None: SimpleNamespace(**runtime.properties()),
        "get_device_capability": lambda device=None: (0, 0),
        "is_bf16_supported": lambda including_emulation=True: True,
        "mem_get_info": lambda device=None: (
            max(runtime.properties()["total_memory"] - runtime.memory_allocated(), 0), runtime.properties()["total_memory"]),
    }  # fmt: skip
