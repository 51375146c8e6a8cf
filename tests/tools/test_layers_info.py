"""debug_layer_info: the same text from both frameworks, files, limits, and the comparison of two files."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys

import pytest
from net_sources import nets

import mindtorch.torch as mt
import torch
from mindtorch.tools import debug_layer_info, layer_tables

FRAMES = {"pytorch": torch, "mindtorch": mt}


def run(frame, steps=1, change=None, **options):
    t = FRAMES[frame]
    t.manual_seed(0)
    net = nets(t).Net()
    if change:
        change(net)
    net.eval()
    handle = debug_layer_info(net, frame=frame, **options)
    for _ in range(steps):
        net((t.arange(36.0).reshape(1, 1, 6, 6) - 18) / 6).logits.sum().backward()
    handle.remove()
    return net


def test_both_frameworks_print_the_same_text(capsys):
    texts = {}
    for frame in FRAMES:
        run(frame, type_info=True)
        texts[frame] = capsys.readouterr().out
    a, b = (t.splitlines() for t in texts.values())
    assert [x.replace("pytorch", "mindtorch") for x in a[:2]] == b[:2]
    assert [x for x in a if not x.startswith(">>>")] == [x for x in b if not x.startswith(">>>")]
    text = texts["mindtorch"]
    assert "conv.weight shape: (2, 1, 3, 3)  dtype: torch.float32" in text
    assert text.index("head.bias") < text.index("bn.running_mean") < text.index("[forward]: conv")
    assert "[forward]: relu (call 2)" in text
    assert "input[scale] shape: (8,)" in text
    assert "output[y] shape: (1, 8)" in text
    assert "output[logits] shape: (1, 3)" in text
    order = [line.split("]: ")[1].split(" ---")[0] for line in a if "[forward]:" in line]
    assert order == ["conv", "bn", "relu", "inner.fc", "inner", "relu (call 2)", "head", order[-1]]
    assert not order[-1].strip("- ")
    assert "[backward]: conv" in text
    assert text.index("[backward]: head") < text.index("[backward]: inner.fc") < text.index("[backward]: conv")


def test_text_files_are_equal_byte_for_byte(tmp_path):
    for frame in FRAMES:
        run(frame, file=str(tmp_path / f"{frame}.txt"))
    assert (tmp_path / "pytorch.txt").read_bytes() == (tmp_path / "mindtorch.txt").read_bytes()


def test_statistics_are_the_tensors_own(tmp_path):
    net = run("mindtorch", file=str(tmp_path / "a.json"))
    records = json.loads((tmp_path / "a.json").read_text())
    got = next(r for r in records if r["name"] == "conv.weight")
    w = net.conv.weight
    assert (got["max"], got["min"]) == (w.max().item(), w.min().item())
    assert got["mean"] == pytest.approx(w.mean().item(), abs=1e-7)
    assert [r["name"] for r in records if r["phase"] == "buffer"] == [n for n, _ in net.named_buffers()]


def test_steps_and_module_filter(tmp_path):
    net_file = str(tmp_path / "a.json")
    mt.manual_seed(0)
    net = nets(mt).Net()
    with debug_layer_info(net, file=net_file, steps=2, modules=["inner*", mt.nn.Conv2d], params_info=False, backward=False) as h:
        for _ in range(4):
            net(mt.rand(2, 1, 6, 6))
        assert h.steps == 2
    records = json.loads(open(net_file).read())
    assert {r["module"] for r in records} == {"conv", "inner.fc", "inner"}
    assert {r["step"] for r in records} == {1, 2}
    assert {r["phase"] for r in records} == {"forward"}


def test_hooks_are_gone_after_remove(capsys):
    net = run("mindtorch")
    capsys.readouterr()
    net(mt.rand(1, 1, 6, 6))
    assert capsys.readouterr().out == ""
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in net.modules())


def test_nan_and_inf_are_flagged(capsys):
    for frame, t in FRAMES.items():
        net = t.nn.Sequential(t.nn.Identity())
        debug_layer_info(net, frame=frame, params_info=False)
        net(t.tensor([float("nan"), float("inf"), 1.0]))
        out = capsys.readouterr().out
        assert "output[0] shape: (3,)  dtype: torch.float32  NaN: 1  Inf: 1" in out


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "complex64", "bool", "int64"])
def test_every_dtype(dtype, capsys):
    lines = []
    for frame, t in FRAMES.items():
        net = t.nn.Sequential(t.nn.Identity())
        debug_layer_info(net, frame=frame)
        net(t.tensor([0, 1, 3]).to(getattr(t, dtype)))
        lines.append([x for x in capsys.readouterr().out.splitlines() if ">>>" not in x])
    assert lines[0] == lines[1]
    assert any(f"dtype: torch.{dtype}" in x for x in lines[0])


def test_rank_is_in_the_file_name(tmp_path, monkeypatch):
    monkeypatch.setenv("RANK", "3")
    run("mindtorch", file=str(tmp_path / "a.json"))
    assert [p.name for p in tmp_path.iterdir()] == ["a.rank3.json"]


def test_csv_file(tmp_path):
    run("mindtorch", file=str(tmp_path / "a.csv"))
    rows = list(csv.DictReader(open(tmp_path / "a.csv")))
    assert {"step", "phase", "module", "max", "nan"} <= set(rows[0])
    assert any(r["module"] == "inner" and r["value"] == "output[y]" and r["shape"] == "(1, 8)" for r in rows)


def test_wrong_frame_and_model_are_refused():
    with pytest.raises(ValueError, match="frame must be"):
        debug_layer_info(mt.nn.Linear(1, 1), frame="mindspore")
    with pytest.raises(ValueError, match="pass frame='mindtorch'"):
        debug_layer_info(mt.nn.Linear(1, 1), frame="pytorch")
    with pytest.raises(ValueError, match="must be an nn.Module of mindtorch, got builtins.int"):
        debug_layer_info(3)


def scaled(net):
    net.inner.fc.weight.data.mul_(1.5)


def test_comparison_names_the_first_layer(tmp_path):
    for frame, change in (("pytorch", None), ("mindtorch", scaled)):
        run(frame, file=str(tmp_path / f"{frame}.json"), change=change, params_info=False)
    found = layer_tables.compare_layers(str(tmp_path / "pytorch.json"), str(tmp_path / "mindtorch.json"))
    assert found.first.key[1:3] == ("forward", "inner.fc")
    assert found.text().startswith("first divergence: forward inner.fc output[0] (step 1)")


def test_command_line(tmp_path):
    for name, change in (("a", None), ("b", None), ("c", scaled)):
        run("mindtorch", file=str(tmp_path / f"{name}.json"), change=change)

    def command(*args):
        cmd = [sys.executable, "-m", "mindtorch", "layers", *args]
        return subprocess.run(cmd, cwd=tmp_path, capture_output=True, text=True, env=os.environ)

    same, other = command("a.json", "b.json"), command("a.json", "c.json", "--differing")
    assert same.returncode == 0 and same.stdout.startswith("no divergence")
    assert other.returncode == 1 and other.stdout.startswith("first divergence: parameter inner.fc.weight")
    assert command("a.json", "nowhere.json").returncode == 2


def test_neither_framework_is_imported_by_the_tools():
    code = (
        "import sys, mindtorch.tools as t; t.debug_layer_info; import mindtorch.tools.layer_tables; "
        "bad = [m for m in sys.modules if m.split('.')[0] in ('torch', 'mindspore') or m.startswith('mindtorch.torch')]; "
        "print(bad)"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "[]"
