"""Graph mode: ``mindtorch.graph(fn)`` captures what a function or Module computes and runs it without Python in between.

A call specialises on shapes, dtypes, strides, requires_grad, grad mode and Python values; guards watch the state the
function's Python reads. What cannot be captured soundly runs eagerly, the modules inside it as graphs of their own.
See ``docs/graph-mode.md``.
"""

from __future__ import annotations

import sys
import types
from typing import Any

__all__ = ["compile", "explain", "reset"]


def compile(fn: Any = None, *, fullgraph: bool = False, backend: str = "auto") -> Any:  # noqa: A001 - public name
    """``fn`` (a function or Module) as a callable that runs captured programs; a decorator when ``fn`` is left out.

    ``backend``: "auto" keeps whichever was measured faster, "best" measures ms.jit in any case too, "host" always runs straight-line host kernels (bit for bit
    the eager numbers), "mindspore" compiles with ``ms.jit`` (within rounding), "eager" captures nothing.
    ``fullgraph``: RuntimeError, naming the line, when the function cannot be captured whole.
    """
    from mindtorch.graph import modules

    if fn is None:
        return lambda f: compile(f, fullgraph=fullgraph, backend=backend)
    return modules.compiled(fn, fullgraph, backend)


def explain(fn: Any, *args: Any, **kwargs: Any) -> Any:
    """Call ``fn`` as a graph with these arguments and say what became of it: programs, breaks and their lines, times.

    The function runs several times: what it changes (running statistics, random numbers) changes as often.
    """
    from mindtorch.graph import report as room

    return room.explain(fn, args, kwargs)


def kept_out(fn: Any, reason: str | None = None) -> Any:
    """``fn`` marked so that no function that calls it is captured with it."""
    from mindtorch.graph import compiled

    return compiled.KeptOut(fn, reason)


def reset() -> None:
    """Forget the graphs of modules that were captured inside functions that could not be."""
    from mindtorch.graph import compiled

    compiled.reset()


class _Callable(types.ModuleType):
    """The module is a function too: ``mindtorch.graph(fn)``."""

    def __call__(self, fn: Any = None, **options: Any) -> Any:
        return compile(fn, **options)


sys.modules[__name__].__class__ = _Callable
