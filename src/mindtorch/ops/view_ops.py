"""Views: results that share memory with their input. Kernels return NumPy views; ``reshape`` copies when it has to."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from mindtorch.core import modes
from mindtorch.core.errors import check, wrap_dim
from mindtorch.core.tape import sum_to
from mindtorch.core.tensor import Tensor
from mindtorch.engine.host.quiet import EXTOBJ as E
from mindtorch.ops.table import composite, op, put, view


def infer_size(size: tuple[int, ...], n: int, what: str = "shape") -> tuple[int, ...]:
    """``size`` with its -1 filled in for ``n`` elements. RuntimeError as ``view`` and ``reshape`` raise it."""
    known, at = 1, -1
    for i, s in enumerate(size):
        if s == -1:
            check(at < 0, RuntimeError, "only one dimension can be inferred")
            at = i
        else:
            check(s >= 0, RuntimeError, f"invalid {what} dimension {s}")
            known *= s
    if at < 0:
        check(known == n, RuntimeError, f"shape '{list(size)}' is invalid for input of size {n}")
        return tuple(size)
    if known == 0:
        check(n == 0, RuntimeError, f"shape '{list(size)}' is invalid for input of size {n}")
        raise RuntimeError(
            f"cannot reshape tensor of 0 elements into shape {list(size)} because the unspecified dimension size -1 can "
            "be any value and is ambiguous"
        )
    check(n % known == 0, RuntimeError, f"shape '{list(size)}' is invalid for input of size {n}")
    return (*size[:at], n // known, *size[at + 1 :])


def view_array(a: np.ndarray, size: tuple[int, ...]) -> np.ndarray | None:
    """``a`` seen with another shape without a copy, or None when its strides do not allow that."""
    if a.flags.c_contiguous or a.size == 0:
        return a.reshape(size)
    try:
        r = a[...]
        r.shape = size
        return r
    except AttributeError:
        return None


@view("_view(T input, ints size)", ns="_C", node="ViewBackward0", grad={"input": lambda g, input_shape: g.reshape(input_shape)})
def _view(a: np.ndarray, size: tuple[int, ...]) -> np.ndarray:
    if a.flags.c_contiguous:
        try:
            return a.reshape(size)
        except ValueError:
            return a.reshape(infer_size(size, a.size))
    r = view_array(a, infer_size(size, a.size))
    if r is None:
        raise RuntimeError(
            "view size is not compatible with input tensor's size and stride (at least one dimension spans across two "
            "contiguous subspaces). Use .reshape(...) instead."
        )
    return r


def view_method(input: Any, *size: Any, dtype: Any = None) -> Any:
    """The same memory with another shape (``view(*size)``) or element type (``view(dtype)``)."""
    if size and size[0].__class__ is int and dtype is None:
        return _view(input, size)
    if dtype is not None or (len(size) == 1 and size[0].__class__.__name__ == "dtype"):
        return _view_dtype(input, dtype if dtype is not None else size[0])
    if len(size) == 1 and isinstance(size[0], (tuple, list)):
        return _view(input, tuple(size[0]))
    check(len(size) > 0 or input.a.size == 1, TypeError, "view() received an invalid combination of arguments: no size")
    return _view(input, size)


@view("_view_dtype(T input, dtype dtype)", ns="_C", node="ViewBackward1")
def _view_dtype(a: np.ndarray, dtype: Any) -> np.ndarray:
    d = dtype.np
    if a.itemsize == d.itemsize:
        return a.view(d)
    check(
        a.ndim > 0 and (a.shape[-1] <= 1 or a.strides[-1] == a.itemsize),
        RuntimeError,
        "self.stride(-1) must be 1 to view a tensor as a dtype of another size",
    )
    check(
        (a.shape[-1] * a.itemsize) % d.itemsize == 0,
        RuntimeError,
        f"self.size(-1) must be divisible by {d.itemsize // max(a.itemsize, 1)} to view as {dtype}, but got {a.shape[-1]}",
    )
    return a.view(d)


@op("_reshape_copy(T input, ints size)", ns="_C", node="ReshapeBackward0", grad={"input": lambda g, input_shape: g.reshape(input_shape)})
def _reshape_copy(a: np.ndarray, size: tuple[int, ...]) -> np.ndarray:
    return np.array(a.reshape(size), copy=True, order="C")


@composite("reshape(T input, ints* shape)")
def reshape(input: Any, shape: tuple[int, ...]) -> Any:
    """Another shape: a view when strides allow it, else a copy."""
    a = input.a
    if a.flags.c_contiguous:
        return _view(input, shape)
    size = infer_size(shape, a.size)
    return _view(input, size) if view_array(a, size) is not None else _reshape_copy(input, size)


put("Tensor", view=view_method)


# ------------------------------------------------------------------------------------------ order of dimensions
@view(
    "transpose(T input, dim dim0, dim dim1)",
    inplace=False,
    grad={"input": lambda g, dim0, dim1: g.transpose(dim0, dim1)},
)
def transpose(a: np.ndarray, dim0: int, dim1: int) -> np.ndarray:
    """Swap two dimensions."""
    if a.ndim == 0:
        return a[...]
    return a.swapaxes(dim0, dim1)




def _unpermute(g: Any, dims: tuple[int, ...]) -> Any:
    n = len(dims)
    back = [0] * n
    for i, d in enumerate(dims):
        back[d % n] = i
    return g.permute(tuple(back))


@view("permute(T input, ints* dims)", grad={"input": _unpermute})
def permute(a: np.ndarray, dims: tuple[int, ...]) -> np.ndarray:
    """Reorder all dimensions."""
    check(
        len(dims) == a.ndim,
        RuntimeError,
        f"permute(sparse_coo): number of dimensions in the tensor input does not match the length of the desired ordering "
        f"of dimensions i.e. input.dim() = {a.ndim} is not equal to len(dims) = {len(dims)}",
    )
    seen = {wrap_dim(d, a.ndim) for d in dims}
    check(len(seen) == len(dims), RuntimeError, "permute(): duplicate dims are not allowed.")
    return a.transpose(dims) if dims else a[...]


@view("t(T input)", grad={"input": lambda g: g.t()}, node="TBackward0")
def t(a: np.ndarray) -> np.ndarray:
    """Transpose of a matrix; vectors and scalars stay as they are."""
    check(a.ndim <= 2, RuntimeError, f"t() expects a tensor with <= 2 dimensions, but self is {a.ndim}D")
    return a.T


@view("_T(T input)", ns="_C", node="PermuteBackward0", grad={"input": lambda g: g.permute(tuple(range(g.ndim))[::-1])})
def _T(a: np.ndarray) -> np.ndarray:
    return a.T


def _mT(x: Any) -> Any:
    """Transpose of the last two dimensions."""
    check(x.a.ndim >= 2, RuntimeError, f"tensor.mT is only supported on matrices or batches of matrices. Got {x.a.ndim}-D tensor.")
    return transpose(x, -2, -1)


def _H(x: Any) -> Any:
    check(x.a.ndim in (0, 2), RuntimeError, f"tensor.H is only supported on matrices (2-D tensors). Got {x.a.ndim}-D tensor.")
    return x.mH if x.a.ndim else x.conj()


put(
    "Tensor",
    T=property(lambda x: _T(x)),
    mT=property(_mT),
    mH=property(lambda x: _mT(x).conj()),
    H=property(_H),
    adjoint=lambda x: _mT(x).conj(),
)
put("torch", adjoint=lambda input: _mT(input).conj())


# ------------------------------------------------------------------------------------------ size-one dimensions
@view("unsqueeze(T input, int dim)", grad={"input": lambda g, input_shape: g.reshape(input_shape)})
def unsqueeze(a: np.ndarray, dim: int) -> np.ndarray:
    """Insert a dimension of size one at ``dim`` (range -ndim-1 .. ndim)."""
    n = a.ndim + 1
    if not -n <= dim < n:
        raise IndexError(f"Dimension out of range (expected to be in range of [{-n}, {n - 1}], but got {dim})")
    if dim < 0:
        dim += n
    if dim == 0:
        return a[None]
    return a[(slice(None),) * dim + (None,)]


@view(
    "_squeeze(T input, dims? dim)",
    ns="_C",
    node="SqueezeBackward0",
    nodes={"dim is not None and len(dim) == 1": "SqueezeBackward1", "dim is not None": "SqueezeBackward2"},
    grad={"input": lambda g, input_shape: g.reshape(input_shape)},
)
def _squeeze(a: np.ndarray, dim: tuple[int, ...] | None) -> np.ndarray:
    if dim is None:
        return a.squeeze() if 1 in a.shape else a[...]
    dims = tuple(d for d in {wrap_dim(d, a.ndim) for d in dim} if a.ndim and a.shape[d] == 1)
    return a.squeeze(dims) if dims else a[...]


@composite("squeeze(T input, any dim=None)")
def squeeze(input: Any, dim: Any = None) -> Any:
    """Drop dimensions of size one (all of them, or those in ``dim``)."""
    return _squeeze(input, dim)


@view("expand(T input, ints* size)", ns="Tensor", grad={"input": lambda g, input_shape: sum_to(g, input_shape)})
def expand(a: np.ndarray, size: tuple[int, ...]) -> np.ndarray:
    """Repeat size-one dimensions without a copy; -1 keeps a size. The result must not be written to."""
    if len(size) < a.ndim:
        raise RuntimeError(
            f"expand(): the number of sizes provided ({len(size)}) must be greater or equal to the number of dimensions in "
            f"the tensor ({a.ndim})"
        )
    shape, strides = _expanded(a.shape, a.strides, size)
    try:
        r = np.ndarray(shape, a.dtype, a, 0, strides)
    except (ValueError, TypeError):
        r = np.lib.stride_tricks.as_strided(a, shape, strides)
    if r.size > a.size:
        r.flags.writeable = False
    return r


@lru_cache(maxsize=1024)
def _expanded(own: tuple[int, ...], steps: tuple[int, ...], size: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Shape and strides of an array of shape ``own`` and strides ``steps`` expanded to ``size``."""
    lead = len(size) - len(own)
    have_shape, have_strides = (1,) * lead + own, (0,) * lead + steps
    shape, strides = list(size), []
    for i, (s, have, step) in enumerate(zip(size, have_shape, have_strides)):
        if s == have:
            strides.append(step)
        elif have == 1 and s >= 0:
            strides.append(0)
        elif s == -1 and i >= lead:
            shape[i] = have
            strides.append(step)
        else:
            raise RuntimeError(
                f"The expanded size of the tensor ({s}) must match the existing size ({have}) at non-singleton dimension "
                f"{i}.  Target sizes: {list(size)}.  Tensor sizes: {list(own)}"
            )
    return tuple(shape), tuple(strides)


# ------------------------------------------------------------------------------------------ parts
def _slice_back(g: Any, index: Any, input_shape: Any) -> Any:
    return _slice_backward(g, input_shape, index)


@op("_slice_backward(T input, any shape, any index)", ns="_C", grad={"input": lambda g, index: _part(g, index)})
def _slice_backward(a: np.ndarray, shape: tuple[int, ...], index: Any) -> np.ndarray:
    """Zeros of ``shape`` with ``a`` at ``index``."""
    z = np.zeros(shape, a.dtype)
    z[index] = a
    return z


@view("_part(T input, any index)", ns="_C", node="SliceBackward0", grad={"input": _slice_back})
def _part(a: np.ndarray, index: Any) -> np.ndarray:
    """Basic indexing: integers, slices, None, Ellipsis."""
    r = a[index]
    if r.__class__ is not np.ndarray:
        r = a[(*index, ...)] if index.__class__ is tuple else a[index, ...]
    return r


@view("_select(T input, any index)", ns="_C", node="SelectBackward0", grad={"input": _slice_back})
def _select(a: np.ndarray, index: Any) -> np.ndarray:
    """``input[:, ..., i]``: one integer after whole dimensions."""
    r = a[index]
    return r if r.__class__ is np.ndarray else a[(*index, ...)]


@view("_pick(T input, any index)", ns="_C", node="SelectBackward0", grad={"input": _slice_back})
def _pick(a: np.ndarray, index: int) -> np.ndarray:
    """``input[index]`` for one integer."""
    r = a[index]
    return r if r.__class__ is np.ndarray else a[index, ...]


@composite("select(T input, dim dim, int index)")
def select(input: Any, dim: int, index: int) -> Any:
    """``input`` at ``index`` of ``dim``, that dimension dropped."""
    a = input.a
    check(a.ndim > 0, IndexError, "select() cannot be applied to a 0-dim tensor.")
    dim = wrap_dim(dim, a.ndim)
    n = a.shape[dim]
    index = int(index)
    check(
        -n <= index < n,
        IndexError,
        f"select(): index {index} out of range for tensor of size {list(a.shape)} at dimension {dim}",
    )
    return _select(input, (slice(None),) * dim + (index,)) if dim else _pick(input, index)


@composite("narrow(T input, dim dim, any start, int length)")
def narrow(input: Any, dim: int, start: Any, length: int) -> Any:
    """``length`` entries of ``dim`` from ``start``."""
    a = input.a
    check(a.ndim > 0, RuntimeError, "narrow() cannot be applied to a 0-dim tensor.")
    dim = wrap_dim(dim, a.ndim)
    n = a.shape[dim]
    start = int(start)
    check(length >= 0, RuntimeError, "narrow(): length must be non-negative.")
    check(-n <= start <= n, IndexError, f"start out of range (expected to be in range of [{-n}, {n}], but got {start})")
    start = start + n if start < 0 else start
    check(start + length <= n, RuntimeError, f"start ({start}) + length ({length}) exceeds dimension size ({n}).")
    return _part(input, (slice(None),) * dim + (slice(start, start + length),))


def _diag_index(a: np.ndarray, offset: int, dim1: int, dim2: int) -> np.ndarray:
    return np.diagonal(a, offset, dim1, dim2)


@op(
    "_diagonal_backward(T input, any shape, int offset, int dim1, int dim2)",
    ns="_C",
    grad={"input": lambda g, offset, dim1, dim2: g.diagonal(offset, dim1, dim2)},
)
def _diagonal_backward(a: np.ndarray, shape: Any, offset: int, dim1: int, dim2: int) -> np.ndarray:
    z = np.zeros(shape, a.dtype)
    d = _diag_index(z, offset, dim1, dim2)
    d.flags.writeable = True
    d[...] = a
    return z


@view(
    "diagonal(T input, int offset=0, dim dim1=0, dim dim2=1)",
    grad={"input": lambda g, input_shape, offset, dim1, dim2: _diagonal_backward(g, input_shape, offset, dim1, dim2)},
)
def diagonal(a: np.ndarray, offset: int, dim1: int, dim2: int) -> np.ndarray:
    """Diagonal of two dimensions as a last dimension, sharing memory."""
    d1, d2 = wrap_dim(dim1, a.ndim), wrap_dim(dim2, a.ndim)
    check(d1 != d2, RuntimeError, f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    r = _diag_index(a, offset, d1, d2)
    r.flags.writeable = a.flags.writeable
    return r


# ------------------------------------------------------------------------------------------ several views
def _stack_back(g: Any, dim: int, input_shape: Any, input_dtype: Any) -> Any:
    from mindtorch.ops.create import zeros
    from mindtorch.ops.shape import stack

    dim = wrap_dim(dim, len(input_shape))
    part = input_shape[:dim] + input_shape[dim + 1 :]
    g = g if isinstance(g, (tuple, list)) else (g,)  # one output: its gradient comes bare
    return stack([zeros(part, dtype=input_dtype) if x is None else x for x in g], dim)


@view("unbind(T input, dim dim=0)", grad={"input": _stack_back})
def unbind(a: np.ndarray, dim: int = 0) -> tuple[np.ndarray, ...]:
    """Tuple of views along ``dim``, that dimension dropped."""
    check(a.ndim > 0, RuntimeError, "Dimension specified as 0 but tensor has no dimensions")
    dim = wrap_dim(dim, a.ndim)
    lead = (slice(None),) * dim
    return tuple(a[(*lead, i, ...)] for i in range(a.shape[dim]))


def _cat_back(g: Any, sizes: tuple[int, ...], dim: int, input_shape: Any, input_dtype: Any) -> Any:
    from mindtorch.ops.create import zeros
    from mindtorch.ops.shape import cat

    dim = wrap_dim(dim, len(input_shape))
    parts = []
    g = g if isinstance(g, (tuple, list)) else (g,)  # one output: its gradient comes bare
    for x, n in zip(g, sizes):
        shape = (*input_shape[:dim], n, *input_shape[dim + 1 :])
        parts.append(zeros(shape, dtype=input_dtype) if x is None else x)
    return cat(parts, dim)


@view("_split(T input, ints sizes, dim dim)", ns="_C", node="SplitBackward0", grad={"input": _cat_back})
def _split(a: np.ndarray, sizes: tuple[int, ...], dim: int) -> tuple[np.ndarray, ...]:
    dim = wrap_dim(dim, a.ndim)
    lead = (slice(None),) * dim
    out, at = [], 0
    for n in sizes:
        out.append(a[(*lead, slice(at, at + n))])
        at += n
    return tuple(out)


_split_sizes = view(
    "_split_sizes(T input, ints sizes, dim dim)", ns="_C", node="SplitWithSizesBackward0", grad={"input": _cat_back}
)(_split.row.kernel)
unsafe_parts = op(
    "_unsafe_parts(T input, ints sizes, dim dim)", ns="_C", node="UnsafeSplitBackward0", grad={"input": _cat_back}
)(_split.row.kernel)


@composite("split_with_sizes(T input, ints split_sizes, dim dim=0)")
def split_with_sizes(input: Any, split_sizes: Any, dim: int = 0) -> Any:
    """Views of the given sizes along ``dim``; the sizes must add up to that dimension."""
    dim = wrap_dim(dim, input.a.ndim)
    n = input.a.shape[dim]
    sizes = tuple(int(s) for s in split_sizes)
    check(
        sum(sizes) == n and all(s >= 0 for s in sizes),
        RuntimeError,
        f"split_with_sizes expects split_sizes to sum exactly to {n} (input tensor's size at dimension {dim}), but got "
        f"split_sizes={list(sizes)}",
    )
    return _split_sizes(input, sizes, dim)


@composite("split(T tensor, any split_size_or_sizes, dim dim=0)")
def split(tensor: Any, split_size_or_sizes: Any, dim: int = 0) -> Any:
    """Chunks of one size (the last may be smaller) or of the sizes listed."""
    size = split_size_or_sizes
    if isinstance(size, (list, tuple)):
        return split_with_sizes(tensor, size, dim)
    size = int(size)
    check(tensor.a.ndim > 0, RuntimeError, "split expects at least a 1-dimensional tensor")
    dim = wrap_dim(dim, tensor.a.ndim)
    n = tensor.a.shape[dim]
    check(size >= 0, RuntimeError, f"split expects split_size be non-negative, but got split_size={size}")
    check(size > 0 or n == 0, RuntimeError, f"split_size can only be 0 if dimension size is 0, but got dimension size of {n}")
    count = max((n + size - 1) // size, 1) if size else 1
    sizes = [size] * count
    sizes[-1] = n - size * (count - 1)
    return _split(tensor, tuple(sizes), dim)


@composite("chunk(T input, int chunks, dim dim=0)")
def chunk(input: Any, chunks: int, dim: int = 0) -> Any:
    """At most ``chunks`` views of equal size along ``dim`` (the last may be smaller)."""
    check(input.a.ndim > 0, RuntimeError, "chunk expects at least a 1-dimensional tensor")
    check(chunks > 0, RuntimeError, f"chunk expects `chunks` to be greater than 0, got: {chunks}")
    dim = wrap_dim(dim, input.a.ndim)
    n = input.a.shape[dim]
    size = (n + chunks - 1) // chunks
    if size == 0:
        return _split(input, (0,) * chunks, dim)
    return split(input, size, dim)


@composite("tensor_split(T input, any indices_or_sections, dim dim=0)")
def tensor_split(input: Any, indices_or_sections: Any, dim: int = 0) -> Any:
    """Split into n nearly equal parts, or before the indices listed."""
    check(input.a.ndim > 0, RuntimeError, "tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 dims")
    dim = wrap_dim(dim, input.a.ndim)
    n = input.a.shape[dim]
    at = indices_or_sections
    if isinstance(at, Tensor):
        at = at.tolist()
    if isinstance(at, int):
        check(at > 0, RuntimeError, f"number of sections must be larger than 0, got {at}")
        base, extra = divmod(n, at)
        ends = [0]
        for i in range(at):
            ends.append(ends[-1] + base + (i < extra))
        at = ends[1:-1]
    bounds = [slice(None, int(i)).indices(n)[1] for i in at]
    starts = [0, *bounds]
    sizes = tuple(max(e - s, 0) for s, e in zip(starts, [*bounds, n]))
    lead = (slice(None),) * dim
    return tuple(_part(input, (*lead, slice(s, s + k))) for s, k in zip(starts, sizes))


# ------------------------------------------------------------------------------------------ complex and detached
@view("view_as_real(T input)", ns="torch", grad={"input": lambda g: view_as_complex(g.contiguous())})
def view_as_real(a: np.ndarray) -> np.ndarray:
    """Real and imaginary parts as a last dimension of two, sharing memory."""
    check(a.dtype.kind == "c", RuntimeError, "view_as_real is only supported for complex tensors")
    part = a.real.dtype
    return np.lib.stride_tricks.as_strided(a.real, (*a.shape, 2), (*a.strides, part.itemsize))


@view("view_as_complex(T input)", ns="torch", grad={"input": lambda g: view_as_real(g.contiguous())})
def view_as_complex(a: np.ndarray) -> np.ndarray:
    """A last dimension of two seen as complex numbers, sharing memory."""
    check(a.dtype.kind == "f", RuntimeError, f"view_as_complex is only supported for floating point tensors, but got a tensor of scalar type: {a.dtype}")
    check(a.ndim > 0, RuntimeError, "Input tensor must have one or more dimensions")
    check(a.shape[-1] == 2, RuntimeError, "Tensor must have a last dimension of size 2")
    check(a.strides[-1] == a.itemsize, RuntimeError, "Tensor must have a last dimension with stride 1")
    return a.view(np.complex64 if a.itemsize == 4 else np.complex128)[..., 0]


@op("_complex_of(T input, bool imaginary)", ns="_C",
    grad={"input": lambda g, imaginary: g.imag if imaginary else g.real})  # fmt: skip
def _complex_of(a: np.ndarray, imaginary: bool) -> np.ndarray:
    return (a * 1j).astype(np.complex64 if a.itemsize == 4 else np.complex128) if imaginary else a.astype(
        np.complex64 if a.itemsize == 4 else np.complex128
    )


@view("_real(T input)", ns="_C", node="RealBackward0", grad={"input": lambda g: _complex_of(g, False)})
def _real(a: np.ndarray) -> np.ndarray:
    return a.real


@view("_imag(T input)", ns="_C", node="ImagBackward0", grad={"input": lambda g: _complex_of(g, True)})
def _imag(a: np.ndarray) -> np.ndarray:
    check(a.dtype.kind == "c", RuntimeError, "imag is not implemented for tensors with non-complex dtypes.")
    return a.imag


def real(input: Any) -> Any:
    """The real part: a view of a complex tensor, the tensor itself otherwise."""
    return _real(input) if input.k.cat == 3 else input


def imag(input: Any) -> Any:
    """The imaginary part, a view. RuntimeError for real tensors."""
    return _imag(input)


def _set_part(get: Any) -> Any:
    def setter(x: Any, v: Any) -> None:
        get(x)[...] = v

    return setter


put("torch", real=real, imag=imag)
put("Tensor", real=property(real, _set_part(real)), imag=property(imag, _set_part(imag)))


@op("_conj(T input)", ns="_C", node="ConjBackward0", grad={"input": lambda g: g.conj()})
def _conj(a: np.ndarray) -> Any:
    return np.conjugate(a, extobj=E)


def conj(input: Any) -> Any:
    """Complex conjugate (computed at once: ``is_conj()`` is always False here); real tensors are returned as they are."""
    return _conj(input) if input.k.cat == 3 else input


put("torch Tensor", conj=conj)
put("torch Tensor", is_conj=lambda input: False, is_neg=lambda input: False)


def detach(x: Any) -> Any:
    """The same memory without history; writes to either are seen by the version check of both."""
    from mindtorch.core.tensor import cell_of, new

    if modes.NS["MODE"] or not x.k.plain:
        from mindtorch.core import overrides

        if overrides.wanted((x,)):
            r = overrides.call(detach, (x,), {})
            if r is not NotImplemented:
                return r
    t = new()
    t.a, t.k, t.v, t.n = x.a, x.k, cell_of(x), None
    return t


put("torch Tensor", detach=detach)
