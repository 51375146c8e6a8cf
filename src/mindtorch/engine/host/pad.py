"""Padding on the host. ``pads`` is PyTorch's order: (low, high) of the last dimension, then of the one before, ...

Constant padding (negative amounts crop) is its own transpose. Reflect, replicate and circular read source positions
along each axis; their transpose adds what was read back to its source.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

Ints = tuple[int, ...]


def constant(x: np.ndarray, pads: Ints, value: object) -> np.ndarray:
    """x enlarged by ``pads`` and filled with ``value``; negative amounts crop."""
    shape = list(x.shape)
    src, dst = [slice(None)] * x.ndim, [slice(None)] * x.ndim
    for i in range(len(pads) // 2):
        axis = x.ndim - 1 - i
        low, high = pads[2 * i], pads[2 * i + 1]
        n = shape[axis]
        shape[axis] = n + low + high
        src[axis] = slice(max(0, -low), n - max(0, -high))
        dst[axis] = slice(max(0, low), shape[axis] - max(0, high))
    if min(pads, default=0) >= 0 and not any(pads):
        return x.copy()
    fill = value != 0 or (isinstance(value, float) and str(value) == "-0.0")
    out = np.full(shape, value, x.dtype) if fill else np.zeros(shape, x.dtype)
    out[tuple(dst)] = x[tuple(src)]
    return out


@lru_cache(maxsize=256)
def sources(n: int, low: int, high: int, mode: str) -> np.ndarray:
    """Source position of every output element along an axis of ``n`` elements."""
    at = np.arange(-low, n + high)
    if mode == "circular":
        # negative amounts crop first; what is left is what goes round
        first, count = max(0, -low), n - max(0, -low) - max(0, -high)
        return first + (np.arange(n + low + high) - max(0, low)) % count
    if mode == "replicate":
        return np.clip(at, 0, n - 1)
    at = np.abs(at)
    return np.where(at > n - 1, 2 * (n - 1) - at, at)


def indexed(x: np.ndarray, pads: Ints, mode: str) -> np.ndarray:
    """x padded by reading other elements: ``reflect``, ``replicate`` or ``circular``."""
    y = x
    for i in range(len(pads) // 2):
        low, high = pads[2 * i], pads[2 * i + 1]
        if low or high:
            axis = x.ndim - 1 - i
            y = y.take(sources(x.shape[axis], low, high, mode), axis)
    return y.copy() if y is x else y


def indexed_grad(g: np.ndarray, pads: Ints, mode: str, size: Ints) -> np.ndarray:
    """Transpose of ``indexed``: g back to an array whose last dimensions are ``size``."""
    for i in range(len(pads) // 2):
        low, high = pads[2 * i], pads[2 * i + 1]
        if low or high:
            axis = g.ndim - 1 - i
            g = _fold(g, axis, low, high, size[len(size) - 1 - i], mode)
    return g


def _fold(g: np.ndarray, axis: int, low: int, high: int, n: int, mode: str) -> np.ndarray:
    at = sources(n, low, high, mode)
    shape = list(g.shape)
    shape[axis] = n
    out = np.zeros(shape, g.dtype)
    first, last = max(0, low), max(0, low) + n - max(0, -low) - max(0, -high)

    def part(a: np.ndarray, start: int, stop: int) -> np.ndarray:
        index = [slice(None)] * a.ndim
        index[axis] = slice(start, stop)
        return a[tuple(index)]

    part(out, max(0, -low), max(0, -low) + last - first)[...] = part(g, first, last)
    for edge in (*range(first), *range(last, len(at))):
        source = int(at[edge])
        part(out, source, source + 1)[...] += part(g, edge, edge + 1)
    return out
