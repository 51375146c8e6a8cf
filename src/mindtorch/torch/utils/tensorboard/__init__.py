"""``SummaryWriter`` over the ``tensorboard`` package, which must be installed to write its files."""

from __future__ import annotations

from mindtorch.torch.utils.tensorboard.writer import SummaryWriter

__all__ = ["SummaryWriter"]
