"""Where NaN and infinite numbers begin in a run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from mindtorch.tools.compare.read import Datum, Entry, RankDump, Step

_MASKS = frozenset(["masked_fill", "where", "masked_scatter", "index_fill", "__setitem__", "fill", "full_like", "triu", "tril", "pad"])
"""Calls that write infinite numbers because they were told to."""


@dataclass
class NanOrigin:
    """First call of a run that makes NaN (or, without any NaN, infinite numbers). ``call`` made what it came from."""

    side: str
    step: int
    call: str
    module: str
    line: str
    then: str = ""

    def text(self) -> str:
        """One line."""
        where = f", module {self.module}" if self.module else ""
        what = f"an infinite number made by {self.call} becomes NaN in {self.then}" if self.then else f"not finite from {self.call} on"
        return f"NaN in {self.side}: {what}{where} (step {self.step}): {self.line}".replace("\n", " ")


def nan_origin(dump: RankDump, steps: list[Step], side: str) -> NanOrigin | None:
    """Where it begins; None when everything recorded is finite, masks apart."""
    for kind in (0, 1):
        for number, step in enumerate(steps):
            found = _forward(dump, step, number, side, kind) or _backward(dump, step, number, side, kind)
            if found is not None:
                return found
    return None


def _forward(dump: RankDump, step: Step, number: int, side: str, kind: int) -> NanOrigin | None:
    for e in step.calls:
        if not _has(e, "output", kind) or (kind == 1 and _told(e, step)):
            continue
        made = _made(e, step) if kind == 0 else e
        then = e.shown if made is not e else ""
        return NanOrigin(side, number, made.shown, made.module, (dump.stack(made) or [""])[0], then)
    return None


def _backward(dump: RankDump, step: Step, number: int, side: str, kind: int) -> NanOrigin | None:
    for e in sorted(step.calls, key=lambda e: e.order):
        if any(_count(d)[kind] for d in e.grads):
            return NanOrigin(side, number, f"the gradient of {e.shown}", e.module, (dump.stack(e) or [""])[0])
    return None


def _has(e: Entry, role: str, kind: int) -> bool:
    """Whether inputs or outputs of a call have NaN (kind 0) or infinite elements (kind 1)."""
    if e.not_finite:
        return any(counts[kind] for place, counts in e.not_finite.items() if place.startswith(role))
    return any(_count(d)[kind] for d in (e.inputs if role == "input" else e.outputs))


def _count(d: Datum) -> tuple[bool, bool]:
    if all(np.isnan(x) for x in (d.norm, d.max, d.min)):
        a = d.load()  # statistics that were not asked for look like those of NaN
        return (False, False) if a is None or a.dtype.kind != "f" else (bool(np.isnan(a).any()), bool(np.isinf(a).any()))
    numbers = (d.max, d.min, d.norm)
    return bool(np.isnan(d.max) or np.isnan(d.min)), any(np.isinf(x) for x in numbers[:2])


def _sources(e: Entry, step: Step) -> Iterator[Entry]:
    by_key = {x.key: x for x in step.calls}
    return (by_key[k] for k in e.sources.values() if k in by_key)


def _made(e: Entry, step: Step) -> Entry:
    """The call that made the infinite numbers that ``e`` turned into NaN; ``e`` itself when it had none."""
    now, seen = e, {e.key}
    while _has(now, "input", 1):
        before: Iterable[Entry] = (x for x in _sources(now, step) if x.key not in seen and _has(x, "output", 1))
        found = next(iter(before), None)
        if found is None:
            break
        now = found
        seen.add(now.key)
    return now


def _told(e: Entry, step: Step) -> bool:
    """Whether infinite outputs are no news: a mask, or passed on from one."""
    return e.op in _MASKS or e.name in _MASKS or _has(e, "input", 1)
