"""The place where PyTorch keeps ``Tensor`` and the function that rebuilds subclasses; checkpoints name it."""

from __future__ import annotations

from mindtorch.core.tensor import Tensor
from mindtorch.torch._utils import _rebuild_from_type_v2

__all__ = ["Tensor", "_rebuild_from_type_v2"]
