"""Every command of docs/tuning.md runs on the page's own example, and finds what the page says it finds."""

import json
import os
import re
import subprocess
import sys

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
with open(os.path.join(ROOT, "docs", "tuning.md"), encoding="utf-8") as _f:
    PAGE = _f.read()
EXAMPLE, OP = re.findall(r"```python\n(.*?)```", PAGE, re.S)
COMMANDS = re.findall(r"```sh\n(.*?)\n```", PAGE, re.S)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("tuning")
    (made / "train.py").write_text(EXAMPLE)
    return made


def run(command, folder):
    path = os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"]
    env = {**os.environ, "PYTHONPATH": os.path.join(ROOT, "src"), "OMP_NUM_THREADS": "1", "PATH": path}
    done = subprocess.run(command, shell=True, cwd=folder, env=env, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, command + done.stdout + done.stderr
    return done.stdout


def read(folder, name):
    return json.loads((folder / name).read_text())


def environment(out, folder):
    assert "mindspore" in out and "launch mode" in out


def split(out, folder):
    got = read(folder, "split.json")
    assert got["training"] and got["steps"] >= 10 and "Data Time" in out and "epoch 2: loss" in out


def tried(out, folder):
    got = read(folder, "tried.json")
    assert got["loader_bound"] and got["recommended_num_workers"] >= 1  # subtracting image by image is most of these short steps
    assert got["trial"]["num_workers"] == got["recommended_num_workers"] and "Tried with num_workers=" in out


def sixteen(out, folder):
    got = read(folder, "slow.json")
    assert got["recommended_num_workers"] > 16 and "More than 16 workers" in out
    assert "x[:, row, column] *= 2" in got["slowest"] or "for column" in got["slowest"]


def runtime(out, folder):
    assert "forward" in out and "backward" in out and "ops of forward" in out
    assert (folder / "runtime" / "runtime.csv").stat().st_size > 0 and read(folder, "runtime/runtime.json")["traceEvents"]


def functions(out, folder):
    assert "Ordered by: cumulative time" in (folder / "time_log.txt").read_text()
    assert "torch.optim.SGD.step" in out and "torch.utils.data.DataLoader.__next__" in out and "train.py:" in out


def ops(out, folder):
    assert "Self CPU" in out and "aten::conv" in out
    assert {e["ph"] for e in read(folder, "trace.json")["traceEvents"]} == {"X", "M", "s", "f"}


def panel(out, folder):
    rows = {(r["op"], r["shapes"]): r for r in read(folder, "panel.json")}
    conv = rows["aten::conv2d", "[[32, 3, 16, 16], [8, 3, 3, 3], [8], [], [], [], []]"]
    assert conv["calls"] == conv["torch_calls"] == 23 and conv["kernel"] and "torch us" in out


def advice(out, folder):
    got = read(folder, "advice.json")
    assert {"power", "workers", "graph", "amp", "batch_size"} <= set(got["tried"]) and not got["failure"] and not got["untried"]
    assert all(h["gain"] >= 0.03 and h["file"].endswith("train.py") for h in got["hints"])


def graph(out, folder):
    assert read(folder, "graph.json")["steps"] >= 5


def report(out, folder):
    got = read(folder, "report.json")
    assert got["steps"] and got["timeline"] and got["panel"] and got["memory"] and got["advice"] and got["environment"]
    assert "<canvas" in (folder / "report.html").read_text()


CHECKS = (environment, split, tried, sixteen, runtime, functions, ops, panel, advice, graph, report)


def test_each_command_is_looked_at():
    assert len(CHECKS) == len(COMMANDS)


@pytest.mark.parametrize("index", range(len(COMMANDS)), ids=[c.__name__ for c in CHECKS])
def test_command(index, folder):
    CHECKS[index](run(COMMANDS[index], folder), folder)


def test_custom_op():
    space = {}
    exec(OP, space)
    import mindtorch.torch as torch

    x = torch.tensor([3.0], requires_grad=True)
    space["square"](x).backward()
    assert x.grad.item() == 6
