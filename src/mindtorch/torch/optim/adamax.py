"""Adamax: Adam with the infinity norm."""

from __future__ import annotations

from typing import Any

import mindtorch.torch as torch

from ._per_parameter import PerParameter, advance, check_lr, check_moments, item, options

__all__ = ["Adamax"]


class Adamax(PerParameter):
    """``m = b1 m + (1 - b1) g; u = max(b2 u, |g| + eps); p -= lr / (1 - b1^t) m / u``."""

    _later = {"foreach": None, "maximize": False, "differentiable": False, "capturable": False}
    _moments = ("exp_avg", "exp_inf")

    def __init__(
        self,
        params: Any,
        lr: Any = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        check_lr(lr)
        check_moments(betas, eps, weight_decay)
        order = "lr betas eps weight_decay foreach maximize differentiable capturable"
        super().__init__(params, options(locals(), order))

    def _descend(self, p: Any, grad: Any, state: dict[str, Any], group: dict[str, Any], moments: tuple) -> None:
        m, u = moments
        step = advance(state)
        beta1, beta2 = group["betas"]
        m.lerp_(grad, 1 - beta1)
        if group["differentiable"]:
            u.copy_(torch.maximum(u * beta2, grad.abs() + group["eps"]))
            m, u = m.clone(), u.clone()
        else:
            torch.maximum(u.mul_(beta2), grad.abs().add_(group["eps"]), out=u)
        p.addcdiv_(m, u, value=-(item(group["lr"]) / (1 - beta1**step)))
