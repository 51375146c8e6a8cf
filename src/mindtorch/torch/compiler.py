"""``torch.compile`` and ``torch.compiler``: functions and modules run as captured graphs (see ``mindtorch.graph``)."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from mindtorch import log

_MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")
_OURS = ("host", "mindspore", "auto", "best", "eager")
_BY_MODE = {"reduce-overhead": "host", "max-autotune": "best", "max-autotune-no-cudagraphs": "best"}
_THEIRS = ("inductor", "aot_eager", "cudagraphs", "onnxrt", "openxla", "tvm")


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
    """``model`` (a function or Module) as a graph, with the results of ``model``; a decorator when it is left out.

    ``backend``: "auto" (and PyTorch's names), "best", "host", "mindspore" or "eager". ``mode``, where the backend is left
    to us: "reduce-overhead" is "host", no trial runs; "max-autotune" is "best", which measures ms.jit too. ``fullgraph``:
    RuntimeError, naming the line, when it cannot be captured whole. ``dynamic=True`` and ``options`` have no effect, which
    is logged: shapes are always specialised. RuntimeError for unknown modes and backends, and when both ``mode`` and
    ``options`` are given, as in PyTorch.
    """
    if mode is not None and options is not None:
        raise RuntimeError("Either mode or options can be specified, but both can't be specified at the same time.")
    if mode is not None and mode not in _MODES:
        raise RuntimeError(f"Unrecognized mode={mode}, should be one of: {', '.join(_MODES)}")
    if model is None:
        return functools.partial(
            compile, fullgraph=fullgraph, dynamic=dynamic, backend=backend, mode=mode, options=options, disable=disable
        )
    if not callable(model):
        raise RuntimeError(f"torch.compile expects a callable or a Module, got {type(model).__name__}")
    if disable:
        return model
    if dynamic:
        log.ignored("torch.compile", "dynamic", "graphs are specialised by shape: each new shape is captured once")
    if options:
        log.ignored("torch.compile", "options", f"{', '.join(map(str, options))} are of PyTorch's compiler")
    chosen = _backend(backend)
    if mode in _BY_MODE:
        if chosen == "auto":
            chosen = _BY_MODE[mode]
        else:
            log.ignored("torch.compile", "mode", f"the backend {chosen!r} was asked for")
    from mindtorch import graph

    return graph.compile(model, fullgraph=bool(fullgraph), backend=chosen)


def _backend(backend: Any) -> str:
    if callable(backend):
        log.ignored("torch.compile", "backend", "a function cannot be a backend, as there are no FX graphs to give it")
        return "auto"
    if backend in _OURS:
        return str(backend)
    if backend not in _THEIRS:
        raise RuntimeError(f"Invalid backend: {backend!r}, see `torch.compiler.list_backends()` for available backends.")
    if backend != "inductor":
        log.ignored("torch.compile", "backend", f"there is no {backend} here: the faster of ours is measured, as by 'auto'")
    return "auto"


def _is_module(obj: Any) -> bool:
    from mindtorch.torch.nn import Module

    return isinstance(obj, Module)


def is_compiling() -> bool:
    """False: what is captured runs as ever while it is captured."""
    return False


def is_dynamo_compiling() -> bool:
    """False: what is captured runs as ever while it is captured."""
    return False


def is_exporting() -> bool:
    """False: nothing is ever being exported."""
    return False


def disable(fn: Callable[..., Any] | None = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """``fn``, kept out of graphs: what calls it runs eagerly; also a decorator with options. ``reason`` is shown."""
    if fn is None:
        return lambda f: disable(f, recursive, reason=reason)
    log.without_effect("torch.compiler.disable", "what it calls runs eagerly too", quietly=True, recursive=(recursive, True))
    if _is_module(fn):
        fn.forward = disable(fn.forward, recursive, reason=reason)
        return fn
    from mindtorch import graph

    return graph.kept_out(fn, reason)


def allow_in_graph(fn: Any) -> Any:
    """``fn`` itself: whatever can be captured soundly is."""
    return fn


def reset() -> None:
    """Forget the graphs of modules inside functions that could not be captured; others go with their functions."""
    from mindtorch import graph

    graph.reset()


def list_backends(exclude_tags: Any = ()) -> list[str]:
    """Names of backends."""
    return sorted(_OURS)


def cudagraph_mark_step_begin() -> None:
    """Mark the start of a step for recorded graphs: none are recorded."""
