"""Broadcasting helpers, coordinate grids and combinations."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from mindtorch.core.errors import check
from mindtorch.core.observe import whole
from mindtorch.core.signature import to_ints
from mindtorch.core.tensor import Size, Tensor, constant
from mindtorch.ops.shape import cat, flip, stack
from mindtorch.ops.table import composite, put


# ------------------------------------------------------------------------------------------ broadcasting
def _shape_of(x: Any) -> tuple[int, ...]:
    return to_ints(x)


def broadcast_shapes(*shapes: Any) -> Size:
    """The shape that all shapes (ints or sequences of ints) broadcast to. RuntimeError when there is none."""
    got: list[int] = []
    for at, s in enumerate(map(_shape_of, shapes)):
        check(min(s, default=0) >= 0, RuntimeError, f"Trying to create tensor with negative dimension: {list(s)}")
        got = [1] * (len(s) - len(got)) + got
        for i in range(1, len(s) + 1):
            if s[-i] not in (1, got[-i]):
                check(
                    got[-i] == 1,
                    RuntimeError,
                    f"Attempting to broadcast a dimension of length {s[-i]} at {-i}! Mismatching argument at index {at} "
                    f"had {tuple(s)}; but expected shape should be broadcastable to {got}",
                )
                got[-i] = s[-i]
    return Size(got)


def _unpack(tensors: tuple[Any, ...]) -> tuple[Tensor, ...]:
    return tuple(tensors[0]) if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)) else tensors


@whole
def broadcast_tensors(*tensors: Any) -> tuple[Tensor, ...]:
    """Views of all tensors expanded to their common shape."""
    tensors = _unpack(tensors)
    from mindtorch.core.dispatch import broadcast_error

    text = broadcast_error([t.a.shape for t in tensors])
    check(text is None, RuntimeError, str(text))
    shape = broadcast_shapes(*(t.a.shape for t in tensors))
    return tuple(t.expand(shape) for t in tensors)


@composite("broadcast_to(T input, ints size)")
def broadcast_to(input: Tensor, size: Any) -> Tensor:
    """A view expanded to ``size``."""
    return input.expand(to_ints(size))


@whole
def meshgrid(*tensors: Any, indexing: str | None = None) -> tuple[Tensor, ...]:
    """Coordinate grids of 1-d tensors; ``indexing`` "ij" (the default, with a warning) or "xy"."""
    parts = _unpack(tensors)
    check(parts, ValueError, "meshgrid expects a non-empty TensorList")
    if indexing is None:
        import warnings

        warnings.warn(
            "torch.meshgrid: in an upcoming release, it will be required to pass the indexing argument.",
            UserWarning,
            stacklevel=2,
        )
    check(
        indexing in (None, "ij", "xy"),
        RuntimeError,
        f'torch.meshgrid: indexing must be one of "xy" or "ij", but received: {indexing}',
    )
    for t in parts:
        check(
            t.a.ndim <= 1,
            RuntimeError,
            f"torch.meshgrid: Expected 0D or 1D tensor in the tensor list but got shape {list(t.a.shape)}",
        )
        check(t.dtype is parts[0].dtype, RuntimeError, "meshgrid expects all tensors to have the same dtype")
    swap = indexing == "xy" and len(parts) >= 2
    if swap:
        parts = (parts[1], parts[0], *parts[2:])
    shape = tuple(t.a.size for t in parts)
    grids = [t.reshape((1,) * i + (-1,) + (1,) * (len(parts) - 1 - i)).expand(shape) for i, t in enumerate(parts)]
    if swap:
        grids[0], grids[1] = grids[1], grids[0]
    return tuple(grids)


@whole
def cartesian_prod(*tensors: Any) -> Tensor:
    """Rows of all combinations of elements of 1-d tensors, shape (product of sizes, count of tensors)."""
    parts = _unpack(tensors)
    for t in parts:
        check(
            t.a.ndim == 1,
            RuntimeError,
            f"Expect a 1D vector, but got shape {list(t.a.shape)}",
        )
    if len(parts) == 1:
        return parts[0]
    return stack([g.reshape(-1) for g in meshgrid(*parts, indexing="ij")], 1)


@composite("combinations(T input, int r=2, bool with_replacement=False)", ns="torch")
def combinations(input: Tensor, r: int = 2, with_replacement: bool = False) -> Tensor:
    """Rows of ``r`` elements of a 1-d tensor in index order."""
    check(input.a.ndim == 1, RuntimeError, f"Expect a 1D vector, but got shape {list(input.a.shape)}")
    check(r >= 0, RuntimeError, f"Expect a non-negative number, but got {r}")
    if r == 0:
        return input.new_empty((0,))
    pick = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    rows = np.array(list(pick(range(input.a.size), r)), np.int64).reshape(-1, r)
    return input.index_select(0, constant(rows.reshape(-1))).reshape(-1, r)


put(
    "torch",
    broadcast_shapes=broadcast_shapes,
    broadcast_tensors=broadcast_tensors,
    meshgrid=meshgrid,
    cartesian_prod=cartesian_prod,
)


@composite("vander(T x, int? N=None, bool increasing=False)", ns="torch")
def vander(x: Tensor, N: int | None = None, increasing: bool = False) -> Tensor:
    """Powers of a 1-d tensor as columns, highest first unless ``increasing``."""
    check(x.a.ndim == 1, RuntimeError, "x must be a one-dimensional tensor.")
    n = x.a.size if N is None else N
    check(n >= 0, RuntimeError, f"N must be non-negative, got {n}.")
    if not x.k.diff:
        x = x.long()
    columns = [x.new_ones((x.a.size, 1))] if n else [x.new_empty((x.a.size, 0))]
    if n > 1:
        columns.append(x.unsqueeze(1).expand(-1, n - 1).cumprod(1))
    made = cat(columns, 1)
    return made if increasing else flip(made, (1,))


def unravel_index(indices: Tensor, shape: Any) -> tuple[Tensor, ...]:
    """Coordinates in a tensor of ``shape`` of positions in its flattened form."""
    check(
        indices.a.dtype.kind in "iu",
        ValueError,
        f"expected 'indices' to be integer dtype, but got {indices.dtype}",
    )
    size = to_ints(shape)
    check(min(size, default=0) >= 0, ValueError, f"'shape' cannot have negative values, but got {tuple(size)}")
    got: list[Tensor] = []
    rest = indices
    for n in reversed(size):
        got.append(rest % n)
        rest = rest.div(n, rounding_mode="floor")
    return tuple(reversed(got))


put("torch", unravel_index=unravel_index)
