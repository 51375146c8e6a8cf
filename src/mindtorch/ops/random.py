"""Random creation functions. Every number, and every draw taken, is PyTorch's for the same seed."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from mindtorch.core import accelerate, modes, overrides
from mindtorch.core import device as device_
from mindtorch.core import dtype as D
from mindtorch.core.dispatch import as_meta
from mindtorch.core.errors import check
from mindtorch.core.generator import default_generator, stream_for, thread_safe_generator
from mindtorch.core.signature import to_int, to_ints
from mindtorch.core.tensor import Tensor, cell_of, wrap
from mindtorch.engine.host import random as K
from mindtorch.engine.host.mt19937 import Stream
from mindtorch.ops.table import put

Fill = Callable[[Stream, np.ndarray], None]


def public(fn: Callable[..., Any]) -> Callable[..., Any]:
    """``fn`` with ``__torch_function__`` of modes and of the first argument asked first."""

    @functools.wraps(fn)
    def call(*args: Any, **kwargs: Any) -> Any:
        if modes.NS["MODE"] or (args and isinstance(args[0], Tensor) and not args[0].k.plain):
            r = overrides.call(call, args, kwargs) if overrides.wanted(args) else NotImplemented
            if r is not NotImplemented:
                return r
        return fn(*args, **kwargs)

    return call


def _lean(fn: Callable[..., Any], draw: Callable[[Stream, int, np.dtype], np.ndarray]) -> Callable[..., Any]:
    """``public(fn)`` with a short way for ``fn(n, m, ...)`` of the default dtype, device and generator."""
    full = public(fn)

    @functools.wraps(fn)
    def call(*size: Any, **kwargs: Any) -> Any:
        if size and not kwargs and not modes.NS["MODE"] and device_.get_default_device() is device_.cpu:
            n = 1
            for s in size:
                if s.__class__ is not int or s < 0:
                    return full(*size)
                n *= s
            return wrap(draw(default_generator.stream, n, D.get_default_dtype().np).reshape(size))
        return full(*size, **kwargs)

    return call


# ------------------------------------------------------------------------------------------ creation
def _size(name: str, size: tuple[Any, ...], named: Any = None) -> tuple[int, ...]:
    """A size given as ints, as one sequence or by keyword. RuntimeError for negative sizes."""
    if named is not None:
        size = (named,)
    if len(size) == 1 and size[0].__class__ is not int and not isinstance(size[0], (int, np.integer)):
        size = size[0] if size[0].__class__ is tuple else tuple(to_ints(size[0]))
    if all(s.__class__ is int and s >= 0 for s in size):
        return size
    try:
        out = tuple(to_int(s) for s in size)
    except TypeError:
        raise TypeError(
            f"{name}(): argument 'size' must be tuple of ints, but found element of type {size!r}"
        ) from None
    for s in out:
        check(s >= 0, RuntimeError, f"Trying to create tensor with negative dimension {s}: {list(out)}")
    return out


def _create(
    name: str,
    shape: tuple[int, ...],
    d: D.dtype,
    fill: Fill,
    generator: Any = None,
    out: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    strides_of: np.ndarray | None = None,
) -> Tensor:
    """A tensor filled by ``fill``, or ``out`` resized and filled."""
    s = stream_for(generator, name)
    if out is not None:
        check(isinstance(out, Tensor), TypeError, f"{name}(): argument 'out' must be Tensor, not {type(out).__name__}")
        if out.a.shape != shape:
            out.resize_(shape)
        fill(s, out.a)
        cell_of(out).bump()
        return out
    dev = device_.get_default_device() if device is None else device
    if dev is not device_.cpu:
        dev = device_.available(dev)
        if dev.type == "meta":
            return as_meta(shape, d)
    a = np.empty(shape, d.np) if strides_of is None else np.empty_like(strides_of.view(np.ndarray), d.np)
    fill(s, a)
    t = wrap(a if dev.type == "cpu" else accelerate.put(a, dev))
    if requires_grad:
        t.requires_grad_()
    return t


def _float_dtype(dtype: Any, default: D.dtype | None, message: str) -> D.dtype:
    d = default or D.get_default_dtype() if dtype is None else dtype
    if d.__class__ is D.dtype and d.category >= D.FLOAT:
        return d
    check(isinstance(d, D.dtype), TypeError, f"argument 'dtype' must be torch.dtype, not {type(d).__name__}")
    check(d.category >= D.FLOAT, NotImplementedError, message.format(_type_name(d)))
    return d


_NAMES = {"int64": "Long", "int32": "Int", "int16": "Short", "int8": "Char", "uint8": "Byte", "bool": "Bool"}


def _type_name(d: D.dtype) -> str:
    return _NAMES.get(d.name, d.name.capitalize())


_RAND = "\"check_uniform_bounds\" not implemented for '{}'"
_RANDN = "\"normal_kernel_cpu\" not implemented for '{}'"


def _fill_uniform(s: Stream, a: np.ndarray) -> None:
    K.uniform_into(s, a, 0.0, 1.0)


def _fill_normal(s: Stream, a: np.ndarray) -> None:
    K.normal_into(s, a, 0.0, 1.0)


def _random(name: str, fill: Fill, refused: str, what: str) -> Callable[..., Tensor]:
    """``name(*size, ...)``: a tensor of floating numbers drawn by ``fill``; ``refused`` is the error for other dtypes."""

    def make(
        *size: Any,
        generator: Any = None,
        names: Any = None,
        out: Any = None,
        dtype: Any = None,
        layout: Any = None,
        device: Any = None,
        requires_grad: bool = False,
        pin_memory: bool = False,
        **kw: Any,
    ) -> Tensor:
        text = f"{name}() received an invalid combination of arguments: a size is required"
        check(bool(size) or "size" in kw, TypeError, text)
        shape = _size(name, size, _only_size(name, kw) if kw else None)
        _plain(name, names, layout, pin_memory)
        d = _float_dtype(dtype if dtype is not None or out is None else out.dtype, None, refused)
        return _create(name, shape, d, fill, generator, out, device, requires_grad)

    make.__name__ = make.__qualname__ = name
    make.__doc__ = f"{what} of shape ``size``."
    return make


rand = _random("rand", _fill_uniform, _RAND, "Uniform numbers in [0, 1)")
randn = _random("randn", _fill_normal, _RANDN, "Standard normal numbers")


def _only_size(name: str, kw: dict[str, Any]) -> Any:
    extra = set(kw) - {"size"}
    check(not extra, TypeError, f"{name}() got an unexpected keyword argument '{next(iter(extra), '')}'")
    return kw.get("size")


def _plain(name: str, names: Any, layout: Any, pin_memory: bool) -> None:
    """Named dimensions and sparse layouts are refused; pinned memory means nothing on a CPU-only host."""
    if names is None and layout is None and not pin_memory:
        return
    check(names is None, NotImplementedError, f"{name}(): named tensors are not supported; leave 'names' out")
    text = f"{name}(): layout {layout} is not supported for random tensors; make a strided one and convert it"
    check(layout is None or "strided" in str(layout), NotImplementedError, text)
    if pin_memory:
        from mindtorch import log

        log.ignored(name, "pin_memory", "host memory is all there is in this process")


def _int_bounds(name: str, low: Any, high: Any) -> tuple[int, int]:
    lo, hi = to_int(low), to_int(high)
    if lo < hi:
        return lo, hi
    text = f"random_ expects 'from' to be less than 'to', but got from={lo} >= to={hi}"
    check(lo < hi, RuntimeError, text)
    return lo, hi


def randint(
    *args: Any, generator: Any = None, out: Any = None, dtype: Any = None, layout: Any = None, **kw: Any
) -> Tensor:
    """``randint(high, size)`` or ``randint(low, high, size)``: integers in [low, high), int64 by default."""
    names = ("high", "size") if _given(args, kw) == 2 else ("low", "high", "size")
    bound = dict(zip(names, args))
    for k in ("low", "high", "size"):
        if k in kw:
            if k in bound:
                raise TypeError(f"randint() got multiple values for argument '{k}'")
            bound[k] = kw.pop(k)
    for k in ("high", "size"):
        if k not in bound:
            raise TypeError(f"randint() missing required argument '{k}'")
    for k in ("low", "high"):
        if isinstance(bound.get(k), (bool, float)):
            raise TypeError(f"randint(): argument '{k}' must be int, not {type(bound[k]).__name__}")
    shape = _size("randint", (), bound["size"])
    lo, hi = _int_bounds("randint", bound.get("low", 0), bound["high"])
    device, grad, pin = kw.pop("device", None), kw.pop("requires_grad", False), kw.pop("pin_memory", False)
    for k in kw:
        raise TypeError(f"randint() got an unexpected keyword argument '{k}'")
    _plain("randint", None, layout, pin)
    d = dtype if dtype is not None else D.int64 if out is None else out.dtype
    return _create("randint", shape, d, _fill_integers(lo, hi), generator, out, device, grad)


def _given(args: tuple[Any, ...], kw: dict[str, Any]) -> int:
    return len(args) + sum(k in kw for k in ("low", "high", "size"))


def _fill_integers(lo: int, hi: int) -> Fill:
    def fill(s: Stream, a: np.ndarray) -> None:
        _check_range(a.dtype, lo, hi)
        K.put(a, K.integers(s, a.size, lo, hi))

    return fill


_C_NAMES = {"uint8": "unsigned char", "int8": "signed char", "int16": "short", "int32": "int", "int64": "int64_t"}
_C_NAMES |= {
    "bool": "bool",
    "float16": "c10::Half",
    "bfloat16": "c10::BFloat16",
    "float32": "float",
    "float64": "double",
}


def _check_range(np_dtype: np.dtype, lo: int, hi: int) -> None:
    """RuntimeError unless ``lo`` and ``hi - 1`` are values of the dtype."""
    if np_dtype.num == np.dtype(np.int64).num and lo >= -(1 << 63) and hi <= 1 << 63:
        return
    d = D.from_np(np_dtype)
    if d.category == D.FLOAT:
        top = float(D.finfo(d).max)
        bounds = (-top, top)
        span = 1 << K.DIGITS[d.name]
        if d in (D.float32, D.float64) and (lo < -span or hi - 1 > span):
            _warn_span(d, hi - 1 > span)
    elif d is D.bool_:
        bounds = (0, 1)
    else:
        info = np.iinfo(np_dtype)
        bounds = (int(info.min), int(info.max))
    for label, v in (("from", lo), ("to - 1", hi - 1)):
        check(bounds[0] <= v <= bounds[1], RuntimeError, f"{label} is out of bounds for {_C_NAMES.get(d.name, d.name)}")


def _warn_span(d: D.dtype, top: bool) -> None:
    import warnings

    n = K.DIGITS[d.name]
    warnings.warn(
        f"{'to - 1' if top else 'from'} is out of bounds [-(2^{n}), 2^{n}]. Due to precision limitations "
        f"{_C_NAMES[d.name]} can support discrete uniform distribution only within this range.",
        UserWarning,
        stacklevel=4,
    )


def randperm(
    n: int,
    *,
    generator: Any = None,
    out: Any = None,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """A random permutation of 0..n-1 (int64 unless ``dtype`` is given)."""
    n = to_int(n)
    check(n >= 0, RuntimeError, f"Trying to create tensor with negative dimension {n}: [{n}]")
    _plain("randperm", None, layout, pin_memory)
    d = dtype if dtype is not None else D.int64 if out is None else out.dtype

    def fill(s: Stream, a: np.ndarray) -> None:
        with np.errstate(all="ignore"):
            a[...] = K.permutation(s, n)

    return _create("randperm", (n,), d, fill, generator, out, device, requires_grad)


def _like(name: str, input: Any, dtype: Any, memory_format: Any, layout: Any, device: Any) -> tuple[Any, ...]:
    """dtype, device and the array whose strides the result takes (None: contiguous)."""
    check(
        isinstance(input, Tensor), TypeError, f"{name}(): argument 'input' must be Tensor, not {type(input).__name__}"
    )
    _plain(name, None, layout, False)
    d = input.k.dtype if dtype is None else dtype
    keep = memory_format is None or "preserve" in str(memory_format)
    if memory_format is not None and "channels_last" in str(memory_format):
        order = (0, *range(2, input.a.ndim), 1)
        base = np.empty([input.a.shape[i] for i in order], np.uint8)
        return d, device or input.k.device, base.transpose(np.argsort(order))
    dense = keep and not input.a.flags.c_contiguous
    return d, device or input.k.device, input.a if dense else None


def _random_like(name: str, fill: Fill, refused: str, what: str) -> Callable[..., Tensor]:
    def make(
        input: Tensor,
        *,
        generator: Any = None,
        dtype: Any = None,
        layout: Any = None,
        device: Any = None,
        pin_memory: bool = False,
        requires_grad: bool = False,
        memory_format: Any = None,
    ) -> Tensor:
        d, dev, like = _like(name, input, dtype, memory_format, layout, device)
        d = _float_dtype(d, None, refused)
        return _create(name, input.a.shape, d, fill, generator, None, dev, requires_grad, like)

    make.__name__ = make.__qualname__ = name
    make.__doc__ = f"{what} in the shape, dtype and memory order of ``input``."
    return make


rand_like = _random_like("rand_like", _fill_uniform, _RAND, "Uniform numbers")
randn_like = _random_like("randn_like", _fill_normal, _RANDN, "Standard normal numbers")


def randint_like(
    input: Tensor,
    *bounds: Any,
    low: Any = 0,
    high: Any = None,
    generator: Any = None,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """``randint_like(input, high)`` or ``randint_like(input, low, high)``: integers in the dtype of ``input``."""
    if len(bounds) == 1 and high is None:
        high = bounds[0]
    elif bounds:
        low, high = bounds[0], bounds[1] if len(bounds) == 2 else high
    check(high is not None and len(bounds) <= 2, TypeError, "randint_like() missing required argument 'high'")
    d, dev, like = _like("randint_like", input, dtype, memory_format, layout, device)
    lo, hi = _int_bounds("randint_like", low, high)
    return _create("randint_like", input.a.shape, d, _fill_integers(lo, hi), generator, None, dev, requires_grad, like)


put("torch", rand=_lean(rand, K.uniform), randn=_lean(randn, K.normal))
for _fn in (randint, randperm, rand_like, randn_like, randint_like):
    put("torch", **{_fn.__name__: public(_fn)})
put("torch", thread_safe_generator=thread_safe_generator)
