"""state_dict and load_state_dict."""

from __future__ import annotations

from collections import OrderedDict, namedtuple
from collections.abc import Callable, Mapping
from typing import Any

import mindtorch.torch as torch
from mindtorch.core.hooks import RemovableHandle

from ..parameter import Parameter, is_lazy
from ._hooks import add_hook

_EXTRA_STATE_KEY_SUFFIX = "_extra_state"


class _IncompatibleKeys(namedtuple("IncompatibleKeys", ["missing_keys", "unexpected_keys"])):
    __slots__ = ()

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return f"_IncompatibleKeys(missing_keys={self.missing_keys}, unexpected_keys={self.unexpected_keys})"

    __str__ = __repr__


class _WrappedHook:
    """A load pre-hook that also wants its module as first argument."""

    __module__ = "mindtorch.torch.nn.modules.module"  # the name that files give it

    def __init__(self, hook: Callable[..., Any], module: Any = None) -> None:
        self.hook = hook
        self.with_module = module is not None
        self._module = module

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.hook(self._module, *args, **kwargs) if self.with_module else self.hook(*args, **kwargs)

    def __getstate__(self) -> dict[str, Any]:
        state = {"hook": self.hook, "with_module": self.with_module}
        return {**state, "module": self._module} if self.with_module else state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["hook"], state.get("module"))  # type: ignore[misc]


class Stateful:
    """Part of Module: saving to and loading from dictionaries of tensors."""

    _version: int = 1

    # ------------------------------------------------------------------------------------------------- saving
    def get_extra_state(self) -> Any:
        """Override, together with :meth:`set_extra_state`, to add picklable state to the state_dict."""
        raise RuntimeError(
            "Module.get_extra_state() was called on a module that does not override it; define get_extra_state and "
            "set_extra_state in the class."
        )

    def set_extra_state(self, state: Any) -> None:
        """Counterpart of :meth:`get_extra_state`."""
        raise RuntimeError(
            "Module.set_extra_state() was called on a module that does not override it; define get_extra_state and "
            "set_extra_state in the class."
        )

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        """Write this module's own parameters, persistent buffers and extra state to ``destination``."""
        for name, param in self._parameters.items():
            if param is not None:
                destination[prefix + name] = param if keep_vars else param.detach()
        for name, buf in self._buffers.items():
            if buf is not None and name not in self._non_persistent_buffers_set:
                destination[prefix + name] = buf if keep_vars else buf.detach()
        if type(self).get_extra_state is not Stateful.get_extra_state:
            destination[prefix + _EXTRA_STATE_KEY_SUFFIX] = self.get_extra_state()

    def state_dict(self, *args: Any, destination: Any = None, prefix: str = "", keep_vars: bool = False) -> Any:
        """Parameters and persistent buffers of the tree by dotted name, sharing memory with the module.

        ``keep_vars``: hand out the parameters themselves, not detached views. ``_metadata`` of the result holds versions.
        """
        if args:
            import warnings

            warnings.warn(
                "Positional args are being deprecated, use kwargs instead. Refer to the documentation of "
                "torch.nn.Module.state_dict for details.",
                FutureWarning,
                stacklevel=2,
            )
            destination = args[0] if destination is None else destination
            prefix = args[1] if len(args) > 1 and prefix == "" else prefix
            keep_vars = args[2] if len(args) > 2 and keep_vars is False else keep_vars
        if destination is None:
            destination = OrderedDict()
            destination._metadata = OrderedDict()
        local_metadata = {"version": self._version}
        if hasattr(destination, "_metadata"):
            destination._metadata[prefix[:-1]] = local_metadata
        for hook in self._state_dict_pre_hooks.values():
            hook(self, prefix, keep_vars)
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, module in self._modules.items():
            if module is not None:
                module.state_dict(destination=destination, prefix=f"{prefix}{name}.", keep_vars=keep_vars)
        for hook in self._state_dict_hooks.values():
            got = hook(self, destination, prefix, local_metadata)
            if getattr(hook, "_from_public_api", False):
                if got is not None:
                    raise RuntimeError("state_dict post-hook must return None")
            elif got is not None:
                destination = got
        return destination

    # ------------------------------------------------------------------------------------------------ loading
    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> Any:
        """Copy values into the module's tensors (``assign``: take over the given tensors). Returns missing and unexpected keys.

        RuntimeError lists every missing and unexpected key (when ``strict``) and every size mismatch.
        """
        if not isinstance(state_dict, Mapping):
            raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict)}.")
        metadata = getattr(state_dict, "_metadata", None)
        # hooks may add and remove keys: they work on a copy
        state_dict = OrderedDict(state_dict)
        if metadata is not None:
            state_dict._metadata = metadata
        missing: list[str] = []
        unexpected: list[str] = []
        errors: list[str] = []

        def load(module: Any, local: Any, prefix: str) -> None:
            info = {} if metadata is None else metadata.get(prefix[:-1], {})
            if assign:
                info["assign_to_params_buffers"] = True
            module._load_from_state_dict(local, prefix, info, True, missing, unexpected, errors)
            for name, child in module._modules.items():
                if child is not None:
                    below = f"{prefix}{name}."
                    load(child, OrderedDict((k, v) for k, v in local.items() if k.startswith(below)), below)
            keys = _IncompatibleKeys(missing, unexpected)
            for hook in module._load_state_dict_post_hooks.values():
                if hook(module, keys) is not None:
                    raise AssertionError(
                        "Hooks registered with ``register_load_state_dict_post_hook`` are not expected to return new "
                        "values, if incompatible_keys need to be modified, it should be done inplace."
                    )

        load(self, state_dict, "")
        if strict:
            if unexpected:
                errors.insert(0, "Unexpected key(s) in state_dict: {}. ".format(", ".join(f'"{k}"' for k in unexpected)))
            if missing:
                errors.insert(0, "Missing key(s) in state_dict: {}. ".format(", ".join(f'"{k}"' for k in missing)))
        if errors:
            raise RuntimeError(
                "Error(s) in loading state_dict for {}:\n\t{}".format(type(self).__name__, "\n\t".join(errors))
            )
        return _IncompatibleKeys(missing, unexpected)

    def _load_from_state_dict(
        self,
        state_dict: Any,
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        """Load what belongs to this module itself (children are loaded by the caller); problems go into the three lists.

        Override to read older formats; ``local_metadata["version"]`` tells which wrote the dictionary.
        """
        for hook in self._load_state_dict_pre_hooks.values():
            hook(state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)
        assign = local_metadata.get("assign_to_params_buffers", False)
        own = {k: v for k, v in self._parameters.items() if v is not None}
        own.update(
            (k, v) for k, v in self._buffers.items() if v is not None and k not in self._non_persistent_buffers_set
        )
        for name, param in own.items():
            key = prefix + name
            if key in state_dict:
                self._load_one(name, param, key, state_dict[key], assign, error_msgs)
            elif strict:
                missing_keys.append(key)
        extra = prefix + _EXTRA_STATE_KEY_SUFFIX
        if type(self).set_extra_state is not Stateful.set_extra_state:
            if extra in state_dict:
                self.set_extra_state(state_dict[extra])
            elif strict:
                missing_keys.append(extra)
        elif strict and extra in state_dict:
            unexpected_keys.append(extra)
        if strict:
            for key in state_dict:
                if key.startswith(prefix) and key != extra:
                    head, dot, _ = key[len(prefix) :].partition(".")
                    if head not in self._modules if dot else head not in own:
                        unexpected_keys.append(key)

    def _load_one(self, name: str, param: Any, key: str, value: Any, assign: bool, errors: list[str]) -> None:
        if not isinstance(value, torch.Tensor):
            errors.append(
                f'While copying the parameter named "{key}", expected torch.Tensor or Tensor-like object from checkpoint '
                f"but received {type(value)}"
            )
            return
        lazy = is_lazy(param)
        # files of PyTorch 0.3 hold scalars as tensors of one element
        if not lazy and param.dim() == 0 and value.dim() == 1 and value.shape[0] == 1:
            value = value[0]
        if not lazy and value.shape != param.shape:
            errors.append(
                f"size mismatch for {key}: copying a param with shape {value.shape} from checkpoint, the shape in current "
                f"model is {param.shape}."
            )
            return
        if param.is_meta and not value.is_meta and not assign:
            import warnings

            warnings.warn(
                f"for {key}: copying from a non-meta parameter in the checkpoint to a meta parameter in the current model, "
                "which is a no-op. (Did you mean to pass `assign=True` to assign items in the state dictionary to their "
                "corresponding key in the module instead of copying them in place?)",
                stacklevel=2,
            )
        try:
            with torch.no_grad():
                if not assign:
                    param.copy_(value)
                    return
                if isinstance(param, Parameter):
                    if isinstance(value, Parameter):
                        value.requires_grad_(param.requires_grad)
                    else:
                        value = Parameter(value, requires_grad=param.requires_grad)
                setattr(self, name, value)
        except Exception as err:  # noqa: BLE001 - whatever it is, it goes into the list of errors
            errors.append(
                f'While copying the parameter named "{key}", whose dimensions in the model are {param.size()} and whose '
                f"dimensions in the checkpoint are {value.size()}, an exception occurred : {err.args}."
            )

    # -------------------------------------------------------------------------------------------------- hooks
    def _register_state_dict_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        if getattr(hook, "_from_public_api", False):
            raise RuntimeError("Cannot register the same function as the state dict post hook that was already registered")
        return add_hook(self._state_dict_hooks, hook, around_calls=False)

    def register_state_dict_post_hook(self, hook: Callable[..., None]) -> RemovableHandle:
        """``hook(module, state_dict, prefix, local_metadata)`` after the tree below was written; changes it in place."""
        hook._from_public_api = True
        return add_hook(self._state_dict_hooks, hook, around_calls=False)

    def register_state_dict_pre_hook(self, hook: Callable[..., None]) -> RemovableHandle:
        """``hook(module, prefix, keep_vars)`` before the module is written."""
        return add_hook(self._state_dict_pre_hooks, hook, around_calls=False)

    def _register_load_state_dict_pre_hook(self, hook: Callable[..., None], with_module: bool = False) -> RemovableHandle:
        return add_hook(self._load_state_dict_pre_hooks, _WrappedHook(hook, self if with_module else None), around_calls=False)

    def register_load_state_dict_pre_hook(self, hook: Callable[..., None]) -> RemovableHandle:
        """``hook(module, state_dict, prefix, local_metadata, strict, missing, unexpected, errors)`` before loading."""
        return self._register_load_state_dict_pre_hook(hook, with_module=True)

    def register_load_state_dict_post_hook(self, hook: Callable[..., None]) -> RemovableHandle:
        """``hook(module, incompatible_keys)`` after the module and all below it were loaded; returns None."""
        return add_hook(self._load_state_dict_post_hooks, hook, around_calls=False)
