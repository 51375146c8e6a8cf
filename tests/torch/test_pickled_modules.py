"""Whole objects in files: every module of ``torch.nn``, optimisers, hooks and more, from PyTorch here and back."""

import functools
import importlib
import inspect
import io

import numpy as np
import pytest

import mindtorch.torch as mt
import torch

pytestmark = pytest.mark.filterwarnings("ignore")
PAIR = (mt, torch)
CONVS = {f"{kind}{n}d": args for n in (1, 2, 3) for kind, args in (
    ("Conv", (2, 3, 2)), ("ConvTranspose", (2, 3, 2)), ("LazyConv", (3, 2)), ("LazyConvTranspose", (3, 2)),
    ("LPPool", (2, 2)), ("ConstantPad", (1, 0.5)), ("AdaptiveAvgPool", (2,)), ("FractionalMaxPool", (2, (2,) * n)),
)}  # fmt: skip
ARGS = {
    **CONVS, "Linear": (3, 4), "Bilinear": (2, 3, 4), "LazyLinear": (3,), "Embedding": (4, 3), "EmbeddingBag": (4, 3),
    "GroupNorm": (1, 2), "RNN": (3, 4), "LSTM": (3, 4, 2, True, True, 0.1, True, 2), "GRU": (3, 4), "RNNCell": (3, 4),
    "LSTMCell": (3, 4), "GRUCell": (3, 4), "RNNBase": ("LSTM", 3, 4), "RNNCellBase": (3, 4, True, 4),
    "MultiheadAttention": (4, 2), "TransformerEncoderLayer": (4, 2), "TransformerDecoderLayer": (4, 2),
    "Transformer": (4, 2, 1, 1), "Unflatten": (1, (1, 2)), "Fold": ((4, 4), (2, 2)), "Unfold": ((2, 2),),
    "Threshold": (0.1, 1.0), "AdaptiveLogSoftmaxWithLoss": (4, 6, [2, 4]), "Module": (), "LinearCrossEntropyLoss": (3, 4),
}  # fmt: skip
STACKED = {"TransformerEncoder": "TransformerEncoderLayer", "TransformerDecoder": "TransformerDecoderLayer"}
CLASSES = [n for n, c in vars(torch.nn).items() if inspect.isclass(c) and issubclass(c, torch.nn.Module)]


def made(t, name):
    cls = getattr(t.nn, name)
    if name in STACKED:
        return cls(getattr(t.nn, STACKED[name])(4, 2), 1)
    if name == "DataParallel":
        return cls(t.nn.Linear(2, 2))
    required = [p for p in inspect.signature(cls).parameters.values() if p.default is p.empty and p.kind != p.VAR_KEYWORD]
    return cls(*ARGS.get(name, (2,) * len([p for p in required if p.kind != p.VAR_POSITIONAL])))


def sent(obj, t, legacy=False, **kwargs):
    """``obj`` of ``t`` saved, and loaded by the other."""
    out = io.BytesIO()
    t.save(obj, out, _use_new_zipfile_serialization=not legacy)
    out.seek(0)
    return PAIR[t is mt].load(out, **{"weights_only": False, **kwargs})


@pytest.mark.parametrize("name", CLASSES)
def test_every_module_both_ways(name):
    for t in PAIR:
        module = made(t, name)
        for legacy in (False, True):
            got = sent(module, t, legacy)
            assert type(got) is getattr(PAIR[t is mt].nn, name) and repr(got) == repr(module)
            assert list(got.state_dict()) == list(module.state_dict())
            for mine, other in zip(got.parameters(), module.parameters()):
                if not isinstance(other, t.nn.parameter.UninitializedParameter):
                    assert mine.detach().numpy().tobytes() == other.detach().numpy().tobytes()


PLACES = ("nn", "nn.functional", "optim", "optim.lr_scheduler", "utils.data", "distributions", "distributed", "nn.utils.rnn")


@pytest.mark.parametrize("place", PLACES)
def test_public_names_are_found_on_the_other_side(place):
    """A class or function in a file is named as PyTorch names it."""
    ours, theirs = (importlib.import_module(f"{t}.{place}") for t in ("mindtorch.torch", "torch"))
    for name, there in vars(theirs).items():
        here = getattr(ours, name, None)
        if here is None or not (inspect.isclass(there) or inspect.isfunction(there)) or name[0] == "_":
            continue
        if not there.__module__.startswith("torch.") or f"{there.__module__}.{there.__qualname__}" in ELSEWHERE:
            continue
        got = sent(here, mt)
        # PyTorch has functions of nn.functional that are its built-in ones under another name.
        assert got is there or (place == "nn.functional" and got.__name__ == there.__name__), name
        if not there.__module__.startswith("torch._C") and "<locals>" not in there.__qualname__:
            assert sent(there, torch) is here, name


ELSEWHERE = {
    "torch.distributions.exp_family.ExponentialFamily", "torch.distributed.distributed_c10d.all_gather_single",
    "torch.distributed.distributed_c10d.all_gather_into_tensor", "torch.distributed.distributed_c10d.reduce_scatter_single",
    "torch.distributed.distributed_c10d.reduce_scatter_tensor",
}  # fmt: skip
"""A base class that nobody pickles, and two functions that PyTorch has under two names."""


@pytest.mark.parametrize("t", PAIR, ids=["to PyTorch", "from PyTorch"])
def test_loaded_modules_run(t):
    for name, shape in (("LSTM", (2, 5, 3)), ("GRU", (5, 2, 3)), ("TransformerEncoderLayer", (2, 3, 4)), ("LazyLinear", (2, 3))):
        module = made(t, name).eval()
        got = sent(module, t)
        if name == "LazyLinear":
            got(PAIR[t is mt].ones(*shape))
            assert got.weight.shape == (3, 3)
            continue
        x = np.random.default_rng(0).standard_normal(shape).astype("f4")
        outs = [m(p.tensor(x)) for m, p in ((module, t), (got, PAIR[t is mt]))]
        a, b = ((o[0] if isinstance(o, tuple) else o).detach().numpy() for o in outs)
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("t", PAIR, ids=["to PyTorch", "from PyTorch"])
@pytest.mark.parametrize("legacy", [False, True])
def test_optimizers_and_schedules(t, legacy):
    names = ("SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "Adadelta", "NAdam", "RAdam", "Adamax", "ASGD", "Rprop", "LBFGS")
    for name in names:
        w = t.nn.Parameter(t.ones(3))
        opt = getattr(t.optim, name)([w], lr=0.1)
        w.grad = t.ones(3)
        opt.step(lambda w=w: w.sum() * 1)
        got = sent(opt, t, legacy).state_dict()
        assert str(got["param_groups"]) == str(opt.state_dict()["param_groups"])
        for key, value in opt.state_dict()["state"].get(0, {}).items():
            assert str(got["state"][0][key]) == str(value)
        assert str(sent(opt.state_dict(), t, legacy, weights_only=True)) == str(opt.state_dict())
    for schedule in (t.optim.lr_scheduler.StepLR(opt, 2), t.optim.lr_scheduler.CosineAnnealingLR(opt, 5)):
        assert sent(schedule, t, legacy).optimizer.param_groups[0]["lr"] == 0.1


@pytest.mark.parametrize("t", PAIR, ids=["to PyTorch", "from PyTorch"])
def test_other_objects(t):
    other = PAIR[t is mt]
    net = t.nn.Sequential(t.nn.Linear(2, 2), t.nn.ReLU())
    t.nn.utils.spectral_norm(net[0])
    t.nn.utils.weight_norm(net[0], "weight_orig")
    net[1].register_forward_hook(functools.partial(lambda_free_hook))
    got = sent(net, t)
    assert repr(got) == repr(net) and len(got[1]._forward_hooks) == 1
    # a handle from a file removes the hook of the file, and hooks made later have other numbers
    handle = net.register_forward_pre_hook(lambda_free_hook)
    again, loaded = sent([net, handle], t)
    later = again.register_forward_pre_hook(lambda_free_hook)
    loaded.remove()
    assert list(again._forward_pre_hooks) == [later.id]
    assert sent({"s": t.strided}, t, weights_only=True)["s"] is other.strided
    assert sent(functools.partial(t.nn.functional.leaky_relu, negative_slope=0.5), t).func is other.nn.functional.leaky_relu
    assert sent(t.distributions.Normal(0.0, t.ones(2)), t).scale.tolist() == [1, 1]


def lambda_free_hook(*_):
    return None


def test_memory_formats_reach_pytorch():
    assert sent({"m": mt.channels_last}, mt)["m"] is torch.channels_last
    out = io.BytesIO()
    mt.save(mt.preserve_format, out)
    out.seek(0)
    assert mt.load(out, weights_only=False) is mt.preserve_format


def test_state_of_the_first_spectral_norm():
    torch.manual_seed(0)
    net = torch.nn.utils.spectral_norm(torch.nn.Linear(3, 4))
    net(torch.ones(1, 3))
    old = {k: v.numpy() for k, v in net.state_dict().items() if k != "weight_v"}
    old["weight"] = net.weight.detach().numpy()
    results = []
    for t in PAIR:
        got = t.nn.utils.spectral_norm(t.nn.Linear(3, 4))
        state = dict.__new__(type(got.state_dict()))
        state.update((k, t.tensor(v)) for k, v in old.items())
        got.load_state_dict(state)
        results.append((got.weight_v.numpy(), got.eval()(t.ones(2, 3)).detach().numpy()))
    for mine, theirs in zip(*results):
        np.testing.assert_allclose(mine, theirs, rtol=1e-4)


class Mine(torch.Tensor):
    """A subclass of PyTorch's tensor, which is none here."""


def test_subclasses_of_another_framework_are_refused_clearly():
    out = io.BytesIO()
    torch.save(torch.ones(2).as_subclass(Mine), out)
    out.seek(0)
    with pytest.raises(TypeError, match=r"class 'Mine', which is not one of mindtorch's tensors"):
        mt.load(out, weights_only=False)
