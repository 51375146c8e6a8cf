"""Layers against PyTorch: same seed gives the same weights; same weights give the same outputs, gradients and buffers.

Inputs are those of PyTorch's own module database.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from _same import equal, plain, same
from torch.testing._internal.common_modules import module_db

import mindtorch.torch as mt
import torch

SAMPLES = 12
# constructed from other modules or functions: see the tests below
BUILT = {"nn.TransformerEncoder", "nn.TransformerEncoderLayer", "nn.TransformerDecoderLayer", "nn.TripletMarginWithDistanceLoss"}
DRAW = {"nn.RReLU", "nn.FractionalMaxPool2d", "nn.FractionalMaxPool3d", "nn.Dropout", "nn.AlphaDropout"}


def ours(x):
    """A PyTorch value as the same value of mindtorch."""
    if isinstance(x, torch.nn.Parameter):
        return mt.nn.Parameter(mt.from_numpy(x.detach().numpy().copy()), x.requires_grad)
    if isinstance(x, torch.Tensor):
        y = mt.from_numpy(np.array(x.detach().numpy(), copy=True)).to(getattr(mt, str(x.dtype).split(".")[1]))
        return y.requires_grad_() if x.requires_grad else y
    if isinstance(x, torch.dtype):
        return getattr(mt, str(x).split(".")[1])
    if isinstance(x, torch.nn.Module):
        raise pytest.skip.Exception("constructed from modules")
    if isinstance(x, dict):
        return {k: ours(v) for k, v in x.items()}
    if type(x) in (list, tuple):
        return type(x)(ours(v) for v in x)
    if callable(x) and hasattr(mt.nn.functional, getattr(x, "__name__", "")):
        return getattr(mt.nn.functional, x.__name__)
    return x


def theirs(x):
    """A fresh copy, so that in-place layers leave the sample alone."""
    if isinstance(x, torch.Tensor):
        return x.detach().clone().requires_grad_(x.requires_grad)
    if type(x) in (list, tuple):
        return type(x)(theirs(v) for v in x)
    return {k: theirs(v) for k, v in x.items()} if isinstance(x, dict) else x


def tensors(x):
    """All tensors inside."""
    if isinstance(x, (torch.Tensor, mt.Tensor)):
        return [x]
    if isinstance(x, dict):
        x = list(x.values())
    return [t for v in x for t in tensors(v)] if isinstance(x, (list, tuple)) else []


def build(lib, cls, args, kwargs):
    """The module made right after seeding."""
    lib.manual_seed(3)
    return cls(*args, **kwargs)


def run(module, lib, args, kwargs):
    """Outputs and gradients of one seeded call."""
    lib.manual_seed(5)
    outs = tensors(module(*args, **kwargs))
    loss = None
    for i, o in enumerate(outs):
        if o.requires_grad:
            w = np.linspace(0.5, 1.5, o.numel(), dtype=np.float64).reshape(tuple(o.shape))
            term = (o * lib.from_numpy(w).to(o.dtype) * (i + 1)).sum()
            loss = term if loss is None else loss + term
    if loss is not None:
        loss.backward()
    grads = [t.grad for t in tensors([list(args), kwargs]) if t.requires_grad]
    return plain({
        "out": [o.detach() for o in outs],
        "input grads": grads,
        "grads": {k: p.grad for k, p in module.named_parameters()},
        "buffers": dict(module.named_buffers()),
    })


def check(info, sample, training):
    """One sample of one module."""
    a, f = sample.constructor_input, sample.forward_input
    cls = getattr(mt.nn, info.module_cls.__name__)
    m = build(mt, cls, ours(list(a.args)), ours(a.kwargs))
    t = build(torch, info.module_cls, a.args, a.kwargs)
    assert repr(m) == repr(t)
    assert str(m.training) == str(t.training)
    lazy = any(torch.nn.parameter.is_lazy(p) for p in t.parameters())
    if not lazy:
        equal(plain(dict(m.state_dict())), plain(dict(t.state_dict())), "initial", rtol=1e-6, atol=1e-7)
        m.load_state_dict({k: ours(v) for k, v in t.state_dict().items()})
    m.train(training)
    t.train(training)
    if f is None:
        return
    mine = ours(list(f.args)), ours(f.kwargs)
    try:
        want = run(t, torch, theirs(list(f.args)), theirs(f.kwargs))
    except RuntimeError:
        # some samples hold a buffer of a dtype that PyTorch itself refuses
        with pytest.raises(RuntimeError):
            run(m, mt, *mine)
        return
    got = run(m, mt, *mine)
    equal(got, want, f"{info.name}({a.args}, {a.kwargs})", rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
@pytest.mark.parametrize("info", [i for i in module_db if i.module_cls.__module__.startswith("torch.nn.modules")], ids=lambda i: i.name)
def test_module_db(info, training):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.manual_seed(0)
        samples = info.module_inputs_func(info, device="cpu", dtype=torch.float32, requires_grad=True, training=training)
        done = 0
        for sample in samples[:SAMPLES]:
            try:
                check(info, sample, training)
                done += 1
            except pytest.skip.Exception:
                continue
        assert done or info.name in BUILT


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("training", [False, True])
def test_transformer(norm_first, batch_first, training):
    def scenario(t):
        m = t.nn.Transformer(8, 2, 2, 1, 16, dropout=0.1, batch_first=batch_first, norm_first=norm_first)
        m.train(training)
        src, tgt = t.randn(3, 4, 8, requires_grad=True), t.randn(3, 4, 8)
        mask = m.generate_square_subsequent_mask(4 if batch_first else 3)
        t.manual_seed(1)
        out = m(src, tgt, tgt_mask=mask, src_key_padding_mask=t.zeros(3 if batch_first else 4, 4 if batch_first else 3).bool())
        # a plain sum after LayerNorm has gradients that are all rounding
        weights = t.linspace(0.5, 1.5, out.numel()).reshape(out.shape)
        (out * weights).sum().backward()
        out2 = m.encoder.layers[0](src)
        (out2 * weights).sum().backward()
        return [m, out, src.grad, {k: p.grad for k, p in m.named_parameters()}, out2]

    same(lambda t: [x if not isinstance(x, dict) else list(x.values()) for x in scenario(t)], rtol=1e-3, atol=2e-5)


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
@pytest.mark.parametrize("settings", [{}, {"num_layers": 2, "bidirectional": True}, {"batch_first": True, "bias": False}])
def test_recurrent_packed(kind, settings):
    def scenario(t):
        rnn = t.nn.utils.rnn
        m = getattr(t.nn, kind)(3, 4, **settings)
        seqs = [t.randn(n, 3, requires_grad=True) for n in (2, 5, 3)]
        packed = rnn.pack_sequence(seqs, enforce_sorted=False)
        out, last = m(packed)
        padded, lengths = rnn.pad_packed_sequence(out, batch_first=True)
        ((padded * padded).sum() + sum(h.sum() for h in (last if isinstance(last, tuple) else (last,)))).backward()
        x = rnn.pad_sequence(seqs, batch_first=settings.get("batch_first", False))
        y, _ = m(x)
        return [padded, lengths, last, [s.grad for s in seqs], [p.grad for p in m.parameters()], y, m.all_weights]

    same(scenario)


def test_adaptive_softmax():
    def scenario(t):
        m = t.nn.AdaptiveLogSoftmaxWithLoss(16, 20, [5, 12], div_value=2.0, head_bias=True)
        x = t.randn(8, 16, requires_grad=True)
        y = t.tensor([0, 4, 5, 11, 12, 19, 3, 7])
        out, loss = m(x, y)
        loss.backward()
        return [m, out, loss, x.grad, m.log_prob(x), m.predict(x), m(x[0], y[0]), [p.grad for p in m.parameters()]]

    same(scenario)


def test_embedding_from_pretrained_and_bag():
    def scenario(t):
        w = t.arange(12.0).reshape(4, 3)
        e = t.nn.Embedding.from_pretrained(w, padding_idx=-1)
        b = t.nn.EmbeddingBag.from_pretrained(w, mode="sum", freeze=False)
        out = b(t.tensor([0, 1, 3, 3]), t.tensor([0, 2]))
        out.sum().backward()
        return [e, e.weight.requires_grad, e.padding_idx, e(t.tensor([[1, 3]])), b, out, b.weight.grad]

    same(scenario)


def test_lazy_modules_become_ordinary():
    def scenario(t):
        nn = t.nn
        m = nn.Sequential(nn.LazyConv2d(4, 3), nn.LazyBatchNorm2d(), nn.Flatten(), nn.LazyLinear(2))
        before = [repr(m), [type(p).__name__ for p in m.parameters()]]
        t.manual_seed(1)
        out = m(t.ones(2, 3, 5, 5))
        other = nn.Sequential(nn.LazyConv2d(4, 3), nn.LazyBatchNorm2d(), nn.Flatten(), nn.LazyLinear(2))
        other.load_state_dict(m.state_dict())
        return [before, m, out, list(m.state_dict().values()), other[3].weight]

    same(scenario)


def test_sync_batchnorm_conversion():
    def scenario(t):
        m = t.nn.Sequential(t.nn.Conv2d(1, 2, 1), t.nn.BatchNorm2d(2))
        s = t.nn.SyncBatchNorm.convert_sync_batchnorm(m)
        return [s, list(s.state_dict()), s[1].weight is m[1].weight]

    same(scenario)


def test_errors_of_constructors():
    def scenario(t):
        from _same import attempt

        nn = t.nn
        x = t.ones(4, 1, 2)
        tries = [
            lambda: nn.LSTM(2, 3, dropout=2),
            lambda: nn.LSTM(2, 0),
            lambda: nn.LSTM(0, 2),
            lambda: nn.LSTM(2, 3, 0),
            lambda: nn.LSTM(2, 3, proj_size=5),
            lambda: nn.LSTM(2, 3, proj_size=-5),
            lambda: nn.GRU(2, 3, proj_size=2),
            lambda: nn.RNN(2, 3, nonlinearity="x"),
            lambda: nn.LSTM(2.5, 3),
            lambda: nn.LSTM(2, 3)(t.ones(4, 1, 3)),
            lambda: nn.LSTM(2, 3)(t.ones(4)),
            lambda: nn.LSTM(2, 3)(x, (t.ones(2, 1, 3), t.ones(1, 1, 3))),
            lambda: nn.LSTM(2, 3)(x, (t.ones(1, 3),) * 2),
            lambda: nn.LSTM(2, 3)(x.double()),
            lambda: nn.GRU(2, 3)(x, t.ones(2, 1, 3)),
            lambda: nn.GRU(2, 3)(x, t.ones(1, 3)),
            lambda: nn.LSTMCell(2, 3)(t.ones(1, 2, 2)),
            lambda: nn.RNNCell(2, 3, nonlinearity="x")(t.ones(1, 2)),
            lambda: nn.Embedding(3, 2, 5),
            lambda: nn.Embedding(3, 2, _weight=t.ones(2, 2)),
            lambda: nn.Embedding.from_pretrained(t.ones(2)),
            lambda: nn.MSELoss(size_average=False).reduction,
            lambda: nn.MSELoss(reduce=False).reduction,
            lambda: nn.MultiMarginLoss(p=3),
            lambda: nn.TripletMarginLoss(margin=-1),
            lambda: nn.AdaptiveLogSoftmaxWithLoss(4, 10, [3, 2]),
            lambda: nn.AdaptiveLogSoftmaxWithLoss(4, 10, []),
            lambda: nn.AdaptiveLogSoftmaxWithLoss(4, 10, [3, 7])(t.ones(2, 4), t.tensor([3, 12])),
            lambda: nn.AdaptiveLogSoftmaxWithLoss(4, 10, [3, 7])(t.ones(3, 4), t.tensor([3, 2])),
            lambda: nn.CircularPad1d(1)(t.ones(3)),
            lambda: nn.Hardtanh(2, 1),
            lambda: nn.Softmax2d()(t.ones(2)),
            lambda: nn.GroupNorm(2, 3),
            lambda: nn.Dropout(3),
            lambda: nn.Conv2d(3, 4, 2, groups=2),
            lambda: nn.Conv2d(4, 3, 2, groups=2),
            lambda: nn.Conv2d(4, 3, 2, groups=0),
            lambda: nn.Conv2d(4, 4, 2, padding="same", stride=2),
            lambda: nn.ConvTranspose2d(4, 4, 2, padding_mode="reflect"),
            lambda: nn.ConvTranspose2d(2, 2, 3, 2)(t.ones(1, 2, 4, 4), output_size=[20, 20]),
            lambda: nn.ConvTranspose2d(2, 2, 3, 2)(t.ones(1, 2, 4, 4), output_size=[20]),
            lambda: nn.ConvTranspose2d(2, 2, 3, 2)(t.ones(1, 2, 4, 4), output_size=[10, 10]).shape,
            lambda: nn.BatchNorm2d(3)(t.ones(2, 3)),
            lambda: nn.InstanceNorm1d(3, affine=True)(t.ones(1, 4, 3)),
            lambda: nn.FractionalMaxPool2d(2),
            lambda: nn.MultiheadAttention(5, 2),
            lambda: nn.MultiheadAttention(0, 2),
            lambda: nn.Unflatten(1, 3),
            lambda: nn.Unflatten(1, (3.0,)),
            lambda: nn.Bilinear(0, 1, 1),
            lambda: nn.LazyConv2d(3, 2)(t.ones(3)),
            lambda: nn.LazyLinear(3).weight.shape,
            lambda: nn.LazyLinear(3).weight,
        ]
        return [str(attempt(f)) for f in tries]

    same(scenario)
