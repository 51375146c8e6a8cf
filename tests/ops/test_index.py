"""Reading and writing through indices against PyTorch."""

from __future__ import annotations

import numpy as np
import pytest
from opinfo_replay import check_op, compare, database

import mindtorch.torch as mt
import torch

NAMES = ["index_select", "gather", "take", "take_along_dim", "masked_select", "nonzero", "argwhere", "scatter", "scatter_add", "scatter_reduce", "index_add", "index_copy", "index_fill", "index_reduce", "index_put", "masked_fill", "masked_scatter", "put", "select_scatter", "slice_scatter", "diagonal_scatter", "as_strided_scatter"]
DTYPES = [torch.float32, torch.int64, torch.complex64, torch.bool, torch.bfloat16]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", [n for n in NAMES if n in database()])
def test_opinfo(name: str, dtype: torch.dtype) -> None:
    check_op(name, dtype, limit=6)


X = np.random.RandomState(0).randn(3, 4).astype(np.float32)


def both(f):  # type: ignore[no-untyped-def]
    """``f(lib, x)`` on both sides."""
    return f(mt, mt.tensor(X)), f(torch, torch.from_numpy(X.copy()))


INPLACE = [
    lambda lib, x: x.index_add_(0, lib.tensor([2, 0, 2]), lib.ones(3, 4), alpha=2),
    lambda lib, x: x.index_copy_(1, lib.tensor([3, 0]), lib.ones(3, 2)),
    lambda lib, x: x.index_fill_(1, lib.tensor([-1, 0]), 7),
    lambda lib, x: x.index_put_((lib.tensor([0, 1]), lib.tensor([1, 1])), lib.tensor(5.0)),
    lambda lib, x: x.index_put_((lib.tensor([0, 0]),), lib.ones(4), accumulate=True),
    lambda lib, x: x.scatter_(1, lib.tensor([[0], [1], [2]]), lib.ones(3, 1)),
    lambda lib, x: x.scatter_(1, lib.tensor([[0], [1], [2]]), 9.0),
    lambda lib, x: x.scatter_(1, lib.tensor([[0], [1], [2]]), value=9.0),
    lambda lib, x: x.scatter_(1, lib.tensor([[0], [1], [2]]), 2.0, reduce="multiply"),
    lambda lib, x: x.scatter_add_(0, lib.tensor([[0, 0, 1, 2]]), lib.ones(1, 4)),
    lambda lib, x: x.scatter_reduce_(0, lib.tensor([[0, 0, 1, 2]]), lib.ones(1, 4), "amax"),
    lambda lib, x: x.masked_fill_(x > 0, float("-inf")),
    lambda lib, x: x.masked_scatter_(x > 0, lib.arange(12.0)),
    lambda lib, x: x.put_(lib.tensor([0, -1]), lib.tensor([1.0, 2.0])),
    lambda lib, x: x.fill_diagonal_(3),
    lambda lib, x: lib.zeros(7, 3).fill_diagonal_(3, wrap=True),
    lambda lib, x: x.index_reduce_(0, lib.tensor([0, 0]), lib.ones(2, 4) * 3, "prod"),
    lambda lib, x: x[1:].masked_fill_(lib.tensor([True, False, True, False]), 0.5),
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", range(len(INPLACE)))
def test_inplace(case: int) -> None:
    def run(lib, x):  # type: ignore[no-untyped-def]
        got = INPLACE[case](lib, x)
        return got, x

    (a, x), (b, y) = both(run)
    compare("result", a, b)
    compare("tensor written to", x, y)


BAD = [
    lambda lib, x: x.index_select(0, lib.tensor([5])),
    lambda lib, x: x.index_select(0, lib.tensor([[0]])),
    lambda lib, x: x.index_select(0, lib.tensor([0.0])),
    lambda lib, x: x.gather(1, lib.tensor([[4]])),
    lambda lib, x: x.gather(1, lib.tensor([[-1]])),
    lambda lib, x: x.gather(1, lib.tensor([0])),
    lambda lib, x: x.gather(7, lib.tensor([[0]])),
    lambda lib, x: x.take(lib.tensor([12])),
    lambda lib, x: x.take(lib.tensor([0.0])),
    lambda lib, x: x.scatter(1, lib.tensor([[4]]), 1.0),
    lambda lib, x: x.scatter(1, lib.tensor([[0]]), lib.ones(3, 4, dtype=lib.float64)),
    lambda lib, x: x.scatter(1, lib.tensor([[0, 0]]), lib.ones(1, 1)),
    lambda lib, x: x.scatter_reduce(1, lib.tensor([[0]]), lib.ones(1, 1), "foo"),
    lambda lib, x: x.index_add(0, lib.tensor([3]), lib.ones(1, 4)),
    lambda lib, x: x.index_add(0, lib.tensor([0]), lib.ones(2, 4)),
    lambda lib, x: x.index_copy(0, lib.tensor([5]), lib.ones(1, 4)),
    lambda lib, x: x.index_fill(0, lib.tensor([5]), 1.0),
    lambda lib, x: x.index_put((lib.tensor([5]),), lib.tensor(1.0)),
    lambda lib, x: x.index_put((lib.tensor([0]),), lib.tensor(1)),
    lambda lib, x: x.masked_fill(x > 0, lib.tensor([1.0])),
    lambda lib, x: x.masked_fill(x, 1.0),
    lambda lib, x: x.masked_fill(lib.tensor([True] * 5), 1.0),
    lambda lib, x: x.masked_select(x),
    lambda lib, x: x.masked_scatter(x < 100, lib.tensor([1.0])),
    lambda lib, x: x.put(lib.tensor([12]), lib.tensor([1.0])),
    lambda lib, x: x.select_scatter(lib.ones(4), 0, 5),
    lambda lib, x: x.select_scatter(lib.ones(3), 0, 0),
    lambda lib, x: x.take_along_dim(lib.tensor([0]), 1),
]


@pytest.mark.parametrize("case", range(len(BAD)))
def test_errors(case: int) -> None:
    with pytest.raises(Exception) as theirs:
        BAD[case](torch, torch.from_numpy(X.copy()))
    with pytest.raises(theirs.type):
        BAD[case](mt, mt.tensor(X))


def test_out_of_range_index_is_named() -> None:
    with pytest.raises(RuntimeError, match="index 9 is out of bounds for dimension 1 with size 4"):
        mt.tensor(X).gather(1, mt.tensor([[9]]))


def test_large_gather_and_scatter() -> None:
    r = np.random.RandomState(0)
    x, s = r.randn(200, 300).astype(np.float32), r.randn(200, 300).astype(np.float32)
    i = r.randint(0, 300, (200, 300))
    rows = r.randint(0, 200, 5000)
    big = r.randn(5000, 300).astype(np.float32)

    def run(lib):  # type: ignore[no-untyped-def]
        xt, st, it = lib.tensor(x, requires_grad=True), lib.tensor(s, requires_grad=True), lib.tensor(i)
        g, a = xt.gather(1, it), xt.scatter_add(1, it, st)
        b = xt.index_add(0, lib.tensor(rows), lib.tensor(big))
        (g.sum() + (a * a).sum() + (b * b).sum()).backward()
        return g, a, b, xt.grad, st.grad

    for a, b in zip(run(mt), run(torch)):
        compare("large", a, b, scale=50)


def test_nonzero_forms() -> None:
    (a, b), (c, d) = both(lambda lib, x: x.nonzero(as_tuple=True)), both(lambda lib, x: (x > 0).nonzero(as_tuple=True))
    for p, q in [*zip(a, b), *zip(c, d)]:
        compare("nonzero", p, q)
    assert mt.tensor(5.0).nonzero().shape == (1, 0)
    assert mt.nonzero(mt.tensor(0.0)).shape == (0, 0)
