"""Reading the old ``size_average`` and ``reduce`` arguments of losses."""

from __future__ import annotations

import warnings
from typing import Any

_ENUM = {"none": 0, "mean": 1, "sum": 2}


def get_enum(reduction: str) -> int:
    """Number of a reduction name. ValueError for others."""
    if reduction == "elementwise_mean":
        warnings.warn("reduction='elementwise_mean' is deprecated. Please use reduction='mean' instead.", stacklevel=2)
        return 1
    if reduction not in _ENUM:
        raise ValueError(f"{reduction} is not a valid value for reduction")
    return _ENUM[reduction]


def legacy_get_string(size_average: Any, reduce: Any, emit_warning: bool = True) -> str:
    """The ``reduction`` that the two old flags mean (None counts as True)."""
    if reduce is False:
        name = "none"
    else:
        name = "sum" if size_average is False else "mean"
    if emit_warning:
        warnings.warn(
            f"size_average and reduce args will be deprecated, please use reduction='{name}' instead.", stacklevel=4
        )
    return name


def legacy_get_enum(size_average: Any, reduce: Any, emit_warning: bool = True) -> int:
    """Number of the reduction that the two old flags mean."""
    return get_enum(legacy_get_string(size_average, reduce, emit_warning))
