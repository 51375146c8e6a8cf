"""MindSpore kernels of sampling at the points of a grid, forward and backward: gathers and weighted sums.

The points decide positions and weights; they are read for them, once per call, and the image stays where it is.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mindtorch.engine.host.sample import _Sampler
from mindtorch.engine.mindspore import door
from mindtorch.engine.mindspore.kernels import Unsupported, kernel, np_dtype
from mindtorch.engine.mindspore.kernels.moves import _hosted, added, chosen, const, zeros_of
from mindtorch.engine.mindspore.kernels.reductions import total

ms = door.load()
mint = ms.mint
_FLOATS = (ms.float32, ms.float64)


def _sampler(x: Any, grid: Any, modes: Any) -> Any:
    if 0 in x.shape or 0 in grid.shape or x.dtype not in _FLOATS:
        raise Unsupported("nothing to sample, or other than float32 and float64")
    return _Sampler(np.broadcast_to(np.zeros((), np_dtype(x)), tuple(x.shape)), _hosted(grid), modes)


def _places(s: Any, where: np.ndarray, inside: np.ndarray) -> np.ndarray:
    """(N, C, points) flat positions in the image, -1 outside."""
    rows = np.arange(s.n * s.c).reshape(s.n, s.c, 1) * math.prod(s.size)
    return np.where(inside[:, None], rows + where[:, None], -1)


@kernel("grid_sampler_2d", "grid_sampler_3d")
def _grid_sample(x: Any, grid: Any, modes: Any) -> Any:
    s = _sampler(x, grid, modes)
    y = None
    for where, inside, weights, _ in s.corners():
        part = mint.mul(chosen([x], _places(s, where, inside)), const(math.prod(weights)[:, None]).astype(x.dtype))
        y = part if y is None else mint.add(y, part)
    return y.reshape((s.n, s.c, *s.out))


@kernel("grid_sampler_backward")
def _grid_sample_backward(g: Any, x: Any, grid: Any, modes: Any, need_input: bool, need_grid: bool) -> Any:
    s = _sampler(x, grid, modes)
    g3 = g.reshape((s.n, s.c, -1))
    dx, slopes = None, [zeros_of((s.n, g3.shape[2]), g.dtype) for _ in range(s.d)]
    for where, inside, weights, changes in s.corners():
        at = _places(s, where, inside)
        if need_input:
            part = added(mint.mul(g3, const(math.prod(weights)[:, None]).astype(g.dtype)), at, x.shape)
            dx = part if dx is None else mint.add(dx, part)
        if need_grid and s.mode != "nearest":
            dot = total(mint.mul(g3, chosen([x], at)), 1)
            for axis in range(s.d):
                rest = math.prod(changes[i] if i == axis else weights[i] for i in range(s.d))
                slopes[axis] = mint.add(slopes[axis], mint.mul(dot, const(rest).astype(g.dtype)))
    nothing = zeros_of((0,), g.dtype)
    if not need_grid:
        return (nothing if dx is None else dx), nothing
    parts = [mint.mul(slopes[a], const(s.slope[a]).astype(g.dtype)) for a in range(s.d - 1, -1, -1)]
    dgrid = ms.ops.stack(parts, -1)
    return (nothing if dx is None else dx), dgrid.reshape(tuple(grid.shape))
