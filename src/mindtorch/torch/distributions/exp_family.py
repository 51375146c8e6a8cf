"""Home of ``ExponentialFamily`` in PyTorch's tree."""

from __future__ import annotations

from mindtorch.torch.distributions.distribution import ExponentialFamily

__all__ = ["ExponentialFamily"]
