"""The graph page of TensorBoard: one node per call of a module, an edge where one call's result is another's input."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import mindtorch.torch as torch
from mindtorch.core.tensor import Tensor


def _tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _tensors(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _tensors(item)


class _Recorder:
    """Collects nodes while the model runs. Tensors are kept, so that an id stands for one tensor throughout."""

    def __init__(self, graph: Any) -> None:
        self.graph = graph
        self.made_by: dict[int, str] = {}
        self.kept: list[Tensor] = []
        self.calls: dict[str, int] = {}

    def made(self, value: Any, node: str) -> None:
        """Remember which node the tensors of ``value`` come from."""
        for t in _tensors(value):
            self.kept.append(t)
            self.made_by[id(t)] = node

    def node(self, name: str, kind: str, sources: list[str]) -> str:
        """Add a node; a module that is called again gets a number."""
        count = self.calls.get(name, 0)
        self.calls[name] = count + 1
        full = f"{name}_{count}" if count else name
        self.graph.node.add(name=full, op=kind, input=sources)
        return full

    def sources(self, value: Any) -> list[str]:
        """Nodes that the tensors of ``value`` come from, without repeats. A plain operation between two modules hides one."""
        return list(dict.fromkeys(self.made_by[id(t)] for t in _tensors(value) if id(t) in self.made_by))


def module_graph(model: Any, inputs: Any) -> Any:
    """A tensorboard ``GraphDef`` of one forward pass of ``model`` in eval mode, as PyTorch draws it, without gradients.

    Training modes come back as they were: running statistics and dropout masks of the training are not touched.
    """
    from tensorboard.compat.proto.graph_pb2 import GraphDef

    recorder = _Recorder(GraphDef())
    arguments = tuple(inputs) if isinstance(inputs, (list, tuple)) else (inputs,)
    for i, value in enumerate(arguments):
        recorder.made(value, recorder.node(f"input/{i}", "IO Node", []))
    top = type(model).__name__
    handles = []
    modes = [(module, module.training) for module in model.modules()]
    try:
        model.eval()
        for name, module in model.named_modules():
            if next(module.children(), None) is None:
                handles.append(
                    module.register_forward_hook(_hook(recorder, f"{top}/{name.replace('.', '/')}".rstrip("/")))
                )
        with torch.no_grad():
            out = model(*arguments)
    finally:
        for handle in handles:
            handle.remove()
        for module, training in modes:
            module.training = training
    recorder.node("output/0", "IO Node", recorder.sources(out))
    return recorder.graph


def _hook(recorder: _Recorder, name: str) -> Any:
    def hook(module: Any, args: Any, out: Any) -> None:
        recorder.made(out, recorder.node(name, type(module).__name__, recorder.sources(args)))

    return hook
