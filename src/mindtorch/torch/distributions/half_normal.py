"""The half-normal distribution."""

from __future__ import annotations

import math
from typing import Any

from mindtorch.torch.distributions._half import Half
from mindtorch.torch.distributions.normal import Normal
from mindtorch.torch.distributions.transforms import AbsTransform

Tensor = Any
__all__ = ["HalfNormal"]


class HalfNormal(Half):
    """|X| of a normal with mean 0 and deviation ``scale``."""

    def __init__(self, scale: Any, validate_args: bool | None = None) -> None:
        super().__init__(Normal(0, scale, validate_args=False), AbsTransform(), validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return super().expand(batch_shape, self._get_checked_instance(HalfNormal, _instance))

    @property
    def mean(self) -> Tensor:
        return self.scale * math.sqrt(2 / math.pi)

    @property
    def variance(self) -> Tensor:
        return self.scale.pow(2) * (1 - 2 / math.pi)
