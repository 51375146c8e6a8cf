"""Reductions, scans and quantiles against PyTorch."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from opinfo_replay import check_op, supported

import mindtorch.torch as mt
import torch

NAMES = """
sum mean prod std var std_mean var_mean max min amax amin aminmax argmax argmin all any nansum nanmean logsumexp
norm count_nonzero median nanmedian quantile nanquantile sum_to_size dist renorm cumsum cumprod cummax cummin
logcumsumexp diff trapezoid cumulative_trapezoid
""".split()
DTYPES = [torch.float32, torch.float64, torch.int64, torch.complex64, torch.bool, torch.bfloat16]


@pytest.mark.parametrize(("name", "dtype"), supported(NAMES, DTYPES), ids=str)
def test_op_db(name: str, dtype: torch.dtype) -> None:
    """Value, dtype and gradient of PyTorch's own samples."""
    # in bfloat16 PyTorch rounds every step of a gradient; its complex gradient of renorm is NaN
    assert check_op(name, dtype, gradients=dtype is not torch.bfloat16 and (name, dtype) != ("renorm", torch.complex64)) > 0


def pair(shape: tuple[int, ...], dtype: str = "float32") -> tuple[torch.Tensor, mt.Tensor]:
    """The same random numbers in both libraries."""
    a = np.random.RandomState(0).standard_normal(shape).astype(dtype)
    return torch.from_numpy(a.copy()), mt.tensor(a)


def same(got: mt.Tensor, want: torch.Tensor, rtol: float = 1e-6, atol: float = 1e-6) -> None:
    """Shape, dtype and values."""
    assert str(got.dtype) == str(want.dtype)
    np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=rtol, atol=atol)


def has_dims(dim: Any, ndim: int) -> bool:
    """Whether a tensor of ``ndim`` dimensions has these, each once."""
    dims = (dim,) if isinstance(dim, int) else dim or ()
    return all(d < ndim for d in dims) and len({d % ndim for d in dims}) == len(dims)


@pytest.mark.parametrize(("shape", "dim"), [
    (shape, dim)
    for shape in [(7,), (300, 5), (4, 3, 6, 5), (2, 100_000), (3000, 40), (0,), (3, 0)]
    for dim in [None, (), 0, -1, (0, -1), (1, 2), (0, 2)]
    if has_dims(dim, len(shape))
])  # fmt: skip
@pytest.mark.parametrize("name", ["sum", "mean"])
def test_sum_dims(name: str, shape: tuple[int, ...], dim: object) -> None:
    t, m = pair(shape)
    for keep in (False, True):
        same(getattr(m, name)(dim, keepdim=keep), getattr(t, name)(dim, keepdim=keep), 2e-5, 3e-5)


def test_large_sum_is_accurate() -> None:
    a = np.random.RandomState(1).uniform(0, 1, 3_000_001).astype(np.float32)
    assert abs(float(mt.tensor(a).sum()) - a.astype(np.float64).sum()) < 0.2
    same(
        mt.tensor(a[:3_000_000].reshape(3000, 1000)).sum(0),
        torch.from_numpy(a[:3_000_000].reshape(3000, 1000)).sum(0),
        1e-6,
    )


def test_sum_dtypes() -> None:
    for d in ("bool", "uint8", "int32", "int64"):
        assert mt.ones(3, dtype=getattr(mt, d)).sum().dtype is mt.int64
    assert mt.ones(3, dtype=mt.bool).sum(dtype=mt.float32).dtype is mt.float32
    assert mt.ones(3).sum(dtype=mt.int32).dtype is mt.int32
    assert mt.ones(3, dtype=mt.bfloat16).sum(dtype=mt.float32).dtype is mt.float32


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda x: x.sum(5), IndexError),
        (lambda x: x.sum((0, 0)), RuntimeError),
        (lambda x: x.long().mean(), RuntimeError),
        (lambda x: x[:0].max(), RuntimeError),
        (lambda x: x[:0].max(0), IndexError),
        (lambda x: x[:0].argmax(), IndexError),
        (lambda x: x.long().std(), RuntimeError),
        (lambda x: x.quantile(2.0), RuntimeError),
        (lambda x: x.amax(7), IndexError),
    ],
)
def test_errors(call: object, error: type[Exception]) -> None:
    """The same exception type as PyTorch's, with a text."""
    with pytest.raises(error):
        call(torch.zeros(3, 2))
    with pytest.raises(error, match=r"."):
        call(mt.zeros(3, 2))


def test_max_forms() -> None:
    t, m = pair((3, 4))
    same(mt.max(m), torch.max(t))
    r = mt.max(m, 1)
    assert type(r).__name__ == "max"
    same(r.values, t.max(1).values)
    same(r.indices, t.max(1).indices)
    same(mt.max(m, -m), torch.max(t, -t))
    same(mt.max(m, other=-m), torch.max(t, other=-t))
    same(m.max(0, True)[0], t.max(0, True)[0])


def test_nan_wins() -> None:
    a = np.array([[1, np.nan, 3], [4, 5, 6]], np.float32)
    t, m = torch.from_numpy(a), mt.tensor(a)
    for call in (
        lambda x: x.max(),
        lambda x: x.max(1).values,
        lambda x: x.max(1).indices,
        lambda x: x.amin(1),
        lambda x: x.argmin(1),
        lambda x: x.median(1).values,
        lambda x: x.nanmedian(1).values,
        lambda x: x.cummax(1).values,
        lambda x: x.cummax(1).indices,
        lambda x: x.nansum(),
        lambda x: x.quantile(0.5, 1),
        lambda x: x.nanquantile(0.5, 1),
    ):
        same(call(m), call(t))


def test_std_overloads() -> None:
    t, m = pair((4, 5))
    for args, kwargs in [
        ((), {}),
        ((False,), {}),
        ((1,), {}),
        ((1, False), {}),
        ((1, False, True), {}),
        (((0, 1),), {"correction": 0}),
        ((), {"dim": 0, "unbiased": False, "keepdim": True}),
        ((0,), {"correction": 2}),
    ]:
        same(m.std(*args, **kwargs), t.std(*args, **kwargs))
        same(mt.var(m, *args, **kwargs), torch.var(t, *args, **kwargs))


def test_std_of_one_element_warns() -> None:
    with pytest.warns(UserWarning, match="degrees of freedom"):
        assert np.isnan(float(mt.ones(1).std()))


@pytest.mark.parametrize(
    "f",
    [
        lambda x: x.amax((0, 1)),
        lambda x: x.max(),
        lambda x: x.max(1)[0],
        lambda x: x.median(),
        lambda x: x.std(1),
        lambda x: x.prod(1),
        lambda x: x.cumprod(0),
        lambda x: x.logsumexp((0, 1)),
        lambda x: x.norm(3, 1),
        lambda x: x.var(),
        lambda x: x.aminmax(dim=0)[1],
    ],
)
def test_second_gradient(f: object) -> None:
    """Gradient of a function of the gradient, ties and zeros included."""
    a = np.array([[1.0, 2.0, 2.0], [0.0, -1.0, 2.0]])
    x, y = torch.tensor(a, requires_grad=True), mt.tensor(a).requires_grad_()
    (g,) = torch.autograd.grad(f(x).sin().sum(), x, create_graph=True)
    (h,) = mt.autograd.grad(f(y).sin().sum(), y, create_graph=True)
    np.testing.assert_allclose(h.detach().numpy(), g.detach().numpy(), rtol=1e-7, atol=1e-9)
    if g.requires_grad:
        (gg,) = torch.autograd.grad((g * g).sum(), x)
        (hh,) = mt.autograd.grad((h * h).sum(), y)
        np.testing.assert_allclose(hh.numpy(), gg.numpy(), rtol=1e-6, atol=1e-8)


def test_no_numpy_warnings() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        x = mt.tensor([np.inf, -np.inf, np.nan, 1.0])
        for name in ("sum", "mean", "prod", "max", "argmax", "logsumexp", "cumsum", "cumprod", "norm"):
            getattr(x, name)(*([0] if name in ("logsumexp", "cumsum", "cumprod") else []))
        mt.empty(0).mean()
