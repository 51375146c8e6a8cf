"""Normals mapped to the simplex."""

from __future__ import annotations

from typing import Any

from mindtorch.torch.distributions import constraints
from mindtorch.torch.distributions.normal import Normal
from mindtorch.torch.distributions.transformed_distribution import (
    TransformedDistribution,
)
from mindtorch.torch.distributions.transforms import StickBreakingTransform

Tensor = Any
__all__ = ["LogisticNormal"]


class LogisticNormal(TransformedDistribution):
    """Stick-breaking image of independent normals: points of the simplex."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.simplex
    has_rsample = True

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        base = Normal(loc, scale, validate_args=validate_args)
        if not base.batch_shape:
            base = base.expand([1])
        super().__init__(base, StickBreakingTransform(), validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return super().expand(batch_shape, self._get_checked_instance(LogisticNormal, _instance))

    @property
    def loc(self) -> Tensor:
        """Mean of the normals."""
        return self.base_dist.base_dist.loc

    @property
    def scale(self) -> Tensor:
        """Deviation of the normals."""
        return self.base_dist.base_dist.scale
