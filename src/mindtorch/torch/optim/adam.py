"""Adam, with AMSGrad and decoupled weight decay."""

from __future__ import annotations

from typing import Any

import mindtorch.torch as torch
from mindtorch.engine.host import updates

from ._memory import arrays, written
from ._per_parameter import (
    PerParameter,
    advance,
    ascent,
    check_lr,
    check_moments,
    decayed,
    item,
    options,
    real_views,
    zeros_for,
)

__all__ = ["Adam"]


class Adam(PerParameter):
    """``m = b1 m + (1 - b1) g; v = b2 v + (1 - b2) g^2; p -= lr m / (1 - b1^t) / (sqrt(v / (1 - b2^t)) + eps)``.

    ``weight_decay`` enters the gradient, or with ``decoupled_weight_decay`` shrinks the parameter beforehand.
    ``amsgrad`` uses the largest ``v`` seen so far.
    """

    _later = {
        "amsgrad": False,
        "maximize": False,
        "foreach": None,
        "capturable": False,
        "differentiable": False,
        "decoupled_weight_decay": False,
        "fused": None,
    }
    _moments = ("exp_avg", "exp_avg_sq")

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-3,
        betas: tuple[Any, Any] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:
        check_lr(lr, foreach, capturable)
        check_moments(betas, eps, weight_decay)
        if isinstance(betas[0], torch.Tensor) != isinstance(betas[1], torch.Tensor):
            raise ValueError("betas must be either both floats or both Tensors")
        order = (
            "lr betas eps weight_decay amsgrad maximize foreach capturable differentiable fused decoupled_weight_decay"
        )
        super().__init__(params, options(locals(), order))

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._make_steps_tensors()

    def _sparse_message(self) -> str:
        return "Adam does not support sparse gradients, please consider SparseAdam instead"

    def _new_state(self, p: Any, group: dict[str, Any]) -> dict[str, Any]:
        state = super()._new_state(p, group)
        if group["amsgrad"]:
            state["max_exp_avg_sq"] = zeros_for(p)
        return state

    def _update_all(self, params: list, grads: list, group: dict[str, Any]) -> None:
        if group["differentiable"]:
            super()._update_all(params, grads, group)
            return
        # Parameters stepped together share their constants.
        made: dict[Any, Any] = {}
        for p, grad in zip(params, grads):
            state = self._state_of(p, group)
            tensors = [grad, state["exp_avg"], state["exp_avg_sq"]]
            if group["amsgrad"]:
                tensors.append(state["max_exp_avg_sq"])
            raw = arrays(p, *tensors)
            if raw is None:
                self._update(p, grad, state, group)
                continue
            key = (advance(state), raw[0].dtype)
            c = made.get(key)
            if c is None:
                c = made[key] = self._constants(group, *key)
            updates.adam(c, *raw)
            written(p, *tensors[1:])

    @staticmethod
    def _constants(group: dict[str, Any], step: float, dtype: Any) -> updates.Constants:
        (beta1, beta2), lr, decay_rate = map(item, group["betas"]), group["lr"], group["weight_decay"]
        decoupled = group["decoupled_weight_decay"]
        return updates.Constants(
            dtype,
            1 - beta1,
            beta2,
            1 - beta2,
            group["eps"],
            -item(lr / (1 - beta1**step)),
            (1 - beta2**step) ** 0.5,
            0 if decoupled else decay_rate,
            -1 if group["maximize"] else 1,
            item(1 - lr * decay_rate) if decoupled else 1,
            beta1,
        )

    def _update(self, p: Any, grad: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
        differentiable = group["differentiable"]
        beta1, beta2 = group["betas"] if differentiable else map(item, group["betas"])
        lr, step = group["lr"], advance(state, differentiable)
        grad = decayed(p, ascent(grad, group), group, lr)
        p, grad, m, v, v_max = real_views(p, grad, state["exp_avg"], state["exp_avg_sq"], state.get("max_exp_avg_sq"))
        m.lerp_(grad, 1 - beta1)
        if differentiable:
            # The squared gradient is taken out of place: an in-place op on a saved tensor could not be differentiated.
            v.mul_(beta2).add_(grad * grad * (1 - beta2))
            if group["amsgrad"]:
                v_max.copy_(torch.maximum(v_max.clone(), v))
            used = (v_max if group["amsgrad"] else v).clone()
            denom = (used / (1 - beta2**step)).sqrt() + group["eps"]
            p.add_(m.clone() / denom * (-lr / (1 - beta1**step)))
            return
        v.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
        if group["amsgrad"]:
            torch.maximum(v_max, v, out=v_max)
            v = v_max
        denom = (v.sqrt() / (1 - beta2**step) ** 0.5).add_(group["eps"])
        p.addcdiv_(m, denom, value=-item(lr / (1 - beta1**step)))
