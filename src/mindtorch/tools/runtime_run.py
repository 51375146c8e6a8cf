"""Runs a program with MindSpore's Runtime Profiler on, and marks its phases beside MindSpore's records."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from time import time_ns
from typing import Any

from mindtorch.core import observe
from mindtorch.tools import runtime_files as files

_PHASES = {"backward": "backward", "optimizer": "optimizer", "data": "data", "transfer": "transfer"}


class Marks:
    """Listens to the phases of the program; forward is what outermost modules do outside the others."""

    nodes = False
    parent_only = True

    def __init__(self, step: Callable[[], None] = lambda: None) -> None:
        self.step = step
        self.phases: list[files.Phase] = []
        self._depth = 0
        self._forward = 0

    def enter(self, kind: str, name: str, what: Any) -> tuple[str | None, int, bool]:
        return _PHASES.get(kind), time_ns(), kind == "optimizer" and name.endswith(".step")

    def leave(self, token: tuple[str | None, int, bool]) -> None:
        if token[0] is not None:
            self.phases.append(files.Phase(token[0], token[1], time_ns()))
        if token[2]:
            self.step()

    def module_enter(self) -> None:
        self._depth += 1
        if self._depth == 1:
            self._forward = time_ns()

    def module_leave(self) -> None:
        self._depth -= 1
        if self._depth == 0:
            self.phases.append(files.Phase("forward", self._forward, time_ns()))


def inside(run: Callable[[], None], marks_file: str) -> None:
    """What the started process does."""
    from mindtorch.cli import switch
    from mindtorch.engine.mindspore import runtime_profiler

    switch.install()
    from mindtorch.torch.nn.modules import module

    def step() -> None:
        runtime_profiler.stop()
        runtime_profiler.start()

    marks = Marks(step)
    observe.RANGES.append(marks)
    module.register_module_forward_pre_hook(lambda m, a: marks.module_enter())
    module.register_module_forward_hook(lambda m, a, o: marks.module_leave(), always_call=True)
    runtime_profiler.start()
    try:
        run()
    finally:
        runtime_profiler.stop()
        observe.RANGES.remove(marks)
        with open(marks_file, "w", encoding="utf-8") as f:
            json.dump([(p.name, p.start, p.end) for p in marks.phases], f)


def profile(script: str, args: Sequence[str], folder: str) -> tuple[files.Summary | None, int]:
    """Run ``script`` in a process of its own; files go to ``folder``: MindSpore's three, ``runtime.csv``, ``runtime.json`` (the
    merged trace). Returns the summary, None when MindSpore computed nothing, and the program's exit status."""
    os.makedirs(folder, exist_ok=True)
    marks = os.path.join(folder, "phases.json")
    home = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    path = os.pathsep.join(p for p in (home, os.environ.get("PYTHONPATH")) if p)
    env = {**os.environ, "PYTHONPATH": path, "MS_ENABLE_RUNTIME_PROFILER": "1", "MS_DEV_SAVE_GRAPHS_PATH": os.path.abspath(folder)}
    call = f"lambda: run.script({os.path.abspath(script)!r}, {list(args)!r})"
    program = f"from mindtorch.cli import run; from mindtorch.tools.runtime_run import inside; inside({call}, {os.path.abspath(marks)!r})"
    done = subprocess.run([sys.executable, "-c", program], env=env, check=False)
    try:
        sets = files.find(folder)
    except FileNotFoundError:
        return None, done.returncode
    with open(marks, encoding="utf-8") as f:
        phases = [files.Phase(*p) for p in json.load(f)]
    summary, detail, trace = sets[-1]
    records = files.read_detail(detail)
    files.write_csv(records, os.path.join(folder, "runtime.csv"), phases)
    files.merge_trace([trace], os.path.join(folder, "runtime.json"), phases)
    return files.summarise(records, files.read_summary(summary), phases), done.returncode
