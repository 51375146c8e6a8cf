"""Tensors of either framework as NumPy arrays, nested results as labelled leaves, and the statistics that tools print."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

_known: dict[type, bool] = {}


def tensor_class(cls: type) -> bool:
    """Whether instances of a class are tensors, remembered."""
    got = _known.get(cls)
    if got is None:
        got = _known[cls] = any(
            c.__name__ == "Tensor" and c.__module__ in ("torch", "torch._tensor", "mindtorch.torch", "mindtorch.core.tensor")
            for c in cls.__mro__
        )
    return got


def is_tensor(x: Any) -> bool:
    """Whether ``x`` is a tensor of PyTorch or mindtorch (subclasses included), without importing either."""
    return tensor_class(type(x))


def leaves(value: Any, label: str = "", everything: bool = False, depth: int = 0) -> Iterator[tuple[str, Any]]:
    """``(label, leaf)`` of what an argument or result holds: tuples, lists, dicts, dataclasses and Hugging Face outputs.

    Labels are written ``[0][mask]``. Leaves that are no tensors are given only with ``everything``.
    """
    if tensor_class(type(value)):
        yield label, value
    elif depth > 8:
        return
    elif isinstance(value, Mapping):
        for k, v in value.items():
            yield from leaves(v, f"{label}[{k}]", everything, depth + 1)
    elif isinstance(value, (tuple, list)):
        for i, v in enumerate(value):
            yield from leaves(v, f"{label}[{i}]", everything, depth + 1)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for f in dataclasses.fields(value):
            yield from leaves(getattr(value, f.name, None), f"{label}[{f.name}]", everything, depth + 1)
    elif everything:
        yield label, value


def is_nest(x: Any) -> bool:
    """Whether `leaves` looks into ``x``."""
    return isinstance(x, (Mapping, tuple, list)) or (dataclasses.is_dataclass(x) and not isinstance(x, type))


def dtype_name(t: Any) -> str:
    """``torch.float32``, for both frameworks."""
    return str(t.dtype)


def to_array(t: Any, copy: bool = False) -> np.ndarray:
    """A tensor's values; bfloat16 (which ``.npy`` files cannot say) becomes float32, nothing is recorded.

    TypeError for tensors without values (meta, and those inside ``torch.func`` transforms).
    """
    a = getattr(t, "a", None)
    if a is not None and isinstance(a, np.ndarray) and type(t).__module__.startswith("mindtorch"):
        if t.device.type == "meta":
            raise TypeError("a meta tensor has no values")
    else:
        try:
            a = _from_pytorch(t)
        except RuntimeError as e:  # inside torch.func transforms a tensor stands for several
            raise TypeError(f"a tensor without values of its own: {e}") from e
    if a.dtype.kind == "V" or a.dtype.name in ("bfloat16", "float8_e4m3fn", "float8_e5m2"):
        return a.astype(np.float32)
    return np.array(a, copy=True) if copy else a


def _from_pytorch(t: Any) -> np.ndarray:
    t = t.detach()
    if t.device.type == "meta":
        raise TypeError("a meta tensor has no values")
    if t.layout is not None and "strided" not in str(t.layout):
        t = t.to_dense()
    if getattr(t, "is_quantized", False):
        t = t.dequantize()
    if t.is_conj() or t.is_neg():
        t = t.resolve_conj().resolve_neg()
    if dtype_name(t) in ("torch.bfloat16", "torch.float8_e4m3fn", "torch.float8_e5m2"):
        t = t.float()
    return t.cpu().numpy()


def requires_grad(t: Any) -> bool:
    """Whether a gradient will pass through ``t`` (a leaf parameter is not meant)."""
    return bool(t.requires_grad) and t.grad_fn is not None


@dataclasses.dataclass(frozen=True)
class Stats:
    """Largest, smallest, mean and Euclidean norm; counts of NaN and infinite elements. NaN where there are no elements."""

    max: float
    min: float
    mean: float
    norm: float
    nan: int
    inf: int


_EMPTY = Stats(float("nan"), float("nan"), float("nan"), float("nan"), 0, 0)


def statistics(a: np.ndarray, mean: bool = True, norm: bool = True, quick: bool = False) -> Stats:
    """Statistics of an array; complex numbers by their absolute value. Computed alike for both frameworks.

    With ``quick`` the mean is summed up in the array's own precision, which takes half of the time.
    """
    if a.size == 0:
        return _EMPTY
    if a.dtype.kind == "c":
        a = np.abs(a)
    elif a.dtype.kind == "b":
        a = a.astype(np.uint8)
    with np.errstate(all="ignore"):
        if a.dtype == np.float16:
            a = a.astype(np.float32)
        hi, lo = float(a.max()), float(a.min())
        middle = float(a.mean(dtype=None if quick and a.dtype.kind == "f" else np.float64)) if mean else float("nan")
        length = _norm(a) if norm else float("nan")
    nan = inf = 0
    if a.dtype.kind == "f" and not (np.isfinite(hi) and np.isfinite(lo)):
        nan = int(np.isnan(a).sum())
        inf = int(np.isinf(a).sum())
    return Stats(hi, lo, middle, length, nan, inf)


def _norm(a: np.ndarray) -> float:
    flat = a.ravel(order="K")
    if flat.dtype.kind in "iu":
        flat = flat.astype(np.float64)
    got = float(np.sqrt(np.float64(np.dot(flat, flat))))
    if np.isinf(got) and flat.dtype == np.float32 and bool(np.isfinite(flat).all()):
        flat = flat.astype(np.float64)
        got = float(np.sqrt(np.dot(flat, flat)))
    return got


def digest(a: np.ndarray) -> str:
    """md5 of the values' bytes in row-major order."""
    return hashlib.md5(np.ascontiguousarray(a).tobytes(), usedforsecurity=False).hexdigest()
