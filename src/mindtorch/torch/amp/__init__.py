"""Mixed precision: ``autocast`` and ``GradScaler``."""

from __future__ import annotations

from mindtorch.torch.amp.autocast_mode import autocast, custom_bwd, custom_fwd, is_autocast_available
from mindtorch.torch.amp.grad_scaler import GradScaler

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]
