"""Two files of ``debug_layer_info(..., file="x.json")`` side by side."""

from __future__ import annotations

import dataclasses
import json
import math
from typing import Any

from mindtorch.tools.grid import grid
from mindtorch.tools.layers import number

Key = tuple[int, str, str, int, str]


@dataclasses.dataclass
class Pair:
    """One value of both files; a side is None where the value is missing. ``why`` is empty when they agree."""

    key: Key
    a: dict[str, Any] | None
    b: dict[str, Any] | None
    why: str

    @property
    def place(self) -> str:
        """``forward encoder.0 output[0] (step 1)`` in words."""
        step, phase, module, call, name = self.key
        again = f", call {call}" if call > 1 else ""
        when = f" (step {step}{again})" if step else ""
        return f"{phase} {name}{when}" if phase in ("parameter", "buffer") else f"{phase} {module or '(the net)'} {name}{when}"


@dataclasses.dataclass
class LayerComparison:
    """All pairs in the order of the first file, and the first that differs."""

    pairs: list[Pair]

    @property
    def first(self) -> Pair | None:
        """First divergence: weights before layers, forward before backward within a step."""
        return next((p for p in self.pairs if p.why), None)

    @property
    def differing(self) -> list[Pair]:
        """Every pair that differs."""
        return [p for p in self.pairs if p.why]

    def text(self, everything: bool = True) -> str:
        """The table, first divergence on top."""
        first = self.first
        head = f"{len(self.pairs)} values compared, {len(self.differing)} differ"
        lines = [f"first divergence: {first.place}: {first.why}" if first else "no divergence", head]
        rows = [_row(p) for p in self.pairs if everything or p.why]
        if rows:
            columns = ("step", "phase", "module", "value", "shape", "dtype", "max (A, B)", "min (A, B)", "mean (A, B)", "differs")
            lines.append(grid(columns, rows))
        return "\n".join(lines)


def read(path: str) -> list[dict[str, Any]]:
    """Records of one file. ValueError when it is no layer file."""
    try:
        with open(path, encoding="utf-8") as f:
            records = json.load(f)
    except json.JSONDecodeError as e:
        raise ValueError(f"{path} is no JSON file of debug_layer_info(..., file='x.json'): {e}") from e
    if not isinstance(records, list) or any(not isinstance(r, dict) or "phase" not in r for r in records):
        raise ValueError(f"{path} is no JSON file of debug_layer_info(..., file='x.json')")
    return records


def _key(r: dict[str, Any]) -> Key:
    return r["step"], r["phase"], r["module"], r["call"], r["name"]


def compare_layers(a: str, b: str, rtol: float = 1e-4, atol: float = 1e-4) -> LayerComparison:
    """Compare two files value by value; statistics agree within ``atol + rtol * |b|``."""
    left, right = ({_key(r): r for r in read(p)} for p in (a, b))
    keys = list(left) + [k for k in right if k not in left]
    order = {"parameter": 0, "buffer": 0, "forward": 1, "backward": 2}
    keys.sort(key=lambda k: (k[0], order.get(k[1], 3)))  # stable: within a phase as the first file has it
    pairs = [Pair(k, left.get(k), right.get(k), _why(left.get(k), right.get(k), rtol, atol)) for k in keys]
    return LayerComparison(pairs)


def _why(a: dict[str, Any] | None, b: dict[str, Any] | None, rtol: float, atol: float) -> str:
    if a is None or b is None:
        return "only in the second" if a is None else "only in the first"
    for k in ("shape", "dtype"):
        if a.get(k) != b.get(k):
            return f"{k} {a.get(k)} and {b.get(k)}"
    for k in ("nan", "inf"):
        if a.get(k) != b.get(k):
            return f"{a.get(k)} and {b.get(k)} {'NaN' if k == 'nan' else 'infinite'} elements"
    for k in ("value", "max", "min", "mean"):
        x, y = a.get(k), b.get(k)
        if isinstance(x, float) and isinstance(y, float):
            if not _close(x, y, rtol, atol):
                return f"{k} {number(x)} and {number(y)}, {abs(x - y):.3g} apart"
        elif x != y:
            return f"{k} {x} and {y}"
    return ""


def _close(x: float, y: float, rtol: float, atol: float) -> bool:
    if math.isnan(x) or math.isnan(y) or math.isinf(x) or math.isinf(y):
        return x == y or (math.isnan(x) and math.isnan(y))
    return abs(x - y) <= atol + rtol * abs(y)


def _row(p: Pair) -> tuple[Any, ...]:
    step, phase, module, call, name = p.key

    def both(k: str) -> str:
        x, y = ((r or {}).get(k, "") for r in (p.a, p.b))
        shown = [number(v) if v != "" else "-" for v in (x, y)]
        return ", ".join(shown) if (x, y) != ("", "") else ""

    def one(k: str) -> str:
        x, y = ((r or {}).get(k, "-") for r in (p.a, p.b))
        return str(x) if x == y else f"{x}, {y}"

    label = f"{module} (call {call})" if call > 1 else module
    return step or "", phase, label, name, one("shape"), one("dtype"), both("max"), both("min"), both("mean"), p.why
