"""The names that PyTorch's profiler gives to what the op table calls rows."""

from __future__ import annotations

from typing import Any

_RENAMED = {
    "_cast": "aten::_to_copy",
    "_contiguous": "aten::contiguous",
    "fold": "aten::col2im",
    "logsigmoid": "aten::log_sigmoid",
    "_reshape_copy": "aten::clone",
    "_to_device": "aten::_to_copy",
    "_true_div": "aten::div",
    "_view": "aten::view",
    "binary_cross_entropy_with_logits": "aten::binary_cross_entropy_with_logits",
    "conv_nd": "aten::convolution",
    "cross_entropy": "aten::cross_entropy_loss",
    "max_pool2d_index": "aten::max_pool2d_with_indices",
    "native_batch_norm_": "aten::native_batch_norm",
    "nll_loss": "aten::nll_loss_nd",
}
_KERNELS = {
    "batch_norm_backward": "aten::native_batch_norm_backward",
    "conv_input": "aten::convolution_backward",
    "conv_weight": "aten::convolution_backward",
    "group_norm_backward": "aten::native_group_norm_backward",
    "layer_norm_backward": "aten::native_layer_norm_backward",
    "linear_bias": "aten::sum",
    "linear_input": "aten::mm",
    "linear_weight": "aten::mm",
    "log_softmax_backward": "aten::_log_softmax_backward_data",
    "softmax_backward": "aten::_softmax_backward_data",
    **{n: f"aten::{n}" for n in (
        "elu_backward embedding_dense_backward gelu_backward hardsigmoid_backward hardswish_backward hardtanh_backward "
        "leaky_relu_backward log_sigmoid_backward mish_backward mse_loss_backward nll_loss_backward sigmoid_backward "
        "silu_backward softplus_backward tanh_backward threshold_backward grid_sampler_2d grid_sampler_3d"
    ).split()},
}  # fmt: skip
"""Kernels of derivatives that compute what PyTorch has an op of its own for."""
PYTHON = frozenset(
    (
        "affine_grid dropout1d dropout2d dropout3d gaussian_nll_loss grid_sample gumbel_softmax interpolate local_response_norm "
        "lp_pool1d lp_pool2d lp_pool3d lu multi_head_attention_forward multilabel_soft_margin_loss normalize pca_lowrank softmin "
        "softsign spmm svd_lowrank tanhshrink triplet_margin_with_distance_loss upsample upsample_bilinear upsample_nearest"
    ).split()
)
"""What PyTorch has in Python, so that its profiler shows only the ops inside: here too, where it is made of ops."""
_SPACES = {"torch": "", "Tensor": "", "F": "", "linalg": "linalg_", "fft": "fft_", "special": "special_"}
"""Namespaces of the op table -> what precedes their names in ``aten``."""
_known: dict[tuple[int, bool], tuple[Any, str]] = {}


def name_of(row: Any, inplace: bool = False) -> str:
    """``aten::relu`` for a public op, ``mindtorch::conv_weight`` for a kernel that only mindtorch has."""
    got = _known.get((id(row), inplace))
    if got is None:
        got = _known[id(row), inplace] = (row, _find(row, inplace))  # holding the row keeps its id its own
    return got[1]


def _find(row: Any, inplace: bool) -> str:
    from mindtorch.ops.table import SPACES

    name = row.name
    public = _RENAMED.get(name) or (_KERNELS.get(name) if name in SPACES["_C"] else None)
    if public is None:
        public = f"mindtorch::{name}"
        for space, prefix in _SPACES.items():
            if name in SPACES.get(space, {}) or (space == "Tensor" and name in ("fill_", "zero_")):
                public = f"aten::{name if name.startswith(prefix) else prefix + name}"
                break
    return public + "_" if inplace and not public.endswith("_") else public


def part_name(index: Any) -> str:
    """What indexing with integers and slices is called: a select when an integer takes part."""
    parts = index if isinstance(index, tuple) else (index,)
    return "aten::select" if any(isinstance(p, int) and not isinstance(p, bool) for p in parts) else "aten::slice"
