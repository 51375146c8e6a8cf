"""NAdam: Adam with Nesterov momentum."""

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

__all__ = ["NAdam"]


class NAdam(PerParameter):
    """Adam whose momentum coefficient follows ``mu_t = b1 (1 - 0.96^(t momentum_decay) / 2)`` and looks one step
    ahead."""

    _later = {
        "maximize": False,
        "foreach": None,
        "capturable": False,
        "differentiable": False,
        "decoupled_weight_decay": False,
    }

    def __init__(
        self,
        params: Any,
        lr: Any = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum_decay: float = 4e-3,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_lr(lr)
        not_negative(**{"epsilon value": eps})
        check_betas(betas)
        not_negative(**{"weight_decay value": weight_decay, "momentum_decay value": momentum_decay})
        defaults = dict(
            lr=lr,
            betas=betas,
            eps=eps,
            weight_decay=weight_decay,
            momentum_decay=momentum_decay,
            decoupled_weight_decay=decoupled_weight_decay,
            maximize=maximize,
            foreach=foreach,
            capturable=capturable,
            differentiable=differentiable,
        )
        super().__init__(params, defaults)

    def _new_state(self, p: Any, group: dict[str, Any]) -> dict[str, Any]:
        product = torch.ones_like(new_step(group, p))
        return {"step": new_step(group, p), "mu_product": product, "exp_avg": zeros_for(p), "exp_avg_sq": zeros_for(p)}

    def _update(self, p: Any, grad: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
        step = advance(state)
        (beta1, beta2), lr, slowness = group["betas"], item(group["lr"]), group["momentum_decay"]
        grad = ascent(grad, group)
        if group["decoupled_weight_decay"]:
            if group["weight_decay"] != 0:
                p.mul_(1 - lr * group["weight_decay"])
        else:
            grad = decay(p, grad, group)
        mu = beta1 * (1.0 - 0.5 * (0.96 ** (step * slowness)))
        mu_next = beta1 * (1.0 - 0.5 * (0.96 ** ((step + 1) * slowness)))
        state["mu_product"] *= mu
        product = state["mu_product"].item()
        p, grad, m, v = real_views(p, grad, state["exp_avg"], state["exp_avg_sq"])
        m.lerp_(grad, 1 - beta1)
        v.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
        denom = v.div(1 - beta2**step).sqrt()
        if group["differentiable"]:
            denom, m = denom + group["eps"], m.clone()
        else:
            denom.add_(group["eps"])
        p.addcdiv_(grad, denom, value=-lr * (1.0 - mu) / (1.0 - product))
        p.addcdiv_(m, denom, value=(-lr * mu_next) / (1.0 - product * mu_next))
