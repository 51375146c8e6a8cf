"""Backward passes that somebody watches: a leaf has its gradient as soon as the last contribution to it has come.

A pass without hooks cannot tell when leaves are written, so ``tape`` writes them at its end and counts nothing. Once a program
has registered a hook on a tensor, a node or a parameter, passes go through :class:`Watched`, which counts the edges into every
node first, like PyTorch's engine: hooks then run in PyTorch's order, and what a hook does (DistributedDataParallel sends a bucket
off, an optimiser steps) happens while the pass goes on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mindtorch.core import observe
from mindtorch.core.tape import _Walk
from mindtorch.core.tensor import Leaf, Out


def push(heap: list[Any], nd: Any) -> None:
    """Add a node. Which of several leaves comes first depends on how the heap moves, so it moves as PyTorch's does."""
    heap.append(nd)
    _rise(heap, len(heap) - 1, nd)


def _rise(heap: list[Any], i: int, nd: Any) -> None:
    q = nd.q
    while i:
        up = (i - 1) >> 1
        if heap[up].q >= q:
            break
        heap[i] = heap[up]
        i = up
    heap[i] = nd


def pop(heap: list[Any]) -> Any:
    """Take the node with the highest stamp; leaves have the highest of all."""
    top, last = heap[0], heap.pop()
    n = len(heap)
    if n:
        # the hole sinks to the bottom, to the right where both sides are equal, and the last node rises from there
        i = 0
        while (child := 2 * i + 2) < n:
            if heap[child].q < heap[child - 1].q:
                child -= 1
            heap[i] = heap[child]
            i = child
        if child == n:
            heap[i] = heap[child - 1]
            i = child - 1
        _rise(heap, i, last)
    return top


class Watched(_Walk):
    """A backward pass that knows how many gradients every node still waits for."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.ready: list[Any] = []
        self.roots: list[Any] = []
        self.due: dict[Any, int] = {}

    def give(self, e: Any, g: Any) -> None:
        """Where the pass begins: an output and its gradient."""
        nd = e.node if e.__class__ is Out else e
        if self.needed is None or nd.__class__ is Leaf or nd in self.needed:
            self.add(e, nd, g)
            self.roots.append(nd)

    def count(self) -> None:
        """How many edges lead into each node from the roots."""
        due, needed = self.due, self.needed
        todo = []
        for nd in self.roots:
            if nd not in due:
                todo.append(nd)
            due[nd] = due.get(nd, 0) + 1
        while todo:
            nd = todo.pop()
            if nd.__class__ is Leaf:
                continue
            for e in nd.e:
                if e is None:
                    continue
                to = e.node if e.__class__ is Out else e
                if to in due:
                    due[to] += 1
                elif needed is None or to.__class__ is Leaf or to in needed:
                    due[to] = 1
                    todo.append(to)

    def add(self, e: Any, nd: Any, g: Any) -> None:
        """Add ``g`` to what ``nd`` has received along ``e``."""
        buf = self.buf
        if nd.__class__ is Leaf or nd.nout == 1:
            old = buf.get(nd)
            buf[nd] = g if old is None else old + g
            return
        lst = buf.get(nd)
        if lst is None:
            buf[nd] = lst = [None] * nd.nout
        i = e.i if e.__class__ is Out else 0
        lst[i] = g if lst[i] is None else lst[i] + g

    def run(self) -> None:
        """Run the nodes that have everything, newest first; leaves at once."""
        self.count()
        ready, buf, due, leaves = self.ready, self.buf, self.due, self.leaves
        for nd in self.roots:
            due[nd] -= 1
            if not due[nd]:
                push(ready, nd)
        while ready:
            nd = pop(ready)
            if nd.__class__ is Leaf:
                if nd in buf:
                    leaves[nd] = buf.pop(nd)
                    self.finish()
                elif self.capture is None:
                    _untouched(nd)
                continue
            self.step(nd)

    def spread(self, nd: Any, grads: Sequence[Any]) -> None:
        """Add gradients to what the edges of ``nd`` lead to; nodes that have everything become ready."""
        ready, buf, due = self.ready, self.buf, self.due
        edges = nd.e
        if len(grads) < len(edges):
            grads = [*grads, *[None] * (len(edges) - len(grads))]
        order = nd.order
        for e, g in zip(edges, grads) if order is None else [(edges[i], grads[i]) for i in order]:
            if e is None:
                continue
            to = e.node if e.__class__ is Out else e
            left = due.get(to)
            if left is None:
                continue
            if g is not None:
                if to.__class__ is Leaf or to.nout == 1:
                    old = buf.get(to)
                    buf[to] = g if old is None else old + g
                else:
                    self.add(e, to, g)
            if left == 1:
                push(ready, to)
            else:
                due[to] = left - 1

    def step(self, nd: Any) -> None:
        """Send gradients along the edges of ``nd``; none when no gradient came to it."""
        g = self.buf.pop(nd, None)
        grads: Sequence[Any] = ()
        if g is not None:
            if nd.h is not None:
                g = self.hooked(nd, g)
            if self.capture is not None:
                self.catch(nd, g)
            if self.capture is None or any(e is not None for e in nd.e):
                extra = nd.__dict__
                if self.watch:
                    observe.within("node", nd.name(), nd, self.watched, nd, g, extra)
                    return
                grads = self.call(nd, g, extra) if extra else nd.apply(g)
                self.release(nd)
        self.spread(nd, grads)

    def watched(self, nd: Any, g: Any, extra: dict[str, Any]) -> None:
        """A node and the adding up of what it gives, as one span."""
        grads = self.call(nd, g, extra)
        self.release(nd)
        self.spread(nd, grads)

    def release(self, nd: Any) -> None:
        """Drop what the node saved, unless the graph is to be kept."""
        if not self.keep and nd.s:
            nd.s = None


def _untouched(leaf: Leaf) -> None:
    """All edges into a leaf are done and none brought a gradient: PyTorch runs its hooks all the same."""
    t = leaf.ref()
    if t is not None:
        for hook in list(leaf.__dict__.get("post", {}).values()):
            hook(t)
    for hook in list(leaf.__dict__.get("post_node", {}).values()):
        hook((), (None,))
