"""The cProfile view of a program: ``time_log.txt``, and a table with one row per function of mindtorch."""

from __future__ import annotations

import cProfile
import inspect
import io
import os
import pstats
from typing import Any, NamedTuple

SORTS = ("cumtime", "tottime")
_PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + os.sep
_GENERATED = "<mindtorch"
_Function = tuple[str, int, str]


def write_log(profile: cProfile.Profile, path: str, sort: str = "cumtime") -> None:
    """Write pstats' listing of all functions. ``sort`` is ``cumtime`` (callees included) or ``tottime`` (without them)."""
    if sort not in SORTS:
        raise ValueError(f"write_log(): sort must be one of {', '.join(SORTS)}, got {sort!r}")
    out = io.StringIO()
    pstats.Stats(profile, stream=out).sort_stats(sort).print_stats()
    with open(path, "w", encoding="utf-8") as file:
        file.write(out.getvalue())


def _ours(f: _Function) -> bool:
    return f[0].startswith((_PACKAGE, _GENERATED))


class Row(NamedTuple):
    """One API of mindtorch. ``total`` seconds from call to return; ``own`` without other APIs and the user's functions it
    calls, but with its inner workings; ``share`` of ``own`` in that of all APIs; ``caller``: the user's function."""

    api: str
    calls: int
    total: float
    own: float
    share: float
    caller: str


def _key(fn: Any) -> _Function | None:
    fn = getattr(fn, "__func__", fn)
    code = getattr(fn, "__code__", None)
    return None if code is None else (code.co_filename, code.co_firstlineno, code.co_name)


_SPACES = {
    "torch": "torch.",
    "F": "torch.nn.functional.",
    "linalg": "torch.linalg.",
    "fft": "torch.fft.",
    "special": "torch.special.",
}


def _public() -> dict[_Function, str]:
    """Functions that a user can call -> their public names."""
    from mindtorch.core.tensor import Tensor
    from mindtorch.ops.table import SPACES
    from mindtorch.torch import nn, optim
    from mindtorch.torch.utils.data import dataloader

    named: dict[_Function, list[str]] = {}
    functions: dict[_Function, set[int]] = {}

    def add(fn: Any, name: str) -> None:
        key = _key(fn)
        last = name.rpartition(".")[2]
        if key is not None and (not last.startswith("_") or last.endswith("__")) and id(fn) not in functions.setdefault(key, set()):
            functions[key].add(id(fn))
            named.setdefault(key, []).append(name)

    for space, prefix in _SPACES.items():
        for name, fn in SPACES.get(space, {}).items():
            add(fn, prefix + name)
    for name, fn in vars(Tensor).items():
        add(fn, f"Tensor.{name}")
    for name in dir(nn):
        cls = getattr(nn, name)
        if isinstance(cls, type):
            add(vars(cls).get("forward"), f"torch.nn.{name}.forward")
    add(nn.Module.__call__, "torch.nn.Module.__call__")
    add(optim.Optimizer.zero_grad, "torch.optim.Optimizer.zero_grad")
    add(dataloader._BaseDataLoaderIter.__next__, "torch.utils.data.DataLoader.__next__")
    return {k: _joined(v) for k, v in named.items() if k[2] not in ("_stub", "_inplace_stub")}


def _steps(stats: dict[_Function, Any]) -> dict[_Function, str]:
    """The ``step`` functions of optimisers that ran. Optimisers share one: whose it was is told by the methods of the class that ran."""
    from mindtorch.torch import optim

    classes = {n: getattr(optim, n) for n in dir(optim)}
    classes = {n: c for n, c in classes.items() if isinstance(c, type) and issubclass(c, optim.Optimizer) and c is not optim.Optimizer}
    # What is called is wrapped in code that all classes share.
    step_of = {n: _key(inspect.unwrap(c.step)) for n, c in classes.items()}
    users: dict[_Function, list[str]] = {key: [] for key in step_of.values() if key is not None and key in stats}
    for name, cls in classes.items():
        key = step_of[name]
        if not hasattr(vars(cls).get("step"), "hooked"):  # nobody has made one of these
            continue
        public = [c for c in cls.__mro__ if c in classes.values()]
        own = {_key(inspect.unwrap(f)) for c in public for n, f in vars(c).items() if callable(f) and not n.startswith("__")}
        alone = list(step_of.values()).count(key) == 1
        if key in users and (alone or (own - {key}) & set(stats)):
            users[key].append(f"torch.optim.{name}.step")
    return {k: "/".join(v) or "torch.optim.Optimizer.step" for k, v in users.items()}


def _joined(names: list[str]) -> str:
    """One name for functions that share their code, which nothing in a profile tells apart."""
    more = [n.rpartition(".")[2] for n in names[1:]]
    return "/".join([names[0], *more[:3]]) + ("/..." if len(more) > 3 else "")


def _user_line(f: _Function, stats: dict[_Function, Any], script: str) -> str:
    """The user's function that most of the time of ``f`` is spent for: callers are followed up to the first of the user's."""
    seen = {f}
    while True:
        callers = {c: v for c, v in stats[f][4].items() if c not in seen and c in stats}
        if not callers:
            return ""
        f = max(callers, key=lambda c: callers[c][3])
        seen.add(f)
        if _is_users(f, script):
            return f"{os.path.basename(f[0])}:{f[1]} ({f[2]})"


def _is_users(f: _Function, script: str) -> bool:
    """Whether ``f`` is of the script, or of a file beside it or below."""
    homes = tuple(os.path.dirname(p) + os.sep for p in (script, os.path.realpath(script)))
    return f[0] == script or (f[0].startswith(homes) and "site-packages" not in f[0] and not _ours(f))


class _Inner:
    """Time of what is neither an API nor the user's, handed up to those who called for it."""

    def __init__(self, stats: dict[_Function, Any], apis: dict[_Function, str], script: str) -> None:
        self.callees: dict[_Function, list[tuple[_Function, Any]]] = {}
        for f, entry in stats.items():
            for caller, edge in entry[4].items():
                self.callees.setdefault(caller, []).append((f, edge))
        self.stats, self.apis, self.script = stats, apis, script
        self._known: dict[_Function, float] = {}
        self._open: set[_Function] = set()

    def below(self, f: _Function) -> float:
        """Seconds that ``f`` spent in inner functions."""
        if f in self._known:
            return self._known[f]
        if f in self._open:  # recursion: already on its way up
            return 0.0
        self._open.add(f)
        total = 0.0
        for g, (_, _, own, whole) in ((g, e) for g, e in self.callees.get(f, ()) if g != f):
            if g not in self.apis and not _is_users(g, self.script):
                all_calls = self.stats[g][3] or 1.0
                total += own + self.below(g) * min(1.0, whole / all_calls)
        self._open.discard(f)
        self._known[f] = total
        return total


def rows(profile: cProfile.Profile, script: str, sort: str = "cumtime") -> list[Row]:
    """APIs of mindtorch that the program used, worst first. ``script`` is the program's file."""
    found: Any = pstats.Stats(profile)
    stats: dict[_Function, Any] = found.stats
    apis = {k: v for k, v in _public().items() if k in stats} | _steps(stats)
    inner = _Inner(stats, apis, os.path.abspath(script))
    out = []
    for f, name in apis.items():
        _, calls, own, total, _ = stats[f]
        mine = min(total, own + inner.below(f))
        out.append(Row(name, calls, total, mine, 0.0, _user_line(f, stats, os.path.abspath(script))))
    whole = sum(r.own for r in out) or 1.0
    out = [r._replace(share=r.own / whole) for r in out]
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
