"""DistributedDataParallel for a group of one process; more need torch.distributed collectives."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Any

from ..modules.module import Module

__all__ = ["DistributedDataParallel"]


def world_size(process_group: Any = None) -> int:
    """Number of processes of the group; 1 when torch.distributed was never started."""
    dist = sys.modules.get("mindtorch.torch.distributed")
    if dist is None or not dist.is_available() or not dist.is_initialized():
        return 1
    return dist.get_world_size(process_group)


class DistributedDataParallel(Module):
    """Holds ``module`` and, with one process, calls it: gradients need no reduction.

    RuntimeError for several processes, and (as in PyTorch) when no parameter needs a gradient.
    """

    def __init__(
        self,
        module: Any,
        device_ids: Any = None,
        output_device: Any = None,
        dim: int = 0,
        broadcast_buffers: bool | None = None,
        init_sync: bool = True,
        process_group: Any = None,
        bucket_cap_mb: float | None = None,
        find_unused_parameters: bool = False,
        check_reduction: bool = False,
        gradient_as_bucket_view: bool = False,
        static_graph: bool = False,
        **options: Any,
    ) -> None:
        super().__init__()
        if not any(p.requires_grad for p in module.parameters()):
            raise RuntimeError("DistributedDataParallel is not needed when a module doesn't have any parameter that requires a gradient.")
        n = world_size(process_group)
        if n > 1:
            raise RuntimeError(
                f"DistributedDataParallel: the process group has {n} processes, and gradient reduction between processes is not "
                "available in this release; run one process, or reduce p.grad with torch.distributed.all_reduce yourself"
            )
        self.module = module
        self.device_ids = device_ids
        self.output_device = output_device
        self.dim = dim
        self.process_group = process_group
        self.broadcast_buffers = True if broadcast_buffers is None else broadcast_buffers
        self.find_unused_parameters = find_unused_parameters
        self.gradient_as_bucket_view = gradient_as_bucket_view
        self.static_graph = static_graph
        self.require_backward_grad_sync = True
        self.require_forward_param_sync = True
        self.options = {"init_sync": init_sync, "bucket_cap_mb": bucket_cap_mb, "check_reduction": check_reduction, **options}

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """Gradients are not reduced inside."""
        old, self.require_backward_grad_sync = self.require_backward_grad_sync, False
        try:
            yield
        finally:
            self.require_backward_grad_sync = old

    @contextlib.contextmanager
    def join(
        self, divide_by_initial_world_size: bool = True, enable: bool = True, throw_on_early_termination: bool = False
    ) -> Iterator[None]:
        """For processes with different numbers of batches: nothing to do for one process."""
        yield

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """The module's output."""
        return self.module(*inputs, **kwargs)
