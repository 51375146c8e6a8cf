"""State of autocast per thread; the slow path of dispatch asks :func:`cast` what to do with an op's inputs."""

from __future__ import annotations

import threading
from typing import Any

from mindtorch.core import dtype as D
from mindtorch.core import modes
from mindtorch.core.tensor import Tensor


class _State(threading.local):
    enabled = False
    dtype = D.bfloat16
    cache = True


state = _State()


def set_state(enabled: bool, dtype: D.dtype, cache: bool = True) -> tuple[bool, D.dtype, bool]:
    """Switch autocast for this thread; returns the former state for :func:`restore`."""
    old = (state.enabled, state.dtype, state.cache)
    if enabled and not state.enabled:
        modes.enter_mode()
    elif state.enabled and not enabled:
        modes.leave_mode()
    state.enabled, state.dtype, state.cache = enabled, dtype, cache
    return old


def restore(old: tuple[bool, D.dtype, bool]) -> None:
    """Undo :func:`set_state`."""
    set_state(*old)


def _to(v: Any, d: D.dtype) -> Any:
    if isinstance(v, Tensor):
        ok = v.k.dtype.is_floating_point and v.k.dtype not in (D.float64, d)
        return v.to(d) if ok else v
    if isinstance(v, (list, tuple)):
        return type(v)(_to(x, d) for x in v)
    return v


def cast(policy: str | None, args: list[Any]) -> list[Any]:
    """``args`` with floating tensors cast by the row's policy: "lower", "fp32" or "promote"."""
    if policy is None or not state.enabled:
        return args
    if policy == "lower":
        return [_to(v, state.dtype) for v in args]
    if policy == "fp32":
        return [_to(v, D.float32) for v in args]
    flat: list[Tensor] = []
    for v in args:
        flat += [x for x in (v if isinstance(v, (list, tuple)) else [v]) if isinstance(x, Tensor) and x.k.diff]
    if any(t.k.dtype is D.float32 for t in flat):
        return [_to(v, D.float32) for v in args]
    return args
