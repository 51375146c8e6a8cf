"""The comparison as one HTML file that needs nothing else: net tree, table, histograms, stacks, loss curves."""

from __future__ import annotations

import math
import os
from typing import Any

import numpy as np

from mindtorch.tools.appending import replace
from mindtorch.tools.compare.comparison import Comparison, StepResult
from mindtorch.tools.compare.rows import Seen, apart, grad_floor
from mindtorch.tools.compare.tables import Row

BINS = (-9, -8, -7, -6, -5, -4, -3, -2, -1, 0, 1)
"""Decades of absolute difference; below the first and beyond the last there is one bin each."""
_MAX_HISTOGRAMS = 2000


def histogram(r: Row) -> list[int] | None:
    """How many elements differ by how much: equal ones, then by decade. None without values or with other shapes."""
    if r.a is None or r.b is None:
        return None
    a, b = r.a.load(), r.b.load()
    if a is None or b is None or a.shape != b.shape or a.size == 0:
        return None
    wide = np.complex128 if "c" in (a.dtype.kind, b.dtype.kind) else np.float64
    with np.errstate(all="ignore"):
        diff = np.abs(a.astype(wide) - b.astype(wide)).ravel()
        equal = int((diff == 0).sum())
        rest = np.log10(diff[np.isfinite(diff) & (diff > 0)])
    counts, _ = np.histogram(np.clip(rest, BINS[0] - 0.5, BINS[-1] + 0.5), bins=[BINS[0] - 1, *BINS, BINS[-1] + 1])
    return [equal, *(int(n) for n in counts), int((~np.isfinite(diff)).sum())]


class _Data:
    """What the page shows, as plain lists."""

    def __init__(self, result: Comparison) -> None:
        self.result = result
        self.rows: list[dict[str, Any]] = []
        self.stacks: list[list[str]] = []
        self._stack_ids: dict[tuple[str, ...], int] = {}
        self._histograms = 0
        for s in result.steps:
            self._step(s)

    def _stack(self, lines: list[str]) -> int:
        key = tuple(lines)
        if key not in self._stack_ids:
            self._stack_ids[key] = len(self.stacks)
            self.stacks.append(lines)
        return self._stack_ids[key]

    def _step(self, s: StepResult) -> None:
        for seen in s.rows.calls:
            ids = [self._stack(d.stack(e)) if e is not None else -1 for d, e in zip(s.dumps, seen.pair)]
            for phase, role, rows in (("forward", "input", seen.inputs), ("forward", "output", seen.outputs), ("backward", "gradient", seen.grads)):
                for r in rows:
                    self._row(s, seen, phase, role, r, ids)
            if not (seen.inputs or seen.outputs or seen.grads):
                self._row(s, seen, "forward", "call", None, ids)

    def _row(self, s: StepResult, seen: Seen, phase: str, role: str, r: Row | None, stacks: list[int]) -> None:
        m = r.measured if r is not None else None
        datum = (r.a or r.b) if r is not None else None
        a, b = seen.pair
        why = ""
        if r is not None and m is not None:
            floor = grad_floor(r, s.rows.grad_scale) if role == "gradient" else 2e-6 * m.scale
            why = apart(m, floor, s.rows.tolerance, r.a, r.b)
        status = "missing" if not seen.both else "differs" if why else "agrees"
        hist = None
        if r is not None and self._histograms < _MAX_HISTOGRAMS and m is not None and m.exact:
            hist = histogram(r)
            self._histograms += hist is not None
        place = "" if datum is None else "".join(f"[{p}]" for p in datum.item.index.split(".")[1:])
        self.rows.append({
            "rank": s.rank, "step": s.step, "phase": phase, "module": seen.entry.module, "a": a.shown if a else "",
            "b": b.shown if b else "", "value": role + place, "shape": str(datum.shape) if datum else "",
            "dtype": datum.dtype.removeprefix("torch.") if datum else "", "ratio": _plain(m.ratio if m else None),
            "cosine": _plain(m.cosine if m else None), "max": _plain(m.max_diff if m else None),
            "relative": _plain(m.relative if m else None), "status": status, "why": why, "hist": hist, "stacks": stacks,
        })  # fmt: skip

    def tree(self) -> list[dict[str, Any]]:
        """Modules in order of first use, with their depth and the worst that happened in them."""
        worst: dict[str, str] = {}
        counts: dict[str, list[int]] = {}
        rank = {"agrees": 0, "missing": 1, "differs": 2}
        for row in self.rows:
            parts = row["module"].split(".") if row["module"] else []
            for n in range(len(parts) + 1):
                path = ".".join(parts[:n])
                tally = counts.setdefault(path, [0, 0])
                tally[0] += row["status"] == "differs"
                tally[1] += 1
                if rank[row["status"]] >= rank.get(worst.get(path, "agrees"), 0):
                    worst[path] = row["status"]
        first = self.result.first
        at = first.module if first is not None else None
        return [
            {"path": p, "name": p.rpartition(".")[2] or "(net)", "depth": p.count(".") + 1 if p else 0, "status": s,
             "first": p == at, "bad": counts[p][0], "count": counts[p][1]}
            for p, s in sorted(worst.items(), key=lambda item: item[0].split(".") if item[0] else [])
        ]  # fmt: skip

    def losses(self) -> list[list[list[float]]]:
        """Loss curves of both sides, rank 0."""
        steps = [s for s in self.result.steps if s.rank == self.result.steps[0].rank]
        return [[[float(s.step), s_losses[-1]] for s in steps if (s_losses := _side(s, k).losses)] for k in (0, 1)]


def _side(s: StepResult, k: int) -> Any:
    return s.rows.a if k == 0 else s.rows.b


def _plain(x: Any) -> float | None:
    """A number that JSON can say."""
    return None if x is None or not math.isfinite(float(x)) else float(x)


def render(result: Comparison) -> str:
    """The page. ImportError without Jinja2."""
    try:
        import jinja2
    except ImportError as e:
        raise ImportError("the HTML report needs Jinja2: pip install jinja2") from e
    data = _Data(result)
    here = os.path.dirname(os.path.abspath(__file__))
    env = jinja2.Environment(loader=jinja2.FileSystemLoader(here), autoescape=True, trim_blocks=True, lstrip_blocks=True)
    first = result.first
    page = {
        "rows": data.rows, "stacks": data.stacks, "bins": list(BINS), "losses": data.losses() if result.steps else [[], []],
        "first": first.as_dict() if first is not None else None,
    }  # fmt: skip
    summary = result.summary().splitlines()
    return env.get_template("report.html.j2").render(
        data=page, tree=data.tree(), result=result, first=first, summary=summary, steps=len(result.steps), rows=len(data.rows)
    )


def save(result: Comparison, path: str) -> None:
    """Write the page, in one step."""
    text = render(result)
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    replace(path, lambda f: f.write(text.encode("utf-8")), 0o644)
