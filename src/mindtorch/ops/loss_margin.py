"""Margin and distance losses, ``cosine_similarity`` and ``pairwise_distance``: composites of public ops."""

from __future__ import annotations

from typing import Any

import numpy as np

from mindtorch.core.errors import check
from mindtorch.core.tensor import Tensor, constant, values
from mindtorch.ops import activation
from mindtorch.ops.loss import NAMES, legacy, reduced, valid
from mindtorch.ops.table import SPACES, composite


def _where(cond: Tensor, a: Any, b: Any) -> Tensor:
    return SPACES["torch"]["where"](cond, a, b)


# ---------------------------------------------------------------------- distances
@composite("cosine_similarity(T x1, T x2, int dim=1, float eps=1e-8)", ns="F torch")
def cosine_similarity(x1: Tensor, x2: Tensor, dim: int, eps: float) -> Tensor:
    """Sum over dim of x1 / max(|x1|, eps) * x2 / max(|x2|, eps); the tensors broadcast."""
    dtype = SPACES["torch"]["result_type"](x1, x2) if x1.dtype is not x2.dtype else x1.dtype
    check(
        dtype.is_floating_point,
        RuntimeError,
        f"expected common dtype to be floating point, yet common dtype is {dtype}",
    )
    if x1.dtype is not dtype or x2.dtype is not dtype:
        x1, x2 = x1.to(dtype), x2.to(dtype)
    x1, x2 = SPACES["torch"]["broadcast_tensors"](x1, x2)
    n1, n2 = (t.norm(2, dim, True).clamp_min(eps) for t in (x1, x2))
    return ((x1 / n1) * (x2 / n2)).sum(dim)


@composite("pairwise_distance(T x1, T x2, float p=2.0, float eps=1e-6, bool keepdim=False)", ns="F torch")
def pairwise_distance(x1: Tensor, x2: Tensor, p: float, eps: float, keepdim: bool) -> Tensor:
    """p-norm over the last dimension of x1 - x2 + eps."""
    return (x1 - x2 + eps).norm(p, -1, keepdim)


# ---------------------------------------------------------------------- margins of scores
@composite(
    "hinge_embedding_loss(T input, T target, float margin=1.0, bool? size_average=None, bool? reduce=None, "
    "str reduction='mean')",
    ns="F",
)
def hinge_embedding_loss(
    input: Tensor, target: Tensor, margin: float, size_average: Any, reduce: Any, reduction: str
) -> Tensor:
    """input where target is 1, max(0, margin - input) where it is -1."""
    reduction = valid(legacy(size_average, reduce, reduction))
    zero = input.new_zeros(())
    low = _where(target != 1, (margin - input).clamp_min(0), zero)
    return reduced(low + _where(target != -1, input, zero), reduction)


@composite(
    "margin_ranking_loss(T input1, T input2, T target, float margin=0, bool? size_average=None, bool? reduce=None, "
    "str reduction='mean')",
    ns="F",
)
def margin_ranking_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float, size_average: Any, reduce: Any, reduction: str
) -> Tensor:
    """max(0, -target * (input1 - input2) + margin)."""
    reduction = valid(legacy(size_average, reduce, reduction))
    check(
        input1.ndim == input2.ndim == target.ndim,
        RuntimeError,
        f"margin_ranking_loss : All input tensors should have same dimension but got sizes: input1: {input1.size()}, "
        f"input2: {input2.size()}, target: {target.size()} ",
    )
    return _ranking(input1, input2, target, margin, reduction)


def _ranking(input1: Tensor, input2: Tensor, target: Tensor, margin: float, reduction: str) -> Tensor:
    return reduced((-target * (input1 - input2) + margin).clamp_min(0), reduction)


@composite(
    "soft_margin_loss(T input, T target, bool? size_average=None, bool? reduce=None, str reduction='mean')",
    ns="F",
    node="SoftMarginLossBackward0", keeps=("input", "target"),
)
def soft_margin_loss(input: Tensor, target: Tensor, size_average: Any, reduce: Any, reduction: str) -> Tensor:
    """log(1 + exp(-target * input))."""
    reduction = valid(legacy(size_average, reduce, reduction))
    return reduced((-target * input).exp().log1p(), reduction)


@composite(
    "multilabel_soft_margin_loss(T input, T target, T? weight=None, bool? size_average=None, bool? reduce=None, "
    "str reduction='mean')",
    ns="F",
)
def multilabel_soft_margin_loss(
    input: Tensor, target: Tensor, weight: Any, size_average: Any, reduce: Any, reduction: str
) -> Tensor:
    """Mean over classes of the binary cross entropy of sigmoid(input)."""
    reduction = valid(legacy(size_average, reduce, reduction))
    loss = -(target * activation.logsigmoid(input) + (1 - target) * activation.logsigmoid(-input))
    if weight is not None:
        loss = loss * weight
    return reduced(loss.sum(-1) / input.size(-1), reduction)


@composite(
    "multi_margin_loss(T input, T target, int p=1, float margin=1.0, T? weight=None, bool? size_average=None, "
    "bool? reduce=None, str reduction='mean')",
    ns="F",
    node="MultiMarginLossBackward0", keeps=("input", "target"),
)
def multi_margin_loss(
    input: Tensor, target: Tensor, p: int, margin: float, weight: Any, size_average: Any, reduce: Any, reduction: str
) -> Tensor:
    """Mean over the other classes of max(0, margin - x[target] + x)^p, weighted by the target's class."""
    reduction = valid(legacy(size_average, reduce, reduction))
    if p not in (1, 2):
        raise ValueError("only p == 1 and p == 2 supported")
    if weight is not None and weight.ndim != 1:
        raise ValueError("weight must be one-dimensional")
    single = input.ndim < 2
    x = input.reshape(1, -1) if single else input
    t = target.reshape(-1)
    n, classes = x.shape
    check(
        t.shape[0] == n and target.ndim <= 1,
        RuntimeError,
        "multi_margin_loss: target tensor should be 1-D with size equal to the number of input samples (batch size). "
        f"Expected target size [{n}], but got {list(target.shape)}. Input has shape {list(input.shape)}.",
    )
    check(not ((values(t) < 0) | (values(t) >= classes)).any(), RuntimeError, "target out of range")
    index = t.unsqueeze(1)
    z = (margin - x.gather(1, index) + x).clamp_min(0)
    z = z if p == 1 else z * z
    if weight is not None:
        z = z * weight.index_select(0, t).unsqueeze(1)
    own = np.zeros(x.shape, np.bool_)
    own[np.arange(n), values(t)] = True
    loss = z.masked_fill(constant(own), 0).sum(1) / classes
    return reduced(loss.reshape(()) if single and target.ndim == 0 else loss, reduction)


@composite(
    "multilabel_margin_loss(T input, T target, bool? size_average=None, bool? reduce=None, str reduction='mean')",
    ns="F",
    node="MultilabelMarginLossBackward0", keeps=("input", "target"),
)
def multilabel_margin_loss(input: Tensor, target: Tensor, size_average: Any, reduce: Any, reduction: str) -> Tensor:
    """Over pairs (target class j, other class i): max(0, 1 - (x[j] - x[i])) / classes; a target list ends at -1."""
    reduction = valid(legacy(size_average, reduce, reduction))
    check(
        target.shape == input.shape,
        RuntimeError,
        f"inconsistent target size: {list(target.shape)} for input of size: {list(input.shape)}",
    )
    single = input.ndim < 2
    x, t = (v.reshape(1, -1) if single else v for v in (input, target))
    n, classes = x.shape
    live = np.cumprod(values(t) >= 0, axis=1).astype(np.bool_)
    check(not (live & (values(t) >= classes)).any(), RuntimeError, "argument #2 'target' is out of range")
    safe = np.where(live, values(t), 0)
    own = np.zeros((n, classes), np.bool_)
    rows = np.repeat(np.arange(n), live.sum(1))
    own[rows, values(t)[live]] = True
    z = (1 - x.gather(1, constant(safe)).unsqueeze(2) + x.unsqueeze(1)).clamp_min(0)
    pairs = live[:, :, None] & ~own[:, None, :]
    loss = z.masked_fill(constant(~pairs), 0).sum((1, 2)) / classes
    return reduced(loss.reshape(()) if single else loss, reduction)


# ---------------------------------------------------------------------- margins of embeddings
@composite(
    "cosine_embedding_loss(T input1, T input2, T target, float margin=0, bool? size_average=None, bool? reduce=None, "
    "str reduction='mean')",
    ns="F",
)
def cosine_embedding_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float, size_average: Any, reduce: Any, reduction: str
) -> Tensor:
    """1 - cos where target is 1, max(0, cos - margin) where it is -1."""
    reduction = valid(legacy(size_average, reduce, reduction))
    return _cosine_embedding(input1, input2, target, margin, reduction)


def _cosine_embedding(input1: Tensor, input2: Tensor, target: Tensor, margin: float, reduction: str) -> Tensor:
    check(target.ndim in (0, 1), RuntimeError, "0D or 1D target tensor expected, multi-target not supported")
    if target.ndim == 1:
        check(
            input1.ndim == 2 and input2.ndim == 2,
            RuntimeError,
            f"1D target tensor expects 2D input tensors, but found inputs with sizes {list(input1.shape)} and "
            f"{list(input2.shape)}.",
        )
    else:
        check(
            input1.ndim == 1 and input2.ndim == 1,
            RuntimeError,
            f"0D target tensor expects 1D input tensors, but found inputs with sizes {list(input1.shape)} and "
            f"{list(input2.shape)}.",
        )
    dim = target.ndim
    product = (input1 * input2).sum(dim)
    size1, size2 = ((t * t).sum(dim) + 1e-12 for t in (input1, input2))
    cos = product / (size1 * size2).sqrt()
    zero = cos.new_zeros(())
    positive = _where(target == 1, 1 - cos, zero)
    return reduced(positive + _where(target == -1, (cos - margin).clamp_min(0), zero), reduction)


@composite(
    "triplet_margin_loss(T anchor, T positive, T negative, float margin=1.0, float p=2, float eps=1e-6, "
    "bool swap=False, "
    "bool? size_average=None, bool? reduce=None, str reduction='mean')",
    ns="F",
)
def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float,
    p: float,
    eps: float,
    swap: bool,
    size_average: Any,
    reduce: Any,
    reduction: str,
) -> Tensor:
    """max(0, d(anchor, positive) - d(anchor, negative) + margin) with p-norm distances."""
    reduction = valid(legacy(size_average, reduce, reduction))
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    return _triplet(anchor, positive, negative, margin, p, eps, swap, reduction)


def _triplet(
    anchor: Tensor, positive: Tensor, negative: Tensor, margin: float, p: float, eps: float, swap: bool, reduction: str
) -> Tensor:
    check(
        anchor.ndim == positive.ndim == negative.ndim,
        RuntimeError,
        "The anchor, positive, and negative tensors are expected to have the same number of dimensions, "
        "but got: anchor "
        f"{anchor.ndim}D, positive {positive.ndim}D, and negative {negative.ndim}D inputs",
    )
    near = pairwise_distance(anchor, positive, p, eps)
    far = pairwise_distance(anchor, negative, p, eps)
    if swap:
        far = SPACES["torch"]["minimum"](far, pairwise_distance(positive, negative, p, eps))
    return reduced((near - far + margin).clamp_min(0), reduction)


@composite(
    "triplet_margin_with_distance_loss(T anchor, T positive, T negative, *, any distance_function=None, "
    "float margin=1.0, "
    "bool swap=False, str reduction='mean')",
    ns="F",
)
def triplet_margin_with_distance_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    distance_function: Any,
    margin: float,
    swap: bool,
    reduction: str,
) -> Tensor:
    """Triplet loss with a distance of the caller's choice (default: pairwise_distance)."""
    valid(reduction)
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    distance = pairwise_distance if distance_function is None else distance_function
    check(
        anchor.ndim == positive.ndim == negative.ndim,
        RuntimeError,
        "The anchor, positive, and negative tensors are expected to have the same number of dimensions, "
        "but got: anchor "
        f"{anchor.ndim}D, positive {positive.ndim}D, and negative {negative.ndim}D inputs",
    )
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = SPACES["torch"]["minimum"](far, distance(positive, negative))
    return reduced((near - far + margin).clamp_min(0), reduction)


# ---------------------------------------------------------------------- torch.* forms, reduction as 0, 1, 2
composite("hinge_embedding_loss(T input, T target, float margin=1.0, int reduction=1)", ns="torch")(
    lambda input, target, margin, reduction: hinge_embedding_loss(input, target, margin, reduction=NAMES[reduction])
)
composite(
    "margin_ranking_loss(T input1, T input2, T target, float margin=0.0, int reduction=1)", ns="torch"
)(lambda input1, input2, target, margin, reduction: _ranking(input1, input2, target, margin, NAMES[reduction]))
composite(
    "cosine_embedding_loss(T input1, T input2, T target, float margin=0.0, int reduction=1)",
    ns="torch",
)(lambda input1, input2, target, margin, reduction: _cosine_embedding(input1, input2, target, margin, NAMES[reduction]))
composite(
    "triplet_margin_loss(T anchor, T positive, T negative, float margin=1.0, float p=2, float eps=1e-6, "
    "bool swap=False, "
    "int reduction=1)",
    ns="torch",
)(
    lambda anchor, positive, negative, margin, p, eps, swap, reduction: _triplet(
        anchor, positive, negative, margin, p, eps, swap, NAMES[reduction]
    )
)
