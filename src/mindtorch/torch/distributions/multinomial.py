"""The multinomial distribution."""

from __future__ import annotations

from typing import Any

import mindtorch.torch as torch
from mindtorch.torch.distributions import constraints
from mindtorch.torch.distributions.binomial import Binomial
from mindtorch.torch.distributions.categorical import Categorical, OverCategorical
from mindtorch.torch.distributions.utils import broadcast_all

Tensor = Any
__all__ = ["Multinomial"]


class Multinomial(OverCategorical):
    """Counts of K categories in ``total_count`` draws, probabilities or logits in the last dimension."""

    _kept = ("total_count",)
    total_count: int

    def __init__(
        self, total_count: int = 1, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        if not isinstance(total_count, int):
            raise NotImplementedError("inhomogeneous total_count is not supported")
        self.total_count = total_count
        self._categorical = Categorical(probs=probs, logits=logits)
        self._binomial = Binomial(total_count=total_count, probs=self.probs)
        super().__init__(self._categorical.batch_shape, self._categorical.param_shape[-1:], validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = super().expand(batch_shape, _instance)
        new._binomial = self._binomial.expand(torch.Size(batch_shape) + self.event_shape)
        return new

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self) -> Any:  # type: ignore[override]
        """Counts that sum to total_count at most."""
        return constraints.multinomial(self.total_count)

    @property
    def mean(self) -> Tensor:
        return self.probs * self.total_count

    @property
    def variance(self) -> Tensor:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        sample_shape = torch.Size(sample_shape)
        drawn = self._categorical.sample(torch.Size((self.total_count,)) + sample_shape)
        order = list(range(drawn.dim()))
        order.append(order.pop(0))
        drawn = drawn.permute(*order)
        counts = drawn.new_zeros(self._extended_shape(sample_shape))
        counts.scatter_add_(-1, drawn, torch.ones_like(drawn))
        return counts.type_as(self.probs)

    def entropy(self) -> Tensor:
        n = torch.tensor(self.total_count)
        cat = self._categorical.entropy()
        support = self._binomial.enumerate_support(expand=False)[1:]
        weights = (torch.exp(self._binomial.log_prob(support)) * torch.lgamma(support + 1)).sum((0, -1))
        return n * cat - torch.lgamma(n + 1) + weights

    def log_prob(self, value: Tensor) -> Tensor:
        self._validated(value)
        logits, value = broadcast_all(self.logits, value)
        logits = logits.clone(memory_format=torch.contiguous_format)
        logits[(value == 0) & (logits == -float("inf"))] = 0
        return torch.lgamma(value.sum(-1) + 1) - torch.lgamma(value + 1).sum(-1) + (logits * value).sum(-1)
