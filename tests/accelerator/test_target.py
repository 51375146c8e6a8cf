"""Which of MindSpore's devices is the accelerator of this process."""

from __future__ import annotations

import subprocess
import sys

import pytest

from mindtorch.core import device
from mindtorch.engine.mindspore import door


@pytest.mark.parametrize(
    ("driver", "simulated", "target", "names"),
    [(True, "", "Ascend", {"npu"}), (True, "1", "CPU", {"npu"}), (False, "1", "CPU", {"npu"}), (False, "0", "CPU", set())],
)
def test_the_driver_decides_unless_it_is_simulated(monkeypatch, driver, simulated, target, names):
    monkeypatch.setenv("MINDTORCH_NPU_SIM", simulated)
    monkeypatch.delenv("MINDTORCH_DEVICE_ALIAS", raising=False)
    monkeypatch.setattr(door, "driver", lambda: driver)
    monkeypatch.setattr(device, "_accelerators", None)
    assert door.target() == target and set(device.accelerators()) == names
    assert door.computes_cpu() == (target == "CPU" and door.available())


def test_the_programs_own_mindspore_keeps_its_settings():
    pytest.importorskip("mindspore")
    text = (
        "from mindtorch.engine.mindspore import door; ms = door.program(); "
        "print(ms.__name__, door.loaded(), ms.get_context('pynative_synchronize'))"
    )
    run = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=300, check=False)
    assert run.stdout.split() == ["mindspore", "False", "False"], run.stderr[-800:]
