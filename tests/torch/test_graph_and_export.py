"""What PyTorch does with a compiler or a tracer: drawn by modules, run eagerly, or refused with the way that works."""

from __future__ import annotations

import importlib.util

import pytest

import mindtorch.torch as mt
import torch


def graph_of(folder, write, lib):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.compat.proto.graph_pb2 import GraphDef

    writer = lib.utils.tensorboard.SummaryWriter(str(folder))
    write(writer)
    writer.close()
    events = EventAccumulator(str(folder))
    events.Reload()
    return GraphDef.FromString(events.Graph().SerializeToString())


@pytest.mark.skipif(importlib.util.find_spec("tensorboard") is None, reason="needs the tensorboard package")
def test_add_graph_draws_the_modules(tmp_path):
    nn = mt.nn
    shared = nn.ReLU()
    model = nn.Sequential(nn.Conv2d(1, 2, 3), shared, nn.Sequential(nn.Flatten(), nn.Linear(8, 3)), shared)
    model[2].eval()
    calls = []
    model.register_forward_hook(lambda module, *a: calls.append(module.training))
    graph = graph_of(tmp_path, lambda w: w.add_graph(model, mt.rand(1, 1, 4, 4)), mt)
    nodes = {n.name: (n.op, list(n.input)) for n in graph.node}
    assert nodes == {
        "input/0": ("IO Node", []),
        "Sequential/0": ("Conv2d", ["input/0"]),
        "Sequential/1": ("ReLU", ["Sequential/0"]),
        "Sequential/2/0": ("Flatten", ["Sequential/1"]),
        "Sequential/2/1": ("Linear", ["Sequential/2/0"]),
        "Sequential/1_1": ("ReLU", ["Sequential/2/1"]),
        "output/0": ("IO Node", ["Sequential/1_1"]),
    }
    assert calls == [False] and model[0].weight.grad is None
    assert [m.training for m in (model, model[0], model[2])] == [True, True, False]
    with pytest.raises(ValueError, match="input_to_model is needed"):
        graph_of(tmp_path / "b", lambda w: w.add_graph(model), mt)


@pytest.mark.parametrize("lib", [torch, mt], ids=["torch", "mindtorch"])
def test_script_module_is_a_module(lib):
    class Block(lib.jit.ScriptModule):
        def __init__(self, p):
            super().__init__()
            self.p = p
            self.layer = lib.nn.Linear(2, 2, bias=False)
            lib.nn.init.ones_(self.layer.weight)

        @lib.jit.script_method
        def forward(self, x):
            return self.layer(x) * self.p

    block = Block(0.5)
    assert isinstance(block, lib.nn.Module) and [n for n, _ in block.named_parameters()] == ["layer.weight"]
    assert block(lib.ones(1, 2)).tolist() == [[1.0, 1.0]]


def test_onnx_export_is_refused_with_the_way_out():
    with pytest.raises(mt.onnx.OnnxExporterError, match="Linear cannot be written as ONNX.*state_dict"):
        mt.onnx.export(mt.nn.Linear(1, 1), (mt.ones(1, 1),), "m.onnx")
    assert mt.onnx.is_in_onnx_export() is torch.onnx.is_in_onnx_export() is False
