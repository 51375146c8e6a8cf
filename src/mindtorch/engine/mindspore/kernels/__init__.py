"""MindSpore kernels by the name of the op's row: functions over ms.Tensors and Python values.

A kernel gets what the row's host kernel gets, with ms.Tensors in place of arrays and Python numbers as they are, and returns
ms.Tensors of PyTorch's shapes and dtypes. It raises :class:`Unsupported` for arguments it cannot express; the row's host
kernel runs then. ``mint`` is preferred, older primitives where ``mint`` has none, compositions where neither does.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

_FILES = ("pointwise", "shapes", "reductions", "moves", "order", "network", "convolution", "pooling", "activations",
          "normalising", "recurrent", "scatters", "spectra", "matrices",
          "special", "sets", "grids", "drawn", "bits", "lattice", "fitted")  # fmt: skip
ROWS: list[Any] = []
"""The op table's rows, given by the op table itself (this room is below it)."""
_HOST: dict[str, Callable[..., Any]] = {}
_TABLE: dict[str, Callable[..., Any]] = {}
_loaded = False


class Unsupported(Exception):
    """The arguments are beyond this kernel."""


def kernel(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a function as the MindSpore kernel of the rows ``names``. KeyError when one has a kernel already."""

    def register(fn: Callable[..., Any]) -> Callable[..., Any]:
        for name in names:
            if name in _TABLE:
                raise KeyError(f"row {name!r} has two MindSpore kernels")
            _TABLE[name] = fn
        return fn

    return register


def reason(name: str) -> str:
    """Why the row ``name`` runs on the host."""
    from mindtorch.engine.mindspore.kernels.absent import ABSENT, DRAWN

    return ABSENT.get(name) or (DRAWN_REASON if name in DRAWN else "no MindSpore kernel")


DRAWN_REASON = "drawn on the host by design: the numbers are those of PyTorch's CPU stream"


def is_drawn(name: str) -> bool:
    """Whether the row draws random numbers, which come from the host's stream and are moved."""
    from mindtorch.engine.mindspore.kernels.absent import DRAWN

    return name in DRAWN


def find(name: str) -> Callable[..., Any] | None:
    """The kernel of the row ``name``, None when it has none. Loads MindSpore on first use."""
    return table().get(name)


def host(name: str) -> Callable[..., Any]:
    """The host kernel of the row ``name``: it works out positions and weights from shapes, never from a tensor's values."""
    if name not in _HOST:
        _HOST.update((r.name, r.kernel) for r in ROWS if r.kind == "op")
    return _HOST[name]


def table() -> dict[str, Callable[..., Any]]:
    """All kernels by row name."""
    global _loaded
    if not _loaded:
        _loaded = True
        for file in _FILES:
            importlib.import_module(f"{__name__}.{file}")
    return _TABLE


_ABSENT = ("unregistered", "kernel select failed", "select cpu operator")


def unregistered(e: BaseException) -> bool:
    """Whether MindSpore accepted the call (types, shapes) and only lacks a kernel for its CPU target."""
    text = str(e).lower()
    return not isinstance(e, Unsupported) and any(s in text for s in _ABSENT)


def np_dtype(t: Any) -> np.dtype:
    """NumPy dtype of an ms.Tensor, with ``ml_dtypes`` for bfloat16."""
    name = str(t.dtype)
    got = _NP.get(name)
    if got is None:
        if name == "BFloat16":
            import ml_dtypes

            got = np.dtype(ml_dtypes.bfloat16)
        else:
            got = np.dtype(name.lower())
        _NP[name] = got
    return got


_NP: dict[str, np.dtype] = {}
