"""Tools of the migration guide. ``from mindtorch.tools import mstorch_enable`` lets ``import torch`` mean mindtorch.

Nothing here imports PyTorch, mindtorch.torch or MindSpore until it is used, so the tools run where only one of them is.
"""

from __future__ import annotations

import importlib
from typing import Any

_FROM = {
    "as_troubleshooter": "troubleshooter",
    "convert_to_ms_tensor": "convert_tensor",
    "convert_to_torch_tensor": "convert_tensor",
    "custom_op": "custom_op",
    "debug_layer_info": "layers",
    "pth2ckpt": "pth2ckpt",
    "step_timer": "timing.step_timer",
}
"""Public function -> the file it lives in."""


def __getattr__(name: str) -> Any:
    if name in _FROM:
        value = getattr(importlib.import_module(f"mindtorch.tools.{_FROM[name]}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'mindtorch.tools' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_FROM})
