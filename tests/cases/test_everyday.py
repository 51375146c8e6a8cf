"""Everyday scripts with assertions of their own: each must end with exit status 0."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[2]
_FOLDER = _ROOT / "tests" / "everyday"


@pytest.mark.parametrize("script", sorted(p.name for p in _FOLDER.glob("*.py")))
def test_script(script: str) -> None:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [str(_ROOT / "src"), os.environ.get("PYTHONPATH")]))}
    run = subprocess.run(
        [sys.executable, "-m", "mindtorch", script], capture_output=True, text=True, timeout=300, env=env, cwd=_FOLDER
    )
    assert run.returncode == 0, (run.stdout + run.stderr)[-3000:]
