"""The graph: nodes, hooks on what is saved, several tensors at once."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from mindtorch import log
from mindtorch.core import modes
from mindtorch.core.hooks import RemovableHandle
from mindtorch.core.tape import Node
from mindtorch.core.tensor import Leaf, Tensor, new


class saved_tensors_hooks:  # noqa: N801 - public name
    """Inside, what is saved for backward goes through ``pack_hook`` and comes back through ``unpack_hook``."""

    def __init__(self, pack_hook: Callable[[Tensor], Any], unpack_hook: Callable[[Any], Tensor]) -> None:
        self.pack_hook = pack_hook
        self.unpack_hook = unpack_hook

    def __enter__(self) -> None:
        message = getattr(modes.state, "unpacked", None)
        if message is not None:
            raise RuntimeError(message)
        stack = getattr(modes.state, "pack", None)
        if stack is None:
            stack = modes.state.pack = []  # type: ignore[attr-defined]
        stack.append((self.pack_hook, self.unpack_hook))
        modes.enter_mode()

    def __exit__(self, *exc: Any) -> None:
        modes.state.pack.pop()  # type: ignore[attr-defined]
        modes.leave_mode()


@contextlib.contextmanager
def disable_saved_tensors_hooks(error_message: str) -> Iterator[None]:
    """Inside, ``saved_tensors_hooks`` raises RuntimeError with this message; so does this where hooks are in force."""
    if getattr(modes.state, "pack", None):
        raise RuntimeError(error_message)
    before = getattr(modes.state, "unpacked", None)
    modes.state.unpacked = error_message  # type: ignore[attr-defined]
    try:
        yield
    finally:
        modes.state.unpacked = before  # type: ignore[attr-defined]


class save_on_cpu(saved_tensors_hooks):  # noqa: N801 - public name
    """Saved tensors are kept as copies on the CPU."""

    def __init__(self, pin_memory: bool = False, device_type: str = "cpu") -> None:
        log.without_effect(
            "save_on_cpu", "host arrays have no page-locked form", quietly=True, pin_memory=(pin_memory, False)
        )
        super().__init__(lambda t: t.detach().clone(), lambda t: t)


def get_gradient_edge(tensor: Tensor) -> Any:
    """The node (or accumulator) that receives this tensor's gradient, with the output number."""
    from collections import namedtuple

    if tensor.n is None:
        raise RuntimeError("It is not possible to get the gradient edge for a Tensor that does not require gradients")
    node = tensor.n if tensor.n.__class__ is Leaf else tensor.grad_fn
    return namedtuple("GradientEdge", "node output_nr")(node, tensor.output_nr)  # noqa: PYI024


def register_multi_grad_hook(tensors: Sequence[Tensor], fn: Callable[..., Any], *, mode: str = "all") -> RemovableHandle:
    """Call ``fn`` when the gradients of all (mode "all": with a list) or the first (mode "any") of ``tensors`` are known."""
    if mode not in ("all", "any"):
        raise ValueError(f"Expects mode to be one of ('all', 'any') but got {mode}")
    got: dict[int, Any] = {}
    table: dict[int, Any] = {}

    def make(i: int) -> Callable[[Tensor], None]:
        def hook(g: Tensor) -> None:
            if mode == "any":
                if not got:
                    got[i] = g
                    fn(g)
                return
            got[i] = g
            if len(got) == len(tensors):
                values = [got[j] for j in range(len(tensors))]
                got.clear()
                fn(values)

        return hook

    handles = [t.register_hook(make(i)) for i, t in enumerate(tensors)]  # type: ignore[attr-defined]
    handle = RemovableHandle(table)
    handle.remove = lambda: [h.remove() for h in handles] and None  # type: ignore[method-assign]
    return handle


__all__ = ["Node", "get_gradient_edge", "new", "register_multi_grad_hook", "save_on_cpu", "saved_tensors_hooks"]
