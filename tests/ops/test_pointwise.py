"""Element-wise operations against PyTorch: OpInfo samples, precision, in-place and out forms, operators, errors."""

from __future__ import annotations

import operator

import numpy as np
import pytest
from opinfo_replay import check_op, compare, database, to_ours

import mindtorch.torch as mt
import torch

UNARY = ["abs", "sign", "sgn", "signbit", "positive", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "square", "reciprocal", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "sinc", "sigmoid", "floor", "ceil", "round", "trunc", "frac", "deg2rad", "rad2deg", "nan_to_num", "isnan", "isinf", "isfinite", "isposinf", "isneginf", "isreal", "logical_not", "bitwise_not", "angle", "frexp", "conj_physical"]
BINARY = ["pow", "float_power", "atan2", "fmod", "remainder", "floor_divide", "hypot", "copysign", "nextafter", "ldexp", "logaddexp", "logaddexp2", "maximum", "minimum", "fmax", "fmin", "heaviside", "gcd", "lcm", "lerp", "addcmul", "addcdiv", "clamp", "clamp_min", "clamp_max", "bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_left_shift", "bitwise_right_shift", "polar", "complex", "rsub", "__rpow__", "__rmod__", "__rand__", "__ror__", "__rxor__"]
DTYPES = [torch.float32, torch.int64, torch.complex64, torch.bool, torch.bfloat16]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", [n for n in UNARY + BINARY if n in database()])
def test_opinfo(name: str, dtype: torch.dtype) -> None:
    # The gradient of ldexp's exponent sums products rounded to 8 bits, which nearly cancel.
    check_op(name, dtype, limit=6, scale=10 if (name, dtype) == ("ldexp", torch.bfloat16) else 1)


def ulps(a: np.ndarray, b: np.ndarray) -> int:
    x, y = a.view(np.int32).astype(np.int64), b.view(np.int32).astype(np.int64)
    x, y = (np.where(v < 0, -(v & 0x7FFFFFFF), v) for v in (x, y))
    return int(np.abs(x - y)[np.isfinite(a) & np.isfinite(b)].max())


@pytest.mark.parametrize(
    ("name", "limit"),
    [("exp", 2), ("log", 4), ("sin", 2), ("tanh", 2), ("sqrt", 1), ("rsqrt", 1), ("expm1", 2), ("log1p", 2), ("exp2", 2),
     ("atan", 2), ("sigmoid", 4), ("square", 0), ("reciprocal", 0), ("erf", 8)],
)  # fmt: skip
def test_float32_precision(name: str, limit: int) -> None:
    x = np.abs(np.random.RandomState(0).randn(5000).astype(np.float32)) * 3
    got = getattr(mt, name)(mt.tensor(x)).numpy()
    want = getattr(torch, name)(torch.from_numpy(x)).numpy()
    assert ulps(got, want) <= limit


def test_fused_multiply_add_rounds_once() -> None:
    r = np.random.RandomState(1)
    x, y, z = (r.randn(3000).astype(np.float32) for _ in range(3))
    for f in (
        lambda lib, a, b, c: lib.addcmul(a, b, c, value=0.1),
        lambda lib, a, b, c: lib.lerp(a, b, 0.3),
        lambda lib, a, b, c: lib.lerp(a, b, 0.7),
        lambda lib, a, b, c: lib.addcdiv(a, b, c, value=-0.1),
    ):
        got = f(mt, *map(mt.tensor, (x, y, z))).numpy()
        want = f(torch, *map(torch.from_numpy, (x, y, z))).numpy()
        assert (got == want).all()


INPLACE = [n for n in UNARY if hasattr(torch.Tensor, n + "_")]


@pytest.mark.parametrize("name", INPLACE)
def test_inplace_writes_through(name: str) -> None:
    data = [0.25, -0.5, 0.75, 1.0]
    theirs, ours = torch.tensor(data), mt.tensor(data)
    if name == "bitwise_not":
        theirs, ours = theirs.long(), ours.long()
    view = ours[1:]
    got = getattr(ours, name + "_")()
    getattr(theirs, name + "_")()
    assert got is ours
    compare(name, ours, theirs)
    compare(name, view, theirs[1:])
    assert ours._version == 1


@pytest.mark.parametrize("name", ["exp", "sqrt", "sin", "tanh", "floor", "abs", "sigmoid", "square"])
def test_out(name: str) -> None:
    x = mt.tensor([1.0, 4.0])
    out = mt.empty(2)
    assert getattr(mt, name)(x, out=out) is out
    compare(name, out, getattr(torch, name)(torch.tensor([1.0, 4.0])))


@pytest.mark.parametrize("op", ["pow", "mod", "floordiv"])
@pytest.mark.parametrize("kind", ["tt", "ts", "st"])
@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_arithmetic_operators(op: str, kind: str, dtype: str) -> None:
    f = getattr(operator, op)
    a, b = [5, 3, 2, 7], [2, 3, 1, 2]

    def run(lib):  # type: ignore[no-untyped-def]
        x, y = (lib.tensor(v, dtype=getattr(lib, dtype)) for v in (a, b))
        return f(x, y) if kind == "tt" else f(x, 2) if kind == "ts" else f(2, x)

    compare(op, run(mt), run(torch))


@pytest.mark.parametrize("op", ["and_", "or_", "xor", "lshift", "rshift"])
def test_bit_operators(op: str) -> None:
    f = getattr(operator, op)
    for other in (3, [1, 2, 3]):
        x, y = mt.tensor([5, 6, 12]), torch.tensor([5, 6, 12])
        a = f(x, mt.tensor(other) if isinstance(other, list) else other)
        b = f(y, torch.tensor(other) if isinstance(other, list) else other)
        compare(op, a, b)
    compare(op, f(2, mt.tensor([1, 2])), f(2, torch.tensor([1, 2])))


CASES = [
    lambda lib: lib.pow(2, lib.tensor([1, 2])),
    lambda lib: lib.pow(2.5, lib.tensor([1, 2])),
    lambda lib: lib.pow(lib.tensor([1, 2, -1]), lib.tensor([-1, -1, -1])),
    lambda lib: lib.tensor([2.0, 3.0]) ** lib.tensor(2),
    lambda lib: lib.tensor([1, 2]) ** 0.5,
    lambda lib: lib.tensor([True, False]) ** 2,
    lambda lib: lib.clamp(lib.tensor([1, 5]), 1.5),
    lambda lib: lib.clamp(lib.tensor([1.0, 5.0]), 3, 1),
    lambda lib: lib.clamp(lib.tensor([1.0, float("nan")]), 0, 1),
    lambda lib: lib.clamp(lib.tensor([1.0, 5.0]), max=lib.tensor([0.5, 9.0])),
    lambda lib: lib.round(lib.tensor([1.25, 155.5, 2.5]), decimals=1),
    lambda lib: lib.round(lib.tensor([125.0, 155.5]), decimals=-1),
    lambda lib: lib.sign(lib.tensor([float("nan"), -2.0])),
    lambda lib: lib.heaviside(lib.tensor([-1.0, 0.0, 2.0]), lib.tensor([0.5])),
    lambda lib: lib.floor_divide(lib.tensor([5.0, -5.0]), lib.tensor([0.0, 2.0])),
    lambda lib: lib.tensor([5, -5]) % 3,
    lambda lib: lib.fmod(lib.tensor([5.0, -5.0]), 3),
    lambda lib: lib.float_power(lib.tensor([2, 3]), 2),
    lambda lib: lib.nan_to_num(lib.tensor([float("inf"), float("nan")], dtype=lib.float16)),
    lambda lib: lib.angle(lib.tensor([-1.0, 2.0])),
    lambda lib: lib.tensor([1, 2]) << 70,
    lambda lib: lib.tensor([-1, 2]) >> 70,
    lambda lib: lib.addcmul(lib.tensor([1, 2]), lib.tensor([1, 2]), lib.tensor([3, 4]), value=2),
]


@pytest.mark.parametrize("case", range(len(CASES)))
def test_cases(case: int) -> None:
    compare(f"case {case}", CASES[case](mt), CASES[case](torch))


BAD = [
    lambda lib: lib.pow(lib.tensor([1, 2]), -1),
    lambda lib: lib.tensor([1, 2]) % 0,
    lambda lib: lib.tensor([1, 2]) // 0,
    lambda lib: lib.tensor([1.0]) & 1,
    lambda lib: ~lib.tensor([1.0]),
    lambda lib: lib.sign(lib.tensor([1j])),
    lambda lib: lib.floor(lib.tensor([True])),
    lambda lib: lib.abs(lib.tensor([True])),
    lambda lib: lib.clamp(lib.tensor([1.0])),
    lambda lib: lib.tensor([1, 2]).clamp_(1.5),
    lambda lib: lib.tensor([1, 2]).exp_(),
    lambda lib: lib.maximum(lib.tensor([1j]), lib.tensor([1j])),
    lambda lib: lib.maximum(lib.tensor([1.0, 2.0]), lib.tensor([1.0, 2.0, 3.0])),
    lambda lib: lib.heaviside(lib.tensor([1.0]), lib.tensor([1])),
    lambda lib: lib.gcd(lib.tensor([1.0]), lib.tensor([1.0])),
    lambda lib: lib.addcdiv(lib.tensor([1]), lib.tensor([1]), lib.tensor([1])),
    lambda lib: lib.atan2(lib.tensor([1.0]), 2),
    lambda lib: lib.frexp(lib.tensor([1])),
    lambda lib: lib.complex(lib.tensor([1]), lib.tensor([1])),
    lambda lib: lib.tensor([1.0]).float_power_(2),
    lambda lib: lib.positive(lib.tensor([True])),
    lambda lib: lib.tensor([1.0]) ** None,
]


@pytest.mark.parametrize("case", range(len(BAD)))
def test_errors(case: int) -> None:
    with pytest.raises(Exception) as theirs:
        BAD[case](torch)
    with pytest.raises(theirs.type):
        BAD[case](mt)


def test_second_derivative() -> None:
    def run(lib):  # type: ignore[no-untyped-def]
        x = lib.tensor([0.3, -0.7, 1.2], requires_grad=True)
        y = (x.tanh() * x.sigmoid() + x.exp() + (x * x + 1).pow(1.5)).sum()
        (g,) = lib.autograd.grad(y, x, create_graph=True)
        (h,) = lib.autograd.grad(g.sum(), x)
        return h

    compare("second derivative", run(mt), run(torch), scale=4)


def test_large_arrays_take_the_compiled_kernels() -> None:
    r = np.random.RandomState(0)
    x, y = (r.randn(70_000).astype(np.float32) for _ in range(2))
    for f in (
        lambda lib, a, b: a.sigmoid(),
        lambda lib, a, b: lib.where(a > 0, a, b),
        lambda lib, a, b: lib.addcmul(a, b, b, value=0.5),
        lambda lib, a, b: a.clamp(-0.5, 0.5),
    ):
        compare("large", f(mt, mt.tensor(x), mt.tensor(y)), f(torch, torch.from_numpy(x), torch.from_numpy(y)))
    ours, theirs = to_ours(torch.from_numpy(x)).requires_grad_(True), torch.from_numpy(x).requires_grad_(True)
    ours.clamp(-0.5, 0.5).sum().backward()
    theirs.clamp(-0.5, 0.5).sum().backward()
    compare("large gradient", ours.grad, theirs.grad)
