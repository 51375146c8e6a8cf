"""``torch.autograd.backward`` and ``torch.autograd.grad`` over the tape."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mindtorch.core import observe, tape
from mindtorch.core.errors import bounded
from mindtorch.core.tensor import Tensor, filled_like, wrap


def _listed(x: Any) -> list[Any]:
    return [x] if isinstance(x, Tensor) or not isinstance(x, Sequence) else list(x)


def _check_inputs(inputs: list[Any]) -> None:
    for t in inputs:
        if not isinstance(t, Tensor):
            raise TypeError(f"inputs must be Tensors, got {type(t).__name__}")
        if t.n is None:
            raise RuntimeError("One of the differentiated Tensors does not require grad")


@bounded
def backward(
    tensors: Any, grad_tensors: Any = None, retain_graph: Any = None, create_graph: bool = False, grad_variables: Any = None,
    inputs: Any = None,
) -> None:  # fmt: skip
    """Accumulate into the leaves (or ``inputs``) the gradients of ``tensors``."""
    roots = _listed(tensors)
    grads = grad_tensors if grad_tensors is not None else grad_variables
    roots, given = tape.make_roots(roots, None if grads is None else _listed(grads))
    keep = create_graph if retain_graph is None else bool(retain_graph)
    wanted = None
    if inputs is not None:
        wanted = _listed(inputs)
        if not wanted:
            raise RuntimeError("`inputs` argument to `backward()` cannot be empty.")
        _check_inputs(wanted)
    for o in observe.OBSERVERS:
        if hasattr(o, "backward"):
            o.backward(roots)
    tape.run_backward(roots, given, keep, create_graph, wanted, True)


@bounded
def grad(
    outputs: Any, inputs: Any, grad_outputs: Any = None, retain_graph: Any = None, create_graph: bool = False,
    only_inputs: bool = True, allow_unused: Any = None, is_grads_batched: bool = False, materialize_grads: bool = False,
) -> tuple[Any, ...]:  # fmt: skip
    """Gradients of ``outputs`` with respect to ``inputs``, returned and not accumulated."""
    if materialize_grads and allow_unused is False:
        raise ValueError("Expected allow_unused to be True or not passed when materialize_grads=True, but got: allow_unused=False.")
    allow = materialize_grads if allow_unused is None else allow_unused
    roots, wanted = _listed(outputs), _listed(inputs)
    _check_inputs(wanted)
    keep = create_graph if retain_graph is None else bool(retain_graph)
    if is_grads_batched:
        return _batched(roots, wanted, _listed(grad_outputs), keep, create_graph, allow, materialize_grads)
    roots, given = tape.make_roots(roots, None if grad_outputs is None else _listed(grad_outputs))
    got = tape.run_backward(roots, given, keep, create_graph, wanted, False)
    return _settle(got, wanted, allow, materialize_grads)


def _settle(got: list[Any], wanted: list[Tensor], allow: bool, fill: bool) -> tuple[Any, ...]:
    out = []
    for g, t in zip(got, wanted):
        if g is None:
            if not allow:
                raise RuntimeError(
                    "One of the differentiated Tensors appears to not have been used in the graph. Set allow_unused=True if "
                    "this is the desired behavior."
                )
            if fill:
                g = filled_like(t, 0)
        out.append(g)
    return tuple(out)


def _batched(
    roots: list[Tensor], wanted: list[Tensor], grads: list[Any], keep: bool, create: bool, allow: bool, fill: bool
) -> tuple[Any, ...]:
    """One pass per row of the batched gradients, results stacked."""
    n = grads[0].a.shape[0]
    rows = []
    for i in range(n):
        r, given = tape.make_roots(roots, [g[i] for g in grads])
        rows.append(_settle(tape.run_backward(r, given, keep or i < n - 1, create, wanted, False), wanted, allow, fill))
    out = []
    for j, t in enumerate(wanted):
        col = [row[j] if row[j] is not None else filled_like(t, 0) for row in rows]
        first = col[0].unsqueeze(0)
        out.append(first if n == 1 else type(t)._stack(col) if hasattr(type(t), "_stack") else _stack(col))
    return tuple(out)


def _stack(ts: list[Tensor]) -> Tensor:
    shape = (len(ts), *ts[0].a.shape)
    z = wrap(np.zeros(shape, ts[0].k.np))
    for i, t in enumerate(ts):
        z[i] = t  # type: ignore[index]
    return z
