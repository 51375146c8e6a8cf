"""The operations of a reduction, and their arithmetic on the host."""

from __future__ import annotations

import enum
from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

__all__ = ["ReduceOp", "fold", "native_name"]


class RedOpType(enum.IntEnum):
    """Names of the operations."""

    __str__ = enum.Enum.__str__  # the name; IntEnum's is the number

    SUM = 0
    AVG = 1
    PRODUCT = 2
    MIN = 3
    MAX = 4
    BAND = 5
    BOR = 6
    BXOR = 7
    PREMUL_SUM = 8
    UNUSED = 9


class ReduceOp:
    """How values of all processes become one: ``ReduceOp.SUM`` and the like."""

    RedOpType = RedOpType
    SUM = RedOpType.SUM
    AVG = RedOpType.AVG
    PRODUCT = RedOpType.PRODUCT
    MIN = RedOpType.MIN
    MAX = RedOpType.MAX
    BAND = RedOpType.BAND
    BOR = RedOpType.BOR
    BXOR = RedOpType.BXOR
    PREMUL_SUM = RedOpType.PREMUL_SUM
    UNUSED = RedOpType.UNUSED

    def __new__(cls, op: Any) -> Any:
        """The operation itself. ValueError for what is none."""
        return RedOpType(op)


_NATIVE = {RedOpType.SUM: "sum", RedOpType.AVG: "sum", RedOpType.PRODUCT: "prod", RedOpType.MIN: "min", RedOpType.MAX: "max"}
_FOLD: dict[RedOpType, Callable[..., Any]] = {
    RedOpType.SUM: np.add, RedOpType.AVG: np.add, RedOpType.PRODUCT: np.multiply, RedOpType.MIN: np.minimum, RedOpType.MAX: np.maximum,
    RedOpType.BAND: np.bitwise_and, RedOpType.BOR: np.bitwise_or, RedOpType.BXOR: np.bitwise_xor,
}  # fmt: skip
_BITS = {RedOpType.BAND, RedOpType.BOR, RedOpType.BXOR}


def check(op: Any, dtype: np.dtype, name: str) -> RedOpType:
    """The operation, if ``name`` can do it on ``dtype``. TypeError, ValueError or RuntimeError otherwise."""
    if not isinstance(op, RedOpType):
        raise TypeError(f"{name}: op must be a ReduceOp such as ReduceOp.SUM, got {op!r}")
    if op not in _FOLD:
        raise RuntimeError(f"{name}: ReduceOp.{op.name} is not available here; scale the tensor and use ReduceOp.SUM")
    if dtype.kind == "c" and op not in (RedOpType.SUM, RedOpType.AVG):
        raise ValueError(f"{name} does not support RedOpType.{op.name} on complex tensors; view_as_real gives their parts")
    if op in _BITS and dtype.kind not in "biu":
        raise RuntimeError(f"Cannot use ReduceOp.{op.name} with non-integral dtype {dtype}; view the tensor as integers")
    if op is RedOpType.AVG and dtype.kind in "biu":
        raise RuntimeError(f"Cannot use ReduceOp.AVG with integral dtype {dtype}; use ReduceOp.SUM and divide")
    return op


def native_name(op: RedOpType) -> str | None:
    """MindSpore's name of the operation, None when it has none."""
    return _NATIVE.get(op)


def fold(parts: list[np.ndarray], op: RedOpType) -> np.ndarray:
    """The parts reduced in rank order; AVG is finished by :func:`average`. bool adds as "or", as PyTorch's does."""
    f = _FOLD[op]
    with np.errstate(all="ignore"):
        return reduce(lambda a, b: f(a, b).astype(a.dtype, copy=False), parts)


def average(a: np.ndarray, n: int) -> np.ndarray:
    """``a / n`` in its dtype, which is a floating or complex one."""
    return (a / a.dtype.type(n)).astype(a.dtype, copy=False)
