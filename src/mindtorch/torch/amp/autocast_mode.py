"""``autocast``: inside, matrix products and convolutions run in a lower precision, losses and norms in float32.

Which op does which is a column of the op table; this file switches the state that dispatch reads.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

from mindtorch.core import autocast as _core
from mindtorch.core import dtype as _d
from mindtorch.core.device import accelerators
from mindtorch.core.device import device as _device
from mindtorch.core.tensor import Tensor

__all__ = ["autocast", "autocast_decorator", "custom_bwd", "custom_fwd", "is_autocast_available"]

_DEFAULTS = {"cpu": _d.bfloat16, "cuda": _d.float16, "npu": _d.float16, "xpu": _d.float16, "mps": _d.float16}
_dtypes = dict(_DEFAULTS)
_flags: dict[str, bool] = {}
_nesting = 0


def _computes(kind: str) -> bool:
    """Whether tensors of this device kind exist here. All that do share one state and the lists of the CPU."""
    return kind == "cpu" or kind in accelerators()


def is_autocast_available(device_type: str) -> bool:
    """Whether ``autocast(device_type)`` is a known kind (its device need not be present)."""
    return device_type in _DEFAULTS


def is_autocast_enabled(device_type: str | None = None) -> bool:
    """Whether autocast is on for a device kind ("cuda" when not given)."""
    kind = "cuda" if device_type is None else device_type
    return _core.state.enabled if _computes(kind) else _flags.get(kind, False)


def get_autocast_dtype(device_type: str) -> Any:
    """The lower precision of a device kind."""
    if device_type not in _dtypes:
        raise RuntimeError(f"unknown device type for autocast in get_autocast_dtype: {device_type}")
    if _computes(device_type) and _core.state.enabled:
        return _core.state.dtype
    return _dtypes[device_type]


def set_autocast_enabled(*args: Any) -> None:
    """``(device_type, enabled)``, or ``(enabled)`` for cuda."""
    kind, enabled = args if len(args) == 2 else ("cuda", args[0])
    if _computes(kind):
        _core.set_state(bool(enabled), _dtypes["cpu"], _core.state.cache)
    else:
        _flags[kind] = bool(enabled)


def set_autocast_dtype(device_type: str, dtype: Any) -> None:
    """Change the lower precision of a device kind."""
    _dtypes[device_type] = dtype
    if _computes(device_type):
        _core.set_state(_core.state.enabled, dtype, _core.state.cache)


def is_autocast_cpu_enabled() -> bool:
    """`is_autocast_enabled` for the CPU."""
    return is_autocast_enabled("cpu")


def set_autocast_cpu_enabled(enabled: bool) -> None:
    """`set_autocast_enabled` for the CPU."""
    set_autocast_enabled("cpu", enabled)


def get_autocast_cpu_dtype() -> Any:
    """`get_autocast_dtype` for the CPU."""
    return get_autocast_dtype("cpu")


def set_autocast_cpu_dtype(dtype: Any) -> None:
    """`set_autocast_dtype` for the CPU."""
    set_autocast_dtype("cpu", dtype)


def get_autocast_gpu_dtype() -> Any:
    """`get_autocast_dtype` for cuda."""
    return get_autocast_dtype("cuda")


def set_autocast_gpu_dtype(dtype: Any) -> None:
    """`set_autocast_dtype` for cuda."""
    set_autocast_dtype("cuda", dtype)


def is_autocast_cache_enabled() -> bool:
    """Whether autocast may keep converted weights."""
    return _core.state.cache


def set_autocast_cache_enabled(enabled: bool) -> None:
    """Whether autocast may keep converted weights: it converts at every use here, with the same numbers."""
    _core.state.cache = bool(enabled)


def clear_autocast_cache() -> None:
    """Forget converted weights: none are kept."""


def autocast_increment_nesting() -> int:
    """One level deeper; returns the depth."""
    global _nesting
    _nesting += 1
    return _nesting


def autocast_decrement_nesting() -> int:
    """One level up; returns the depth."""
    global _nesting
    _nesting -= 1
    return _nesting


def autocast_decorator(autocast_instance: Any, func: Callable[..., Any]) -> Callable[..., Any]:
    """``func`` run inside ``autocast_instance``."""

    @functools.wraps(func)
    def decorated(*args: Any, **kwargs: Any) -> Any:
        with autocast_instance:
            return func(*args, **kwargs)

    decorated.__script_unsupported = "autocast is not supported in script mode"  # type: ignore[attr-defined]
    return decorated


class autocast:  # noqa: N801 - public name
    """Context manager and decorator. ``dtype`` is bfloat16 (default) or float16 on the CPU.

    A device kind that is not present is switched off with a warning, as PyTorch does.
    """

    def __init__(
        self, device_type: str, dtype: Any = None, enabled: bool = True, cache_enabled: bool | None = None
    ) -> None:
        if not isinstance(device_type, str):
            raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
        if not is_autocast_available(device_type):
            _device(device_type)
            raise RuntimeError(f"User specified an unsupported autocast device_type '{device_type}'")
        self.device = device_type
        self.fast_dtype = dtype if dtype is not None else get_autocast_dtype(device_type)
        self._cache_enabled = _core.state.cache if cache_enabled is None else cache_enabled
        self._enabled = bool(enabled) and self._usable()
        self._before: list[Any] = []

    def _usable(self) -> bool:
        if not _computes(self.device):
            shown = "CUDA" if self.device == "cuda" else self.device
            warnings.warn(f"{shown} is not available. Disabling autocast.", stacklevel=4)
            return False
        if self.fast_dtype not in (_d.bfloat16, _d.float16, _d.float32):
            warnings.warn(
                "In CPU autocast, but the target dtype is not supported. Disabling autocast.\n"
                "CPU Autocast only supports dtypes of torch.bfloat16, torch.float16 currently.",
                stacklevel=4,
            )
            return False
        return self.fast_dtype is not _d.float32

    def __enter__(self) -> autocast:
        if _computes(self.device):
            self._before.append(_core.set_state(self._enabled, self.fast_dtype, self._cache_enabled))
        else:
            self._before.append(_flags.get(self.device, False))
            _flags[self.device] = self._enabled
        autocast_increment_nesting()
        return self

    def __exit__(self, *exc: object) -> None:
        autocast_decrement_nesting()
        before = self._before.pop()
        if _computes(self.device):
            _core.restore(before)
        else:
            _flags[self.device] = before

    def __call__(self, func: Callable[..., Any]) -> Callable[..., Any]:
        return autocast_decorator(self, func)


# ------------------------------------------------------------------------------------------ autograd functions


def _cast(value: Any, device_type: str, dtype: Any) -> Any:
    """Floating tensors of the device converted, inside containers too."""
    if isinstance(value, Tensor):
        wanted = value.is_floating_point() and value.device.type == device_type and value.dtype is not _d.float64
        return value.to(dtype) if wanted else value
    if isinstance(value, dict):
        return {_cast(k, device_type, dtype): _cast(v, device_type, dtype) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_cast(v, device_type, dtype) for v in value)
    return value


def _check_kind(device_type: Any) -> None:
    if not isinstance(device_type, str):
        raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")


def custom_fwd(fwd: Any = None, *, device_type: str, cast_inputs: Any = None) -> Any:
    """For ``forward`` of an autograd Function: runs it with ``cast_inputs`` converted and autocast off, or as it is."""
    _check_kind(device_type)
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)

    @functools.wraps(fwd)
    def decorate_fwd(*args: Any, **kwargs: Any) -> Any:
        args[0]._dtype = get_autocast_dtype(device_type)
        if cast_inputs is None:
            args[0]._fwd_used_autocast = is_autocast_enabled(device_type)
            return fwd(*args, **kwargs)
        on = is_autocast_enabled(device_type)
        args[0]._fwd_used_autocast = False
        if not on:
            return fwd(*args, **kwargs)
        with autocast(device_type, enabled=False):
            return fwd(*_cast(args, device_type, cast_inputs), **_cast(kwargs, device_type, cast_inputs))

    return decorate_fwd


def custom_bwd(bwd: Any = None, *, device_type: str) -> Any:
    """For ``backward`` of an autograd Function: runs it with the autocast state that ``forward`` had."""
    _check_kind(device_type)
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)

    @functools.wraps(bwd)
    def decorate_bwd(*args: Any, **kwargs: Any) -> Any:
        used = args[0]._fwd_used_autocast
        if not used and not is_autocast_enabled(device_type):
            return bwd(*args, **kwargs)
        with autocast(device_type, enabled=used, dtype=args[0]._dtype):
            return bwd(*args, **kwargs)

    return decorate_bwd
