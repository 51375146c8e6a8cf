"""The one window for tools: every public op, with its row, arguments and results, as it happens."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any, Protocol

from mindtorch.core import modes


class Observer(Protocol):
    """What a tool implements. ``before`` may return a token that ``after`` receives."""

    def before(self, row: Any, args: Any) -> Any:
        """Called with the row and its canonical arguments, before anything is computed."""

    def after(self, row: Any, args: Any, out: Any, token: Any) -> None:
        """Called with the results. An observer may also have ``backward(roots)``, called before a backward pass."""


class _State(threading.local):
    walks = 0
    """Backward passes the calling thread is in: ops seen then belong to derivatives, not to the program."""


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


class Whole:
    """Stands in for a row where a public function is plain Python around several rows."""

    def __init__(self, fn: Any) -> None:
        self.fn, self.inplace_fn = fn, None
        self.name = fn.__name__


def run(whole: Whole, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call ``fn``, shown to observers as one call of ``whole``."""
    seen = (*args, kwargs) if kwargs else args
    tokens = [(o, o.before(whole, seen)) for o in OBSERVERS]
    out = fn(*args, **kwargs)
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
