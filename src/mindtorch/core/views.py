"""In-place operations: the write, the version, and the graph rebased as PyTorch does, through views too.

An in-place op computes its result out of place, writes it into the tensor's memory and hangs the result's graph node on the
tensor. When the tensor is a view, its base gets a ``CopySlices`` node whose gradient is zero where the view was and whose
other input is the view's new value; every living view of the same memory is then made again from the base.
"""

from __future__ import annotations

import gc
import sys
import weakref
from typing import Any

from mindtorch.core import dtype as D
from mindtorch.core import modes, observe, overrides
from mindtorch.core.cells import HeldCell, base_of
from mindtorch.core.dispatch import broadcast_error, cast_into, tensors_in
from mindtorch.core.tape import Node, new_node
from mindtorch.core.tensor import Leaf, Tensor, cell_of, new
from mindtorch.core.writable import UNCHECKED, check_overlap, check_writable, lost_edge


class CopySlices(Node):
    """Gradient of a base one of whose views was overwritten: zero in the view for the old base, the view for the value."""

    __slots__ = ()
    label = "CopySlices"

    def name(self) -> str:
        """PyTorch gives this node its C++ name."""
        return "torch::autograd::CopySlices"

    def apply(self, g: Tensor) -> Any:
        """``s`` holds the chain of view functions."""
        old, value = self.e
        part = replay(g, self.s[0]) if value is not None else None
        rest = None
        if old is not None:
            rest = g.clone()
            replay(rest, self.s[0]).zero_()
        return rest, part


class Identity(Node):
    """Stands for a result that gradients pass through unchanged."""

    __slots__ = ()
    label = "CloneBackward0"

    def apply(self, g: Tensor) -> Any:
        """The gradient itself."""
        return (g,)


def chain_of(x: Tensor) -> list[tuple[Any, ...]]:
    """View functions that lead from the base of ``x`` to ``x``."""
    chain: list[tuple[Any, ...]] = []
    while True:
        try:
            b = x.b
        except AttributeError:
            return chain[::-1]
        chain.append(b[1:])
        x = b[0]


def replay(x: Tensor, chain: list[tuple[Any, ...]]) -> Tensor:
    """Apply recorded view functions to ``x``."""
    for step in chain:
        x = step[0](x, *step[1])
        if len(step) == 3:
            x = x[step[2]]
    return x


def shadow_of(x: Tensor, copy: bool) -> Tensor:
    """``x`` as it is before the write: same history; its memory copied when a rule may need the old values."""
    t = new()
    t.a = x.a.copy() if copy else x.a
    t.k, t.n, t.v = x.k, x.n, None
    return t


def inplace(row: Any, args: tuple[Any, ...]) -> Any:
    """Run ``row`` on its first argument and write the result into that argument. Returns the argument itself."""
    x = args[0]
    name = f"{row.name}_"
    if not isinstance(x, Tensor):
        raise TypeError(f"{name}(): argument 'input' must be Tensor, not {type(x).__name__}")
    if overrides.wanted(args):
        pos, kwargs = row.as_call(args)
        r = overrides.call(row.inplace_fn, pos, kwargs)
        if r is not NotImplemented:
            return r
    tensors = tensors_in(args)
    copy = modes.state.grad and any(t.n is not None for t in tensors)
    check_writable(x, name, copy)
    if name not in UNCHECKED:
        check_overlap(x.a, tensors[1:], name)
    shadow = shadow_of(x, copy)
    if observe.OBSERVERS:
        observe.shadowed(shadow, x)
    pos, kwargs = row.as_call((shadow, *args[1:]))
    r = row.fn(*pos, **kwargs)
    return assign(x, r, name)


def assign(x: Tensor, r: Tensor, name: str) -> Tensor:
    """Write ``r``, the new value of ``x``, into its memory, and move its history over."""
    if r.k.np is not x.k.np:
        if not D.can_cast(r.k.dtype, x.k.dtype):
            raise RuntimeError(
                f"result type {r.k.dtype.name.capitalize()} can't be cast to the desired output type "
                f"{x.k.dtype.name.capitalize()} ({name})"
            )
        if r.n is not None:
            r = r.to(x.k.dtype)
    if r.a.shape != x.a.shape:
        text = broadcast_error([x.a.shape, r.a.shape])
        raise RuntimeError(
            text or f"output with shape {list(x.a.shape)} doesn't match the broadcast shape {list(r.a.shape)} ({name})"
        )
    cast_into(x.a, r.a)
    cell_of(x).bump()
    if modes.state.grad and (r.n is not None or x.n is not None):
        rebase(x, r.n)
    if observe.OBSERVERS:
        observe.wrote(x, r)
    return x


def rebase(x: Tensor, edge: Any) -> None:
    """Make ``edge`` the history of ``x`` after its memory was overwritten."""
    base = base_of(x)
    if base is x:
        old_views = _views(x)
        if edge is None or edge.__class__ is Leaf:
            edge = new_node(Identity, (edge,))
        x.n = edge
    else:
        if not base.k.diff or (base.n is None and edge is None):
            return
        chain = chain_of(x)
        base.n = new_node(CopySlices, (base.n, edge), (chain,))
        _again(x)
        old_views = _views(x)
    for v in old_views:
        _again(v)


def _views(x: Tensor) -> list[Tensor]:
    """Living views of the base of ``x``, other than itself. Looked for only when the cell has other holders.

    A detached twin shares the memory and has a history of its own: its views are not meant.
    """
    cell = x.v
    base = base_of(x)
    mine = 2 + (0 if base is x else 1)
    if cell is None or sys.getrefcount(cell) <= mine + 1:
        return []
    return [t for t in gc.get_referrers(cell) if isinstance(t, Tensor) and t is not x and hasattr(t, "b") and base_of(t) is base]


def _again(x: Tensor) -> None:
    """Give a view the history it would have if it were made now from its base."""
    try:
        b = x.b
    except AttributeError:
        return
    parent = b[0]
    if hasattr(parent, "b"):
        _again(parent)
    lost = lost_edge(x)
    if lost is not None:  # the slow path, which refuses it, is where every use has to go
        x.n, x.k = lost, x.k.sub if x.k.plain else x.k
        return
    with modes.enable_grad():
        fresh = replay(parent, [b[1:]])
    x.n = fresh.n


_frozen: dict[int, Leaf] = {}
"""Where gradients went of tensors that require none for now. Graphs recorded before lead there, and hooks are there."""


def _freeze(x: Tensor) -> None:
    if _frozen.get(id(x)) is not x.n:
        _frozen[id(x)] = x.n
        weakref.finalize(x, _frozen.pop, id(x), None).atexit = False


def _thawed(x: Tensor) -> Leaf:
    old = _frozen.get(id(x))
    if old is None or old.ref() is not x:
        return Leaf(x)
    old.grad = x.__dict__.pop("_grad", None)
    return old


def requires_grad_(x: Tensor, value: bool = True) -> Tensor:
    """Start or stop recording what is done to ``x``; RuntimeError for non-leaves and non-float dtypes."""
    if value:
        if x.n is None:
            if not x.k.diff:
                raise RuntimeError("only Tensors of floating point and complex dtype can require gradients")
            if x.v.__class__ is HeldCell and not modes.state.inference:
                raise RuntimeError("Setting requires_grad=True on inference tensor outside InferenceMode is not allowed.")
            x.n = _thawed(x)
            for v in _views(x):
                _again(v)
        return x
    if x.n is None:
        return x
    if x.n.__class__ is not Leaf:
        raise RuntimeError(
            "you can only change requires_grad flags of leaf variables. If you want to use a computed variable in a "
            "subgraph that doesn't require differentiation use var_no_grad = var.detach()."
        )
    _freeze(x)
    grad, x.n.grad = x.n.grad, None
    x.n = None
    if grad is not None:
        x.__dict__["_grad"] = grad
    return x
