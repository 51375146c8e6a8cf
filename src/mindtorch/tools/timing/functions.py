"""The cProfile view of a program: ``time_log.txt``, and a table with one row per function of mindtorch."""

from __future__ import annotations

import cProfile
import io
import os
import pstats
from typing import Any, NamedTuple

SORTS = ("cumtime", "tottime")
_PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + os.sep
_GENERATED = "<mindtorch"
_Function = tuple[str, int, str]
_UNSEEN = ("torch/profiler/", "tools/", "cli/", "core/observe.py")
"""Parts of the package that only serve the measurement."""


def write_log(profile: cProfile.Profile, path: str, sort: str = "cumtime") -> None:
    """Write pstats' listing of all functions. ``sort`` is ``cumtime`` (callees included) or ``tottime`` (without them)."""
    if sort not in SORTS:
        raise ValueError(f"write_log(): sort must be one of {', '.join(SORTS)}, got {sort!r}")
    out = io.StringIO()
    pstats.Stats(profile, stream=out).sort_stats(sort).print_stats()
    with open(path, "w", encoding="utf-8") as file:
        file.write(out.getvalue())


class Row(NamedTuple):
    """One function of mindtorch. Seconds with and without what it calls; ``share`` of ``own`` in the whole program."""

    api: str
    calls: int
    total: float
    own: float
    share: float
    caller: str


def _ours(f: _Function) -> bool:
    return f[0].startswith((_PACKAGE, _GENERATED))


def _named(f: _Function) -> str:
    """``torch.relu`` for a function made from the op table, else its module and name."""
    file, _, name = f
    if file.startswith(_GENERATED):
        return f"torch.{name}"
    module = file[len(_PACKAGE) :].removesuffix(".py").replace(os.sep, ".").removesuffix(".__init__")
    return f"{module}.{name}"


def _user_line(f: _Function, stats: dict[_Function, Any], script: str) -> str:
    """The user's function that most of the time of ``f`` is spent for: callers are followed up to the first of the user's."""
    seen = {f}
    while True:
        callers = {c: v for c, v in stats[f][4].items() if c not in seen and c in stats}
        if not callers:
            return ""
        f = max(callers, key=lambda c: callers[c][3] if len(callers[c]) > 3 else 0)
        seen.add(f)
        if _is_users(f, script):
            return f"{os.path.basename(f[0])}:{f[1]} ({f[2]})"


def _is_users(f: _Function, script: str) -> bool:
    return f[0] == script or (
        os.path.isabs(f[0]) and f[0].startswith(os.path.dirname(script) + os.sep) and "site-packages" not in f[0] and not _ours(f)
    )


def rows(profile: cProfile.Profile, script: str, sort: str = "cumtime") -> list[Row]:
    """Functions of mindtorch that took part, worst first. ``script`` is the program's file."""
    found: Any = pstats.Stats(profile)
    stats: dict[_Function, Any] = found.stats
    whole = found.total_tt or 1.0
    out = []
    for f, (_, calls, own, total, _) in stats.items():
        if _ours(f) and not f[0].removeprefix(_PACKAGE).startswith(_UNSEEN) and not f[2].startswith("<"):
            out.append(Row(_named(f), calls, total, own, own / whole, _user_line(f, stats, os.path.abspath(script))))
    return sorted(out, key=lambda r: r.total if sort == "cumtime" else r.own, reverse=True)


def text(found: list[Row], limit: int = 25) -> str:
    """The rows as a table."""
    width = max((len(r.api) for r in found[:limit]), default=3)
    lines = [f"{'API':<{width}}{'calls':>9}{'total':>13}{'own':>13}{'share':>9}  for"]
    for r in found[:limit]:
        lines.append(
            f"{r.api:<{width}}{r.calls:>9}{r.total * 1e3:>10.3f} ms{r.own * 1e3:>10.3f} ms{r.share * 100:>7.1f} %  {r.caller}"
        )
    if len(found) > limit:
        lines.append(f"... and {len(found) - limit} more")
    return "\n".join(lines)
