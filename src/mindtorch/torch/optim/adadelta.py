"""Adadelta."""

from __future__ import annotations

from typing import Any

from ._per_parameter import PerParameter, advance, check_lr, item, not_negative, options

__all__ = ["Adadelta"]


class Adadelta(PerParameter):
    """``v = rho v + (1 - rho) g^2; d = sqrt(u + eps) / sqrt(v + eps) g; u = rho u + (1 - rho) d^2; p -= lr d``."""

    _later = {"foreach": None, "maximize": False, "differentiable": False, "capturable": False}
    _moments = ("square_avg", "acc_delta")

    def __init__(
        self,
        params: Any,
        lr: Any = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        capturable: bool = False,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_lr(lr)
        if not 0.0 <= rho <= 1.0:
            raise ValueError(f"Invalid rho value: {rho}")
        not_negative(**{"epsilon value": eps, "weight_decay value": weight_decay})
        order = "lr rho eps weight_decay maximize capturable foreach differentiable"
        super().__init__(params, options(locals(), order))

    def _descend(self, p: Any, grad: Any, state: dict[str, Any], group: dict[str, Any], moments: tuple) -> None:
        v, u = moments
        advance(state, True)
        rho, eps = group["rho"], group["eps"]
        v.mul_(rho).addcmul_(grad, grad, value=1 - rho)
        if group["differentiable"]:
            delta = u.add(eps).sqrt() / v.add(eps).sqrt() * grad
        else:
            delta = u.add(eps).sqrt_().div_(v.add(eps).sqrt_()).mul_(grad)
        u.mul_(rho).addcmul_(delta, delta, value=1 - rho)
        p.add_(delta, alpha=-item(group["lr"]))
