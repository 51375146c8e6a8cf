"""How far two recorded values are apart, and how numbers are written in the tables."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from mindtorch.tools.compare.read import Datum

HALF = {"torch.float16": (1e-3, 1e-3), "torch.bfloat16": (1.6e-2, 1.6e-2), "Float16": (1e-3, 1e-3), "BFloat16": (1.6e-2, 1.6e-2)}
"""Least rtol and atol of dtypes with few bits: about one unit in the last place of numbers near 1."""


@dataclass
class Tolerance:
    """rtol and atol, by dtype where a dtype asks for more."""

    rtol: float = 1e-4
    atol: float = 1e-4
    equal_nan: bool = False
    by_dtype: dict[str, tuple[float, float]] | None = None

    def of(self, a: Datum, b: Datum) -> tuple[float, float]:
        """The pair for two values: what the caller gave for the dtype, else the wider of the general and the half one."""
        rtol, atol = self.rtol, self.atol
        for dtype in (a.dtype, b.dtype):
            given = (self.by_dtype or {}).get(dtype) or (self.by_dtype or {}).get(dtype.removeprefix("torch."))
            if given is not None:
                return given
            least = HALF.get(dtype, (0.0, 0.0))
            rtol, atol = max(rtol, least[0]), max(atol, least[1])
        return rtol, atol


@dataclass
class Measured:
    """The numbers of one row. ``exact`` is False when they come from statistics alone; ``ratio`` is None then."""

    exact: bool
    close: bool
    ratio: float | None
    cosine: float
    mean_diff: float
    max_diff: float
    a: dict[str, Any]
    b: dict[str, Any]
    relative: float
    """Norm of the difference over the larger norm; from statistics: the largest relative difference of them."""
    scale: float
    problem: str = ""

    @property
    def nan(self) -> tuple[bool, bool]:
        """Whether each side has NaN or infinite elements."""
        return bool(self.a.get("bad")), bool(self.b.get("bad"))


def describe(d: Datum, a: np.ndarray | None) -> dict[str, Any]:
    """Shape, dtype, mean, max and min of a value, by its file if there is one."""
    out: dict[str, Any] = {"shape": d.shape, "dtype": d.dtype.removeprefix("torch.")}
    if a is None or a.size == 0:
        bad = any(not math.isfinite(x) for x in (d.max, d.min) if x is not None) and not math.isfinite(d.norm)
        return {**out, "mean": d.mean, "max": d.max, "min": d.min, "norm": d.norm, "bad": bad}
    if a.dtype.kind == "b":
        a = a.astype(np.uint8)
    if a.dtype.kind == "c":
        a = np.abs(a)
    with np.errstate(all="ignore"):
        wide = a.astype(np.float32) if a.dtype == np.float16 else a
        out.update(mean=wide.mean(), max=wide.max(), min=wide.min())
    out["bad"] = a.dtype.kind == "f" and not bool(np.isfinite(a).all())
    return out


def measure(x: Datum, y: Datum, tolerance: Tolerance) -> Measured:
    """Compare two values: element by element when both files are there, else by their statistics."""
    rtol, atol = tolerance.of(x, y)
    a, b = x.load(), y.load()
    if a is None or b is None:
        return _by_statistics(x, y, rtol, atol)
    da, db = describe(x, a), describe(y, b)
    if a.shape != b.shape:
        text = f"shapes differ: {a.shape} and {b.shape}"
        nan = math.nan
        return Measured(True, False, None, nan, nan, nan, da, db, math.inf, 0.0, text)
    if a.size == 0:
        return Measured(True, True, 1.0, 1.0, 0.0, 0.0, da, db, 0.0, 0.0)
    fa, fb = _float(a), _float(b)
    with np.errstate(all="ignore"):
        close = np.isclose(fa, fb, rtol, atol, equal_nan=tolerance.equal_nan)
        diff = np.abs(fa - fb)
        mean, top = diff.mean(), diff.max()
    ratio = float(np.count_nonzero(close)) / close.size
    return Measured(
        True, bool(close.all()), ratio, cosine(fa, fb), mean, top, da, db, _relative(fa, fb), _scale(fa, fb)
    )  # fmt: skip


def _float(a: np.ndarray) -> np.ndarray:
    if a.dtype.kind in "biu":
        return a.astype(np.float64)
    return a.astype(np.float32) if a.dtype == np.float16 else a


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    """Cosine of the angle between two arrays: 1 for equal ones and for two zeros, NaN when one of them is zero."""
    if np.array_equal(a, b):
        return 1.0
    wide = np.complex128 if "c" in (a.dtype.kind, b.dtype.kind) else np.float64
    u, v = a.ravel().astype(wide), b.ravel().astype(wide)
    with np.errstate(all="ignore"):
        nu, nv = float(np.linalg.norm(u)), float(np.linalg.norm(v))
        if nu < 1e-30 and nv < 1e-30:
            return 1.0
        if nu < 1e-30 or nv < 1e-30:
            return math.nan
        return float(np.real(np.vdot(u, v)) / (nu * nv))


def _relative(a: np.ndarray, b: np.ndarray) -> float:
    """Norm of the difference over the larger norm, elements that are NaN or equal infinities on both sides left out."""
    with np.errstate(all="ignore"):
        same = (np.isnan(a) & np.isnan(b)) | (a == b)
        diff = np.where(same, 0, a - b)
        if not bool(np.isfinite(diff).all()):
            return math.inf
        keep = np.isfinite(a) & np.isfinite(b)
        size = max(float(np.linalg.norm(np.where(keep, a, 0))), float(np.linalg.norm(np.where(keep, b, 0))))
        return float(np.linalg.norm(diff)) / size if size else 0.0


def _scale(a: np.ndarray, b: np.ndarray) -> float:
    with np.errstate(all="ignore"):
        tops = [float(np.abs(x[np.isfinite(x)]).max(initial=0.0)) for x in (a, b)]
    return max(tops)


def _by_statistics(x: Datum, y: Datum, rtol: float, atol: float) -> Measured:
    da, db = describe(x, None), describe(y, None)
    nan = math.nan
    if x.shape != y.shape:
        return Measured(False, False, None, nan, nan, nan, da, db, math.inf, 0.0, f"shapes differ: {x.shape} and {y.shape}")
    if x.md5 and y.md5 and x.md5 == y.md5:
        return Measured(False, True, None, 1.0, 0.0, 0.0, da, db, 0.0, _top(x))
    close, relative, top = statistics_apart((x.max, x.min, x.mean, x.norm), (y.max, y.min, y.mean, y.norm), rtol, atol)
    return Measured(False, close, None, nan, abs(x.mean - y.mean), top, da, db, relative, max(_top(x), _top(y)))


def _top(d: Datum) -> float:
    return max((abs(v) for v in (d.max, d.min) if math.isfinite(v)), default=0.0)


def statistics_apart(x: Any, y: Any, rtol: float, atol: float) -> tuple[bool, float, float]:
    """Whether (max, min, mean, norm) agree, their largest relative difference, and the largest of max and min.

    max and min are measured against the larger of them, so that a minimum near zero is no news.
    """
    pairs = [(p, q) for p, q in zip(x[:4], y[:4])]
    size = max((abs(v) for p in pairs[:2] for v in p if math.isfinite(v)), default=0.0)
    close, relative, top = True, 0.0, 0.0
    for i, (p, q) in enumerate(pairs):
        if p == q or (math.isnan(p) and math.isnan(q)):
            continue
        if not (math.isfinite(p) and math.isfinite(q)):
            return False, math.inf, math.inf
        diff = abs(p - q)
        close = close and diff <= atol + rtol * abs(q)
        base = max(abs(p), abs(q)) if i == 3 else size
        relative = max(relative, diff / base if base else 0.0)
        top = max(top, diff) if i < 2 else top
    return close, relative, top


# ------------------------------------------------------------------------------------------ writing numbers
def decimals(x: Any, n: int = 5) -> str:
    """A number with ``n`` decimals, cut off and not rounded, from its shortest form in its own precision."""
    if isinstance(x, float) and not isinstance(x, np.floating):
        x = np.float64(x)
    x = np.asarray(x)[()]
    if not np.isfinite(x):
        return str(float(x))
    text = np.format_float_positional(x, unique=True, trim="-") if isinstance(x, np.floating) else str(x)
    whole, _, part = text.partition(".")
    return f"{whole}.{part[:n].ljust(n, '0')}"


def percent(ratio: float) -> str:
    """``99.99%``, cut off and not rounded."""
    return f"{math.floor(ratio * 10000 + 1e-9) / 100:.2f}%"
