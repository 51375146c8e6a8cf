"""Activations and softmax against PyTorch: values, dtypes, first and second derivatives, in-place forms, errors."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from twin import array, equal, fails, same

import mindtorch.torch as mt

CASES = {
    "relu": {},
    "relu6": {},
    "leaky_relu": {"negative_slope": 0.1},
    "elu": {"alpha": 0.7},
    "selu": {},
    "celu": {"alpha": 1.3},
    "gelu": {},
    "silu": {},
    "mish": {},
    "softplus": {"beta": 1.5, "threshold": 3.0},
    "softsign": {},
    "tanhshrink": {},
    "hardtanh": {"min_val": -0.4, "max_val": 0.9},
    "hardsigmoid": {},
    "hardswish": {},
    "hardshrink": {"lambd": 0.3},
    "softshrink": {"lambd": 0.3},
    "threshold": {"threshold": 0.2, "value": -2.0},
    "logsigmoid": {},
    "glu": {},
}


@pytest.mark.parametrize("name", CASES)
def test_float64_with_second_derivative(name: str) -> None:
    same(
        lambda lib, x: getattr(lib.nn.functional, name)(x, **CASES[name]),
        array(6, 8, dtype="float64") * 2,
        double=name != "hardsigmoid",
    )


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_other_dtypes(name: str, dtype: str) -> None:
    same(lambda lib, x: getattr(lib.nn.functional, name)(x, **CASES[name]), (array(6, 8) * 3).astype(dtype))


@pytest.mark.parametrize(
    "name", [n for n in CASES if n not in ("glu", "softsign", "tanhshrink", "softshrink", "threshold")]
)
def test_special_values(name: str) -> None:
    x = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 100.0, -100.0, 1e-20], np.float32)
    same(lambda lib, v: getattr(lib.nn.functional, name)(v), x, grad=name not in ("mish", "silu", "gelu"))


@pytest.mark.parametrize(
    "name", ["relu", "relu6", "leaky_relu", "elu", "selu", "celu", "silu", "mish", "hardtanh", "hardswish"]
)
def test_inplace_argument(name: str) -> None:
    def run(lib, x):  # type: ignore[no-untyped-def]
        y = x * 1
        z = getattr(lib.nn.functional, name)(y, inplace=True)
        assert z is y
        return z

    same(run, array(4, 6))


def test_functions_of_torch_and_methods() -> None:
    same(
        lambda lib, x: (lib.relu(x), x.relu(), lib.selu(x), lib.celu(x, 0.5), lib.hardshrink(x), x.hardshrink(0.2)),
        array(5, 4),
    )
    same(lambda lib, x: lib.threshold(x, 0.1, 7.0), array(5, 4))
    same(lambda lib, x: (x * 1).relu_(), array(5, 4))
    same(lambda lib, x: lib.relu_(x * 1), array(5, 4))


def test_gelu_tanh() -> None:
    same(lambda lib, x: lib.nn.functional.gelu(x, approximate="tanh"), array(6, 8, dtype="float64") * 2, double=True)
    same(lambda lib, x: lib.nn.functional.gelu(x, approximate="tanh"), array(6, 8) * 2)


@pytest.mark.parametrize("shape", [(4, 3, 5), (4, 3), (6,)])
def test_prelu(shape: tuple[int, ...]) -> None:
    n = shape[1] if len(shape) > 1 else 1
    same(
        lambda lib, x, w: lib.nn.functional.prelu(x, w),
        array(*shape, dtype="float64"),
        array(n, dtype="float64"),
        double=True,
    )
    same(lambda lib, x, w: lib.prelu(x, w), array(*shape), array(1))


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "softmin"])
@pytest.mark.parametrize(
    ("shape", "dim"),
    [((5, 7), 1), ((5, 7), 0), ((2, 3, 4), 1), ((2, 3, 4), -1), ((6,), 0), ((), 0), ((0, 3), 1), ((3, 0), 1)],
)
def test_softmax(name: str, shape: tuple[int, ...], dim: int) -> None:
    same(
        lambda lib, x: getattr(lib.nn.functional, name)(x, dim=dim),
        array(*shape, dtype="float64"),
        double=bool(np.prod(shape)),
    )
    same(lambda lib, x: getattr(lib.nn.functional, name)(x, dim=dim), array(*shape))


def test_softmax_dtype_forms_and_guards() -> None:
    same(lambda lib, x: (lib.softmax(x, 1), x.softmax(-1), lib.log_softmax(x, dim=0), x.log_softmax(0)), array(5, 4))
    same(
        lambda lib, x: (lib.softmax(x, 1, dtype=lib.float64), x.softmax(1, lib.float32)), array(5, 4).astype("float16")
    )
    same(lambda lib, x: lib.softmax(x, 1, dtype=lib.float32), np.arange(12).reshape(3, 4), grad=False)
    x = np.array([[1, 2, -np.inf], [np.nan, 1, 2], [np.inf, 1, 2], [-np.inf] * 3, [300, -300, 0]], np.float32)
    same(lambda lib, v: (lib.softmax(v, 1), lib.log_softmax(v, 1), lib.softmax(v, 0)), x, grad=False)
    same(lambda lib, v: lib.log_softmax(v, 1), array(16, 32) * 50)
    same(lambda lib, v: lib.softmax(v.t(), 1), array(16, 32))


def test_softmax_implicit_dim_warns() -> None:
    with pytest.warns(UserWarning, match="Implicit dimension choice for softmax"):
        got = mt.nn.functional.softmax(mt.tensor(array(3, 4)))
    equal(got, mt.softmax(mt.tensor(array(3, 4)), 1), "implicit dim")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mt.nn.functional.softmax(mt.tensor(array(3, 4)), dim=1)


def test_errors() -> None:
    ints = np.arange(4)
    for name in ("gelu", "silu", "elu", "mish", "softplus", "leaky_relu", "hardswish"):
        fails(lambda lib, x, name=name: getattr(lib.nn.functional, name)(x), ints, start=6)
    fails(lambda lib, x: lib.softmax(x, 2), array(2, 3), start=0)
    fails(lambda lib, x: lib.nn.functional.glu(x, 1), array(2, 3))
    fails(lambda lib, x: lib.nn.functional.celu(x, 0.0), array(2, 3))
    fails(lambda lib, x: lib.nn.functional.softshrink(x, -1.0), array(2, 3), start=10)
    fails(lambda lib, x, w: lib.nn.functional.prelu(x, w), array(2, 3), array(2))
    fails(lambda lib, x: lib.nn.functional.gelu(x, approximate="other"), array(2, 3))
