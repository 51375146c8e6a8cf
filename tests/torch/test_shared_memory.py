"""Tensors in shared memory: several processes train one model, whichever way they start, as under PyTorch."""

from __future__ import annotations

import contextlib
import json
import os
import signal
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
        c.join(240)
    ok = [c.exitcode for c in children]
    weights = [v for t in model.state_dict().values() for v in t.flatten().tolist()]
    print(json.dumps([ok, shared, weights, sorted(sent[:, 0].tolist())]))
"""


def sequentially() -> list[float]:
    """What two processes make of the model one after the other, by PyTorch in this process."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2), torch.nn.Linear(2, 2))
    for _ in range(2):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.5)
        for _ in range(3):
            optimizer.zero_grad()
            model(torch.ones(2, 3)).sum().backward()
            optimizer.step()
    return [v for t in model.state_dict().values() for v in t.flatten().tolist()]


@pytest.mark.parametrize("how", ["fork", "spawn", "forkserver"])
def test_processes_train_one_model(tmp_path, how):
    (tmp_path / "main.py").write_text(PROGRAM)
    env = {**os.environ, "PYTHONPATH": str(SRC), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "mindtorch", "main.py", how]
    p = subprocess.Popen(
        command, cwd=tmp_path, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        out, err = p.communicate(timeout=300)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(p.pid, signal.SIGKILL)  # its children too
    assert p.returncode == 0, err[-2000:]
    ended, shared, weights, sent = json.loads(out.splitlines()[-1])
    assert ended == [0, 0] and shared == [True] * 9
    np.testing.assert_allclose(weights, sequentially(), rtol=1e-5, atol=1e-6)
    assert sent == [0.0, 7.0, 8.0]


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
