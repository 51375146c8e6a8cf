"""Comparing tensors in tests, and making them: ``assert_close`` and ``make_tensor``."""

from __future__ import annotations

from mindtorch.torch.testing._comparison import assert_allclose, assert_close
from mindtorch.torch.testing._creation import make_tensor

__all__ = ["assert_allclose", "assert_close", "make_tensor"]
