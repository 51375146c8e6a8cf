"""The one window for tools: every public op, with its row, arguments and results, as it happens."""

from __future__ import annotations

from typing import Any, Protocol

from mindtorch.core import modes


class Observer(Protocol):
    """What a tool implements. ``before`` may return a token that ``after`` receives."""

    def before(self, row: Any, args: Any) -> Any:
        """Called with the row and its canonical arguments, before anything is computed."""

    def after(self, row: Any, args: Any, out: Any, token: Any) -> None:
        """Called with the results."""


OBSERVERS: list[Observer] = []


def attach(observer: Observer) -> None:
    """Start observing; every op takes the slow path until :func:`detach`."""
    OBSERVERS.append(observer)
    modes.enter_mode()


def detach(observer: Observer) -> None:
    """Stop observing."""
    OBSERVERS.remove(observer)
    modes.leave_mode()
