"""The tape against PyTorch: accumulation, hooks, double backward, Function, anomaly, saved-tensor hooks, grad modes, memory."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest
from both import agree

import mindtorch.torch as mt

Scenario = Callable[[Any], Any]
CASES: dict[str, Scenario] = {}


def case(fn: Scenario) -> Scenario:
    CASES[fn.__name__] = fn
    return fn


def leaf(t: Any, *shape: int) -> Any:
    n = 1
    for s in shape:
        n *= s
    return (t.arange(n, dtype=t.float64).reshape(shape) / 7 + 0.5).requires_grad_()


@case
def accumulates(t: Any) -> Any:
    a = leaf(t, 3)
    (a * a).sum().backward()
    first = a.grad.clone()
    held = a.grad
    (a * 3).sum().backward()
    return [first, a.grad, held is a.grad]


@case
def needs_a_scalar(t: Any) -> Any:
    (leaf(t, 3) * 2).backward()


@case
def gradient_argument(t: Any) -> Any:
    a = leaf(t, 3)
    (a * a).backward(gradient=t.tensor([1.0, 2.0, 3.0], dtype=t.float64))
    return a.grad


@case
def gradient_of_wrong_shape(t: Any) -> Any:
    (leaf(t, 3) * 2).backward(t.ones(2, dtype=t.float64))


@case
def no_graph(t: Any) -> Any:
    t.ones(()).backward()


@case
def twice_without_retain(t: Any) -> Any:
    y = leaf(t, 3).exp().sum()
    y.backward()
    y.backward()


@case
def twice_with_retain(t: Any) -> Any:
    a = leaf(t, 3)
    y = a.exp().sum()
    y.backward(retain_graph=True)
    y.backward()
    return a.grad


@case
def chosen_inputs(t: Any) -> Any:
    a, b = leaf(t, 3), leaf(t, 3)
    (a * b).sum().backward(inputs=[a])
    return [a.grad, b.grad]


@case
def grad_of_non_leaf(t: Any) -> Any:
    a = leaf(t, 3)
    b = a * 2
    c = (b * b).sum()
    return [t.autograd.grad(c, [b, a], retain_graph=True), a.grad, t.autograd.grad(c, b)]


@case
def unused_input(t: Any) -> Any:
    a, b = leaf(t, 3), leaf(t, 3)
    t.autograd.grad((a * 2).sum(), [a, b])


@case
def unused_input_allowed(t: Any) -> Any:
    a, b = leaf(t, 3), leaf(t, 3)
    y = (a * 2).sum()
    one = t.autograd.grad(y, [a, b], allow_unused=True, retain_graph=True)
    return [one, t.autograd.grad(y, [a, b], materialize_grads=True)]


@case
def batched_gradients(t: Any) -> Any:
    a = leaf(t, 3)
    return t.autograd.grad(a * a, a, t.eye(3, dtype=t.float64), is_grads_batched=True)


@case
def double_backward(t: Any) -> Any:
    a = leaf(t, 4)
    y = (a.sin() * a.exp()).sum()
    (g,) = t.autograd.grad(y, a, create_graph=True)
    (h,) = t.autograd.grad((g * g).sum(), a, create_graph=True)
    (k,) = t.autograd.grad(h.sum(), a)
    return [g, h, k]


@case
def double_backward_through_a_network(t: Any) -> Any:
    x, w, v = leaf(t, 4, 3), leaf(t, 3, 5), leaf(t, 5, 1)
    y = t.tanh(t.nn.functional.layer_norm(x @ w, (5,))) @ v
    (g,) = t.autograd.grad(y.sum(), x, create_graph=True)
    ((g.norm(dim=1) - 1) ** 2).mean().backward()
    return [x.grad, w.grad, v.grad]


@case
def leaf_hooks(t: Any) -> Any:
    a, seen = leaf(t, 3), []
    h = a.register_hook(lambda g: seen.append(g.clone()))
    a.register_hook(lambda g: g * 10)
    (a * 2).sum().backward()
    h.remove()
    (a * 2).sum().backward()
    return [seen, a.grad]


@case
def inner_hooks_and_retain_grad(t: Any) -> Any:
    a, seen = leaf(t, 3), []
    b = a * 2
    b.retain_grad()
    b.register_hook(lambda g: g * 3)
    b.register_hook(lambda g: seen.append(g.clone()))
    (b * b).sum().backward()
    return [a.grad, b.grad, seen, b.retains_grad, a.retains_grad]


@case
def post_accumulate_hook(t: Any) -> Any:
    a, seen = leaf(t, 3), []

    def hook(p: Any) -> None:
        seen.append(p.grad.clone())
        p.grad = None

    a.register_post_accumulate_grad_hook(hook)
    (a * 2).sum().backward()
    return [seen, a.grad]


@case
def node_hooks(t: Any) -> Any:
    a, seen = leaf(t, 3), []
    b = a * 2
    b.grad_fn.register_hook(lambda gi, go: seen.append([len(gi), go[0].clone()]))
    b.grad_fn.register_prehook(lambda go: (go[0] * 5,))
    b.sum().backward()
    return [seen, a.grad]


@case
def hook_on_a_tensor_without_grad(t: Any) -> Any:
    t.ones(2).register_hook(lambda g: g)


@case
def graph_can_be_walked(t: Any) -> Any:
    a, b = leaf(t, 2, 2), leaf(t, 2, 2)
    y = ((a * b).relu() + 1).sum()
    names, node = [], y.grad_fn
    while node is not None:
        names.append(node.name())
        node = node.next_functions[0][0] if node.next_functions else None
    return [names, a.grad_fn, a.is_leaf, y.is_leaf, type(y.grad_fn).__name__]


@case
def names_of_products(t: Any) -> Any:
    F = t.nn.functional
    got = []
    for a in ((3,), (4, 3), (2, 4, 3), (5, 2, 4, 3)):
        for b in ((3,), (3, 5), (2, 3, 5)):
            got.append(leaf(t, *a) @ leaf(t, *b))
        for bias in (None, leaf(t, 5)):
            got.append(F.linear(leaf(t, *a), leaf(t, 5, 3), bias))
    x, y, z = leaf(t, 4, 3), leaf(t, 3, 5), leaf(t, 2, 4, 3)
    got += [t.mm(x, y), t.mv(x, y[:, 0]), t.dot(y[:, 0], y[:, 1]), t.vdot(y[:, 0], y[:, 1]), t.bmm(z, z.mT), x @ y.detach()]
    got += [t.addmm(y[0], x, y), t.addmv(x[:, 0], x, y[:, 0]), t.baddbmm(y[0, 0], z, z.mT), t.addbmm(y[0, 0], z, z.mT)]
    got += [t.outer(x[0], x[1]), t.inner(x, x), t.tensordot(x, y, 1)]
    return [[type(r.grad_fn).__name__, r.grad_fn.name()] for r in got]


@case
def inference_tensor(t: Any) -> Any:
    with t.inference_mode():
        return t.ones(2).is_inference()


@case
def grad_modes(t: Any) -> Any:
    a, seen = leaf(t, 2), []
    with t.no_grad():
        seen.append((a * 2).requires_grad)
        with t.enable_grad():
            seen.append((a * 2).requires_grad)
        seen.append(t.is_grad_enabled())
    with t.set_grad_enabled(False):
        seen.append((a * 2).requires_grad)

    @t.no_grad()
    def plain(x: Any) -> Any:
        return x * 2

    @t.no_grad()
    def stream(x: Any) -> Any:
        for _ in range(2):
            yield (x * 2).requires_grad

    seen += [plain(a).requires_grad, list(stream(a)), t.is_grad_enabled()]
    try:
        with t.no_grad():
            raise KeyError
    except KeyError:
        seen.append(t.is_grad_enabled())
    with t.inference_mode():
        b = a * 2
        seen += [b.requires_grad, t.is_inference_mode_enabled()]
    return seen


def exp_function(t: Any) -> Any:
    class Exp(t.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, k: float) -> Any:
            y = (x * k).exp()
            ctx.save_for_backward(y)
            ctx.k = k
            return y

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            (y,) = ctx.saved_tensors
            return g * y * ctx.k, None

    return Exp


@case
def function_first_and_second_order(t: Any) -> Any:
    a = leaf(t, 3)
    y = exp_function(t).apply(a, 2.0)
    (g,) = t.autograd.grad(y.sum(), a, create_graph=True)
    g.sum().backward()
    return [y, g, a.grad, type(y.grad_fn).__name__, y.grad_fn.name()]


@case
def function_needs_input_grad(t: Any) -> Any:
    seen = []

    class Mul(t.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, y: Any, z: Any) -> Any:
            ctx.save_for_backward(x, y)
            return x * y, z

        @staticmethod
        def backward(ctx: Any, g: Any, gz: Any) -> Any:
            seen.append([list(ctx.needs_input_grad), gz])
            x, y = ctx.saved_tensors
            return g * y, g * x, None

    a, b = leaf(t, 3), leaf(t, 3).detach()
    y, _ = Mul.apply(a, b, t.ones(2))
    y.sum().backward()
    return [seen, a.grad]


@case
def function_marks(t: Any) -> Any:
    class Split(t.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            i = x.argsort()
            m = x > 1
            ctx.mark_non_differentiable(i, m)
            ctx.set_materialize_grads(False)
            return x * 2, i, m, x * 3

        @staticmethod
        def backward(ctx: Any, g: Any, gi: Any, gm: Any, h: Any) -> Any:
            assert gi is None and gm is None and h is None
            return g * 2

    a = leaf(t, 3)
    y, i, m, z = Split.apply(a)
    y.sum().backward()
    return [a.grad, i, m, i.requires_grad, m.requires_grad, z.requires_grad]


@case
def function_mark_dirty(t: Any) -> Any:
    class Double(t.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            x.mul_(2)
            ctx.mark_dirty(x)
            return x

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * 2

    a = leaf(t, 3)
    x = a * 3
    y = Double.apply(x)
    (x * x).sum().backward()
    return [a.grad, y is x, x._version]


@case
def function_setup_context(t: Any) -> Any:
    class Square(t.autograd.Function):
        @staticmethod
        def forward(x: Any) -> Any:
            return x * x

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.save_for_backward(*inputs)

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return 2 * g * ctx.saved_tensors[0]

    a = leaf(t, 3)
    Square.apply(a).sum().backward()
    return a.grad


@case
def function_once_differentiable(t: Any) -> Any:
    from importlib import import_module

    once = import_module(f"{t.autograd.__name__}.function").once_differentiable

    class Square(t.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        @once
        def backward(ctx: Any, g: Any) -> Any:
            return 2 * g * ctx.saved_tensors[0]

    a = leaf(t, 3)
    (g,) = t.autograd.grad((Square.apply(a) ** 2).sum(), a, create_graph=True)
    assert g.requires_grad and g.grad_fn.name() == "torch::autograd::Error"
    g.sum().backward()


@case
def function_wrong_number_of_gradients(t: Any) -> Any:
    class Bad(t.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g, g

    Bad.apply(leaf(t, 3)).sum().backward()


@case
def function_error_reaches_the_user(t: Any) -> Any:
    class Bad(t.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            raise ZeroDivisionError("mine")

    Bad.apply(leaf(t, 3)).sum().backward()


@case
def saved_tensors_hooks(t: Any) -> Any:
    a, b, seen = leaf(t, 3), leaf(t, 3), []

    def pack(x: Any) -> Any:
        seen.append(tuple(x.shape))
        return x.detach().numpy().copy()

    with t.autograd.graph.saved_tensors_hooks(pack, lambda x: t.from_numpy(x)):
        y = (a * b).sum()
    y.backward()
    return [sorted(map(list, seen)), a.grad, b.grad]


@case
def gradcheck_passes_and_fails(t: Any) -> Any:
    a = leaf(t, 3)
    good = t.autograd.gradcheck(lambda x: x.sin() * x, (a,))
    twice = t.autograd.gradgradcheck(lambda x: x.exp() * x, (a,))

    class Bad(t.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * 3

    return [good, twice, t.autograd.gradcheck(Bad.apply, (a,), raise_exception=False)]


@case
def checkpoint_recomputes(t: Any) -> Any:
    from importlib import import_module

    checkpoint = import_module(f"{t.__name__}.utils.checkpoint").checkpoint
    a, calls = leaf(t, 3), []

    def block(x: Any) -> Any:
        calls.append(1)
        return x.sin().exp()

    checkpoint(block, a, use_reentrant=False).sum().backward()
    return [len(calls), a.grad]


@case
def functional_derivatives(t: Any) -> Any:
    a = leaf(t, 3).detach()
    f = t.autograd.functional
    return [f.jacobian(lambda x: x.exp() * x.sum(), a), f.hessian(lambda x: (x**3).sum(), a)]


@case
def complex_gradients(t: Any) -> Any:
    z = t.tensor([1 + 2j, 3 - 1j], dtype=t.complex128, requires_grad=True)
    ((z * z.conj()).real.sum() + z.exp().abs().sum()).backward()
    return z.grad


@case
def grad_assignment_is_checked(t: Any) -> Any:
    leaf(t, 3).grad = t.ones(2, dtype=t.float64)


@case
def deep_chain(t: Any) -> Any:
    a = leaf(t, 2)
    x = a
    for _ in range(5000):
        x = x * 1.0001
    x.sum().backward()
    return a.grad


@pytest.mark.parametrize("name", CASES)
def test_autograd(name: str) -> None:
    agree(CASES[name])


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("needs_a_scalar", "grad can be implicitly created only for scalar outputs"),
        ("no_graph", "does not require grad and does not have a grad_fn"),
        ("twice_without_retain", "Trying to backward through the graph a second time"),
        ("unused_input", "appears to not have been used in the graph"),
        ("gradient_of_wrong_shape", "Mismatch in shape"),
        ("function_once_differentiable", "once_differentiable"),
        ("function_wrong_number_of_gradients", "returned an incorrect number of gradients (expected 1, got 2)"),
        ("function_error_reaches_the_user", "mine"),
    ],
)
def test_message(name: str, text: str) -> None:
    assert text in str(agree(CASES[name]))


def test_anomaly_names_the_line_of_the_user() -> None:
    a = mt.zeros(2, requires_grad=True)
    with mt.autograd.detect_anomaly():
        y = (a.sqrt() * 0).sum()  # the guilty line
        with pytest.warns(UserWarning, match="the guilty line"), pytest.raises(RuntimeError, match="returned nan values"):
            y.backward()


def test_two_threads_run_backward_on_graphs_of_their_own() -> None:
    results: dict[int, list[float]] = {}

    def work(k: int) -> None:
        a = mt.full((4,), float(k), requires_grad=True)
        for _ in range(200):
            with mt.no_grad():
                a * 2
            (a * a).sum().backward()
        results[k] = a.grad.tolist()

    threads = [threading.Thread(target=work, args=(k,)) for k in (1, 2, 3)]
    for th in threads:
        th.start()
    for th in threads:
        th.join()
    assert results == {k: [400.0 * k] * 4 for k in (1, 2, 3)}


_STEPS = """
import gc, resource
import mindtorch.torch as torch
from mindtorch.torch import nn
gc.collect(); gc.disable()
m = nn.Sequential(nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.ReLU(True), nn.Flatten(), nn.Dropout(0.1), nn.Linear(8 * 36, 10))
o = torch.optim.Adam(m.parameters())
x, y = torch.randn(16, 1, 8, 8), torch.randint(0, 10, (16,))
def step():
    o.zero_grad()
    h = m(x)
    h[:, 0] = h[:, 0] * 2
    loss = nn.functional.cross_entropy(h, y)
    loss.backward()
    nn.utils.clip_grad_norm_(m.parameters(), 1.0)
    o.step()
    return loss.item()
for _ in range(50): step()
before, n = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, len(gc.get_objects())
for _ in range(1000): step()
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, len(gc.get_objects()) - n)
"""


@pytest.mark.parametrize("numba", ["0", "1"])
def test_memory_stays_flat_without_the_collector(numba: str) -> None:
    """Without and with compiled kernels. The first run with them fills the cache: compiling makes objects of its own."""
    env = {**os.environ, "MINDTORCH_NUMBA": numba}
    for _ in range(1 + (numba == "1")):
        done = subprocess.run([sys.executable, "-c", _STEPS], capture_output=True, text=True, check=False, timeout=240, env=env)
        assert done.returncode == 0, done.stderr[-2000:]
    kilobytes, objects = map(int, done.stdout.split())
    assert kilobytes < 4000, f"peak grew by {kilobytes} kB in 1,000 steps"
    assert objects < 300, f"{objects} more objects after 1,000 steps"


def test_graph_of_a_dropped_loss_is_freed_at_once() -> None:
    gc.collect()
    gc.disable()
    try:
        import weakref

        a = mt.ones(3, requires_grad=True)
        y = (a * 2).exp()
        node = weakref.ref(y.grad_fn)
        del y
        assert node() is None
    finally:
        gc.enable()
