"""Networks and training steps the tests of graphs share."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import mindtorch.torch as torch
import mindtorch.torch.nn.functional as F
from mindtorch.torch import nn


class LeNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.c1, self.norm, self.c2 = nn.Conv2d(1, 6, 5), nn.BatchNorm2d(6), nn.Conv2d(6, 16, 5)
        self.head, self.drop = nn.Linear(256, 10), nn.Dropout(0.5)

    def forward(self, x: Any) -> Any:
        x = F.max_pool2d(F.relu(self.norm(self.c1(x))), 2)
        x = F.max_pool2d(F.relu(self.c2(x)), 2)
        return self.head(self.drop(torch.flatten(x, 1)))


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rnn, self.head = nn.LSTM(4, 8, 2, batch_first=True), nn.Linear(8, 2)

    def forward(self, x: Any) -> Any:
        return self.head(self.rnn(x)[0][:, -1])


def mlp() -> Any:
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))


def encoder() -> Any:
    return nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)


SHAPES: dict[str, tuple[Callable[[], Any], tuple[int, ...]]] = {
    "mlp": (mlp, (5, 8)),
    "inplace": (lambda: nn.Sequential(nn.Linear(8, 16), nn.ReLU(inplace=True), nn.Linear(16, 4)), (5, 8)),
    "lenet": (LeNet, (2, 1, 28, 28)),
    "encoder": (encoder, (2, 5, 16)),
    "lstm": (Recurrent, (3, 5, 4)),
}


def step(model: Any, call: Any, x: Any, opt: Any, seed: int) -> list[Any]:
    """One training step. Output, input gradient, parameters, their gradients and buffers as arrays."""
    torch.manual_seed(seed)
    x = x.clone().requires_grad_()
    opt.zero_grad()
    y = call(x)
    (y * y).sum().backward()
    opt.step()
    state = [y.detach(), x.grad, *(p.detach() for p in model.parameters()), *(p.grad for p in model.parameters()), *model.buffers()]
    return [t.numpy().copy() for t in state]


def pair(make: Callable[[], Any]) -> tuple[Any, Any]:
    """A model and its twin."""
    torch.manual_seed(0)
    model = make()
    return model, copy.deepcopy(model)
