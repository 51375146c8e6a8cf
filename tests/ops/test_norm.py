"""Normalisation against PyTorch: values, dtypes, first and second derivatives, running statistics, errors."""

from __future__ import annotations

import pytest
from twin import array, fails, same

SHAPES = [(6, 8), (4, 6, 5), (3, 4, 5, 6)]


def vec(n: int, seed: int, dtype: str = "float64"):  # type: ignore[no-untyped-def]
    return array(n, seed=seed, dtype=dtype)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("affine", [True, False])
def test_layer_norm(shape: tuple[int, ...], affine: bool) -> None:
    n = shape[-1]
    extra = (vec(n, 1), vec(n, 2)) if affine else ()
    same(
        lambda lib, x, *wb: lib.nn.functional.layer_norm(x, (n,), *wb),
        array(*shape, dtype="float64"),
        *extra,
        double=True,
    )
    extra32 = tuple(v.astype("float32") for v in extra)
    same(lambda lib, x, *wb: lib.nn.functional.layer_norm(x, (n,), *wb), array(*shape), *extra32)


def test_layer_norm_two_dims_half_and_torch_form() -> None:
    same(lambda lib, x, w, b: lib.nn.functional.layer_norm(x, (5, 6), w, b, 1e-3), array(3, 5, 6, dtype="float64"),
         array(5, 6, seed=1, dtype="float64"), array(5, 6, seed=2, dtype="float64"), double=True)  # fmt: skip
    same(lambda lib, x, w: lib.layer_norm(x, [8], w), array(6, 8, dtype="float16"), array(8, seed=1, dtype="float16"))
    same(
        lambda lib, x, w, b: lib.nn.functional.layer_norm(x, (80,), w, b),
        array(60, 80),
        array(80, seed=1),
        array(80, seed=2),
    )
    same(
        lambda lib, x, w, b: lib.native_layer_norm(x, (8,), w, b, 1e-5)[0],
        array(6, 8),
        array(8, seed=1),
        array(8, seed=2),
    )


@pytest.mark.parametrize("shape", [*SHAPES, (2, 3, 4, 3, 2)])
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("affine", [True, False])
def test_batch_norm(shape: tuple[int, ...], training: bool, affine: bool) -> None:
    c = shape[1]

    def run(lib, x, *wb):  # type: ignore[no-untyped-def]
        mean, var = lib.zeros(c, dtype=x.dtype) + 0.3, lib.ones(c, dtype=x.dtype) * 1.7
        y = lib.nn.functional.batch_norm(x, mean, var, *wb, training=training, momentum=0.2)
        return y, mean.clone(), var.clone()

    extra = (vec(c, 1), vec(c, 2)) if affine else ()
    same(run, array(*shape, dtype="float64"), *extra, double=True)
    same(run, array(*shape), *(v.astype("float32") for v in extra))


def test_batch_norm_without_running_statistics_and_mixed_dtypes() -> None:
    same(lambda lib, x: lib.nn.functional.batch_norm(x, None, None, training=True), array(4, 3, 5))
    same(
        lambda lib, x, w, b: lib.batch_norm(x, w, b, None, None, True, 0.1, 1e-5, False),
        array(4, 3, 5),
        array(3),
        array(3),
    )
    same(
        lambda lib, x, w: lib.nn.functional.batch_norm(x, lib.zeros(3), lib.ones(3), w, None, True),
        array(4, 3, 5, dtype="float16"),
        array(3, seed=1),
    )


@pytest.mark.parametrize("stats", [True, False])
def test_instance_norm(stats: bool) -> None:
    def run(lib, x, w, b):  # type: ignore[no-untyped-def]
        mean, var = lib.zeros(4, dtype=x.dtype) + 0.3, lib.ones(4, dtype=x.dtype) * 1.7
        y = lib.nn.functional.instance_norm(x, mean, var, w, b, use_input_stats=stats, momentum=0.2)
        return y, mean.clone(), var.clone()

    same(run, array(3, 4, 5, 6, dtype="float64"), vec(4, 1), vec(4, 2), double=True)
    same(run, array(3, 4, 5), vec(4, 1, "float32"), vec(4, 2, "float32"))
    same(lambda lib, x: lib.nn.functional.instance_norm(x), array(3, 4, 5))


@pytest.mark.parametrize("groups", [1, 2, 6])
@pytest.mark.parametrize("shape", [(3, 6), (2, 6, 4), (2, 6, 3, 5)])
def test_group_norm(groups: int, shape: tuple[int, ...]) -> None:
    if groups == 6 and len(shape) == 2:
        shape = (3, 12)
    c = shape[1]
    run = lambda lib, x, w, b: lib.nn.functional.group_norm(x, groups, w, b)
    same(run, array(*shape, dtype="float64"), vec(c, 1), vec(c, 2), double=True)
    same(run, array(*shape), vec(c, 1, "float32"), vec(c, 2, "float32"))
    same(lambda lib, x: lib.group_norm(x, groups), array(*shape))


def test_rms_local_response_normalize() -> None:
    same(lambda lib, x, w: lib.nn.functional.rms_norm(x, (8,), w), array(6, 8, dtype="float64"), vec(8, 1), double=True)
    same(lambda lib, x, w: lib.nn.functional.rms_norm(x, (8,), w, 1e-3), array(6, 8), vec(8, 1, "float32"))
    same(lambda lib, x: lib.nn.functional.rms_norm(x, (8,)), array(6, 8, dtype="float16"))
    for shape in ((2, 7, 3), (2, 7, 3, 4)):
        same(
            lambda lib, x: lib.nn.functional.local_response_norm(x, 3, 0.1, 0.6, 2.0),
            array(*shape, dtype="float64"),
            double=True,
        )
    same(lambda lib, x: lib.nn.functional.local_response_norm(x, 4), array(2, 7, 3))
    for p, dim in ((2.0, 1), (1.0, 0), (3.0, -1)):
        same(
            lambda lib, x, p=p, dim=dim: lib.nn.functional.normalize(x, p, dim),
            array(5, 4, dtype="float64"),
            double=p != 1.0,
        )


def test_errors() -> None:
    F = lambda name: lambda lib, *a: getattr(lib.nn.functional, name)(*a)
    fails(lambda lib, x: F("layer_norm")(lib, x, (3,)), array(4, 5))
    fails(lambda lib, x, w: F("layer_norm")(lib, x, (5,), w), array(4, 5), array(4))
    fails(lambda lib, x: F("layer_norm")(lib, x, ()), array(4, 5))
    fails(lambda lib, x: lib.nn.functional.batch_norm(x, None, None, training=True), array(1, 5))
    fails(lambda lib, x: lib.nn.functional.batch_norm(x, None, None), array(4, 5))
    fails(lambda lib, x: lib.nn.functional.batch_norm(x, lib.zeros(4), lib.ones(4)), array(4, 5))
    fails(lambda lib, x: lib.nn.functional.group_norm(x, 2), array(4, 5))
    fails(lambda lib, x: lib.nn.functional.instance_norm(x), array(4, 5, 1))
    fails(lambda lib, x: lib.nn.functional.rms_norm(x, (3,)), array(4, 5))
