"""Special functions against PyTorch."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from opinfo_replay import check_op, supported

import mindtorch.torch as mt
import torch

NAMES = """
igamma igammac erf erfc erfinv lgamma digamma polygamma mvlgamma i0 logit xlogy special.i0e special.i1 special.i1e
special.ndtr special.polygamma special.xlog1py special.zeta special.entr special.ndtri special.log_ndtr
special.erfcx special.airy_ai special.bessel_j0 special.bessel_j1 special.bessel_y0 special.bessel_y1
special.chebyshev_polynomial_t special.chebyshev_polynomial_u special.chebyshev_polynomial_v
special.chebyshev_polynomial_w special.hermite_polynomial_h special.hermite_polynomial_he
special.laguerre_polynomial_l special.legendre_polynomial_p special.modified_bessel_i0 special.modified_bessel_i1
special.modified_bessel_k0 special.modified_bessel_k1 special.scaled_modified_bessel_k0
special.scaled_modified_bessel_k1 special.shifted_chebyshev_polynomial_t special.shifted_chebyshev_polynomial_u
special.shifted_chebyshev_polynomial_v special.shifted_chebyshev_polynomial_w special.spherical_bessel_j0
""".split()
DTYPES = [torch.float32, torch.float64, torch.int64, torch.bool, torch.bfloat16]


@pytest.mark.parametrize(("name", "dtype"), supported(NAMES, DTYPES), ids=str)
def test_op_db(name: str, dtype: torch.dtype) -> None:
    """Value, dtype and gradient of PyTorch's own samples."""
    # in bfloat16 PyTorch rounds every step of a gradient
    assert check_op(name, dtype, gradients=dtype is not torch.bfloat16) > 0


EDGE = np.array([0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.5, -2.5, 30.0, -30.0, np.inf, -np.inf, np.nan, 1e-30], np.float32)
NAMES_OF_ONE = """
erf erfc erfinv erfcx ndtr ndtri log_ndtr gammaln digamma i0 i0e i1 i1e entr logit expit sinc exp2 expm1 log1p
bessel_j0 bessel_j1 modified_bessel_i0 modified_bessel_k0 spherical_bessel_j0
""".split()


@pytest.mark.parametrize("name", NAMES_OF_ONE)
def test_edges(name: str) -> None:
    """Zeros, infinities, nan, large arguments; no NumPy warning leaks."""
    want = getattr(torch.special, name)(torch.from_numpy(EDGE)).numpy()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        got = getattr(mt.special, name)(mt.tensor(EDGE)).numpy()
    np.testing.assert_allclose(got, want, rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("degree", [0, 1, 2, 5, 7, 9, 12])
@pytest.mark.parametrize("name", [n.split(".")[1] for n in NAMES if "polynomial" in n])
def test_polynomials(name: str, degree: int) -> None:
    x = np.array([-1.5, -1.0, -0.3, 0.0, 0.4, 1.0, 1.2])
    want = getattr(torch.special, name)(torch.from_numpy(x), degree).numpy()
    got = getattr(mt.special, name)(mt.tensor(x), degree).numpy()
    np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize(
    "name", ["erf", "erfinv", "gammaln", "digamma", "i0", "i1", "ndtr", "ndtri", "log_ndtr", "logit", "entr"]
)
def test_second_gradient(name: str) -> None:
    a = np.array([0.1, 0.3, 0.7, 0.9])
    x, y = torch.tensor(a, requires_grad=True), mt.tensor(a).requires_grad_()
    (g,) = torch.autograd.grad(getattr(torch.special, name)(x).sum(), x, create_graph=True)
    (h,) = mt.autograd.grad(getattr(mt.special, name)(y).sum(), y, create_graph=True)
    (gg,) = torch.autograd.grad(g.sin().sum(), x)
    (hh,) = mt.autograd.grad(h.sin().sum(), y)
    np.testing.assert_allclose(hh.numpy(), gg.numpy(), rtol=1e-5, atol=1e-8)


def test_method_forms() -> None:
    x = mt.tensor([0.5, 1.5])
    assert x.polygamma(1).shape == (2,)
    assert x.erf_().tolist() == pytest.approx([0.5204998, 0.9661051])
    assert mt.tensor(3).lgamma().dtype is mt.float32


def test_large_erf_is_exact() -> None:
    a = np.random.RandomState(0).standard_normal(200_000).astype(np.float32)
    np.testing.assert_allclose(mt.erf(mt.tensor(a)).numpy(), torch.erf(torch.from_numpy(a)).numpy(), atol=2e-7)
