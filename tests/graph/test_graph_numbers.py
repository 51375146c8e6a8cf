"""A graph's numbers are the eager ones, bit for bit on the host kernels: values, gradients, statistics, random masks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from graph_models import SHAPES, LeNet, mlp, pair, step

import mindtorch
import mindtorch.torch as torch
import mindtorch.torch.nn.functional as F
from mindtorch.torch import nn


def entries(graph: Any) -> list[Any]:
    graph = getattr(graph, "_graph", graph)
    return [e for found in graph.entries.values() for e in found]


@pytest.mark.parametrize("name", SHAPES)
def test_training_equals_eager(name: str) -> None:
    make, shape = SHAPES[name]
    model, twin = pair(make)
    graph = mindtorch.graph(model, backend="host")
    opts = [torch.optim.SGD(m.parameters(), 0.01, momentum=0.9) for m in (model, twin)]
    for seed in range(4):
        torch.manual_seed(100 + seed)
        x = torch.randn(*shape)
        for got, want in zip(step(model, graph, x, opts[0], seed), step(twin, twin, x, opts[1], seed)):
            assert np.array_equal(got, want)
    assert len(entries(graph)) == 1
    assert all(plan for plan in entries(graph)[0].program.plans.values())  # the backward pass is a program too


@pytest.mark.parametrize("name", SHAPES)
def test_inference_equals_eager(name: str) -> None:
    make, shape = SHAPES[name]
    model, twin = pair(make)
    model.eval(), twin.eval()
    graph = torch.compile(model, backend="host")
    with torch.no_grad():
        for _ in range(3):
            x = torch.randn(*shape)
            y = graph(x)
            assert torch.equal(y, twin(x)) and not y.requires_grad
    assert len(entries(graph)) == 1


def test_masks_are_drawn_at_each_run() -> None:
    drop = torch.compile(nn.Sequential(nn.Dropout(0.5), nn.Flatten()), backend="host")
    x = torch.ones(4, 16)
    torch.manual_seed(3)
    got = [drop(x) for _ in range(3)]
    torch.manual_seed(3)
    want = [F.dropout(x, 0.5) for _ in range(3)]
    assert all(torch.equal(a, b) for a, b in zip(got, want)) and not torch.equal(got[1], got[2])


def test_double_backward() -> None:
    def f(x: Any) -> Any:
        return (x.sin() * x.exp()).sum()

    graph = mindtorch.graph(f, backend="host")
    for _ in range(3):
        grads = []
        for call in (f, graph):
            x = torch.tensor([0.3, -1.0, 2.0], requires_grad=True)
            (g,) = torch.autograd.grad(call(x), x, create_graph=True)
            (gg,) = torch.autograd.grad((g * g).sum(), x)
            grads.append((g.detach().numpy(), gg.numpy()))
        assert np.allclose(grads[0], grads[1], rtol=1e-6)


def test_second_backward_through_a_freed_graph_is_refused() -> None:
    model = mindtorch.graph(mlp(), backend="host")
    x = torch.randn(5, 8)
    for _ in range(2):
        loss = model(x).sum()
        loss.backward(retain_graph=True)
        loss.backward()
        with pytest.raises(RuntimeError, match="second time"):
            loss.backward()


def test_write_to_what_the_backward_pass_reads_is_an_error() -> None:
    def f(x: Any) -> Any:
        return x.exp()

    graph = mindtorch.graph(f, backend="host")
    for _ in range(3):
        x = torch.randn(3, requires_grad=True)
        y = graph(x)
        with torch.no_grad():
            y.mul_(2)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.sum().backward()


def test_hooks_outside_see_the_gradients() -> None:
    model, twin = pair(mlp)
    graph = mindtorch.graph(model, backend="host")
    seen: list[list[Any]] = [[], []]
    for m, out in zip((model, twin), seen):
        m[0].weight.register_hook(lambda g, out=out: out.append(g.clone()) or g * 2)
    x = torch.randn(5, 8)
    for _ in range(3):
        for call in (graph, twin):
            call(x).sum().backward()
    assert len(seen[0]) == 3 and all(torch.equal(a, b) for a, b in zip(*seen))
    assert torch.equal(model[0].weight.grad, twin[0].weight.grad)


def test_gradients_are_not_shared() -> None:
    def f(x: Any, w: Any) -> Any:
        return x + w

    graph = mindtorch.graph(f, backend="host")
    for _ in range(3):
        x, w = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
        graph(x, w).sum().backward()
        x.grad.add_(1)
        assert w.grad.tolist() == [1, 1, 1]


def test_results_keep_their_structure() -> None:
    def f(x: Any, flag: bool) -> Any:
        return {"a": (x + 1, [x * 2]), "b": x, "c": None, "d": 3 if flag else 4}

    graph = mindtorch.graph(f, backend="host")
    x = torch.ones(2)
    for flag in (True, False, True):
        got = graph(x, flag)
        assert got["b"] is x and got["c"] is None and got["d"] == (3 if flag else 4)
        assert torch.equal(got["a"][0], x + 1) and torch.equal(got["a"][1][0], x * 2)


def test_the_mindspore_backend_is_within_rounding() -> None:
    pytest.importorskip("mindspore")
    model, twin = pair(mlp)
    graph = mindtorch.graph(model, backend="mindspore")
    x = torch.randn(5, 8)
    for _ in range(3):
        for m, call in ((model, graph), (twin, twin)):
            m.zero_grad()
            (call(x) ** 2).sum().backward()
        assert np.allclose(graph(x).detach().numpy(), twin(x).detach().numpy(), atol=1e-5)
        for p, q in zip(model.parameters(), twin.parameters()):
            assert np.allclose(p.grad.numpy(), q.grad.numpy(), rtol=1e-5, atol=1e-5)
    assert {e.backend for e in entries(graph)} == {"mindspore"}, [e.notes for e in entries(graph)]


def test_statistics_are_not_updated_in_eval() -> None:
    model = LeNet().eval()
    before = model.norm.running_mean.clone()
    graph = mindtorch.graph(model, backend="host")
    for _ in range(3):
        graph(torch.randn(2, 1, 28, 28))
    assert torch.equal(model.norm.running_mean, before) and int(model.norm.num_batches_tracked) == 0
