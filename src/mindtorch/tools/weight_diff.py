"""Differences between the weights of two checkpoint files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from mindtorch.tools.distance import Distance, distance

__all__ = ["Difference", "differences"]


@dataclass(frozen=True)
class Difference:
    """One name of either file. ``a`` and ``b`` are the values (None where the name is missing).

    ``status`` is "equal", "close" (within the tolerances), "value", "dtype", "shape", "missing" (not in the second
    file) or "extra" (only in the second).
    """

    name: str
    status: str
    a: Any
    b: Any
    apart: Distance | None = None

    @property
    def fails(self) -> bool:
        """Whether this counts as a difference."""
        return self.status not in ("equal", "close")


def _same(a: Any, b: Any) -> bool:
    return type(a) is type(b) and bool(a == b or (a != a and b != b))


def _bits_equal(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two arrays of one dtype and shape hold the same bytes (NaNs of one kind are the same)."""
    x, y = np.ascontiguousarray(a).reshape(-1), np.ascontiguousarray(b).reshape(-1)
    return bool(np.array_equal(x.view(np.uint8), y.view(np.uint8)))


def _one(name: str, a: Any, b: Any, rtol: float, atol: float, any_dtype: bool) -> Difference:
    if not isinstance(a, np.ndarray) or not isinstance(b, np.ndarray):
        if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
            # npz and ckpt hold numbers as arrays without dimensions; elsewhere they are numbers.
            x, y = np.asarray(a), np.asarray(b)
            if x.shape == y.shape == () and x.dtype.kind in "biuf" and y.dtype.kind in "biuf":
                return Difference(name, "equal" if float(x) == float(y) else "value", a, b)
            return Difference(name, "dtype", a, b)
        return Difference(name, "equal" if _same(a, b) else "value", a, b)
    if a.shape != b.shape:
        return Difference(name, "shape", a, b)
    if a.dtype == b.dtype and _bits_equal(a, b):
        return Difference(name, "equal", a, b, Distance(True, 1.0, 1.0, 0.0, 0.0))
    apart = distance(a, b, rtol, atol, equal_nan=True)
    if a.dtype != b.dtype and not any_dtype:
        return Difference(name, "dtype", a, b, apart)
    if not apart.allclose:
        return Difference(name, "value", a, b, apart)
    return Difference(name, "equal" if apart.max == 0 else "close", a, b, apart)


def differences(
    a: Mapping[str, Any],
    b: Mapping[str, Any],
    *,
    rtol: float = 0.0,
    atol: float = 0.0,
    any_dtype: bool = False,
) -> list[Difference]:
    """Every name of ``a`` in its order, then those only ``b`` has. Values count as close when
    ``|a - b| <= atol + rtol * |b|``; NaN is equal to NaN. ``any_dtype`` compares values of different dtypes.
    """
    rows = []
    for name, value in a.items():
        if name in b:
            rows.append(_one(name, value, b[name], rtol, atol, any_dtype))
        else:
            rows.append(Difference(name, "missing", value, None))
    return rows + [Difference(name, "extra", None, value) for name, value in b.items() if name not in a]
