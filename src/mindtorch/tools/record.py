"""Runs an unchanged script on one of the frameworks and records its first steps: ``python -m mindtorch.tools.record``."""

from __future__ import annotations

import argparse
import os
import runpy
import sys
from typing import Any

from mindtorch.tools import frameworks
from mindtorch.tools.dump.recorder import TYPES, Recorder, Settings
from mindtorch.tools.migrator.api_dump import recorder_of


class _Enough(SystemExit):
    """Ends the script when enough steps are recorded."""


def _seed(torch: Any, seed: int) -> None:
    """The same state of every generator before the script begins; the script may seed again."""
    import random

    import numpy as np

    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def _side(recorder: Recorder) -> Any:
    if recorder.frame == frameworks.PYTORCH:
        from mindtorch.tools.dump.on_pytorch import PyTorchSide

        return PyTorchSide(recorder)
    from mindtorch.tools.dump.on_mindtorch import MindtorchSide

    return MindtorchSide(recorder)


def record(frame: str, script: str, args: list[str], out: str, steps: int, dump_type: str, seed: int | None, format: str = "troubleshooter") -> None:
    """Run ``script`` as ``__main__`` until ``steps`` optimiser steps are done; the dump is complete in every case.

    What the script raises is raised again.
    """
    if frame == frameworks.MINDTORCH:
        from mindtorch.cli import switch

        switch.install()
        switch.inherit()
    torch = frameworks.load(frame)
    if seed is not None:
        _seed(torch, seed)
    recorder = recorder_of(format)(None, frame, out, True)
    recorder.on_step = _stopper(steps)
    recorder.start(Settings(dump_type=dump_type))
    side = _side(recorder)
    sys.argv = [script, *args]
    sys.path.insert(0, os.path.dirname(os.path.abspath(script)))
    try:
        runpy.run_path(script, run_name="__main__")
    except _Enough:
        pass
    finally:
        side.remove()
        recorder.stop()


def _stopper(steps: int) -> Any:
    done = {"steps": 0}

    def stop() -> None:
        done["steps"] += 1
        if done["steps"] >= steps:
            raise _Enough(0)

    return stop if steps else None


def main(argv: list[str] | None = None) -> None:
    """Command line of the recorder, used by ``python -m mindtorch verify``."""
    p = argparse.ArgumentParser(prog="python -m mindtorch.tools.record", description=(__doc__ or "").replace("``", "'"))
    p.add_argument("--frame", choices=frameworks.FRAMEWORKS, required=True)
    p.add_argument("--out", required=True, help="folder of the dump")
    p.add_argument("--steps", type=int, default=5, help="optimiser steps to record, 0: all")
    p.add_argument("--dump-type", choices=TYPES, default="all")
    p.add_argument("--format", choices=("troubleshooter", "msprobe"), default="troubleshooter", help="layout of the folder")
    p.add_argument("--seed", type=int, help="seed of Python, NumPy and the framework before the script begins")
    p.add_argument("script")
    p.add_argument("args", nargs=argparse.REMAINDER)
    o = p.parse_args(argv)
    record(o.frame, o.script, o.args, o.out, o.steps, o.dump_type, o.seed, o.format)


if __name__ == "__main__":
    main()
