"""repr of tensors equals PyTorch's, over generated tensors and every print option."""
# ruff: noqa: E501 - tables of cases are easier to read unwrapped

import random

import ml_dtypes
import numpy as np
import pytest

import torch
from mindtorch.core import printing

DTYPES = "float32 float64 float16 bfloat16 int64 int32 uint8 bool complex64 complex128 int8 int16 uint16 uint32 uint64".split()
OPTIONS = {
    "precision": [0, 1, 2, 6, 8],
    "threshold": [0, 10, 100, float("inf")],
    "edgeitems": [0, 1, 2, 4],
    "linewidth": [5, 10, 40, 100, 200],
    "profile": ["short", "full", "default"],
    "sci_mode": [True, False, None],
}


@pytest.fixture(autouse=True)
def default_options():
    yield
    torch.set_printoptions(profile="default")
    printing.set_printoptions(profile="default")


def as_array(t):
    t = t.detach()
    if t.dtype == torch.bfloat16:
        return t.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return t.numpy()


def make(rng, dtype, shape):
    x = torch.tensor(rng.standard_normal(shape))
    kind = random.random()
    if kind < 0.2:
        x = x * 10.0 ** rng.integers(-8, 12)
    elif kind < 0.4:
        x = (x * 10).round()
    elif kind < 0.6:
        x = x * torch.tensor(10.0 ** rng.integers(-5, 6, size=shape))
    elif kind < 0.7 and x.numel():
        x.view(-1)[torch.randperm(x.numel())[:2]] = random.choice(
            [float("nan"), float("inf"), -float("inf"), 0.0, -0.0]
        )
    if "complex" in dtype:
        imag = torch.tensor(rng.standard_normal(shape) * random.choice([1, 1e5, 0]))
        x = torch.complex(x, imag.round(decimals=random.choice([0, 8])))
    if dtype == "bool":
        x = x > 0
    if dtype.startswith("uint"):
        x = x.abs()
    return x.to(getattr(torch, dtype))


@pytest.mark.parametrize("seed", range(60))
def test_repr_equals_torch(seed):
    rng = np.random.default_rng(seed)
    random.seed(seed)
    for _ in range(15):
        shape = tuple(random.choice([0, 1, 2, 3, 5, 7, 11, 30]) for _ in range(random.randint(0, 3)))
        if random.random() < 0.05:
            shape = (*shape[:1], 1200)
        dtype = random.choice(DTYPES)
        x = make(rng, dtype, shape)
        if random.random() < 0.2 and x.ndim > 1:
            x = x.transpose(0, -1)
        options = {k: random.choice(OPTIONS[k]) for k in random.sample(list(OPTIONS), random.choice([0, 0, 1, 3]))}
        torch.set_printoptions(**options)
        printing.set_printoptions(**options)
        extra = {}
        if x.is_floating_point() and random.random() < 0.4:
            x = x.clone().requires_grad_()
            extra["requires_grad"] = True
            if random.random() < 0.5:
                x, extra["grad_fn_name"] = x * 1, "MulBackward0"
        assert printing.tensor_str(as_array(x), dtype, **extra) == repr(x), options
        torch.set_printoptions(profile="default")
        printing.set_printoptions(profile="default")


def test_headings_and_special_places():
    one = np.ones(2, np.float32)
    assert printing.tensor_str(one, "float32", requires_grad=True, is_parameter=True) == repr(
        torch.nn.Parameter(torch.ones(2))
    )

    class Sub(torch.Tensor):
        pass

    sub = torch.ones(2, 30).as_subclass(Sub)
    ours = printing.tensor_str(np.ones((2, 30), np.float32), "float32", name="Sub")
    assert ours == repr(sub)
    meta = torch.zeros(2, 3, device="meta", dtype=torch.half, requires_grad=True)
    ours = printing.tensor_str(None, "float16", shape=(2, 3), device="meta", requires_grad=True)
    assert ours == repr(meta)
    torch.set_default_dtype(torch.float64)
    try:
        for x in (torch.ones(2), torch.ones(2, dtype=torch.float32), torch.ones(2) * 1j, torch.ones(0)):
            name = str(x.dtype).removeprefix("torch.")
            assert printing.tensor_str(x.numpy(), name, default_dtype="float64") == repr(x)
    finally:
        torch.set_default_dtype(torch.float32)


def test_options_are_state():
    printing.set_printoptions(precision=2, sci_mode=True)
    assert printing.get_printoptions()["precision"] == 2
    with printing.printoptions(precision=7):
        assert printing.get_printoptions()["precision"] == 7
    assert printing.get_printoptions()["precision"] == 2
    printing.set_printoptions()
    assert printing.get_printoptions() == {
        "precision": 2, "threshold": 1000, "edgeitems": 3, "linewidth": 80, "sci_mode": None,
    }  # fmt: skip
