"""Adafactor: second moments of matrices kept as a row and a column."""

from __future__ import annotations

from typing import Any

import mindtorch.torch as torch

from ._per_parameter import PerParameter, advance, ascent, item, not_negative, options

__all__ = ["Adafactor"]


class Adafactor(PerParameter):
    """For tensors of two and more dimensions the second moment is ``row_var @ col_var / mean(row_var)``; vectors keep
    all of it.

    The step size is relative to the parameter's root mean square, and updates are clipped to a root mean square of
    ``d``.
    """

    _later = {"foreach": None}

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-2,
        beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3),
        d: float = 1.0,
        weight_decay: float = 0.0,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
    ) -> None:
        if isinstance(lr, torch.Tensor) and lr.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
        if not 0.0 <= lr:
            raise ValueError(f"Learning rate should be >= 0 but is: {lr}")
        if not 0.0 >= beta2_decay:
            raise ValueError(f"beta2_decay should be <= 0 but is: {beta2_decay}")
        for i, e in enumerate(eps, 1):
            if e is not None and not 0.0 <= e:
                raise ValueError(f"epsilon{i} should be >= 0 but is: {e}")
        if not 1.0 <= d:
            raise ValueError(f"Clipping threshold d should be >= 1 but is: {d}")
        not_negative(**{"weight_decay value": weight_decay})
        super().__init__(params, options(locals(), "lr beta2_decay eps d weight_decay foreach maximize"))

    def _new_state(self, p: Any, group: dict[str, Any]) -> dict[str, Any]:
        if torch.is_complex(p):
            raise RuntimeError("Adafactor does not support complex parameters")
        state: dict[str, Any] = {"step": torch.tensor(0.0, dtype=torch.get_default_dtype())}
        if p.dim() > 1:
            row, column = list(p.shape), list(p.shape)
            row[-1] = column[-2] = 1
            state["row_var"], state["col_var"] = p.new_zeros(row), p.new_zeros(column)
        else:
            state["variance"] = torch.zeros_like(p, memory_format=torch.preserve_format)
        return state

    def _update(self, p: Any, grad: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
        step = advance(state)
        eps1, eps2 = group["eps"]
        if eps1 is None:
            eps1 = torch.finfo(p.dtype).eps
        lr = item(group["lr"])
        grad = ascent(grad, group)
        weight = step ** group["beta2_decay"]
        rho = min(lr, 1 / (step**0.5))
        alpha = max(eps2, p.norm(2).item() / (p.numel() ** 0.5)) * rho
        if group["weight_decay"] != 0:
            p.mul_(1 - lr * group["weight_decay"])
        if grad.dim() > 1:
            row, column = state["row_var"], state["col_var"]
            row.lerp_(torch.norm(grad, dim=-1, keepdim=True).square_().div_(grad.size(-1)), weight)
            column.lerp_(torch.norm(grad, dim=-2, keepdim=True).square_().div_(grad.size(-2)), weight)
            variance = row @ column
            variance.div_(row.mean(dim=-2, keepdim=True).clamp_(min=eps1))
        else:
            state["variance"].lerp_(grad.square(), weight)
            variance = state["variance"].clone()
        move = variance.clamp_(min=eps1 * eps1).rsqrt_().mul_(grad)
        clip = max(1.0, move.norm(2).item() / ((move.numel() ** 0.5) * group["d"]))
        p.add_(move, alpha=-alpha / clip)
