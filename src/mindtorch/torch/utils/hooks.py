"""``torch.utils.hooks``: the handle that removes a hook."""

from mindtorch.core.hooks import RemovableHandle

__all__ = ["RemovableHandle"]
