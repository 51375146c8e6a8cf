"""``torch.utils.dlpack``: tensors over the memory of other libraries' arrays, and the reverse."""

import mindtorch.torch as torch

from_dlpack = torch.from_dlpack
to_dlpack = torch.to_dlpack

__all__ = ["from_dlpack", "to_dlpack"]
