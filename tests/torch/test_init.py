"""nn.init against PyTorch: same numbers, same draws, same warnings and errors."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import mindtorch.torch as mt
import torch
from mindtorch.torch.nn import init

ref = torch.nn.init

CALLS = [
    ("uniform_", (4, 5), {}),
    ("uniform_", (4, 5), {"a": -2.0, "b": 3.0}),
    ("normal_", (4, 5), {}),
    ("normal_", (3,), {"mean": 1.0, "std": 0.2}),
    ("constant_", (3,), {"val": 0.3}),
    ("ones_", (3, 2), {}),
    ("zeros_", (3, 2), {}),
    ("eye_", (3, 5), {}),
    ("dirac_", (4, 2, 3), {}),
    ("dirac_", (4, 2, 3, 3), {"groups": 2}),
    ("xavier_uniform_", (4, 5, 3), {}),
    ("xavier_normal_", (4, 5), {"gain": 1.4}),
    ("kaiming_uniform_", (6, 5), {"a": 5**0.5}),
    ("kaiming_uniform_", (6, 5, 3, 3), {"mode": "fan_out", "nonlinearity": "relu"}),
    ("kaiming_normal_", (6, 5, 3), {"nonlinearity": "tanh"}),
    ("sparse_", (10, 4), {"sparsity": 0.4}),
    ("trunc_normal_", (7, 6), {}),
    ("trunc_normal_", (50,), {"std": 0.02}),
    ("trunc_normal_", (50,), {"a": -0.5, "b": 0.5}),
    ("trunc_normal_", (50,), {"a": -0.2, "b": 0.3}),
    ("trunc_normal_", (50,), {"a": 1.0, "b": 3.0}),
    ("trunc_normal_", (20,), {"mean": 3.9, "std": 1.0}),
]


@pytest.mark.parametrize("name, shape, kwargs", CALLS)
def test_same_numbers(name, shape, kwargs):
    for seed in (0, 3):
        mt.manual_seed(seed)
        torch.manual_seed(seed)
        a, b = mt.zeros(*shape), torch.zeros(*shape)
        assert getattr(init, name)(a, **kwargs) is a
        getattr(ref, name)(b, **kwargs)
        np.testing.assert_array_equal(a.numpy(), b.numpy())
        assert mt.get_rng_state().numpy().tobytes() == torch.get_rng_state().numpy().tobytes()


@pytest.mark.parametrize("shape", [(3, 5), (5, 3), (4, 2, 3), (6, 6)])
def test_orthogonal(shape):
    mt.manual_seed(1)
    torch.manual_seed(1)
    a, b = mt.zeros(*shape), torch.zeros(*shape)
    init.orthogonal_(a, gain=1.5)
    ref.orthogonal_(b, gain=1.5)
    np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=0, atol=2e-6)


def test_generators_are_used():
    for name in ("uniform_", "normal_", "xavier_uniform_", "kaiming_normal_", "trunc_normal_"):
        a, b = mt.zeros(4, 5), torch.zeros(4, 5)
        getattr(init, name)(a, generator=mt.Generator().manual_seed(9))
        getattr(ref, name)(b, generator=torch.Generator().manual_seed(9))
        np.testing.assert_array_equal(a.numpy(), b.numpy())


def test_parameters_can_be_filled():
    p = mt.nn.Parameter(mt.zeros(3, 3))
    assert init.normal_(p) is p
    assert p.is_leaf and p.requires_grad


@pytest.mark.parametrize(
    "kind", ["linear", "conv2d", "conv_transpose3d", "sigmoid", "tanh", "relu", "leaky_relu", "selu"]
)
def test_gain(kind):
    assert init.calculate_gain(kind) == ref.calculate_gain(kind)
    assert init.calculate_gain("leaky_relu", 0.2) == ref.calculate_gain("leaky_relu", 0.2)


BAD = [
    ("calculate_gain", ("foo",)),
    ("calculate_gain", ("leaky_relu", True)),
    ("xavier_uniform_", ((3,),)),
    ("eye_", ((3,),)),
    ("dirac_", ((3, 3),)),
    ("dirac_", ((3, 3, 3), 2)),
    ("orthogonal_", ((3,),)),
    ("sparse_", ((3,), 0.1)),
    ("kaiming_normal_", ((3, 3), 0, "x")),
]


@pytest.mark.parametrize("name, args", BAD)
def test_errors(name, args):
    texts = []
    for m, mod in ((torch, ref), (mt, init)):
        values = [m.zeros(*v) if isinstance(v, tuple) else v for v in args]
        with pytest.raises(ValueError) as info:
            getattr(mod, name)(*values)
        texts.append(str(info.value))
    assert texts[0] == texts[1]


def test_warnings():
    with pytest.warns(UserWarning, match="zero-element tensors is a no-op"):
        init.kaiming_uniform_(mt.zeros(0, 3))
    with pytest.warns(UserWarning, match="mean is more than 2 std from"):
        init.trunc_normal_(mt.zeros(2), mean=4.1)
    with pytest.warns(FutureWarning, match="`nn.init.uniform` is now deprecated"):
        init.uniform(mt.zeros(2))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        init.xavier_normal_(mt.zeros(0, 3))
