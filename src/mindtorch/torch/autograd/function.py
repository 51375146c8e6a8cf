"""``torch.autograd.function``: custom functions and their context."""

from mindtorch.core.function import Function, FunctionCtx, InplaceFunction, once_differentiable

__all__ = ["Function", "FunctionCtx", "InplaceFunction", "once_differentiable"]
