"""Dumps in msprobe's layout, and msprobe's own command line reading them."""

from __future__ import annotations

import csv
import json
import os
import sqlite3
import subprocess
import sys
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
        self.block, self.fc = Block(), torch.nn.Linear(32, 3)
    def forward(self, x):
        return {"logits": self.fc(torch.flatten(self.block(x, gain=2), 1))}
torch.manual_seed(0)
net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(9):
    x = torch.randn(4, 1, 6, 6)
    loss = F.cross_entropy(net(x)["logits"], torch.tensor([0, 1, 2, 0]))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
CALLS = [
    "Module.block.conv.Conv2d.forward.0", "Module.block.bn.BatchNorm2d.forward.0", "Tensor.__mul__.0.forward",
    "Functional.relu.0.forward", "Module.block.Block.forward.0", "Torch.flatten.0.forward", "Module.fc.Linear.forward.0",
    "Functional.cross_entropy.0.forward",
]  # fmt: skip


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
    assert construct["Module.block.Block.forward.0"] is None and construct["Module.block.conv.Conv2d.backward.0"] == "Module.block.Block.backward.0"
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
    assert list(grads) == ["weight", "bias"] and grads["weight"][0]["shape"] == [3, 32]
    assert dump["data"]["Functional.cross_entropy.0.backward"]["input"][0]["Max"] == 1


def test_both_frameworks_say_the_same(dumps):
    a, b = (json.loads((dumps / f / "step1" / "rank0" / "dump.json").read_text())["data"] for f in ("pytorch", "mindtorch"))
    assert set(a) == set(b)
    for k in a:
        for x, y in zip(a[k].get("output", []), b[k].get("output", [])):
            if isinstance(x, dict) and "Max" in x:
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


# ------------------------------------------------------------------------------------------ the tool itself
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
    assert {r["Result"] for r in rows} == {"pass"} and all(r["NPU Name"] == r["Bench Name"] for r in rows)
    assert cosines["Module.fc.Linear.forward.0.output.0"] > 0.9999 and len(cosines) > 20


def test_msprobe_draws_our_dumps(msprobe, dumps):
    msprobe("graph_visualize", "-tp", dumps / "mindtorch" / "step0", "-gp", dumps / "pytorch" / "step0", "-o", "graph")
    db = sqlite3.connect(next((dumps / "graph").glob("*.vis.db")))
    text = " ".join(str(row) for (t,) in db.execute("select name from sqlite_master where type='table'") for row in db.execute(f"select * from {t}"))
    assert "Module.block.conv.Conv2d.forward.0" in text and "Module.fc.Linear.forward.0" in text
