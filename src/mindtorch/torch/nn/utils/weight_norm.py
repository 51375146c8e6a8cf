"""Old-style weight normalisation: ``weight_g`` and ``weight_v`` as parameters, ``weight`` made before each forward."""

from __future__ import annotations

import warnings
from typing import Any

import mindtorch.torch as torch

from ..parameter import Parameter, is_lazy

__all__ = ["WeightNorm", "remove_weight_norm", "weight_norm"]


def norm_except_dim(v: Any, dim: int | None) -> Any:
    """2-norm over all dimensions but ``dim``, which keeps its place; over all of them for None or -1."""
    if dim is None or dim == -1:
        return torch.linalg.vector_norm(v)
    dim %= v.dim()
    rest = [d for d in range(v.dim()) if d != dim]
    return torch.linalg.vector_norm(v, 2, rest, keepdim=True) if rest else v.abs()


def normed(v: Any, g: Any, dim: int | None) -> Any:
    """``g * v / |v|``."""
    return v * (g / norm_except_dim(v, dim))


class WeightNorm:
    """The forward pre-hook."""

    def __init__(self, name: str, dim: int | None) -> None:
        self.name = name
        self.dim = -1 if dim is None else dim

    def compute_weight(self, module: Any) -> Any:
        """The weight from its two parts."""
        return normed(getattr(module, self.name + "_v"), getattr(module, self.name + "_g"), self.dim)

    @staticmethod
    def apply(module: Any, name: str, dim: int | None) -> WeightNorm:
        """Split ``module.name`` in two and hook the module."""
        _warn_old("weight_norm")
        for hook in module._forward_pre_hooks.values():
            if isinstance(hook, WeightNorm) and hook.name == name:
                raise RuntimeError(f"Cannot register two weight_norm hooks on the same parameter {name}")
        fn = WeightNorm(name, dim)
        weight = getattr(module, name)
        if is_lazy(weight):
            raise ValueError(
                "The module passed to `WeightNorm` can't have uninitialized parameters. Make sure to run the dummy forward "
                "before applying weight normalization"
            )
        del module._parameters[name]
        module.register_parameter(name + "_g", Parameter(norm_except_dim(weight, fn.dim).data))
        module.register_parameter(name + "_v", Parameter(weight.data))
        setattr(module, name, fn.compute_weight(module))
        module.register_forward_pre_hook(fn)
        return fn

    def remove(self, module: Any) -> None:
        """Put the weight back as one parameter."""
        weight = self.compute_weight(module)
        delattr(module, self.name)
        del module._parameters[self.name + "_g"]
        del module._parameters[self.name + "_v"]
        setattr(module, self.name, Parameter(weight.data))

    def __call__(self, module: Any, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module))


def _warn_old(name: str) -> None:
    warnings.warn(
        f"`torch.nn.utils.{name}` is deprecated in favor of `torch.nn.utils.parametrizations.{name}`.",
        FutureWarning,
        stacklevel=4,
    )


def weight_norm(module: Any, name: str = "weight", dim: int | None = 0) -> Any:
    """Weight normalisation of parameter ``name``; ``dim`` keeps its own norms (None: one norm). Returns module."""
    WeightNorm.apply(module, name, dim)
    return module


def remove_weight_norm(module: Any, name: str = "weight") -> Any:
    """Undo :func:`weight_norm`. ValueError when it was not applied."""
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, WeightNorm) and hook.name == name:
            hook.remove(module)
            del module._forward_pre_hooks[key]
            return module
    raise ValueError(f"weight_norm of '{name}' not found in {module}")
