"""The operator panel: where the time of a script's ops goes, and how PyTorch fares with the same ops.

Each framework runs the script in a process of its own under ``torch.profiler``, whose names are the same in both.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

_PROGRAM = """
import json, runpy, sys
if {ours}:
    from mindtorch.cli import switch
    switch.install()
import torch
sys.argv = {argv!r}
sys.path[0] = {folder!r}
p = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True)
p.start()
try:
    runpy.run_path({argv!r}[0], run_name="__main__")
except SystemExit:
    pass
finally:
    p.stop()
rows = [(e.key, str(e.input_shapes), e.count, e.self_cpu_time_total) for e in p.key_averages(group_by_input_shape=True)]
with open({out!r}, "w") as f:
    json.dump(rows, f)
"""


class RunFailed(RuntimeError):
    """The script failed under one of the frameworks."""


@dataclass(frozen=True)
class Row:
    """One op type, or one op with its shapes. Times are microseconds of its own; ``torch_*`` are None without PyTorch's run."""

    op: str
    shapes: str
    calls: int
    total: float
    mean: float
    share: float
    torch_calls: int | None = None
    torch_total: float | None = None
    ratio: float | None = None
    """This total over PyTorch's: above 1 it is slower here."""


def measure(script: str, args: Sequence[str], framework: str) -> list[tuple[str, str, int, float]]:
    """(op, shapes, calls, microseconds of its own) of the script under "mindtorch" or "torch". Raises RunFailed."""
    home = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in (home, os.environ.get("PYTHONPATH")) if p)}
    full = os.path.abspath(script)
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "ops.json")
        program = _PROGRAM.format(ours=framework == "mindtorch", argv=[full, *args], folder=os.path.dirname(full), out=out)
        done = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RunFailed(f"{script} failed under {framework}:\n{done.stderr[-2000:]}")
        with open(out, encoding="utf-8") as f:
            return [tuple(r) for r in json.load(f) if r[0].startswith("aten::")]


def rows(mine: Sequence[Any], theirs: Sequence[Any] | None = None, by_shape: bool = False) -> list[Row]:
    """The panel of one run, or of two side by side: the one that loses most time against PyTorch first."""
    a, b = _grouped(mine, by_shape), _grouped(theirs or (), by_shape)
    whole = sum(t for _, t in a.values()) or 1.0
    made = []
    for (op, shapes), (calls, total) in a.items():
        other = b.get((op, shapes))
        against: tuple[Any, Any, Any] = (None, None, None)
        if other is not None:
            against = other[0], other[1], total / other[1] if other[1] else None
        made.append(Row(op, shapes, calls, total, total / calls, total / whole, *against))
    if theirs is None:
        return sorted(made, key=lambda r: -r.total)
    return sorted(made, key=lambda r: -(r.total - r.torch_total if r.torch_total is not None else 0.0))


def _grouped(measured: Sequence[Any], by_shape: bool) -> dict[tuple[str, str], tuple[int, float]]:
    found: dict[tuple[str, str], tuple[int, float]] = {}
    for op, shapes, calls, total in measured:
        k = op, shapes if by_shape else ""
        n, t = found.get(k, (0, 0.0))
        found[k] = n + calls, t + total
    return found


def text(panel: Sequence[Row], limit: int = 30) -> str:
    """The panel as a table."""
    both = any(r.torch_total is not None for r in panel)
    head = f"{'op':36}{'calls':>7}{'total us':>12}{'mean us':>11}{'share':>8}"
    lines = [head + (f"{'torch calls':>13}{'torch us':>12}{'ratio':>8}" if both else "")]
    for r in panel[:limit]:
        line = f"{r.op:36}{r.calls:7d}{r.total:12.1f}{r.mean:11.2f}{r.share:8.1%}"
        if r.torch_total is not None:
            line += f"{r.torch_calls:13d}{r.torch_total:12.1f}" + (f"{r.ratio:8.2f}" if r.ratio is not None else "")
        lines.append(line + (f"  {r.shapes}" if r.shapes else ""))
    return "\n".join(lines)


def as_json(panel: Sequence[Row]) -> list[dict[str, Any]]:
    """For a machine."""
    return [asdict(r) for r in panel]
