"""Focal loss."""

from __future__ import annotations

from typing import Any

import mindtorch.torch.nn.functional as F


def sigmoid_focal_loss(
    inputs: Any, targets: Any, alpha: float = 0.25, gamma: float = 2, reduction: str = "none"
) -> Any:
    """Binary cross entropy of logits, weighted by ``(1 - p_t) ** gamma`` and, for ``alpha >= 0``, by class balance."""
    p = inputs.sigmoid()
    loss = F.binary_cross_entropy_with_logits(inputs, targets, reduction="none")
    missed = 1 - (p * targets + (1 - p) * (1 - targets))
    loss = loss * missed**gamma
    if alpha >= 0:
        loss = (alpha * targets + (1 - alpha) * (1 - targets)) * loss
    if reduction == "none":
        return loss
    if reduction == "mean":
        return loss.mean()
    if reduction == "sum":
        return loss.sum()
    raise ValueError(
        f"Invalid Value for arg 'reduction': '{reduction}'\n Supported reduction modes: 'none', 'mean', 'sum'"
    )
