"""Compiled kernels on PyTorch's own samples: those are too small for a kernel to be compiled by itself, so it is asked for at once."""

from __future__ import annotations

import pytest
from opinfo_replay import check_op

import torch
from mindtorch.engine import used
from mindtorch.engine.host import jit

NAMES = """
add sub addcmul addcdiv lerp cdist cumsum cumprod prod cummax kthvalue median quantile max min var_mean std var logsumexp topk
index_select index_add index_put index_reduce gather scatter scatter_add take_along_dim repeat_interleave combinations
softmax log_softmax masked.softmax native_group_norm native_layer_norm native_batch_norm dist
nn.functional.cross_entropy nn.functional.linear_cross_entropy nn.functional.group_norm nn.functional.instance_norm
nn.functional.layer_norm nn.functional.batch_norm nn.functional.cosine_similarity nn.functional.adaptive_max_pool2d
nn.functional.max_pool1d nn.functional.max_pool2d nn.functional.binary_cross_entropy_with_logits nn.functional.hardswish
nn.functional.leaky_relu nn.functional.multilabel_soft_margin_loss nn.functional.multi_margin_loss nn.functional.elu
nn.functional.celu nn.functional.selu nn.functional.silu nn.functional.conv_transpose2d nn.functional.conv_transpose3d
nn.functional.conv1d nn.functional.conv2d nn.functional.conv3d nn.functional.unfold nn.functional.embedding_bag
nn.functional.scaled_dot_product_attention nn.functional.dropout uniform normal exponential randn multinomial
""".split()


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Names of the kernels that run, each compiled at its first call."""
    pytest.importorskip("numba")
    names: set[str] = set()
    monkeypatch.setattr(jit, "_eager", True)
    listener = lambda name, prepared: names.add(name)  # noqa: E731
    monkeypatch.setattr(used, "LISTENERS", [*used.LISTENERS, listener])
    jit.hear(True)
    yield names
    jit.hear(False)


@pytest.mark.parametrize("name", NAMES)
def test_op_db(name: str, heard: set[str]) -> None:
    """Value and gradient; at least one compiled kernel takes part."""
    assert check_op(name, torch.float32, limit=12) > 0
    assert any(n.startswith("numba ") for n in heard)
