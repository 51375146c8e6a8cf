"""What may be written to: inference tensors, views made unrecorded, outputs of several views, overlapping memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from both import agree, plain, same

import mindtorch.torch as mt
import torch

Scenario = Callable[[Any], Any]
CASES: dict[str, Scenario] = {}


def case(fn: Scenario) -> Scenario:
    CASES[fn.__name__] = fn
    return fn


def tries(*steps: Callable[[], Any]) -> list[Any]:
    """Results of steps, or the type and text of what they raise."""
    out: list[Any] = []
    for step in steps:
        try:
            out.append(plain(step()))
        except Exception as err:
            out.append(f"{type(err).__name__}: {err}")
    return out


def inferred(t: Any) -> Any:
    with t.inference_mode():
        return t.ones(2)


@case
def inference_tensors_know_it(t: Any) -> Any:
    x, n = inferred(t), t.ones(2)
    kinds = [x, x[1:], x.detach(), x.data, x.view(2, 1), x.clone(), x * 2, n]
    with t.inference_mode():
        p = t.nn.Parameter(t.ones(2))
        kinds += [n[1:], n * 2, n.add_(1), t.add(n, n, out=n), p]
        with t.inference_mode(False):
            kinds.append(n * 2)
    return [k.is_inference() for k in kinds] + [t.is_inference(x), n._version]


@case
def inference_tensors_are_not_written_outside(t: Any) -> Any:
    x = inferred(t)
    return tries(
        lambda: x.add_(1), lambda: x[1:].mul_(2), lambda: x.__setitem__(0, 5), lambda: x.copy_(t.ones(2)),
        lambda: x.fill_(3), lambda: x.zero_(), lambda: x.exp_(), lambda: t.add(x, x, out=x),
        lambda: t.no_grad()(lambda: x.add_(1))(), lambda: x._version, lambda: x.requires_grad_().requires_grad,
    )  # fmt: skip


@case
def inference_tensors_are_not_saved(t: Any) -> Any:
    x, w = inferred(t), t.ones(2, requires_grad=True)
    F = t.nn.functional

    class Mul(t.autograd.Function):
        @staticmethod
        def forward(ctx: Any, a: Any, b: Any) -> Any:
            ctx.save_for_backward(a, b)
            return a * b

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g, g

    return tries(
        lambda: x * w, lambda: (x + w).detach(), lambda: F.linear(x, t.ones(3, 2, requires_grad=True)),
        lambda: t.cat([x, w]).detach(), lambda: w / x, lambda: (w * 2).mul_(x), lambda: (w * 2).add_(x).detach(),
        lambda: Mul.apply(x, w), lambda: t.ones(2).copy_(x), lambda: (w @ x),
    )  # fmt: skip


@case
def inference_mode_records_nothing(t: Any) -> Any:
    w = t.ones(2, requires_grad=True)
    with t.inference_mode():
        out = [(w * 2).requires_grad, w.add_(1).detach(), t.ones(2).requires_grad_().requires_grad]
        with t.enable_grad():
            out.append((w * 2).requires_grad)
        with t.inference_mode(False):
            out.append((w * 2).requires_grad)
    return [*out, (w * 2).requires_grad, t.is_grad_enabled()]


@case
def view_made_without_grad(t: Any) -> Any:
    w = t.ones(4, requires_grad=True)
    y, z = w * 2, w * 3
    with t.no_grad():
        v, leaf, many = y[1:], w[1:], y.split(2)[0]
    with t.inference_mode():
        u = z[1:]
    out = tries(
        lambda: v.add_(1), lambda: v.copy_(w[1:]), lambda: leaf.add_(1).detach(),
        lambda: many.add_(1), lambda: u.add_(1), lambda: v * 2,
    )  # fmt: skip
    with t.no_grad():
        v.add_(1)
    return [*out, y]


@case
def view_made_before_its_base_required_grad(t: Any) -> Any:
    b = t.zeros(4)
    v = b[1:]
    b.requires_grad_()
    return tries(lambda: v.requires_grad, lambda: v.add_(1))


PARTS: dict[str, Callable[[Any, Any], Any]] = {
    "split": lambda t, x: x.split(2),
    "split_sizes": lambda t, x: x.split([1, 3]),
    "split_one": lambda t, x: x.split(4),
    "split_with_sizes": lambda t, x: x.split_with_sizes([1, 3]),
    "chunk": lambda t, x: x.chunk(2),
    "unbind": lambda t, x: x.unbind(0),
    "iteration": lambda t, x: list(x),
    "tensor_split": lambda t, x: x.tensor_split(2),
    "tensor_split_at": lambda t, x: x.tensor_split([1]),
    "hsplit": lambda t, x: x.hsplit(2),
    "unsafe_split": lambda t, x: t.unsafe_split(x, 2),
    "unsafe_chunk": lambda t, x: t.unsafe_chunk(x, 2),
}


@pytest.mark.parametrize("name", PARTS)
def test_outputs_of_several_views(name: str) -> None:
    def scenario(t: Any) -> Any:
        f = PARTS[name]
        w = t.ones(4, requires_grad=True)
        x = w * 2
        o = f(t, x)
        out = [o[0].grad_fn.name(), o[-1].output_nr, *tries(lambda: o[0].add_(1).detach(), lambda: x)]
        x = w * 2
        o = f(t, x)
        x.mul_(w)
        out += tries(lambda: (o[0] * 1).detach(), lambda: (o[-1] * 1).sum().backward(), lambda: o[1 % len(o)].grad_fn is None)
        with t.no_grad():
            out.append((o[-1] * 3).sum())
        p = t.ones(4)
        o = f(t, p)
        out += tries(lambda: o[0].add_(1), lambda: p, lambda: o[0].mul_(w[0]).detach(), lambda: p.detach())
        return [*out, *tries(lambda: f(t, w)[0].add_(1).detach()), w.grad]

    agree_in_words(scenario)


def agree_in_words(scenario: Scenario) -> None:
    """Same results; texts of errors may say more than PyTorch's."""
    want, got = plain(scenario(torch)), plain(scenario(mt))
    assert len(want) == len(got), f"{got} want {want}"
    for i, (g, w) in enumerate(zip(got, want)):
        if isinstance(w, str) and "Error: " in w:
            assert isinstance(g, str) and g.startswith(w.rstrip(".")), f"[{i}] {g!r} want {w!r}"
        else:
            same(g, w, f"[{i}]")


@pytest.mark.parametrize("name", CASES)
def test_words(name: str) -> None:
    agree_in_words(CASES[name])


OVERLAPS: dict[str, Scenario] = {
    "add_": lambda t: (lambda x: x[1:].add_(x[:-1])),
    "add_itself": lambda t: (lambda x: x.add_(x)),
    "add_same_view": lambda t: (lambda x: x[1:].add_(x[1:])),
    "add_transposed": lambda t: (lambda x: x.view(3, 3).add_(x.view(3, 3).t())),
    "add_row": lambda t: (lambda x: x.view(3, 3).add_(x[:3])),
    "add_element": lambda t: (lambda x: x.add_(x[0])),
    "div_element": lambda t: (lambda x: x.div_(x[5])),
    "add_alpha": lambda t: (lambda x: x[1:].add_(x[:-1], alpha=2)),
    "interleaved": lambda t: (lambda x: x[:8][::2].add_(x[:8][1::2])),
    "addcmul_": lambda t: (lambda x: x[1:].addcmul_(x[:-1], x[:-1])),
    "lerp_": lambda t: (lambda x: x[1:].lerp_(x[:-1], 0.5)),
    "compare_": lambda t: (lambda x: x[1:].lt_(x[:-1])),
    "copy_": lambda t: (lambda x: x[1:].copy_(x[:-1])),
    "copy_itself": lambda t: (lambda x: x.copy_(x)),
    "setitem": lambda t: (lambda x: x.__setitem__(slice(1, None), x[:-1])),
    "setitem_flip": lambda t: (lambda x: [x.__setitem__(slice(None), x.flip(0)), x]),
    "out_binary": lambda t: (lambda x: t.add(x[:-1], 1, out=x[1:])),
    "out_itself": lambda t: (lambda x: t.add(x, 1, out=x)),
    "out_unary": lambda t: (lambda x: t.exp(x[:-1], out=x[1:])),
    "out_cumsum": lambda t: (lambda x: t.cumsum(x[:-1], 0, out=x[1:])),
    "out_cat": lambda t: (lambda x: t.cat([x[:3], x[:6]], out=x)),
    "out_gather": lambda t: (lambda x: t.gather(x, 0, t.tensor([0, 1]), out=x[:2])),
    "out_sum": lambda t: (lambda x: t.sum(x, 0, out=x[0])),
    "masked_fill_": lambda t: (lambda x: x.masked_fill_(x > 2, x[0])),
    "index_add_": lambda t: (lambda x: x.index_add_(0, t.tensor([0, 1]), x[2:4])),
    "index_copy_": lambda t: (lambda x: x.index_copy_(0, t.tensor([0, 1]), x[2:4])),
    "scatter_add_": lambda t: (lambda x: x.scatter_add_(0, t.tensor([0, 1]), x[2:4])),
}
EXPANDED: dict[str, Callable[[Any, Any], Any]] = {
    "add_": lambda t, e: e.add_(1),
    "exp_": lambda t, e: e.exp_(),
    "zero_": lambda t, e: e.zero_(),
    "fill_": lambda t, e: e.fill_(3),
    "copy_": lambda t, e: e.copy_(t.ones(4)),
    "one_element": lambda t, e: [e.__setitem__(0, 5.0), e],
    "view_of_one": lambda t, e: [e[1].add_(1), e],
    "all_elements": lambda t, e: e.__setitem__(slice(None), t.ones(4)),
    "mask": lambda t, e: [e.__setitem__(e > 0, 2.0), e],
    "out_add": lambda t, e: t.add(t.ones(4), 1, out=e),
    "out_exp": lambda t, e: t.exp(t.ones(4), out=e),
    "out_cat": lambda t, e: t.cat([t.ones(2), t.ones(2)], out=e),
    "out_gather": lambda t, e: t.gather(t.ones(4), 0, t.tensor([0, 1, 2, 3]), out=e),
    "uniform_": lambda t, e: e.uniform_(),
    "scatter_": lambda t, e: e.scatter_(0, t.tensor([0]), t.ones(1)),
    "clamp_": lambda t, e: e.clamp_(0, 1),
    "relu": lambda t, e: e.relu_(),
    "stride_zero": lambda t, e: t.ones(2).as_strided((4,), (0,)).add_(1),
}


@pytest.mark.parametrize("name", OVERLAPS)
def test_reading_and_writing_the_same_memory(name: str) -> None:
    def scenario(t: Any) -> Any:
        x = t.arange(9, dtype=t.float32)
        got = tries(lambda: OVERLAPS[name](t)(x))
        return [*got, x]

    agree_in_words(scenario)


@pytest.mark.parametrize("name", EXPANDED)
def test_writing_where_elements_share_memory(name: str) -> None:
    agree_in_words(lambda t: tries(lambda: EXPANDED[name](t, t.ones(1).expand(4))))


OVERLAPPING: dict[str, Callable[[Any], Any]] = {
    "scatter_ part": lambda t: (lambda a: a.scatter_(0, t.tensor([5, 4, 3]), a[:3]))(t.arange(6.0)),
    "scatter_ itself": lambda t: (lambda a: a.scatter_(0, t.arange(6), a))(t.arange(6.0)),
    "scatter_ index": lambda t: (lambda a: a.scatter_(0, a[:2], t.ones(2, dtype=t.int64)))(t.arange(4)),
    "scatter_ strided": lambda t: (lambda a: a[:, ::2].scatter_(0, t.tensor([[1, 2]]), a[:1, ::2]))(t.arange(12.0).reshape(3, 4)),
    "scatter_add_": lambda t: (lambda a: a.scatter_add_(0, t.tensor([5, 4, 3]), a[:3]))(t.arange(6.0)),
    "index_put_ values": lambda t: (lambda a: a.index_put_((t.tensor([0, 1, 2]),), a[1:4]))(t.arange(6.0)),
    "index_put_ index": lambda t: (lambda a: a.index_put_((a[:2],), t.tensor([7, 8])))(t.arange(6)),
    "index_put_ accumulate": lambda t: (lambda a: a.index_put_((t.tensor([0]),), a[1:2], accumulate=True))(t.arange(6.0)),
    "index_put_ apart": lambda t: (lambda a: a.index_put_((t.tensor([0, 1]),), a[1:3] + 0))(t.arange(6.0)),
    "assignment": lambda t: (lambda a: [a.__setitem__(t.tensor([0, 1, 2]), a[1:4]), a])(t.arange(6.0)),
    "assignment index": lambda t: (lambda a: [a.__setitem__(a[:2], 5), a])(t.arange(6)),
    "index_add_": lambda t: (lambda a: a.index_add_(0, t.tensor([0, 1, 2]), a[1:4]))(t.arange(6.0)),
    "index_copy_": lambda t: (lambda a: a.index_copy_(0, t.tensor([0, 1, 2]), a[1:4]))(t.arange(6.0)),
    "put_": lambda t: (lambda a: a.put_(t.tensor([0, 1, 2]), a[1:4]))(t.arange(6.0)),
}


@pytest.mark.parametrize("name", OVERLAPPING)
def test_indexed_writes_that_read_the_same_memory(name: str) -> None:
    agree(OVERLAPPING[name])
