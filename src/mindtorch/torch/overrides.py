"""``__torch_function__``: taking calls over for subclasses, tensor-like classes and modes."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any

from mindtorch.core import overrides as _core
from mindtorch.core.overrides import DisableTorchFunctionSubclass, TorchFunctionMode
from mindtorch.core.tensor import Tensor

__all__ = [
    "BaseTorchFunctionMode",
    "DisableTorchFunctionSubclass",
    "TorchFunctionMode",
    "get_ignored_functions",
    "get_overridable_functions",
    "handle_torch_function",
    "has_torch_function",
    "is_tensor_like",
    "is_tensor_method_or_property",
    "resolve_name",
    "wrap_torch_function",
]


class BaseTorchFunctionMode(TorchFunctionMode):
    """A mode that changes nothing."""


def has_torch_function(relevant_args: Iterable[Any]) -> bool:
    """Whether a mode is active or one of the arguments takes calls over."""
    return _core.wanted(relevant_args)


def has_torch_function_unary(x: Any) -> bool:
    """`has_torch_function` of one argument."""
    return _core.wanted((x,))


def has_torch_function_variadic(*args: Any) -> bool:
    """`has_torch_function` of several arguments."""
    return _core.wanted(args)


def handle_torch_function(public_api: Any, relevant_args: Iterable[Any], *args: Any, **kwargs: Any) -> Any:
    """Offer the call to the mode and the arguments that take calls over. TypeError when none takes it."""
    given = tuple(relevant_args)
    found = [] if _core.state.off > 0 else _core.relevant(given)
    types = tuple(type(x) for x in found)
    if _core.state.stack:
        mode = _core.state.stack.pop()
        try:
            result = mode.__torch_function__(public_api, types, args, kwargs)
        finally:
            _core.state.stack.append(mode)
        if result is not NotImplemented:
            return result
    for x in found:
        result = type(x).__torch_function__(public_api, types, args, kwargs)
        if result is not NotImplemented:
            return result
    name = f"{getattr(public_api, '__module__', '?')}.{getattr(public_api, '__name__', public_api)}"
    raise TypeError(f"no implementation found for '{name}' on types that implement __torch_function__: {list(types)}")


def wrap_torch_function(dispatcher: Callable[..., Iterable[Any]]) -> Callable[..., Any]:
    """Decorator: ``dispatcher(*args)`` names the arguments that may take the call over."""

    def decorate(func: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(func)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            given = tuple(dispatcher(*args, **kwargs))
            if has_torch_function(given):
                return handle_torch_function(wrapped, given, *args, **kwargs)
            return func(*args, **kwargs)

        return wrapped

    return decorate


def is_tensor_like(inp: Any) -> bool:
    """Whether ``inp`` is a tensor or its class defines ``__torch_function__``."""
    return type(inp) is Tensor or hasattr(inp, "__torch_function__")


def _namespaces() -> dict[Any, str]:
    import mindtorch.torch as torch

    spaces: dict[Any, str] = {torch: "torch", Tensor: "torch.Tensor"}
    for name in ("nn.functional", "linalg", "fft", "special"):
        try:
            spaces[functools.reduce(getattr, name.split("."), torch)] = f"torch.{name}"
        except AttributeError:
            continue
    return spaces


def get_overridable_functions() -> dict[Any, list[Any]]:
    """Functions by namespace that ``__torch_function__`` sees: those with a row in the op table."""
    found: dict[Any, list[Any]] = {}
    for space in _namespaces():
        members = [getattr(space, n, None) for n in dir(space) if not n.startswith("__")]
        functions = [f for f in members if callable(f) and not isinstance(f, type) and hasattr(f, "row")]
        if functions:
            found[space] = functions
    return found


def get_ignored_functions() -> set[Any]:
    """Public functions of torch that ``__torch_function__`` does not see."""
    import mindtorch.torch as torch

    members = [getattr(torch, n, None) for n in dir(torch) if not n.startswith("_")]
    return {f for f in members if inspect.isfunction(f) and not hasattr(f, "row")}


def resolve_name(f: Any) -> str | None:
    """The public name of a function, like "torch.add"; None when it has none."""
    name = getattr(f, "__name__", None)
    for space, prefix in _namespaces().items():
        if name is not None and getattr(space, name, None) is f:
            return f"{prefix}.{name}"
    return None


def is_tensor_method_or_property(func: Callable[..., Any]) -> bool:
    """Whether ``func`` is a method of Tensor or the getter of a property."""
    return getattr(func, "__name__", "") == "__get__" or getattr(Tensor, getattr(func, "__name__", ""), None) is func


def enable_reentrant_dispatch() -> Any:
    """A context in which calls are dispatched as usual."""
    import contextlib

    return contextlib.nullcontext()
