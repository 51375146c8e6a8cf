"""``python -m mindtorch profile train.py``: every step split into data, host to device, forward, backward, optimiser."""

from __future__ import annotations

import argparse
import cProfile
import json
import os
import subprocess
import sys
import tempfile
from typing import Any

from mindtorch.cli import program


def _parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(
        prog="python -m mindtorch profile",
        description="Run a program with its steps timed, and say whether its DataLoader is the bottleneck and which num_workers "
        "would help.",
    )
    p.add_argument("--steps", type=int, metavar="N", help="end the program after N timed steps")
    p.add_argument("--try", dest="trial", action="store_true", help="run the program again with the recommended num_workers")
    p.add_argument("--workers", type=int, metavar="N", help="run with this num_workers instead of the program's own")
    p.add_argument("--loader", type=int, default=0, metavar="K", help="the loader that --workers means, in order of first use (0)")
    p.add_argument("--cprofile", action="store_true", help="write time_log.txt and show a table per function of mindtorch")
    p.add_argument("--sort", choices=("cumtime", "tottime"), default="cumtime", help="order of --cprofile: with callees, or own time")
    p.add_argument("--log", default="time_log.txt", metavar="FILE", help="what --cprofile writes (time_log.txt)")
    p.add_argument("--ops", type=int, nargs=1, metavar="ROWS", help="show the slowest ops, as torch.profiler's table")
    p.add_argument("--trace", metavar="FILE", help="write a trace for chrome://tracing or Perfetto")
    p.add_argument("--runtime", metavar="FOLDER", help="run under MindSpore's Runtime Profiler: csv, trace and summary of its kernels")
    p.add_argument("--html", metavar="FILE", help="write a page with timeline, split, operators, memory and environment (30 steps)")
    p.add_argument("--advice", action="store_true", help="with --html: also what 'python -m mindtorch tune' says")
    p.add_argument("--against", choices=("torch",), help="with --html: also PyTorch's times of the same ops")
    p.add_argument("--json", metavar="FILE", help="write the figures, times in seconds; with --html all that the page shows")
    p.add_argument("--quiet", action="store_true", help="print nothing")
    program.add(p)
    return p


class _Run:
    """One run of the program with what the options ask for around it."""

    def __init__(self, o: argparse.Namespace) -> None:
        from mindtorch.tools.timing.clock import StepClock
        from mindtorch.tools.timing.step_timer import LiveLine

        self.o = o
        self.live = None if o.quiet else LiveLine()
        self.clock = StepClock(o.steps, o.workers, o.loader, self.live)
        self.ops: Any = None
        self.functions = cProfile.Profile() if o.cprofile else None

    def __call__(self) -> Any:
        """Run; what the program's exit status is (None, a number or a text). Its exceptions pass through."""
        from mindtorch.cli import run, switch

        switch.install()
        switch.inherit()
        if self.o.ops or self.o.trace or self.o.html:
            from mindtorch.torch.profiler import profile

            whole = bool(self.o.html)
            self.ops = profile(record_shapes=True, profile_memory=whole, with_flops=whole)
            self.ops.start()
        self.clock.start()
        if self.functions is not None:
            self.functions.enable()
        try:
            run.script(self.o.script, self.o.args)
            return 0
        except SystemExit as e:
            return e.code
        finally:
            if self.functions is not None:
                self.functions.disable()
            self.clock.stop()
            if self.ops is not None:
                self.ops.stop()
            if self.live is not None:
                self.live.close()


def _again(o: argparse.Namespace, *options: str) -> dict[str, Any] | None:
    """Figures of another run of the program in a process of its own; None when it failed."""
    import mindtorch

    home = os.path.dirname(os.path.dirname(os.path.abspath(mindtorch.__file__)))
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in (home, os.environ.get("PYTHONPATH")) if p)}
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "again.json")
        command = [sys.executable, "-m", "mindtorch", "profile", "--quiet", "--json", path, *options]
        command += [*(["--steps", str(o.steps)] if o.steps else []), o.script, *o.args]
        done = subprocess.run(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
        if done.returncode or not os.path.exists(path):
            print(f"python -m mindtorch profile: the second run failed:\n{done.stderr[-2000:]}", file=sys.stderr)
            return None
        with open(path, encoding="utf-8") as file:
            return json.load(file)


def _trial(o: argparse.Namespace, workers: int, which: int) -> dict[str, Any] | None:
    """Figures of a run with ``workers``; None when it failed."""
    figures = _again(o, "--workers", str(workers), "--loader", str(which))
    return figures and {k: figures[k] for k in ("steps", "step", "data_time", "train_time")} | {"num_workers": workers}


def _advice(o: argparse.Namespace) -> dict[str, Any] | None:
    """What ``tune`` says about the program, in a process of its own; None when it could not be run."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "advice.json")
        command = [sys.executable, "-m", "mindtorch", "tune", "--json", path, o.script, *o.args]
        done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
        if not os.path.exists(path):
            print(f"python -m mindtorch profile: no advice, tune failed:\n{done.stderr[-2000:]}", file=sys.stderr)
            return None
        with open(path, encoding="utf-8") as file:
            return json.load(file)


def _page(o: argparse.Namespace, run: _Run, measured: dict[str, Any]) -> dict[str, Any]:
    """Write the page; what it shows. The split is that of a second run, which no profiler slows down."""
    from mindtorch.cli import settings
    from mindtorch.tools import frameworks, panel
    from mindtorch.tools.report import data, page

    plain = _again(o, *(["--workers", str(o.workers), "--loader", str(o.loader)] if o.workers is not None else []))
    theirs = panel.measure(o.script, o.args, frameworks.PYTORCH) if o.against else None
    advice = _advice(o) if o.advice else None
    made = data.build(
        run.ops, run.clock, plain or measured, os.path.basename(o.script), [*settings.versions(), *settings.lines()], theirs, advice
    )
    page.save(made, o.html)
    return made


def _report(o: argparse.Namespace, run: _Run) -> None:
    from mindtorch.tools.timing import functions, verdict

    split = verdict.Split(run.clock.steps)
    split.look_at_loader()
    if o.trial and split.recommended is not None and split.recommended != split.workers:
        which = next(i for i, x in enumerate(run.clock.loaders) if x is split.loader)
        split.trial = _trial(o, min(split.recommended, verdict.MANY), which)
    figures = split.as_json()
    texts = [verdict.text(split)]
    if run.functions is not None:
        functions.write_log(run.functions, o.log, o.sort)
        rows = functions.rows(run.functions, o.script, o.sort)
        figures["functions"] = [r._asdict() for r in rows]
        texts.append(f"{o.log} written, sorted by {o.sort}.\n" + functions.text(rows))
    if o.ops:
        texts.append(run.ops.key_averages().table(sort_by="self_cpu_time_total", row_limit=o.ops[0]))
    if o.trace:
        run.ops.export_chrome_trace(o.trace)
    if o.html:
        figures = {**figures, **_page(o, run, figures)}
        texts.append(f"{o.html} written.")
    if o.json:
        with open(o.json, "w", encoding="utf-8") as file:
            json.dump(figures, file, indent=1)
    if not o.quiet:
        print("\n".join(texts), flush=True)


def _runtime(o: argparse.Namespace) -> int:
    from mindtorch.tools import runtime_run

    summary, status = runtime_run.profile(o.script, o.args, o.runtime)
    if summary is None:
        print(
            "python -m mindtorch profile: MindSpore recorded nothing; where host kernels are faster, mindtorch does not ask it. "
            "MINDTORCH_KERNELS=mindspore makes it compute all it can.",
            file=sys.stderr,
        )
        return status or 1
    if not o.quiet:
        print(f"{summary.text()}\nwritten: {os.path.join(o.runtime, 'runtime.csv')} and runtime.json (for chrome://tracing)")
    return status


def main(argv: list[str]) -> int:
    """Exit status: the program's; 2 when it could not be read."""
    o = _parser().parse_args(argv)
    if not os.path.exists(o.script):
        print(f"python -m mindtorch profile: can't open file {o.script!r}", file=sys.stderr)
        return 2
    if o.workers is not None and o.workers < 0:
        print(f"python -m mindtorch profile: --workers must be at least 0, got {o.workers}", file=sys.stderr)
        return 2
    if (o.advice or o.against) and not o.html:
        print("python -m mindtorch profile: --advice and --against are parts of the page: give --html FILE", file=sys.stderr)
        return 2
    if o.html and o.steps is None:
        o.steps = 30  # every op of every step is kept
    o.script = os.path.abspath(o.script)
    if o.runtime:
        return _runtime(o)
    run = _Run(o)
    try:
        status = run()
    except BaseException:
        if run.clock.steps:
            _report(o, run)
        raise
    _report(o, run)
    if status is None or isinstance(status, int):
        return status or 0
    print(status, file=sys.stderr)
    return 1


def report(argv: list[str]) -> int:
    """``python -m mindtorch report train.py``: profile with a page, report.html unless told otherwise, and advice in it."""
    options = [] if any(a == "--html" or a.startswith("--html=") for a in argv) else ["--html", "report.html"]
    return main([*options, "--advice", *argv])
