"""``torch.device``: names, parsing, the default device, and the refusal of devices that are not there."""

from __future__ import annotations

import os
import threading
from typing import Any

from mindtorch.engine.mindspore import door

_KNOWN = {"cpu", "cuda", "npu", "meta", "mps", "xpu", "hpu", "mtia", "xla", "privateuseone"}


class device:  # noqa: N801 - the public name is torch.device
    """A device ``type`` and an optional ``index``; also a context manager that sets the default device."""

    __slots__ = ("index", "type")
    __module__ = "mindtorch.torch"

    def __init__(self, type: Any = None, index: int | None = None) -> None:
        if isinstance(type, device):
            type, index = type.type, type.index if index is None else index
        elif isinstance(type, int) and not isinstance(type, bool):
            type, index = "cuda", type
        elif not isinstance(type, str):
            raise TypeError(f"device(): argument 'type' must be str, int or torch.device, not {type.__class__.__name__}")
        if ":" in type:
            if index is not None:
                raise RuntimeError(f"type (string) must not include an index because index was passed explicitly: {type}")
            type, _, tail = type.partition(":")
            if not tail.isdigit():
                raise RuntimeError(f"Invalid device string: '{type}:{tail}'")
            index = int(tail)
        if type == "Ascend":
            type = "npu"
        if type not in _KNOWN:
            raise RuntimeError(
                f"Expected one of {', '.join(sorted(_KNOWN))} device type at start of device string: {type}"
            )
        self.type = type
        self.index = index

    def __repr__(self) -> str:
        return f"device(type='{self.type}')" if self.index is None else f"device(type='{self.type}', index={self.index})"

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, device) and self.type == other.type and self.index == other.index

    def __hash__(self) -> int:
        return hash((self.type, self.index))

    def __reduce__(self) -> Any:
        return device, ((self.type,) if self.index is None else (self.type, self.index))

    def __enter__(self) -> device:
        _stack().append(self)
        return self

    def __exit__(self, *exc: Any) -> None:
        _stack().pop()


cpu = device("cpu")
meta = device("meta")
_local = threading.local()
_default = cpu


def _stack() -> list[device]:
    if not hasattr(_local, "stack"):
        _local.stack = []
    return _local.stack


def get_default_device() -> device:
    """The device of factory functions called without one."""
    stack = _stack()
    return stack[-1] if stack else _default


def set_default_device(d: Any) -> None:
    """Set the device of factory functions (``None`` means the CPU). Refuses devices that are not there."""
    global _default
    _default = cpu if d is None else available(d)


_accelerators: dict[str, device] | None = None


def accelerators() -> dict[str, device]:
    """Names under which an accelerator is reached in this process, with the device of index 0.

    ``npu`` where an Ascend driver is present or ``MINDTORCH_NPU_SIM=1`` puts MindSpore's CPU target in its place (read once);
    ``MINDTORCH_DEVICE_ALIAS`` names more, such as ``cuda``, for scripts that say so.
    """
    global _accelerators
    if _accelerators is None:
        found: dict[str, device] = {}
        if os.environ.get("MINDTORCH_NPU_SIM", "") not in ("", "0") or door.driver():
            names = ["npu", *os.environ.get("MINDTORCH_DEVICE_ALIAS", "").replace(",", " ").split()]
            for name in names:
                kind = device(name).type
                if kind in ("cpu", "meta"):
                    raise ValueError(f"MINDTORCH_DEVICE_ALIAS: {name!r} cannot stand for the accelerator")
                found[kind] = device(kind, 0)
        _accelerators = found
    return _accelerators


def simulated() -> bool:
    """Whether the accelerator is MindSpore's CPU target (``MINDTORCH_NPU_SIM=1``)."""
    return os.environ.get("MINDTORCH_NPU_SIM", "") not in ("", "0")


_NO_CUDA = (
    "Torch not compiled with CUDA enabled: this is mindtorch on MindSpore, no '{0}' device is present. "
    "Guard the call with torch.cuda.is_available(), or use device='cpu'."
)


def available(d: Any) -> device:
    """``d`` as a device that can hold tensors in this process (cpu, meta, or an accelerator that is there).

    AssertionError for cuda, as PyTorch's CPU build raises; RuntimeError for every other absent device.
    """
    dev = d if d.__class__ is device else device(d)
    if dev.type == "cpu":
        return cpu
    if dev.type == "meta":
        return meta
    found = accelerators().get(dev.type)
    if found is not None:
        if dev.index not in (None, 0):
            raise RuntimeError(f"device '{dev}': only index 0 is visible to this process; one process drives one accelerator")
        return found
    if dev.type == "cuda":
        raise AssertionError(_NO_CUDA.format(dev))
    raise RuntimeError(f"device '{dev}' is not present in this process; use device='cpu'")
