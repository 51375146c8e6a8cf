"""Where rows say that they differ from PyTorch: they do, and in the way they say. One that fails here may drop its note."""

from __future__ import annotations

import math
import pathlib

import numpy as np
import pytest
from scipy import special

import mindtorch.torch as mt
import torch
from mindtorch.ops.table import ROWS

NOTES = {row.name: row.note for row in ROWS if row.note}


@pytest.mark.parametrize("name", ["sort", "argsort", "topk", "kthvalue", "mode"])
def test_rows_say_that_their_indices_are_those_of_a_stable_sort(name):
    assert "stable sort" in NOTES[name]


def test_the_default_sort_is_stable_here_and_not_in_pytorch():
    x = torch.randint(0, 5, (200,), generator=torch.Generator().manual_seed(0))
    stable = x.sort(stable=True)[1]
    assert torch.equal(torch.from_numpy(mt.tensor(x.numpy()).sort()[1].numpy()), stable)
    assert not torch.equal(x.sort()[1], stable)


@pytest.mark.parametrize("name", ["fmod", "remainder"])
def test_division_leaves_the_exact_rest(name):
    assert "exact" in NOTES[name]
    a, b = np.float32(1.7782794e28), np.float32(1e-16)
    ours = getattr(mt, name)(mt.tensor([a] * 40), mt.tensor([b] * 40)).numpy()
    assert (ours == np.float32(math.fmod(float(a), float(b)))).all()
    assert getattr(torch, name)(torch.tensor([a] * 40), torch.tensor([b] * 40)).isnan().any()


@pytest.mark.parametrize(("name", "exact"), [("bessel_j0", special.j0), ("bessel_y1", special.y1), ("airy_ai", lambda x: special.airy(x)[0])])
def test_special_functions_are_right_where_pytorch_is_off(name, exact):
    assert "right to rounding" in NOTES[name]
    x = np.linspace(2.0, 8.0, 2001)
    x = -x if name == "airy_ai" else x
    want = exact(x)
    assert np.abs(getattr(mt.special, name)(mt.tensor(x)).numpy() - want).max() < 1e-13
    assert np.abs(getattr(torch.special, name)(torch.tensor(x)).numpy() - want).max() > 5e-8


def test_airy_far_away_is_pytorchs():
    x = np.array([1e7, -1e7, 3e6, -3e6])
    np.testing.assert_allclose(mt.special.airy_ai(mt.tensor(x)).numpy(), torch.special.airy_ai(torch.tensor(x)).numpy(), rtol=1e-5, atol=0)


def test_half_precision_is_nearer_to_the_exact_result():
    assert "rounded once" in NOTES["conv_nd"]
    g = torch.Generator().manual_seed(1)
    x, w = torch.randn(1, 8, 6, 6, generator=g).bfloat16(), torch.randn(8, 4, 3, 3, generator=g).bfloat16()
    exact = torch.nn.functional.conv_transpose2d(x.double(), w.double(), stride=2)
    ours = mt.nn.functional.conv_transpose2d(mt.tensor(x.float().numpy()).bfloat16(), mt.tensor(w.float().numpy()).bfloat16(), stride=2)
    error = (torch.from_numpy(ours.double().numpy()) - exact).abs()
    assert bool((error <= exact.abs() * 2.0**-8 + 1e-5).all())  # half a unit in the last place of 8 bits, and float32's own


def test_the_page_lists_every_note():
    page = pathlib.Path(__file__).parents[2].joinpath("docs", "conformance.md").read_text(encoding="utf-8")
    assert len(NOTES) > 20
    for name in NOTES:
        assert f"- `{name}`: " in page, f"run `make conformance`: {name} is not on the page"
