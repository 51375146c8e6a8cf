"""RMSprop."""

from __future__ import annotations

from typing import Any

from mindtorch.engine.host import updates

from ._memory import arrays, written
from ._per_parameter import (
    PerParameter,
    advance,
    ascent,
    check_lr,
    decay,
    item,
    new_step,
    not_negative,
    options,
    real_views,
    zeros_for,
)

__all__ = ["RMSprop"]


class RMSprop(PerParameter):
    """``v = alpha v + (1 - alpha) g^2; p -= lr g / (sqrt(v) + eps)``; ``centered`` subtracts the squared mean gradient
    from ``v``, and with ``momentum`` the scaled gradients are accumulated first."""

    _later = {
        "momentum": 0,
        "centered": False,
        "foreach": None,
        "maximize": False,
        "differentiable": False,
        "capturable": False,
    }

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_lr(lr)
        not_negative(**{"epsilon value": eps, "momentum value": momentum})
        not_negative(**{"weight_decay value": weight_decay, "alpha value": alpha})
        order = "lr momentum alpha eps centered weight_decay capturable foreach maximize differentiable"
        super().__init__(params, options(locals(), order))

    def _new_state(self, p: Any, group: dict[str, Any]) -> dict[str, Any]:
        state = {"step": new_step(group, p), "square_avg": zeros_for(p)}
        if group["momentum"] > 0:
            state["momentum_buffer"] = zeros_for(p)
        if group["centered"]:
            state["grad_avg"] = zeros_for(p)
        return state

    @staticmethod
    def _update_raw(p: Any, grad: Any, state: dict[str, Any], group: dict[str, Any]) -> bool:
        """The same on raw arrays; False when the tensors are not plain ones."""
        buf = state["momentum_buffer"] if group["momentum"] > 0 else None
        mean = state["grad_avg"] if group["centered"] else None
        changed = [t for t in (state["square_avg"], buf, mean) if t is not None]
        raw = arrays(p, grad, *changed)
        if raw is None:
            return False
        alpha, lr, sign = group["alpha"], item(group["lr"]), -1 if group["maximize"] else 1
        numbers = (alpha, 1 - alpha, group["eps"], -lr, group["momentum"], item(group["weight_decay"]), sign)
        rest = raw[3:]
        raw_buf = rest.pop(0) if buf is not None else None
        raw_mean = rest.pop(0) if mean is not None else None
        updates.blocks(updates.rmsprop, updates.Constants(raw[0].dtype, *numbers), *raw[:3], raw_buf, raw_mean)
        written(p, *changed)
        return True

    def _update(self, p: Any, grad: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
        advance(state, True)
        alpha, lr = group["alpha"], group["lr"]
        if not group["differentiable"] and self._update_raw(p, grad, state, group):
            return
        grad = decay(p, ascent(grad, group), group)
        p, grad, v, buf, mean = real_views(
            p, grad, state["square_avg"], state.get("momentum_buffer"), state.get("grad_avg")
        )
        v.mul_(alpha).addcmul_(grad, grad, value=1 - alpha)
        if group["centered"]:
            mean.lerp_(grad, 1 - alpha)
            scale = v.addcmul(mean, mean, value=-1).sqrt()
        else:
            scale = v.clone().sqrt() if group["differentiable"] else v.sqrt()
        scale = scale + group["eps"] if group["differentiable"] else scale.add_(group["eps"])
        if group["momentum"] > 0:
            buf.mul_(group["momentum"]).addcdiv_(grad, scale)
            p.add_(buf.clone() if group["differentiable"] else buf, alpha=-item(lr))
        else:
            p.addcdiv_(grad, scale, value=-item(lr))
