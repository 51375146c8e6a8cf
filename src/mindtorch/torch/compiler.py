"""``torch.compile`` and ``torch.compiler``: compiled functions run eagerly here, and that is said once."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from typing import Any

from mindtorch import log


def compile(model: Any = None, **options: Any) -> Any:  # noqa: A001 - public name
    """A callable with the results of ``model`` (a function or Module), run eagerly; also a decorator with options."""
    if model is None:
        return functools.partial(compile, **options)
    if not callable(model):
        raise RuntimeError(f"torch.compile expects a callable or a Module, got {type(model).__name__}")
    log.once(logging.WARNING, "torch.compile: there is no compiler here; the function runs eagerly, with the same results")
    if _is_module(model):
        return model

    @functools.wraps(model)
    def eager(*args: Any, **kwargs: Any) -> Any:
        return model(*args, **kwargs)

    return eager


def _is_module(obj: Any) -> bool:
    from mindtorch.torch.nn import Module

    return isinstance(obj, Module)


def is_compiling() -> bool:
    """False: nothing is ever being compiled."""
    return False


def is_dynamo_compiling() -> bool:
    """False: nothing is ever being compiled."""
    return False


def is_exporting() -> bool:
    """False: nothing is ever being exported."""
    return False


def disable(fn: Callable[..., Any] | None = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """``fn`` itself, which already runs eagerly; also a decorator with options."""
    if fn is None:
        return lambda f: f
    return fn


def allow_in_graph(fn: Any) -> Any:
    """``fn`` itself: there is no graph it could be left out of."""
    return fn


def reset() -> None:
    """Forget compiled code: there is none to forget."""


def list_backends(exclude_tags: Any = ()) -> list[str]:
    """Names of compilers: none."""
    return []


def cudagraph_mark_step_begin() -> None:
    """Mark the start of a step for recorded graphs: none are recorded."""
