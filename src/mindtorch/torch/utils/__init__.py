"""``torch.utils``: its members load on first use, so that ``import torch`` alone is enough for ``torch.utils.data``."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

_SUBMODULES = (
    "_pytree", "benchmark", "bottleneck", "checkpoint", "data", "dlpack", "flop_counter", "hooks", "model_zoo", "serialization",
    "tensorboard",
)  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _SUBMODULES and importlib.util.find_spec(f"{__name__}.{name}") is not None:
        module = importlib.import_module(f"{__name__}.{name}")
        globals()[name] = module
        return module
    raise AttributeError(f"module 'torch.utils' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted({*globals(), *(n for n in _SUBMODULES if importlib.util.find_spec(f"{__name__}.{n}") is not None)})
