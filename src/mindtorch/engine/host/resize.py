"""Interpolation on the host: each axis is a short list of taps per output, applied one axis after the other.

Positions and weights are computed in float32 for float32 data (float64 for float64), as PyTorch does, so that ties fall
on the same side. The transpose multiplies by the dense (out, in) matrix of the same taps.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from mindtorch.engine.host.quiet import EXTOBJ

Ints = tuple[int, ...]
Scales = tuple[float | None, ...]

TAPS = {"linear": 2, "cubic": 4, "lanczos": 6}
"""Width in input elements of each antialiasing filter at scale 1."""


def _scale(real: type, n: int, out: int, align: bool, scale: float | None) -> np.floating:
    """Input elements per output element."""
    if align:
        return real(n - 1) / real(out - 1) if out > 1 else real(0)
    return real(1.0 / scale) if scale is not None and scale > 0 else real(n) / real(out)


def _nearest(real: type, n: int, out: int, scale: float | None, mode: str) -> np.ndarray:
    step = _scale(real, n, out, False, scale)
    i = np.arange(out, dtype=real)
    if mode == "nearest-exact":
        return np.minimum(((i + real(0.5)) * step).astype(np.int64), n - 1)
    if mode == "nearest-plain":
        return np.minimum((i * step).astype(np.int64), n - 1)
    if out == n:
        return np.arange(n, dtype=np.int64)
    if out == 2 * n:
        return np.arange(out, dtype=np.int64) >> 1
    return np.minimum((i * step).astype(np.int64), n - 1)


def _centres(real: type, n: int, out: int, align: bool, scale: float | None) -> np.ndarray:
    step = _scale(real, n, out, align, scale)
    i = np.arange(out, dtype=real)
    return i * step if align else (i + real(0.5)) * step - real(0.5)


def _linear(real: type, n: int, out: int, align: bool, scale: float | None) -> tuple[np.ndarray, np.ndarray]:
    at = np.maximum(_centres(real, n, out, align, scale), real(0))
    first = np.minimum(at.astype(np.int64), n - 1)
    part = np.clip(at - first.astype(real), real(0), real(1)).astype(real)
    return np.stack([first, np.minimum(first + 1, n - 1)]), np.stack([real(1) - part, part])


def _cubic_near(t: np.ndarray, a: float) -> np.ndarray:
    return ((a + 2) * t - (a + 3)) * t * t + 1


def _cubic_far(t: np.ndarray, a: float) -> np.ndarray:
    return ((a * t - 5 * a) * t + 8 * a) * t - 4 * a


def cubic_weights(t: np.ndarray) -> list[np.ndarray]:
    """Weights of the four taps around a position with fraction ``t`` (a = -0.75), in the precision of ``t``."""
    one = t.dtype.type(1)
    return [
        _cubic_far(t + one, -0.75),
        _cubic_near(t, -0.75),
        _cubic_near(one - t, -0.75),
        _cubic_far(one - t + one, -0.75),
    ]


def _cubic(real: type, n: int, out: int, align: bool, scale: float | None) -> tuple[np.ndarray, np.ndarray]:
    at = _centres(real, n, out, align, scale)
    first = np.minimum(np.floor(at).astype(np.int64), n - 1)
    part = np.clip(at - first.astype(real), real(0), real(1)).astype(real)
    taps = np.clip(first + np.arange(-1, 3)[:, None], 0, n - 1)
    return taps, np.stack(cubic_weights(part)).astype(real)


def _filter(kind: str, x: np.ndarray) -> np.ndarray:
    x = np.abs(x)
    if kind == "linear":
        return np.maximum(1 - x, 0)
    if kind == "lanczos":
        return np.where(x < 3, np.sinc(x) * np.sinc(x / 3), 0)
    return np.where(x < 1, _cubic_near(x, -0.5), np.where(x < 2, _cubic_far(x, -0.5), 0))


def _antialias(
    real: type, kind: str, n: int, out: int, align: bool, scale: float | None
) -> tuple[np.ndarray, np.ndarray]:
    step = _scale(real, n, out, align, scale)
    half = real(TAPS[kind] * 0.5)
    support = half * step if step >= 1 else half
    inverse = real(1) / step if step >= 1 else real(1)
    centre = step * (np.arange(out, dtype=real) + real(0.5))
    first = np.maximum((centre - support + real(0.5)).astype(np.int64), 0)
    count = np.minimum((centre + support + real(0.5)).astype(np.int64), n) - first
    j = np.arange(max(int(count.max()), 1))[:, None]
    weight = _filter(kind, ((j + first).astype(real) - centre + real(0.5)) * inverse)
    weight = np.where(j < count, weight, 0)
    total = weight.sum(0)
    weight = np.divide(weight, total, where=total != 0, out=np.zeros_like(weight))
    return np.minimum(j + first, n - 1), weight.astype(real)


@lru_cache(maxsize=256)
def taps(
    mode: str, double: bool, n: int, out: int, align: bool, scale: float | None, antialias: bool
) -> tuple[np.ndarray, np.ndarray | None]:
    """Input positions (taps, out) and weights (taps, out), None for the nearest modes."""
    real = np.float64 if double else np.float32
    if mode.startswith("nearest"):
        return _nearest(real, n, out, scale, mode)[None], None
    if antialias:
        return _antialias(real, mode, n, out, align, scale)
    return (_linear if mode == "linear" else _cubic)(real, n, out, align, scale)


@lru_cache(maxsize=64)
def _matrix(mode: str, double: bool, n: int, out: int, align: bool, scale: float | None, antialias: bool) -> np.ndarray:
    """The taps as a dense (out, in) matrix."""
    at, weight = taps(mode, double, n, out, align, scale, antialias)
    dense = np.zeros((out, n), np.float64 if double else np.float32)
    rows = np.broadcast_to(np.arange(out), at.shape)
    np.add.at(dense, (rows, at), 1 if weight is None else weight)
    return dense


def _is_identity(mode: str, n: int, out: int, scale: float | None) -> bool:
    """Whether an axis that keeps its length is left alone although the caller's scale is not 1."""
    return n == out and (scale is None or mode in ("nearest", "linear"))


def _axis_forward(x: np.ndarray, axis: int, at: np.ndarray, weight: np.ndarray | None) -> np.ndarray:
    if weight is None:
        return x.take(at[0], axis)
    shape = [1] * x.ndim
    shape[axis] = -1
    y = np.multiply(x.take(at[0], axis), weight[0].reshape(shape), extobj=EXTOBJ)
    for t in range(1, len(at)):
        part = x.take(at[t], axis)
        np.multiply(part, weight[t].reshape(shape), out=part, extobj=EXTOBJ)
        np.add(y, part, out=y, extobj=EXTOBJ)
    return y


def _axis_bytes(x: np.ndarray, axis: int, at: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """One axis of uint8 data with weights in 16-bit fixed point, as PyTorch (and Pillow) resize bytes."""
    weight = weight.astype(np.float64)
    for t in range(1, len(at)):
        # taps clipped to the same edge pixel are one tap
        twin = at[t] == at[t - 1]
        weight[t] += np.where(twin, weight[t - 1], 0)
        weight[t - 1] = np.where(twin, 0, weight[t - 1])
    bits = 0
    while bits < 22 and int(0.5 + float(weight.max()) * (1 << (bits + 1))) < 1 << 15:
        bits += 1
    fixed = np.trunc(weight * (1 << bits) + np.where(weight < 0, -0.5, 0.5)).astype(np.int64)
    shape = [1] * x.ndim
    shape[axis] = -1
    total = np.full((), 1 << (bits - 1), np.int64)
    for t in range(len(at)):
        total = total + x.take(at[t], axis).astype(np.int64) * fixed[t].reshape(shape)
    return np.clip(total >> bits, 0, 255).astype(np.uint8)


def resize(x: np.ndarray, size: Ints, mode: str, align: bool, scales: Scales, antialias: bool) -> np.ndarray:
    """x (*lead, *in) resized to (*lead, *size). Modes nearest, nearest-exact, linear, cubic, lanczos (per axis)."""
    d = len(size)
    small = x.dtype == np.uint8 and not mode.startswith("nearest")
    y = x
    # PyTorch's 1-d and 3-d nearest read floor(i * scale) even where the 2-d one and all gradients take a short cut
    plain = mode == "nearest" and d != 2
    double = x.dtype == np.float64
    for axis in range(-1, -d - 1, -1):
        n, out = x.shape[axis], size[axis]
        if (_is_identity(mode, n, out, scales[axis]) and not (plain and scales[axis])) or (antialias and n == out):
            continue
        kind = "nearest-plain" if plain else mode
        at, weight = taps(kind, double or small, n, out, align, scales[axis], antialias)
        if small and weight is not None:
            y = _axis_bytes(y, axis, at, weight)
        else:
            y = _axis_forward(y, axis, at, weight)
    return y.copy() if y is x else y


def resize_grad(g: np.ndarray, size: Ints, mode: str, align: bool, scales: Scales, antialias: bool) -> np.ndarray:
    """Transpose of ``resize``: g (*lead, *out) to (*lead, *size)."""
    d = len(size)
    dx = g
    double = g.dtype == np.float64
    if mode == "cubic" and not antialias and g.shape[-d:] == size:
        return g.copy()
    for axis in range(-d, 0):
        n, out = size[axis], g.shape[axis]
        if _is_identity(mode, n, out, scales[axis]) and not (antialias and scales[axis]):
            continue
        if mode == "nearest" and out % n == 0 and scales[axis] in (None, out // n):
            shape = list(dx.shape)
            shape[axis : axis + 1 or None] = [n, out // n]
            dx = np.add.reduce(dx.reshape(shape), axis=dx.ndim + axis + 1)
            continue
        matrix = _matrix(mode, double, n, out, align, scales[axis], antialias)
        if axis == -1:
            dx = dx @ matrix
        elif axis == -2:
            dx = matrix.T @ dx
        else:
            dx = np.ascontiguousarray(np.moveaxis(np.moveaxis(dx, axis, -1) @ matrix, -1, axis))
    return dx.copy() if dx is g else dx
