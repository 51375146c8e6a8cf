"""The accelerator path on MindSpore's CPU target: checks.py in a process started with ``MINDTORCH_NPU_SIM=1``."""

from __future__ import annotations

import ast
import functools
import json
import os
import pathlib
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).parent
NAMES = [
    f.name
    for f in ast.parse((HERE / "checks.py").read_text()).body
    if isinstance(f, ast.FunctionDef) and any(getattr(d, "id", "") == "check" for d in f.decorator_list)
]
SIM = {"MINDTORCH_NPU_SIM": "1", "MINDTORCH_DEVICE_ALIAS": "cuda"}


def start(args, **env):
    return subprocess.run(
        [sys.executable, *args], env={**os.environ, **SIM, **env}, capture_output=True, text=True, timeout=600, check=False
    )


@functools.cache
def answers():
    run = start([str(HERE / "checks.py")], MSA_LOG="4")
    lines = [json.loads(s) for s in run.stdout.splitlines() if s.startswith('["')]
    return dict(lines), run.stderr[-2000:]


@pytest.mark.parametrize("name", NAMES)
def test_on_the_simulated_device(name):
    got, err = answers()
    assert name in got, err
    assert not got[name], got[name]


FALLBACK = """
import mindtorch.torch as torch
x = torch.rand(3, 3, device="npu")
for _ in range(2):
    torch.linalg.eigvals(x)
print("done")
"""


def test_a_fallback_is_said_once_for_each_line():
    run = start(["-c", FALLBACK], MSA_LOG="2")
    assert "done" in run.stdout, run.stderr[-1500:]
    said = [s for s in run.stderr.splitlines() if "runs on the host" in s]
    assert len(said) == 1 and "linalg_eig on npu:0" in said[0] and "<string>:5" in said[0]


def test_a_fallback_can_be_an_error():
    run = start(["-c", FALLBACK], MINDTORCH_HOST_FALLBACK="error")
    assert "done" not in run.stdout and "refused because MINDTORCH_HOST_FALLBACK=error" in run.stderr


def test_without_the_setting_there_is_no_device():
    run = start(["-c", "import mindtorch.torch as t; print(t.npu.is_available()); t.ones(1, device='npu')"], MINDTORCH_NPU_SIM="")
    assert run.stdout.strip() == "False" and "is not present in this process" in run.stderr


def test_the_current_device_inside_a_block():
    run = start([
        "-c",
        "import mindtorch.torch as torch\n"
        "with torch.accelerator.device_index(0): print(torch.accelerator.current_device_index())\n"
        "print(torch.float32 in torch.accelerator.get_device_capability()['supported_dtypes'], torch.accelerator.empty_host_cache())",
    ])
    assert run.stdout.split() == ["0", "True", "None"], run.stderr


def test_the_package_still_loads_no_mindspore():
    run = start(["-c", "import mindtorch.torch as t, sys; t.ones(2) + 1; print('mindspore' in sys.modules)"])
    assert run.stdout.strip() == "False", run.stderr[-500:]


ON_THE_CPU = """
import sys
import {0} as torch

def said(fn):
    try:
        return repr(fn())
    except Exception as e:
        text = "Cannot access accelerator device"
        return f"{{type(e).__name__}}: {{text if text in str(e) else str(e)[:40]}}"

e, s = torch.Event(enable_timing=True), torch.Stream()
for fn in (lambda: e, lambda: s, e.query, e.synchronize, e.record, e.wait, lambda: e.elapsed_time(torch.Event()), s.query, s.record_event,
           lambda: s.wait_event(e), lambda: s == torch.Stream(), lambda: (s.device, s.stream_id, s.device_index), lambda: torch.Event(device="cpu"),
           torch.accelerator.memory_allocated, torch.accelerator.get_memory_info, torch.accelerator.reset_peak_memory_stats,
           lambda: torch.cuda.nvtx.range_push("a"), lambda: torch.ones(1).type("torch.DoubleTensor").type()):
    print(said(fn))
"""


def test_streams_and_events_of_the_cpu_are_those_of_pytorch():
    pytest.importorskip("torch")
    ours, theirs = (start(["-c", ON_THE_CPU.format(m)], MINDTORCH_NPU_SIM="").stdout for m in ("mindtorch.torch", "torch"))
    assert theirs.count("\n") == 18
    assert ours.splitlines() == theirs.splitlines()
