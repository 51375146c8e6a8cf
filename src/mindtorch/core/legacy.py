"""The old constructors: ``torch.Tensor(...)``, ``torch.FloatTensor(...)``, and what ``isinstance`` says of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from mindtorch.core import dtype as D
from mindtorch.core.cells import Cell
from mindtorch.core.signature import to_ints
from mindtorch.core.tensor import Parameter, Size, Tensor, wrap


def _array(args: tuple[Any, ...], d: D.dtype, name: str) -> Any:
    """Memory for ``Tensor(2, 3)``, ``Tensor(size)``, ``Tensor([1, 2])``, ``Tensor(other)`` or ``Tensor()``."""
    from mindtorch.ops.create import array_of

    if not args:
        return np.empty((0,), d.np)
    if len(args) == 1:
        x = args[0]
        if isinstance(x, Tensor):
            if x.k.dtype is not d:
                raise TypeError(f"expected {name} (got {x.k.dtype}); use .to({d!r}) to convert")
            return x
        if isinstance(x, Size):
            return np.empty(tuple(x), d.np)
        if isinstance(x, (list, tuple, np.ndarray)) or not isinstance(x, (int, np.integer)):
            return array_of(x, d, True) if not isinstance(x, np.ndarray) else np.array(x, d.np)
    try:
        return np.zeros(to_ints(args), d.np)
    except (TypeError, ValueError):
        raise TypeError(f"new(): data must be sizes or a sequence (got {', '.join(type(a).__name__ for a in args)})") from None


def construct(cls: type, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """``cls(*args)`` for Tensor and its subclasses, of the default dtype."""
    kwargs = {k: v for k, v in kwargs.items() if k not in ("device", "requires_grad")}
    if "data" in kwargs:
        args = (kwargs.pop("data"), *args)
    if "size" in kwargs:
        args = (tuple(kwargs.pop("size")), *args)
    if kwargs and cls is Tensor:
        raise TypeError(f"new() got an unexpected keyword argument '{next(iter(kwargs))}'")
    got = _array(args, D.get_default_dtype(), "torch.FloatTensor") if not (args and isinstance(args[0], Tensor)) else args[0]
    t = object.__new__(cls)
    if isinstance(got, Tensor):
        src = got
        t.a, t.v = src.a, (None if src.v is None else Cell(src.v.root))
        t.k = src.k
    else:
        t.a, t.v = got, None
        t.k = wrap(got).k
    t.n = None
    if cls is not Tensor and not issubclass(cls, Parameter):
        t.k = t.k.sub
    return t


class _TypedMeta(type):
    """``isinstance(x, torch.FloatTensor)`` asks for the dtype."""

    dtype: D.dtype

    def __instancecheck__(cls, x: Any) -> bool:
        return isinstance(x, Tensor) and x.k.dtype is cls.dtype and x.k.device.type == "cpu"

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        if kwargs:
            raise TypeError(f"new() got an unexpected keyword argument '{next(iter(kwargs))}'")
        got = _array(args, cls.dtype, f"torch.{cls.__name__}")
        return got if isinstance(got, Tensor) else wrap(got)

    def __repr__(cls) -> str:
        return f"<class 'torch.{cls.__name__}'>"


TYPES: dict[str, Any] = {}
for _name, _d in (
    ("Float", D.float32),
    ("Double", D.float64),
    ("Half", D.float16),
    ("BFloat16", D.bfloat16),
    ("Long", D.int64),
    ("Int", D.int32),
    ("Short", D.int16),
    ("Char", D.int8),
    ("Byte", D.uint8),
    ("Bool", D.bool_),
):
    TYPES[f"{_name}Tensor"] = _TypedMeta(f"{_name}Tensor", (), {"dtype": _d, "__module__": "torch"})
