"""Optimisers against PyTorch: numbers over 30 steps, state dicts, errors, hooks, pickling."""

import copy
import io
import pickle

import numpy as np
import pytest

import mindtorch.torch as mt
import torch

# While the classes run on PyTorch itself (before the core exists) every number must be the same bit for bit.
EXACT = mt.Tensor is torch.Tensor

RUNS = [
    ("SGD", {"lr": 0.1}),
    ("SGD", {"lr": 0.1, "weight_decay": 0.1}),
    ("SGD", {"lr": 0.1, "momentum": 0.9}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.01}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.5, "maximize": True}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "foreach": True}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "fused": True}),
    ("Adam", {"lr": 0.1}),
    ("Adam", {"lr": 0.1, "weight_decay": 0.1, "amsgrad": True}),
    ("Adam", {"lr": 0.1, "maximize": True, "betas": (0.4, 0.9), "eps": 1e-3}),
    ("Adam", {"lr": 0.1, "fused": True}),
    ("Adam", {"lr": 0.1, "foreach": True}),
    ("AdamW", {"lr": 0.1}),
    ("AdamW", {"lr": 0.1, "weight_decay": 0.3, "amsgrad": True}),
    ("RMSprop", {"lr": 0.05}),
    ("RMSprop", {"lr": 0.05, "momentum": 0.9, "centered": True, "weight_decay": 0.1}),
    ("RMSprop", {"lr": 0.05, "centered": True, "maximize": True}),
    ("Adagrad", {"lr": 0.1}),
    ("Adagrad", {"lr": 0.1, "lr_decay": 0.1, "weight_decay": 0.1, "initial_accumulator_value": 0.5}),
    ("Adadelta", {"lr": 1.0}),
    ("Adadelta", {"lr": 0.5, "rho": 0.8, "weight_decay": 0.1, "maximize": True}),
    ("Adamax", {"lr": 0.1}),
    ("Adamax", {"lr": 0.1, "weight_decay": 0.1}),
    ("NAdam", {"lr": 0.1}),
    ("NAdam", {"lr": 0.1, "weight_decay": 0.1, "decoupled_weight_decay": True, "momentum_decay": 0.01}),
    ("RAdam", {"lr": 0.1}),
    ("RAdam", {"lr": 0.1, "weight_decay": 0.1, "decoupled_weight_decay": True}),
    ("ASGD", {"lr": 0.1}),
    ("ASGD", {"lr": 0.1, "t0": 5, "lambd": 0.01, "weight_decay": 0.1}),
    ("Rprop", {"lr": 0.1}),
    ("Rprop", {"lr": 0.1, "etas": (0.3, 1.5), "step_sizes": (1e-3, 1.0), "maximize": True}),
    ("Adafactor", {"lr": 0.1}),
    ("Adafactor", {"lr": 0.1, "weight_decay": 0.1, "maximize": True}),
]
# PyTorch's own fused kernels go wrong where parameter and gradient have different strides.
LARGE = [r for r in RUNS if r[0] in ("SGD", "Adam", "AdamW", "RMSprop", "Adagrad") and "fused" not in r[1]]
SHAPES = [(3, 4), (5,), (2, 3, 2), ()]


def arrays(seed, dtype="float32"):
    rng = np.random.default_rng(seed)
    return [np.asarray(rng.standard_normal(s), dtype) for s in SHAPES]


def train(lib, name, options, steps=30, dtype="float32", between=None):
    """Parameters and optimiser after ``steps`` with gradients that depend on the parameters."""
    params = [lib.nn.Parameter(lib.tensor(a)) for a in arrays(0, dtype)]
    options = dict(options)
    optimizer = getattr(lib.optim, name)(params, **options)
    for i in range(steps):
        for p, noise in zip(params, arrays(i + 1, dtype)):
            p.grad = (p.detach() * 0.5 + lib.tensor(noise)).clone()
        optimizer.step()
        if between is not None:
            params, optimizer = between(lib, i, params, optimizer)
    return params, optimizer


def close(ours, theirs, tol=2e-6, exact=EXACT):
    ours, theirs = np.asarray(ours.detach().tolist()), np.asarray(theirs.detach().tolist())
    np.testing.assert_allclose(ours, theirs, rtol=0 if exact else tol, atol=0 if exact else tol)


def same_state(ours, theirs, exact):
    assert ours.keys() == theirs.keys()
    for index in theirs:
        assert list(ours[index]) == list(theirs[index])
        for key, value in theirs[index].items():
            mine = ours[index][key]
            if isinstance(value, torch.Tensor):
                assert str(mine.dtype) == str(value.dtype) and tuple(mine.shape) == tuple(value.shape)
                close(mine, value, 1e-5, exact)
            else:
                assert type(mine) is type(value)


@pytest.mark.parametrize("name,options", RUNS, ids=lambda v: v if isinstance(v, str) else ",".join(v))
def test_thirty_steps(name, options):
    ours, a = train(mt, name, options)
    theirs, b = train(torch, name, options)
    exact = EXACT and "fused" not in options
    for p, q in zip(ours, theirs):
        close(p, q, 2e-4 if name == "Adafactor" else 1e-5, exact)
    same_state(a.state_dict()["state"], b.state_dict()["state"], exact)
    assert a.state_dict()["param_groups"] == b.state_dict()["param_groups"]
    assert list(a.param_groups[0]) == list(b.param_groups[0])
    assert repr(a) == repr(b)


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "RMSprop", "Adagrad"])
def test_float64(name):
    ours, _ = train(mt, name, {}, 10, "float64")
    theirs, _ = train(torch, name, {}, 10, "float64")
    for p, q in zip(ours, theirs):
        close(p, q, 1e-13)


@pytest.mark.parametrize("name", ["SGD", "Adam", "RMSprop"])
def test_tensor_lr(name):
    ours, a = train(mt, name, {"lr": mt.tensor(0.1)}, 10)
    theirs, b = train(torch, name, {"lr": torch.tensor(0.1)}, 10)
    for p, q in zip(ours, theirs):
        close(p, q)
    assert repr(a) == repr(b)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("name,options", LARGE)
def test_large_parameters(name, options, compiled, monkeypatch):
    """Arrays that go through blocks, or through the one-pass kernels; one of them not contiguous."""
    from mindtorch.engine.host import jit

    monkeypatch.setattr(jit, "_eager", compiled)
    monkeypatch.setattr(jit, "_off", not compiled)

    def run(lib):
        rng = np.random.default_rng(0)
        params = [
            lib.nn.Parameter(lib.tensor(rng.standard_normal((300, 150)).astype("float32"))),
            lib.nn.Parameter(lib.tensor(rng.standard_normal((60, 70)).astype("float32")).t()),
        ]
        o = getattr(lib.optim, name)(params, **options)
        for _ in range(4):
            for p in params:
                p.grad = lib.tensor(rng.standard_normal(tuple(p.shape)).astype("float32"))
            o.step()
        return params

    for p, q in zip(run(mt), run(torch)):
        np.testing.assert_allclose(p.detach().numpy(), q.detach().numpy(), rtol=2e-5, atol=2e-6)


def test_muon():
    def run(lib):
        p = lib.nn.Parameter(lib.tensor(arrays(0)[0]))
        o = lib.optim.Muon([p], lr=0.1)
        for i in range(5):
            p.grad = lib.tensor(arrays(i + 1)[0])
            o.step()
        return p, o

    (p, a), (q, b) = run(mt), run(torch)
    close(p, q, 2e-2)
    assert repr(a) == repr(b) and a.state_dict()["state"][0].keys() == b.state_dict()["state"][0].keys()


@pytest.mark.parametrize("options", [{}, {"line_search_fn": "strong_wolfe"}, {"max_iter": 4, "history_size": 2}])
def test_lbfgs(options):
    def run(lib):
        p = lib.nn.Parameter(lib.tensor([-1.2, 1.0, 0.5]))
        o = lib.optim.LBFGS([p], lr=0.5 if not options else 1, **options)
        calls = []

        def closure():
            o.zero_grad()
            loss = (100 * (p[1] - p[0] ** 2) ** 2 + (1 - p[0]) ** 2 + p[2] ** 4).sum() / 50
            loss.backward()
            calls.append(loss.item())
            return loss

        losses = [o.step(closure).item() for _ in range(4)]
        return p, losses, calls, o

    p, losses, calls, a = run(mt)
    q, expected, expected_calls, b = run(torch)
    assert len(calls) == len(expected_calls)
    np.testing.assert_allclose(losses, expected, rtol=2e-3, atol=1e-7)
    np.testing.assert_allclose(p.tolist(), q.tolist(), rtol=1e-3, atol=1e-4)
    mine, other = a.state_dict()["state"][0], b.state_dict()["state"][0]
    assert set(mine) == set(other)
    assert mine["func_evals"] == other["func_evals"] and mine["n_iter"] == other["n_iter"]


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "NAdam", "RAdam", "Adadelta"])
def test_differentiable(name):
    """The update itself is on the tape: the derivative with respect to the gradient equals PyTorch's."""

    def run(lib):
        options = {"momentum": 0.9} if name in ("SGD", "RMSprop") else {}
        raw = lib.tensor([0.5, -1.0], dtype=lib.float64, requires_grad=True)
        p = raw.clone()
        o = getattr(lib.optim, name)([p], lr=0.1, differentiable=True, **options)
        g = lib.tensor([0.3, 0.7], dtype=lib.float64, requires_grad=True)
        p.grad = g
        o.step()
        p.grad = g * 2
        o.step()
        p.sum().backward()
        return raw.grad, g.grad

    for mine, other in zip(run(mt), run(torch)):
        np.testing.assert_allclose(mine.tolist(), other.tolist(), rtol=1e-6)


@pytest.mark.parametrize("name", ["SGD", "Adam", "RMSprop", "Adagrad", "Rprop", "ASGD"])
def test_complex(name):
    def run(lib):
        p = lib.nn.Parameter(lib.tensor([1 + 2j, -0.5j, 3.0]))
        o = getattr(lib.optim, name)([p], lr=0.1)
        for i in range(5):
            p.grad = lib.tensor([0.1 * i + 0.2j, 1 - 1j, -0.3 + 0.1j])
            o.step()
        return p

    np.testing.assert_allclose(run(mt).tolist(), run(torch).tolist(), rtol=1e-5)


@pytest.mark.parametrize("name", ["SGD", "Adam"])
def test_half_parameters(name):
    def run(lib):
        p = lib.nn.Parameter(lib.tensor([1.0, -2.0, 3.0], dtype=lib.bfloat16))
        o = getattr(lib.optim, name)([p], lr=0.1)
        for _ in range(5):
            p.grad = lib.tensor([0.3, -0.2, 0.1], dtype=lib.bfloat16)
            o.step()
        assert p.dtype == lib.bfloat16
        return p

    np.testing.assert_allclose(run(mt).tolist(), run(torch).tolist(), rtol=2e-2)


def test_closure_and_loss():
    p = mt.nn.Parameter(mt.tensor([1.0, 2.0]))
    o = mt.optim.SGD([p], lr=0.1)

    def closure():
        assert mt.is_grad_enabled()
        o.zero_grad()
        loss = (p * p).sum()
        loss.backward()
        return loss

    assert o.step(closure).item() == 5.0
    np.testing.assert_allclose(p.tolist(), [0.8, 1.6], rtol=1e-6)
    assert mt.is_grad_enabled()


def test_step_bumps_version_and_keeps_identity():
    p = mt.nn.Parameter(mt.ones(3))
    for name in ("SGD", "Adam", "AdamW", "RMSprop"):
        o = getattr(mt.optim, name)([p], lr=0.1)
        p.grad = mt.ones(3)
        before, view = p._version, p.detach()
        o.step()
        assert p._version > before
        assert view.tolist() == p.tolist()


def test_stale_activation_is_noticed():
    p = mt.nn.Parameter(mt.ones(3))
    o = mt.optim.SGD([p], lr=0.1)
    y = (p * p).sum()
    p.grad = mt.ones(3)
    o.step()
    with pytest.raises(RuntimeError, match="inplace|in-place"):
        y.backward()


def test_zero_grad():
    p = mt.nn.Parameter(mt.ones(2))
    o = mt.optim.SGD([p], lr=0.1)
    p.grad = mt.ones(2)
    keep = p.grad
    o.zero_grad(set_to_none=False)
    assert p.grad is keep and keep.tolist() == [0.0, 0.0]
    o.zero_grad()
    assert p.grad is None


def test_parameters_without_gradient_are_skipped():
    p, q = mt.nn.Parameter(mt.ones(1)), mt.nn.Parameter(mt.ones(1))
    o = mt.optim.Adam([p, q], lr=0.1)
    p.grad = mt.ones(1)
    o.step()
    assert q.item() == 1.0 and list(o.state_dict()["state"]) == [0]


def resume(lib, i, params, optimizer):
    """Half way, carry everything over to new parameters through a saved state dict."""
    if i != 14:
        return params, optimizer
    new = [lib.nn.Parameter(p.detach().clone()) for p in params]
    group = dict(optimizer.defaults)
    other = type(optimizer)(new, **{k: group[k] for k in ("lr",)})
    other.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    return new, other


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "NAdam", "RAdam", "ASGD", "Rprop"])
def test_resume(name):
    options = {"momentum": 0.9} if name in ("SGD", "RMSprop") else {}
    straight, _ = train(mt, name, options)
    resumed, _ = train(mt, name, options, between=resume)
    for p, q in zip(straight, resumed):
        assert p.tolist() == q.tolist()


def test_state_dict_of_pytorch_loads():
    """Through NumPy: what PyTorch saved continues here with PyTorch's numbers."""
    if EXACT:
        pytest.skip("needs our tensors")
    theirs, b = train(torch, "Adam", {"lr": 0.1}, 5)

    def carry(v):
        if isinstance(v, torch.Tensor):
            return mt.tensor(v.detach().numpy())
        return {k: carry(w) for k, w in v.items()} if isinstance(v, dict) else v

    params = [mt.nn.Parameter(mt.tensor(p.detach().numpy())) for p in theirs]
    a = mt.optim.Adam(params)
    a.load_state_dict({"state": carry(b.state_dict()["state"]), "param_groups": b.state_dict()["param_groups"]})
    for ps, o, lib in ((params, a, mt), (theirs, b, torch)):
        for p in ps:
            p.grad = lib.ones_like(p)
        o.step()
    for p, q in zip(params, theirs):
        close(p, q)


def test_load_state_dict_casts():
    p = mt.nn.Parameter(mt.ones(2, dtype=mt.float64))
    o = mt.optim.Adam([p])
    o.load_state_dict(
        {
            "state": {0: {"step": mt.tensor(3.0), "exp_avg": mt.ones(2), "exp_avg_sq": mt.ones(2)}},
            "param_groups": [{"params": [0], **o.defaults}],
        }
    )
    assert o.state[p]["exp_avg"].dtype == mt.float64 and o.state[p]["step"].dtype == mt.float32


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "LBFGS"])
def test_pickle_and_deepcopy(name):
    p = mt.nn.Parameter(mt.ones(2))
    o = getattr(mt.optim, name)([p], lr=0.5)
    for other in (copy.deepcopy(o), pickle.loads(pickle.dumps(o))):
        q = other.param_groups[0]["params"][0]
        assert q is not p and other.param_groups[0]["lr"] == 0.5
        q.grad = mt.ones(2)
        other.register_step_post_hook(lambda *a: None)
        other.step(lambda: mt.ones(()))
        assert p.tolist() == [1.0, 1.0]


def test_torch_save_roundtrip():
    p = mt.nn.Parameter(mt.ones(2))
    o = mt.optim.Adam([p])
    p.grad = mt.ones(2)
    o.step()
    f = io.BytesIO()
    mt.save(o.state_dict(), f)
    f.seek(0)
    back = mt.load(f)
    assert back["state"][0]["step"].item() == 1.0 and back["param_groups"] == o.state_dict()["param_groups"]


def test_hooks():
    from mindtorch.torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

    seen = []
    p = mt.nn.Parameter(mt.ones(1))
    o = mt.optim.SGD([p], lr=0.1)
    handles = [
        o.register_step_pre_hook(lambda opt, args, kwargs: seen.append(("pre", opt is o, args[0] is o, kwargs))),
        o.register_step_post_hook(lambda opt, args, kwargs: seen.append(("post", opt is o))),
        register_optimizer_step_pre_hook(lambda *a: seen.append("global pre")),
        register_optimizer_step_post_hook(lambda *a: seen.append("global post")),
        o.register_state_dict_pre_hook(lambda opt: seen.append("state pre")),
        o.register_state_dict_post_hook(lambda opt, d: {**d, "extra": 1}),
    ]
    o.step()
    assert seen == ["global pre", ("pre", True, True, {}), ("post", True), "global post"]
    assert o.state_dict()["extra"] == 1 and seen[-1] == "state pre"
    for h in handles:
        h.remove()
    o.step()
    assert len(seen) == 5 and "extra" not in o.state_dict()
    bad = o.register_step_pre_hook(lambda *a: 3)
    with pytest.raises(RuntimeError, match="must return None or a tuple"):
        o.step()
    bad.remove()
    changed = o.register_step_pre_hook(lambda opt, args, kwargs: ((opt, lambda: 7), kwargs))
    assert o.step() == 7
    changed.remove()
    with o.register_load_state_dict_pre_hook(
        lambda opt, d: {**d, "param_groups": [{**d["param_groups"][0], "lr": 9.0}]}
    ):
        o.load_state_dict(o.state_dict())
    assert o.param_groups[0]["lr"] == 9.0


def test_user_subclass_gets_hooks():
    class Mine(mt.optim.Optimizer):
        def __init__(self, params):
            super().__init__(params, {"lr": 1.0})

        @mt.no_grad()
        def step(self, closure=None):
            for group in self.param_groups:
                for p in group["params"]:
                    p.sub_(p.grad, alpha=group["lr"])

    p = mt.nn.Parameter(mt.ones(1))
    o = Mine([p])
    seen = []
    o.register_step_post_hook(lambda *a: seen.append(1))
    p.grad = mt.ones(1)
    o.step()
    assert p.item() == 0.0 and seen == [1]


def test_groups_and_names():
    a, b = mt.nn.Parameter(mt.ones(1)), mt.nn.Parameter(mt.ones(2))
    o = mt.optim.SGD([{"params": [a], "lr": 0.5}, {"params": b}], lr=0.1, momentum=0.9)
    assert [g["lr"] for g in o.param_groups] == [0.5, 0.1]
    assert [g["params"] for g in o.state_dict()["param_groups"]] == [[0], [1]]
    named = mt.optim.SGD([("a", a), ("b", b)], lr=0.1)
    assert named.param_groups[0]["param_names"] == ["a", "b"]
    c = mt.nn.Parameter(mt.ones(1))
    o.add_param_group({"params": c, "lr": 0.3})
    assert o.param_groups[2]["params"][0] is c and o.param_groups[2]["momentum"] == 0.9


BAD = [
    (lambda t, p: t.optim.SGD(p), TypeError),
    (lambda t, p: t.optim.SGD([]), ValueError),
    (lambda t, p: t.optim.SGD([1]), TypeError),
    (lambda t, p: t.optim.SGD([{"params": [p]}, {"params": [p]}]), ValueError),
    (lambda t, p: t.optim.SGD([p * 2]), ValueError),
    (lambda t, p: t.optim.SGD([p], lr=-1), ValueError),
    (lambda t, p: t.optim.SGD([p], momentum=-1), ValueError),
    (lambda t, p: t.optim.SGD([p], weight_decay=-1), ValueError),
    (lambda t, p: t.optim.SGD([p], nesterov=True), ValueError),
    (lambda t, p: t.optim.SGD([p], foreach=True, fused=True), RuntimeError),
    (lambda t, p: t.optim.Adam([p], differentiable=True, fused=True), RuntimeError),
    (lambda t, p: t.optim.SGD([{"params": {p}}]), TypeError),
    (lambda t, p: t.optim.SGD([{"lr": 1}]), KeyError),
    (lambda t, p: t.optim.SGD([("a", p), t.nn.Parameter(t.ones(1))]), ValueError),
    (lambda t, p: t.optim.SGD([p], lr=t.tensor([1.0, 2.0])), ValueError),
    (lambda t, p: t.optim.Adam([p], betas=(1.0, 0.9)), ValueError),
    (lambda t, p: t.optim.Adam([p], eps=-1), ValueError),
    (lambda t, p: t.optim.Adam([p], lr=t.tensor(0.1), foreach=True), ValueError),
    (lambda t, p: t.optim.Adam([p], betas=(t.tensor(0.9), 0.9)), ValueError),
    (lambda t, p: t.optim.RMSprop([p], alpha=-1), ValueError),
    (lambda t, p: t.optim.Adagrad([p], lr_decay=-1), ValueError),
    (lambda t, p: t.optim.Adadelta([p], rho=2), ValueError),
    (lambda t, p: t.optim.NAdam([p], momentum_decay=-1), ValueError),
    (lambda t, p: t.optim.Rprop([p], etas=(2, 1)), ValueError),
    (lambda t, p: t.optim.Adafactor([p], d=-1), ValueError),
    (lambda t, p: t.optim.Muon([p]), ValueError),
    (lambda t, p: t.optim.LBFGS([{"params": p}, {"params": t.nn.Parameter(t.ones(1))}]), ValueError),
    (lambda t, p: t.optim.LBFGS([p]).step(), TypeError),
    (lambda t, p: t.optim.SGD([p]).load_state_dict({"state": {}, "param_groups": []}), ValueError),
    (lambda t, p: t.optim.SGD([p]).load_state_dict({"state": {}, "param_groups": [{"params": []}]}), ValueError),
    (lambda t, p: t.optim.Optimizer([p], {}).step(), NotImplementedError),
]


@pytest.mark.parametrize("i", range(len(BAD)))
def test_errors(i):
    make, kind = BAD[i]
    texts = []
    for lib in (torch, mt):
        with pytest.raises(kind) as caught:
            make(lib, lib.nn.Parameter(lib.ones(2)))
        texts.append(str(caught.value))
    assert kind is NotImplementedError or texts[0] == texts[1]


def test_duplicates_warn():
    p = mt.nn.Parameter(mt.ones(1))
    with pytest.warns(UserWarning, match="duplicate parameters"):
        mt.optim.SGD([p, p])


def test_averaged_model():
    def run(lib, **kw):
        lib.manual_seed(0)
        net = lib.nn.Linear(2, 2)
        avg = lib.optim.swa_utils.AveragedModel(net, **kw)
        for i in range(4):
            with lib.no_grad():
                for p in net.parameters():
                    p.copy_(lib.full_like(p, float(i * i)))
            avg.update_parameters(net)
        return avg

    for make in (
        lambda lib: {},
        lambda lib: {"multi_avg_fn": lib.optim.swa_utils.get_ema_multi_avg_fn(0.9)},
        lambda lib: {"avg_fn": lib.optim.swa_utils.get_ema_avg_fn(0.8)},
        lambda lib: {"avg_fn": lib.optim.swa_utils.get_swa_avg_fn()},
    ):
        a, b = run(mt, **make(mt)), run(torch, **make(torch))
        assert list(a.state_dict()) == list(b.state_dict())
        for mine, other in zip(a.state_dict().values(), b.state_dict().values()):
            np.testing.assert_allclose(mine.tolist(), other.tolist(), rtol=1e-6)


def test_update_bn():
    def run(lib):
        net = lib.nn.Sequential(lib.nn.BatchNorm1d(2))
        data = [lib.tensor(np.random.default_rng(i).standard_normal((4, 2)).astype("float32")) for i in range(3)]
        lib.optim.swa_utils.update_bn(data, net)
        assert net[0].momentum == 0.1 and net.training
        return net[0]

    a, b = run(mt), run(torch)
    np.testing.assert_allclose(a.running_mean.tolist(), b.running_mean.tolist(), rtol=1e-5)
    np.testing.assert_allclose(a.running_var.tolist(), b.running_var.tolist(), rtol=1e-5)
