"""MindSpore's own ways to wait: ``_pynative_executor.sync()`` and ``ms.set_context(pynative_synchronize=True)``.

Each script runs in a process of its own. On the CPU kernels of the host are done when the call returns. On the (simulated)
accelerator launching is blocking too, unless the program used MindSpore before mindtorch could ask for that: then kernels
run behind the program's back, which is where waiting shows. An error of such a kernel arrives where the program waits.
"""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

SRC = Path(__file__).parents[2] / "src"
USED_FIRST = """
import mindspore as ms
float(ms.mint.add(ms.Tensor(1.0), 1.0))
from mindspore.common.api import _pynative_executor
"""
FAILING = """
import mindtorch.torch as torch
x = torch.ones(2, 3, device="npu")
index = torch.full((1, 3), 7, device="npu")
"""
CATCH = """
at = "op"
try:
    y = x.gather(0, index)
    at = "sync"
    _pynative_executor.sync()
    at = "read"
    y.cpu()
except (RuntimeError, IndexError) as e:
    print("error at", at, e)
"""


def run(*parts: str, sim: bool = False) -> str:
    env = {k: v for k, v in os.environ.items() if not k.startswith("MINDTORCH_")}
    env.update(PYTHONPATH=str(SRC), OMP_NUM_THREADS="1", MSA_LOG="3", GLOG_v="3")
    if sim:
        env["MINDTORCH_NPU_SIM"] = "1"
    code = "\n".join(textwrap.dedent(p) for p in parts)
    got = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=300)
    assert got.returncode == 0, got.stderr[-2000:]
    return got.stdout


def test_on_the_cpu_a_result_is_there_when_the_call_returns() -> None:
    out = run(
        """
        import numpy as np
        import mindspore as ms
        from mindspore.common.api import _pynative_executor
        ms.set_context(pynative_synchronize=True)
        import mindtorch.torch as torch
        x = torch.ones(300, 300)
        memory = x.numpy()
        y = x @ x
        before = y.numpy().copy()
        _pynative_executor.sync()
        assert np.array_equal(before, y.numpy()) and before[0, 0] == 300
        x.add_(1)
        assert memory[0, 0] == 2
        print(ms.get_context("pynative_synchronize"))
        """
    )
    assert out.split()[-1] == "True"


def test_sync_waits_for_the_accelerators_kernels() -> None:
    assert "error at sync" in run(USED_FIRST, FAILING, CATCH, sim=True)


def test_pynative_synchronize_moves_an_error_to_its_line() -> None:
    out = run(USED_FIRST, "ms.set_context(pynative_synchronize=True)", FAILING, CATCH, sim=True)
    assert "error at op" in out and "7" in out


@pytest.mark.parametrize("switch", [True, False])
def test_the_setting_can_be_changed_between_operations(switch: bool) -> None:
    first = f"ms.set_context(pynative_synchronize={not switch})"
    then = f"ms.set_context(pynative_synchronize={switch})"
    out = run(USED_FIRST, first, FAILING, "torch.npu.synchronize()", then, CATCH, sim=True)
    assert ("error at op" if switch else "error at sync") in out


def test_npu_synchronize_waits_too() -> None:
    assert "error at sync" in run(USED_FIRST, FAILING, CATCH.replace("_pynative_executor.sync()", "torch.npu.synchronize()"), sim=True)


def test_launching_is_blocking_when_mindtorch_comes_first() -> None:
    out = run(FAILING, "from mindspore.common.api import _pynative_executor", CATCH, sim=True)
    assert "error at op" in out


def test_graph_mode_leaves_the_accelerator_to_its_kernels() -> None:
    """Tensors on a device are not captured: said once, and a module that comes back to the CPU is a graph there."""
    out = run(
        """
        import logging
        import mindspore as ms
        import mindtorch.torch as torch
        from mindtorch import log
        from mindtorch.torch import nn
        said = []
        log.logger().setLevel(logging.WARNING)
        log.logger().handlers[0].emit = lambda record: said.append(record.getMessage())
        m, x = nn.Sequential(nn.Linear(3, 3), nn.ReLU()), torch.ones(2, 3)
        want = m(x)
        ms.set_context(mode=ms.GRAPH_MODE)
        m.to("npu")
        for _ in range(3):
            y = m(x.to("npu"))
            y.sum().backward()
        assert torch.allclose(y.cpu(), want, atol=1e-6) and "_graph_mode" not in m.__dict__
        assert sum("tensors on npu:0 are not captured" in text for text in said) == 1, said
        m.cpu()
        for _ in range(3):
            y = m(x)
        assert len(m.__dict__["_graph_mode"].entries) == 1
        print("done")
        """,
        sim=True,
    )
    assert "done" in out
