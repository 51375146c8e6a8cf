"""Tensors in shared memory: several processes train one model, whichever way they start, as under PyTorch."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import mindtorch.torch as mt
import torch

SRC = Path(__file__).parents[2] / "src"

PROGRAM = """
import json, sys
import torch, torch.nn as nn, torch.multiprocessing as mp

def work(rank, model, lock, q):
    with lock:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.5)
        for _ in range(3):
            optimizer.zero_grad()
            model(torch.ones(2, 3)).sum().backward()
            optimizer.step()
    q.get()[1].fill_(rank + 7.0)

if __name__ == "__main__":
    ctx = mp.get_context(sys.argv[1])
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2), nn.Linear(2, 2))
    model.share_memory()
    shared = [p.is_shared() for p in model.state_dict().values()]
    lock, q = ctx.Lock(), ctx.Queue()
    sent = torch.zeros(3, 2).share_memory_()
    children = [ctx.Process(target=work, args=(i, model, lock, q)) for i in range(2)]
    for i, c in enumerate(children):
        c.start()
        q.put(sent[i:])
    for c in children:
        c.join(60)
    ok = [c.exitcode for c in children]
    weights = [v for t in model.state_dict().values() for v in t.flatten().tolist()]
    print(json.dumps([ok, shared, weights, sorted(sent[:, 0].tolist())]))
"""


@pytest.mark.parametrize("how", ["fork", "spawn", "forkserver"])
def test_processes_train_one_model(tmp_path, how):
    (tmp_path / "main.py").write_text(PROGRAM)
    env = {**os.environ, "PYTHONPATH": str(SRC), "OMP_NUM_THREADS": "1"}
    answers = []
    for runner in ([], ["-m", "mindtorch"]):
        command = [sys.executable, *runner, "main.py", how]
        done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=180)
        assert done.returncode == 0, done.stderr[-2000:]
        answers.append(json.loads(done.stdout.splitlines()[-1]))
    want, got = answers
    assert got[0] == want[0] == [0, 0] and all(got[1]) and got[1] == want[1]
    np.testing.assert_allclose(got[2], want[2], rtol=1e-5, atol=1e-6)
    assert got[3][1:] != [0.0, 0.0] and got[3][0] == want[3][0] == 0.0


def test_other_tensors_are_not_shared():
    t = mt.ones(3)
    assert not t.is_shared() and not t.clone().share_memory_().clone().is_shared()
    before = t.share_memory_()
    assert before is t and t.is_shared() and t[1:].is_shared() and t.share_memory_().data_ptr() == before.data_ptr()
    assert t.tolist() == [1.0, 1.0, 1.0] and mt.empty(0).share_memory_().is_shared()


@pytest.mark.parametrize("lib", [torch, mt], ids=["torch", "mindtorch"])
def test_cuda_of_the_cpu_is_refused(lib):
    with pytest.raises(RuntimeError, match="Invalid device, must be cuda device"):
        lib.ones(1).cuda(lib.device("cpu"))
