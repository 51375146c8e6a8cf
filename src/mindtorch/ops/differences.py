"""``gradient``: slopes of sampled functions by central differences."""

from __future__ import annotations

from typing import Any

from mindtorch.core.errors import check, wrap_dim
from mindtorch.core.signature import is_number, to_ints
from mindtorch.core.tensor import Tensor
from mindtorch.ops.shape import cat
from mindtorch.ops.table import put


def _dims(input: Tensor, dim: Any) -> list[int]:
    n = input.a.ndim
    dims = list(range(n)) if dim is None else [wrap_dim(d, n) for d in to_ints(dim)]
    for d in dims:
        check(dims.count(d) == 1, RuntimeError, f"dim {d} appears multiple times in the list of dims")
    return dims


def _spacings(input: Tensor, spacing: Any, dim: Any, dims: list[int]) -> list[Any]:
    """One number or 1-d tensor of coordinates per dimension differentiated."""
    if isinstance(spacing, Tensor) and spacing.a.ndim == 0:
        spacing = spacing.item()
    if spacing is None or is_number(spacing):
        return [1 if spacing is None else spacing] * len(dims)
    check(
        isinstance(spacing, (list, tuple)),
        TypeError,
        f"gradient(): spacing must be a number, a list of numbers or a list of 1-d tensors, not {type(spacing).__name__}; "
        "put a single tensor of coordinates in a list",
    )
    want = f"'self.dim() = {input.a.ndim}', since dim argument was not given" if dim is None else (
        f"the length of 'dim', {len(dims)}"
    )
    check(
        len(spacing) == len(dims),
        RuntimeError,
        f"torch.gradient expected spacing to be unspecified, a scalar, or a list of length equal to {want}, but got a "
        f"list of length {len(spacing)}",
    )
    for s in spacing:
        check(
            not isinstance(s, Tensor) or s.a.ndim == 1,
            RuntimeError,
            "torch.gradient expected each element of spacing to have one dimension, but got an element with "
            f"{s.a.ndim if isinstance(s, Tensor) else 0} dimensions!",
        )
    return list(spacing)


def _even(f: Any, h: Any, edge_order: int) -> list[Tensor]:
    """Slopes at points ``h`` apart: first edge, inside, last edge; ``f(start, stop)`` cuts the samples."""
    if edge_order == 1:
        first, last = (f(1, 2) - f(0, 1)) / h, (f(-1, None) - f(-2, -1)) / h
    else:
        first = (f(0, 1) * -1.5 + f(1, 2) * 2 - f(2, 3) * 0.5) / h
        last = (f(-3, -2) * 0.5 - f(-2, -1) * 2 + f(-1, None) * 1.5) / h
    return [first, (f(2, None) - f(0, -2)) / (2 * h), last]


def _uneven(f: Any, at: Tensor, edge_order: int) -> list[Tensor]:
    """Slopes at coordinates ``at`` (shaped to broadcast), exact for parabolas except at first-order edges."""
    steps = at[1:] - at[:-1]

    def step(start: Any, stop: Any) -> Tensor:
        return steps[start:stop].reshape(shape)

    shape = f.column
    a, b = step(None, -1), step(1, None)
    inside = f(0, -2) * (-b / (a * (a + b))) + f(1, -1) * ((b - a) / (a * b)) + f(2, None) * (a / (b * (a + b)))
    if edge_order == 1:
        return [(f(1, 2) - f(0, 1)) / step(0, 1), inside, (f(-1, None) - f(-2, -1)) / step(-1, None)]
    a, b = step(0, 1), step(1, 2)
    first = f(0, 1) * (-(2 * a + b) / (a * (a + b))) + f(1, 2) * ((a + b) / (a * b)) - f(2, 3) * (a / (b * (a + b)))
    a, b = step(-2, -1), step(-1, None)
    last = f(-3, -2) * (b / (a * (a + b))) - f(-2, -1) * ((a + b) / (a * b)) + f(-1, None) * ((2 * b + a) / (b * (a + b)))
    return [first, inside, last]


class _Cut:
    """``cut(start, stop)``: a range of the samples along one dimension."""

    def __init__(self, input: Tensor, dim: int) -> None:
        self.input, self.dim = input, dim
        self.column = (-1,) + (1,) * (input.a.ndim - 1 - dim)

    def __call__(self, start: Any, stop: Any) -> Tensor:
        return self.input[(slice(None),) * self.dim + (slice(start, stop),)]


def gradient(input: Tensor, *, spacing: Any = None, dim: Any = None, edge_order: int = 1) -> tuple[Tensor, ...]:
    """Slopes of samples along each dimension (or those in ``dim``): one tensor of the input's shape per dimension.

    ``spacing`` is the distance of samples (a number), one per dimension, or a list of 1-d tensors of coordinates.
    Inside, second order differences; at the ends ``edge_order`` 1 or 2. Integers give floats; uint8 raises.
    """
    dims = _dims(input, dim)
    spacings = _spacings(input, spacing, dim, dims)
    check(edge_order in (1, 2), RuntimeError, "torch.gradient only supports edge_order=1 and edge_order=2.")
    check(input.dtype.name != "uint8", RuntimeError, "torch.gradient does not support uint8 input.")
    out = []
    for d, h in zip(dims, spacings):
        n = input.a.shape[d]
        check(n > edge_order, RuntimeError, "torch.gradient expected each dimension size to be at least edge_order+1")
        cut = _Cut(input, d)
        if isinstance(h, Tensor):
            check(
                h.a.size == n,
                RuntimeError,
                f"torch.gradient expected one coordinate per sample, but spacing has {h.a.size} for dimension {d} of size {n}",
            )
            out.append(cat(_uneven(cut, h, edge_order), d))
        else:
            out.append(cat(_even(cut, h, edge_order), d))
    return tuple(out)


put("torch", gradient=gradient)
