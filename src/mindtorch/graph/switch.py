"""MindSpore's graph mode, ``ms.set_context(mode=ms.GRAPH_MODE)``, for Modules: the outermost call of each runs as a graph.

A module whose Python cannot be captured runs eagerly, and the modules it calls become outermost. Nothing of this stays when
the program goes back to PyNative mode.
"""

from __future__ import annotations

import logging
import threading
import traceback
from typing import Any

from mindtorch import log
from mindtorch.core.tensor import Tensor
from mindtorch.graph import calls
from mindtorch.graph.compiled import Compiled
from mindtorch.graph.watch import Watch, kind_of

ADVICE = "in MindSpore's graph mode; run it in PyNative mode first: ms.set_context(mode=ms.PYNATIVE_MODE)"


class _State(threading.local):
    inside = False


state = _State()


class Switched(Compiled):
    """The graphs of one module while graph mode is on."""

    def __init__(self, module: Any) -> None:
        super().__init__(module._call_impl, owner=module)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The module's result. Errors name the user's line and say to run in PyNative mode first."""
        if self.eager_only:
            return self.fn(*args, **kwargs)
        state.inside = True
        try:
            return super().__call__(*args, **kwargs)
        except Exception as e:
            advise(e)
            raise
        finally:
            state.inside = False

    def stop(self, reasons: list[tuple[str, str]], watch: Watch | None = None, at: BaseException | None = None) -> None:
        """Run eagerly from now on; the modules inside are outermost then, and become graphs by themselves."""
        self.breaks += [r for r in reasons if r not in self.breaks]
        if any(why == "another profiler is running" for why, _ in reasons):
            self.count -= 1
            return
        self.eager_only = True
        text = "; ".join(f"{where}: {why}" for why, where in reasons[:3])
        log.once(
            logging.WARNING,
            f"{self.name} cannot be one graph, the modules in it run as graphs of their own ({text}). "
            "PyNative mode runs it without: ms.set_context(mode=ms.PYNATIVE_MODE)",
        )


def advise(e: BaseException) -> None:
    """Add to the message where in the user's code it happened, and what to try."""
    if getattr(e, "graph_mode", False):
        return
    try:
        e.graph_mode = True  # type: ignore[attr-defined]
    except AttributeError:
        return
    site = getattr(e, "graph_site", None) or _site(e)
    if e.args and isinstance(e.args[0], str):
        e.args = (f"{e.args[0]} ({site[0]}:{site[1]}, {ADVICE})", *e.args[1:])


def _site(e: BaseException) -> tuple[str, int]:
    """File and line of the innermost frame of the user's; that of the module's call when there is none inside it."""
    found = [(f.f_code.co_filename, n) for f, n in traceback.walk_tb(e.__traceback__) if kind_of(f.f_code) == "user"]
    return found[-1] if found else log.user_site()


def call(module: Any, args: Any, kwargs: Any) -> Any:
    """The result of a module in graph mode."""
    # A single layer of the library is one operation: no graph by itself.
    if state.inside or calls.state.capturing or not module._modules and type(module).__module__.startswith("mindtorch."):
        return module._call_impl(*args, **kwargs)
    device = _elsewhere(module, args, kwargs)
    if device is not None:
        log.once(
            logging.WARNING,
            f"{type(module).__name__} runs eagerly in MindSpore's graph mode, kernel by kernel: tensors on {device} are not captured",
        )
        state.inside = True
        try:
            return module._call_impl(*args, **kwargs)
        finally:
            state.inside = False
    return of(module)(*args, **kwargs)


def _elsewhere(module: Any, args: Any, kwargs: Any) -> Any:
    """The accelerator that an argument or the module's first parameter is on, None on the CPU."""
    first = next(module.parameters(), None)
    for v in (*args, *kwargs.values(), first):
        if isinstance(v, Tensor) and v.k.device.type != "cpu":
            return v.k.device
    return None


def of(module: Any) -> Switched:
    """The graphs of a module in graph mode."""
    graph = module.__dict__.get("_graph_mode")
    if graph is None or graph.owner is not module:  # a shallow copy of a module brings the original's
        graph = module.__dict__["_graph_mode"] = Switched(module)
    return graph
