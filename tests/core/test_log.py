"""MSA_LOG: its levels, its refusal of other values, and what is seen at 2."""

import os
import re
import subprocess
import sys

import pytest

SRC = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "src")
LEVELS = """
import logging
from mindtorch import log
for level in (10, 20, 30, 40, 50):
    log.logger().log(level, "level %d", level)
"""
SEEN = """
import os
import torch
from torch import nn

if __name__ == "__main__":
    for _ in range(3):
        nn.DataParallel(nn.Linear(1, 1), device_ids=[0])
        nn.functional.embedding(torch.tensor([0]), torch.ones(1, 1), sparse=True)
        x = torch.ones(2, 2, device="npu")
        torch.linalg.eig(x)
    for _ in range(2):
        torch.linalg.eig(x)
"""


def run(code, level=None, **more):
    env = {k: v for k, v in os.environ.items() if k != "MSA_LOG"} | {"PYTHONPATH": SRC, "OMP_NUM_THREADS": "1"} | more
    if level is not None:
        env["MSA_LOG"] = level
    return subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=200)


@pytest.mark.parametrize(("level", "least"), [("0", 10), ("1", 20), ("2", 30), ("3", 40), ("4", 50), (None, 30)])
def test_levels(level, least):
    done = run(LEVELS, level)
    assert done.returncode == 0, done.stderr
    assert [int(n) for n in re.findall(r"level (\d+)", done.stderr)] == [n for n in (10, 20, 30, 40, 50) if n >= least]
    assert "[MindTorch CRITICAL]" in done.stderr


@pytest.mark.parametrize("level", ["5", "-1", "", "warning", "2.0"])
def test_other_values_are_refused_at_once(level):
    done = run("import mindtorch.torch", level)
    assert done.returncode == 1 and f"ValueError: MSA_LOG must be 0 (debug), 1 (info), 2 (warning), 3 (error) or 4 (critical), got {level!r}" in done.stderr


def test_env_shows_a_refused_value():
    env = {**os.environ, "PYTHONPATH": SRC, "MSA_LOG": "9"}
    done = subprocess.run([sys.executable, "-m", "mindtorch", "env"], env=env, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0 and "warning: MSA_LOG=9: must be 0 to 4" in done.stdout and "MSA_LOG=9\n" in done.stdout


def test_level_2_shows_ignored_arguments_and_fallbacks_once_with_their_line(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(SEEN)

    def lines(level):
        env = {**os.environ, "PYTHONPATH": SRC, "MSA_LOG": level, "MINDTORCH_NPU_SIM": "1"}
        done = subprocess.run([sys.executable, "-m", "mindtorch", str(script)], env=env, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        return [line for line in done.stderr.splitlines() if "[MindTorch WARNING]" in line]

    found = lines("2")

    def about(word):
        return [line.partition("] ")[2].partition(": ")[0] for line in found if word in line]

    assert about("'device_ids' has no effect") == [f"{script}:8"]
    assert about("'sparse' has no effect") == [f"{script}:9"]
    assert sorted(set(about("runs on the host"))) == [f"{script}:11", f"{script}:13"]
    assert len(found) == len(set(found))
    assert lines("3") == []
