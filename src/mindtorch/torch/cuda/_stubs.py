"""Classes of ``torch.cuda`` in a process without a device: contexts do nothing, the others raise when made."""

from __future__ import annotations

from typing import Any

_ABSENT = "Torch not compiled with CUDA enabled"


class _NeedsDevice:
    """Raises when made."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(
            f"torch.cuda.{cls.__name__} requires CUDA support, which is absent; guard it with torch.cuda.is_available()"
        )


class Stream(_NeedsDevice):
    """A stream of a device."""


class ExternalStream(Stream):
    """A stream made elsewhere."""


class Event(_NeedsDevice):
    """A point in a stream."""


class CUDAGraph(_NeedsDevice):
    """A recorded graph."""


class graph(_NeedsDevice):  # noqa: N801 - public name
    """Records a graph."""


class _Context:
    """A context without effect."""

    def __enter__(self) -> Any:
        return None

    def __exit__(self, *exc: object) -> None:
        return None


class StreamContext(_Context):
    """``with torch.cuda.stream(None)``."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream


def stream(stream: Any) -> StreamContext:
    """A context that selects a stream: only None exists."""
    return StreamContext(stream)


class device(_Context):  # noqa: N801 - public name
    """A context that selects a device. As in PyTorch it can be made without one, and raises when entered."""

    def __init__(self, device: Any) -> None:
        self.idx = device if isinstance(device, int) else getattr(device, "index", None)
        self.type = getattr(device, "type", "cuda")

    def __enter__(self) -> Any:
        if self.idx is not None and self.idx >= 0 and self.type == "cuda":
            raise AssertionError(_ABSENT)
        return self


class device_of(_Context):  # noqa: N801 - public name
    """A context for the device of a tensor: host tensors have none to select."""

    def __init__(self, obj: Any) -> None:
        self.idx = -1


class _NeverMeta(type):
    def __instancecheck__(cls, obj: Any) -> bool:
        return False


def tensor_class(name: str) -> type:
    """``torch.cuda.FloatTensor`` and its kin: nothing is an instance, making one raises."""

    def make(cls: type, *args: Any, **kwargs: Any) -> Any:
        raise TypeError(f"type torch.cuda.{name} not available. {_ABSENT}.")

    body = {"__new__": make, "__module__": "mindtorch.torch.cuda", "__doc__": "Not available: there is no device."}
    return _NeverMeta(name, (), body)
