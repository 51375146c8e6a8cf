"""The three files of MindSpore's Runtime Profiler, as MindSpore 2.10 wrote them."""

import csv
import json
import os
import shutil
import subprocess
import sys

import pytest

from mindtorch.tools import runtime_files as files

GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "golden_ms210")


@pytest.fixture(params=[0, 1], ids=["pynative", "jit"])
def recording(request):
    return files.find(GOLDEN)[request.param]


def test_detail_has_the_durations_it_states(recording):
    records = files.read_detail(recording[1])
    assert len(records) > 30 and {r.kind for r in records} == {"module", "stage"}
    with open(recording[1]) as f:
        text = f.read()
    assert len(records) == text.count("dur_time:")
    assert sum(r.duration for r in records) == sum(int(part.split(",")[1]) for part in text.split("dur_time:")[1:])


def test_summary_agrees_with_detail(recording):
    (step,) = files.read_summary(recording[0])
    assert step.step == 1 and step.step_time > 6_000_000
    records = files.read_detail(recording[1])
    stages = {f.name: f for f in step.figures if f.kind == "Stage"}
    assert stages and "percent" not in stages
    for name in {r.name for r in records if r.kind == "stage"}:
        mine = [r.duration for r in records if r.kind == "stage" and r.name == name]
        assert (stages[name].total, stages[name].count) == (sum(mine), len(mine))


def test_lists_of_ops_are_read_once():
    (step,) = files.read_summary(files.find(GOLDEN)[0][0])
    relu = [f for f in step.figures if f.kind == "Op" and f.name == "ReLU" and f.inside[-1] == "RunOp"]
    assert [(f.total, f.count, f.inside) for f in relu] == [(73122, 3, ("PynativeFramework", "RunOp"))]
    empty = [f for f in step.figures if f.kind == "Op" and f.name == ""]
    assert empty and all(f.total > 0 for f in empty)


def test_csv_is_one(recording, tmp_path):
    records = files.read_detail(recording[1])
    half = sorted(r.start for r in records)[len(records) // 2]
    files.write_csv(records, tmp_path / "out.csv", [files.Phase("forward", 0, half)])
    with open(tmp_path / "out.csv", newline="") as f:
        rows = list(csv.DictReader(f))
    assert len(rows) == len(records) and tuple(rows[0]) == files.COLUMNS
    assert [int(r["duration_ns"]) for r in rows] == [r.duration for r in records]
    assert {r["phase"] for r in rows} == {"forward", ""}


def test_summary_ranks_ops_and_counts_each_once():
    summary, detail, _ = files.find(GOLDEN)[0]
    records = files.read_detail(detail)
    begin, end = min(r.start for r in records), max(r.start + r.duration for r in records)
    got = files.summarise(records, files.read_summary(summary), [files.Phase("forward", begin, end)])
    assert got.steps == 1 and got.step_total == 16578265 and got.phases == {"forward": end - begin}
    assert [(o.op, o.total, o.count) for o in got.ops[:2]] == [("MatMulExt", 5828623, 3), ("pyboost", 634409, 12)]
    assert "forward" in got.text() and "MatMulExt" in got.text()


def test_innermost_phase_wins():
    where = files.Phases([files.Phase("step", 0, 100), files.Phase("forward", 10, 20), files.Phase("backward", 30, 40)])
    assert [where.at(t) for t in (5, 15, 25, 35, 101)] == ["step", "forward", "step", "backward", ""]


def test_merged_trace(tmp_path):
    sets = files.find(GOLDEN)
    start = files.read_detail(sets[0][1])[0].start
    files.merge_trace([s[2] for s in sets], tmp_path / "trace.json", [files.Phase("forward", start, start + 5000)])
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    spans = [e for e in events if e["ph"] == "X"]
    assert len(spans) == sum(len(files.read_json(s[2])) for s in sets) + 1
    assert all(isinstance(e["tid"], int) and e["ts"] >= 0 and e["dur"] >= 0 for e in spans)
    named = {(e["pid"], e["tid"]) for e in events if e["name"] == "thread_name"}
    assert {(e["pid"], e["tid"]) for e in spans} <= named


def test_ranks_and_bad_files(tmp_path):
    with pytest.raises(FileNotFoundError, match="MS_ENABLE_RUNTIME_PROFILER=1"):
        files.find(str(tmp_path))
    shutil.copytree(GOLDEN, tmp_path / "rank_0")
    assert len(files.find(str(tmp_path))) == 2
    bad = tmp_path / "bad"
    bad.write_text("hello\n")
    for read in (files.read_detail, files.read_summary, files.read_json):
        with pytest.raises(files.Unreadable):
            read(str(bad))


def test_profile_runtime_runs_a_script(tmp_path):
    (tmp_path / "train.py").write_text(
        "import torch\nfrom torch import nn\n"
        "net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 14 * 14, 4))\n"
        "optimizer = torch.optim.SGD(net.parameters(), lr=0.01)\n"
        "for _ in range(3):\n"
        "    loss = net(torch.randn(4, 3, 16, 16)).mean()\n"
        "    optimizer.zero_grad()\n    loss.backward()\n    optimizer.step()\n"
    )
    src = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "src")
    env = {**os.environ, "PYTHONPATH": src, "OMP_NUM_THREADS": "1", "MINDTORCH_KERNELS": "mindspore"}
    command = [sys.executable, "-m", "mindtorch", "profile", "--runtime", "out", "train.py"]
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    for word in ("forward", "backward", "optimizer", "Conv2D", "ops of forward"):
        assert word in done.stdout
    with open(tmp_path / "out" / "runtime.csv", newline="") as f:
        rows = list(csv.DictReader(f))
    assert {r["phase"] for r in rows} >= {"forward", "backward"} and len({r["step"] for r in rows}) >= 3
    assert json.loads((tmp_path / "out" / "runtime.json").read_text())["traceEvents"]


def test_the_guides_own_calls_in_a_script(tmp_path):
    """MS_ENABLE_RUNTIME_PROFILER=1, start at the first batch, end and exit() at a later one: three files, which are read."""
    (tmp_path / "train.py").write_text(
        "import torch\nfrom torch import nn\n"
        "from mindspore._c_expression import _framework_profiler_step_start\n"
        "from mindspore._c_expression import _framework_profiler_step_end\n"
        "net = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4))\n"
        "optimizer = torch.optim.SGD(net.parameters(), lr=0.01)\n"
        "loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.randn(40, 8)), batch_size=4)\n"
        "for i, (x,) in enumerate(loader):\n"
        "    if i == 0:\n        _framework_profiler_step_start()\n"
        "    loss = net(x).mean()\n    optimizer.zero_grad()\n    loss.backward()\n    optimizer.step()\n"
        "    if i == 3:\n        _framework_profiler_step_end()\n        exit()\n"
    )
    src = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "src")
    env = {**os.environ, "PYTHONPATH": src, "OMP_NUM_THREADS": "1", "MINDTORCH_KERNELS": "mindspore", "MS_ENABLE_RUNTIME_PROFILER": "1"}
    done = subprocess.run([sys.executable, "-m", "mindtorch", "train.py"], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    ((summary, detail, trace),) = files.find(str(tmp_path))
    got = files.summarise(files.read_detail(detail), files.read_summary(summary))
    assert got.step_total > 0 and got.ops and files.read_json(trace)
    assert [name for name in os.listdir(tmp_path) if name.startswith(("rank", "Runtime"))]
