"""Dumps in msprobe's layout, and msprobe's own command line reading them."""

from __future__ import annotations

import csv
import json
import os
import sqlite3
import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest

import mindtorch.torch as mt
import torch
from mindtorch.tools import migrator

SCRIPT = """
import torch
import torch.nn.functional as F
class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.bn = torch.nn.Conv2d(1, 2, 3), torch.nn.BatchNorm2d(2)
    def forward(self, x, *, gain):
        return F.relu(self.bn(self.conv(x)) * gain)
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.block, self.fc, self.drop = Block(), torch.nn.Linear(32, 3), torch.nn.Dropout(0.1)
    def forward(self, x):
        x = torch.flatten(self.block(x, gain=2), 1)
        top, _ = x.max(dim=1, keepdim=True)
        x = torch.cat([x[:, :16], 1.0 - x[:, 16:]], dim=1)
        return {"logits": F.layer_norm(2 * self.fc(self.drop(x)) + top, (3,))}
torch.manual_seed(0)
net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(9):
    # step begins
    x = torch.randn(4, 1, 6, 6)
    loss = F.cross_entropy(net(x)["logits"], torch.tensor([0, 1, 2, 0]))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    # step ends
"""
READS_SIDES = sys.version_info >= (3, 11)
"""Which side of an operator the number is on is read from positions in the source, which older Pythons do not keep."""
REFLECTED = "__rmul__.0" if READS_SIDES else "__mul__.1"
CALLS = [
    "Functional.conv2d.0.forward", "Module.block.conv.Conv2d.forward.0", "Tensor.add_.0.forward", "Functional.batch_norm.0.forward",
    "Module.block.bn.BatchNorm2d.forward.0", "Tensor.__mul__.0.forward", "Functional.relu.0.forward", "Module.block.Block.forward.0",
    "Torch.flatten.0.forward", "Tensor.max.0.forward", "Tensor.__rsub__.0.forward", "Torch.cat.0.forward", "Functional.dropout.0.forward",
    "Module.drop.Dropout.forward.0", "Functional.linear.0.forward", "Module.fc.Linear.forward.0", f"Tensor.{REFLECTED}.forward",
    "Tensor.__add__.0.forward", "Functional.layer_norm.0.forward", "Functional.cross_entropy.0.forward",
]  # fmt: skip
GOLDEN = Path(__file__).parent / "golden_msprobe262"
"""dump.json and construct.json that msprobe 26.2.0 itself wrote for the first step of SCRIPT on PyTorch 2.13, statistics only."""


@pytest.fixture(scope="module")
def dumps(tmp_path_factory):
    folder = tmp_path_factory.mktemp("msprobe")
    (folder / "train.py").write_text(SCRIPT)
    for frame in ("pytorch", "mindtorch"):
        done = subprocess.run(
            [sys.executable, "-m", "mindtorch.tools.record", "--frame", frame, "--format", "msprobe", "--out", frame, "--steps", "2", "train.py"],
            cwd=folder, capture_output=True, text=True, check=False, timeout=300,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.parametrize("frame", ["pytorch", "mindtorch"])
def test_layout_of_the_three_files(dumps, frame):
    assert sorted(os.listdir(dumps / frame)) == ["step0", "step1"]
    folder = dumps / frame / "step0" / "rank0"
    dump, construct, stack = (json.loads((folder / f"{n}.json").read_text()) for n in ("dump", "construct", "stack"))
    assert {k: dump[k] for k in ("task", "level", "framework")} == {"task": "tensor", "level": "mix", "framework": "pytorch"}
    assert [k for k in dump["data"] if "forward" in k] == CALLS
    assert construct["Module.block.conv.Conv2d.forward.0"] == construct["Functional.relu.0.forward"] == "Module.block.Block.forward.0"
    assert construct["Module.block.Block.forward.0"] is None and construct["Functional.linear.0.backward"] == "Module.fc.Linear.backward.0"
    assert sorted(n for names, _ in stack.values() for n in names) == sorted(CALLS)
    assert any("x = self.bn" in line or "self.bn(self.conv(x))" in line for names, lines in stack.values() if CALLS[1] in names for line in lines)
    block = dump["data"]["Module.block.Block.forward.0"]
    assert block["input_kwargs"] == {"gain": {"type": "int", "value": 2}} and len(block["input_args"]) == 1
    fc = dump["data"]["Module.fc.Linear.forward.0"]
    assert fc["parameters"]["bias"]["shape"] == [3] and fc["output"][0]["requires_grad"] is True
    value = torch.load(Path(dump["dump_data_dir"]) / fc["output"][0]["data_name"])
    assert value.shape == (4, 3) and fc["output"][0]["Max"] == pytest.approx(float(value.max()))
    labels = dump["data"]["Functional.cross_entropy.0.forward"]["input_args"][1]
    assert labels["dtype"] == "torch.int64" and (labels["Max"], labels["Min"], labels["Mean"]) == (2, 0, None)
    grads = dump["data"]["Module.fc.Linear.parameters_grad.0"]
    assert sorted(grads) == ["bias", "weight"] and grads["weight"][0]["shape"] == [3, 32]
    assert dump["data"]["Functional.cross_entropy.0.backward"]["input"][0]["Max"] == 1


def test_both_frameworks_say_the_same(dumps):
    a, b = (json.loads((dumps / f / "step1" / "rank0" / "dump.json").read_text())["data"] for f in ("pytorch", "mindtorch"))
    assert set(a) == set(b)
    for k in a:
        for x, y in zip(a[k].get("output", []), b[k].get("output", [])):
            if y is not None and isinstance(x, dict) and x.get("Mean") is not None:
                assert x["shape"] == y["shape"] and np.allclose([x["Max"], x["Mean"]], [y["Max"], y["Mean"]], atol=1e-5), k


@pytest.mark.parametrize("frame", [torch, mt], ids=["pytorch", "mindtorch"])
def test_from_api_dump_init(frame, tmp_path):
    net = frame.nn.Sequential(frame.nn.Linear(2, 2), frame.nn.ReLU())
    migrator.api_dump_init(net, tmp_path / "d", retain_backward=True, format="msprobe")
    for n in range(2):
        migrator.api_dump_start(dump_type="statistics")
        net(frame.full((1, 2), float("nan") if n else 1.0)).sum().backward()
    migrator.api_dump_stop()
    data = json.loads((tmp_path / "d" / "step1" / "rank0" / "dump.json").read_text())
    assert data["task"] == "statistics" and data["data"]["Module.0.Linear.forward.0"]["output"][0]["Max"] == "nan"
    assert not (tmp_path / "d" / "step1" / "rank0" / "dump_tensor_data").exists()
    assert "Module.1.ReLU.backward.0" in data["data"]
    with pytest.raises(ValueError, match="format"):
        migrator.api_dump_init(net, tmp_path / "d", format="other")


def plain(x):
    """What is said of a value, numbers rounded; the name of its file is left out."""
    if isinstance(x, dict):
        return {k: plain(v) for k, v in x.items() if k != "data_name"}
    if isinstance(x, list):
        return [plain(v) for v in x]
    return float(f"{x:.3g}") if isinstance(x, float) else x


@pytest.mark.skipif(not READS_SIDES, reason="2 * x is named as x * 2 before Python 3.11")
@pytest.mark.parametrize("frame", ["pytorch", "mindtorch"])
def test_names_and_entries_are_those_of_msprobe(dumps, frame):
    ours, theirs = ({n: json.loads((f / f"{n}.json").read_text()) for n in ("dump", "construct")} for f in (dumps / frame / "step0" / "rank0", GOLDEN))
    mine, reference = ours["dump"]["data"], theirs["dump"]["data"]
    # The optimiser's arithmetic is not the program's: it is kept out, on both frameworks.
    reference = {k: v for k, v in reference.items() if theirs["construct"].get(k) != "optimizer"}
    assert list(mine) == list(reference)
    assert {k: ours["construct"].get(k) for k in mine} == {k: theirs["construct"].get(k) for k in mine}
    if frame == "mindtorch":  # where PyTorch makes a function of other nodes there is nothing to compare
        for k in ("Functional.cross_entropy.0.backward", "Tensor.__rsub__.0.backward"):
            assert mine[k].pop("output") == [None] and reference[k].pop("output") != [None]
    for k, theirs_now in reference.items():
        seen, asked = plain(mine[k]), plain(theirs_now)
        assert _close(seen, asked), (k, seen, asked)


def _close(x, y):
    """Equal structure, numbers to three digits or beside the largest of the tensor."""
    if isinstance(x, dict) and isinstance(y, dict):
        if "Norm" in x and "Norm" in y and isinstance(x["Norm"], float):
            numbers = ("Max", "Min", "Mean", "Norm")
            size = max(abs(y["Max"]), abs(y["Min"]), y["Norm"])
            near = all(abs(x[k] - y[k]) <= 0.02 * size + 1e-6 for k in numbers)
            return near and {k: v for k, v in x.items() if k not in numbers} == {k: v for k, v in y.items() if k not in numbers}
        return set(x) == set(y) and all(_close(x[k], y[k]) for k in x)
    if isinstance(x, list) and isinstance(y, list):
        return len(x) == len(y) and all(map(_close, x, y))
    return x == y


def test_md5_is_the_checksum_that_msprobe_writes(tmp_path):
    net = mt.nn.Sequential(mt.nn.ReLU())
    migrator.api_dump_init(net, tmp_path / "d", format="msprobe")
    migrator.api_dump_start(dump_type="statistics", statistic_category=["md5", "max"])
    net(mt.tensor([1.0, 2.0]))
    migrator.api_dump_stop()
    data = json.loads((tmp_path / "d" / "step0" / "rank0" / "dump.json").read_text())["data"]
    assert data["Functional.relu.0.forward"]["output"][0]["md5"] == f"{zlib.crc32(np.float32([1, 2]).tobytes()):08x}"


def test_a_residual_input_keeps_its_own_gradient(tmp_path):
    """The gradient of a module's input is what flows through that module, not what its other users add."""
    net = mt.nn.Sequential(mt.nn.Linear(2, 2))
    migrator.api_dump_init(net, tmp_path / "d", retain_backward=True, format="msprobe")
    migrator.api_dump_start()
    x = mt.ones(1, 2, requires_grad=True)
    (net(x) + 100 * x).sum().backward()
    migrator.api_dump_stop()
    data = json.loads((tmp_path / "d" / "step0" / "rank0" / "dump.json").read_text())["data"]
    own = np.float32(net[0].weight.detach().numpy().sum(0))
    assert data["Module.0.Linear.backward.0"]["output"][0]["Max"] == pytest.approx(float(own.max()), rel=1e-5)
    assert x.grad.numpy().min() > 90


# ------------------------------------------------------------------------------------------ the tool itself
def test_golden_is_what_msprobe_writes_now(dumps):
    tool = os.environ.get("MINDTORCH_MSPROBE")
    if not tool:
        pytest.skip("msprobe is not installed: name its executable in MINDTORCH_MSPROBE")
    script = SCRIPT.replace("    # step begins", "    debugger.start(model=net)").replace("    # step ends", "    debugger.stop(); debugger.step()")
    start = """
import json
from msprobe.pytorch import PrecisionDebugger
json.dump({"task": "statistics", "dump_path": "", "rank": [], "step": [0], "level": "mix", "risk_level": "ALL",
           "statistics": {"scope": [], "list": [], "data_mode": ["all"], "summary_mode": "statistics"}}, open("config.json", "w"))
debugger = PrecisionDebugger(config_path="config.json", dump_path="own", task="statistics", level="mix")
"""
    (dumps / "own.py").write_text(SCRIPT.split("torch.manual_seed", 1)[0] + start + "torch.manual_seed" + script.split("torch.manual_seed", 1)[1])
    env = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    done = subprocess.run(
        [Path(tool).parent / "python", "own.py"], cwd=dumps, env=env, capture_output=True, text=True, check=False, timeout=600
    )
    assert done.returncode == 0, done.stderr[-3000:]
    for name in ("dump", "construct"):
        fresh = json.loads(next((dumps / "own" / "step0").glob(f"*/{name}.json")).read_text())
        if os.environ.get("MINDTORCH_MSPROBE_RENEW"):
            GOLDEN.mkdir(exist_ok=True)
            (GOLDEN / f"{name}.json").write_text(json.dumps(fresh, indent=None) + "\n")
        assert plain(json.loads((GOLDEN / f"{name}.json").read_text())) == plain(fresh)


@pytest.fixture
def msprobe(dumps):
    tool = os.environ.get("MINDTORCH_MSPROBE")
    if not tool:
        pytest.skip("msprobe is not installed: name its executable in MINDTORCH_MSPROBE")

    def run(*args):
        env = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}  # it lives in an environment of its own
        done = subprocess.run([tool, *map(str, args)], cwd=dumps, env=env, capture_output=True, text=True, check=False, timeout=600)
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]

    return run


def test_msprobe_compares_our_dumps(msprobe, dumps):
    sides = [dumps / f / "step1" / "rank0" / "dump.json" for f in ("mindtorch", "pytorch")]
    msprobe("compare", "--target_path", sides[0], "--golden_path", sides[1], "-o", "out")
    rows = list(csv.DictReader(open(next((dumps / "out").glob("compare_result_*.csv")))))
    cosines = {r["NPU Name"]: float(r["Cosine"]) for r in rows if r["Cosine"] not in ("unsupported", "N/A")}
    apart = {r["NPU Name"] if r["NPU Name"] != "N/A" else r["Bench Name"] for r in rows if r["NPU Name"] != r["Bench Name"]}
    assert {n.rpartition(".output")[0] for n in apart} <= {"Functional.cross_entropy.0.backward", "Tensor.__rsub__.0.backward"}
    assert {r["Result"] for r in rows if ".forward" in r["NPU Name"]} == {"pass"}
    # Gradients of what a normalisation takes away again are rounding noise, which msprobe judges like any number.
    real = [r for r in rows if r["NPU Name"] in cosines and r["Bench l2norm"] != "None" and float(r["Bench l2norm"]) > 1e-5]
    assert min(cosines[r["NPU Name"]] for r in real) > 0.9999 and sum(".backward" in r["NPU Name"] for r in real) > 15
    assert cosines["Module.fc.Linear.forward.0.output.0"] > 0.9999 and len(cosines) > 20


def test_msprobe_draws_our_dumps(msprobe, dumps):
    msprobe("graph_visualize", "-tp", dumps / "mindtorch" / "step0", "-gp", dumps / "pytorch" / "step0", "-o", "graph")
    db = sqlite3.connect(next((dumps / "graph").glob("*.vis.db")))
    text = " ".join(str(row) for (t,) in db.execute("select name from sqlite_master where type='table'") for row in db.execute(f"select * from {t}"))
    assert "Module.block.conv.Conv2d.forward.0" in text and "Module.fc.Linear.forward.0" in text


def test_verify_writes_dumps_for_msprobe_too(tmp_path):
    (tmp_path / "train.py").write_text(SCRIPT)
    command = [sys.executable, "-m", "mindtorch", "verify", "--steps", "1", "--format", "msprobe"]
    refused = subprocess.run([*command, "train.py"], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300)
    assert refused.returncode == 2 and "--out" in refused.stderr
    done = subprocess.run([*command, "--out", "kept", "train.py"], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    named = next(line for line in done.stdout.splitlines() if line.startswith("Dumps for msprobe:")).split()
    for flag in ("--target_path", "--golden_path"):
        data = json.loads((tmp_path / named[named.index(flag) + 1]).read_text())["data"]
        assert [k for k in data if "forward" in k] == CALLS
