"""``torch.sym_*``: arithmetic on sizes that PyTorch's compiler traces. Sizes here are plain numbers, so these are too."""

from __future__ import annotations

import math
from typing import Any


def sym_float(a: Any) -> float:
    """``a`` as a float."""
    return float(a)


def sym_int(a: Any) -> int:
    """``a`` rounded towards zero."""
    return math.trunc(a)


def sym_not(a: Any) -> bool:
    """Logical negation."""
    return not a


def _pair(a: Any, b: Any, pick: Any) -> Any:
    got = pick(a, b)
    return float(got) if isinstance(a, float) or isinstance(b, float) else got


def sym_max(a: Any, b: Any) -> Any:
    """The larger number; a float when either is one."""
    return _pair(a, b, max)


def sym_min(a: Any, b: Any) -> Any:
    """The smaller number; a float when either is one."""
    return _pair(a, b, min)


def sym_ite(b: bool, t: Any, f: Any) -> Any:
    """``t`` if ``b`` else ``f``, of the same type. TypeError when ``b`` is no bool or the types differ."""
    if not isinstance(b, bool) or type(t) is not type(f):
        raise TypeError(f"sym_ite(b, t, f): b must be a bool and t, f of one type, got {type(b).__name__}, {type(t).__name__}, {type(f).__name__}")
    return t if b else f


def sym_sqrt(a: Any) -> float:
    """Square root as a float."""
    return math.sqrt(a)


def sym_sum(*args: Any) -> Any:
    """Sum of the numbers, given one by one or as one sequence."""
    numbers = args[0] if len(args) == 1 and isinstance(args[0], (list, tuple)) else args
    return sum(numbers)
