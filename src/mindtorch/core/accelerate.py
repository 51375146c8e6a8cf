"""Operations on an accelerator's tensors: the row's MindSpore kernel, or the host kernel with the values brought over.

The phases before (overriding, arguments, observers, autocast) and after (wrapping, tape) are those of every operation;
``core.dispatch`` comes here only for the kernel. A row without a MindSpore kernel, or whose kernel refuses these arguments,
runs its host kernel: that is said at WARNING once per call site, and ``MINDTORCH_HOST_FALLBACK=error`` makes it an error.
"""

from __future__ import annotations

import functools
import logging
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from mindtorch import log
from mindtorch.core import modes, observe
from mindtorch.core.device import simulated
from mindtorch.core.dtype import promote_types
from mindtorch.core.tensor import Tensor, loose_key
from mindtorch.engine import used
from mindtorch.engine.mindspore import array as A
from mindtorch.engine.mindspore import door, kernels
from mindtorch.engine.mindspore.array import DeviceArray

SEEN: dict[str, dict[str, str]] | None = None
"""For the conformance run: op name -> {"kernel" or "accepted" or "fallback": why} of what ran since it was set to a dict."""


def put(a: np.ndarray, dev: Any) -> Any:
    """A host array's values on ``dev``."""
    return A.laid(a, dev)


def moved(a: Any, dev: Any) -> Any:
    """The values of ``a``, from wherever they are, on ``dev`` (the CPU or an accelerator)."""
    if observe.RANGES:
        return observe.within("transfer", f"to {dev.type}", None, _moved, a, dev)
    return _moved(a, dev)


def _moved(a: Any, dev: Any) -> Any:
    if a.__class__ is not DeviceArray:
        return A.laid(a, dev)
    return A.host(a).copy("K") if dev.type == "cpu" else A.made(A.read(a), dev, a.dtype)


FORCED = os.environ.get("MINDTORCH_KERNELS", "").strip().lower() == "mindspore"
"""Whether CPU tensors are computed by MindSpore's kernels wherever there is one (``MINDTORCH_KERNELS=mindspore``)."""

if FORCED:
    modes.enter_mode()


def on_cpu(row: Any, values: Sequence[Any], raws: list[Any]) -> Any:
    """The MindSpore kernel's result for host arrays, None where the host kernel has to do it."""
    # Workers and forked processes never load MindSpore: the host computes there.
    if row.kind == "view" or not door.computes_cpu():
        return None
    fn = kernels.find(row.name)
    if fn is None:
        if not kernels.is_drawn(row.name) and row.name not in _LAYOUT:
            _note(row.name, "fallback", kernels.reason(row.name))
        return None
    try:
        r = fn(*[_to_ms(p, v, a) for p, v, a in zip(row.params, values, raws)])
    except Exception as e:  # whatever MindSpore cannot do here, the host kernel does
        if not _nothing(values):
            _note(row.name, "accepted" if kernels.unregistered(e) else "fallback", _refusal(e))
        return None
    _ran(row.name, fn)
    return tuple(_to_host(x) for x in r) if isinstance(r, (tuple, list)) else _to_host(r)


def _to_ms(p: Any, v: Any, a: Any) -> Any:
    """Argument of a MindSpore kernel: ms.Tensors for the memory ``a`` of tensors, Python values as they are."""
    if isinstance(v, Tensor):
        return A.read(a) if a.__class__ is DeviceArray else A.upload(a)
    return [_to_ms(p, t, x) for t, x in zip(v, a)] if p.type == "TL" and a is not None else v


def _memory(p: Any, v: Any) -> Any:
    return v.a if isinstance(v, Tensor) else [t.a for t in v] if p.type == "TL" and v is not None else v


def _refusal(e: BaseException) -> str:
    """Why a kernel did not run, in one line."""
    said = [s for s in str(e).splitlines() if s.strip("- \t")]  # MindSpore begins some messages with a rule of dashes
    first = said[0].strip()[:160] if said else type(e).__name__
    return first if isinstance(e, kernels.Unsupported) else f"MindSpore refused: {first}"


def _to_host(t: Any) -> Any:
    return None if t is None else A.download(t, kernels.np_dtype(t)).copy()


def device_in(values: Sequence[Any]) -> Any:
    """The accelerator among the arguments' devices, None when all are on the CPU (or meta)."""
    for v in values:
        if isinstance(v, Tensor):
            if v.a.__class__ is DeviceArray:
                return v.k.device
        elif v.__class__ is list or v.__class__ is tuple:
            for t in v:
                if isinstance(t, Tensor) and t.a.__class__ is DeviceArray:
                    return t.k.device
    return None


def _check_devices(row: Any, values: Sequence[Any], dev: Any) -> None:
    """PyTorch's refusal of tensors on several devices; CPU scalars may stand beside an accelerator's tensor."""
    for p, v in zip(row.params, values):
        for t in v if isinstance(v, (list, tuple)) else (v,):
            if isinstance(t, Tensor) and t.k.device != dev and _stranger(t) and row.name not in _MIXED:
                raise RuntimeError(
                    f"{row.name}(): Expected all tensors to be on the same device, but found at least two devices, {dev} and "
                    f"{t.k.device}! (argument '{p.name}' is on {t.k.device}: move it with .to('{dev}'))"
                )


def _stranger(t: Tensor) -> bool:
    return (t.a.ndim > 0 or t.k.device.type == "meta") and not t.k.loose


# Where the elements lie in memory is no computation.
_LAYOUT = {"_to_device", "_channels_last"}
# One rounding in half precision too: products, which hardware has in it, and exact operations.
_NATIVE = {
    "matmul", "linear", "linear_input", "linear_weight", "linear_bias", "conv_nd", "conv_input", "conv_weight", "channel_sum",
    "_einsum_pair", "add", "sub", "mul", "neg", "abs", "relu", "maximum", "minimum",
}  # fmt: skip
# Indices may come from the CPU, as in PyTorch.
_MIXED = {"_index", "_index_put", "_index_backward", "index_put_at"}


def compute(row: Any, values: list[Any], dev: Any) -> Any:
    """The kernel's result as DeviceArrays (or a tuple of them); operands are promoted already."""
    if row.name == "_to_device":
        return moved(values[0].a, values[1])
    if row.kind == "view":
        return _view(row, values)
    if row.name == "_channels_last":
        return A.channels_last(values[0].a)
    if row.name == "clone" and "contiguous" not in str(values[1]):
        return A.duplicate(values[0].a)
    _check_devices(row, values, dev)
    fn, why = kernels.find(row.name), ""
    if row.name == "native_dropout" and not values[0].a.flags.c_contiguous:
        fn = None  # the mask is drawn in the order of memory, which the kernel does not see
    if fn is not None:
        try:
            r = _launched(row, fn, values, dev)
            door.settle()
            _ran(row.name, fn)
            return r
        except (kernels.Unsupported, RuntimeError, TypeError, ValueError, IndexError, NotImplementedError) as e:
            why = _refusal(e)
            if kernels.unregistered(e) and simulated():
                _note(row.name, "accepted", why)
                _say(row.name, dev, "MindSpore takes the call and has no kernel for its CPU target", refuse=False)
                return _host(row, values, dev)
    if kernels.is_drawn(row.name):
        _note(row.name, "drawn")
    elif not _nothing(values):
        why = why or kernels.reason(row.name)
        _note(row.name, "fallback", why)
        _say(row.name, dev, why)
    return _host(row, values, dev)


def _launched(row: Any, fn: Any, values: list[Any], dev: Any) -> Any:
    """The kernel's result. Half precision is widened inside and rounded once, as on the CPU, except where hardware has the operation.

    Rows that take halves as they are (moves, comparisons) are widened where MindSpore's CPU target has no kernel for halves.
    """
    tensors = [t for v in values for t in (v if isinstance(v, (list, tuple)) else (v,)) if isinstance(t, Tensor)]
    halves = [t.k.dtype for t in tensors if t.k.half]
    if not halves or row.half != "f32" or row.name in _NATIVE:
        try:
            return _wrap(fn(*[_to_ms(p, v, _memory(p, v)) for p, v in zip(row.params, values)]), dev)
        except (RuntimeError, TypeError) as e:
            if not (halves and kernels.unregistered(e) and simulated()):
                raise
    from mindtorch.core import dispatch

    half = dispatch.result_half(functools.reduce(promote_types, halves), row, values)
    return _narrowed(_wrap(fn(*[_to_ms(p, v, _widened(_memory(p, v))) for p, v in zip(row.params, values)]), dev), half.np)


def _widened(a: Any) -> Any:
    if isinstance(a, list):
        return [_widened(x) for x in a]
    return a.astype(np.float32) if isinstance(a, np.ndarray) and a.dtype.itemsize == 2 and a.dtype.kind not in "iu" else a


def _narrowed(r: Any, np_dtype: np.dtype) -> Any:
    if isinstance(r, tuple):
        return tuple(_narrowed(x, np_dtype) for x in r)
    return r.astype(np_dtype) if r is not None and r.dtype == np.float32 else r


def _nothing(values: Sequence[Any]) -> bool:
    """Whether all tensors are without elements: the host then finds a shape, and no values are copied."""
    got = [t for v in values for t in (v if isinstance(v, (list, tuple)) else (v,)) if isinstance(t, Tensor)]
    return bool(got) and not any(t.a.size for t in got)


def brought(a: Any) -> Any:
    """Host copies of an accelerator's memory, lists looked into; other arguments as they are."""
    if a.__class__ is DeviceArray:
        return A.host(a)
    return [brought(x) for x in a] if a.__class__ is list else a


def _note(name: str, what: str, why: str = "") -> None:
    if SEEN is not None:
        SEEN.setdefault(name, {})[what] = why


def _ran(name: str, fn: Any) -> None:
    _note(name, "kernel")
    if used.LISTENERS:
        used.say(f"MindSpore {name if fn.__name__ == '<lambda>' else fn.__name__.strip('_')}")


def _say(name: str, dev: Any, why: str, refuse: bool = True) -> None:
    text = f"{name} on {dev} runs on the host ({why}); values are copied both ways"
    if refuse and os.environ.get("MINDTORCH_HOST_FALLBACK", "").lower() == "error":
        raise RuntimeError(f"{text}: refused because MINDTORCH_HOST_FALLBACK=error; compute it on the CPU, or unset the variable")
    log.once(logging.WARNING, text)


def _view(row: Any, values: list[Any]) -> Any:
    x = values[0].a
    r = row.call_kernel([A.ghost(v.a) if isinstance(v, Tensor) and v.a.__class__ is DeviceArray else
                         v.a if isinstance(v, Tensor) else v for v in values])  # fmt: skip
    if isinstance(r, (tuple, list)):
        return type(r)([A.adopt(v, x.store) for v in r])
    return A.adopt(r, x.store)


def loosen(values: Sequence[Any], out: Any) -> Any:
    """What an operation computes on the CPU from tensors it made for itself is its own too."""
    if any(t.k.loose for v in values for t in (v if isinstance(v, list) else (v,)) if isinstance(t, Tensor)):
        for t in out if isinstance(out, (tuple, list)) else (out,):
            if isinstance(t, Tensor) and t.k.device.type == "cpu":
                t.k = loose_key(t.k)
    return out


def _wrap(r: Any, dev: Any) -> Any:
    if isinstance(r, (tuple, list)):
        return tuple(_wrap(x, dev) for x in r)
    if r is None:
        return None
    return A.made(r, dev, kernels.np_dtype(r))


def _host(row: Any, values: list[Any], dev: Any) -> Any:
    """The row's host kernel on copies of the values, and the result brought to the device."""
    from mindtorch.core import dispatch

    r = dispatch.host_kernel(row, values)
    if isinstance(r, (tuple, list)):
        return type(r)([None if x is None else A.put(np.asarray(x), dev) for x in r])
    return A.put(np.asarray(r), dev)
