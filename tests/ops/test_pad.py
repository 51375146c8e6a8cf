"""Padding, sliding blocks and channel rearrangements against PyTorch."""

from __future__ import annotations

import numpy as np
import pytest
from twin import array, fails, same

import mindtorch.torch as mt
import torch


def _f(name: str, *args, **kw):  # type: ignore[no-untyped-def]
    return lambda lib, *t: getattr(lib.nn.functional, name)(*t, *args, **kw)


@pytest.mark.parametrize("pads", [(1, 2), (1, -2, -1, 2), (0, 0, 1, 1, 2, 0, 0, 1), (0, 0), (-1, -1, 3, 0)])
@pytest.mark.parametrize("value", [None, 0, 2.5])
def test_constant(pads: tuple[int, ...], value: float | None) -> None:
    same(_f("pad", pads, value=value), array(2, 3, 4, 5), double=True)


def test_constant_dtypes() -> None:
    x = array(2, 3)
    same(_f("pad", (1, 1), value=2.7), (x * 10).astype("int64"), grad=False)
    same(_f("pad", (1, 1), value=True), x > 0, grad=False)
    same(_f("pad", (1, 1), value=float("-inf")), x)
    same(_f("pad", [1, 1]), x.astype("complex64"))
    same(lambda lib, x: lib.constant_pad_nd(x, (1, 0), 3), x)


@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
@pytest.mark.parametrize(("d", "pads"), [(1, (2, 3)), (2, (1, 2, 3, 0)), (3, (1, 2, 3, 1, 2, 1)), (2, (-1, 2, 1, -2))])
def test_indexed(mode: str, d: int, pads: tuple[int, ...]) -> None:
    x = array(2, 3, *(4, 5, 6)[:d])
    # PyTorch has no gradient for a replicated or reflected negative amount on every path: values only there
    same(_f("pad", pads, mode=mode), x, grad=min(pads) >= 0, double=min(pads) >= 0)
    same(_f("pad", pads, mode=mode), x[0], grad=False)
    same(_f("pad", pads, mode=mode), (x[0] * 10).astype("int64"), grad=False)


def test_layout() -> None:
    x = array(1, 3, 4, 5)
    for kw in ({}, {"mode": "reflect"}):
        got, want = (
            lib.nn.functional.pad(lib.tensor(x).contiguous(memory_format=lib.channels_last), (1, 1, 1, 1), **kw)
            for lib in (mt, torch)
        )
        assert got.stride() == want.stride()


BAD = [
    (((1,),), {}),
    (((1,) * 10,), {}),
    (((6, 6),), {"mode": "reflect"}),
    (((6, 6, 1, 1),), {"mode": "reflect"}),
    (((7, 7, 1, 1),), {"mode": "circular"}),
    (((1, 1),), {"mode": "foo"}),
    (((1, 1, 1, 1),), {"mode": "reflect", "value": 1}),
]


@pytest.mark.parametrize("case", range(len(BAD)))
def test_errors(case: int) -> None:
    args, kw = BAD[case]
    fails(_f("pad", *args, **kw), array(1, 2, 6, 6))


# ------------------------------------------------------------------------------------------ sliding blocks
@pytest.mark.parametrize(
    ("k", "dilation", "padding", "stride"), [(2, 1, 0, 1), ((2, 3), 1, (1, 0), 2), (3, 2, 2, (2, 1)), (1, 1, 0, 3)]
)
@pytest.mark.parametrize("dtype", ["float32", "complex64"])
def test_unfold_fold(k, dilation, padding, stride, dtype: str) -> None:  # type: ignore[no-untyped-def]
    x = array(2, 3, 8, 9, dtype=dtype)
    args = (k, dilation, padding, stride)
    same(_f("unfold", *args), x, double=True)
    same(_f("unfold", *args), x[0], grad=False)
    same(lambda lib, x: lib.nn.functional.fold(lib.nn.functional.unfold(x, *args), (8, 9), *args), x, double=True)


def test_block_errors() -> None:
    fails(_f("unfold", 9), array(1, 2, 6, 6))
    fails(_f("fold", (4, 4), 2), array(1, 8, 8))
    fails(_f("fold", (4, 4), 2), array(1, 7, 9))


# ------------------------------------------------------------------------------------------ channels and space
def test_shuffles() -> None:
    same(_f("pixel_shuffle", 2), array(2, 8, 3, 4))
    same(lambda lib, x: lib.pixel_shuffle(x, 3), array(9, 3, 4))
    same(_f("pixel_unshuffle", 2), array(2, 2, 6, 4))
    same(_f("channel_shuffle", 2), array(2, 6, 3, 4), grad=False)
    fails(_f("pixel_shuffle", 2), array(1, 3, 2, 2))
    fails(_f("pixel_unshuffle", 2), array(1, 3, 3, 2))
    fails(_f("channel_shuffle", 3), array(1, 4, 2, 2))
    assert np.array_equal(mt.channel_shuffle(mt.tensor(array(1, 4, 2)), 2).numpy(), array(1, 4, 2)[:, [0, 2, 1, 3]])
