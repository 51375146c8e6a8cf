"""``torch.autograd.grad_mode``: the grad mode contexts under their module's name."""

from mindtorch.core.modes import enable_grad, inference_mode, no_grad, set_grad_enabled

__all__ = ["enable_grad", "inference_mode", "no_grad", "set_grad_enabled"]
