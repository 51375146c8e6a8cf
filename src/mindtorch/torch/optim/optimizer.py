"""`Optimizer`, the base class of all optimisers. `PerParameter`, the base of those that update one tensor at a time,
is in ``_per_parameter``.

State lives in ``optimizer.state[parameter]`` (a dict) and options in ``optimizer.param_groups`` (a list of dicts), so
that ``state_dict()`` has the layout PyTorch writes and reads: ``{"state": {index: {...}}, "param_groups": [{...,
"params": [index]}]}``.
"""

from __future__ import annotations

import functools
import itertools
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable
from copy import deepcopy
from typing import Any

import mindtorch.torch as torch
from mindtorch import log
from mindtorch.core import observe

from ._hooks import Handle

__all__ = ["Optimizer", "register_optimizer_step_post_hook", "register_optimizer_step_pre_hook"]

ParamsT = Iterable[Any]
_global_pre_hooks: OrderedDict[int, Callable] = OrderedDict()
_global_post_hooks: OrderedDict[int, Callable] = OrderedDict()
_HOOK_TABLES = (
    "_optimizer_step_pre_hooks",
    "_optimizer_step_post_hooks",
    "_optimizer_state_dict_pre_hooks",
    "_optimizer_state_dict_post_hooks",
    "_optimizer_load_state_dict_pre_hooks",
    "_optimizer_load_state_dict_post_hooks",
)


class _Required:
    """Default of an option that every parameter group has to set itself."""

    def __repr__(self) -> str:
        return "<required parameter>"


required = _Required()


def register_optimizer_step_pre_hook(hook: Callable) -> Handle:
    """Call ``hook(optimizer, args, kwargs)`` before every ``step`` of every optimiser; a handle with ``remove()`` is
    returned."""
    return Handle.register(_global_pre_hooks, hook)


def register_optimizer_step_post_hook(hook: Callable) -> Handle:
    """Call ``hook(optimizer, args, kwargs)`` after every ``step`` of every optimiser; a handle with ``remove()`` is
    returned."""
    return Handle.register(_global_post_hooks, hook)


def _hooked(step: Callable) -> Callable:
    """``step`` with the step hooks around it; it also leaves the mark that schedulers look for."""

    @functools.wraps(step)
    def wrapper(self: Optimizer, *args: Any, **kwargs: Any) -> Any:
        self._opt_called = True
        if _global_pre_hooks or self._optimizer_step_pre_hooks:
            self, *args = self._run_pre_hooks(args, kwargs)
        if observe.RANGES:
            name = f"Optimizer.step#{type(self).__name__}.step"
            out = observe.within("optimizer", name, self, step, self, *args, **kwargs)
        else:
            out = step(self, *args, **kwargs)
        if _global_post_hooks or self._optimizer_step_post_hooks:
            for hook in (*self._optimizer_step_post_hooks.values(), *_global_post_hooks.values()):
                hook(self, (self, *args), kwargs)
        return out

    wrapper.hooked = True  # type: ignore[attr-defined]
    return wrapper


def no_grad_step(step: Callable) -> Callable:
    """Run ``step(self, closure)`` with gradients off, or on when the optimiser was made with
    ``differentiable=True``."""

    @functools.wraps(step)
    def wrapper(self: Optimizer, *args: Any, **kwargs: Any) -> Any:
        before = torch.is_grad_enabled()
        wanted = bool(self.defaults.get("differentiable", False))
        if before is wanted:
            return step(self, *args, **kwargs)
        with torch.set_grad_enabled(wanted):
            return step(self, *args, **kwargs)

    return wrapper


# Names under which optimisers outside of this package import the two.
_use_grad_for_differentiable = no_grad_step
params_t = ParamsT


class Optimizer:
    """Base class: parameter groups, state, (de)serialisation and hooks. Subclasses write ``step``.

    Args:
        params: tensors, ``(name, tensor)`` pairs, or dicts with a "params" entry and options of their own.
        defaults: option values for groups that do not set them.
    """

    OptimizerPreHook = Callable[["Optimizer", tuple, dict], Any]
    OptimizerPostHook = Callable[["Optimizer", tuple, dict], None]

    def __init__(self, params: ParamsT, defaults: dict[str, Any]) -> None:
        self.defaults = defaults
        log.without_effect(
            f"torch.optim.{type(self).__name__}", "one implementation serves all parameters", quietly=True,
            foreach=(defaults.get("foreach"), None), fused=(defaults.get("fused") or None, None),
            capturable=(defaults.get("capturable") or False, False),
        )  # fmt: skip
        self._make_hook_tables()
        self._patch_step_function()
        if isinstance(params, torch.Tensor):
            raise TypeError(
                "params argument given to the optimizer should be an iterable of Tensors or dicts, "
                f"but got {torch.typename(params)}"
            )
        self.state: defaultdict[Any, Any] = defaultdict(dict)
        self.param_groups: list[dict[str, Any]] = []
        groups = list(params)
        if not groups:
            raise ValueError("optimizer got an empty parameter list")
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(group)

    def _make_hook_tables(self) -> None:
        for name in _HOOK_TABLES:
            if name not in self.__dict__:
                setattr(self, name, OrderedDict())

    def _patch_step_function(self) -> None:
        cls = type(self)
        if not getattr(cls.step, "hooked", False):
            cls.step = _hooked(cls.step)  # type: ignore[method-assign]

    @staticmethod
    def profile_hook_step(func: Callable) -> Callable:
        """``func`` (a ``step``) with step hooks run around it."""
        return _hooked(func)

    def _run_pre_hooks(self, args: tuple, kwargs: dict) -> tuple:
        """All arguments of step, self first, after the pre-hooks; ``kwargs`` is changed in place."""
        full = (self, *args)
        for hook in (*_global_pre_hooks.values(), *self._optimizer_step_pre_hooks.values()):
            result = hook(self, full, kwargs)
            if result is None:
                continue
            if not (isinstance(result, tuple) and len(result) == 2):
                raise RuntimeError(f"{hook} must return None or a tuple of (new_args, new_kwargs), but got {result}.")
            full, new = result
            if new is not kwargs:
                kwargs.clear()
                kwargs.update(new)
        return full

    # ---- pickling and text

    def __getstate__(self) -> dict[str, Any]:
        return {"defaults": self.defaults, "state": self.state, "param_groups": self.param_groups}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._make_hook_tables()
        self._patch_step_function()
        self.defaults.setdefault("differentiable", False)

    def __repr__(self) -> str:
        lines = [type(self).__name__ + " ("]
        for i, group in enumerate(self.param_groups):
            if i:
                lines.append("")
            lines.append(f"Parameter Group {i}")
            lines += [f"    {key}: {group[key]}" for key in sorted(group) if key != "params"]
        return "\n".join([*lines, ")"])

    # ---- hooks

    def register_step_pre_hook(self, hook: Callable) -> Handle:
        """``hook(optimizer, args, kwargs)`` before each step; may return new ``(args, kwargs)``."""
        return Handle.register(self._optimizer_step_pre_hooks, hook)

    def register_step_post_hook(self, hook: Callable) -> Handle:
        """``hook(optimizer, args, kwargs)`` after each step."""
        return Handle.register(self._optimizer_step_post_hooks, hook)

    def register_state_dict_pre_hook(self, hook: Callable, prepend: bool = False) -> Handle:
        """``hook(optimizer)`` before ``state_dict``."""
        return Handle.register(self._optimizer_state_dict_pre_hooks, hook, prepend)

    def register_state_dict_post_hook(self, hook: Callable, prepend: bool = False) -> Handle:
        """``hook(optimizer, state_dict)`` after ``state_dict``; may return a replacement."""
        return Handle.register(self._optimizer_state_dict_post_hooks, hook, prepend)

    def register_load_state_dict_pre_hook(self, hook: Callable, prepend: bool = False) -> Handle:
        """``hook(optimizer, state_dict)`` before ``load_state_dict``; may return a replacement."""
        return Handle.register(self._optimizer_load_state_dict_pre_hooks, hook, prepend)

    def register_load_state_dict_post_hook(self, hook: Callable, prepend: bool = False) -> Handle:
        """``hook(optimizer)`` after ``load_state_dict``."""
        return Handle.register(self._optimizer_load_state_dict_post_hooks, hook, prepend)

    # ---- state dict

    def state_dict(self) -> dict[str, Any]:
        """State by parameter index and options by group. Tensors are the live ones, not copies."""
        for hook in self._optimizer_state_dict_pre_hooks.values():
            hook(self)
        index: dict[int, int] = {}
        groups = []
        for group in self.param_groups:
            for p in group["params"]:
                index.setdefault(id(p), len(index))
            packed = {key: value for key, value in group.items() if key != "params"}
            packed["params"] = [index[id(p)] for p in group["params"]]
            groups.append(packed)
        state = {(index[id(k)] if isinstance(k, torch.Tensor) else k): v for k, v in self.state.items()}
        result = {"state": state, "param_groups": groups}
        for hook in self._optimizer_state_dict_post_hooks.values():
            replaced = hook(self, result)
            if replaced is not None:
                result = replaced
        return result

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over a ``state_dict``. ValueError when groups or their sizes differ; tensors are copied to each
        parameter's dtype and device ("step" keeps its own dtype)."""
        state_dict = dict(state_dict)
        for hook in self._optimizer_load_state_dict_pre_hooks.values():
            replaced = hook(self, state_dict)
            if replaced is not None:
                state_dict = replaced
        groups = self.param_groups
        saved = deepcopy(state_dict["param_groups"])
        if len(groups) != len(saved):
            raise ValueError("loaded state dict has a different number of parameter groups")
        if any(len(g["params"]) != len(s["params"]) for g, s in zip(groups, saved)):
            raise ValueError(
                "loaded state dict contains a parameter group that doesn't match the size of optimizer's group"
            )
        keys = itertools.chain.from_iterable(s["params"] for s in saved)
        params = itertools.chain.from_iterable(g["params"] for g in groups)
        by_index = dict(zip(keys, params))
        state: defaultdict[Any, Any] = defaultdict(dict)
        for key, value in state_dict["state"].items():
            if key in by_index:
                p = by_index[key]
                state[p] = self._cast(p, value, key, saved)
            else:
                state[key] = value
        for group, new in zip(groups, saved):
            new["params"] = group["params"]
            if "param_names" in group and "param_names" not in new:
                new["param_names"] = group["param_names"]
        self.__setstate__({"state": state, "param_groups": saved})
        for hook in self._optimizer_load_state_dict_post_hooks.values():
            hook(self)

    def _cast(self, p: Any, value: Any, index: Any, groups: list[dict], key: Any = None) -> Any:
        """``value`` of a loaded state with its tensors copied to where ``p`` lives."""
        if isinstance(value, torch.Tensor):
            return self._process_value_according_to_param_policy(p, value, index, groups, key)
        if isinstance(value, dict):
            return {k: self._cast(p, v, index, groups, k) for k, v in value.items()}
        if isinstance(value, (list, tuple)):
            return type(value)(self._cast(p, v, index, groups) for v in value)
        return value

    @staticmethod
    def _process_value_according_to_param_policy(
        param: Any, value: Any, param_id: int, param_groups: list[dict], key: Any = None
    ) -> Any:
        if key == "step":
            for group in param_groups:
                if param_id in group["params"] and (group.get("fused") or group.get("capturable")):
                    return value.to(dtype=torch.float32, device=param.device)
            return value
        if param.is_floating_point():
            return value.to(dtype=param.dtype, device=param.device)
        return value.to(device=param.device)

    # ---- use

    def __call__(self, grads: Any) -> None:
        """MindSpore's style, ``opt(grads)``: take ``grads`` (one for each parameter, in order) and do one step."""
        params = self.parameters
        grads = [grads] if isinstance(grads, torch.Tensor) else list(grads)
        if len(grads) != len(params):
            raise ValueError(
                f"{type(self).__name__}(): {len(grads)} gradients for {len(params)} parameters; give one for each, in "
                "their order"
            )
        for p, g in zip(params, grads):
            p.grad = g
        self.step()

    def __getattr__(self, name: str) -> Any:
        """``opt.parameters``, all parameters in order, for ``value_and_grad(fn, None, opt.parameters)``; subclasses
        may set their own."""
        if name == "parameters" and "param_groups" in self.__dict__:
            return [p for group in self.param_groups for p in group["params"]]
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients (None), or with ``set_to_none=False`` fill them with zeros in place."""
        if observe.RANGES:
            name = f"Optimizer.zero_grad#{type(self).__name__}.zero_grad"
            observe.within("optimizer", name, self, self._zero_grad, set_to_none)
        else:
            self._zero_grad(set_to_none)

    def _zero_grad(self, set_to_none: bool) -> None:
        for group in self.param_groups:
            for p in group["params"]:
                grad = p.grad
                if grad is None:
                    continue
                if set_to_none:
                    p.grad = None
                else:
                    if grad.grad_fn is not None:
                        grad.detach_()
                    else:
                        grad.requires_grad_(False)
                    grad.zero_()

    def step(self, closure: Callable | None = None) -> Any:
        """One update of all parameters. To be written by subclasses."""
        raise NotImplementedError(f"{type(self).__name__} has no step(); a subclass of Optimizer must define one")

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group: a dict with "params" (a tensor, a list of tensors or of (name, tensor) pairs) and options.

        TypeError for other things than tensors; ValueError for non-leaf or repeated parameters.
        """
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group)}")
        params = param_group["params"]
        if isinstance(params, torch.Tensor):
            params = [params]
        elif isinstance(params, set):
            raise TypeError(
                "optimizer parameters need to be organized in ordered collections, but the ordering of tensors in "
                "sets will change between runs. Please use a list instead."
            )
        params, names = self._split_names(list(params))
        param_group["params"] = params
        if names is not None:
            param_group["param_names"] = names
        for p in params:
            self._check_parameter(p)
        for name, default in self.defaults.items():
            if default is required and name not in param_group:
                raise ValueError(f"parameter group didn't specify a value of required optimization parameter {name}")
            param_group.setdefault(name, default)
        self._check_unique(params)
        self.param_groups.append(param_group)

    def _split_names(self, params: list) -> tuple[list, list[str] | None]:
        named = [isinstance(p, tuple) for p in params]
        if any(named) and not all(named):
            raise ValueError("all optimizer params should be with/without names. Some param names are missing")
        if self.param_groups and params:
            first = "param_names" in self.param_groups[0]
            if first != named[0]:
                word = "with" if named[0] else "without"
                raise ValueError(
                    "all optimizer param groups should be with/without names. "
                    f"cannot add param group {word} names to the optimizer"
                )
        if params and named[0]:
            return [p for _, p in params], [name for name, _ in params]
        return params, None

    def _check_parameter(self, p: Any) -> None:
        if not isinstance(p, torch.Tensor):
            raise TypeError(f"optimizer can only optimize Tensors, but one of the params is {torch.typename(p)}")
        if not self.defaults.get("differentiable") and not (p.is_leaf or p.retains_grad):
            raise ValueError("can't optimize a non-leaf Tensor")

    def _check_unique(self, params: list) -> None:
        ids = {id(p) for p in params}
        if len(ids) != len(params):
            import warnings

            warnings.warn(
                "optimizer contains a parameter group with duplicate parameters; in future, this will cause an error; "
                "see github.com/pytorch/pytorch/issues/40967 for more information",
                stacklevel=4,
            )
        if any(id(p) in ids for group in self.param_groups for p in group["params"]):
            raise ValueError("some parameters appear in more than one parameter group")
