"""Cells: what the views of one memory share. They count writes, and their class tells what a write has to look at.

Memory made in inference mode, memory some view of which was made unrecorded, and memory that backward reads again
have cells of their own kind, so that fast paths see by one look whether they may write.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from mindtorch.core import modes

STAMP = itertools.count(1).__next__
"""One counter orders graph nodes and in-place operations: a saved tensor is stale when its cell is newer than the node."""


class Cell:
    """What views of one memory share: how often it was written to, when last, and the array that owns it."""

    __slots__ = ("readers", "root", "stamp", "stamps", "ver")

    def __init__(self, root: np.ndarray) -> None:
        self.root = root
        self.ver = 0
        self.stamp = 0
        self.stamps: tuple[int, ...] = ()

    def bump(self) -> None:
        """Note one write. The stamp before the last is kept so that an error can tell the version a node expected."""
        self.ver += 1
        old = self.stamp
        self.stamp = s = STAMP()
        self.stamps = (old, s)


class HeldCell(Cell):
    """Cell of memory made in inference mode: nobody counts its writes, and outside of that mode there may be none."""

    __slots__ = ()

    def bump(self) -> None:
        """Refuse a write from outside inference mode."""
        check_inference_write()


class MarkedCell(Cell):
    """Cell of memory some view of which was made unrecorded: fast in-place paths leave it to the slow one, which looks."""

    __slots__ = ()


class WatchedCell(Cell):
    """Cell of memory that backward will read although it may be written to: see ``core.snapshot``."""

    __slots__ = ()


INFERENCE_WRITE = (
    "Inplace update to inference tensor outside InferenceMode is not allowed.You can make a clone to get a normal tensor "
    "before doing inplace update.See https://github.com/pytorch/rfcs/pull/17 for more details."
)


def check_inference_write() -> None:
    """RuntimeError unless the calling thread is in inference mode."""
    if not modes.state.inference:
        raise RuntimeError(INFERENCE_WRITE)


def fresh_cell(a: np.ndarray) -> Cell | None:
    """Version cell of a tensor made now: one of its own at once in inference mode, else on first need."""
    return HeldCell(a) if modes.state.inference else None


modes.NS["FRESH"] = None
modes.NS["INFERENCE"] = False


def inference_count(change: int) -> None:
    """Note a thread that enters or leaves inference mode: only then are new tensors asked where they were made."""
    global _inferring
    with modes.LOCK:
        _inferring += change
        modes.NS["FRESH"] = fresh_cell if _inferring else None
        modes.NS["INFERENCE"] = True


def made_unrecorded(t: Any) -> None:
    """Note that a view of a tensor with history was made where nothing is recorded: to write to it elsewhere is ambiguous."""
    if not modes.state.grad and base_of(t).n is not None:
        t.__dict__["_made"] = "inference mode" if modes.state.inference else "no_grad mode"
        if t.v.__class__ is Cell:
            t.v.__class__ = MarkedCell


def check_savable(saved: Any) -> None:
    """RuntimeError when a tensor made in inference mode is among what a node saves."""
    for x in saved:
        if x.__class__ is list:
            check_savable(x)
        elif getattr(x, "v", None).__class__ is HeldCell:
            raise RuntimeError(_NOT_SAVED)


_NOT_SAVED = (
    "Inference tensors cannot be saved for backward. Please do not use Tensors created in inference mode in computation "
    "tracked by autograd. To work around this, you can make a clone to get a normal tensor and use it in autograd, or use "
    "`torch.no_grad()` instead of `torch.inference_mode()`."
)
_inferring = 0
modes.on_inference.append(inference_count)


def base_of(x: Any) -> Any:
    """The tensor that ``x`` is, directly or through other views, a view of; ``x`` itself when it is none."""
    while True:
        try:
            x = x.b[0]
        except AttributeError:
            return x
