"""Programs compiled by ms.jit: which parts, forward and backward, against the eager numbers."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from graph_models import LeNet, mlp, pair

import mindtorch
import mindtorch.torch as torch
from mindtorch.graph import choice
from mindtorch.torch import nn


class TwoSteps(nn.Module):
    def __init__(self, cell: Any, keeps: bool) -> None:
        super().__init__()
        self.cell, self.keeps = cell, keeps

    def forward(self, x: Any) -> Any:
        h = self.cell(x)
        h = self.cell(x, h)
        return h[0] + h[1] if self.keeps else h


def plain_lenet() -> Any:
    return nn.Sequential(
        nn.Conv2d(1, 6, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(256, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10),
    )  # fmt: skip


NETWORKS = {
    "mlp": (mlp, (5, 8)),
    "lenet": (plain_lenet, (4, 1, 28, 28)),
    "encoder": (lambda: nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True), (3, 5, 16)),
    "lstm cell": (lambda: TwoSteps(nn.LSTMCell(6, 8), True), (4, 6)),
    "gru cell": (lambda: TwoSteps(nn.GRUCell(6, 8), False), (4, 6)),
}
WRITES = {
    "lenet, batch norm": (LeNet, (4, 1, 28, 28)),  # with running statistics and dropout
    "encoder, dropout": (lambda: nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), (3, 5, 16)),
}


def train(module: Any, call: Any, shape: tuple[int, ...]) -> list[np.ndarray]:
    opt = torch.optim.SGD(module.parameters(), 0.05)
    seen = []
    for step in range(4):
        torch.manual_seed(step)  # the masks
        x = torch.randn(*shape, requires_grad=True)
        opt.zero_grad()
        y = call(x)
        y.square().mean().backward()
        opt.step()
        seen += [y.detach().numpy().copy(), x.grad.numpy().copy()]
    return seen + [p.detach().numpy().copy() for p in [*module.parameters(), *module.buffers()]]


@pytest.mark.parametrize("name", [*NETWORKS, *WRITES])
def test_training_equals_eager(name: str) -> None:
    """Parameters change at each step and inputs too: nothing of them may be a constant of what was compiled."""
    make, shape = {**NETWORKS, **WRITES}[name]
    model, twin = pair(make)
    graph = mindtorch.graph(model, backend="mindspore")
    for a, b in zip(train(model, graph, shape), train(twin, twin, shape)):
        assert np.allclose(a, b, rtol=1e-5, atol=1e-5 * max(1.0, float(np.abs(b).max())))
    report = mindtorch.graph.explain(graph, torch.randn(*shape, requires_grad=True))
    (g,) = report.graphs
    assert g["backend"] == "mindspore" and not g["backward_breaks"], report
    assert any("backward pass:" in n and "compiled by ms.jit" in n for n in g["notes"]), report
    assert not any("not compiled" in n for n in g["notes"]), report
    host = [n for n in g["notes"] if "on the host" in n]
    assert all("random numbers" in n for n in host) and bool(host) == (name in WRITES), report


def test_a_whole_training_step_is_compiled_around_its_effects() -> None:
    runs = []
    for use in (True, False):
        torch.manual_seed(0)
        model = mlp()
        opt = torch.optim.Adam(model.parameters(), 0.01)

        def step(x: Any, model: Any = model, opt: Any = opt) -> Any:
            opt.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            opt.step()
            return loss.detach()

        call = mindtorch.graph(step, backend="mindspore") if use else step
        torch.manual_seed(1)
        runs.append([call(torch.randn(5, 8)).item() for _ in range(6)])
        if use:
            (entry,) = [e for found in call.entries.values() for e in found]
            assert entry.chosen == "mindspore" and entry.notes[0] == "1 part(s) compiled by ms.jit", entry.notes
    assert np.allclose(*runs, rtol=1e-5)


def test_what_cannot_be_compiled_stays_on_the_host_and_is_named() -> None:
    def f(x: Any) -> Any:
        return torch.complex(x @ x, x).abs() * 2 + x

    graph = mindtorch.graph(f, backend="mindspore")
    x = torch.rand(4, 4)
    with torch.no_grad():
        for _ in range(3):
            assert np.allclose(graph(x), f(x), rtol=1e-4)
    text = str(mindtorch.graph.explain(graph, x))
    assert "2 part(s) compiled by ms.jit" in text and "on complex64" in text and "test_mindspore_graph.py:" in text, text


def test_indices_are_still_checked() -> None:
    model = nn.Sequential(nn.Embedding(5, 4), nn.Linear(4, 3))
    graph = mindtorch.graph(model, backend="mindspore")
    for _ in range(3):
        graph(torch.tensor([1, 4]))
    assert "in range is checked on the host" in str(mindtorch.graph.explain(graph, torch.tensor([1, 4])))
    with pytest.raises(IndexError, match="out of range"):
        graph(torch.tensor([1, 5]))


def test_a_graph_that_computes_nothing_says_so() -> None:
    graph = mindtorch.graph(lambda x: x.reshape(-1).clone().reshape(2, 2)[:1], backend="mindspore")
    for _ in range(3):
        assert graph(torch.ones(2, 2)).shape == (1, 2)


def test_freed_graphs_do_not_answer_for_new_ones() -> None:
    """MindSpore knows compiled functions by their id, which a later function may have again."""
    for n in range(3):
        graph = mindtorch.graph(lambda x, n=n: (x @ x) * (n + 2), backend="mindspore")
        x = torch.ones(2, 2)
        with torch.no_grad():
            for _ in range(3):
                got = graph(x)
        assert got.tolist() == [[2.0 * (n + 2)] * 2] * 2
        del graph


def test_a_process_that_compiled_ends_well() -> None:
    """A compilation that fails would abort the process at its end, which is why steps are tried first."""
    code = (
        "import mindtorch, mindtorch.torch as torch\n"
        "g = mindtorch.graph(lambda x: torch.igamma(x, x).exp() + torch.special.zeta(x + 2, x), backend='mindspore')\n"
        "for _ in range(3): y = g(torch.rand(3, 3) + 1)\n"
        "print(mindtorch.graph.explain(g, torch.rand(3, 3) + 1))"
    )
    got = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert got.returncode == 0, got.stderr[-1000:]
    assert "ms.jit" in got.stdout or "not compiled" in got.stdout


# ------------------------------------------------------------------------------------------ the choice
class _Entry:
    """What ``choice.timed`` needs of an entry; each backend takes the seconds it is told."""

    def __init__(self, clock: Any, seconds: dict[str, float]) -> None:
        self.clock, self.seconds = clock, seconds
        self.times: dict[str, list[float]] = {"eager": [], "host": []}
        self.notes: list[str] = []
        self.trained, self.chosen, self.backend = False, None, "host"

    def on(self, backend: str) -> None:
        self.backend = backend

    use = on

    def compile_mindspore(self) -> bool:
        return True

    def __call__(self, given: Any) -> None:
        self.clock.now += self.seconds[self.backend]

    def eager(self) -> None:
        self.clock.now += self.seconds["eager"]


class _Clock:
    now = 0.0

    def perf_counter(self) -> float:
        return self.now


@pytest.mark.parametrize(
    "seconds, loaded, want, note",
    [
        ({"eager": 1e-3, "host": 2e-3}, True, "eager", "less than 20 ms"),
        ({"eager": 2e-3, "host": 1e-3}, True, "host", "less than 20 ms"),
        ({"eager": 0.3, "host": 0.2, "mindspore": 0.1}, True, "mindspore", ""),
        ({"eager": 0.3, "host": 0.2, "mindspore": 0.4}, True, "host", ""),
        ({"eager": 0.3, "host": 0.2, "mindspore": 0.1}, False, "host", "MindSpore is not loaded"),
    ],
)
def test_the_fastest_is_kept(monkeypatch: Any, seconds: dict[str, float], loaded: bool, want: str, note: str) -> None:
    clock = _Clock()
    monkeypatch.setattr(choice, "time", clock)
    modules = {"mindspore": None} if loaded else {}
    monkeypatch.setattr(choice, "sys", type("Sys", (), {"modules": modules}))
    entry = _Entry(clock, seconds)
    calls = 0
    while entry.chosen is None:
        choice.timed("f", entry, None, entry.eager)
        calls += 1
    assert entry.chosen == want and calls == choice.TRIES * (3 if "mindspore" in entry.times else 2)
    assert entry.backend == ("host" if want == "eager" else want)
    assert note in " ".join(entry.notes)


def test_the_faster_backward_program_is_kept(monkeypatch: Any) -> None:
    clock = _Clock()
    monkeypatch.setattr(choice, "time", clock)
    said: list[str] = []

    def taking(seconds: float, result: str) -> Any:
        def run(arrays: Any) -> str:
            clock.now += seconds
            return result

        return run

    contest = choice.Contest({"host": taking(0.2, "host"), "mindspore": taking(0.1, "mindspore")}, said.append)
    got = [contest([]) for _ in range(8)]
    assert sorted(got[:6]) == ["host"] * 3 + ["mindspore"] * 3 and got[6:] == ["mindspore"] * 2
    assert said == ["backend mindspore is kept (host 200 ms, mindspore 100 ms)"]


def test_explain_says_which_backend_and_why() -> None:
    model = mlp()
    text = str(mindtorch.graph.explain(model, torch.randn(2, 8)))
    assert "backend host (eager" in text or "backend eager (eager" in text
    assert "ms.jit not tried: the pass takes less than 20 ms" in text
