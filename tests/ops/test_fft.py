"""Fourier transforms against PyTorch."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from opinfo_replay import check_op, supported

import mindtorch.torch as mt
import torch

NAMES = """
fft.fft fft.fft2 fft.fftn fft.ifft fft.ifft2 fft.ifftn fft.rfft fft.rfft2 fft.rfftn fft.irfft fft.irfft2 fft.irfftn
fft.hfft fft.hfft2 fft.hfftn fft.ihfft fft.ihfft2 fft.ihfftn fft.fftshift fft.ifftshift
""".split()
DTYPES = [torch.float32, torch.float64, torch.int64, torch.complex64, torch.complex128]


@pytest.mark.parametrize(("name", "dtype"), supported(NAMES, DTYPES), ids=str)
def test_op_db(name: str, dtype: torch.dtype) -> None:
    """Value, dtype and gradient of PyTorch's own samples."""
    assert check_op(name, dtype) > 0


@pytest.mark.parametrize("norm", ["backward", "ortho", "forward"])
@pytest.mark.parametrize("n", [5, 6, 9])
def test_hermitian_round_trip(norm: str, n: int) -> None:
    a = np.random.RandomState(0).standard_normal((2, n)).astype(np.float32)
    back = mt.fft.irfft(mt.fft.rfft(mt.tensor(a), norm=norm), n=n, norm=norm)
    assert back.dtype is mt.float32
    np.testing.assert_allclose(back.numpy(), a, atol=1e-6)


def test_frequencies() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for n in (1, 4, 7):
            np.testing.assert_allclose(mt.fft.fftfreq(n, 0.5).numpy(), torch.fft.fftfreq(n, 0.5).numpy())
            got = mt.fft.rfftfreq(n, dtype=mt.float64)
            np.testing.assert_allclose(got.numpy(), torch.fft.rfftfreq(n, dtype=torch.float64).numpy())


def test_errors() -> None:
    for lib in (torch, mt):
        with pytest.raises(RuntimeError):
            lib.fft.fft(lib.zeros(3), norm="strange")
        with pytest.raises(RuntimeError):
            lib.fft.fft(lib.zeros(3), n=0)
        with pytest.raises(IndexError):
            lib.fft.fft(lib.zeros(3), dim=4)
        with pytest.raises(RuntimeError):
            lib.fft.rfft(lib.zeros(3, dtype=lib.complex64))


def test_second_gradient() -> None:
    a = np.random.RandomState(0).standard_normal(6)
    x, y = torch.tensor(a, requires_grad=True), mt.tensor(a).requires_grad_()
    (g,) = torch.autograd.grad((torch.fft.rfft(x).abs() ** 3).sum(), x, create_graph=True)
    (h,) = mt.autograd.grad((mt.fft.rfft(y).abs() ** 3).sum(), y, create_graph=True)
    (gg,) = torch.autograd.grad(g.sin().sum(), x)
    (hh,) = mt.autograd.grad(h.sin().sum(), y)
    np.testing.assert_allclose(hh.numpy(), gg.numpy(), rtol=1e-7)
