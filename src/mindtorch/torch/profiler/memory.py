"""Memory of tensors over time: what ops allocate, and when it is freed.

A piece of memory counts when the tensor that owns it is first seen, and no more when the last tensor on it dies. Scratch memory
inside a kernel is not seen.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from time import perf_counter_ns, time_ns
from typing import Any, NamedTuple

import numpy as np

from mindtorch.core.tensor import Tensor

CATEGORIES = ("PARAMETER", "OPTIMIZER_STATE", "INPUT", "TEMPORARY", "ACTIVATION", "GRADIENT", "AUTOGRAD_DETAIL", "UNKNOWN")
"""In the order of PyTorch's memory timelines."""


class Change(NamedTuple):
    """Memory taken (``bytes`` > 0) or freed, at a ``perf_counter_ns``. ``number`` tells pieces apart."""

    at: int
    bytes: int
    number: int
    thread: Any


class _Held(weakref.ref):
    """Memory that is alive."""

    __slots__ = ("key", "number", "size")


def root(a: Any) -> Any:
    """The object that owns the memory of an array."""
    if not isinstance(a, np.ndarray):
        return a.store
    base = a.base
    while isinstance(base, np.ndarray):
        a, base = base, base.base
    return a


def arrays(values: Any) -> Iterator[Any]:
    """Arrays of the tensors (and NumPy arrays) in arguments, lists and dicts looked into."""
    for v in values:
        if isinstance(v, Tensor):
            yield v.a
        elif isinstance(v, np.ndarray):
            yield v
        elif v.__class__ in (list, tuple):
            yield from arrays(v)
        elif v.__class__ is dict:
            yield from arrays(v.values())


def _owned(values: Any, owner: Any) -> bool:
    """Whether one of the arguments lies in the memory of ``owner``."""
    for v in values:
        if isinstance(v, Tensor):
            if root(v.a) is owner:
                return True
        elif v.__class__ in (list, tuple):
            if _owned(v, owner):
                return True
        elif isinstance(v, np.ndarray) and root(v) is owner:
            return True
    return False


class Ledger:
    """The account. ``freed`` is called with the bytes of each piece that dies and returns its thread."""

    def __init__(self, freed: Callable[[int], Any]) -> None:
        self.changes: list[Change] = []
        self.labels: list[str] = []
        self.before: dict[str, int] = {}
        """Bytes by category that were there when the recording began, as far as modules and optimisers show."""
        self._freed = freed
        self._live: dict[int, _Held] = {}
        self._old: dict[int, Any] = {}

    def took(self, given: Any, out: Any, label: str, thread: Any) -> int:
        """Bytes of the results ``out`` that neither the arguments ``given`` nor earlier results own."""
        if isinstance(out, Tensor):
            return self._result(given, out.a, label, thread)
        if out.__class__ in (tuple, list):
            return sum(self._result(given, a, label, thread) for a in arrays(out))
        return 0

    def _result(self, given: Any, a: Any, label: str, thread: Any) -> int:
        owner = root(a)
        key = id(owner)
        if key in self._live or key in self._old or _owned(given, owner):
            return 0
        return self._add(a, label, thread)

    def _add(self, a: Any, label: str, thread: Any) -> int:
        owner = root(a)
        key = id(owner)
        if key in self._live or key in self._old:
            return 0
        held = _Held(owner, self._died)
        held.key, held.number = key, len(self.labels)
        held.size = owner.nbytes if isinstance(owner, np.ndarray) else a.size * a.dtype.itemsize
        self._live[key] = held
        self.labels.append(label)
        self.changes.append(Change(perf_counter_ns(), held.size, held.number, thread))
        return held.size

    def _died(self, held: _Held) -> None:
        if self._live.pop(held.key, None) is held:
            thread = self._freed(held.size)
            self.changes.append(Change(perf_counter_ns(), -held.size, held.number, thread))

    def label(self, tensors: Sequence[Any], label: str) -> None:
        """Say what these tensors are. What was there before the recording began counts as such."""
        for a in arrays(tensors):
            owner = root(a)
            held = self._live.get(id(owner))
            if held is not None:
                self.labels[held.number] = label
            elif id(owner) not in self._old:
                self._old[id(owner)] = owner  # kept alive, so that its id stays its own
                size = owner.nbytes if isinstance(owner, np.ndarray) else a.size * a.dtype.itemsize
                self.before[label] = self.before.get(label, 0) + size

    def found(self, tensors: Sequence[Any], label: str, thread: Any) -> int:
        """Memory that no op made (an optimiser's state): bytes of what is new."""
        return sum(self._add(a, label, thread) for a in arrays(tensors))

    def close(self) -> None:
        """Watch no longer."""
        self._live, self._old = {}, {}

    # ------------------------------------------------------------------ looking at it
    def curve(self) -> list[tuple[int, int]]:
        """(``perf_counter_ns``, bytes held) after each change, beginning with what was there before."""
        held = sum(self.before.values())
        out = []
        for c in sorted(self.changes):
            held += c.bytes
            out.append((c.at, held))
        return out

    def timeline(self) -> tuple[list[int], list[list[int]]]:
        """Microseconds since 1970 and, for each, 0 and the bytes of every one of `CATEGORIES`."""
        offset = time_ns() - perf_counter_ns()
        changes = sorted(self.changes)
        now = [self.before.get(c, 0) for c in CATEGORIES]
        begin = changes[0].at if changes else perf_counter_ns()
        times, sizes = [(begin + offset) // 1000], [[0, *now]]
        for c in changes:
            now[CATEGORIES.index(self.labels[c.number])] += c.bytes
            times.append((c.at + offset) // 1000)
            sizes.append([0, *now])
        return times, sizes

    def raw(self) -> list[list[int]]:
        """[ns since 1970 or -1, 1: was there, 2: taken, 4: freed, bytes, index of the category] of each change."""
        offset = time_ns() - perf_counter_ns()
        out = [[-1, 1, n, CATEGORIES.index(c)] for c, n in self.before.items()]
        for c in sorted(self.changes):
            out.append([c.at + offset, 2 if c.bytes > 0 else 4, c.bytes, CATEGORIES.index(self.labels[c.number])])
        return out


_COLOURS = ("darkgreen", "goldenrod", "black", "mediumpurple", "red", "mediumblue", "royalblue", "grey")
_PAGE = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Memory</title><style>
body {{ font: 14px/1.45 system-ui, sans-serif; margin: 1rem; }} svg text {{ font: 10px system-ui; }}
i {{ display: inline-block; width: 10px; height: 10px; margin: 0 4px 0 12px; }}</style></head><body>
<h1>Memory of tensors</h1><p>Most at once: {peak}</p><p>{legend}</p>{picture}</body></html>
"""


def page(ledger: Ledger) -> str:
    """A self-contained HTML page with the timeline as stacked areas."""
    from mindtorch.torch.profiler.tables import memory_text

    times, sizes = ledger.timeline()
    top = max(sum(row) for row in sizes) or 1
    span = max(times[-1] - times[0], 1)
    width, height = 1100, 420

    def at(t: int, v: int) -> str:
        return f"{70 + (width - 90) * (t - times[0]) / span:.1f},{height - 30 - (height - 50) * v / top:.1f}"

    areas = []
    for k, colour in enumerate(_COLOURS, 1):
        if not any(row[k] for row in sizes):
            continue
        upper, lower = [], []
        for i, (t, row) in enumerate(zip(times, sizes)):
            until = times[i + 1] if i + 1 < len(times) else t
            low, high = sum(row[:k]), sum(row[: k + 1])
            upper += [at(t, high), at(until, high)]
            lower += [at(t, low), at(until, low)]
        areas.append(f'<polygon fill="{colour}" points="{" ".join(upper + lower[::-1])}"><title>{CATEGORIES[k - 1]}</title></polygon>')
    axis = f'<text x="2" y="25">{memory_text(top)}</text><text x="2" y="{height - 30}">0</text>'
    axis += f'<text x="70" y="{height - 10}">0</text><text x="{width - 80}" y="{height - 10}">{span / 1e3:.3f} ms</text>'
    legend = "".join(f'<i style="background:{c}"></i>{n}' for c, n in zip(_COLOURS, CATEGORIES))
    picture = f'<svg width="{width}" height="{height}" role="img">{"".join(areas)}{axis}</svg>'
    return _PAGE.format(peak=memory_text(top), legend=legend, picture=picture)
