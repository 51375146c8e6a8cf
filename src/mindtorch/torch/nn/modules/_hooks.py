"""Calling a module, and every hook that may run around ``forward`` and around its gradients.

``Module.__call__`` is hot: as long as nobody in the process has registered a hook (``HOOKED`` is False) it is one test and the
call of ``forward``. The first registration anywhere sends all calls through :meth:`Calling._call_impl`.
"""

from __future__ import annotations

import warnings
from collections import OrderedDict
from typing import Any

import mindtorch.torch as torch
from mindtorch.core.hooks import RemovableHandle
from mindtorch.engine.mindspore import mode

from ._backward import BackwardHook

HOOKED = False
GRAPH_CALL: Any = None
"""In MindSpore's graph mode what calls a module as a graph, (module, args, kwargs) -> result."""
_MISSING = object()

_global_backward_pre_hooks: dict[int, Any] = OrderedDict()
_global_backward_hooks: dict[int, Any] = OrderedDict()
_global_is_full_backward_hook: bool | None = None
_global_forward_pre_hooks: dict[int, Any] = OrderedDict()
_global_forward_hooks: dict[int, Any] = OrderedDict()
_global_forward_hooks_always_called: dict[int, bool] = OrderedDict()
_global_forward_hooks_with_kwargs: dict[int, bool] = OrderedDict()
_global_buffer_registration_hooks: dict[int, Any] = OrderedDict()
_global_module_registration_hooks: dict[int, Any] = OrderedDict()
_global_parameter_registration_hooks: dict[int, Any] = OrderedDict()


def mark_hooked() -> None:
    """Make every module look for hooks from now on."""
    global HOOKED, _marked
    HOOKED = _marked = True


_marked = False
"""Whether HOOKED is for good, whatever the mode."""


def _graph_call(module: Any, args: Any, kwargs: Any) -> Any:
    """The first call in graph mode: opens the room of graphs, which imports this one."""
    global GRAPH_CALL
    from mindtorch.graph import switch

    GRAPH_CALL = switch.call
    return switch.call(module, args, kwargs)


def _mode_changed(graph: bool) -> None:
    """The program set MindSpore's mode."""
    global GRAPH_CALL, HOOKED
    GRAPH_CALL = _graph_call if graph else None
    HOOKED = graph or _marked


mode.listen(_mode_changed)


def add_hook(
    table: Any, hook: Any, extra: Any = None, prepend: bool = False, around_calls: bool = True
) -> RemovableHandle:
    """Put ``hook`` into ``table`` under a fresh id; ``extra`` lists tables that carry a flag for the same id.

    ``around_calls`` False: the hook has nothing to do with calling a module, which stays on the short path.
    """
    if around_calls:
        mark_hooked()
    handle = RemovableHandle(table, extra_dict=extra)
    table[handle.id] = hook
    if prepend:
        table.move_to_end(handle.id, last=False)
    return handle


def _has_any_global_hook() -> bool:
    return bool(
        _global_backward_pre_hooks
        or _global_backward_hooks
        or _global_forward_hooks
        or _global_forward_pre_hooks
        or _global_forward_hooks_always_called
        or _global_forward_hooks_with_kwargs
    )


# --------------------------------------------------------------------------------------------- global hooks
def register_module_forward_pre_hook(hook: Any) -> RemovableHandle:
    """``hook(module, args) -> None | new args`` before every forward of every module."""
    return add_hook(_global_forward_pre_hooks, hook)


def register_module_forward_hook(hook: Any, *, with_kwargs: bool = False, always_call: bool = False) -> RemovableHandle:
    """``hook(module, args, output) -> None | new output`` after every forward of every module."""
    handle = add_hook(
        _global_forward_hooks, hook, [_global_forward_hooks_with_kwargs, _global_forward_hooks_always_called]
    )
    if with_kwargs:
        _global_forward_hooks_with_kwargs[handle.id] = True
    if always_call:
        _global_forward_hooks_always_called[handle.id] = True
    return handle


def _global_kind(full: bool) -> None:
    global _global_is_full_backward_hook
    if _global_is_full_backward_hook is (not full):
        raise RuntimeError(
            "Cannot use both regular backward hooks and full backward hooks as a global Module hook. Please use only one "
            "of them."
        )
    _global_is_full_backward_hook = full


def register_module_backward_hook(hook: Any) -> RemovableHandle:
    """Old form: ``hook(module, grad_input, grad_output)`` sees only the last operation of a module's forward."""
    _global_kind(full=False)
    return add_hook(_global_backward_hooks, hook)


def register_module_full_backward_pre_hook(hook: Any) -> RemovableHandle:
    """``hook(module, grad_output) -> None | new grad_output`` before gradients enter any module."""
    return add_hook(_global_backward_pre_hooks, hook)


def register_module_full_backward_hook(hook: Any) -> RemovableHandle:
    """``hook(module, grad_input, grad_output) -> None | new grad_input`` once a module's input gradients are known."""
    _global_kind(full=True)
    return add_hook(_global_backward_hooks, hook)


def register_module_buffer_registration_hook(hook: Any) -> RemovableHandle:
    """``hook(module, name, buffer) -> None | buffer to register instead``."""
    return add_hook(_global_buffer_registration_hooks, hook, around_calls=False)


def register_module_module_registration_hook(hook: Any) -> RemovableHandle:
    """``hook(module, name, submodule) -> None | submodule to register instead``."""
    return add_hook(_global_module_registration_hooks, hook, around_calls=False)


def register_module_parameter_registration_hook(hook: Any) -> RemovableHandle:
    """``hook(module, name, param) -> None | parameter to register instead``."""
    return add_hook(_global_parameter_registration_hooks, hook, around_calls=False)


# --------------------------------------------------------------------------------------------- pieces of a call
def _run_pre_hooks(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    with_kwargs = module._forward_pre_hooks_with_kwargs
    for key, hook in (*_global_forward_pre_hooks.items(), *module._forward_pre_hooks.items()):
        if key in with_kwargs:
            got = hook(module, args, kwargs)
            if got is None:
                continue
            if not (isinstance(got, tuple) and len(got) == 2):
                raise RuntimeError(
                    f"forward pre-hook must return None or a tuple of (new_args, new_kwargs), but got {got}."
                )
            args, kwargs = got
        else:
            got = hook(module, args)
            if got is not None:
                args = got if isinstance(got, tuple) else (got,)
    return args, kwargs


def _call_forward_hook(module: Any, key: int, hook: Any, args: Any, kwargs: Any, result: Any) -> Any:
    if key in module._forward_hooks_with_kwargs or key in _global_forward_hooks_with_kwargs:
        got = hook(module, args, kwargs, result)
    else:
        got = hook(module, args, result)
    return result if got is None else got


def _rescue(module: Any, done: set[int], args: Any, kwargs: Any) -> None:
    """forward or a hook failed: run the ``always_call`` hooks that have not run, silencing what they raise."""
    result = None
    for always, hooks in (
        (_global_forward_hooks_always_called, _global_forward_hooks),
        (module._forward_hooks_always_called, module._forward_hooks),
    ):
        for key, hook in list(hooks.items()):
            if key in always and key not in done:
                try:
                    result = _call_forward_hook(module, key, hook, args, kwargs, result)
                except Exception as err:  # noqa: BLE001 - a hook may raise anything
                    what = "global module forward hook" if hooks is _global_forward_hooks else "module forward hook"
                    warnings.warn(
                        f"{what} with ``always_call=True`` raised an exception that was silenced as another error was "
                        f"raised in forward: {err}",
                        stacklevel=3,
                    )


def _first_tensor(result: Any) -> Any:
    while not isinstance(result, torch.Tensor):
        if isinstance(result, dict):
            result = next((v for v in result.values() if isinstance(v, torch.Tensor)), None)
        elif isinstance(result, (tuple, list)) and result:
            result = result[0]
        else:
            return None
    return result


class Calling:
    """Part of Module: ``__call__`` and the registration of hooks."""

    _compiled_call_impl: Any = None

    def __call__(self, x: Any = _MISSING, /, *args: Any, **kwargs: Any) -> Any:
        if HOOKED:
            if x is not _MISSING:
                args = (x, *args)
            compiled = self._compiled_call_impl
            if compiled is None:
                return self._call_impl(*args, **kwargs) if GRAPH_CALL is None else GRAPH_CALL(self, args, kwargs)
            return compiled(*args, **kwargs)
        if not kwargs and not args and x is not _MISSING:
            return self.forward(x)
        if x is _MISSING:
            return self.forward(**kwargs)
        return self.forward(x, *args, **kwargs)

    def _wrapped_call_impl(self, /, *args: Any, **kwargs: Any) -> Any:
        return self(*args, **kwargs)

    def _call_impl(self, /, *args: Any, **kwargs: Any) -> Any:
        """forward with all hooks, whatever ``HOOKED`` says."""
        if not (
            self._forward_hooks
            or self._forward_pre_hooks
            or self._backward_hooks
            or self._backward_pre_hooks
            or _global_forward_hooks
            or _global_forward_pre_hooks
            or _global_backward_hooks
            or _global_backward_pre_hooks
        ):
            return self.forward(*args, **kwargs)
        done: set[int] = set()
        try:
            return self._hooked_call(args, kwargs, done)
        except Exception:
            if self._forward_hooks_always_called or _global_forward_hooks_always_called:
                _rescue(self, done, args, kwargs)
            raise

    def _hooked_call(self, args: tuple[Any, ...], kwargs: dict[str, Any], done: set[int]) -> Any:
        args, kwargs = _run_pre_hooks(self, args, kwargs)
        full, legacy = self._get_backward_hooks()
        pre = [*_global_backward_pre_hooks.values(), *self._backward_pre_hooks.values()]
        backward = BackwardHook(self, full, pre) if full or pre else None
        if backward is not None:
            args = backward.setup_input_hook(args)
        result = self.forward(*args, **kwargs)
        for key, hook in (*_global_forward_hooks.items(), *self._forward_hooks.items()):
            if key in self._forward_hooks_always_called or key in _global_forward_hooks_always_called:
                done.add(key)
            result = _call_forward_hook(self, key, hook, args, kwargs, result)
        if backward is not None:
            if not isinstance(result, (torch.Tensor, tuple)):
                warnings.warn(
                    "For backward hooks to be called, module output should be a Tensor or a tuple of Tensors but received "
                    f"{type(result)}",
                    stacklevel=2,
                )
            result = backward.setup_output_hook(result)
        if legacy:
            self._attach_legacy(legacy, args, result)
        return result

    def _attach_legacy(self, hooks: list[Any], args: tuple[Any, ...], result: Any) -> None:
        tensor = _first_tensor(result)
        node = None if tensor is None else tensor.grad_fn
        if node is not None:
            for hook in hooks:
                node.register_hook(lambda gi, go, hook=hook: hook(self, gi, go))
            self._maybe_warn_non_full_backward_hook(args, result, node)

    def _get_backward_hooks(self) -> tuple[list[Any], list[Any]]:
        full: list[Any] = []
        legacy: list[Any] = []
        if _global_is_full_backward_hook is not None:
            (full if _global_is_full_backward_hook else legacy).extend(_global_backward_hooks.values())
        if self._is_full_backward_hook is not None:
            (full if self._is_full_backward_hook else legacy).extend(self._backward_hooks.values())
        return full, legacy

    def _get_backward_pre_hooks(self) -> list[Any]:
        return [*_global_backward_pre_hooks.values(), *self._backward_pre_hooks.values()]

    def _maybe_warn_non_full_backward_hook(self, args: Any, result: Any, grad_fn: Any) -> None:
        """Say why an old-style backward hook will not see all gradients."""
        outs = (result,) if isinstance(result, torch.Tensor) else result
        ins = (args,) if isinstance(args, torch.Tensor) else args
        text = None
        if not (isinstance(outs, tuple) and all(isinstance(r, torch.Tensor) for r in outs)):
            text = "Using non-full backward hooks on a Module that does not return a single Tensor or a tuple of Tensors"
        elif not (isinstance(ins, tuple) and all(isinstance(a, torch.Tensor) for a in ins)):
            text = "Using non-full backward hooks on a Module that does not take as input a single Tensor or a tuple of Tensors"
        elif len({r.grad_fn for r in outs if r.grad_fn is not None}) > 1:
            text = "Using a non-full backward hook when outputs are generated by different autograd Nodes"
        else:
            inputs = {a.grad_fn for a in ins if a.grad_fn is not None}
            if inputs != {n for n, _ in grad_fn.next_functions}:
                text = "Using a non-full backward hook when the forward contains multiple autograd Nodes"
        if text is not None:
            warnings.warn(
                f"{text} is deprecated and will be removed in future versions. This hook will be missing some grad_input or "
                "grad_output. Please use register_full_backward_hook to get the documented behavior.",
                FutureWarning,
                stacklevel=2,
            )

    # ----------------------------------------------------------------------------------------- registration
    def register_forward_pre_hook(self, hook: Any, *, prepend: bool = False, with_kwargs: bool = False) -> RemovableHandle:
        """``hook(module, args[, kwargs]) -> None | args | (args, kwargs)`` before forward."""
        handle = add_hook(self._forward_pre_hooks, hook, self._forward_pre_hooks_with_kwargs, prepend)
        if with_kwargs:
            self._forward_pre_hooks_with_kwargs[handle.id] = True
        return handle

    def register_forward_hook(
        self, hook: Any, *, prepend: bool = False, with_kwargs: bool = False, always_call: bool = False
    ) -> RemovableHandle:
        """``hook(module, args[, kwargs], output) -> None | output`` after forward; ``always_call``: also after an error."""
        flags = [self._forward_hooks_with_kwargs, self._forward_hooks_always_called]
        handle = add_hook(self._forward_hooks, hook, flags, prepend)
        if with_kwargs:
            self._forward_hooks_with_kwargs[handle.id] = True
        if always_call:
            self._forward_hooks_always_called[handle.id] = True
        return handle

    def _backward_kind(self, full: bool) -> None:
        if self._is_full_backward_hook is (not full):
            raise RuntimeError(
                "Cannot use both regular backward hooks and full backward hooks on a single Module. Please use only one of "
                "them."
            )
        self._is_full_backward_hook = full

    def register_backward_hook(self, hook: Any) -> RemovableHandle:
        """Old form, sees only the last operation of forward; prefer :meth:`register_full_backward_hook`."""
        self._backward_kind(full=False)
        return add_hook(self._backward_hooks, hook)

    def register_full_backward_hook(self, hook: Any, prepend: bool = False) -> RemovableHandle:
        """``hook(module, grad_input, grad_output) -> None | new grad_input``."""
        self._backward_kind(full=True)
        return add_hook(self._backward_hooks, hook, prepend=prepend)

    def register_full_backward_pre_hook(self, hook: Any, prepend: bool = False) -> RemovableHandle:
        """``hook(module, grad_output) -> None | new grad_output``."""
        return add_hook(self._backward_pre_hooks, hook, prepend=prepend)

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Send later calls of this module through ``torch.compile``; arguments are those of ``torch.compile``."""
        mark_hooked()
        self._compiled_call_impl = torch.compile(self._call_impl, *args, **kwargs)
