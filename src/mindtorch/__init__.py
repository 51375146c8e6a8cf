"""PyTorch programs on MindSpore: ``import mindtorch.torch as torch``, or ``python -m mindtorch train.py`` unchanged."""

from __future__ import annotations

import importlib
from typing import Any

from mindtorch._version import VERSION

__version__ = VERSION

_SWITCH = ("torch_disable", "torch_enable", "torch_pop")
_ROOMS = ("torch", "torchvision", "torchaudio", "tools", "interop", "graph")

__all__ = ["__version__", "graph", "interop", "tools", "torch", "torch_disable", "torch_enable", "torch_pop", "torchvision", "value_and_grad"]


def __getattr__(name: str) -> Any:
    # Nothing heavy is imported until it is asked for: the command line and DataLoader workers start through here.
    if name in _SWITCH:
        return getattr(importlib.import_module("mindtorch.cli.switch"), name)
    if name == "value_and_grad":
        return importlib.import_module("mindtorch.interop").value_and_grad
    if name in _ROOMS:
        try:
            return importlib.import_module(f"mindtorch.{name}")
        except ModuleNotFoundError as e:
            if e.name != f"mindtorch.{name}":
                raise
    raise AttributeError(f"module 'mindtorch' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
