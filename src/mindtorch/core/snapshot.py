"""Saved tensors that may be written to: copied when that happens, and only then.

Where one step here stands for several of PyTorch (``cross_entropy`` keeps no log-softmax), the rule reads the input again,
which PyTorch lets the user overwrite. The cell of such an input is watched: in-place operations leave it to the slow path,
which first gives the nodes that saved the tensor a copy. A write that does not pass there is an error as ever.
"""

from __future__ import annotations

import gc
import weakref
from typing import Any

from mindtorch.core.cells import Cell, MarkedCell, WatchedCell
from mindtorch.core.tensor import Tensor, cell_of, new


def watch(nd: Any, x: Tensor) -> None:
    """Note that ``nd`` saved ``x`` and must get a copy before it is written to."""
    cell = cell_of(x)
    if cell.__class__ is WatchedCell:
        if len(cell.readers) > 3:  # one tensor read by a loop of losses: only living graphs count
            cell.readers = [r for r in cell.readers if (n := r()) is not None and n.s]
        cell.readers.append(weakref.ref(nd))
    elif cell.__class__ is Cell:
        cell.__class__ = WatchedCell
        cell.readers = [weakref.ref(nd)]


class SplitCell(Cell):
    """Cell of memory of which an operation returned several views with history: after any write nobody may use those."""

    __slots__ = ()

    def bump(self) -> None:
        """Count the write; views of graphs that live are lost, as PyTorch decides when they are used."""
        Cell.bump(self)
        if any(r() is not None for r in self.readers):
            _lose(self)


def watch_parts(t: Tensor) -> None:
    """Note that ``t`` is one of several views that an operation with history returned."""
    cell = t.v
    if cell.__class__ in (Cell, MarkedCell, WatchedCell):
        if cell.__class__ is WatchedCell:
            snapshot(cell)
        cell.__class__ = SplitCell
        cell.readers = []
    if cell.__class__ is SplitCell:
        if len(cell.readers) > 3:
            cell.readers = [r for r in cell.readers if r() is not None]
        cell.readers.append(weakref.ref(t.grad_fn))


def _lose(cell: Cell) -> None:
    from mindtorch.core.writable import lost_edge

    for t in gc.get_referrers(cell):
        if isinstance(t, Tensor) and t.n is not None and len(getattr(t, "b", ())) == 4:
            lost = lost_edge(t)
            if lost is not None:
                t.n, t.k = lost, t.k.sub if t.k.plain else t.k
    cell.readers = []


def snapshot(cell: Cell) -> None:
    """Give every node that waits for it a copy of what it saved, before the memory of ``cell`` is written to."""
    readers, cell.readers = cell.readers, []
    cell.__class__ = Cell
    for ref in readers:
        nd = ref()
        if nd is None or not nd.s or cell.stamp > nd.q:
            continue
        saved = list(nd.s)
        for i, t in enumerate(saved):
            if isinstance(t, Tensor) and t.v is cell:
                c = new()
                c.a, c.k, c.n, c.v = t.a.copy(), t.k, t.n, None
                saved[i] = c
        nd.s = tuple(saved)
