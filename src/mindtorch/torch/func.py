"""``torch.func``: transforms of functions. Gradients run on the tape; ``vmap`` runs the function once per sample.

A transform gives its function fresh variables: new leaves, or aliases linked to the caller's graph, so that transforms
nest. A result is cut from the graph unless something outside the transform requires its gradient.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import mindtorch.torch as torch
from mindtorch.core.tensor import Tensor
from mindtorch.torch._vmap import vmap
from mindtorch.torch.utils._pytree import tree_flatten, tree_leaves, tree_map, tree_unflatten

__all__ = [
    "debug_unwrap",
    "functional_call",
    "functionalize",
    "grad",
    "grad_and_value",
    "hessian",
    "jacfwd",
    "jacrev",
    "jvp",
    "linearize",
    "replace_all_batch_norm_modules_",
    "stack_module_state",
    "vjp",
    "vmap",
]


# ------------------------------------------------------------------------------------------ variables and graphs


def _fresh(x: Any) -> Any:
    """``x`` as a variable of this transform."""
    if not isinstance(x, Tensor):
        raise TypeError(f"expected every input to differentiate to be a Tensor, got {type(x).__name__}")
    if x.requires_grad:
        with torch.enable_grad():
            return x.view_as(x)
    return x.detach().requires_grad_()


def _foreign(outputs: Sequence[Any], own: Sequence[Tensor]) -> bool:
    """Whether gradients of ``outputs`` are wanted by a leaf that is not one of ``own``."""
    mine = {id(t) for t in own if t.is_leaf}
    aliases = {id(t.grad_fn) for t in own if not t.is_leaf}
    if aliases:
        return True
    stack = [o.grad_fn for o in outputs if isinstance(o, Tensor) and o.grad_fn is not None]
    for o in outputs:
        if isinstance(o, Tensor) and o.requires_grad and o.is_leaf and id(o) not in mine:
            return True
    seen: set[int] = set()
    while stack:
        node = stack.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        for child, _ in node.next_functions:
            variable = getattr(child, "variable", None)
            if variable is not None:
                if id(variable) not in mine:
                    return True
            elif child is not None:
                stack.append(child)
    return False


def _leaving(tree: Any, keep: bool) -> Any:
    """Results of a transform: cut from the graph unless it goes on outside."""
    if keep:
        return tree
    return tree_map(lambda x: x.detach() if isinstance(x, Tensor) and x.requires_grad else x, tree)


def _zeros_for_none(grads: Sequence[Any], like: Sequence[Tensor]) -> list[Tensor]:
    return [torch.zeros_like(x) if g is None else g for g, x in zip(grads, like)]


def _pull(outputs: Sequence[Tensor], inputs: Sequence[Tensor], cotangents: Sequence[Any], create: bool) -> list[Tensor]:
    """Vector-Jacobian product; outputs without a graph contribute nothing."""
    pairs = [(o, c) for o, c in zip(outputs, cotangents) if isinstance(o, Tensor) and o.requires_grad]
    if not pairs:
        return [torch.zeros_like(x) for x in inputs]
    with torch.enable_grad():
        grads = torch.autograd.grad(
            [o for o, _ in pairs],
            inputs,
            [c for _, c in pairs],
            create_graph=create,
            retain_graph=True,
            allow_unused=True,
        )
    return _zeros_for_none(grads, inputs)


def _picked(argnums: int | tuple[int, ...], args: tuple[Any, ...]) -> tuple[int, ...]:
    numbers = (argnums,) if isinstance(argnums, int) else tuple(argnums)
    for n in numbers:
        if not -len(args) <= n < len(args):
            raise RuntimeError(f"Got argnum={n}, but only {len(args)} positional inputs")
    return tuple(n % len(args) for n in numbers)


def _with_fresh(args: tuple[Any, ...], numbers: tuple[int, ...]) -> tuple[list[Any], list[Any], Any]:
    """Arguments with the picked ones replaced by fresh variables; those variables flat, and their structure."""
    flat, spec = tree_flatten([args[n] for n in numbers])
    fresh = [_fresh(x) for x in flat]
    new = list(args)
    for n, value in zip(numbers, tree_unflatten(fresh, spec)):
        new[n] = value
    return new, fresh, spec


def _split_aux(result: Any, has_aux: bool) -> tuple[Any, Any]:
    if not has_aux:
        return result, None
    if not (isinstance(result, tuple) and len(result) == 2):
        raise RuntimeError("has_aux=True: the function must return a tuple (output, aux)")
    return result


# ------------------------------------------------------------------------------------------ gradients


def grad_and_value(func: Callable[..., Any], argnums: int | tuple[int, ...] = 0, has_aux: bool = False) -> Any:
    """A function that returns ``(gradient, value)`` of ``func``, which must return one scalar tensor."""

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        numbers = _picked(argnums, args)
        recording = torch.is_grad_enabled()
        new, fresh, spec = _with_fresh(args, numbers)
        with torch.enable_grad():
            value, aux = _split_aux(func(*new, **kwargs), has_aux)
        if not isinstance(value, Tensor):
            raise RuntimeError(f"Expected f(*args) to return a Tensor, got {type(value).__name__}")
        if value.dim() != 0:
            raise RuntimeError(f"Expected f(*args) to return a scalar tensor, got tensor with {value.dim()} dims")
        keep = recording and _foreign([value, *tree_leaves(aux)], fresh)
        grads = _pull([value], fresh, [torch.ones_like(value)], keep)
        parts = tree_unflatten(grads, spec)
        gradient = parts[0] if isinstance(argnums, int) else tuple(parts)
        gradient, value, aux = _leaving(gradient, keep), _leaving(value, keep), _leaving(aux, keep)
        return (gradient, (value, aux)) if has_aux else (gradient, value)

    return wrapper


def grad(func: Callable[..., Any], argnums: int | tuple[int, ...] = 0, has_aux: bool = False) -> Any:
    """A function that returns the gradient of ``func`` with respect to the picked arguments."""
    both = grad_and_value(func, argnums, has_aux)

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        gradient, value = both(*args, **kwargs)
        return (gradient, value[1]) if has_aux else gradient

    return wrapper


def vjp(func: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """``(output, vjp_fn)``: ``vjp_fn(cotangents)`` returns a tuple of gradients, one per primal."""
    recording = torch.is_grad_enabled()
    new, fresh, spec = _with_fresh(primals, tuple(range(len(primals))))
    with torch.enable_grad():
        output, aux = _split_aux(func(*new), has_aux)
    flat, out_spec = tree_flatten(output)
    keep = recording and _foreign([*flat, *tree_leaves(aux)], fresh)

    def vjp_fn(cotangents: Any, retain_graph: bool = True, create_graph: bool | None = None) -> Any:
        given, given_spec = tree_flatten(cotangents)
        if given_spec != out_spec:
            raise RuntimeError(f"Expected cotangents of the structure of the output, {out_spec}, got {given_spec}")
        outside = any(isinstance(c, Tensor) and c.requires_grad for c in given)
        create = (keep or outside) if create_graph is None else create_graph
        grads = _pull(flat, fresh, given, create)
        parts = tree_unflatten(grads, spec)
        return tuple(_leaving(parts, create))

    result = _leaving(output, keep)
    return (result, vjp_fn, _leaving(aux, keep)) if has_aux else (result, vjp_fn)


def _forward_over(outputs: Sequence[Any], inputs: Sequence[Tensor], tangents: Sequence[Tensor]) -> list[Any]:
    """Jacobian-vector product by differentiating the vector-Jacobian product, which is linear in its vector."""
    out: list[Any] = []
    for o in outputs:
        if not isinstance(o, Tensor) or not o.requires_grad:
            out.append(torch.zeros_like(o) if isinstance(o, Tensor) else o)
            continue
        with torch.enable_grad():
            dummy = torch.zeros_like(o).requires_grad_()
            pulled = torch.autograd.grad([o], inputs, [dummy], create_graph=True, allow_unused=True)
            pairs = [(p, t) for p, t in zip(pulled, tangents) if p is not None and p.requires_grad]
            if not pairs:
                out.append(torch.zeros_like(o))
                continue
            (pushed,) = torch.autograd.grad(
                [p for p, _ in pairs], [dummy], [t for _, t in pairs], create_graph=True, allow_unused=True
            )
        out.append(torch.zeros_like(o) if pushed is None else pushed)
    return out


def jvp(func: Callable[..., Any], primals: Any, tangents: Any, *, strict: bool = False, has_aux: bool = False) -> Any:
    """``(output, directional derivative)`` of ``func`` at ``primals`` along ``tangents`` (tuples alike)."""
    if not isinstance(primals, tuple) or not isinstance(tangents, tuple):
        raise RuntimeError("jvp(f, primals, tangents): primals and tangents must be tuples")
    given, given_spec = tree_flatten(tangents)
    new, fresh, spec = _with_fresh(primals, tuple(range(len(primals))))
    if tree_flatten(tree_unflatten(given, given_spec))[1] != tree_flatten(primals)[1]:
        raise RuntimeError("jvp(f, primals, tangents): primals and tangents must have the same structure")
    recording = torch.is_grad_enabled()
    with torch.enable_grad():
        output, aux = _split_aux(func(*new), has_aux)
    flat, out_spec = tree_flatten(output)
    if strict and any(not (isinstance(o, Tensor) and o.requires_grad) for o in flat):
        raise RuntimeError("jvp(f, primals, tangents, strict=True): an output does not depend on the primals")
    keep = recording and (_foreign([*flat, *tree_leaves(aux)], fresh) or any(t.requires_grad for t in given))
    pushed = tree_unflatten(_forward_over(flat, fresh, given), out_spec)
    result = (_leaving(output, keep), _leaving(pushed, keep))
    return (*result, _leaving(aux, keep)) if has_aux else result


def linearize(func: Callable[..., Any], *primals: Any) -> Any:
    """``(output, jvp_fn)``: ``jvp_fn(*tangents)`` is the derivative of ``func`` at ``primals``."""
    output = _leaving(func(*primals), True)

    def jvp_fn(*tangents: Any) -> Any:
        return jvp(func, primals, tangents)[1]

    return output, jvp_fn


# ------------------------------------------------------------------------------------------ whole Jacobians


def _rows(output: Tensor, inputs: Sequence[Tensor], create: bool) -> list[Tensor]:
    """Jacobian of one output with respect to each input: shape output.shape + input.shape."""
    count = output.numel()
    collected: list[list[Tensor]] = [[] for _ in inputs]
    for i in range(count):
        unit = torch.zeros(count, dtype=output.dtype)
        unit[i] = 1
        for store, g in zip(collected, _pull([output], inputs, [unit.reshape(output.shape)], create)):
            store.append(g)
    shapes = [tuple(output.shape) + tuple(x.shape) for x in inputs]
    return [
        torch.stack(rows).reshape(s) if rows else torch.zeros(s, dtype=x.dtype)
        for rows, s, x in zip(collected, shapes, inputs)
    ]


def jacrev(
    func: Callable[..., Any],
    argnums: int | tuple[int, ...] = 0,
    *,
    has_aux: bool = False,
    chunk_size: int | None = None,
    _preallocate_and_copy: bool = False,
) -> Any:
    """A function that returns the Jacobian of ``func``, one backward pass per output element.

    ``chunk_size`` limits memory in PyTorch; passes run one by one here, so any value is honoured.
    """
    if chunk_size is not None and chunk_size <= 0:
        raise ValueError("jacrev: `chunk_size` should be greater than 0.")

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        numbers = _picked(argnums, args)
        recording = torch.is_grad_enabled()
        new, fresh, spec = _with_fresh(args, numbers)
        with torch.enable_grad():
            output, aux = _split_aux(func(*new, **kwargs), has_aux)
        flat, out_spec = tree_flatten(output)
        if any(not isinstance(o, Tensor) for o in flat):
            raise RuntimeError("jacrev: the function must return tensors")
        keep = recording and _foreign([*flat, *tree_leaves(aux)], fresh)
        per_output = []
        for o in flat:
            parts = tree_unflatten(_rows(o, fresh, keep), spec)
            per_output.append(_leaving(parts[0] if isinstance(argnums, int) else tuple(parts), keep))
        result = tree_unflatten(per_output, out_spec)
        return (result, _leaving(aux, keep)) if has_aux else result

    return wrapper


def jacfwd(
    func: Callable[..., Any], argnums: int | tuple[int, ...] = 0, has_aux: bool = False, *, randomness: str = "error"
) -> Any:
    """As `jacrev` (same values and layout): the tape runs backwards only, so both share one algorithm.

    ``func`` is called once, so all columns see the same random numbers whatever ``randomness`` says.
    """
    if randomness not in ("error", "same", "different"):
        raise RuntimeError(f"Only allowed values for randomness are 'error', 'different', or 'same'. Got {randomness}")
    return jacrev(func, argnums, has_aux=has_aux)


def hessian(func: Callable[..., Any], argnums: int | tuple[int, ...] = 0) -> Any:
    """A function that returns the second derivatives of ``func``."""
    return jacfwd(jacrev(func, argnums), argnums)


# ------------------------------------------------------------------------------------------ modules as functions


def functional_call(
    module: Any,
    parameter_and_buffer_dicts: Any,
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Call ``module`` with its parameters and buffers replaced by those of the dict (or dicts) for this call."""
    if isinstance(parameter_and_buffer_dicts, dict):
        values = parameter_and_buffer_dicts
    elif isinstance(parameter_and_buffer_dicts, Sequence):
        values = {k: v for d in parameter_and_buffer_dicts for k, v in d.items()}
        if len(values) != sum(len(d) for d in parameter_and_buffer_dicts):
            raise ValueError("a name appears in more than one of parameter_and_buffer_dicts")
    else:
        raise ValueError(
            "Expected parameter_and_buffer_dicts to be a dict, or a list/tuple of dicts, "
            f"but got {type(parameter_and_buffer_dicts)}"
        )
    from mindtorch.torch.nn.utils import stateless

    return stateless._functional_call(module, values, args, kwargs, tie_weights=tie_weights, strict=strict)


def stack_module_state(models: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Parameters and buffers of equal modules stacked along a new first dimension, for ``vmap`` over models."""
    models = list(models)
    if not models:
        raise RuntimeError("stack_module_state: Expected at least one model, got 0.")
    if any(m.training != models[0].training for m in models):
        raise RuntimeError("stack_module_state: Expected all models to have the same training/eval mode.")
    if any(type(m) is not type(models[0]) for m in models):
        raise RuntimeError("stack_module_state: Expected all models to be of the same class.")

    def stacked(dicts: list[dict[str, Any]], leaf: bool) -> dict[str, Any]:
        out = {}
        for name in dicts[0]:
            tensors = tuple(d[name] for d in dicts)
            wanted = leaf and all(t.requires_grad for t in tensors)
            joined = torch.stack([t.detach() for t in tensors]) if leaf else torch.stack(tensors)
            out[name] = joined.requires_grad_() if wanted else joined
        return out

    parameters = stacked([dict(m.named_parameters()) for m in models], True)
    return parameters, stacked([dict(m.named_buffers()) for m in models], False)


def functionalize(func: Callable[..., Any], *, remove: str = "mutations") -> Callable[..., Any]:
    """``func`` itself: in-place operations are exact here, so nothing has to be rewritten to transform a function."""
    if remove not in ("mutations", "mutations_and_views"):
        raise RuntimeError(f"functionalize: remove must be 'mutations' or 'mutations_and_views', got {remove!r}")
    return func


def debug_unwrap(tensor: Tensor, *, recurse: bool = True) -> Tensor:
    """The tensor itself: transforms do not wrap tensors here."""
    return tensor


def replace_all_batch_norm_modules_(root: Any) -> Any:
    """Switch every batch norm of ``root`` to batch statistics, in place, so that ``vmap`` can run it."""
    for m in root.modules():
        if type(m).__name__.startswith(("BatchNorm", "LazyBatchNorm", "SyncBatchNorm")):
            m.running_mean = m.running_var = m.num_batches_tracked = None
            m.track_running_stats = False
    return root
