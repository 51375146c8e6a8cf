"""Pooling against PyTorch."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from twin import array, fails, same

import mindtorch.torch as mt
import torch

SIZES = {1: (11,), 2: (8, 9), 3: (5, 6, 7)}


def _f(name: str, *args, **kw):  # type: ignore[no-untyped-def]
    return lambda lib, *t: getattr(lib.nn.functional, name)(*t, *args, **kw)


def _ties(d: int) -> np.ndarray:
    """Repeated values, NaN and infinities."""
    x = np.round(array(2, 3, *SIZES[d]))
    x.flat[5] = x.flat[6] = np.nan
    x.flat[20] = -np.inf
    return x


@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize("ceil_mode", [False, True])
@pytest.mark.parametrize(
    ("k", "s", "p", "dilation"), [(2, None, 0, 1), (3, 2, 1, 1), (2, 1, 1, 2), (3, 1, 0, 1), (2, 3, 0, 1)]
)
def test_max_pool(d: int, k: int, s: int | None, p: int, dilation: int, ceil_mode: bool) -> None:
    args = (k, s, p, dilation, ceil_mode)
    same(_f(f"max_pool{d}d", *args), array(2, 3, *SIZES[d]), double=True)
    same(_f(f"max_pool{d}d", *args, return_indices=True), _ties(d))
    same(_f(f"max_pool{d}d", *args), _ties(d), grad=False)


def test_max_pool_dtypes_and_forms() -> None:
    x = array(3, 8, 8)
    same(_f("max_pool2d", 2), x)
    same(_f("max_pool2d", 2), (x * 10).astype("int64"), grad=False)
    same(_f("max_pool2d", (2, 3), (1, 2)), x.astype("float16"))
    same(lambda lib, x: lib.max_pool2d(x.to(lib.bfloat16), 2), x, grad=False)
    same(lambda lib, x: lib.max_pool1d_with_indices(x[0], 2), x)
    same(_f("max_pool2d_with_indices", 2), x)
    same(_f("max_pool2d", 2), array(0, 2, 4, 4), grad=False)


@pytest.mark.parametrize("d", [1, 2, 3])
def test_max_unpool(d: int) -> None:
    def run(lib, x):  # type: ignore[no-untyped-def]
        f = lib.nn.functional
        y, i = getattr(f, f"max_pool{d}d")(x, 2, return_indices=True)
        return getattr(f, f"max_unpool{d}d")(y, i, 2), getattr(f, f"max_unpool{d}d")(y, i, 2, output_size=x.shape)

    same(run, array(2, 3, *(6,) * d), double=True)


@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize(("ceil_mode", "count"), list(itertools.product((False, True), (False, True))))
@pytest.mark.parametrize(("k", "s", "p"), [(2, None, 0), (3, 2, 1), (3, 1, 1), (2, 3, 0)])
def test_avg_pool(d: int, k: int, s: int | None, p: int, ceil_mode: bool, count: bool) -> None:
    same(_f(f"avg_pool{d}d", k, s, p, ceil_mode, count), array(2, 3, *SIZES[d]), double=True)
    if d > 1:
        same(_f(f"avg_pool{d}d", k, s, p, ceil_mode, count, divisor_override=3), array(2, 3, *SIZES[d]))


def test_avg_pool_dtypes() -> None:
    x = array(1, 2, 6, 6)
    same(_f("avg_pool2d", 2), (x * 100).astype("int64"), grad=False)
    same(_f("avg_pool2d", 3, 1), x.astype("float16"))
    same(_f("avg_pool2d", 3, 1), x.astype("float64"))


@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize("size", [1, 2, 3, 5, 9])
def test_adaptive(d: int, size: int) -> None:
    same(_f(f"adaptive_avg_pool{d}d", size), array(2, 3, *(6, 8, 5)[:d]), double=True)
    same(_f(f"adaptive_avg_pool{d}d", size), _ties(d), grad=False)
    same(_f(f"adaptive_max_pool{d}d", size), array(2, 3, *(6, 8, 5)[:d]), double=True)
    same(_f(f"adaptive_max_pool{d}d", size, return_indices=True), _ties(d))


def test_adaptive_forms() -> None:
    x = array(2, 3, 6, 8)
    same(_f("adaptive_avg_pool2d", (None, 3)), x)
    same(_f("adaptive_avg_pool2d", 2), array(3, 6, 8))
    same(lambda lib, x: lib.adaptive_max_pool1d(x[0], 3), x)
    same(lambda lib, x: lib.adaptive_avg_pool1d(x[0], 3), x)
    same(_f("adaptive_max_pool2d_with_indices", 2), x)


@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize("p", [2.0, 3])
def test_lp_pool(d: int, p: float) -> None:
    same(_f(f"lp_pool{d}d", p, 2), np.abs(array(2, 3, *SIZES[d])) + 0.1, tol=(1e-4, 1e-4))


@pytest.mark.parametrize("d", [2, 3])
def test_fractional_max_pool(d: int) -> None:
    samples = np.random.default_rng(1).random((2, 3, d)).astype("float32")
    x = array(2, 3, *(9, 10, 8)[:d])

    def run(lib, x):  # type: ignore[no-untyped-def]
        f = getattr(lib.nn.functional, f"fractional_max_pool{d}d")
        return f(x, 2, output_size=(4, 5, 3)[:d], return_indices=True, _random_samples=lib.tensor(samples))

    same(run, x)

    def random(lib, x):  # type: ignore[no-untyped-def]
        lib.manual_seed(3)
        return getattr(lib.nn.functional, f"fractional_max_pool{d}d")(x, 3, output_ratio=(0.5, 0.5, 0.6)[:d])

    same(random, x)


def test_channels_last_is_kept() -> None:
    x = array(2, 3, 6, 8)
    for name, args in (
        ("max_pool2d", (2,)),
        ("avg_pool2d", (2,)),
        ("adaptive_avg_pool2d", (3,)),
        ("adaptive_max_pool2d", (3,)),
    ):
        got, want = (
            getattr(lib.nn.functional, name)(lib.tensor(x).contiguous(memory_format=lib.channels_last), *args)
            for lib in (mt, torch)
        )
        assert got.stride() == want.stride(), name


def test_graph_names() -> None:
    x = mt.tensor(array(1, 2, 4, 4)).requires_grad_()
    assert mt.nn.functional.max_pool2d(x, 2).grad_fn.name() == "MaxPool2DWithIndicesBackward0"
    assert mt.nn.functional.avg_pool2d(x, 2).grad_fn.name() == "AvgPool2DBackward0"


BAD = [
    ("max_pool2d", (1, 2, 6, 6), (2,), {"padding": 2}),
    ("max_pool2d", (1, 2, 6, 6), (8,), {}),
    ("avg_pool2d", (1, 2, 6, 6), (8,), {}),
    ("avg_pool2d", (1, 2, 6, 6), (2,), {"padding": 2}),
    ("max_pool2d", (1, 2, 6, 6), (2, 0), {}),
    ("avg_pool2d", (1, 2, 6, 6), (2, 0), {}),
    ("max_pool2d", (6, 6), (2,), {}),
    ("max_pool1d", (1, 2, 6, 6), (2,), {}),
    ("avg_pool1d", (1, 2, 6, 6), (2,), {}),
    ("max_pool3d", (2, 6, 6), (2,), {}),
    ("max_pool2d", (1, 2, 6, 6), ((2, 2, 2),), {}),
    ("max_pool2d", (1, 2, 6, 6), (2, (1, 1, 1)), {}),
    ("avg_pool2d", (1, 2, 6, 6), (2,), {"divisor_override": 0}),
    ("max_pool2d", (1, 0, 6, 6), (2,), {}),
    ("adaptive_avg_pool2d", (6, 6), (2,), {}),
    ("adaptive_avg_pool2d", (1, 2, 6, 6), (-1,), {}),
    ("adaptive_avg_pool2d", (1, 2, 6, 6), ((2, 2, 2),), {}),
    ("adaptive_max_pool2d", (6, 6), (2,), {}),
    ("fractional_max_pool2d", (1, 2, 6, 6), (2,), {}),
    ("fractional_max_pool2d", (1, 2, 6, 6), (2,), {"output_size": 6}),
]


@pytest.mark.parametrize("case", range(len(BAD)))
def test_errors(case: int) -> None:
    name, shape, args, kw = BAD[case]
    fails(_f(name, *args, **kw), array(*shape), start=30)


def test_unpool_errors() -> None:
    ones = np.ones((1, 1, 2, 2), "float32")
    fails(_f("max_unpool2d", 2), ones, np.full((1, 1, 2, 2), 99))
    fails(_f("max_unpool2d", 2), ones, np.full((1, 1, 2, 3), 1))
    fails(_f("max_unpool2d", 2, output_size=(9, 9)), ones, np.full((1, 1, 2, 2), 1))
