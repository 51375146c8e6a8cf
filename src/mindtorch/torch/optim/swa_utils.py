"""Averages of weights: stochastic weight averaging and exponential moving averages."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable
from copy import deepcopy
from typing import Any

import mindtorch.torch as torch

from .lr_scheduler import LRScheduler
from .lr_scheduler.base import per_group, rates
from .optimizer import Optimizer

__all__ = [
    "SWALR",
    "AveragedModel",
    "get_ema_avg_fn",
    "get_ema_multi_avg_fn",
    "get_swa_avg_fn",
    "get_swa_multi_avg_fn",
    "update_bn",
]


def _check_decay(decay: float) -> None:
    if decay < 0.0 or decay > 1.0:
        raise ValueError(f"Invalid decay value {decay} provided. Please provide a value in [0,1] range.")


def get_ema_avg_fn(decay: float = 0.999) -> Callable:
    """``average, new, count -> decay * average + (1 - decay) * new``."""
    _check_decay(decay)

    @torch.no_grad()
    def ema_update(ema_param: Any, current_param: Any, num_averaged: Any) -> Any:
        return decay * ema_param + (1 - decay) * current_param

    return ema_update


def get_swa_avg_fn() -> Callable:
    """``average, new, count -> average + (new - average) / (count + 1)``."""

    @torch.no_grad()
    def swa_update(averaged_param: Any, current_param: Any, num_averaged: Any) -> Any:
        return averaged_param + (current_param - averaged_param) / (num_averaged + 1)

    return swa_update


def get_ema_multi_avg_fn(decay: float = 0.999) -> Callable:
    """Lists of averages and new values: each average is moved in place by ``1 - decay`` towards its new value."""
    _check_decay(decay)

    @torch.no_grad()
    def ema_update(ema_param_list: list, current_param_list: list, _: Any) -> None:
        for average, new in zip(ema_param_list, current_param_list):
            if torch.is_floating_point(average) or torch.is_complex(average):
                average.lerp_(new, 1 - decay)
            else:
                average.copy_(average * decay + new * (1 - decay))

    return ema_update


def get_swa_multi_avg_fn() -> Callable:
    """Lists of averages and new values: each average is moved in place by ``1 / (count + 1)`` towards its new value."""

    @torch.no_grad()
    def swa_update(averaged_param_list: list, current_param_list: list, num_averaged: Any) -> None:
        weight = 1 / (int(num_averaged) + 1)
        for average, new in zip(averaged_param_list, current_param_list):
            if torch.is_floating_point(average) or torch.is_complex(average):
                average.lerp_(new, weight)
            else:
                average.copy_(average + (new - average) * weight)

    return swa_update


class AveragedModel(torch.nn.Module):
    """A copy of ``model`` (at ``.module``) whose parameters follow the averages of the model given to
    ``update_parameters``.

    The average is equal-weighted unless ``avg_fn`` (one parameter) or ``multi_avg_fn`` (lists) says otherwise. With
    ``use_buffers`` buffers are averaged too, otherwise they are copied.
    """

    n_averaged: Any

    def __init__(
        self,
        model: Any,
        device: Any = None,
        avg_fn: Callable | None = None,
        multi_avg_fn: Callable | None = None,
        use_buffers: bool = False,
    ) -> None:
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise AssertionError("Only one of avg_fn and multi_avg_fn should be provided")
        self.module = deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        self.register_buffer("n_averaged", torch.tensor(0, dtype=torch.long, device=device))
        self.avg_fn = avg_fn
        self.multi_avg_fn = multi_avg_fn
        self.use_buffers = use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.module(*args, **kwargs)

    def _tensors(self, model: Any) -> list:
        if self.use_buffers:
            return list(itertools.chain(model.parameters(), model.buffers()))
        return list(model.parameters())

    def update_parameters(self, model: Any) -> None:
        """Take the present parameters of ``model`` into the average."""
        averages = [t.detach() for t in self._tensors(self.module)]
        values = [t.detach().to(a.device) for a, t in zip(averages, self._tensors(model))]
        if int(self.n_averaged) == 0:
            for average, value in zip(averages, values):
                average.copy_(value)
        elif self.avg_fn is not None:
            for average, value in zip(averages, values):
                average.copy_(self.avg_fn(average, value, self.n_averaged.to(average.device)))
        else:
            multi = self.multi_avg_fn if self.multi_avg_fn is not None else get_swa_multi_avg_fn()
            multi(averages, values, self.n_averaged)
        if not self.use_buffers:
            for own, other in zip(self.module.buffers(), model.buffers()):
                own.detach().copy_(other.detach().to(own.device))
        self.n_averaged += 1


@torch.no_grad()
def update_bn(loader: Iterable[Any], model: Any, device: Any = None) -> None:
    """Recompute the running statistics of the batch norms of ``model`` in one pass over ``loader`` (the inputs, or
    tuples whose first entry is the input)."""
    from mindtorch.torch.nn.modules.batchnorm import _BatchNorm

    norms = [m for m in model.modules() if isinstance(m, _BatchNorm)]
    if not norms:
        return
    was_training = model.training
    model.train()
    momenta = {m: m.momentum for m in norms}
    for m in norms:
        m.reset_running_stats()
        # No momentum means a cumulative average over all batches.
        m.momentum = None
    for batch in loader:
        x = batch[0] if isinstance(batch, (list, tuple)) else batch
        model(x.to(device) if device is not None else x)
    for m, momentum in momenta.items():
        m.momentum = momentum
    model.train(was_training)


class SWALR(LRScheduler):
    """Move the rates to ``swa_lr`` in ``anneal_epochs`` epochs (cosine or linear) and keep them there."""

    def __init__(
        self,
        optimizer: Optimizer,
        swa_lr: float | list[float],
        anneal_epochs: int = 10,
        anneal_strategy: str = "cos",
        last_epoch: int = -1,
    ) -> None:
        for group, lr in zip(optimizer.param_groups, per_group("swa_lr", optimizer, swa_lr)):
            group["swa_lr"] = lr
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"anneal_strategy must by one of 'cos' or 'linear', instead got {anneal_strategy}")
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(f"anneal_epochs must be equal or greater than 0, got {anneal_epochs}")
        self._anneal_strategy = anneal_strategy
        self.anneal_epochs = anneal_epochs
        super().__init__(optimizer, last_epoch)

    def _weight(self, part: float) -> float:
        return (1 - math.cos(math.pi * part)) / 2 if self._anneal_strategy == "cos" else part

    def get_lr(self) -> list:
        """The rate moved on from the previous epoch's mixture of start rate and ``swa_lr``."""
        self._warn_get_lr_called_within_step()
        step = self._step_count - 1
        span = self.anneal_epochs
        before = self._weight(max(0, min(1, (step - 1) / max(1, span)))) if span else 1
        now = self._weight(max(0, min(1, step / max(1, span)))) if span else 1
        values = []
        for lr, end in zip(rates(self.optimizer), rates(self.optimizer, "swa_lr")):
            start = lr if before == 1 else (lr - before * end) / (1 - before)
            values.append(end * now + start * (1 - now))
        return values
