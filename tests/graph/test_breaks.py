"""What cannot be captured soundly runs eagerly, with the same results, and says where and why."""

from __future__ import annotations

import random
import traceback
from typing import Any

import pytest
from graph_models import encoder, mlp

import mindtorch
import mindtorch.torch as torch
from mindtorch.torch import nn

LOG: list[Any] = []
COUNT = 0


def by_value(x: Any) -> Any:
    if x.sum() > 0:
        return x + 1
    return x - 1


def item(x: Any) -> Any:
    return x * x.sum().item()


def numpy(x: Any) -> Any:
    return x * float(x.detach().numpy()[0])


def listed(x: Any) -> Any:
    return torch.tensor(x.tolist()) * 2


def masked(x: Any) -> Any:
    return x[x > 0] * 2


def appends(x: Any) -> Any:
    LOG.append(1)
    return x * len(LOG)


def extends(x: Any) -> Any:
    log = LOG
    log += [1]
    return x * len(log)


def counts(x: Any) -> Any:
    global COUNT
    COUNT += 1
    return x * COUNT


def prints(x: Any) -> Any:
    print("sum", x.sum())
    return x * 2


def python_random(x: Any) -> Any:
    return x * random.random()


@pytest.mark.parametrize(
    "fn", [by_value, item, numpy, listed, masked, appends, extends, counts, prints, python_random]
)
def test_same_as_eager(fn: Any) -> None:
    global COUNT
    graph = mindtorch.graph(fn, backend="host")
    outs: list[list[Any]] = [[], []]
    for call, out in zip((graph, fn), outs):
        torch.manual_seed(0), random.seed(0), LOG.clear()
        COUNT = 0
        for k in range(4):
            out.append(call(torch.tensor([3.0, -1.0, 0.5]) * (-1) ** k))
    assert all(torch.equal(a, b) for a, b in zip(*outs))
    assert graph.breaks and all(":" in where for _, where in graph.breaks)


def test_fullgraph_names_the_line() -> None:
    graph = torch.compile(by_value, fullgraph=True)
    line = by_value.__code__.co_firstlineno + 1
    with pytest.raises(RuntimeError, match=rf"test_breaks.py:{line}: .*decides by a value.*PyNative"):
        graph(torch.ones(3))
    whole = torch.compile(mlp(), fullgraph=True)
    assert whole(torch.randn(5, 8)).shape == (5, 4)


def test_fullgraph_stops_at_the_break() -> None:
    """At the first call, on the line that breaks: nothing behind it has run, no ``except`` of the user's hides it."""
    model = mlp()
    opt = torch.optim.SGD(model.parameters(), 0.1)
    LOG.clear()

    def step(x: Any) -> Any:
        opt.zero_grad()
        loss = model(x).square().mean()
        try:
            loss.backward()
            if loss > 0:
                opt.step()
        except Exception:
            return None
        LOG.append(1)
        return loss

    graph = torch.compile(step, fullgraph=True)
    before = model[0].weight.detach().clone()
    line = step.__code__.co_firstlineno + 5
    with pytest.raises(RuntimeError, match=rf"test_breaks.py:{line}: bool decides by a value") as caught:
        graph(torch.randn(5, 8))
    assert any(f.lineno == line and f.name == "step" for f in traceback.extract_tb(caught.value.__traceback__))
    assert torch.equal(before, model[0].weight) and not LOG and torch.is_grad_enabled()
    assert torch.equal(graph.fn(torch.randn(5, 8)) * 0, torch.tensor(0.0))  # nothing of the watch is left


def test_errors_end_at_the_users_line() -> None:
    table = nn.Embedding(4, 3)

    def f(i: Any) -> Any:
        y = table(i)
        return y * 2

    graph = mindtorch.graph(f, backend="host")
    for _ in range(2):
        graph(torch.tensor([0, 1]))
    with pytest.raises(IndexError, match="index out of range") as caught:
        graph(torch.tensor([0, 9]))
    last = traceback.extract_tb(caught.value.__traceback__)[-1]
    assert (last.filename, last.lineno, last.name) == (__file__, f.__code__.co_firstlineno + 1, "f")


def test_modules_inside_a_break_are_graphs() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body, self.head = mlp(), mlp()

        def forward(self, x: Any) -> Any:
            y = self.body(x)
            return y * 2 if y.mean() > 0 else y

    net = Net()
    graph = mindtorch.graph(net, backend="host")
    x = torch.randn(5, 8)
    for _ in range(3):
        y = graph(x)
    assert torch.equal(y, net.forward(x))
    told = mindtorch.graph.explain(graph, x)
    assert told.graph_count == 1 and told.graph_break_count == 1 and "decides by a value" in str(told)
    mindtorch.graph.reset()
    assert "_compiled_call_impl" not in net.body.__dict__


def test_a_training_step_runs_its_model_as_a_graph() -> None:
    losses = []
    for use in (False, True):
        torch.manual_seed(0)
        model = mlp()
        opt = torch.optim.Adam(model.parameters(), 0.01)

        def step(x: Any, t: Any, model: Any = model, opt: Any = opt) -> Any:
            opt.zero_grad()
            loss = nn.functional.cross_entropy(model(x), t)
            loss.backward()
            opt.step()
            return loss.detach()

        call = mindtorch.graph(step, backend="host") if use else step
        losses.append([float(call(torch.randn(5, 8), torch.tensor([0, 1, 2, 3, 0]))) for _ in range(6)])
    assert losses[0] == losses[1]


def test_explain_lists_programs() -> None:
    told = mindtorch.graph.explain(encoder().eval(), torch.randn(2, 5, 16))
    assert told.graph_count == 1 and not told.breaks and "layer_norm" in told.graphs[0]["rows"]
    assert set(told.graphs[0]["times"]) == {"eager", "host"} and told.graphs[0]["backend"] in ("eager", "host")
    assert "1 graph(s), 0 break(s)" in str(told)


def test_disable_keeps_a_function_out() -> None:
    @torch.compiler.disable(reason="it is looked at")
    def inner(x: Any) -> Any:
        return x * 2

    graph = mindtorch.graph(lambda x: inner(x) + 1, backend="host")
    assert graph(torch.ones(2)).tolist() == [3, 3] == graph(torch.ones(2)).tolist()
    assert "it is looked at" in graph.breaks[0][0]


def test_errors_of_kernels_name_the_op() -> None:
    graph = mindtorch.graph(lambda x, i: x.index_select(0, i), backend="host")
    x = torch.randn(3, 2)
    for _ in range(2):
        graph(x, torch.tensor([0, 2]))
    with pytest.raises((IndexError, RuntimeError), match="index"):
        graph(x, torch.tensor([0, 9]))


def test_jit_script_and_trace(tmp_path: Any) -> None:
    model = mlp()
    x = torch.randn(5, 8)
    for got in (torch.jit.script(model), torch.jit.trace(model, x), torch.jit.trace_module(model, {"forward": x})):
        assert isinstance(got, torch.jit.ScriptModule) and isinstance(got, nn.Sequential)
        assert torch.equal(got(x), model(x)) and torch.equal(got(x), model(x))
        assert list(got.state_dict()) == list(model.state_dict())
        assert got.eval().training is False and model.training is False
        with pytest.raises(RuntimeError, match="state_dict"):
            got.save(tmp_path / "m.pt")
    fn = torch.jit.trace(lambda a, b: a @ b.t(), (x, x))
    assert isinstance(fn, torch.jit.ScriptFunction) and torch.equal(fn(x, x), x @ x.t())
    branchy = torch.jit.script(by_value)
    assert branchy(torch.ones(2)).tolist() == [2, 2] and branchy(-torch.ones(2)).tolist() == [-2, -2]
    with pytest.raises(RuntimeError, match="state_dict"):
        torch.jit.save(fn, tmp_path / "f.pt")
