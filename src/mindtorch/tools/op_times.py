"""Times of the ops of a script on one of the frameworks: ``python -m mindtorch.tools.op_times``, which `panel` starts.

What is counted is what both frameworks name alike: ops that no other op called, nodes of backward passes, and calls of optimisers,
each with all that happens inside. What they are made of differs between the frameworks.
"""

from __future__ import annotations

import argparse
import csv
import glob
import json
import os
import runpy
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from mindtorch.tools import frameworks

_NODE = "autograd::engine::evaluate_function: "
_OWN = ("aten::", "mindtorch::", "torchvision::")


@dataclass
class OpTime:
    """Calls of one op with one set of shapes. Times in microseconds, ``bytes`` and ``flops`` summed over the calls."""

    op: str
    phase: str
    """ "forward", "backward" or "optimizer"."""
    shapes: str
    calls: int = 0
    total: float = 0.0
    kernel: str = ""
    flops: int = 0
    bytes: int = 0
    prepared: float = 0.0
    """Microseconds of compiling or loading kernels, which ``total`` is without: a second run does not pay for it."""


@dataclass
class KernelTime:
    """A kernel of MindSpore's by its own profiler: times in microseconds."""

    kernel: str
    calls: int
    total: float
    mean: float


def read_kernels(folder: str) -> list[KernelTime]:
    """Kernels of a recording of ``mindspore.profiler``, longest first; none when MindSpore computed nothing."""
    found: dict[str, KernelTime] = {}
    for path in glob.glob(os.path.join(glob.escape(folder), "**", "cpu_op_type_info_*.csv"), recursive=True):
        with open(path, encoding="utf-8", newline="") as f:
            for row in csv.DictReader(f):
                k = found.setdefault(row["op_type"], KernelTime(row["op_type"], 0, 0.0, 0.0))
                k.calls += int(row["type_occurrences"])
                k.total += float(row["total_compute_time"]) * 1e3
                k.mean = k.total / k.calls
    return sorted(found.values(), key=lambda k: -k.total)


def _phase(e: Any) -> str | None:
    """The phase of an event that is counted, None for the others."""
    if e.name.startswith(_NODE):
        return "backward"
    if e.name.startswith(("Optimizer.step#", "Optimizer.zero_grad#")):
        return "optimizer"
    return "forward" if e.name.startswith(_OWN) else None


def _kernels(e: Any, found: list[str]) -> list[str]:
    """Kernels of an event and of all it called, in order of first use. PyTorch's events name none."""
    for name in getattr(e, "kernel", "").split(" + "):
        if name and name != "view" and name not in found:
            found.append(name)
    for c in e.cpu_children:
        _kernels(c, found)
    return found


def _prepared(e: Any) -> float:
    return getattr(e, "prepared", 0) / 1e3 + sum(_prepared(c) for c in e.cpu_children)


def _flops(e: Any) -> int:
    return (e.flops or 0) + sum(_flops(c) for c in e.cpu_children)


def counted(events: Iterable[Any]) -> list[Any]:
    """Of a profiler's events the outermost ones that are ops, nodes or calls of an optimiser."""
    keep: list[Any] = []
    inside: set[int] = set()  # events in a counted one: parents come before what they called
    for e in events:
        parent = e.cpu_parent
        if parent is not None and id(parent) in inside:
            inside.add(id(e))
        elif _phase(e) is not None:
            keep.append(e)
            inside.add(id(e))
    return keep


def steady(events: list[Any]) -> list[Any]:
    """Events behind the first step of an optimiser, when there are three or more steps: the first one pays for preparations."""
    ends = sorted(e.time_range.end for e in events if e.name.startswith("Optimizer.step#"))
    return [e for e in events if e.time_range.start >= ends[0]] if len(ends) >= 3 else events


def summed(events: Iterable[Any]) -> list[OpTime]:
    """Counted events added up by op, phase and shapes."""
    sums: dict[tuple[str, str, str], OpTime] = {}
    for e in events:
        phase = _phase(e) or ""
        name = e.name.removeprefix(_NODE)
        shapes = str(e.input_shapes) if phase == "forward" and any(e.input_shapes or ()) else ""
        s = sums.setdefault((name, phase, shapes), OpTime(name, phase, shapes))
        s.calls += 1
        prepared = _prepared(e)
        s.prepared += prepared
        s.total += max(e.time_range.elapsed_us() - prepared, 0.0)
        s.flops += _flops(e)
        s.bytes += max(e.cpu_memory_usage, 0)
        kernels = _kernels(e, [k for k in s.kernel.split(", ") if k])
        s.kernel = ", ".join(kernels or (["view"] if getattr(e, "kernel", "") == "view" else []))
    return sorted(sums.values(), key=lambda s: -s.total)


def measure(frame: str, script: str, args: list[str]) -> list[OpTime]:
    """Run ``script`` as ``__main__`` under the profiler of ``frame``. What it raises is raised again, but for SystemExit."""
    if frame == frameworks.MINDTORCH:
        from mindtorch.cli import switch

        switch.install()
        switch.inherit()
    torch = frameworks.load(frame)
    activities = [torch.profiler.ProfilerActivity.CPU]
    sys.argv = [script, *args]
    sys.path.insert(0, os.path.dirname(os.path.abspath(script)))
    p = torch.profiler.profile(activities=activities, record_shapes=True, profile_memory=True, with_flops=True)
    p.start()
    try:
        runpy.run_path(script, run_name="__main__")
    except SystemExit:
        pass
    finally:
        p.stop()
    return summed(steady(counted(p.events())))


def main(argv: list[str] | None = None) -> None:
    """Command line: writes a list of `OpTime` as JSON."""
    p = argparse.ArgumentParser(prog="python -m mindtorch.tools.op_times", description=(__doc__ or "").replace("``", "'"))
    p.add_argument("--frame", choices=frameworks.FRAMEWORKS, required=True)
    p.add_argument("--out", required=True, metavar="FILE")
    p.add_argument("--kernels", metavar="FILE", help="also write what MindSpore's own profiler says of its kernels")
    p.add_argument("script")
    p.add_argument("args", nargs=argparse.REMAINDER)
    o = p.parse_args(argv)
    if o.kernels:
        from mindtorch.engine.mindspore import runtime_profiler

        with tempfile.TemporaryDirectory() as folder:
            with runtime_profiler.kernels(folder):
                found = measure(o.frame, o.script, o.args)
            kernels = read_kernels(folder)
        with open(o.kernels, "w", encoding="utf-8") as f:
            json.dump([asdict(k) for k in kernels], f)
    else:
        found = measure(o.frame, o.script, o.args)
    with open(o.out, "w", encoding="utf-8") as f:
        json.dump([asdict(s) for s in found], f)


if __name__ == "__main__":
    main()
