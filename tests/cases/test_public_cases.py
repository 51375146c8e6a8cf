"""Small programs from public fault reports: what they print must be what PyTorch prints, numbers to 1e-4."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

_HERE = Path(__file__).parent
_CASES = json.loads((_HERE / "cases.json").read_text(encoding="utf-8"))
_NUMBER = re.compile(r"(?<![A-Za-z_\d.])[-+]?(?:\d+\.?\d*(?:e[-+]?\d+)?|\.\d+(?:e[-+]?\d+)?)", re.IGNORECASE)
_NEEDS = {68: ("einops",), 82: ("PIL",)}


def same_text(got: str, want: str) -> bool:
    """Equal once numbers are taken out and white space is folded, and the numbers equal to 1e-4 relative."""
    a, b = ([float(x) for x in _NUMBER.findall(t)] for t in (got, want))
    words = [" ".join(_NUMBER.sub("#", t).split()) for t in (got, want)]
    return words[0] == words[1] and a == pytest.approx(b, rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("case", _CASES, ids=[str(c["id"]) for c in _CASES])
def test_case(case: dict, tmp_path: Path) -> None:
    for name in _NEEDS.get(case["id"], ()):
        pytest.importorskip(name)
    script = tmp_path / "case.py"
    script.write_text(case["code"], encoding="utf-8")
    src = str(_HERE.parents[1] / "src")
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [src, os.environ.get("PYTHONPATH")]))}
    run = subprocess.run(
        [sys.executable, "-m", "mindtorch", str(script)], capture_output=True, text=True, timeout=120, env=env, cwd=tmp_path
    )
    assert run.returncode == 0, run.stderr[-2000:]
    assert same_text(run.stdout, case["expected"]), f"{case['kind']}\n got: {run.stdout}\nwant: {case['expected']}"
