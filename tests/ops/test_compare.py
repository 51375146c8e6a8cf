"""Comparisons, logic and ``where`` against PyTorch."""

from __future__ import annotations

import operator

import numpy as np
import pytest
from opinfo_replay import check_op, compare, database

import mindtorch.torch as mt
import torch

NAMES = ["eq", "ne", "lt", "le", "gt", "ge", "isclose", "allclose", "equal", "logical_and", "logical_or", "logical_xor", "where"]
DTYPES = [torch.float32, torch.int64, torch.complex64, torch.bool, torch.bfloat16]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", [n for n in NAMES if n in database()])
def test_opinfo(name: str, dtype: torch.dtype) -> None:
    check_op(name, dtype, limit=6)


@pytest.mark.parametrize("op", ["eq", "ne", "lt", "le", "gt", "ge"])
def test_operators(op: str) -> None:
    f = getattr(operator, op)
    for other in (2, 1.5, [1.0, 2.0, 5.0]):
        a, b = mt.tensor([1.0, 2.0, float("nan")]), torch.tensor([1.0, 2.0, float("nan")])
        if isinstance(other, list):
            compare(op, f(a, mt.tensor(other)), f(b, torch.tensor(other)))
        else:
            compare(op, f(a, other), f(b, other))
            compare(op, f(other, a), f(other, b))
            compare(op, f(a.long(), other), f(b.long(), other))


def test_equality_with_other_objects() -> None:
    x = mt.tensor([1, 2])
    assert (x == "a") is False
    assert (x == None) is False
    assert (x != None) is True
    assert x in [x]
    with pytest.raises(TypeError):
        x < None  # noqa: B015
    with pytest.raises(RuntimeError, match="must match the size of tensor b"):
        x == mt.tensor([1, 2, 3])  # noqa: B015


@pytest.mark.parametrize("name", ["greater", "greater_equal", "less", "less_equal", "not_equal"])
def test_long_names(name: str) -> None:
    a, b = mt.tensor([1, 2, 3]), torch.tensor([1, 2, 3])
    compare(name, getattr(mt, name)(a, 2), getattr(torch, name)(b, 2))
    compare(name, getattr(a, name)(2), getattr(b, name)(2))


def test_inplace_comparison_keeps_dtype() -> None:
    x = mt.tensor([1.0, 3.0])
    assert x.gt_(2) is x
    compare("gt_", x, torch.tensor([1.0, 3.0]).gt_(2))
    compare("logical_or_", mt.tensor([0, 3]).logical_or_(mt.tensor([0, 0])), torch.tensor([0, 1]))


WHERE = [
    lambda lib, c, x: lib.where(c, x, 1),
    lambda lib, c, x: lib.where(c, x, 0.5),
    lambda lib, c, x: lib.where(c, float("-inf"), x),
    lambda lib, c, x: lib.where(c, 1, 2),
    lambda lib, c, x: lib.where(c, 1.0, 2),
    lambda lib, c, x: lib.where(c, x, lib.tensor(1.0, dtype=lib.float64)),
    lambda lib, c, x: lib.where(c, x, x.double()),
    lambda lib, c, x: lib.where(c[0], x, x[:1]),
    lambda lib, c, x: x.where(c, x * 2),
    lambda lib, c, x: x.where(c, 3),
    lambda lib, c, x: lib.where(c, x.long(), 0.5),
    lambda lib, c, x: lib.where(c.byte(), x, x),
    lambda lib, c, x: lib.where(c)[1],
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", range(len(WHERE)))
def test_where(case: int) -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    got = WHERE[case](mt, mt.tensor(x) > 2, mt.tensor(x))
    want = WHERE[case](torch, torch.from_numpy(x) > 2, torch.from_numpy(x))
    compare(f"where {case}", got, want)


def test_where_gradients_broadcast() -> None:
    def run(lib):  # type: ignore[no-untyped-def]
        x = lib.tensor([[1.0, -2.0], [3.0, -4.0]], requires_grad=True)
        y = lib.tensor([5.0], requires_grad=True)
        lib.where(x > 0, x, y).sum().backward()
        return x.grad, y.grad

    for a, b in zip(run(mt), run(torch)):
        compare("where gradient", a, b)


def test_where_errors() -> None:
    x = mt.tensor([1.0])
    with pytest.raises(RuntimeError, match="boolean"):
        mt.where(x, x, x)
    with pytest.raises(TypeError):
        mt.where(x > 0, x)


def test_closeness() -> None:
    a, b = mt.tensor([1.0, float("inf"), float("nan")]), mt.tensor([1.0 + 1e-7, float("inf"), float("nan")])
    assert mt.allclose(a, b, equal_nan=True)
    assert not mt.allclose(a, b)
    assert mt.isclose(a, b).tolist() == [True, True, False]
    assert mt.equal(mt.tensor([1, 2]), mt.tensor([1, 2]))
    assert not mt.equal(mt.tensor([1, 2]), mt.tensor([1]))
    with pytest.raises(RuntimeError, match="did not match"):
        mt.isclose(a, b.double())
