"""Comparisons, logic, selection by a condition, closeness."""

from __future__ import annotations

from typing import Any

import numpy as np

from mindtorch.core.errors import check
from mindtorch.core.tensor import Parameter, Tensor, constant
from mindtorch.engine.host import pointwise as K
from mindtorch.engine.host.quiet import ufunc
from mindtorch.ops.table import alias, composite, op


# ------------------------------------------------------------------------------------------ order and equality
def _ordered(name: str, uf: np.ufunc) -> Any:
    return op(f"{name}(T input, TN other)", promote="same", inplace=True, out=True)(
        K.kinds_only(uf, f"{name}_cpu", "c")
    )


eq = op("eq(T input, TN other)", promote="same", inplace=True, out=True)(ufunc(np.equal))
ne = op("ne(T input, TN other)", promote="same", inplace=True, out=True)(ufunc(np.not_equal))
lt = _ordered("lt", np.less)
le = _ordered("le", np.less_equal)
gt = _ordered("gt", np.greater)
ge = _ordered("ge", np.greater_equal)
for _name, _short in (
    ("not_equal", "ne"),
    ("less", "lt"),
    ("less_equal", "le"),
    ("greater", "gt"),
    ("greater_equal", "ge"),
):
    alias(_name, _short)


@composite("equal(T input, T other)")
def equal(input: Tensor, other: Tensor) -> bool:
    """True when both have the same shape and equal elements (nan is unequal)."""
    if input.a.shape != other.a.shape:
        return False
    if input.a is other.a and input.a.dtype.kind in "biu":
        return True
    return bool(np.equal(input.a, other.a).all())


@op("isclose(T input, T other, float rtol=1e-05, float atol=1e-08, bool equal_nan=False)", promote="none")
def isclose(a: np.ndarray, b: np.ndarray, rtol: float, atol: float, equal_nan: bool) -> np.ndarray:
    """Bool tensor of ``|input - other| <= atol + rtol * |other|``."""
    return K.isclose(a, b, rtol, atol, equal_nan)


@composite("allclose(T input, T other, float rtol=1e-05, float atol=1e-08, bool equal_nan=False)")
def allclose(input: Tensor, other: Tensor, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> bool:
    """Whether all elements are close."""
    if input.k.device.type != "cpu" or other.k.device.type != "cpu":
        return bool(isclose(input, other, rtol, atol, equal_nan).all())
    return bool(K.isclose(input.a, other.a, rtol, atol, equal_nan).all())


# ------------------------------------------------------------------------------------------ logic
def _logic(name: str, uf: np.ufunc) -> Any:
    return op(f"{name}(T input, T other)", promote="none", inplace=True, out=True)(ufunc(uf))


logical_and = _logic("logical_and", np.logical_and)
logical_or = _logic("logical_or", np.logical_or)
logical_xor = _logic("logical_xor", np.logical_xor)

# ------------------------------------------------------------------------------------------ selection
where_ = op(
    "_where(TN input, TN other, T condition)",
    promote="same",
    promote_params=("input", "other"),
    half="native",
    ns="_C",
    node="WhereBackward0",
    grad=dict(
        input=lambda g, condition: g.masked_fill(condition.logical_not(), 0),
        other=lambda g, condition: g.masked_fill(condition, 0),
    ),
)(lambda a, b, c: K.where(c, a, b))


def _zero_dim(number: Any, like: Any) -> Any:
    """A float beside a floating tensor as a cached 0-d tensor, so that the fast path takes it; else unchanged."""
    if number.__class__ is float and isinstance(like, Tensor) and like.k.ff:
        got = like.k.floats.get(number)
        if got is not None:
            return constant(got)
    return number


def _select(condition: Tensor, input: Any, other: Any) -> Tensor:
    if condition.a.dtype.num:  # bool is type number 0
        check(
            condition.a.dtype == np.uint8,
            RuntimeError,
            "where expected condition to be a boolean tensor, but got a tensor with dtype "
            f"{K.scalar_name(condition.a.dtype)}",
        )
        condition = condition.bool()
    if other.__class__ is float:
        other = _zero_dim(other, input)
    elif input.__class__ is float:
        input = _zero_dim(input, other)
    return where_(input, other, condition)


@composite("where(T condition, TN? input=None, TN? other=None)", ns="torch", out=True)
def where(condition: Tensor, input: Any = None, other: Any = None) -> Any:
    """Elements of ``input`` where ``condition`` holds, else of ``other``; with one argument ``nonzero(as_tuple=True)``."""
    if input is None and other is None:
        return condition.nonzero(as_tuple=True)
    check(
        input is not None and other is not None,
        TypeError,
        "where() takes a condition alone, or a condition, input and other: one of input and other is missing",
    )
    return _select(condition, input, other)


@composite("where(T input, T condition, TN other)", ns="Tensor")
def where_method(input: Tensor, condition: Tensor, other: Any) -> Tensor:
    """``input`` where ``condition`` holds, else ``other``."""
    return _select(condition, input, other)


# ------------------------------------------------------------------------------------------ operators
def _comparable(other: Any) -> bool:
    return isinstance(other, (Tensor, int, float, complex, np.number, np.bool_))


def _equality(fn: Any) -> Any:
    """``==`` or ``!=``: falls back to Python's identity for objects that are neither tensors nor numbers."""

    def compare(self: Tensor, other: Any) -> Any:
        c = other.__class__
        if c is Tensor or c is Parameter or c is float or c is int or _comparable(other):
            return fn(self, other)
        return NotImplemented

    compare.__name__ = fn.__name__
    return compare


def _order(fn: Any) -> Any:
    """``<`` and its kin: TypeError from Python for objects that are neither tensors nor numbers."""
    return _equality(fn)


OPERATORS = {
    "__eq__": _equality(eq),
    "__ne__": _equality(ne),
    "__lt__": _order(lt),
    "__le__": _order(le),
    "__gt__": _order(gt),
    "__ge__": _order(ge),
}
