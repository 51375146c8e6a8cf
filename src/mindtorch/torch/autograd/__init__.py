"""Gradients: ``backward``, ``grad``, custom functions, checks, anomaly detection, saved-tensor hooks."""

from __future__ import annotations

import importlib
from typing import Any

from mindtorch.core.backward import backward, grad
from mindtorch.core.function import Function
from mindtorch.core.modes import enable_grad, inference_mode, no_grad, set_grad_enabled
from mindtorch.core.tape import after_backward
from mindtorch.core.tensor import Tensor

from mindtorch.torch.autograd import function, grad_mode, graph  # isort: skip
from mindtorch.torch.autograd.anomaly_mode import detect_anomaly, set_detect_anomaly  # isort: skip


class _VariableMeta(type):
    def __instancecheck__(cls, x: Any) -> bool:
        return isinstance(x, Tensor)

    def __call__(cls, data: Any = None, requires_grad: bool = False, volatile: Any = None) -> Tensor:
        from mindtorch.ops.create import as_tensor, empty

        t = empty(0) if data is None else as_tensor(data)
        t = t if t.requires_grad or not requires_grad else t.detach().requires_grad_(True)
        return t


class _Engine:
    """What runs backward passes."""

    @staticmethod
    def queue_callback(callback: Any) -> None:
        """Call ``callback()`` when the backward pass that is running is over. RuntimeError outside of one."""
        after_backward(callback)


class Variable(metaclass=_VariableMeta):
    """Old name of Tensor: ``Variable(t)`` returns a tensor."""

    _execution_engine = _Engine()


def __getattr__(name: str) -> Any:
    if name in ("functional", "profiler", "profiler_util"):
        return importlib.import_module(f"{__name__}.{name}")
    if name in ("gradcheck", "gradgradcheck"):
        mod = importlib.import_module(f"{__name__}.gradcheck")
        globals()["gradcheck"], globals()["gradgradcheck"] = mod.gradcheck, mod.gradgradcheck
        return globals()[name]
    raise AttributeError(f"module 'torch.autograd' has no attribute '{name}'")


__all__ = [
    "Function", "Variable", "backward", "detect_anomaly", "enable_grad", "function", "grad", "grad_mode", "graph",
    "inference_mode", "no_grad", "set_detect_anomaly", "set_grad_enabled",
]  # fmt: skip
