"""Promotion against PyTorch, exhaustively: every pair of dtypes in every category, numbers, casts, mixed arithmetic."""

from __future__ import annotations

from typing import Any

import pytest

import mindtorch.torch as mt
import torch

NAMES = (
    "bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64", "complex64", "complex128",
)  # fmt: skip
NUMBERS = (True, 2, 2.5, 1 + 2j)
SHAPES: tuple[tuple[int, ...], ...] = ((2,), ())


def no_half_complex(dtype: Any) -> str:
    """PyTorch's name, but complex32 is not among our dtypes: float16 with a complex number is complex64."""
    return str(dtype).replace("complex32", "complex64")


def operands(lib: Any) -> list[tuple[str, Any]]:
    """A dimensioned and a 0-dim tensor of every dtype, and a number of every kind."""
    made = [(f"{n}{list(s)}", lib.ones(s, dtype=getattr(lib, n))) for n in NAMES for s in SHAPES]
    return made + [(repr(x), x) for x in NUMBERS]


OURS, THEIRS = operands(mt), operands(torch)


@pytest.mark.parametrize("i", range(len(OURS)), ids=[n for n, _ in OURS])
def test_result_type_of_all_pairs(i: int) -> None:
    for j in range(len(OURS)):
        got = mt.result_type(OURS[i][1], OURS[j][1])
        want = torch.result_type(THEIRS[i][1], THEIRS[j][1])
        assert str(got) == no_half_complex(want), f"result_type({OURS[i][0]}, {OURS[j][0]})"


@pytest.mark.parametrize("i", range(len(OURS) - len(NUMBERS)), ids=[n for n, _ in OURS[: -len(NUMBERS)]])
def test_add_gives_the_result_type(i: int) -> None:
    for j in range(len(OURS)):
        got, want = OURS[i][1] + OURS[j][1], THEIRS[i][1] + THEIRS[j][1]
        assert (str(got.dtype), tuple(got.shape)) == (no_half_complex(want.dtype), tuple(want.shape)), f"{OURS[i][0]} + {OURS[j][0]}"
        assert got.tolist() == want.tolist(), f"{OURS[i][0]} + {OURS[j][0]}"


@pytest.mark.parametrize("op", ["true_divide", "floor_divide", "pow", "maximum", "eq", "atan2", "bitwise_and", "remainder"])
def test_binary_ops_promote_or_refuse_alike(op: str) -> None:
    for i, j in [(i, j) for i in range(24) for j in range(24)]:
        if "complex32" in str(torch.result_type(THEIRS[i][1], THEIRS[j][1])):
            continue  # PyTorch refuses most ops on it
        outcome = []
        for lib, made in ((torch, THEIRS), (mt, OURS)):
            try:
                outcome.append(str(getattr(lib, op)(made[i][1], made[j][1]).dtype))
            except (RuntimeError, NotImplementedError, TypeError):
                outcome.append("refused")
        assert outcome[1] == outcome[0], f"{op}({OURS[i][0]}, {OURS[j][0]})"


def test_promote_types_and_can_cast() -> None:
    for a in NAMES:
        for b in NAMES:
            got = mt.promote_types(getattr(mt, a), getattr(mt, b))
            assert str(got) == str(torch.promote_types(getattr(torch, a), getattr(torch, b))), f"promote_types({a}, {b})"
            ok = mt.can_cast(getattr(mt, a), getattr(mt, b))
            assert ok == torch.can_cast(getattr(torch, a), getattr(torch, b)), f"can_cast({a}, {b})"


def test_in_place_results_must_fit() -> None:
    for i in range(0, 24, 2):
        for j in range(len(OURS)):
            outcome = []
            for made in (THEIRS, OURS):
                try:
                    outcome.append(str(made[i][1].clone().add_(made[j][1]).dtype))
                except RuntimeError as err:
                    outcome.append("can't be cast" if "can't be cast" in str(err) else str(err))
            assert outcome[1] == outcome[0], f"{OURS[i][0]}.add_({OURS[j][0]})"


@pytest.mark.parametrize("default", ["float32", "float64", "float16", "bfloat16"])
def test_default_dtype_takes_part(default: str) -> None:
    seen = []
    for lib in (torch, mt):
        lib.set_default_dtype(getattr(lib, default))
        try:
            whole = lib.ones(2, dtype=lib.int64)
            seen.append(
                [str(x.dtype) for x in (whole + 1.5, whole / 2, whole.sqrt(), lib.tensor(1.5), lib.ones(2), lib.arange(2.0))]
                + [str(lib.result_type(whole, 1.5)), str(lib.get_default_dtype())]
            )
        finally:
            lib.set_default_dtype(lib.float32)
    assert seen[1] == seen[0]


@pytest.mark.parametrize("name", NAMES)
def test_finfo_iinfo(name: str) -> None:
    if name == "bool":
        return
    d, w = getattr(mt, name), getattr(torch, name)
    if w.is_floating_point or w.is_complex:
        got, want = mt.finfo(d), torch.finfo(w)
        fields: tuple[str, ...] = ("bits", "eps", "max", "min", "tiny", "smallest_normal", "resolution", "dtype")
    else:
        got, want = mt.iinfo(d), torch.iinfo(w)
        fields = ("bits", "max", "min", "dtype")
    for f in fields:
        assert getattr(got, f) == getattr(want, f), f"{name}.{f}"
    assert (d.itemsize, d.is_floating_point, d.is_complex, d.is_signed) == (
        w.itemsize,
        w.is_floating_point,
        w.is_complex,
        w.is_signed,
    )
