"""The chi-squared distribution."""

from __future__ import annotations

from typing import Any

from mindtorch.torch.distributions import constraints
from mindtorch.torch.distributions.gamma import Gamma

Tensor = Any
__all__ = ["Chi2"]


class Chi2(Gamma):
    """Chi-squared with ``df`` degrees of freedom."""

    arg_constraints = {"df": constraints.positive}

    def __init__(self, df: Any, validate_args: bool | None = None) -> None:
        super().__init__(0.5 * df, 0.5, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return super().expand(batch_shape, self._get_checked_instance(Chi2, _instance))

    @property
    def df(self) -> Tensor:
        """Degrees of freedom."""
        return self.concentration * 2
