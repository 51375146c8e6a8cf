"""Which call of one run is which of the other, also where calls are missing, added, exchanged or written otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mindtorch.tools.compare.read import Entry

Pair = tuple[Entry | None, Entry | None]
_MAX_CELLS = 400_000
_MAX_EDITS = 3000


def align(a: Sequence[Entry], b: Sequence[Entry]) -> list[Pair]:
    """Pairs in order; None stands for a call that one side does not have."""
    out: list[Pair] = []
    i = j = 0
    for i2, j2 in _common([e.op for e in a], [e.op for e in b]):
        out += _gap(a[i:i2], b[j:j2])
        out.append((a[i2], b[j2]))
        i, j = i2 + 1, j2 + 1
    return _settle(out + _gap(a[i:], b[j:]))


def _common(a: list[str], b: list[str]) -> list[tuple[int, int]]:
    """Indices of a longest common subsequence (Myers' greedy algorithm, after equal ends are cut off)."""
    n, m = len(a), len(b)
    head = 0
    while head < min(n, m) and a[head] == b[head]:
        head += 1
    tail = 0
    while tail < min(n, m) - head and a[n - 1 - tail] == b[m - 1 - tail]:
        tail += 1
    middle = _myers(a[head : n - tail], b[head : m - tail])
    pairs = [(k, k) for k in range(head)] + [(head + x, head + y) for x, y in middle]
    return pairs + [(n - tail + k, m - tail + k) for k in range(tail)]


def _myers(a: list[str], b: list[str]) -> list[tuple[int, int]]:
    n, m = len(a), len(b)
    if not n or not m:
        return []
    far = {1: 0}
    trace: list[dict[int, int]] = []
    for d in range(min(n + m, _MAX_EDITS) + 1):
        trace.append(dict(far))
        for k in range(-d, d + 1, 2):
            x = far[k + 1] if k == -d or (k != d and far[k - 1] < far[k + 1]) else far[k - 1] + 1
            y = x - k
            while x < n and y < m and a[x] == b[y]:
                x, y = x + 1, y + 1
            far[k] = x
            if x >= n and y >= m:
                return _back(trace, n, m)
    import difflib  # too different for an exact answer

    blocks = difflib.SequenceMatcher(None, a, b, autojunk=False).get_matching_blocks()
    return [(p.a + i, p.b + i) for p in blocks for i in range(p.size)]


def _back(trace: list[dict[int, int]], x: int, y: int) -> list[tuple[int, int]]:
    out = []
    for d in range(len(trace) - 1, -1, -1):
        far, k = trace[d], x - y
        down = k == -d or (k != d and far.get(k - 1, -1) < far.get(k + 1, -1))
        before = k + 1 if down else k - 1
        x0 = far.get(before, 0)
        y0 = x0 - before
        while x > x0 and y > y0 and x > 0 and y > 0:
            x, y = x - 1, y - 1
            out.append((x, y))
        if d == 0:
            break
        x, y = x0, y0
    return out[::-1]


def _gap(a: Sequence[Entry], b: Sequence[Entry]) -> list[Pair]:
    """Between common calls: pair those that have equal shapes and place (an op written another way), else leave apart."""
    if not a or not b or len(a) * len(b) > _MAX_CELLS:
        return [(e, None) for e in a] + [(None, e) for e in b]
    n, m = len(a), len(b)
    cost = [[0.0] * (m + 1) for _ in range(n + 1)]
    for i in range(1, n + 1):
        cost[i][0] = float(i)
    for j in range(1, m + 1):
        cost[0][j] = float(j)
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            both = cost[i - 1][j - 1] + _difference(a[i - 1], b[j - 1])
            cost[i][j] = min(both, cost[i - 1][j] + 1, cost[i][j - 1] + 1)
    out: list[Pair] = []
    i, j = n, m
    while i or j:
        if i and j and cost[i][j] == cost[i - 1][j - 1] + _difference(a[i - 1], b[j - 1]):
            i, j = i - 1, j - 1
            out.append((a[i], b[j]))
        elif i and cost[i][j] == cost[i - 1][j] + 1:
            i -= 1
            out.append((a[i], None))
        else:
            j -= 1
            out.append((None, b[j]))
    return out[::-1]


def _difference(x: Entry, y: Entry) -> float:
    """Cost of calling ``x`` and ``y`` (of different ops) the same call: below 2, which is leaving both alone."""
    if "LAYER" in (x.kind, y.kind):
        return 0.2 if x.kind == y.kind and x.module == y.module else 9.0
    if x.shapes == y.shapes and x.outputs:
        return 0.8 if x.module == y.module else 1.2
    if x.outputs and y.outputs and x.outputs[0].shape == y.outputs[0].shape and x.module == y.module:
        return 1.6
    return 9.0


def _settle(pairs: list[Pair]) -> list[Pair]:
    """Where a run of equal calls has one too many, leave out the one whose shapes and module fit no partner."""
    for k in range(len(pairs) - 1):
        x, y = pairs[k]
        if (x is None) == (y is None):
            continue
        side = 0 if y is None else 1
        at = k
        while at + 1 < len(pairs) and _better(pairs[at][side], pairs[at + 1], side):
            lone, (p, q) = pairs[at][side], pairs[at + 1]
            moved: Any = (lone, q) if side == 0 else (p, lone)
            left: Any = (p, None) if side == 0 else (None, q)
            pairs[at], pairs[at + 1] = moved, left
            at += 1
    return pairs


def _better(lone: Any, pair: Pair, side: int) -> bool:
    """Whether a lone call fits the next pair's other half better than the half it has."""
    mine, other = pair[side], pair[1 - side]
    if mine is None or other is None or lone.op != mine.op:
        return False
    return _fit(lone, other) > _fit(mine, other)


def _fit(x: Entry, y: Entry) -> int:
    return (x.module == y.module) * 2 + (x.shapes == y.shapes) + (x.kind == y.kind and x.name == y.name)
