"""Sparse tensors of checkpoints as dense arrays: for readers that have no sparse ones."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

LAYOUTS: dict[str, tuple[str, ...]] = {
    "sparse_coo": ("indices", "values", "size", "is_coalesced"),
    "sparse_csr": ("crow_indices", "col_indices", "values", "size"),
    "sparse_csc": ("ccol_indices", "row_indices", "values", "size"),
    "sparse_bsr": ("crow_indices", "col_indices", "values", "size"),
    "sparse_bsc": ("ccol_indices", "row_indices", "values", "size"),
}
"""The parts of every sparse layout, in the order of a checkpoint."""


def dense(layout: str, size: Sequence[int], values: np.ndarray, indices: Sequence[np.ndarray]) -> np.ndarray:
    """The dense array of ``size``. ``indices``: one ``(sparse dims, n)`` array, or the two of a compressed layout.

    RuntimeError for indices outside of ``size``, and when the dense array would be more than 1 GiB and a thousand
    times the sparse one.
    """
    size = tuple(int(n) for n in size)
    wanted = int(np.prod(size, dtype=object)) * values.itemsize if size else values.itemsize
    if min(size, default=0) < 0 or wanted > max(1 << 30, 1000 * values.nbytes):
        raise RuntimeError(
            f"the file holds a sparse tensor of size {size}, which would take {wanted} bytes as a dense one: too many"
        )
    if layout == "sparse_coo":
        (where,) = indices
        if where.ndim != 2 or values.shape[:1] != where.shape[1:] or size[where.shape[0] :] != values.shape[1:]:
            raise RuntimeError("the file holds a sparse tensor whose parts do not fit together")
        out = np.zeros(size, values.dtype)
        _inside(where, size[: len(where)])
        if values.dtype == np.bool_:
            np.logical_or.at(out, tuple(where), values)
        else:
            np.add.at(out, tuple(where), values)
        return out
    return _compressed(layout, size, values, *indices)


def _inside(where: np.ndarray, limits: Sequence[int]) -> None:
    for index, limit in zip(where, limits):
        if index.size and not 0 <= index.min() <= index.max() < limit:
            raise RuntimeError("the file holds a sparse tensor with an index outside of its size")


def _compressed(
    layout: str, size: tuple[int, ...], values: np.ndarray, pointers: np.ndarray, plain: np.ndarray
) -> np.ndarray:
    batch = pointers.ndim - 1
    blocks = layout in ("sparse_bsr", "sparse_bsc")
    block = values.shape[batch + 1 : batch + 3] if blocks else (1, 1)
    grid = [n // b if b else 0 for n, b in zip(size[batch : batch + 2], block)]
    by_row = layout in ("sparse_csr", "sparse_bsr")
    if len(size) < batch + 2 or len(block) != 2 or pointers.shape[-1] != grid[0 if by_row else 1] + 1:
        raise RuntimeError("the file holds a sparse tensor whose parts do not fit together")
    rest = size[batch + 2 :]
    if plain.shape != values.shape[: batch + 1] or values.shape[batch + 1 + 2 * blocks :] != rest:
        raise RuntimeError("the file holds a sparse tensor whose parts do not fit together")
    out = np.zeros((*size[:batch], grid[0], grid[1], *block, *rest), values.dtype)
    for at in np.ndindex(*size[:batch]):
        counts = np.diff(pointers[at])
        if counts.size and (counts.min() < 0 or pointers[at][0] != 0 or counts.sum() != plain.shape[-1]):
            raise RuntimeError("the file holds a sparse tensor whose parts do not fit together")
        major = np.repeat(np.arange(counts.size), counts)
        row, column = (major, plain[at]) if by_row else (plain[at], major)
        _inside(np.stack([row, column]), grid)
        out[at][row, column] = values[at] if blocks else values[at][:, None, None]
    out = out.swapaxes(batch + 1, batch + 2)
    return np.ascontiguousarray(out).reshape(size)
