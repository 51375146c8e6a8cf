"""``python -m mindtorch verify train.py``: the script under PyTorch and under mindtorch with one seed, compared."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile

from mindtorch.cli import program


def _parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(prog="python -m mindtorch verify", description=(__doc__ or "").replace("``", "'"))
    p.add_argument("--steps", type=int, default=5, help="optimiser steps to record (5)")
    p.add_argument("--seed", type=int, default=0, help="seed of Python, NumPy and torch before the script begins (0)")
    p.add_argument("--against", metavar="DUMP", help="use this dump for PyTorch's run, where PyTorch is not installed")
    p.add_argument("--out", metavar="FOLDER", help="keep the dumps and the logs here")
    p.add_argument("--dump-type", choices=("all", "statistics"), default="all", help="values of every call, or their statistics")
    p.add_argument(
        "--format", choices=("troubleshooter", "msprobe"), default="troubleshooter",
        help="msprobe: record both runs once more in msprobe's layout, in FOLDER/msprobe (needs --out)",
    )  # fmt: skip
    p.add_argument("--rtol", type=float, default=1e-4)
    p.add_argument("--atol", type=float, default=1e-4)
    p.add_argument("--html", metavar="FILE", help="write a report that a browser shows")
    program.add(p)
    return p


def main(argv: list[str]) -> int:
    """Exit status 0 when no divergence is found, 1 when one is, 2 when the script could not be run."""
    o = _parser().parse_args(argv)
    if o.format == "msprobe" and o.out is None:
        print("python -m mindtorch verify: --format msprobe writes files to keep: say where with --out FOLDER", file=sys.stderr)
        return 2
    from mindtorch.tools import verify
    from mindtorch.tools.compare.measure import Tolerance

    out = o.out or tempfile.mkdtemp(prefix="mindtorch-verify-")
    try:
        plan = verify.Plan(o.script, o.args, out, o.steps, o.seed, o.dump_type, o.against, o.format)
        result = verify.verify(plan, Tolerance(o.rtol, o.atol))
        print(verify.step_table(result))
        print(result.summary())
        if o.format == "msprobe":
            print(verify.msprobe_hint(plan))
        if o.html:
            from mindtorch.tools.compare.report import save

            save(result, o.html)
    except BrokenPipeError:
        raise
    except (OSError, ValueError, verify.RunFailed) as e:
        print(f"python -m mindtorch verify: {e}", file=sys.stderr)
        return 2
    finally:
        if o.out is None and os.path.isdir(out):
            shutil.rmtree(out)
    return 0 if result.ok else 1
