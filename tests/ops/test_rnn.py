"""Recurrent networks against PyTorch: all kinds, layers, directions, packed input, cells, second derivatives."""

from __future__ import annotations

import numpy as np
import pytest
from twin import array, equal, fails, same

import mindtorch.torch as mt
import torch

GATES = {"lstm": 4, "gru": 3, "rnn_tanh": 1, "rnn_relu": 1}


def weights(
    kind: str, inputs: int, hidden: int, layers: int, both: bool, bias: bool, dtype: str, proj: int = 0
) -> list[np.ndarray]:
    out, g, d = [], GATES[kind] * hidden, 2 if both else 1
    for layer in range(layers):
        for _ in range(d):
            width = inputs if layer == 0 else (proj or hidden) * d
            shapes: list[tuple[int, ...]] = [
                (g, width),
                (g, proj or hidden),
                *([(g,), (g,)] if bias else []),
                *([(proj, hidden)] if proj else []),
            ]
            out += [array(*s, seed=len(out) + i, dtype=dtype) * 0.4 for i, s in enumerate(shapes)]
    return out


def call(lib, kind, x, hx, w, bias, layers, both, first=False, sizes=None):  # type: ignore[no-untyped-def]
    state = tuple(hx) if kind == "lstm" else hx[0]
    fn = getattr(lib, kind)
    if sizes is not None:
        return fn(x, lib.tensor(sizes), state, w, bias, layers, 0.0, True, both)
    return fn(x, state, w, bias, layers, 0.0, True, both, first)


def states(kind: str, count: int, n: int, hidden: int, dtype: str, proj: int = 0) -> list[np.ndarray]:
    made = [array(count, n, proj or hidden, seed=50, dtype=dtype)]
    return [*made, array(count, n, hidden, seed=51, dtype=dtype)] if kind == "lstm" else made


@pytest.mark.parametrize("kind", GATES)
@pytest.mark.parametrize(
    ("layers", "both", "bias", "first"), [(1, False, True, False), (2, True, True, True), (2, False, False, False)]
)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_padded(kind: str, layers: int, both: bool, bias: bool, first: bool, dtype: str) -> None:
    steps, n, inputs, hidden = 5, 3, 4, 6
    x = array(*((n, steps) if first else (steps, n)), inputs, dtype=dtype)
    hx = states(kind, layers * (1 + both), n, hidden, dtype)
    w = weights(kind, inputs, hidden, layers, both, bias, dtype)
    k = len(hx)
    same(lambda lib, x, *t: call(lib, kind, x, t[:k], list(t[k:]), bias, layers, both, first), x, *hx, *w)


@pytest.mark.parametrize("kind", GATES)
@pytest.mark.parametrize("both", [False, True])
def test_packed(kind: str, both: bool) -> None:
    sizes = np.array([4, 4, 3, 1, 1])
    dtype = "float64"
    hx = states(kind, 2 * (1 + both), 4, 5, dtype)
    w = weights(kind, 3, 5, 2, both, True, dtype)
    k = len(hx)
    same(
        lambda lib, x, *t: call(lib, kind, x, t[:k], list(t[k:]), True, 2, both, sizes=sizes),
        array(13, 3, dtype=dtype),
        *hx,
        *w,
    )


@pytest.mark.parametrize("kind", GATES)
def test_second_derivative(kind: str) -> None:
    hx, w, k = (
        states(kind, 1, 2, 4, "float64"),
        weights(kind, 3, 4, 1, False, True, "float64"),
        2 if kind == "lstm" else 1,
    )
    same(
        lambda lib, x, *t: call(lib, kind, x, t[:k], list(t[k:]), True, 1, False),
        array(3, 2, 3, dtype="float64"),
        *hx,
        *w,
        double=True,
    )


@pytest.mark.parametrize("both", [False, True])
def test_lstm_projection(both: bool) -> None:
    hx = states("lstm", 2 * (1 + both), 3, 6, "float64", proj=4)
    w = weights("lstm", 5, 6, 2, both, True, "float64", proj=4)
    same(
        lambda lib, x, h, c, *w: call(lib, "lstm", x, (h, c), list(w), True, 2, both),
        array(4, 3, 5, dtype="float64"),
        *hx,
        *w,
    )


@pytest.mark.parametrize("kind", GATES)
def test_cells(kind: str) -> None:
    hx = [array(3, 4, seed=i, dtype="float64") for i in range(2 if kind == "lstm" else 1)]
    w, k = weights(kind, 5, 4, 1, False, True, "float64"), len(hx)

    def run(lib, x, *t):  # type: ignore[no-untyped-def]
        return getattr(lib, f"{kind}_cell")(x, tuple(t[:k]) if k == 2 else t[0], *t[k:])

    same(run, array(3, 5, dtype="float64"), *hx, *w, double=True)


def test_half_and_errors() -> None:
    hx, w = states("gru", 1, 2, 4, "float16"), weights("gru", 3, 4, 1, False, True, "float16")
    tensors = [mt.tensor(a) for a in (array(3, 2, 3, dtype="float16"), *hx, *w)]
    got = call(mt, "gru", tensors[0], tensors[1:2], tensors[2:], True, 1, False)
    wide = [torch.tensor(a.numpy()).float() for a in tensors]
    want = call(torch, "gru", wide[0], wide[1:2], wide[2:], True, 1, False)
    assert got[0].dtype == mt.float16
    equal(got[0].to(mt.float32), want[0], "half gru", (1e-2, 1e-2))
    fails(
        lambda lib, x, h, *w: lib.gru_cell(x, h, *w),
        array(2, 5),
        array(2, 4),
        *weights("gru", 3, 4, 1, False, True, "float32"),
    )
