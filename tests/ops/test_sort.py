"""Ordering, unique values, search and histograms against PyTorch."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from opinfo_replay import check_op, supported

import mindtorch.torch as mt
import torch

NAMES = """
sort argsort msort topk kthvalue mode unique unique_consecutive searchsorted bucketize histc histogram histogramdd
bincount isin
""".split()
DTYPES = [torch.float32, torch.float64, torch.int64, torch.bool]


@pytest.mark.parametrize(("name", "dtype"), supported(NAMES, DTYPES), ids=str)
def test_op_db(name: str, dtype: torch.dtype) -> None:
    """Value, dtype and gradient of PyTorch's own samples."""
    assert check_op(name, dtype) > 0


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "int64", "bool", "float16"])
def test_stable_order(dtype: str, descending: bool) -> None:
    a = np.random.RandomState(0).randint(0, 3, (3, 50)).astype(dtype)
    want = torch.sort(torch.from_numpy(a), stable=True, dim=1, descending=descending)
    got = mt.sort(mt.tensor(a), stable=True, dim=1, descending=descending)
    assert np.array_equal(got.values.numpy(), want.values.numpy())
    assert np.array_equal(got.indices.numpy(), want.indices.numpy())


def test_nan_is_largest() -> None:
    a = np.array([1.0, np.nan, -np.inf, np.inf, np.nan, 0.0], np.float32)
    t, m = torch.from_numpy(a), mt.tensor(a)
    for call in (
        lambda x: x.sort()[0],
        lambda x: x.sort(descending=True)[0],
        lambda x: x.sort()[1],
        lambda x: x.topk(3)[0],
        lambda x: x.topk(2, largest=False)[0],
        lambda x: x.kthvalue(5)[0],
        lambda x: x.argsort(descending=True),
    ):
        np.testing.assert_array_equal(call(m).numpy(), call(t).numpy())


def test_topk_of_many() -> None:
    a = np.random.RandomState(0).standard_normal((4, 3000)).astype(np.float32)
    for largest in (True, False):
        want, got = torch.from_numpy(a).topk(7, 1, largest), mt.tensor(a).topk(7, 1, largest)
        assert np.array_equal(got.values.numpy(), want.values.numpy())
        assert np.array_equal(got.indices.numpy(), want.indices.numpy())


def test_unique_forms() -> None:
    a = np.array([[2, 1, 2], [3, 1, 2], [2, 1, 2]])
    t, m = torch.from_numpy(a), mt.tensor(a)
    assert isinstance(mt.unique(m), mt.Tensor)
    for kwargs in ({"return_inverse": True, "return_counts": True}, {"return_counts": True, "dim": 0}, {"dim": 1}):
        want, got = torch.unique(t, **kwargs), mt.unique(m, **kwargs)
        assert isinstance(got, tuple) == isinstance(want, tuple)
        for w, g in zip(want, got, strict=True) if isinstance(want, tuple) else [(want, got)]:
            assert np.array_equal(g.numpy(), w.numpy())


def test_errors() -> None:
    for lib in (torch, mt):
        x = lib.zeros(3)
        with pytest.raises(RuntimeError):
            x.topk(4)
        with pytest.raises(RuntimeError):
            x.kthvalue(4)
        with pytest.raises(IndexError):
            x.sort(3)
        with pytest.raises(RuntimeError):
            lib.bincount(lib.tensor([-1]))
        with pytest.raises(RuntimeError):
            lib.searchsorted(lib.zeros(2, 3), lib.zeros(3, 3))


def test_scalars_and_warnings() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert int(mt.searchsorted(mt.tensor([1.0, 2.0, 3.0]), 2.5)) == 2
        assert int(mt.bucketize(2, mt.tensor([1, 2, 3]))) == 1
        assert mt.isin(mt.tensor([1, 2]), 2).tolist() == [False, True]
