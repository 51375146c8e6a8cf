"""``python -m mindtorch env``: settings that matter, and warnings about bad ones."""

import os
import subprocess
import sys

import pytest

from mindtorch.cli import settings

SRC = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "src")


@pytest.mark.parametrize(
    "name, value, word",
    [
        ("ONEDNN_MAX_CPU_ISA", "AVX512_CORE", "70 times"),
        ("OMP_NUM_THREADS", "64", "more threads than the 2 cores"),
        ("OMP_NUM_THREADS", "two", "not a number"),
        ("MS_ENABLE_RUNTIME_PROFILER", "1", "unset"),
        ("MINDTORCH_KERNELS", "mindspore", "20 to 130 us"),
        ("MSA_LOG", "9", "0 to 4"),
    ],
)
def test_bad_settings(name, value, word):
    (found,) = settings.warnings({name: value}, 2)
    assert name in found and word in found


def test_good_settings_give_no_warning():
    assert settings.warnings({"OMP_NUM_THREADS": "2", "ONEDNN_MAX_CPU_ISA": "AVX2", "MSA_LOG": "2"}, 2) == []


def test_command():
    env = {**os.environ, "PYTHONPATH": SRC, "OMP_NUM_THREADS": "999"}
    done = subprocess.run([sys.executable, "-m", "mindtorch", "env"], env=env, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    for word in ("mindspore", "devices      cpu", "launch mode", "oneDNN ISA", "threads", "blas", "warning: OMP_NUM_THREADS=999"):
        assert word in done.stdout
