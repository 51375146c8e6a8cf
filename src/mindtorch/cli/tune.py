"""``python -m mindtorch tune train.py``: what would make the script faster, each piece of advice measured."""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any

from mindtorch.cli import program


def _parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(prog="python -m mindtorch tune", description=(__doc__ or "").replace("``", "'"))
    p.add_argument("--steps", type=int, default=12, help="batches of each loop to run (12)")
    p.add_argument("--seconds", type=float, default=60.0, help="begin nothing new after this time (60)")
    p.add_argument("--all", action="store_true", help="also try mixed precision, twice the batch size and graph mode")
    p.add_argument("--json", metavar="FILE", help="write the advice for a machine; - is standard output")
    program.add(p)
    return p


def main(argv: list[str]) -> int:
    """Exit status 0 when the script could be judged, 1 when it failed on the way, 2 when it could not be run."""
    o = _parser().parse_args(argv)
    if not os.path.isfile(o.script):
        print(f"python -m mindtorch tune: no such file: {o.script}", file=sys.stderr)
        return 2
    from mindtorch.cli import run, switch

    switch.install()
    switch.inherit()
    from mindtorch.tools import advice

    kept: Any = sys.modules["__main__"]
    try:
        found = advice.tune(lambda: run.script(o.script, o.args, exec), o.steps, o.seconds, o.all)
    except ValueError as e:
        print(f"python -m mindtorch tune: {e}", file=sys.stderr)
        return 2
    finally:
        sys.modules["__main__"] = kept
    if o.json == "-":
        print(found.json())
    else:
        print(found.text())
        if o.json:
            with open(o.json, "w", encoding="utf-8") as f:
                f.write(found.json())
    return 1 if found.failure else 0
