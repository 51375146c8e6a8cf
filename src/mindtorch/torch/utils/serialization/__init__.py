"""``torch.utils.serialization``: the settings of ``torch.save`` and ``torch.load``."""

from __future__ import annotations

from mindtorch.torch.utils.serialization import config as config

__all__ = ["config"]
