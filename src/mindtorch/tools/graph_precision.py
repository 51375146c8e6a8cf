"""``ts.widget.precision_tracker``: where a graph of MindSpore's compiler gains or loses precision.

With ``save_graphs=3`` MindSpore writes its graphs as ``ms_output_*.pb``. They are read here without MindSpore.
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterator, Sequence
from typing import Any

from mindtorch.tools.appending import replace

FLAGS = ("normal", "raise", "reduce")
TITLE = (
    "op_name", "op_full_name", "op_type", "precision_flag", "input or output", "index", "input from op or output to op", "shape", "dtype",
)  # fmt: skip
_DTYPES = dict(
    enumerate("bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64".split(), 1)
) | {43: "complex64", 44: "complex128", 46: "bfloat16", 48: "int4"}  # fmt: skip
_DIGITS = {"bfloat16": 8, "float16": 11, "float32": 24, "float64": 53, "complex64": 24, "complex128": 53}
"""Bits of the mantissa of floating types: what precision is."""


def precision_tracker(
    abs_pb_filepath: Any, precision_flags: Sequence[str] = FLAGS, *, output_path: Any = None, output_filename: str | None = None
) -> str:
    """Write a csv with the inputs and outputs of every operator of a graph, and return its path.

    ``precision_flags`` are the operators wanted: "raise", "reduce" and "normal". An operator has the flag that the compiler
    gave it; without one it raises precision when its widest floating output has more digits than its widest floating
    input, and reduces it when it has fewer. The file is named after the graph and lies beside it, unless ``output_path``
    (a folder) and ``output_filename`` say otherwise.

    TypeError when ``precision_flags`` is no list, ValueError for an unknown flag or a file that is no such graph.
    """
    if not isinstance(precision_flags, (list, tuple)):
        raise TypeError(f"precision_tracker: precision_flags must be a list or tuple, got {type(precision_flags).__name__}")
    for f in precision_flags:
        if f not in FLAGS:
            raise ValueError(f"precision_tracker: precision_flags takes {', '.join(FLAGS)}, got {f!r}")
    path = os.path.abspath(os.fspath(abs_pb_filepath))
    with open(path, "rb") as file:
        nodes, known = _graph(file.read(), path)
    readers: dict[str, list[str]] = {}
    for n in nodes:
        for i in n["inputs"]:
            readers.setdefault(i, []).append(n["full_name"])
    rows: list[Sequence[Any]] = [TITLE]
    for n in nodes:
        flag = n["flag"] or _flag([known[i][1] for i in n["inputs"] if i in known], n["dtype"])
        if flag not in precision_flags:
            continue
        head = (n["full_name"].rpartition("/")[2], n["full_name"], n["op_type"], flag)
        for k, i in enumerate(n["inputs"]):
            shape, dtype, origin = (*known[i],)[:3] if i in known else ("-", "-", i)
            rows.append((*head, "input", k, origin, shape, dtype))
        for k, reader in enumerate(readers.get(n["name"], ["-"])):
            rows.append((*head, "output", k, reader.rpartition("/")[2], n["shape"], n["dtype"]))
    name = (output_filename or os.path.basename(path)).partition(".")[0] + ".csv"
    out = os.path.join(os.path.dirname(path) if output_path is None else os.fspath(output_path), name)
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    os.makedirs(os.path.dirname(out), exist_ok=True)
    replace(out, lambda f: f.write(text.getvalue().encode()))
    print(f"precision_tracker: {len({r[1] for r in rows[1:]})} of {len(nodes)} operators written to {out}")
    return out


def _flag(inputs: list[str], output: str) -> str:
    """"raise", "reduce" or "normal", by the digits of floating types."""
    widest = max((_DIGITS[d] for d in inputs if d in _DIGITS), default=0)
    if not widest or output not in _DIGITS or _DIGITS[output] == widest:
        return "normal"
    return "raise" if _DIGITS[output] > widest else "reduce"


# ------------------------------------------------------------------------------------------ the file
def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """``(number, value)`` of a protobuf message: an int, or the bytes of what is longer. ValueError when it is none."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        wire = key & 7
        if wire == 0:
            value, at = _varint(data, at)
            yield key >> 3, value
            continue
        size, at = _varint(data, at) if wire == 2 else ({1: 8, 5: 4}.get(wire, len(data) + 1), at)
        if at + size > len(data) or key < 8:
            raise ValueError("not a protobuf message")
        yield key >> 3, data[at : at + size]
        at += size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise ValueError("not a protobuf message")
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at


def _graph(data: bytes, path: str) -> tuple[list[dict[str, Any]], dict[str, tuple[str, str, str]]]:
    """Operators in order, and shape, dtype and shown name of everything that can be an input."""
    nodes: list[dict[str, Any]] = []
    known: dict[str, tuple[str, str, str]] = {}
    try:
        graph = next((v for k, v in _fields(data) if k == 4), None)
        if graph is None:
            raise ValueError("it holds no graph")
        for number, value in _fields(graph):
            if number == 1:
                n = _node(value)
                nodes.append(n)
                known[n["name"]] = (n["shape"], n["dtype"], n["full_name"].rpartition("/")[2])
            elif number == 3:
                parts = dict(_fields(value))
                name = parts[1].decode()
                known[name] = (*_type(parts.get(2, b"")), name)
    except (ValueError, KeyError, AttributeError, TypeError) as e:
        raise ValueError(f"precision_tracker: {path} is no graph that MindSpore wrote (ms_output_*.pb): {e}") from e
    return nodes, known


def _node(data: bytes) -> dict[str, Any]:
    n: dict[str, Any] = {"inputs": [], "name": "", "op_type": "", "full_name": "", "flag": "", "shape": "-", "dtype": "-"}
    for number, value in _fields(data):
        if number == 1:
            n["inputs"].append(dict(_fields(value))[1].decode())
        elif number in (2, 3, 8):
            n[{2: "name", 3: "op_type", 8: "full_name"}[number]] = value.decode()
        elif number == 5:
            attribute = dict(_fields(value))
            if attribute.get(1) == b"precision_flag":
                n["flag"] = dict(_fields(attribute[2])).get(7, b"").decode()
        elif number == 6:
            n["shape"], n["dtype"] = _type(value)
    n["full_name"] = n["full_name"] or n["name"]
    return n


def _type(data: bytes) -> tuple[str, str]:
    """Shape and dtype of a type; of the first tensor of a tuple."""
    for number, value in _fields(data):
        if number == 2:
            tensor = dict(_fields(value))
            shape = [dict(_fields(d)).get(1, 0) for k, d in _fields(tensor.get(2, b"")) if k == 1]
            return str([s - (1 << 64) if s >> 63 else s for s in shape]), _DTYPES.get(tensor.get(1, 0), "-")
        if number == 3:
            first = next((v for k, v in _fields(value) if k == 1), None)
            return _type(first) if first is not None else ("-", "-")
    return "-", "-"
