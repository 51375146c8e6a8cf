"""The dtypes of torch as interned objects, their limits, the default dtype and the promotion lattice.

Category order is bool < integer < float < complex. The rules are those of ``torch.result_type`` (checked over every
pair and category in ``tests/core/test_promotion.py``).
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

BOOL, INT, FLOAT, COMPLEX = range(4)


class dtype:  # noqa: N801 - the public name is torch.dtype
    """One element type. Attributes: ``itemsize`` (bytes), ``is_floating_point``, ``is_complex``, ``is_signed``."""

    __slots__ = ("category", "is_complex", "is_floating_point", "is_signed", "itemsize", "name", "np", "rank")
    __module__ = "mindtorch.torch"

    def __init__(self, name: str, np_type: Any, category: int, rank: int) -> None:
        self.name = name
        self.np = np.dtype(np_type)
        self.category = category
        self.rank = rank
        self.itemsize = self.np.itemsize
        self.is_floating_point = category == FLOAT
        self.is_complex = category == COMPLEX
        self.is_signed = not (category == BOOL or name.startswith("uint"))

    def __repr__(self) -> str:
        return f"torch.{self.name}"

    def __reduce__(self) -> str:
        return self.name

    def __copy__(self) -> dtype:
        return self

    def __deepcopy__(self, memo: Any) -> dtype:
        return self

    def to_real(self) -> dtype:
        """The dtype of the real part (itself when not complex)."""
        return {"complex64": float32, "complex128": float64, "complex32": float16}.get(self.name, self)

    def to_complex(self) -> dtype:
        """The complex dtype whose parts have this dtype."""
        return {"float32": complex64, "float64": complex128, "bfloat16": complex64, "float16": complex64}.get(
            self.name, self
        )


bool_ = dtype("bool", np.bool_, BOOL, 0)
uint8 = dtype("uint8", np.uint8, INT, 0)
int8 = dtype("int8", np.int8, INT, 1)
int16 = dtype("int16", np.int16, INT, 2)
int32 = dtype("int32", np.int32, INT, 3)
int64 = dtype("int64", np.int64, INT, 4)
uint16 = dtype("uint16", np.uint16, INT, 2)
uint32 = dtype("uint32", np.uint32, INT, 3)
uint64 = dtype("uint64", np.uint64, INT, 4)
float16 = dtype("float16", np.float16, FLOAT, 0)
bfloat16 = dtype("bfloat16", ml_dtypes.bfloat16, FLOAT, 0)
float32 = dtype("float32", np.float32, FLOAT, 1)
float64 = dtype("float64", np.float64, FLOAT, 2)
complex64 = dtype("complex64", np.complex64, COMPLEX, 1)
complex128 = dtype("complex128", np.complex128, COMPLEX, 2)

ALL = (
    bool_,
    uint8,
    int8,
    int16,
    int32,
    int64,
    uint16,
    uint32,
    uint64,
    float16,
    bfloat16,
    float32,
    float64,
    complex64,
    complex128,
)
BY_NAME = {d.name: d for d in ALL}
ALIASES = {
    "half": float16,
    "float": float32,
    "double": float64,
    "short": int16,
    "int": int32,
    "long": int64,
    "cfloat": complex64,
    "cdouble": complex128,
}
_BY_NP = {d.np: d for d in ALL}


def from_np(np_dtype: Any) -> dtype:
    """The torch dtype of a NumPy dtype. TypeError for types torch has no counterpart of (strings, objects)."""
    d = np.dtype(np_dtype)
    got = _BY_NP.get(d)
    if got is None:
        got = _BY_NP.get(d.newbyteorder("="))
    if got is None:
        raise TypeError(
            f"can't convert np.ndarray of type {d}. The only supported types are: float64, float32, float16, "
            "complex64, complex128, int64, int32, int16, int8, uint64, uint32, uint16, uint8, and bool."
        )
    return got


# ------------------------------------------------------------------------------------------ default dtype
_default = float32


def get_default_dtype() -> dtype:
    """The floating dtype given to Python floats (float32 unless changed)."""
    return _default


def set_default_dtype(d: dtype) -> None:
    """Change the default floating dtype. TypeError unless ``d`` is a floating dtype."""
    global _default
    if not isinstance(d, dtype):
        raise TypeError(f"invalid dtype object: only floating-point types are supported as the default type, got {d!r}")
    if not d.is_floating_point:
        raise TypeError("only floating-point types are supported as the default type")
    _default = d


def default_complex() -> dtype:
    """The complex dtype that goes with the default dtype."""
    return complex128 if _default is float64 else complex64


def of_number(value: Any) -> dtype:
    """dtype of a Python number when it stands alone: bool, int64, the default dtype, or its complex twin."""
    if isinstance(value, (bool, np.bool_)):
        return bool_
    if isinstance(value, (int, np.integer)):
        return int64
    if isinstance(value, (float, np.floating)):
        return _default
    return default_complex()


# ------------------------------------------------------------------------------------------ promotion
_BARE_UNSIGNED = (uint16, uint32, uint64)


def _promote(a: dtype, b: dtype) -> dtype:
    if a is b:
        return a
    if a.category > b.category:
        a, b = b, a
    if a.category == BOOL:
        return b
    if a.category == b.category == INT:
        if a in _BARE_UNSIGNED or b in _BARE_UNSIGNED:
            return _promote_unsigned(a, b)
        if uint8 in (a, b) and int8 in (a, b):
            return int16
        return a if a.rank > b.rank else b
    if a.category == b.category:
        if a.rank == b.rank:
            return float32
        return a if a.rank > b.rank else b
    if b.category == COMPLEX and a.category == FLOAT:
        return complex128 if a is float64 else b
    return b


def _promote_unsigned(a: dtype, b: dtype) -> dtype:
    if not a.is_signed and not b.is_signed:
        return a if a.itemsize > b.itemsize else b
    raise RuntimeError(f"Promotion for uint16, uint32, uint64 types is not supported, attempted to promote {a} and {b}")


_TABLE: dict[tuple[dtype, dtype], dtype] = {}


def promote_types(a: dtype, b: dtype) -> dtype:
    """The smallest dtype that both convert to, by PyTorch's lattice (not NumPy's)."""
    got = _TABLE.get((a, b))
    if got is None:
        for d in (a, b):
            if not isinstance(d, dtype):
                raise TypeError(f"promote_types(): arguments must be torch.dtype, not {type(d).__name__}")
        got = _TABLE[a, b] = _promote(a, b)
    return got


def can_cast(from_: dtype, to: dtype) -> bool:
    """Whether an in-place result of dtype ``from_`` may be written into a tensor of dtype ``to``."""
    if from_.category > to.category:
        return False
    return not (to is bool_ and from_ is not bool_)


# ------------------------------------------------------------------------------------------ limits
class finfo:  # noqa: N801 - the public name is torch.finfo
    """Limits of a floating or complex dtype: bits, eps, max, min, tiny, smallest_normal, resolution, dtype."""

    def __init__(self, type: dtype | None = None) -> None:
        d = get_default_dtype() if type is None else type
        if not isinstance(d, dtype) or d.category < FLOAT:
            raise TypeError(f"torch.finfo() requires a floating point input type. Use torch.iinfo to handle '{d}'")
        info: Any = ml_dtypes.finfo(d.to_real().np)
        self.bits = int(info.bits)
        self.eps = float(info.eps)
        self.max = float(info.max)
        self.min = float(info.min)
        self.tiny = self.smallest_normal = float(info.smallest_normal)
        self.resolution = float(str(info.resolution)) if d.to_real().name != "bfloat16" else 0.01
        self.dtype = d.to_real().name

    def __repr__(self) -> str:
        fields = ("resolution", "min", "max", "eps", "smallest_normal", "tiny")
        body = ", ".join(f"{f}={getattr(self, f):g}" for f in fields)
        return f"finfo({body}, dtype={self.dtype})"


class iinfo:  # noqa: N801 - the public name is torch.iinfo
    """Limits of an integer dtype: bits, min, max, dtype."""

    def __init__(self, type: dtype) -> None:
        if not isinstance(type, dtype) or type.category != INT:
            raise TypeError(f"torch.iinfo() requires an integer input type. Use torch.finfo to handle '{type}'")
        info = np.iinfo(type.np)
        self.bits, self.min, self.max, self.dtype = int(info.bits), int(info.min), int(info.max), type.name

    def __repr__(self) -> str:
        return f"iinfo(min={self.min}, max={self.max}, dtype={self.dtype})"
