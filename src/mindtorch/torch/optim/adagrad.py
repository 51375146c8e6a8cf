"""Adagrad."""

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
    decay,
    item,
    new_step,
    not_negative,
    options,
    real_views,
)

__all__ = ["Adagrad"]


class Adagrad(PerParameter):
    """``s += g^2; p -= lr / (1 + (t - 1) lr_decay) * g / (sqrt(s) + eps)``. The state exists from construction on."""

    _takes_sparse = True

    _later = {"foreach": None, "maximize": False, "differentiable": False, "fused": None}

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-2,
        lr_decay: float = 0,
        weight_decay: float = 0,
        initial_accumulator_value: float = 0,
        eps: float = 1e-10,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        check_lr(lr)
        not_negative(**{"lr_decay value": lr_decay, "weight_decay value": weight_decay})
        not_negative(**{"initial_accumulator_value value": initial_accumulator_value, "epsilon value": eps})
        order = "lr lr_decay eps weight_decay initial_accumulator_value foreach maximize differentiable fused"
        super().__init__(params, options(locals(), order))
        for group in self.param_groups:
            for p in group["params"]:
                self._state_of(p, group)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._make_steps_tensors()

    def share_memory(self) -> None:
        """Move the sums of squares into shared memory."""
        for group in self.param_groups:
            for p in group["params"]:
                self.state[p]["sum"].share_memory_()

    def _new_state(self, p: Any, group: dict[str, Any]) -> dict[str, Any]:
        first = group["initial_accumulator_value"]
        value = complex(first, first) if torch.is_complex(p) else first
        total = torch.full_like(p, value, memory_format=torch.preserve_format, requires_grad=False)
        return {"step": new_step(group, p), "sum": total}

    def _update(self, p: Any, grad: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
        step = advance(state)
        rate = item(group["lr"]) / (1 + (step - 1) * group["lr_decay"])
        raw = None if group["differentiable"] or grad.is_sparse else arrays(p, grad, state["sum"])
        if raw is not None:
            sign = -1 if group["maximize"] else 1
            numbers = (-rate, group["eps"], group["weight_decay"], sign)
            updates.blocks(updates.adagrad, updates.Constants(raw[0].dtype, *numbers), *raw)
            written(p, state["sum"])
            return
        grad = ascent(grad, group)
        if grad.is_sparse:
            if group["weight_decay"] != 0:
                raise RuntimeError("weight_decay option is not compatible with sparse gradients")
            self._update_sparse(p, grad.coalesce(), state["sum"], rate, group["eps"])
            return
        grad = decay(p, grad, group)
        p, grad, total = real_views(p, grad, state["sum"])
        if group["differentiable"]:
            total.add_(grad * grad)
            p.addcdiv_(grad, total.clone().sqrt() + group["eps"], value=-rate)
        else:
            total.addcmul_(grad, grad, value=1)
            p.addcdiv_(grad, total.sqrt().add_(group["eps"]), value=-rate)

    @staticmethod
    def _update_sparse(p: Any, grad: Any, total: Any, rate: float, eps: float) -> None:
        """Rows that the gradient does not name keep their sum and value. ``grad`` is coalesced."""
        index, values = tuple(grad._indices()), grad._values()
        if values.numel() == 0:
            return
        total[index] = total[index] + values * values
        p[index] = p[index] - rate * (values / (total[index].sqrt() + eps))
