"""``torch.npu`` in a process without an Ascend device: guarded code runs on the host, the rest raises."""

from __future__ import annotations

from typing import Any

from mindtorch.core.device import accelerators as _accelerators

_ABSENT = "no Ascend device is available in this release; guard torch.npu with torch.npu.is_available()"


def is_available() -> bool:
    """False: tensors live on the host."""
    return False


def device_count() -> int:
    """0."""
    return 0


def current_device() -> int:
    """RuntimeError: there is no device."""
    raise RuntimeError(f"torch.npu.current_device: {_ABSENT}")


def set_device(device: Any) -> None:
    """RuntimeError: there is no device."""
    raise RuntimeError(f"torch.npu.set_device({device!r}): {_ABSENT}")


def synchronize(device: Any = None) -> None:
    """RuntimeError: there is no device."""
    raise RuntimeError(f"torch.npu.synchronize: {_ABSENT}")


def empty_cache() -> None:
    """Nothing is cached."""


def manual_seed(seed: int) -> None:
    """Takes effect when there is a device: never here, as for ``torch.cuda.manual_seed``."""


def manual_seed_all(seed: int) -> None:
    """Takes effect when there is a device: never here, as for ``torch.cuda.manual_seed_all``."""


if "npu" in _accelerators():
    from mindtorch.torch._accelerator import present as _present

    globals().update(_present("npu"))
