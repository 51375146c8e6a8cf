"""``python -m mindtorch layers A.json B.json``: two recordings of ``debug_layer_info`` side by side."""

from __future__ import annotations

import argparse
import sys


def main(argv: list[str]) -> int:
    """Exit status 0 when all values agree, 1 when some differ, 2 when a file cannot be read."""
    p = argparse.ArgumentParser(prog="python -m mindtorch layers", description=(__doc__ or "").replace("``", "'"))
    p.add_argument("a", metavar="A.json", help="file of debug_layer_info(net, file='A.json')")
    p.add_argument("b", metavar="B.json")
    p.add_argument("--rtol", type=float, default=1e-4)
    p.add_argument("--atol", type=float, default=1e-4)
    p.add_argument("--differing", action="store_true", help="show only the values that differ")
    o = p.parse_args(argv)
    from mindtorch.tools.layer_tables import compare_layers

    try:
        result = compare_layers(o.a, o.b, o.rtol, o.atol)
    except (OSError, ValueError) as e:
        print(f"python -m mindtorch layers: {e}", file=sys.stderr)
        return 2
    print(result.text(everything=not o.differing))
    return 1 if result.first else 0
