"""torch.profiler on whole models: same ops and calls as PyTorch's, memory and kernels, a trace that viewers read."""

import collections
import gzip
import json

import numpy as np
import pytest
import torch.profiler
import torch.utils.flop_counter

import mindtorch.torch as mt
import torch
from mindtorch.engine import used
from mindtorch.torch.profiler import calls


def lenet(t):
    nn = t.nn
    net = nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10),
    )  # fmt: skip
    return net, lambda: t.randn(2, 1, 28, 28)


def transformer(t):
    class Net(t.nn.Module):
        def __init__(self):
            super().__init__()
            self.e, self.o = t.nn.Embedding(20, 16), t.nn.Linear(16, 10)
            self.layer = t.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)

        def forward(self, x):
            return self.o(self.layer(self.e(x)).mean(1))

    return Net(), lambda: t.randint(0, 20, (2, 5))


def lstm(t):
    class Net(t.nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm, self.o = t.nn.LSTM(8, 16, batch_first=True), t.nn.Linear(16, 10)

        def forward(self, x):
            return self.o(self.lstm(x)[0][:, -1])

    return Net(), lambda: t.randn(2, 5, 8)


MODELS = {f.__name__: f for f in (lenet, transformer, lstm)}


def profiled(t, model, **options):
    """The profile of the second of two training steps."""
    net, data = model(t)
    opt, loss_fn = t.optim.SGD(net.parameters(), lr=0.1, momentum=0.9), t.nn.CrossEntropyLoss()

    def step():
        x, y = data(), t.zeros(2, dtype=t.int64)
        opt.zero_grad()
        loss = loss_fn(net(x), y)
        loss.backward()
        opt.step()
        return loss.item()

    step()
    with t.profiler.profile(**options) as p:
        step()
    return p


def outermost(p):
    """Ops that no other op called: of the forward pass, and of the nodes of the backward pass."""
    found = collections.Counter(), collections.Counter()
    for e in p.events():
        above, walking, q = False, False, e.cpu_parent
        while q is not None:
            above = above or q.name.startswith(("aten::", "mindtorch::", "Optimizer"))
            walking = walking or "Backward" in q.name or "AccumulateGrad" in q.name
            q = q.cpu_parent
        if not above and e.name.startswith(("aten::", "mindtorch::")):
            found[walking][e.name] += 1
    return found


VIEWS = {"view", "reshape", "transpose", "permute", "squeeze", "unsqueeze", "select", "unflatten", "chunk", "contiguous", "expand", "t", "detach"}
"""Attention and derivatives take their operands apart by other views: these move no data, and only they may differ."""
ROOT = {"ones_like"}
"""PyTorch makes the gradient that backward() begins with by an op."""
FUSED = {
    "nll_loss_backward", "_log_softmax_backward_data", "max_pool2d_with_indices_backward", "convolution_backward", "add_", "add",
    "_scaled_dot_product_flash_attention_for_cpu_backward", "select_backward", "embedding_backward", "embedding_dense_backward",
    "mkldnn_rnn_layer_backward", "matmul", "_softmax_backward_data", "mul", "cat", "native_dropout_backward", "div", "reshape", "sum", "bmm",
}  # fmt: skip
"""Derivatives that one framework has as one kernel and the other as several."""


@pytest.mark.parametrize("name", MODELS)
def test_same_ops_and_calls(name):
    theirs, ours = (outermost(profiled(t, MODELS[name])) for t in (torch, mt))
    short = [[{k.removeprefix("aten::"): n for k, n in c.items()} for c in side] for side in (theirs, ours)]
    (their_forward, their_backward), (our_forward, our_backward) = short
    views = VIEWS if name == "transformer" else set()

    def kept(found, dropped):
        return {k: n for k, n in found.items() if k not in dropped and not k.startswith("mindtorch::")}

    assert kept(our_forward, views | ROOT) == kept(their_forward, views | ROOT)
    assert not [k for k in our_forward if k.startswith("mindtorch::")]
    assert kept(our_backward, VIEWS | FUSED) == kept(their_backward, VIEWS | FUSED)
    assert our_backward["mm"] == their_backward["mm"] and our_forward["item"] == 1


CALLS = [
    "t.zeros(3)", "t.ones(3)", "t.empty(3)", "t.full((3,), 2.0)", "t.arange(5)", "t.linspace(0, 1, 5)", "t.eye(3)", "t.rand(3)", "t.randn(3)",
    "t.randint(0, 3, (4,))", "t.randperm(5)", "t.zeros_like(x)", "t.randn_like(x)", "t.normal(0.0, 1.0, (3,))", "x.new_zeros(3)", "x.new_full((2,), 1.0)",
    "one.item()", "float(one)", "int(one)", "bool(one)", "x.double()", "x.float()", "x.cpu()", "x.detach()", "x.clone().normal_()",
    "t.empty(2).uniform_()", "t.from_numpy(a)", "x.tolist()",
]  # fmt: skip


@pytest.mark.parametrize("text", CALLS)
def test_creation_and_reading_have_pytorchs_events(text):
    """What PyTorch calls inside (memory, filling) has no event of its own here."""
    got = []
    for t in (torch, mt):
        space = {"t": t, "x": t.ones(3, 4), "one": t.ones(1), "a": np.ones(3)}
        with t.profiler.profile() as p:
            eval(text, space)
        got.append([e.name for e in p.events() if e.cpu_parent is None or e.name in ("aten::_local_scalar_dense", "aten::item", "aten::_to_copy")])
    theirs, ours = got
    if text == "x.tolist()":  # one after the other there, one in the other here
        theirs = theirs[:1]
    assert ours == theirs


def test_creation_keeps_working_and_is_put_back():
    before = mt.zeros.__code__, mt.Tensor.item.__code__
    zeros, kinds = mt.zeros, []
    with mt.profiler.profile() as p:
        kinds.append(zeros(2, 3, dtype=mt.int32).dtype)
        kinds.append(mt.full(size=(2,), fill_value=3).tolist())
        with pytest.raises(RuntimeError, match="negative dimension"):
            zeros(-1)
        with mt.profiler.profile() as inner:
            mt.rand(2)
    assert kinds == [mt.int32, [3, 3]]
    assert [e.name for e in inner.events()] == ["aten::rand"]
    assert [e.name for e in p.events() if e.cpu_parent is None] == ["aten::zeros", "aten::full", "aten::resolve_conj", "aten::zeros", "aten::rand"]
    assert (mt.zeros.__code__, mt.Tensor.item.__code__) == before
    assert not calls._hearers and not used.LISTENERS


def test_kernel_is_the_one_that_ran():
    x = mt.randn(64, 64)
    with mt.profiler.profile() as p:
        x.view(-1)
        x + x
        mt.einsum("ij,jk->ik", x, x)
    by = {a.key: a.kernel for a in p.key_averages()}
    assert by["aten::view"] == "view" and by["aten::add"] == "NumPy" and by["aten::einsum"] == ""
    from mindtorch.engine.host import jit

    @jit.fused(lambda a: a)
    def doubled(a):
        return a * 2

    class Body:
        overloads = ()

        def __call__(self, a):
            Body.overloads = ("float64",)  # as numba does when it compiles
            return a * 2

    doubled.compiled = Body()  # as if it had seen enough work
    with mt.profiler.profile() as p, mt.profiler.record_function("mine"):
        doubled(np.ones(3))
    (mine,) = (e for e in p.events() if e.name == "mine")
    assert mine.kernel == "numba doubled" and 0 < mine.prepared < mine.cpu_time_total * 1e3
    assert doubled.compiled.__class__ is not jit._Heard
    jit._registry.remove(doubled)


def test_convolution_of_mindspore_says_so():
    from mindtorch.engine import convolution

    x, w = mt.randn(1, 3, 8, 8), mt.randn(4, 3, 3, 3, requires_grad=True)
    kernels, mode = {}, convolution.mode()
    try:
        for kind in ("mindspore", "host"):
            convolution.set_mode(kind)
            with mt.profiler.profile() as p:
                mt.conv2d(x, w).sum().backward()
            kernels[kind] = {a.key: a.kernel for a in p.key_averages() if "convolution" in a.key}
    finally:
        convolution.set_mode(mode)
    assert kernels["mindspore"] == {"aten::convolution": "MindSpore Conv2D", "aten::convolution_backward": "MindSpore Conv2DBackpropFilter"}
    assert all("MindSpore" not in k for k in kernels["host"].values()) and len(kernels["host"]) == 2


def test_memory_is_pytorchs():
    """The same bytes taken and given back by the same ops, and the same curve."""

    def run(t):
        net, x = t.nn.Linear(4, 3), t.randn(2, 4)
        with t.profiler.profile(profile_memory=True, record_shapes=True) as p:
            y = net(x).relu()
            y.sum().backward()
            del y
        return p

    theirs, ours = run(torch), run(mt)
    for name in ("aten::linear", "aten::relu", "aten::sum", "[memory]"):
        both = [next(a.cpu_memory_usage for a in p.key_averages() if a.key == name and a.cpu_memory_usage) for p in (theirs, ours)]
        if name == "[memory]":  # what PyTorch frees inside its nodes is freed behind them here
            assert both[1] < 0 and both[0] < 0
        elif name != "aten::sum":
            assert both[0] == both[1]
    changes = ours._done.ledger.changes
    assert sum(c.bytes for c in changes) == 60  # the gradients are left
    curve = ours._done.ledger.curve()
    assert curve[0][1] == 60 + 32 + 24 and curve[-1][1] == 60 + 32 + 60
    assert all(a[0] <= b[0] for a, b in zip(curve, curve[1:]))
    total = sum(e.self_cpu_memory_usage for e in ours.events())
    assert total == sum(c.bytes for c in changes)


def test_memory_timeline(tmp_path):
    net = mt.nn.Linear(4, 3)
    opt = mt.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    with mt.profiler.profile(profile_memory=True) as p:
        net(mt.randn(2, 4)).relu().sum().backward()
        opt.step()
    with pytest.warns(FutureWarning, match="deprecated"):
        p.export_memory_timeline(str(tmp_path / "a.json"))
        p.export_memory_timeline(str(tmp_path / "a.raw.json.gz"))
        p.export_memory_timeline(str(tmp_path / "a.html"))
    times, sizes = json.loads((tmp_path / "a.json").read_text())
    assert len(times) == len(sizes) and times == sorted(times) and {len(row) for row in sizes} == {9}
    parameter, state, given, temporary, activation, gradient, _ = sizes[-1][1:8]
    assert (parameter, state, gradient) == (60, 60, 60) and activation == 0 and given == 0 and temporary == 0
    with gzip.open(tmp_path / "a.raw.json.gz", "rt") as f:
        raw = json.load(f)
    assert raw[0][:3] == [-1, 1, 60] and {row[1] for row in raw} == {1, 2, 4}
    assert sum(row[2] for row in raw) == sum(sizes[-1])
    page = (tmp_path / "a.html").read_text()
    assert page.count("<polygon") >= 4 and "http" not in page
    with mt.profiler.profile() as p:
        mt.ones(2)
    with pytest.warns(FutureWarning), pytest.raises(RuntimeError, match="profile_memory=True"):
        p.export_memory_timeline(str(tmp_path / "b.json"))


@pytest.mark.parametrize("name", MODELS)
def test_trace_is_one_that_viewers_read(name, tmp_path):
    p = profiled(mt, MODELS[name], profile_memory=True, with_stack=True, record_shapes=True)
    p.export_chrome_trace(str(tmp_path / "t.json"))
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    assert {e["ph"] for e in events} == {"X", "M", "s", "f", "i"}
    rows = collections.defaultdict(list)
    for e in events:
        assert isinstance(e["name"], str) and isinstance(e["pid"], int) and isinstance(e["tid"], int) and e["ts"] >= 0
        if e["ph"] == "X":
            assert e["dur"] >= 0
            rows[e["tid"]].append((e["ts"], e["ts"] + e["dur"]))
    for spans in rows.values():  # spans of one row nest: neither viewer draws such that overlap
        open_ends = []
        for start, end in sorted(spans, key=lambda s: (s[0], -s[1])):
            while open_ends and open_ends[-1] <= start + 1e-4:
                open_ends.pop()
            assert not open_ends or end <= open_ends[-1] + 1e-3
            open_ends.append(end)
    starts = collections.Counter(e["id"] for e in events if e["ph"] == "s")
    ends = collections.Counter(e["id"] for e in events if e["ph"] == "f")
    assert starts == ends and max(starts.values()) == 1 and len(starts) >= 5
    at = {(e["ph"], e["id"]): e["ts"] for e in events if e["ph"] in "sf"}
    assert all(at["s", i] < at["f", i] for i in starts)
    names = {e["args"]["name"].rpartition(": ")[2] for e in events if e["name"] == "thread_name"}
    assert names == {"forward", "backward", "optimizer"}


@pytest.mark.parametrize("name", MODELS)
def test_ops_and_gaps_are_the_step(name):
    net, data = MODELS[name](mt)
    with mt.profiler.profile(schedule=mt.profiler.schedule(wait=0, warmup=1, active=2, repeat=1)) as p:
        for _ in range(3):
            net(data()).sum().backward()
            p.step()
    for step in (e for e in p.events() if e.name.startswith("ProfilerStep")):
        inside = sorted((e.time_range.start, e.time_range.end) for e in step.cpu_children)
        ops = sum(b - a for a, b in inside)
        edges = [step.time_range.start, *(t for span in inside for t in span), step.time_range.end]
        gaps = sum(b - a for a, b in zip(edges[::2], edges[1::2]))
        assert ops + gaps == pytest.approx(step.cpu_time_total, rel=0.02) and gaps >= 0 and len(inside) > 5


def decoder(t):
    nn = t.nn
    net = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 16, 3, padding=1, groups=2), nn.ReLU(),
        nn.ConvTranspose2d(16, 8, 2, stride=2), nn.Conv2d(8, 10, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
    )  # fmt: skip
    return net, lambda: t.randn(2, 3, 8, 8)


def attention(t):
    class Net(t.nn.Module):
        def __init__(self):
            super().__init__()
            self.m, self.o = t.nn.MultiheadAttention(16, 4, batch_first=True), t.nn.Linear(16, 10)

        def forward(self, x):
            return self.o(self.m(x, x, x)[0].mean(1))

    return Net(), lambda: t.randn(2, 5, 16)


@pytest.mark.parametrize("model", [lenet, transformer, lstm, decoder, attention])
def test_flops_are_those_of_pytorchs_counter(model):
    totals = []
    for t in (torch, mt):
        net, data = model(t)
        with t.utils.flop_counter.FlopCounterMode(display=False) as counter:
            net(data()).sum().backward()
        totals.append(counter.get_total_flops())
    net, data = model(mt)
    with mt.profiler.profile(with_flops=True) as p:
        net(data()).sum().backward()
    assert totals[0] == totals[1] == sum(a.flops for a in p.key_averages()) > 0
