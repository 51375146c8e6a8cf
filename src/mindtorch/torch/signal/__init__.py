"""Signal processing: ``torch.signal.windows``."""

from mindtorch.torch.signal import windows

__all__ = ["windows"]
