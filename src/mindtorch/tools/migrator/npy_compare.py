"""Comparison of two folders of ``.npy`` files, as `save` writes them, in TroubleShooter's table."""

from __future__ import annotations

import csv
import io
import os
import re
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import zip_longest
from typing import Any

import numpy as np

from mindtorch import log
from mindtorch.formats.files import atomic_write
from mindtorch.tools.distance import Distance, _cosine, _Sums, distance
from mindtorch.tools.migrator.tables import distance_cells, titled

Names = list[tuple["str | None", "str | None"]]
TITLE = "The list of comparison results"
NUMBERS = ("result of allclose", "ratio of allclose", "cosine similarity", "mean & max diffs")
SHAPES = ("shape of orig", "shape of target")


# ------------------------------------------------------------------------------------------ numbers
def cal_algorithm(
    orig_value: Any, target_value: Any, rtol: float = 1e-4, atol: float = 1e-4, equal_nan: bool = False
) -> tuple[Any, float, float, tuple[float, float]]:
    """``(allclose, ratio, cosine, (mean, max))`` of two arrays: whether all elements are close, the share that is, the cosine
    similarity, and mean and maximum of the absolute differences of those that differ.

    ``allclose`` is a text when the shapes differ, and False when one of the two is None.
    """
    d = _distance(orig_value, target_value, rtol, atol, equal_nan)
    return d.allclose, d.ratio, d.cosine, (d.mean, d.max)


def cal_cosine_sim(a: Any, b: Any) -> float:
    """Cosine similarity of two arrays of one size: 1 when both are zero, NaN when one is. ValueError for other sizes."""
    a, b = np.asarray(a).reshape(-1), np.asarray(b).reshape(-1)
    if a.shape != b.shape:
        raise ValueError(f"cal_cosine_sim: the arrays have {a.size} and {b.size} elements")
    sums = _Sums()
    sums.add(a, b, 0.0, 0.0, False)
    return _cosine(sums)


def _distance(a: Any, b: Any, rtol: float, atol: float, equal_nan: bool) -> Distance:
    if a is None or b is None:
        return Distance(False, 0.0, np.nan, np.nan, np.nan)
    return distance(np.asarray(a), np.asarray(b), rtol, atol, equal_nan)


# ------------------------------------------------------------------------------------------ which file goes with which
def _order(name: str) -> tuple[int, int, str]:
    """By the number at the start, then by the number at the end."""
    first, last = re.match(r"\d+", name), re.search(r"(\d+)$", name.removesuffix(".npy"))
    return (int(first.group()) if first else 0, int(last.group(1)) if last else 0, name)


def _files(folder: Any, parameter: str) -> list[str]:
    if folder is None or not os.path.isdir(folder):
        raise ValueError(f"{parameter!r} is no folder: {folder}")
    names = sorted((n for n in os.listdir(folder) if n.endswith(".npy")), key=_order)
    if not names:
        raise ValueError(f"{parameter!r} has no .npy files: {os.fspath(folder)}")
    return names


def _both(orig_dir: Any, target_dir: Any) -> tuple[list[str], list[str]]:
    return _files(orig_dir, "orig_dir"), _files(target_dir, "target_dir")


def get_name_map_list_by_name(orig_dir: Any, target_dir: Any) -> Names:
    """Pairs ``(a, b)`` of files with one name; None stands where the other folder has no such file, and a warning says so.

    ValueError when a folder does not exist or has no ``.npy`` files.
    """
    a, b = _both(orig_dir, target_dir)
    pairs: Names = [(n, n if n in set(b) else None) for n in a]
    pairs += [(None, n) for n in b if n not in set(a)]
    if any(None in p for p in pairs):
        log.logger().warning(
            "get_name_map_list_by_name: not every file has a partner of its name; complete the pairs by hand, or pair by number or shape"
        )
    return pairs


def get_name_map_list_by_number(orig_dir: Any, target_dir: Any) -> Names:
    """Pairs in the order of the numbers at the start and at the end of the names; None where one folder has fewer files.

    ValueError when a folder does not exist or has no ``.npy`` files.
    """
    a, b = _both(orig_dir, target_dir)
    if len(a) != len(b):
        log.logger().warning("get_name_map_list_by_number: %d files in %s and %d in %s", len(a), orig_dir, len(b), target_dir)
    return list(zip_longest(a, b))


def get_name_map_list_by_shape_edit_distance(
    orig_dir: Any, target_dir: Any, *, del_cost: float = 1, ins_cost: float = 1, rep_cost: float = 5
) -> Names:
    """Pairs in order of number with the cheapest edit that turns the shapes of one folder into those of the other.

    ``del_cost`` is paid for a file of the first folder left alone, ``ins_cost`` for one of the second, ``rep_cost`` for a
    pair with different shapes. ValueError when a folder does not exist or has no ``.npy`` files, or a cost is negative.
    """
    for name, cost in (("del_cost", del_cost), ("ins_cost", ins_cost), ("rep_cost", rep_cost)):
        if isinstance(cost, bool) or not isinstance(cost, (int, float)) or cost < 0:
            raise ValueError(f"get_name_map_list_by_shape_edit_distance: {name} must be a number of at least 0, got {cost!r}")
    a, b = _both(orig_dir, target_dir)
    shapes = [[_shape(folder, n) for n in names] for folder, names in ((orig_dir, a), (target_dir, b))]
    cost, steps = _edit(shapes[0], shapes[1], del_cost, ins_cost, rep_cost)
    if cost:
        log.logger().warning("get_name_map_list_by_shape_edit_distance: the numbers or shapes of the files differ, some pairs may be wrong")
    return [(a[i] if i is not None else None, b[j] if j is not None else None) for i, j in steps]


def _shape(folder: Any, name: str) -> tuple[int, ...]:
    return np.load(os.path.join(folder, name), mmap_mode="r").shape


def _edit(a: Sequence[Any], b: Sequence[Any], delete: float, insert: float, replace: float) -> tuple[float, list[tuple[Any, Any]]]:
    """Cost of the cheapest edit, and its pairs of positions; equal items are paired without cost."""
    best = [[0.0] * (len(b) + 1) for _ in range(len(a) + 1)]
    for i in range(len(a), -1, -1):
        for j in range(len(b), -1, -1):
            ways = []
            if i < len(a) and j < len(b):
                ways.append(best[i + 1][j + 1] + (0 if a[i] == b[j] else replace))
            if i < len(a):
                ways.append(best[i + 1][j] + delete)
            if j < len(b):
                ways.append(best[i][j + 1] + insert)
            best[i][j] = min(ways, default=0.0)
    pairs: list[tuple[Any, Any]] = []
    i = j = 0
    while i < len(a) or j < len(b):
        here = best[i][j]
        if i < len(a) and j < len(b) and here == best[i + 1][j + 1] + (0 if a[i] == b[j] else replace):
            pairs.append((i, j))
            i, j = i + 1, j + 1
        elif i < len(a) and here == best[i + 1][j] + delete:
            pairs.append((i, None))
            i += 1
        else:
            pairs.append((None, j))
            j += 1
    return best[0][0], pairs


# ------------------------------------------------------------------------------------------ the comparisons
def compare_npy_dir(
    orig_dir: Any,
    target_dir: Any,
    rtol: float = 1e-4,
    atol: float = 1e-4,
    equal_nan: bool = False,
    *,
    name_map_list: Names | None = None,
    compare_shape: bool = False,
    output_file: Any = None,
    num_processes: int | None = None,
) -> list[tuple[Any, ...]]:
    """Print a table of how far the files of two folders are apart, and return its rows.

    Args:
        orig_dir, target_dir: folders of ``.npy`` files.
        rtol, atol, equal_nan: an element is close when ``|a - b| <= atol + rtol * |b|``.
        name_map_list: pairs of file names; by default files of one name are paired.
        compare_shape: two columns with the shapes.
        output_file: write the table as csv too.
        num_processes: files compared at once (threads, so it may be called from anywhere); default: processors less one, at most 8.

    ValueError when a folder does not exist or has no ``.npy`` files, TypeError for tolerances that are no numbers.
    """
    _checked(rtol, atol, equal_nan, compare_shape, num_processes)
    _both(orig_dir, target_dir)
    pairs = get_name_map_list_by_name(orig_dir, target_dir) if name_map_list is None else list(name_map_list)

    def row(pair: tuple[str | None, str | None]) -> tuple[Any, ...]:
        a, b = (_load(folder, n) for folder, n in zip((orig_dir, target_dir), pair))
        d = _distance(a, b, rtol, atol, equal_nan)
        shapes = tuple(None if x is None else x.shape for x in (a, b)) if compare_shape else ()
        return (*pair, *shapes, *distance_cells(d))

    with ThreadPoolExecutor(num_processes or max(1, min(8, (os.cpu_count() or 2) - 1))) as pool:
        rows = list(pool.map(row, pairs))
    columns = ("orig array name", "target array name", *(SHAPES if compare_shape else ()), *NUMBERS)
    print(f"The orig dir: {os.fspath(orig_dir)}\nThe target dir: {os.fspath(target_dir)}")
    show(columns, rows, output_file)
    return rows


def show(columns: Sequence[str], rows: Sequence[Sequence[Any]], output_file: Any = None) -> None:
    """Print a table of results; with ``output_file`` write it as csv, every field quoted."""
    print(titled(TITLE, columns, rows))
    if output_file is not None:
        text = io.StringIO()
        writer = csv.writer(text, dialect="unix")
        writer.writerow(columns)
        writer.writerows(rows)
        with atomic_write(os.fspath(output_file)) as file:
            file.write(text.getvalue().encode())


def _load(folder: Any, name: str | None) -> np.ndarray | None:
    path = os.path.join(folder, name) if name is not None else None
    return np.load(path) if path is not None and os.path.isfile(path) else None


def _checked(rtol: Any, atol: Any, equal_nan: Any, compare_shape: Any, num_processes: Any) -> None:
    for name, x in (("rtol", rtol), ("atol", atol)):
        if isinstance(x, bool) or not isinstance(x, (int, float)):
            raise TypeError(f"{name} must be a float, got {x!r}")
    for name, x in (("equal_nan", equal_nan), ("compare_shape", compare_shape)):
        if not isinstance(x, bool):
            raise TypeError(f"{name} must be True or False, got {x!r}")
    if num_processes is not None and (not isinstance(num_processes, int) or num_processes < 1):
        raise ValueError(f"num_processes must be a whole number of at least 1, got {num_processes!r}")


def _compare_paired(name: str, pairing: Callable[[Any, Any], Names], what: str, shapes: bool = False) -> Callable[..., list[tuple[Any, ...]]]:
    """`compare_npy_dir` under another name, for files that ``pairing`` puts together."""

    def compare(
        orig_dir: Any, target_dir: Any, rtol: float = 1e-4, atol: float = 1e-4, equal_nan: bool = False, compare_shape: bool = shapes,
        output_file: Any = None,
    ) -> list[tuple[Any, ...]]:  # fmt: skip
        pairs = pairing(orig_dir, target_dir)
        return compare_npy_dir(
            orig_dir, target_dir, rtol, atol, equal_nan, name_map_list=pairs, compare_shape=compare_shape, output_file=output_file
        )

    compare.__name__ = compare.__qualname__ = name
    compare.__doc__ = f"`compare_npy_dir` of {what} (`{pairing.__name__}`)."
    return compare


compare_list_dir = _compare_paired("compare_list_dir", get_name_map_list_by_number, "saved lists: files are paired by number")
compare_dict_dir = _compare_paired("compare_dict_dir", get_name_map_list_by_name, "saved dicts: files are paired by name")
compare_grads_dir = _compare_paired(
    "compare_grads_dir", get_name_map_list_by_shape_edit_distance, "saved gradients: files are paired by their shapes, in order of number", shapes=True
)
