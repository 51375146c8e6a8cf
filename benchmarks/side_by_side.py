"""Runs the same code in PyTorch and in mindtorch in two processes, asked in turn, and prints medians and their ratio.

One process cannot hold both fairly (thread pools, allocators), and two runs one after the other see different machines.
"""

from __future__ import annotations

import importlib
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np


def serve(build: Callable[[Any], dict[str, Callable[[], Any]]]) -> None:
    """Child: answer "name count" lines with seconds per call."""
    torch = importlib.import_module(sys.argv[2])
    torch.set_num_threads(int(sys.argv[3]))
    cases = build(torch)
    print(json.dumps(sorted(cases)), flush=True)
    for line in sys.stdin:
        name, count = line.split()
        fn = cases[name]
        t = time.perf_counter()
        for _ in range(int(count)):
            fn()
        print((time.perf_counter() - t) / int(count), flush=True)


def argument(name: str, default: str = "") -> str:
    """The word after ``name`` on the command line."""
    return sys.argv[sys.argv.index(name) + 1] if name in sys.argv else default


def write_json(section: str, result: Any) -> None:
    """Put ``result`` under ``section`` into the file named by ``--json`` (other sections stay)."""
    path = argument("--json")
    if not path:
        return
    whole: dict[str, Any] = {}
    if os.path.exists(path):
        with open(path) as f:
            whole = json.load(f)
    whole["machine"] = {"processor": _processor(), "cpus": os.cpu_count(), "python": platform.python_version(), "numpy": np.__version__}
    whole[section] = result
    with open(path, "w") as f:
        json.dump(whole, f, indent=1)
        f.write("\n")


def _processor() -> str:
    """The CPU's name and its widest vectors."""
    try:
        with open("/proc/cpuinfo") as f:
            text = f.read()
    except OSError:
        return platform.processor()
    names = [line.split(":", 1)[1].strip() for line in text.splitlines() if line.startswith("model name")]
    return f"{(names or [platform.machine()])[0]}, {'AVX-512' if ' avx512f' in text else 'AVX2' if ' avx2' in text else 'no AVX2'}"


class Side:
    """One of the processes asked in turn."""

    def __init__(self, script: str, package: str, threads: int, more: dict[str, str] | None = None) -> None:
        env = {**os.environ, "OMP_NUM_THREADS": str(threads), "OPENBLAS_NUM_THREADS": str(threads), **(more or {})}
        cmd = [sys.executable, script, "--serve", package, str(threads)]
        self.p = subprocess.Popen(cmd, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env)
        self.names: list[str] = json.loads(self._line())

    def _line(self) -> str:
        assert self.p.stdout is not None
        line = self.p.stdout.readline()
        if not line:
            raise RuntimeError("a benchmark process ended early")
        return line

    def time(self, name: str, count: int) -> float:
        """Seconds per call over ``count`` calls."""
        assert self.p.stdin is not None
        self.p.stdin.write(f"{name} {count}\n")
        self.p.stdin.flush()
        return float(self._line())

    def close(self) -> None:
        """End the process."""
        assert self.p.stdin is not None
        self.p.stdin.close()
        self.p.wait()


def compare(
    script: str,
    threads: int,
    budget: float = 0.002,
    rounds: int = 61,
    only: list[str] | None = None,
    statistic: Callable[[Any], float] = statistics.median,
) -> dict[str, tuple[float, float]]:
    """Median seconds per call of (mindtorch, PyTorch) for every case (or those named, with or without size).

    Samples of ``budget`` seconds alternate between the sides. Short ones, shorter than a scheduler's time slice, make the
    median trustworthy while other programs compute; for steps longer than that the minimum is.
    """
    ours, theirs = Side(script, "mindtorch.torch", threads), Side(script, "torch", threads)
    out: dict[str, tuple[float, float]] = {}
    for name in ours.names:
        if only and name not in only and name.split(":")[0] not in only:
            continue
        counts = []
        for side in (ours, theirs):
            # Kernels are compiled once they have seen enough calls: what is measured is the state after that.
            one = side.time(name, 3)
            side.time(name, max(1, min(450, int(max(10 * budget, 0.08) / one))))
            one = side.time(name, 3)
            counts.append(max(1, min(5000, int(budget / max(one, 1e-7)))))
            side.time(name, counts[-1])
        pairs = [(ours.time(name, counts[0]), theirs.time(name, counts[1])) for _ in range(rounds)]
        out[name] = (statistic([a for a, _ in pairs]), statistic([b for _, b in pairs]))
    ours.close()
    theirs.close()
    return out
