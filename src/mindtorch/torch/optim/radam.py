"""RAdam: Adam with a rectified variance."""

from __future__ import annotations

from typing import Any

from ._per_parameter import PerParameter, advance, check_lr, check_moments, item, options

__all__ = ["RAdam"]


class RAdam(PerParameter):
    """Adam that takes plain momentum steps until the variance estimate has enough samples (``rho_t > 5``), and
    afterwards scales its steps by the rectification term."""

    _later = {
        "foreach": None,
        "maximize": False,
        "differentiable": False,
        "decoupled_weight_decay": False,
        "capturable": False,
    }
    _moments = ("exp_avg", "exp_avg_sq")

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_lr(lr)
        check_moments(betas, eps, weight_decay)
        order = "lr betas eps weight_decay maximize foreach capturable decoupled_weight_decay differentiable"
        super().__init__(params, options(locals(), order))

    def _descend(self, p: Any, grad: Any, state: dict[str, Any], group: dict[str, Any], moments: tuple) -> None:
        m, v = moments
        step = advance(state)
        (beta1, beta2), lr = group["betas"], item(group["lr"])
        m.lerp_(grad, 1 - beta1)
        v.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
        correction2 = 1 - beta2**step
        move = m / (1 - beta1**step)
        rho_inf = 2 / (1 - beta2) - 1
        rho = rho_inf - 2 * step * (beta2**step) / correction2
        if rho > 5.0:
            rect = ((rho - 4) * (rho - 2) * rho_inf / ((rho_inf - 4) * (rho_inf - 2) * rho)) ** 0.5
            root = v.sqrt()
            root = root + group["eps"] if group["differentiable"] else root.add_(group["eps"])
            p.add_(move * lr * ((correction2**0.5) / root) * rect, alpha=-1.0)
        else:
            p.add_(move * lr, alpha=-1.0)
