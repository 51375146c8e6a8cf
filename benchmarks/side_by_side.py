"""Runs the same code in PyTorch and in mindtorch in two processes, asked in turn, and prints medians and their ratio.

One process cannot hold both fairly (thread pools, allocators), and two runs one after the other see different machines.
"""

from __future__ import annotations

import importlib
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any


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


class Side:
    """One of the two processes."""

    def __init__(self, script: str, package: str, threads: int) -> None:
        env = {**os.environ, "OMP_NUM_THREADS": str(threads), "OPENBLAS_NUM_THREADS": str(threads)}
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


def compare(script: str, threads: int, budget: float = 0.02, rounds: int = 15) -> dict[str, tuple[float, float]]:
    """Median seconds per call of (mindtorch, PyTorch) for every case, measured in alternation."""
    ours, theirs = Side(script, "mindtorch.torch", threads), Side(script, "torch", threads)
    out: dict[str, tuple[float, float]] = {}
    for name in ours.names:
        counts = []
        for side in (ours, theirs):
            side.time(name, 3)
            one = side.time(name, 3)
            counts.append(max(1, min(5000, int(budget / max(one, 1e-7)))))
            side.time(name, counts[-1])
        pairs = [(ours.time(name, counts[0]), theirs.time(name, counts[1])) for _ in range(rounds)]
        out[name] = (statistics.median(a for a, _ in pairs), statistics.median(b for _, b in pairs))
    ours.close()
    theirs.close()
    return out
