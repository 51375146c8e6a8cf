"""Sampling of images (N, C, *size) at grid positions (N, *out, d) on the host, for d = 2 and 3, and its gradients.

Grid coordinates are in [-1, 1], x (the last dimension) first. ``modes`` is (mode, padding_mode, align_corners).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from mindtorch.engine.host.quiet import quiet
from mindtorch.engine.host.resize import cubic_weights

Modes = tuple[str, str, bool]


def _reflect(x: np.ndarray, low2: int, high2: int) -> tuple[np.ndarray, np.ndarray]:
    """Reflection between low2/2 and high2/2, and the sign of its slope."""
    if low2 == high2:
        return np.zeros_like(x), np.zeros_like(x)
    real = x.dtype.type
    low, width = real(low2 / 2), real((high2 - low2) / 2)
    slope = np.where(x < low, real(-1), real(1))
    x = np.abs(x - low)
    extra = np.fmod(x, width)
    odd = np.floor(x / width) % 2 != 0
    return np.where(odd, width - extra + low, extra + low), np.where(odd, -slope, slope)


def _pad(x: np.ndarray, n: int, padding: str, align: bool) -> tuple[np.ndarray, np.ndarray]:
    """Pixel positions after the padding rule, and the slope of that map."""
    slope = np.ones_like(x)
    if padding == "zeros":
        return x, slope
    if padding == "reflection":
        x, slope = _reflect(x, 0, 2 * (n - 1)) if align else _reflect(x, -1, 2 * n - 1)
    real = x.dtype.type
    slope = np.where((x <= 0) | (x >= n - 1), real(0), slope)
    # a NaN coordinate is clipped to 0, as min(max(x, 0), n - 1) does in C
    return np.fmin(np.fmax(x, real(0)), real(n - 1)), slope


def _unnormalise(grid: np.ndarray, n: int, align: bool) -> tuple[np.ndarray, float]:
    real = grid.dtype.type
    if align:
        return (grid + real(1)) / real(2) * real(n - 1), (n - 1) / 2
    return ((grid + real(1)) * real(n) - real(1)) / real(2), n / 2


class _Sampler:
    """Positions of one call, and gathers of the image at integer positions."""

    def __init__(self, x: np.ndarray, grid: np.ndarray, modes: Modes) -> None:
        self.mode, self.padding, self.align = modes
        self.size, self.d = x.shape[2:], grid.shape[-1]
        self.n, self.c = x.shape[:2]
        self.out = grid.shape[1:-1]
        self.flat = np.ascontiguousarray(x).reshape(self.n, self.c, math.prod(self.size))
        flat_grid = grid.reshape(self.n, -1, self.d)
        self.at: list[np.ndarray] = []
        self.slope: list[np.ndarray] = []
        for axis in range(self.d):
            x_, unit = _unnormalise(flat_grid[..., self.d - 1 - axis], self.size[axis], self.align)
            slope = np.ones_like(x_)
            if self.mode != "bicubic":
                x_, slope = _pad(x_, self.size[axis], self.padding, self.align)
            self.at.append(x_)
            self.slope.append(slope * x_.dtype.type(unit))

    def place(self, axis: int, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Integer positions for indexing and whether they lie inside (bicubic taps are padded here)."""
        n = self.size[axis]
        if self.mode == "bicubic":
            at = _pad(at, n, self.padding, self.align)[0]
        inside = (at >= 0) & (at <= n - 1)
        return np.where(inside, at, 0).astype(np.int64), inside

    def corners(self) -> Iterator[tuple[np.ndarray, np.ndarray, list[np.ndarray], list[np.ndarray]]]:
        """Each tap: flat position, inside mask, weights per axis and their derivatives per axis."""
        axes = []
        for axis, at in enumerate(self.at):
            axes.append([(*self.place(axis, p), w, dw) for p, w, dw in _axis_taps(at, self.mode)])
        for taps in itertools.product(*axes):
            where, inside = taps[0][0], taps[0][1]
            for axis in range(1, self.d):
                where = where * self.size[axis] + taps[axis][0]
                inside = inside & taps[axis][1]
            yield where, inside, [t[2] for t in taps], [t[3] for t in taps]

    def gather(self, where: np.ndarray, inside: np.ndarray) -> np.ndarray:
        """Values (N, C, points), zero outside."""
        values = np.take_along_axis(self.flat, where[:, None], 2)
        return values if inside.all() else np.where(inside[:, None], values, values.dtype.type(0))


def _axis_taps(at: np.ndarray, mode: str) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Taps along an axis: position, weight, derivative of the weight."""
    one = np.ones_like(at)
    if mode == "nearest":
        return [(np.rint(at), one, np.zeros_like(at))]
    first = np.floor(at)
    t = at - first
    if mode == "bilinear":
        return [(first, first + 1 - at, -one), (first + 1, t, one)]
    return [(first + k - 1, w, dw) for k, (w, dw) in enumerate(zip(cubic_weights(t), _cubic_slopes(t)))]


def _cubic_slopes(t: np.ndarray) -> list[np.ndarray]:
    a = -0.75

    def near(x: np.ndarray) -> np.ndarray:
        return (3 * (a + 2) * x - 2 * (a + 3)) * x

    def far(x: np.ndarray) -> np.ndarray:
        return (3 * a * x - 10 * a) * x + 8 * a

    return [far(t + 1), near(t), -near(1 - t), -far(2 - t)]


def _product(weights: Any) -> np.ndarray:
    """One weight for each tap, for all channels."""
    of_tap: Any = math.prod(weights)
    return of_tap[:, None]


def grid_sample(x: np.ndarray, grid: np.ndarray, modes: Modes) -> np.ndarray:
    """Values (N, C, *out)."""
    with quiet():
        s = _Sampler(x, grid, modes)
        y = np.zeros((s.n, s.c, math.prod(s.out)), x.dtype)
        for where, inside, weights, _ in s.corners():
            y += s.gather(where, inside) * _product(weights)
    return y.reshape(s.n, s.c, *s.out)


def grid_sample_grad(
    g: np.ndarray, x: np.ndarray, grid: np.ndarray, modes: Modes, need_x: bool, need_grid: bool
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Gradients of the image and of the grid; None for the one not needed."""
    with quiet():
        s = _Sampler(x, grid, modes)
        g3 = g.reshape(s.n, s.c, -1)
        total = np.zeros(s.flat.size, np.float64) if need_x else None
        slopes = [np.zeros(g3.shape[::2], g.dtype) for _ in range(s.d)]
        for where, inside, weights, changes in s.corners():
            if total is not None:
                add = np.where(inside[:, None], g3 * _product(weights), 0)
                rows = np.arange(s.n * s.c).reshape(s.n, s.c, 1) * s.flat.shape[2]
                total += np.bincount((rows + where[:, None]).reshape(-1), add.reshape(-1), total.size)
            if need_grid and s.mode != "nearest":
                dot = np.einsum("ncp,ncp->np", g3, s.gather(where, inside))
                for axis in range(s.d):
                    rest = [changes[i] if i == axis else weights[i] for i in range(s.d)]
                    slopes[axis] += dot * math.prod(rest)
        dx = None if total is None else total.astype(x.dtype).reshape(x.shape)
        if not need_grid:
            return dx, None
        parts = [slopes[axis] * s.slope[axis] for axis in reversed(range(s.d))]
        return dx, np.stack(parts, -1).reshape(grid.shape).astype(grid.dtype)
