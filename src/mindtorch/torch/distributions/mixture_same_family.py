"""Mixtures of components of one family."""

from __future__ import annotations

from typing import Any

import mindtorch.torch as torch
from mindtorch.torch.distributions import constraints
from mindtorch.torch.distributions.distribution import Distribution

Tensor = Any
__all__ = ["MixtureSameFamily"]


class MixtureSameFamily(Distribution):
    """``component_distribution``, whose last batch dimension is mixed by the Categorical ``mixture_distribution``."""

    arg_constraints: Any = {}
    has_rsample = False

    def __init__(
        self, mixture_distribution: Any, component_distribution: Any, validate_args: bool | None = None
    ) -> None:
        from mindtorch.torch.distributions.categorical import Categorical as Mixing

        self._mixture_distribution = mixture_distribution
        self._component_distribution = component_distribution
        if not isinstance(mixture_distribution, Mixing):
            raise ValueError(" The Mixture distribution needs to be an  instance of torch.distributions.Categorical")
        if not isinstance(component_distribution, Distribution):
            raise ValueError("The Component distribution need to be an instance of torch.distributions.Distribution")
        mixed = mixture_distribution.batch_shape
        batch = component_distribution.batch_shape[:-1]
        for a, b in zip(reversed(mixed), reversed(batch)):
            if a != 1 and b != 1 and a != b:
                raise ValueError(
                    f"`mixture_distribution.batch_shape` ({mixed}) is not compatible with "
                    f"`component_distribution.batch_shape`({batch})"
                )
        km = mixture_distribution.logits.shape[-1]
        kc = component_distribution.batch_shape[-1]
        if km != kc:
            raise ValueError(
                f"`mixture_distribution component` ({km}) does not equal `component_distribution.batch_shape[-1]` "
                f"({kc})"
            )
        self._num_component = km
        event_shape = component_distribution.event_shape
        self._event_ndims = len(event_shape)
        super().__init__(batch, event_shape, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        batch_shape = torch.Size(batch_shape)
        new = self.__new__(type(self)) if _instance is None else _instance
        new._mixture_distribution = self._mixture_distribution.expand(batch_shape)
        new._component_distribution = self._component_distribution.expand(batch_shape + (self._num_component,))
        new._num_component = self._num_component
        new._event_ndims = self._event_ndims
        new._rebuild(self, batch_shape, self.event_shape)
        return new

    @constraints.dependent_property
    def support(self) -> Any:  # type: ignore[override]
        """That of the components."""
        return constraints.MixtureSameFamilyConstraint(self._component_distribution.support)

    @property
    def mixture_distribution(self) -> Any:
        """The mixing Categorical."""
        return self._mixture_distribution

    @property
    def component_distribution(self) -> Any:
        """The components."""
        return self._component_distribution

    @property
    def mean(self) -> Tensor:
        probs = self._pad_mixture_dimensions(self.mixture_distribution.probs)
        return torch.sum(probs * self.component_distribution.mean, dim=-1 - self._event_ndims)

    @property
    def variance(self) -> Tensor:
        probs = self._pad_mixture_dimensions(self.mixture_distribution.probs)
        dim = -1 - self._event_ndims
        within = torch.sum(probs * self.component_distribution.variance, dim=dim)
        centre = self._pad(self.mean)
        return within + torch.sum(probs * (self.component_distribution.mean - centre).pow(2.0), dim=dim)

    def cdf(self, x: Tensor) -> Tensor:
        return torch.sum(self.component_distribution.cdf(self._pad(x)) * self.mixture_distribution.probs, dim=-1)

    def log_prob(self, x: Tensor) -> Tensor:
        self._validated(x)
        log_prob = self.component_distribution.log_prob(self._pad(x))
        log_mix = torch.log_softmax(self.mixture_distribution.logits, dim=-1)
        return torch.logsumexp(log_prob + log_mix, dim=-1)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with torch.no_grad():
            n = len(sample_shape)
            dim = n + len(self.batch_shape)
            event = self.event_shape
            which = self.mixture_distribution.sample(sample_shape)
            parts = self.component_distribution.sample(sample_shape)
            ones = torch.Size([1] * (len(event) + 1))
            index = which.reshape(which.shape + ones).repeat(
                torch.Size([1] * len(which.shape)) + torch.Size([1]) + event
            )
            return torch.gather(parts, dim, index).squeeze(dim)

    def _pad(self, x: Tensor) -> Tensor:
        return x.unsqueeze(-1 - self._event_ndims)

    def _pad_mixture_dimensions(self, x: Tensor) -> Tensor:
        pad = len(self.batch_shape) - len(self.mixture_distribution.batch_shape)
        shape = x.shape
        return x.reshape(shape[:-1] + torch.Size(pad * [1]) + shape[-1:] + torch.Size(self._event_ndims * [1]))

    def __repr__(self) -> str:
        return f"MixtureSameFamily(\n  {self.mixture_distribution},\n  {self.component_distribution})"
