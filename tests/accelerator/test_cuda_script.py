"""A script written for CUDA, run untouched: on the simulated device its losses are those of the CPU."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

SCRIPT = pathlib.Path(__file__).with_name("cuda_script.py")
TOLERANCE = {"lenet": 2e-5, "resnet": 5e-3, "words": 2e-5, "mixed": 2e-3}  # 18 layers of batch norm over 4 images; bfloat16


@pytest.fixture(scope="module")
def losses():
    found = {}
    for device, env in (("cpu", {}), ("cuda", {"MINDTORCH_NPU_SIM": "1", "MINDTORCH_DEVICE_ALIAS": "cuda"})):
        run = subprocess.run(
            [sys.executable, "-m", "mindtorch", str(SCRIPT)], env={**os.environ, "MSA_LOG": "2", **env}, capture_output=True,
            text=True, timeout=600, check=False,
        )  # fmt: skip
        assert run.returncode == 0, run.stderr[-3000:]
        found[device] = json.loads(run.stdout.splitlines()[-1])
        assert found[device].pop("device") == device
        assert "runs on the host" not in run.stderr, run.stderr[-3000:]
    return found


@pytest.mark.parametrize("part", TOLERANCE)
def test_losses_are_those_of_the_cpu(losses, part):
    cpu, device = losses["cpu"][part], losses["cuda"][part]
    assert len(cpu) >= 3 and len(set(cpu)) == len(cpu)
    np.testing.assert_allclose(device, cpu, rtol=TOLERANCE[part])
