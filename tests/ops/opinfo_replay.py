"""Replays samples of PyTorch's own OpInfo database on mindtorch in the same process.

The sample is run by PyTorch under a mode that notes every public function it calls; the notes are then replayed by name on
mindtorch, and values, shapes, dtypes and gradients are compared.
"""

from __future__ import annotations

import contextlib
import functools
import warnings
from typing import Any

import numpy as np
from torch.overrides import TorchFunctionMode, resolve_name
from torch.testing._internal.common_device_type import precisionOverride, toleranceOverride
from torch.utils._pytree import tree_map

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


# values of fresh memory are anything
_UNINITIALISED = {"empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided"}
# results defined up to signs, phases or order: what output_process_fn_grad makes of them is compared
_GAUGE = {
    "svd", "linalg.svd", "linalg.eig", "linalg.eigh", "pca_lowrank", "svd_lowrank", "linalg.ldl_factor", "linalg.ldl_factor_ex",
}  # fmt: skip
# among equal elements any index is right: PyTorch's default sort is not stable beyond 16 elements
_TIES = {"sort", "argsort", "msort", "topk", "kthvalue", "mode"}
# functions whose rounding errors are relative to the largest element of the result
_NORMWISE = {"matrix_exp": 1e-5}
_SEED = 42  # the seed that op_db's wrappers of random ops set before each call


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


def supported(names: list[str], dtypes: list[torch.dtype]) -> list[tuple[str, torch.dtype]]:
    """The pairs of an op of op_db and a dtype that PyTorch has."""
    return [(n, d) for n in names for d in dtypes if any(d in e.supported_dtypes("cpu") for e in database()[n])]


class NoSamples(Exception):
    """The entry has no samples in the dtype asked for."""


def all_entries() -> list[Any]:
    """Every OpInfo entry."""
    return [e for several in database().values() for e in several]


class _Recorder(TorchFunctionMode):
    """Notes every public call: name, arguments, result."""

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


def _strided(t: torch.Tensor) -> Any:
    """The same window onto a copy of the whole storage, so that strides and offsets are PyTorch's."""
    n = t.untyped_storage().nbytes() // t.element_size()
    whole = to_ours(t.as_strided((n,), (1,), 0))
    return mt.as_strided(whole, tuple(t.shape), t.stride(), t.storage_offset())


def to_ours(t: torch.Tensor, grad: bool = False) -> Any:
    """The same values as a mindtorch tensor, with the same strides."""
    d = t.detach().resolve_conj().resolve_neg()
    if d._is_zerotensor():
        d = d.clone()
    if d.numel() and (not d.is_contiguous() or d.untyped_storage().nbytes() > d.numel() * d.element_size()):
        r = _strided(d)
    elif t.dtype is torch.bfloat16:
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
        self.results: list[tuple[Any, Any]] = []

    def convert(self, v: Any) -> Any:
        if isinstance(v, torch.Tensor):
            if id(v) not in self.seen:
                self.seen[id(v)] = ours = to_ours(v, self.grad)
                self.keep.append(v)
                if self.grad and v.requires_grad:
                    self.leaves.append((v, ours))
            return self.seen[id(v)]
        if isinstance(v, torch.nn.Module):
            return getattr(mt.nn, type(v).__name__)()
        if isinstance(v, torch.Size):
            return mt.Size(v)
        if isinstance(v, (list, tuple)):
            items = [self.convert(x) for x in v]
            return type(v)(*items) if hasattr(v, "_fields") else type(v)(items)
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
        self.results.append((theirs, ours))
        if isinstance(theirs, torch.Tensor):
            self.seen[id(theirs)] = ours
            self.keep.append(theirs)
        elif isinstance(theirs, (list, tuple)):
            assert len(theirs) == len(ours), f"{len(ours)} results, want {len(theirs)}"
            for t, o in zip(theirs, ours):
                self.note(t, o)

    def run(self, steps: list[tuple[str, Any, Any, Any]]) -> None:
        for name, args, kwargs, out in steps:
            args, kwargs = self.convert(tuple(args)), self.convert(kwargs)
            self.note(out, _resolve(name)(*args, **kwargs))

    def result(self, theirs: Any) -> list[Any]:
        """Our results in the place of PyTorch's: tensors and other values by identity, the last call first."""
        for t, o in reversed(self.results):
            if t is theirs:
                return _flat(o)
        if isinstance(theirs, (list, tuple)):
            return [x for t in theirs for x in self.result(t)]
        assert isinstance(theirs, torch.Tensor) and id(theirs) in self.seen, "the result is not that of a public call"
        return [self.seen[id(theirs)]]


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


def compare(name: str, ours: Any, theirs: Any, scale: float = 1.0, within: Any = None, values: bool = True) -> None:
    """Assert equal dtype, shape and, unless the memory is uninitialised, values (``within`` rtol and atol)."""
    if not isinstance(theirs, torch.Tensor):
        same = ours == theirs or (isinstance(theirs, (float, complex)) and np.isclose(ours, theirs, 1e-6, 0, equal_nan=True))
        assert same, f"{name}: {ours!r} != {theirs!r}"
        return
    kind = str(theirs.dtype).split(".")[-1]
    assert str(ours.dtype).split(".")[-1] == kind, f"{name}: dtype {ours.dtype}, want {theirs.dtype}"
    assert tuple(ours.shape) == tuple(theirs.shape), f"{name}: shape {ours.shape}, want {theirs.shape}"
    if not values:
        return
    a, b = to_numpy(ours), to_numpy(theirs)
    rtol, atol = TOLERANCE.get(kind, (0.0, 0.0))
    if within and rtol:
        rtol, atol = max(rtol, within[0]), max(atol, within[1])
    if name.removeprefix("gradient of ") in _NORMWISE and b.size:
        atol = max(atol, _NORMWISE[name.removeprefix("gradient of ")] * float(np.abs(b).max()))
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


def tolerance(entry: Any, dtype: torch.dtype) -> tuple[float, float]:
    """Relative and absolute tolerance: ours per dtype, wider where op_db itself asks for it when back ends are compared."""
    rtol, atol = TOLERANCE.get(str(dtype).split(".")[-1], (0.0, 0.0))
    for d in entry.decorators:
        if getattr(d, "cls_name", None) not in (None, "TestCommon", "TestConsistency", "TestUnaryUfuncs"):
            continue
        for one in getattr(d, "decorators", [d]):
            wide = getattr(one, "d", {}).get(dtype) if isinstance(one, (toleranceOverride, precisionOverride)) else None
            if wide is not None:
                rtol, atol = max(rtol, getattr(wide, "rtol", 0.0)), max(atol, getattr(wide, "atol", wide if isinstance(wide, float) else 0.0))
    return rtol, atol


def _record(entry: Any, sample: Any, args: tuple[Any, ...]) -> tuple[list[Any], Any, Any]:
    """Steps of the sample, its result, and what ``output_process_fn_grad`` makes of it."""
    recorder = _Recorder()
    torch.manual_seed(_SEED)
    with recorder:
        theirs = entry.op(*args)
        if not recorder.steps:  # a query (item, ...): its own name is the call
            owner = "torch.Tensor" if isinstance(args[0], torch.Tensor) else "torch"
            recorder.steps.append((f"{owner}.{entry.name}", args, {}, theirs))
        processed = sample.output_process_fn_grad(theirs)
    return recorder.steps, theirs, processed


def _leaf(v: Any) -> Any:
    """A sample's tensor as a leaf: some are views that were told to require gradients, which PyTorch loses in some ops."""
    return v.detach().requires_grad_(v.requires_grad) if isinstance(v, torch.Tensor) else v


def check_sample(name: str, entry: Any, sample: Any, grad: bool, scale: float = 1.0, within: Any = None) -> None:
    """One sample: forward, and gradients of every input that requires one when ``grad``."""
    replay = _Replay(grad)
    args, kwargs = tree_map(_leaf, ((sample.input, *sample.args), sample.kwargs))
    replay.convert((args, kwargs))  # before PyTorch runs: some ops write to their arguments
    steps, theirs, processed = _record(_Bound(entry, kwargs), sample, args)
    mt.manual_seed(_SEED)
    replay.run(steps)
    shown = processed if entry.name in _GAUGE else theirs
    outs, mine = _flat(shown), replay.result(shown)
    assert len(mine) == len(outs), f"{name}: {len(mine)} outputs, want {len(outs)}"
    tied = entry.name in _TIES and args[0].dtype not in (torch.float32, torch.float64)
    for i, (a, b) in enumerate(zip(mine, outs)):
        is_index = tied and b.dtype is torch.int64 and (i > 0 or entry.name == "argsort")
        compare(name, a, b, scale, within, entry.name not in _UNINITIALISED and not is_index)
    if grad and replay.leaves and not tied:
        _check_gradients(name, replay, processed, scale, within)


class _Bound:
    """An entry with the keyword arguments of a sample."""

    def __init__(self, entry: Any, kwargs: dict[str, Any]) -> None:
        self.name = entry.name
        self.op = functools.partial(entry.op, **kwargs)


def _check_gradients(name: str, replay: _Replay, processed: Any, scale: float, within: Any) -> None:
    outs, mine = _flat(processed), replay.result(processed)
    for a, b in zip(mine, outs):
        want = isinstance(b, torch.Tensor) and b.requires_grad
        assert bool(getattr(a, "requires_grad", False)) == want, f"{name}: requires_grad is {not want}, want {want}"
    loss = _loss(outs, torch)
    if loss is None:
        return
    _loss(mine, mt).backward()
    wanted = torch.autograd.grad(loss, [t for t, _ in replay.leaves], allow_unused=True)
    for (_, leaf), want in zip(replay.leaves, wanted):
        if want is None:
            assert leaf.grad is None or not to_numpy(leaf.grad).any(), f"{name}: gradient where PyTorch has none"
        else:
            assert leaf.grad is not None, f"{name}: no gradient"
            compare(f"gradient of {name}", leaf.grad, want, 4 * scale, within)


def gradients_wanted(entry: Any, dtype: torch.dtype) -> bool:
    """Whether gradients of this entry are compared in this dtype."""
    real = dtype.is_floating_point or dtype.is_complex
    return real and entry.supports_autograd and dtype in entry.supported_backward_dtypes("cpu")


def check_entry(
    entry: Any, dtype: torch.dtype, limit: int = 8, scale: float = 1.0, gradients: bool = True
) -> int:
    """Up to ``limit`` samples, spread evenly, of one entry of op_db in ``dtype``; returns how many ran."""
    grad = gradients and gradients_wanted(entry, dtype)
    name = f"{entry.name} {entry.variant_test_name}".strip()
    within = tolerance(entry, dtype)
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        samples = list(entry.sample_inputs("cpu", dtype, requires_grad=grad))
        if not samples:
            raise NoSamples(name)
        spread = np.unique(np.linspace(0, len(samples) - 1, min(limit, len(samples))).round().astype(int))
        for i in spread:
            check_sample(name, entry, samples[i], grad, scale, within)
    return len(spread)


def check_op(name: str, dtype: torch.dtype, limit: int = 8, scale: float = 1.0, gradients: bool = True) -> int:
    """Up to ``limit`` samples of every variant of ``name`` in ``dtype``; returns how many ran."""
    ran = 0
    for entry in database()[name]:
        if dtype in entry.supported_dtypes("cpu"):
            with contextlib.suppress(NoSamples):
                ran += check_entry(entry, dtype, limit, scale, gradients)
    return ran
