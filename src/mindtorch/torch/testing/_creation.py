"""``make_tensor``: a tensor of random values in a range, for tests."""

from __future__ import annotations

import math
from typing import Any

import mindtorch.torch as torch
from mindtorch.core.tensor import Tensor


def _bounds(dtype: Any, low: Any, high: Any) -> tuple[Any, Any]:
    """Given bounds, or the defaults of the dtype, inside what it can hold."""
    if dtype == torch.bool:
        default, lowest, highest = (0, 2), 0, 2
    elif dtype == torch.uint8:
        default, lowest, highest = (0, 10), 0, 255
    elif not dtype.is_floating_point and not dtype.is_complex:
        info = torch.iinfo(dtype)
        default, lowest, highest = (0 if info.min == 0 else -9, 10), info.min, min(info.max, 2**63 - 1)
    else:
        info = torch.finfo(dtype)
        default, lowest, highest = (-9, 9), info.min, info.max
    low, high = default[0] if low is None else low, default[1] if high is None else high
    for name, value in (("low", low), ("high", high)):
        if isinstance(value, float) and math.isnan(value):
            raise ValueError(f"make_tensor: `{name}` cannot be NaN")
    if low > high or (low == high and not (dtype.is_floating_point or dtype.is_complex)):
        raise ValueError(f"make_tensor: `low` must be less than `high`, got {low} and {high}")
    low, high = max(low, lowest), min(high, highest)
    if not dtype.is_floating_point and not dtype.is_complex:
        return math.floor(low), math.ceil(high)
    return low, high


def _values(shape: tuple[int, ...], dtype: Any, low: Any, high: Any) -> Tensor:
    if not dtype.is_floating_point and not dtype.is_complex:
        return torch.randint(low, high, shape, dtype=dtype)
    if dtype.is_complex:
        real = torch.empty((*shape, 2), dtype=dtype.to_real()).uniform_(low, high)
        return torch.view_as_complex(real)
    return torch.empty(shape, dtype=dtype).uniform_(low, high)


def make_tensor(
    *shape: Any,
    dtype: Any,
    device: Any,
    low: float | None = None,
    high: float | None = None,
    requires_grad: bool = False,
    noncontiguous: bool = False,
    exclude_zero: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """A tensor of values uniform in ``[low, high)`` (defaults: -9..9 for floats, -9..10 for integers, both for bool).

    ``exclude_zero`` replaces zeros by the smallest positive value; ``noncontiguous`` leaves gaps between the elements.
    """
    dims = tuple(shape[0]) if len(shape) == 1 and not isinstance(shape[0], int) else tuple(shape)
    if noncontiguous and memory_format is not None:
        raise ValueError("make_tensor: `noncontiguous` and `memory_format` cannot be given together")
    low, high = _bounds(dtype, low, high)
    spread = noncontiguous and math.prod(dims) > 1
    t = _values((*dims[:-1], 2 * dims[-1]) if spread else dims, dtype, low, high).to(device)
    if spread:
        t = t[..., 1::2]
    elif memory_format is not None:
        t = t.clone(memory_format=memory_format)
    if exclude_zero:
        floating = dtype.is_floating_point or dtype.is_complex
        t[t == 0] = torch.finfo(dtype).tiny if floating else 1
    if requires_grad:
        t.requires_grad_(True)
    return t
