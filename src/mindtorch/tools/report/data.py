"""What the report shows, as plain lists, dicts and numbers. Times are microseconds from the beginning of the recording."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mindtorch.tools import op_times, panel
from mindtorch.tools.timing.clock import Step
from mindtorch.torch.profiler.memory import CATEGORIES, Ledger

STEPS = 200
"""Steps in the picture of all steps."""
CLOSE = 4
"""Steps whose ops are drawn one by one."""
SPANS = 8000
"""Ops drawn at most."""
POINTS = 1500
"""Points of the memory curve."""
_KINDS = {"op": "op", "node": "node", "module": "module", "user": "range", "optimizer": "op", "data": "range", "backward": "range", "transfer": "op"}


def steps(found: Sequence[Step], began: int) -> list[dict[str, Any]]:
    """The steps with their phases; ``began`` is the recording's beginning in ns."""
    zero = began / 1e9

    def us(t: float) -> float:
        return round((t - zero) * 1e6, 1)

    out = []
    for i, s in enumerate(found[:STEPS]):
        out.append({
            "step": i, "first": s.first, "steady": s.steady, "training": s.trained, "start": us(s.segments[0][1]) if s.segments else 0.0,
            "total": round(s.total * 1e6, 1), "phases": {p: round(t * 1e6, 1) for p, t in s.phases.items()},
            "segments": [[p, us(a), round((b - a) * 1e6, 1)] for p, a, b in s.segments], "close": False,
        })  # fmt: skip
    return out


def choose(made: list[dict[str, Any]]) -> None:
    """Mark the steps whose ops are drawn: the last of those that are not first ones."""
    steady = [s for s in made if s["steady"]] or made
    for s in steady[-CLOSE:]:
        s["close"] = True


def spans(events: Sequence[Any], made: Sequence[dict[str, Any]], began: int) -> list[dict[str, Any]]:
    """Modules, ops and nodes in the marked steps, nested by ``depth``; of more than `SPANS` the longest."""
    windows = [(s["step"], s["start"], s["start"] + s["total"]) for s in made if s["close"]]
    depth: dict[int, int] = {}
    out = []
    for e in events:
        if not e.end:
            continue
        depth[id(e)] = depth[id(e.parent)] + 1 if e.parent is not None and id(e.parent) in depth else 0
        start = (e.start - began) / 1e3
        step = next((n for n, a, b in windows if a <= start < b), None)
        if step is None:
            continue
        out.append({
            "name": e.name, "kind": _KINDS.get(e.kind, "op"), "phase": e.phase or ("backward" if e.backward else "forward"), "step": step,
            "start": round(start, 1), "dur": round((e.end - e.start) / 1e3, 1), "depth": depth[id(e)], "thread": e.thread.name,
            "module": e.module, "kernel": e.kernel, "shapes": str(e.shapes) if e.shapes and any(e.shapes) else "",
        })  # fmt: skip
    if len(out) > SPANS:
        least = sorted((s["dur"] for s in out), reverse=True)[SPANS - 1]
        out = [s for s in out if s["dur"] >= least][:SPANS]
    return out


def memory(ledger: Ledger | None, began: int) -> dict[str, Any] | None:
    """The curve of bytes held by tensors, its highest point, and what was held then."""
    if ledger is None or not ledger.changes:
        return None
    points = [[round((at - began) / 1e3, 1), held] for at, held in ledger.curve()]
    times, sizes = ledger.timeline()
    most = max(range(len(sizes)), key=lambda i: sum(sizes[i]))
    peak = {c: n for c, n in zip(CATEGORIES, sizes[most][1:]) if n}
    return {"curve": _thinned(points), "peak": sum(sizes[most]), "at_peak": peak, "changes": len(points)}


def _thinned(points: list[list[float]]) -> list[list[float]]:
    """At most `POINTS` points: the highest of each stretch, so that the peak stays."""
    if len(points) <= POINTS:
        return points
    size = -(-len(points) // POINTS)
    return [max(points[i : i + size], key=lambda p: p[1]) for i in range(0, len(points), size)]


def build(
    profile: Any, clock: Any, figures: dict[str, Any], script: str, environment: Sequence[str], against: Sequence[op_times.OpTime] | None = None,
    advice: dict[str, Any] | None = None,
) -> dict[str, Any]:  # fmt: skip
    """The whole report. ``profile`` has recorded the program while ``clock`` split its steps; ``figures`` is the split of a run
    without the profiler, ``against`` PyTorch's times of the same ops, ``advice`` what ``tune`` said."""
    recorder = profile._done
    made = steps(clock.steps, recorder.began)
    choose(made)
    mine = op_times.summed(op_times.steady(op_times.counted(profile.events())))
    return {
        "script": script,
        "split": figures,
        "steps": made,
        "timeline": spans(recorder.events, made, recorder.began),
        "panel": panel.as_json(panel.rows(mine, against)),
        "against": "torch" if against is not None else None,
        "memory": memory(recorder.ledger, recorder.began),
        "advice": advice,
        "environment": list(environment),
    }
