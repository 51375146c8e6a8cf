"""The one window for tools: every public op, with its row, arguments and results, and the phases of a program.

Ops go to `OBSERVERS`. Phases (a batch being loaded, a backward pass, an optimiser's step, a transfer to a device, a range the
user named) go to `RANGES`, whose listeners cost the ops nothing.
"""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable
from typing import Any, Protocol

from mindtorch.core import modes


class Observer(Protocol):
    """What a tool implements. ``before`` may return a token that ``after`` receives."""

    def before(self, row: Any, args: Any) -> Any:
        """Called with the row and its canonical arguments, before anything is computed."""

    def after(self, row: Any, args: Any, out: Any, token: Any) -> None:
        """Called with the results. An observer may also have ``backward(roots)``, called before a backward pass, and
        ``failed(token)``, called instead of ``after`` when the op raised."""


class Listener(Protocol):
    """What wants to know of phases. With ``nodes`` True every node of a backward pass is one too."""

    nodes: bool

    def enter(self, kind: str, name: str, what: Any) -> Any:
        """A phase begins: "data", "loader", "backward", "node", "optimizer", "transfer", "save" or "user". May return a token."""

    def leave(self, token: Any) -> None:
        """The phase ends, by an exception too."""


class _State(threading.local):
    walks = 0
    """Backward passes the calling thread is in: ops seen then belong to derivatives, not to the program."""
    after: list[Callable[[], Any]] | None = None
    """What to call when the outermost of them is over."""


state = _State()
OBSERVERS: list[Observer] = []


def attach(observer: Observer) -> None:
    """Start observing; every op takes the slow path until :func:`detach`."""
    OBSERVERS.append(observer)
    modes.enter_mode()


def detach(observer: Observer) -> None:
    """Stop observing."""
    OBSERVERS.remove(observer)
    modes.leave_mode()


def before(row: Any, args: Any) -> list[tuple[Any, Any]]:
    """Show a call to all observers; what `after` or `failed` needs."""
    return [(o, o.before(row, args)) for o in OBSERVERS]


def failed(tokens: list[tuple[Any, Any]]) -> None:
    """The call raised."""
    for o, token in tokens:
        if hasattr(o, "failed"):
            o.failed(token)


# ------------------------------------------------------------------------------------------ phases
RANGES: list[Any] = []
"""Listeners of phases. Callers look whether there are any before they call `enter`."""


def enter(kind: str, name: str, what: Any = None) -> list[tuple[Any, Any]]:
    """A phase begins. What comes back goes to `leave`."""
    return [(o, o.enter(kind, name, what)) for o in list(RANGES)]


def leave(tokens: list[tuple[Any, Any]]) -> None:
    """The phase ends: listeners hear of it in the opposite order."""
    for o, token in reversed(tokens):
        o.leave(token)


def nodes_wanted() -> bool:
    """Whether a listener asks for the nodes of backward passes."""
    return any(o.nodes for o in RANGES)


def within(kind: str, name: str, what: Any, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """``fn(*args, **kwargs)`` as a phase."""
    tokens = enter(kind, name, what)
    try:
        return fn(*args, **kwargs)
    finally:
        leave(tokens)


def _in_child() -> None:
    """What observes this program does not follow it into a forked worker of a DataLoader, where it would only cost time."""
    RANGES.clear()
    for o in [o for o in OBSERVERS if getattr(o, "parent_only", False)]:
        detach(o)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)


def wrote(x: Any, value: Any) -> None:
    """Tell observers that ``value`` was written over the tensor ``x`` (those that have ``wrote``)."""
    for o in OBSERVERS:
        if hasattr(o, "wrote"):
            o.wrote(x, value)


def shadowed(shadow: Any, x: Any) -> None:
    """Tell observers that ``shadow`` stands for ``x`` as it was before a write."""
    for o in OBSERVERS:
        if hasattr(o, "shadowed"):
            o.shadowed(shadow, x)


def read(x: Any, value: Any) -> Any:
    """Tell observers that Python reads ``value``, the one element of ``x``; what it gets instead."""
    for o in OBSERVERS:
        if hasattr(o, "read"):
            value = o.read(x, value)
    return value


def stored(leaf: Any, g: Any) -> None:
    """Tell observers that a backward pass added ``g`` to the gradient of a leaf (its node is given)."""
    for o in OBSERVERS:
        if hasattr(o, "stored"):
            o.stored(leaf, g)


class Whole:
    """Stands in for a row where a public function is plain Python around several rows."""

    def __init__(self, fn: Any) -> None:
        self.fn, self.inplace_fn = fn, None
        self.name = fn.__name__


def run(whole: Whole, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call ``fn``, shown to observers as one call of ``whole``."""
    seen = (*args, kwargs) if kwargs else args
    tokens = before(whole, seen)
    try:
        out = fn(*args, **kwargs)
    except BaseException:
        failed(tokens)
        raise
    for o, token in tokens:
        o.after(whole, seen, out, token)
    return out


def whole(fn: Any) -> Any:
    """Decorator for such functions. Observers get positional arguments, and behind them a dict of keywords if any."""

    @functools.wraps(fn)
    def observed(*args: Any, **kwargs: Any) -> Any:
        return run(row, fn, args, kwargs) if OBSERVERS else fn(*args, **kwargs)

    row = Whole(observed)
    return observed
