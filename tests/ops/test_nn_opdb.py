"""PyTorch's op_db samples of the functional rows: activations, softmax, norms, losses, attention."""

from __future__ import annotations

import opdb
import pytest

import torch

_OTHERS = (
    "conv", "pool", "pad", "interpolate", "upsample", "grid", "fold", "dropout", "pixel", "channel_shuffle", "rrelu",
    "pdist", "scaled_mm", "grouped_mm",
)  # fmt: skip
# attention draws dropout masks from PyTorch's generator; embeddings are called with swapped arguments; the triplet
# sample carries a module of PyTorch; layer norm over one element divides rounding noise by sqrt(eps)
_APART = {
    "nn.functional.scaled_dot_product_attention",
    "nn.functional.multi_head_attention_forward",
    "nn.functional.embedding",
    "nn.functional.embedding_bag",
    "nn.functional.triplet_margin_with_distance_loss",
    "nn.functional.layer_norm",
}
NAMES = [
    n for n in opdb.BY_NAME if n.startswith("nn.functional.") and not any(s in n for s in _OTHERS) and n not in _APART
]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.int64], ids=str)
@pytest.mark.parametrize("name", [*NAMES, "softmax", "log_softmax", "native_batch_norm"])
def test_samples(name: str, dtype: torch.dtype) -> None:
    opdb.run(name, dtype, limit=8)
