"""`LRScheduler`, the base class: counts steps, asks ``get_lr`` for one rate a group and writes them into the
optimiser."""

from __future__ import annotations

import types
import warnings
from typing import Any

import mindtorch.torch as torch

from ..optimizer import Optimizer

EPOCH_DEPRECATION_WARNING = (
    "The epoch parameter in `scheduler.step()` is not necessary and is being deprecated where possible: use "
    "`scheduler.step()`. When epoch is given, the closed form of the schedule is used in place of the chainable one, "
    "where there is a closed form."
)


def own_copy(value: Any) -> Any:
    """A tensor copied so that later in-place changes do not show; other values as they are."""
    return value.clone() if isinstance(value, torch.Tensor) else value


def rates(optimizer: Optimizer, key: str = "lr") -> list:
    """``key`` of every group."""
    return [own_copy(group[key]) for group in optimizer.param_groups]


def set_option(group: dict[str, Any], key: str, value: Any) -> None:
    """Write an option; a tensor option (``lr=torch.tensor(...)``) is changed in place."""
    if isinstance(group[key], torch.Tensor):
        group[key].fill_(value.item() if isinstance(value, torch.Tensor) else value)
    else:
        group[key] = value


def per_group(name: str, optimizer: Optimizer, value: Any) -> list:
    """``value`` for each group: a list of the right length is copied, one value is repeated. ValueError on a wrong
    length."""
    n = len(optimizer.param_groups)
    if isinstance(value, (list, tuple)):
        if len(value) != n:
            raise ValueError(
                f"{name} must have the same length as optimizer.param_groups. "
                f"{name} has {len(value)} values, param_groups has {n}."
            )
        return list(value)
    return [value] * n


def check_optimizer(optimizer: Any) -> Optimizer:
    """TypeError unless ``optimizer`` is an `Optimizer`."""
    if not isinstance(optimizer, Optimizer):
        raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")
    return optimizer


def save_callable(fn: Any) -> dict[str, Any] | None:
    """What a state dict keeps of a user's callable: the attributes of a callable object, nothing of a function."""
    return None if isinstance(fn, types.FunctionType) else fn.__dict__.copy()


class LRScheduler:
    """Base class. Subclasses write ``get_lr`` from ``self.last_epoch``, ``self.base_lrs`` and the groups' present
    rates, and may write ``_get_closed_form_lr``, used when ``step(epoch)`` jumps."""

    _get_lr_called_within_step: bool = False
    _is_initial: bool = False

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        self.optimizer = check_optimizer(optimizer)
        if last_epoch == -1:
            for group in optimizer.param_groups:
                group.setdefault("initial_lr", own_copy(group["lr"]))
        else:
            for i, group in enumerate(optimizer.param_groups):
                if "initial_lr" not in group:
                    raise KeyError(
                        f"param 'initial_lr' is not specified in param_groups[{i}] when resuming scheduler with "
                        "last_epoch >= 0: load the optimizer's state dict first, or leave last_epoch at -1 in a new run"
                    )
        self.base_lrs: list = rates(optimizer, "initial_lr")
        self.last_epoch: int = last_epoch
        optimizer._step_override = vars(optimizer).get("step")
        self._initial_step()

    def _initial_step(self) -> None:
        self._step_count = 0
        self._is_initial = True
        try:
            self.step()
        finally:
            self._is_initial = False

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimiser."""
        return {key: value for key, value in self.__dict__.items() if key != "optimizer"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what ``state_dict`` returned."""
        self.__dict__.update(state_dict)

    def get_last_lr(self) -> list:
        """The rates of the last step, one a group."""
        return self._last_lr

    def get_lr(self) -> list:
        """The rates at ``self.last_epoch``, one a group."""
        raise NotImplementedError(f"{type(self).__name__} must define get_lr()")

    def _warn_get_lr_called_within_step(self) -> None:
        if not self._get_lr_called_within_step:
            warnings.warn(
                "To get the last learning rate computed by the scheduler, please use `get_last_lr()`.",
                UserWarning,
                stacklevel=3,
            )

    def _warn_step_order(self) -> None:
        """A schedule stepped before its optimiser skips the first rate."""
        optimizer = self.optimizer
        if vars(optimizer).get("step") is not getattr(optimizer, "_step_override", None):
            warnings.warn(
                "Seems like `optimizer.step()` has been overridden after learning rate scheduler initialization. "
                "Please, make sure to call `optimizer.step()` before `lr_scheduler.step()`.",
                UserWarning,
                stacklevel=3,
            )
        elif not getattr(optimizer, "_opt_called", False):
            warnings.warn(
                "Detected call of `lr_scheduler.step()` before `optimizer.step()`: call them in the opposite order, "
                "`optimizer.step()` before `lr_scheduler.step()`. Otherwise the first value of the learning rate "
                "schedule is skipped.",
                UserWarning,
                stacklevel=3,
            )

    def step(self, epoch: int | None = None) -> None:
        """Advance one epoch (or jump to ``epoch``) and set the rates."""
        if self._step_count == 1:
            self._warn_step_order()
        self._step_count += 1
        if epoch is not None:
            warnings.warn(EPOCH_DEPRECATION_WARNING, UserWarning, stacklevel=2)
        self._update_lr(epoch)

    def _update_lr(self, epoch: int | None = None) -> None:
        self._get_lr_called_within_step = True
        try:
            if epoch is None:
                self.last_epoch += 1
                values = self.get_lr()
            else:
                self.last_epoch = epoch
                closed = getattr(self, "_get_closed_form_lr", None)
                values = closed() if closed is not None else self.get_lr()
        finally:
            self._get_lr_called_within_step = False
        for group, value in zip(self.optimizer.param_groups, values):
            set_option(group, "lr", value)
        self._last_lr: list = rates(self.optimizer)


class _LRScheduler(LRScheduler):
    """The older name of `LRScheduler`, for subclasses written against it."""
