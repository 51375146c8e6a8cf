"""`PerParameter`, the base of optimisers that update one tensor at a time, and what their rules share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import mindtorch.torch as torch
from mindtorch.engine.host.quiet import quiet

from .optimizer import Optimizer, no_grad_step


def item(value: Any) -> Any:
    """A Python number for a number or a one-element tensor (``lr`` and ``weight_decay`` may be tensors)."""
    return value.item() if isinstance(value, torch.Tensor) else value


def not_negative(**options: Any) -> None:
    """ValueError when an option (name with spaces written as underscores) is below zero or nan."""
    for name, value in options.items():
        if not 0.0 <= value:
            raise ValueError(f"Invalid {name}: {value}")


def check_lr(lr: Any, foreach: bool | None = None, capturable: bool = False) -> None:
    """ValueError unless ``lr`` is a number >= 0, or a tensor with one element (not with foreach)."""
    if isinstance(lr, torch.Tensor):
        if foreach and not capturable:
            raise ValueError("lr as a Tensor is not supported for capturable=False and foreach=True")
        if lr.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
    if not 0.0 <= lr:
        raise ValueError(f"Invalid learning rate: {lr}")


def check_betas(betas: Any) -> None:
    """ValueError unless both coefficients lie in [0, 1)."""
    for i, beta in enumerate(betas):
        if not 0.0 <= beta < 1.0:
            raise ValueError(f"Invalid beta parameter at index {i}: {beta}")


def check_moments(betas: Any, eps: Any, weight_decay: Any) -> None:
    """The checks that all of Adam's family make, in PyTorch's order."""
    not_negative(**{"epsilon value": eps})
    check_betas(betas)
    not_negative(**{"weight_decay value": weight_decay})


def options(given: dict[str, Any], names: str) -> dict[str, Any]:
    """The default options out of a constructor's ``locals()``, in the order that PyTorch's state dicts have them."""
    return {name: given[name] for name in names.split()}


def ascent(grad: Any, group: dict[str, Any]) -> Any:
    """The gradient to descend along: negated when the group maximises."""
    return -grad if group["maximize"] else grad


def real_views(*tensors: Any) -> tuple:
    """Views of complex tensors as real ones with a last dimension of 2; other values unchanged."""
    return tuple(torch.view_as_real(t) if isinstance(t, torch.Tensor) and torch.is_complex(t) else t for t in tensors)


def decay(p: Any, grad: Any, group: dict[str, Any]) -> Any:
    """``grad`` plus the L2 term, when the group has a weight decay."""
    weight_decay = item(group["weight_decay"])
    return grad.add(p, alpha=weight_decay) if weight_decay != 0 else grad


def decayed(p: Any, grad: Any, group: dict[str, Any], lr: Any) -> Any:
    """``grad`` as `decay` makes it; or, where the group decouples its decay, as it is and ``p`` shrunk instead."""
    if not group.get("decoupled_weight_decay"):
        return decay(p, grad, group)
    if group["weight_decay"] != 0:
        p.mul_(1 - lr * group["weight_decay"])
    return grad


def zeros_for(p: Any) -> Any:
    return torch.zeros_like(p, memory_format=torch.preserve_format)


def new_step(group: dict[str, Any], p: Any) -> Any:
    """A step counter as PyTorch keeps it: a 0-d tensor of float32 (float64 when that is the default dtype)."""
    if group.get("capturable") or group.get("fused"):
        return torch.zeros((), dtype=torch.float32, device=p.device)
    dtype = torch.float64 if torch.get_default_dtype() == torch.float64 else torch.float32
    return torch.tensor(0.0, dtype=dtype)


def advance(state: dict[str, Any], differentiable: bool = False) -> Any:
    """Count one step; the count as a Python float, or as the tensor itself under ``differentiable``."""
    step = state["step"]
    step += 1
    return step if differentiable else step.item()


class PerParameter(Optimizer):
    """An optimiser whose update of a parameter depends on that parameter's gradient and state alone.

    Most subclasses name in ``_moments`` the entries of a parameter's state that start as zeros, and write
    ``_descend(p, grad, state, group, moments)`` with public tensor ops. ``_new_state`` (the first state of ``p``),
    ``_update`` (one parameter) and ``_update_all`` (those of a group) may be overridden. ``_later`` holds the options
    that PyTorch added to the optimiser since its first version, with the values that older files meant.
    """

    _later: ClassVar[dict[str, Any]] = {}
    _moments: ClassVar[tuple[str, ...]] = ()

    def __init__(self, params: Any, defaults: dict[str, Any]) -> None:
        super().__init__(params, defaults)
        if defaults.get("fused"):
            if defaults["differentiable"]:
                raise RuntimeError("`fused` does not support `differentiable`")
            if defaults["foreach"]:
                raise RuntimeError("`fused` and `foreach` cannot be `True` together.")

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            for name, value in self._later.items():
                group.setdefault(name, value)

    def _make_steps_tensors(self) -> None:
        """Step counts, plain numbers in older files, as tensors."""
        for group in self.param_groups:
            for p in group["params"]:
                entry = self.state.get(p)
                if entry and not torch.is_tensor(entry["step"]):
                    entry["step"] = new_step({"fused": group["fused"]}, p) + float(entry["step"])

    def _new_state(self, p: Any, group: dict[str, Any]) -> dict[str, Any]:
        return {"step": new_step(group, p), **{name: zeros_for(p) for name in self._moments}}

    def _update(self, p: Any, grad: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
        grad = decayed(p, ascent(grad, group), group, item(group["lr"]))
        self._descend(*real_views(p, grad), state, group, real_views(*(state[name] for name in self._moments)))

    def _descend(self, p: Any, grad: Any, state: dict[str, Any], group: dict[str, Any], moments: tuple) -> None:
        raise NotImplementedError(f"{type(self).__name__} must define _descend or _update")

    def _update_all(self, params: list, grads: list, group: dict[str, Any]) -> None:
        for p, grad in zip(params, grads):
            self._update(p, grad, self._state_of(p, group), group)

    def _state_of(self, p: Any, group: dict[str, Any]) -> dict[str, Any]:
        state = self.state[p]
        if not state:
            state.update(self._new_state(p, group))
        return state

    @no_grad_step
    def step(self, closure: Callable | None = None) -> Any:
        """One update. ``closure`` (optional) recomputes the loss, which is returned."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            params, grads = [], []
            for p in group["params"]:
                grad = p.grad
                if grad is not None:
                    if grad.is_sparse and not self._takes_sparse:
                        raise RuntimeError(self._sparse_message())
                    params.append(p)
                    grads.append(grad)
            if params:
                with quiet():
                    self._update_all(params, grads, group)
        return loss

    _takes_sparse = False

    def _sparse_message(self) -> str:
        return f"{type(self).__name__} does not support sparse gradients"
