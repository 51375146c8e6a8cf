"""What may be written to: leaves, views and memory that PyTorch refuses to change in place, and its words for that."""

from __future__ import annotations

from typing import Any

import numpy as np

from mindtorch.core import modes
from mindtorch.core.cells import Cell, HeldCell, WatchedCell, base_of, check_inference_write
from mindtorch.core.snapshot import snapshot
from mindtorch.core.tensor import Leaf, Lost, Tensor

_LEAF = "a leaf Variable that requires grad is being used in an in-place operation."
_VIEW = "a view of a leaf Variable that requires grad is being used in an in-place operation."
_MULTI = (
    " This view is the output of a function that returns multiple views. Such functions do not allow the output views to be "
    "modified inplace. You should replace the inplace operation by an out-of-place one."
)
_AMBIGUOUS = (
    " Given that this use case is ambiguous and error-prone, it is forbidden. You can clarify your code by moving both the "
    "view and the inplace either both inside the {block} block (if you don't want the inplace to be tracked) or both outside "
    "(if you want the inplace to be tracked)."
)
_SHARED = (
    "unsupported operation: more than one element of the written-to tensor refers to a single memory location. Please clone() "
    "the tensor before performing the operation."
)
_OVERLAP = (
    "unsupported operation: some elements of the input tensor and the written-to tensor refer to a single memory location. "
    "Please clone() the tensor before performing the operation."
)
FILLS = frozenset(("fill_", "zero_", "index_put_"))
"""Writes that PyTorch allows where elements share memory: all of them get the same value."""
UNCHECKED = frozenset("addmm_ addmv_ addr_ baddbmm_ addbmm_ masked_scatter_ masked_fill_ index_fill_".split())
"""In-place operations for which PyTorch does not look at overlaps of what is read and what is written."""


def check_writable(x: Tensor, name: str, needs: bool = False) -> None:
    """Refuse writes that PyTorch refuses. ``needs``: what is written carries a gradient."""
    if x.v.__class__ is HeldCell:
        check_inference_write()
    elif x.v.__class__ is WatchedCell:
        snapshot(x.v)
    if modes.state.grad:
        _check_history(x, name, needs)
    a = x.a
    if 0 in a.strides and a.size > 1 and name not in FILLS and shares_elements(a):
        raise RuntimeError(f"{_SHARED} ({name})")
    if not a.flags.writeable:
        x.a = _writeable(x)


def _check_history(x: Tensor, name: str, needs: bool) -> None:
    n = x.n
    if n.__class__ is Lost:
        n.refuse()
    base = base_of(x)
    if base is not x and x.k.diff and (needs or n is not None or base.n is not None):
        text = _view_trouble(x, "and is being modified inplace")
        if text is not None:
            raise RuntimeError(text)
        if base.n.__class__ is Leaf:
            raise RuntimeError(f"{_VIEW} ({name})")
    if n.__class__ is Leaf:
        raise RuntimeError(f"{_LEAF} ({name}: write inside torch.no_grad(), or use {name.rstrip('_')} and its result)")


def _view_trouble(x: Tensor, what: str) -> str | None:
    """Why the view ``x`` cannot follow a write (``what`` says to which tensor), None when it can."""
    y, many, made = x, False, None
    while True:
        try:
            b = y.b
        except AttributeError:
            break
        many = many or len(b) == 4
        made = made or y.__dict__.get("_made")
        y = b[0]
    if many and not made:
        if x.n is None or x.n.__class__ is Leaf:
            return f"A view was created in no_grad mode {what} with grad mode enabled.{_MULTI}"
        return f"Output {x.output_nr} of {_short(x)} is a view {what}.{_MULTI}"
    if made:
        after = "_made" not in x.__dict__ and x.n is not None
        first = f"Output {x.output_nr} of {_short(x)} is a view of a view which" if after else "A view"
        block, mode = ("no_grad", "with grad mode enabled") if made == "no_grad mode" else ("inference_mode", "in normal mode")
        return f"{first} was created in {made} {what} {mode}.{_AMBIGUOUS.format(block=block)}"
    return None


def _short(x: Tensor) -> str:
    return str(x.grad_fn.name()).partition("Backward")[0]


def lost_edge(x: Tensor) -> Lost | None:
    """The edge of a living view after its base (or another view of it) was written to, if PyTorch lets nobody use it then."""
    if x.n.__class__ is Lost:
        return x.n
    text = _view_trouble(x, "and its base or another view of its base has been modified inplace")
    return None if text is None else Lost(text)


# ------------------------------------------------------------------------------------------ memory
def shares_elements(a: np.ndarray) -> bool:
    """Whether elements of ``a`` are one place in memory, as after ``expand``."""
    return any(s == 0 and n > 1 for n, s in zip(a.shape, a.strides))


def _writeable(x: Tensor) -> np.ndarray:
    """An array that may be written. Memory the user gave read-only is copied, as NumPy would refuse."""
    a = x.a[...]
    try:
        a.flags.writeable = True
    except ValueError:
        a = x.a.copy()
        x.v = Cell(a)
    return a


def _dense(a: np.ndarray) -> bool:
    """Whether ``a`` fills its stretch of memory without gaps, in some order of dimensions."""
    step = a.itemsize
    for s, n in sorted((s, n) for n, s in zip(a.shape, a.strides) if n != 1):
        if s != step:
            return False
        step *= n
    return True


def overlaps(dst: np.ndarray, src: np.ndarray) -> bool:
    """Whether writing ``dst`` would change parts of ``src``, another window on the same memory, as PyTorch judges it."""
    if dst is src or (dst.base is None and src.base is None) or not np.may_share_memory(dst, src):
        return False
    if not _dense(dst) or not _dense(src):
        return False
    same = dst.__array_interface__["data"][0] == src.__array_interface__["data"][0] and dst.nbytes == src.nbytes
    return not (same and dst.strides == src.strides)


def check_overlap(dst: np.ndarray, sources: Any, name: str) -> None:
    """RuntimeError when a tensor of ``sources`` partly overlaps the memory to be written."""
    for t in sources:
        if overlaps(dst, t.a):
            raise RuntimeError(f"{_OVERLAP} ({name})")


def check_disjoint(dst: np.ndarray, sources: Any, name: str) -> None:
    """RuntimeError when a tensor of ``sources`` shares memory with ``dst``, in part or as a whole, as PyTorch judges it."""
    for t in sources:
        if not isinstance(t, Tensor) or not t.a.size or (dst is not t.a and dst.base is None and t.a.base is None):
            continue
        if dst is t.a or (np.may_share_memory(dst, t.a) and _dense(dst) and _dense(t.a)):
            raise RuntimeError(f"{_OVERLAP} ({name})")


def check_copy(dst: np.ndarray, src: Tensor) -> None:
    """RuntimeError when ``src`` cannot be copied into the array ``dst``, part of a tensor."""
    if src.a.size > 1 and dst.__class__ is np.ndarray and shares_elements(dst):
        raise RuntimeError(f"{_SHARED} (copy_)")
    if dst.__class__ is np.ndarray:
        check_overlap(dst, (src,), "copy_")
