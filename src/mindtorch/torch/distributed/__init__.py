"""``torch.distributed``: several processes, over MindSpore's own communication. See docs/distributed.md."""

from __future__ import annotations

import importlib
from typing import Any

from .distributed_c10d import *  # noqa: F403
from .distributed_c10d import _get_default_group as _get_default_group

_SUBMODULES = {"distributed_c10d", "elastic", "launch", "run"}


def __getattr__(name: str) -> Any:
    if name in _SUBMODULES:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module 'torch.distributed' has no attribute '{name}'")
