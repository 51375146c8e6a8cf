"""``ts.widget``: gradients of a net, weights into a MindSpore net, objects in files, loss curves of two logs."""

from __future__ import annotations

import csv
import io
import json
import math
import os
import pickle
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mindtorch.engine.mindspore import door
from mindtorch.formats.files import atomic_write
from mindtorch.tools import frameworks
from mindtorch.tools.graph_precision import precision_tracker
from mindtorch.tools.randomness import fix_random

__all__ = [
    "fix_random", "get_pt_grads", "load_ms_weight2net", "loss_compare", "object_dump", "object_load", "precision_tracker", "save_convert",
]  # fmt: skip


def get_pt_grads(model: Any) -> dict[str, Any]:
    """Gradients of a net of PyTorch or mindtorch after a backward pass: ``{"<name>_<index>": gradient}``.

    Parameters without a gradient are left out; the index counts those that need one. TypeError for other objects.
    """
    if frameworks.frame_of(model) is None:
        raise TypeError(f"get_pt_grads: model must be an nn.Module of PyTorch or mindtorch, got {type(model).__name__}")
    wanted = [(n, p) for n, p in model.named_parameters() if p.requires_grad]
    return {f"{n}_{i}": p.grad for i, (n, p) in enumerate(wanted) if p.grad is not None}


def load_ms_weight2net(ms_net: Any, weight_file: Any) -> None:
    """Load a MindSpore checkpoint into a ``mindspore.nn.Cell``; names without a partner are named by MindSpore's warning.

    TypeError when ``ms_net`` is no Cell, ValueError when the file is none.
    """
    ms = door.program()

    if not isinstance(ms_net, ms.nn.Cell):
        raise TypeError(f"load_ms_weight2net: ms_net must be mindspore.nn.Cell, got {type(ms_net).__name__}")
    if not os.path.isfile(weight_file):
        raise ValueError(f"load_ms_weight2net: no such file: {weight_file}")
    ms.load_param_into_net(ms_net, ms.load_checkpoint(os.fspath(weight_file)))


def object_dump(obj: Any, file: Any) -> None:
    """Write an object as JSON. TypeError when JSON cannot say it."""
    _write(os.fspath(file), json.dumps(obj))


def object_load(file: Any) -> Any:
    """The object that `object_dump` wrote, or one in a pickle of plain values (no class is ever imported).

    ValueError when the file is neither.
    """
    with open(file, "rb") as f:
        data = f.read()
    try:
        return json.loads(data)
    except (UnicodeDecodeError, json.JSONDecodeError):
        pass
    try:
        return _Plain(io.BytesIO(data)).load()
    except Exception as e:
        raise ValueError(f"object_load: {file} holds neither JSON nor a pickle of plain values: {e}") from e


class _Plain(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"it names {module}.{name}")


def save_convert(orig_file: Any, output_path: Any = None) -> str:
    """Text of values printed by ``save(..., output_mode="print")``, as ``.npy`` files; returns the folder.

    ``output_path`` is ``./ts_save_convert`` by default. ValueError when the file has no such values.
    """
    with open(orig_file, encoding="utf-8") as f:
        parts = re.split(r"^_TS_SAVE_NAME:(.*)\n", f.read(), flags=re.M)[1:]
    if not parts:
        raise ValueError(f"save_convert: {orig_file} has no lines that begin with _TS_SAVE_NAME:")
    folder = os.path.join(os.getcwd(), "ts_save_convert") if output_path is None else os.fspath(output_path)
    os.makedirs(folder, exist_ok=True)
    for name, text in zip(parts[::2], parts[1::2]):
        np.save(os.path.join(folder, os.path.basename(name.strip()) + ".npy"), _parsed(text))
    return folder


def _parsed(text: str) -> np.ndarray:
    """The array at the beginning of a text, as NumPy prints it."""
    depth = end = 0
    for end, c in enumerate(text):
        depth += (c == "[") - (c == "]")
        if depth == 0 and (c == "]" or (c == "\n" and text[:end].strip())):
            break
    body = text[: end + 1].strip()
    shape = [0] * (len(body) - len(body.lstrip("[")))
    words = re.findall(r"True|False|[^\s\[\]]+", body)
    flat = np.array([_number(w) for w in words])
    for level in range(len(shape)):
        shape[level] = _count(body, level + 1, len(shape), len(words), shape[:level])
    return flat.reshape(shape)


def _number(word: str) -> Any:
    if word in ("True", "False"):
        return word == "True"
    try:
        return int(word)
    except ValueError:
        return complex(word) if word.endswith("j") else float(word)


def _count(body: str, level: int, depth: int, words: int, outer: Sequence[int]) -> int:
    """Length of axis ``level - 1``."""
    if level == depth:
        return words // max(1, math.prod(outer))
    at = opened = 0
    for c in body:
        at += (c == "[") - (c == "]")
        opened += c == "[" and at == level + 1
    return opened // max(1, math.prod(outer))


# ------------------------------------------------------------------------------------------ loss curves
_LOSS = r"\s*([-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?|nan|inf))"


def _losses(side: Any, name: str) -> tuple[list[float], str]:
    if not isinstance(side, Mapping) or not {"path", "loss_tag"} <= set(side):
        raise TypeError(f"loss_compare: {name} must be a dict with path, loss_tag and label, got {side!r}")
    pattern = re.compile(re.escape(side["loss_tag"]) + _LOSS, re.I)
    with open(side["path"], encoding="utf-8", errors="replace") as f:
        found = [float(m.group(1)) for m in map(pattern.search, f) if m]
    if not found:
        raise ValueError(f"loss_compare: no number follows {side['loss_tag']!r} anywhere in {side['path']}")
    return found, str(side.get("label", name))


def loss_compare(left_file: Any, right_file: Any, title: str = "Loss Compare") -> dict[str, float]:
    """Read the losses of two logs, draw them and their differences, and write statistics.

    Args:
        left_file, right_file: each ``{"path": log file, "loss_tag": text before the number, "label": name in the picture}``.
            In every line the first number behind the tag counts.
        title: of the picture.

    Writes ``./loss_compare/loss_compare.png`` and ``error.png`` (matplotlib has to be installed), ``statistic.csv``, and for
    each log a csv of its losses. Returns the statistics: LEFT_MAX ... RIGHT_MEAN, MAX_ABS_ERROR and MAX_REL_ERROR (of the
    left beside the right; over the steps that both have). ValueError when a log has no loss.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as e:
        raise ImportError("loss_compare draws pictures with matplotlib, which is not installed: pip install matplotlib") from e
    (left, left_label), (right, right_label) = _losses(left_file, "left_file"), _losses(right_file, "right_file")
    n = min(len(left), len(right))
    a, b = np.array(left[:n]), np.array(right[:n])
    with np.errstate(all="ignore"):
        error = np.abs(a - b)
        relative = np.where(error == 0, 0.0, error / np.abs(b))
    statistic: dict[str, float] = {}
    for side, found in (("LEFT", left), ("RIGHT", right)):
        statistic |= {f"{side}_MAX": max(found), f"{side}_MIN": min(found), f"{side}_MEAN": float(np.mean(found))}
    statistic |= {"MAX_ABS_ERROR": float(error.max()), "MAX_REL_ERROR": float(relative.max())}
    folder = os.path.join(os.getcwd(), "loss_compare")
    os.makedirs(folder, exist_ok=True)

    def draw(name: str, curves: Sequence[tuple[Any, str]], heading: str) -> None:
        figure = Figure(figsize=(9, 5), layout="constrained")
        axes = figure.add_subplot()
        for curve, label in curves:
            axes.plot(range(len(curve)), curve, label=label, linewidth=1.2)
        axes.set(title=heading, xlabel="step", ylabel="loss" if name.startswith("loss") else "difference")
        axes.grid(alpha=0.3)
        axes.legend()
        FigureCanvasAgg(figure).print_png(os.path.join(folder, name))

    draw("loss_compare.png", [(left, left_label), (right, right_label)], title)
    draw("error.png", [(error, "absolute"), (relative, "relative")], f"{title}: differences")
    _csv(os.path.join(folder, "statistic.csv"), list(statistic), [[statistic[k] for k in statistic]])
    names = [os.path.splitext(os.path.basename(f["path"]))[0] for f in (left_file, right_file)]
    if names[0] == names[1]:
        names = [f"left_{names[0]}", f"right_{names[1]}"]
    for name, found in zip(names, (left, right)):
        _csv(os.path.join(folder, f"{name}.csv"), ["step", "loss"], list(enumerate(found)))
    return statistic


def _csv(path: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(columns)
    writer.writerows(rows)
    _write(path, text.getvalue())


def _write(path: str, text: str) -> None:
    with atomic_write(path) as file:
        file.write(text.encode())
