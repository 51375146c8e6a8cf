"""Values that a function's Python reads from tensors: decisions, which split the function into paths, and numbers given back.

A program holds for one path: where Python decided by a value, the program decides again, and leaves when the value would lead
elsewhere. What it did until then is undone, and another path's program runs, or the function is captured on the new path.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

OUTCOMES = "a graph for each outcome"
"""End of the reasons that split a function."""
PATHS = 8
"""Paths of one specialisation; a function that meets more of them runs eagerly."""


class Diverged(Exception):
    """A value leads elsewhere than where the program was captured."""


class Decide:
    """Stands in for a row: goes on when ``ask(value)`` is what it was."""

    kind = "decide"
    saved: tuple[str, ...] = ()

    def __init__(self, name: str, ask: Callable[[np.ndarray], Any], answer: Any) -> None:
        self.name = name

        def run(a: np.ndarray) -> None:
            if not same(ask(a), answer):
                raise Diverged

        self.run = run


def same(a: Any, b: Any) -> bool:
    """One value: NaN is itself, and the sign of zero counts."""
    return a.__class__ is b.__class__ and (repr(a) == repr(b) if a.__class__ is float else bool(a == b))


def number(a: np.ndarray) -> Any:
    """The one element as a Python number."""
    v = a.item()
    return v if v.__class__ in (int, float, bool, complex) else float(v)  # bfloat16


def true(a: np.ndarray) -> bool:
    """Truth of the one element."""
    return bool(a.item() != 0)


ASK: dict[str, Callable[[np.ndarray], Any]] = {"bool": true, "index": number, "int": lambda a: int(number(a))}


class Reading(float):
    """A number that ``item()`` gave inside a function that is being captured. Given back as it is it is read anew by each run.

    A comparison is a decision by its outcome. Whatever else Python does with it breaks the graph: hardly any value comes twice.
    """

    recorder: Any
    tensor: Any

    def use(self) -> float:
        """Break the graph, because the value itself matters; the plain number."""
        if self.recorder is not None:
            recorder, self.recorder = self.recorder, None
            if not recorder.finished:
                recorder.refuse("item reads a value that is used")
        return float.__pos__(self)

    def __bool__(self) -> bool:
        r = float.__bool__(self)
        if self.recorder is not None:
            self.recorder.decide(self.tensor, "bool", true, r)
        return r

    def __reduce__(self) -> Any:
        return float, (self.use(),)

    @property
    def real(self) -> float:  # type: ignore[override]
        """The number."""
        return self.use()


def _compared(name: str) -> Any:
    plain, ask = getattr(float, name), getattr(operator, name.strip("_"))

    def method(self: Reading, other: Any) -> Any:
        r = plain(self, other)
        if r is NotImplemented or self.recorder is None:
            return r
        if isinstance(other, Reading):
            other = other.use()
        self.recorder.decide(self.tensor, name.strip("_"), lambda a: bool(ask(number(a), other)), r)
        return r

    return method


def _used(name: str) -> Any:
    plain = getattr(float, name)

    def method(self: Reading, *args: Any) -> Any:
        self.use()
        return plain(self, *args)

    return method


for _name in ("__lt__", "__le__", "__gt__", "__ge__", "__eq__", "__ne__"):
    setattr(Reading, _name, _compared(_name))
for _name in (
    "abs add divmod float floordiv format hash int mod mul neg pos pow radd rdivmod repr rfloordiv rmod rmul round rpow rsub "
    "rtruediv str sub truediv trunc ceil floor getnewargs"
).split():
    setattr(Reading, f"__{_name}__", _used(f"__{_name}__"))


def use_all(v: Any, depth: int = 0) -> None:
    """Break the graph for every reading found in ``v``."""
    if isinstance(v, Reading):
        v.use()
    elif isinstance(v, (list, tuple)) and depth < 3:
        for e in v:
            use_all(e, depth + 1)
    elif isinstance(v, dict) and depth < 3:
        for e in v.values():
            use_all(e, depth + 1)
    elif isinstance(v, slice):
        use_all((v.start, v.stop, v.step), depth + 1)


def plain(v: Any) -> Any:
    """A result with numbers in the place of readings."""
    if isinstance(v, Reading):
        v.recorder = None
        return v.use()
    if v.__class__ in (list, tuple):
        return v.__class__([plain(e) for e in v]) if any(plain(e) is not e for e in v) else v
    if v.__class__ is dict and any(plain(e) is not e for e in v.values()):
        return {k: plain(e) for k, e in v.items()}
    return v
