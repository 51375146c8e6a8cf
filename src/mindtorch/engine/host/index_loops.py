"""Compiled loops that move elements by index over (outer, dim, inner) arrays, checking every index on the way.

Each tells whether all indices were in range: the caller, who wrote into a fresh array, then raises with the value at
fault. Indices are read as unsigned numbers, so a negative one is out of range and no wrap-around is compiled in.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mindtorch.engine.host.jit import Fused, fused

SMALL = 4096
"""Elements from which a call counts towards compiling; below, NumPy serves until the loop exists."""


def _unused(*args: Any) -> bool:
    """NumPy twin, called only when the compilation fails: nothing is done, and the caller takes its NumPy path."""
    return False


def ready(loop: Fused, size: int) -> bool:
    """Whether ``loop`` is compiled (now, if it has seen enough)."""
    return loop.compiled is not None or loop.tick(size)


@fused(_unused, exact=True)
def gather(a, i, out):  # type: ignore[no-untyped-def]
    outer, count, inner = i.shape
    size = np.uint64(a.shape[1])
    for o in range(outer):
        if inner == 1:
            row = a[o, :, 0]
            at = i[o, :, 0]
            to = out[o, :, 0]
            for k in range(count):
                j = np.uint64(at[k])
                if j >= size:
                    return False
                to[k] = row[j]
        else:
            for k in range(count):
                for n in range(inner):
                    j = np.uint64(i[o, k, n])
                    if j >= size:
                        return False
                    out[o, k, n] = a[o, j, n]
    return True


def _scatter(out, i, src):  # type: ignore[no-untyped-def]
    outer, count, inner = i.shape
    size = np.uint64(out.shape[1])
    for o in range(outer):
        for k in range(count):
            for n in range(inner):
                j = np.uint64(i[o, k, n])
                if j >= size:
                    return False
                out[o, j, n] = body(out[o, j, n], src[o, k, n])  # type: ignore[name-defined]  # noqa: F821
    return True


def _new(old, new):  # type: ignore[no-untyped-def]
    return new


def _sum(old, new):  # type: ignore[no-untyped-def]
    return old + new


scatter = fused(_unused, helpers=(_new,), exact=True)(_scatter)
scatter_add = fused(_unused, helpers=(_sum,), exact=True)(_scatter)


@fused(_unused, exact=True)
def slices_add(out, i, src):  # type: ignore[no-untyped-def]
    size = np.uint64(out.shape[1])
    for o in range(src.shape[0]):
        for k in range(src.shape[1]):
            j = np.uint64(i[k])
            if j >= size:
                return False
            to = out[o, j]
            row = src[o, k]
            for n in range(row.size):
                to[n] += row[n]
    return True
