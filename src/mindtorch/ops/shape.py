"""Joining, repeating, mirroring and re-arranging tensors; triangles and diagonals; broadcasting helpers."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from mindtorch.core.errors import check, wrap_dim
from mindtorch.core.signature import to_int, to_ints
from mindtorch.core.tensor import Tensor, constant, values
from mindtorch.ops.table import alias, composite, op, put
from mindtorch.ops.view_ops import _view, unsafe_parts
from mindtorch.ops.view_ops import reshape as _reshape
from mindtorch.ops.view_ops import transpose as _transpose


# ------------------------------------------------------------------------------------------ joining
def _explain_cat(tensors: list[np.ndarray], dim: int) -> np.ndarray:
    """What ``np.concatenate`` refuses: old-style empty 1-d tensors are skipped, the rest gets PyTorch's error."""
    check(tensors, ValueError, "torch.cat(): expected a non-empty list of Tensors")
    for i, a in enumerate(tensors):
        check(a.ndim, RuntimeError, f"zero-dimensional tensor (at position {i}) cannot be concatenated")
    kept = [a for a in tensors if a.shape != (0,)] or tensors
    first = kept[0]
    d = wrap_dim(dim, first.ndim)
    for i, a in enumerate(kept):
        check(
            a.ndim == first.ndim,
            RuntimeError,
            f"Tensors must have same number of dimensions: got {first.ndim} and {a.ndim}",
        )
        for at, (n, m) in enumerate(zip(first.shape, a.shape)):
            check(
                at == d or n == m,
                RuntimeError,
                f"Sizes of tensors must match except in dimension {d}. Expected size {n} but got size {m} for tensor "
                f"number {i} in the list.",
            )
    return np.concatenate(kept, d)


def _cat_grad(g: Tensor, tensors_shape: list[tuple[int, ...]], dim: int) -> list[Tensor]:
    ndim = g.ndim
    parts, at = [], 0
    for shape in tensors_shape:
        if len(shape) != ndim:  # an old-style empty tensor: it gave nothing
            parts.append(g.new_zeros(shape))
            continue
        n = shape[dim]
        parts.append(g.narrow(dim, at, n))
        at += n
    return parts


@op(
    "cat(TL tensors, dim dim=0)",
    promote="same",
    half="native",
    ns="torch",
    out=True,
    grad={"tensors": _cat_grad},
)
def cat(tensors: list[np.ndarray], dim: int) -> np.ndarray:
    """Tensors joined along an existing dimension, dtypes promoted."""
    try:
        return np.concatenate(tensors, dim)
    except ValueError:
        return _explain_cat(tensors, dim)


alias("concat", "cat")
alias("concatenate", "cat")


@op(
    "stack(TL tensors, dim dim=0)",
    promote="same",
    half="native",
    ns="torch",
    out=True,
    grad={"tensors": lambda g, dim: list(g.unbind(dim))},
)
def stack(tensors: list[np.ndarray], dim: int) -> np.ndarray:
    """Tensors of one shape joined along a new dimension."""
    if not tensors:
        raise RuntimeError("stack expects a non-empty TensorList")
    shape = tensors[0].shape
    for a in tensors:
        if a.shape != shape:
            i = next(i for i, t in enumerate(tensors) if t.shape != shape)
            raise RuntimeError(
                f"stack expects each tensor to be equal size, but got {list(shape)} at entry 0 and {list(a.shape)} at "
                f"entry {i}"
            )
    if dim == 0:
        out = np.empty((len(tensors), *shape), tensors[0].dtype)
        for i, a in enumerate(tensors):
            out[i] = a
        return out
    key = (slice(None),) * wrap_dim(dim, len(shape) + 1) + (None,)
    return np.concatenate([a[key] for a in tensors], dim)


def _joined(name: str, least: Any, dim: Any) -> Any:
    def join(tensors: Any) -> Tensor:
        parts = [least(t) for t in (tensors.unbind(0) if isinstance(tensors, Tensor) else tensors)]
        check(parts, RuntimeError, f"{name} expects a non-empty TensorList")
        return cat(parts, dim(parts[0]))

    join.__name__ = name
    join.__doc__ = f"Tensors joined as ``numpy.{name}`` joins arrays."
    return composite(f"{name}(TL tensors)", ns="torch", out=True)(join)


def _least1(x: Tensor) -> Tensor:
    return x.reshape(1) if x.a.ndim == 0 else x


def _least2(x: Tensor) -> Tensor:
    return x if x.a.ndim >= 2 else x.reshape(1, -1) if x.a.ndim else x.reshape(1, 1)


def _least3(x: Tensor) -> Tensor:
    n = x.a.ndim
    return x if n >= 3 else x.unsqueeze(-1) if n == 2 else x.reshape(1, -1, 1) if n else x.reshape(1, 1, 1)


hstack = _joined("hstack", _least1, lambda first: 0 if first.a.ndim == 1 else 1)
vstack = _joined("vstack", _least2, lambda first: 0)
alias("row_stack", "vstack")
dstack = _joined("dstack", _least3, lambda first: 2)
column_stack = _joined("column_stack", lambda x: x if x.a.ndim > 1 else x.reshape(-1, 1), lambda first: 1)


def _each(least: Any, name: str) -> Any:
    def atleast(*tensors: Any) -> Any:
        if len(tensors) == 1 and not isinstance(tensors[0], Tensor):
            tensors = tuple(tensors[0])
        made = tuple(least(t) for t in tensors)
        return made[0] if len(made) == 1 and isinstance(tensors[0], Tensor) else made

    atleast.__name__ = atleast.__qualname__ = name
    atleast.__doc__ = f"Each tensor with at least {name[-2]} dimensions; a tuple for several."
    return atleast


atleast_1d, atleast_2d, atleast_3d = (_each(f, f"atleast_{i}d") for i, f in enumerate((_least1, _least2, _least3), 1))
put("torch", atleast_1d=atleast_1d, atleast_2d=atleast_2d, atleast_3d=atleast_3d)


# ------------------------------------------------------------------------------------------ repeating
def _repeat_grad(g: Tensor, input_shape: tuple[int, ...], repeats: tuple[int, ...]) -> Tensor:
    shape = (1,) * (len(repeats) - len(input_shape)) + tuple(input_shape)
    if 0 in repeats or 0 in input_shape:
        return g.new_zeros(input_shape)
    split = [n for pair in zip(repeats, shape) for n in pair]
    dims = tuple(range(0, 2 * len(repeats), 2))
    return g.reshape(split).sum(dims).reshape(input_shape) if dims else g


@op("repeat(T input, ints* repeats)", ns="Tensor", grad={"input": _repeat_grad})
def repeat(a: np.ndarray, repeats: tuple[int, ...]) -> np.ndarray:
    """Copies of the tensor side by side: ``repeats[i]`` times along dimension ``i``, new dimensions first."""
    check(
        len(repeats) >= a.ndim,
        RuntimeError,
        "Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor, got "
        f"{list(repeats)} for shape {list(a.shape)}",
    )
    shape = (1,) * (len(repeats) - a.ndim) + a.shape
    full = tuple(r * n for r, n in zip(repeats, shape))
    check(
        min(repeats, default=0) >= 0,
        RuntimeError,
        f"Trying to create tensor with negative dimension {min(full, default=0)}: {list(full)}",
    )
    out = np.empty(tuple(n for pair in zip(repeats, shape) for n in pair), a.dtype)
    out[...] = a.reshape([n for size in shape for n in (1, size)])
    return out.reshape(full)


@composite("tile(T input, ints* dims)")
def tile(input: Tensor, dims: tuple[int, ...]) -> Tensor:
    """``repeat`` with missing leading counts taken as 1."""
    return repeat(input, (1,) * (input.a.ndim - len(dims)) + tuple(dims))


def _repeat_index(repeats: np.ndarray, n: int | None) -> np.ndarray:
    """Positions 0..n-1, each as often as ``repeats`` says."""
    check(repeats.dtype.kind == "i", RuntimeError, "repeats has to be Long or Int tensor")
    check(repeats.ndim <= 1, RuntimeError, "repeat_interleave only accept 1D vector as repeat")
    check(not (repeats < 0).any(), RuntimeError, "repeats can not be negative")
    count = repeats.size if n is None else n
    if n is not None and repeats.size == 1:
        return np.repeat(np.arange(count), int(repeats.reshape(-1)[0]))
    return np.repeat(np.arange(count), repeats)


@composite("repeat_interleave(T input, any repeats=None, dim? dim=None, *, int? output_size=None)")
def repeat_interleave(input: Tensor, repeats: Any = None, dim: int | None = None, *, output_size: Any = None) -> Tensor:
    """Each slice of ``dim`` (each element when None) repeated; with one argument the indices that do so."""
    if repeats is None:
        return constant(_repeat_index(values(input), None)).to(input.device)
    x = input.reshape(-1) if dim is None else input
    d = 0 if dim is None else wrap_dim(dim, x.a.ndim)
    n = x.a.shape[d] if x.a.ndim else 1
    if not isinstance(repeats, Tensor):
        check(to_int(repeats) >= 0, RuntimeError, f"Repeats must be non-negative, got {repeats}")
        index = np.repeat(np.arange(n), to_int(repeats))
    else:
        check(
            repeats.a.size in (1, n),
            RuntimeError,
            "repeats must have the same size as input along dim, but got "
            f"repeats.size(0) = {repeats.a.size} and input.size({d}) = {n}",
        )
        index = _repeat_index(values(repeats), n)
    if output_size is not None:
        check(
            index.size == output_size,
            RuntimeError,
            f"repeat_interleave: output_size {output_size} does not match the sum of repeats {index.size}",
        )
    return x.index_select(d, constant(index))


# ------------------------------------------------------------------------------------------ mirroring and rolling
def _distinct(dims: tuple[int, ...], ndim: int) -> tuple[int, ...]:
    got = tuple(wrap_dim(d, ndim) for d in dims)
    for i, d in enumerate(got):
        check(d not in got[:i], RuntimeError, f"dim {d} appears multiple times in the list of dims")
    return got


@op("flip(T input, ints* dims)", grad={"input": lambda g, dims: g.flip(dims)})
def flip(a: np.ndarray, dims: tuple[int, ...]) -> np.ndarray:
    """A copy with the order of elements along ``dims`` reversed."""
    dims = _distinct(dims, a.ndim)
    if a.ndim == 0:
        return a.copy()
    return a[tuple(slice(None, None, -1) if d in dims else slice(None) for d in range(a.ndim))].copy()


@composite("fliplr(T input)")
def fliplr(input: Tensor) -> Tensor:
    """Columns in reverse order. RuntimeError below two dimensions."""
    check(input.a.ndim >= 2, RuntimeError, "Input must be >= 2-d.")
    return flip(input, (1,))


@composite("flipud(T input)")
def flipud(input: Tensor) -> Tensor:
    """Rows in reverse order. RuntimeError for a 0-dim tensor."""
    check(input.a.ndim >= 1, RuntimeError, "Input must be >= 1-d.")
    return flip(input, (0,))


@op(
    "roll(T input, ints shifts, ints dims=())",
    grad={"input": lambda g, shifts, dims: g.roll(tuple(-s for s in shifts), dims)},
)
def roll(a: np.ndarray, shifts: tuple[int, ...], dims: tuple[int, ...]) -> np.ndarray:
    """A copy with elements moved cyclically; over the flattened tensor without ``dims``."""
    if not dims:
        check(len(shifts) == 1, RuntimeError, f"shifts and dimensions must align. shifts: {len(shifts)}, dims:0")
        return np.roll(a, shifts[0])
    check(
        len(shifts) == len(dims),
        RuntimeError,
        f"shifts and dimensions must align. shifts: {len(shifts)}, dims:{len(dims)}",
    )
    if a.ndim == 0:
        return a.copy()
    if len(dims) > 1:
        return np.roll(a, shifts, tuple(wrap_dim(d, a.ndim) for d in dims))
    d = wrap_dim(dims[0], a.ndim)
    n = a.shape[d]
    k = shifts[0] % n if n else 0
    head = (slice(None),) * d
    out = np.empty(a.shape, a.dtype)
    out[(*head, slice(k, None))] = a[(*head, slice(0, n - k))]
    out[(*head, slice(0, k))] = a[(*head, slice(n - k, None))]
    return out


@composite("rot90(T input, int k=1, any dims=(0, 1))", node="Rot90Backward0")
def rot90(input: Tensor, k: int = 1, dims: Any = (0, 1)) -> Tensor:
    """A copy turned by ``k`` quarter turns from the first towards the second of ``dims``."""
    dims = to_ints(dims)
    check(len(dims) == 2, RuntimeError, f"expected total rotation dims == 2, but got dims = {len(dims)}")
    check(input.a.ndim >= 2, RuntimeError, f"expected total dims >= 2, but got total dims = {input.a.ndim}")
    a, b = (wrap_dim(d, input.a.ndim) for d in dims)
    check(
        a != b, RuntimeError, f"expected rotation dims to be different, but got dim0 = {dims[0]} and dim1 = {dims[1]}"
    )
    turn = k % 4
    if turn == 2:
        return flip(input, (a, b))
    if turn == 1:
        return flip(input, (b,)).transpose(a, b)
    return flip(input, (a,)).transpose(a, b) if turn == 3 else input.clone()


# ------------------------------------------------------------------------------------------ triangles and diagonals
def _make_mask(rows: int, columns: int, diagonal: int, lower: bool) -> np.ndarray:
    below = np.tri(rows, columns, diagonal if lower else diagonal - 1, np.bool_)
    return below if lower else ~below


_small_mask = functools.lru_cache(maxsize=64)(_make_mask)


def _triangle_mask(rows: int, columns: int, diagonal: int, lower: bool) -> np.ndarray:
    """Where a matrix has its lower or upper triangle; small ones are remembered."""
    return (_small_mask if rows * columns <= 65_536 else _make_mask)(rows, columns, diagonal, lower)


def _triangle(name: str, lower: bool) -> Any:
    def kernel(a: np.ndarray, diagonal: int) -> np.ndarray:
        check(a.ndim >= 2, RuntimeError, f"{name}: input tensor must have at least 2 dimensions")
        keep = _triangle_mask(*a.shape[-2:], diagonal, lower)
        return np.where(keep, a, np.zeros((), a.dtype))

    def grad(g: Tensor, diagonal: int) -> Tensor:
        return g.tril(diagonal) if lower else g.triu(diagonal)

    kernel.__name__ = name
    kernel.__doc__ = f"The {'lower' if lower else 'upper'} triangle of the last two dimensions, zeros elsewhere."
    return op(f"{name}(T input, int diagonal=0)", inplace=True, out=True, grad={"input": grad})(kernel)


tril = _triangle("tril", True)
triu = _triangle("triu", False)


def _triangle_indices(name: str, lower: bool) -> Any:
    def indices(
        row: int, col: int, offset: int = 0, *, dtype: Any = None, device: Any = None, layout: Any = None
    ) -> Tensor:
        check(row >= 0, RuntimeError, f"row must be non-negative, got {row}")
        check(col >= 0, RuntimeError, f"col must be non-negative, got {col}")
        _need_strided(name, layout)
        mask = np.tri(row, col, offset if lower else offset - 1, np.bool_)
        got = constant(np.stack((mask if lower else ~mask).nonzero()).astype(np.int64 if dtype is None else dtype.np))
        return got if device is None else got.to(device)

    indices.__name__ = indices.__qualname__ = name
    indices.__doc__ = "Row and column numbers, shape (2, count), of the triangle of a (row, col) matrix."
    return indices


def _need_strided(name: str, layout: Any) -> None:
    check(
        layout is None or str(layout) == "torch.strided",
        RuntimeError,
        f"{name}: layout {layout} is not supported: use torch.strided",
    )


tril_indices, triu_indices = _triangle_indices("tril_indices", True), _triangle_indices("triu_indices", False)
put("torch", tril_indices=tril_indices, triu_indices=triu_indices)


@op(
    "diag_embed(T input, int offset=0, int dim1=-2, int dim2=-1)",
    grad={"input": lambda g, offset, dim1, dim2: g.diagonal(offset, dim1, dim2)},
)
def diag_embed(a: np.ndarray, offset: int, dim1: int, dim2: int) -> np.ndarray:
    """Matrices in dims ``dim1`` and ``dim2`` with the last dimension of ``input`` on their diagonal."""
    n = a.ndim + 1
    d1, d2 = wrap_dim(dim1, n), wrap_dim(dim2, n)
    check(d1 != d2, RuntimeError, f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    size = a.shape[-1] + abs(offset)
    shape = list(a.shape[:-1])
    for d in sorted((d1, d2)):
        shape.insert(d, size)
    out = np.zeros(shape, a.dtype)
    v = out.diagonal(offset, d1, d2)
    v.flags.writeable = True
    v[...] = a
    return out


@composite("diag(T input, int diagonal=0)", out=True)
def diag(input: Tensor, diagonal: int = 0) -> Tensor:
    """A diagonal matrix from a vector, or the diagonal of a matrix as a new vector."""
    check(
        input.a.ndim in (1, 2),
        RuntimeError,
        f"diag(): Supports 1D or 2D tensors. Got {input.a.ndim}D",
    )
    return diag_embed(input, diagonal) if input.a.ndim == 1 else input.diagonal(diagonal).clone()


@composite("diagflat(T input, int offset=0)")
def diagflat(input: Tensor, offset: int = 0) -> Tensor:
    """A diagonal matrix from all elements."""
    return diag_embed(input.reshape(-1), offset)


# ------------------------------------------------------------------------------------------ re-arranging
@composite("flatten(T input, int start_dim=0, int end_dim=-1)")
def flatten(input: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """Dimensions ``start_dim`` to ``end_dim`` made one (a view when strides allow)."""
    shape = input.a.shape
    n = len(shape)
    if n == 0:
        wrap_dim(start_dim, 0)
        wrap_dim(end_dim, 0)
        return input.reshape(1)
    s, e = wrap_dim(start_dim, n), wrap_dim(end_dim, n)
    if s == e:
        return input
    check(s < e, RuntimeError, "flatten() has invalid args: start_dim cannot come after end_dim")
    return (_view if input.a.flags.c_contiguous else _reshape)(
        input, (*shape[:s], math.prod(shape[s : e + 1]), *shape[e + 1 :])
    )


@composite("unflatten(T input, dim dim, any sizes)")
def unflatten(input: Tensor, dim: int, sizes: Any) -> Tensor:
    """Dimension ``dim`` split into ``sizes``, one of which may be -1."""
    sizes = to_ints(sizes)
    check(sizes, RuntimeError, "unflatten: sizes must be non-empty")
    d = wrap_dim(dim, input.a.ndim)
    n = input.a.shape[d]
    known = math.prod(s for s in sizes if s != -1)
    fits = known and n % known == 0 if -1 in sizes else known == n
    check(
        fits,
        RuntimeError,
        f"unflatten: Provided sizes {list(sizes)} don't multiply up to the size of dim {d} ({n}) in the input tensor",
    )
    sizes = tuple(n // known if s == -1 else s for s in sizes)
    return input.view((*input.a.shape[:d], *sizes, *input.a.shape[d + 1 :]))


@composite("view_as(T input, T other)", ns="Tensor")
def view_as(input: Tensor, other: Tensor) -> Tensor:
    """``input`` seen with the shape of ``other``."""
    return input.view(other.a.shape)


@composite("reshape_as(T input, T other)", ns="Tensor")
def reshape_as(input: Tensor, other: Tensor) -> Tensor:
    """``input`` with the shape of ``other``; a copy only when a view cannot be had."""
    return input.reshape(other.a.shape)


@composite("expand_as(T input, T other)", ns="Tensor")
def expand_as(input: Tensor, other: Tensor) -> Tensor:
    """A view of ``input`` expanded to the shape of ``other``."""
    return input.expand(other.a.shape)


@composite("ravel(T input)")
def ravel(input: Tensor) -> Tensor:
    """All elements in one dimension, contiguous."""
    return input.contiguous().view(-1)


@composite("movedim(T input, any source, any destination)")
def movedim(input: Tensor, source: Any, destination: Any) -> Tensor:
    """A view with dimensions ``source`` moved to ``destination``."""
    source, destination = to_ints(source), to_ints(destination)
    check(
        len(source) == len(destination),
        RuntimeError,
        f"movedim: Invalid source or destination dims: source ({list(source)} dims) should contain the same number of "
        f"dims as destination ({list(destination)} dims)",
    )
    n = input.a.ndim
    src, dst = [wrap_dim(d, n) for d in source], [wrap_dim(d, n) for d in destination]
    check(len(set(src)) == len(src), RuntimeError, f"movedim: repeated dim in `source` ({list(source)})")
    check(len(set(dst)) == len(dst), RuntimeError, f"movedim: repeated dim in `destination` ({list(destination)})")
    if n == 0:
        return input.view(())
    order = [-1] * n
    for s, d in zip(src, dst):
        order[d] = s
    rest = iter([d for d in range(n) if d not in src])
    return input.permute(tuple(next(rest) if d < 0 else d for d in order))


alias("moveaxis", "movedim")
alias("swapaxes(T input, dim axis0, dim axis1)", _transpose)
alias("swapdims(T input, dim dim0, dim dim1)", _transpose)


def _axis_split(name: str, least: int, axis: Any) -> Any:
    def split(input: Tensor, indices_or_sections: Any) -> tuple[Tensor, ...]:
        n = input.a.ndim
        check(
            n >= least,
            RuntimeError,
            f"torch.{name} requires a tensor with at least {least} dimension{'s' if least > 1 else ''}, but got a tensor "
            f"with {n} dimensions!",
        )
        d = axis(n)
        if isinstance(indices_or_sections, int):
            check(
                indices_or_sections > 0 and input.a.shape[d] % indices_or_sections == 0,
                RuntimeError,
                f"torch.{name} attempted to split along dimension {d}, but the size of the dimension {input.a.shape[d]} "
                f"is not divisible by the split_size {indices_or_sections}!",
            )
        return input.tensor_split(indices_or_sections, d)

    split.__name__ = name
    split.__doc__ = "Views of equal parts (int), or parts cut at the given positions."
    return composite(f"{name}(T input, any indices_or_sections)")(split)


hsplit = _axis_split("hsplit", 1, lambda n: 0 if n == 1 else 1)
vsplit = _axis_split("vsplit", 2, lambda n: 0)
dsplit = _axis_split("dsplit", 3, lambda n: 2)


@composite("narrow_copy(T input, dim dim, int start, int length)", out=True)
def narrow_copy(input: Tensor, dim: int, start: int, length: int) -> Tensor:
    """A copy of ``narrow``."""
    return input.narrow(dim, start, length).clone()


@composite("unsafe_split(T tensor, int split_size, dim dim=0)")
def unsafe_split(tensor: Tensor, split_size: int, dim: int = 0) -> tuple[Tensor, ...]:
    """``split`` whose parts share memory unseen: writes to them are not followed by the graph."""
    return unsafe_parts(tensor, tuple(t.a.shape[dim] for t in tensor.split(split_size, dim)), dim)


@composite("unsafe_split_with_sizes(T input, any split_sizes, dim dim=0)")
def unsafe_split_with_sizes(input: Tensor, split_sizes: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """``split_with_sizes`` whose parts share memory unseen: writes to them are not followed by the graph."""
    return unsafe_parts(input, tuple(t.a.shape[dim] for t in input.split_with_sizes(split_sizes, dim)), dim)


@composite("unsafe_chunk(T input, int chunks, dim dim=0)")
def unsafe_chunk(input: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """``chunk`` whose parts share memory unseen: writes to them are not followed by the graph."""
    return unsafe_parts(input, tuple(t.a.shape[dim] for t in input.chunk(chunks, dim)), dim)
