"""Stochastic gradient descent."""

from __future__ import annotations

from typing import Any

import mindtorch.torch as torch
from mindtorch.engine.host import updates

from ._memory import arrays, written
from ._per_parameter import PerParameter, ascent, check_lr, decay, item, not_negative, options

__all__ = ["SGD"]


class SGD(PerParameter):
    """Descent with optional momentum: ``buf = momentum * buf + (1 - dampening) * grad; p -= lr * buf``.

    The first step takes the gradient itself as the buffer. With ``nesterov`` the step is ``grad + momentum * buf``.
    """

    _takes_sparse = True
    _later = {"nesterov": False, "maximize": False, "foreach": None, "differentiable": False, "fused": False}

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: Any = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        check_lr(lr, foreach=None)
        not_negative(**{"momentum value": momentum, "weight_decay value": weight_decay})
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        order = "lr momentum dampening weight_decay nesterov maximize foreach differentiable fused"
        super().__init__(params, options(locals(), order))

    def _state_of(self, p: Any, group: dict[str, Any]) -> dict[str, Any]:
        # Without momentum nothing is remembered, and an entry in `state` would show in state_dict().
        return self.state[p] if group["momentum"] != 0 else {}

    def _update_all(self, params: list, grads: list, group: dict[str, Any]) -> None:
        if group["differentiable"]:
            super()._update_all(params, grads, group)
            return
        momentum = group["momentum"] != 0
        made: dict[Any, Any] = {}
        for p, grad in zip(params, grads):
            state = self.state[p] if momentum else {}
            buf = state.get("momentum_buffer")
            raw = arrays(p, grad) if buf is None else arrays(p, grad, buf)
            if raw is None:
                self._update(p, grad, state, group)
                continue
            first = momentum and buf is None
            if first:
                buf = state["momentum_buffer"] = torch.empty_like(p, requires_grad=False)
                raw = arrays(p, grad, buf)
            key = (p.k, first)
            c = made.get(key)
            if c is None:
                c = made[key] = self._constants(group, p.a.dtype, first)
            updates.sgd(c, *raw)  # type: ignore[misc]
            written(p, *(() if buf is None else (buf,)))

    @staticmethod
    def _constants(group: dict[str, Any], dtype: Any, first: bool) -> updates.Constants:
        return updates.Constants(
            dtype,
            -item(group["lr"]),
            group["momentum"],
            1 - group["dampening"],
            item(group["weight_decay"]),
            group["nesterov"],
            -1 if group["maximize"] else 1,
            first,
        )

    def _update(self, p: Any, grad: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
        grad = decay(p, ascent(grad, group), group)
        momentum = group["momentum"]
        if momentum != 0:
            buf = state.get("momentum_buffer")
            if buf is None:
                buf = state["momentum_buffer"] = grad.detach().clone()
            else:
                buf.mul_(momentum).add_(grad, alpha=1 - group["dampening"])
            grad = grad.add(buf, alpha=momentum) if group["nesterov"] else buf
        lr = group["lr"]
        if group["differentiable"] and isinstance(lr, torch.Tensor):
            p.addcmul_(grad, lr, value=-1) if lr.requires_grad else p.add_(grad, alpha=-lr.item())
        else:
            p.add_(grad, alpha=-item(lr))
