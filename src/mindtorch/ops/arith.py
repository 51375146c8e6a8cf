"""Arithmetic of two operands and negation: the rows everything else is written with."""

from __future__ import annotations

from typing import Any

import numpy as np

from mindtorch.core import tape
from mindtorch.core.errors import check
from mindtorch.core.observe import whole
from mindtorch.engine.host.multiply_add import F4, F8, axpy, axpy64, axpy_into
from mindtorch.engine.host.quiet import EXTOBJ as E
from mindtorch.engine.host.quiet import quiet, ufunc
from mindtorch.ops.table import alias, composite, op


def _scaled(b: np.ndarray, alpha: Any) -> np.ndarray:
    if b.dtype.kind in "iub" and isinstance(alpha, float):
        raise RuntimeError("For integral input tensors, argument alpha must not be a floating point number.")
    if b.dtype.kind == "b" and not isinstance(alpha, bool):
        raise RuntimeError("Boolean alpha only supported for Boolean results.")
    return np.multiply(b, np.asarray(alpha).astype(b.dtype), extobj=E)


@op(
    "add(T input, TN other, *, N alpha=1)",
    promote="same",
    inplace=True,
    out=True,
    direct=(np.add, "alpha == 1"),
    into=axpy_into,
    grad={"input": lambda g: g, "other": lambda g, alpha: g if alpha == 1 else g * _conj(alpha)},
)
def add(a: np.ndarray, b: np.ndarray, alpha: Any = 1) -> Any:
    """``input + alpha * other``, broadcast and promoted."""
    if alpha != 1 and a.dtype is F4 and b.dtype is F4 and not isinstance(alpha, complex):
        return axpy(a, b, alpha)
    if alpha != 1 and a.dtype is F8 and b.dtype is F8:
        return axpy64(a, b, float(alpha))
    return np.add(a, b if alpha == 1 else _scaled(b, alpha), extobj=E)


def _conj(v: Any) -> Any:
    return v.conjugate() if isinstance(v, complex) else v


@op(
    "sub(T input, TN other, *, N alpha=1)",
    promote="same",
    inplace=True,
    out=True,
    direct=(np.subtract, "alpha == 1"),
    into=lambda a, b, alpha: axpy_into(a, b, -alpha),
    grad={"input": lambda g: g, "other": lambda g, alpha: -g if alpha == 1 else g * -_conj(alpha)},
)
def sub(a: np.ndarray, b: np.ndarray, alpha: Any = 1) -> Any:
    """``input - alpha * other``, broadcast and promoted."""
    check(
        a.dtype.kind != "b",
        RuntimeError,
        "Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or `logical_xor()` operator "
        "instead.",
    )
    if alpha != 1 and a.dtype is F4 and b.dtype is F4 and not isinstance(alpha, complex):
        return axpy(a, b, -alpha)
    if alpha != 1 and a.dtype is F8 and b.dtype is F8:
        return axpy64(a, b, -float(alpha))
    return np.subtract(a, b if alpha == 1 else _scaled(b, alpha), extobj=E)


def _c(t: Any) -> Any:
    return t.conj() if getattr(t, "k", None) is not None and t.k.cat == 3 else _conj(t)


mul = op(
    "mul(T input, TN other)",
    promote="same",
    inplace=True,
    out=True,
    grad={"input": lambda g, other: g * _c(other), "other": lambda g, input: g * _c(input)},
)(ufunc(np.multiply))


def _round_div(a: np.ndarray, b: np.ndarray, mode: str) -> Any:
    if mode == "floor":
        if a.dtype.kind in "iu":
            _no_zero(b)
        return np.floor_divide(a, b, extobj=E)
    if a.dtype.kind in "iu":
        _no_zero(b)
        q = np.floor_divide(a, b, extobj=E)
        if a.dtype.kind == "u":
            return q
        return q + ((np.multiply(q, b) != a) & ((a < 0) != (b < 0))).astype(q.dtype)
    return np.trunc(np.true_divide(a, b, extobj=E), extobj=E)


def _no_zero(b: np.ndarray) -> None:
    check(b.all(), RuntimeError, "ZeroDivisionError")


@op(
    "_true_div(T input, TN other)",
    promote="float",
    ns="_C",
    direct=(np.true_divide, ""),
    node="DivBackward0",
    inplace=True,
    grad={
        "input": lambda g, other: g / _c(other),
        "other": lambda g, input, other: -g * _c((input / other) / other),
    },
)
def _true_div(a: np.ndarray, b: np.ndarray) -> Any:
    return np.true_divide(a, b, extobj=E)


@op(
    "_mode_div(T input, TN other, str rounding_mode)",
    promote="same",
    half="native",
    ns="_C",
    node="DivBackward2",
    grad={"input": lambda g, other: g * 0, "other": lambda g, input: g * 0},
)
def _mode_div(a: np.ndarray, b: np.ndarray, rounding_mode: str) -> Any:
    check(
        rounding_mode in ("trunc", "floor"),
        RuntimeError,
        "div expected rounding_mode to be one of None, 'trunc', or 'floor' but found '" + str(rounding_mode) + "'",
    )
    if a.dtype.itemsize != 2 or a.dtype.kind in "iu":
        return _round_div(a, b, rounding_mode)
    wide_a, wide_b = a.astype(np.float32), b.astype(np.float32)
    with quiet():
        if rounding_mode == "trunc":
            # PyTorch rounds the quotient to the half dtype before it cuts the fraction off.
            return np.trunc((wide_a / wide_b).astype(a.dtype).astype(np.float32)).astype(a.dtype)
        return _round_div(wide_a, wide_b, rounding_mode).astype(a.dtype)


@composite("div(T input, TN other, *, str? rounding_mode=None)", inplace=True, out=True)
def div(input: Any, other: Any, rounding_mode: str | None = None) -> Any:
    """``input / other``; with ``rounding_mode`` "floor" or "trunc" the rounded quotient, dtype kept."""
    if rounding_mode is None:
        return _true_div(input, other)
    return _mode_div(input, other, rounding_mode)


alias("divide", "div")
alias("subtract", "sub")
alias("multiply", "mul")
alias("true_divide", "div")

neg = op(
    "neg(T input)",
    promote="same",
    inplace=True,
    out=True,
    grad={"input": lambda g: -g},
)(ufunc(np.negative))
alias("negative", "neg")


@composite("rsub(T input, TN other, *, N alpha=1)")
def rsub(input: Any, other: Any, alpha: Any = 1) -> Any:
    """``other - alpha * input``."""
    if isinstance(other, (bool, int, float, complex)):
        if not input.k.cat:
            _bool_rsub(input, other)
        r = add(input * -alpha if alpha != 1 else -input, other)
        if r.n is not None:
            tape.relabel(r, 0, "RsubBackward1", [])
        return r
    r = sub(other, input, alpha=alpha)
    if r.n is not None:
        tape.relabel(r, 0, "RsubBackward0", [])
    return r


def _bool_rsub(x: Any, other: Any) -> Any:
    if isinstance(other, bool):
        raise RuntimeError(
            "Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or `logical_xor()` "
            "operator instead."
        )
    raise RuntimeError("Subtraction, the `-` operator, with a bool tensor is not supported.")


@whole
def _rdiv(input: Any, other: Any) -> Any:
    """``other / input``."""
    return input.reciprocal() * other


def _rsub_op(x: Any, v: Any) -> Any:
    return rsub(x, v)


OPERATORS = {
    "__add__": add,
    "__radd__": add,
    "__iadd__": add.row.inplace_fn,
    "__sub__": sub,
    "__rsub__": _rsub_op,
    "__isub__": sub.row.inplace_fn,
    "__mul__": mul,
    "__rmul__": mul,
    "__imul__": mul.row.inplace_fn,
    "__truediv__": _true_div,
    "__rtruediv__": _rdiv,
    "__itruediv__": _true_div.row.inplace_fn,
    "__neg__": neg,
    "__div__": _true_div,
    "__idiv__": _true_div.row.inplace_fn,
}
