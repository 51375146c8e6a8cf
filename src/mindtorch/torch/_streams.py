"""``torch.Stream`` and ``torch.Event``: queues of kernels and moments between them, for any device.

Kernels are waited for one by one, so streams keep PyTorch's order by themselves; event times are real. On the CPU there is
nothing to wait for, and as in PyTorch no event can be recorded there.
"""

from __future__ import annotations

import itertools
import threading
import time
from typing import Any

from mindtorch.core.device import accelerators, available, device
from mindtorch.core.device import device as _Device
from mindtorch.engine.mindspore import runtime

_CURRENT = threading.local()
_NUMBERS = itertools.count(1)


def place(d: Any, kind: str = "") -> device:
    """The device meant by None, an index, a name or a device; ``kind`` is the type of None and of an index."""
    if d is None or (isinstance(d, int) and not isinstance(d, bool)):
        kind = kind or next(iter(accelerators()), "cpu")
        return available(device(kind, d or None))
    return available(d)


def current(dev: device) -> Stream:
    """The stream that the kernels of ``dev`` are launched on by this thread."""
    stack = getattr(_CURRENT, "stack", {}).get(dev)
    return stack[-1] if stack else Stream._numbered(dev, 0)


def choose(stream: Stream) -> None:
    """Launch on ``stream`` from now on."""
    _stack(stream.device)[-1:] = [stream]


def _stack(dev: device) -> list[Stream]:
    if not hasattr(_CURRENT, "stack"):
        _CURRENT.stack = {}
    found: list[Stream] = _CURRENT.stack.setdefault(dev, [])
    if not found:
        found.append(Stream._numbered(dev, 0))
    return found


class Stream:
    """A queue of kernels on ``device`` (the accelerator's, or the CPU without one), also a context that selects it."""

    __module__ = "mindtorch.torch"
    device: _Device
    stream_id: int
    priority: int

    def __init__(self, device: Any = None, *, priority: int = 0) -> None:
        self.device, self.priority = place(device), priority
        self.stream_id = 0 if self.device.type == "cpu" else next(_NUMBERS)

    @classmethod
    def _numbered(cls, dev: _Device, number: int) -> Stream:
        made = cls.__new__(cls)
        made.device, made.priority, made.stream_id = dev, 0, number
        return made

    @property
    def device_index(self) -> int:
        """Index of the device, -1 for the CPU."""
        return -1 if self.device.index is None else self.device.index

    def synchronize(self) -> None:
        """Wait for what was launched."""
        runtime.synchronize()

    def query(self) -> bool:
        """Whether all that was launched is done; it is waited for."""
        runtime.synchronize()
        return True

    def wait_stream(self, stream: Any) -> None:
        """Later work follows the work of ``stream``: it does so already."""
        self._timed()
        stream.synchronize()

    def wait_event(self, event: Any) -> None:
        """Later work follows ``event``."""
        event.synchronize()

    def record_event(self, event: Any = None) -> Any:
        """Record ``event`` (a new one when None) and return it. RuntimeError on the CPU."""
        self._timed()
        event = Event(self.device) if event is None else event
        event.record(self)
        return event

    def _timed(self) -> None:
        if self.device.type == "cpu":
            raise RuntimeError("cpu backend doesn't support events.")

    def __enter__(self) -> Stream:
        _stack(self.device).append(self)
        return self

    def __exit__(self, *exc: Any) -> None:
        _stack(self.device).pop()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and (other.device, other.stream_id) == (self.device, self.stream_id)

    def __hash__(self) -> int:
        return hash((self.device, self.stream_id))

    def __repr__(self) -> str:
        return f"torch.Stream device_type={self.device.type}, device_index={self.device_index}, stream_id={self.stream_id}"


class Event:
    """A moment among the kernels of ``device``; with ``enable_timing`` two of them measure the milliseconds between."""

    __module__ = "mindtorch.torch"

    def __init__(
        self, device: Any = None, *, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False
    ) -> None:
        if interprocess:
            raise RuntimeError("Event(): interprocess=True needs device events shared between processes; use torch.distributed.barrier()")
        self.device = place(device)
        self.enable_timing, self.blocking = enable_timing, blocking  # waiting for an event blocks in either case
        self.event_id = 0
        self._at: float | None = None

    def record(self, stream: Any = None) -> None:
        """Wait for what was launched, and note the time. RuntimeError on the CPU."""
        if self.device.type == "cpu":
            raise RuntimeError("cpu backend doesn't support events.")
        runtime.synchronize()
        self.event_id = id(self)
        self._at = time.perf_counter()

    def synchronize(self) -> None:
        """Wait for the moment: :meth:`record` did."""

    def wait(self, stream: Any = None) -> None:
        """Later work of ``stream`` follows this event, as it does already."""

    def query(self) -> bool:
        """Whether the moment has passed."""
        return True

    def elapsed_time(self, end: Event) -> float:
        """Milliseconds from this event to ``end``. ValueError when either was not recorded or does not time."""
        if not (self.enable_timing and end.enable_timing):
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        if self._at is None or end._at is None:
            raise ValueError("Both events must be recorded before calculating elapsed time.")
        return (end._at - self._at) * 1000.0

    def __repr__(self) -> str:
        index = -1 if self.device.index is None else self.device.index
        flag = int(self.enable_timing)
        return f"torch.Event device_type={self.device.type}, device_index={index}, event_flag={flag}, event_id={self.event_id}"
