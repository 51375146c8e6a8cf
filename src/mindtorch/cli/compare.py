"""``python -m mindtorch compare A B``: two API dumps, and the first call in which they differ."""

from __future__ import annotations

import argparse
import json
import os
import sys


def main(argv: list[str]) -> int:
    """Exit status 0 when the dumps agree, 1 when they diverge, 2 when one cannot be read."""
    p = argparse.ArgumentParser(prog="python -m mindtorch compare", description=(__doc__ or "").replace("``", "'"))
    p.add_argument("origin", metavar="A", help="output_path of api_dump_init in the first run (usually PyTorch's)")
    p.add_argument("target", metavar="B", help="that of the second run")
    p.add_argument("--rtol", type=float, default=1e-4)
    p.add_argument("--atol", type=float, default=1e-4)
    p.add_argument("--equal-nan", action="store_true", help="NaN equals NaN")
    p.add_argument("--ignore-backward", action="store_true", help="leave gradients out")
    p.add_argument("--tables", action="store_true", help="print every row, not the verdict alone")
    p.add_argument("--csv", metavar="FOLDER", help="write the tables as csv files")
    p.add_argument("--html", metavar="FILE", help="write a report that a browser shows")
    p.add_argument("--json", metavar="FILE", help="write the verdict as JSON")
    o = p.parse_args(argv)
    from mindtorch.tools.compare.comparison import Options, compare
    from mindtorch.tools.compare.measure import Tolerance

    options = Options(Tolerance(o.rtol, o.atol, o.equal_nan), ignore_backward=o.ignore_backward, with_tables=o.tables or bool(o.csv))
    try:
        result = compare(o.origin, o.target, options, o.csv)
    except (OSError, ValueError) as e:
        print(f"python -m mindtorch compare: {e}", file=sys.stderr)
        return 2
    if o.html:
        from mindtorch.tools.compare.report import save

        save(result, o.html)
    print(result.text() if o.tables else result.summary())
    if o.json:
        os.makedirs(os.path.dirname(os.path.abspath(o.json)), exist_ok=True)
        with open(o.json, "w", encoding="utf-8") as f:
            json.dump(result.as_dict(), f, indent=1, default=str)
    return 0 if result.ok else 1
