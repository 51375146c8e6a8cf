"""``x[...]`` and ``x[...] = v``: basic indices give views, advanced ones copies, as in PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np

from mindtorch import log
from mindtorch.core import dtype as D
from mindtorch.core import modes, observe, overrides, views
from mindtorch.core.cells import Cell, HeldCell, WatchedCell
from mindtorch.core.dispatch import broadcast_error, cast_into
from mindtorch.core.signature import is_number
from mindtorch.core.tensor import Tensor, cell_of, constant, values
from mindtorch.core.writable import check_copy, check_disjoint, check_overlap
from mindtorch.engine.host.quiet import quiet
from mindtorch.ops.table import op, put
from mindtorch.ops.view_ops import _part, _pick

_BASIC = (int, slice, type(None), type(Ellipsis))
NS = modes.NS
_RANGE = "index {} is out of bounds for dimension {} with size {}"


def _range_error(e: IndexError, x: Tensor) -> IndexError:
    text = str(e)
    if "too many indices" in text:
        return IndexError(f"too many indices for tensor of dimension {x.a.ndim}")
    return IndexError(text.replace("axis", "dimension"))


def getitem(x: Tensor, index: Any) -> Any:
    """``x[index]``."""
    c = index.__class__
    if c is int and not NS["MODE"]:
        a = x.a
        if a.ndim and -a.shape[0] <= index < a.shape[0]:
            return _pick(x, index)
        if a.ndim:
            raise IndexError(_RANGE.format(index, 0, a.shape[0]))
        raise IndexError(
            "invalid index of a 0-dim tensor. Use `tensor.item()` in Python to convert a 0-dim tensor to a number"
        )
    if c is tuple:
        for e in index:
            ec = e.__class__
            if ec is int or e is None or e is Ellipsis:
                continue
            if ec is slice and _plain_slice(e):
                continue
            return _general(x, index)
        return _basic(x, index)
    if (c is slice and _plain_slice(index)) or index is None or index is Ellipsis:
        return _basic(x, index)
    return _general(x, index)


def _plain_slice(s: slice) -> bool:
    a, b, c = s.start, s.stop, s.step
    return (a is None or a.__class__ is int) and (b is None or b.__class__ is int) and (c is None or (c.__class__ is int and c > 0))


def _basic(x: Tensor, index: Any) -> Any:
    if NS["MODE"] and overrides.wanted((x,)):
        return _general(x, index)
    try:
        return _part(x, index)
    except IndexError as e:
        raise _range_error(e, x) from None


def _number_of(v: Any) -> Any:
    if v.__class__ is int or v is None:
        return v
    if isinstance(v, Tensor):
        return int(v.item())
    return v.__index__()


def _slice(s: slice) -> slice:
    got = slice(_number_of(s.start), _number_of(s.stop), _number_of(s.step))
    if got.step is not None and got.step <= 0:
        raise ValueError("step must be greater than zero; use torch.flip for a reversed copy")
    return got


def _array(e: Tensor) -> Any:
    """A tensor used as index: integers, or a mask (uint8 counts as a mask, as PyTorch still does)."""
    if e.k.dtype is D.uint8:
        return values(e).astype(bool)
    if e.k.cat > D.INT:
        raise IndexError("tensors used as indices must be long, int, byte or bool tensors")
    return values(e)


def normalise(x: Tensor, index: Any) -> tuple[Any, bool]:
    """A NumPy index, and whether it is basic (gives a view)."""
    items = list(index) if isinstance(index, tuple) else [index]
    out: list[Any] = []
    basic = True
    for e in items:
        if isinstance(e, (bool, np.bool_)):
            out.append(np.asarray(bool(e)))
            basic = False
        elif e is None or e is Ellipsis or e.__class__ is int:
            out.append(e)
        elif isinstance(e, slice):
            out.append(_slice(e))
        elif isinstance(e, Tensor):
            if e.a.ndim == 0 and e.k.cat == D.INT and e.k.dtype is not D.uint8:
                out.append(int(e.a))
            else:
                out.append(_array(e))
                basic = False
        elif isinstance(e, np.ndarray):
            out.append(e)
            basic = False
        elif isinstance(e, (list, tuple, range)):
            out.append(_sequence(e))
            basic = False
        elif hasattr(e, "__index__"):
            out.append(e.__index__())
        else:
            raise TypeError(
                "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid indices (got "
                f"{type(e).__name__})"
            )
    return tuple(out), basic


def _sequence(e: Any) -> np.ndarray:
    a = np.array([x.tolist() if isinstance(x, Tensor) else x for x in e])
    if a.size == 0:
        return a.astype(np.int64)
    if a.dtype.kind not in "iub":
        raise IndexError("tensors used as indices must be long, int, byte or bool tensors")
    return a


def _general(x: Tensor, index: Any) -> Any:
    tensors = (x, *(index if isinstance(index, tuple) else (index,)))
    if NS["MODE"] or not x.k.plain:
        if overrides.wanted(tensors):
            r = overrides.call(getitem, (x, index), {})
            if r is not NotImplemented:
                return r
    np_index, basic = normalise(x, index)
    if basic:
        _check_ints(x, np_index)
        return _basic(x, np_index)
    _check_masks(x, np_index)
    try:
        return _index(x, np_index)
    except IndexError as e:
        raise _range_error(e, x) from None


def _check_ints(x: Tensor, index: tuple[Any, ...]) -> None:
    if x.a.ndim == 0 and any(e.__class__ is int for e in index):
        raise IndexError(
            "invalid index of a 0-dim tensor. Use `tensor.item()` in Python to convert a 0-dim tensor to a number"
        )


def _check_masks(x: Tensor, index: tuple[Any, ...]) -> None:
    at = 0
    for e in index:
        if e is Ellipsis:
            return
        if e is None:
            continue
        if isinstance(e, np.ndarray) and e.dtype.kind == "b" and e.ndim:
            have = x.a.shape[at : at + e.ndim]
            if e.shape != have:
                raise IndexError(
                    f"The shape of the mask {list(e.shape)} at index {at} does not match the shape of the indexed tensor "
                    f"{list(x.a.shape)} at index {at}"
                )
            at += e.ndim
        else:
            at += 1


def add_at(z: np.ndarray, index: Any, v: np.ndarray) -> None:
    """``z[index] += v`` where repeated places add up."""
    if len(index) == 1 and isinstance(index[0], np.ndarray) and index[0].dtype.kind == "b":
        z[index] += v
        return
    with quiet():
        if z.dtype.itemsize == 2 and z.dtype.kind not in "iub":
            wide = z.astype(np.float32)
            np.add.at(wide, index, v.astype(np.float32))
            z[...] = wide.astype(z.dtype)
        else:
            np.add.at(z, index, v)


@op("_index_backward(T input, any shape, any index)", ns="_C", grad={"input": lambda g, index: _index(g, index)})
def _index_backward(a: np.ndarray, shape: Any, index: Any) -> np.ndarray:
    """Zeros of ``shape`` to which ``a`` is added at ``index``."""
    z = np.zeros(shape, a.dtype)
    add_at(z, index, a)
    return z


@op(
    "_index(T input, any index)",
    ns="_C",
    node="IndexBackward0",
    grad={"input": lambda g, index, input_shape: _index_backward(g, input_shape, index)},
)
def _index(a: np.ndarray, index: Any) -> np.ndarray:
    """Advanced indexing: a copy."""
    if len(index) == 1 and index[0].__class__ is np.ndarray:
        i = index[0]
        if i.dtype.kind in "iu" and a.ndim and i.dtype.kind == "i":
            return a.take(i, 0)
        if i.dtype.kind == "b" and i.shape == a.shape:
            return a[i]
    return np.ascontiguousarray(a[index])


@op(
    "_index_put(T input, any index, T value, bool accumulate=False)",
    ns="_C",
    node="IndexPutBackward0",
    grad={
        "input": lambda g, index, accumulate: g if accumulate else _index_put(g, index, constant(np.zeros((), g.k.np))),
        "value": lambda g, index, value_shape: views_sum(_index(g, index), value_shape),
    },
)
def _index_put(a: np.ndarray, index: Any, v: np.ndarray, accumulate: bool = False) -> np.ndarray:
    """A copy of ``a`` with ``v`` written (or added) at ``index``."""
    z = a.copy()
    write_at(z, index, v, accumulate)
    return z


def write_at(z: np.ndarray, index: Any, v: np.ndarray, accumulate: bool) -> None:
    """``z[index] = v`` or ``+=``, with PyTorch's casts and broadcasting error."""
    if v.dtype != z.dtype:
        with quiet():
            v = v.astype(z.dtype)
    try:
        if accumulate:
            add_at(z, index, v)
        else:
            z[index] = v
    except ValueError:
        want = z[index].shape
        raise RuntimeError(
            broadcast_error([want, v.shape])
            or f"shape mismatch: value tensor of shape {list(v.shape)} cannot be broadcast to indexing result of shape {list(want)}"
        ) from None


def views_sum(g: Tensor, shape: Any) -> Tensor:
    """Sum down to a broadcast value's shape, leading size-one dimensions of the value included."""
    from mindtorch.core.tape import sum_to

    extra = len(shape) - g.a.ndim
    if extra > 0:
        return sum_to(g, shape[extra:]).reshape(shape)
    return sum_to(g, shape)


def setitem(x: Tensor, index: Any, value: Any) -> None:
    """``x[index] = value`` for numbers, tensors and arrays, recorded when gradients are needed."""
    if NS["MODE"] or not x.k.plain:
        if overrides.wanted((x, value)):
            r = overrides.call(setitem, (x, index, value), {})
            if r is not NotImplemented:
                return
        if observe.OBSERVERS:
            observe.run(_SETITEM, _setitem, (x, index, value), {})
            return
    _setitem(x, index, value)


def _setitem(x: Tensor, index: Any, value: Any) -> None:
    np_index, basic = normalise(x, index)
    v = _value(x, value)
    if not basic:
        _check_masks(x, np_index)
        check_disjoint(x.a, (v, *index) if index.__class__ is tuple else (v, index), "index_put_")
    if (x.n is None and v.n is None) or not modes.state.grad:
        if not x.a.flags.writeable or x.v is not None:
            views.check_writable(x, "index_put_", v.n is not None)
            if basic and (x.a.base is not None or v.a.base is not None):
                check_copy(x.a[np_index], v)
        _write(x, np_index, v.a)
        return
    if basic:
        part = _basic(x, np_index)
        _copy_into(part, v)
        return
    views.check_writable(x, "index_put_")
    r = _index_put(views.shadow_of(x, False), np_index, v if v.k.np is x.k.np else v.to(x.k.dtype))
    views.assign(x, r, "index_put_")


def _value(x: Tensor, value: Any) -> Tensor:
    if isinstance(value, Tensor):
        return value
    if is_number(value):
        if isinstance(value, complex) and x.k.cat < D.COMPLEX:
            raise RuntimeError(f"value cannot be converted to type {x.k.dtype} without overflow")
        with quiet():
            return constant(np.array(value).astype(x.k.np))
    if isinstance(value, np.ndarray):
        return constant(np.asarray(value))
    if isinstance(value, (list, tuple)):
        raise TypeError(f"can't assign a {type(value).__name__} to a torch.{x.k.dtype.name} tensor; use torch.tensor(...)")
    raise TypeError(f"can't assign a {type(value).__name__} to a {x.k.dtype} tensor")


def _write(x: Tensor, index: Any, v: np.ndarray) -> None:
    try:
        write_at(x.a, index, v, False)
    except IndexError as e:
        raise _range_error(e, x) from None
    cell_of(x).bump()


def _copy_into(part: Tensor, v: Tensor) -> None:
    if v.a.ndim > part.a.ndim:
        lead = v.a.ndim - part.a.ndim
        if all(n == 1 for n in v.a.shape[:lead]):
            v = v.reshape(v.a.shape[lead:])
    part.copy_(v)


def copy_(x: Tensor, src: Any, non_blocking: bool = False) -> Tensor:
    """Write ``src``, broadcast and cast, into ``x``."""
    try:  # whole tensors of one kind that nobody records
        if x.k is src.k and x.n is src.n is None and x.k.plain and not NS["MODE"] and not non_blocking:
            a, b, v = x.a, src.a, x.v
            if a.shape == b.shape and a.base is b.base is None and (v is None or v.__class__ is Cell):
                np.copyto(a, b)
                (cell_of(x) if v is None else v).bump()
                return x
    except (AttributeError, ValueError):
        pass
    if non_blocking:
        log.without_effect("Tensor.copy_", "copies are made at once", quietly=True, non_blocking=(True, False))
    if not isinstance(src, Tensor):
        if not is_number(src):
            raise TypeError(f"copy_(): argument 'other' (position 1) must be Tensor, not {type(src).__name__}")
        src = constant(np.array(src).astype(x.k.np))
    if NS["MODE"] or not x.k.plain:
        if overrides.wanted((x, src)):
            r = overrides.call(copy_, (x, src), {})
            if r is not NotImplemented:
                return r
        if observe.OBSERVERS:
            return observe.run(_COPY, _copy, (x, src), {})
    return _copy(x, src)


def _copy(x: Tensor, src: Tensor) -> Tensor:
    if (x.n is None and src.n is None) or not modes.state.grad:
        if x.k.device.type == "meta":
            return x
        a = x.a
        if not a.flags.writeable or x.v.__class__ in _HELD:
            views.check_writable(x, "copy_")
            a = x.a
        if a.base is not None or src.a.base is not None:
            check_overlap(a, (src,), "copy_")
        try:
            cast_into(a, src.a)
        except ValueError:
            raise RuntimeError(broadcast_error([a.shape, src.a.shape]) or _no_fit(x, src)) from None
        cell_of(x).bump()
        return x
    views.check_writable(x, "copy_", src.n is not None)
    check_overlap(x.a, (src,), "copy_")
    if src.a.shape != x.a.shape:
        src = src.expand(x.a.shape)
    return views.assign(x, _copied(src if src.k.np is x.k.np else src.to(x.k.dtype)), "copy_")


def _no_fit(x: Tensor, src: Tensor) -> str:
    return f"output with shape {list(x.a.shape)} doesn't match the broadcast shape {list(src.a.shape)}"


@op("_copied(T input)", ns="_C", node="CopyBackwards", grad={"input": lambda g: g})
def _copied(a: np.ndarray) -> np.ndarray:
    return a[...]


_HELD = (HeldCell, WatchedCell)
_SETITEM, _COPY = observe.Whole(setitem), observe.Whole(copy_)
put("Tensor", __getitem__=getitem, __setitem__=setitem, copy_=copy_)
