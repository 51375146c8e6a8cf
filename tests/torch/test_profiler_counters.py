"""torch.utils.flop_counter, benchmark and bottleneck against PyTorch's."""

import os
import subprocess
import sys

import pytest
import torch.utils.benchmark
import torch.utils.flop_counter
from torch.nn.attention import SDPBackend, sdpa_kernel

import mindtorch.torch as mt
import torch
from mindtorch.core import modes, observe

CASES = {
    "mm": lambda t, r: r(3, 4) @ r(4, 5),
    "vector": lambda t, r: r(3, 4) @ r(4),
    "dot": lambda t, r: r(4) @ r(4),
    "bmm": lambda t, r: r(2, 3, 4) @ r(2, 4, 5),
    "folded": lambda t, r: r(2, 3, 4) @ r(4, 5),
    "linear": lambda t, r: t.nn.functional.linear(t.randn(2, 3, 4), r(5, 4), r(5)),
    "linear, no bias": lambda t, r: t.nn.functional.linear(r(2, 3, 4), r(5, 4)),
    "linear of a vector": lambda t, r: t.nn.functional.linear(r(4), r(5, 4), r(5)),
    "addmm": lambda t, r: t.addmm(r(5), r(3, 4), r(4, 5)),
    "baddbmm": lambda t, r: t.baddbmm(r(2, 3, 5), r(2, 3, 4), r(2, 4, 5)),
    "einsum": lambda t, r: t.einsum("bij,bjk->bik", r(2, 3, 4), r(2, 4, 5)),
    "conv1d": lambda t, r: t.nn.functional.conv1d(r(2, 4, 8), r(4, 4, 3), padding=1),
    "conv2d": lambda t, r: t.nn.functional.conv2d(t.randn(2, 3, 8, 8), r(4, 3, 3, 3), r(4)),
    "conv2d, groups": lambda t, r: t.nn.functional.conv2d(r(2, 4, 8, 8), r(4, 2, 3, 3), stride=2, groups=2),
    "conv3d": lambda t, r: t.nn.functional.conv3d(r(1, 2, 4, 5, 6), r(3, 2, 2, 2, 2), dilation=2),
    "transposed": lambda t, r: t.nn.functional.conv_transpose2d(r(2, 3, 8, 8), r(3, 4, 3, 3)),
}  # fmt: skip


def counted(t, run):
    with t.utils.flop_counter.FlopCounterMode(display=False) as m:
        run()
    return m


def leaf(t):
    return lambda *shape: t.randn(*shape, requires_grad=True)


@pytest.mark.parametrize("name", CASES)
def test_flops_forward_and_backward(name):
    ours, theirs = (counted(t, lambda t=t: CASES[name](t, leaf(t)).sum().backward()) for t in (mt, torch))
    assert ours.get_total_flops() == theirs.get_total_flops()
    assert ours.get_flop_counts() == {m: {str(op): n for op, n in c.items()} for m, c in theirs.get_flop_counts().items()}


@pytest.mark.parametrize("causal", [False, True])
def test_flops_of_attention(causal):
    def run(t):
        r = leaf(t)
        t.nn.functional.scaled_dot_product_attention(r(2, 2, 5, 4), r(2, 2, 5, 4), r(2, 2, 5, 4), is_causal=causal).sum().backward()

    with sdpa_kernel(SDPBackend.MATH):
        theirs = counted(torch, lambda: run(torch)).get_total_flops()
    assert counted(mt, lambda: run(mt)).get_total_flops() == theirs == 6 * 2 * 2 * 2 * 5 * 5 * 4


def test_flops_of_multihead_attention():
    def run(t):
        layer = t.nn.MultiheadAttention(4, 2, batch_first=True)
        layer(*(leaf(t)(2, 5, 4) for _ in range(3)))[0].sum().backward()

    assert counted(mt, lambda: run(mt)).get_total_flops() == counted(torch, lambda: run(torch)).get_total_flops()


def _net(t):
    class Net(t.nn.Module):
        def __init__(self):
            super().__init__()
            self.a = t.nn.Linear(3, 4)
            self.b = t.nn.Sequential(t.nn.Conv1d(1, 2, 3), t.nn.Linear(2, 2))

        def forward(self, x):
            return self.b(self.a(x)[:, None])

    return Net()


def test_flops_by_module_and_table(capsys):
    ours, theirs = (counted(t, lambda t=t: _net(t)(t.randn(5, 3)).sum().backward()) for t in (mt, torch))
    assert ours.get_flop_counts() == {m: {str(op): n for op, n in c.items()} for m, c in theirs.get_flop_counts().items()}
    lines = ours.get_table(depth=3).splitlines()
    assert lines[0].split() == ["Module", "FLOP", "%", "Total"]
    assert lines[2].split() == ["Global", str(theirs.get_total_flops()), "100.00%"]
    assert any(line.startswith("   Net.b.0") for line in lines) and "Net.b.0" not in ours.get_table(depth=2)
    with mt.utils.flop_counter.FlopCounterMode():
        mt.ones(2, 2) @ mt.ones(2, 2)
    assert "aten.mm" in capsys.readouterr().out
    assert modes.NS["MODE"] == 0 or observe.OBSERVERS
    assert not observe.RANGES


def test_timer_measures():
    ours, theirs = (
        t.utils.benchmark.Timer("y = x + 1", setup="z = 1", globals={"x": t.ones(3)}, label="add", sub_label="small", description="here")
        for t in (mt, torch)
    )
    a, b = ours.timeit(50), theirs.timeit(50)
    assert a.number_per_run == b.number_per_run == 50 and len(a.times) == 1 and 0 < a.median < 1
    assert str(a).splitlines()[1:3] == str(b).splitlines()[1:3] == ["add: small", "here"]
    assert str(a).splitlines()[-1] == str(b).splitlines()[-1]
    many = ours.blocked_autorange(min_run_time=0.01)
    assert sum(many.raw_times) >= 0.01 and many.iqr >= 0 and 1 <= many.significant_figures <= 4
    assert ours.adaptive_autorange(threshold=100, min_run_time=0.001).raw_times


def test_timer_sets_and_restores_threads():
    before = mt.get_num_threads()
    seen = []
    mt.utils.benchmark.Timer("seen.append(torch.get_num_threads())", globals={"seen": seen, "torch": mt}, num_threads=before + 1).timeit(2)
    assert set(seen) == {before + 1} and mt.get_num_threads() == before


def test_compare_is_pytorchs_table():
    texts = []
    for t in (mt, torch):
        b = t.utils.benchmark
        ms = [
            b.Measurement(1, [s], b.TaskSpec(stmt, "pass", label="op", description=d) if t is mt else
                          torch.utils.benchmark.TaskSpec(stmt, "pass", label="op", description=d))
            for stmt, d, s in (("add", "small", 3.3e-6), ("add", "big", 4.4e-4), ("mul", "small", 2e-6), ("mul", "big", 5e-4))
        ]  # fmt: skip
        texts.append([line.split() for line in str(b.Compare(ms)).splitlines() if line.strip() and "---" not in line])
    assert texts[0] == texts[1]
    with pytest.raises(ValueError, match="Expected an instance"):
        mt.utils.benchmark.Compare([1])


@pytest.mark.parametrize("t", [3e-9, 4.2e-6, 0.05, 7.0, 1e-3])
def test_units(t):
    assert mt.utils.benchmark.select_unit(t) == torch.utils.benchmark.select_unit(t)
    for n in (1, 2, 4):
        assert mt.utils.benchmark.trim_sigfig(t * 1e6 + 0.1234, n) == pytest.approx(torch.utils.benchmark.trim_sigfig(t * 1e6 + 0.1234, n))


def test_timer_refuses():
    with pytest.raises(NotImplementedError, match="C\\+\\+"):
        mt.utils.benchmark.Timer(language="c++")
    with pytest.raises(NotImplementedError, match="blocked_autorange"):
        mt.utils.benchmark.Timer().autorange()
    with pytest.raises(ValueError, match="there are no times"):
        _ = mt.utils.benchmark.Measurement(1, [], mt.utils.benchmark.TaskSpec("x", "pass")).median


def test_bottleneck(tmp_path):
    (tmp_path / "s.py").write_text("import sys, torch\nx = torch.ones(3, requires_grad=True)\n(x * 2).exp().sum().backward()\nprint(sys.argv[1:])\n")
    done = subprocess.run(
        [sys.executable, "-m", "mindtorch", "-m", "torch.utils.bottleneck", "s.py", "--flag"], cwd=tmp_path, capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("['--flag']") == 2
    for part in ("Environment Summary", "cProfile output", "autograd profiler output", "aten::exp", "ExpBackward0"):
        assert part in done.stdout
