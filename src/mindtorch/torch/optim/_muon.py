"""Muon: momentum whose matrix is made orthogonal before it is applied."""

from __future__ import annotations

import math
from typing import Any

import mindtorch.torch as torch

from ._per_parameter import PerParameter, options

__all__ = ["Muon"]

_ADJUST = ("original", "match_rms_adamw")


def orthogonalised(matrix: Any, coefficients: tuple[float, float, float], steps: int, eps: float) -> Any:
    """A matrix near ``U V^T`` of the singular value decomposition of ``matrix``, by a quintic Newton-Schulz iteration
    run in bfloat16. ValueError when there are 100 steps and more, or when ``matrix`` has not two dimensions."""
    if steps >= 100:
        raise ValueError("Number of steps must be less than 100 for computational efficiency")
    if matrix.dim() != 2:
        raise ValueError("Input tensor gradient must be a 2D matrix")
    a, b, c = coefficients
    x = matrix.bfloat16()
    wide = x.size(0) <= x.size(1)
    if not wide:
        x = x.T
    x = x / x.norm().clamp(min=eps)
    for _ in range(steps):
        gram = x @ x.T
        x = torch.addmm(x, torch.addmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x if wide else x.T


def _rate(lr: float, how: str | None, shape: Any) -> float:
    rows, columns = shape[:2]
    if how is None or how == "original":
        return lr * math.sqrt(max(1, rows / columns))
    return lr * 0.2 * math.sqrt(max(rows, columns))


class Muon(PerParameter):
    """For the matrices of hidden layers. ValueError for parameters that have not two dimensions."""

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = (3.4445, -4.775, 2.0315),
        eps: float = 1e-7,
        ns_steps: int = 5,
        adjust_lr_fn: str | None = None,
    ) -> None:
        if isinstance(lr, torch.Tensor) and lr.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
        for name, value in (("Learning rate", lr), ("momentum", momentum), ("weight decay", weight_decay)):
            if not 0.0 <= value:
                raise ValueError(f"{name} should be >= 0 but is: {value}")
        if adjust_lr_fn is not None and adjust_lr_fn not in _ADJUST:
            raise ValueError(f"Adjust learning rate function {adjust_lr_fn} is not supported")
        order = "lr weight_decay momentum nesterov ns_coefficients eps ns_steps adjust_lr_fn"
        super().__init__(params, options(locals(), order))
        for group in self.param_groups:
            for p in group["params"]:
                if p.dim() != 2:
                    raise ValueError(
                        f"Muon only supports 2D parameters whereas we found a parameter with size: {p.size()}"
                    )

    def _new_state(self, p: Any, group: dict[str, Any]) -> dict[str, Any]:
        return {"momentum_buffer": torch.zeros_like(p, memory_format=torch.preserve_format)}

    def _update(self, p: Any, grad: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
        if torch.is_complex(p):
            raise RuntimeError("Muon does not support complex parameters")
        momentum, lr = group["momentum"], float(group["lr"])
        buf = state["momentum_buffer"]
        buf.lerp_(grad, 1 - momentum)
        move = grad.lerp(buf, momentum) if group["nesterov"] else buf
        move = orthogonalised(move, group["ns_coefficients"], group["ns_steps"], group["eps"])
        p.mul_(1 - lr * group["weight_decay"])
        p.add_(move, alpha=-_rate(lr, group["adjust_lr_fn"], p.shape))
