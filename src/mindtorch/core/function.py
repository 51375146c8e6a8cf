"""``torch.autograd.Function``: operations whose forward and backward the user writes."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from mindtorch.core import modes, tape, views
from mindtorch.core.cells import STAMP, check_savable
from mindtorch.core.tensor import Leaf, Lost, Out, Tensor, cell_of, new, wrap


class FunctionCtx:
    """What a custom forward tells its backward. Public names are PyTorch's."""

    def __init__(self) -> None:
        self._saved: tuple[Any, ...] = ()
        self._saved_stamps: list[int] = []
        self._dirty: tuple[Any, ...] = ()
        self._nondiff: tuple[Any, ...] = ()
        self._materialize = True
        self._node: Any = None
        self.needs_input_grad: tuple[bool, ...] = ()

    def save_for_backward(self, *tensors: Any) -> None:
        """Keep inputs or outputs for ``backward``."""
        for t in tensors:
            if t is not None and not isinstance(t, Tensor):
                raise TypeError(f"save_for_backward can only save variables, but argument is of type {type(t).__name__}")
        self._saved = tensors

    def save_for_forward(self, *tensors: Any) -> None:
        """Keep tensors for ``jvp``."""
        self.saved_for_forward = tensors

    def mark_dirty(self, *args: Any) -> None:
        """Say which inputs ``forward`` wrote to."""
        self._dirty = args

    def mark_non_differentiable(self, *args: Any) -> None:
        """Say which outputs carry no gradient."""
        self._nondiff = args

    def set_materialize_grads(self, value: bool) -> None:
        """Whether absent output gradients arrive as zeros (default) or None."""
        self._materialize = value

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """What was saved; RuntimeError after the graph was freed or when it was written to since."""
        if self._node is not None and self._node.s is None:
            tape.freed()
        out = []
        for t, stamp in zip(self._saved, self._saved_stamps or [1 << 62] * len(self._saved)):
            if isinstance(t, tape.Packed):
                t = t.unpack()
            elif isinstance(t, tuple):
                t = self._output(t)
            if t is not None and t.v is not None and t.v.stamp > stamp:
                tape.stale(self._node, t.v, tape.type_name(t.k.dtype), t.a.shape)
            out.append(t)
        return tuple(out)

    def _output(self, entry: tuple[Any, ...]) -> Tensor:
        a, k, cell, i = entry
        t = new()
        t.a, t.k, t.v = a, k, cell
        t.n = Out(self._node, i) if self._node.nout > 1 else self._node
        return t


class BackwardCFunction(FunctionCtx):
    """Context class handed to user functions."""


class _FunctionMeta(type):
    def __init__(cls, name: str, bases: tuple[type, ...], ns: dict[str, Any]) -> None:
        super().__init__(name, bases, ns)
        label = f"{name}Backward"
        cls._node_class = type(label, (_FunctionNode,), {"__slots__": (), "label": label})  # type: ignore[attr-defined]


class _FunctionNode(tape.Node):
    __slots__ = ()

    def apply(self, g: Any) -> Any:
        """Run the user's backward and line its results up with the edges."""
        ctx, cls, metas = self.ctx, self.cls, self.metas
        if self.s is None:
            tape.freed()
        gs = list(g) if self.nout > 1 else [g]
        if ctx._materialize:
            gs = [tape.zeros_for(m) if x is None and m is not None else x for x, m in zip(gs, metas)]
        run = cls.vjp if cls.backward is Function.backward and cls.vjp is not Function.vjp else cls.backward
        r = run(ctx, *gs)
        if not isinstance(r, tuple):
            r = (r,)
        n = self.count
        if len(r) > n and any(x is not None for x in r[n:]):
            raise RuntimeError(f"function {self.label} returned an incorrect number of gradients (expected {n}, got {len(r)})")
        if len(r) < n:
            raise RuntimeError(f"function {self.label} returned an incorrect number of gradients (expected {n}, got {len(r)})")
        return [self._fit(r[i], j) for j, i in enumerate(self.places)]

    def _fit(self, g: Any, j: int) -> Any:
        if g is None:
            return None
        if not isinstance(g, Tensor):
            raise TypeError(f"function {self.label} returned a {type(g).__name__} as a gradient; expected Tensor or None")
        shape, d = self.inputs[j]
        if g.a.shape != shape:
            try:
                g = tape.sum_to(g, shape)
            except Exception:
                raise RuntimeError(
                    f"Function {self.label} returned an invalid gradient at index {self.places[j]} - got {list(g.a.shape)} "
                    f"but expected shape compatible with {list(shape)}"
                ) from None
        return g if g.k.dtype is d or not g.k.diff else g.to(d)


class Function(metaclass=_FunctionMeta):
    """Subclass with static ``forward`` and ``backward`` (and optionally ``setup_context``); call by ``apply``."""

    generate_vmap_rule = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise RuntimeError(
            f"{type(self)} should not be instantiated. Methods on autograd functions are all static, so you should invoke "
            "them on the class itself: use .apply(...)."
        )

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """Compute the result; the user defines it."""
        raise NotImplementedError("You must implement the forward function for custom autograd.Function.")

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> Any:
        """Save what backward needs, when forward has no ``ctx`` parameter."""
        raise NotImplementedError("setup_context is not implemented.")

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """Gradients of the inputs; the user defines it."""
        raise NotImplementedError(
            "You must implement either the backward or vjp method for your custom autograd.Function to use it with "
            "backward mode AD."
        )

    vjp = backward

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Run ``forward`` and record the node."""
        if kwargs:
            raise TypeError(f"apply() takes no keyword arguments (got {', '.join(kwargs)})")
        ctx = BackwardCFunction()
        ctx.needs_input_grad = tuple(isinstance(a, Tensor) and a.n is not None for a in args)
        record = modes.state.grad and any(ctx.needs_input_grad)
        if not modes.state.grad:
            ctx.needs_input_grad = tuple(ctx.needs_input_grad)
        with modes.no_grad():
            if cls.setup_context is not Function.setup_context:
                out = cls.forward(*args)
                cls.setup_context(ctx, args, out)
            else:
                out = cls.forward(ctx, *args)
        return _finish(cls, ctx, args, out, record)


Function._node_class = _FunctionNode  # type: ignore[attr-defined]


def _finish(cls: Any, ctx: FunctionCtx, args: tuple[Any, ...], out: Any, record: bool) -> Any:
    multi = isinstance(out, (tuple, list))
    outs = list(out) if multi else [out]
    for d in ctx._dirty:
        if isinstance(d, Tensor):
            if record and d.n.__class__ is Leaf:
                raise RuntimeError("a leaf Variable that requires grad is being used in an in-place operation.")
            if not modes.state.grad or not record:
                cell_of(d).bump()
    if not record:
        return out
    nd = object.__new__(cls._node_class)
    places = [i for i, a in enumerate(args) if isinstance(a, Tensor)]
    nd.e = tuple(args[i].n for i in places)
    for e in nd.e:
        if e.__class__ is Lost:
            e.refuse()
    nd.q = STAMP()
    d = nd.__dict__
    d.update(ctx=ctx, cls=cls, places=places, count=len(args), nout=len(outs))
    d["inputs"] = [(args[i].a.shape, args[i].k.dtype) for i in places]
    ctx._node = nd
    nd.s = (True,)
    result, metas = [], []
    for i, t in enumerate(outs):
        if not isinstance(t, Tensor):
            result.append(t)
            metas.append(None)
            continue
        metas.append((t.a.shape, t.k))
        result.append(_own(t, args, ctx, nd, i, len(outs)))
    d["metas"] = metas
    _keep(ctx, outs, result, nd)
    nd.q = STAMP()
    if multi:
        return type(out)(*result) if hasattr(out, "_fields") else type(out)(result)
    return result[0]


def _own(t: Tensor, args: tuple[Any, ...], ctx: FunctionCtx, nd: Any, i: int, n: int) -> Tensor:
    """Give an output its history. Inputs returned unchanged become views; dirty ones are rebased."""
    dirty = any(t is x for x in ctx._dirty)
    if any(t is x for x in ctx._nondiff) or not t.k.diff:
        return t if not any(t is a for a in args) else t.detach()  # type: ignore[attr-defined]
    edge = Out(nd, i) if n > 1 else nd
    if dirty:
        cell_of(t).bump()
        views.rebase(t, edge)
        return t
    if any(t is a for a in args) or hasattr(t, "b"):
        r = new()
        r.a, r.k, r.v, r.n = t.a, t.k, cell_of(t), edge
        return r
    t.n = edge
    return t


def _keep(ctx: FunctionCtx, outs: list[Any], result: list[Any], nd: Any) -> None:
    """Own outputs are saved without a cycle; inputs as they are; hooks on saved tensors apply."""
    pack = getattr(modes.state, "pack", None)
    saved: list[Any] = []
    check_savable(ctx._saved)
    for t in ctx._saved:
        at = next((i for i, o in enumerate(outs) if o is t and result[i] is t and isinstance(t, Tensor)), None)
        if t is None:
            saved.append(None)
        elif pack:
            saved.append(tape.Packed(pack[-1][0], pack[-1][1], t))
        elif at is not None and t.n is not None and t.grad_fn is nd:
            saved.append((t.a, t.k, cell_of(t), at))
        else:
            saved.append(t)
    ctx._saved = tuple(saved)
    now = STAMP()
    ctx._saved_stamps = [now] * len(saved)


class InplaceFunction(Function):
    """Old base class for functions with an ``inplace`` option."""


def once_differentiable(fn: Any) -> Any:
    """Decorator of ``backward``: differentiating its result raises."""

    @functools.wraps(fn)
    def wrapped(ctx: Any, *args: Any) -> Any:
        tracked = modes.state.grad and any(isinstance(a, Tensor) and a.n is not None for a in args)
        with modes.no_grad():
            r = fn(ctx, *args)
        if not tracked:
            return r
        outs = r if isinstance(r, tuple) else (r,)
        marked = []
        for x in outs:
            if isinstance(x, Tensor):
                x = wrap(x.a) if x.a.__class__ is np.ndarray else x
                x.n = tape.new_node(_Once, ())
            marked.append(x)
        return tuple(marked) if isinstance(r, tuple) else marked[0]

    return wrapped


class _Once(tape.Node):
    __slots__ = ()
    label = "Error"

    def name(self) -> str:
        """PyTorch gives this node its C++ name."""
        return "torch::autograd::Error"

    def apply(self, g: Any) -> Any:
        """Second derivatives were ruled out by the decorator."""
        raise RuntimeError("trying to differentiate twice a function that was marked with @once_differentiable")
