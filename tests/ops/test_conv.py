"""Convolutions against PyTorch: values, dtypes, derivatives of first and second order, errors, kernel choice."""

from __future__ import annotations

import itertools
import subprocess
import sys

import numpy as np
import pytest
from twin import array, equal, fails, same

import mindtorch.torch as mt
import torch
from mindtorch.engine import convolution

SIZES = {1: (11,), 2: (8, 9), 3: (5, 6, 7)}


def _conv(name: str, **kw):  # type: ignore[no-untyped-def]
    return lambda lib, *t: getattr(lib.nn.functional, name)(*t, **kw)


@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize(
    ("k", "stride", "padding", "dilation", "groups"),
    [
        (1, 1, 0, 1, 1),
        (3, 1, 1, 1, 1),
        (3, 2, 1, 1, 2),
        (2, 2, 0, 2, 1),
        (3, 1, 2, 2, 4),
        (1, 2, 0, 1, 1),
        (3, 3, 1, 1, 1),
    ],
)
def test_conv(d: int, k: int, stride: int, padding: int, dilation: int, groups: int) -> None:
    kw = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    x, w, b = array(2, 4, *SIZES[d]), array(8, 4 // groups, *(k,) * d, seed=1), array(8, seed=2)
    same(_conv(f"conv{d}d", **kw), x, w, b, double=True, tol=(2e-4, 2e-4))


@pytest.mark.parametrize("dtype", ["float64", "complex64", "float16"])
@pytest.mark.parametrize("d", [1, 2, 3])
def test_conv_dtypes(d: int, dtype: str) -> None:
    x, w, b = (
        array(2, 4, *SIZES[d], dtype=dtype),
        array(6, 2, *(3,) * d, seed=1, dtype=dtype),
        array(6, seed=2, dtype=dtype),
    )
    tol = (2e-2, 3e-2) if dtype == "float16" else (1e-4, 1e-4)
    same(_conv(f"conv{d}d", padding=1, groups=2), x, w, b, double=dtype != "float16", tol=tol)


def test_conv_integers_and_bfloat16() -> None:
    x, w = np.arange(32).reshape(1, 2, 4, 4), np.arange(16).reshape(2, 2, 2, 2) - 7
    same(_conv("conv2d"), x, w, grad=False)
    same(
        lambda lib, x, w: lib.conv2d(x.to(lib.bfloat16), w.to(lib.bfloat16)),
        array(1, 2, 5, 5),
        array(3, 2, 3, 3),
        grad=False,
    )


@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize("padding", ["same", "valid"])
@pytest.mark.parametrize(("k", "dilation"), [(2, 1), (3, 2), (4, 1)])
def test_conv_padding_names(d: int, padding: str, k: int, dilation: int) -> None:
    x, w = array(1, 2, *(9,) * d), array(3, 2, *(k,) * d, seed=1)
    same(_conv(f"conv{d}d", padding=padding, dilation=dilation), x, w, tol=(1e-4, 1e-4))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize(
    ("k", "stride", "padding", "extra", "groups", "dilation"),
    [
        (3, 1, 0, 0, 1, 1),
        (3, 2, 1, 1, 1, 1),
        (2, 2, 0, 0, 2, 1),
        (3, 2, 1, 2, 1, 3),
        (1, 2, 0, 1, 1, 1),
        (3, 1, 1, 0, 4, 2),
    ],
)
def test_conv_transpose(d: int, k: int, stride: int, padding: int, extra: int, groups: int, dilation: int) -> None:
    kw = {"stride": stride, "padding": padding, "output_padding": extra, "groups": groups, "dilation": dilation}
    x, w, b = array(2, 4, *(4,) * d), array(4, 8 // groups, *(k,) * d, seed=1), array(8, seed=2)
    same(_conv(f"conv_transpose{d}d", **kw), x, w, b, double=True, tol=(2e-4, 2e-4))


def test_unbatched_empty_and_tuple_arguments() -> None:
    w = array(4, 3, 3, 2, seed=1)
    same(_conv("conv2d", stride=(2, 1), padding=(1, 0)), array(3, 8, 9), w)
    same(_conv("conv_transpose2d", stride=(2, 1)), array(4, 5, 6), w)
    same(_conv("conv2d"), array(0, 3, 8, 9), w, grad=False)
    same(_conv("conv2d", stride=[2]), array(1, 3, 8, 9), w)


def test_convolution_function() -> None:
    x, w = array(1, 3, 6, 6), array(4, 3, 3, 3, seed=1)
    same(lambda lib, x, w: lib.convolution(x, w, None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1), x, w)
    same(lambda lib, x, w: lib.convolution(x, w, None, [2, 2], [1, 1], [1, 1], True, [1, 1], 1), array(1, 4, 6, 6), w)


def test_channels_last_is_kept() -> None:
    def run(lib, x, w):  # type: ignore[no-untyped-def]
        return lib.conv2d(x.contiguous(memory_format=lib.channels_last), w, padding=1)

    x, w = array(2, 3, 6, 5), array(4, 3, 3, 3, seed=1)
    same(run, x, w)
    got, want = run(mt, mt.tensor(x), mt.tensor(w)), run(torch, torch.tensor(x), torch.tensor(w))
    assert got.stride() == want.stride()


def test_only_needed_gradients() -> None:
    x, w = mt.tensor(array(1, 2, 5, 5)), mt.tensor(array(3, 2, 3, 3)).requires_grad_()
    mt.conv2d(x, w).sum().backward()
    assert x.grad is None
    assert w.grad is not None
    assert mt.conv2d(x, w).grad_fn.name() == "ConvolutionBackward0"


BAD = [
    ("conv2d", ((1, 3, 8, 8), (6, 1, 5, 5)), {}),
    ("conv2d", ((1, 4, 8, 8), (6, 2, 5, 5)), {"groups": 3}),
    ("conv2d", ((1, 4, 8, 8), (5, 2, 5, 5)), {"groups": 2}),
    ("conv2d", ((1, 4, 8, 8), (1, 2, 5, 5)), {"groups": 2}),
    ("conv2d", ((1, 4, 8, 8), (0, 4, 5, 5)), {}),
    ("conv2d", ((1, 3, 2, 2), (6, 3, 3, 3)), {}),
    ("conv2d", ((3, 3), (6, 3, 3, 3)), {}),
    ("conv1d", ((1, 1, 3, 3, 3), (6, 3, 3)), {}),
    ("conv2d", ((1, 3, 8, 8), (6, 3, 3, 3), (5,)), {}),
    ("conv2d", ((1, 3, 8, 8), (6, 3, 3, 3)), {"stride": 0}),
    ("conv2d", ((1, 3, 8, 8), (6, 3, 3, 3)), {"padding": -1}),
    ("conv2d", ((1, 3, 8, 8), (6, 3, 3, 3)), {"dilation": 0}),
    ("conv2d", ((1, 3, 8, 8), (6, 3, 3, 3)), {"groups": 0}),
    ("conv2d", ((1, 3, 8, 8), (6, 3, 3, 3)), {"stride": (1, 2, 3)}),
    ("conv2d", ((1, 3, 8, 8), (6, 3, 3, 3)), {"stride": 2, "padding": "same"}),
    ("conv2d", ((1, 3, 8, 8), (6, 3, 3, 3)), {"padding": "foo"}),
    ("conv_transpose2d", ((1, 3, 8, 8), (6, 1, 5, 5)), {}),
    ("conv_transpose2d", ((1, 3, 8, 8), (3, 1, 5, 5)), {"output_padding": 1}),
    ("conv_transpose2d", ((1, 3, 8, 8), (3, 1, 5, 5), (3,)), {}),
    ("conv_transpose2d", ((1, 3, 1, 1), (3, 1, 1, 1)), {"padding": 1}),
]


@pytest.mark.parametrize("case", range(len(BAD)))
def test_errors(case: int) -> None:
    name, shapes, kw = BAD[case]
    fails(_conv(name, **kw), *(array(*s) for s in shapes))


def test_dtype_errors() -> None:
    x, w, b = array(1, 3, 5, 5), array(2, 3, 3, 3), array(2)
    fails(_conv("conv2d"), x.astype("float64"), w)
    fails(_conv("conv2d"), x, w, b.astype("float64"))
    fails(_conv("conv2d"), x.astype("float16"), w)


# ------------------------------------------------------------------------------------------ kernels
@pytest.mark.parametrize("mode", ["host", "mindspore"])
def test_kernel_families_agree(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from mindtorch.engine.mindspore import door

    if mode == "mindspore" and not door.available():
        pytest.skip("MindSpore is not installed")
    monkeypatch.setattr(convolution, "_mode", mode)
    for stride, padding, groups in itertools.product((1, 2), (0, 1), (1, 2)):
        x, w, b = array(2, 32, 10, 11), array(32, 32 // groups, 3, 3, seed=1), array(32, seed=2)
        same(_conv("conv2d", stride=stride, padding=padding, groups=groups), x, w, b, tol=(2e-4, 2e-4))


def test_compiled_and_plain_kernels_agree() -> None:
    code = """
import numpy as np
from mindtorch.engine import convolution as c
r = np.random.default_rng(0)
for ci, co, g in ((3, 5, 1), (6, 12, 6), (24, 20, 1)):
    for s, p, d in ((1, 1, 1), (2, 0, 2), (3, 2, 1)):
        x = r.standard_normal((2, ci, 13, 12), dtype="f4"); w = r.standard_normal((co, ci // g, 3, 3), dtype="f4")
        a = ((s, s), (p,) * 4, (d, d), g)
        y = c.forward(x, w, None, *a)
        for v in (y, c.input_grad(y, w, (13, 12), *a), c.weight_grad(y, x, (3, 3), *a)):
            print(*(round(float(t), 3) for t in (v.sum(), abs(v).sum(), v.ravel()[-1])))
"""
    outs = []
    for numba in ("0", "1"):
        env = {
            "MINDTORCH_NUMBA": numba,
            "MINDTORCH_KERNELS": "host",
            "PATH": "/usr/bin:/bin",
            "PYTHONPATH": ":".join(sys.path),
        }
        run = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
        outs.append(np.array(run.stdout.split(), float))
    np.testing.assert_allclose(outs[0], outs[1], rtol=1e-3, atol=2e-2)


def test_short_scripts_load_neither_mindspore_nor_numba() -> None:
    code = (
        "import sys, mindtorch.torch as t; t.conv2d(t.randn(2, 3, 16, 16), t.randn(4, 3, 3, 3));"
        "print('mindspore' in sys.modules, 'numba' in sys.modules)"
    )
    env = {"PATH": "/usr/bin:/bin", "PYTHONPATH": ":".join(sys.path)}
    run = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["False", "False"]


def test_unknown_kernel_family_is_refused() -> None:
    with pytest.raises(ValueError, match="auto"):
        convolution.set_mode("gpu")


def test_mindspore_is_refused_in_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    from mindtorch.engine.mindspore import door

    monkeypatch.setattr(door, "_worker", True)
    monkeypatch.setattr(door, "_module", None)
    assert door.in_worker()
    assert not door.available()
    with pytest.raises(RuntimeError, match="DataLoader"):
        door.load()


def test_big_convolution_equals_pytorch() -> None:
    x, w = array(4, 24, 60, 60), array(20, 24, 3, 3, seed=1)
    equal(
        mt.conv2d(mt.tensor(x), mt.tensor(w), padding=1),
        torch.conv2d(torch.tensor(x), torch.tensor(w), padding=1),
        "y",
        (1e-4, 1e-4),
    )
