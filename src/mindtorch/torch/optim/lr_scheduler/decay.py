"""Schedules that follow one formula of the epoch: lambda, steps, linear, exponential, polynomial, cosine."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from ..optimizer import Optimizer
from .base import LRScheduler, rates, save_callable

Factor = Callable[[int], float]


class LambdaLR(LRScheduler):
    """``lr = base_lr * lr_lambda(epoch)``; one function, or one a group."""

    def __init__(self, optimizer: Optimizer, lr_lambda: Factor | list[Factor], last_epoch: int = -1) -> None:
        self.optimizer = optimizer
        groups = len(optimizer.param_groups)
        if not isinstance(lr_lambda, (list, tuple)):
            self.lr_lambdas = [lr_lambda] * groups
        else:
            if len(lr_lambda) != groups:
                raise ValueError(f"Expected {groups} lr_lambdas, but got {len(lr_lambda)}")
            self.lr_lambdas = list(lr_lambda)
        super().__init__(optimizer, last_epoch)

    def state_dict(self) -> dict[str, Any]:
        """Functions cannot be saved: of callable objects their attributes are kept, of functions None."""
        state = {k: v for k, v in self.__dict__.items() if k not in ("optimizer", "lr_lambdas")}
        state["lr_lambdas"] = [save_callable(fn) for fn in self.lr_lambdas]
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over ``state_dict``; the functions stay this schedule's own."""
        self.__dict__.update({k: v for k, v in state_dict.items() if k != "lr_lambdas"})
        for fn, saved in zip(self.lr_lambdas, state_dict["lr_lambdas"]):
            if saved is not None:
                fn.__dict__.update(saved)

    def get_lr(self) -> list:
        self._warn_get_lr_called_within_step()
        return [base * fn(self.last_epoch) for fn, base in zip(self.lr_lambdas, self.base_lrs)]


class MultiplicativeLR(LambdaLR):
    """``lr *= lr_lambda(epoch)`` from the first epoch on."""

    def get_lr(self) -> list:
        self._warn_get_lr_called_within_step()
        now = rates(self.optimizer)
        if self._is_initial:
            return now
        return [lr * fn(self.last_epoch) for fn, lr in zip(self.lr_lambdas, now)]


class StepLR(LRScheduler):
    """Multiply the rate by ``gamma`` every ``step_size`` epochs."""

    def __init__(self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1) -> None:
        self.step_size = step_size
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list:
        self._warn_get_lr_called_within_step()
        now = rates(self.optimizer)
        if self.last_epoch == 0 or self.last_epoch % self.step_size != 0:
            return now
        return [lr * self.gamma for lr in now]

    def _get_closed_form_lr(self) -> list:
        return [base * self.gamma ** (self.last_epoch // self.step_size) for base in self.base_lrs]


class MultiStepLR(LRScheduler):
    """Multiply the rate by ``gamma`` at each of ``milestones`` (twice where one is named twice)."""

    def __init__(
        self, optimizer: Optimizer, milestones: Iterable[int], gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        self.milestones = Counter(milestones)
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list:
        self._warn_get_lr_called_within_step()
        now = rates(self.optimizer)
        if self.last_epoch not in self.milestones:
            return now
        return [lr * self.gamma ** self.milestones[self.last_epoch] for lr in now]

    def _get_closed_form_lr(self) -> list:
        milestones = sorted(self.milestones.elements())
        return [base * self.gamma ** bisect_right(milestones, self.last_epoch) for base in self.base_lrs]


class ConstantLR(LRScheduler):
    """``factor`` times the base rate for ``total_iters`` epochs, the base rate afterwards."""

    def __init__(
        self, optimizer: Optimizer, factor: float = 1.0 / 3, total_iters: int = 5, last_epoch: int = -1
    ) -> None:
        if factor > 1.0 or factor < 0:
            raise ValueError("Constant multiplicative factor expected to be between 0 and 1.")
        self.factor = factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list:
        self._warn_get_lr_called_within_step()
        now = rates(self.optimizer)
        if self.last_epoch == 0:
            return [lr * self.factor for lr in now]
        if self.last_epoch != self.total_iters:
            return now
        return [lr * (1.0 / self.factor) for lr in now]

    def _get_closed_form_lr(self) -> list:
        over = self.last_epoch >= self.total_iters
        return [base * (self.factor + over * (1 - self.factor)) for base in self.base_lrs]


class LinearLR(LRScheduler):
    """From ``start_factor`` to ``end_factor`` times the base rate in ``total_iters`` equal steps, then constant."""

    def __init__(
        self,
        optimizer: Optimizer,
        start_factor: float = 1.0 / 3,
        end_factor: float = 1.0,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        if start_factor > 1.0 or start_factor <= 0:
            raise ValueError("Starting multiplicative factor expected to be greater than 0 and less or equal to 1.")
        if end_factor > 1.0 or end_factor < 0:
            raise ValueError("Ending multiplicative factor expected to be between 0 and 1.")
        self.start_factor = start_factor
        self.end_factor = end_factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list:
        self._warn_get_lr_called_within_step()
        now, e, n = rates(self.optimizer), self.last_epoch, self.total_iters
        if e == 0:
            return [lr * self.start_factor for lr in now]
        if self._is_initial or e > n:
            return now
        rise = self.end_factor - self.start_factor
        return [lr * (1.0 + rise / (n * self.start_factor + (e - 1) * rise)) for lr in now]

    def _get_closed_form_lr(self) -> list:
        rise = self.end_factor - self.start_factor
        done = min(self.total_iters, self.last_epoch)
        return [base * (self.start_factor + rise * done / self.total_iters) for base in self.base_lrs]


class ExponentialLR(LRScheduler):
    """Multiply the rate by ``gamma`` every epoch."""

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list:
        self._warn_get_lr_called_within_step()
        now = rates(self.optimizer)
        return now if self._is_initial else [lr * self.gamma for lr in now]

    def _get_closed_form_lr(self) -> list:
        return [base * self.gamma**self.last_epoch for base in self.base_lrs]


class PolynomialLR(LRScheduler):
    """``base_lr * (1 - epoch / total_iters) ** power``, zero from ``total_iters`` on."""

    def __init__(self, optimizer: Optimizer, total_iters: int = 5, power: float = 1.0, last_epoch: int = -1) -> None:
        self.total_iters = total_iters
        self.power = power
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list:
        self._warn_get_lr_called_within_step()
        now, e, n = rates(self.optimizer), self.last_epoch, self.total_iters
        if self._is_initial or e > n:
            return now
        shrink = ((1.0 - e / n) / (1.0 - (e - 1) / n)) ** self.power
        return [lr * shrink for lr in now]

    def _get_closed_form_lr(self) -> list:
        done = min(self.total_iters, self.last_epoch)
        return [base * (1.0 - done / self.total_iters) ** self.power for base in self.base_lrs]


class CosineAnnealingLR(LRScheduler):
    """Half a cosine from the base rate to ``eta_min`` in ``T_max`` epochs (and back up when it runs on)."""

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1) -> None:
        self.T_max = T_max
        self.eta_min = eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list:
        self._warn_get_lr_called_within_step()
        now, e, n, low = rates(self.optimizer), self.last_epoch, self.T_max, self.eta_min
        if self._is_initial:
            return now
        if self._step_count == 1 and e > 0:
            return [low + (base - low) * (1 + math.cos(e * math.pi / n)) / 2 for base in self.base_lrs]
        if (e - 1 - n) % (2 * n) == 0:
            # The recursion below would multiply by zero for ever after the trough.
            return [lr + (base - low) * (1 - math.cos(math.pi / n)) / 2 for base, lr in zip(self.base_lrs, now)]
        ratio = 1 + math.cos(math.pi * (e - 1) / n)
        return [(1 + math.cos(math.pi * e / n)) / ratio * (lr - low) + low for lr in now]

    def _get_closed_form_lr(self) -> list:
        wave = 1 + math.cos(math.pi * self.last_epoch / self.T_max)
        return [self.eta_min + (base - self.eta_min) * wave / 2 for base in self.base_lrs]
