"""Schedules made of schedules: one after another, or all at once."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

from ..optimizer import Optimizer
from .base import LRScheduler, rates
from .plateau import ReduceLROnPlateau


class _Composite(LRScheduler):
    """State dicts of the parts are nested in the whole's."""

    _schedulers: list[LRScheduler]

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimiser; the parts as their own state dicts."""
        state = {k: v for k, v in self.__dict__.items() if k not in ("optimizer", "_schedulers")}
        state["_schedulers"] = [part.state_dict() for part in self._schedulers]
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what ``state_dict`` returned."""
        self.__dict__.update({k: v for k, v in state_dict.items() if k != "_schedulers"})
        for part, state in zip(self._schedulers, state_dict["_schedulers"]):
            part.load_state_dict(state)


def _check_optimizers(who: str, optimizer: Optimizer, schedulers: Sequence[LRScheduler]) -> None:
    for i, part in enumerate(schedulers):
        if part.optimizer is not optimizer:
            raise ValueError(
                f"{who} expects all schedulers to belong to the same optimizer, but got scheduler "
                f"{type(part).__name__} at index {i} has {part.optimizer}, "
                f"which is different from {type(optimizer).__name__}."
            )


def _undo_initial_step(scheduler: LRScheduler) -> None:
    """Take back the step that making the schedule took, in its parts too."""
    for part in getattr(scheduler, "_schedulers", ()):
        _undo_initial_step(part)
    if hasattr(scheduler, "last_epoch"):
        scheduler.last_epoch -= 1


class SequentialLR(_Composite):
    """``schedulers[i]`` runs until ``milestones[i]``, then the next one starts from its own beginning."""

    def __init__(
        self, optimizer: Optimizer, schedulers: list[LRScheduler], milestones: list[int], last_epoch: int = -1
    ) -> None:
        if len(schedulers) < 1:
            raise ValueError("SequentialLR expects at least one scheduler, but got no scheduler.")
        for i, part in enumerate(schedulers):
            if not hasattr(part, "optimizer"):
                raise TypeError(f"SequentialLR at index {i} should have `optimizer` as its attribute.")
            if isinstance(part, ReduceLROnPlateau):
                raise ValueError(
                    "SequentialLR does not support `ReduceLROnPlateau`, whose `step` needs a metric, "
                    f"but got one at index {i} of the schedulers."
                )
        _check_optimizers("SequentialLR", optimizer, schedulers)
        if len(milestones) != len(schedulers) - 1:
            raise ValueError(
                "SequentialLR expects one scheduler more than milestones, but got "
                f"{len(schedulers)} schedulers and {len(milestones)} milestones"
            )
        self._schedulers = schedulers
        self._milestones = milestones
        self.last_epoch = last_epoch + 1
        self.optimizer = optimizer
        for group in optimizer.param_groups:
            group["lr"] = group["initial_lr"]
        for part in schedulers:
            _undo_initial_step(part)
        schedulers[0]._initial_step()
        self._last_lr = schedulers[0].get_last_lr()

    def step(self) -> None:  # type: ignore[override]
        """Step the schedule whose turn it is."""
        self.last_epoch += 1
        i = bisect_right(self._milestones, self.last_epoch)
        part = self._schedulers[i]
        if i > 0 and self._milestones[i - 1] == self.last_epoch:
            part._update_lr(0)
        else:
            part.step()
        self._last_lr = part.get_last_lr()


class ChainedScheduler(_Composite):
    """All ``schedulers`` step together, each acting on the rate the one before it left."""

    def __init__(self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None = None) -> None:
        if len(schedulers) < 1:
            raise ValueError("ChainedScheduler expects at least one scheduler to be chained, but got no scheduler.")
        optimizer = optimizer or schedulers[0].optimizer
        for i, part in enumerate(schedulers):
            if not hasattr(part, "optimizer"):
                raise TypeError(f"ChainedScheduler at index {i} should have `optimizer` as its attribute.")
            if isinstance(part, ReduceLROnPlateau):
                raise ValueError(
                    "ChainedScheduler does not support `ReduceLROnPlateau`, whose `step` needs a metric, "
                    f"but got one at index {i} of the schedulers."
                )
        _check_optimizers("ChainedScheduler", optimizer, schedulers)
        self._schedulers = list(schedulers)
        self.optimizer = optimizer
        self._last_lr = rates(optimizer)

    def step(self) -> None:  # type: ignore[override]
        """Step all parts in order."""
        for part in self._schedulers:
            part.step()
        self._last_lr = rates(self.optimizer)
