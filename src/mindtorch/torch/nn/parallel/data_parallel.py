"""DataParallel: on a single device it calls the module."""

from __future__ import annotations

import logging
from typing import Any

from mindtorch.log import once, without_effect

from ..modules.module import Module

__all__ = ["DataParallel", "data_parallel"]


class DataParallel(Module):
    """Holds ``module`` (state_dict keys start with "module.") and calls it; PyTorch does the same where there is no GPU."""

    def __init__(self, module: Any, device_ids: Any = None, output_device: Any = None, dim: int = 0) -> None:
        super().__init__()
        once(
            logging.INFO,
            "DataParallel runs the module on the one device it is on; use DistributedDataParallel with several processes",
        )
        without_effect(
            "DataParallel", "the module runs on the one device it is on",
            device_ids=(device_ids, None), output_device=(output_device, None), dim=(dim, 0),
        )  # fmt: skip
        self.module = module
        self.device_ids: list[Any] = []
        self.dim = dim
        self.output_device = output_device

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """The module's output."""
        return self.module(*inputs, **kwargs)


def data_parallel(
    module: Any,
    inputs: Any,
    device_ids: Any = None,
    output_device: Any = None,
    dim: int = 0,
    module_kwargs: dict[str, Any] | None = None,
) -> Any:
    """``module(*inputs, **module_kwargs)`` on the one device there is."""
    without_effect(
        "data_parallel", "the module runs on the one device it is on",
        device_ids=(device_ids, None), output_device=(output_device, None), dim=(dim, 0),
    )  # fmt: skip
    args = inputs if isinstance(inputs, tuple) else (inputs,)
    return module(*args, **(module_kwargs or {}))
