"""Runs PyTorch's op_db through mindtorch's public API and writes docs/conformance.md and docs/conformance.json.

Inputs, outputs and gradients are recorded from PyTorch and replayed here (tests/ops/opinfo_replay.py), in worker
processes that are replaced when they die, so that a crash or a hang fails that op only. Random ops draw the same numbers,
so their values are compared too. Usage: ``python scripts/conformance.py [regex] [--jobs 2] [--beside other.json]``.
"""

from __future__ import annotations

import argparse
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
_ATEN = dict.fromkeys(
    ("max_pool2d_with_indices_backward", "native_dropout_backward", "slice"), "an internal overload without a public name"
)
_NOT_HERE = {
    ("chalf", AssertionError): "complex32 is no NumPy type; chalf() gives complex64",
    ("to_sparse", AttributeError): "sparse layouts",
}
DTYPES = ("float32", "int64", "complex64", "bool", "bfloat16", "uint8", "int8")


def worker(engine: str | None) -> None:
    """Child: answer op names from standard input with one line of json each."""
    import warnings

    import conformance_engines as engines

    warnings.simplefilter("ignore")
    if engine:
        engines.environment(engine)
    sys.path.insert(0, str(ROOT / "tests" / "ops"))
    import opinfo_replay as replay

    import torch

    torch.set_num_threads(1)
    if engine:
        engines.prepare(replay, engine)
    print("ready", flush=True)
    for line in sys.stdin:
        engines.start()
        got = _check(replay, torch, line.strip(), (engines.LIMIT, engines.SCALE) if engine else (48, 1.0))
        print(json.dumps({**got, "rows": engines.seen()} if engine else got), flush=True)


def full_name(entry: Any) -> str:
    """Name of an op_db entry with its variant: ``std_mean.unbiased``."""
    return entry.name + (f".{entry.variant_test_name}" if entry.variant_test_name else "")


def not_measured(name: str) -> str:
    """Why an entry is left out, "" when it is measured."""
    if name.startswith("jiterator"):
        return "compiles CUDA code"
    if name.startswith("_") and not name.startswith("__"):
        return "private name"
    if name.startswith("sparse."):
        return "sparse layouts"
    if name.startswith(("torch.", "ops.aten")):
        return "private overload"
    return _ATEN.get(name, "")


def _check(replay: Any, torch: Any, full: str, how: tuple[int, float]) -> dict[str, Any]:
    entry = next(e for e in replay.all_entries() if full_name(e) == full)
    return {"op": entry.name, **_verdict(replay, torch, full, entry, how)}


def _verdict(replay: Any, torch: Any, full: str, entry: Any, how: tuple[int, float]) -> dict[str, Any]:
    supported = entry.supported_dtypes("cpu")
    for dtype in (getattr(torch, d) for d in DTYPES):
        if dtype not in supported:
            continue
        try:
            n = replay.check_entry(entry, dtype, *how)
        except replay.NoSamples:
            continue
        except Exception as e:
            if (full, type(e)) in _NOT_HERE:
                return {"status": "absent", "why": _NOT_HERE[full, type(e)]}
            kind = "absent" if isinstance(e, AttributeError) else "wrong" if isinstance(e, AssertionError) else "error"
            return {"status": kind, "why": f"{type(e).__name__}: {e}"[:300].replace("\n", " ")}
        return {"status": "pass", "samples": n, "dtype": str(dtype)[6:]}
    return {"status": "skipped", "why": "no samples in a CPU dtype"}


class Worker:
    """A child process that is replaced when an op kills it or hangs."""

    def __init__(self, engine: str | None = None) -> None:
        cmd = [sys.executable, __file__, "--worker", *(["--engine", engine] if engine else [])]
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


def run_all(entries: list[str], jobs: int, engine: str | None = None) -> dict[str, Any]:
    """Results of all entries by name."""
    todo: queue.Queue[str] = queue.Queue()
    for e in entries:
        todo.put(e)
    out: dict[str, Any] = {}

    def loop() -> None:
        w = Worker(engine)
        while True:
            try:
                name = todo.get_nowait()
            except queue.Empty:
                w.p.kill()
                return
            limit = 600 if engine else 90  # a kernel of MindSpore's takes its time, more so on a busy machine
            got = w.ask(name, limit)
            if got is None:
                got = {"status": "crash or hang", "why": f"the process died or gave no answer in {limit} s"}
                w = Worker(engine)
            out[name] = got

    threads = [threading.Thread(target=loop) for _ in range(jobs)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return {e: out[e] for e in entries}


def entries(regex: str) -> dict[str, str]:
    """Names of op_db's entries with their variants, each with the reason it is not measured ("" when it is)."""
    from torch.testing._internal.common_methods_invocations import op_db

    found = dict.fromkeys(full_name(o) for o in op_db)
    return {n: not_measured(n) for n in found if re.search(regex, n)}


def differences(ours: dict[str, Any], beside: dict[str, Any]) -> list[str]:
    """Entries both instruments measured with different verdicts."""
    out = []
    for name, other in beside["ops"].items():
        if name in ours and ours[name]["status"] != "skipped":
            theirs = other["both"] == "pass" and other["strict"]
            if theirs != (ours[name]["status"] == "pass"):
                out.append(f"{name}: here {ours[name]['status']}, there {'pass' if theirs else 'no pass'}")
    return out


def main() -> None:
    """Run, write both files, print the totals."""
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("regex", nargs="?", default="", help="measure only entries that match, and write nothing")
    ap.add_argument("--jobs", type=int, default=2)
    ap.add_argument("--beside", help="json of a second instrument (ops -> both, strict), compared entry by entry")
    ap.add_argument("--engine", choices=["npu-sim", "mindspore"], help="measure MindSpore's kernels (conformance_engines.py)")
    ap.add_argument("--page", action="store_true", help="measure nothing: write the page again from docs/conformance.json")
    ap.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    args = ap.parse_args()
    if args.worker:
        worker(args.engine)
        return
    if args.page:
        import conformance_page

        conformance_page.rewrite(ROOT)
        return
    wanted = entries(args.regex)
    measured = run_all([n for n, why in wanted.items() if not why], args.jobs, args.engine)
    results = {n: {"status": "skipped", "why": why} if why else measured[n] for n, why in wanted.items()}
    if args.regex:
        for n, r in results.items():
            print(n, r["status"], r.get("why", ""), r.get("rows", ""))
        return
    import conformance_page

    if args.engine:
        print(conformance_page.write_engine(ROOT, args.engine, results))
        return
    beside = json.loads(Path(args.beside).read_text(encoding="utf-8")) if args.beside else None
    print(conformance_page.write(ROOT, results, beside, differences(results, beside) if beside else None))


if __name__ == "__main__":
    main()
