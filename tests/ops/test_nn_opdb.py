"""PyTorch's op_db samples of the functional rows: activations, softmax, norms, losses, embeddings, attention."""

from __future__ import annotations

import pytest
from opinfo_replay import check_op, database, supported

import torch

_OTHERS = (
    "conv", "pool", "pad", "interpolate", "upsample", "grid", "fold", "dropout", "pixel", "channel_shuffle", "rrelu",
    "pdist", "scaled_mm", "grouped_mm",
)  # fmt: skip
NAMES = [n for n in database() if n.startswith("nn.functional.") and not any(s in n for s in _OTHERS)]
NAMES += ["softmax", "log_softmax", "native_batch_norm"]


@pytest.mark.parametrize(("name", "dtype"), supported(NAMES, [torch.float64, torch.float32, torch.int64]), ids=str)
def test_samples(name: str, dtype: torch.dtype) -> None:
    assert check_op(name, dtype) > 0
