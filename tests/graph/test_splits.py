"""Python that goes on by a tensor's value splits a function: a graph for each outcome, what was done on the wrong one undone."""

from __future__ import annotations

import logging
import math
from typing import Any

import pytest
from graph_models import mlp

import mindtorch
import mindtorch.torch as torch
import mindtorch.torch.nn.functional as F
from mindtorch.graph import compiled
from mindtorch.torch import nn

torch.manual_seed(0)
W = torch.randn(4, 4, requires_grad=True)
NORM = nn.BatchNorm1d(4)


def halves(x: Any) -> Any:
    """Random numbers and running statistics before the decision have to be as if they had been drawn and updated once."""
    y = F.dropout(NORM(x @ W), 0.3)
    if y.sum() > 0:
        return y + 1
    return (y * W).exp() if y.shape[0] == 4 else y.exp()


def compared(x: Any) -> Any:
    v = (x @ W).sum().item()
    if v > 1.0 or v < -3:
        return x * 2
    return x * 3


def counted(x: Any) -> Any:
    return x[:, : int((x > 0).sum()) % 3 + 1] @ W[: int((x > 0).sum()) % 3 + 1]


def looped(x: Any) -> Any:
    y = x @ W
    while y.abs().max() < 50:
        y = y * 3
    return y


def given_back(x: Any) -> Any:
    y = (x @ W).tanh()
    return y, y.sum().item(), {"mean": [y.mean().item(), 3]}


def used(x: Any) -> Any:
    return x * (x @ W).sum().item()


def in_c(x: Any) -> Any:
    return x @ W * math.sqrt(abs((x @ W).sum().item()))


def as_text(x: Any) -> Any:
    return x @ W, "loss %.3f" % x.sum().item()


def run(call: Any, n: int = 20) -> list[Any]:
    torch.manual_seed(0)
    NORM.reset_running_stats()
    out: list[Any] = []
    for _ in range(n):
        W.grad = None
        got = call(torch.randn(3, 4))
        y, rest = (got[0], got[1:]) if isinstance(got, tuple) else (got, ())
        if y.requires_grad:
            y.sum().backward()
        out += [y.detach().clone(), rest, NORM.running_mean.clone(), W.grad]
    return [*out, torch.rand(2)]


@pytest.mark.parametrize(
    ("fn", "graphs", "lines"),
    [(halves, 2, [3]), (compared, 3, [2]), (counted, None, [1]), (looped, None, [2]), (given_back, 1, []), (used, 0, [1]),
     (in_c, 0, [1]), (as_text, 0, [0])],
)  # fmt: skip
def test_each_path_has_the_eager_numbers(fn: Any, graphs: int | None, lines: list[int]) -> None:
    graph = mindtorch.graph(fn, backend="host")
    for got, want in zip(run(graph), run(fn)):
        assert torch.equal(got, want) if isinstance(want, torch.Tensor) else got == want and type(got) is type(want)
    found = sum(len(v) for v in graph.entries.values())
    assert found == graphs if graphs is not None else 1 < found <= 8
    first = fn.__code__.co_firstlineno
    where = {f"{__file__}:{first + n}" for n in lines}
    assert {at for _, at in graph.breaks} == where, graph.breaks
    assert graph.eager_only is (graphs == 0)


def test_explain_names_the_split() -> None:
    told = mindtorch.graph.explain(compared, torch.randn(3, 4))
    line = compared.__code__.co_firstlineno + 2
    assert told.graph_count == 1 and told.graph_break_count == len(told.breaks) >= 1
    assert f"{__file__}:{line}: gt decides by a value" in str(told) and "split where Python goes on by a value" in str(told)


def test_two_halves_with_eager_python_between() -> None:
    """What is not known to be repeatable between two networks: they are graphs of their own, the rest runs eagerly."""
    seen: list[str] = []

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body, self.head = mlp(), nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))

        def forward(self, x: Any) -> Any:
            y = self.body(x)
            seen.append(f"{y.mean().item():.3f}")
            return self.head(y * 2)

    net = Net()
    want = net(torch.ones(5, 8))
    told = mindtorch.graph.explain(net, torch.ones(5, 8))
    assert told.graph_count == 2 and [e.name for e in told.inner] == ["Sequential", "Sequential"]
    line = Net.forward.__code__.co_firstlineno + 2
    assert any(where == f"{__file__}:{line}" for _, where in told.break_reasons), told
    assert torch.equal(net(torch.ones(5, 8)), want) and len(set(seen)) == 1
    mindtorch.graph.reset()


def test_a_decision_after_parameters_changed_is_a_break() -> None:
    model = mlp()
    opt = torch.optim.SGD(model.parameters(), 0.1)

    def step(x: Any) -> Any:
        opt.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        if model[0].weight.grad.norm() < 1e3:
            opt.step()
        return loss.item()

    twin = mlp()
    twin.load_state_dict(model.state_dict())
    graph = mindtorch.graph(step, backend="host")
    losses = [graph(torch.ones(5, 8)) for _ in range(4)]
    assert losses == sorted(losses, reverse=True) and losses[0] > losses[-1]
    assert any("after gradients" in why and where.endswith(f":{step.__code__.co_firstlineno + 4}") for why, where in graph.breaks)
    mindtorch.graph.reset()


def test_a_training_step_that_skips_bad_losses_and_gives_the_number_back() -> None:
    results = []
    for use in (False, True):
        torch.manual_seed(0)
        model = mlp()
        opt = torch.optim.Adam(model.parameters(), 0.01)

        def step(x: Any, model: Any = model, opt: Any = opt) -> Any:
            opt.zero_grad()
            loss = model(x).square().mean()
            if not torch.isfinite(loss):
                return math.nan
            loss.backward()
            opt.step()
            return loss.item()

        call = mindtorch.graph(step, backend="host") if use else step
        found = [call(torch.randn(5, 8) if k != 3 else torch.full((5, 8), math.inf)) for k in range(8)]
        results.append([repr(v) for v in found] + [p.detach().tolist() for p in model.parameters()])
        if use:
            assert sum(len(v) for v in call.entries.values()) == 2 and not call.eager_only
    assert results[0] == results[1] and results[0][3] == "nan"


def test_limits_are_logged(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "LIMIT", 3)
    monkeypatch.setattr(compiled, "PATHS", 2)

    def scaled(x: Any, k: int) -> Any:
        return x * k

    def lengths(x: Any) -> Any:
        return x.new_zeros(3) + int(x.sum())

    with caplog.at_level(logging.INFO, logger="MindTorch"):
        by_number = mindtorch.graph(scaled, backend="host")
        assert [by_number(torch.ones(1), k).item() for k in range(6)] == list(range(6))
        by_value = mindtorch.graph(lengths, backend="host")
        assert [by_value(torch.tensor([k]))[0].item() for k in range(6)] == list(range(6))
    assert by_number.eager_only and by_value.eager_only
    text = caplog.text
    assert "more than 3 specialisations" in text and "more than 2 were met" in text
