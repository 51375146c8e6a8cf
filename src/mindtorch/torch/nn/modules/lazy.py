"""What makes a module lazy: parameters without shape until the first forward."""

from __future__ import annotations

from typing import Any

from ..parameter import is_lazy

__all__ = ["LazyModuleMixin"]


class LazyModuleMixin:
    """Mixed into a module that infers shapes from its first input and then turns into ``cls_to_become``."""

    cls_to_become: Any = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._load_hook = self._register_load_state_dict_pre_hook(self._lazy_load_hook)
        self._initialize_hook = self.register_forward_pre_hook(self._infer_parameters, with_kwargs=True)

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        # an uninitialised tensor goes in as it is: detaching would lose its class
        for table in (self._parameters, self._buffers):
            for name, value in table.items():
                if value is not None and name not in self._non_persistent_buffers_set:
                    destination[prefix + name] = value if is_lazy(value) or keep_vars else value.detach()

    def _lazy_load_hook(
        self,
        state_dict: Any,
        prefix: str,
        local_metadata: Any,
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        """Give uninitialised members the shapes found in the state dict, so that it can be copied into them."""
        for table in (self._parameters, self._buffers):
            for name, value in table.items():
                key = prefix + name
                if key in state_dict and value is not None and is_lazy(value) and not is_lazy(state_dict[key]):
                    value.materialize(state_dict[key].shape)

    def initialize_parameters(self, *args: Any, **kwargs: Any) -> None:
        """Materialise the parameters for these inputs. Every lazy module defines it."""
        raise NotImplementedError(f"initialize_parameters is not implemented for {type(self).__name__}")

    def has_uninitialized_params(self) -> bool:
        """Whether a parameter or buffer still has no shape."""
        return any(is_lazy(v) for table in (self._parameters, self._buffers) for v in table.values())

    def _infer_parameters(self, module: Any, args: Any, kwargs: Any = None) -> None:
        module.initialize_parameters(*args, **(kwargs or {}))
        if module.has_uninitialized_params():
            raise RuntimeError(f"module {self._get_name()} has not been fully initialized")
        module._initialize_hook.remove()
        module._load_hook.remove()
        del module._initialize_hook
        del module._load_hook
        if module.cls_to_become is not None:
            module.__class__ = module.cls_to_become

    def _replicate_for_data_parallel(self) -> Any:
        raise RuntimeError(
            "Modules with uninitialized parameters can't be used with `DataParallel`. Run a dummy forward pass to correctly "
            "initialize the modules"
        )
