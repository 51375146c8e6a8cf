"""When leaves get their gradients: hooks run in PyTorch's order, in the middle of a backward pass."""

from __future__ import annotations

from typing import Any

import pytest

import mindtorch.torch as mt
import torch


def fired(t: Any, model: Any, run: Any, **more: Any) -> list[str]:
    """Names of the leaves in the order of their post-accumulate hooks."""
    log: list[str] = []
    for name, p in [*model.named_parameters(), *more.items()]:
        p.register_post_accumulate_grad_hook(lambda p, name=name: log.append(name))
    run(model).backward()
    assert len(log) == len(set(log)) > 0
    return log


def parameters(t: Any, n: int, *shape: int) -> Any:
    return t.nn.ParameterList([t.nn.Parameter(t.ones(*shape)) for _ in range(n)])


class Residual:
    @staticmethod
    def make(t: Any) -> Any:
        m = t.nn.Module()
        m.a, m.b, m.w = t.nn.Linear(4, 4), t.nn.Linear(4, 4), t.nn.Parameter(t.ones(4))
        return m

    @staticmethod
    def run(m: Any, x: Any) -> Any:
        return (m.b(m.a(x) * m.w) + m.a(x)).sum()


def two(t: Any, make: Any) -> Any:
    return t.nn.Sequential(make(), t.nn.ReLU(), make())


CASES = {
    "mlp": lambda t: fired(t, two(t, lambda: t.nn.Linear(6, 6)), lambda m: m(t.ones(4, 6)).sum()),
    "no bias": lambda t: fired(t, two(t, lambda: t.nn.Linear(6, 6, bias=False)), lambda m: m(t.ones(4, 6)).sum()),
    "three dimensions": lambda t: fired(t, two(t, lambda: t.nn.Linear(6, 6)), lambda m: m(t.ones(2, 4, 6)).sum()),
    "input": lambda t: (lambda x: fired(t, t.nn.Linear(6, 5), lambda m: m(x).sum(), x=x))(t.ones(4, 6, requires_grad=True)),
    "norms": lambda t: fired(
        t,
        t.nn.Sequential(t.nn.Conv2d(1, 6, 3), t.nn.BatchNorm2d(6), t.nn.GroupNorm(2, 6), t.nn.LayerNorm(4)),
        lambda m: m(t.ones(2, 1, 6, 6)).sum(),
    ),
    "encoder": lambda t: fired(t, t.nn.TransformerEncoderLayer(6, 2, 8), lambda m: m(t.ones(2, 4, 6)).sum()),
    "cross attention": lambda t: fired(
        t, t.nn.MultiheadAttention(6, 2), lambda m: m(t.ones(2, 4, 6), t.ones(3, 4, 6), t.ones(3, 4, 6))[0].sum()
    ),
    "embedding": lambda t: fired(
        t, t.nn.Sequential(t.nn.Embedding(5, 6), t.nn.Linear(6, 2)), lambda m: m(t.zeros(2, 3).long()).sum()
    ),
    "lstm": lambda t: fired(t, t.nn.LSTM(6, 3, 2, bidirectional=True), lambda m: m(t.ones(2, 4, 6))[0].sum()),
    "gru": lambda t: fired(t, t.nn.GRU(6, 3, 2), lambda m: m(t.ones(2, 4, 6))[0].sum()),
    "rnn": lambda t: fired(t, t.nn.RNN(6, 3, 2), lambda m: m(t.ones(2, 4, 6))[0].sum()),
    "six at once": lambda t: fired(t, parameters(t, 6, 2), lambda m: t.cat(list(m)).sum()),
    "three and nodes": lambda t: fired(t, parameters(t, 3, 2), lambda m: t.cat([*m, m[0] * 2, (m[1] * 3).exp()]).sum()),
    "shared": lambda t: fired(t, parameters(t, 5, 2), lambda m: ((m[0] * m[1] + m[2]) * m[0] + m[3].detach() * m[4]).sum()),
    "products": lambda t: fired(
        t, parameters(t, 5, 2, 2), lambda m: (m[0] @ m[1] @ m[2]).sum() + t.addmm(m[3], m[4], m[0]).sum()
    ),
    "residual": lambda t: fired(t, Residual.make(t), lambda m: Residual.run(m, t.ones(3, 4))),
}


@pytest.mark.parametrize("name", CASES)
def test_leaves_come_in_the_order_of_pytorch(name):
    assert CASES[name](mt) == CASES[name](torch)


def test_hooks_in_the_middle_see_what_is_there():
    def scenario(t):
        log = []
        m = t.nn.Sequential(t.nn.Linear(2, 2), t.nn.Tanh(), t.nn.Linear(2, 2))
        m[1].register_full_backward_hook(lambda *_: log.append(("tanh", m[2].weight.grad is None, m[0].weight.grad is None)))
        m[2].weight.register_hook(lambda g: log.append(("weight 2", m[2].weight.grad is None)))
        m[0].weight.register_hook(lambda g: log.append(("weight 0", m[2].weight.grad is None)))
        h = m[0](t.ones(1, 2))
        h.register_hook(lambda g: log.append(("h", m[2].bias.grad is None, m[0].bias.grad is None)))
        m[2](m[1](h)).sum().backward()
        return log

    assert scenario(mt) == scenario(torch)


def test_an_optimiser_may_step_inside_a_backward_pass():
    def scenario(t):
        t.manual_seed(0)
        m = t.nn.Sequential(t.nn.Linear(3, 3), t.nn.Tanh(), t.nn.Linear(3, 1))
        for p in m.parameters():
            opt = t.optim.SGD([p], lr=0.1)

            def step(p, opt=opt):
                opt.step()
                opt.zero_grad()

            p.register_post_accumulate_grad_hook(step)
        for _ in range(3):
            (m(t.ones(2, 3)) * 2).sum().backward()
        return [p.grad is None for p in m.parameters()], [p.detach().tolist() for p in m.parameters()]

    ours, theirs = scenario(mt), scenario(torch)
    assert ours[0] == theirs[0] == [True] * 4
    for a, b in zip(ours[1], theirs[1]):
        torch.testing.assert_close(torch.tensor(a), torch.tensor(b), rtol=1e-5, atol=1e-6)


def test_edges_without_a_gradient_are_not_waited_for():
    def scenario(t):
        class Half(t.autograd.Function):
            @staticmethod
            def forward(ctx, a, b):
                return a + b

            @staticmethod
            def backward(ctx, g):
                return g, None

        log = []
        a, b, c, d = (t.ones(2, requires_grad=True) for _ in range(4))
        for name, x in (("a", a), ("b", b), ("c", c), ("d", d)):
            x.register_post_accumulate_grad_hook(lambda p, name=name: log.append(name))
        ((Half.apply(a, (b * 2) * 3 + d) + b) * c).sum().backward()
        return log, [None if x.grad is None else x.grad.tolist() for x in (a, b, c, d)]

    ours = scenario(mt)
    assert ours == scenario(torch) and ours[1][3] is None


def test_only_asked_inputs_are_given():
    def scenario(t):
        log = []
        a, b = (t.ones(2, requires_grad=True) for _ in range(2))
        for name, x in (("a", a), ("b", b)):
            x.register_hook(lambda g, name=name: log.append("hook " + name))
            x.register_post_accumulate_grad_hook(lambda p, name=name: log.append(name))
        h = a * b
        (h * a).sum().backward(inputs=[a], retain_graph=True)
        got = t.autograd.grad((h * b).sum(), [b, h])
        return log, a.grad.tolist(), b.grad, [g.tolist() for g in got]

    assert scenario(mt) == scenario(torch)


def test_callbacks_at_the_end_of_a_backward_pass():
    def scenario(t):
        log = []
        engine = t.autograd.Variable._execution_engine
        a, b = t.ones(2, requires_grad=True), t.ones(2, requires_grad=True)
        b.register_post_accumulate_grad_hook(lambda p: engine.queue_callback(lambda: log.append(a.grad.tolist())))
        (a.exp().exp() * 0 + a + b).sum().backward()
        log.append("over")
        try:
            engine.queue_callback(lambda: log.append("never"))
        except RuntimeError:
            log.append("refused")
        return log

    assert scenario(mt) == scenario(torch) == [[1.0, 1.0], "over", "refused"]


def test_a_frozen_leaf_keeps_its_hooks_and_its_place():
    def scenario(t):
        log, out = [], []
        p = t.nn.Parameter(t.ones(2))
        p.register_hook(lambda g: log.append("hook"))
        p.register_post_accumulate_grad_hook(lambda p: log.append("stored"))
        before = (p * 5).sum()
        (p * 2).sum().backward()
        g = p.grad
        p.requires_grad_(False)
        out.append((p.grad is g, p.is_leaf, p.grad_fn))
        (p * t.ones(2, requires_grad=True)).sum().backward()
        p.requires_grad_(True)
        out += [p.grad is g, list(log)]
        before.backward()
        (p * 2).sum().backward()
        out += [list(log), p.grad.tolist()]
        late = (p * 3).sum()
        p.requires_grad_(False)
        late.backward()
        out += [list(log), p.grad.tolist()]
        q = t.nn.Parameter(t.ones(2))
        y = (q * 3).sum()
        q.requires_grad = False
        q.requires_grad = True
        y.backward()
        return [*out, q.grad.tolist()]

    assert scenario(mt) == scenario(torch)
