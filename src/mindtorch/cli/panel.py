"""``python -m mindtorch panel train.py``: time, calls, share and kernel of every op, beside PyTorch's with ``--against torch``."""

from __future__ import annotations

import argparse
import json
import os
import sys

from mindtorch.cli import program


def main(argv: list[str]) -> int:
    """Exit status 0, or 2 when the script could not be run."""
    p = argparse.ArgumentParser(prog="python -m mindtorch panel", description=(__doc__ or "").replace("``", "'"))
    p.add_argument("--against", choices=("torch",), help="run the script under PyTorch too; what loses most time comes first")
    p.add_argument("--shapes", action="store_true", help="one row for each op and its shapes, not for each type of op")
    p.add_argument("--mindspore", action="store_true", help="also the kernels MindSpore ran, by mindspore.profiler")
    p.add_argument("--rows", type=int, default=30, help="rows to show (30)")
    p.add_argument("--json", metavar="FILE", help="write all rows")
    program.add(p)
    o = p.parse_args(argv)
    from mindtorch.tools import panel

    if not os.path.isfile(o.script):
        print(f"python -m mindtorch panel: no such file: {o.script}", file=sys.stderr)
        return 2
    try:
        kernels: list[panel.KernelTime] | None = [] if o.mindspore else None
        made = panel.both(o.script, o.args, bool(o.against), o.shapes, kernels)
    except panel.RunFailed as e:
        print(f"python -m mindtorch panel: {e}", file=sys.stderr)
        return 2
    if o.json:
        with open(o.json, "w", encoding="utf-8") as f:
            json.dump(panel.as_json(made), f, indent=1)
    print(panel.text(made, o.rows))
    if kernels is not None:
        print(panel.kernel_text(kernels))
    return 0
