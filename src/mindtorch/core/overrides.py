"""``__torch_function__``: subclasses and modes that take calls over before dispatch computes anything."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any

from mindtorch.core import modes
from mindtorch.core.tensor import Parameter, Tensor


class _State(threading.local):
    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.off = 0


state = _State()
_DEFAULT = Tensor.__torch_function__.__func__  # type: ignore[attr-defined]
_PARAM = Parameter.__torch_function__.__func__  # type: ignore[attr-defined]


def _overrides(x: Any) -> bool:
    c = type(x)
    if c is Tensor or c is Parameter:
        return False
    fn = getattr(c, "__torch_function__", None)
    if fn is None:
        return False
    base = getattr(fn, "__func__", fn)
    if base is _PARAM or c.__torch_function__ is disabled_torch_function:
        return False
    return True


def disabled_torch_function(func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
    """Assign to ``__torch_function__`` of a class to take no part in overriding."""
    return func(*args, **(kwargs or {}))


def relevant(args: Iterable[Any]) -> list[Any]:
    """Arguments (looked into lists one level) whose class overrides, one per class, subclasses before superclasses."""
    found: list[Any] = []
    for x in args:
        for y in x if isinstance(x, (list, tuple)) else (x,):
            if _overrides(y) and type(y) not in [type(f) for f in found]:
                at = next((i for i, f in enumerate(found) if isinstance(y, type(f))), len(found))
                found.insert(at, y)
    return found


def call(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Offer the call to the active mode and to overriding arguments; ``NotImplemented`` when nobody takes it."""
    found = [] if state.off > 0 else relevant(list(args) + list(kwargs.values()))
    types = tuple(type(x) for x in found)
    if state.stack:
        mode = state.stack.pop()
        try:
            r = mode.__torch_function__(func, types, args, kwargs)
        finally:
            state.stack.append(mode)
        if r is not NotImplemented:
            return r
    for x in found:
        r = type(x).__torch_function__(func, types, args, kwargs)
        if r is not NotImplemented:
            return r
    if found:
        raise TypeError(
            f"Multiple dispatch failed for 'torch.{getattr(func, '__name__', func)}'; all __torch_function__ handlers "
            f"returned NotImplemented: {', '.join(t.__name__ for t in types)}"
        )
    return NotImplemented


def wanted(args: Iterable[Any]) -> bool:
    """Whether a mode is active or an argument overrides."""
    return bool(state.stack) or (state.off == 0 and bool(relevant(args)))


class DisableTorchFunctionSubclass:
    """Inside, subclasses do not take calls over."""

    def __enter__(self) -> None:
        state.off += 1

    def __exit__(self, *exc: Any) -> None:
        state.off -= 1


class TorchFunctionMode:
    """Base of modes: every call inside ``with Mode():`` goes to its ``__torch_function__`` first."""

    __module__ = "mindtorch.torch.overrides"

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))

    def __enter__(self) -> Any:
        state.stack.append(self)
        modes.enter_mode()
        return self

    def __exit__(self, *exc: Any) -> None:
        state.stack.pop()
        modes.leave_mode()


def _convert(r: Any, cls: type) -> Any:
    if isinstance(r, Tensor) and not isinstance(r, cls):
        return r.as_subclass(cls)
    if isinstance(r, (tuple, list)):
        items = [_convert(x, cls) for x in r]
        return type(r)(*items) if hasattr(r, "_fields") else type(r)(items)
    return r


def default_torch_function(cls: type, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
    """What ``Tensor.__torch_function__`` does for subclasses that call super."""
    if not all(issubclass(cls, t) for t in types):
        return NotImplemented
    with DisableTorchFunctionSubclass():
        r = func(*args, **kwargs)
    if getattr(func, "__name__", "") in ("__get__", "size", "dim", "requires_grad_"):
        return r
    return _convert(r, cls)
