"""The operator panel of a script, alone and beside PyTorch's."""

import json
import os
import subprocess
import sys

from mindtorch.tools import panel

SRC = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "src")


def test_worst_comes_first_and_shares_add_up():
    mine = [("aten::mm", "[[2, 2]]", 2, 30.0), ("aten::mm", "[[4, 4]]", 1, 30.0), ("aten::add", "[]", 3, 40.0)]
    theirs = [("aten::mm", "[[2, 2]]", 3, 50.0), ("aten::add", "[]", 3, 10.0)]
    got = panel.rows(mine, theirs)
    assert [(r.op, r.calls, r.total, r.mean, r.torch_calls, r.ratio) for r in got] == [
        ("aten::add", 3, 40.0, 40.0 / 3, 3, 4.0),
        ("aten::mm", 3, 60.0, 20.0, 3, 1.2),
    ]
    assert sum(r.share for r in got) == 1
    assert [r.op for r in panel.rows(mine)] == ["aten::mm", "aten::add"]
    assert len(panel.rows(mine, theirs, by_shape=True)) == 3


def test_command_against_torch(tmp_path):
    (tmp_path / "train.py").write_text(
        "import torch\nx = torch.ones(8, 8, requires_grad=True)\nfor _ in range(4):\n    torch.tanh(x).sum().backward()\n"
    )
    env = {**os.environ, "PYTHONPATH": SRC, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "mindtorch", "panel", "--against", "torch", "--json", "rows.json", "train.py"]
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    rows = {r["op"]: r for r in json.loads((tmp_path / "rows.json").read_text())}
    for op in ("aten::tanh", "aten::sum"):
        assert (rows[op]["calls"], rows[op]["torch_calls"]) == (4, 4)
        assert rows[op]["total"] > 0 and rows[op]["ratio"] > 0
    assert "ratio" in done.stdout
