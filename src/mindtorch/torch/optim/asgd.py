"""Averaged stochastic gradient descent."""

from __future__ import annotations

from typing import Any

import mindtorch.torch as torch

from ._per_parameter import PerParameter, advance, check_lr, item, new_step, not_negative, options, zeros_for

__all__ = ["ASGD"]


class ASGD(PerParameter):
    """Descent with a decaying rate ``eta``; the running average of the parameter from step ``t0`` on is
    ``state["ax"]``."""

    _later = {"foreach": None, "maximize": False, "differentiable": False, "capturable": False}
    _moments = ("ax",)

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-2,
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        check_lr(lr)
        not_negative(**{"weight_decay value": weight_decay})
        order = "lr lambd alpha t0 weight_decay foreach maximize differentiable capturable"
        super().__init__(params, options(locals(), order))

    def _new_state(self, p: Any, group: dict[str, Any]) -> dict[str, Any]:
        step = new_step(group, p)
        eta = torch.as_tensor(item(group["lr"]), dtype=step.dtype, device=p.device).clone().detach()
        return {"step": step, "eta": eta, "mu": torch.ones_like(step), "ax": zeros_for(p)}

    def _descend(self, p: Any, grad: Any, state: dict[str, Any], group: dict[str, Any], moments: tuple) -> None:
        (ax,) = moments
        step = advance(state)
        lambd, lr = group["lambd"], item(group["lr"])
        eta, mu = state["eta"].item(), state["mu"].item()
        p.mul_(1 - lambd * eta)
        p.add_(grad, alpha=-eta)
        if mu != 1:
            ax.add_(p.sub(ax).mul(mu))
        else:
            ax.copy_(p)
        state["eta"].fill_(lr / ((1 + lambd * lr * step) ** group["alpha"]))
        state["mu"].fill_(1 / max(1, step - group["t0"]))
