"""How an op is called when the fast path does not apply: fixed phases, and errors that name op, argument and remedy.

Phases: function overriding, argument checking, observers, autocast, promotion, kernel, wrapping, tape.
The fast path is generated per row by ``core.codegen``.
"""

from __future__ import annotations

import types
from collections.abc import Sequence
from typing import Any

import numpy as np

from mindtorch.core import accelerate, autocast, modes, observe, overrides
from mindtorch.core import dtype as D
from mindtorch.core.cells import STAMP, Cell, MarkedCell, check_savable, made_unrecorded
from mindtorch.core.codegen import is_part
from mindtorch.core.device import accelerators
from mindtorch.core.promote import result_type
from mindtorch.core.signature import KW_ALIAS, Param, canonical, is_number
from mindtorch.core.snapshot import watch, watch_parts
from mindtorch.core.tape import Packed
from mindtorch.core.tensor import Leaf, Lost, Out, Parameter, Tensor, cell_of, key_of, new, wrap
from mindtorch.core.writable import check_overlap, check_writable

NS = modes.NS
MISSING = Param.none
_META_BUF = np.zeros(16, np.uint8)


# ------------------------------------------------------------------------------------------ entry points
def slow(row: Any, args: tuple[Any, ...]) -> Any:
    """Run ``row`` through every phase."""
    if overrides.wanted(args):
        r = overrides.call(row.fn, *row.as_call(args))
        if r is not NotImplemented:
            return r
    if row.kind == "composite":
        return _composite(row, args)
    values = canonical(row.name, row.params, args)
    if autocast.state.enabled:
        values = autocast.cast(row.autocast, values)
    if not observe.OBSERVERS:
        return _compute(row, values)
    alone = modes.NS["MODE"] == len(observe.OBSERVERS)
    tokens = observe.before(row, values)
    try:
        out = _as_unobserved(row, values) if alone else _compute(row, values)
    except BaseException:
        observe.failed(tokens)
        raise
    for o, token in tokens:
        o.after(row, values, out, token)
    return out


_bare: dict[int, Any] = {}


def _as_unobserved(row: Any, values: list[Any]) -> Any:
    """Run a row as it would run without observers, so that what they measure is what a program pays without them."""
    fn = _bare.get(row.uid)
    if fn is None:
        code = row.fn.__code__
        if "MODE" not in code.co_names:  # not compiled yet
            return _compute(row, values)
        names = {"MODE": "RESTING", "SLOW": "COMPUTE"}
        bare = code.replace(co_names=tuple(names.get(n, n) for n in code.co_names))
        fn = _bare[row.uid] = types.FunctionType(bare, NS, row.name, row.fn.__defaults__)
        fn.__kwdefaults__ = row.fn.__kwdefaults__
    pos, kwargs = row.as_call(tuple(values))
    return fn(*pos, **kwargs)


def _seen_already(row: Any, args: tuple[Any, ...]) -> Any:
    """The slow path of a call that observers have been shown already."""
    return _compute(row, canonical(row.name, row.params, args))


def _composite(row: Any, args: tuple[Any, ...]) -> Any:
    for p, v in zip(row.params, args):
        if v is MISSING:
            raise TypeError(f"{row.name}() missing 1 required positional argument: '{p.name}'")
    values: Sequence[Any] = args
    if autocast.state.enabled and row.autocast is not None:
        values = autocast.cast(row.autocast, list(args))
    tokens = observe.before(row, values) if observe.OBSERVERS else []
    try:
        out = row.impl(values) if values is args else _uncast(row, values)
    except BaseException:
        observe.failed(tokens)
        raise
    for o, token in tokens:
        o.after(row, values, out, token)
    return out


def _uncast(row: Any, values: Sequence[Any]) -> Any:
    """A composite that autocast treats as one op: what it is made of must not be cast again."""
    old = autocast.set_state(False, autocast.state.dtype, autocast.state.cache)
    try:
        return row.impl(values)
    finally:
        autocast.restore(old)


def _compute(row: Any, values: list[Any]) -> Any:
    for p, v in zip(row.params, values):
        if v is MISSING:
            raise TypeError(f"{row.name}() missing 1 required positional argument: '{p.name}'")
    try:
        if row.promote in ("same", "float"):
            values = _promote(row, values)
        dev = accelerate.device_in(values) if accelerators() else None
        if dev is not None:
            r, half, meta = accelerate.compute(row, values, dev), None, False
        else:
            raws, half, meta = _prepare(row, values)
            r = None if meta or not accelerate.FORCED else accelerate.on_cpu(row, values, raws)
            if r is None:
                r = row.call_kernel(raws)
    except (RuntimeError, TypeError, NotImplementedError, MemoryError):
        raise
    except Exception as e:
        if getattr(e, "shown", False):
            raise
        raise translate(row, values, e) from None
    if half is not None:
        r = _round(r, half, row, values)
    out = finish(row, r, values, meta)
    return accelerate.loosen(values, out) if accelerators() else out


def host_kernel(row: Any, values: list[Any]) -> Any:
    """The host kernel's result for operands that are promoted; an accelerator's values are brought over first."""
    raws, half, _ = _prepare(row, values)
    r = row.call_kernel([accelerate.brought(a) for a in raws])
    return r if half is None else _round(r, half, row, values)


def _prepare(row: Any, values: list[Any]) -> tuple[list[Any], Any, bool]:
    """Raw arrays of promoted operands, the half dtype to round the result to, and the meta flag."""
    first = None
    meta = False
    for v in values:
        for t in v if isinstance(v, list) else (v,):
            if isinstance(t, Tensor):
                first = t if first is None else first
                meta = meta or t.k.device.type == "meta"
    half = None
    raws: list[Any] = []
    up = row.half == "f32"
    target = _target(row, values)
    for p, v in zip(row.params, values):
        if isinstance(v, Tensor):
            a = v.a
            if up and v.k.half:
                half = v.k.dtype if half is None else D.promote_types(half, v.k.dtype)
                a = a.astype(np.float32)
            raws.append(a)
        elif p.type == "TL":
            if up and any(t.k.half for t in v):
                half = next(t.k.dtype for t in v if t.k.half)
            raws.append([t.a.astype(np.float32) if up and t.k.half else t.a for t in v])
        elif p.type in ("TN", "TN?") and v is not None:
            raws.append(scalar(v, np.dtype(np.float32) if target.np.itemsize == 2 and up and target.category == 2 else target.np))
        else:
            raws.append(v)
    if meta:
        raws = [_unmeta(a) for a in raws]
    return raws, half, meta


def _target(row: Any, values: Sequence[Any]) -> Any:
    """dtype that numbers given for tensors take."""
    ops = [v for p, v in zip(row.params, values) if p.name in row.promoted and v is not None]
    flat: list[Any] = []
    for v in ops:
        flat += v if isinstance(v, list) else [v]
    if not flat:
        return D.get_default_dtype()
    d = result_type(flat)
    if row.promote == "float" and d.category < D.FLOAT:
        d = D.get_default_dtype()
    return d


def _promote(row: Any, values: list[Any]) -> list[Any]:
    d = _target(row, values)
    out = []
    for p, v in zip(row.params, values):
        if p.name in row.promoted:
            if isinstance(v, Tensor) and v.k.dtype is not d:
                v = v.to(d)
            elif isinstance(v, list):
                v = [t if t.k.dtype is d else t.to(d) for t in v]
        out.append(v)
    return out


def scalar(v: Any, np_dtype: np.dtype) -> np.ndarray:
    """A Python number as a 0-dim array of ``np_dtype``, wrapping as C does; plain numbers are cached on the key."""
    key = NS["PLAIN"][np_dtype.num]
    table = key.floats if v.__class__ is float else key.ints if v.__class__ is int else None
    if table is not None:
        got = table.get(v)
        if got is not None and (v != 0 or v.__class__ is int):
            return got
    if v.__class__ is int and np_dtype.kind in "iu" and not np.iinfo(np_dtype).min <= v <= np.iinfo(np_dtype).max:
        a = np.array(v & ((1 << (8 * np_dtype.itemsize)) - 1), np.uint64).astype(np_dtype)
    else:
        with np.errstate(all="ignore"):
            a = np.array(v).astype(np_dtype)
    if table is not None and v == v and not (v == 0 and v.__class__ is float):
        if len(table) > 2000:
            table.clear()
        if not (v.__class__ is float and key.cat < D.FLOAT):
            a.flags.writeable = False
            table[v] = a
    return a


def result_half(half: D.dtype, row: Any, values: Sequence[Any]) -> D.dtype:
    """The half dtype, unless a dtype argument asked for another."""
    return next((v for p, v in zip(row.params, values) if p.type.startswith("dtype") and v is not None), half)


def _round(r: Any, half: D.dtype, row: Any, values: Sequence[Any]) -> Any:
    """float32 results of a half computation rounded to the half dtype (unless a dtype argument asked for another)."""
    half = result_half(half, row, values)
    if isinstance(r, (tuple, list)):
        return type(r)(_round(x, half, row, values) for x in r)
    if getattr(r, "dtype", None) == np.float32:
        with np.errstate(all="ignore"):
            return np.asarray(r).astype(half.np)
    return r


def _unmeta(a: Any) -> Any:
    if isinstance(a, np.ndarray):
        return np.zeros(a.shape, a.dtype)
    if isinstance(a, list):
        return [_unmeta(x) for x in a]
    return a


def as_meta(shape: Any, d: D.dtype) -> Tensor:
    """A tensor of shape and dtype only: one element of memory, strides as if it were contiguous are not kept."""
    t = new()
    t.a = np.ndarray(shape, d.np, _META_BUF, 0, (0,) * len(shape))
    t.k, t.v, t.n = key_of(d, _meta_device()), None, None
    return t


def _meta_device() -> Any:
    from mindtorch.core import device

    return device.meta


# ------------------------------------------------------------------------------------------ wrapping and recording
def _wrap_one(r: Any, meta: bool) -> Any:
    if r is None:
        return None
    if r.__class__ is not np.ndarray and not hasattr(r, "store"):
        r = np.asarray(r)
    if meta:
        return as_meta(r.shape, NS["PLAIN"][r.dtype.num].dtype)
    return wrap(r)


def finish(row: Any, r: Any, values: Sequence[Any], meta: bool = False) -> Any:
    """Wrap the kernel's result(s), link views to their base, record the node."""
    multi = r.__class__ is tuple or r.__class__ is list
    outs = [_wrap_one(x, meta) for x in r] if multi else [_wrap_one(r, meta)]
    if row.kind == "view":
        _link_views(row, outs, values, multi)
    if modes.state.grad and not meta:
        _record(row, outs, values, multi)
    if not multi:
        return outs[0]
    if row.kind == "view" and outs and outs[0].n is not None:
        watch_parts(outs[0])
    if row.structseq is not None:
        return row.structseq(*outs)
    return type(r)(outs)


def _link_views(row: Any, outs: Sequence[Tensor], values: Sequence[Any], multi: bool) -> None:
    x = values[0]
    cell = cell_of(x)
    for i, t in enumerate(outs):
        t.v = cell
        t.b = (x, row.fn, tuple(values[1:]), i) if multi else (x, row.fn, tuple(values[1:]))
        made_unrecorded(t)


def _edges(row: Any, values: Sequence[Any]) -> tuple[tuple[Any, ...], tuple[int, ...] | None]:
    """Input edges along the row's differentiable parameters, and how many each list parameter has."""
    edges: list[Any] = []
    counts: list[int] = []
    lists = False
    for j in row.grad_index:
        v = values[j]
        if isinstance(v, list):
            edges += [t.n if isinstance(t, Tensor) else None for t in v]
            counts.append(len(v))
            lists = True
        else:
            edges.append(v.n if isinstance(v, Tensor) else None)
            counts.append(-1)
    return tuple(edges), tuple(counts) if lists else None


def _record(row: Any, outs: list[Any], values: Sequence[Any], seq: bool) -> None:
    row.prepare()
    edges, counts = _edges(row, values)
    if not any(e is not None for e in edges):
        return
    for e in edges:
        if e.__class__ is Lost:
            e.refuse()
    live = [i for i, t in enumerate(outs) if t is not None and t.k.diff and i not in row.nondiff]
    if not live:
        return
    cls = row.node_class(len(outs), seq, row.label_for(values))
    nd = object.__new__(cls)
    nd.e = edges
    nd.q = 0
    multi = len(outs) > 1
    saved: list[Any] = []
    for name in row.saved:
        if name == "out":
            entries = tuple((t.a, t.k, _out_cell(t), i) if t is not None else None for i, t in enumerate(outs))
            saved.append(entries if seq else entries[0])
        elif is_part(name):
            i = int(name[3:])
            t = outs[i]
            saved.append((t.a, t.k, _out_cell(t), i) if t is not None else None)
        elif name in row.index:
            saved.append(values[row.index[name]])
        else:
            saved.append(_meta_of(row, name, values))
    if NS["INFERENCE"]:
        check_savable(saved)
    pack = getattr(modes.state, "pack", None)
    if pack:
        saved = [_pack(s, pack[-1]) for s in saved]
    if counts is not None:
        saved.append(counts)
    nd.s = tuple(saved)
    nd.q = STAMP()
    for name in row.copied if not pack else ():
        watch(nd, values[row.index[name]])
    _note_shapes(row, nd, outs, values)
    if getattr(modes.state, "anomaly", False):
        import traceback

        nd.__dict__["trace"] = traceback.format_list(_user_stack())
    for i in live:
        outs[i].n = Out(nd, i) if multi else nd


def _meta_of(row: Any, name: str, values: Sequence[Any]) -> Any:
    """Shape or dtype of a parameter, for rules that name ``input_shape`` or ``input_dtype``."""
    param, what = name.rsplit("_", 1)
    v = values[row.index[param]]
    if param in row.keeps:
        return v
    if isinstance(v, list):
        return [t.a.shape if what == "shape" else t.k.dtype for t in v]
    if not isinstance(v, Tensor):
        return None if v is None else () if what == "shape" else D.of_number(v)
    return v.a.shape if what == "shape" else v.k.dtype


def _out_cell(t: Tensor) -> Cell:
    if t.v is None:
        t.v = Cell(t.a)
    return t.v


def _pack(s: Any, hooks: tuple[Any, Any]) -> Any:
    if isinstance(s, Tensor):
        return Packed(hooks[0], hooks[1], s)
    if s.__class__ is tuple and len(s) == 4 and isinstance(s[0], np.ndarray):
        t = new()
        t.a, t.k, t.v, t.n = s[0], s[1], s[2], None
        p = Packed(hooks[0], hooks[1], t)
        return p
    if isinstance(s, list):
        return [_pack(x, hooks) for x in s]
    return s


def _user_stack() -> list[Any]:
    import os
    import traceback

    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
    return [f for f in traceback.extract_stack() if not f.filename.startswith((here, "<mindtorch"))]


def _note_shapes(row: Any, nd: Any, outs: list[Any], values: Sequence[Any]) -> None:
    """Note input shapes when broadcasting means that gradients have to be summed down."""
    if row.promote not in ("same", "float") or len(outs) != 1:
        return
    shapes: list[Any] = []
    differ = False
    target = outs[0].a.shape
    for j in row.grad_index:
        v = values[j]
        for t in v if isinstance(v, list) else (v,):
            s = t.a.shape if isinstance(t, Tensor) else None
            shapes.append(s)
            differ = differ or (s is not None and s != target)
    if differ:
        nd.m = tuple(shapes)


# ------------------------------------------------------------------------------------------ other forms
def with_kwargs(row: Any, args: tuple[Any, ...], kw: dict[str, Any]) -> Any:
    """A call with NumPy's keyword names (axis, keepdims ...) or a varargs parameter given by name."""
    values = list(args)
    names = row.index
    extra: dict[str, Any] = {}
    for k, v in kw.items():
        name = k if k in names else KW_ALIAS.get(k, k)
        if k == "out":
            extra["out"] = v
        elif name not in names:
            raise TypeError(f"{row.name}() got an unexpected keyword argument '{k}'")
        else:
            values[names[name]] = v
    pos, kwargs = row.as_call(tuple(values))
    return row.fn(*pos, **kwargs, **extra)


def with_out(row: Any, args: tuple[Any, ...], out: Any) -> Any:
    """``out=``: compute, then write into the given tensor(s), resized when they are empty or of another shape."""
    if overrides.wanted((*args, out)):
        pos, kwargs = row.as_call(args)
        r = overrides.call(row.fn, pos, {**kwargs, "out": out})
        if r is not NotImplemented:
            return r
    outs = list(out) if isinstance(out, (tuple, list)) else [out]
    for o in outs:
        if not isinstance(o, Tensor):
            raise TypeError(f"{row.name}(): argument 'out' must be Tensor, not {type(o).__name__}")
    if modes.state.grad and any(t.n is not None for t in [*tensors_in(args), *outs]):
        raise RuntimeError(
            f"{row.name}(): functions with out=... arguments don't support automatic differentiation, but one of the "
            "arguments requires grad."
        )
    pos, kwargs = row.as_call(args)
    got = row.fn(*pos, **kwargs)
    gots = list(got) if isinstance(got, (tuple, list)) else [got]
    for o, g in zip(outs, gots):
        if row.promote in ("same", "float") or row.name in _CHECKED:
            check_overlap(o.a, tensors_in(args), row.name)
        write_out(row.name, o, g)
    return row.structseq(*outs) if row.structseq is not None and len(outs) > 1 else out


_CHECKED = frozenset("cat stack gather index_select cumsum cumprod where take clamp".split())
"""Not elementwise by their kind, and yet PyTorch refuses an ``out=`` that overlaps what they read."""


def tensors_in(args: Any) -> list[Tensor]:
    """Tensors among arguments, lists looked into one level."""
    found = []
    for v in args:
        if isinstance(v, Tensor):
            found.append(v)
        elif isinstance(v, (list, tuple)):
            found += [t for t in v if isinstance(t, Tensor)]
    return found


def write_out(name: str, o: Tensor, g: Tensor) -> None:
    """Write ``g`` into ``o``. RuntimeError when the dtype of ``o`` cannot hold it."""
    if not D.can_cast(g.k.dtype, o.k.dtype):
        raise RuntimeError(
            f"{name}(): result type {g.k.dtype.name} can't be cast to the desired output type {o.k.dtype.name}"
        )
    if o.a.shape != g.a.shape:
        if o.a.size:
            import warnings

            warnings.warn(
                f"An output with one or more elements was resized since it had shape {list(o.a.shape)}, which does not "
                f"match the required output shape {list(g.a.shape)}.",
                UserWarning,
                stacklevel=3,
            )
        o.resize_(g.a.shape)
    check_writable(o, name)
    cast_into(o.a, g.a)
    cell_of(o).bump()
    if observe.OBSERVERS:
        observe.wrote(o, g)


def cast_into(dst: np.ndarray, src: np.ndarray) -> None:
    """``dst[...] = src`` with C casts and without NumPy's warnings."""
    if dst.dtype is src.dtype:
        np.copyto(dst, src)
        return
    with np.errstate(all="ignore"):
        if src.dtype.kind == "c" and dst.dtype.kind != "c":
            src = src.real
        np.copyto(dst, src, casting="unsafe")


# ------------------------------------------------------------------------------------------ errors
def translate(row: Any, values: Sequence[Any], e: Exception) -> Exception:
    """The error a user sees for a failure inside a kernel: PyTorch's type; op, arguments and cause named."""
    name = row.name
    tensors = tensors_in(values)
    if isinstance(e, np.exceptions.AxisError if hasattr(np, "exceptions") else np.AxisError):
        n = tensors[0].a.ndim if tensors else 0
        return IndexError(
            f"{name}(): Dimension out of range (expected to be in range of [{-max(n, 1)}, {max(n, 1) - 1}], but got {e.axis})"
            if getattr(e, "axis", None) is not None
            else f"{name}(): {e}"
        )
    if isinstance(e, IndexError):
        return IndexError(str(e) if str(e).startswith(name) else f"{name}(): {e}")
    if isinstance(e, ValueError) and "broadcast" in str(e) and len(tensors) > 1:
        text = broadcast_error([t.a.shape for t in tensors])
        if text is not None:
            return RuntimeError(text)
    if isinstance(e, np.linalg.LinAlgError):
        return NS.get("LinAlgError", RuntimeError)(f"{name}(): {e}")
    shapes = ", ".join(f"{p.name}={_brief(v)}" for p, v in zip(row.params, values) if v is not p.default)
    return RuntimeError(f"{name}(): {e} (called with {shapes})")


def broadcast_error(shapes: Sequence[tuple[int, ...]]) -> str | None:
    """PyTorch's sentence for shapes that do not broadcast, None when they do."""
    a = shapes[0]
    for b in shapes[1:]:
        for i in range(1, min(len(a), len(b)) + 1):
            if a[-i] != b[-i] and 1 not in (a[-i], b[-i]):
                dim = max(len(a), len(b)) - i
                return (
                    f"The size of tensor a ({a[-i]}) must match the size of tensor b ({b[-i]}) at non-singleton "
                    f"dimension {dim} (shapes {list(a)} and {list(b)}: make them equal, or 1, in this dimension)"
                )
    return None


def _brief(v: Any) -> str:
    if isinstance(v, Tensor):
        return f"{v.k.dtype.name}{list(v.a.shape)}"
    if isinstance(v, list) and v and isinstance(v[0], Tensor):
        return "[" + ", ".join(_brief(t) for t in v[:4]) + (", ..." if len(v) > 4 else "") + "]"
    return repr(v)


NS.update(
    SLOW=slow,
    COMPUTE=_seen_already,
    RESTING=0,
    KW=with_kwargs,
    OUT=with_out,
    FINISH=finish,
    MISSING=MISSING,
    T=Tensor,
    P=Parameter,
    nd=np.ndarray,
    asarray=np.asarray,
    new=new,
    Cell=Cell,
    Leaf=Leaf,
    MarkedCell=MarkedCell,
    WATCH=watch,
    MADE=made_unrecorded,
    SAVABLE=check_savable,
    STAMP=STAMP,
    inf=float("inf"),
    onew=object.__new__,
    is_number=is_number,
)
from mindtorch.core import tensor as _tensor  # noqa: E402

NS["PLAIN"] = _tensor.PLAIN
