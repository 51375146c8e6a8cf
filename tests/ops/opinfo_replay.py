"""Replays samples of PyTorch's own OpInfo database on mindtorch in the same process.

The sample is run by PyTorch under a mode that notes every public function it calls; the notes are then replayed by name on
mindtorch, and values, shapes, dtypes and gradients are compared.
"""

from __future__ import annotations

import functools
import itertools
import warnings
from typing import Any

import numpy as np
from torch.overrides import TorchFunctionMode, resolve_name

import mindtorch.torch as mt
import torch

_GETTERS = ("T", "H", "mT", "mH", "real", "imag")
_QUERIES = {
    "size", "dim", "numel", "is_complex", "is_floating_point", "stride", "storage_offset", "requires_grad_", "__len__",
    "is_contiguous", "item", "__bool__", "__index__", "__int__", "__float__", "is_conj", "is_neg", "tolist",
}  # fmt: skip
TOLERANCE = {
    "float32": (2e-6, 2e-5), "complex64": (4e-6, 4e-5), "float64": (1e-9, 1e-10), "complex128": (1e-9, 1e-10),
    "float16": (2e-3, 1e-3), "bfloat16": (1.6e-2, 1e-2),
}  # fmt: skip


@functools.cache
def database() -> dict[str, list[Any]]:
    """OpInfo entries by name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torch.testing._internal.common_methods_invocations import op_db
    found: dict[str, list[Any]] = {}
    for entry in op_db:
        found.setdefault(entry.name, []).append(entry)
    return found


class _Recorder(TorchFunctionMode):
    def __init__(self) -> None:
        self.steps: list[tuple[str, Any, Any, Any]] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = resolve_name(func) or f"torch.{getattr(func, '__name__', func)}"
        out = func(*args, **(kwargs or {}))
        parts = name.split(".")
        query = (parts[-1] == "__get__" and parts[-2] not in _GETTERS) or (
            "Tensor" in parts and parts[-1] in _QUERIES
        )
        if not query:
            self.steps.append((name, args, kwargs or {}, out))
        return out


def to_ours(t: torch.Tensor, grad: bool = False) -> Any:
    """The same values as a mindtorch tensor."""
    d = t.detach().resolve_conj().resolve_neg()
    if t.dtype is torch.bfloat16:
        r = mt.tensor(d.float().numpy()).to(mt.bfloat16)
    else:
        r = mt.tensor(d.numpy().copy())
    return r.requires_grad_(True) if grad and t.requires_grad else r


def to_numpy(t: Any) -> np.ndarray:
    """Values as NumPy; bfloat16 widened."""
    d = t.detach()
    if str(d.dtype).endswith("bfloat16"):
        d = d.float()
    return d.numpy(force=True) if isinstance(d, torch.Tensor) else np.asarray(d.numpy())


class _Replay:
    """Maps PyTorch tensors to ours while the steps are run again."""

    def __init__(self, grad: bool) -> None:
        self.grad = grad
        self.seen: dict[int, Any] = {}
        self.keep: list[Any] = []
        self.leaves: list[tuple[torch.Tensor, Any]] = []

    def convert(self, v: Any) -> Any:
        if isinstance(v, torch.Tensor):
            if id(v) not in self.seen:
                self.seen[id(v)] = ours = to_ours(v, self.grad)
                self.keep.append(v)
                if self.grad and v.requires_grad and v.is_leaf:
                    self.leaves.append((v, ours))
            return self.seen[id(v)]
        if isinstance(v, torch.Size):
            return mt.Size(v)
        if isinstance(v, (list, tuple)):
            return type(v)(self.convert(x) for x in v)
        if isinstance(v, dict):
            return {k: self.convert(x) for k, x in v.items()}
        if isinstance(v, torch.dtype):
            return getattr(mt, str(v).split(".")[-1])
        if isinstance(v, torch.device):
            return mt.device("cpu")
        if isinstance(v, torch.layout):
            return mt.strided
        if isinstance(v, torch.memory_format):
            return getattr(mt, str(v).split(".")[-1])
        return v

    def note(self, theirs: Any, ours: Any) -> None:
        if isinstance(theirs, torch.Tensor):
            self.seen[id(theirs)] = ours
            self.keep.append(theirs)
        elif isinstance(theirs, (list, tuple)):
            for t, o in zip(theirs, ours, strict=True):
                self.note(t, o)

    def run(self, steps: list[tuple[str, Any, Any, Any]]) -> None:
        for name, args, kwargs, out in steps:
            args, kwargs = self.convert(tuple(args)), self.convert(kwargs)
            self.note(out, _resolve(name)(*args, **kwargs))


def _resolve(name: str) -> Any:
    parts = name.replace("torch._C._nn.", "torch.nn.functional.").replace("_VariableFunctions.", "").split(".")[1:]
    if parts[-1] == "__get__":
        return lambda x: getattr(x, parts[-2])
    if parts[0] == "Tensor":
        return lambda x, *a, **k: getattr(x, parts[1])(*a, **k)
    parts = parts[1:] if parts[0] in ("functional", "_C") else parts
    return functools.reduce(getattr, parts, mt)


def _flat(v: Any) -> list[Any]:
    return [x for y in v for x in _flat(y)] if isinstance(v, (list, tuple)) else [v]


def compare(name: str, ours: Any, theirs: Any, scale: float = 1.0) -> None:
    """Assert equal dtype, shape and (closely) values."""
    if not isinstance(theirs, torch.Tensor):
        assert ours == theirs, f"{name}: {ours!r} != {theirs!r}"
        return
    kind = str(theirs.dtype).split(".")[-1]
    assert str(ours.dtype).split(".")[-1] == kind, f"{name}: dtype {ours.dtype}, want {theirs.dtype}"
    assert tuple(ours.shape) == tuple(theirs.shape), f"{name}: shape {ours.shape}, want {theirs.shape}"
    a, b = to_numpy(ours), to_numpy(theirs)
    rtol, atol = TOLERANCE.get(kind, (0.0, 0.0))
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(a, b, rtol * scale, atol * scale, err_msg=name)


def _loss(outs: list[Any], lib: Any) -> Any:
    rng = np.random.RandomState(3)
    total = None
    for o in outs:
        if not hasattr(o, "requires_grad") or not o.requires_grad:
            continue
        for part in (o.real, o.imag) if o.dtype.is_complex else (o,):
            w = rng.uniform(0.5, 1.5, tuple(part.shape)).astype(np.float32)
            term = (part * (torch.from_numpy(np.asarray(w)) if lib is torch else mt.tensor(w))).sum()
            total = term if total is None else total + term
    return total


def check_sample(name: str, entry: Any, sample: Any, grad: bool, scale: float = 1.0) -> None:
    """One sample: forward, and gradients of every leaf when ``grad``."""
    recorder = _Recorder()
    with recorder:
        theirs = entry.op(sample.input, *sample.args, **sample.kwargs)
    replay = _Replay(grad)
    replay.run(recorder.steps)
    outs = _flat(theirs)
    if recorder.steps and any(o is recorder.steps[-1][3] for o in [theirs]) and not isinstance(theirs, torch.Tensor):
        last = replay.convert(recorder.steps[-1][3])
        mine = _flat(last)
    else:
        mine = [replay.convert(o) for o in outs]
    assert len(mine) == len(outs), f"{name}: {len(mine)} outputs, want {len(outs)}"
    for a, b in zip(mine, outs):
        compare(name, a, b, scale)
    if not grad or not replay.leaves:
        return
    loss = _loss(outs, torch)
    if loss is None:
        return
    mine_loss = _loss(mine, mt)
    assert mine_loss is not None, f"{name}: the result does not require gradients"
    wanted = torch.autograd.grad(loss, [t for t, _ in replay.leaves], allow_unused=True)
    mine_loss.backward()
    for (_, leaf), want in zip(replay.leaves, wanted):
        if want is None:
            assert leaf.grad is None or not to_numpy(leaf.grad).any(), f"{name}: gradient where PyTorch has none"
        else:
            assert leaf.grad is not None, f"{name}: no gradient"
            compare(f"gradient of {name}", leaf.grad, want, 4 * scale)


def check_op(name: str, dtype: torch.dtype, limit: int = 8, scale: float = 1.0) -> int:
    """Up to ``limit`` samples of every variant of ``name`` in ``dtype``; returns how many ran."""
    ran = 0
    for entry in database()[name]:
        if dtype not in entry.supported_dtypes("cpu"):
            continue
        grad = entry.supports_autograd and dtype in entry.supported_backward_dtypes("cpu") and dtype.is_floating_point
        grad = grad or (entry.supports_autograd and dtype.is_complex and dtype in entry.supported_backward_dtypes("cpu"))
        torch.manual_seed(0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            samples = list(entry.sample_inputs("cpu", dtype, requires_grad=grad))
            step = max(1, len(samples) // limit)
            for sample in itertools.islice(samples[::step], limit):
                check_sample(f"{name} {entry.variant_test_name}".strip(), entry, sample, grad, scale)
                ran += 1
    return ran
