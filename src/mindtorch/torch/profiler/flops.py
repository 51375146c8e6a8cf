"""Floating-point operations of matrix products and convolutions, counted as PyTorch's flop counter counts them.

A multiplication and an addition are two. Attention is counted as the two products it consists of.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

Counted = tuple[str, int]


def _size(x: Any) -> int:
    return math.prod(x.shape)


def _matmul(args: Sequence[Any], out: Any, backward: bool) -> Counted | None:
    a, b = args[0], args[1]
    if len(a.shape) < 2 or len(b.shape) < 2:
        return None  # products with vectors are not counted
    flat = len(b.shape) == 2 or len(a.shape) == 2
    return "aten.mm" if flat else "aten.bmm", 2 * _size(out) * a.shape[-1]


def _added(name: str) -> Callable[..., Counted]:
    def count(args: Sequence[Any], out: Any, backward: bool) -> Counted:
        return name, 2 * _size(out) * args[1].shape[-1]

    return count


def _linear(args: Sequence[Any], out: Any, backward: bool) -> Counted:
    biased = len(args) > 2 and args[2] is not None
    return "aten.addmm" if biased else "aten.mm", 2 * _size(out) * args[1].shape[-1]


def _linear_grad(args: Sequence[Any], out: Any, backward: bool) -> Counted:
    return "aten.mm", 2 * _size(args[0]) * args[1].shape[-1]


def _conv_name(backward: bool) -> str:
    return "aten.convolution_backward" if backward else "aten.convolution"


def _conv(args: Sequence[Any], out: Any, backward: bool) -> Counted:
    return _conv_name(backward), 2 * out.shape[0] * math.prod(out.shape[2:]) * _size(args[1])


def _conv_input(args: Sequence[Any], out: Any, backward: bool) -> Counted:
    g, w = args[0], args[1]
    return _conv_name(backward), 2 * g.shape[0] * math.prod(g.shape[2:]) * _size(w)


def _conv_weight(args: Sequence[Any], out: Any, backward: bool) -> Counted:
    # PyTorch's formula for the weight's gradient does not divide by the number of groups.
    g, x = args[0], args[1]
    pairs = g.shape[0] * g.shape[1] * x.shape[1]
    return _conv_name(backward), 2 * pairs * math.prod(out.shape[2:]) * math.prod(g.shape[2:])


def _einsum(args: Sequence[Any], out: Any, backward: bool) -> Counted | None:
    left, right, equation = args[0], args[1], args[2]
    inputs = equation.split("->")[0].split(",")
    sizes = dict(zip(inputs[0], left.shape)) | dict(zip(inputs[1], right.shape))
    if not set(inputs[0]) & set(inputs[1]):
        return None
    return "aten.bmm", 2 * math.prod(sizes.values())


TABLE: dict[str, Callable[[Sequence[Any], Any, bool], Counted | None]] = {
    "matmul": _matmul,
    "mm": _matmul,
    "bmm": _matmul,
    "addmm": _added("aten.addmm"),
    "baddbmm": _added("aten.baddbmm"),
    "linear": _linear,
    "linear_input": _linear_grad,
    "linear_weight": _linear_grad,
    "conv_nd": _conv,
    "conv_input": _conv_input,
    "conv_weight": _conv_weight,
    "_einsum_pair": _einsum,
}
"""Row -> function of its arguments and result. Rows that are made of others are not in it: those are counted."""


def of(row: Any, args: Sequence[Any], out: Any, backward: bool) -> Counted | None:
    """``aten`` name and number of operations of a call, None when it is not counted."""
    rule = TABLE.get(row.name)
    return None if rule is None else rule(args, out, backward)
