"""Joining, repeating, mirroring, re-arranging and grids against PyTorch."""

from __future__ import annotations

import numpy as np
import pytest
from opinfo_replay import check_op, compare, database

import mindtorch.torch as mt
import torch

NAMES = ["cat", "concat", "concatenate", "stack", "hstack", "vstack", "dstack", "column_stack", "repeat", "tile", "repeat_interleave", "flip", "fliplr", "flipud", "roll", "rot90", "tril", "triu", "tril_indices", "triu_indices", "diag", "diag_embed", "diagflat", "meshgrid", "cartesian_prod", "combinations", "broadcast_tensors", "broadcast_to", "broadcast_shapes", "atleast_1d", "atleast_2d", "atleast_3d", "flatten", "unflatten", "ravel", "movedim", "moveaxis", "hsplit", "vsplit", "dsplit", "narrow_copy", "unsafe_split", "unsafe_chunk", "vander"]
DTYPES = [torch.float32, torch.int64, torch.complex64, torch.bool, torch.bfloat16]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", [n for n in NAMES if n in database()])
def test_opinfo(name: str, dtype: torch.dtype) -> None:
    check_op(name, dtype, limit=6)


CASES = [
    lambda lib, x: lib.cat([x, lib.tensor([])]),
    lambda lib, x: lib.cat([x, x.double()]),
    lambda lib, x: lib.cat([x.long(), x > 1], 1),
    lambda lib, x: lib.cat([x, lib.zeros(0, 3)]),
    lambda lib, x: lib.cat((x, x), dim=-1),
    lambda lib, x: lib.cat(tensors=[x, x], dim=1),
    lambda lib, x: lib.concat([x, x], axis=1),
    lambda lib, x: lib.stack([x, x.long()]),
    lambda lib, x: lib.stack((x, x, x), 2),
    lambda lib, x: lib.stack([lib.tensor(1.0), lib.tensor(2.0)]),
    lambda lib, x: lib.row_stack([x, x[0]]),
    lambda lib, x: x.repeat(2, 1, 2),
    lambda lib, x: x.repeat((2, 1)),
    lambda lib, x: x.tile(2),
    lambda lib, x: lib.tile(x, (2, 1, 1)),
    lambda lib, x: x.repeat_interleave(2, dim=1),
    lambda lib, x: lib.repeat_interleave(lib.tensor([1, 0, 2])),
    lambda lib, x: x.repeat_interleave(lib.tensor([1, 3]), 0, output_size=4),
    lambda lib, x: x.flip(0, 1),
    lambda lib, x: lib.flip(x, (1,)),
    lambda lib, x: lib.flip(x, dims=[0]),
    lambda lib, x: x.roll(1),
    lambda lib, x: x.roll((1, -1), (0, 1)),
    lambda lib, x: x.roll(shifts=1, dims=1),
    lambda lib, x: x.rot90(),
    lambda lib, x: lib.rot90(x, -1, [0, 1]),
    lambda lib, x: x.tril(),
    lambda lib, x: x.triu(diagonal=1),
    lambda lib, x: lib.tril_indices(3, 4, 1),
    lambda lib, x: lib.triu_indices(3, 4, -1, dtype=lib.int32),
    lambda lib, x: x.diag(),
    lambda lib, x: lib.diag(x[0], -1),
    lambda lib, x: lib.combinations(x[0], with_replacement=True),
    lambda lib, x: lib.cartesian_prod(x[0], x[1]),
    lambda lib, x: x.flatten(),
    lambda lib, x: lib.flatten(x, start_dim=1),
    lambda lib, x: x.unflatten(1, (3, -1)),
    lambda lib, x: x.movedim(0, 1),
    lambda lib, x: x.ravel(),
    lambda lib, x: lib.vander(x[0], 4),
    lambda lib, x: lib.atleast_3d(x),
    lambda lib, x: lib.hann_window(9),
    lambda lib, x: lib.hamming_window(9, False),
    lambda lib, x: lib.hamming_window(8, True, 0.6, 0.3),
    lambda lib, x: lib.blackman_window(8, dtype=lib.float64),
    lambda lib, x: lib.bartlett_window(7),
    lambda lib, x: lib.kaiser_window(8, True, beta=5.0),
]


@pytest.mark.parametrize("case", range(len(CASES)))
def test_cases(case: int) -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    compare(f"case {case}", CASES[case](mt, mt.tensor(x)), CASES[case](torch, torch.from_numpy(x)))


BAD = [
    lambda lib, x: lib.cat([x, x[0]]),
    lambda lib, x: lib.cat([x, x.t()]),
    lambda lib, x: lib.cat([lib.tensor(1.0), lib.tensor(2.0)]),
    lambda lib, x: lib.cat([x, x], 5),
    lambda lib, x: lib.cat([x, 1]),
    lambda lib, x: lib.stack([]),
    lambda lib, x: lib.stack([x, x[0]]),
    lambda lib, x: lib.stack([x, x], 5),
    lambda lib, x: x.repeat(2),
    lambda lib, x: x.repeat(-1, 2),
    lambda lib, x: x.repeat_interleave(-1),
    lambda lib, x: x.repeat_interleave(lib.tensor([1, 2, 3]), 0),
    lambda lib, x: x.flip(0, 0),
    lambda lib, x: x.flip(5),
    lambda lib, x: x.roll((1, 2), (0,)),
    lambda lib, x: x.roll(1, 5),
    lambda lib, x: x.rot90(1, (0, 0)),
    lambda lib, x: x[0].tril(),
    lambda lib, x: lib.ones(2, 2, 2).diag(),
    lambda lib, x: x.diag_embed(0, 0, 0),
    lambda lib, x: lib.meshgrid(x, x, indexing="ij"),
    lambda lib, x: lib.meshgrid(x[0], indexing="foo"),
    lambda lib, x: lib.broadcast_to(x, (4,)),
    lambda lib, x: lib.broadcast_shapes((2, 3), (4,)),
    lambda lib, x: lib.broadcast_tensors(x, lib.ones(4)),
    lambda lib, x: x.flatten(1, 0),
    lambda lib, x: x.flatten(5),
    lambda lib, x: x.unflatten(1, (2, 2)),
    lambda lib, x: x.movedim((0, 0), (0, 1)),
    lambda lib, x: x.hsplit(2),
    lambda lib, x: x.dsplit(2),
    lambda lib, x: lib.tril_indices(-1, 2),
    lambda lib, x: lib.hann_window(-1),
]


@pytest.mark.parametrize("case", range(len(BAD)))
def test_errors(case: int) -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    with pytest.raises(Exception) as theirs:
        BAD[case](torch, torch.from_numpy(x))
    with pytest.raises(theirs.type):
        BAD[case](mt, mt.tensor(x))


def test_cat_gradient_over_views_and_dtypes() -> None:
    def run(lib):  # type: ignore[no-untyped-def]
        x = lib.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
        y = lib.tensor([[1.0], [2.0]], dtype=lib.float64, requires_grad=True)
        z = lib.cat([x.t(), y, x], 1)
        (z * z).sum().backward()
        return x.grad, y.grad

    for a, b in zip(run(mt), run(torch)):
        compare("cat gradient", a, b)


def test_flatten_and_movedim_are_views() -> None:
    x = mt.zeros(2, 3, 4)
    x.flatten(1)[0, 5] = 1
    x.movedim(0, -1)[2, 3, 1] = 2
    assert x[0, 1, 1] == 1
    assert x[1, 2, 3] == 2


@pytest.mark.parametrize(
    "name", ["bartlett", "blackman", "cosine", "exponential", "gaussian", "general_hamming", "hamming", "hann", "kaiser", "nuttall"]
)
@pytest.mark.parametrize("sym", [True, False])
def test_signal_windows(name: str, sym: bool) -> None:
    for n in (0, 1, 2, 7, 16):
        a = getattr(mt.signal.windows, name)(n, sym=sym)
        b = getattr(torch.signal.windows, name)(n, sym=sym)
        compare(name, a, b)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kw", [{}, {"center": False}, {"normalized": True}, {"win_length": 12}, {"onesided": False},
                                {"pad_mode": "constant"}, {"hop_length": 3}])  # fmt: skip
def test_stft_and_back(kw: dict) -> None:
    x = np.random.RandomState(0).randn(2, 80).astype(np.float32)

    def run(lib):  # type: ignore[no-untyped-def]
        t = lib.tensor(x, requires_grad=True)
        w = lib.hann_window(kw.get("win_length", 16))
        s = lib.stft(t, 16, window=w, return_complex=True, **kw)
        s.abs().pow(2).sum().backward()
        back = {k: v for k, v in kw.items() if k != "pad_mode"}
        y = lib.istft(s, 16, window=w, **back) if kw.get("center", True) else s
        return s, t.grad, y

    for a, b in zip(run(mt), run(torch)):
        compare("stft", a, b, scale=10)
