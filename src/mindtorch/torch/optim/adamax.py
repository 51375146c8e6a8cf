"""Adamax: Adam with the infinity norm."""

from __future__ import annotations

from typing import Any

import mindtorch.torch as torch

from .optimizer import (
    PerParameter,
    advance,
    ascent,
    check_betas,
    check_lr,
    decay,
    item,
    new_step,
    not_negative,
    real_views,
    zeros_for,
)

__all__ = ["Adamax"]


class Adamax(PerParameter):
    """``m = b1 m + (1 - b1) g; u = max(b2 u, |g| + eps); p -= lr / (1 - b1^t) m / u``."""

    _later = {"foreach": None, "maximize": False, "differentiable": False, "capturable": False}

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
        not_negative(**{"epsilon value": eps})
        check_betas(betas)
        not_negative(**{"weight_decay value": weight_decay})
        defaults = dict(
            lr=lr,
            betas=betas,
            eps=eps,
            weight_decay=weight_decay,
            foreach=foreach,
            maximize=maximize,
            differentiable=differentiable,
            capturable=capturable,
        )
        super().__init__(params, defaults)

    def _new_state(self, p: Any, group: dict[str, Any]) -> dict[str, Any]:
        return {"step": new_step(group, p), "exp_avg": zeros_for(p), "exp_inf": zeros_for(p)}

    def _update(self, p: Any, grad: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
        step = advance(state)
        beta1, beta2 = group["betas"]
        grad = decay(p, ascent(grad, group), group)
        p, grad, m, u = real_views(p, grad, state["exp_avg"], state["exp_inf"])
        m.lerp_(grad, 1 - beta1)
        if group["differentiable"]:
            u.copy_(torch.maximum(u * beta2, grad.abs() + group["eps"]))
            m, u = m.clone(), u.clone()
        else:
            torch.maximum(u.mul_(beta2), grad.abs().add_(group["eps"]), out=u)
        p.addcdiv_(m, u, value=-(item(group["lr"]) / (1 - beta1**step)))
