"""Grad mode and the other switches of dispatch, kept so that the fast paths read one plain global each.

``NS["GRAD"]`` is True while no thread has gradients switched off, ``NS["MODE"]`` counts special modes (autocast, function
overriding, observers, anomaly, saved-tensor hooks) active in any thread. Only when they are not in their resting state is
the calling thread's own state looked up.
"""

from __future__ import annotations

import functools
import inspect
import threading
from typing import Any

NS: dict[str, Any] = {"GRAD": True, "MODE": 0, "__name__": "mindtorch.ops.generated"}
"""Globals of every generated function."""

LOCK = threading.Lock()
_off = 0
on_inference: list[Any] = []
"""Called with 1 or -1 when a thread enters or leaves inference mode (filled by ``core.tensor``)."""


class _State(threading.local):
    grad = True
    inference = False


state = _State()


def grad_on() -> bool:
    """Whether the calling thread records gradients."""
    return state.grad


NS["grad_on"] = grad_on


def set_grad(value: bool) -> bool:
    """Switch recording for this thread; returns the former state. Inference mode leaves nothing to switch on."""
    global _off
    old = state.grad
    value = value and not state.inference
    if old is not value:
        state.grad = value
        with LOCK:
            _off += -1 if value else 1
            NS["GRAD"] = _off == 0
    return old


def enter_mode() -> None:
    """Send every call through the slow path until :func:`leave_mode`."""
    with LOCK:
        NS["MODE"] += 1


def leave_mode() -> None:
    """Undo one :func:`enter_mode`."""
    with LOCK:
        NS["MODE"] -= 1


class _GradContext:
    """Context manager and decorator; decorated generators keep the mode only while they run."""

    def _enter(self) -> Any:
        raise NotImplementedError(f"{type(self).__name__} defines no mode")

    def __call__(self, fn: Any) -> Any:
        if inspect.isclass(fn):
            cls: Any = fn
            cls.__init__ = self(cls.__init__)
            return cls
        clone = self.clone
        if inspect.isgeneratorfunction(fn):
            return _wrap_generator(fn, clone)

        @functools.wraps(fn)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with clone():
                return fn(*args, **kwargs)

        return wrapped

    def clone(self) -> Any:
        """A fresh instance for one use."""
        return self.__class__()


def _wrap_generator(fn: Any, clone: Any) -> Any:
    @functools.wraps(fn)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        gen = fn(*args, **kwargs)
        value = None
        try:
            while True:
                with clone():
                    item = gen.send(value)
                value = yield item
        except StopIteration as stop:
            return stop.value
        finally:
            gen.close()

    return wrapped


class no_grad(_GradContext):  # noqa: N801 - public name
    """Nothing is recorded inside. ``@torch.no_grad`` and ``@torch.no_grad()`` both decorate."""

    __module__ = "mindtorch.torch"
    _value = False

    def __new__(cls, fn: Any = None) -> Any:
        self = object.__new__(cls)
        return self if fn is None else self(fn)

    def __init__(self, fn: Any = None) -> None:
        self.prev = True

    def __enter__(self) -> None:
        self.prev = set_grad(self._value)

    def __exit__(self, *exc: Any) -> None:
        set_grad(self.prev)


class enable_grad(no_grad):  # noqa: N801 - public name
    """Recording is on inside, whatever surrounds it."""

    __module__ = "mindtorch.torch"
    _value = True


class set_grad_enabled(_GradContext):  # noqa: N801 - public name
    """Sets recording at once when called; as a context manager restores it on exit."""

    __module__ = "mindtorch.torch"

    def __init__(self, mode: bool) -> None:
        self.mode = bool(mode)
        self.prev = set_grad(self.mode)

    def __call__(self, fn: Any) -> Any:
        set_grad(self.prev)
        return super().__call__(fn)

    def __enter__(self) -> None:
        set_grad(self.mode)

    def __exit__(self, *exc: Any) -> None:
        set_grad(self.prev)

    def clone(self) -> Any:
        """A fresh instance for one use."""
        return self.__class__(self.mode)


class inference_mode(_GradContext):  # noqa: N801 - public name
    """Like ``no_grad``; ``torch.is_inference_mode_enabled()`` tells it apart. ``inference_mode(False)`` undoes it."""

    __module__ = "mindtorch.torch"

    def __new__(cls, mode: Any = True) -> Any:
        self = object.__new__(cls)
        if callable(mode):
            self.mode = True
            return self(mode)
        return self

    def __init__(self, mode: Any = True) -> None:
        self.mode = True if callable(mode) else bool(mode)

    def __enter__(self) -> None:
        self.prev = (state.grad, state.inference)
        self._set(self.mode, not self.mode)

    def __exit__(self, *exc: Any) -> None:
        self._set(self.prev[1], self.prev[0])

    @staticmethod
    def _set(inference: bool, grad: bool) -> None:
        if inference is not state.inference:
            state.inference = inference
            for note in on_inference:
                note(1 if inference else -1)
        set_grad(grad)

    def clone(self) -> Any:
        """A fresh instance for one use."""
        return self.__class__(self.mode)


def is_inference_mode_enabled() -> bool:
    """Whether the calling thread is inside ``inference_mode``."""
    return state.inference
