"""api_dump_compare: tables as TroubleShooter 1.0.18 writes them, alignment, and the verdict on dumps of every kind."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from test_dump import golden_net

import mindtorch.torch as mt
import torch
from mindtorch.tools import migrator as ts
from mindtorch.tools.compare.align import align
from mindtorch.tools.compare.measure import cosine, decimals, percent
from mindtorch.tools.compare.read import Datum, Entry
from mindtorch.tools.dump.names import Item, canonical, parse, parse_layer

GOLDEN = Path(__file__).parent / "golden_ts1018"


def record(t, out, body, net=None, **options):
    """Dump ``body(torch)`` on a framework."""
    t.manual_seed(0)
    ts.api_dump_init(net or t.nn.Linear(2, 2), str(out), retain_backward=True)
    ts.api_dump_start(**options)
    try:
        body(t)
    finally:
        ts.api_dump_stop()
    return str(out)


def same(folder, golden):
    assert sorted(os.listdir(folder)) == sorted(os.listdir(golden))
    for name in os.listdir(golden):
        assert (Path(folder) / name).read_bytes() == (Path(golden) / name).read_bytes(), name


def test_csv_of_two_pytorch_dumps_is_byte_for_byte_the_original(tmp_path, capsys):
    result = ts.api_dump_compare(str(GOLDEN / "pt_a"), f"{GOLDEN / 'pt_b'}/", str(tmp_path / "out"))
    same(tmp_path / "out", GOLDEN / "cmp")
    assert result.first.call == ("torch.Tensor.__mul__(0)", "torch.Tensor.__mul__(0)")
    assert "line 19" in result.first.lines[0]
    text = capsys.readouterr().out
    assert "| ORIGIN NET (pytorch) | TARGET NET (pytorch) |" in " ".join(text.split())
    assert "First divergence: torch.Tensor.__mul__(0): output" in text
    assert not result


def test_csv_with_mindtorch_on_a_side_is_byte_for_byte_the_original(tmp_path):
    shutil.copytree(GOLDEN / "pt_a", tmp_path / "ms")
    for p in list((tmp_path / "ms" / "rank0").iterdir()):
        if p.name.startswith("torch_"):
            p.rename(p.with_name(f"mind{p.name}"))
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "ts_api_forward_compare_0.csv").write_text("x" * 100000)  # replaced, not overwritten in part
    ts.api_dump_compare(str(GOLDEN / "pt_b"), str(tmp_path / "ms"), str(tmp_path / "out"))
    same(tmp_path / "out", GOLDEN / "cmp2")


def test_dump_of_troubleshooter_against_ours(tmp_path):
    net = golden_net(mt)
    mt.manual_seed(0)
    fresh = golden_net(mt)
    net.load_state_dict(fresh.state_dict())
    ours = record(mt, tmp_path / "ms", lambda t: net(t.ones(1, 1, 6, 6) * float(1)).backward(), net)
    result = ts.api_dump_compare(str(GOLDEN / "pt_a"), ours)
    assert result.ok, result.summary()
    assert not result.unmatched and result.frames == ("pytorch", "mindtorch")


def test_weights_are_compared_when_both_dumps_have_them(tmp_path, capsys):
    for t, name in ((torch, "a"), (mt, "b")):
        t.manual_seed(0)
        net = golden_net(t)
        if name == "b":
            net.fc.bias.data.add_(1.0)
        ts.api_dump_init(net, str(tmp_path / name), compare_statedict=True)
        ts.api_dump_start()
        net(t.ones(1, 1, 6, 6))
        ts.api_dump_stop()
    result = ts.api_dump_compare(str(tmp_path / "a"), str(tmp_path / "b"))
    rows = {a: m for a, _, m in result.weights}
    assert rows["conv.weight"].ratio == 1.0 and rows["fc.bias"].ratio == 0.0
    assert "Parameter name of PyTorch" in capsys.readouterr().out
    assert "bias" in result.first.explanation


def test_shape_mismatch_is_a_row_and_the_verdict(tmp_path):
    a = record(torch, tmp_path / "a", lambda t: t.nn.functional.pad(t.ones(2, 2), (1, 1)) * 2)
    b = record(mt, tmp_path / "b", lambda t: t.nn.functional.pad(t.ones(2, 2), (1, 2)) * 2)
    result = ts.api_dump_compare(a, b)
    assert result.first.call[0] == "torch.nn.functional.pad(0)"
    assert result.first.why == "shapes differ: (2, 4) and (2, 5)"


def test_inserted_and_missing_calls_do_not_disturb_the_rest(tmp_path):
    def left(t):
        x = t.arange(6.0)
        for i in range(6):
            x = t.relu(x + i)
        return t.exp(x)

    def right(t):
        x = t.arange(6.0)
        for i in range(6):
            x = t.relu(x + i)
            if i == 3:
                x = t.relu(x.contiguous().clone())
        return t.exp(x)

    result = ts.api_dump_compare(record(torch, tmp_path / "a", left), record(mt, tmp_path / "b", right))
    assert result.ok, result.summary()
    assert sorted(e.name for e in result.unmatched) == ["clone", "relu"]


def test_nan_is_traced_to_where_it_begins(tmp_path):
    def body(t):
        x = t.tensor([1.0, 0.0])
        y = t.log(x) * 0
        return y + 1

    result = ts.api_dump_compare(record(torch, tmp_path / "a", body), record(mt, tmp_path / "b", body))
    assert result.ok
    assert [(o.side, o.call) for o in result.nan] == [("origin", "torch.log(0)"), ("target", "torch.log(0)")]
    assert "y = t.log(x) * 0" in result.nan[0].line


@pytest.mark.parametrize("dump_type", ["statistics", "npy"])
def test_dumps_with_less_in_them(dump_type, tmp_path, capsys):
    def body(factor):
        return lambda t: (t.arange(6.0) * factor).sum()

    a = record(torch, tmp_path / "a", body(2.0), dump_type=dump_type)
    good = ts.api_dump_compare(a, record(mt, tmp_path / "b", body(2.0), dump_type=dump_type))
    bad = ts.api_dump_compare(a, record(mt, tmp_path / "c", body(2.01), dump_type=dump_type))
    assert good.ok and bad.first.call[1] == "torch.Tensor.__mul__(0)"
    assert ("max diff" in capsys.readouterr().out) == (dump_type == "statistics")


def test_ranks_and_steps_are_all_compared(tmp_path, monkeypatch):
    for t, name in ((torch, "a"), (mt, "b")):
        for rank in (0, 1):
            monkeypatch.setenv("RANK", str(rank))

            def body(t, wrong=rank == 1 and name == "b"):
                for step in range(3):
                    ts.api_dump_start()
                    t.ones(4) * (3 if wrong and step == 2 else 2)

            record(t, tmp_path / name, body)
    result = ts.api_dump_compare(str(tmp_path / "a"), str(tmp_path / "b"), str(tmp_path / "csv"))
    assert (result.first.rank, result.first.step) == (1, 2)
    assert len(result.steps) == 6
    assert (tmp_path / "csv" / "rank1" / "ts_api_forward_compare_2.csv").exists()


def test_half_precision_has_its_own_tolerance(tmp_path):
    a = record(torch, tmp_path / "a", lambda t: t.full((8,), 1.0, dtype=t.bfloat16) * 1)
    b = record(mt, tmp_path / "b", lambda t: t.full((8,), 1.0078125, dtype=t.bfloat16) * 1)
    loose, tight = ts.api_dump_compare(a, b), ts.api_dump_compare(a, b, tolerances={"bfloat16": (1e-4, 1e-4)})
    assert loose.ok and not tight.ok


def test_steps_by_phase_when_a_dump_has_no_calls_file(tmp_path):
    def body(t):
        net = t.nn.Linear(2, 2)
        for _ in range(3):
            net(t.ones(1, 2)).sum().backward()

    a = record(torch, tmp_path / "a", body)
    os.unlink(tmp_path / "a" / "rank0" / "torch_api_dump_calls.jsonl")
    result = ts.api_dump_compare(a, record(mt, tmp_path / "b", body))
    assert len(result.steps) == 3 and result.ok


def test_damaged_ends_and_the_older_suffix_are_read(tmp_path):
    shutil.copytree(GOLDEN / "pt_a", tmp_path / "a")
    info = tmp_path / "a" / "rank0" / "torch_api_dump_info.csv"
    text = info.read_text()
    info.unlink()
    info.with_suffix(".pkl").write_text(text + '["NN_Linear_1_forward_inp')
    stack = tmp_path / "a" / "rank0" / "torch_api_dump_stack.json"
    stack.write_text(stack.read_text()[:-20])
    array = tmp_path / "a" / "rank0" / "torch_api_dump" / "NN_Linear_0_forward_output.npy"
    array.write_bytes(array.read_bytes()[:-3])
    result = ts.api_dump_compare(str(tmp_path / "a"), str(GOLDEN / "pt_a"))
    assert result.ok and not result.unmatched


def test_wrong_arguments(tmp_path):
    with pytest.raises(ValueError, match="holds no API dump"):
        ts.api_dump_compare(str(tmp_path), str(tmp_path))
    with pytest.raises(ValueError, match="is no folder"):
        ts.api_dump_compare(str(tmp_path / "nowhere"), str(tmp_path))
    with pytest.raises(TypeError, match="rtol must be a float"):
        ts.api_dump_compare(str(GOLDEN / "pt_a"), str(GOLDEN / "pt_b"), rtol=1)
    with pytest.raises(TypeError, match="unexpected keyword"):
        ts.api_dump_compare(str(GOLDEN / "pt_a"), str(GOLDEN / "pt_b"), speed=1)


def test_command_line(tmp_path):
    def command(*args):
        return subprocess.run(
            [sys.executable, "-m", "mindtorch", "compare", *map(str, args)], cwd=tmp_path, capture_output=True, text=True, check=False
        )

    same_, other = command(GOLDEN / "pt_a", GOLDEN / "pt_a"), command(GOLDEN / "pt_a", GOLDEN / "pt_b", "--json", "v.json")
    assert same_.returncode == 0 and "No divergence." in same_.stdout
    assert other.returncode == 1 and "First divergence: torch.Tensor.__mul__(0)" in other.stdout
    assert json.loads((tmp_path / "v.json").read_text())["first"]["here"] is True
    assert command(GOLDEN / "pt_a", "nowhere").returncode == 2


def test_result_without_a_main_guard_and_without_a_file(tmp_path):
    code = f"from mindtorch.tools import migrator as ts; print(bool(ts.api_dump_compare({str(GOLDEN / 'pt_a')!r}, {str(GOLDEN / 'pt_a')!r})))"
    out = subprocess.run([sys.executable, "-"], input=code, capture_output=True, text=True, check=True, cwd=tmp_path).stdout
    assert out.splitlines()[-1] == "True"


def entry(kind, name, count, shape=(2,), module=""):
    item = Item(kind, name, count, "forward", "output", "")
    datum = Datum(item, "torch.float32", shape, 0.0, 0.0, 0.0, 0.0, "", "")
    return Entry(kind, name, count, module=module, outputs=[datum], inputs=[datum])


def test_alignment_of_other_spellings_and_exchanged_calls():
    a = [entry("NN", "ReLU", 0), entry("Torch", "mul", 0), entry("Tensor", "gelu", 0, (3,)), entry("NN", "Linear", 0)]
    b = [entry("Functional", "relu", 0), entry("Tensor", "__rmul__", 0), entry("Tensor", "erf", 0, (3,)), entry("Torch", "linear", 0)]
    assert [(x.key, y.key) for x, y in align(a, b)] == [(x.key, y.key) for x, y in zip(a, b)]
    c = [entry("NN", "Conv2d", 0), entry("NN", "ReLU", 0, (4,)), entry("NN", "BatchNorm2d", 0)]
    d = [entry("NN", "Conv2d", 0), entry("NN", "BatchNorm2d", 0), entry("NN", "ReLU", 0, (4,))]
    pairs = align(c, d)
    assert sum(x is None or y is None for x, y in pairs) == 2


def test_long_runs_align_quickly():
    a = [entry("Torch", f"f{i % 7}", i) for i in range(6000)]
    b = a[:3000] + [entry("Torch", "extra", i) for i in range(20)] + a[3010:]
    pairs = align(a, b)
    assert sum(x is not None and y is not None for x, y in pairs) >= 5990 - 10


def test_numbers_are_cut_off_as_the_original_does():
    assert decimals(np.float32(1.01)) == "1.01000" and decimals(0.0099999) == "0.00999" and decimals(-3.0) == "-3.00000"
    assert percent(0.99999) == "99.99%" and percent(1.0) == "100.00%" and decimals(float("nan")) == "nan"
    assert cosine(np.zeros(3), np.zeros(3)) == 1.0 and np.isnan(cosine(np.zeros(3), np.ones(3)))


def test_names():
    assert parse("Functional_max_pool2d_0_forward_input.0.1").index == ".0.1"
    assert parse("Tensor___mul___12_backward_input").shown == "torch.Tensor.__mul__(12) input"
    assert parse("LAYER_conv_forward_input") is None and parse_layer("LAYER_a_10_b_forward_input") == "a_10_b"
    assert canonical("Tensor", "__rsub__") == canonical("Torch", "sub") == canonical("Tensor", "sub_")
    assert canonical("NN", "BatchNorm2d") == canonical("Functional", "batch_norm")
    assert canonical("NN", "CrossEntropyLoss") == canonical("Functional", "cross_entropy")


def test_masks_are_not_reported_as_infinite(tmp_path):
    def body(t):
        x = t.ones(3, 3).masked_fill(t.ones(3, 3).triu(1) > 0, float("-inf"))
        return t.softmax(x, 1)

    result = ts.api_dump_compare(record(torch, tmp_path / "a", body), record(mt, tmp_path / "b", body))
    assert result.ok and result.nan == []
    loud = record(mt, tmp_path / "c", lambda t: t.ones(2) / 0 + 1)
    found = ts.api_dump_compare(loud, loud).nan
    assert [o.call for o in found] == ["torch.Tensor.__truediv__(0)"] * 2
