"""The names that PyTorch's profiler gives to what the op table calls rows."""

from __future__ import annotations

from typing import Any

_RENAMED = {
    "_cast": "aten::_to_copy",
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
    public = _RENAMED.get(name)
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
