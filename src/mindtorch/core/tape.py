"""The tape: nodes recorded by dispatch, and the walk that carries gradients backwards.

A node knows its input edges ``e`` (None where no gradient is wanted), what it saved ``s`` and its stamp ``q``. Stamps grow
with recording, so walking nodes from the newest to the oldest is a valid order and needs no dependency count.
Derivative rules are written with public ops: with ``create_graph`` they record themselves.
"""

from __future__ import annotations

import heapq
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from mindtorch.core import hooks as _hooks
from mindtorch.core import modes, observe
from mindtorch.core.cells import STAMP, Cell
from mindtorch.core.tensor import Leaf, Lost, Out, Tensor, filled_like, new, wrap


class Node:
    """One recorded operation. Subclasses are generated per row and define ``apply(node, g) -> grads along node.e``."""

    __slots__ = ("__dict__", "__weakref__", "e", "q", "s")

    nout = 1
    h: Any = None
    m: Any = None
    label = "Node"
    zeros = False
    order: tuple[int, ...] | None = None
    """Edges in the order gradients reach them in PyTorch, where that is not the order of ``e``."""

    def apply(self, g: Any) -> Sequence[Any]:
        """Gradients for the input edges."""
        raise RuntimeError(f"{self.label}: no derivative rule")

    def name(self) -> str:
        """Name of the node as PyTorch gives it (``AddBackward0``)."""
        return self.label

    @property
    def next_functions(self) -> tuple[tuple[Any, int], ...]:
        """The nodes that receive gradients from this one, with the output number each stands for."""
        return tuple((e.node, e.i) if e.__class__ is Out else (e, 0) for e in self.e)

    @property
    def metadata(self) -> dict[Any, Any]:
        """A dictionary for the user."""
        return self.__dict__.setdefault("_metadata", {})

    def register_hook(self, hook: Any) -> Any:
        """Call ``hook(grad_inputs, grad_outputs)`` after this node ran; a tuple it returns replaces grad_inputs."""
        return _hooks.add(self, "post_node", hook)

    def register_prehook(self, hook: Any) -> Any:
        """Call ``hook(grad_outputs)`` before this node runs; a tuple it returns replaces grad_outputs."""
        return _hooks.add(self, "pre_node", hook)

    def __repr__(self) -> str:
        return f"<{self.label} object at {id(self):#x}>"


_FREED = (
    "Trying to backward through the graph a second time (or directly access saved tensors after they have already been "
    "freed). Saved intermediate values of the graph are freed when you call .backward() or autograd.grad(). Specify "
    "retain_graph=True if you need to backward through the graph a second time or if you need to access saved tensors "
    "after calling backward."
)


def freed() -> None:
    """Report that a node's saved values are gone."""
    raise RuntimeError(_FREED)


def stale(node: Node, cell: Cell, kind: str, shape: Any) -> None:
    """Report a saved tensor that was written to after it was saved, as PyTorch words it."""
    later = sum(1 for s in cell.stamps if s > node.q)
    raise RuntimeError(
        "one of the variables needed for gradient computation has been modified by an inplace operation: "
        f"[torch.{kind} {list(shape)}], used by {node.label}, is at version {cell.ver}; expected version "
        f"{cell.ver - later} instead. Hint: use an out-of-place operation or clone() the tensor first; "
        "torch.autograd.set_detect_anomaly(True) names the line that recorded the operation."
    )


def unpack(node: Node, saved: Any) -> Tensor:
    """The tensor behind a packed entry (see ``saved_tensors_hooks``) or a saved output."""
    if saved.__class__ is tuple:
        a, k, cell, i = saved
        if cell.stamp > node.q:
            stale(node, cell, type_name(k.dtype), a.shape)
        t = new()
        t.a, t.k, t.v = a, k, cell
        t.n = Out(node, i) if node.nout > 1 else node
        return t
    return saved.unpack()


class Packed:
    """A saved tensor handed to the user's pack hook; unpacked when the rule needs it."""

    __slots__ = ("hook", "n", "value")

    def __init__(self, pack: Any, hook: Any, t: Tensor) -> None:
        self.hook = hook
        self.n = t.n
        self.value = pack(t)

    def unpack(self) -> Tensor:
        """The tensor as the unpack hook returns it, with the history of the original."""
        t = self.hook(self.value)
        if not isinstance(t, Tensor):
            raise TypeError("Output of saved tensor unpack_hook expected to be a Tensor")
        if t.n is not self.n:
            r = new()
            r.a, r.k, r.v, r.n = t.a, t.k, t.v, self.n
            t = r
        return t


_LEGACY = {
    "float32": "Float",
    "float64": "Double",
    "float16": "Half",
    "bfloat16": "BFloat16",
    "int64": "Long",
    "int32": "Int",
    "int16": "Short",
    "int8": "Char",
    "uint8": "Byte",
    "bool": "Bool",
    "complex64": "ComplexFloat",
    "complex128": "ComplexDouble",
}


def type_name(d: Any) -> str:
    """``FloatTensor`` for float32 and so on."""
    return f"{_LEGACY.get(d.name, d.name)}Tensor"


# ------------------------------------------------------------------------------------------ gradients on their way
def sum_to(g: Tensor, shape: tuple[int, ...]) -> Tensor:
    """``g`` summed over the dimensions that broadcasting added, so that it has ``shape``."""
    have = g.a.shape
    if have == shape:
        return g
    lead = len(have) - len(shape)
    dims = list(range(lead)) + [i + lead for i, n in enumerate(shape) if n == 1 and have[i + lead] != 1]
    if dims:
        g = g.sum(tuple(dims), keepdim=True)
    return g.reshape(shape) if g.a.shape != shape else g


def _fit(grads: Sequence[Any], shapes: Sequence[Any]) -> Sequence[Any]:
    return [g if g is None or s is None or g.a.shape == s else sum_to(g, s) for g, s in zip(grads, shapes)]


def zeros_for(meta: tuple[Any, Any]) -> Tensor:
    """A zero gradient of the shape, dtype and device of an output."""
    z = wrap(np.zeros(meta[0], meta[1].np))
    return z if meta[1].plain or meta[1].device.type == "cpu" else z.to(meta[1].device)


def _run_hooks(table: dict[int, Any], g: Tensor) -> Tensor:
    for hook in list(table.values()):
        r = hook(g)
        if r is not None:
            if not isinstance(r, Tensor):
                raise TypeError(f"hook returned {type(r).__name__}; a tensor hook must return a Tensor or None")
            if r.a.shape != g.a.shape:
                raise RuntimeError(f"hook '{hook}' has changed the size of value")
            g = r
    return g


def _store(leaf: Leaf, g: Tensor, create: bool) -> None:
    """Accumulate ``g`` into the leaf. The first gradient is taken over when nobody else holds it."""
    t = leaf.ref()
    if t is None:
        return
    if g.k.np is not t.k.np:
        g = g.to(t.k.dtype)
    if g.a.shape != t.a.shape:
        g = sum_to(g, t.a.shape)
    old = leaf.grad
    live = t.n is leaf  # not so where the tensor has stopped requiring gradients since
    if live and old is None:
        if create:
            leaf.grad = g.clone() if g.n is None else g + 0
        elif g.n is None and g.v is None and g.a.base is None and sys.getrefcount(g) <= 3 and _own_layout(g, t):
            leaf.grad = g
        else:
            leaf.grad = wrap(g.a.copy("C"))
    elif live and create:
        leaf.grad = old + g
    elif live:
        np.add(old.a, g.a, old.a, casting="unsafe")
        if old.v is not None:
            old.v.bump()
    if observe.OBSERVERS:
        observe.stored(leaf, g)
    post = leaf.__dict__.get("post")
    if post:
        for hook in list(post.values()):
            hook(t)


def _own_layout(g: Tensor, t: Tensor) -> bool:
    return g.a.__class__ is np.ndarray and (g.a.flags.c_contiguous or g.a.strides == t.a.strides)


class _Walk:
    """State of one backward pass; several may run at once, nested or in threads."""

    watch = False
    """Whether a tool wants to see every node run."""

    def __init__(self, keep: bool, create: bool, capture: dict[Any, int] | None, needed: set[Any] | None, store: bool):
        self.keep = keep
        self.create = create
        self.capture = capture
        self.needed = needed
        self.store = store
        self.heap: list[tuple[int, Node]] = []
        self.buf: dict[Any, Any] = {}
        self.leaves: dict[Leaf, Tensor] = {}
        self.got: dict[Any, Tensor] = {}

    def give(self, e: Any, g: Tensor) -> None:
        """Add ``g`` to what edge ``e`` has received."""
        c = e.__class__
        buf = self.buf
        if c is Leaf:
            old = self.leaves.get(e)
            self.leaves[e] = g if old is None else old + g
        elif c is Out:
            node = e.node
            if self.needed is not None and node not in self.needed:
                return
            lst = buf.get(node)
            if lst is None:
                buf[node] = lst = [None] * node.nout
                heapq.heappush(self.heap, (-node.q, node))
            old = lst[e.i]
            lst[e.i] = g if old is None else old + g
        elif e.nout > 1:
            self.give(Out(e, 0), g)
        else:
            if self.needed is not None and e not in self.needed:
                return
            old = buf.get(e)
            if old is None:
                buf[e] = g
                heapq.heappush(self.heap, (-e.q, e))
            else:
                buf[e] = old + g

    def run(self) -> None:
        """Process nodes from the newest to the oldest, then write leaf gradients."""
        heap, buf, keep, give, watch = self.heap, self.buf, self.keep, self.give, self.watch
        pop = heapq.heappop
        while heap:
            nd = pop(heap)[1]
            g = buf.pop(nd)
            if nd.h is not None:
                g = self.hooked(nd, g)
            if self.capture is not None:
                self.catch(nd, g)
                if not any(e is not None for e in nd.e):
                    continue
            extra = nd.__dict__
            if watch:
                observe.within("node", nd.name(), nd, self.watched, nd, g, extra)
                continue
            if extra:
                grads = self.call(nd, g, extra)
            else:
                grads = nd.apply(g)
            if not keep and nd.s:
                nd.s = None
            for e, gi in zip(nd.e, grads):
                if gi is not None and e is not None:
                    give(e, gi)
        self.finish()

    def watched(self, nd: Node, g: Any, extra: dict[str, Any]) -> None:
        """What :meth:`run` does with a node, adding up gradients included, as one span."""
        grads = self.call(nd, g, extra)
        if not self.keep and nd.s:
            nd.s = None
        for e, gi in zip(nd.e, grads):
            if gi is not None and e is not None:
                self.give(e, gi)

    def call(self, nd: Node, g: Any, extra: dict[str, Any]) -> Sequence[Any]:
        """Apply a node that carries hooks, a broadcast note or an anomaly trace."""
        gs = list(g) if nd.nout > 1 else [g]
        for hook in list(extra.get("pre_node", {}).values()):
            r = hook(tuple(gs))
            if r is not None:
                gs = list(r) if isinstance(r, (tuple, list)) else [r]
        g = gs if nd.nout > 1 else gs[0]
        for t in extra.get("kept", ()):
            if t.v is not None and t.v.stamp > nd.q:
                stale(nd, t.v, type_name(t.k.dtype), t.a.shape)
        trace = extra.get("trace")
        if trace is None:
            grads = nd.apply(g)
        else:
            grads = _anomaly(nd, g, trace)
        if "m" in extra:
            grads = _fit(grads, extra["m"])
        for hook in list(extra.get("post_node", {}).values()):
            r = hook(tuple(grads), tuple(gs))
            if r is not None:
                got = list(r) if isinstance(r, (tuple, list)) else [r]
                if len(got) != len(grads):
                    raise RuntimeError(
                        f"hook '{getattr(hook, '__name__', hook)}' has returned an incorrect number of values (got {len(got)}, "
                        f"but expected {len(grads)})"
                    )
                grads = got
        return grads

    def hooked(self, nd: Node, g: Any) -> Any:
        """Run the tensor hooks of a node's outputs."""
        if nd.nout == 1:
            table = nd.h.get(0)
            return _run_hooks(table, g) if table else g
        for i, table in nd.h.items():
            if g[i] is not None:
                g[i] = _run_hooks(table, g[i])
        return g

    def catch(self, nd: Node, g: Any) -> None:
        """Keep the gradient of a node's output when it was asked for."""
        capture = self.capture or {}
        for i in range(nd.nout):
            if (nd, i) in capture:
                gi = g if nd.nout == 1 else g[i]
                if gi is not None:
                    self.got[nd, i] = gi

    def finish(self) -> None:
        """Hand the collected gradients to the leaves."""
        leaves = self.leaves
        while leaves:
            leaf, g = leaves.popitem()
            if self.capture is not None and (leaf, 0) not in self.capture:
                continue
            if leaf.__dict__:
                g = self._leaf_hooks(leaf, g)
            if self.capture is not None:
                self.got[leaf, 0] = g
                if self.store:
                    _store(leaf, g, self.create)
            else:
                after = leaf.__dict__.get("post_node")
                if self.watch:
                    # The gradient must have no other holder, or storing it would copy it: it travels in a list.
                    box = [g]
                    g = g if after else None
                    observe.within("node", "torch::autograd::AccumulateGrad", leaf, self._store_boxed, leaf, box)
                else:
                    _store(leaf, g, self.create)
                if after:
                    for hook in list(after.values()):
                        hook((), (g,))
            g = None

    def _store_boxed(self, leaf: Leaf, box: list[Any]) -> None:
        _store(leaf, box.pop(), self.create)

    def _leaf_hooks(self, leaf: Leaf, g: Tensor) -> Tensor:
        table = leaf.__dict__.get("h")
        if table:
            g = _run_hooks(table[0], g)
        for hook in list(leaf.__dict__.get("pre_node", {}).values()):
            r = hook((g,))
            if r is not None:
                g = r[0] if isinstance(r, (tuple, list)) else r
        return g


def _anomaly(nd: Node, g: Any, trace: Any) -> Sequence[Any]:
    """Run a node in anomaly mode: errors and NaNs name the line that recorded it."""
    note = f"{nd.label}: recorded here (most recent call last):\n{''.join(trace)}"
    try:
        grads = nd.apply(g)
    except RuntimeError as err:
        raise RuntimeError(f"{err}\n{note}") from err
    if not getattr(modes.state, "check_nan", True):
        return grads
    for i, gi in enumerate(grads):
        if gi is not None and gi.k.diff and bool(np.isnan(gi.a).any()):
            import warnings

            warnings.warn(f"Error detected in {note}", stacklevel=2)
            raise RuntimeError(f"Function '{nd.label}' returned nan values in its {i}th output.\n{note}")
    return grads


def _needed(roots: Sequence[Any], targets: set[Any]) -> set[Any]:
    """Nodes from which a target edge can be reached (targets included)."""
    good: set[Any] = {t for t in targets if t.__class__ is not Leaf}
    state: dict[Any, bool] = {}
    for root in roots:
        if root is None or root.__class__ is Leaf:
            continue
        stack = [(root, False)]
        while stack:
            nd, done = stack.pop()
            if done:
                state[nd] = nd in good or any(
                    e is not None and ((e.node if e.__class__ is Out else e) in good or e in targets) for e in nd.e
                )
                if state[nd]:
                    good.add(nd)
                continue
            if nd in state:
                continue
            state[nd] = False
            stack.append((nd, True))
            for e in nd.e:
                child = e.node if e.__class__ is Out else e
                if child is not None and child.__class__ is not Leaf and child not in state:
                    stack.append((child, False))
    return good


def run_backward(
    tensors: Sequence[Tensor],
    grads: Sequence[Tensor],
    keep: bool,
    create: bool,
    inputs: Sequence[Tensor] | None = None,
    accumulate: bool = True,
) -> list[Tensor | None]:
    """Carry ``grads`` of ``tensors`` back. With ``inputs`` only their gradients are computed, and returned in order."""
    capture: dict[Any, int] | None = None
    needed: set[Any] | None = None
    if inputs is not None:
        edges = [t.n for t in inputs]
        capture = {((e.node, e.i) if e.__class__ is Out else (e, 0)): j for j, e in enumerate(edges)}
        targets = {e.node if e.__class__ is Out else e for e in edges}
        roots = [t.n.node if t.n.__class__ is Out else t.n for t in tensors]
        needed = _needed(roots, targets)
    if _hooks.watching:
        from mindtorch.core.arrival import Watched

        walk: _Walk = Watched(keep, create, capture, needed, accumulate)
    else:
        walk = _Walk(keep, create, capture, needed, accumulate)
    old = modes.set_grad(create)
    observe.state.walks += 1
    tokens = observe.enter("backward", "backward", tensors) if observe.RANGES else []
    walk.watch = bool(tokens) and observe.nodes_wanted()
    try:
        for t, g in zip(tensors, grads):
            walk.give(t.n, g)
        walk.run()
    except BaseException:
        observe.state.after = None
        raise
    finally:
        observe.leave(tokens)
        observe.state.walks -= 1
        modes.set_grad(old)
    if observe.state.after and not observe.state.walks:
        _afterwards()
    if inputs is None:
        return []
    out: list[Tensor | None] = []
    for t in inputs:
        e = t.n
        got = walk.got.get((e.node, e.i) if e.__class__ is Out else (e, 0))
        if got is not None and accumulate and e.__class__ is not Leaf:
            t.__dict__["_grad"] = got if t.grad is None else t.grad + got
        out.append(got)
    return out


def after_backward(fn: Any) -> None:
    """Call ``fn()`` when the outermost backward pass of this thread is over. RuntimeError outside of one."""
    state = observe.state
    if not state.walks:
        raise RuntimeError("Final callbacks can only be installed during backward pass.")
    if state.after is None:
        state.after = []
    state.after.append(fn)


def _afterwards() -> None:
    """What was asked for by :func:`after_backward`, including by the functions themselves."""
    state = observe.state
    while state.after:
        waiting, state.after = state.after, None
        for fn in waiting:
            fn()


def ones_for(t: Tensor) -> Tensor:
    """The implicit gradient of a scalar output. RuntimeError when ``t`` has more than one element."""
    if t.a.size != 1:
        raise RuntimeError("grad can be implicitly created only for scalar outputs")
    return filled_like(t, 1)


def make_roots(tensors: Sequence[Tensor], grads: Sequence[Any] | None) -> tuple[list[Tensor], list[Tensor]]:
    """Check outputs and their gradients and fill in implicit ones."""
    given = list(grads) if grads is not None else [None] * len(tensors)
    if len(given) != len(tensors):
        raise RuntimeError(f"got {len(tensors)} tensors and {len(given)} gradients")
    roots, out = [], []
    for i, (t, g) in enumerate(zip(tensors, given)):
        if t.n is None:
            raise RuntimeError(f"element {i} of tensors does not require grad and does not have a grad_fn")
        if t.n.__class__ is Lost:
            t.n.refuse()
        if g is None:
            if not t.k.diff or t.k.cat == 3:
                raise RuntimeError("grad can be implicitly created only for real scalar outputs but got " + str(t.k.dtype))
            g = ones_for(t)
        elif not isinstance(g, Tensor):
            raise TypeError(f"gradients can be either Tensors or None, but got {type(g).__name__}")
        elif g.a.shape != t.a.shape:
            raise RuntimeError(
                f"Mismatch in shape: grad_output[{i}] has a shape of {g.shape} and output[{i}] has a shape of {t.shape}."
            )
        if g.k.np is not t.k.np:
            g = g.to(t.k.dtype)
        roots.append(t)
        out.append(g)
    return roots, out


def relabel(result: Any, start: int, label: str, kept: list[Tensor]) -> None:
    """Give nodes of ``result`` recorded after the stamp ``start`` the name ``label``; ``kept`` must not be written to."""
    for t in result if isinstance(result, (tuple, list)) else (result,):
        n = t.n if isinstance(t, Tensor) else None
        nd = n.node if n.__class__ is Out else n
        if not isinstance(nd, Node) or nd.q <= start:
            continue
        if kept:
            nd.__dict__["kept"] = kept
        if label and nd.label != label:
            cls = nd.__class__
            got = _RELABELLED.get((cls, label))
            if got is None:
                body = {"__slots__": (), "label": label, "__module__": "mindtorch"}
                got = _RELABELLED[cls, label] = type(label, (cls,), body)
            nd.__class__ = got


_RELABELLED: dict[tuple[type[Node], str], type[Node]] = {}


def new_node(cls: type[Node], edges: tuple[Any, ...], saved: tuple[Any, ...] = ()) -> Node:
    """A node stamped now."""
    nd = object.__new__(cls)
    nd.e, nd.s, nd.q = edges, saved, STAMP()
    return nd
