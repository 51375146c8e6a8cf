"""``ctc_loss`` in its functional and torch forms."""

from __future__ import annotations

from typing import Any

import numpy as np

from mindtorch.core.errors import check
from mindtorch.core.tensor import Tensor
from mindtorch.engine.host import ctc as K
from mindtorch.ops.activation import floating
from mindtorch.ops.loss import NAMES, valid
from mindtorch.ops.table import composite, op


def _refuse(g: Tensor) -> Tensor:
    raise RuntimeError(
        "derivative for aten::_ctc_loss_backward is not implemented: ctc_loss can be differentiated once, as in PyTorch"
    )


@op(
    "ctc_loss_backward(T grad, T log_probs, any targets, any steps, int blank, bool zero_infinity)",
    ns="_C",
    half="f32",
    grad={"grad": lambda g: _refuse(g), "log_probs": lambda g: _refuse(g)},
)
def ctc_loss_backward(g: np.ndarray, lp: np.ndarray, targets: Any, steps: Any, blank: int, zero_infinity: bool) -> Any:
    """Gradient by the log-probabilities (T, N, C)."""
    return K.backward(g, lp, targets, steps, blank, zero_infinity)


@op(
    "ctc_losses(T log_probs, any targets, any steps, int blank, bool zero_infinity)",
    ns="_C",
    half="f32",
    node="CtcLossBackward0",
    grad={
        "log_probs": lambda g, log_probs, targets, steps, blank, zero_infinity: ctc_loss_backward(
            g, log_probs, targets, steps, blank, zero_infinity
        )
    },
)
def _ctc_losses(lp: np.ndarray, targets: Any, steps: Any, blank: int, zero_infinity: bool) -> Any:
    """Negative log likelihood of each sample."""
    floating("ctc_loss_cpu", lp)
    return K.forward(lp, targets, steps, blank)


def _lengths(v: Any) -> list[int]:
    if isinstance(v, Tensor):
        return [int(x) for x in v.a.ravel().tolist()]
    return [int(x) for x in v]


def _split(targets: np.ndarray, lengths: list[int]) -> list[np.ndarray]:
    """Label sequences of a padded (N, S) or concatenated (sum of lengths) target array."""
    if targets.ndim == 2:
        longest = max(lengths, default=0)
        check(
            longest <= targets.shape[1],
            RuntimeError,
            f"Expected tensor to have size at least {longest} at dimension 1, but got size "
            f"{targets.shape[1]} for argument "
            "#2 'targets' (while checking arguments for ctc_loss_allocate_outputs)",
        )
        return [targets[i, :n].astype(np.int64) for i, n in enumerate(lengths)]
    check(
        sum(lengths) == targets.size,
        RuntimeError,
        f"Expected tensor to have size {sum(lengths)} at dimension 0, but got size {targets.size} for argument #2 "
        "'targets' (while checking arguments for ctc_loss_allocate_outputs)",
    )
    ends = np.cumsum(lengths)
    return [targets[e - n : e].astype(np.int64) for e, n in zip(ends, lengths)]


def _ctc(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Any,
    target_lengths: Any,
    blank: int,
    reduction: str,
    zero_infinity: bool,
) -> Tensor:
    single = log_probs.ndim == 2
    lp = log_probs.unsqueeze(1) if single else log_probs
    check(lp.ndim == 3, RuntimeError, f"ctc_loss: log_probs must be (T, N, C) or (T, C), got {list(log_probs.shape)}")
    t = targets.a[None] if single and targets.ndim == 1 else targets.a
    steps, lengths = _lengths(input_lengths), _lengths(target_lengths)
    batch = lp.shape[1]
    check(len(steps) == batch, RuntimeError, f"input_lengths must be of size batch_size ({batch}), got {len(steps)}")
    check(
        len(lengths) == batch, RuntimeError, f"target_lengths must be of size batch_size ({batch}), got {len(lengths)}"
    )
    check(0 <= blank < lp.shape[2], RuntimeError, "blank must be in label range")
    for n in steps:
        check(
            n <= lp.shape[0],
            RuntimeError,
            f"Expected input_lengths to have value at most {lp.shape[0]}, but got value {n} (while "
            "checking arguments for "
            "ctc_loss_allocate_outputs)",
        )
    loss = _ctc_losses(lp, _split(t, lengths), steps, blank, zero_infinity)
    if zero_infinity:
        loss = loss.masked_fill(loss.isinf(), 0)
    if reduction == "mean":
        return (loss / loss.new_tensor([max(n, 1) for n in lengths])).mean()
    if reduction == "sum":
        return loss.sum()
    return loss.squeeze(0) if single else loss


@composite(
    "ctc_loss(T log_probs, T targets, any input_lengths, any target_lengths, int blank=0, str reduction='mean', "
    "bool zero_infinity=False)",
    ns="F",
)
def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Any,
    target_lengths: Any,
    blank: int,
    reduction: str,
    zero_infinity: bool,
) -> Tensor:
    """CTC loss of log-probabilities (T, N, C), targets padded (N, S) or concatenated; mean divides by target length."""
    return _ctc(log_probs, targets, input_lengths, target_lengths, blank, valid(reduction), zero_infinity)


composite(
    "ctc_loss(T log_probs, T targets, any input_lengths, any target_lengths, int blank=0, int reduction=1, "
    "bool zero_infinity=False)",
    ns="torch",
)(
    lambda log_probs, targets, input_lengths, target_lengths, blank, reduction, zero_infinity: _ctc(
        log_probs, targets, input_lengths, target_lengths, blank, NAMES[reduction], zero_infinity
    )
)
