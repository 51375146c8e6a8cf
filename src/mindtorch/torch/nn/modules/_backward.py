"""Full backward hooks: identities put around a module that see the gradients entering and leaving it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import mindtorch.torch as torch

_function: Any = None


def _identity() -> Any:
    """The autograd Function behind the hooks, made on first use so that importing nn does not need autograd."""
    global _function
    if _function is None:

        class BackwardHookFunction(torch.autograd.Function):
            """Passes tensors through; nothing but a place in the graph."""

            @staticmethod
            def forward(ctx: Any, *args: Any) -> Any:
                ctx.mark_non_differentiable(*[a for a in args if not a.requires_grad])
                return args

            @staticmethod
            def backward(ctx: Any, *grads: Any) -> Any:
                return grads

        _function = BackwardHookFunction
    return _function


def _spread(values: Sequence[Any], indices: Sequence[int], size: int) -> tuple[Any, ...]:
    out: list[Any] = [None] * size
    for i, v in zip(indices, values):
        out[i] = v
    return tuple(out)


class BackwardHook:
    """State of one call of a module that has full backward hooks.

    ``grad_output`` is known when gradients enter the output identity, ``grad_input`` when they leave the input identity.
    """

    def __init__(self, module: Any, hooks: list[Any], pre_hooks: list[Any]) -> None:
        self.module = module
        self.hooks = hooks
        self.pre_hooks = pre_hooks
        self.grad_outputs: tuple[Any, ...] | None = None
        self.n_inputs = -1
        self.input_index: list[int] = []
        self.inputs_watched = False
        self.n_outputs = -1
        self.output_index: list[int] = []

    def _wrap(self, values: tuple[Any, ...], watch: Callable[[Any], None]) -> tuple[tuple[Any, ...], list[int] | None]:
        """``values`` with their tensors behind an identity, and where those are; None when nothing needs gradients."""
        index = [i for i, v in enumerate(values) if isinstance(v, torch.Tensor)]
        tensors = [values[i] for i in index]
        if not (torch.is_grad_enabled() and any(t.requires_grad for t in tensors)):
            return values, None
        fresh = _identity().apply(*tensors)
        nodes = [t.grad_fn for t in fresh if t.grad_fn is not None]
        if not nodes:
            raise RuntimeError("full backward hooks: the identity around the module recorded no gradient")
        watch(nodes[0])
        merged = list(values)
        for i, t in zip(index, fresh):
            merged[i] = t
        if type(values) is not tuple and hasattr(values, "_fields"):
            return type(values)(*merged), index
        return type(values)(merged), index

    def setup_input_hook(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """The arguments to call forward with."""

        def watch(node: Any) -> None:
            node.register_hook(self._on_inputs)

        self.n_inputs = len(args)
        args, index = self._wrap(args, watch)
        self.inputs_watched = index is not None
        self.input_index = index or []
        return args

    def setup_output_hook(self, result: Any) -> Any:
        """The result to hand to the caller."""

        def watch(node: Any) -> None:
            node.register_prehook(self._on_outputs)

        single = not isinstance(result, tuple)
        values = (result,) if single else result
        self.n_outputs = len(values)
        self.output_index = [i for i, v in enumerate(values) if isinstance(v, torch.Tensor)]
        values, _ = self._wrap(values, watch)
        return values[0] if single else values

    def _on_outputs(self, grads: tuple[Any, ...]) -> Any:
        """Gradients arrive at the outputs: run the pre-hooks, remember, and fire at once when no input is watched."""
        grad_out = _spread(grads, self.output_index, self.n_outputs)
        changed = False
        for hook in self.pre_hooks:
            got = hook(self.module, grad_out)
            if got is None:
                continue
            got = got if isinstance(got, tuple) else (got,)
            if len(got) != len(grad_out):
                raise RuntimeError(
                    f"Backward pre hook returned an invalid number of grad_output, got {len(got)}, but expected "
                    f"{len(grad_out)}"
                )
            grad_out, changed = got, True
        self.grad_outputs = grad_out
        if self.hooks and not self.inputs_watched:
            warnings.warn(
                "Full backward hook is firing when gradients are computed with respect to module outputs since no inputs "
                "require gradients. See the documentation of torch.nn.Module.register_full_backward_hook.",
                stacklevel=2,
            )
            for hook in self.hooks:
                got = hook(self.module, (None,) * self.n_inputs, grad_out)
                if got is not None and not (isinstance(got, tuple) and all(g is None for g in got)):
                    raise RuntimeError(
                        "Backward hook for Modules where no input requires gradient should always return None or None for "
                        "all gradients."
                    )
            self.grad_outputs = None
        return tuple(grad_out[i] for i in self.output_index) if changed else None

    def _on_inputs(self, grads: tuple[Any, ...], _unused: Any) -> Any:
        """Gradients leave the inputs: run the hooks, which may replace them."""
        if self.grad_outputs is None:
            raise RuntimeError(
                "Module backward hook for grad_input is called before the grad_output one. This happens because the gradient "
                "in your nn.Module flows to the Module's input without passing through the Module's output. Make sure that "
                "the output depends on the input and that the loss is computed based on the output."
            )
        grad_in = _spread(grads, self.input_index, self.n_inputs)
        changed = False
        for hook in self.hooks:
            got = hook(self.module, grad_in, self.grad_outputs)
            if got is None:
                continue
            got = got if isinstance(got, tuple) else (got,)
            if len(got) != len(grad_in):
                raise RuntimeError(
                    f"Backward hook returned an invalid number of grad_input, got {len(got)}, but expected {len(grad_in)}"
                )
            grad_in, changed = got, True
        self.grad_outputs = None
        return tuple(grad_in[i] for i in self.input_index) if changed else None
