"""``torch.compile`` and ``torch.compiler``: compiled functions run eagerly here, and that is said once."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from typing import Any

from mindtorch import log


def compile(  # noqa: A001 - public name
    model: Any = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: Any = "inductor",
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    disable: bool = False,
) -> Any:
    """A callable with the results of ``model`` (a function or Module), run eagerly; also a decorator with options.

    TypeError for unknown options; RuntimeError when both ``mode`` and ``options`` are given, as in PyTorch.
    """
    if mode is not None and options is not None:
        raise RuntimeError("Either mode or options can be specified, but both can't be specified at the same time.")
    log.without_effect(
        "torch.compile", "the function runs eagerly",
        fullgraph=(fullgraph, False), dynamic=(dynamic, None), backend=(backend, "inductor"), mode=(mode, None), options=(options, None),
    )  # fmt: skip
    if model is None:
        return functools.partial(compile, disable=disable)
    if not callable(model):
        raise RuntimeError(f"torch.compile expects a callable or a Module, got {type(model).__name__}")
    if not disable:
        log.once(
            logging.WARNING, "torch.compile: there is no compiler here; the function runs eagerly, with the same results"
        )
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
    log.without_effect(
        "torch.compiler.disable", "everything runs eagerly", quietly=True, recursive=(recursive, True), reason=(reason, None)
    )
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
