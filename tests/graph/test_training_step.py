"""A whole training step as one graph: parameters, gradients, optimiser state and random numbers are the eager step's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from graph_models import LeNet, encoder, mlp

import mindtorch
import mindtorch.torch as torch
import mindtorch.torch.nn.functional as F
from mindtorch.torch import nn

LABELS = [0, 1, 2, 3, 0]


def classifier() -> Any:
    return nn.Sequential(encoder(), nn.Flatten(), nn.Linear(80, 4))


def dropped() -> Any:
    return nn.Sequential(nn.Linear(8, 32), nn.Dropout(0.3), nn.ReLU(), nn.Dropout(0.5), nn.Linear(32, 4))


CASES: dict[str, tuple[Callable[[], Any], tuple[int, ...], Callable[[Any], Any]]] = {
    "lenet-sgd": (LeNet, (5, 1, 28, 28), lambda p: torch.optim.SGD(p, 0.05)),
    "lenet-momentum": (LeNet, (5, 1, 28, 28), lambda p: torch.optim.SGD(p, 0.05, momentum=0.9, nesterov=True)),
    "mlp-adam": (mlp, (5, 8), lambda p: torch.optim.Adam(p, 0.01)),
    "encoder-adamw": (classifier, (5, 5, 16), lambda p: torch.optim.AdamW(p, 0.01, amsgrad=True)),
    "dropout-adam": (dropped, (5, 8), lambda p: torch.optim.Adam(p, 0.01)),
    "mlp-rmsprop": (mlp, (5, 8), lambda p: torch.optim.RMSprop(p, 0.01)),
    "mlp-adagrad": (mlp, (5, 8), lambda p: torch.optim.Adagrad(p, 0.01)),
}


def flat(state: Any) -> list[Any]:
    """Leaves of a state_dict, tensors as arrays."""
    if isinstance(state, dict):
        return [x for k in state for x in (k, *flat(state[k]))]
    if isinstance(state, (list, tuple)):
        return [x for e in state for x in flat(e)]
    return [state.detach().numpy().copy() if isinstance(state, torch.Tensor) else state]


def same(a: list[Any], b: list[Any]) -> bool:
    return len(a) == len(b) and all(np.array_equal(x, y) if isinstance(x, np.ndarray) else x == y for x, y in zip(a, b))


def trained(name: str, use: bool, steps: int = 20) -> tuple[Any, list[Any]]:
    """(the graph, everything the training leaves behind): the learning rate changes on the way."""
    make, shape, optimizer = CASES[name]
    torch.manual_seed(0)
    model = make()
    opt = optimizer(model.parameters())
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, 20)
    labels = torch.tensor(LABELS)

    def step(x: Any, t: Any) -> Any:
        opt.zero_grad()
        loss = F.cross_entropy(model(x), t)
        loss.backward()
        opt.step()
        return loss

    graph = mindtorch.graph(step, backend="host")
    call = graph if use else step
    found: list[Any] = []
    for _ in range(steps):
        found.append(call(torch.randn(*shape), labels).detach().numpy().copy())
        sched.step()
    found += flat(model.state_dict()) + flat(opt.state_dict()) + [p.grad.numpy().copy() for p in model.parameters()]
    return graph, [*found, torch.rand(3).numpy()]  # where the random stream stands


@pytest.mark.parametrize("name", CASES)
def test_a_step_is_one_graph_with_the_eager_numbers(name: str) -> None:
    _, want = trained(name, False)
    graph, got = trained(name, True)
    assert same(got, want)
    assert not graph.breaks and [len(found) for found in graph.entries.values()] == [1]
    (entry,) = next(iter(graph.entries.values()))
    rows = [s.row.name for s in entry.program.steps]
    assert rows[0].endswith(".zero_grad") and rows[-1].endswith(".step") and rows.count("store_grad") == len(want_grads(name))


def want_grads(name: str) -> list[Any]:
    return list(CASES[name][0]().parameters())


def test_explain_shows_one_graph() -> None:
    model = mlp()
    opt = torch.optim.SGD(model.parameters(), 0.1)

    def step(x: Any) -> Any:
        opt.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        opt.step()
        return loss

    told = mindtorch.graph.explain(step, torch.randn(5, 8))
    assert told.graph_count == 1 and not told.breaks
    assert "SGD.step" in told.graphs[0]["rows"] and "store_grad" in told.graphs[0]["rows"]


def both(make: Callable[[], Callable[[], Any]], graphs: int = 1, calls: int = 4) -> None:
    """``make()`` gives a step of fresh state; what the calls return is the same eagerly and as ``graphs`` graphs."""
    got = []
    for use in (False, True):
        torch.manual_seed(0)
        step = make()
        call = mindtorch.graph(step, backend="host") if use else step
        got.append([x for _ in range(calls) for x in flat(call())])
        if use:
            assert not call.breaks and sum(len(v) for v in call.entries.values()) == graphs
    assert same(*got)


def test_gradients_are_accumulated_as_eagerly() -> None:
    """Two backward passes before a step, and none of zero_grad: the second run adds to what the first left."""

    def make() -> Any:
        model = mlp()

        def step() -> Any:
            for _ in range(2):
                model(torch.randn(5, 8)).square().mean().backward()
            return [p.grad.clone() for p in model.parameters()]

        return step

    both(make)


def test_zero_grad_in_place_and_by_the_module() -> None:
    for to_none in (True, False):

        def make(to_none: bool = to_none) -> Any:
            model = mlp()
            opt = torch.optim.SGD(model.parameters(), 0.1)

            def step() -> Any:
                model.zero_grad(to_none)
                loss = model(torch.randn(5, 8)).square().mean()
                loss.backward()
                opt.step()
                opt.zero_grad(set_to_none=to_none)
                return loss.detach(), [p.grad for p in model.parameters()]

            return step

        both(make)


def test_clipped_gradients_and_weight_decay_by_hand() -> None:
    def make() -> Any:
        model = mlp()
        opt = torch.optim.AdamW(model.parameters(), 0.05)

        def step() -> Any:
            opt.zero_grad()
            loss = sum((p * p).sum() for p in model.parameters()) * 0.1 + model(torch.randn(5, 8)).square().sum()
            loss.backward()
            norm = nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            nn.utils.clip_grad_value_(model.parameters(), 0.2)
            opt.step()
            return loss.detach(), norm, [p.detach().clone() for p in model.parameters()]

        return step

    both(make)


def test_a_step_written_by_hand() -> None:
    def make() -> Any:
        w, b = torch.randn(8, 4, requires_grad=True), torch.zeros(4, requires_grad=True)

        def step() -> Any:
            loss = (torch.randn(5, 8) @ w + b).square().mean()
            loss.backward()
            with torch.no_grad():
                for p in (w, b):
                    p -= 0.1 * p.grad
                    p.grad = None
            return loss.detach(), w.detach().clone(), b.detach().clone()

        return step

    both(make)


def test_gradients_by_autograd_grad() -> None:
    def make() -> Any:
        model = mlp()
        params = list(model.parameters())

        def step() -> Any:
            grads = torch.autograd.grad(model(torch.randn(5, 8)).square().mean(), params)
            with torch.no_grad():
                for p, g in zip(params, grads):
                    p.sub_(g, alpha=0.1)
            return [g.clone() for g in grads], [p.detach().clone() for p in params]

        return step

    both(make)


def test_a_gradient_penalty() -> None:
    def make() -> Any:
        model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
        opt = torch.optim.Adam(model.parameters(), 0.01)

        def step(x: Any) -> Any:
            opt.zero_grad()
            y = model(x)
            (g,) = torch.autograd.grad(y.sum(), x, create_graph=True)
            loss = y.mean() + ((g.norm(dim=1) - 1) ** 2).mean()
            loss.backward()
            opt.step()
            return loss.detach()

        return lambda: step(torch.randn(5, 8).requires_grad_())

    got = []
    for use in (False, True):
        torch.manual_seed(0)
        fn = make()
        step = fn.__closure__[0].cell_contents
        if use:
            graph = mindtorch.graph(step, backend="host")
            got.append([float(graph(torch.randn(5, 8).requires_grad_())) for _ in range(5)])
            assert not graph.breaks
        else:
            got.append([float(fn()) for _ in range(5)])
    assert got[0] == got[1]


def test_the_loss_given_back_is_spent_as_eagerly() -> None:
    model = mlp()

    def step(x: Any) -> Any:
        loss = model(x).square().mean()
        loss.backward()
        return loss

    graph = mindtorch.graph(step, backend="host")
    for _ in range(3):
        loss = graph(torch.randn(5, 8))
        assert loss.requires_grad
        with pytest.raises(RuntimeError, match="second time"):
            loss.backward()


def test_options_of_the_optimiser_are_read_at_each_run() -> None:
    model = mlp()
    opt = torch.optim.SGD(model.parameters(), 0.1)

    def step(x: Any) -> Any:
        opt.zero_grad()
        model(x).square().mean().backward()
        opt.step()

    graph = mindtorch.graph(step, backend="host")
    x = torch.randn(5, 8)
    graph(x), graph(x)
    before = [p.detach().clone() for p in model.parameters()]
    opt.param_groups[0]["lr"] = 0.0
    graph(x)
    assert all(torch.equal(p, q) for p, q in zip(model.parameters(), before))
    opt.load_state_dict(torch.optim.SGD(model.parameters(), 0.5, momentum=0.9).state_dict())
    graph(x)
    assert len(opt.state_dict()["state"]) == 4 and [len(v) for v in graph.entries.values()] == [1]


def test_hooks_registered_later_run() -> None:
    model = mlp()
    opt = torch.optim.SGD(model.parameters(), 0.1)
    seen: list[str] = []

    def step(x: Any) -> Any:
        opt.zero_grad()
        model(x).square().mean().backward()
        opt.step()

    graph = mindtorch.graph(step, backend="host")
    x = torch.randn(5, 8)
    graph(x), graph(x)
    opt.register_step_pre_hook(lambda *a: seen.append("step"))
    model[0].weight.register_hook(lambda g: seen.append("gradient"))
    graph(x)
    assert sorted(seen) == ["gradient", "step"]


def test_what_a_step_may_not_hold_is_a_break() -> None:
    model = mlp()
    opt = torch.optim.SGD(model.parameters(), 0.1)
    sched = torch.optim.lr_scheduler.StepLR(opt, 1)

    def closed(x: Any) -> Any:
        def closure() -> Any:
            opt.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            return loss

        return opt.step(closure)

    def scheduled(x: Any) -> Any:
        sched.step()
        return x * 2

    for fn, why in ((closed, "closure"), (scheduled, "state")):
        graph = mindtorch.graph(fn, backend="host")
        for _ in range(2):
            graph(torch.randn(5, 8))
        assert any(why in reason for reason, _ in graph.breaks), graph.breaks
    assert sched.last_epoch == 2
    mindtorch.graph.reset()


class Trainer:
    """A step as a method: what it uses hangs on ``self``."""

    def __init__(self) -> None:
        self.model = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 4))
        self.criterion, self.scale = nn.CrossEntropyLoss(), 1.0
        self.opt: Any = torch.optim.AdamW(self.model.parameters(), 0.01)

    def step(self, x: Any, t: Any) -> Any:
        self.opt.zero_grad()
        out = self.model(x)
        loss = self.criterion(out, t) * self.scale
        loss.backward()
        self.opt.step()
        return loss.item(), out


def replaced(t: Trainer) -> None:
    t.model[0].weight = nn.Parameter(torch.ones(16, 8))


def another_optimiser(t: Trainer) -> None:
    t.opt = torch.optim.SGD(t.model.parameters(), 0.1)


def a_group_more(t: Trainer) -> None:
    t.opt.add_param_group({"params": [nn.Parameter(torch.ones(2))]})


def a_gradient_set(t: Trainer) -> None:
    t.model[0].weight.grad = torch.ones(16, 8)


def scaled(t: Trainer) -> None:
    t.scale = 2.0


EVENTS: dict[str, tuple[Callable[[Trainer], Any], int]] = {
    "nothing": (lambda t: None, 1),
    "eval": (lambda t: t.model.eval(), 2),
    "frozen": (lambda t: t.model[0].weight.requires_grad_(False), 2),
    "replaced": (replaced, 1),
    "loaded": (lambda t: t.model.load_state_dict(Trainer().model.state_dict()), 1),
    "optimiser": (another_optimiser, 2),
    "group": (a_group_more, 1),
    "gradient": (a_gradient_set, 1),
    "number": (scaled, 2),
    "option": (lambda t: t.opt.param_groups[0].update(weight_decay=0.5, lr=0.1), 1),
    "hook": (lambda t: t.model[0].register_forward_hook(lambda m, i, o: o * 2), 2),
}


@pytest.mark.parametrize("event", EVENTS)
def test_what_changes_between_steps_is_seen(event: str) -> None:
    happens, graphs = EVENTS[event]
    results = []
    for use in (False, True):
        torch.manual_seed(0)
        trainer = Trainer()
        call = mindtorch.graph(trainer.step, backend="host") if use else trainer.step
        found: list[Any] = []
        for k in range(6):
            if k == 3:
                happens(trainer)
            loss, out = call(torch.randn(5, 8), torch.tensor(LABELS))
            found += [loss, out.detach().numpy()]
        results.append(found + flat(trainer.model.state_dict()) + flat(trainer.opt.state_dict()))
        if use:
            assert not call.breaks and sum(len(v) for v in call.entries.values()) == graphs
    assert same(*results)


def test_options_of_an_optimiser_that_the_function_reads_are_guarded() -> None:
    opt = torch.optim.SGD([nn.Parameter(torch.ones(2))], 0.5)
    sched = torch.optim.lr_scheduler.ExponentialLR(opt, 0.5)

    def f(x: Any) -> Any:
        return x * opt.param_groups[0]["lr"] + sched.get_last_lr()[0]

    graph = mindtorch.graph(f, backend="host")
    for lr in (0.5, 0.25, 0.125):
        assert graph(torch.ones(1)).item() == graph(torch.ones(1)).item() == 2 * lr
        opt.step(), sched.step()
