"""``torch.result_type``: the common dtype of tensors and numbers, by dimensioned, 0-dim and number categories."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from mindtorch.core import dtype as D
from mindtorch.core.tensor import Tensor


def _join(a: D.dtype | None, b: D.dtype) -> D.dtype:
    return b if a is None else D.promote_types(a, b)


def _combine(high: D.dtype | None, low: D.dtype | None) -> D.dtype | None:
    """``low`` counts only when its category is above that of ``high``."""
    if high is None:
        return low
    if low is None or low.category <= high.category:
        return high
    if low.category == D.COMPLEX and high.category == D.FLOAT:
        return D.complex128 if high is D.float64 else D.complex64
    return low


def result_type(operands: Iterable[Any]) -> D.dtype:
    """Common dtype of tensors and Python numbers. Numbers and 0-dim tensors only raise the category."""
    dims: D.dtype | None = None
    zeros: D.dtype | None = None
    nums: D.dtype | None = None
    for x in operands:
        if isinstance(x, Tensor):
            if x.a.ndim:
                dims = _join(dims, x.k.dtype)
            else:
                zeros = _join(zeros, x.k.dtype)
        elif x is not None:
            nums = _join(nums, D.of_number(x))
    mid = _zero_over(dims, zeros)
    got = _number_over(mid, nums)
    if got is None:
        raise RuntimeError("result_type: at least one tensor or number is needed")
    return got


def _zero_over(high: D.dtype | None, low: D.dtype | None) -> D.dtype | None:
    if high is None or low is None or low.category <= high.category:
        return low if high is None else high
    if low.category == D.COMPLEX and high.category == D.FLOAT:
        return _combine(high, low)
    return D.promote_types(high, low)


def _number_over(high: D.dtype | None, low: D.dtype | None) -> D.dtype | None:
    return _combine(high, low)
