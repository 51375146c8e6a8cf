"""Whole jobs of two and four processes against PyTorch's gloo, and what happens when a process dies.

Starting MindSpore costs seconds per process, so each job makes many checks and a test compares all its answers at once.
"""

from __future__ import annotations

import math
import sys
from typing import Any

import pytest
from jobs import HERE, job, launch, run

pytest.importorskip("mindspore")


def close(a: Any, b: Any, tolerance: float = 1e-5) -> bool:
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(close(x, y, tolerance) for x, y in zip(a, b))
    if isinstance(a, (int, float, complex)) and isinstance(b, (int, float, complex)):
        return a == b or abs(a - b) <= tolerance * max(1.0, abs(b))
    return a == b


def differences(seen: list[dict[str, Any]], wanted: list[dict[str, Any]]) -> list[str]:
    """Answers unlike PyTorch's. gloo has no int16 and no complex gather; its strided results are not right."""
    out = []
    for r, (m, t) in enumerate(zip(seen, wanted)):
        for name in sorted(t):
            if " int16 " in name or name.startswith(("all_reduce of a slice", "broadcast into")):
                continue
            if name.startswith("gather complex") and t[name] == "RuntimeError":
                continue
            if not close(m.get(name), t[name]):
                out.append(f"rank {r} {name}: {str(m.get(name))[:80]}, PyTorch {str(t[name])[:80]}")
    return out


def own_answers(seen: list[dict[str, Any]]) -> None:
    """What PyTorch on the CPU cannot answer, from other answers or by itself."""
    size = len(seen)
    for r, m in enumerate(seen):
        for name in m:
            if " int16 " in name and "AVG" not in name:
                assert m[name] == m[name.replace("int16", "int32")], name
        if "all_reduce of a slice" in m:
            total = size * (size + 1) / 2
            assert m["all_reduce of a slice"] == [[0.0, total, total, 0.0, 0.0, 0.0]] * 4
        if r and "broadcast into a transpose" in m:
            assert m["broadcast into a transpose"] == [[0.0, 3.0], [1.0, 4.0], [2.0, 5.0]]
        if "gather complex64 4" in m:
            assert (len(m["gather complex64 4"]) == size) == (r == 1)
        for name in ("sync input", "sync running", "sync weight"):
            mine, whole = m[name]
            assert close(mine, whole, 1e-4), (name, mine, whole)


def test_four_processes(tmp_path):
    parts = ["reductions", "moves", "composed", "handles", "futures", "objects", "groups", "errors", "training", "details", "overlap", "hooked", "uneven", "extras"]
    seen = job(4, tmp_path / "ours", True, parts)
    assert differences(seen, job(4, tmp_path / "theirs", False, parts)) == []
    own_answers(seen)
    assert len(seen[0]) > 300


def test_two_processes_train_as_one(tmp_path):
    parts = ["handles", "futures", "training", "details", "overlap", "gan", "hooked", "uneven", "extras"]
    seen = job(2, tmp_path / "ours", True, parts)
    assert differences(seen, job(2, tmp_path / "theirs", False, parts)) == []
    own_answers(seen)
    for m in seen:
        assert all(math.isfinite(x) for x in m["ddp curve"]) and m["ddp curve"][-1] < m["ddp curve"][0]
        assert close(m["ddp curve"], m["whole batch curve"]) and close(m["ddp weights"], m["whole batch weights"])


def test_killed_worker_ends_the_job(tmp_path):
    done = launch("--nproc", "2", "--log-dir", str(tmp_path / "logs"), str(HERE / "mortal.py"), "kill", str(tmp_path))
    assert done.returncode == 128 + 9, done.stderr[-2000:]
    assert "rank 1" in done.stderr and "SIGKILL" in done.stderr
    assert "sum [2.0, 2.0, 2.0, 2.0] args ['kill'" in (tmp_path / "logs" / "0" / "stdout.log").read_text()


SPAWNS = """
import sys
import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def work(rank, size, path):
    for turn in range(2):  # a job may end and start again in the same processes
        dist.init_process_group("mccl", init_method=f"file://{path}{turn}", rank=rank, world_size=size)
        x = torch.full((2000,), rank + 1.0)
        dist.all_reduce(x)
        assert x.tolist() == [3.0] * 2000, x
        dist.destroy_process_group()
    open(f"{path}.{rank}", "w").close()


if __name__ == "__main__":
    mp.spawn(work, args=(2, sys.argv[1]), nprocs=2)
"""


def test_spawned_processes_meet_in_a_file(tmp_path):
    script = tmp_path / "spawns.py"
    script.write_text(SPAWNS)
    command = [sys.executable, "-m", "mindtorch", str(script), str(tmp_path / "meet")]
    done = run(command)
    assert done.returncode == 0, done.stderr[-2000:]
    assert {p.name for p in tmp_path.iterdir()} == {"spawns.py", "meet.0", "meet.1"}


FAILS = """
import os, sys, time
assert os.environ["WORLD_SIZE"] == "3" and os.environ["LOCAL_RANK"] == os.environ["RANK"]
if os.environ["RANK"] == "2":
    raise SystemExit(5) if sys.argv[1] == "exit" else ArithmeticError("rank two has had enough")
time.sleep(600)
"""


@pytest.mark.parametrize("how, status", [("exit", 5), ("raise", 1)])
def test_status_and_traceback_of_a_failing_worker(tmp_path, how, status):
    script = tmp_path / "fails.py"
    script.write_text(FAILS)
    done = launch("--nproc_per_node=3", "--standalone", str(script), how)
    assert done.returncode == status, done.stderr
    assert "rank 2 (process" in done.stderr and f"with status {status}" in done.stderr
    if how == "raise":
        assert "ArithmeticError: rank two has had enough" in done.stderr and "fails.py" in done.stderr
