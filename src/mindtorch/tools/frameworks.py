"""Which of the two frameworks an object belongs to. Nothing here imports either of them until it is asked for by name."""

from __future__ import annotations

import importlib
import os
from types import ModuleType
from typing import Any

PYTORCH, MINDTORCH = "pytorch", "mindtorch"
FRAMEWORKS = (PYTORCH, MINDTORCH)


def load(frame: str) -> ModuleType:
    """The ``torch`` module of a framework; "pytorch" is the real one even while ``import torch`` means mindtorch.

    ValueError for another name, ImportError when PyTorch is not installed.
    """
    if frame == MINDTORCH:
        return importlib.import_module("mindtorch.torch")
    if frame != PYTORCH:
        raise ValueError(f"frame must be 'pytorch' or 'mindtorch', got {frame!r}")
    from mindtorch.cli import switch

    switch.torch_enable()
    try:
        return importlib.import_module("torch")
    except ImportError as e:
        raise ImportError("frame='pytorch' needs PyTorch, which is not installed here: pip install torch") from e
    finally:
        switch.torch_pop()


def is_module(obj: Any, frame: str) -> bool:
    """Whether ``obj`` is an nn.Module of a framework; loads the framework only when the object's class names it."""
    head = "torch" if frame == PYTORCH else "mindtorch"
    names = [c.__module__ for c in type(obj).__mro__]
    if not any(n == head or n.startswith(f"{head}.") for n in names):
        return False
    return isinstance(obj, load(frame).nn.Module)


def frame_of(model: Any) -> str | None:
    """The framework whose nn.Module ``model`` is, None when it is neither's."""
    for frame in (MINDTORCH, PYTORCH):
        if is_module(model, frame):
            return frame
    return None


def rank() -> int:
    """Number of this process among several, from RANK (torchrun) or RANK_ID (msrun); 0 when there is one process."""
    for name in ("RANK", "RANK_ID"):
        value = os.environ.get(name, "")
        if value.isdigit():
            return int(value)
    return 0


def several_ranks() -> bool:
    """Whether the environment names a rank, so that files of several processes have to be told apart."""
    return any(os.environ.get(n, "").isdigit() for n in ("RANK", "RANK_ID"))


def ranked(path: str) -> str:
    """``path`` with the rank before its suffix when there are several processes: ``a.json`` -> ``a.rank1.json``."""
    if not several_ranks():
        return path
    stem, dot, suffix = path.rpartition(".")
    return f"{stem}.rank{rank()}.{suffix}" if dot and "/" not in suffix else f"{path}.rank{rank()}"
