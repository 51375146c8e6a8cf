"""Weights of any file to any file: formats, nested checkpoints, names of layers."""

import io
import os
from collections import OrderedDict

import ml_dtypes
import numpy as np
import pytest

import mindtorch.torch as mt
import torch
from mindtorch.formats import pth_arrays, weights
from mindtorch.tools import naming, rules
from mindtorch.tools.convert import convert, shared_names
from mindtorch.tools.distance import distance
from mindtorch.tools.weight_diff import differences

KINDS = ("pth", "safetensors", "npz", "ckpt")
DTYPES = "float64 float32 float16 bfloat16 int64 int32 int16 int8 uint8 bool uint16 uint32 uint64".split()


def state():
    g = torch.Generator().manual_seed(0)
    made = OrderedDict((d, torch.randint(0, 2, (2, 3), generator=g).to(getattr(torch, d))) for d in DTYPES)
    made["scalar"], made["empty"] = torch.tensor(2.5), torch.empty(0, 3)
    made["view"] = torch.arange(12.0).reshape(3, 4).t()
    return made


def same(a, b):
    return a.dtype == b.dtype and a.shape == b.shape and torch.equal(a, b)


@pytest.mark.parametrize("kind", KINDS)
def test_round_trip_through_every_format(kind, tmp_path):
    want = state()
    torch.save(want, tmp_path / "a.pth")
    middle, back = tmp_path / "b.bin", tmp_path / "c.pth"
    done = convert(tmp_path / "a.pth", middle, to=kind)
    assert weights.kind_of(middle) == kind and done.parameters == sum(t.numel() for t in want.values())
    assert done.nbytes == sum(t.numel() * t.element_size() for t in want.values())
    convert(middle, back)
    got = torch.load(back)
    assert set(got) == set(want) and all(same(got[k], want[k]) for k in want)
    assert all(np.array_equal(mt.load(back)[k].float().numpy(), want[k].float().numpy()) for k in want)


@pytest.mark.parametrize("kind", ["pth", "safetensors", "npz"])
def test_float8_and_complex(kind, tmp_path):
    want = {"f8": torch.tensor([1.5, -2]).to(torch.float8_e4m3fn), "c": torch.tensor([1 + 2j])}
    torch.save(want, tmp_path / "a.pth")
    convert(tmp_path / "a.pth", tmp_path / "b", to=kind)
    convert(tmp_path / "b", tmp_path / "c.pth")
    got = torch.load(tmp_path / "c.pth")
    assert all(got[k].dtype == v.dtype and torch.equal(got[k].view(torch.uint8), v.view(torch.uint8)) for k, v in want.items())
    with pytest.raises(TypeError, match="'f8'.*float8"):
        convert(tmp_path / "a.pth", tmp_path / "b.ckpt", complex="pairs")


def test_complex128_in_safetensors_as_pairs(tmp_path):
    torch.save({"c": torch.tensor([1 + 2j], dtype=torch.complex128)}, tmp_path / "a.pth")
    with pytest.raises(TypeError, match="complex128"):
        convert(tmp_path / "a.pth", tmp_path / "b.safetensors")
    convert(tmp_path / "a.pth", tmp_path / "b.safetensors", complex="pairs")
    convert(tmp_path / "b.safetensors", tmp_path / "c.pth")
    assert torch.load(tmp_path / "c.pth")["c"].tolist() == [1 + 2j]


def test_tied_weights_stay_tied_in_pth_and_are_named_elsewhere(tmp_path):
    w = torch.arange(6.0).reshape(2, 3)
    torch.save({"a": w, "b": w, "row": w[1], "t": w.t()}, tmp_path / "a.pth")
    done = convert(tmp_path / "a.pth", tmp_path / "b.pth")
    got = torch.load(tmp_path / "b.pth")
    got["a"][1, 0] = 77
    assert got["row"][0] == 77 and got["t"][0, 1] == 77 and got["b"][1, 0] == 77 and done.copies == []
    assert convert(tmp_path / "a.pth", tmp_path / "b.npz").copies == [["a", "b", "t"]]
    assert shared_names({"x": np.ones(2), "y": np.ones(2)}) == []


@pytest.mark.parametrize("legacy", [False, True])
def test_nested_checkpoints(legacy, tmp_path):
    model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))
    opt = torch.optim.Adam(model.parameters())
    model(torch.randn(4, 2)).sum().backward()
    opt.step()
    path = tmp_path / "a.pth"
    obj = {"epoch": 3, "best": None, "state.dict": model.state_dict(), "optimizer": opt.state_dict()}
    torch.save(obj, path, _use_new_zipfile_serialization=not legacy)
    with pytest.raises(ValueError, match=r"nested.*state\.dict \(7 tensors\).*--select"):
        weights.read(path)
    assert list(weights.read(path, part="state.dict").values) == list(model.state_dict())
    assert list(weights.read(path, part="state.dict.0.weight").values) == ["weight"]
    assert weights.read(path, part="optimizer.state", flatten=True).values["0.exp_avg"].shape == (3, 2)
    with pytest.raises(ValueError, match="no part 'model'"):
        weights.read(path, part="model")
    flat = weights.read(path, flatten=True)
    assert flat.values["epoch"] == 3 and flat.values["optimizer.param_groups.0.betas.1"] == 0.999
    assert flat.left_out[0] == "best" and len(flat.arrays) == 7 + 12


def test_modules_and_torchscript(tmp_path):
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 1), torch.nn.BatchNorm2d(4)).eval()
    torch.save(model, tmp_path / "m.pth")
    torch.jit.script(model).save(tmp_path / "s.pt")
    torch.jit.trace(model, torch.randn(1, 3, 4, 4)).save(tmp_path / "t.pt")
    torch.jit.freeze(torch.jit.script(model)).save(tmp_path / "f.pt")
    for name, kind in (("m.pth", "pth"), ("s.pt", "torchscript"), ("t.pt", "torchscript")):
        convert(tmp_path / name, tmp_path / "o.pth")
        got, want = torch.load(tmp_path / "o.pth"), model.state_dict()
        assert set(got) == set(want) and all(same(got[k], want[k]) for k in want), name
        assert weights.describe(tmp_path / name)[0] == kind and len(weights.describe(tmp_path / name)[1]) == 7
    with pytest.raises(RuntimeError, match="frozen"):
        convert(tmp_path / "f.pt", tmp_path / "o.pth")


@pytest.mark.parametrize("kind", KINDS)
def test_description_is_that_of_the_contents(kind, tmp_path):
    torch.save(state(), tmp_path / "a.pth")
    convert(tmp_path / "a.pth", tmp_path / "b", to=kind)
    found, rows, _ = weights.describe(tmp_path / "b")
    want = weights.read(tmp_path / "b").arrays
    assert found == kind
    assert {(r.name, r.dtype, tuple(r.shape), r.nbytes) for r in rows} == {
        (k, v.dtype.name, v.shape, v.nbytes) for k, v in want.items()
    }


def test_numbers_and_texts(tmp_path):
    torch.save({"a": torch.ones(1), "n": 3, "x": 2.5, "t": "hi", "b": True}, tmp_path / "a.pth")
    assert convert(tmp_path / "a.pth", tmp_path / "b.safetensors").left_out == ["n", "x", "t", "b"]
    for kind in ("ckpt", "npz"):
        assert convert(tmp_path / "a.pth", tmp_path / "b", to=kind).left_out == []
        got = weights.read(tmp_path / "b").values
        assert (int(got["n"]), float(got["x"]), got["t"], bool(got["b"])) == (3, 2.5, "hi", True)


def test_targets(tmp_path):
    torch.save({"a": torch.ones(1)}, tmp_path / "a.pth")
    with pytest.raises(ValueError, match="suffix"):
        convert(tmp_path / "a.pth", tmp_path / "b.xyz")
    with pytest.raises(ValueError, match="cannot write 'torchscript'"):
        weights.write(io.BytesIO(), weights.read(tmp_path / "a.pth"), "torchscript")
    (tmp_path / "b.ckpt").write_bytes(b"old")
    torch.save({"a": torch.ones(1), "f": torch.ones(1, dtype=torch.complex64)}, tmp_path / "a.pth")
    with pytest.raises(TypeError):
        convert(tmp_path / "a.pth", tmp_path / "b.ckpt")
    assert (tmp_path / "b.ckpt").read_bytes() == b"old" and sorted(os.listdir(tmp_path)) == ["a.pth", "b.ckpt"]


def test_arrays_for_pytorch_refuse_what_it_lacks():
    for bad in (np.array(["a"]), np.ones(1, ml_dtypes.int4), object()):
        with pytest.raises(TypeError, match="cannot hold 'x'"):
            pth_arrays.write(io.BytesIO(), {"x": bad})


# ------------------------------------------------------------------------------------------ names


def torch_net():
    nn = torch.nn
    return nn.ModuleDict({
        "conv1": nn.Conv1d(3, 4, 2), "deconv1": nn.ConvTranspose1d(3, 4, 2), "conv2": nn.Conv2d(3, 4, 1, bias=False),
        "conv3": nn.Conv3d(3, 4, 1), "bn1": nn.BatchNorm1d(4), "bn2": nn.BatchNorm2d(4), "bn3": nn.BatchNorm3d(4),
        "plain": nn.BatchNorm2d(4, affine=False), "ln": nn.LayerNorm((3, 4)), "gn": nn.GroupNorm(2, 4),
        "emb": nn.Embedding(5, 2), "head": nn.Linear(2, 5, bias=False), "fc": nn.Linear(2, 5), "act": nn.PReLU(3),
        "rnn": nn.LSTM(3, 4), "att": nn.MultiheadAttention(4, 2), "bi": nn.Bilinear(2, 3, 4),
    })  # fmt: skip


def shapes(sd):
    return {k: tuple(v.shape) for k, v in sd.items()}


def ms_net():
    ms = pytest.importorskip("mindspore")
    nn = ms.nn

    class Net(nn.Cell):
        def __init__(self):
            super().__init__()
            self.conv1, self.deconv1 = nn.Conv1d(3, 4, 2, has_bias=True), nn.Conv1dTranspose(3, 4, 2, has_bias=True)
            self.conv2, self.conv3 = nn.Conv2d(3, 4, 1), nn.Conv3d(3, 4, 1, has_bias=True)
            self.bn1, self.bn2, self.bn3 = nn.BatchNorm1d(4), nn.BatchNorm2d(4), nn.BatchNorm3d(4)
            self.ln, self.gn = nn.LayerNorm((3, 4)), nn.GroupNorm(2, 4)
            self.emb, self.head, self.fc = nn.Embedding(5, 2), nn.Dense(2, 5, has_bias=False), nn.Dense(2, 5)
            self.act, self.rnn, self.att = nn.PReLU(3), nn.LSTM(3, 4), nn.MultiheadAttention(4, 2)
            self.bi = nn.BiDense(2, 3, 4)

    return Net()


def test_names_with_a_net_are_those_of_the_mindspore_net():
    net = torch_net()
    want = {k: tuple(v.shape) for k, v in ms_net().parameters_dict().items()}
    given = {k: s for k, s in shapes(net.state_dict()).items() if not k.startswith("plain") and "num_batches" not in k}
    plan = naming.to_mindspore(given, naming.kinds_of(net))
    assert {plan.names[k]: plan.shape(k, s) for k, s in given.items()} == want and plan.unsure == {}
    for kinds in (naming.kinds_of(net), naming.kinds_of(ms_net())):
        back = naming.to_torch(want, kinds)
        assert {back.names[k]: back.shape(k, s) for k, s in want.items()} == given and back.unsure == {}


def test_mindtorch_and_mindspore_nets_say_the_same_kinds():
    ours = mt.nn.ModuleDict({k: getattr(mt.nn, type(m).__name__)(*a) for k, m, a in (
        ("bn3", torch.nn.BatchNorm3d(4), (4,)), ("emb", torch.nn.Embedding(5, 2), (5, 2)),
        ("conv1", torch.nn.Conv1d(3, 4, 2), (3, 4, 2)), ("ln", torch.nn.LayerNorm(3), (3,)))})  # fmt: skip
    kinds = naming.kinds_of(ours)
    assert {k: kinds[k] for k in ("bn3", "emb", "conv1", "ln")} == {
        "bn3": "BatchNorm3d", "emb": "Embedding", "conv1": "Conv1d", "ln": "LayerNorm"
    }  # fmt: skip
    with pytest.raises(TypeError, match="got int"):
        naming.kinds_of(3)


def test_what_companions_decide_and_what_they_cannot():
    sd = shapes(torch_net().state_dict())
    plan = naming.to_mindspore(sd)
    names = plan.names
    assert names["bn2.weight"] == "bn2.gamma" and names["plain.running_mean"] == "plain.moving_mean"
    assert names["ln.bias"] == "ln.beta" and names["gn.weight"] == "gn.gamma" and names["fc.weight"] == "fc.weight"
    assert "conv1.weight" in plan.insert and "deconv1.weight" in plan.insert and "conv2.weight" not in plan.insert
    assert names["emb.weight"] == "emb.weight" and names["head.weight"] == "head.weight"
    assert plan.unsure["emb.weight"] == plan.unsure["head.weight"] == "Embedding or Linear without bias"
    assert "PReLU" in plan.unsure["act.weight"] and "BatchNorm3d" in plan.unsure["bn2.running_mean"]
    assert not set(plan.unsure) & {"fc.weight", "ln.weight", "conv3.weight", "att.in_proj_weight"}
    sure = naming.to_mindspore(sd, {"emb": "Embedding", "head": "keep", "act": "PReLU", "bn*": "BatchNorm", "plain": "BatchNorm"})
    assert sure.names["emb.weight"] == "emb.embedding_table" and not sure.unsure


def test_the_way_back_is_careful():
    plan = naming.to_torch({"ls.gamma": (4,), "n.gamma": (4,), "n.beta": (4,), "c.weight": (4, 3, 1, 5), "one.weight": (4, 3, 1, 1)})
    assert plan.names == {k: k.replace("n.gamma", "n.weight").replace("n.beta", "n.bias") for k in plan.names}
    assert list(plan.unsure) == ["c.weight"] and not plan.remove
    bn = {f"a.bn2d.{k}": (4,) for k in ("gamma", "beta", "moving_mean", "moving_variance")}
    assert "BatchNorm3d" in naming.to_torch(bn).unsure["a.bn2d.moving_mean"]
    assert naming.to_torch({**bn, "c.weight": (4, 3, 1, 1, 1)}).names["a.bn2d.gamma"] == "a.weight"
    assert naming.to_torch({**bn, "a.conv.weight": (4, 3, 1, 1, 1)}).names["a.bn2d.gamma"] == "a.bn2d.weight"
    assert list(naming.to_torch({"act.w": (4,), "lstm.w": (4, 2), "q.w": (4,), "q.b": (4,)}).unsure) == ["act.w"]
    with pytest.raises(ValueError, match="both be called"):
        naming.to_torch({"n.gamma": (4,), "n.beta": (4,), "n.weight": (4,)})


def test_rules():
    values = {"module.a.weight": np.ones(2), "module.b": np.ones(3), "n": 1}
    r = rules.parse({"names": {"n": None}, "patterns": [[r"^module\.", ""], ["weight$", "w"]]})
    made = rules.plan(values, "keep", r)
    assert list(rules.apply(values, made, r)) == ["a.w", "b"]
    assert rules.parse({"n": "m"}).reversed().names == {"m": "n"}
    for bad, text in (
        ({"patterns": [["(", ""]]}, "regular expression"), ({"names": {"a": 1}}, "texts"), ({"nams": {}}, "unknown key 'nams'"),
        ([1], "JSON object"), ({"kinds": {"a": "Embeding"}}, "unknown kind of layer 'Embeding'"), ({"patterns": {}}, "list"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=text):
            rules.parse(bad)
    with pytest.raises(ValueError, match="does not have"):
        rules.plan(values, "keep", rules.parse({"q": "r"}))
    with pytest.raises(ValueError, match="as they do"):
        rules.plan(values, "keep", rules.parse({"n": "x", "module.b": "x"}))
    with pytest.raises(ValueError, match="no reverse"):
        r.reversed()
    with pytest.raises(ValueError, match="one-to-one"):
        rules.parse({"n": None}).reversed()


# ------------------------------------------------------------------------------------------ comparison


def test_distance_against_numpy():
    rng = np.random.default_rng(0)
    b = rng.standard_normal((300, 7)).astype("f4")
    a = b.copy()
    a[::3] += np.float32(1e-3)
    d = distance(a, b, 1e-4, 1e-4)
    gap = np.abs(a.astype("f8") - b)
    close = np.isclose(a.astype("f8"), b, 1e-4, 1e-4)
    assert d.allclose is False and d.ratio == close.mean() and d.max == gap.max()
    assert np.isclose(d.mean, gap[gap > 0].mean()) and np.isclose(d.cosine, (a * b).sum() / np.linalg.norm(a) / np.linalg.norm(b))
    assert distance(b, b.copy()) == (True, 1.0, 1.0, 0.0, 0.0)
    assert distance(b, b.T).allclose == "Shape is inconsistent"
    big = np.array([2**60])
    assert distance(big, big + 1, 0, 0)[::4] == (False, 1.0)


def test_differences():
    nan = np.array([np.nan, 1])
    a = {"same": nan, "near": np.ones(2), "far": np.ones(2), "shape": np.ones(2), "type": np.ones(2, "f4"), "gone": np.ones(1), "n": 3}
    b = {"same": nan.copy(), "near": np.ones(2) + 1e-7, "far": np.ones(2) * 2, "shape": np.ones(3), "type": np.ones(2), "new": 1,
         "n": np.array(3)}  # fmt: skip
    got = {r.name: r.status for r in differences(a, b, atol=1e-6)}
    assert got == {"same": "equal", "near": "close", "far": "value", "shape": "shape", "type": "dtype", "gone": "missing",
                   "n": "equal", "new": "extra"}  # fmt: skip
    assert [r.name for r in differences(a, b, atol=1e-6) if r.fails] == ["far", "shape", "type", "gone", "new"]
    assert {r.name: r.status for r in differences(a, b, any_dtype=True)}["type"] == "equal"
    assert next(r for r in differences(a, b) if r.name == "near").status == "value"
