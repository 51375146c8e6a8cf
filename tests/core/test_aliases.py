"""An alias of an operation has its own name and the operation's code."""

from __future__ import annotations

import pytest

import mindtorch.torch as mt
import torch

NAMES = ["true_divide", "divide", "multiply", "subtract", "negative", "absolute", "arcsin", "greater", "ger", "fix", "concat"]


@pytest.mark.parametrize("name", NAMES)
def test_name(name: str) -> None:
    assert getattr(mt, name).__name__ == getattr(torch, name).__name__ == name
    if hasattr(torch.Tensor, name):
        assert getattr(mt.Tensor, name).__name__ == name


def test_alias_runs_the_generated_code_of_its_target() -> None:
    x = mt.tensor([1.0, 2.0], requires_grad=True)
    y = mt.multiply(x, x)
    y.sum().backward()
    assert x.grad.tolist() == [2.0, 4.0] and y.grad_fn.name() == "MulBackward0"
    mt.mul(x, x)
    same = {"co_code", "co_consts", "co_names", "co_filename"}
    assert all(getattr(mt.multiply.__code__, k) == getattr(mt.mul.__code__, k) for k in same)
