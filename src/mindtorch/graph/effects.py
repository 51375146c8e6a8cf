"""Steps that change something outside of a program's values: gradients of leaves, optimisers, memory written to.

An effect runs the very code that the eager program runs, on the tensors that hold their places now: a learning rate, a step
count or a hook that changed since the capture is seen, and nothing of it has to be guarded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mindtorch.core import tape
from mindtorch.core.tensor import Leaf, Tensor, wrap


class Effect:
    """Stands in for a row. ``run`` receives the Tensors (``tensors``: how many arguments are such), then raw arrays."""

    kind = "effect"
    saved: tuple[str, ...] = ()

    def __init__(self, name: str, run: Callable[..., Any], tensors: int = 0) -> None:
        self.name, self.run, self.tensors = name, run, tensors

    def __repr__(self) -> str:
        return f"<{self.name}>"


class Draw:
    """Stands in for a row that makes a tensor of random numbers: ``run()``."""

    kind = "draw"
    saved: tuple[str, ...] = ()

    def __init__(self, name: str, run: Callable[[], np.ndarray]) -> None:
        self.name, self.run = name, run


class Write:
    """Stands in for a row that writes raw memory: ``run(destination, *others)``."""

    kind = "write"
    saved: tuple[str, ...] = ()

    def __init__(self, name: str, run: Callable[..., Any] | None = None) -> None:
        self.name, self.run = name, run


WRITE = Write("_write")
"""The second value is copied over the first, broadcast and cast."""

UPDATE = Write("_update_now")
"""The first value, a running statistic, moves towards the second by a momentum."""


class Copy:
    """Stands in for a row whose result is its argument, or a copy of it."""

    kind = "copy"
    saved: tuple[str, ...] = ()

    def __init__(self, name: str, text: str) -> None:
        self.name, self.text = name, text


COPY = Copy("_before_write", ".copy()")
"""Memory as it is before it is written to."""
ALIAS = Copy("_without_history", "")
"""The same memory, used where its history is not."""


# ------------------------------------------------------------------------------------------ gradients
def _store(t: Tensor, a: np.ndarray, owned: bool) -> None:
    """What the end of a backward pass does with the gradient ``a`` of the leaf ``t``: hooks, then adding it up."""
    leaf = t.n
    if leaf.__class__ is not Leaf:
        raise RuntimeError("a graph's backward pass reached a tensor that is no leaf any more")
    walk = tape._Walk(False, False, None, None, True)
    walk.leaves[leaf] = wrap(a if owned else a.copy())
    walk.finish()


def _grad(t: Tensor) -> np.ndarray:
    g = t.grad
    if g is None:
        raise RuntimeError("a graph reads a gradient that is None now: it was captured where there was one")
    return g.a


def _set_grad(t: Tensor, a: np.ndarray | None = None) -> None:
    t.grad = None if a is None else wrap(a)


STORE = Effect("store_grad", _store, 1)
GRAD = Effect("grad", _grad, 1)
SET_GRAD = Effect("set_grad", _set_grad, 1)


# ------------------------------------------------------------------------------------------ whole calls
def optimizer_step(opt: Any) -> Effect:
    """``opt.step()`` as a step of a program."""
    step = type(opt).step
    return Effect(f"{type(opt).__name__}.step", lambda: step(opt))


def zero_grad(owner: Any, to_none: bool) -> Effect:
    """``zero_grad`` of an optimiser or module as a step of a program."""
    zero = type(owner).zero_grad
    return Effect(f"{type(owner).__name__}.zero_grad", lambda: zero(owner, to_none))


# ------------------------------------------------------------------------------------------ x[index] = value
def put(index: Any) -> Write:
    """``x[index] = value`` with an index that holds no tensors, already NumPy's."""
    from mindtorch.ops import subscript

    return Write("setitem", lambda a, v: subscript.write_at(a, index, v, False))


def put_at(template: tuple[Any, ...], places: list[int]) -> Write:
    """``x[index] = value`` where the items of the index at ``places`` are values of the program."""
    from mindtorch.ops import subscript

    def run(a: np.ndarray, v: np.ndarray, *items: np.ndarray) -> None:
        index = list(template)
        for at, item in zip(places, items):
            index[at] = wrap(item)
        x = wrap(a)
        got, _ = subscript.normalise(x, tuple(index))
        subscript._check_masks(x, got)
        try:
            subscript.write_at(a, got, v, False)
        except IndexError as e:
            raise subscript._range_error(e, x) from None

    return Write("setitem", run)
