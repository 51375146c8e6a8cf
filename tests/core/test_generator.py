"""Generators: seeds, PyTorch's state bytes both ways, clones, and interleaved draws."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import mindtorch.torch as mt
import torch
from mindtorch.core.generator import Generator


def ours(g=None) -> bytes:
    return (mt.get_rng_state() if g is None else g.get_state()).numpy().tobytes()


def theirs(g=None) -> bytes:
    return (torch.get_rng_state() if g is None else g.get_state()).numpy().tobytes()


@pytest.mark.parametrize("seed", [0, 1, 5, 123456789, -1, 2**40 + 7, 2**64 - 1, -(2**63)])
def test_state_bytes_after_seeding(seed):
    mt.manual_seed(seed)
    torch.manual_seed(seed)
    assert ours() == theirs()
    assert mt.initial_seed() == torch.initial_seed()


@pytest.mark.parametrize("draws", [1, 2, 623, 624, 625, 1300])
def test_state_bytes_after_draws(draws):
    mt.manual_seed(3)
    torch.manual_seed(3)
    mt.rand(draws)
    torch.rand(draws)
    assert ours() == theirs()


def test_state_travels_both_ways():
    torch.manual_seed(7)
    torch.randn(5)
    torch.rand(700)
    mt.set_rng_state(mt.from_numpy(torch.get_rng_state().numpy().copy()))
    for n in (1, 4, 30):
        np.testing.assert_array_equal(mt.randn(n).numpy(), torch.randn(n).numpy())
    mt.manual_seed(9)
    mt.randn(3)
    torch.set_rng_state(torch.from_numpy(mt.get_rng_state().numpy().copy()))
    for n in (1, 4, 30):
        np.testing.assert_array_equal(mt.randn(n).numpy(), torch.randn(n).numpy())
    assert ours() == theirs()


def test_bad_states_raise():
    with pytest.raises(TypeError, match="ByteTensor"):
        mt.set_rng_state(mt.zeros(3))
    with pytest.raises(RuntimeError, match="5056"):
        mt.set_rng_state(mt.zeros(3, dtype=mt.uint8))
    with pytest.raises(RuntimeError, match="Invalid mt19937 state"):
        mt.set_rng_state(mt.zeros(5056, dtype=mt.uint8))


@pytest.mark.parametrize("seed", [2**64, -(2**63) - 1])
def test_seeds_out_of_range(seed):
    with pytest.raises(ValueError, match="Overflow"):
        mt.manual_seed(seed)
    with pytest.raises(ValueError, match="Overflow"):
        Generator().manual_seed(seed)


def test_seed_types():
    with pytest.raises(RuntimeError, match="expected a long, but got float"):
        Generator().manual_seed(1.5)
    assert mt.manual_seed(1.5).initial_seed() == 1
    assert mt.manual_seed(np.int64(4)).initial_seed() == 4


def test_generator_objects():
    g, h = mt.Generator(), torch.Generator()
    assert g.initial_seed() == h.initial_seed()
    assert ours(g) == theirs(h)
    assert g.manual_seed(2) is g
    h.manual_seed(2)
    np.testing.assert_array_equal(mt.randperm(50, generator=g).numpy(), torch.randperm(50, generator=h).numpy())
    c, d = g.clone_state(), h.clone_state()
    np.testing.assert_array_equal(mt.rand(3, generator=g).numpy(), torch.rand(3, generator=h).numpy())
    np.testing.assert_array_equal(mt.rand(3, generator=c).numpy(), torch.rand(3, generator=d).numpy())
    assert ours(c) == ours(g)
    assert str(g.device) == "cpu"
    value = g.seed()
    assert g.initial_seed() == value
    with pytest.raises(TypeError, match="generator"):
        mt.rand(2, generator=3)


def test_pickle_and_deepcopy_keep_the_place():
    g = mt.Generator().manual_seed(4)
    mt.randn(3, generator=g)
    for other in (pickle.loads(pickle.dumps(g)), copy.deepcopy(g)):
        assert ours(other) == ours(g)


def test_fork_rng():
    mt.manual_seed(0)
    before = ours()
    with mt.random.fork_rng():
        mt.rand(5)
        assert ours() != before
    assert ours() == before
    with mt.random.fork_rng(enabled=False):
        mt.rand(5)
    assert ours() != before


def test_cached_normal_survives_other_draws():
    for seed in range(5):
        mt.manual_seed(seed)
        torch.manual_seed(seed)
        for n in (1, 3, 2, 16, 5, 17, 1, 1, 40):
            np.testing.assert_array_equal(mt.randn(n).numpy(), torch.randn(n).numpy())
            np.testing.assert_array_equal(mt.rand(n).numpy(), torch.rand(n).numpy())
            np.testing.assert_array_equal(mt.randperm(n).numpy(), torch.randperm(n).numpy())
        assert ours() == theirs()
