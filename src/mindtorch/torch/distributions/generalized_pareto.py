"""The generalized Pareto distribution."""

from __future__ import annotations

import math
from typing import Any

import mindtorch.torch as torch
from mindtorch.torch.distributions import constraints
from mindtorch.torch.distributions.distribution import Params
from mindtorch.torch.distributions.utils import batch_shape, broadcast_all

Tensor = Any
__all__ = ["GeneralizedPareto"]


class GeneralizedPareto(Params):
    """Exceedances over ``loc`` with ``scale`` and tail ``concentration`` (0: exponential)."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive, "concentration": constraints.real}
    has_rsample = True
    _params = ("loc", "scale", "concentration")

    def __init__(self, loc: Any, scale: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale, self.concentration = broadcast_all(loc, scale, concentration)
        super().__init__(batch_shape(self.loc, loc, scale, concentration), validate_args=validate_args)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:  # type: ignore[override]
        """From loc up, bounded above for negative concentrations."""
        upper = self.loc - self.scale / self.concentration
        if bool((self.concentration >= 0).all()):
            return constraints.greater_than_eq(self.loc)
        return constraints.interval(self.loc, torch.where(self.concentration < 0, upper, math.inf))

    @property
    def mean(self) -> Tensor:
        m = self.loc + self.scale / (1 - self.concentration)
        return torch.where(self.concentration >= 1, math.inf, m)

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        c = self.concentration
        v = self.scale.pow(2) / ((1 - c).pow(2) * (1 - 2 * c))
        return torch.where(c >= 0.5, math.inf, v)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        return self.icdf(torch.rand(shape, dtype=self.loc.dtype, device=self.loc.device))

    def _flat(self) -> Tensor:
        return torch.isclose(self.concentration, torch.zeros_like(self.concentration))

    def _safe(self) -> Tensor:
        return torch.where(self._flat(), torch.ones_like(self.concentration), self.concentration)

    def log_prob(self, value: Tensor) -> Tensor:
        self._validated(value)
        z = (value - self.loc) / self.scale
        c = self._safe()
        tail = torch.where(self._flat(), -z, -(1 + 1 / c) * torch.log1p(c * z))
        inside = (z >= 0) & ((c >= 0) | (z <= -1 / c) | self._flat())
        return torch.where(inside, tail - self.scale.log(), -math.inf)

    def cdf(self, value: Tensor) -> Tensor:
        self._validated(value)
        z = (value - self.loc) / self.scale
        c = self._safe()
        return torch.where(self._flat(), 1 - torch.exp(-z), 1 - torch.exp(-torch.log1p(c * z) / c))

    def icdf(self, value: Tensor) -> Tensor:
        log_rest = torch.log1p(-value)
        c = self._safe()
        tail = torch.where(self._flat(), -log_rest, torch.expm1(-c * log_rest) / c)
        return self.loc + self.scale * tail

    def entropy(self) -> Tensor:
        return self.scale.log() + self.concentration + 1
