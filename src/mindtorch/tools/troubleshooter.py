"""What ``import troubleshooter as ts`` gives: TroubleShooter's names, on PyTorch alone and on mindtorch alone.

While ``import torch`` means mindtorch, ``import troubleshooter`` finds this module by itself; elsewhere call
`as_troubleshooter` first. ``ts.migrator`` is `mindtorch.tools.migrator`.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from types import ModuleType
from typing import Any

__version__ = "1.0.18"
"""The release whose functions and files are followed."""

_PARTS = ("migrator", "widget")


def as_troubleshooter() -> ModuleType:
    """Make ``import troubleshooter`` mean this module in this process, and return it."""
    module = sys.modules[__name__]
    sys.modules["troubleshooter"] = module
    sys.modules["troubleshooter.migrator"] = importlib.import_module("mindtorch.tools.migrator")
    return module


def __getattr__(name: str) -> Any:
    if name in _PARTS:
        try:
            return importlib.import_module(f"mindtorch.tools.{name}")
        except ModuleNotFoundError as e:
            if e.name != f"mindtorch.tools.{name}":
                raise
    raise AttributeError(
        f"module 'troubleshooter' (as mindtorch has it) has no attribute {name!r}; it has {', '.join(__dir__())}"
    )


def __dir__() -> list[str]:
    return ["as_troubleshooter", *(p for p in _PARTS if importlib.util.find_spec(f"mindtorch.tools.{p}"))]
