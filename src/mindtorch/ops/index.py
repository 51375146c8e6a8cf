"""Reading and writing through index tensors: select, gather, take, scatter, index_*, masked_*, *_scatter."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mindtorch.core.errors import check, wrap_dim
from mindtorch.core.tape import sum_to
from mindtorch.core.tensor import Tensor, constant, values
from mindtorch.core.writable import check_disjoint
from mindtorch.engine.host import index as K
from mindtorch.engine.host.pointwise import scalar_name
from mindtorch.log import ignored as _ignored
from mindtorch.ops.table import composite, op, vjp


def _zeros(x: Tensor) -> Tensor:
    return x.new_zeros(x.shape)


# ------------------------------------------------------------------------------------------ reading
index_select = op(
    "index_select(T input, dim dim, T index)",
    out=True,
    grad=dict(input=lambda g, input_shape, dim, index: g.new_zeros(input_shape).index_add(dim, index, g)),
)(K.index_select)


@op(
    "gather(T input, dim dim, T index, *, bool sparse_grad=False)",
    out=True,
    keeps=("input",),
    grad=dict(input=lambda g, input_shape, dim, index: g.new_zeros(input_shape).scatter_add(dim, index, g)),
)
def gather(a: np.ndarray, dim: int, index: np.ndarray, sparse_grad: bool = False) -> np.ndarray:
    """Elements of ``input`` picked along ``dim``; the gradient is dense whatever ``sparse_grad`` says."""
    if sparse_grad:
        _ignored("gather", "sparse_grad", "gradients are dense")
    return K.gather(a, dim, index)


take = op(
    "take(T input, T index)",
    out=True,
    keeps=("input",),
    grad=dict(input=lambda g, input_shape, index: g.new_zeros(input_shape).put(index, g, accumulate=True)),
)(K.take)


@composite("take_along_dim(T input, T indices, dim? dim=None)", out=True)
def take_along_dim(input: Tensor, indices: Tensor, dim: int | None = None) -> Tensor:
    """``gather`` after broadcasting both outside ``dim``, where indices wrap around; flattened when ``dim`` is None."""
    check(
        indices.a.dtype == np.int64,
        RuntimeError,
        f"torch.take_along_dim(): dtype of indices should be Long but got {scalar_name(indices.a.dtype)}",
    )
    if dim is None:
        return input.reshape(-1).gather(0, indices.reshape(-1))
    check(
        input.ndim == indices.ndim,
        RuntimeError,
        "torch.take_along_dim(): input and indices should have the same number of dimensions, but got "
        f"{input.ndim} dimensions for input, and {indices.ndim} dimensions for indices",
    )
    d = wrap_dim(dim, input.ndim)
    shape = list(np.broadcast_shapes(*(s[:d] + (1,) + s[d + 1 :] for s in (input.a.shape, indices.a.shape))))
    source, index = list(shape), list(shape)
    source[d], index[d] = input.a.shape[d], indices.a.shape[d]
    return input.expand(source).gather(d, (indices % max(1, input.a.shape[d])).expand(index))


def _masked_select_grad(g: Tensor, input_shape: tuple[int, ...], mask: Tensor) -> Tensor:
    shape = np.broadcast_shapes(input_shape, mask.a.shape)
    return sum_to(g.new_zeros(shape).masked_scatter(mask.expand(shape), g), input_shape)


masked_select = op(
    "masked_select(T input, T mask)",
    out=True,
    keeps=("input",),
    grad=dict(input=lambda g, input_shape, mask: _masked_select_grad(g, input_shape, mask)),
)(K.masked_select)
_nonzero = op("_nonzero(T input)", ns="_C")(K.nonzero)


@composite("nonzero(T input, *, bool as_tuple=False)", out=True)
def nonzero(input: Tensor, *, as_tuple: bool = False) -> Any:
    """Positions of non-zero elements: int64 of shape (count, ndim), or one 1-d tensor a dimension."""
    if not as_tuple:
        return _nonzero(input)
    if input.a.ndim == 0:
        input = input.unsqueeze(0)
    return tuple(_nonzero(input).unbind(1))


@composite("nonzero_static(T input, *, int size, int fill_value=-1)", out=True)
def nonzero_static(input: Tensor, *, size: int, fill_value: int = -1) -> Tensor:
    """``nonzero`` cut or filled up with ``fill_value`` to ``size`` rows."""
    check(size >= 0, RuntimeError, f"nonzero_static: 'size' must be an non-negative integer, got {size}")
    found = _nonzero(input)
    made = found.new_full((size, input.a.ndim), fill_value)
    rows = min(size, found.a.shape[0])
    return made.slice_scatter(found[:rows], 0, 0, rows)


@composite("argwhere(T input)")
def argwhere(input: Tensor) -> Tensor:
    """Positions of non-zero elements, shape (count, ndim)."""
    return _nonzero(input)


# ------------------------------------------------------------------------------------------ scatter
_scatter_src = op(
    "scatter_src(T input, dim dim, T index, T src)",
    ns="_C",
    node="ScatterBackward0",
    grad=dict(
        input=lambda g, dim, index: g.scatter(dim, index, 0),
        src=lambda g, dim, index: g.gather(dim, index),
    ),
)(lambda a, dim, i, src: K.scatter(a, dim, i, src, None))
_scatter_value = op(
    "scatter_value(T input, dim dim, T index, N value)",
    ns="_C",
    node="ScatterBackward1",
    grad=dict(input=lambda g, dim, index: g.scatter(dim, index, 0)),
)(lambda a, dim, i, value: K.scatter(a, dim, i, None, value))
_scatter_op = op("scatter_op(T input, dim dim, T index, T src, str reduce)", ns="_C", node="ScatterBackward2")(
    lambda a, dim, i, src, reduce: K.scatter_reduce(a, dim, i, src, reduce, True, "scatter")
)
_REDUCE = {"add": "sum", "multiply": "prod"}


def _scatter(input: Tensor, dim: int, index: Tensor, src: Any, reduce: str | None) -> Tensor:
    tensor = isinstance(src, Tensor)
    if reduce is None:
        return _scatter_src(input, dim, index, src) if tensor else _scatter_value(input, dim, index, src)
    check(reduce in _REDUCE, RuntimeError, f"reduce argument must be either add or multiply, got {reduce!r}.")
    if not tensor:
        src = input.new_full(index.shape, src)
    return _scatter_op(input, dim, index, src, _REDUCE[reduce])


@composite("scatter(T input, dim dim, T index, TN src=None, *, N value=None, str? reduce=None)", out=True)
def scatter(
    input: Tensor, dim: int, index: Tensor, src: Any = None, *, value: Any = None, reduce: str | None = None
) -> Tensor:
    """``src`` (a tensor or a number, also as ``value=``) written into a copy of ``input`` at ``index`` along ``dim``."""
    return _scatter(input, dim, index, _source(src, value), reduce)


@composite("scatter_(T input, dim dim, T index, TN src=None, *, N value=None, str? reduce=None)", ns="Tensor")
def scatter_(
    input: Tensor, dim: int, index: Tensor, src: Any = None, *, value: Any = None, reduce: str | None = None
) -> Tensor:
    """In-place form of ``scatter``."""
    check_disjoint(input.a, (index, src), "scatter_")
    return input.copy_(_scatter(input, dim, index, _source(src, value), reduce))


def _source(src: Any, value: Any) -> Any:
    check(
        (src is None) != (value is None),
        TypeError,
        "scatter() takes exactly one of src (a tensor or number) and value (a number)",
    )
    return value if src is None else src


scatter_add = op(
    "scatter_add(T input, dim dim, T index, T src)",
    inplace=True,
    out=True,
    grad=dict(input=lambda g: g, src=lambda g, dim, index: g.gather(dim, index)),
)(lambda a, dim, i, src: K.scatter_reduce(a, dim, i, src, "sum", True, "scatter_add"))


def _prod_grads(
    g: Tensor, input: Tensor, dim: int, index: Tensor, src: Tensor, include_self: bool, out: Tensor
) -> tuple[Tensor, Tensor]:
    """Gradients of a scattered product; a single zero among the factors is left out of its own quotient."""
    safe = input.masked_fill(input == 0, 1)
    grad_input = g * safe.scatter_reduce(dim, index, src, "prod", include_self=include_self) / safe
    zero = src == 0
    count = _zeros(input).scatter_add(dim, index, zero.to(src.dtype)).gather(dim, index)
    single = zero & (count == 1)
    rest = input.scatter_reduce(dim, index, src.masked_fill(single, 1), "prod", include_self=include_self)
    grad_src = ((g * rest).gather(dim, index)).where(single, (g * out).gather(dim, index) / src.masked_fill(zero, 1))
    return grad_input, grad_src


def _extreme_grads(
    g: Tensor, input: Tensor, dim: int, index: Tensor, src: Tensor, out: Tensor
) -> tuple[Tensor, Tensor]:
    """Gradients of a scattered maximum or minimum, shared evenly among ties."""
    mine = (input == out).to(g.dtype)
    theirs = (src == out.gather(dim, index)).to(g.dtype)
    share = g / mine.scatter_add(dim, index, theirs)
    return mine * share, theirs * share.gather(dim, index)


def _mean_grads(
    g: Tensor, input: Tensor, dim: int, index: Tensor, src: Tensor, include_self: bool
) -> tuple[Tensor, Tensor]:
    count = g.new_ones(input.shape) if include_self else _zeros(input)
    count = count.scatter_add(dim, index, src.new_ones(index.shape))
    count = count.masked_fill(count == 0, 1)
    return g / count, g.gather(dim, index) / count.gather(dim, index)


def _reduce_grads(
    g: Tensor, input: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, include_self: bool, out: Tensor
) -> tuple[Tensor, Tensor]:
    if src.a.shape != index.a.shape:
        src = src[tuple(slice(n) for n in index.a.shape)]
    if reduce == "sum":
        gi, gs = g, g.gather(dim, index)
    elif reduce == "mean":
        gi, gs = _mean_grads(g, input, dim, index, src, include_self)
    elif reduce == "prod":
        gi, gs = _prod_grads(g, input, dim, index, src, include_self, out)
    else:
        gi, gs = _extreme_grads(g, input, dim, index, src, out)
    return (gi if include_self else gi.scatter(dim, index, 0)), gs


def _wanted(needs: Any, grads: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(grad if need else None for grad, need in zip(grads, needs))


scatter_reduce = op(
    "scatter_reduce(T input, dim dim, T index, T src, str reduce, *, bool include_self=True)",
    inplace=True,
    out=True,
    grad=vjp(
        ("input", "src"),
        lambda g, needs, input, dim, index, src, reduce, include_self, out: _wanted(
            needs, _reduce_grads(g, input, dim, index, src, reduce, include_self, out)
        ),
    ),
)(
    lambda a, dim, i, src, reduce, include_self=True: K.scatter_reduce(
        a, dim, i, src, reduce, include_self, "scatter_reduce"
    )
)


# ------------------------------------------------------------------------------------------ whole slices
def _slice_grad(g: Tensor, dim: int, index: Tensor, shape: tuple[int, ...]) -> Tensor:
    """The slices ``index`` of ``g``, given ``shape``."""
    return g.index_select(dim, index).reshape(shape) if g.ndim else g.expand(shape)


index_add = op(
    "index_add(T input, dim dim, T index, T source, *, N alpha=1)",
    keeps=("source",),
    inplace=True,
    out=True,
    grad=dict(
        input=lambda g: g,
        source=lambda g, dim, index, source_shape, alpha: _slice_grad(g, dim, index, source_shape) * alpha,
    ),
)(K.index_add)
index_copy = op(
    "index_copy(T input, dim dim, T index, T source)",
    keeps=("source",),
    inplace=True,
    out=True,
    grad=dict(
        input=lambda g, dim, index: g.index_fill(dim, index, 0),
        source=lambda g, dim, index, source_shape: _slice_grad(g, dim, index, source_shape),
    ),
)(K.index_copy)


def _filled_sum(g: Tensor, dim: int, index: Tensor) -> Tensor:
    """Sum of ``g`` over the slices that were filled, each counted once however often ``index`` names it."""
    return g if g.ndim == 0 else g.index_select(dim, _once(index, g, dim)).sum()


def _once(index: Tensor, g: Tensor, dim: int) -> Tensor:
    return constant(np.unique(values(index) % g.a.shape[dim]))


index_fill = op(
    "index_fill(T input, dim dim, T index, TN value)",
    nodes={"not isinstance(value, (int, float, complex))": "IndexFillBackward1"},
    promote="same",
    promote_params=("input",),
    half="native",
    inplace=True,
    grad=dict(
        input=lambda g, dim, index: g.index_fill(dim, index, 0),
        value=lambda g, dim, index: _filled_sum(g, dim, index),
    ),
)(K.index_fill)


def _expand_index(index: Tensor, dim: int, like: Tensor) -> Tensor:
    shape = [1] * like.ndim
    shape[dim] = -1
    return index.reshape(shape).expand(like.shape)


def _index_reduce_grads(
    g: Tensor, input: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, include_self: bool, out: Tensor
) -> tuple[Tensor, Tensor]:
    """As for ``scatter_reduce`` with the index repeated over the slices."""
    if input.ndim == 0:
        args = [t.reshape(1) for t in (g, input, source, out)]
        gi, gs = _index_reduce_grads(args[0], args[1], 0, index, args[2], reduce, include_self, args[3])
        return gi.reshape(()), gs.reshape(source.shape)
    full = _expand_index(index, wrap_dim(dim, input.ndim), source)
    return _reduce_grads(g, input, dim, full, source, reduce, include_self, out)


index_reduce = op(
    "index_reduce(T input, dim dim, T index, T source, str reduce, *, bool include_self=True)",
    inplace=True,
    out=True,
    grad=vjp(
        ("input", "source"),
        lambda g, needs, input, dim, index, source, reduce, include_self, out: _wanted(
            needs, _index_reduce_grads(g, input, dim, index, source, reduce, include_self, out)
        ),
    ),
)(K.index_reduce)


# ------------------------------------------------------------------------------------------ any positions
index_put_at = op(
    "index_put_at(T input, TL indices, any where, T values, bool accumulate)",
    ns="_C",
    node="IndexPutBackward0",
    grad=dict(
        input=lambda g, indices, where, accumulate: g if accumulate else _put_at(g, indices, where, g.new_zeros(())),
        values=lambda g, indices, where, values_shape: sum_to(_get_at(g, indices, where), values_shape),
    ),
)(K.index_put)


def _put_at(x: Tensor, indices: list[Tensor], where: tuple[int, ...], values: Tensor) -> Tensor:
    return index_put_at(x, indices, where, values, False)


def _get_at(x: Tensor, indices: list[Tensor], where: tuple[int, ...]) -> Tensor:
    key: list[Any] = [slice(None)] * (max(where, default=-1) + 1)
    for p, i in zip(where, indices):
        key[p] = i
    return x[tuple(key)]


def _index_key(indices: Any) -> tuple[list[Tensor], tuple[int, ...]]:
    """Integer index tensors and the dimension each addresses: None skips a dimension, a mask spans its own."""
    found: list[Tensor] = []
    where: list[int] = []
    at = 0
    for i in indices:
        if i is None:
            at += 1
        elif i.dtype.name in ("bool", "uint8"):
            for part in i.nonzero(as_tuple=True):
                found.append(part)
                where.append(at)
                at += 1
        else:
            found.append(i)
            where.append(at)
            at += 1
    return found, tuple(where)


@composite("index_put(T input, any indices, T values, bool accumulate=False)")
def index_put(input: Tensor, indices: Any, values: Tensor, accumulate: bool = False) -> Tensor:
    """A copy of ``input`` with ``values`` written (or added, with ``accumulate``) at ``indices``, a tuple of tensors."""
    found, where = _index_key(indices)
    if not found:
        return input.clone()
    return index_put_at(input, found, where, values, accumulate)


@composite("index_put_(T input, any indices, T values, bool accumulate=False)")
def index_put_(input: Tensor, indices: Any, values: Tensor, accumulate: bool = False) -> Tensor:
    """In-place form of ``index_put``."""
    check_disjoint(input.a, (values, *indices), "index_put_")
    return input.copy_(index_put(input, indices, values, accumulate))


put_ = op(
    "put(T input, T index, T source, bool accumulate=False)",
    keeps=("source",),
    inplace=True,
    grad=dict(
        input=lambda g, index, accumulate: g if accumulate else g.put(index, g.new_zeros(index.shape)),
        source=lambda g, index, source_shape: g.take(index).reshape(source_shape),
    ),
)(K.put)
masked_fill = op(
    "masked_fill(T input, T mask, TN value)",
    nodes={"not isinstance(value, (int, float, complex))": "MaskedFillBackward1"},
    promote="same",
    promote_params=("input",),
    half="native",
    inplace=True,
    grad=dict(
        input=lambda g, mask: g.masked_fill(mask, 0),
        value=lambda g, mask: g.masked_fill(mask.logical_not(), 0),
    ),
)(K.masked_fill)


def _masked_scatter_source(g: Tensor, mask: Tensor, shape: tuple[int, ...]) -> Tensor:
    """The gradients at the places of ``mask``, followed by zeros for the elements that were not used."""
    picked = g.masked_select(mask)
    n = math.prod(shape)
    used = picked.a.size
    if used < n:
        picked = g.new_zeros((n,)).slice_scatter(picked, 0, 0, used)
    return picked.reshape(shape)


masked_scatter = op(
    "masked_scatter(T input, T mask, T source)",
    inplace=True,
    grad=dict(
        input=lambda g, input_shape, mask: sum_to(g.masked_fill(mask, 0), input_shape),
        source=lambda g, mask, source_shape: _masked_scatter_source(g, mask, source_shape),
    ),
)(K.masked_scatter)


# ------------------------------------------------------------------------------------------ writing into a view
@op(
    "select_scatter(T input, T src, dim dim, int index)",
    grad=dict(
        input=lambda g, src_shape, dim, index: g.select_scatter(g.new_zeros(src_shape), dim, index),
        src=lambda g, dim, index: g.select(dim, index),
    ),
)
def select_scatter(a: np.ndarray, src: np.ndarray, dim: int, index: int) -> np.ndarray:
    """A copy of ``input`` whose slice ``index`` of ``dim`` is ``src``."""
    d = wrap_dim(dim, a.ndim)
    n = a.shape[d]
    check(
        -n <= index < n,
        IndexError,
        f"select(): index {index} out of range for tensor of size {list(a.shape)} at dimension {d}",
    )
    at = (slice(None),) * d + (index, ...)
    return K.write_view(a, src, lambda x: x[at])


@op(
    "slice_scatter(T input, T src, dim dim=0, int? start=None, int? end=None, int step=1)",
    grad=dict(
        input=lambda g, src_shape, dim, start, end, step: g.slice_scatter(
            g.new_zeros(src_shape), dim, start, end, step
        ),
        src=lambda g, dim, start, end, step: g[(slice(None),) * wrap_dim(dim, g.ndim) + (slice(start, end, step),)],
    ),
)
def slice_scatter(
    a: np.ndarray, src: np.ndarray, dim: int, start: int | None, end: int | None, step: int
) -> np.ndarray:
    """A copy of ``input`` whose slice ``start:end:step`` of ``dim`` is ``src``."""
    check(step > 0, RuntimeError, f"slice step must be positive, got {step}")
    at = (slice(None),) * wrap_dim(dim, a.ndim) + (slice(start, end, step),)
    return K.write_view(a, src, lambda x: x[at])


def _diagonal(x: np.ndarray, offset: int, dim1: int, dim2: int) -> np.ndarray:
    v = x.diagonal(offset, dim1, dim2)
    v.flags.writeable = True
    return v


@op(
    "diagonal_scatter(T input, T src, int offset=0, dim dim1=0, dim dim2=1)",
    grad=dict(
        input=lambda g, src_shape, offset, dim1, dim2: g.diagonal_scatter(g.new_zeros(src_shape), offset, dim1, dim2),
        src=lambda g, offset, dim1, dim2: g.diagonal(offset, dim1, dim2),
    ),
)
def diagonal_scatter(a: np.ndarray, src: np.ndarray, offset: int, dim1: int, dim2: int) -> np.ndarray:
    """A copy of ``input`` whose diagonal is ``src``."""
    return K.write_view(a, src, lambda x: _diagonal(x, offset, dim1, dim2))


def _strided(x: np.ndarray, size: tuple[int, ...], stride: tuple[int, ...], offset: int | None) -> np.ndarray:
    return np.ndarray(size, x.dtype, x, (offset or 0) * x.itemsize, tuple(s * x.itemsize for s in stride))


def _window(g: Tensor, size: Any, stride: Any, storage_offset: int | None) -> Tensor:
    return g.contiguous().as_strided(size, stride, storage_offset or 0)


def _input_window(g: Tensor, size: Any, stride: Any, storage_offset: int | None) -> Tensor:
    """PyTorch hands ``input`` the gradient INSIDE the window and zeros outside; scripts must see its numbers."""
    inside = _window(g, size, stride, storage_offset)
    return g.new_zeros(g.shape).as_strided_scatter(inside, size, stride, storage_offset)


@op(
    "as_strided_scatter(T input, T src, ints size, ints stride, int? storage_offset=None)",
    grad=dict(input=_input_window, src=_window),
)
def as_strided_scatter(
    a: np.ndarray, src: np.ndarray, size: tuple[int, ...], stride: tuple[int, ...], storage_offset: int | None
) -> np.ndarray:
    """A contiguous copy of ``input`` in which the strided window is ``src``."""
    return K.write_view(a, src, lambda x: _strided(x, size, stride, storage_offset))


@composite("fill_diagonal_(T input, N fill_value, bool wrap=False)", ns="Tensor")
def fill_diagonal_(input: Tensor, fill_value: Any, wrap: bool = False) -> Tensor:
    """In place: the main diagonal set to a number; ``wrap`` starts again below in tall matrices."""
    n = input.ndim
    check(n >= 2, RuntimeError, "dimensions must larger than 1")
    if n > 2:
        check(
            len(set(input.a.shape)) == 1,
            RuntimeError,
            "all dimensions of input must be of equal length",
        )
    count, step = min(input.a.shape), sum(input.stride())
    if count == 0:
        return input
    input.as_strided((count,), (step,), input.storage_offset()).fill_(fill_value)
    rows, columns = input.a.shape[0], input.a.shape[1]
    if wrap and n == 2 and rows > columns + 1:
        s0, s1 = input.stride()
        for top in range(columns + 1, rows, columns + 1):
            block = min(columns, rows - top)
            input.as_strided((block,), (s0 + s1,), input.storage_offset() + top * s0).fill_(fill_value)
    return input
