"""What ``import troubleshooter as ts`` gives: TroubleShooter's names, on PyTorch alone and on mindtorch alone.

While ``import torch`` means mindtorch, ``import troubleshooter`` finds this module by itself; elsewhere call
`as_troubleshooter` first. ``ts.migrator`` is `mindtorch.tools.migrator`.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any

__version__ = "1.0.18"
"""The release whose functions and files are followed."""

_PARTS = ("migrator", "widget")
_FROM = {
    "fix_random": "randomness",
    "proposal": "error_advice",
    "save": "migrator.saving",
    "save_grad": "migrator.saving",
    "tracking": "line_tracer",
}
"""Public name -> the file of mindtorch.tools it lives in."""


def as_troubleshooter() -> ModuleType:
    """Make ``import troubleshooter`` mean this module in this process, and return it."""
    module = sys.modules[__name__]
    sys.modules["troubleshooter"] = module
    for part in _PARTS:
        sys.modules[f"troubleshooter.{part}"] = importlib.import_module(f"mindtorch.tools.{part}")
    return module


def __getattr__(name: str) -> Any:
    if name in _PARTS:
        return importlib.import_module(f"mindtorch.tools.{name}")
    if name in _FROM:
        return getattr(importlib.import_module(f"mindtorch.tools.{_FROM[name]}"), name)
    raise AttributeError(
        f"module 'troubleshooter' (as mindtorch has it) has no attribute {name!r}; it has {', '.join(__dir__())}"
    )


def __dir__() -> list[str]:
    return ["as_troubleshooter", *sorted([*_PARTS, *_FROM])]
