"""Interpolation, grid sampling and affine grids against PyTorch."""

from __future__ import annotations

import numpy as np
import pytest
from twin import array, fails, same

import mindtorch.torch as mt
import torch

MODES = [
    ("nearest", 1), ("nearest", 2), ("nearest", 3), ("nearest-exact", 2), ("linear", 1), ("bilinear", 2),
    ("trilinear", 3), ("bicubic", 2), ("area", 2),
]  # fmt: skip
SPECS = [
    {"size": (11, 13, 6)}, {"size": (3, 4, 2)}, {"size": (14, 18, 10)}, {"scale_factor": 1.7}, {"scale_factor": 0.6},
    {"scale_factor": 1.1}, {"scale_factor": 1.7, "recompute_scale_factor": True},
]  # fmt: skip


def _interpolate(**kw):  # type: ignore[no-untyped-def]
    return lambda lib, x: lib.nn.functional.interpolate(x, **kw)


def _spec(spec, d: int):  # type: ignore[no-untyped-def]
    return {k: v[:d] if isinstance(v, tuple) else v for k, v in spec.items()}


@pytest.mark.parametrize(("mode", "d"), MODES)
@pytest.mark.parametrize("spec", range(len(SPECS)))
def test_interpolate(mode: str, d: int, spec: int) -> None:
    x = array(2, 3, *(7, 9, 5)[:d])
    kw = _spec(SPECS[spec], d)
    # with a scale of 1.1 the size stays, and PyTorch's gradient is not the transpose of its forward
    double = kw.get("scale_factor") != 1.1
    same(_interpolate(mode=mode, **kw), x, double=double, tol=(1e-4, 1e-5))
    if mode in ("linear", "bilinear", "trilinear", "bicubic"):
        same(_interpolate(mode=mode, align_corners=True, **kw), x, tol=(1e-4, 1e-5))


@pytest.mark.parametrize("mode", ["bilinear", "bicubic", "lanczos"])
@pytest.mark.parametrize("spec", [{"size": (4, 5)}, {"size": (13, 4)}, {"scale_factor": 0.4}])
def test_antialias(mode: str, spec) -> None:  # type: ignore[no-untyped-def]
    same(_interpolate(mode=mode, antialias=True, **spec), array(1, 2, 9, 11), tol=(1e-4, 1e-5))


@pytest.mark.parametrize(
    ("mode", "antialias"), [("nearest", False), ("bilinear", False), ("bilinear", True), ("bicubic", False), ("bicubic", True)]
)
def test_bytes(mode: str, antialias: bool) -> None:
    x = np.random.default_rng(0).integers(0, 256, (2, 3, 9, 11), dtype=np.uint8)
    for size in ((5, 6), (17, 20), (20, 5)):
        same(_interpolate(mode=mode, antialias=antialias, size=size), x, grad=False)


def test_other_dtypes_and_layout() -> None:
    x = array(1, 2, 5, 6)
    same(_interpolate(scale_factor=2, mode="bilinear"), x.astype("float64"), double=True)
    same(_interpolate(scale_factor=1.5, mode="bilinear"), x.astype("float16"))
    got, want = (
        lib.nn.functional.interpolate(lib.tensor(x).contiguous(memory_format=lib.channels_last), scale_factor=2)
        for lib in (mt, torch)
    )
    assert got.stride() == want.stride()


@pytest.mark.filterwarnings("ignore")
def test_upsample_names() -> None:
    x = array(1, 2, 5, 6)
    same(lambda lib, x: lib.nn.functional.upsample(x, scale_factor=2), x)
    same(lambda lib, x: lib.nn.functional.upsample_nearest(x, (7, 8)), x)
    same(lambda lib, x: lib.nn.functional.upsample_bilinear(x, (7, 8)), x)


BAD = [
    {}, {"size": 3, "scale_factor": 2}, {"size": 3, "mode": "foo"}, {"size": 3, "mode": "linear"},
    {"size": 3, "align_corners": True}, {"size": 3, "antialias": True}, {"size": (3, 3, 3)},
    {"scale_factor": (3, 3, 3)}, {"size": 3, "recompute_scale_factor": True}, {"size": 0},
]  # fmt: skip


@pytest.mark.parametrize("case", range(len(BAD)))
def test_errors(case: int) -> None:
    fails(_interpolate(**BAD[case]), array(1, 2, 6, 6))


def test_integer_error() -> None:
    fails(_interpolate(size=3), np.zeros((1, 1, 4, 4), "int64"), start=20)


# ------------------------------------------------------------------------------------------ grid_sample
@pytest.mark.parametrize(
    ("mode", "d"), [("bilinear", 2), ("nearest", 2), ("bicubic", 2), ("bilinear", 3), ("nearest", 3)]
)
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("align", [False, True])
def test_grid_sample(mode: str, d: int, padding: str, align: bool) -> None:
    x, grid = array(2, 3, *(5, 6, 4)[:d]), array(2, *(4, 5, 3)[:d], d, seed=1) * np.float32(1.2)
    same(lambda lib, x, g: lib.nn.functional.grid_sample(x, g, mode, padding, align), x, grid, tol=(1e-4, 1e-4))


def test_grid_sampler_by_number() -> None:
    x, grid = array(1, 2, 5, 6), array(1, 3, 3, 2, seed=1)
    same(lambda lib, x, g: lib.grid_sampler(x, g, 0, 1, True), x, grid, tol=(1e-4, 1e-4))


@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize("size", [(2, 1, 3, 4), (2, 1, 2, 3, 4), (2, 3, 1, 5)])
def test_affine_grid(align: bool, size: tuple[int, ...]) -> None:
    d = len(size) - 2
    same(lambda lib, t: lib.nn.functional.affine_grid(t, size, align), array(2, d, d + 1))


@pytest.mark.filterwarnings("ignore")
def test_grid_errors() -> None:
    def run(**kw):  # type: ignore[no-untyped-def]
        return lambda lib, x, g: lib.nn.functional.grid_sample(x, g, **kw)

    x = array(1, 2, 6, 6)
    fails(run(), x, array(2, 3, 3, 2))
    fails(run(), x, array(1, 3, 3, 3))
    fails(run(mode="f"), x, array(1, 3, 3, 2))
    fails(run(padding_mode="f"), x, array(1, 3, 3, 2))
    fails(run(), x, array(1, 3, 3, 2).astype("float64"))
    fails(lambda lib, t: lib.nn.functional.affine_grid(t, (2, 1, 3, 3)), array(2, 2, 2))
