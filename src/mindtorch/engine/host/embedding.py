"""Embedding kernels on raw arrays: row lookup with bounds check, gradient scatter, renormalisation, bags."""

from __future__ import annotations

from typing import Any

import numpy as np

from mindtorch.core.errors import shown
from mindtorch.engine.host.jit import fused

F32 = np.dtype(np.float32)


def check_index(i: np.ndarray, n: int) -> None:
    """IndexError unless all of ``i`` lies in [0, n). Negative indices are an error here, not counted from the end."""
    if not i.size:
        return
    if i.size <= 64:
        values = i.ravel().tolist()
        low, high = min(values), max(values)
    else:
        flat = i.ravel()
        low, high = int(np.minimum.reduce(flat)), int(np.maximum.reduce(flat))
    if low < 0 or high >= n:
        raise shown(IndexError("index out of range in self"))


def lookup(w: np.ndarray, i: np.ndarray) -> Any:
    """Rows of ``w`` (n, d) at ``i``: shape (*i.shape, d)."""
    check_index(i, w.shape[0])
    return w.take(i, 0)


def _scatter_fall(g: np.ndarray, index: np.ndarray, scale: np.ndarray, out: np.ndarray, skip: int) -> None:
    keep = index != skip
    if scale.size:
        g = g * scale[index][:, None].astype(g.dtype)
    if not keep.all():
        g, index = g[keep], index[keep]
    if not index.size:
        return
    order = index.argsort(kind="stable")
    sorted_index = index[order]
    starts = np.flatnonzero(np.concatenate(([True], sorted_index[1:] != sorted_index[:-1])))
    out[sorted_index[starts]] += np.add.reduceat(g[order], starts, axis=0)


@fused(_scatter_fall)
def _scatter(g, index, scale, out, skip):  # type: ignore[no-untyped-def]
    n, d = g.shape
    scaled = scale.size > 0
    for i in range(n):
        row = index[i]
        if row == skip:
            continue
        o = out[row]
        r = g[i]
        if scaled:
            s = scale[row]
            for j in range(d):
                o[j] += r[j] * s
        else:
            for j in range(d):
                o[j] += r[j]


def scatter(g: np.ndarray, index: np.ndarray, rows: int, skip: int, by_frequency: bool) -> np.ndarray:
    """Gradient of a table of ``rows`` rows: rows of ``g`` added at ``index``; row ``skip`` (-1: none) gets nothing."""
    d = g.shape[-1]
    out = np.zeros((rows, d), g.dtype)
    flat = index.ravel()
    if not flat.size or not d:
        return out
    g = np.ascontiguousarray(g).reshape(-1, d)
    scale = np.empty(0, g.dtype)
    if by_frequency:
        counts = np.bincount(flat, minlength=rows)
        scale = (1.0 / np.maximum(counts, 1)).astype(g.dtype)
    elif flat.size <= 64:
        values = flat.tolist()
        if len(set(values)) == len(values):
            out[flat] = g
            if skip >= 0:
                out[skip] = 0
            return out
    kernel = _scatter if g.dtype.kind == "f" else _scatter_fall
    kernel(g, np.ascontiguousarray(flat, np.int64), scale, out, skip)
    return out


def renorm_rows(w: np.ndarray, index: np.ndarray, max_norm: float, norm_type: float) -> None:
    """Scale, in place, the rows of ``w`` named by ``index`` whose norm exceeds ``max_norm``."""
    rows = np.unique(index)
    if not rows.size:
        return
    part = w[rows].astype(np.float32 if w.dtype.itemsize < 8 else np.float64)
    norms = np.linalg.norm(part, norm_type, axis=1)
    big = norms > max_norm
    if big.any():
        part[big] *= (max_norm / (norms[big] + 1e-7))[:, None]
        w[rows[big]] = part[big].astype(w.dtype)


def segment_argmax(e: np.ndarray, bag: np.ndarray, bags: int) -> np.ndarray:
    """For each bag and column the position in ``e`` (n, d) of the first maximum; -1 for an empty bag."""
    out = np.full((bags, e.shape[1]), -1, np.int64)
    for b in range(bags):
        where = np.flatnonzero(bag == b)
        if where.size:
            out[b] = where[e[where].argmax(0)]
    return out
