"""Notices the program's ``ms.set_context(mode=...)``, without ever importing MindSpore.

When MindSpore's context module is loaded, now or later and by whomever, its setter of the mode is wrapped to tell who listens.
Nobody has to ask for the mode on a hot path. MindSpore's own mode is left as the program set it: kernels called from Python
run the same in both modes.
"""

from __future__ import annotations

import contextlib
import importlib.abc
import importlib.util
import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

from mindtorch import log

_CONTEXT = "mindspore.context"
GRAPH = 0
"""``ms.GRAPH_MODE``; PyNative is 1."""
_listeners: list[Callable[[bool], None]] = []
_context: ModuleType | None = None


def listen(changed: Callable[[bool], None]) -> None:
    """Call ``changed(graph)`` at each change between PyNative mode and graph mode, and now if it is graph mode already."""
    first = not _listeners
    _listeners.append(changed)
    module = sys.modules.get(_CONTEXT)
    if _context is not None or hasattr(module, "_Context"):
        if _context is None:
            _wrap(module)
        if is_graph():
            changed(True)
    elif first:
        sys.meta_path.insert(0, _Finder())


def is_graph() -> bool:
    """Whether the program has set MindSpore's graph mode."""
    instance = getattr(getattr(_context, "_Context", None), "_instance", None)
    return instance is not None and getattr(instance, "_mode", None) == GRAPH


@contextlib.contextmanager
def eager_cells() -> Iterator[None]:
    """Cells called inside run their Python, in graph mode too; the mode itself, and who listens to it, stay as they are."""
    instance = getattr(getattr(_context, "_Context", None), "_instance", None)
    if instance is None or not is_graph():
        yield
        return
    instance._mode = 1
    try:
        yield
    finally:
        instance._mode = GRAPH


def _wrap(module: Any) -> None:
    """Let the setter of the mode tell the listeners."""
    global _context
    _context = module
    cls = module._Context
    plain = cls.__dict__.get("set_mode")
    setters = cls.__dict__.get("setters")
    if plain is None or not isinstance(setters, dict):
        log.logger().warning("this release of MindSpore does not let its mode be followed: ms.set_context(mode=...) has no effect on Modules")
        return

    def set_mode(self: Any, mode: Any) -> None:
        before = is_graph()
        plain(self, mode)
        now = is_graph()
        if now != before:
            for changed in _listeners:
                changed(now)

    set_mode.__doc__ = plain.__doc__
    cls.set_mode = set_mode
    for key, fn in list(setters.items()):
        if fn is plain:
            setters[key] = set_mode


class _Finder(importlib.abc.MetaPathFinder):
    """Sees MindSpore's context module being imported; finds nothing itself."""

    asked = False

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """The module's real spec, with a loader that wraps the setter once the module has run."""
        if name != _CONTEXT or self.asked:
            return None
        self.asked = True
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self.asked = False
        if spec is None or spec.loader is None:
            return spec
        run = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            run(module)
            _wrap(module)
            if self in sys.meta_path:
                sys.meta_path.remove(self)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec
