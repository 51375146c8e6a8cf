"""NAdam: Adam with Nesterov momentum."""

from __future__ import annotations

from typing import Any

import mindtorch.torch as torch

from ._per_parameter import (
    PerParameter,
    advance,
    check_lr,
    check_moments,
    item,
    new_step,
    not_negative,
    options,
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
    _moments = ("exp_avg", "exp_avg_sq")

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
        check_moments(betas, eps, weight_decay)
        not_negative(**{"momentum_decay value": momentum_decay})
        order = (
            "lr betas eps weight_decay momentum_decay decoupled_weight_decay maximize foreach capturable differentiable"
        )
        super().__init__(params, options(locals(), order))

    def _new_state(self, p: Any, group: dict[str, Any]) -> dict[str, Any]:
        step = new_step(group, p)
        moments = {name: zeros_for(p) for name in self._moments}
        return {"step": step, "mu_product": torch.ones_like(step), **moments}

    def _descend(self, p: Any, grad: Any, state: dict[str, Any], group: dict[str, Any], moments: tuple) -> None:
        m, v = moments
        step = advance(state)
        (beta1, beta2), lr, slowness = group["betas"], item(group["lr"]), group["momentum_decay"]
        mu = beta1 * (1.0 - 0.5 * (0.96 ** (step * slowness)))
        mu_next = beta1 * (1.0 - 0.5 * (0.96 ** ((step + 1) * slowness)))
        state["mu_product"] *= mu
        product = state["mu_product"].item()
        m.lerp_(grad, 1 - beta1)
        v.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
        denom = v.div(1 - beta2**step).sqrt()
        if group["differentiable"]:
            denom, m = denom + group["eps"], m.clone()
        else:
            denom.add_(group["eps"])
        p.addcdiv_(grad, denom, value=-lr * (1.0 - mu) / (1.0 - product))
        p.addcdiv_(m, denom, value=(-lr * mu_next) / (1.0 - product * mu_next))
