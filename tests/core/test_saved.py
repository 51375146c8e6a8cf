"""A saved tensor that was written to is an error in backward exactly when its values are read, as in PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from both import agree

import mindtorch.torch as mt
import torch

OPS: dict[str, tuple[Callable[..., Any], list[tuple[int, ...]]]] = {
    "add": (lambda t, a, b: a + b, [(2, 2), (2, 2)]),
    "mul": (lambda t, a, b: a * b, [(2, 2), (2, 2)]),
    "div": (lambda t, a, b: a / b, [(2, 2), (2, 2)]),
    "pow": (lambda t, a, b: a**b, [(2, 2), (2, 2)]),
    "exp": (lambda t, a: a.exp(), [(2, 2)]),
    "sigmoid": (lambda t, a: a.sigmoid(), [(2, 2)]),
    "relu": (lambda t, a: a.relu(), [(2, 2)]),
    "sum": (lambda t, a: a.sum(), [(2, 2)]),
    "softmax": (lambda t, a: a.softmax(-1), [(2, 2)]),
    "matmul": (lambda t, a, b: a @ b, [(2, 2), (2, 2)]),
    "linear": (lambda t, a, b, c: t.nn.functional.linear(a, b, c), [(2, 3), (4, 3), (4,)]),
    "addmm": (lambda t, c, a, b: t.addmm(c, a, b), [(4,), (2, 3), (3, 4)]),
    "addmv": (lambda t, c, a, b: t.addmv(c, a, b), [(2,), (2, 3), (3,)]),
    "baddbmm": (lambda t, c, a, b: t.baddbmm(c, a, b), [(4,), (2, 2, 3), (2, 3, 4)]),
    "kron": (lambda t, a, b: t.kron(a, b), [(2, 2), (2, 2)]),
    "group_norm_bias": (lambda t, w, c: t.nn.functional.group_norm(t.ones(2, 4, dtype=w.dtype), 1, w, c), [(4,), (4,)]),
    "where": (lambda t, a, b: t.where(a > 1, a, b), [(2, 2), (2, 2)]),
    "cat": (lambda t, a, b: t.cat([a, b]), [(2, 2), (2, 2)]),
    "max": (lambda t, a: a.max(), [(2, 2)]),
    "cross_entropy": (lambda t, a: t.nn.functional.cross_entropy(a, t.tensor([0, 1])), [(2, 2)]),
    "cross_entropy_none": (lambda t, a: t.nn.functional.cross_entropy(a, t.tensor([0, 1]), reduction="none"), [(2, 2)]),
    "attention": (
        lambda t, q, k, v: t.nn.functional.scaled_dot_product_attention(q, k, v),
        [(1, 2, 3, 4), (1, 2, 3, 4), (1, 2, 3, 4)],
    ),
    "attention_3d": (
        lambda t, q, k, v: t.nn.functional.scaled_dot_product_attention(q, k, v),
        [(2, 3, 4), (2, 3, 4), (2, 3, 4)],
    ),
    "solve": (lambda t, a, b: t.linalg.solve(a @ a.T + t.eye(2, dtype=a.dtype), b), [(2, 2), (2, 2)]),
    "polar": (lambda t, a, b: t.polar(a, b).real, [(2, 2), (2, 2)]),
    "max_pool": (lambda t, a: t.nn.functional.max_pool2d(a, 2), [(1, 1, 4, 4)]),
    "avg_pool": (lambda t, a: t.nn.functional.avg_pool2d(a, 2), [(1, 1, 4, 4)]),
    "gather": (lambda t, a: a.gather(0, t.tensor([[0, 1]])), [(2, 2)]),
    "take": (lambda t, a: a.take(t.tensor([0, 1])), [(2, 2)]),
    "index_select": (lambda t, a: a.index_select(0, t.tensor([0, 1])), [(2, 2)]),
    "index_add": (lambda t, a, b: a.index_add(0, t.tensor([0, 1]), b), [(2, 2), (2, 2)]),
    "masked_fill": (lambda t, a: a.masked_fill(a.detach() > 1, 0), [(2, 2)]),
    "layer_norm": (lambda t, a, w, c: t.nn.functional.layer_norm(a, (2,), w, c), [(2, 2), (2,), (2,)]),
    "conv3d": (lambda t, a, w: t.nn.functional.conv3d(a, w), [(1, 1, 3, 3, 3), (1, 1, 2, 2, 2)]),
    "smooth_l1": (lambda t, a, b: t.nn.functional.smooth_l1_loss(a, b), [(2, 2), (2, 2)]),
    "huber": (lambda t, a, b: t.nn.functional.huber_loss(a, b), [(2, 2), (2, 2)]),
    "cdist": (lambda t, a, b: t.cdist(a, b + 1), [(2, 2), (2, 2)]),
    "erfinv": (lambda t, a: (a / 4).erfinv(), [(2, 2)]),
    "index": (lambda t, a: a[[0, 1], [1, 0]], [(2, 2)]),
}


@pytest.mark.parametrize("name", OPS)
@pytest.mark.parametrize("constant", [False, True])
def test_write_after_save(name: str, constant: bool) -> None:
    """Each tensor in turn (inputs, then the result) is written to; ``constant``: the first input needs no gradient."""
    fn, shapes = OPS[name]
    if constant and len(shapes) == 1:
        constant = False
    for which in range(len(shapes) + 1):

        def scenario(t: Any, which: int = which) -> Any:
            xs = [(t.arange(float(np.prod(s)), dtype=t.float64).reshape(s) / 7 + 0.5).requires_grad_() for s in shapes]
            if constant:
                xs[0].requires_grad_(False)
            y = fn(t, *xs)
            with t.no_grad():
                (xs[which] if which < len(xs) else y).add_(0)
            y.sum().backward()
            return [x.grad for x in xs]

        err = agree(scenario)
        assert err is None or "has been modified by an inplace operation" in str(err)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("alpha", [2, 0.1, -0.3, 3.7])
def test_alpha_is_one_multiply_add(dtype: str, alpha: float) -> None:
    """The same bits as PyTorch's fused instruction."""
    rs = np.random.RandomState(0)
    a, b = rs.standard_normal((2, 33, 65)).astype(dtype)
    for step in (
        lambda t, x, y: t.add(x, y, alpha=alpha),
        lambda t, x, y: t.sub(x, y, alpha=alpha),
        lambda t, x, y: x.clone().add_(y, alpha=alpha),
        lambda t, x, y: x.clone().sub_(y, alpha=alpha),
        lambda t, x, y: t.rsub(x, y, alpha=alpha),
    ):
        want = step(torch, torch.from_numpy(a), torch.from_numpy(b)).numpy()
        got = step(mt, mt.from_numpy(a), mt.from_numpy(b)).numpy()
        np.testing.assert_array_equal(got, want)


def test_float64_alpha_of_huge_and_special_values() -> None:
    a = np.array([1e308, -1e308, 0.0, np.inf, np.nan, 1.0, 5e-324])
    b = np.array([1e308, 1e308, 1e305, 1.0, 1.0, np.inf, 5e-324])
    want = torch.add(torch.from_numpy(a), torch.from_numpy(b), alpha=0.75).numpy()
    np.testing.assert_array_equal(mt.add(mt.from_numpy(a), mt.from_numpy(b), alpha=0.75).numpy(), want)


def test_overwritten_logits_keep_their_gradient() -> None:
    """The copy is made before the write, whichever way that is written; several losses of the same logits."""
    writes: list[Callable[[Any, Any], Any]] = [
        lambda t, x: x.zero_(),
        lambda t, x: x.add_(1),
        lambda t, x: x.copy_(t.ones(2, 3)),
        lambda t, x: x.__setitem__(0, 5.0),
        lambda t, x: x[1].mul_(3),
        lambda t, x: x.fill_(2),
        lambda t, x: t.mul(x, 2, out=x),
        lambda t, x: x.uniform_(5, 5),
    ]
    for write in writes:
        for recorded in (False, True):

            def scenario(t: Any, write: Any = write, recorded: bool = recorded) -> Any:
                a = (t.arange(6.0).reshape(2, 3) / 7).requires_grad_()
                x = a * 2
                y = t.tensor([0, 2])
                losses = [t.nn.functional.cross_entropy(x, y) for _ in range(6)]
                with t.set_grad_enabled(recorded):
                    write(t, x)
                sum(losses).backward()
                return a.grad, x

            agree(scenario)
