"""Small commands whose output nobody reads to its end (``| head``)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

DUMPS = Path(__file__).parents[1] / "tools" / "golden_ts1018"
COMMANDS = [
    ["compare", "--tables", str(DUMPS / "pt_a"), str(DUMPS / "pt_b")],
    ["env"],
    ["convert", "--help"],
    ["--help"],
    ["convert", "--list", "w.npz"],
]


@pytest.mark.parametrize("args", COMMANDS, ids=lambda a: a[0])
def test_a_closed_pipe_is_no_error(args, tmp_path):
    np.savez(tmp_path / "w.npz", **{f"layer{i}.weight": np.zeros(2, np.float32) for i in range(20)})
    read, write = os.pipe()
    os.close(read)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "mindtorch", *args], stdout=write, stderr=subprocess.PIPE, text=True, check=False, cwd=tmp_path
        )
    finally:
        os.close(write)
    assert "BrokenPipe" not in done.stderr and "Broken pipe" not in done.stderr and "Traceback" not in done.stderr
    assert args[0] != "compare" or done.returncode == 141, done.stderr
