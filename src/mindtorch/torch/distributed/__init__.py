"""``torch.distributed``: several processes, over MindSpore's own communication. See docs/distributed.md."""

from __future__ import annotations

import importlib
from typing import Any

from .distributed_c10d import *  # noqa: F403
from .distributed_c10d import _get_default_group as _get_default_group

_SUBMODULES = {"algorithms", "distributed_c10d", "elastic", "launch", "nn", "run"}
_ABSENT = {
    "fsdp": "parameters are not sharded; DistributedDataParallel keeps them whole in each process",
    "_composable": "parameters are not sharded; DistributedDataParallel keeps them whole in each process",
    "tensor": "tensors are not sharded; use the collectives of torch.distributed",
    "device_mesh": "use torch.distributed.new_group for groups of ranks",
    "init_device_mesh": "use torch.distributed.new_group for groups of ranks",
    "DeviceMesh": "use torch.distributed.new_group for groups of ranks",
    "pipelining": "use torch.distributed.send and recv between stages",
    "rpc": "use torch.distributed.send_object_list and recv_object_list",
    "checkpoint": "save from one rank with torch.save",
    "optim": "use torch.optim in every process",
}


def __getattr__(name: str) -> Any:
    if name in _SUBMODULES:
        return importlib.import_module(f"{__name__}.{name}")
    if name in _ABSENT:
        raise AttributeError(f"torch.distributed.{name} is not available in mindtorch: {_ABSENT[name]}")
    raise AttributeError(f"module 'torch.distributed' has no attribute '{name}'")
