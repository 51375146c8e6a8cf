"""Runs one function on PyTorch and on mindtorch with the same arrays; compares value, dtype and derivatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mindtorch.torch as mt
import torch

TOL = {"float64": (1e-9, 1e-10), "complex128": (1e-9, 1e-10), "float16": (5e-3, 5e-3), "bfloat16": (4e-2, 4e-2)}


def array(*shape: int, seed: int = 0, dtype: str = "float32") -> np.ndarray:
    """Standard normal numbers."""
    r = np.random.default_rng(seed)
    a = r.standard_normal(shape)
    if dtype.startswith("complex"):
        a = a + 1j * r.standard_normal(shape)
    return a.astype(dtype)


def _list(x: Any) -> list[Any]:
    return list(x) if isinstance(x, (tuple, list)) else [x]


def _numpy(t: Any) -> np.ndarray:
    t = t.detach()
    if "bfloat16" in str(t.dtype):
        t = t.float()
    return np.asarray(t.resolve_conj().numpy() if isinstance(t, torch.Tensor) else t.numpy())


def equal(got: Any, want: Any, what: str, tol: tuple[float, float] | None = None) -> None:
    """Shape, dtype, values (NaN equals NaN)."""
    assert tuple(got.shape) == tuple(want.shape), f"{what}: shape {tuple(got.shape)} want {tuple(want.shape)}"
    assert str(got.dtype) == str(want.dtype), f"{what}: dtype {got.dtype} want {want.dtype}"
    rtol, atol = tol or TOL.get(str(want.dtype).removeprefix("torch."), (2e-5, 2e-5))
    np.testing.assert_allclose(_numpy(got), _numpy(want), rtol=rtol, atol=atol, err_msg=what)


def _leaves(lib: Any, arrays: tuple[Any, ...], grad: bool) -> list[Any]:
    made = []
    for a in arrays:
        t = lib.tensor(a) if isinstance(a, np.ndarray) else a
        if grad and isinstance(a, np.ndarray) and a.dtype.kind in "fc":
            t.requires_grad_()
        made.append(t)
    return made


def _run(lib: Any, fn: Callable[..., Any], arrays: tuple[Any, ...], grad: bool, double: bool) -> list[tuple[str, Any]]:
    tensors = _leaves(lib, arrays, grad)
    outs = _list(fn(lib, *tensors))
    result = [(f"output {i}", o) for i, o in enumerate(outs)]
    inputs = [t for t in tensors if getattr(t, "requires_grad", False)]
    if not grad or not inputs:
        return result
    live = [o for o in outs if o.requires_grad]
    cots = _leaves(lib, tuple(array(*o.shape, seed=9 + i, dtype=str(o.dtype)[6:]) for i, o in enumerate(live)), double)
    grads = lib.autograd.grad(live, inputs, cots, create_graph=double)
    result += [(f"gradient {i}", g) for i, g in enumerate(grads)]
    if double:
        again = lib.autograd.grad(
            list(grads),
            inputs + cots,
            [lib.tensor(array(*g.shape, seed=20 + i, dtype=str(g.dtype)[6:])) for i, g in enumerate(grads)],
            allow_unused=True,
        )
        zero = [lib.zeros_like(t) if g is None else g for t, g in zip(inputs + cots, again, strict=True)]
        result += [(f"second gradient {i}", g) for i, g in enumerate(zero)]
    return result


def same(
    fn: Callable[..., Any],
    *arrays: Any,
    grad: bool = True,
    double: bool = False,
    tol: tuple[float, float] | None = None,
) -> None:
    """``fn(lib, *tensors)`` agrees on both sides, with first and (``double``) second derivatives."""
    want = _run(torch, fn, arrays, grad, double)
    got = _run(mt, fn, arrays, grad, double)
    for (what, w), (_, g) in zip(want, got, strict=True):
        equal(g, w, what, tol)


def fails(fn: Callable[..., Any], *arrays: Any, start: int = 40) -> None:
    """Both sides raise the same type of error, and messages that begin alike."""
    with pytest.raises(Exception) as want:
        fn(torch, *_leaves(torch, arrays, False))
    with pytest.raises(want.type) as got:
        fn(mt, *_leaves(mt, arrays, False))
    assert str(got.value)[:start] == str(want.value)[:start]
