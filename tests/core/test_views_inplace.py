"""Views and in-place writes: aliasing, versions, refused writes, and gradients rebased as PyTorch does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from both import agree

Scenario = Callable[[Any], Any]


def base(lib: Any) -> Any:
    return lib.arange(24, dtype=lib.float32).reshape(2, 3, 4)


VIEWS: dict[str, Callable[[Any, Any], Any]] = {
    "view": lambda t, x: x.view(4, 6),
    "reshape": lambda t, x: x.reshape(-1),
    "transpose": lambda t, x: x.transpose(0, 2),
    "T": lambda t, x: x[0].t(),
    "mT": lambda t, x: x.mT,
    "permute": lambda t, x: x.permute(2, 0, 1),
    "select": lambda t, x: x.select(1, 1),
    "narrow": lambda t, x: x.narrow(2, 1, 2),
    "slice": lambda t, x: x[:, ::2, 1:],
    "index": lambda t, x: x[1, ..., None],
    "unsqueeze": lambda t, x: x.unsqueeze(1),
    "squeeze": lambda t, x: x[:1].squeeze(0),
    "flatten": lambda t, x: x.flatten(1),
    "unflatten": lambda t, x: x.unflatten(2, (2, 2)),
    "unbind": lambda t, x: x.unbind(1)[1],
    "split": lambda t, x: x.split(2, 1)[0],
    "chunk": lambda t, x: x.chunk(2, 2)[1],
    "diagonal": lambda t, x: x.diagonal(0, 1, 2),
    "unfold": lambda t, x: x.unfold(2, 2, 2),
    "as_strided": lambda t, x: x.as_strided((3, 2), (2, 1), 5),
    "movedim": lambda t, x: x.movedim(0, 2),
    "swapaxes": lambda t, x: x.swapaxes(0, 1),
    "view_as": lambda t, x: x.view_as(t.empty(24)),
    "detach": lambda t, x: x.detach(),
    "data": lambda t, x: x.data,
    "tensor_split": lambda t, x: t.tensor_split(x, 2, 2)[0],
    "view_dtype": lambda t, x: x.view(t.int32),
    "chain": lambda t, x: x.transpose(0, 1)[1].view(2, 2, 2).permute(1, 0, 2),
}


@pytest.mark.parametrize("name", VIEWS)
def test_view_shares_memory_both_ways(name: str) -> None:
    def scenario(t: Any) -> Any:
        x = base(t)
        v = VIEWS[name](t, x)
        facts = [v.stride(), v.storage_offset(), v.is_contiguous(), v.data_ptr() - x.data_ptr(), list(v.shape)]
        v.zero_()
        first = x.clone()
        x.fill_(2)
        return [*facts, first, v, x._version, v._version]

    agree(scenario)


NO_GRAD_VIEWS = {"detach", "data", "view_dtype"}
MULTI = {"unbind", "split", "chunk"}


@pytest.mark.parametrize("name", [n for n in VIEWS if n not in NO_GRAD_VIEWS])
def test_gradient_through_a_write_on_a_view(name: str) -> None:
    def scenario(t: Any) -> Any:
        leaf = base(t).requires_grad_()
        w = t.ones(24, requires_grad=True)
        x = leaf * leaf
        v = VIEWS[name](t, x)
        v.mul_(w[: v.numel()].view(v.shape) * 3)
        kind = [type(x.grad_fn).__name__, x.grad_fn.name()] if name not in MULTI else []
        ((x * x).sum() + v.sum()).backward()
        return [kind, leaf.grad, w.grad, x, v]

    err = agree(scenario)
    assert err is None or name in MULTI


# PyTorch refuses to use an output of unbind or split after its base was written to; here it has the right gradient.
@pytest.mark.parametrize("name", [n for n in VIEWS if n not in NO_GRAD_VIEWS and n not in MULTI])
def test_gradient_of_an_older_view_after_a_write_on_the_base(name: str) -> None:
    def scenario(t: Any) -> Any:
        leaf = base(t).requires_grad_()
        x = leaf * 2
        v = VIEWS[name](t, x)
        x.mul_(leaf)
        v.sum().backward()
        return [leaf.grad, v]

    agree(scenario)


INPLACE: dict[str, Scenario] = {}


def case(fn: Scenario) -> Scenario:
    INPLACE[fn.__name__] = fn
    return fn


def leaf(t: Any, *shape: int) -> Any:
    n = 1
    for s in shape:
        n *= s
    return (t.arange(n, dtype=t.float64).reshape(shape) / 7 + 0.5).requires_grad_()


@case
def leaf_write(t: Any) -> Any:
    leaf(t, 3).add_(1)


@case
def view_of_leaf_write(t: Any) -> Any:
    leaf(t, 3)[1:].add_(1)


@case
def leaf_setitem(t: Any) -> Any:
    leaf(t, 3)[0] = 1.0


@case
def leaf_write_without_grad(t: Any) -> Any:
    a = leaf(t, 3)
    with t.no_grad():
        a.add_(1)
        a[0] = 5
    (a * a).sum().backward()
    return [a, a.grad, a._version, a.requires_grad]


@case
def saved_value_overwritten(t: Any) -> Any:
    a = leaf(t, 3)
    b = a * 2
    c = b * b
    b.add_(1)
    c.sum().backward()


@case
def saved_output_overwritten(t: Any) -> Any:
    a = leaf(t, 3)
    b = a.exp()
    b.mul_(2)
    b.sum().backward()


@case
def saved_value_overwritten_through_a_view(t: Any) -> Any:
    a = leaf(t, 4)
    b = a * 2
    c = b.sin()
    b[1:].zero_()
    c.sum().backward()


@case
def overwritten_where_not_saved(t: Any) -> Any:
    a = leaf(t, 3)
    b = a * 2
    c = b + 1
    b.zero_()
    c.sum().backward()
    return a.grad


@case
def saved_through_data_is_not_noticed(t: Any) -> Any:
    a = leaf(t, 3)
    b = a * 2
    c = b * b
    b.data.zero_()
    c.sum().backward()
    return a.grad


@case
def expand_write(t: Any) -> Any:
    t.ones(3, 1).expand(3, 4).add_(1)


@case
def expand_setitem(t: Any) -> Any:
    x = t.zeros(3, 1).expand(3, 4)
    x[0] = t.arange(4.0)


@case
def overlapping_source(t: Any) -> Any:
    x = t.arange(6.0)
    x[1:] = x[:-1].clone()
    y = t.arange(6.0)
    y[1:].copy_(y[1:] * 2)
    return [x, y]


@case
def overwrite_by_copy(t: Any) -> Any:
    a, b = leaf(t, 2, 3), leaf(t, 3)
    x = a * 1
    x.copy_(b)
    (x * a).sum().backward()
    return [a.grad, b.grad]


@case
def setitem_slice(t: Any) -> Any:
    a, b = leaf(t, 3, 3), leaf(t, 3)
    x = a * 2
    x[1] = b * b
    (x * x).sum().backward()
    return [a.grad, b.grad, x]


@case
def setitem_mask(t: Any) -> Any:
    a, b = leaf(t, 3, 3), leaf(t, 4)
    x = a * 2
    x[a.detach() > 1.0] = b[0] * 3
    x[t.tensor([0, 2]), t.tensor([1, 0])] = b[:2]
    (x * x).sum().backward()
    return [a.grad, b.grad, x]


@case
def setitem_into_fresh_zeros(t: Any) -> Any:
    b = leaf(t, 2, 3)
    out = t.zeros(4, 3, dtype=t.float64)
    flags = [out.requires_grad]
    out[:2] = b * b
    out[3] = b[0]
    (out * out).sum().backward()
    return [flags, out.requires_grad, out.is_leaf, b.grad]


@case
def setitem_loop(t: Any) -> Any:
    b = leaf(t, 3)
    out = t.zeros(5, 3, dtype=t.float64)
    for i in range(5):
        out[i] = b * (out[i - 1] + 1 if i else 1)
    out.sum().backward()
    return [b.grad, out]


@case
def in_place_chain(t: Any) -> Any:
    a = leaf(t, 4)
    x = (a + 0).mul_(2).add_(a).clamp_(min=1.2).pow_(2).neg_().sigmoid_()
    x.sum().backward()
    return [a.grad, x._version, x.grad_fn.name()]


@case
def relu_in_place(t: Any) -> Any:
    a = leaf(t, 4)
    x = t.nn.functional.relu(a - 0.8, inplace=True) * 1
    x += a
    x.sum().backward()
    return [a.grad, x]


@case
def write_twice_in_two_views(t: Any) -> Any:
    a = leaf(t, 4, 4)
    x = a * 3
    u, v = x[:2], x[:, 1:]
    u.mul_(2)
    v.add_(u.sum())
    ((x * a).sum() + u.sum() * 3 + (v * v).sum()).backward()
    return [a.grad, x, u, v]


@case
def view_of_view_of_write(t: Any) -> Any:
    a = leaf(t, 4, 4)
    x = a * 3
    v = x[1:].t()[1:]
    v.mul_(a[1:, 1:].t())
    w = x[2]
    (w * w).sum().backward()
    return [a.grad, v.grad_fn is not None, x.is_leaf]


@case
def no_grad_write_on_graph_tensor(t: Any) -> Any:
    a = leaf(t, 3)
    x = a * 2
    with t.no_grad():
        x.zero_()
    x.sum().backward()
    return [a.grad, x, x.requires_grad]


@case
def out_argument_refuses_gradients(t: Any) -> Any:
    a = leaf(t, 3)
    t.add(a, 1, out=t.empty(3, dtype=t.float64))


@case
def out_argument(t: Any) -> Any:
    a, o = t.arange(3.0), t.empty(0)
    r = t.mul(a, 2, out=o)
    p = t.zeros(2, 3)
    t.add(a, 1, out=p[1])
    return [r is o, o, p]


@case
def fill_diagonal(t: Any) -> Any:
    a = leaf(t, 3, 3)
    x = a * 2
    x.diagonal().fill_(7)
    x.fill_diagonal_(3)
    (x * a).sum().backward()
    return [a.grad, x]


@case
def index_ops_in_place(t: Any) -> Any:
    a, b = leaf(t, 4, 3), leaf(t, 2, 3)
    i = t.tensor([0, 2])
    x = a * 1
    x.index_add_(0, i, b, alpha=2)
    x.index_copy_(0, t.tensor([1, 3]), b * b)
    x.index_fill_(1, t.tensor([0]), 0.5)
    x.scatter_add_(0, t.tensor([[0, 1, 2]]), b[:1])
    x.masked_fill_(a.detach() > 1.6, 9.0)
    (x * x).sum().backward()
    return [a.grad, b.grad, x]


@case
def requires_grad_in_place_and_detach_in_place(t: Any) -> Any:
    a = leaf(t, 3)
    x = a * 2
    y = x.detach_()
    return [x is y, x.requires_grad, x.is_leaf, x.grad_fn]


@case
def detach_in_place_of_a_view(t: Any) -> Any:
    (leaf(t, 3) * 2)[1:].detach_()


@case
def requires_grad_off_on_non_leaf(t: Any) -> Any:
    x = leaf(t, 3) * 2
    x.requires_grad = False


@case
def integer_requires_grad(t: Any) -> Any:
    t.arange(3).requires_grad_()


@case
def swap_data(t: Any) -> Any:
    a = leaf(t, 3)
    v = a._version
    a.data = t.ones(3, dtype=t.float64)
    (a * a).sum().backward()
    return [v, a._version, a.grad]


@case
def base_attribute(t: Any) -> Any:
    x = t.zeros(4, 4)
    v = x[1:].t()
    return [x._base is None, v._base is x, v._is_view(), x._is_view()]


@case
def version_counts(t: Any) -> Any:
    x = t.zeros(4)
    v, d = x[1:], x.detach()
    seen = [x._version]
    v.add_(1)
    seen += [x._version, v._version, d._version]
    x.data.add_(1)
    x[0] = 3
    x += 1
    return [*seen, x._version, d._version, x.clone()._version]


@case
def resize_refused_with_grad(t: Any) -> Any:
    leaf(t, 3).resize_(5)


@case
def real_and_imag_views(t: Any) -> Any:
    z = t.zeros(3, dtype=t.complex64)
    z.real.fill_(1)
    z.imag.copy_(t.arange(3.0))
    t.view_as_real(z)[0, 1] = 9
    return z


@pytest.mark.parametrize("name", INPLACE)
def test_in_place(name: str) -> None:
    agree(INPLACE[name])


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("leaf_write", "a leaf Variable that requires grad is being used in an in-place operation"),
        ("view_of_leaf_write", "a view of a leaf Variable that requires grad is being used in an in-place operation"),
        ("saved_value_overwritten", "modified by an inplace operation"),
        ("saved_value_overwritten_through_a_view", "is at version 1; expected version 0 instead"),
        ("saved_output_overwritten", "is at version 1; expected version 0 instead"),
        ("expand_write", "more than one element of the written-to tensor refers to a single memory location"),
        ("expand_setitem", "more than one element of the written-to tensor refers to a single memory location"),
        ("out_argument_refuses_gradients", "don't support automatic differentiation, but one of the arguments requires grad"),
        ("integer_requires_grad", "only Tensors of floating point and complex dtype can require gradients"),
        ("resize_refused_with_grad", "cannot resize variables that require grad"),
    ],
)
def test_message(name: str, text: str) -> None:
    assert text in str(agree(INPLACE[name]))
