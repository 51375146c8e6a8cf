"""save, save_grad and the comparisons of folders of .npy files."""

from __future__ import annotations

import csv
import math
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import mindtorch.torch as mt
import torch
from mindtorch.tools import migrator, widget

FRAMES = pytest.mark.parametrize("frame", [torch, mt], ids=["pytorch", "mindtorch"])


def names(folder):
    """File names without the number of the process."""
    numbered = sorted((int(n.partition("_")[0]), n.partition("_")[2]) for n in os.listdir(folder))
    assert [n for n, _ in numbered] == list(range(numbered[0][0], numbered[0][0] + len(numbered)))
    return [name for _, name in numbered]


def read(folder, ending):
    return np.load(next(p for p in Path(folder).iterdir() if p.name.endswith(ending)))


@FRAMES
def test_save_nested_values(frame, tmp_path):
    x = frame.tensor([-0.5962, 0.3123], requires_grad=True)
    migrator.save(tmp_path / "d" / "t", x)
    migrator.save(str(tmp_path / "d" / "t"), {"a/b": x, "y": [x.bfloat16(), 3, None]}, suffix="s")
    assert names(tmp_path / "d") == ["t.npy", "t.a_b_s.npy", "t.y.0_s.npy", "t.y.1_s.npy"]
    assert np.array_equal(read(tmp_path / "d", "a_b_s.npy"), x.detach().numpy())
    assert read(tmp_path / "d", "y.0_s.npy").dtype == np.float32
    for args, error in (((3, x), TypeError), (("f", object()), TypeError), (("f", x, 3), TypeError), (("f", x, None, "png"), ValueError)):
        with pytest.raises(error):
            migrator.save(*args)


@FRAMES
def test_printed_values_come_back_as_files(frame, tmp_path, capsys):
    x = frame.randn(2, 3, 4)
    migrator.save("p", {"x": x, "n": frame.tensor(7), "b": frame.tensor([[True, False]])}, output_mode="print")
    text = capsys.readouterr().out
    assert len(re.findall(r"^_TS_SAVE_NAME:\d+_p\.[xnb]$", text, re.M)) == 3
    (tmp_path / "log").write_text("begin\n" + text + "end of the program\n")
    folder = widget.save_convert(tmp_path / "log", tmp_path / "npy")
    assert np.array_equal(read(folder, "_p.x.npy").astype(np.float32), x.numpy())
    assert read(folder, "_p.n.npy") == 7 and read(folder, "_p.b.npy").tolist() == [[True, False]]


@FRAMES
def test_save_grad_is_in_the_chain(frame, tmp_path):
    x = frame.tensor([[0.2, 0.5, 0.2]])
    w = frame.zeros(3, 2, requires_grad=True)
    y = migrator.save_grad(tmp_path / "dense", x @ w)
    both = migrator.save_grad(tmp_path / "two", {"k": (y, x)})
    assert both["k"][1] is x and set(both) == {"k"}
    frame.nn.functional.cross_entropy(both["k"][0], frame.tensor([0])).backward()
    assert names(tmp_path) == ["two.k.0_backward.npy", "dense_backward.npy"]
    assert np.allclose(read(tmp_path, "dense_backward.npy"), [[-0.5, 0.5]])
    with frame.no_grad():
        assert np.array_equal(migrator.save_grad(tmp_path / "n", w).numpy(), w.detach().numpy())
    with pytest.raises(TypeError):
        migrator.save_grad(tmp_path / "n", 3)


def test_save_of_mindspore_tensors(tmp_path):
    ms = pytest.importorskip("mindspore")
    x = ms.Tensor([[0.2, 0.5]], ms.float32)
    migrator.save(tmp_path / "x", [x])
    got = ms.grad(lambda v: (migrator.save_grad(tmp_path / "x", v) * 3).sum())(x)
    assert names(tmp_path) == ["x.0.npy", "x_backward.npy"]
    assert np.array_equal(read(tmp_path, "x_backward.npy"), got.asnumpy()) and got.asnumpy().tolist() == [[3, 3]]


@pytest.fixture
def folders(tmp_path):
    rng = np.random.default_rng(0)
    a, b = tmp_path / "a", tmp_path / "b"
    shapes = {"10_w.npy": (3, 2), "2_w.npy": (4,), "3_v.npy": (5,)}
    for folder in (a, b):
        folder.mkdir()
    for n, s in shapes.items():
        np.save(a / n, rng.standard_normal(s).astype("f4"))
    np.save(b / "2_w.npy", np.load(a / "2_w.npy"))
    np.save(b / "11_w.npy", np.load(a / "10_w.npy") + 1)
    return a, b


def test_pairs_of_names(folders):
    a, b = folders
    assert migrator.get_name_map_list_by_name(a, b) == [("2_w.npy", "2_w.npy"), ("3_v.npy", None), ("10_w.npy", None), (None, "11_w.npy")]
    assert migrator.get_name_map_list_by_number(a, b) == [("2_w.npy", "2_w.npy"), ("3_v.npy", "11_w.npy"), ("10_w.npy", None)]
    by_shape = [("2_w.npy", "2_w.npy"), ("3_v.npy", None), ("10_w.npy", "11_w.npy")]
    assert migrator.get_name_map_list_by_shape_edit_distance(a, b) == by_shape
    cheap = migrator.get_name_map_list_by_shape_edit_distance(a, b, del_cost=9, ins_cost=9, rep_cost=1)
    assert sum(None in p for p in cheap) == 1
    with pytest.raises(ValueError, match="target_dir"):
        migrator.get_name_map_list_by_name(a, a / "none")
    with pytest.raises(ValueError, match="rep_cost"):
        migrator.get_name_map_list_by_shape_edit_distance(a, b, rep_cost=-1)


def test_compare_folders(folders, tmp_path, capsys):
    a, b = folders
    rows = migrator.compare_npy_dir(a, b, name_map_list=[("2_w.npy", "2_w.npy"), ("10_w.npy", "11_w.npy"), ("3_v.npy", "2_w.npy"), ("3_v.npy", None)],
                                    compare_shape=True, output_file=tmp_path / "o.csv", num_processes=2)  # fmt: skip
    assert rows[0] == ("2_w.npy", "2_w.npy", (4,), (4,), "True", "100.00%", "1.00000", "0.00000, 0.00000")
    assert rows[1][4:6] == ("False", "0.00%") and rows[2][4] == "Shape is inconsistent" and rows[3][3] is None
    assert [r[4] for r in rows[2:]] == ["Shape is inconsistent", "False"]
    out = capsys.readouterr().out
    assert "orig array name" in out and "mean & max diffs" in out
    lines = list(csv.reader(open(tmp_path / "o.csv")))
    assert lines[0][2:4] == ["shape of orig", "shape of target"] and len(lines) == 5
    assert [len(f(a, b)) for f in (migrator.compare_list_dir, migrator.compare_dict_dir)] == [3, 4]
    grads = migrator.compare_grads_dir(a, b, rtol=1.0, atol=2.0)
    assert grads[2][:4] == ("10_w.npy", "11_w.npy", (3, 2), (3, 2)) and grads[2][4] == "True"
    for kwargs in ({"rtol": "x"}, {"equal_nan": 1}):
        with pytest.raises(TypeError):
            migrator.compare_npy_dir(a, b, **kwargs)
    with pytest.raises(ValueError, match="num_processes"):
        migrator.compare_npy_dir(a, b, num_processes=0)


def test_numbers_of_two_arrays():
    x, y = np.array([1.0, 2.0, 0.0]), np.array([1.0, 2.5, 0.0])
    close, ratio, cosine, (mean, top) = migrator.cal_algorithm(x, y, 1e-4, 1e-4, False)
    assert (close, mean, top) == (False, 0.5, 0.5) and ratio == pytest.approx(2 / 3)
    assert cosine == pytest.approx(migrator.cal_cosine_sim(x, y)) == pytest.approx(6 / math.sqrt(5 * 7.25))
    assert migrator.cal_algorithm(None, y, 1e-4, 1e-4, False)[:2] == (False, 0.0)
    assert migrator.cal_cosine_sim(x * 0, y * 0) == 1 and math.isnan(migrator.cal_cosine_sim(x * 0, y))
    with pytest.raises(ValueError, match="3 and 2"):
        migrator.cal_cosine_sim(x, y[:2])


USE = """
import sys
{setup}
import torch
import troubleshooter as ts
import troubleshooter.widget
from troubleshooter.migrator import save
ts.fix_random(3)
net = torch.nn.Linear(3, 2)
ts.save("out/x", net.weight)
y = ts.save_grad("out/y", net(torch.ones(1, 3)))
y.sum().backward()
ts.save("out/grads", ts.widget.get_pt_grads(net))
assert ts.migrator.compare_npy_dir("out", "out")[0][2] == "True"
with ts.proposal(), ts.tracking(level=2):
    pass
assert not [m for m in {absent!r} if m in sys.modules], "loaded what it must not"
"""


@pytest.mark.parametrize("side", ["pytorch", "mindtorch"])
def test_under_its_own_name_on_one_framework(side, tmp_path):
    setup = "from mindtorch.tools import as_troubleshooter; as_troubleshooter()" if side == "pytorch" else ""
    absent = ["mindspore", "mindtorch.torch" if side == "pytorch" else "torch._C"]
    (tmp_path / "use.py").write_text(USE.format(setup=setup, absent=absent))
    start = [] if side == "pytorch" else ["-m", "mindtorch"]
    done = subprocess.run([sys.executable, *start, "use.py"], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    assert sorted(os.listdir(tmp_path / "out")) == ["0_x.npy", "1_y_backward.npy", "2_grads.weight_0.npy", "3_grads.bias_1.npy"]
    torch.manual_seed(3)
    assert np.array_equal(np.load(tmp_path / "out" / "0_x.npy"), torch.nn.Linear(3, 2).weight.detach().numpy())
