"""Elementwise loss rows: squared, absolute, Huber, binary, divergence and likelihood losses, and what all losses share.

``F.mse_loss`` is a fused op; the rest is written with public ops.
"""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

from mindtorch.core.errors import check
from mindtorch.core.tensor import Tensor
from mindtorch.engine.host import loss as K
from mindtorch.ops import activation
from mindtorch.ops.activation import floating
from mindtorch.ops.table import SPACES, composite, op

NAMES = ("none", "mean", "sum")


def legacy(size_average: Any, reduce: Any, reduction: str) -> str:
    """The ``reduction`` that the deprecated ``size_average`` and ``reduce`` arguments mean, with PyTorch's warning."""
    if size_average is None and reduce is None:
        return reduction
    average = True if size_average is None else size_average
    every = True if reduce is None else reduce
    got = ("mean" if average else "sum") if every else "none"
    warnings.warn(
        f"size_average and reduce args will be deprecated, please use reduction='{got}' instead.", stacklevel=4
    )
    return got


def valid(reduction: str, *more: str) -> str:
    """ValueError unless ``reduction`` is none, mean, sum or one of ``more``."""
    if reduction not in NAMES and reduction not in more:
        raise ValueError(f"{reduction} is not a valid value for reduction")
    return reduction


def reduced(loss: Tensor, reduction: str) -> Tensor:
    """Mean or sum of elementwise losses; ``none`` gives them as they are."""
    return loss.mean() if reduction == "mean" else loss.sum() if reduction == "sum" else loss


# ---------------------------------------------------------------------- squared, absolute, Huber
def _mse_scale(grad: Tensor, input: Tensor, reduction: str) -> Tensor:
    return grad * (2.0 / max(input.numel(), 1) if reduction == "mean" else 2.0)


def _mse_by_grad(g: Tensor, grad: Tensor, input: Tensor, target: Tensor, reduction: str) -> Tensor:
    d = (input - target) * g
    scale = 2.0 / max(d.numel(), 1) if reduction == "mean" else 2.0
    return d * scale if reduction == "none" else d.sum() * scale


@op(
    "mse_loss_backward(T grad, T input, T target, str reduction)",
    ns="_C",
    half="f32",
    grad={
        "grad": _mse_by_grad,
        "input": lambda g, grad, input, reduction: g * _mse_scale(grad, input, reduction),
        "target": lambda g, grad, input, reduction: -(g * _mse_scale(grad, input, reduction)),
    },
)
def mse_loss_backward(g: np.ndarray, a: np.ndarray, b: np.ndarray, reduction: str) -> Any:
    """2 * (input - target) * grad, over the count for the mean."""
    with K.quiet():
        d = np.asarray(np.subtract(a, b))
        if reduction == "none":
            return d * np.asarray(2.0, d.dtype) * g
        scale = 2.0 * float(g) / (d.size or 1) if reduction == "mean" else 2.0 * float(g)
        return np.multiply(d, np.asarray(scale, d.dtype), d)


def _mse_rule(g: Tensor, input: Tensor, target: Tensor, reduction: str) -> Tensor:
    return mse_loss_backward(g, input, target, reduction)


@op(
    "mse(T input, T target, str reduction)",
    ns="_C",
    promote="same",
    promote_params=("input", "target"),
    node="MseLossBackward0",
    grad={
        "input": _mse_rule,
        "target": lambda g, input, target, reduction: _mse_rule(g, target, input, reduction),
    },
)
def _mse(a: np.ndarray, b: np.ndarray, reduction: str) -> Any:
    """Squared difference of two arrays of one shape, elementwise or reduced."""
    if a.dtype.kind != "f":
        floating("mse_cpu", a)
    return K.mse(a, b, reduction)


def _same_shape(name: str, input: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Both broadcast to one shape; PyTorch's warning when they differed."""
    if input.a.shape == target.a.shape:
        return input, target
    warnings.warn(
        f"Using a target size ({target.size()}) that is different to the input size ({input.size()}). "
        "This will likely lead "
        "to incorrect results due to broadcasting. Please ensure they have the same size.",
        stacklevel=4,
    )
    a, b = SPACES["torch"]["broadcast_tensors"](input, target)
    return a, b


def _weighted(loss: Tensor, weight: Any, reduction: str) -> Tensor:
    """``weight`` of the input's size on elementwise losses; the mean is over the weights."""
    if weight is None:
        return reduced(loss, reduction)
    if weight.size() != loss.size():
        raise ValueError("Weights and input must have the same size.")
    loss = loss * weight
    if reduction == "mean":
        return loss.sum() / weight.sum()
    return reduced(loss, reduction)


@composite(
    "mse_loss(T input, T target, bool? size_average=None, bool? reduce=None, str reduction='mean', T? weight=None)",
    ns="F",
)
def mse_loss(input: Tensor, target: Tensor, size_average: Any, reduce: Any, reduction: str, weight: Any) -> Tensor:
    """(input - target)^2."""
    if size_average is not None or reduce is not None:
        reduction = legacy(size_average, reduce, reduction)
    if input.a.shape != target.a.shape:
        input, target = _same_shape("mse_loss", input, target)
    if weight is not None:
        return _weighted(_mse(input, target, "none"), weight, valid(reduction))
    return _mse(input, target, reduction if reduction == "mean" else valid(reduction))


@composite(
    "l1_loss(T input, T target, bool? size_average=None, bool? reduce=None, str reduction='mean', T? weight=None)",
    ns="F",
)
def l1_loss(input: Tensor, target: Tensor, size_average: Any, reduce: Any, reduction: str, weight: Any) -> Tensor:
    """|input - target|."""
    reduction = legacy(size_average, reduce, reduction)
    input, target = _same_shape("l1_loss", input, target)
    return _weighted((input - target).abs(), weight, valid(reduction))


def _huber(d: Tensor, delta: float) -> Tensor:
    """0.5 d^2 below delta, delta * (|d| - 0.5 delta) above."""
    a = d.abs()
    return SPACES["torch"]["where"](a < delta, d * d * 0.5, (a - 0.5 * delta) * delta)


@composite(
    "smooth_l1_loss(T input, T target, bool? size_average=None, bool? reduce=None, str reduction='mean', "
    "float beta=1.0)",
    ns="F",
    node="SmoothL1LossBackward0", keeps=("input", "target"),
)
def smooth_l1_loss(
    input: Tensor, target: Tensor, size_average: Any, reduce: Any, reduction: str, beta: float
) -> Tensor:
    """0.5 d^2 / beta below beta, |d| - 0.5 beta above."""
    reduction = legacy(size_average, reduce, reduction)
    input, target = _same_shape("smooth_l1_loss", input, target)
    valid(reduction)
    check(beta >= 0, RuntimeError, "smooth_l1_loss does not support negative values for beta.")
    if beta == 0:
        return reduced((input - target).abs(), reduction)
    floating("smooth_l1_cpu", input.a)
    d = input - target
    a = d.abs()
    loss = SPACES["torch"]["where"](a < beta, d * d * (0.5 / beta), a - 0.5 * beta)
    return reduced(loss, reduction)


@composite(
    "huber_loss(T input, T target, str reduction='mean', float delta=1.0, T? weight=None)",
    ns="F",
    node="HuberLossBackward0", keeps=("input", "target"),
)
def huber_loss(input: Tensor, target: Tensor, reduction: str, delta: float, weight: Any) -> Tensor:
    """0.5 d^2 below delta, delta * (|d| - 0.5 delta) above."""
    input, target = _same_shape("huber_loss", input, target)
    valid(reduction)
    check(delta > 0, RuntimeError, "huber_loss does not support non-positive values for delta.")
    return _weighted(_huber(input - target, delta), weight, reduction)


# ---------------------------------------------------------------------- binary
def _bce_input(g: Tensor, input: Tensor, target: Tensor) -> Tensor:
    return g * (input - target) / ((1 - input) * input).clamp_min(1e-12)


@op(
    "bce_elements(T input, T target)",
    ns="_C",
    promote="same",
    node="BinaryCrossEntropyBackward0",
    grad={
        "input": _bce_input,
        "target": lambda g, input: g * ((-input).log1p() - input.log()).clamp(-100, 100),
    },
)
def _bce(a: np.ndarray, t: np.ndarray) -> Any:
    """-(t * log(x) + (1 - t) * log(1 - x)), logarithms limited to -100 from below."""
    floating("binary_cross_entropy", a)
    with K.quiet():
        check(not ((a < 0) | (a > 1)).any(), RuntimeError, "all elements of input should be between 0 and 1")
        low = np.asarray(-100.0, a.dtype)
        one = np.asarray(1.0, a.dtype)
        return (t - one) * np.maximum(np.log1p(-a), low) - t * np.maximum(np.log(a), low)


@composite(
    "binary_cross_entropy(T input, T target, T? weight=None, bool? size_average=None, bool? reduce=None, "
    "str reduction='mean')",
    ns="F",
    node="BinaryCrossEntropyBackward0",
)
def binary_cross_entropy(
    input: Tensor, target: Tensor, weight: Any, size_average: Any, reduce: Any, reduction: str
) -> Tensor:
    """Cross entropy of probabilities in [0, 1] with targets of the same size."""
    reduction = valid(legacy(size_average, reduce, reduction))
    if target.size() != input.size():
        raise ValueError(
            f"Using a target size ({target.size()}) that is different to the input size ({input.size()}) "
            "is deprecated. "
            "Please ensure they have the same size."
        )
    loss = _bce(input, target)
    return reduced(loss if weight is None else loss * weight.expand(input.size()), reduction)


@composite(
    "binary_cross_entropy_with_logits(T input, T target, T? weight=None, bool? size_average=None, bool? reduce=None, "
    "str reduction='mean', T? pos_weight=None)",
    ns="F",
    node="BinaryCrossEntropyWithLogitsBackward0", keeps=("target",),
)
def binary_cross_entropy_with_logits(
    input: Tensor, target: Tensor, weight: Any, size_average: Any, reduce: Any, reduction: str, pos_weight: Any
) -> Tensor:
    """Binary cross entropy of sigmoid(input), in a form that does not overflow."""
    reduction = legacy(size_average, reduce, reduction)
    if target.size() != input.size():
        raise ValueError(f"Target size ({target.size()}) must be the same as input size ({input.size()})")
    valid(reduction)
    logs = activation.logsigmoid(input)
    if pos_weight is not None:
        logs = logs * ((pos_weight - 1) * target + 1)
    loss = (1 - target) * input - logs
    return reduced(loss if weight is None else loss * weight, reduction)


composite(
    "binary_cross_entropy_with_logits(T input, T target, T? weight=None, T? pos_weight=None, int reduction=1)",
    ns="torch",
)(
    lambda input, target, weight, pos_weight, reduction: binary_cross_entropy_with_logits(
        input, target, weight, reduction=NAMES[reduction], pos_weight=pos_weight
    )
)


# ---------------------------------------------------------------------- divergences and likelihoods
@composite(
    "kl_div(T input, T target, bool? size_average=None, bool? reduce=None, str reduction='mean', bool "
    "log_target=False)",
    ns="F",
)
def kl_div(input: Tensor, target: Tensor, size_average: Any, reduce: Any, reduction: str, log_target: bool) -> Tensor:
    """target * (log(target) - input), input being log-probabilities; ``batchmean`` divides the sum by the batch."""
    reduction = legacy(size_average, reduce, reduction)
    valid(reduction, "batchmean")
    if reduction == "mean" and size_average is None and reduce is None:
        warnings.warn(
            "reduction: 'mean' divides the total loss by both the batch size and the support "
            "size.'batchmean' divides only "
            "by the batch size, and aligns with the KL div math definition.'mean' will be changed to "
            "behave the same as "
            "'batchmean' in the next major release.",
            stacklevel=3,
        )
    if log_target:
        loss = target.exp() * (target - input)
    else:
        loss = SPACES["torch"]["xlogy"](target, target) - target * input
    if reduction == "batchmean":
        total = loss.sum()
        return total / input.shape[0] if input.ndim else total
    return reduced(loss, reduction)


composite("kl_div(T input, T target, int reduction=1, *, bool log_target=False)", ns="torch")(
    lambda input, target, reduction, log_target: _quiet_kl(input, target, NAMES[reduction], log_target)
)


def _quiet_kl(input: Tensor, target: Tensor, reduction: str, log_target: bool) -> Tensor:
    loss = kl_div(input, target, reduction="none", log_target=log_target)
    return reduced(loss, reduction)


@composite(
    "poisson_nll_loss(T input, T target, bool log_input=True, bool full=False, bool? size_average=None, "
    "float eps=1e-8, "
    "bool? reduce=None, str reduction='mean')",
    ns="F",
)
def poisson_nll_loss(
    input: Tensor,
    target: Tensor,
    log_input: bool,
    full: bool,
    size_average: Any,
    eps: float,
    reduce: Any,
    reduction: str,
) -> Tensor:
    """Negative log likelihood of counts; ``full`` adds Stirling's term where target > 1."""
    reduction = valid(legacy(size_average, reduce, reduction))
    loss = input.exp() - target * input if log_input else input - target * (input + eps).log()
    if full:
        stirling = target * target.log() - target + (target * (2 * math.pi)).log() * 0.5
        loss = loss + stirling.masked_fill(target <= 1, 0)
    return reduced(loss, reduction)


composite(
    "poisson_nll_loss(T input, T target, bool log_input, bool full, float eps, int reduction)",
    ns="torch",
)(
    lambda input, target, log_input, full, eps, reduction: poisson_nll_loss(
        input, target, log_input, full, eps=eps, reduction=NAMES[reduction]
    )
)


@composite(
    "gaussian_nll_loss(T input, T target, TN var, bool full=False, float eps=1e-6, str reduction='mean')", ns="F"
)
def gaussian_nll_loss(input: Tensor, target: Tensor, var: Any, full: bool, eps: float, reduction: str) -> Tensor:
    """0.5 * (log(var) + (input - target)^2 / var), var limited to eps from below."""
    if not isinstance(var, Tensor):
        if var < 0:
            raise ValueError("var has negative entry/entries")
        var = input.new_ones(()) * var
        var = var.expand(input.shape)
    elif (var.a < 0).any():
        raise ValueError("var has negative entry/entries")
    if var.size() != input.size():
        if input.size()[:-1] == var.size():
            var = var.unsqueeze(-1)
        elif var.ndim != input.ndim or [n for m, n in zip(input.shape, var.shape) if m != n] != [1]:
            # one dimension may be shared, no more
            raise ValueError("var is of incorrect size")
    valid(reduction)
    # PyTorch clamps a copy without recording it: the gradient passes as if var had not been limited
    var = var.clone()
    var.detach().clamp_(min=eps)
    loss = (var.log() + (input - target).square() / var) * 0.5
    return reduced(loss + 0.5 * math.log(2 * math.pi) if full else loss, reduction)
