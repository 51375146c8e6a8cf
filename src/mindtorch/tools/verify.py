"""The whole way in one command: a script under PyTorch and under mindtorch, step by step, and where they part."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

from mindtorch.tools import frameworks
from mindtorch.tools.compare.comparison import Comparison, Options, compare
from mindtorch.tools.compare.measure import Tolerance
from mindtorch.tools.grid import grid


class RunFailed(RuntimeError):
    """The script did not run to its recorded steps on one of the frameworks."""


@dataclass
class Plan:
    """What to run, and how much of it to record."""

    script: str
    args: list[str]
    out: str
    steps: int = 5
    seed: int = 0
    dump_type: str = "all"
    against: str | None = None
    format: str = "troubleshooter"
    """With "msprobe" each run is recorded once more, in msprobe's layout, below ``<out>/msprobe``."""


def pytorch_installed() -> bool:
    """Whether the real PyTorch could be imported, found without importing it."""
    from mindtorch.cli import switch

    if switch.real_torch() is not None:
        return True
    switch.torch_enable()
    try:
        return importlib.util.find_spec("torch") is not None
    finally:
        switch.torch_pop()


def run(plan: Plan, frame: str, format: str = "troubleshooter") -> str:
    """Record the script in a process of its own; returns the folder. RunFailed with the end of its output if it fails."""
    out = os.path.join(plan.out, *(["msprobe"] if format == "msprobe" else []), frame)
    os.makedirs(os.path.dirname(out), exist_ok=True)
    command = [sys.executable, "-m", "mindtorch.tools.record", "--frame", frame, "--out", out, "--steps", str(plan.steps)]
    command += ["--dump-type", plan.dump_type, "--seed", str(plan.seed), "--format", format, plan.script, *plan.args]
    env = {k: v for k, v in os.environ.items() if k != "MINDTORCH_SWITCH"}
    here = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    env["PYTHONPATH"] = os.pathsep.join([here, *filter(None, [env.get("PYTHONPATH")])])
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    with open(f"{out}.log", "w", encoding="utf-8") as f:
        f.write(done.stdout + done.stderr)
    if done.returncode:
        raise RunFailed(f"{plan.script} failed under {frame} (exit status {done.returncode}):\n{done.stderr[-2000:]}")
    return out


def verify(plan: Plan, tolerance: Tolerance | None = None) -> Comparison:
    """Run and compare. ``plan.against`` is a dump to use for PyTorch's run, needed where PyTorch is not installed.

    ValueError without PyTorch and without such a dump; RunFailed when the script fails.
    """
    os.makedirs(plan.out, exist_ok=True)
    if plan.against is None and not pytorch_installed():
        raise ValueError(
            "PyTorch is not installed here: record the script where it is (python -m mindtorch.tools.record --frame pytorch --out DIR "
            f"--steps {plan.steps} --seed {plan.seed} {plan.script}), then give that folder with --against DIR"
        )
    origin = plan.against or run(plan, frameworks.PYTORCH)
    target = run(plan, frameworks.MINDTORCH)
    if plan.format == "msprobe":
        for frame in (frameworks.MINDTORCH, *([] if plan.against else [frameworks.PYTORCH])):
            run(plan, frame, plan.format)
    return compare(origin, target, Options(tolerance or Tolerance(), with_tables=False))


def msprobe_hint(plan: Plan) -> str:
    """What to type to have msprobe compare the first step."""
    target, golden = (
        os.path.join(plan.out, "msprobe", f, "step0", f"rank{frameworks.rank()}", "dump.json") for f in (frameworks.MINDTORCH, frameworks.PYTORCH)
    )
    golden = golden if plan.against is None else "<dump.json of PyTorch's run>"
    return f"Dumps for msprobe: msprobe compare --target_path {target} --golden_path {golden} -o <folder>"


def step_table(result: Comparison) -> str:
    """One line per step: losses, and the largest relative difference of gradients, weights moved and calls."""
    rows = []
    for s in result.steps:
        a, b = s.rows.a, s.rows.b
        losses = [", ".join(f"{x:.6g}" for x in side.losses[:4]) for side in (a, b)]
        grads = _worst((u.grads, v.grads) for u, v in zip(a.updates, b.updates))
        moved = _worst((u.moved, v.moved) for u, v in zip(a.updates, b.updates))
        rows.append((s.step, *losses, _relative(a.losses, b.losses), grads, moved, len(s.rows.calls), len(s.unmatched)))
    columns = ("step", "loss (origin)", "loss (target)", "loss diff", "gradient diff", "update diff", "calls", "on one side")
    return grid(columns, rows)


def _relative(x: list[float], y: list[float]) -> str:
    pairs = list(zip(x, y))
    return f"{max(abs(p - q) / max(abs(p), abs(q), 1e-12) for p, q in pairs):.1e}" if pairs else "-"


def _worst(pairs: Any) -> str:
    """Largest relative difference of norms."""
    worst = -1.0
    for left, right in pairs:
        size = max((v[3] for v in left.values() if v), default=0.0)
        for name, v in left.items():
            w = right.get(name)
            if v and w and max(v[3], w[3]) > 1e-6 * size:
                worst = max(worst, abs(v[3] - w[3]) / max(v[3], w[3]))
    return "-" if worst < 0 else f"{worst:.1e}"
