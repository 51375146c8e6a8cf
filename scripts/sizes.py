"""Fails when a Python file is longer than 650 lines, unless scripts/sizes_allowed.txt names it with a reason."""

from __future__ import annotations

import pathlib
import sys

LIMIT = 650
WARN = 600


def main() -> int:
    root = pathlib.Path(__file__).resolve().parents[1]
    allowed: dict[str, str] = {}
    for line in (root / "scripts" / "sizes_allowed.txt").read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            name, _, reason = line.partition(" ")
            if not reason.strip():
                print(f"sizes_allowed.txt: {name} has no reason")
                return 1
            allowed[name] = reason.strip()
    bad = 0
    for top in ("src", "tests", "examples", "scripts", "benchmarks"):
        for path in sorted((root / top).rglob("*.py")):
            name = path.relative_to(root).as_posix()
            n = len(path.read_bytes().splitlines())
            if n > LIMIT and name not in allowed:
                print(f"{name}: {n} lines, the limit is {LIMIT}: split it, or list it in scripts/sizes_allowed.txt")
                bad += 1
            elif n > WARN:
                print(f"warning: {name}: {n} lines")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
