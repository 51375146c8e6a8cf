"""Module calls, seen alike on both frameworks through their global module hooks."""

from __future__ import annotations

from typing import Any

from mindtorch.tools import values

_HOMES = ("torch.nn.modules.", "mindtorch.torch.nn.modules.")
_HOLDERS = frozenset(
    ["Module", "Sequential", "ModuleList", "ModuleDict", "ParameterList", "ParameterDict", "Container", "DataParallel"]
)
"""Classes that only hold other modules: what they hold is recorded."""
_classes: dict[type, str] = {}


def api_of(cls: type) -> str:
    """Name of the ``torch.nn`` class that a module is (the nearest one it derives from), "" for users' own modules."""
    got = _classes.get(cls)
    if got is None:
        got = ""
        for c in cls.__mro__:
            if c.__module__.startswith(_HOMES):
                got = "" if c.__name__.startswith("_") or c.__name__ in _HOLDERS else c.__name__
                break
        _classes[cls] = got
    return got


class ModuleHooks:
    """Two global hooks around every module call: a marker for modules of the net, a recorded call for nn classes."""

    def __init__(self, recorder: Any, torch: Any) -> None:
        self.recorder = recorder
        self._open: list[tuple[Any, Any]] = []
        registry = torch.nn.modules.module
        self._handles = [
            registry.register_module_forward_pre_hook(self._enter),
            registry.register_module_forward_hook(self._leave, with_kwargs=True, always_call=True),
        ]

    def _enter(self, module: Any, args: Any) -> Any:
        r = self.recorder
        if not r.alive() or r.in_backward():
            return None
        if not r.module_stack:
            r.root()
            if id(module) not in r.paths:
                r.adopt(module)
        path = r.paths.get(id(module), "")
        if r.marked(module):
            r.layer(path)
        name = api_of(type(module))
        if r.every_module and path:
            name = type(module).__name__
        r.module_stack.append(path or (r.module_stack[-1] if r.module_stack else ""))
        call = None
        if name:
            # Keyword arguments are only known to the hook behind the call, which sees them unchanged for modules of nn.
            call = r.begin("NN", name, values.leaves(args, everything=not r.settings.filter_data), owner=module)
        self._open.append((module, call))
        return None if call is None else r.entered(call, args)

    def _leave(self, module: Any, args: Any, *rest: Any) -> None:
        # Behind a forward that raised PyTorch calls its hooks without the keyword arguments.
        kwargs, output = rest if len(rest) == 2 else ({}, rest[0])
        r = self.recorder
        while self._open and self._open[-1][0] is not module:
            self._pop()
        if not self._open:
            return
        call = self._pop()
        if call is None or not r.alive():
            return
        if output is None:
            r.fail(call, "forward raised")
            return
        if kwargs:
            call.inputs += r.capture(values.leaves(dict(kwargs), everything=not r.settings.filter_data))
        r.end(call, list(values.leaves(output)))

    def _pop(self) -> Any:
        if self.recorder.module_stack:
            self.recorder.module_stack.pop()
        return self._open.pop()[1]

    def remove(self) -> None:
        """Take the hooks away."""
        for h in self._handles:
            h.remove()
        self._handles = []
        self._open.clear()


class OptimizerHooks:
    """Gradients before and weights after every optimiser step; a step of the optimiser ends a step of the dump."""

    def __init__(self, recorder: Any, torch: Any) -> None:
        self.recorder = recorder
        # PyTorch deletes the name torch.optim.optimizer, and sys.modules may hold the other framework's.
        registry = torch.optim.Optimizer.__repr__.__globals__
        self._handles = [
            registry["register_optimizer_step_pre_hook"](self._before),
            registry["register_optimizer_step_post_hook"](self._after),
        ]

    def _before(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if self.recorder.alive() and self.recorder.settings.dump_type != "stack":
            self.recorder.before_update(type(optimizer).__name__, optimizer.param_groups)

    def _after(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if self.recorder.alive():
            if self.recorder.settings.dump_type != "stack":
                self.recorder.after_update(type(optimizer).__name__)
            self.recorder.next_step()

    def remove(self) -> None:
        """Take the hooks away."""
        for h in self._handles:
            h.remove()
        self._handles = []
