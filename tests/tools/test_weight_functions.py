"""TroubleShooter's weight functions on networks of PyTorch, mindtorch and MindSpore."""

import json
import os

import numpy as np
import pytest

import mindtorch.torch as mt
import torch
from mindtorch.formats import ckpt
from mindtorch.tools import migrator

ms = pytest.importorskip("mindspore")

SPEC = (("Conv1d", (2, 3, 2)), ("BatchNorm1d", (3,)), ("BatchNorm3d", (2,)), ("Embedding", (4, 3)), ("GroupNorm", (1, 2)),
        ("LayerNorm", (3,)), ("PReLU", (2,)), ("Linear", (2, 3)))  # fmt: skip


def sequential(frame):
    return frame.nn.Sequential(*[getattr(frame.nn, name)(*args) for name, args in SPEC])


def cell():
    nn = ms.nn
    return nn.SequentialCell(
        nn.Conv1d(2, 3, 2, has_bias=True), nn.BatchNorm1d(3), nn.BatchNorm3d(2), nn.Embedding(4, 3), nn.GroupNorm(1, 2),
        nn.LayerNorm((3,)), nn.PReLU(2), nn.Dense(2, 3),
    )  # fmt: skip


@pytest.fixture
def saved(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    net = sequential(torch)
    for p in net.parameters():
        torch.nn.init.normal_(p)
    torch.save(net.state_dict(), "net.pth")
    migrator.get_weight_map(net, "map.json")
    return net


@pytest.mark.parametrize("frame", [torch, mt], ids=["pytorch", "mindtorch"])
def test_weight_map(frame, tmp_path, capsys):
    net = sequential(frame)
    names, values = migrator.get_weight_map(net, tmp_path / "m.json", weight_name_prefix="p", print_map=True)
    assert "0.weight" in capsys.readouterr().out
    assert json.loads((tmp_path / "m.json").read_text()) == [names, values]
    assert list(names) == list(net.state_dict())
    want = {"0.weight": "p.0.weight", "1.running_var": "p.1.moving_variance", "2.weight": "p.2.bn2d.gamma", "4.bias": "p.4.beta",
            "3.weight": "p.3.embedding_table", "5.weight": "p.5.gamma", "6.weight": "p.6.w", "7.bias": "p.7.bias"}  # fmt: skip
    assert {k: names[k] for k in want} == want
    assert values == {"0.weight": "troubleshooter.migrator.mapping_relation.weight_adapter.trans_conv1d_weight_value"}
    renamed, _ = migrator.get_weight_map(net, custom_name_func=lambda m: {k: v.upper() for k, v in m.items()})
    assert renamed["7.bias"] == "7.BIAS"


def test_weight_map_arguments():
    net = torch.nn.Linear(1, 1)
    for kwargs, error in (
        ({"pt_net": 3}, TypeError), ({"pt_net": net, "custom_name_func": 3}, TypeError), ({"pt_net": net, "nothing": 3}, TypeError),
        ({"pt_net": net, "weight_name_prefix": 3}, TypeError), ({"pt_net": net, "print_map": 1}, TypeError),
        ({"pt_net": net, "weight_map_save_path": "/no/such/folder/m.json"}, ValueError),
    ):  # fmt: skip
        with pytest.raises(error):
            migrator.get_weight_map(**kwargs)
    assert migrator.get_weight_map(pt_model=net)[0] == {"weight": "weight", "bias": "bias"}


def test_converted_weights_fill_the_mindspore_net(saved, capsys):
    net = cell()
    migrator.convert_weight_and_load("map.json", "net.pth", net)
    out = capsys.readouterr().out
    assert "The list of conversion result" in out and "weight->embedding_table" in out and "Value converted" in out
    names, _ = migrator.get_weight_map(saved)
    params = net.parameters_dict()
    for k, v in saved.state_dict().items():
        if "num_batches" not in k:
            a = params[names[k]].asnumpy()
            assert np.array_equal(a.reshape(v.shape), v.numpy()), k
    x = np.random.default_rng(0).standard_normal((2, 2, 5)).astype("f4")
    saved.eval()
    net.set_train(False)
    with torch.no_grad():
        want = saved[1](torch.nn.functional.pad(saved[0](torch.tensor(x)), (0, 0))).numpy()
    conv = net[0]
    conv.pad_mode = "valid"
    got = net[1](ms.ops.conv1d(ms.Tensor(x), conv.weight.reshape(3, 2, 2), conv.bias)).asnumpy()
    assert np.allclose(got, want, atol=1e-5)


@pytest.mark.parametrize("frame", [torch, mt], ids=["pytorch", "mindtorch"])
def test_convert_weight_from_objects(frame, tmp_path, capsys):
    net = sequential(frame)
    migrator.convert_weight(
        weight_map=migrator.get_weight_map(net), pt_param_dict=net.state_dict(), ms_file_save_path=str(tmp_path / "a.ckpt"),
        print_conv_info=False, print_save_path=False,
    )  # fmt: skip
    assert capsys.readouterr().out == ""
    got = ms.load_checkpoint(str(tmp_path / "a.ckpt"))
    assert got["0.weight"].shape == (3, 2, 1, 2) and np.array_equal(got["7.bias"].asnumpy(), net[7].bias.detach().numpy())


def test_convert_weight_statuses(saved, capsys):
    torch.save(saved, "module.pth")
    migrator.convert_weight("map.json", "module.pth", "a.ckpt")
    out = capsys.readouterr().out
    rows = {c[1].strip(): [x.strip() for x in c[2:6]] for c in (line.split("|") for line in out.splitlines()) if len(c) == 7}
    assert rows["0.weight"] == ["0.weight", "Value converted", "(3, 2, 2)", "(3, 2, 1, 2)"]
    assert rows["1.weight"][1] == "weight->gamma" and rows["2.weight"][1] == "Name converted" and rows["7.bias"][1] == "Consistent"
    assert "a.ckpt" in out.splitlines()[-1]
    migrator.convert_weight("map.json", "net.pth", "b.ckpt", print_conv_info=False)
    migrator.get_weight_map(saved, "map2.json", weight_name_prefix="x")
    migrator.convert_weight("map2.json", "net.pth", "c.ckpt")
    assert "Name converted; Value converted" in capsys.readouterr().out


def test_convert_weight_refuses_what_does_not_belong_together(saved):
    migrator.get_weight_map(torch.nn.Linear(1, 1), "other.json")
    with pytest.raises(ValueError, match=r"lacks \['0.weight'.*names \['weight', 'bias'\]"):
        migrator.convert_weight("other.json", "net.pth", "a.ckpt")
    with pytest.raises(ValueError, match="no file"):
        migrator.convert_weight("none.json", "net.pth", "a.ckpt")
    with pytest.raises(ValueError, match="must be given"):
        migrator.convert_weight("map.json", None, "a.ckpt")
    torch.save({"model": saved.state_dict(), "n": 1}, "nested.pth")
    with pytest.raises(ValueError, match="pt_param_dict"):
        migrator.convert_weight("map.json", "nested.pth", "a.ckpt")
    with pytest.raises(ValueError, match="optimizer"):
        migrator.convert_weight("map.json", pt_param_dict=dict.fromkeys(saved.state_dict(), 3), ms_file_save_path="a.ckpt")
    with pytest.raises(TypeError, match="Cell"):
        migrator.convert_weight_and_load("map.json", "net.pth", saved)
    assert not os.path.exists("a.ckpt")


def plus_one(tensor):
    """A value function of a user's map: gets an array or MindSpore tensor."""
    return tensor + 1


def test_functions_in_a_value_map(tmp_path):
    net = torch.nn.Linear(2, 2)
    names, _ = migrator.get_weight_map(net)
    path = str(tmp_path / "a.ckpt")
    values = {"weight": f"{__name__}.plus_one"}
    migrator.convert_weight(weight_map=(names, values), pt_param_dict=net.state_dict(), ms_file_save_path=path)
    assert np.allclose(ckpt.read(path)["weight"], net.weight.detach().numpy() + 1)
    with pytest.raises(ValueError, match="cannot be imported"):
        values = {"weight": "no.such.function"}
        migrator.convert_weight(weight_map=(names, values), pt_param_dict=net.state_dict(), ms_file_save_path=path)


def cells(text):
    return [[c.strip() for c in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("|")]


def test_compare_ms_ckpt(tmp_path, capsys):
    a = {"w": np.ones((2, 2), "f4"), "v": np.ones(4, "f4"), "s": np.ones(2), "gone": np.ones(1)}
    b = {"w": a["w"], "v": np.array([1, 1, 1, 3], "f4"), "s": np.ones(3), "new": np.ones(1)}
    pa, pb = str(tmp_path / "a.ckpt"), str(tmp_path / "b.ckpt")
    ckpt.write(pa, a)
    ms.save_checkpoint([{"name": k, "data": ms.Tensor(v)} for k, v in b.items()], pb)
    text = migrator.compare_ms_ckpt(pa, pb)
    assert capsys.readouterr().out == text + "\n"
    rows = cells(text)
    assert rows[0] == ["The list of comparison results for shapes"]
    assert rows[1][:3] == ["Parameter name of original ckpt", "Parameter name of target ckpt", "Whether shape are equal"]
    assert ["w", "w", "True", "(2, 2)", "(2, 2)"] in rows and ["s", "s", "False", "(2,)", "(3,)"] in rows
    assert ["gone", "None", "None", "(1,)", "None"] in rows and ["None", "new", "None", "None", "(1,)"] in rows
    assert ["w", "w", "True", "100.00%", "1.00000", "0.00000, 0.00000"] in rows
    assert ["v", "v", "False", "75.00%", "0.86602", "2.00000, 2.00000"] in rows
    assert ["s", "s", "Shape is inconsistent", "0.00%", "nan", "nan, nan"] in rows
    rows = cells(migrator.compare_ms_ckpt(pa, pb, print_level=2))
    assert not any(r[0] == "w" for r in rows) and sum(r[0] == "v" for r in rows) == 1
    assert "allclose" not in migrator.compare_ms_ckpt(pa, pb, compare_value=False)
    assert ["v", "v", "True", "100.00%", "0.86602", "2.00000, 2.00000"] in cells(migrator.compare_ms_ckpt(pa, pb, atol=3.0))
    capsys.readouterr()
    assert migrator.compare_ms_ckpt(pa, pb, print_level=0) == "" and capsys.readouterr().out == ""
    for kwargs, error in (({"print_level": 3}, ValueError), ({"compare_value": 1}, TypeError), ({"rtol": "x"}, ValueError)):
        with pytest.raises(error):
            migrator.compare_ms_ckpt(pa, pb, **kwargs)
    with pytest.raises(ValueError, match="no file"):
        migrator.compare_ms_ckpt(pa, "none.ckpt")


def test_compare_pth_and_ckpt(saved):
    migrator.convert_weight("map.json", "net.pth", "a.ckpt", print_conv_info=False)
    values = ckpt.read("a.ckpt")
    values["3.embedding_table"] = values["3.embedding_table"] + 1
    ckpt.write("a.ckpt", values)
    rows = cells(migrator.compare_pth_and_ckpt("map.json", "net.pth", "a.ckpt", print_level=2))
    assert rows[1][:2] == ["Parameter name of torch", "Parameter name of MindSpore"]
    assert rows[-1][:4] == ["3.weight", "3.embedding_table", "False", "0.00%"] and len(rows) == 5
    with pytest.raises(ValueError, match="'ms_file_path' is no file"):
        migrator.compare_pth_and_ckpt("map.json", "net.pth", "none")


@pytest.mark.parametrize("frame", [torch, mt], ids=["pytorch", "mindtorch"])
def test_save_net_and_weight_params(frame, tmp_path):
    net = sequential(frame)
    migrator.save_net_and_weight_params(net, tmp_path / "new" / "folder")
    here = tmp_path / "new" / "folder"
    assert sorted(os.listdir(here)) == ["torch_net_architecture.txt", "torch_net_map.json", "torch_troubleshooter_create.pth"]
    got = torch.load(here / "torch_troubleshooter_create.pth")
    assert list(got) == list(net.state_dict()) and np.array_equal(got["7.weight"].numpy(), net[7].weight.detach().numpy())
    assert (here / "torch_net_architecture.txt").read_text().startswith("Sequential(")
    migrator.save_net_and_weight_params(net, str(here), "other.pth")
    assert "other.pth" in os.listdir(here)


def test_save_net_and_weight_params_of_a_cell(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    migrator.save_net_and_weight_params(cell())
    assert sorted(os.listdir()) == ["mindspore_net_architecture.txt", "mindspore_troubleshooter_create.ckpt"]
    assert "7.weight" in ckpt.read("mindspore_troubleshooter_create.ckpt")
    with pytest.raises(ValueError, match="torch.nn.Module"):
        migrator.save_net_and_weight_params(3)
