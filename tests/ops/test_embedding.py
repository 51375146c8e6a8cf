"""Linear, bilinear, embedding, bags and one_hot against PyTorch."""

from __future__ import annotations

import numpy as np
import pytest
from twin import array, equal, fails, same

import mindtorch.torch as mt

IDX = np.array([[1, 2, 0, 2], [4, 2, 1, 1]])


@pytest.mark.parametrize("shape", [(5, 4), (2, 3, 4), (4,), (0, 4), (2, 2, 2, 4)])
@pytest.mark.parametrize("bias", [True, False])
def test_linear(shape: tuple[int, ...], bias: bool) -> None:
    extra = (array(3, seed=2, dtype="float64"),) if bias else ()
    same(
        lambda lib, x, *w: lib.nn.functional.linear(x, *w),
        array(*shape, dtype="float64"),
        array(3, 4, seed=1, dtype="float64"),
        *extra,
        double=bool(np.prod(shape)),
    )
    same(
        lambda lib, x, *w: lib.nn.functional.linear(x, *w),
        array(*shape),
        array(3, 4, seed=1),
        *(e.astype("float32") for e in extra),
    )


def test_linear_other_types_bilinear() -> None:
    same(
        lambda lib, x, w, b: lib.nn.functional.linear(x, w, b),
        array(5, 4, dtype="float16"),
        array(3, 4, dtype="float16"),
        array(3, dtype="float16"),
    )
    same(
        lambda lib, x, w: lib.nn.functional.linear(x, w),
        array(5, 4, dtype="complex64"),
        array(3, 4, seed=1, dtype="complex64"),
    )
    same(
        lambda lib, x, y, w, b: lib.nn.functional.bilinear(x, y, w, b),
        array(5, 2, dtype="float64"),
        array(5, 3, seed=1, dtype="float64"),
        array(4, 2, 3, seed=2, dtype="float64"),
        array(4, seed=3, dtype="float64"),
        double=True,
    )
    fails(lambda lib, x, w: lib.nn.functional.linear(x, w), array(5, 4), array(3, 5))
    fails(lambda lib, x, w: lib.nn.functional.linear(x, w), array(5, 4), array(3, 4, dtype="float64"), start=20)


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
@pytest.mark.parametrize("options", [{}, {"padding_idx": 2}, {"padding_idx": -3}, {"scale_grad_by_freq": True}])
def test_embedding(dtype: str, options: dict[str, object]) -> None:
    # double backward of scale_grad_by_freq is not offered by PyTorch
    double = dtype == "float64" and "scale_grad_by_freq" not in options
    same(
        lambda lib, w: lib.nn.functional.embedding(lib.tensor(IDX), w, **options),
        array(5, 3, dtype=dtype),
        double=double,
    )


def test_embedding_large_and_max_norm() -> None:
    index = np.random.RandomState(0).randint(0, 50, (40, 30))
    same(lambda lib, w: lib.nn.functional.embedding(lib.tensor(index), w), array(50, 8))
    same(lambda lib, w: lib.nn.functional.embedding(lib.tensor(IDX), w, max_norm=1.0), array(5, 3), grad=False)

    def renormed(lib, w):  # type: ignore[no-untyped-def]
        lib.nn.functional.embedding(lib.tensor(IDX), w, max_norm=1.0, norm_type=1.0)
        return w

    same(renormed, array(5, 3) * 3, grad=False)
    same(lambda lib, w: lib.embedding(w, lib.tensor(IDX)), array(5, 3))


def test_embedding_errors() -> None:
    fails(lambda lib, w: lib.nn.functional.embedding(lib.tensor([5]), w), array(5, 3), start=0)
    fails(lambda lib, w: lib.nn.functional.embedding(lib.tensor([-1]), w), array(5, 3), start=0)
    fails(lambda lib, w: lib.nn.functional.embedding(lib.tensor([1.0]), w), array(5, 3), start=20)
    fails(lambda lib, w: lib.nn.functional.embedding(lib.tensor([1]), w, padding_idx=7), array(5, 3))


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("padding", [None, 2])
def test_embedding_bag(mode: str, padding: int | None) -> None:
    flat, offsets = np.array([1, 2, 0, 2, 4, 1]), np.array([0, 2, 2, 5])
    for dtype in ("float32", "float64"):
        w = array(5, 3, dtype=dtype)
        same(lambda lib, w: lib.nn.functional.embedding_bag(lib.tensor(IDX), w, mode=mode, padding_idx=padding), w)
        same(
            lambda lib, w: lib.nn.functional.embedding_bag(
                lib.tensor(flat), w, lib.tensor(offsets), mode=mode, padding_idx=padding
            ),
            w,
        )
    same(
        lambda lib, w: lib.nn.functional.embedding_bag(
            lib.tensor(flat), w, lib.tensor(np.append(offsets, 6)), mode=mode, include_last_offset=True
        ),
        array(5, 3),
    )


def test_embedding_bag_weights_and_errors() -> None:
    same(
        lambda lib, w, s: lib.nn.functional.embedding_bag(lib.tensor(IDX), w, mode="sum", per_sample_weights=s),
        array(5, 3),
        array(2, 4, seed=1),
    )
    fails(lambda lib, w: lib.nn.functional.embedding_bag(lib.tensor(IDX), w, mode="other"), array(5, 3))
    fails(lambda lib, w: lib.nn.functional.embedding_bag(lib.tensor(IDX), w, lib.tensor([0])), array(5, 3))
    fails(lambda lib, w: lib.nn.functional.embedding_bag(lib.tensor([1]), w), array(5, 3))


def test_one_hot() -> None:
    x = np.array([[0, 2], [1, 2]])
    same(lambda lib, v: (lib.nn.functional.one_hot(v), lib.nn.functional.one_hot(v, 5)), x, grad=False)
    fails(lambda lib, v: lib.nn.functional.one_hot(v, 2), x)
    fails(lambda lib, v: lib.nn.functional.one_hot(v), x - 1)
    fails(lambda lib, v: lib.nn.functional.one_hot(v), x.astype(np.int32))
    assert mt.nn.functional.one_hot(mt.tensor(x)).dtype == mt.int64
    equal(mt.nn.functional.one_hot(mt.tensor([3]), 4), mt.tensor([[0, 0, 0, 1]]), "one_hot")
