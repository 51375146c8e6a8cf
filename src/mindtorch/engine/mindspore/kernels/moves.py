"""MindSpore kernels that only move elements: one gather by positions that follow from shapes and arguments.

The positions are what the row's host kernel makes of 0, 1, 2, ... in place of the elements, so geometry is written once.
Writing into a part is a gather too, from the tensor and the values joined: MindSpore's strided writes are not needed.
Transposes of gathers add by ``unsorted_segment_sum``. Positions are kept for the latest shapes and arguments.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mindtorch.engine.mindspore import array as A
from mindtorch.engine.mindspore import door
from mindtorch.engine.mindspore.kernels import Unsupported, host, kernel, np_dtype

ms = door.load()
mint, ops = ms.mint, ms.ops
_COMPLEX = (ms.complex64, ms.complex128)
_KEPT: OrderedDict[Any, Any] = OrderedDict()


def const(a: np.ndarray) -> Any:
    """A host array as an ms.Tensor."""
    return A.upload(np.asarray(a))


_KEPT_MOST = 1 << 18


def kept(key: Any, make: Callable[[], Any]) -> Any:
    """``make()``, or what it gave for this key before. Long lists of positions are made again: they would fill the memory."""
    try:
        got = _KEPT.get(key)
    except TypeError:  # arguments with arrays in them
        return make()
    if got is None:
        got = make()
        if getattr(got, "size", 0) <= _KEPT_MOST:
            _KEPT[key] = got
            if len(_KEPT) > 256:
                _KEPT.popitem(last=False)
    return got


def count(shape: Sequence[int]) -> int:
    """Number of elements of a shape."""
    n = 1
    for k in shape:
        n *= int(k)
    return n


def zeros_of(shape: Sequence[int], dtype: Any) -> Any:
    """Zeros of a shape and a MindSpore dtype."""
    shape = tuple(int(n) for n in shape)
    if 0 in shape:
        return A.upload(np.zeros(shape, np_dtype(ms.Tensor(0, dtype))))
    return mint.broadcast_to(ms.Tensor(0, dtype), shape) if shape else ms.Tensor(0, dtype)


def numbered(shape: Sequence[int], start: int = 0) -> np.ndarray:
    """start, start + 1, ... in row-major order."""
    return np.arange(start, start + count(shape), dtype=np.int64).reshape(tuple(shape))


def chosen(sources: Sequence[Any], at: np.ndarray, fill: Any = 0) -> Any:
    """Elements of the joined sources at positions; where the position is -1, ``fill``."""
    at = np.asarray(at)
    parts = [s.reshape((-1,)) for s in sources if 0 not in s.shape]
    dtype = sources[0].dtype
    if not at.size:
        return zeros_of(at.shape, dtype)
    if at.min() < 0:
        at = np.where(at < 0, sum(p.shape[0] for p in parts), at)
        parts.append(ms.Tensor([fill], dtype))
    if dtype == ms.bfloat16:
        parts = [p.astype(ms.float32) for p in parts]
    flat = parts[0] if len(parts) == 1 else ops.concat(parts, 0)
    got = ops.gather(flat, const(at.reshape(-1)), 0).reshape(at.shape)
    return got.astype(dtype) if dtype == ms.bfloat16 else got


def real_parts(x: Any) -> tuple[Any, Any]:
    """Real and imaginary part of a complex tensor."""
    return ops.Real()(x), ops.Imag()(x)


def complex_of(re: Any, im: Any) -> Any:
    """Complex tensor of two real ones."""
    return ops.Complex()(re, im)


def linear(fn: Callable[..., Any]) -> Callable[..., Any]:
    """``fn`` (linear in its first argument) for complex numbers too: part by part."""

    def run(x: Any, *args: Any) -> Any:
        if x.dtype in _COMPLEX:
            re, im = real_parts(x)
            return complex_of(fn(re, *args), fn(im, *args))
        return fn(x, *args)

    return run


def added(g: Any, at: np.ndarray, shape: Sequence[int]) -> Any:
    """Zeros of ``shape`` to whose flat positions ``at`` the elements of ``g`` are added; position -1 is dropped."""
    at = np.asarray(at).reshape(-1)
    if not at.size:
        return zeros_of(shape, g.dtype)
    if g.dtype in _COMPLEX:
        re, im = real_parts(g)
        return complex_of(added(re, at, shape), added(im, at, shape))
    wide = g.astype(ms.float32) if g.dtype in (ms.bfloat16, ms.float16) else g.astype(ms.int64) if _whole(g) else g
    n = count(shape)
    if at.min() < 0:
        at = np.where(at < 0, n, at)
        r = ops.unsorted_segment_sum(wide.reshape((-1,)), const(at.astype(np.int32)), n + 1).narrow(0, 0, n)
    else:
        r = ops.unsorted_segment_sum(wide.reshape((-1,)), const(at.astype(np.int32)), n)
    return r.reshape(tuple(shape)).astype(g.dtype)


def _whole(g: Any) -> bool:
    return g.dtype in (ms.bool_, ms.int8, ms.int16, ms.int32, ms.uint8)


def _hosted(x: Any) -> Any:
    """Index tensors as host arrays, lists and tuples looked into: their values decide positions."""
    if isinstance(x, A.DeviceArray):
        return A.host(x)
    if isinstance(x, ms.Tensor):
        return A.download(x, np_dtype(x))
    if isinstance(x, (list, tuple)):
        return type(x)([_hosted(v) for v in x])
    return x


# ------------------------------------------------------------------------------------------ positions by the host kernel
def _moves(name: str, padded: bool = False) -> None:
    def run(x: Any, *args: Any) -> Any:
        shape = tuple(x.shape)

        def make() -> np.ndarray:
            return np.array(host(name)(numbered(shape, int(padded)), *args)) - int(padded)

        return chosen([x], kept((name, shape, args), make))

    run.__name__ = name
    kernel(name)(run)


for _name in ("roll", *(f"pad_{m}{d}d" for m in ("reflect", "replicate", "circular") for d in (1, 2, 3)),
              *(f"upsample_nearest{e}{d}d" for e in ("", "_exact") for d in (1, 2, 3))):  # fmt: skip
    _moves(_name)
for _name in ("diag_embed", "_diagonal_backward", "_slice_backward", "im2col"):
    _moves(_name, padded=True)


@kernel("pad_constant")
def _pad_constant(x: Any, pads: Any, value: Any) -> Any:
    shape = tuple(x.shape)
    at = kept(("pad_constant", shape, tuple(pads)), lambda: host("pad_constant")(numbered(shape, 1), pads, 0) - 1)
    return chosen([x], at, 0 if value is None else value)


def _placed(name: str) -> None:
    def run(x: Any, src: Any, *args: Any) -> Any:
        a, b = tuple(x.shape), tuple(src.shape)
        n = count(a)
        at = kept((name, a, b, args), lambda: np.array(host(name)(numbered(a), numbered(b, n), *args)))
        return chosen([x, src], at)

    run.__name__ = name
    kernel(name)(run)


for _name in ("select_scatter", "slice_scatter", "diagonal_scatter", "as_strided_scatter"):
    _placed(_name)


# ------------------------------------------------------------------------------------------ transposes
@kernel("pad_indexed_grad")
def _pad_indexed_grad(g: Any, pads: Any, mode: str, size: Any) -> Any:
    name = f"pad_{mode}{len(pads) // 2}d"
    at = kept((name, tuple(size), tuple(pads), mode), lambda: np.array(host(name)(numbered(size), pads, mode)))
    return added(g, at, size)


@kernel("col2im")
def _col2im(x: Any, size: Any, *block: Any) -> Any:
    c = x.shape[1] // count(block[0])
    shape = (x.shape[0], c, *size)
    at = kept(("im2col", shape, block), lambda: np.array(host("im2col")(numbered(shape, 1), *block)) - 1)
    return added(x, at, shape)


@kernel("_unfold_backward")
def _unfold_backward(g: Any, shape: Any, dimension: int, size: int, step: int) -> Any:
    shape = tuple(shape)
    if not shape:
        return g.reshape(())

    def make() -> np.ndarray:
        from numpy.lib.stride_tricks import sliding_window_view

        d = dimension % len(shape)
        w = sliding_window_view(numbered(shape), size, d)
        return np.array(w[(slice(None),) * d + (slice(None, None, step),)])

    at = kept(("unfold", shape, dimension, size, step), make)
    return added(g, at, shape)


@kernel("_index_backward")
def _index_backward(g: Any, shape: Any, index: Any) -> Any:
    return added(g, numbered(shape)[_hosted(index)], shape)


@kernel("_index")
def _index(x: Any, index: Any) -> Any:
    return chosen([x], numbered(x.shape)[_hosted(index)])


@kernel("_index_put")
def _index_put(x: Any, index: Any, v: Any, accumulate: bool = False) -> Any:
    at = numbered(x.shape)
    where = at[_hosted(index)]
    if v.dtype != x.dtype:
        raise Unsupported("values of another dtype")
    source = np.broadcast_to(numbered(v.shape), where.shape)
    if accumulate:
        if x.dtype == ms.bool_:
            raise Unsupported("accumulation of truth values")
        return mint.add(x, added(chosen([v], source), where, x.shape))
    at = at.reshape(-1).copy()
    at[where.reshape(-1)] = source.reshape(-1) + at.size
    return chosen([x, v], at.reshape(tuple(x.shape)))


# ------------------------------------------------------------------------------------------ writes at an index tensor
def _written(name: str) -> None:
    """Rows (input, dim, index, src) whose result is a choice between the two, decided by the index."""

    def run(x: Any, dim: int, index: Any, src: Any) -> Any:
        n = count(x.shape)
        src = src if isinstance(src, ms.Tensor) else ms.Tensor(src, x.dtype)
        src = src.astype(x.dtype)
        many = numbered(src.shape, n)
        at = host(name)(numbered(x.shape), dim, _hosted(index), many)
        return chosen([x, src], np.array(at))

    run.__name__ = name
    kernel(name)(run)


for _name in ("index_copy", "index_fill", "scatter_src"):
    _written(_name)


@kernel("scatter_value")
def _scatter_value(x: Any, dim: int, index: Any, value: Any) -> Any:
    n = count(x.shape)
    at = host("scatter_value")(numbered(x.shape), dim, _hosted(index), n)
    return chosen([x, ms.Tensor([value], x.dtype)], np.array(at))


@kernel("put")
def _put(x: Any, index: Any, src: Any, accumulate: bool = False) -> Any:
    i = _hosted(index).reshape(-1)
    n = count(x.shape)
    if i.size and (i.min() < -n or i.max() >= n):
        raise Unsupported("positions out of range")
    i = np.where(i < 0, i + n, i)
    if accumulate:
        return mint.add(x, added(src, i, x.shape))
    at = numbered((n,))
    at[i] = numbered((i.size,), n)
    return chosen([x, src], at.reshape(tuple(x.shape)))


@kernel("take")
def _take(x: Any, index: Any) -> Any:
    return chosen([x], host("take")(numbered(x.shape), _hosted(index)))


@kernel("masked_select")
def _masked_select(x: Any, mask: Any) -> Any:
    a, m = np.broadcast_arrays(numbered(x.shape), _hosted(mask).astype(bool))
    return chosen([x], a[m])


@kernel("masked_scatter")
def _masked_scatter(x: Any, mask: Any, src: Any) -> Any:
    n = count(x.shape)
    at = host("masked_scatter")(numbered(x.shape), _hosted(mask), numbered(src.shape, n))
    return chosen([x, src], np.array(at))


# ------------------------------------------------------------------------------------------ the rest
@kernel("_copied")
def _copied(x: Any) -> Any:
    return x


@kernel("_unsafe_parts")
def _unsafe_parts(x: Any, sizes: Any, dim: int) -> Any:
    out, start = [], 0
    for n in sizes:
        out.append(x.narrow(dim, start, n) if n else zeros_of(_with(x.shape, dim, 0), x.dtype))
        start += n
    return tuple(out)


def _with(shape: Sequence[int], dim: int, n: int) -> tuple[int, ...]:
    return tuple(n if i == dim % len(shape) else k for i, k in enumerate(shape))


@kernel("_complex_of")
def _complex_of(x: Any, imaginary: bool) -> Any:
    z = mint.mul(x, ms.Tensor(0, x.dtype))
    return complex_of(z, x) if imaginary else complex_of(x, z)


@kernel("complex")
def _complex(re: Any, im: Any) -> Any:
    re, im = ops.broadcast_to(re, _shape(re, im)), ops.broadcast_to(im, _shape(re, im))
    return complex_of(re, im)


def _shape(a: Any, b: Any) -> tuple[int, ...]:
    return np.broadcast_shapes(tuple(a.shape), tuple(b.shape))


@kernel("_conj", "conj_physical")
def _conj(x: Any) -> Any:
    return ops.Conj()(x) if x.dtype in _COMPLEX else x


@kernel("pool_gather")
def _pool_gather(x: Any, index: Any, d: int) -> Any:
    n, m = count(x.shape[-d:]), count(index.shape[-d:])
    rows = count(x.shape[:-d])
    got = ops.gather_elements(x.reshape((rows, n)), 1, index.astype(ms.int64).reshape((rows, m)))
    return got.reshape(tuple(index.shape))


@kernel("pool_scatter")
def _pool_scatter(g: Any, index: Any, size: Any) -> Any:
    d, n = len(size), count(size)
    rows = count(g.shape[:-d])
    flat = mint.add(index.astype(ms.int64).reshape((rows, -1)), const(np.arange(rows, dtype=np.int64)[:, None] * n))
    total = ops.unsorted_segment_sum(g.reshape((-1,)), flat.reshape((-1,)).astype(ms.int32), rows * n)
    return total.reshape((*g.shape[:-d], *size))


@kernel("max_unpool")
def _max_unpool(x: Any, index: Any, size: Any) -> Any:
    d, n = len(size), count(size)
    i = _hosted(index).astype(np.int64)
    if i.size and (i.min() < 0 or i.max() >= n):
        raise Unsupported("positions out of range")
    rows = count(x.shape[:-d])
    at = np.full(rows * n, -1, np.int64)
    flat = i.reshape(rows, -1) + np.arange(rows)[:, None] * n
    at[flat.reshape(-1)] = numbered((i.size,))
    return chosen([x], at.reshape(*x.shape[:-d], *size))


@kernel("_strided_move")
def _strided_move(x: Any, source: Any, target: Any, shared: Any) -> Any:
    from_, to, both = (np.asarray(_positions(g)) for g in (source, target, shared))
    size = 1 + max((int(i.max()) for i in (from_, to, both) if i.size), default=0)
    flat = added(x, from_.reshape(-1), (size,))
    times = np.bincount(both.reshape(-1), minlength=size)
    if times.max(initial=0) > 1:
        flat = mint.div(flat, const(np.maximum(times, 1)).astype(flat.dtype))
    return chosen([flat], to)


def _positions(geometry: Any) -> np.ndarray:
    size, stride, offset = geometry
    p = np.full((), offset, np.int64)
    for n, s in zip(size, stride):
        p = p[..., None] + np.arange(n, dtype=np.int64) * s
    return p
