"""Runs PyTorch's op_db through mindtorch's public API and writes docs/conformance.md and docs/conformance.json.

Inputs, outputs and gradients are recorded from PyTorch and replayed here (tests/ops/opinfo_replay.py), in worker
processes that are replaced when they die, so that a crash or a hang fails that op only. Usage: ``python scripts/conformance.py [regex] [--jobs 2]``.
"""

from __future__ import annotations

import argparse
import inspect
import json
import queue
import re
import select
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SPACES = (
    "torch", "torch.Tensor", "torch.nn", "torch.nn.functional", "torch.linalg", "torch.fft", "torch.special", "torch.optim",
    "torch.optim.lr_scheduler", "torch.autograd", "torch.utils.data", "torch.distributions", "torch.func", "torch.amp",
)  # fmt: skip

DTYPES = ("float32", "int64", "complex64", "bool", "bfloat16", "uint8", "int8")


def worker() -> None:
    """Child: answer op names from standard input with one line of json each."""
    import warnings

    warnings.simplefilter("ignore")
    sys.path.insert(0, str(ROOT / "tests" / "ops"))
    import opinfo_replay as replay

    import torch

    torch.set_num_threads(1)
    print("ready", flush=True)
    for line in sys.stdin:
        print(json.dumps(_check(replay, torch, line.strip())), flush=True)


def _check(replay: Any, torch: Any, name: str) -> dict[str, Any]:
    if name.startswith(("_", "jiterator", "torch.", "ops.aten", "sparse.")) and not name.startswith("__"):
        return {"status": "skipped", "why": "private, CUDA only, or a view of another entry"}
    entries = replay.database()[name]
    dtype = next((d for d in DTYPES if getattr(torch, d) in entries[0].supported_dtypes("cpu")), None)
    if dtype is None:
        return {"status": "skipped", "why": "no CPU dtype"}
    try:
        n = replay.check_op(name, getattr(torch, dtype), limit=12)
    except Exception as e:
        kind = "absent" if isinstance(e, AttributeError) else "wrong" if isinstance(e, AssertionError) else "error"
        return {"status": kind, "why": f"{type(e).__name__}: {e}"[:200].replace("\n", " ")}
    return {"status": "pass", "samples": n, "dtype": dtype}


class Worker:
    """A child process that is replaced when an op kills it or hangs."""

    def __init__(self) -> None:
        cmd = [sys.executable, __file__, "--worker"]
        self.p = subprocess.Popen(cmd, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.line(120)

    def line(self, timeout: float) -> bytes:
        """One line of the child, b"" when it died or the time is up."""
        assert self.p.stdout is not None
        ready, _, _ = select.select([self.p.stdout], [], [], timeout)
        return self.p.stdout.readline() if ready else b""

    def ask(self, name: str, timeout: float = 90) -> dict[str, Any] | None:
        """The child's answer, None when there is none (the child is ended then)."""
        assert self.p.stdin is not None
        self.p.stdin.write(f"{name}\n".encode())
        self.p.stdin.flush()
        got = self.line(timeout)
        if not got:
            self.p.kill()
            self.p.wait()
            return None
        return json.loads(got)


def run_all(entries: list[str], jobs: int) -> dict[str, Any]:
    """Results of all entries by name."""
    todo: queue.Queue[str] = queue.Queue()
    for e in entries:
        todo.put(e)
    out: dict[str, Any] = {}

    def loop() -> None:
        w = Worker()
        while True:
            try:
                name = todo.get_nowait()
            except queue.Empty:
                w.p.kill()
                return
            got = w.ask(name)
            if got is None:
                got = {"status": "crash or hang", "why": "the process died or gave no answer in 90 s"}
                w = Worker()
            out[name] = got

    threads = [threading.Thread(target=loop) for _ in range(jobs)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return {e: out[e] for e in entries}


def names() -> dict[str, dict[str, str]]:
    """Public names of PyTorch per namespace: "works" when mindtorch has them, else "absent"."""
    import importlib

    import mindtorch.torch as mt
    import torch  # noqa: F401

    out: dict[str, dict[str, str]] = {}
    for space in SPACES:
        theirs: Any = importlib.import_module("torch")
        ours: Any = mt
        for part in space.split(".")[1:]:
            theirs, ours = getattr(theirs, part), getattr(ours, part, None)
        public = [n for n in dir(theirs) if not n.startswith("_") and not inspect.ismodule(getattr(theirs, n, None))]
        out[space] = {n: "present" if hasattr(ours, n) else "absent" for n in public}
    return out


def main() -> None:
    """Run, write both files, print the totals."""
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("regex", nargs="?", default="")
    ap.add_argument("--jobs", type=int, default=2)
    ap.add_argument("--worker", action="store_true")
    args = ap.parse_args()
    if args.worker:
        worker()
        return
    from torch.testing._internal.common_methods_invocations import op_db

    entries = sorted({o.name for o in op_db})
    entries = [e for e in entries if re.search(args.regex, e)]
    results = run_all(entries, args.jobs)
    write(results, names())


def write(results: dict[str, Any], spaces: dict[str, dict[str, str]]) -> None:
    """docs/conformance.json and docs/conformance.md."""
    total = len(results)
    good = sum(r["status"] == "pass" for r in results.values())
    tried = sum(r["status"] != "skipped" for r in results.values())
    docs = ROOT / "docs"
    docs.joinpath("conformance.json").write_text(json.dumps({"ops": results, "names": spaces}, indent=1), encoding="utf-8")
    lines = ["# Conformance", "", f"op_db entries: {total}, tried {tried}, value + dtype + gradient right: {good}.", ""]
    lines += ["| namespace | public names in PyTorch | present | absent |", "|---|---|---|---|"]
    for s, d in spaces.items():
        have = sum(v == "present" for v in d.values())
        lines.append(f"| {s} | {len(d)} | {have} | {len(d) - have} |")
    lines += ["", "## Op entries that do not pass", "", "| entry | status | reason |", "|---|---|---|"]
    for n, r in results.items():
        if r["status"] not in ("pass",):
            lines.append(f"| {n} | {r['status']} | {str(r.get('why', '')).replace('|', '/')[:160]} |")
    lines += ["", "## Absent names", ""]
    for s, d in spaces.items():
        gone = [n for n, v in d.items() if v == "absent"]
        lines.append(f"- **{s}**: {', '.join(gone) or 'none'}")
    docs.joinpath("conformance.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(lines[2])


if __name__ == "__main__":
    main()
