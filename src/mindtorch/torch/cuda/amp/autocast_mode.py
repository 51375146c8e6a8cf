"""The place of these names in older programs."""

from __future__ import annotations

from mindtorch.torch.cuda.amp import autocast, custom_bwd, custom_fwd

__all__ = ["autocast", "custom_bwd", "custom_fwd"]
