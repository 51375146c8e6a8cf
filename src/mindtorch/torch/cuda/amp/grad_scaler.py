"""The place of these names in older programs."""

from __future__ import annotations

from mindtorch.torch.cuda.amp import GradScaler

__all__ = ["GradScaler"]
