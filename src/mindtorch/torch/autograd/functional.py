"""Jacobians, Hessians and their products with vectors, of functions of tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import mindtorch.torch as torch
from mindtorch.core.tensor import Tensor

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]


def _tensors(value: Any, what: str, fn: str) -> tuple[tuple[Tensor, ...], bool]:
    """``value`` as a tuple of tensors, and whether it was one already."""
    packed = isinstance(value, tuple)
    items = tuple(value) if isinstance(value, (tuple, list)) else (value,)
    for i, x in enumerate(items):
        if not isinstance(x, Tensor):
            place = f"Value at index {i} of the {what}" if packed else f"The {what}"
            raise TypeError(
                f"The {what} given to {fn} must be either a Tensor or a tuple of Tensors. {place} has type {type(x)}."
            )
    return items, packed or isinstance(value, list)


def _variables(inputs: Sequence[Tensor], create_graph: bool) -> tuple[Tensor, ...]:
    """Fresh variables: linked to the caller's graph when it wants to differentiate the result."""
    return tuple(x.view_as(x) if create_graph and x.requires_grad else x.detach().requires_grad_(True) for x in inputs)


def _out(values: Sequence[Any], packed: bool, create_graph: bool) -> Any:
    done = tuple(v if create_graph else v.detach() for v in values)
    return done if packed else done[0]


def _vector(v: Any, like: Sequence[Tensor], fn: str, what: str) -> tuple[Tensor, ...]:
    if v is None:
        if len(like) != 1 or like[0].numel() != 1:
            raise RuntimeError(f"The vector v can only be None in {fn} if the {what} is a single element Tensor")
        return (torch.ones_like(like[0]),)
    vs, _ = _tensors(v, "v", fn)
    if len(vs) != len(like):
        raise RuntimeError(f"v is a tuple of invalid length: should be {len(like)} but got {len(vs)}.")
    for i, (a, b) in enumerate(zip(vs, like)):
        if a.shape != b.shape:
            raise RuntimeError(f"v has invalid size at entry {i}: should be {tuple(b.shape)} but got {tuple(a.shape)}.")
    return vs


def _grad(outputs: Any, inputs: Any, vectors: Any, create: bool) -> list[Any]:
    pairs = [(o, v) for o, v in zip(outputs, vectors) if o is not None and o.requires_grad]
    if not pairs:
        return [None] * len(inputs)
    return list(
        torch.autograd.grad(
            [o for o, _ in pairs],
            inputs,
            [v for _, v in pairs],
            create_graph=create,
            retain_graph=True,
            allow_unused=True,
        )
    )


def _filled(grads: Sequence[Any], like: Sequence[Tensor], strict: bool, message: str) -> list[Tensor]:
    """Missing gradients as zeros; RuntimeError instead when ``strict``."""
    if strict and any(g is None for g in grads):
        raise RuntimeError(message)
    return [torch.zeros_like(x) if g is None else g for g, x in zip(grads, like)]


def _check_strict(outputs: Sequence[Tensor], strict: bool, fn: str) -> None:
    if strict and any(not o.requires_grad for o in outputs):
        raise RuntimeError(
            f"{fn}: an output of the user-provided function does not require gradients: in strict mode every output "
            "must be computed from the inputs in a differentiable manner"
        )


_INDEPENDENT = "{0}: the output is independent of an input, which is not allowed in strict mode"


def vjp(func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> Any:
    """``(outputs, v^T J)`` of ``func`` at ``inputs``."""
    with torch.enable_grad():
        xs, packed = _tensors(inputs, "inputs", "vjp")
        xs = _variables(xs, create_graph)
        outputs, out_packed = _tensors(func(*xs), "outputs of the user-provided function", "vjp")
        _check_strict(outputs, strict, "vjp")
        vs = _vector(v, outputs, "vjp", "output of the function")
        grads = _filled(_grad(outputs, xs, vs, create_graph), xs, strict, _INDEPENDENT.format("vjp"))
    return _out(outputs, out_packed, create_graph), _out(grads, packed, create_graph)


def jvp(func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> Any:
    """``(outputs, J v)`` of ``func`` at ``inputs``, by differentiating the vector-Jacobian product."""
    with torch.enable_grad():
        xs, _ = _tensors(inputs, "inputs", "jvp")
        xs = _variables(xs, create_graph)
        vs = _vector(v, xs, "jvp", "input")
        outputs, out_packed = _tensors(func(*xs), "outputs of the user-provided function", "jvp")
        _check_strict(outputs, strict, "jvp")
        dummies = tuple(torch.zeros_like(o).requires_grad_(True) for o in outputs)
        pulled = _filled(_grad(outputs, xs, dummies, True), xs, strict, _INDEPENDENT.format("jvp"))
        pushed = _filled(_grad(pulled, dummies, vs, create_graph), outputs, False, "")
    return _out(outputs, out_packed, create_graph), _out(pushed, out_packed, create_graph)


def _block(output: Tensor, xs: Sequence[Tensor], create: bool, strict: bool) -> list[Tensor]:
    """Jacobian of one output with respect to every input."""
    rows: list[list[Tensor]] = [[] for _ in xs]
    flat = output.reshape(-1)
    for i in range(flat.numel()):
        grads = _grad((flat[i],), xs, (torch.ones_like(flat[i]),), create)
        for store, g in zip(rows, _filled(grads, xs, strict, _INDEPENDENT.format("jacobian"))):
            store.append(g)
    return [
        (torch.stack(r) if r else torch.zeros(0, dtype=x.dtype)).reshape(tuple(output.shape) + tuple(x.shape))
        for r, x in zip(rows, xs)
    ]


def jacobian(
    func: Callable[..., Any],
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Any:
    """The Jacobian: for output i and input j a tensor of shape output.shape + input.shape, nested as both are.

    ``vectorize`` and ``strategy`` choose how PyTorch computes it; the values do not depend on them.
    """
    if strategy not in ("forward-mode", "reverse-mode"):
        raise ValueError(f"strategy must be 'forward-mode' or 'reverse-mode', got {strategy!r}")
    if strategy == "forward-mode" and create_graph:
        raise NotImplementedError(
            'torch.autograd.functional.jacobian: `create_graph=True` and `strategy="forward-mode"` are not supported '
            'together (yet). Please either set `create_graph=False` or `strategy="reverse-mode"`.'
        )
    if strict and vectorize:
        raise RuntimeError(
            "torch.autograd.functional.jacobian: `strict=True` and `vectorized=True` are not supported together."
        )
    with torch.enable_grad():
        xs, packed = _tensors(inputs, "inputs", "jacobian")
        xs = _variables(xs, create_graph)
        outputs, out_packed = _tensors(func(*xs), "outputs of the user-provided function", "jacobian")
        _check_strict(outputs, strict, "jacobian")
        blocks = [_out(_block(o, xs, create_graph, strict), packed, create_graph) for o in outputs]
    return tuple(blocks) if out_packed else blocks[0]


def _scalar(func: Callable[..., Any], xs: Sequence[Tensor], fn: str) -> Tensor:
    out = func(*xs)
    if not isinstance(out, Tensor) or out.numel() != 1:
        raise RuntimeError(f"The function given to {fn} must return a single element Tensor")
    return out


def hessian(
    func: Callable[..., Any],
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Any:
    """Second derivatives of a scalar function: block (i, j) has shape input_i.shape + input_j.shape."""
    xs, packed = _tensors(inputs, "inputs", "hessian")

    def gradient(*variables: Tensor) -> Any:
        out = _scalar(func, variables, "hessian").reshape(())
        grads = _grad((out,), variables, (torch.ones_like(out),), True)
        return tuple(_filled(grads, variables, strict, _INDEPENDENT.format("hessian")))

    blocks = jacobian(gradient, xs, create_graph, strict, vectorize, outer_jacobian_strategy)
    return blocks if packed else blocks[0][0]


def vhp(func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> Any:
    """``(output, v^T H)`` of a scalar function."""
    with torch.enable_grad():
        xs, packed = _tensors(inputs, "inputs", "vhp")
        xs = _variables(xs, create_graph)
        vs = _vector(v, xs, "vhp", "input")
        out = _scalar(func, xs, "vhp")
        _check_strict((out,), strict, "vhp")
        one = torch.ones_like(out)
        grads = _filled(_grad((out,), xs, (one,), True), xs, strict, _INDEPENDENT.format("vhp"))
        twice = _filled(_grad(grads, xs, vs, create_graph), xs, strict, _INDEPENDENT.format("vhp"))
    return _out((out,), False, create_graph), _out(twice, packed, create_graph)


def hvp(func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> Any:
    """``(output, H v)`` of a scalar function. H is symmetric, so this is `vhp`."""
    return vhp(func, inputs, v, create_graph, strict)
