"""The signature mini language of the op table: ``name(TYPE param=default, *, TYPE kwonly=default)``.

Types are listed in ``docs/add-an-op.md``. Parsing is lazy (on the first call of an op); checking and converting happens only
on the slow path, so that a good call pays nothing for it.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from mindtorch.core import dtype as _dtype
from mindtorch.core.errors import wrap_dim
from mindtorch.core.tensor import Tensor

_PARAM = re.compile(r"^(\*|(?P<type>[A-Za-z]+[*?]?)\s+(?P<name>\w+)\s*(=\s*(?P<default>.+))?)$")
KW_ALIAS = {"axis": "dim", "keepdims": "keepdim", "x": "input", "a": "input", "x1": "input", "x2": "other", "self": "input"}


class Param:
    """One parameter: its type in the mini language, name, default (``Param.none`` when required)."""

    __slots__ = ("default", "kwonly", "name", "type")
    none = object()

    def __init__(self, type: str, name: str, default: Any, kwonly: bool) -> None:
        self.type, self.name, self.default, self.kwonly = type, name, default, kwonly


def _split(text: str) -> list[str]:
    parts, depth, start = [], 0, 0
    for i, c in enumerate(text):
        if c in "([{":
            depth += 1
        elif c in ")]}":
            depth -= 1
        elif c == "," and depth == 0:
            parts.append(text[start:i])
            start = i + 1
    parts.append(text[start:])
    return [p.strip() for p in parts if p.strip()]


def _default(text: str) -> Any:
    if text in ("inf", "float('inf')"):
        return float("inf")
    if text == "-inf":
        return float("-inf")
    return ast.literal_eval(text)


def parse(sig: str) -> tuple[str, list[Param]]:
    """Name and parameters of a signature string. ValueError when it is malformed."""
    name, _, rest = sig.partition("(")
    body = rest.rstrip()
    if not body.endswith(")"):
        raise ValueError(f"malformed signature {sig!r}")
    params: list[Param] = []
    kwonly = False
    for part in _split(body[:-1]):
        m = _PARAM.match(part)
        if m is None:
            raise ValueError(f"malformed parameter {part!r} in {sig!r}")
        if part == "*":
            kwonly = True
            continue
        text = m["default"]
        params.append(Param(m["type"], m["name"], Param.none if text is None else _default(text), kwonly))
    return name.strip(), params


# ------------------------------------------------------------------------------------------ conversion
def _kind(value: Any) -> str:
    if isinstance(value, Tensor):
        return "Tensor"
    if isinstance(value, (tuple, list)) and value:
        return f"{type(value).__name__} of {_kind(value[0])}"
    name = type(value).__name__
    if name == "Tensor":  # another library's: MindSpore's, or PyTorch's
        return f"{type(value).__module__.partition('.')[0]}.Tensor (torch.as_tensor makes one of ours of it)"
    return name


def bad(row: str, p: Param, pos: int, value: Any, want: str) -> TypeError:
    """The error for an argument of the wrong type."""
    where = "" if p.kwonly else f" (position {pos})"
    return TypeError(f"{row}(): argument '{p.name}'{where} must be {want}, not {_kind(value)}")


def is_number(v: Any) -> bool:
    """Python or NumPy scalar."""
    return isinstance(v, (bool, int, float, complex, np.number, np.bool_))


def to_int(v: Any) -> int:
    """An integer argument: ints, NumPy ints, integer tensors of one element. TypeError otherwise."""
    if v.__class__ is int:
        return v
    if isinstance(v, Tensor):
        if v.a.size != 1 or v.k.cat > _dtype.INT:
            raise TypeError("only integer tensors of a single element can be converted to an index")
        return int(v.a.reshape(()).item())
    return operator.index(v)


def to_ints(v: Any) -> tuple[int, ...]:
    """A tuple of integers from an int, a sequence or a tensor's shape."""
    if isinstance(v, (list, tuple)):
        return tuple(to_int(x) for x in v)
    if isinstance(v, Tensor) and v.a.ndim:
        return tuple(int(x) for x in v.a)
    return (to_int(v),)


def _tensor(row: str, p: Param, pos: int, v: Any) -> Any:
    if isinstance(v, Tensor):
        return v
    if p.type in ("TN", "TN?") and is_number(v):
        return v.item() if isinstance(v, np.generic) else v
    want = "Tensor" if p.type[:2] != "TN" else "Tensor or Number"
    raise bad(row, p, pos, v, want)


def _tensor_list(row: str, p: Param, pos: int, v: Any) -> Any:
    if isinstance(v, Tensor):
        if v.a.ndim == 0:
            raise bad(row, p, pos, v, "tuple of Tensors")
        return list(v.unbind(0))
    if not isinstance(v, (list, tuple)):
        if not hasattr(v, "__iter__"):
            raise bad(row, p, pos, v, "tuple of Tensors")
        v = list(v)
    for i, x in enumerate(v):
        if not isinstance(x, Tensor):
            raise TypeError(f"expected Tensor as element {i} in argument {pos - 1}, but got {type(x).__name__}")
    return list(v)


def _number(row: str, p: Param, pos: int, v: Any) -> Any:
    if is_number(v):
        return v.item() if isinstance(v, np.generic) else v
    if isinstance(v, Tensor) and v.a.size == 1:
        return v.item()
    raise bad(row, p, pos, v, "Number")


def _float(row: str, p: Param, pos: int, v: Any) -> Any:
    if isinstance(v, (float, int, np.floating, np.integer, np.bool_)):
        return float(v)
    if isinstance(v, Tensor) and v.a.size == 1:
        return float(v.item())
    raise bad(row, p, pos, v, "float")


def _bool(row: str, p: Param, pos: int, v: Any) -> Any:
    if isinstance(v, (bool, np.bool_)):
        return bool(v)
    if isinstance(v, int) or (isinstance(v, Tensor) and v.a.size == 1):
        return bool(v)
    raise bad(row, p, pos, v, "bool")


def _int(row: str, p: Param, pos: int, v: Any) -> Any:
    try:
        return to_int(v)
    except TypeError:
        raise bad(row, p, pos, v, "int") from None


def _ints(row: str, p: Param, pos: int, v: Any) -> Any:
    try:
        return to_ints(v)
    except TypeError:
        raise bad(row, p, pos, v, "tuple of ints") from None


def _dtype_arg(row: str, p: Param, pos: int, v: Any) -> Any:
    if isinstance(v, _dtype.dtype):
        return v
    if v is float:
        return _dtype.float64
    if v is int:
        return _dtype.int64
    if v is bool:
        return _dtype.bool_
    if v is complex:
        return _dtype.complex128
    raise bad(row, p, pos, v, "torch.dtype")


def _str(row: str, p: Param, pos: int, v: Any) -> Any:
    if isinstance(v, str):
        return v
    raise bad(row, p, pos, v, "str")


def _any(row: str, p: Param, pos: int, v: Any) -> Any:
    return v


_CONVERT = {
    "T": _tensor,
    "TN": _tensor,
    "TL": _tensor_list,
    "N": _number,
    "int": _int,
    "ints": _ints,
    "ints*": _ints,
    "dim": _int,
    "dims": _ints,
    "float": _float,
    "bool": _bool,
    "str": _str,
    "dtype": _dtype_arg,
    "any": _any,
    "device": _any,
}


def canonical(row: str, params: Sequence[Param], values: Sequence[Any]) -> list[Any]:
    """Arguments checked and converted to their canonical types. TypeError or IndexError name the argument."""
    out: list[Any] = []
    ndim: int | None = None
    for pos, (p, v) in enumerate(zip(params, values), 1):
        base = p.type.rstrip("?")
        if v is None and (p.type.endswith("?") or p.type == "any" or p.default is None):
            out.append(None)
            continue
        v = _CONVERT[base](row, p, pos, v)
        if ndim is None and isinstance(v, Tensor):
            ndim = v.a.ndim
        if base == "dim" and ndim is not None:
            wrap_dim(v, ndim)
        elif base == "dims" and ndim is not None:
            for d in v:
                wrap_dim(d, ndim)
        out.append(v)
    return out
