"""Resilient backpropagation."""

from __future__ import annotations

from typing import Any

import mindtorch.torch as torch

from ._per_parameter import PerParameter, advance, ascent, check_lr, item, new_step, options, real_views, zeros_for

__all__ = ["Rprop"]


class Rprop(PerParameter):
    """Steps by the sign of the gradient alone; each element's step size grows by ``etas[1]`` while the sign stays and
    shrinks by ``etas[0]`` when it turns (that element then rests for one step)."""

    _later = {"foreach": None, "maximize": False, "differentiable": False, "capturable": False}

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-2,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50),
        *,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_lr(lr)
        if not 0.0 < etas[0] < 1.0 < etas[1]:
            raise ValueError(f"Invalid eta values: {etas[0]}, {etas[1]}")
        super().__init__(params, options(locals(), "lr etas step_sizes foreach maximize differentiable capturable"))

    def _new_state(self, p: Any, group: dict[str, Any]) -> dict[str, Any]:
        lr = item(group["lr"])
        size = torch.full_like(p, complex(lr, lr) if torch.is_complex(p) else lr, requires_grad=False)
        return {"step": new_step(group, p), "prev": zeros_for(p), "step_size": size}

    def _update(self, p: Any, grad: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
        advance(state, True)
        (down, up), (smallest, largest) = group["etas"], group["step_sizes"]
        p, grad, prev, size = real_views(p, ascent(grad, group), state["prev"], state["step_size"])
        agree = grad.mul(prev.clone() if group["differentiable"] else prev).sign()
        factor = torch.where(agree > 0, up, torch.where(agree < 0, down, 1.0)).to(size.dtype)
        size.mul_(factor).clamp_(smallest, largest)
        grad = torch.where(agree < 0, torch.zeros_like(grad), grad)
        p.addcmul_(grad.sign(), size.clone() if group["differentiable"] else size, value=-1)
        prev.copy_(grad)
