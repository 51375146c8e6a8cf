"""torch.profiler: the same ops and calls as PyTorch's, tables, traces, schedules; and nothing left behind."""

import collections
import gzip
import json
import re

import pytest
import torch.profiler

import mindtorch.torch as mt
import torch
from mindtorch.core import modes, observe
from mindtorch.torch.profiler import ProfilerAction, ProfilerActivity, profile, record_function, schedule

COMMON = (
    "add add_ sub mul div pow exp relu gelu softmax sum mean max cat matmul linear conv2d batch_norm max_pool2d layer_norm "
    "dropout flatten cross_entropy_loss view transpose permute select embedding sigmoid tanh sqrt mse_loss"
).split()


def network(t):
    nn = t.nn
    return nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(0.1), nn.Flatten(),
        nn.Linear(64, 10), nn.LayerNorm(10), nn.GELU(),
    )  # fmt: skip


class Script:
    """One training step with common ops, the same text for both frameworks."""

    def __init__(self, t):
        self.t = t
        self.net = network(t)
        self.opt = t.optim.SGD(self.net.parameters(), lr=0.1)
        self.x, self.y, self.count = t.randn(2, 3, 8, 8), t.tensor([1, 2]), t.zeros(3)

    def __call__(self):
        t = self.t
        F = t.nn.functional
        out = self.net(self.x)
        loss = F.cross_entropy(out, self.y) + (out * 2).sum() / 3 + out.softmax(-1).mean() + t.cat([out, out]).pow(2).mean()
        a = out.view(2, 5, 2).transpose(1, 2)
        loss = loss + t.matmul(a, a.permute(0, 2, 1)).sum().sqrt() + out.exp().max() - t.tanh(out[0]).sigmoid().sum()
        self.count.add_(1)
        self.opt.zero_grad()
        with t.profiler.record_function("walk back"):
            loss.backward()
        self.opt.step()


def outermost(events):
    """Names of the aten events that no other aten event, and no derivative, called."""
    found = collections.Counter()
    for e in events:
        p = e.cpu_parent
        while p is not None and not (p.name.startswith("aten::") or "Backward" in p.name or "Optimizer" in p.name):
            p = p.cpu_parent
        if p is None and e.name.startswith("aten::") and e.name != "aten::ones_like":
            found[e.name] += 1
    return found


@pytest.fixture(scope="module")
def both():
    out = []
    for t in (torch, mt):
        script = Script(t)
        script()
        with t.profiler.profile(record_shapes=True) as p:
            script()
        out.append(p)
    return out


def test_same_ops_and_calls_as_pytorch(both):
    theirs, ours = (outermost(p.events()) for p in both)
    names = {f"aten::{n}" for n in COMMON} & set(theirs)
    assert len(names) >= 24
    assert {n: ours[n] for n in names} == {n: theirs[n] for n in names}


def test_same_ranges_and_nodes_as_pytorch(both):
    def wanted(p):
        keep = re.compile(r"Optimizer\.|walk back|torch::autograd::AccumulateGrad$|(Addmm|Convolution|Relu|NativeLayerNorm|Gelu|Cat)Backward0$")
        return {a.key: a.count for a in p.key_averages() if keep.search(a.key)}

    assert wanted(both[1]) == wanted(both[0])


def test_shapes_as_pytorch_gives_them(both):
    def shapes(p, name):
        return [str(a.input_shapes) for a in p.key_averages(group_by_input_shape=True) if a.key == name]

    assert shapes(both[1], "aten::linear") == shapes(both[0], "aten::linear")
    assert shapes(both[1], "aten::cat") == shapes(both[0], "aten::cat") or shapes(both[1], "aten::cat")[0].startswith("[[[2, 10]")


def test_table_has_pytorchs_columns_and_order(both):
    heads = [re.split(r"\s{2,}", p.key_averages().table().splitlines()[1].strip()) for p in both]
    assert heads[0] == heads[1]
    theirs, ours = (p.key_averages(group_by_input_shape=True).table(sort_by="count", row_limit=3) for p in both)
    assert re.split(r"\s{2,}", theirs.splitlines()[1].strip()) == re.split(r"\s{2,}", ours.splitlines()[1].strip())
    assert len(ours.splitlines()) == len(theirs.splitlines())
    counts = [int(line.split()[6]) for line in both[1].key_averages().table(sort_by="count", row_limit=5).splitlines()[3:8] if "function" not in line]
    assert counts == sorted(counts, reverse=True)


def test_own_times_add_up():
    script = Script(mt)
    script()
    with profile(schedule=schedule(wait=0, warmup=1, active=2, repeat=1)) as p:
        for _ in range(3):
            script()
            p.step()
    events = p.events()
    steps = [e for e in events if e.name.startswith("ProfilerStep#")]
    assert [e.name for e in steps] == ["ProfilerStep#1", "ProfilerStep#2"]
    for step in steps:
        inside = [e for e in events if _under(e, step)]
        assert len(inside) > 50
        own = sum(e.self_cpu_time_total for e in inside) + step.self_cpu_time_total  # ops, and the gaps between them
        assert own == pytest.approx(step.cpu_time_total, rel=0.02)
        assert all(e.self_cpu_time_total >= -1e-6 for e in inside)


def _under(e, ancestor):
    while e.cpu_parent is not None:
        e = e.cpu_parent
        if e is ancestor:
            return True
    return False


def test_memory_flops_and_stacks():
    net, x = mt.nn.Linear(4, 3), mt.randn(2, 4)
    with profile(profile_memory=True, with_flops=True, with_stack=True) as p:
        net(x).relu().view(6)
    by = {a.key: a for a in p.key_averages(group_by_stack_n=1)}
    assert (by["aten::linear"].cpu_memory_usage, by["aten::relu"].cpu_memory_usage, by["aten::view"].cpu_memory_usage) == (24, 24, 0)
    assert by["aten::linear"].flops == 2 * 2 * 4 * 3
    assert __file__ in by["aten::relu"].stack[0] and "test_memory_flops_and_stacks" in by["aten::relu"].stack[0]
    text = p.key_averages(group_by_stack_n=1).table()
    for column in ("CPU Mem", "Self CPU Mem", "Source Location", "Total FLOPs"):
        assert column in text


def test_inplace_and_failed_ops():
    x = mt.ones(3)
    with profile() as p:
        x.mul_(2)
        with pytest.raises(RuntimeError):
            mt.ones(2) + mt.ones(3)
        x * 3
    assert [e.name for e in p.events()] == ["aten::mul_", "aten::ones", "aten::ones", "aten::add", "aten::mul"]
    assert all(e.cpu_parent is None for e in p.events())


def test_nothing_is_left_when_it_is_over():
    before = modes.NS["MODE"], len(observe.OBSERVERS), len(observe.RANGES)
    registry = mt.nn.modules.module
    with pytest.raises(KeyError), profile():
        {}["x"]
    with record_function("nobody listens"):
        mt.ones(1)
    assert (modes.NS["MODE"], len(observe.OBSERVERS), len(observe.RANGES)) == before
    assert not registry._global_forward_hooks and not registry._global_forward_pre_hooks


@pytest.mark.parametrize("options", [dict(wait=1, warmup=1, active=2, repeat=2, skip_first=1), dict(wait=0, warmup=1, active=1), dict(wait=2, warmup=1, active=3, skip_first_wait=1)])  # fmt: skip
def test_schedule_is_pytorchs(options):
    ours, theirs = schedule(**options), torch.profiler.schedule(**options)
    assert [ours(i).name for i in range(20)] == [theirs(i).name for i in range(20)]


def test_windows_and_handlers(tmp_path):
    seen = []

    def ready(p):
        seen.append((p.step_num, [e.name for e in p.events() if e.name.startswith("aten")]))

    x = mt.ones(2)
    with profile(schedule=schedule(wait=1, warmup=1, active=1, repeat=2), on_trace_ready=ready) as p:
        for i in range(8):
            x + i
            p.step()
    assert seen == [(3, ["aten::add"]), (6, ["aten::add"])]
    assert p.current_action is ProfilerAction.NONE
    handler = mt.profiler.tensorboard_trace_handler(str(tmp_path / "log"), worker_name="w", use_gzip=True)
    with profile(on_trace_ready=handler, activities=[ProfilerActivity.CPU]):
        x + 1
    (file,) = (tmp_path / "log").iterdir()
    assert re.fullmatch(r"w\.\d+\.pt\.trace\.json\.gz", file.name)
    with gzip.open(file, "rt") as f:
        assert any(e["name"] == "aten::add" for e in json.load(f)["traceEvents"])


def test_trace(tmp_path):
    script = Script(mt)
    script()
    with profile(record_shapes=True) as p:
        script()
    p.add_metadata_json("run", '{"seed": 0}')
    p.export_chrome_trace(str(tmp_path / "t.json"))
    data = json.loads((tmp_path / "t.json").read_text())
    events = data["traceEvents"]
    assert data["run"] == {"seed": 0}
    rows = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
    spans = [e for e in events if e["ph"] == "X"]
    assert {r.rpartition(": ")[2] for r in rows.values()} == {"forward", "backward", "optimizer"}
    assert {e["tid"] for e in spans} == set(rows)
    at = {e["name"]: rows[e["tid"]].rpartition(": ")[2] for e in spans}
    assert (at["aten::linear"], at["AddmmBackward0"], at["Optimizer.step#SGD.step"]) == ("forward", "backward", "optimizer")
    linear = next(e for e in spans if e["name"] == "aten::linear")
    assert linear["args"]["Module Hierarchy"] == "Sequential.6" and linear["args"]["Input Dims"][0] == [2, 64]
    module = next(e for e in spans if e["name"] == "nn.Module: Linear")
    assert module["ts"] <= linear["ts"] and linear["ts"] + linear["dur"] <= module["ts"] + module["dur"]
    _check_nesting(spans)
    starts = {e["id"]: e for e in events if e["ph"] == "s"}
    ends = {e["id"]: e for e in events if e["ph"] == "f"}
    assert starts and set(starts) == set(ends)
    node = next(e for e in spans if e["name"] == "AddmmBackward0")
    seq = node["args"]["Sequence number"]
    assert starts[seq]["ts"] == linear["ts"] and ends[seq]["tid"] == node["tid"] != starts[seq]["tid"]


def _check_nesting(spans):
    """Spans of one row lie apart or in each other: viewers draw nothing else."""
    by_row = collections.defaultdict(list)
    for e in spans:
        by_row[e["tid"]].append((e["ts"], -e["dur"]))
    for row in by_row.values():
        ends = []
        for ts, minus in sorted(row):
            while ends and ends[-1] <= ts + 1e-6:
                ends.pop()
            assert not ends or ts - minus <= ends[-1] + 1e-3
            ends.append(ts - minus)


def test_record_function_decorates_and_stacks_are_written(tmp_path):
    @record_function("zone")
    def f(x):
        return x.exp() + 1

    with profile(with_stack=True) as p:
        for _ in range(3):
            f(mt.ones(200, 200))
    zone = [e for e in p.events() if e.name == "zone"]
    assert len(zone) == 3 and [c.name for c in zone[0].cpu_children] == ["aten::exp", "aten::add"]
    p.export_stacks(str(tmp_path / "s.txt"))
    assert re.search(r"test_profiler\.py\(\d+\):_f \d+\n", (tmp_path / "s.txt").read_text())
    with pytest.raises(ValueError, match="metric should be one of"):
        p.export_stacks(str(tmp_path / "s.txt"), "nothing")


def test_autograd_profiler():
    with mt.autograd.profiler.profile(record_shapes=True) as p:
        mt.ones(2, 2) @ mt.ones(2, 2)
    assert [e.name for e in p.function_events] == ["aten::ones", "aten::ones", "aten::matmul"]
    assert "aten::matmul" in str(p) and p.total_average().count == 3
    with mt.autograd.profiler.profile(enabled=False) as nothing:
        mt.ones(2)
    assert nothing is None
    with mt.autograd.profiler.emit_nvtx(), mt.autograd.profiler.emit_itt():
        mt.ones(2)


def test_errors():
    with profile() as p:
        mt.ones(2) + 1
    with pytest.raises(AttributeError, match="no figure"):
        p.key_averages().table(sort_by="nothing")
    with pytest.raises(RuntimeError, match="profile_memory"):
        p.export_memory_timeline("x")
    with pytest.raises(AssertionError):
        schedule(wait=0, warmup=0, active=0)
    with pytest.raises(AssertionError, match="not initialized"):
        profile().events()
    assert mt.profiler.supported_activities() == {ProfilerActivity.CPU}


def test_workers_do_not_record():
    class Data(mt.utils.data.Dataset):
        def __len__(self):
            return 4

        def __getitem__(self, i):
            return mt.tensor([modes.NS["MODE"], len(observe.RANGES)])

    resting = modes.NS["MODE"]
    with profile() as p:
        seen = [b.tolist() for b in mt.utils.data.DataLoader(Data(), batch_size=2, num_workers=1, multiprocessing_context="fork")]
    assert seen == [[[resting, 0]] * 2] * 2
    assert sum(e.name.startswith("enumerate(DataLoader)#_MultiProcessingDataLoaderIter") for e in p.events()) == 3
