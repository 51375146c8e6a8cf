"""Matrix products, norms, factorisations and solves against PyTorch."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from opinfo_replay import check_op, supported

import mindtorch.torch as mt
import torch

NAMES = """
matmul __rmatmul__ mm bmm mv dot vdot inner outer addmm addmv addbmm baddbmm addr einsum tensordot kron cdist cross
trace block_diag cov corrcoef cholesky cholesky_inverse cholesky_solve geqrf logdet lu lu_solve lu_unpack
matrix_exp ormqr pinverse qr svd triangular_solve linalg.cholesky linalg.cholesky_ex linalg.cond linalg.cross
linalg.det linalg.diagonal linalg.eig linalg.eigh linalg.eigvals linalg.eigvalsh linalg.householder_product
linalg.inv linalg.inv_ex linalg.ldl_factor linalg.ldl_factor_ex linalg.ldl_solve linalg.lstsq linalg.lu
linalg.lu_factor linalg.lu_factor_ex linalg.lu_solve linalg.matrix_norm linalg.matrix_power linalg.matrix_rank
linalg.multi_dot linalg.norm linalg.pinv linalg.qr linalg.slogdet linalg.solve linalg.solve_ex
linalg.solve_triangular linalg.svd linalg.svdvals linalg.tensorinv linalg.tensorsolve linalg.vander linalg.vecdot
linalg.vector_norm
""".split()
DTYPES = [torch.float64, torch.complex128, torch.int64, torch.float32]


@pytest.mark.parametrize(("name", "dtype"), supported(NAMES, DTYPES), ids=str)
def test_op_db(name: str, dtype: torch.dtype) -> None:
    """Value, dtype and gradient of PyTorch's own samples."""
    assert check_op(name, dtype) > 0


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((3,), (3,)),
        ((2, 3), (3,)),
        ((3,), (3, 4)),
        ((2, 3), (3, 4)),
        ((5, 2, 3), (3, 4)),
        ((5, 2, 3), (3,)),
        ((3,), (5, 3, 4)),
        ((5, 2, 3), (5, 3, 4)),
        ((5, 1, 2, 3), (6, 3, 4)),
        ((2, 0), (0, 3)),
        ((0, 2, 3), (3, 4)),
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "int64", "complex64"])
def test_matmul_shapes(a: tuple[int, ...], b: tuple[int, ...], dtype: str) -> None:
    r = np.random.RandomState(0)
    x, y = (r.standard_normal(s).astype(dtype) * 2 for s in (a, b))
    x, y = x.astype(dtype), y.astype(dtype)
    want, got = torch.from_numpy(x) @ torch.from_numpy(y), mt.tensor(x) @ mt.tensor(y)
    assert str(got.dtype) == str(want.dtype)
    np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("ij,jk->ik", [(2, 3), (3, 4)]),
        ("ij,jk", [(2, 3), (3, 4)]),
        ("ii", [(3, 3)]),
        ("ii->i", [(3, 3)]),
        ("ij->ji", [(2, 3)]),
        ("...ij,...jk->...ik", [(5, 2, 3), (3, 4)]),
        ("bhqd,bhkd->bhqk", [(2, 3, 4, 5), (2, 3, 6, 5)]),
        ("i,j->ij", [(2,), (3,)]),
        ("ij,kj,lj->ikl", [(2, 3), (4, 3), (5, 3)]),
        ("ij->", [(2, 3)]),
        ("b i j , b j -> b i", [(2, 3, 4), (2, 4)]),
        ("bn,anm,bm->ba", [(2, 3), (4, 3, 5), (2, 5)]),
        ("ij,ij->i", [(2, 3), (2, 3)]),
        ("...,...", [(2, 3), (3,)]),
        ("ijk,jil->kl", [(2, 3, 4), (3, 2, 5)]),
        ("aab,b->a", [(3, 3, 2), (2,)]),
    ],
)
def test_einsum(equation: str, shapes: list[tuple[int, ...]]) -> None:
    r = np.random.RandomState(0)
    arrays = [r.standard_normal(s) for s in shapes]
    want = torch.einsum(equation, *[torch.from_numpy(a) for a in arrays])
    got = mt.einsum(equation, *[mt.tensor(a) for a in arrays])
    np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-9, atol=1e-9)


def test_einsum_sublists() -> None:
    a, b = np.random.RandomState(0).standard_normal((2, 3)), np.random.RandomState(1).standard_normal((3, 4))
    got = mt.einsum(mt.tensor(a), [0, 1], mt.tensor(b), [1, 2], [2, 0])
    np.testing.assert_allclose(got.numpy(), (a @ b).T)
    got = mt.einsum(mt.tensor(a), [..., 1], mt.tensor(b), [1, 2])
    np.testing.assert_allclose(got.numpy(), a @ b)


@pytest.mark.parametrize(
    "call",
    [
        lambda t: t.zeros(2, 3) @ t.zeros(2, 3),
        lambda t: t.mm(t.zeros(2, 3), t.zeros(3)),
        lambda t: t.bmm(t.zeros(2, 3, 4), t.zeros(3, 4, 5)),
        lambda t: t.zeros(2, 3).double() @ t.zeros(3, 2),
        lambda t: t.dot(t.zeros(2), t.zeros(3)),
        lambda t: t.linalg.inv(t.zeros(2, 2)),
        lambda t: t.linalg.solve(t.zeros(2, 2), t.zeros(2)),
        lambda t: t.linalg.cholesky(-t.eye(2)),
        lambda t: t.linalg.det(t.zeros(2, 3)),
        lambda t: t.einsum("ij,jk->ik", t.zeros(2, 3)),
        lambda t: t.einsum("ij->iz", t.zeros(2, 3)),
        lambda t: t.linalg.qr(t.zeros(3)),
    ],
)
def test_errors(call: object) -> None:
    for lib in (torch, mt):
        with pytest.raises(RuntimeError, match=r"."):
            call(lib)
    with pytest.raises(mt.linalg.LinAlgError):
        mt.linalg.inv(mt.zeros(2, 2))


def test_addmm_beta_zero_ignores_nan() -> None:
    r = mt.addmm(mt.full((2, 2), float("nan")), mt.ones(2, 3), mt.ones(3, 2), beta=0, alpha=2)
    assert r.tolist() == [[6.0, 6.0], [6.0, 6.0]]


def test_low_rank() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        a = np.random.RandomState(0).standard_normal((8, 3)) @ np.random.RandomState(1).standard_normal((3, 6))
        u, s, v = mt.svd_lowrank(mt.tensor(a), q=4)
        np.testing.assert_allclose((u @ mt.diag(s) @ v.T).numpy(), a, atol=1e-6)
        torch.manual_seed(0)
        mt.manual_seed(0)
        want, got = torch.pca_lowrank(torch.from_numpy(a), q=2), mt.pca_lowrank(mt.tensor(a), q=2)
        np.testing.assert_allclose(got[1].numpy(), want[1].numpy(), rtol=1e-5)


@pytest.mark.parametrize(
    "name", ["inv", "det", "cholesky", "matrix_exp", "svdvals", "eigvalsh", "slogdet", "qr", "pinv"]
)
def test_second_gradient(name: str) -> None:
    a = np.random.RandomState(0).standard_normal((3, 3))
    a = a @ a.T + np.eye(3)

    def f(lib: object, x: object) -> object:
        r = getattr(lib.linalg, name)(x)
        r = r[1] if isinstance(r, tuple) else r
        return r.sin().sum()

    x, y = torch.tensor(a, requires_grad=True), mt.tensor(a).requires_grad_()
    (g,) = torch.autograd.grad(f(torch, x), x, create_graph=True)
    (h,) = mt.autograd.grad(f(mt, y), y, create_graph=True)
    np.testing.assert_allclose(h.detach().numpy(), g.detach().numpy(), rtol=1e-6, atol=1e-8)
    (gg,) = torch.autograd.grad((g * g).sum(), x)
    (hh,) = mt.autograd.grad((h * h).sum(), y)
    np.testing.assert_allclose(hh.numpy(), gg.numpy(), rtol=1e-4, atol=1e-6)
