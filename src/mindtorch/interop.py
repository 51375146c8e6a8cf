"""Between mindtorch and MindSpore itself: tensors without a copy, Cells inside Modules and Modules inside Cells, with gradients.

``to_mindspore`` and ``from_mindspore`` share memory on the CPU (a strided tensor is copied first). ``CellModule`` makes a
MindSpore Cell a layer of our networks, ``ModuleCell`` one of our modules a Cell; gradients cross both ways.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import mindtorch.torch as torch
from mindtorch.core.tensor import Tensor
from mindtorch.engine.mindspore import door, mode
from mindtorch.ops.exchange import from_mindspore, to_mindspore
from mindtorch.torch import nn


class _ThroughCell(torch.autograd.Function):
    """A Cell's forward by MindSpore and, for backward, MindSpore's own derivative of it."""

    @staticmethod
    def forward(ctx: Any, cell: Any, n: int, *tensors: Any) -> Any:
        ms = door.load()
        inputs = [to_mindspore(t.detach()) if isinstance(t, Tensor) else t for t in tensors[:n]]
        for p, t in zip(cell.trainable_params(), tensors[n:]):
            p.set_data(to_mindspore(t.detach()))
        ctx.cell, ctx.inputs, ctx.n = cell, inputs, n
        out = cell(*inputs)
        ctx.many = isinstance(out, (tuple, list))
        made = tuple(from_mindspore(o).clone() for o in (out if ctx.many else (out,)))
        ctx.ms = ms
        return made if ctx.many else made[0]

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        ms = ctx.ms
        weights = ctx.cell.trainable_params()
        places = [i for i, x in enumerate(ctx.inputs) if isinstance(x, ms.Tensor) and "Float" in str(x.dtype)]
        given = tuple(to_mindspore(g.detach().contiguous()) for g in grads)
        by = ms.ops.GradOperation(get_all=True, get_by_list=bool(weights), sens_param=True)
        run = by(ctx.cell, ms.ParameterTuple(weights)) if weights else by(ctx.cell)
        got = run(*ctx.inputs, given if ctx.many else given[0])
        of_inputs, of_weights = got if weights else (got, ())
        result: list[Any] = [None] * ctx.n
        numeric = [i for i, x in enumerate(ctx.inputs) if isinstance(x, ms.Tensor)]
        for i, g in zip(numeric, of_inputs):
            if i in places:
                result[i] = from_mindspore(g)
        return (None, None, *result, *[from_mindspore(g) for g in of_weights])


class CellModule(nn.Module):
    """A MindSpore Cell as a module. Its trainable parameters are this module's, under their names with dots as underscores.

    Forward and backward are MindSpore's; the parameters' values live here and are handed over at each call.
    """

    def __init__(self, cell: Any) -> None:
        super().__init__()
        ms = door.load()
        if not isinstance(cell, ms.nn.Cell):
            raise TypeError(f"CellModule(): argument 'cell' must be a mindspore.nn.Cell, not {type(cell).__name__}")
        object.__setattr__(self, "cell", cell)
        self.names = [p.name.replace(".", "_") for p in cell.trainable_params()]
        for name, p in zip(self.names, cell.trainable_params()):
            self.register_parameter(name, nn.Parameter(from_mindspore(p).clone()))

    def forward(self, *inputs: Any) -> Any:
        """The Cell's outputs for tensors (and other values) ``inputs``."""
        object.__getattribute__(self, "cell").set_train(self.training)
        return _ThroughCell.apply(self.cell, len(inputs), *inputs, *[self._parameters[n] for n in self.names])


def ModuleCell(module: nn.Module) -> Any:  # noqa: N802 - makes an object of a class that needs MindSpore
    """One of our modules as a MindSpore Cell: its parameters are the Cell's, its derivative is our backward.

    Called, the Cell runs eagerly, in MindSpore's graph mode too. ``ms.value_and_grad`` over it gives gradients of inputs and
    parameters in PyNative mode; in graph mode MindSpore refuses to compile it with a TypeError.
    """
    ms = door.load()
    names = [n for n, _ in module.named_parameters()]

    class Wrapped(ms.nn.Cell):  # type: ignore[name-defined, misc]
        """Runs ``module``; ``bprop`` runs its backward."""

        def __init__(self) -> None:
            super().__init__()
            self.params = ms.ParameterTuple([ms.Parameter(to_mindspore(p.detach().clone()), name=n) for n, p in module.named_parameters()])
            self.inner = _inner(ms, module, names)

        def construct(self, *inputs: Any) -> Any:
            return self.inner(*inputs, *self.params)

        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            with mode.eager_cells():
                return super().__call__(*args, **kwargs)

    return Wrapped()


def _inner(ms: Any, module: nn.Module, names: Sequence[str]) -> Any:
    from mindtorch.torch.func import functional_call

    class Bridge(ms.nn.Cell):  # type: ignore[name-defined, misc]
        """Forward and backward of the module as one MindSpore operation with its own ``bprop``."""

        def construct(self, *given: Any) -> Any:
            inputs, weights = given[: len(given) - len(names)], given[len(given) - len(names) :]
            values = {n: from_mindspore(w).clone() for n, w in zip(names, weights)}
            with torch.no_grad():
                out = functional_call(module, values, tuple(from_mindspore(x) for x in inputs))
            return to_mindspore(out.contiguous())

        def bprop(self, *given: Any) -> Any:
            *tensors, _, dout = given
            inputs, weights = tensors[: len(tensors) - len(names)], tensors[len(tensors) - len(names) :]
            xs = [from_mindspore(x).clone() for x in inputs]
            xs = [x.requires_grad_() if x.is_floating_point() else x for x in xs]
            ws = [from_mindspore(w).clone().requires_grad_() for w in weights]
            y = functional_call(module, dict(zip(names, ws)), tuple(xs))
            wanted = [t for t in (*xs, *ws) if t.requires_grad]
            got = iter(torch.autograd.grad(y, wanted, from_mindspore(dout), allow_unused=True, materialize_grads=True))
            return tuple(to_mindspore(next(got).contiguous() if t.requires_grad else torch.zeros_like(t)) for t in (*xs, *ws))

    return Bridge()


def value_and_grad(
    fn: Callable[..., Any], grad_position: Any = 0, weights: Any = None, has_aux: bool = False
) -> Callable[..., Any]:
    """MindSpore's functional style over our tensors: ``loss, grads = value_and_grad(forward, None, opt.parameters)(x, y)``.

    ``grad_position`` names the arguments to differentiate (an int, a tuple, or None), ``weights`` parameters (a Parameter,
    a list or tuple, an optimiser's ``param_groups`` or None). With ``has_aux`` only the first result is differentiated.
    Gradients come as MindSpore gives them: of inputs, of weights, or a pair of both. ValueError when neither is asked for.
    """
    if grad_position is None and weights is None:
        raise ValueError("value_and_grad(): `grad_position` and `weights` can not be None at the same time")
    one_place = isinstance(grad_position, int) and not isinstance(grad_position, bool)
    places = () if grad_position is None else (grad_position,) if one_place else tuple(grad_position)
    one_weight = isinstance(weights, Tensor)
    params = [] if weights is None else [weights] if one_weight else _parameters(weights)

    def run(*args: Any, **kwargs: Any) -> Any:
        args = tuple(a.detach().requires_grad_() if i in places and isinstance(a, Tensor) else a for i, a in enumerate(args))
        with torch.enable_grad():
            out = fn(*args, **kwargs)
        first = out[0] if has_aux else out
        leaves = [args[i] for i in places]
        ones = [torch.ones_like(o) for o in (first if isinstance(first, (tuple, list)) else (first,))]
        targets = list(first) if isinstance(first, (tuple, list)) else [first]
        got = torch.autograd.grad(targets, [*leaves, *params], ones, allow_unused=True, materialize_grads=True)
        of_inputs: Any = got[: len(leaves)]
        of_weights: Any = got[len(leaves) :]
        of_inputs = of_inputs[0] if one_place else of_inputs
        of_weights = of_weights[0] if one_weight else of_weights
        grads = of_inputs if weights is None else of_weights if grad_position is None else (of_inputs, of_weights)
        return _detached(out), grads

    return run


def _parameters(weights: Any) -> list[Any]:
    if isinstance(weights, (list, tuple)) and weights and isinstance(weights[0], dict):
        return [p for group in weights for p in group["params"]]
    return list(weights)


def _detached(out: Any) -> Any:
    if isinstance(out, Tensor):
        return out.detach()
    return type(out)(_detached(o) for o in out) if isinstance(out, (tuple, list)) else out


__all__ = ["CellModule", "ModuleCell", "from_mindspore", "to_mindspore", "value_and_grad"]
