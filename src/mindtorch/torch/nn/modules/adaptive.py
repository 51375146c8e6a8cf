"""AdaptiveLogSoftmaxWithLoss: a softmax over very many classes, rare ones in clusters."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Sequence
from typing import Any

import mindtorch.torch as torch

from .. import functional as F
from .container import ModuleList, Sequential
from .linear import Linear
from .module import Module

__all__ = ["AdaptiveLogSoftmaxWithLoss"]

_ASMoutput = namedtuple("_ASMoutput", ["output", "loss"])


class AdaptiveLogSoftmaxWithLoss(Module):
    """(N, in_features), (N) int -> log-probability of each target (N) and their mean loss ().

    ``cutoffs`` split the classes, sorted by frequency; each cluster has a projection ``div_value`` times narrower.
    """

    def __init__(
        self,
        in_features: int,
        n_classes: int,
        cutoffs: Sequence[int],
        div_value: float = 4.0,
        head_bias: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        cutoffs = list(cutoffs)
        if not cutoffs:
            raise ValueError("cutoffs should be a sequence of length larger than 0")
        if (
            any(int(c) != c for c in cutoffs)
            or cutoffs != sorted(set(cutoffs))
            or min(cutoffs) <= 0
            or max(cutoffs) > n_classes - 1
        ):
            raise ValueError(
                "cutoffs should be a sequence of unique, positive integers sorted in an increasing order, where each value is "
                "between 1 and n_classes-1"
            )
        where = {"device": device, "dtype": dtype}
        self.in_features = in_features
        self.n_classes = n_classes
        self.cutoffs = [*cutoffs, n_classes]
        self.div_value = div_value
        self.head_bias = head_bias
        self.shortlist_size = self.cutoffs[0]
        self.n_clusters = len(self.cutoffs) - 1
        self.head_size = self.shortlist_size + self.n_clusters
        self.head = Linear(in_features, self.head_size, bias=head_bias, **where)
        self.tail = ModuleList()
        for i in range(self.n_clusters):
            width = int(in_features // div_value ** (i + 1))
            size = self.cutoffs[i + 1] - self.cutoffs[i]
            self.tail.append(
                Sequential(Linear(in_features, width, bias=False, **where), Linear(width, size, bias=False, **where))
            )

    def reset_parameters(self) -> None:
        """Draw the head, then each cluster."""
        self.head.reset_parameters()
        for down, up in self.tail:
            down.reset_parameters()
            up.reset_parameters()

    def forward(self, input_: Any, target_: Any) -> Any:
        """Named tuple (output (N), loss ()); one sample without batch dimension works too."""
        dim = target_.dim()
        if dim == 1:
            if input_.size(0) != target_.size(0):
                raise RuntimeError("Input and target should have the same size in the batch dimension.")
            if input_.dim() != 2:
                raise RuntimeError("1D target tensor expects 2D input tensors, but found inputs with size", input_.size())
        elif dim == 0:
            if input_.dim() != 1:
                raise RuntimeError("0D target tensor expects 1D input tensors, but found inputs with size", input_.size())
        else:
            raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
        input, target = (input_, target_) if dim else (input_.unsqueeze(0), target_.unsqueeze(0))
        low_seen, high_seen = int(target.min()), int(target.max())
        if low_seen < 0 or high_seen >= self.n_classes:
            raise RuntimeError(
                f"Target values should be in [0, {self.n_classes - 1}], but values in range [{low_seen}, {high_seen}] were "
                "found. "
            )
        output = input.new_zeros(target.size(0))
        column = target.clone()
        for i in range(self.n_clusters):
            low, high = self.cutoffs[i], self.cutoffs[i + 1]
            rows = ((target >= low) & (target < high)).nonzero().squeeze(1)
            if rows.numel() == 0:
                continue
            logits = self.tail[i](input.index_select(0, rows))
            within = (target.index_select(0, rows) - low).unsqueeze(1)
            local = F.log_softmax(logits, dim=1).gather(1, within).squeeze(1)
            output = output.index_copy(0, rows, local.to(output.dtype))
            column = column.index_fill(0, rows, self.shortlist_size + i)
        head = F.log_softmax(self.head(input), dim=1)
        output = output + head.gather(1, column.unsqueeze(1)).squeeze(1)
        loss = (-output).mean()
        return _ASMoutput(output if dim else output.squeeze(0), loss)

    def _get_full_log_prob(self, input: Any, head_output: Any) -> Any:
        head = F.log_softmax(head_output, dim=1)
        parts = [head[:, : self.shortlist_size]]
        for i, tail in enumerate(self.tail):
            inside = F.log_softmax(tail(input), dim=1)
            parts.append(inside + head[:, self.shortlist_size + i].unsqueeze(1))
        return torch.cat(parts, 1)

    def log_prob(self, input: Any) -> Any:
        """Log-probabilities of all classes: (N, in_features) -> (N, n_classes)."""
        return self._get_full_log_prob(input, self.head(input))

    def predict(self, input: Any) -> Any:
        """The most likely class of each row: (N, in_features) -> (N). Computes a cluster only where it is needed."""
        head = self.head(input)
        best = torch.argmax(head, dim=1)
        in_tail = best >= self.shortlist_size
        if not bool(in_tail.any()):
            return best
        if bool(in_tail.all()):
            return torch.argmax(self._get_full_log_prob(input, head), dim=1)
        rows = in_tail.nonzero().squeeze(1)
        full = self._get_full_log_prob(input.index_select(0, rows), head.index_select(0, rows))
        return best.index_copy(0, rows, torch.argmax(full, dim=1))
