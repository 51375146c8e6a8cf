"""Losses over classes: ``cross_entropy`` (indices, probabilities, smoothing) and ``nll_loss``.

Cross entropy of class indices is one fused op over logits; its derivative is an op of its own.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mindtorch.core.errors import check, shown
from mindtorch.core.tensor import Tensor, constant
from mindtorch.engine.host import loss as K
from mindtorch.ops import softmax
from mindtorch.ops.activation import floating
from mindtorch.ops.loss import legacy, valid
from mindtorch.ops.table import composite, op


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
        names = {
            "int32": "Int",
            "float32": "Float",
            "float64": "Double",
            "int16": "Short",
            "int8": "Char",
            "bool": "Bool",
        }
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
        f"weight tensor should be defined either for all {classes} classes or no classes but got weight "
        "tensor of shape: "
        f"{list(w.shape) if w is not None else None}",
    )


def _row_factor(
    g: np.ndarray, t: np.ndarray, w: Any, ignore: int, masked: bool, reduction: str, dtype: Any
) -> np.ndarray:
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
    return sm, constant(np.asarray(factor)), spread, dim


def _ce_by_grad(g: Tensor, input: Tensor, target: Tensor, weight: Any, ignore_index: int, reduction: str) -> Tensor:
    """The backward pass is linear in grad: its transpose is a log likelihood of g centred by the softmax."""
    dim = 1 if input.ndim > 1 else 0
    centred = g - (g * softmax.softmax(input, dim)).sum(dim, True)
    return nll_op(centred, target, weight, ignore_index, reduction)


def _ce_by_input(
    g: Tensor, grad: Tensor, input: Tensor, target: Tensor, weight: Any, ignore_index: int, reduction: str
) -> Tensor:
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
    node="NllLossBackward0",
    nodes={"input.a.ndim > 2": "NllLoss2DBackward0"},
    copied=("input",),
    grad={
        "input": lambda g, input, target, weight, ignore_index, reduction: cross_entropy_backward(
            g, input, target, weight, ignore_index, reduction
        )
    },
)
def cross_entropy_index(a: np.ndarray, t: np.ndarray, w: Any, ignore: int, reduction: str) -> Any:
    """Cross entropy of logits (C), (N, C) or (N, C, d...) with class indices () / (N) / (N, d...)."""
    plain = w is None and a.ndim == 2 and t.ndim == 1 and t.shape[0] == a.shape[0] and t.dtype.num == 7
    fast = plain and a.dtype is K.F32 and a.flags.c_contiguous and t.shape[0]
    if fast and reduction != "none":
        got = K.summed(a, t, ignore, t.shape[0] if reduction == "mean" else 1)
        if got is not None:
            return got
    if fast and not K.check_targets(t, a.shape[1], ignore):
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
            f"cross_entropy: weight tensor should be defined either for all {classes} classes or no "
            "classes but got weight "
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
    nodes={"input.a.ndim > 2": "NllLoss2DBackward0"},
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
