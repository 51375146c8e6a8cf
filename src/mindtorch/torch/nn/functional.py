"""``torch.nn.functional``: the rows of the op table that live in namespace "F", and the names it shares with torch."""

from __future__ import annotations

from typing import Any

from mindtorch.ops.table import namespace

_SHARED = (
    "adaptive_avg_pool1d",
    "avg_pool1d",
    "bilinear",
    "celu_",
    "channel_shuffle",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_tbc",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "cosine_similarity",
    "hardshrink",
    "native_channel_shuffle",
    "pairwise_distance",
    "pdist",
    "pixel_shuffle",
    "pixel_unshuffle",
    "prelu",
    "relu_",
    "rrelu_",
    "selu_",
    "threshold_",
)
"""In PyTorch these are the very functions of torch."""

_torch = namespace("torch")
globals().update({name: _torch[name] for name in _SHARED if name in _torch})
globals().update(namespace("F"))


def _adaptive_with_indices(name: str) -> Any:
    plain = globals()[name]

    def with_indices(input: Any, *args: Any, **kwargs: Any) -> Any:
        kwargs["return_indices"] = True
        return plain(input, *args, **kwargs)

    with_indices.__name__ = with_indices.__qualname__ = f"{name}_with_indices"
    with_indices.__doc__ = f"``{name}`` with ``return_indices=True``."
    return with_indices


for _name in (
    "max_pool1d",
    "max_pool2d",
    "max_pool3d",
    "adaptive_max_pool1d",
    "adaptive_max_pool2d",
    "adaptive_max_pool3d",
    "fractional_max_pool2d",
    "fractional_max_pool3d",
):
    if _name in globals() and f"{_name}_with_indices" not in globals():
        globals()[f"{_name}_with_indices"] = _adaptive_with_indices(_name)
del _name


_ABSENT = frozenset(["ScalingType", "SwizzleType", "grouped_mm", "scaled_grouped_mm", "scaled_mm"])


def __getattr__(name: str) -> Any:
    if name in _ABSENT:
        raise AttributeError(
            f"torch.nn.functional.{name} belongs to the low-precision and grouped matrix products of GPUs, which mindtorch does "
            "not have; use torch.matmul or torch.bmm"
        )
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def linear_cross_entropy(
    input: Any,
    linear_weight: Any,
    target: Any,
    *,
    linear_bias: Any = None,
    weight: Any = None,
    reduction: str = "mean",
    ignore_index: int | None = None,
    label_smoothing: float = 0.0,
    options: Any = None,
) -> Any:
    """``cross_entropy(linear(input, linear_weight, linear_bias), target)``; linear_weight (C[, d1, ...], in_features)."""
    if options is not None:
        from mindtorch.log import ignored

        ignored("linear_cross_entropy", "options", "the loss is computed in one piece")
    shape = linear_weight.shape[:-1]
    bias = None if linear_bias is None else linear_bias.reshape(-1)
    logits = linear(input, linear_weight.reshape(-1, linear_weight.shape[-1]), bias)  # type: ignore[name-defined]  # noqa: F821  bound from the op table
    if len(shape) > 1:
        logits = logits.reshape(*logits.shape[:-1], *shape)
    return cross_entropy(  # type: ignore[name-defined]  # noqa: F821  bound from the op table
        logits,
        target,
        weight=weight,
        ignore_index=-100 if ignore_index is None else ignore_index,
        reduction=reduction,
        label_smoothing=label_smoothing,
    )
