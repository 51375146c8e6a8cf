"""torch.func, autograd.functional, gradcheck, checkpoint and small modules against PyTorch."""
# ruff: noqa: E501 - tables of cases are easier to read unwrapped

import warnings

import numpy as np
import pytest

import mindtorch.torch as mt
import mindtorch.torch.utils.checkpoint as ours_checkpoint
import torch

BOTH = [torch, mt]


def numbers(x):
    if isinstance(x, (tuple, list)):
        return [numbers(v) for v in x]
    if isinstance(x, dict):
        return {k: numbers(v) for k, v in x.items()}
    if hasattr(x, "detach"):
        return (tuple(x.shape), np.round(np.array(x.detach().tolist(), dtype=np.float64), 5).tolist(), x.requires_grad)
    return x


def same(run):
    """``run(t)`` gives the same numbers with ``t`` PyTorch and mindtorch."""
    want, got = (numbers(run(t)) for t in BOTH)
    assert got == want


FUNC = {
    "vmap": lambda t: t.func.vmap(lambda x: x.sum())(t.ones(3, 2)),
    "vmap dims": lambda t: t.func.vmap(lambda x, y: x @ y, in_dims=(1, None), out_dims=1)(t.arange(6.0).reshape(2, 3), t.ones(2, 4)),
    "vmap nested": lambda t: t.func.vmap(t.func.vmap(lambda a, b: a * b, (None, 0)), (0, None))(t.arange(3.0), t.arange(2.0)),
    "vmap tree": lambda t: t.func.vmap(lambda d: {"s": d["a"] + d["b"][0]})({"a": t.ones(2, 3), "b": [t.arange(2.0)]}),
    "vmap kwargs": lambda t: t.func.vmap(lambda x, *, y: x + y)(t.arange(3.0), y=t.ones(3)),
    "grad": lambda t: t.func.grad(lambda x: (x**3).sum())(t.arange(3.0)),
    "grad grad": lambda t: t.func.grad(t.func.grad(lambda x: x.sin() * x))(t.tensor(0.7)),
    "grad argnums": lambda t: t.func.grad(lambda x, y: (x * y).sum(), argnums=(0, 1))(t.arange(3.0), t.ones(3)),
    "grad aux": lambda t: t.func.grad(lambda x: ((x**2).sum(), x + 1), has_aux=True)(t.arange(3.0)),
    "grad dict": lambda t: t.func.grad(lambda d: (d["a"] * d["b"]).sum())({"a": t.ones(2), "b": t.arange(2.0)}),
    "grad and value": lambda t: t.func.grad_and_value(lambda x: (x**2).sum())(t.arange(3.0)),
    "vmap grad": lambda t: t.func.vmap(t.func.grad(lambda x, y: (x * y).sum()), (0, None))(t.arange(6.0).reshape(3, 2), t.ones(2)),
    "vjp": lambda t: (lambda r: (r[0], r[1](t.ones(3))))(t.func.vjp(lambda x: x.sin(), t.arange(3.0))),
    "vjp two": lambda t: (lambda r: (r[0], r[1]((t.ones(3), t.tensor(2.0)))))(t.func.vjp(lambda x, y: (x * y, y.sum()), t.arange(3.0), t.ones(3))),
    "jvp": lambda t: t.func.jvp(lambda x: x.sin() * x, (t.arange(3.0),), (t.ones(3),)),
    "jacrev": lambda t: t.func.jacrev(lambda x: x.reshape(2, 2) @ x[:2])(t.arange(4.0)),
    "jacfwd": lambda t: t.func.jacfwd(lambda x, y: x * y, argnums=(0, 1))(t.arange(2.0), t.ones(2)),
    "hessian": lambda t: t.func.hessian(lambda x: (x**3).sum() * x[0])(t.arange(3.0)),
    "inside no_grad": lambda t: no_grad_case(t),
    "outer requires grad": lambda t: t.func.grad(lambda x: (x**3).sum())(t.arange(3.0, requires_grad=True)),
    "captured": lambda t: (lambda w: t.func.grad(lambda x: (x**2 * w).sum())(t.arange(3.0)))(t.ones(3, requires_grad=True)),
    "linearize": lambda t: (lambda r: (r[0], r[1](t.ones(3))))(t.func.linearize(lambda x: x.sin(), t.arange(3.0))),
}  # fmt: skip


def no_grad_case(t):
    with t.no_grad():
        return t.func.grad(lambda x: (x**2).sum())(t.arange(3.0))


@pytest.mark.parametrize("name", FUNC)
def test_func(name):
    same(FUNC[name])


def test_func_errors():
    for t in BOTH:
        with pytest.raises(RuntimeError, match="scalar"):
            t.func.grad(lambda x: x * 2)(t.ones(2))
        with pytest.raises(ValueError, match="in_dim"):
            t.func.vmap(lambda x: x, in_dims=3)(t.ones(2))
        with pytest.raises(RuntimeError, match="randomness"):
            t.func.vmap(lambda x: x + t.randn(1))(t.ones(2))
    mt.manual_seed(0)
    one = mt.func.vmap(lambda x: x + mt.rand(1), randomness="same")(mt.zeros(3))
    assert bool((one == one[0]).all())


def test_functional_call():
    def run(t):
        net = t.nn.Linear(2, 2)
        params = {"weight": t.arange(4.0).reshape(2, 2), "bias": t.ones(2)}
        out = t.func.functional_call(net, params, (t.ones(2),))
        loss = t.func.grad(lambda p: t.func.functional_call(net, p, t.ones(1, 2)).sum())(params)
        return out, loss, tuple(net.weight.shape)

    same(run)


def test_stacked_models():
    def run(t):
        t.manual_seed(0)
        nets = [t.nn.Linear(2, 1) for _ in range(3)]
        params, buffers = t.func.stack_module_state(nets)

        def call(p, b, x):
            return t.func.functional_call(nets[0], (p, b), (x,))

        out = t.func.vmap(call, (0, 0, None))(params, buffers, t.ones(1, 2))
        return out.detach() - t.stack([n(t.ones(1, 2)) for n in nets]).detach(), params["weight"].requires_grad

    same(run)


FUNCTIONAL = {
    "jacobian": lambda t: t.autograd.functional.jacobian(lambda x: x**2, t.arange(2.0)),
    "jacobian many": lambda t: t.autograd.functional.jacobian(
        lambda x, y: (x * y, x.sum()), (t.arange(2.0), t.ones(2))
    ),
    "jacobian graph": lambda t: t.autograd.functional.jacobian(
        lambda x: x**3, t.arange(2.0, requires_grad=True), create_graph=True
    ),
    "jacobian unused": lambda t: t.autograd.functional.jacobian(lambda x, y: x * 2, (t.arange(2.0), t.ones(2))),
    "hessian": lambda t: t.autograd.functional.hessian(lambda x: (x**3).sum(), t.arange(3.0)),
    "hessian two": lambda t: t.autograd.functional.hessian(lambda x, y: (x * y**2).sum(), (t.arange(2.0), t.ones(2))),
    "vjp": lambda t: t.autograd.functional.vjp(lambda x: x.exp(), t.arange(3.0), t.ones(3)),
    "jvp": lambda t: t.autograd.functional.jvp(lambda x: x.exp() * x, t.arange(3.0), t.ones(3)),
    "hvp": lambda t: t.autograd.functional.hvp(lambda x: (x**3).sum(), t.arange(3.0), t.ones(3)),
    "vhp": lambda t: t.autograd.functional.vhp(lambda x: (x**3).sum(), t.arange(3.0), t.ones(3)),
}


@pytest.mark.parametrize("name", FUNCTIONAL)
def test_functional(name):
    same(FUNCTIONAL[name])


def test_functional_errors():
    for t in BOTH:
        f = t.autograd.functional
        with pytest.raises(RuntimeError, match="None"):
            f.vjp(lambda x: x, t.ones(2))
        with pytest.raises(RuntimeError, match="size"):
            f.vjp(lambda x: x, t.ones(2), t.ones(3))
        with pytest.raises(RuntimeError, match="strict mode"):
            f.jacobian(lambda x: t.ones(2), t.ones(2), strict=True)
        with pytest.raises(TypeError):
            f.jacobian(lambda x: x, 3)


def test_gradcheck():
    x = mt.randn(3, 2, dtype=mt.float64, requires_grad=True)
    w = mt.randn(2, 2, dtype=mt.float64, requires_grad=True)
    z = mt.randn(3, dtype=mt.complex128, requires_grad=True)
    assert mt.autograd.gradcheck(lambda a, b: (a @ b).tanh(), (x, w))
    assert mt.autograd.gradcheck(lambda a: (a * a.conj()).real, (z,))
    assert mt.autograd.gradcheck(lambda a: (a * (1 + 2j)).exp(), (z,))
    assert mt.autograd.gradgradcheck(lambda a, b: (a @ b).tanh(), (x, w))

    class Wrong(mt.autograd.Function):
        @staticmethod
        def forward(ctx, a):
            return a * 2

        @staticmethod
        def backward(ctx, g):
            return g * 3

    with pytest.raises(RuntimeError, match="Jacobian mismatch"):
        mt.autograd.gradcheck(Wrong.apply, (x,))
    assert not mt.autograd.gradcheck(Wrong.apply, (x,), raise_exception=False)
    with pytest.raises(ValueError, match="require gradient"):
        mt.autograd.gradcheck(lambda a: a, (mt.ones(2),))


# ------------------------------------------------------------------------------------------ checkpoint


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpoint_equals_plain(reentrant):
    def run(t):
        import importlib

        module = importlib.import_module("torch.utils.checkpoint" if t is torch else "mindtorch.torch.utils.checkpoint")
        t.manual_seed(0)
        net = t.nn.Sequential(t.nn.Linear(4, 4), t.nn.Dropout(0.5), t.nn.Tanh(), t.nn.Linear(4, 2))
        x = t.ones(3, 4, requires_grad=True)
        y = module.checkpoint(net, x, use_reentrant=reentrant)
        y.pow(2).sum().backward()
        return y.detach(), x.grad, [p.grad for p in net.parameters()], t.rand(2)

    same(run)


def test_checkpoint_really_recomputes():
    calls = []

    def f(a):
        calls.append(len(calls))
        return a.sin() * a

    for reentrant in (True, False):
        calls.clear()
        x = mt.ones(2, requires_grad=True)
        y = ours_checkpoint.checkpoint(f, x, use_reentrant=reentrant)
        assert calls == [0]
        y.sum().backward()
        assert calls == [0, 1]


def test_checkpoint_kinds():
    x = mt.ones(2, requires_grad=True)
    y = ours_checkpoint.checkpoint(lambda a, *, k: a * a * k, x, k=3, use_reentrant=False)
    assert mt.autograd.grad(y.sum(), x)[0].tolist() == [6, 6]
    w = mt.full((2,), 2.0, requires_grad=True)
    y = ours_checkpoint.checkpoint(lambda a: (a * w).exp(), mt.ones(2), use_reentrant=False)
    y.sum().backward()
    assert w.grad is not None
    inner = lambda a: ours_checkpoint.checkpoint(lambda b: b.sin() * b, a, use_reentrant=False) * a  # noqa: E731
    outer = ours_checkpoint.checkpoint(inner, x, use_reentrant=False)
    (g,) = mt.autograd.grad(outer.sum(), x)
    t = torch.ones(2, requires_grad=True)
    (h,) = torch.autograd.grad((t.sin() * t * t).sum(), t)
    np.testing.assert_allclose(g.numpy(), h.numpy(), rtol=1e-6)
    with pytest.raises(RuntimeError, match="use_reentrant"):
        mt.autograd.grad(ours_checkpoint.checkpoint(lambda a: a * a, x, use_reentrant=True).sum(), x)
    with pytest.raises(ValueError, match="Unexpected keyword"):
        ours_checkpoint.checkpoint(lambda a: a, x, use_reentrant=True, b=1)
    state = [0]

    def changing(a):
        state[0] += 1
        a = a if state[0] == 1 else a.repeat(2)
        return (a * a).sum()

    with pytest.raises(ours_checkpoint.CheckpointError, match="metadata"):
        ours_checkpoint.checkpoint(changing, x, use_reentrant=False).backward()


def test_checkpoint_sequential():
    mt.manual_seed(0)
    net = mt.nn.Sequential(*[mt.nn.Linear(3, 3) for _ in range(5)])
    x = mt.ones(1, 3, requires_grad=True)
    y = ours_checkpoint.checkpoint_sequential(net, 2, x, use_reentrant=False)
    assert mt.equal(y, net(x))
    y.sum().backward()
    assert all(p.grad is not None for p in net.parameters())


# ------------------------------------------------------------------------------------------ small modules

CLOSE = {
    "tensors": lambda t: (t.ones(2, 3), t.zeros(2, 3)),
    "shape": lambda t: (t.ones(2), t.ones(3)),
    "dtype": lambda t: (t.ones(2), t.ones(2).double()),
    "floats": lambda t: (1.0, 1.1),
    "scalars": lambda t: (t.tensor(1.0), t.tensor(2.0)),
    "list": lambda t: ([t.ones(1)], [t.zeros(1)]),
    "dict": lambda t: ({"a": t.ones(1)}, {"a": t.zeros(1)}),
    "keys": lambda t: ({"a": t.ones(1)}, {"b": t.ones(1)}),
    "length": lambda t: ([1], [1, 2]),
    "ints": lambda t: (t.ones(2, dtype=t.int64), t.zeros(2, dtype=t.int64)),
    "bools": lambda t: (t.tensor([True]), t.tensor([False])),
    "nan": lambda t: (t.tensor([float("nan")]), t.tensor([float("nan")])),
    "one": lambda t: (t.ones(3), t.tensor([1, 1, 1.1])),
    "int float": lambda t: (1, 1.0),
    "complex": lambda t: (1j, 1 + 1j),
    "python bool": lambda t: (True, False),
}


@pytest.mark.parametrize("name", CLOSE)
def test_assert_close_messages(name):
    texts = []
    for t in BOTH:
        with pytest.raises(AssertionError) as e:
            t.testing.assert_close(*CLOSE[name](t))
        texts.append(str(e.value))
    assert texts[1] == texts[0]


def test_assert_close_options():
    mt.testing.assert_close(mt.ones(2), mt.ones(2) + 1e-7)
    mt.testing.assert_close({"a": [1, mt.ones(2)]}, {"a": [1, mt.ones(2)]})
    mt.testing.assert_close(mt.tensor([float("nan")]), mt.tensor([float("nan")]), equal_nan=True)
    mt.testing.assert_close(np.ones(2), np.ones(2))
    with pytest.raises(ValueError, match="rtol"):
        mt.testing.assert_close(mt.ones(1), mt.ones(1), atol=1)
    with pytest.raises(TypeError, match="comparison pair"):
        mt.testing.assert_close(mt.ones(1), 1.0)
    with pytest.raises(AssertionError, match="^mine Tensor"):
        mt.testing.assert_close(mt.ones(1), mt.zeros(1), msg=lambda m: "mine " + m)


def test_make_tensor():
    def run(t):
        t.manual_seed(3)
        make = t.testing.make_tensor
        return [
            make(3, 2, dtype=t.float32, device="cpu"), make((2,), dtype=t.int64, device="cpu"),
            make((4,), dtype=t.bool, device="cpu"), make((2,), dtype=t.float32, device="cpu", low=0, high=1, requires_grad=True),
            make((9,), dtype=t.int8, device="cpu", exclude_zero=True), make((3, 2), dtype=t.float64, device="cpu", noncontiguous=True),
        ]  # fmt: skip

    same(run)


def test_cuda_is_absent():
    for t in BOTH:
        assert not t.cuda.is_available() and t.cuda.device_count() == 0 and t.cuda.memory_allocated() == 0
        t.cuda.manual_seed_all(1)
        t.cuda.empty_cache()
        assert not isinstance(t.ones(1), t.cuda.FloatTensor)
        for call in (
            t.cuda.current_device,
            t.cuda.synchronize,
            lambda t=t: t.ones(1).cuda(),
            lambda t=t: t.ones(1).to("cuda"),
        ):
            with pytest.raises(AssertionError, match="Torch not compiled with CUDA enabled"):
                call()
        with pytest.raises(TypeError):
            t.cuda.FloatTensor(2)
        with t.cuda.stream(None):
            assert t.cuda.get_rng_state_all() == []


def test_backends():
    mt.backends.cudnn.benchmark = True
    with mt.backends.cudnn.flags(enabled=False):
        assert mt.backends.cudnn.enabled is False
    assert mt.backends.cudnn.enabled is True and mt.backends.cudnn.is_available() is False
    mt.backends.cuda.matmul.allow_tf32 = True
    mt.backends.cuda.enable_flash_sdp(False)
    assert mt.backends.cuda.flash_sdp_enabled() is False
    with pytest.raises(AttributeError, match="benchmrk"):
        mt.backends.cudnn.benchmrk = True


def test_pytree():
    from torch.utils import _pytree as theirs

    from mindtorch.torch.utils import _pytree as ours

    tree = {"a": [1, (2, None)], "b": {"c": 3}}
    assert ours.tree_leaves(tree) == theirs.tree_leaves(tree)
    leaves, spec = ours.tree_flatten(tree)
    assert ours.tree_unflatten(leaves, spec) == tree
    assert ours.tree_map(lambda x: (x or 0) + 1, tree) == theirs.tree_map(lambda x: (x or 0) + 1, tree)


def square(i, x):
    if i == 1 and x == 5:
        raise ValueError("bad rank")


def test_spawn():
    import mindtorch.torch.multiprocessing as mp

    mp.spawn(square, (3,), nprocs=2)
    with pytest.raises(mp.ProcessRaisedException, match="bad rank"):
        mp.spawn(square, (5,), nprocs=2)


def test_overrides():
    from mindtorch.torch.overrides import TorchFunctionMode, handle_torch_function, has_torch_function

    class Like:
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return func.__name__, len(args)

    def api(x):
        return x

    assert has_torch_function((Like(),)) and not has_torch_function((mt.ones(1), 3))
    assert handle_torch_function(api, (Like(),), 1, 2) == ("api", 2)
    assert mt.add(mt.ones(1), Like()) == ("add", 2)
    seen = []

    class Mode(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append(func.__name__)
            return func(*args, **(kwargs or {}))

    with Mode():
        mt.ones(2) + 1
    assert any("add" in s for s in seen)


def test_hub(tmp_path):
    (tmp_path / "hubconf.py").write_text("dependencies = ['numpy']\ndef net(n=2):\n    'A net.'\n    return n\n")
    assert mt.hub.list(str(tmp_path), verbose=False) == ["net"] and mt.hub.help(str(tmp_path), "net") == "A net."
    assert mt.hub.load(str(tmp_path), "net", source="local", n=5) == 5
    with pytest.raises(RuntimeError, match="downloads nothing"):
        mt.hub.load("pytorch/vision", "resnet18")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(RuntimeError, match="downloads nothing"):
            mt.hub.load_state_dict_from_url("https://nowhere.example/a.pth", model_dir=str(tmp_path))


def test_tensorboard(tmp_path):
    pytest.importorskip("tensorboard")
    from mindtorch.torch.utils.tensorboard import SummaryWriter

    with SummaryWriter(str(tmp_path)) as w:
        w.add_scalar("loss", mt.tensor(1.5), 3)
        w.add_histogram("h", mt.randn(100), 1)
        w.add_image("i", mt.rand(3, 4, 4), 0)
    assert any(f.name.startswith("events") for f in tmp_path.iterdir())
