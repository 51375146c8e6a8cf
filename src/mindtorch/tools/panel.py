"""The operator panel: where the time of a script's ops goes, which kernels ran, and how PyTorch fares with the same ops.

Each framework runs the script in a process of its own under ``torch.profiler``, whose names are the same in both: see `op_times`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from mindtorch.tools import frameworks
from mindtorch.tools.op_times import KernelTime, OpTime


class RunFailed(RuntimeError):
    """The script failed under one of the frameworks."""


@dataclass(frozen=True)
class Row:
    """One op type, or one op with its shapes. Times are microseconds; ``torch_*`` are None without PyTorch's run, and where PyTorch
    did not call the op; ``calls`` is 0 where only PyTorch did."""

    op: str
    phase: str
    shapes: str
    calls: int
    total: float
    mean: float
    share: float
    kernel: str
    flops: int = 0
    bytes: int = 0
    prepared: float = 0.0
    torch_calls: int | None = None
    torch_total: float | None = None
    ratio: float | None = None
    """This total over PyTorch's: above 1 it is slower here."""

    @property
    def lost(self) -> float:
        """Microseconds more than PyTorch takes."""
        return self.total - (self.torch_total or 0.0)


def measure(script: str, args: Sequence[str], frame: str, kernels: list[KernelTime] | None = None) -> list[OpTime]:
    """Times of the script's ops under "mindtorch" or "pytorch"; ``kernels`` is filled with MindSpore's. RunFailed when it fails there."""
    home = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    env = {k: v for k, v in os.environ.items() if k != "MINDTORCH_SWITCH"}
    env["PYTHONPATH"] = os.pathsep.join(p for p in (home, env.get("PYTHONPATH")) if p)
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "ops.json")
        more = os.path.join(folder, "kernels.json")
        command = [sys.executable, "-m", "mindtorch.tools.op_times", "--frame", frame, "--out", out]
        command += [*([] if kernels is None else ["--kernels", more]), os.path.abspath(script), *args]
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RunFailed(f"{script} failed under {frame}:\n{done.stderr[-2000:]}")
        if kernels is not None:
            with open(more, encoding="utf-8") as f:
                kernels += [KernelTime(**row) for row in json.load(f)]
        with open(out, encoding="utf-8") as f:
            return [OpTime(**row) for row in json.load(f)]


def rows(mine: Iterable[OpTime], theirs: Iterable[OpTime] | None = None, by_shape: bool = False) -> list[Row]:
    """The panel of one run, longest first, or of two side by side: what loses most time against PyTorch first."""
    a, b = _grouped(mine, by_shape), _grouped(theirs or (), by_shape)
    whole = sum(s.total for s in a.values()) or 1.0
    made = []
    for key in dict.fromkeys([*a, *b]):
        s, t = a.get(key), b.get(key)
        against: tuple[Any, Any, Any] = (None, None, None)
        if t is not None:
            against = t.calls, t.total, s.total / t.total if s is not None and t.total else None
        if s is None:
            s = OpTime(*key)
        mean = s.total / s.calls if s.calls else 0.0
        made.append(Row(*key, s.calls, s.total, mean, s.total / whole, s.kernel, s.flops, s.bytes, s.prepared, *against))
    return sorted(made, key=(lambda r: -r.total) if theirs is None else (lambda r: -r.lost))


def _grouped(measured: Iterable[OpTime], by_shape: bool) -> dict[tuple[str, str, str], OpTime]:
    found: dict[tuple[str, str, str], OpTime] = {}
    for m in measured:
        key = m.op, m.phase, m.shapes if by_shape else ""
        s = found.setdefault(key, OpTime(*key))
        s.calls, s.total, s.flops, s.bytes = s.calls + m.calls, s.total + m.total, s.flops + m.flops, s.bytes + m.bytes
        s.prepared += m.prepared
        known = s.kernel.split(", ") if s.kernel else []
        s.kernel = ", ".join(dict.fromkeys([*known, *(m.kernel.split(", ") if m.kernel else [])]))
    return found


def text(panel: Sequence[Row], limit: int = 30) -> str:
    """The panel as a table, with a line of sums."""
    both = any(r.torch_total is not None for r in panel)
    head = f"{'op':36}{'calls':>7}{'total us':>12}{'mean us':>11}{'share':>8}"
    lines = [head + (f"{'torch calls':>13}{'torch us':>12}{'ratio':>8}" if both else "") + "  kernel"]
    for r in panel[:limit]:
        line = f"{r.op[:35]:36}{r.calls:7d}{r.total:12.1f}{r.mean:11.2f}{r.share:8.1%}"
        if both:
            told = r.torch_total is not None
            line += f"{r.torch_calls:13d}{r.torch_total:12.1f}" if told else f"{'-':>13}{'-':>12}"
            line += f"{r.ratio:8.2f}" if r.ratio is not None else f"{'-':>8}"
        lines.append(f"{line}  {r.kernel or '-'}" + (f"  {r.shapes}" if r.shapes else ""))
    sums = f"{'all':36}{sum(r.calls for r in panel):7d}{sum(r.total for r in panel):12.1f}{'':11}{1:8.1%}"
    if both:
        theirs = sum(r.torch_total or 0.0 for r in panel)
        sums += f"{sum(r.torch_calls or 0 for r in panel):13d}{theirs:12.1f}{sum(r.total for r in panel) / (theirs or 1.0):8.2f}"
    prepared = sum(r.prepared for r in panel)
    note = [f"Compiling and loading kernels took another {prepared / 1e6:.2f} s, once: it is kept on disk."] if prepared >= 1e4 else []
    return "\n".join([*lines, sums, *note])


def as_json(panel: Sequence[Row]) -> list[dict[str, Any]]:
    """For a machine."""
    return [asdict(r) for r in panel]


def kernel_text(kernels: Sequence[KernelTime]) -> str:
    """MindSpore's kernels as a table."""
    if not kernels:
        return "MindSpore ran no kernel (host kernels are faster here; MINDTORCH_KERNELS=mindspore makes it compute all it can)."
    whole = sum(k.total for k in kernels) or 1.0
    lines = [f"{'kernel of MindSpore':36}{'calls':>7}{'total us':>12}{'mean us':>11}{'share':>8}"]
    lines += [f"{k.kernel[:35]:36}{k.calls:7d}{k.total:12.1f}{k.mean:11.2f}{k.total / whole:8.1%}" for k in kernels]
    return "\n".join(lines)


def both(script: str, args: Sequence[str], against: bool, by_shape: bool, kernels: list[KernelTime] | None = None) -> list[Row]:
    """Run and compare. RunFailed when the script fails, also where PyTorch is asked for and not installed."""
    theirs = measure(script, args, frameworks.PYTORCH) if against else None
    return rows(measure(script, args, frameworks.MINDTORCH, kernels), theirs, by_shape)
