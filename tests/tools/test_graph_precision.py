"""`precision_tracker` on a graph that MindSpore 2.10 wrote on a CPU: a dense layer, a cast to float16, relu, a cast back."""

from __future__ import annotations

import csv
import shutil
from pathlib import Path

import pytest

from mindtorch.tools import as_troubleshooter

GOLDEN = Path(__file__).parent / "golden_ms210" / "ms_output_after_opt_0.pb"


def rows(path):
    with open(path, newline="") as f:
        return list(csv.DictReader(f))


def test_casts_are_told_from_the_rest(tmp_path):
    graph = tmp_path / "graph.pb"
    shutil.copy(GOLDEN, graph)
    path = as_troubleshooter().widget.precision_tracker(graph)
    assert Path(path) == tmp_path / "graph.csv"
    found = rows(path)
    flags = {(r["op_full_name"], r["precision_flag"]) for r in found if r["op_type"] == "Cast"}
    assert flags == {("Default/Cast-op3", "reduce"), ("Default/Cast-op4", "raise"), ("Default/Cast-op5", "raise")}
    assert {r["precision_flag"] for r in found if r["op_type"] != "Cast"} == {"normal"}
    dense = [r for r in found if r["op_type"] == "MatMul"]
    assert [(r["input or output"], r["input from op or output to op"], r["shape"], r["dtype"]) for r in dense] == [
        ("input", "x", "[2, 4]", "float32"), ("input", "Load-op0", "[3, 4]", "float32"), ("input", "cst2", "-", "-"),
        ("input", "cst3", "-", "-"), ("output", "BiasAdd-op0", "[2, 3]", "float32"),
    ]  # fmt: skip


def test_only_what_was_asked_for_and_where(tmp_path):
    widget = as_troubleshooter().widget
    path = widget.precision_tracker(str(GOLDEN), ["reduce"], output_path=tmp_path / "new", output_filename="lost.pb")
    assert Path(path) == tmp_path / "new" / "lost.csv"
    assert {r["op_name"] for r in rows(path)} == {"Cast-op3"}
    with pytest.raises(ValueError, match="normal, raise, reduce"):
        widget.precision_tracker(GOLDEN, ("lower",))
    with pytest.raises(TypeError, match="list or tuple"):
        widget.precision_tracker(GOLDEN, "raise")
    (tmp_path / "other.pb").write_bytes(b"no graph at all")
    with pytest.raises(ValueError, match="is no graph"):
        widget.precision_tracker(tmp_path / "other.pb")


def test_reads_what_mindspore_reads():
    ir = pytest.importorskip("mindspore.train.anf_ir_pb2", reason="MindSpore is not installed")
    from mindtorch.tools.graph_precision import _graph

    model = ir.ModelProto()
    model.ParseFromString(GOLDEN.read_bytes())
    ours, _ = _graph(GOLDEN.read_bytes(), "")
    assert [(n["name"], n["op_type"], n["full_name"], n["inputs"]) for n in ours] == [
        (n.name, n.op_type, n.full_name, [i.name for i in n.input]) for n in model.graph.node
    ]
