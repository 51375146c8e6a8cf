"""Loss rows: cross entropy, negative log likelihood, squared, absolute, Huber, binary and divergence losses.

``F.cross_entropy`` on class indices and ``F.mse_loss`` are fused ops; the rest is written with public ops.
"""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

from mindtorch.core.errors import check, shown
from mindtorch.core.tensor import Tensor, wrap
from mindtorch.engine.host import loss as K
from mindtorch.ops import activation, softmax
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


def torch_form(sig: str, fn: Any) -> None:
    """The ``torch.`` form of a loss, whose ``reduction`` is 0 (none), 1 (mean) or 2 (sum) and comes last."""

    def call(*args: Any) -> Any:
        return fn(*args[:-1], reduction=NAMES[args[-1]])

    call.__doc__ = fn.__doc__
    composite(sig, ns="torch")(call)


# ---------------------------------------------------------------------- classes: layout and checks
def _layout(a: np.ndarray, t: np.ndarray) -> tuple[np.ndarray, np.ndarray, Any]:
    """(rows (m, classes), targets (m,) int64, moved shape) of input (C), (N, C) or (N, C, d...)."""
    flat = t.ravel()
    if flat.dtype != np.int64:
        flat = flat.astype(np.int64)
    if a.ndim == 2:
        return (a if a.flags.c_contiguous else np.ascontiguousarray(a)), flat, None
    if a.ndim == 1:
        return np.ascontiguousarray(a)[None], flat, None
    moved = np.moveaxis(a, 1, -1)
    return np.ascontiguousarray(moved).reshape(-1, a.shape[1]), flat, moved.shape


def _unlayout(r: np.ndarray, a: np.ndarray, moved: Any) -> np.ndarray:
    return r.reshape(a.shape) if moved is None else np.ascontiguousarray(np.moveaxis(r.reshape(moved), -1, 1))


def _fit(a: np.ndarray, t: np.ndarray, w: np.ndarray | None) -> None:
    """PyTorch's errors for a target or weight that does not fit the input of a class loss."""
    if t.dtype != np.int64 and t.dtype != np.uint8:
        names = {"int32": "Int", "float32": "Float", "float64": "Double", "int16": "Short", "int8": "Char", "bool": "Bool"}
        kind = names.get(t.dtype.name, t.dtype.name)
        raise RuntimeError(f"expected target dtype to be Long or Byte, but got {kind}")
    if a.ndim > 1 and t.ndim and a.shape[0] != t.shape[0]:
        raise shown(ValueError(f"Expected input batch_size ({a.shape[0]}) to match target batch_size ({t.shape[0]})."))
    if a.ndim == 0:
        raise shown(ValueError(f"Expected 1 or more dimensions (got {a.ndim})"))
    want = a.shape[:1] + a.shape[2:] if a.ndim > 1 else ()
    if t.shape != want and not (a.ndim == 1 and t.shape == (1,)):
        if a.ndim == 4:
            raise RuntimeError(f"size mismatch (got input: {list(a.shape)} , target: {list(t.shape)}")
        if a.ndim <= 2:
            raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
        raise RuntimeError(f"Expected target size {list(want)}, got {list(t.shape)}")
    classes = a.shape[1] if a.ndim > 1 else a.shape[0]
    check(
        w is None or w.shape == (classes,),
        RuntimeError,
        f"weight tensor should be defined either for all {classes} classes or no classes but got weight tensor of shape: "
        f"{list(w.shape) if w is not None else None}",
    )


def _row_factor(g: np.ndarray, t: np.ndarray, w: Any, ignore: int, masked: bool, reduction: str, dtype: Any) -> np.ndarray:
    """What each row's gradient is multiplied by: incoming gradient, class weight and the mean's divisor."""
    f, total = K.row_weights(t, w, ignore, masked, dtype)
    if reduction == "none":
        g = g.reshape(-1)
        return np.ascontiguousarray(g if f is None else g * f, dtype)
    s = float(g) / total if reduction == "mean" and total else float(g) * (math.nan if reduction == "mean" else 1.0)
    if f is None:
        out = np.empty(t.size, dtype)
        out.fill(s)
        return out
    return (f * np.asarray(s, dtype)).astype(dtype, copy=False)


# ---------------------------------------------------------------------- cross entropy on class indices
def _ce_terms(grad: Tensor, input: Tensor, target: Tensor, weight: Any, ignore: int, reduction: str) -> tuple[Any, ...]:
    """(softmax, factor per row as a constant, grad spread to rows, class dim): the parts of the gradient as tensors."""
    a, t = input.a, target.a
    dim = 1 if a.ndim > 1 else 0
    _, flat, _ = _layout(a, t)
    masked = K.check_targets(flat, a.shape[dim], ignore)
    ones = np.ones((), a.dtype) if reduction != "none" else np.ones(t.shape, a.dtype)
    w = None if weight is None else weight.a
    factor = _row_factor(ones, flat, w, ignore, masked, reduction, a.dtype)
    factor = np.where(flat == ignore, 0, factor).astype(a.dtype).reshape(t.shape)
    spread = grad if reduction == "none" else grad.expand(tuple(t.shape))
    if a.ndim > 1:
        factor, spread = np.expand_dims(factor, 1), spread.unsqueeze(1)
    sm = softmax.softmax(input, dim)
    return sm, wrap(np.asarray(factor)), spread, dim


def _ce_by_grad(g: Tensor, input: Tensor, target: Tensor, weight: Any, ignore_index: int, reduction: str) -> Tensor:
    """The backward pass is linear in grad: its transpose is a log likelihood of g centred by the softmax."""
    dim = 1 if input.ndim > 1 else 0
    centred = g - (g * softmax.softmax(input, dim)).sum(dim, True)
    return nll_op(centred, target, weight, ignore_index, reduction)


def _ce_by_input(g: Tensor, grad: Tensor, input: Tensor, target: Tensor, weight: Any, ignore_index: int, reduction: str) -> Tensor:
    sm, factor, spread, dim = _ce_terms(grad, input, target, weight, ignore_index, reduction)
    return softmax.softmax_backward(g * spread * factor, sm, dim)


@op(
    "cross_entropy_backward(T grad, T input, T target, T? weight, int ignore_index, str reduction)",
    ns="_C",
    half="f32",
    node="LogSoftmaxBackward0",
    grad={"grad": _ce_by_grad, "input": _ce_by_input},
)
def cross_entropy_backward(g: np.ndarray, a: np.ndarray, t: np.ndarray, w: Any, ignore: int, reduction: str) -> Any:
    """Gradient of the input of ``cross_entropy_index``."""
    x, flat, moved = _layout(a, t)
    masked = K.check_targets(flat, x.shape[1], ignore)
    if w is None and not masked and reduction != "none" and flat.size:
        s = float(g) / flat.size if reduction == "mean" else float(g)
        factor = np.empty(flat.size, x.dtype)
        factor.fill(s)
    else:
        factor = _row_factor(g, flat, w, ignore, masked, reduction, x.dtype)
    r = K.row_gradients(x, flat, ignore, factor)
    return r if r.shape == a.shape and moved is None else _unlayout(r, a, moved)


@op(
    "cross_entropy_index(T input, T target, T? weight, int ignore_index, str reduction)",
    ns="_C",
    half="f32",
    autocast="fp32",
    node="NllLossBackward0",
    grad={
        "input": lambda g, input, target, weight, ignore_index, reduction: cross_entropy_backward(
            g, input, target, weight, ignore_index, reduction
        )
    },
)
def cross_entropy_index(a: np.ndarray, t: np.ndarray, w: Any, ignore: int, reduction: str) -> Any:
    """Cross entropy of logits (C), (N, C) or (N, C, d...) with class indices () / (N) / (N, d...)."""
    plain = w is None and a.ndim == 2 and t.ndim == 1 and t.shape[0] == a.shape[0] and t.dtype.num == 7
    if plain and a.dtype is K.F32 and a.flags.c_contiguous and t.shape[0]:
        if not K.check_targets(t, a.shape[1], ignore):
            return K.reduce_rows(K.row_losses(a, t, ignore, False), t.shape[0], reduction)
    if not plain:
        _fit(a, t, w)
    if a.dtype.kind != "f":
        floating("log_softmax_lastdim_kernel_impl", a)
    x, flat, _ = _layout(a, t)
    masked = K.check_targets(flat, x.shape[1], ignore)
    losses = K.row_losses(x, flat, ignore, masked)
    total = 0.0
    if w is not None or (masked and reduction == "mean"):
        f, total = K.row_weights(flat, w, ignore, masked, x.dtype)
        if w is not None:
            losses = losses * f
            if masked:
                losses[flat == ignore] = 0
    else:
        total = float(flat.size)
    r = K.reduce_rows(losses, total, reduction)
    return r.reshape(t.shape) if reduction == "none" else r


@composite(
    "cross_entropy(T input, T target, T? weight=None, bool? size_average=None, int ignore_index=-100, "
    "bool? reduce=None, str reduction='mean', float label_smoothing=0.0)",
    ns="F",
)
def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Any,
    size_average: Any,
    ignore_index: int,
    reduce: Any,
    reduction: str,
    label_smoothing: float,
) -> Tensor:
    """Cross entropy of logits with class indices, or with class probabilities of the input's shape."""
    if size_average is not None or reduce is not None:
        reduction = legacy(size_average, reduce, reduction)
    if reduction != "mean":
        valid(reduction)
    if target.k.cat < 2 and label_smoothing == 0.0:
        return cross_entropy_index(input, target, weight, ignore_index, reduction)
    check(
        0.0 <= label_smoothing <= 1.0,
        RuntimeError,
        f"label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing:g}",
    )
    if target.k.cat >= 2 and target.shape == input.shape:
        return _ce_probabilities(input, target, weight, reduction, label_smoothing)
    if target.k.cat >= 2:
        _fit(input.a, target.a, None if weight is None else weight.a)
    return _ce_smooth(input, target, weight, ignore_index, reduction, label_smoothing)


def _per_class(weight: Tensor, ndim: int) -> Tensor:
    return weight if ndim == 1 else weight.reshape([1, -1] + [1] * (ndim - 2))


def _ce_probabilities(input: Tensor, target: Tensor, weight: Any, reduction: str, smoothing: float) -> Tensor:
    dim = 1 if input.ndim > 1 else 0
    classes = input.shape[dim]
    if weight is not None and tuple(weight.shape) != (classes,):
        raise RuntimeError(
            f"cross_entropy: weight tensor should be defined either for all {classes} classes or no classes but got weight "
            f"tensor of shape: {list(weight.shape)}"
        )
    logp = softmax.log_softmax(input, dim)
    if smoothing > 0:
        target = target * (1 - smoothing) + smoothing / classes
    loss = logp * target
    if weight is not None:
        loss = loss * _per_class(weight, input.ndim)
    if reduction == "none":
        return -loss.sum(dim)
    total = -loss.sum()
    return total if reduction == "sum" else total / (input.numel() / classes)


def _ce_smooth(input: Tensor, target: Tensor, weight: Any, ignore: int, reduction: str, smoothing: float) -> Tensor:
    """(1 - s) * nll + s / C * sum over classes, the second part averaged as PyTorch does."""
    dim = 1 if input.ndim > 1 else 0
    classes = input.shape[dim]
    logp = softmax.log_softmax(input, dim)
    nll = nll_op(logp, target, weight, ignore, reduction)
    smooth = -(logp if weight is None else logp * _per_class(weight, input.ndim)).sum(dim)
    skip = target == ignore
    smooth = smooth.masked_fill(skip, 0)
    if reduction == "mean":
        if weight is not None:
            safe = target.masked_fill(skip, 0)
            each = weight.index_select(0, safe.reshape(-1)).reshape(target.shape).masked_fill(skip, 0)
            smooth = smooth.sum() / each.sum()
        else:
            smooth = smooth.sum() / (~skip).sum()
    elif reduction == "sum":
        smooth = smooth.sum()
    return nll * (1 - smoothing) + smooth * (smoothing / classes)


# ---------------------------------------------------------------------- negative log likelihood
@op(
    "nll_loss_backward(T grad, T input, T target, T? weight, int ignore_index, str reduction)",
    ns="_C",
    half="f32",
    grad={
        "grad": lambda g, target, weight, ignore_index, reduction: nll_op(g, target, weight, ignore_index, reduction)
    },
)
def nll_loss_backward(g: np.ndarray, a: np.ndarray, t: np.ndarray, w: Any, ignore: int, reduction: str) -> Any:
    """Gradient of the input of ``nll``: minus the row's factor at its target, 0 elsewhere."""
    classes = a.shape[1] if a.ndim > 1 else a.shape[0]
    flat = t.ravel().astype(np.int64)
    masked = K.check_targets(flat, classes, ignore)
    factor = _row_factor(g, flat, w, ignore, masked, reduction, a.dtype)
    moved = a.shape if a.ndim < 3 else (a.shape[0], *a.shape[2:], classes)
    out = np.zeros((flat.size, classes), a.dtype)
    keep = flat != ignore
    out[np.arange(flat.size)[keep], flat[keep]] = -factor[keep]
    return _unlayout(out, a, moved if a.ndim > 2 else None)


@op(
    "nll(T input, T target, T? weight, int ignore_index, str reduction)",
    ns="_C",
    half="f32",
    node="NllLossBackward0",
    grad={
        "input": lambda g, input, target, weight, ignore_index, reduction: nll_loss_backward(
            g, input, target, weight, ignore_index, reduction
        )
    },
)
def nll_op(a: np.ndarray, t: np.ndarray, w: Any, ignore: int, reduction: str) -> Any:
    """Minus the input at the target class, weighted; ignored targets give 0."""
    _fit(a, t, w)
    floating("nll_loss_out_frame", a)
    x, flat, _ = _layout(a, t)
    masked = K.check_targets(flat, x.shape[1], ignore)
    safe = np.where(flat == ignore, 0, flat) if masked else flat
    losses = -x[np.arange(flat.size), safe]
    f, total = K.row_weights(flat, w, ignore, masked, x.dtype)
    if f is not None:
        with K.quiet():
            losses = np.where(f == 0, np.zeros((), x.dtype), losses * f) if masked else losses * f
    r = K.reduce_rows(losses, total, reduction)
    return r.reshape(t.shape) if reduction == "none" else r


@composite(
    "nll_loss(T input, T target, T? weight=None, bool? size_average=None, int ignore_index=-100, bool? reduce=None, "
    "str reduction='mean')",
    ns="F",
)
def nll_loss(
    input: Tensor, target: Tensor, weight: Any, size_average: Any, ignore_index: int, reduce: Any, reduction: str
) -> Tensor:
    """Negative log likelihood of log-probabilities (C), (N, C) or (N, C, d...) with class indices."""
    return nll_op(input, target, weight, ignore_index, valid(legacy(size_average, reduce, reduction)))


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
        f"Using a target size ({target.size()}) that is different to the input size ({input.size()}). This will likely lead "
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
    "mse_loss(T input, T target, bool? size_average=None, bool? reduce=None, str reduction='mean', T? weight=None)", ns="F"
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
    "l1_loss(T input, T target, bool? size_average=None, bool? reduce=None, str reduction='mean', T? weight=None)", ns="F"
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
    "smooth_l1_loss(T input, T target, bool? size_average=None, bool? reduce=None, str reduction='mean', float beta=1.0)",
    ns="F",
)
def smooth_l1_loss(input: Tensor, target: Tensor, size_average: Any, reduce: Any, reduction: str, beta: float) -> Tensor:
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
        check(
            not ((a < 0) | (a > 1)).any(), RuntimeError, "all elements of input should be between 0 and 1"
        )
        low = np.asarray(-100.0, a.dtype)
        one = np.asarray(1.0, a.dtype)
        return (t - one) * np.maximum(np.log1p(-a), low) - t * np.maximum(np.log(a), low)


@composite(
    "binary_cross_entropy(T input, T target, T? weight=None, bool? size_average=None, bool? reduce=None, "
    "str reduction='mean')",
    ns="F",
)
def binary_cross_entropy(
    input: Tensor, target: Tensor, weight: Any, size_average: Any, reduce: Any, reduction: str
) -> Tensor:
    """Cross entropy of probabilities in [0, 1] with targets of the same size."""
    reduction = valid(legacy(size_average, reduce, reduction))
    if target.size() != input.size():
        raise ValueError(
            f"Using a target size ({target.size()}) that is different to the input size ({input.size()}) is deprecated. "
            "Please ensure they have the same size."
        )
    loss = _bce(input, target)
    return reduced(loss if weight is None else loss * weight.expand(input.size()), reduction)


@composite(
    "binary_cross_entropy_with_logits(T input, T target, T? weight=None, bool? size_average=None, bool? reduce=None, "
    "str reduction='mean', T? pos_weight=None)",
    ns="F",
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
    "binary_cross_entropy_with_logits(T input, T target, T? weight=None, T? pos_weight=None, int reduction=1)", ns="torch"
)(
    lambda input, target, weight, pos_weight, reduction: binary_cross_entropy_with_logits(
        input, target, weight, reduction=NAMES[reduction], pos_weight=pos_weight
    )
)


# ---------------------------------------------------------------------- divergences and likelihoods
@composite(
    "kl_div(T input, T target, bool? size_average=None, bool? reduce=None, str reduction='mean', bool log_target=False)",
    ns="F",
)
def kl_div(input: Tensor, target: Tensor, size_average: Any, reduce: Any, reduction: str, log_target: bool) -> Tensor:
    """target * (log(target) - input), input being log-probabilities; ``batchmean`` divides the sum by the batch."""
    reduction = legacy(size_average, reduce, reduction)
    valid(reduction, "batchmean")
    if reduction == "mean" and size_average is None and reduce is None:
        warnings.warn(
            "reduction: 'mean' divides the total loss by both the batch size and the support size.'batchmean' divides only "
            "by the batch size, and aligns with the KL div math definition.'mean' will be changed to behave the same as "
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
    "poisson_nll_loss(T input, T target, bool log_input=True, bool full=False, bool? size_average=None, float eps=1e-8, "
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
    "poisson_nll_loss(T input, T target, bool log_input, bool full, float eps, int reduction)", ns="torch"
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
        elif not (input.size()[:-1] == var.size()[:-1] and var.size(-1) == 1) and var.numel() != 1:
            raise ValueError("var is of incorrect size")
    valid(reduction)
    # PyTorch clamps a copy without recording it: the gradient passes as if var had not been limited
    var = var.clone()
    var.detach().clamp_(min=eps)
    loss = (var.log() + (input - target).square() / var) * 0.5
    return reduced(loss + 0.5 * math.log(2 * math.pi) if full else loss, reduction)

