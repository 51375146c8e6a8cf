"""``assert_close``: tensors, numbers and containers of them, compared with tolerances that depend on the dtype."""

from __future__ import annotations

import cmath
import numbers
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

import mindtorch.torch as torch
from mindtorch.core.tensor import Tensor

_TOLERANCES = {
    "float16": (1e-3, 1e-5),
    "bfloat16": (1.6e-2, 1e-5),
    "float32": (1.3e-6, 1e-5),
    "float64": (1e-7, 1e-7),
    "complex32": (1e-3, 1e-5),
    "complex64": (1.3e-6, 1e-5),
    "complex128": (1e-7, 1e-7),
}


class _Options:
    """The keyword arguments of `assert_close`."""

    def __init__(self, rtol: float | None, atol: float | None, equal_nan: bool, **checks: bool) -> None:
        if (rtol is None) != (atol is None):
            missing = "rtol" if rtol is None else "atol"
            raise ValueError(f"Both 'rtol' and 'atol' must be either specified or omitted, but got no {missing}.")
        self.rtol, self.atol, self.equal_nan = rtol, atol, equal_nan
        self.checks = checks

    def tolerances(self, *names: str) -> tuple[float, float]:
        """Given ones, or the loosest defaults of the dtypes."""
        if self.rtol is not None and self.atol is not None:
            return self.rtol, self.atol
        defaults = [_TOLERANCES.get(n, (0.0, 0.0)) for n in names]
        return max(r for r, _ in defaults), max(a for _, a in defaults)


class _Mismatch(Exception):  # noqa: N818 - becomes an AssertionError
    """A difference, with the place in the containers where it was found."""

    def __init__(self, message: str, where: tuple[Any, ...]) -> None:
        super().__init__(message)
        self.where = where

    def text(self) -> str:
        """The whole message."""
        place = "".join(f"[{w!r}]" for w in self.where)
        return f"{self}\n\nThe failure occurred for item {place}" if place else str(self)


def _lines(what: str, difference: Any, at: Any, allowed: float, exact: bool) -> str:
    place = f" at index {at}" if at is not None else ""
    limit = "" if exact else f" (up to {allowed} allowed)"
    return f"{what} difference: {difference}{place}{limit}"


def _numbers(a: Any, b: Any, o: _Options, where: tuple[Any, ...]) -> None:
    for x in (a, b):
        if isinstance(x, np.generic):
            return _numbers(*(v.item() if isinstance(v, np.generic) else v for v in (a, b)), o, where)
    if isinstance(a, bool) or isinstance(b, bool):
        if a is not b and bool(a) is not bool(b):
            raise _Mismatch(f"Booleans mismatch: {bool(a)} is not {bool(b)}", where)
        return None
    if o.checks["check_dtype"] and type(a) is not type(b):
        raise _Mismatch(f"The (d)types do not match: {type(a)} != {type(b)}.", where)
    kinds = {int: "int64", float: "float64", complex: "complex128"}
    rtol, atol = o.tolerances(*(kinds.get(type(x), "float64") for x in (a, b)))
    _close_scalars(a, b, rtol, atol, o, where)
    return None


def _close_scalars(a: Any, b: Any, rtol: float, atol: float, o: _Options, where: tuple[Any, ...]) -> None:
    if a == b or (o.equal_nan and cmath.isnan(a) and cmath.isnan(b)):
        return
    difference = abs(a - b)
    finite = cmath.isfinite(a) and cmath.isfinite(b)
    if finite and difference <= atol + rtol * abs(b):
        return
    exact = rtol == 0 and atol == 0
    relative = difference / abs(b) if b != 0 else float("inf")
    raise _Mismatch(
        f"Scalars are not {'equal' if exact else 'close'}!\n\nExpected {b} but got {a}.\n"
        f"{_lines('Absolute', difference, None, atol, exact)}\n{_lines('Relative', relative, None, rtol, exact)}",
        where,
    )


def _attributes(a: Tensor, b: Tensor, o: _Options, where: tuple[Any, ...]) -> None:
    def differ(name: str, x: Any, y: Any) -> None:
        raise _Mismatch(f"The values for attribute '{name}' do not match: {x} != {y}.", where)

    if a.shape != b.shape:
        differ("shape", a.shape, b.shape)
    if o.checks["check_layout"] and getattr(a, "layout", None) != getattr(b, "layout", None):
        differ("layout", a.layout, b.layout)
    if o.checks["check_device"] and a.device != b.device:
        differ("device", a.device, b.device)
    if o.checks["check_dtype"] and a.dtype != b.dtype:
        differ("dtype", a.dtype, b.dtype)
    if o.checks["check_stride"] and a.stride() != b.stride():
        differ("stride()", a.stride(), b.stride())


def _tensors(a: Tensor, b: Tensor, o: _Options, where: tuple[Any, ...]) -> None:
    _attributes(a, b, o, where)
    if a.device.type == "meta":
        return
    rtol, atol = o.tolerances(a.dtype.name, b.dtype.name)
    if a.dtype != b.dtype:
        common = torch.promote_types(a.dtype, b.dtype)
        a, b = a.to(common), b.to(common)
    floating = a.dtype.is_floating_point or a.dtype.is_complex
    x, y = a.detach().resolve_conj().a, b.detach().resolve_conj().a
    # Compared in their own dtype, as the tolerances are meant for it; halves in float32.
    wide = (x.dtype if x.dtype.itemsize >= 4 else np.dtype(np.float32)) if floating else None
    x, y = (x.astype(wide), y.astype(wide)) if wide is not None else (x, y)
    if wide is None:
        x, y = (x.astype(object), y.astype(object)) if x.dtype.kind == "u" else (x.astype(np.int64), y.astype(np.int64))
    with np.errstate(all="ignore"):
        difference = np.abs(x - y)
        size = np.abs(y)
        good = x == y
        if wide is not None:
            finite = np.isfinite(x) & np.isfinite(y)
            good |= finite & (difference <= size.dtype.type(atol) + size.dtype.type(rtol) * size)
            if o.equal_nan:
                good |= np.isnan(x) & np.isnan(y)
        elif rtol or atol:
            good |= difference <= atol + rtol * size
        if bool(np.all(good)):
            return
        relative = difference / size if floating else difference.astype(np.float64) / size.astype(np.float64)
    raise _Mismatch(_report(a, b, good, difference, relative, (rtol, atol)), where)


def _report(a: Tensor, b: Tensor, good: Any, difference: Any, relative: Any, tolerances: tuple[float, float]) -> str:
    rtol, atol = tolerances
    exact = rtol == 0 and atol == 0
    if a.dim() == 0:
        return (
            f"Scalars are not {'equal' if exact else 'close'}!\n\nExpected {b.item()} but got {a.item()}.\n"
            f"{_lines('Absolute', difference.item(), None, atol, exact)}\n"
            f"{_lines('Relative', relative.item(), None, rtol, exact)}"
        )
    bad = int(np.size(good) - np.count_nonzero(good))
    rows = [f"Mismatched elements: {bad} / {good.size} ({bad / good.size:.1%})"]
    for what, values, allowed in (("Greatest absolute", difference, atol), ("Greatest relative", relative, rtol)):
        hidden = np.where(good, 0, values)
        flat = hidden.astype(np.float64).reshape(-1)
        at = int(np.argmax(np.isnan(flat))) if np.isnan(flat).any() else int(np.argmax(flat))
        index = tuple(int(i) for i in np.unravel_index(at, good.shape))
        shown = hidden.reshape(-1)[at]
        rows.append(_lines(what, shown.item() if hasattr(shown, "item") else shown, index, allowed, exact))
    return f"Tensor-likes are not {'equal' if exact else 'close'}!\n\n" + "\n".join(rows)


def _is_sequence(x: Any) -> bool:
    return (isinstance(x, Sequence) and not isinstance(x, (str, bytes))) or (
        isinstance(x, np.ndarray) and x.dtype == object
    )


def _compare(a: Any, b: Any, o: _Options, where: tuple[Any, ...]) -> None:
    if _is_sequence(a) and _is_sequence(b):
        if len(a) != len(b):
            raise _Mismatch(f"The length of the sequences mismatch: {len(a)} != {len(b)}", where)
        for i, (x, y) in enumerate(zip(a, b)):
            _compare(x, y, o, (*where, i))
    elif isinstance(a, Mapping) and isinstance(b, Mapping):
        if a.keys() != b.keys():
            missing, extra = sorted(b.keys() - a.keys(), key=str), sorted(a.keys() - b.keys(), key=str)
            raise _Mismatch(
                "The keys of the mappings do not match:\n"
                f"Missing keys in the actual mapping: {missing}\nAdditional keys in the actual mapping: {extra}",
                where,
            )
        for key in a:
            _compare(a[key], b[key], o, (*where, key))
    elif a is None and b is None:
        return
    elif isinstance(a, (numbers.Number, np.number, np.bool_)) and isinstance(b, (numbers.Number, np.number, np.bool_)):
        _numbers(a, b, o, where)
    else:
        _pair(a, b, o, where)


def _pair(a: Any, b: Any, o: _Options, where: tuple[Any, ...]) -> None:
    arrays = [
        x if isinstance(x, Tensor) else torch.from_numpy(x) if isinstance(x, np.ndarray) else None for x in (a, b)
    ]
    related = o.checks["allow_subclasses"] or type(a) is type(b)
    if arrays[0] is None or arrays[1] is None or not related or isinstance(a, np.ndarray) != isinstance(b, np.ndarray):
        if a is None or b is None:
            raise _Mismatch(f"None mismatch: {a} is not {b}", where)
        raise TypeError(f"No comparison pair was able to handle inputs of type {type(a)} and {type(b)}.")
    _tensors(arrays[0], arrays[1], o, where)


def assert_close(
    actual: Any,
    expected: Any,
    *,
    allow_subclasses: bool = True,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    check_device: bool = True,
    check_dtype: bool = True,
    check_layout: bool = True,
    check_stride: bool = False,
    msg: str | Callable[[str], str] | None = None,
) -> None:
    """AssertionError unless ``|actual - expected| <= atol + rtol * |expected|`` everywhere and attributes agree.

    Takes tensors, NumPy arrays, numbers, None, and sequences and mappings of them. ``msg`` replaces the message, or
    makes it from the default one.
    """
    options = _Options(
        rtol,
        atol,
        equal_nan,
        allow_subclasses=allow_subclasses,
        check_device=check_device,
        check_dtype=check_dtype,
        check_layout=check_layout,
        check_stride=check_stride,
    )
    try:
        _compare(actual, expected, options, ())
    except _Mismatch as e:
        text = e.text()
        raise AssertionError(msg(text) if callable(msg) else msg or text) from None


def assert_allclose(
    actual: Any,
    expected: Any,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = True,
    msg: str = "",
) -> None:
    """Deprecated: `assert_close` without checks of dtype and device, and with NaNs equal."""
    warnings.warn(
        "`torch.testing.assert_allclose()` is deprecated; use `torch.testing.assert_close()`.",
        FutureWarning,
        stacklevel=2,
    )
    a = actual if isinstance(actual, Tensor) else torch.tensor(actual)
    b = expected if isinstance(expected, Tensor) else torch.tensor(expected, dtype=a.dtype)
    if rtol is None and atol is None:
        rtol, atol = _Options(None, None, True).tolerances(a.dtype.name, b.dtype.name)
    assert_close(a, b, rtol=rtol, atol=atol, equal_nan=equal_nan, check_device=True, check_dtype=False, msg=msg or None)
