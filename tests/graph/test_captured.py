"""What is captured and does not break a graph: writes, half precision, autocast, custom Functions, random numbers, indices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import mindtorch
import mindtorch.torch as torch
import mindtorch.torch.nn.functional as F
from mindtorch.torch import nn

torch.manual_seed(0)
W = torch.randn(4, 4, requires_grad=True)
BUFFER = torch.zeros(4)
LINEAR, NORM, HALF = nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 4).bfloat16()


class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any, k: float) -> Any:
        ctx.save_for_backward(x)
        ctx.k = k
        return x * x * k

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * 2 * ctx.saved_tensors[0] * ctx.k, None


class Rounded(torch.autograd.Function):
    @staticmethod
    def forward(x: Any) -> Any:
        return x.round()

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.shape = inputs[0].shape

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g.clone()


def items(x: Any) -> Any:
    y = x * 2
    y[0] = 7.0
    y[:, 1] = x[:, 0]
    return y * W[0]


def items_with_gradients(x: Any) -> Any:
    y = torch.zeros(3, 4)
    y[0] = x[0]
    y[1:, 2] = x[1:, 1] * W[0, 0]
    y[:, ::2] *= 2
    return y.sin()


def masked(x: Any) -> Any:
    y = x @ W
    y[x > 0] = 0.5
    return y * W[0]


def positions(x: Any) -> Any:
    y = x @ W
    i = torch.tensor([0, 2])
    y[i] = y[i] * 2
    return y.log_softmax(-1)[torch.arange(3), [1, 0, 3]]


def in_place(x: Any) -> Any:
    y = x @ W
    y.add_(1).mul_(2)
    z = y[0]
    z.exp_()
    y[1].fill_(3.0)
    y[2].zero_()
    return F.relu_(y).masked_fill_(x > 0, -1.0)


def copied(x: Any) -> Any:
    y = torch.empty(3, 4)
    y.copy_(x @ W)
    z = torch.zeros(3, 4).scatter_(1, torch.tensor([[0], [1], [2]]), y[:, :1])
    return y * 3 + z.index_add_(0, torch.tensor([0, 1]), x[:2])


def to_an_argument(x: Any) -> Any:
    x.add_(1)
    return x @ W


def to_a_buffer(x: Any) -> Any:
    with torch.no_grad():
        BUFFER.mul_(0.9).add_(x.mean(0), alpha=0.1)
    return x @ W + BUFFER


def given_out(x: Any) -> Any:
    y = torch.empty(3, 4)
    with torch.no_grad():
        torch.add(x, 1, out=y)
    return y @ W


def containers(x: Any) -> Any:
    out: dict[str, Any] = {}
    out["a"] = x @ W
    both = [0, 0]
    both[0], both[1] = out["a"], out["a"] * 2
    return both[0] + both[1]


def custom(x: Any) -> Any:
    return Scaled.apply(x @ W, 3.0) + Rounded.apply(x @ W)


def autocast(x: Any) -> Any:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = LINEAR(x) @ W
        with torch.autocast("cpu", enabled=False):
            z = x @ W
    return y.float().sum(-1) + z.sum(-1)


def bfloat16(x: Any) -> Any:
    return HALF(x.bfloat16()).relu().softmax(-1).float() @ W


def float16(x: Any) -> Any:
    return torch.cat([(x.half() @ W.half()).tanh(), x.half() * 3], 1).sum(-1)


def without_gradients(x: Any) -> Any:
    with torch.no_grad():
        mean = (x @ W).mean()
    y = x @ W - mean
    return y - y.detach().mean(0) + x @ W.data


def normalised(x: Any) -> Any:
    return NORM(x @ W)


def dropped(x: Any) -> Any:
    return F.dropout(x @ W, 0.5)


def drawn(x: Any) -> Any:
    return x @ W + torch.randn(3, 4) * torch.rand_like(x) + torch.randint(0, 9, (4,)) + torch.randperm(4)


def derived(x: Any) -> Any:
    (g,) = torch.autograd.grad((x @ W).tanh().sum(), W)
    return g


FUNCTIONS = [
    items, items_with_gradients, masked, positions, in_place, copied, to_an_argument, to_a_buffer, given_out, containers, custom,
    autocast, bfloat16, float16, without_gradients, normalised, dropped, drawn, derived,
]  # fmt: skip


def run(call: Callable[[Any], Any]) -> list[Any]:
    """Results, arguments and state of a few calls with backward passes."""
    torch.manual_seed(0)
    BUFFER.zero_()
    NORM.reset_running_stats()
    out = []
    for _ in range(4):
        x = torch.randn(3, 4)
        W.grad = None
        y = call(x)
        if y.requires_grad:
            (y * torch.arange(float(y.numel())).reshape(y.shape)).sum().backward()
        out += [y.detach().clone(), x.clone(), BUFFER.clone(), NORM.running_var.clone(), W.grad]
    return [*out, torch.rand(2)]


@pytest.mark.parametrize("fn", FUNCTIONS)
def test_captured_with_the_eager_numbers(fn: Any) -> None:
    graph = mindtorch.graph(fn, backend="host")
    for got, want in zip(run(graph), run(fn)):
        assert got is want is None or torch.equal(got, want)
    assert not graph.breaks and [len(found) for found in graph.entries.values()] == [1]


def test_under_autocast_outside() -> None:
    graph = mindtorch.graph(LINEAR, backend="host")
    x = torch.randn(3, 4)
    for dtype in (torch.bfloat16, torch.float16, None, torch.bfloat16):
        with torch.autocast("cpu", dtype=dtype or torch.bfloat16, enabled=dtype is not None):
            got, want = graph(x), LINEAR(x)
        assert got.dtype is want.dtype and torch.equal(got, want)
    assert len(graph._graph.entries) == 3


def test_a_constant_that_is_written_to_begins_anew() -> None:
    def f(x: Any) -> Any:
        y = torch.ones(3)
        y.add_(x)
        y[0] += 1
        return y

    graph = mindtorch.graph(f, backend="host")
    first, second = graph(torch.ones(3)), graph(torch.ones(3))
    assert first.tolist() == second.tolist() == graph(torch.ones(3)).tolist() == [3, 2, 2]
    second.zero_()
    assert graph(torch.ones(3)).tolist() == [3, 2, 2]


def test_views_see_what_is_written_later() -> None:
    def f(x: Any) -> Any:
        y = x * 1
        first, rest = y[0], y.view(-1)[1:]
        y.mul_(2)
        rest += 10
        return first.sum() + y.sum()

    graph = mindtorch.graph(f, backend="host")
    x = torch.arange(6.0).reshape(2, 3)
    assert [float(graph(x)) for _ in range(3)] == [float(f(x))] * 3


def test_writes_count_as_versions() -> None:
    def f(x: Any, y: Any) -> Any:
        x.add_(1)
        return y * 2

    graph = mindtorch.graph(f, backend="host")
    for _ in range(3):
        x, w = torch.ones(3), torch.ones(3, requires_grad=True)
        z = x * w
        before = x._version
        graph(x, w)
        assert x._version == before + 1
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            z.sum().backward()


def test_arguments_that_share_memory() -> None:
    def f(x: Any, y: Any) -> Any:
        x.add_(1)
        return x + y

    graph = mindtorch.graph(f, backend="host")
    for make in (lambda: (torch.zeros(4), torch.zeros(4)), lambda: (lambda b: (b[:4], b[2:]))(torch.zeros(6))):
        for _ in range(3):
            x, y = make()
            got = graph(x, y)
            x, y = make()
            assert torch.equal(got, f(x, y))


def test_second_derivatives_of_what_has_none_are_refused() -> None:
    graph = mindtorch.graph(custom, backend="host")
    for _ in range(2):
        y = graph(torch.randn(3, 4))
    with pytest.raises(RuntimeError, match="create_graph=True"):
        torch.autograd.grad(y.sum(), W, create_graph=True)


def test_attention_with_padding_is_captured() -> None:
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, dropout=0.0)
    graph = mindtorch.graph(layer, backend="host")
    for lengths in ([5, 3], [2, 4], [5, 1]):
        x = torch.randn(2, 5, 16)
        padding = torch.arange(5)[None] >= torch.tensor(lengths)[:, None]
        got, want = graph(x, src_key_padding_mask=padding), layer(x, src_key_padding_mask=padding)
        assert torch.allclose(got, want, rtol=1e-6, atol=1e-6)
    assert not graph._graph.breaks and len(graph._graph.entries) == 1
