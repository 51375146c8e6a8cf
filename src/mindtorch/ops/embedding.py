"""Embedding rows: ``embedding``, ``embedding_bag``, ``one_hot``."""

from __future__ import annotations

from typing import Any

import numpy as np

from mindtorch import log
from mindtorch.core.errors import check
from mindtorch.core.tensor import Tensor, cell_of, constant, values
from mindtorch.engine.host import embedding as K
from mindtorch.ops.table import composite, op


@op(
    "embedding_dense_backward(T grad, T indices, int num_weights, int padding_idx, bool scale_grad_by_freq)",
    ns="_C",
    half="native",
    grad={
        "grad": lambda g, indices, padding_idx, scale_grad_by_freq: _dense_grad(
            g, indices, padding_idx, scale_grad_by_freq
        )
    },
)
def embedding_dense_backward(g: np.ndarray, i: np.ndarray, rows: int, padding_idx: int, by_frequency: bool) -> Any:
    """Rows of grad added into a (num_weights, d) table at indices; padding_idx < 0 means none."""
    if g.dtype.itemsize < 4:
        return K.scatter(g.astype(np.float32), i, rows, padding_idx, by_frequency).astype(g.dtype)
    return K.scatter(g, i, rows, padding_idx, by_frequency)


def _dense_grad(g: Tensor, indices: Tensor, padding_idx: int, by_frequency: bool) -> Tensor:
    rows = _embedding(g, indices, padding_idx, False)
    if by_frequency:
        counts = np.bincount(values(indices).ravel(), minlength=g.shape[0])
        rows = rows / constant(counts[values(indices)].astype(g.a.dtype)).unsqueeze(-1)
    return rows if padding_idx < 0 else rows.masked_fill((indices == padding_idx).unsqueeze(-1), 0)


@op(
    "embedding_rows(T weight, T indices, int padding_idx, bool scale_grad_by_freq)",
    ns="_C",
    half="native",
    node="EmbeddingBackward0",
    grad={
        "weight": lambda g, indices, weight_shape, padding_idx, scale_grad_by_freq: embedding_dense_backward(
            g, indices, weight_shape[0], padding_idx, scale_grad_by_freq
        )
    },
)
def _embedding(w: np.ndarray, i: np.ndarray, padding_idx: int, by_frequency: bool) -> Any:
    """Rows of weight (n, d) at indices; padding_idx and scale_grad_by_freq shape the gradient only."""
    if i.dtype.kind not in "iu" or i.dtype.itemsize < 4:
        raise RuntimeError(
            "Expected tensor for argument #1 'indices' to have one of the following scalar types: Long, Int; but got "
            f"{i.dtype.name} instead (while checking arguments for embedding)"
        )
    check(w.ndim == 2, RuntimeError, "'weight' must be 2-D")
    return K.lookup(w, i)


def _padding(padding_idx: int | None, rows: int) -> int:
    if padding_idx is None:
        return -1
    if padding_idx > 0:
        check(padding_idx < rows, AssertionError, "Padding_idx must be within num_embeddings")
    elif padding_idx < 0:
        check(padding_idx >= -rows, AssertionError, "Padding_idx must be within num_embeddings")
        return rows + padding_idx
    return padding_idx


def _renorm(weight: Tensor, input: Tensor, max_norm: float, norm_type: float) -> None:
    """Rows in use are limited to max_norm, in place and unrecorded (as PyTorch does before the lookup)."""
    K.check_index(values(input), weight.shape[0])
    K.renorm_rows(weight.a, values(input), max_norm, norm_type)
    cell_of(weight).bump()


@composite("embedding_renorm_(T weight, T indices, float max_norm, float norm_type)", ns="torch")
def embedding_renorm_(weight: Tensor, indices: Tensor, max_norm: float, norm_type: float) -> Tensor:
    """Scale, in place, the rows of weight at indices whose norm exceeds max_norm."""
    _renorm(weight, indices, max_norm, norm_type)
    return weight


def _dense(name: str, sparse: bool) -> None:
    if sparse:
        log.ignored(name, "sparse", "gradients are dense here; the numbers are the same")


@composite(
    "embedding(T input, T weight, int? padding_idx=None, float? max_norm=None, float norm_type=2.0, "
    "bool scale_grad_by_freq=False, bool sparse=False)",
    ns="F",
)
def embedding(
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None,
    max_norm: float | None,
    norm_type: float,
    scale_grad_by_freq: bool,
    sparse: bool,
) -> Tensor:
    """Rows of weight (n, d) at the indices of input: shape (*input.shape, d). IndexError out of range."""
    if padding_idx is not None:
        padding_idx = _padding(padding_idx, weight.shape[0])
    if max_norm is not None:
        _renorm(weight, input, max_norm, norm_type)
    if sparse:
        _dense("embedding", sparse)
    return _embedding(weight, input, -1 if padding_idx is None else padding_idx, scale_grad_by_freq)


@composite(
    "embedding(T weight, T indices, int padding_idx=-1, bool scale_grad_by_freq=False, bool sparse=False)", ns="torch"
)
def torch_embedding(
    weight: Tensor, indices: Tensor, padding_idx: int, scale_grad_by_freq: bool, sparse: bool
) -> Tensor:
    """Rows of weight at indices, in torch's argument order."""
    _dense("embedding", sparse)
    return _embedding(weight, indices, padding_idx, scale_grad_by_freq)


# ---------------------------------------------------------------------- bags
def _bags(input: Tensor, offsets: Any, include_last_offset: bool) -> tuple[Tensor, np.ndarray, int]:
    """(flat indices, bag of each index, number of bags)."""
    if input.ndim == 2:
        if offsets is not None:
            raise ValueError(
                "if input is 2D, then offsets has to be None, as input is treated is a mini-batch of fixed length "
                f"sequences. However, found offsets of type {type(offsets)}"
            )
        bags, length = input.shape
        return input.reshape(-1), np.repeat(np.arange(bags), length), bags
    if input.ndim != 1:
        raise ValueError(f"input has to be 1D or 2D Tensor, but got Tensor of dimension {input.ndim}")
    if offsets is None:
        raise ValueError("offsets has to be a 1D Tensor but got None")
    if offsets.ndim != 1:
        raise ValueError("offsets has to be a 1D Tensor")
    starts = values(offsets).astype(np.int64)
    if include_last_offset:
        check(starts.size >= 1, RuntimeError, "include_last_offset: number of offset should be at least 1")
        starts = starts[:-1]
    if starts.size:
        check(
            starts[0] == 0,
            RuntimeError,
            "offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start from "
            f"position 0. However, got {starts[0]}",
        )
        check(
            starts[-1] <= input.shape[0],
            RuntimeError,
            f"offsets[-1] can not be greater than input's length ({input.shape[0]}) but got offsets[-1] "
            f"of {starts[-1]}",
        )
    lengths = np.diff(np.append(starts, input.shape[0]))
    return input, np.repeat(np.arange(starts.size), lengths), int(starts.size)


def _bag_max(rows: Tensor, bag: np.ndarray, bags: int) -> tuple[Tensor, np.ndarray]:
    best = K.segment_argmax(values(rows.detach()), bag, bags)
    if not rows.shape[0]:
        return rows.new_zeros((bags, rows.shape[1])), best
    got = rows.gather(0, constant(np.maximum(best, 0)))
    return got.masked_fill(constant(best < 0), 0), best


def _embedding_bag(
    weight: Tensor,
    input: Tensor,
    offsets: Any,
    by_frequency: bool,
    mode: str,
    weights: Any,
    last: bool,
    padding_idx: int | None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    flat, bag, bags = _bags(input, offsets, last)
    skip = _padding(padding_idx, weight.shape[0])
    if skip >= 0:
        keep = np.flatnonzero(values(flat) != skip)
        flat, bag = constant(values(flat)[keep]), bag[keep]
        if weights is not None:
            weights = weights.reshape(-1)[constant(keep)]
    rows = _embedding(weight, flat, skip, by_frequency)
    sizes = np.bincount(bag, minlength=bags).astype(np.int64)
    best = np.zeros(0, np.int64)
    if mode == "max":
        out, where = _bag_max(rows, bag, bags)
        best = np.where(where < 0, -1, values(flat)[np.maximum(where, 0)]) if flat.numel() else where
    else:
        if weights is not None:
            rows = rows * weights.reshape(-1, 1)
        out = rows.new_zeros((bags, weight.shape[1])).index_add(0, constant(bag), rows)
        if mode == "mean":
            out = out / constant(np.maximum(sizes, 1).astype(weight.a.dtype)).unsqueeze(-1)
    return out, constant(bag), constant(sizes), constant(best)


@composite(
    "embedding_bag(T input, T weight, T? offsets=None, float? max_norm=None, float norm_type=2.0, "
    "bool scale_grad_by_freq=False, str mode='mean', bool sparse=False, T? per_sample_weights=None, "
    "bool include_last_offset=False, int? padding_idx=None)",
    ns="F",
)
def embedding_bag(
    input: Tensor,
    weight: Tensor,
    offsets: Any,
    max_norm: float | None,
    norm_type: float,
    scale_grad_by_freq: bool,
    mode: str,
    sparse: bool,
    per_sample_weights: Any,
    include_last_offset: bool,
    padding_idx: int | None,
) -> Tensor:
    """Sums, means or maxima of bags of rows of weight (n, d): (bags, d)."""
    if mode not in ("sum", "mean", "max"):
        raise ValueError("mode has to be one of sum, mean or max")
    if mode == "max" and scale_grad_by_freq:
        raise ValueError("max mode does not support scaling the gradient by the frequency")
    if mode == "max" and sparse:
        raise ValueError("max mode does not support sparse weights")
    if per_sample_weights is not None:
        if mode != "sum":
            raise NotImplementedError(
                "embedding_bag: per_sample_weights was not None. per_sample_weights is only supported for mode='sum' "
                f"(got mode='{mode}'). Please open a feature request on GitHub."
            )
        if per_sample_weights.shape != input.shape:
            raise ValueError(
                f"embedding_bag: If per_sample_weights ({tuple(per_sample_weights.shape)}) is not None, "
                "then it must have "
                f"the same shape as the input ({tuple(input.shape)})"
            )
    _dense("embedding_bag", sparse)
    if max_norm is not None:
        _renorm(weight, input, max_norm, norm_type)
    return _embedding_bag(
        weight, input, offsets, scale_grad_by_freq, mode, per_sample_weights, include_last_offset, padding_idx
    )[0]


@composite(
    "embedding_bag(T weight, T indices, T offsets, bool scale_grad_by_freq=False, int mode=0, bool sparse=False, "
    "T? per_sample_weights=None, bool include_last_offset=False, int? padding_idx=None)",
    ns="torch",
)
def torch_embedding_bag(
    weight: Tensor,
    indices: Tensor,
    offsets: Any,
    scale_grad_by_freq: bool,
    mode: int,
    sparse: bool,
    per_sample_weights: Any,
    include_last_offset: bool,
    padding_idx: int | None,
) -> Any:
    """(bags, bag of each index, bag sizes, maximum indices); mode 0 sum, 1 mean, 2 max."""
    _dense("embedding_bag", sparse)
    name = ("sum", "mean", "max")[mode]
    return _embedding_bag(
        weight, indices, offsets, scale_grad_by_freq, name, per_sample_weights, include_last_offset, padding_idx
    )


@op("one_hot(T tensor, int num_classes=-1)", ns="F", grad={})
def one_hot(a: np.ndarray, classes: int) -> Any:
    """Int64 (*, num_classes): 1 at each index, 0 elsewhere; num_classes -1 takes one more than the largest."""
    check(a.dtype == np.int64, RuntimeError, "one_hot is only applicable to index tensor of type LongTensor.")
    if not a.size:
        check(classes > 0, RuntimeError, "Can not infer total number of classes from empty tensor.")
        return np.zeros((*a.shape, classes), np.int64)
    check(a.min() >= 0, RuntimeError, "Class values must be non-negative.")
    if classes == -1:
        classes = int(a.max()) + 1
    check(classes >= 1, RuntimeError, "num_classes should be positive")
    check(a.max() < classes, RuntimeError, "Class values must be smaller than num_classes.")
    out = np.zeros((a.size, classes), np.int64)
    out[np.arange(a.size), a.ravel()] = 1
    return out.reshape((*a.shape, classes))
