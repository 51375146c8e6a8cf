"""The standard ``multiprocessing`` with ``spawn``. Tensors travel through queues by value."""

from __future__ import annotations

import multiprocessing
from multiprocessing import *  # noqa: F403
from typing import Any

from mindtorch.torch.multiprocessing.spawn import (
    ProcessContext,
    ProcessExitedException,
    ProcessRaisedException,
    SpawnContext,
    spawn,
    start_processes,
)

__all__ = [
    *multiprocessing.__all__,  # type: ignore[attr-defined]
    "ProcessContext",
    "ProcessExitedException",
    "ProcessRaisedException",
    "SpawnContext",
    "get_all_sharing_strategies",
    "get_sharing_strategy",
    "set_sharing_strategy",
    "spawn",
    "start_processes",
]

_strategy = "file_descriptor"


def get_all_sharing_strategies() -> set[str]:
    """Names that `set_sharing_strategy` accepts."""
    return {"file_descriptor", "file_system"}


def get_sharing_strategy() -> str:
    """The chosen name."""
    return _strategy


def set_sharing_strategy(new_strategy: str) -> None:
    """Choose a name; tensors are sent by value whatever it is. AssertionError for an unknown one."""
    global _strategy
    if new_strategy not in get_all_sharing_strategies():
        raise AssertionError(
            f"unknown sharing strategy {new_strategy!r}; use one of {sorted(get_all_sharing_strategies())}"
        )
    _strategy = new_strategy


def init_reductions() -> None:
    """Nothing to set up: tensors pickle by themselves."""


def __getattr__(name: str) -> Any:
    return getattr(multiprocessing, name)
