"""Scale and shift parameters of normalisation layers."""

from __future__ import annotations

from typing import Any

import mindtorch.torch as torch

from .. import init
from ..parameter import Parameter


def make_affine(layer: Any, shape: Any, weight: bool, bias: bool, device: Any, dtype: Any) -> None:
    """Register ``weight`` and ``bias`` of ``shape``, uninitialised; None for one that is not wanted."""
    for name, wanted in (("weight", weight), ("bias", bias)):
        value = Parameter(torch.empty(shape, device=device, dtype=dtype)) if wanted else None
        layer.register_parameter(name, value)


def reset_affine(layer: Any) -> None:
    """weight 1, bias 0, where the layer has them."""
    if layer.weight is not None:
        init.ones_(layer.weight)
    if layer.bias is not None:
        init.zeros_(layer.bias)
