"""``torch.masked`` against PyTorch: values, dtypes, empty masks, integer identities, errors, gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from opinfo_replay import check_op, database

import mindtorch.torch as mt
import torch

NAMES = [n for n in database() if n.startswith("masked.")]
X = np.array([[1.0, 2, 3], [4, 5, 6]], np.float32)
MASK = np.array([[True, False, True], [False, False, False]])


@pytest.mark.parametrize("dtype", [torch.float64, torch.int64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_samples(name: str, dtype: torch.dtype) -> None:
    check_op(name, dtype, limit=12)


def outcome(lib: Any, call: Any) -> Any:
    try:
        r = call(lib, lib.tensor(X.tolist()), lib.tensor(MASK.tolist()))
    except Exception as e:
        return type(e).__name__
    return np.asarray(r.tolist()), str(r.dtype)


CASES = {
    "sum of nothing": lambda t, x, m: t.masked.sum(x, 1, mask=m),
    "sum of uint8": lambda t, x, m: t.masked.sum(x.to(t.uint8), 1, mask=m),
    "all dims": lambda t, x, m: t.masked.sum(x, (), mask=m),
    "kept": lambda t, x, m: t.masked.prod(x, None, keepdim=True, mask=m),
    "repeated dim": lambda t, x, m: t.masked.sum(x, (0, 0), mask=m),
    "dim out of range": lambda t, x, m: t.masked.sum(x, 5, mask=m),
    "mask too deep": lambda t, x, m: t.masked.sum(x[0], 0, mask=m),
    "mask of one row": lambda t, x, m: t.masked.mean(x, 1, mask=m[0]),
    "mask of integers": lambda t, x, m: t.masked.mean(x, 1, mask=m.int()),
    "mask that does not fit": lambda t, x, m: t.masked.mean(x, 1, mask=m[:, :2]),
    "mean of integers": lambda t, x, m: t.masked.mean(x.long(), 1, mask=m),
    "largest of integers": lambda t, x, m: t.masked.amax(x.int(), 1, mask=m),
    "largest of booleans": lambda t, x, m: t.masked.amax(x.bool(), 1, mask=m),
    "position keeps the dtype": lambda t, x, m: t.masked.argmax(x, 1, mask=m),
    "position in all": lambda t, x, m: t.masked.argmin(x, None, keepdim=True, mask=m),
    "median": lambda t, x, m: t.masked.median(x, 1, mask=m),
    "median of integers": lambda t, x, m: t.masked.median(x.long(), 1, mask=m[0]),
    "median of no integers": lambda t, x, m: t.masked.median(x.long(), 1, mask=m),
    "smallest norm": lambda t, x, m: t.masked.norm(x, float("-inf"), 1, mask=m),
    "norm of integers": lambda t, x, m: t.masked.norm(x.long(), 2.0, 1, mask=m),
    "population variance": lambda t, x, m: t.masked.var(x, 1, False, mask=m),
    "correction": lambda t, x, m: t.masked.var(x, 1, correction=5, mask=m),
    "both corrections": lambda t, x, m: t.masked.var(x, 1, True, correction=0, mask=m),
    "deviation of integers": lambda t, x, m: t.masked.std(x.long(), 1, mask=m),
    "softmax": lambda t, x, m: t.masked.softmax(x, 1, mask=m),
    "softmax of integers": lambda t, x, m: t.masked.softmax(x.int(), 1, dtype=t.float64, mask=m),
    "softmin": lambda t, x, m: t.masked.softmin(x, -1, mask=m),
    "running product": lambda t, x, m: t.masked.cumprod(x.int(), 1, mask=m),
    "normalize": lambda t, x, m: t.masked.normalize(x, 2.0, 1, eps=5.0, mask=m),
    "logaddexp": lambda t, x, m: t.masked.logaddexp(x, x[0], input_mask=m, other_mask=m[0]),
    "logsumexp of integers": lambda t, x, m: t.masked.logsumexp(x.int(), 1),
}


@pytest.mark.parametrize("case", CASES)
def test_case(case: str) -> None:
    ours, theirs = outcome(mt, CASES[case]), outcome(torch, CASES[case])
    if isinstance(theirs, str):
        assert ours == theirs
    else:
        assert ours[1] == theirs[1]
        np.testing.assert_allclose(ours[0], theirs[0], 1e-6)


def test_large_integers_keep_every_digit() -> None:
    big = mt.tensor([2**60 + 1, 2**60 + 3, 2**60 + 5])
    assert mt.masked.median(big, 0, mask=mt.tensor([True, True, False])).item() == 2**60 + 1


def test_what_is_no_tensor_is_named() -> None:
    with pytest.raises(TypeError, match="mask must be a Tensor, not list"):
        mt.masked.sum(mt.ones(2), 0, mask=[True, False])
