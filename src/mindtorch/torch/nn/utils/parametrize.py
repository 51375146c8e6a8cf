"""Parametrisations: a parameter or buffer computed from other tensors each time it is read.

``register_parametrization(module, "weight", p)`` moves the tensor to ``module.parametrizations.weight.original`` and makes
``module.weight`` a property that gives ``p(original)``. The module's class becomes a subclass made for it alone.
"""

from __future__ import annotations

import contextlib
import copy
import copyreg
from collections.abc import Iterator, Sequence
from typing import Any

import mindtorch.torch as torch

from ..modules.container import ModuleDict, ModuleList
from ..modules.module import Module
from ..parameter import Parameter

__all__ = [
    "ParametrizationList",
    "cached",
    "is_parametrized",
    "register_parametrization",
    "remove_parametrizations",
    "transfer_parametrizations_and_params",
    "type_before_parametrizations",
]

_cache_enabled = 0
_cache: dict[tuple[int, str], Any] = {}


@contextlib.contextmanager
def cached() -> Iterator[None]:
    """Inside, each parametrised tensor is computed once and kept."""
    global _cache, _cache_enabled
    _cache_enabled += 1
    try:
        yield
    finally:
        _cache_enabled -= 1
        if not _cache_enabled:
            _cache = {}


def _register_parameter_or_buffer(module: Module, name: str, x: Any) -> None:
    if isinstance(x, Parameter):
        module.register_parameter(name, x)
    else:
        module.register_buffer(name, x)


def _maybe_set(dest: Any, src: Any) -> None:
    """Give ``dest`` the memory of ``src``, keeping its identity."""
    if dest is not src:
        dest.data = src


class ParametrizationList(ModuleList):
    """The chain of parametrisations of one tensor, and the tensor(s) it starts from: ``original`` or ``original0, ...``."""

    is_tensor: bool
    unsafe: bool

    def __init__(self, modules: Sequence[Any], original: Any, unsafe: bool = False) -> None:
        if len(modules) == 0:
            raise ValueError("ParametrizationList requires one or more modules.")
        super().__init__(modules)
        self.unsafe = unsafe
        shape, dtype = original.shape, original.dtype
        with torch.no_grad():
            new = original
            for module in reversed(self):
                if hasattr(module, "right_inverse"):
                    with contextlib.suppress(NotImplementedError):
                        new = module.right_inverse(new)
        if not isinstance(new, (torch.Tensor, Sequence)):
            raise ValueError(
                f"'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). Got {type(new).__name__}"
            )
        self.is_tensor = isinstance(new, torch.Tensor)
        self.ntensors = 1 if self.is_tensor else len(new)
        if self.is_tensor:
            self._take_one(original, new)
        else:
            self._take_several(original, new)
        if not unsafe:
            self._check(shape, dtype)

    def _take_one(self, original: Any, new: Any) -> None:
        if original.dtype != new.dtype:
            raise ValueError(
                "When `right_inverse` outputs one tensor, it may not change the dtype.\n"
                f"original.dtype: {original.dtype}\nright_inverse(original).dtype: {new.dtype}"
            )
        if original.device != new.device:
            raise ValueError(
                "When `right_inverse` outputs one tensor, it may not change the device.\n"
                f"original.device: {original.device}\nright_inverse(original).device: {new.device}"
            )
        # the very parameter is kept: optimisers may hold it already
        with torch.no_grad():
            _maybe_set(original, new)
        _register_parameter_or_buffer(self, "original", original)

    def _take_several(self, original: Any, new: Sequence[Any]) -> None:
        for i, t in enumerate(new):
            if not isinstance(t, torch.Tensor):
                raise ValueError(
                    "'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). Got element "
                    f"{i} of the sequence with type {type(t).__name__}."
                )
            if isinstance(original, Parameter):
                t = Parameter(t, original.requires_grad)
            _register_parameter_or_buffer(self, f"original{i}", t)

    def _check(self, shape: Any, dtype: Any) -> None:
        z = self()
        if not isinstance(z, torch.Tensor):
            raise ValueError(f"A parametrization must return a tensor. Got {type(z).__name__}.")
        if z.dtype != dtype:
            raise ValueError(
                "Registering a parametrization may not change the dtype of the tensor, unless `unsafe` flag is enabled.\n"
                f"unparametrized dtype: {dtype}\nparametrized dtype: {z.dtype}"
            )
        if z.shape != shape:
            raise ValueError(
                "Registering a parametrization may not change the shape of the tensor, unless `unsafe` flag is enabled.\n"
                f"unparametrized shape: {shape}\nparametrized shape: {z.shape}"
            )

    def _originals(self) -> list[Any]:
        return [getattr(self, f"original{i}") for i in range(self.ntensors)]

    def right_inverse(self, value: Any) -> None:
        """Set the originals so that the chain gives ``value``, through each module's ``right_inverse``."""
        with torch.no_grad():
            for module in reversed(self):
                if not hasattr(module, "right_inverse"):
                    raise RuntimeError(f"parametrization {type(module).__name__} does not implement right_inverse.")
                value = module.right_inverse(value)
            if self.is_tensor:
                if not isinstance(value, torch.Tensor):
                    raise ValueError(f"`right_inverse` should return a tensor. Got {type(value).__name__}")
                if value.dtype != self.original.dtype:
                    raise ValueError(
                        f"The tensor returned by `right_inverse` has dtype {value.dtype} while `original` has dtype "
                        f"{self.original.dtype}"
                    )
                _maybe_set(self.original, value)
                return
            if not isinstance(value, Sequence):
                raise ValueError(f"'right_inverse' must return a sequence of tensors. Got {type(value).__name__}.")
            if len(value) != self.ntensors:
                raise ValueError(
                    f"'right_inverse' must return a sequence of tensors of length {self.ntensors}. Got a sequence of length "
                    f"{len(value)}."
                )
            for i, (t, original) in enumerate(zip(value, self._originals())):
                if not isinstance(t, torch.Tensor):
                    raise ValueError(f"`right_inverse` must return a sequence of tensors. Got element {i} of type {type(t).__name__}")
                if t.dtype != original.dtype:
                    raise ValueError(
                        f"Tensor {i} returned by `right_inverse` has dtype {t.dtype} while `original{i}` has dtype "
                        f"{original.dtype}"
                    )
                _maybe_set(original, t)

    def forward(self) -> Any:
        """The parametrised tensor."""
        x = self[0](self.original) if self.is_tensor else self[0](*self._originals())
        for i in range(1, len(self)):
            x = self[i](x)
        return x


def _refuse_pickle(self: Any) -> Any:
    raise RuntimeError(
        "Serialization of parametrized modules is only supported through state_dict(). See:\n"
        "https://pytorch.org/tutorials/beginner/saving_loading_models.html"
        "#saving-loading-a-general-checkpoint-for-inference-and-or-resuming-training"
    )


def _deepcopy(self: Any, memo: dict[int, Any]) -> Any:
    if id(self) in memo:
        return memo[id(self)]
    replica = self.__new__(self.__class__)
    memo[id(self)] = replica
    replica.__dict__ = copy.deepcopy(self.__dict__, memo)
    # a class with __slots__ keeps state outside the dict
    for slot in copyreg._slotnames(self.__class__):
        if hasattr(self, slot):
            setattr(replica, slot, copy.deepcopy(getattr(self, slot), memo))
    return replica


def _inject_new_class(module: Module) -> None:
    """Give ``module`` a class of its own, so that properties can be put on it."""
    cls = module.__class__
    body: dict[str, Any] = {"__getstate__": _refuse_pickle, "__module__": cls.__module__}
    if not hasattr(cls, "__deepcopy__"):
        body["__deepcopy__"] = _deepcopy
    module.__class__ = type(f"Parametrized{cls.__name__}", (cls,), body)


def _inject_property(module: Module, tensor_name: str) -> None:
    def get(self: Any) -> Any:
        if not _cache_enabled:
            return self.parametrizations[tensor_name]()
        key = (id(self), tensor_name)
        if _cache.get(key) is None:
            _cache[key] = self.parametrizations[tensor_name]()
        return _cache[key]

    def set_(self: Any, value: Any) -> None:
        self.parametrizations[tensor_name].right_inverse(value)

    setattr(module.__class__, tensor_name, property(get, set_))


def _append(module: Module, name: str, parametrization: Module, unsafe: bool) -> None:
    """Add to the chain of an already parametrised tensor."""
    if not unsafe:
        y = getattr(module, name)
        x = parametrization(y)
        if not isinstance(x, torch.Tensor):
            raise ValueError(f"A parametrization must return a tensor. Got {type(x).__name__}.")
        if x.dtype != y.dtype:
            raise ValueError(
                "Registering a parametrization may not change the dtype of the tensor, unless the `unsafe` flag is enabled.\n"
                f"module.{name}.dtype: {y.dtype}\nparametrization(module.{name}).dtype: {x.dtype}"
            )
        if x.shape != y.shape:
            raise ValueError(
                "Registering a parametrization may not change the shape of the tensor, unless the `unsafe` flag is enabled.\n"
                f"module.{name}.shape: {y.shape}\nparametrization(module.{name}).shape: {x.shape}"
            )
        if hasattr(parametrization, "right_inverse"):
            with contextlib.suppress(NotImplementedError):
                z = parametrization.right_inverse(x)
                if not isinstance(z, torch.Tensor):
                    raise ValueError(f"parametrization.right_inverse must return a tensor. Got: {type(z).__name__}")
                if z.dtype != y.dtype or z.shape != y.shape:
                    raise ValueError(
                        "The tensor returned by parametrization.right_inverse must have the dtype and shape of "
                        f"module.{name}, unless the `unsafe` flag is enabled.\nmodule.{name}: {y.dtype}, {y.shape}\n"
                        f"returned: {z.dtype}, {z.shape}"
                    )
    chain = module.parametrizations[name]
    chain.append(parametrization)
    chain.unsafe |= unsafe


def register_parametrization(module: Any, tensor_name: str, parametrization: Any, *, unsafe: bool = False) -> Any:
    """Compute ``module.tensor_name`` by ``parametrization`` from now on. Returns module.

    ``right_inverse`` of the parametrisation makes assignment work. ``unsafe``: shape and dtype may change, nothing is checked.
    """
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        _append(module, tensor_name, parametrization, unsafe)
    elif tensor_name in module._buffers or tensor_name in module._parameters:
        original = getattr(module, tensor_name)
        chain = ParametrizationList([parametrization], original, unsafe=unsafe)
        delattr(module, tensor_name)
        if not is_parametrized(module):
            _inject_new_class(module)
            module.parametrizations = ModuleDict()
        _inject_property(module, tensor_name)
        module.parametrizations[tensor_name] = chain
    else:
        raise ValueError(
            f"Module '{module}' does not have a parameter, a buffer, or a parametrized element with name '{tensor_name}'"
        )
    return module


def is_parametrized(module: Any, tensor_name: str | None = None) -> bool:
    """Whether ``module`` (or its tensor ``tensor_name``) is parametrised."""
    chains = module.__dict__.get("_modules", {}).get("parametrizations")
    if not isinstance(chains, ModuleDict):
        return False
    return len(chains) > 0 if tensor_name is None else tensor_name in chains


def remove_parametrizations(module: Any, tensor_name: str, leave_parametrized: bool = True) -> Any:
    """Make ``tensor_name`` an ordinary member again: with its present value, or with the original (one tensor only)."""
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"Module {module} does not have a parametrization on {tensor_name}")
    chain = module.parametrizations[tensor_name]
    if chain.is_tensor:
        original = chain.original
        if leave_parametrized:
            with torch.no_grad():
                t = getattr(module, tensor_name)
                _maybe_set(original, t)
    elif leave_parametrized:
        t = getattr(module, tensor_name)
        original = Parameter(t.detach(), requires_grad=True) if t.requires_grad else t
    else:
        raise ValueError(
            "Cannot leave unparametrized (`leave_parametrized=False`) a tensor that is parametrized in terms of a sequence of "
            "tensors."
        )
    delattr(module.__class__, tensor_name)
    del module.parametrizations[tensor_name]
    _register_parameter_or_buffer(module, tensor_name, original)
    if not is_parametrized(module):
        delattr(module, "parametrizations")
        module.__class__ = module.__class__.__bases__[0]
    return module


def type_before_parametrizations(module: Any) -> type:
    """The class ``module`` had before it was parametrised."""
    return module.__class__.__bases__[0] if is_parametrized(module) else type(module)


def transfer_parametrizations_and_params(from_module: Any, to_module: Any, tensor_name: str | None = None) -> Any:
    """Put the parametrisations of one module, and the tensors they start from, onto another. Returns ``to_module``."""
    if not is_parametrized(from_module):
        return to_module
    names = [tensor_name] if tensor_name is not None else list(from_module.parametrizations)
    for name in names:
        if not hasattr(to_module, name):
            setattr(to_module, name, Parameter(getattr(from_module, name).detach()))
        chain = from_module.parametrizations[name]
        for parametrization in chain:
            register_parametrization(to_module, name, parametrization)
        new = to_module.parametrizations[name]
        if chain.is_tensor:
            new.original = chain.original
        else:
            for i in range(chain.ntensors):
                setattr(new, f"original{i}", getattr(chain, f"original{i}"))
    return to_module
