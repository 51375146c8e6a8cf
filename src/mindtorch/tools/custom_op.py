"""Plug in a kernel of your own, with its gradient.

A host kernel takes and returns NumPy arrays; one of MindSpore (``ops.Custom``, a primitive, any function of its tensors) takes and
returns MindSpore tensors::

    def kernel(x, w): ...                      # ndarrays in, ndarray out
    def gradient(g, x, w, out): ...            # gradient of out, the inputs, out -> one gradient (or None) an input
    scale = custom_op(kernel, gradient)
    y = scale(x, w)                            # tensors in, tensor out, recorded for backward
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mindtorch import torch
from mindtorch.core.tensor import Tensor

ENGINES = ("host", "mindspore")


def _inward(value: Any, engine: str) -> Any:
    if not isinstance(value, Tensor):
        return value
    if engine == "host":
        return value.detach().numpy()
    from mindtorch.engine.mindspore import door  # loads MindSpore

    return door.tensor(value.detach().numpy())


def _outward(value: Any, name: str) -> Tensor:
    array = value.asnumpy() if hasattr(value, "asnumpy") else value
    if not isinstance(array, (np.ndarray, np.generic)):
        raise TypeError(f"custom_op {name}: the kernel must return an array, got {type(value).__name__}")
    return torch.from_numpy(np.ascontiguousarray(array).reshape(np.shape(array)))


def custom_op(
    kernel: Callable[..., Any], gradient: Callable[..., Any] | None = None, *, engine: str = "host", name: str | None = None
) -> Callable[..., Tensor]:
    """A function of tensors that runs ``kernel`` on their arrays.

    Args:
        kernel: gets an array for every tensor argument and other arguments as they are; returns one array. It must not write to
            its arguments, which share the tensors' memory.
        gradient: gets the gradient of the result, the kernel's arguments, and the result; returns for every argument the
            gradient (an array of its shape) or None: a tuple, or the one gradient where there is one argument. Without it the
            result carries no gradient.
        engine: "host" for NumPy arrays, "mindspore" for MindSpore tensors.
        name: shown in errors and in ``grad_fn``; the kernel's own by default.

    Raises:
        ValueError: another engine; in backward, gradients of another number or shape than the arguments.
        TypeError: the kernel returns no array.
    """
    if engine not in ENGINES:
        raise ValueError(f"custom_op: engine must be one of {', '.join(ENGINES)}, got {engine!r}")
    label: str = name or getattr(kernel, "__name__", "custom_op")

    def forward(ctx: Any, *args: Any) -> Tensor:
        out = _outward(kernel(*(_inward(a, engine) for a in args)), label)
        if gradient is None:
            ctx.mark_non_differentiable(out)
        ctx.others = [None if isinstance(a, Tensor) else (a,) for a in args]
        ctx.save_for_backward(*(a for a in args if isinstance(a, Tensor)), out)
        return out

    def backward(ctx: Any, g: Tensor) -> Any:
        if gradient is None:
            return tuple(None for _ in ctx.others)
        *saved, out = ctx.saved_tensors
        rest = iter(saved)
        args = [next(rest) if o is None else o[0] for o in ctx.others]
        made = gradient(_inward(g, engine), *(_inward(a, engine) for a in args), _inward(out, engine))
        return _checked(made, args, label)

    made = type(label, (torch.autograd.Function,), {"forward": staticmethod(forward), "backward": staticmethod(backward)})

    def op(*args: Any) -> Tensor:
        return made.apply(*args)  # type: ignore[attr-defined, no-any-return]

    op.__name__, op.__doc__ = label, kernel.__doc__
    return op


def _checked(made: Any, args: list[Any], name: str) -> tuple[Tensor | None, ...]:
    grads = made if isinstance(made, tuple) else (made,)
    if len(grads) != len(args):
        raise ValueError(f"custom_op {name}: the gradient function must return {len(args)} gradients (or None), got {len(grads)}")
    out = []
    for i, (g, a) in enumerate(zip(grads, args)):
        t = None if g is None or not isinstance(a, Tensor) else _outward(g, name)
        if t is not None and t.shape != a.shape:
            raise ValueError(f"custom_op {name}: gradient {i} has shape {tuple(t.shape)}, its argument {tuple(a.shape)}")
        out.append(t if t is None else t.to(a.dtype))
    return tuple(out)
