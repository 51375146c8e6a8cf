"""Runs PyTorch's op_db samples of one op and dtype on mindtorch and compares value, dtype and gradient with
PyTorch's."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from torch.testing._internal.common_methods_invocations import op_db

import mindtorch.torch as mt
import torch

BY_NAME: dict[str, list[Any]] = {}
for _op in op_db:
    BY_NAME.setdefault(_op.name, []).append(_op)

METHODS = {"__rmatmul__", "sum_to_size"}
CALLS = {
    "polygamma": lambda x, n, **k: mt.polygamma(n, x, **k),
    "einsum": lambda tensors, equation: mt.einsum(equation, tensors),
    "linalg.lstsq[grad_oriented]": lambda a, b, driver: mt.linalg.lstsq(a, b, driver=driver)[:2],
    "linalg.pinv[singular]": lambda a, b: mt.linalg.pinv(a @ b.mT),
    "special.polygamma": lambda x, n, **k: mt.special.polygamma(n, x, **k),
}
# PyTorch's default sort is not stable beyond 16 elements, so among equal elements any index is right.
TIES = {"sort", "argsort", "msort", "topk", "kthvalue", "mode"}
TOL = {
    torch.float32: (1e-4, 2e-5),
    torch.float64: (1e-7, 1e-9),
    torch.complex64: (1e-4, 2e-5),
    torch.complex128: (1e-7, 1e-9),
    torch.float16: (4e-3, 4e-3),
    torch.bfloat16: (3e-2, 3e-2),
}


def to_mt(x: Any, pairs: list[Any]) -> Any:
    """A torch argument as a mindtorch argument; tensors that require gradients are noted in ``pairs``."""
    if isinstance(x, torch.Tensor):
        d = x.detach().resolve_conj().resolve_neg()
        name = str(x.dtype).split(".")[1]
        if x.dtype is torch.bfloat16:
            t = mt.tensor(d.float().numpy()).to(mt.bfloat16)
        else:
            t = mt.tensor(d.numpy().copy(), dtype=getattr(mt, name))
        if x.requires_grad:
            t.requires_grad_()
            pairs.append((x, t))
        return t
    if isinstance(x, torch.dtype):
        return getattr(mt, str(x).split(".")[1])
    if isinstance(x, (list, tuple)) and not isinstance(x, torch.Size):
        return type(x)(to_mt(v, pairs) for v in x) if not hasattr(x, "_fields") else tuple(to_mt(v, pairs) for v in x)
    if isinstance(x, torch.Size):
        return tuple(x)
    if isinstance(x, dict):
        return {k: to_mt(v, pairs) for k, v in x.items()}
    return x


def to_np(t: Any) -> np.ndarray:
    """Values of either library as NumPy (bfloat16 widened)."""
    t = t.detach()
    if "bfloat16" in str(t.dtype):
        t = t.float()
    if isinstance(t, torch.Tensor):
        t = t.resolve_conj().resolve_neg()
    return np.asarray(t.numpy())


def flat(x: Any) -> list[Any]:
    """Tensors of a nested result."""
    if isinstance(x, (list, tuple)):
        return [t for v in x for t in flat(v)]
    return [x] if hasattr(x, "requires_grad") else []


def function(op: Any) -> Any:
    """The mindtorch function of an OpInfo."""
    for key in (f"{op.name}[{op.variant_test_name}]", op.name):
        if key in CALLS:
            return CALLS[key]
    if op.name in METHODS:
        return lambda x, *a, **k: getattr(x, op.name)(*a, **k)
    obj: Any = mt
    for part in op.name.split("."):
        obj = getattr(obj, part)
    return obj


def compare(got: Any, want: Any, dtype: Any, label: str) -> None:
    """Shape, dtype and values."""
    assert tuple(got.shape) == tuple(want.shape), f"{label}: shape {tuple(got.shape)} want {tuple(want.shape)}"
    assert str(got.dtype) == str(want.dtype), f"{label}: dtype {got.dtype} want {want.dtype}"
    rtol, atol = TOL.get(dtype, TOL.get(want.dtype, (1e-4, 2e-5)))
    if label.startswith("matrix_exp") and want.numel() and dtype in (torch.float32, torch.complex64):
        # rounding errors of a matrix function are relative to the largest element of the result
        atol = max(atol, 1e-5 * float(np.abs(to_np(want)).max()))
    np.testing.assert_allclose(to_np(got), to_np(want), rtol=rtol, atol=atol, err_msg=label)


def _cotangent(t: torch.Tensor, seed: int) -> np.ndarray:
    r = np.random.RandomState(seed)
    v = r.standard_normal(tuple(t.shape))
    if t.is_complex():
        v = v + 1j * r.standard_normal(tuple(t.shape))
    return np.asarray(v, dtype=to_np(t).dtype)


def _gradients(out: Any, want: Any, pairs: list[Any], dtype: Any, label: str) -> None:
    live = [(o, w) for o, w in zip(flat(out), flat(want)) if w.requires_grad and w.numel()]
    if not live or not pairs:
        return
    cots = [_cotangent(w, i) for i, (_, w) in enumerate(live)]
    ws = [p[0] for p in pairs]
    ref = torch.autograd.grad(
        [w for _, w in live], ws, [torch.from_numpy(c).to(w.dtype) for c, (_, w) in zip(cots, live)], allow_unused=True
    )
    mt.autograd.backward([o for o, _ in live], [mt.tensor(c).to(o.dtype) for c, (o, _) in zip(cots, live)])
    for i, ((_, t), r) in enumerate(zip(pairs, ref)):
        if r is None:
            assert t.grad is None or not to_np(t.grad).any(), f"{label}: gradient {i} should be None"
            continue
        assert t.grad is not None, f"{label}: gradient {i} is None"
        compare(t.grad, r, dtype, f"{label}: gradient {i}")


def run(name: str, dtype: torch.dtype, limit: int = 8) -> None:
    """All samples (at most ``limit``, evenly picked) of every variant of op ``name``; skips dtypes PyTorch has not."""
    ran = False
    for op in BY_NAME[name]:
        if dtype not in op.supported_dtypes("cpu"):
            continue
        grad = op.supports_autograd and (dtype.is_floating_point or dtype.is_complex)
        grad = grad and dtype in op.supported_backward_dtypes("cpu")
        torch.manual_seed(0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            samples = list(op.sample_inputs("cpu", dtype, requires_grad=grad))
            step = max(1, -(-len(samples) // limit))
            for i, s in enumerate(samples[::step]):
                ran = True
                _one(op, s, dtype, f"{name}[{op.variant_test_name}] sample {i * step}")
    if not ran:
        pytest.skip("dtype not supported by PyTorch")


def _one(op: Any, s: Any, dtype: Any, label: str) -> None:
    pairs: list[Any] = []
    args = to_mt((s.input, *s.args), pairs)
    kwargs = to_mt(s.kwargs, pairs)
    want = op.op(s.input, *s.args, **s.kwargs)
    got = function(op)(*args, **kwargs)
    want, got = s.output_process_fn_grad(want), s.output_process_fn_grad(got)
    ties = op.name in TIES and dtype not in (torch.float32, torch.float64)
    for j, (g, w) in enumerate(zip(flat(got), flat(want), strict=True)):
        if not (ties and w.dtype is torch.int64 and (j or op.name == "argsort")):
            compare(g, w, dtype, f"{label} output {j} ({s})")
    if not ties and dtype not in (torch.float16, torch.bfloat16):
        _gradients(got, want, pairs, dtype, label)
