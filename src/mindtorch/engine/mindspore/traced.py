"""Functions over ms.Tensors traced and compiled by ``ms.jit``, with what MindSpore's tracing gets wrong put right."""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Callable
from typing import Any

from mindtorch.engine.mindspore import door

_names = itertools.count()


class _tracing:  # noqa: N801 - a context
    """While it traces: views made by some functions of ``mint`` would become constants of the graph, so that methods of the
    tensor take their place; and every caller's source line would be read, which fails on frames that have none.
    """

    def __enter__(self) -> None:
        ms = door.load()
        self.old: list[tuple[Any, str, Any]] = []
        for name, fn in (
            ("transpose", lambda x, a, b: x.swapaxes(a, b)),
            ("permute", lambda x, dims: x.permute(*dims)),
            ("broadcast_to", lambda x, shape: x.broadcast_to(tuple(shape))),
            ("unsqueeze", lambda x, dim: x.expand_dims(dim)),
        ):
            self._set(ms.mint, name, fn)
        room = _room()
        if room is not None:
            self._set(room, "_get_caller_lines", lambda: ([__file__], [1]))

    def _set(self, room: Any, name: str, value: Any) -> None:
        if hasattr(room, name):
            self.old.append((room, name, getattr(room, name)))
            setattr(room, name, value)

    def __exit__(self, *exc: Any) -> None:
        for room, name, value in self.old:
            setattr(room, name, value)


def _room() -> Any:
    """MindSpore's module of tracing, None in releases that have it elsewhere."""
    try:
        return importlib.import_module("mindspore.graph.jit_trace")
    except ImportError:
        return None


def traced(fn: Callable[..., Any], example: list[Any]) -> Callable[..., Any]:
    """``fn`` (ms.Tensors -> tuple of ms.Tensors) compiled for arguments like ``example``, as a function of such arguments."""
    # MindSpore knows a compiled function by its name and id, and ids come back once a function is gone.
    fn.__name__ = f"mindtorch_{next(_names)}"
    jitted = door.load().jit(fn, capture_mode="trace")
    before = set(_compiled())
    with _tracing():
        jitted(*example)
    new = _compiled() - before
    return (_direct(new.pop(), example) if len(new) == 1 else None) or jitted


def _compiled() -> set[str]:
    """Names of the graphs that were traced and compiled."""
    return set(getattr(_room(), "_trace_compile_cache", ()))


def _direct(phase: str, example: list[Any]) -> Callable[..., Any] | None:
    """The compiled graph without ms.jit's wrapper, which prints every argument's values for a log that nobody reads.

    None where the release does not have these parts, or where they do not give what the wrapper gives.
    """
    room = _room()
    try:
        run, config = room.tr.get_instance().run_graph, room._DEFAULT_JIT_CONFIG
        convert = importlib.import_module("mindspore.graph.api")._convert_python_data

        def direct(*args: Any) -> Any:
            return convert(run(phase, config, args))

        got = direct(*example)
    except Exception:  # private parts of another release
        return None
    return direct if isinstance(got, tuple) else None
