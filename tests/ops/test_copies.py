"""``*_copy`` ops, ``gradient``, ``hash_tensor`` and the low-level spellings of conv, group norm and grid sampling."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from opinfo_replay import check_op, database, to_ours

import mindtorch.torch as mt
import torch

COPIES = [n for n in database() if n.endswith("_copy") and not n.startswith("_") and n != "index_copy"]
OTHERS = ["gradient", "hash_tensor", "grid_sampler_2d", "grid_sampler_3d", "native_group_norm", "native_layer_norm", "resize_as_"]


SAMPLED = [
    (n, d)
    for n in (*COPIES, *OTHERS)
    for d in (torch.float32, torch.int64, torch.complex64)
    if any(d in e.supported_dtypes("cpu") for e in database()[n])
]


@pytest.mark.parametrize(("name", "dtype"), SAMPLED, ids=str)
def test_samples(name: str, dtype: torch.dtype) -> None:
    assert check_op(name, dtype, limit=10)


CALLS = {
    "alias_copy": (), "detach_copy": (), "diagonal_copy": (1,), "expand_copy": ((2, 3, 4),), "permute_copy": ((1, 0),),
    "select_copy": (1, 2), "slice_copy": (1, 0, 3, 2), "split_copy": (2, 1), "split_with_sizes_copy": ([1, 3], 1),
    "squeeze_copy": (), "t_copy": (), "transpose_copy": (0, 1), "unbind_copy": (1,), "unfold_copy": (1, 2, 1),
    "unsqueeze_copy": (1,), "view_copy": ((4, 3),), "narrow_copy": (1, 1, 2), "as_strided_copy": ((2, 2), (1, 2)),
}  # fmt: skip


def several(v: Any) -> list[Any]:
    return list(v) if isinstance(v, (tuple, list)) else [v]


@pytest.mark.parametrize("name", CALLS)
def test_copies_are_contiguous_and_share_nothing(name: str) -> None:
    x = torch.arange(12.0).reshape(3, 4)
    ours = mt.tensor(x.tolist())
    got, want = several(getattr(mt, name)(ours, *CALLS[name])), several(getattr(torch, name)(x, *CALLS[name]))
    for a, b in zip(got, want, strict=True):
        assert a.stride() == b.stride()
        assert a.tolist() == b.tolist()
        a.fill_(-1)
    assert ours.tolist() == x.tolist()


@pytest.mark.parametrize("name", ["transpose_copy", "unbind_copy"])
def test_copies_into_out(name: str) -> None:
    x = mt.arange(12.0).reshape(3, 4)
    want = several(getattr(mt, name)(x, *CALLS[name]))
    out = [mt.empty(w.shape) for w in want]
    getattr(mt, name)(x, *CALLS[name], out=out[0] if len(out) == 1 else out)
    assert [o.tolist() for o in out] == [w.tolist() for w in want]


def test_view_copy_by_dtype() -> None:
    x = torch.arange(4.0)
    assert mt.view_copy(mt.arange(4.0), mt.int32).tolist() == torch.view_copy(x, torch.int32).tolist()
    assert mt.view_copy(mt.arange(4.0), dtype=mt.int32).tolist() == torch.view_copy(x, dtype=torch.int32).tolist()


REFUSED = {
    "spacing of wrong length": (RuntimeError, lambda t, x: t.gradient(x, spacing=[2.0])),
    "too few samples": (RuntimeError, lambda t, x: t.gradient(x, dim=0, edge_order=2)),
    "edge order": (RuntimeError, lambda t, x: t.gradient(x, edge_order=3)),
    "dim twice": (RuntimeError, lambda t, x: t.gradient(x, dim=(0, 0))),
    "uint8": (RuntimeError, lambda t, x: t.gradient(x.to(t.uint8))),
    "0-d coordinates": (RuntimeError, lambda t, x: t.gradient(x, spacing=[t.tensor(2.0), t.tensor(3.0)])),
    "a tensor of spacings": (TypeError, lambda t, x: t.gradient(x, dim=0, spacing=t.tensor([1.0, 2.0]))),
    "hash mode": (RuntimeError, lambda t, x: t.hash_tensor(x, mode=1)),
    "hash of nothing": (RuntimeError, lambda t, x: t.hash_tensor(x[:0])),
    "hash of an empty row": (IndexError, lambda t, x: t.hash_tensor(x[:, :0], 1)),
    "hash of complex": (NotImplementedError, lambda t, x: t.hash_tensor(x.to(t.complex64))),
    "conv_tbc of a matrix": (RuntimeError, lambda t, x: t.conv_tbc(x, x, x[0])),
    "grid of another rank": (RuntimeError, lambda t, x: t.grid_sampler_3d(x[None, None], x[None, :, :2, None], 0, 0, True)),
    "resize of a leaf": (RuntimeError, lambda t, x: t.resize_as_(x.clone().requires_grad_(), x[0])),
    "silu of complex with history": (
        RuntimeError,
        lambda t, x: t.nn.functional.silu(x.to(t.complex64).requires_grad_()),
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case: str) -> None:
    kind, call = REFUSED[case]
    for lib in (torch, mt):
        with pytest.raises(kind):
            call(lib, lib.arange(6.0).reshape(2, 3))


@pytest.mark.parametrize("spacing", [None, 2.0, [2.0, 3.0], "uneven"])
@pytest.mark.parametrize("edge_order", [1, 2])
def test_gradient(spacing: Any, edge_order: int) -> None:
    x = torch.randn(5, 4, dtype=torch.float64)
    at = [torch.tensor([0.0, 1, 3, 4, 9], dtype=torch.float64), torch.tensor([-1.0, 0, 0.5, 2], dtype=torch.float64)]
    theirs = torch.gradient(x, spacing=at if spacing == "uneven" else spacing, edge_order=edge_order)
    at = [to_ours(a) for a in at]
    ours = mt.gradient(to_ours(x), spacing=at if spacing == "uneven" else spacing, edge_order=edge_order)
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), 1e-12, 1e-12)


def test_conv_tbc() -> None:
    torch.manual_seed(0)
    args = [torch.randn(5, 2, 3, requires_grad=True), torch.randn(3, 3, 4, requires_grad=True), torch.randn(4, requires_grad=True)]
    mine = [to_ours(a, grad=True) for a in args]
    theirs, ours = torch.conv_tbc(*args, 1), mt.conv_tbc(*mine, 1)
    np.testing.assert_allclose(ours.detach().numpy(), theirs.detach().numpy(), 1e-5, 1e-5)
    theirs.sum().backward()
    ours.sum().backward()
    for a, b in zip(mine, args):
        np.testing.assert_allclose(a.grad.numpy(), b.grad.numpy(), 1e-5, 1e-5)


@pytest.mark.parametrize("rows", [1, 7])
def test_layer_norm_of_one_element_rounds_as_pytorch(rows: int) -> None:
    for seed in range(20):
        torch.manual_seed(seed)
        x, w, g = (torch.randn(rows, 1) * 9).requires_grad_(), torch.randn(1, requires_grad=True), torch.rand(rows, 1)
        mine = [to_ours(x, True), to_ours(w, True)]
        want = torch.autograd.grad(torch.nn.functional.layer_norm(x, (1,), w), (x, w), g)
        got = mt.autograd.grad(mt.nn.functional.layer_norm(mine[0], (1,), mine[1]), mine, to_ours(g))
        assert got[0].tolist() == want[0].tolist()
        if rows == 1:  # the order of summation over rows is PyTorch's own
            assert got[1].tolist() == want[1].tolist()


GEOMETRIES = {
    "a part": (lambda t: t[5:15], ((2, 2), (1, 2), 0)),
    "transposed": (lambda t: t[:12].reshape(3, 4).t(), ((5, 3), (2, 1), 0)),
    "expanded": (lambda t: t[:4][:, None].expand(4, 3), ((4, 3), (1, 0), 0)),
    "columns": (lambda t: t[4:].reshape(4, 4)[:, 1:3], ((3, 2), (4, 1))),
}


@pytest.mark.parametrize("case", GEOMETRIES)
def test_gradient_of_as_strided_over_any_input(case: str) -> None:
    shown, args = GEOMETRIES[case]
    x = shown(torch.arange(20.0, dtype=torch.float64)).detach().requires_grad_()
    mine = shown(mt.arange(20.0, dtype=mt.float64)).detach().requires_grad_()
    w = torch.randn(args[0], dtype=torch.float64)
    (want,) = torch.autograd.grad((torch.as_strided(x, *args) * w).sum(), x)
    (got,) = mt.autograd.grad((mt.as_strided(mine, *args) * to_ours(w)).sum(), mine)
    np.testing.assert_allclose(got.numpy(), want.numpy(), 1e-12)


def test_second_gradient_of_as_strided() -> None:
    x = mt.randn(6, dtype=mt.float64).requires_grad_()
    assert mt.autograd.gradgradcheck(lambda t: mt.as_strided(t * 1, (3, 3), (1, 1), 0) ** 3, (x,))


def test_float32_trigamma_is_pytorchs_near_the_poles() -> None:
    x = np.random.RandomState(0).uniform(-15, 15, 5000).astype(np.float32)
    x = x[np.abs(x - np.round(x)) > 1e-3]
    np.testing.assert_allclose(mt.polygamma(1, mt.tensor(x)).numpy(), torch.polygamma(1, torch.from_numpy(x)).numpy(), 2e-6)


def test_names_of_sizes_settings_and_errors() -> None:
    for lib in (torch, mt):
        assert (lib.sym_int(-2.7), lib.sym_max(3, 3.0), lib.sym_min(1, 2), lib.sym_float(3)) == (-2, 3.0, 1, 3.0)
        assert (lib.sym_not(True), lib.sym_ite(True, 1, 2), lib.sym_sqrt(4), lib.sym_sum([1, 2])) == (False, 1, 2.0, 3)
        for mode, seen in ((1, (1, True)), ("warn", (1, True)), (2, (2, False)), (0, (0, False))):
            lib.set_deterministic_debug_mode(mode)
            assert (lib.get_deterministic_debug_mode(), lib.is_deterministic_algorithms_warn_only_enabled()) == seen
        with pytest.raises(RuntimeError, match="expected 0, 1, or 2, but got 5"):
            lib.set_deterministic_debug_mode(5)
        assert issubclass(lib.OutOfMemoryError, RuntimeError) and issubclass(lib.AcceleratorError, RuntimeError)
        assert lib.cuda.OutOfMemoryError is lib.OutOfMemoryError
        x = lib.ones(4)
        assert lib.as_strided_(x, (2,), (2,)).shape == (2,) and x.shape == (2,)
        assert lib.get_device(x) == -1 and lib.detach_(x) is x
        assert not lib.is_anomaly_enabled()
    assert mt.utils.model_zoo.load_url is mt.hub.load_state_dict_from_url
