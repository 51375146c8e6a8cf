"""Comparison of MindSpore checkpoints with each other and with PyTorch files, in TroubleShooter's tables."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from mindtorch.formats import weights
from mindtorch.tools.distance import distance
from mindtorch.tools.migrator.tables import distance_cells, titled
from mindtorch.tools.migrator.weight_map import _weights_of_file, converted, read_map

_SHAPES = (
    "Parameter name of original ckpt", "Parameter name of target ckpt", "Whether shape are equal",
    "Parameter shape of original ckpt", "Parameter shape of target ckpt",
)  # fmt: skip
_VALUES = (
    "Parameter name of original ckpt", "Parameter name of target ckpt", "result of allclose", "ratio of allclose",
    "cosine similarity", "mean & max diffs",
)  # fmt: skip


def _arrays(path: Any, name: str) -> dict[str, np.ndarray]:
    if path is None or not os.path.isfile(path):
        raise ValueError(f"{name!r} is no file: {path}")
    return {k: np.asarray(v) for k, v in weights.read(path).values.items() if not isinstance(v, str)}


def _checked(compare_value: Any, print_level: Any, rtol: Any, atol: Any) -> None:
    if not isinstance(compare_value, bool):
        raise TypeError(f"'compare_value' must be bool, got {type(compare_value).__name__}")
    if print_level not in (0, 1, 2) or isinstance(print_level, bool):
        raise ValueError(f"'print_level' must be 0 (nothing), 1 (everything) or 2 (differences), got {print_level!r}")
    for name, value in (("rtol", rtol), ("atol", atol)):
        if not isinstance(value, (int, float)) or value < 0:
            raise ValueError(f"{name!r} must be a number of at least 0, got {value!r}")


def _compare(
    orig: Mapping[str, np.ndarray],
    target: Mapping[str, np.ndarray],
    shown: Mapping[str, str],
    value: bool,
    level: int,
    rtol: float,
    atol: float,
    equal_nan: bool,
    sides: tuple[str, str],
) -> str:
    """Print the shape table and the value table; returns the text. ``shown`` has the names to show for the original."""
    shapes: list[tuple[Any, ...]] = []
    values: list[tuple[Any, ...]] = []
    for name, a in orig.items():
        label, b = shown.get(name, name), target.get(name)
        if b is None:
            shapes.append((label, None, None, a.shape, None))
            continue
        shapes.append((label, name, a.shape == b.shape, a.shape, b.shape))
        if value:
            d = distance(a, b, rtol, atol, equal_nan)
            values.append((label, name, *distance_cells(d)))
    shapes += [(None, name, None, None, b.shape) for name, b in target.items() if name not in orig]
    if level == 2:
        shapes = [r for r in shapes if r[2] is not True]
        values = [r for r in values if r[2] != "True"]
    if level == 0:
        return ""
    fields = [_named(c, sides) for c in _SHAPES], [_named(c, sides) for c in _VALUES]
    text = titled("The list of comparison results for shapes", fields[0], shapes)
    if value and values:
        text += "\n" + titled("The list of comparison results for values", fields[1], values)
    print(text)
    return text


def _named(column: str, sides: tuple[str, str]) -> str:
    return column.replace("original ckpt", sides[0]).replace("target ckpt", sides[1])


def compare_ms_ckpt(
    orig_file_path: Any,
    target_file_path: Any,
    *,
    compare_value: bool = True,
    print_level: int = 1,
    rtol: float = 1e-4,
    atol: float = 1e-4,
    equal_nan: bool = False,
) -> str:
    """Compare two MindSpore checkpoints (or files of any known format) by name; prints two tables and returns them.

    The first has names and shapes, the second (with ``compare_value``) whether values are close, the share that is, the
    cosine similarity, and mean and maximum of the absolute differences of the elements that differ. ``print_level``: 0
    nothing, 1 everything, 2 differences. MindSpore is not needed. ValueError when a path is no file.
    """
    _checked(compare_value, print_level, rtol, atol)
    orig, target = _arrays(orig_file_path, "orig_file_path"), _arrays(target_file_path, "target_file_path")
    sides = ("original ckpt", "target ckpt")
    return _compare(orig, target, {}, compare_value, print_level, rtol, atol, equal_nan, sides)


def compare_pth_and_ckpt(
    weight_map_path: Any,
    pt_file_path: Any,
    ms_file_path: Any,
    *,
    compare_value: bool = True,
    print_level: int = 1,
    rtol: float = 1e-4,
    atol: float = 1e-4,
    equal_nan: bool = False,
) -> str:
    """Compare a PyTorch file with a MindSpore checkpoint whose names a map of `get_weight_map` gives.

    Prints and returns the tables of `compare_ms_ckpt`, with PyTorch's names on the left. ValueError when a path is no
    file, or map and weights do not have the same names.
    """
    _checked(compare_value, print_level, rtol, atol)
    for name, path in (("weight_map_path", weight_map_path), ("pt_file_path", pt_file_path)):
        if path is None or not os.path.isfile(path):
            raise ValueError(f"{name!r} is no file: {path}")
    orig, rows = converted(read_map(weight_map_path), _weights_of_file(pt_file_path))
    target = _arrays(ms_file_path, "ms_file_path")
    shown = {new: old for old, new, *_ in rows}
    return _compare(orig, target, shown, compare_value, print_level, rtol, atol, equal_nan, ("torch", "MindSpore"))
