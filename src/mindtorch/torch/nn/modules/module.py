"""Module: what it holds, how attributes register members, and how it prints. Its other parts are the ``_*.py`` files here."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import mindtorch.torch as torch

from ..parameter import Buffer, Parameter
from . import _hooks
from ._convert import Converting
from ._hooks import (
    Calling,
    _global_backward_hooks,
    _global_backward_pre_hooks,
    _global_buffer_registration_hooks,
    _global_forward_hooks,
    _global_forward_pre_hooks,
    _global_module_registration_hooks,
    _global_parameter_registration_hooks,
    _has_any_global_hook,
    register_module_backward_hook,
    register_module_buffer_registration_hook,
    register_module_forward_hook,
    register_module_forward_pre_hook,
    register_module_full_backward_hook,
    register_module_full_backward_pre_hook,
    register_module_module_registration_hook,
    register_module_parameter_registration_hook,
)
from ._state import _EXTRA_STATE_KEY_SUFFIX, Stateful, _IncompatibleKeys, _WrappedHook
from ._walk import Walking

__all__ = [
    "Module",
    "register_module_backward_hook",
    "register_module_buffer_registration_hook",
    "register_module_forward_hook",
    "register_module_forward_pre_hook",
    "register_module_full_backward_hook",
    "register_module_full_backward_pre_hook",
    "register_module_module_registration_hook",
    "register_module_parameter_registration_hook",
]
_PUBLIC_INTERNALS = (
    _EXTRA_STATE_KEY_SUFFIX,
    _IncompatibleKeys,
    _WrappedHook,
    _global_backward_hooks,
    _global_backward_pre_hooks,
    _global_forward_hooks,
    _global_forward_pre_hooks,
    _has_any_global_hook,
)
"""Names that libraries import from torch.nn.modules.module although they are private."""

_HOOK_TABLES = (
    "_backward_pre_hooks",
    "_backward_hooks",
    "_forward_hooks",
    "_forward_hooks_with_kwargs",
    "_forward_hooks_always_called",
    "_forward_pre_hooks",
    "_forward_pre_hooks_with_kwargs",
    "_state_dict_hooks",
    "_state_dict_pre_hooks",
    "_load_state_dict_pre_hooks",
    "_load_state_dict_post_hooks",
)
_CALL_TABLES = ("_backward_pre_hooks", "_backward_hooks", "_forward_hooks", "_forward_pre_hooks")


def _addindent(text: str, spaces: int) -> str:
    """``text`` with every line but the first shifted to the right."""
    return text.replace("\n", "\n" + " " * spaces)


def _forward_unimplemented(self: Any, *input: Any) -> None:
    """Every subclass defines its own forward."""
    raise NotImplementedError(f'Module [{type(self).__name__}] is missing the required "forward" function')


class Module(Walking, Stateful, Converting, Calling):
    """Base of all layers and models: a tree of modules that hold parameters and buffers.

    Assigning a Parameter, Buffer or Module to an attribute registers it; ``forward`` defines what calling the module does.
    """

    dump_patches: bool = False
    call_super_init: bool = False
    training: bool
    _parameters: dict[str, Any]
    _buffers: dict[str, Any]
    _modules: dict[str, Any]
    _non_persistent_buffers_set: set[str]
    _is_full_backward_hook: bool | None

    forward: Any = _forward_unimplemented

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if not self.call_super_init:
            if kwargs:
                raise TypeError(
                    f"{type(self).__name__}.__init__() got an unexpected keyword argument '{next(iter(kwargs))}'"
                )
            if args:
                raise TypeError(
                    f"{type(self).__name__}.__init__() takes 1 positional argument but {len(args) + 1} were given"
                )
        d = self.__dict__
        d["training"] = True
        d["_parameters"] = {}
        d["_buffers"] = {}
        d["_non_persistent_buffers_set"] = set()
        d["_backward_pre_hooks"] = OrderedDict()
        d["_backward_hooks"] = OrderedDict()
        d["_is_full_backward_hook"] = None
        for name in _HOOK_TABLES[2:]:
            d[name] = OrderedDict()
        d["_modules"] = {}
        if self.call_super_init:
            super().__init__(*args, **kwargs)

    # ----------------------------------------------------------------------------------------- registration
    def _check_name(self, kind: str, name: Any, table: Any) -> None:
        if not isinstance(name, str):
            raise TypeError(f"{kind} name should be a string. Got {torch.typename(name)}")
        if "." in name:
            raise KeyError(f'{kind} name can\'t contain "."' + (f", got: {name}" if kind == "module" else ""))
        if name == "":
            raise KeyError(f'{kind} name can\'t be empty string ""')
        if hasattr(self, name) and name not in table:
            raise KeyError(f"attribute '{name}' already exists")

    def register_buffer(self, name: str, tensor: Any, persistent: bool = True) -> None:
        """Hold ``tensor`` (or None) as buffer ``name``; ``persistent`` buffers are part of the state_dict."""
        buffers = self.__dict__.get("_buffers")
        if buffers is None:
            raise AttributeError("cannot assign buffer before Module.__init__() call")
        self._check_name("buffer", name, buffers)
        if tensor is not None and not isinstance(tensor, torch.Tensor):
            raise TypeError(
                f"cannot assign '{torch.typename(tensor)}' object to buffer '{name}' (torch Tensor or None required)"
            )
        for hook in _global_buffer_registration_hooks.values():
            got = hook(self, name, tensor)
            tensor = tensor if got is None else got
        buffers[name] = tensor
        if persistent:
            self._non_persistent_buffers_set.discard(name)
        else:
            self._non_persistent_buffers_set.add(name)

    def register_parameter(self, name: str, param: Any) -> None:
        """Hold the leaf Parameter ``param`` (or None) as ``name``."""
        params = self.__dict__.get("_parameters")
        if params is None:
            raise AttributeError("cannot assign parameter before Module.__init__() call")
        self._check_name("parameter", name, params)
        if param is not None:
            if not isinstance(param, Parameter):
                raise TypeError(
                    f"cannot assign '{torch.typename(param)}' object to parameter '{name}' (torch.nn.Parameter or None "
                    "required)"
                )
            if param.grad_fn is not None:
                raise ValueError(
                    f"Cannot assign non-leaf Tensor to parameter '{name}'. Model parameters must be created explicitly. To "
                    f"express '{name}' as a function of another Tensor, compute the value in the forward() method."
                )
            for hook in _global_parameter_registration_hooks.values():
                got = hook(self, name, param)
                param = param if got is None else got
        params[name] = param

    def add_module(self, name: str, module: Any) -> None:
        """Hold ``module`` (or None) as child ``name``."""
        if module is not None and not isinstance(module, Module):
            raise TypeError(f"{torch.typename(module)} is not a Module subclass")
        modules = self._modules
        self._check_name("module", name, modules)
        for hook in _global_module_registration_hooks.values():
            got = hook(self, name, module)
            module = module if got is None else got
        modules[name] = module

    def register_module(self, name: str, module: Any) -> None:
        """Alias of :meth:`add_module`."""
        self.add_module(name, module)

    # ------------------------------------------------------------------------------------------- attributes
    def __getattr__(self, name: str) -> Any:
        d = self.__dict__
        for table in ("_parameters", "_buffers", "_modules"):
            try:
                return d[table][name]
            except KeyError:
                continue
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def _forget(self, name: str, *tables: str) -> None:
        """Take ``name`` out of the instance dict and the given tables, before it moves to another."""
        d = self.__dict__
        d.pop(name, None)
        for table in tables:
            got = d.get(table)
            if got and name in got:
                if table == "_buffers":
                    self._non_persistent_buffers_set.discard(name)
                del got[name]

    def __setattr__(self, name: str, value: Any) -> None:
        d = self.__dict__
        if isinstance(value, Parameter):
            if "_parameters" not in d:
                raise AttributeError("cannot assign parameters before Module.__init__() call")
            self._forget(name, "_buffers", "_modules")
            self.register_parameter(name, value)
            return
        params = d.get("_parameters")
        if params and name in params:
            if value is not None:
                raise TypeError(
                    f"cannot assign '{torch.typename(value)}' as parameter '{name}' (torch.nn.Parameter or None expected)"
                )
            self.register_parameter(name, None)
            return
        modules = d.get("_modules")
        if isinstance(value, Module):
            if modules is None:
                raise AttributeError("cannot assign module before Module.__init__() call")
            self._forget(name, "_parameters", "_buffers")
            self._set_module(name, value)
        elif modules and name in modules:
            if value is not None:
                raise TypeError(
                    f"cannot assign '{torch.typename(value)}' as child module '{name}' (torch.nn.Module or None expected)"
                )
            self._set_module(name, None)
        else:
            buffers = d.get("_buffers")
            if (buffers and name in buffers) or isinstance(value, Buffer):
                self._set_buffer(name, value, buffers)
            else:
                object.__setattr__(self, name, value)

    def _set_module(self, name: str, module: Any) -> None:
        for hook in _global_module_registration_hooks.values():
            got = hook(self, name, module)
            module = module if got is None else got
        self._modules[name] = module

    def _set_buffer(self, name: str, value: Any, buffers: Any) -> None:
        if buffers is None:
            raise AttributeError("cannot assign buffer before Module.__init__() call")
        if value is not None and not isinstance(value, torch.Tensor):
            raise TypeError(
                f"cannot assign '{torch.typename(value)}' as buffer '{name}' (torch.nn.Buffer, torch.Tensor or None expected)"
            )
        if isinstance(value, Buffer):
            if name not in buffers:
                self._forget(name, "_parameters", "_modules")
            self.register_buffer(name, value, value.persistent)
            return
        for hook in _global_buffer_registration_hooks.values():
            got = hook(self, name, value)
            value = value if got is None else got
        buffers[name] = value

    def __delattr__(self, name: str) -> None:
        if name in self._parameters:
            del self._parameters[name]
        elif name in self._buffers:
            del self._buffers[name]
            self._non_persistent_buffers_set.discard(name)
        elif name in self._modules:
            del self._modules[name]
        else:
            object.__delattr__(self, name)

    def __dir__(self) -> list[str]:
        keys = [*dir(type(self)), *self.__dict__, *self._parameters, *self._modules, *self._buffers]
        return sorted(k for k in keys if not k[0].isdigit())

    # --------------------------------------------------------------------------------------------- pickling
    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        state.pop("_compiled_call_impl", None)
        state.pop("_graph_mode", None)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        d = self.__dict__
        # files written by older releases lack some tables
        for name in _HOOK_TABLES:
            if name not in d:
                d[name] = OrderedDict()
        d.setdefault("_non_persistent_buffers_set", set())
        d.setdefault("_is_full_backward_hook", None)
        if any(d[name] for name in _CALL_TABLES):
            _hooks.mark_hooked()

    def _replicate_for_data_parallel(self) -> Any:
        """A shallow copy with tables of its own."""
        replica = self.__new__(type(self))
        replica.__dict__ = self.__dict__.copy()
        replica._parameters = {}
        replica._buffers = self._buffers.copy()
        replica._modules = self._modules.copy()
        replica._is_replica = True
        return replica

    # ------------------------------------------------------------------------------------------------- text
    def _get_name(self) -> str:
        return type(self).__name__

    def extra_repr(self) -> str:
        """What stands between the parentheses of ``repr``; override to print a module's settings."""
        return ""

    def __repr__(self) -> str:
        extra = self.extra_repr()
        lines = extra.split("\n") if extra else []
        children = [f"({name}): {_addindent(repr(m), 2)}" for name, m in self._modules.items()]
        head = f"{self._get_name()}("
        if not lines and not children:
            return head + ")"
        if len(lines) == 1 and not children:
            return f"{head}{lines[0]})"
        return head + "\n  " + "\n  ".join(lines + children) + "\n)"


# private names that user code calls through the class
Module._slow_forward = Module._call_impl
