"""``torch.return_types``: the named tuples that ops with several results return."""

from __future__ import annotations

from mindtorch.ops.table import SPACES as _SPACES

globals().update(_SPACES["return_types"])
__all__ = sorted(_SPACES["return_types"])
