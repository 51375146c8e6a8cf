"""Corners of hooks, anomaly mode, hooks on saved tensors and gradcheck: both libraries do the same or raise the same."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from both import agree

CASES: dict[str, Callable[[Any], Any]] = {}


def case(fn: Callable[[Any], Any]) -> Callable[[Any], Any]:
    CASES[fn.__name__] = fn
    return fn


def leaf(t: Any, *shape: int) -> Any:
    return t.arange(float(np.prod(shape))).reshape(shape).add(1).requires_grad_()


@case
def hook_order(t: Any) -> Any:
    log = []
    a = leaf(t, 2)
    b = a * 2
    b.register_hook(lambda g: log.append("b1") or g * 2)
    b.register_hook(lambda g: log.append(("b2", g.tolist())))
    b.retain_grad()
    b.register_hook(lambda g: g * 10)
    a.register_hook(lambda g: log.append(("a", g.tolist())))
    b.sum().backward()
    return log, b.grad, a.grad


@case
def hook_after_inplace(t: Any) -> Any:
    a = leaf(t, 2)
    b = a * 2
    log = []
    b.register_hook(lambda g: log.append(g.tolist()))
    b.mul_(3)
    b.register_hook(lambda g: log.append(("new", g.tolist())))
    b.sum().backward()
    return log, a.grad


@case
def hook_wrong(t: Any) -> Any:
    a = leaf(t, 2)
    a.register_hook(lambda g: 3)
    a.sum().backward()


@case
def hook_shape(t: Any) -> Any:
    a = leaf(t, 2)
    a.register_hook(lambda g: g.sum())
    a.sum().backward()


@case
def hook_in_grad(t: Any) -> Any:
    a = leaf(t, 2)
    b = a * 2
    b.register_hook(lambda g: g * 5)
    return t.autograd.grad(b.sum(), a)


@case
def hook_on_input_of_grad(t: Any) -> Any:
    a = leaf(t, 2)
    b = a * 2
    b.register_hook(lambda g: g * 5)
    return t.autograd.grad((b * b).sum(), b)


@case
def leafhook_in_grad(t: Any) -> Any:
    a = leaf(t, 2)
    a.register_hook(lambda g: g * 5)
    return t.autograd.grad((a * a).sum(), a)


@case
def retain_twice(t: Any) -> Any:
    a = leaf(t, 2)
    b = a * 2
    b.retain_grad()
    b.retain_grad()
    b.sum().backward()
    return b.grad, b.retains_grad, a.retains_grad


@case
def retain_nograd(t: Any) -> Any:
    t.ones(2).retain_grad()


@case
def post_acc_nonleaf(t: Any) -> Any:
    (leaf(t, 2) * 2).register_post_accumulate_grad_hook(lambda p: None)


@case
def post_acc_zero(t: Any) -> Any:
    a = leaf(t, 2)
    log = []

    def h(p):
        log.append(p.grad.tolist())
        p.grad = None

    a.register_post_accumulate_grad_hook(h)
    (a * 2).sum().backward()
    return log, a.grad


@case
def node_prehook(t: Any) -> Any:
    a = leaf(t, 2)
    b = a * 2
    b.grad_fn.register_prehook(lambda g: (g[0] * 3,))
    b.sum().backward()
    return a.grad


@case
def node_hook_wrong_len(t: Any) -> Any:
    a = leaf(t, 2)
    b = a * 2
    b.grad_fn.register_hook(lambda gi, go: (gi[0], None, None))
    b.sum().backward()
    return a.grad


@case
def multi_grad_hook_all(t: Any) -> Any:
    a = leaf(t, 2)
    b = leaf(t, 2)
    log = []
    h = t.autograd.graph.register_multi_grad_hook(
        (a, b), lambda gs: log.append([None if g is None else g.tolist() for g in gs])
    )
    (a * 2 + b * 3).sum().backward()
    h.remove()
    (a * 2).sum().backward()
    return log


@case
def multi_grad_hook_any(t: Any) -> Any:
    a = leaf(t, 2)
    b = leaf(t, 2)
    log = []
    t.autograd.graph.register_multi_grad_hook((a, b), lambda g: log.append(g.shape), mode="any")
    (a * 2 + b * 3).sum().backward()
    return len(log)


@case
def grad_mode_in_hook(t: Any) -> Any:
    a = leaf(t, 2)
    log = []
    a.register_hook(lambda g: log.append((t.is_grad_enabled(), g.requires_grad)))
    (a * a).sum().backward()
    (a * a).sum().backward(create_graph=True)
    return log


@case
def saved_hooks_nested(t: Any) -> Any:
    log = []
    a = leaf(t, 3)
    with t.autograd.graph.saved_tensors_hooks(lambda x: log.append("o") or x, lambda x: x):
        with t.autograd.graph.saved_tensors_hooks(lambda x: log.append("i") or x, lambda x: x):
            y = a.exp()
        z = y.exp()
    z.sum().backward()
    return log


@case
def saved_hooks_numpy(t: Any) -> Any:
    a = leaf(t, 3)
    with t.autograd.graph.saved_tensors_hooks(lambda x: x.detach().numpy().copy(), lambda x: t.from_numpy(x)):
        y = (a * a * a).sum()
    y.backward()
    return a.grad


@case
def saved_hooks_bad_unpack(t: Any) -> Any:
    a = leaf(t, 3)
    with t.autograd.graph.saved_tensors_hooks(lambda x: x, lambda x: 3):
        y = a.exp().sum()
    y.backward()


@case
def saved_hooks_pack_error(t: Any) -> Any:
    def p(x):
        raise ValueError("no")

    a = leaf(t, 3)
    with t.autograd.graph.saved_tensors_hooks(p, lambda x: x):
        a.exp()


@case
def disable_saved(t: Any) -> Any:
    a = leaf(t, 3)
    with t.autograd.graph.disable_saved_tensors_hooks("nope"):
        with t.autograd.graph.saved_tensors_hooks(lambda x: x, lambda x: x):
            a.exp()


@case
def gc_noinput(t: Any) -> Any:
    return t.autograd.gradcheck(lambda x: x * 2, t.tensor([0.3], dtype=t.float64))


@case
def gc_nondet(t: Any) -> Any:
    s = [0]

    class B(t.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            s[0] += 1e-3
            return g * 2 + s[0]

    x = t.tensor([0.3], dtype=t.float64, requires_grad=True)
    return t.autograd.gradcheck(B.apply, x, atol=1)


@case
def gc_complex(t: Any) -> Any:
    return t.autograd.gradcheck(
        lambda x: x * x.conj() * x, t.tensor([0.3 + 0.2j], dtype=t.complex128, requires_grad=True)
    )


@case
def gc_fast(t: Any) -> Any:
    return t.autograd.gradcheck(
        lambda x: x.exp(), t.tensor([0.3, 0.4], dtype=t.float64, requires_grad=True), fast_mode=True
    )


@case
def gc_noraise(t: Any) -> Any:
    class B(t.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 3

    x = t.tensor([0.3], dtype=t.float64, requires_grad=True)
    return (t.autograd.gradcheck(B.apply, x, raise_exception=False),)


@case
def ggc(t: Any) -> Any:
    return t.autograd.gradgradcheck(lambda x: x**3, t.tensor([0.3, 0.4], dtype=t.float64, requires_grad=True))


@case
def ggc_bad(t: Any) -> Any:
    class B(t.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**2

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * 2 * x.detach()

    return t.autograd.gradgradcheck(B.apply, t.tensor([0.3], dtype=t.float64, requires_grad=True))


@case
def anomaly_flags(t: Any) -> Any:
    r = [t.is_anomaly_enabled()]
    with t.autograd.set_detect_anomaly(True):
        r += [t.is_anomaly_enabled(), t.is_anomaly_check_nan_enabled()]
    with t.autograd.set_detect_anomaly(True, check_nan=False):
        r += [t.is_anomaly_check_nan_enabled()]
    return r + [t.is_anomaly_enabled()]


@case
def anomaly_error(t: Any) -> Any:
    a = leaf(t, 3)
    with t.autograd.detect_anomaly():
        y = a.exp()
        y.add_(1)
        y.sum().backward()


@pytest.mark.parametrize("name", CASES)
def test_corner(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        agree(CASES[name])
