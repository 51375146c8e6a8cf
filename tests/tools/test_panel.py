"""The operator panel of a script, alone and beside PyTorch's."""

import json
import os
import subprocess
import sys

from mindtorch.tools import panel
from mindtorch.tools.op_times import OpTime

SRC = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "src")


def test_worst_comes_first_and_shares_add_up():
    def t(op, shapes, calls, total, kernel=""):
        return OpTime(op, "forward", shapes, calls, total, kernel)

    mine = [t("aten::mm", "[[2, 2]]", 2, 30.0, "NumPy"), t("aten::mm", "[[4, 4]]", 1, 30.0, "numba mm"), t("aten::add", "[]", 3, 40.0, "NumPy")]
    theirs = [t("aten::mm", "[[2, 2]]", 3, 50.0), t("aten::add", "[]", 3, 10.0), t("aten::t", "", 1, 5.0)]
    got = panel.rows(mine, theirs)
    assert [(r.op, r.calls, r.total, r.mean, r.kernel, r.torch_calls, r.ratio) for r in got] == [
        ("aten::add", 3, 40.0, 40.0 / 3, "NumPy", 3, 4.0),
        ("aten::mm", 3, 60.0, 20.0, "NumPy, numba mm", 3, 1.2),
        ("aten::t", 0, 0.0, 0.0, "", 1, None),
    ]
    assert sum(r.share for r in got) == 1
    assert [r.op for r in panel.rows(mine)] == ["aten::mm", "aten::add"]
    assert len(panel.rows(mine, theirs, by_shape=True)) == 4
    assert panel.text(got).splitlines()[-1].split() == ["all", "6", "100.0", "100.0%", "7", "65.0", "1.54"]


TRAIN = """
import torch
from torch import nn
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 4))
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(5):
    loss = net(torch.ones(3, 8)).sum()
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(loss.item())
"""


def test_ops_of_a_training_are_pytorchs(tmp_path):
    (tmp_path / "train.py").write_text(TRAIN)
    rows = panel.both(str(tmp_path / "train.py"), [], True, True)
    same = {(r.op, r.shapes): r for r in rows}
    for key in (
        ("aten::linear", "[[3, 8], [8, 8], [8]]"), ("aten::linear", "[[3, 8], [4, 8], [4]]"), ("aten::tanh", "[[3, 8]]"), ("AddmmBackward0", ""),
        ("TanhBackward0", ""), ("torch::autograd::AccumulateGrad", ""), ("Optimizer.step#SGD.step", ""), ("aten::item", ""),
    ):  # fmt: skip
        found = [r for r in rows if r.op == key[0] and (r.shapes == key[1] or key[0] == "aten::item")]
        assert found, (key, list(same))
        assert all(r.calls == r.torch_calls and r.calls in (4, 5, 8, 16) and r.ratio > 0 for r in found), found  # the first step is left out
    assert all(r.kernel for r in rows if r.op in ("aten::linear", "aten::tanh", "AddmmBackward0"))
    assert [r.lost for r in rows] == sorted((r.lost for r in rows), reverse=True)


def test_kernels_of_mindspore_are_named(tmp_path, monkeypatch):
    monkeypatch.setenv("MINDTORCH_KERNELS", "mindspore")
    (tmp_path / "conv.py").write_text("import torch\ntorch.conv2d(torch.ones(1, 2, 8, 8), torch.ones(2, 2, 3, 3))\ntorch.ones(3).exp()\n")
    own = []
    kernels = {r.op: r.kernel for r in panel.both(str(tmp_path / "conv.py"), [], False, False, own)}
    assert {(k.kernel, k.calls) for k in own} >= {("Conv2D", 1), ("Exp", 1)} and all(k.total > 0 for k in own)
    assert "Conv2D" in panel.kernel_text(own) and "ran no kernel" in panel.kernel_text([])
    assert kernels["aten::conv2d"].startswith("MindSpore") and kernels["aten::exp"].startswith("MindSpore")
    assert kernels["aten::ones"] == "NumPy"


def test_command_against_torch(tmp_path):
    (tmp_path / "train.py").write_text(
        "import torch\nx = torch.ones(8, 8, requires_grad=True)\nfor _ in range(4):\n    torch.tanh(x).sum().backward()\n"
    )
    env = {**os.environ, "PYTHONPATH": SRC, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "mindtorch", "panel", "--against", "torch", "--json", "rows.json", "train.py"]
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    rows = {r["op"]: r for r in json.loads((tmp_path / "rows.json").read_text())}
    for op in ("aten::tanh", "aten::sum", "TanhBackward0"):
        assert rows[op]["kernel"] and (rows[op]["calls"], rows[op]["torch_calls"]) == (4, 4)
        assert rows[op]["total"] > 0 and rows[op]["ratio"] > 0
    assert "ratio" in done.stdout
