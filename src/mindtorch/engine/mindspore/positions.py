"""Views as functions over ms.Tensors: NumPy shows which elements, and the cheapest MindSpore operations fetch them.

``at`` holds 0, 1, 2, ... in the source's shape and ``part`` is a view of it. Reshapes, permutations, broadcasts and slices of
one dimension are recognised by what they do; anything else is a gather.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mindtorch.engine.mindspore import array, door

Function = Callable[[Any], Any]


def function(at: np.ndarray, part: np.ndarray) -> Function:
    """``f(x)``, the elements of ``x`` (shaped as ``at``) that ``part`` names, in its shape."""
    shape = part.shape
    spread = [d for d, (n, s) in enumerate(zip(shape, part.strides)) if s == 0 and n > 1]
    if spread:
        core = part[tuple(slice(0, 1) if d in spread else slice(None) for d in range(part.ndim))]
        inner = function(at, core)
        return lambda x: inner(x).broadcast_to(shape)
    return _sliced(at, part) or _permuted(at, part) or _gathered(part)


def _run(flat: np.ndarray) -> bool:
    return bool(flat.size) and bool((np.diff(flat) == 1).all())


def _reshape(shape: Sequence[int]) -> Function:
    mint = door.load().mint
    shape = tuple(int(n) for n in shape)
    return lambda x: mint.reshape(x, shape)


def _permuted(at: np.ndarray, part: np.ndarray) -> Function | None:
    """Elements that lie side by side in memory, with their dimensions in another order."""
    order = sorted(range(part.ndim), key=lambda d: (-part.strides[d], d))
    dense = part.transpose(order)
    flat = dense.reshape(-1)
    if not _run(flat):
        return None
    shape = _reshape(dense.shape)
    start, n, whole = int(flat[0]), flat.size, flat.size == at.size
    ops = door.load().ops
    back = tuple(int(d) for d in np.argsort(order))
    same = back == tuple(range(part.ndim))

    def run(x: Any) -> Any:
        if not whole:
            x = ops.slice(x.reshape((-1,)), (start,), (n,))
        x = shape(x)
        return x if same else ops.transpose(x, back)

    return run


def _sliced(at: np.ndarray, part: np.ndarray) -> Function | None:
    """A range of one dimension, which may be gone from the shape afterwards."""
    if not part.size or part.size == at.size:
        return None
    flat = part.reshape(-1)
    first = np.unravel_index(int(flat[0]), at.shape)
    for d in range(at.ndim):
        rest = at.size // at.shape[d]
        n = part.size // rest
        if n * rest != part.size or any(first[e] for e in range(at.ndim) if e != d):
            continue
        last = np.unravel_index(int(flat.max()), at.shape)[d]
        step = 1 if n == 1 else (int(last) - int(first[d])) // (n - 1)
        if step < 1:
            continue
        index = np.arange(first[d], first[d] + step * n, step)
        if index[-1] < at.shape[d] and (at.take(index, axis=d).reshape(-1) == flat).all():
            return _range(at, d, index, step, part.shape)
    return None


def _range(at: np.ndarray, d: int, index: np.ndarray, step: int, shape: Sequence[int]) -> Function:
    ops = door.load().ops
    again = _reshape(shape)
    if step == 1:
        begin = tuple(int(index[0]) if e == d else 0 for e in range(at.ndim))
        size = tuple(len(index) if e == d else int(n) for e, n in enumerate(at.shape))
        return lambda x: again(ops.slice(x, begin, size))
    chosen = array.upload(index.astype(np.int32))
    return lambda x: again(ops.gather(x, chosen, d))


def _gathered(part: np.ndarray) -> Function:
    ops = door.load().ops
    index = array.upload(np.ascontiguousarray(part.reshape(-1), np.int32))
    again = _reshape(part.shape)
    return lambda x: again(ops.gather(x.reshape((-1,)), index, 0))
