"""Which kernel is fastest here, per op and size, and whether the one mindtorch takes is it: ``python benchmarks/kernels.py``.

Four processes are asked in turn: mindtorch with NumPy kernels only, with compiled (numba) kernels from the first call, as
shipped, and MindSpore's own ops (convolutions: mindtorch with ``MINDTORCH_KERNELS=mindspore``). A choice agrees when it is
within 1.3 of the fastest option whose numbers are right.

``--against torch``: instead, about 130 frequent operations in three sizes beside PyTorch, slowest ratio first.
Both take names of ops to restrict them to, ``--threads N`` (default 1) and ``--json FILE``.
"""

from __future__ import annotations

import json
import math
import statistics
import sys
from typing import Any

import kernel_cases
import numpy as np
import op_cases
from side_by_side import Side, argument, compare, serve, write_json

OPTIONS = {
    "numpy": {"MINDTORCH_NUMBA": "0", "MINDTORCH_KERNELS": "host"},
    "numba": {"MINDTORCH_NUMBA": "1", "MINDTORCH_KERNELS": "host"},
    "mindspore": {"MINDTORCH_NUMBA": "0", "MINDTORCH_KERNELS": "mindspore"},
    "shipped": {},
}
TOLERANCE = 5e-7
"""Largest error, relative to the largest value, of a MindSpore result that may stand in for ours."""
NEAR = 1.3
"""Two options this close are as good as each other on a shared machine."""


def _as_array(result: Any) -> np.ndarray:
    if isinstance(result, (tuple, list)):
        result = result[0]
    return np.asarray(result if isinstance(result, np.ndarray) else result.detach().numpy(), np.float64)


def _error(ours: Any, theirs: Any) -> float:
    a, b = _as_array(ours), _as_array(theirs)
    return math.inf if a.shape != b.shape else float(np.abs(a - b).max() / max(np.abs(a).max(), 1e-30))


def _mindspore_side(torch: Any) -> dict[str, Any]:
    """MindSpore's ops whose numbers are ours, and our convolutions computed by it."""
    ours = kernel_cases.build(torch)
    convs = {name: fn for name, fn in ours.items() if name.startswith("conv")}
    theirs = kernel_cases.build_mindspore(torch)
    wrong = {name: e for name, fn in theirs.items() if (e := _error(ours[name](), fn())) > TOLERANCE}
    print(json.dumps(wrong), file=sys.stderr, flush=True)
    return {**convs, **{name: fn for name, fn in theirs.items() if name not in wrong}}


def _measure(sides: dict[str, Side], name: str, budget: float, rounds: int) -> dict[str, float]:
    """Smallest seconds per option: what a kernel can do, whoever else computes meanwhile."""
    counts = {}
    for label, side in sides.items():
        one = side.time(name, 3)
        side.time(name, max(1, min(450, int(10 * budget / one))))
        counts[label] = max(1, min(5000, int(budget / max(side.time(name, 3), 1e-7))))
    got: dict[str, list[float]] = {label: [] for label in sides}
    for _ in range(rounds):
        for label, side in sides.items():
            got[label].append(side.time(name, counts[label]))
    return {label: min(v) for label, v in got.items()}


def choices(only: list[str], threads: int) -> None:
    """The table of choices."""
    sides = {label: Side(__file__, f"mindtorch.torch={label}", threads, env) for label, env in OPTIONS.items()}
    table: dict[str, dict[str, Any]] = {}
    for name in sides["shipped"].names:
        if only and name not in only and name.split(":")[0] not in only:
            continue
        got = _measure({k: s for k, s in sides.items() if name in s.names}, name, 0.01, 5)
        rest = {k: v for k, v in got.items() if k != "shipped"}
        best = min(rest, key=lambda k: rest[k])
        agrees = got["shipped"] <= NEAR * rest[best]
        table[name] = {**got, "best": best, "agrees": agrees}
        times = "  ".join(f"{k} {v * 1e6:10.1f}" for k, v in got.items())
        print(f"{name:22s} {times} us   best {best:9s} {'agrees' if agrees else 'DISAGREES'}", flush=True)
    for side in sides.values():
        side.close()
    bad = [k for k, v in table.items() if not v["agrees"]]
    print(f"{len(table) - len(bad)} of {len(table)} choices agree with this machine; not: {', '.join(bad) or 'none'}")
    write_json(f"kernels_{threads}_threads", table)


def against_torch(only: list[str], threads: int) -> None:
    """The table of frequent operations beside PyTorch."""
    got = compare(__file__, threads, 0.002, 15, only)
    ratios = {k: a / b for k, (a, b) in got.items()}
    for k, (a, b) in sorted(got.items(), key=lambda kv: -ratios[kv[0]]):
        print(f"{k:20s} mindtorch {a * 1e6:10.2f} us   PyTorch {b * 1e6:10.2f} us   ratio {ratios[k]:.2f}")
    for size in op_cases.SHAPES:
        part = sorted(r for k, r in ratios.items() if k.endswith(f":{size}"))
        if part:
            mean = math.exp(sum(map(math.log, part)) / len(part))
            print(f"size {size}: {len(part)} operations, geometric mean {mean:.2f}, median {statistics.median(part):.2f}, over 2: {sum(r > 2 for r in part)}")
    write_json("operations", {k: {"mindtorch": a, "pytorch": b, "ratio": ratios[k]} for k, (a, b) in got.items()})


def main() -> None:
    """Read the command line; as a child process, serve."""
    if "--serve" in sys.argv:
        package, _, label = argument("--serve").partition("=")
        sys.argv[sys.argv.index("--serve") + 1] = package
        serve(op_cases.build if not label else _mindspore_side if label == "mindspore" else kernel_cases.build)
        return
    words, skip = [], False
    for w in sys.argv[1:]:
        if skip or w.startswith("--"):
            skip = not skip
            continue
        words.append(w)
    threads = int(argument("--threads", "1"))
    if argument("--against") == "torch":
        against_torch(words, threads)
    else:
        choices(words, threads)


if __name__ == "__main__":
    main()
