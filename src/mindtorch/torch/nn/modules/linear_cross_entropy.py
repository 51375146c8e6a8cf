"""Linear layer and cross entropy in one module."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from mindtorch.log import ignored

from .. import functional as F
from .linear import Linear
from .loss import _WeightedLoss

__all__ = ["LinearCrossEntropyLoss", "LinearCrossEntropyOptions"]


@dataclasses.dataclass
class LinearCrossEntropyOptions:
    """How PyTorch would split the computation to save memory; accepted here, with no effect on the numbers."""

    allow_retain_graph: bool = False
    batch_chunk_size: int | None = None
    chunking_method: str | None = "auto"
    acc_policy: str = "auto"
    acc_dtype: Any = None


class LinearCrossEntropyLoss(_WeightedLoss):
    """``cross_entropy(linear(x), target)``: (N, in_features), (N, *out_features) int -> () or (N, *out_features)."""

    __constants__ = ["num_classes", "out_features", "reduction", "ignore_index", "label_smoothing"]

    def __init__(
        self,
        in_features: int,
        num_classes: int,
        *,
        out_features: tuple[int, ...] = (),
        bias: bool = False,
        device: Any = None,
        dtype: Any = None,
        reduction: str = "mean",
        weight: Any = None,
        ignore_index: int | None = None,
        label_smoothing: float = 0.0,
        options: LinearCrossEntropyOptions | None = None,
    ) -> None:
        super().__init__(weight, None, None, reduction)
        self.num_classes = num_classes
        self.out_features = tuple(out_features)
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing
        self.options = options
        if options is not None:
            ignored("LinearCrossEntropyLoss", "options", "the loss is computed in one piece")
        total = num_classes * math.prod(self.out_features)
        self.linear = Linear(in_features, total, bias=bias, device=device, dtype=dtype)

    def forward(self, input: Any, target: Any) -> Any:
        """The loss."""
        logits = self.linear(input)
        if self.out_features:
            logits = logits.reshape(*logits.shape[:-1], self.num_classes, *self.out_features)
        return F.cross_entropy(
            logits,
            target,
            weight=self.weight,
            ignore_index=-100 if self.ignore_index is None else self.ignore_index,
            reduction=self.reduction,
            label_smoothing=self.label_smoothing,
        )

    def extra_repr(self) -> str:
        """Settings."""
        return (
            f"in_features={self.linear.in_features}, num_classes={self.num_classes}, out_features={self.out_features}, "
            f"bias={self.linear.bias is not None}, reduction={self.reduction}, ignore_index={self.ignore_index}, "
            f"label_smoothing={self.label_smoothing}, options={self.options}"
        )
