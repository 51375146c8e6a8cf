"""Adam for sparse gradients."""

from __future__ import annotations

from typing import Any

from ._per_parameter import PerParameter, ascent, check_betas, check_lr, item, zeros_for

__all__ = ["SparseAdam"]


class SparseAdam(PerParameter):
    """Adam in which only the rows named by a sparse gradient move, and only their moments are updated."""

    _takes_sparse = True

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        maximize: bool = False,
    ) -> None:
        if not 0.0 < lr:
            raise ValueError(f"Invalid learning rate: {lr}")
        check_lr(lr)
        if not 0.0 < eps:
            raise ValueError(f"Invalid epsilon value: {eps}")
        check_betas(betas)
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, maximize=maximize))
        dense_only = [
            (i, j) for i, group in enumerate(self.param_groups) for j, p in enumerate(group["params"]) if p.is_sparse
        ]
        if dense_only:
            raise ValueError(f"Sparse params at indices {dense_only}: SparseAdam requires dense parameter tensors")

    def _new_state(self, p: Any, group: dict[str, Any]) -> dict[str, Any]:
        return {"step": 0, "exp_avg": zeros_for(p), "exp_avg_sq": zeros_for(p)}

    def _update(self, p: Any, grad: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
        if not grad.is_sparse:
            raise RuntimeError("SparseAdam does not support dense gradients, please consider Adam instead")
        state["step"] += 1
        step, (beta1, beta2) = state["step"], group["betas"]
        grad = ascent(grad, group).coalesce()
        index, values = tuple(grad._indices()), grad._values()
        if values.numel() == 0:
            return
        m, v = state["exp_avg"], state["exp_avg_sq"]
        new_m = m[index] + (values - m[index]) * (1 - beta1)
        new_v = v[index] + (values * values - v[index]) * (1 - beta2)
        m[index], v[index] = new_m, new_v
        size = item(group["lr"]) * (1 - beta2**step) ** 0.5 / (1 - beta1**step)
        p[index] = p[index] - size * (new_m / (new_v.sqrt() + group["eps"]))
