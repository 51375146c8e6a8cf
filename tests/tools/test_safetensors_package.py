"""Programs that use safetensors: with the package under the switch, with ours where it is not installed, and by name."""

import json
import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import mindtorch.torch as mt
import torch

SRC = os.path.join(os.path.dirname(__file__), "..", "..", "src")
PROGRAM = textwrap.dedent(
    """
    import json, torch
    from safetensors import safe_open
    from safetensors.torch import load, load_file, load_model, save, save_file, save_model
    import safetensors.torch

    assert torch.__name__ == "mindtorch.torch"
    out = {"package": safetensors.torch.__name__}
    names = "float64 float32 float16 bfloat16 int64 int32 int16 int8 uint8 bool uint16 uint32 uint64 complex64".split()
    names += [n for n in ("float8_e4m3fn", "float8_e5m2") if hasattr(torch, n)]
    values = {n: torch.tensor([[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]).to(getattr(torch, n)) for n in names}
    values["scalar"], values["empty"] = torch.tensor(2.5), torch.empty(0, 3)

    def same(a, b):
        return a.dtype == b.dtype and a.shape == b.shape and torch.equal(a, b)

    save_file(values, "ours.safetensors", metadata={"k": "v"})
    for got in (load_file("ours.safetensors"), load_file("ours.safetensors", device="cpu", backend="pread"), load(save(values))):
        assert set(got) == set(values) and all(same(got[k], values[k]) for k in values)
    got["float32"].add_(1)  # lies over memory of its own or a private map
    assert same(load_file("ours.safetensors")["float32"], values["float32"])
    theirs = load_file("theirs.safetensors")
    out["theirs"] = {k: [str(v.dtype), v.float().tolist()] for k, v in theirs.items()}

    with safe_open("ours.safetensors", framework="pt", device="cpu") as f:
        assert set(f.keys()) == set(values) == set(f.offset_keys()) and f.metadata() == {"k": "v"}
        assert same(f.get_tensor("bfloat16"), values["bfloat16"])
        part = f.get_slice("float32")
        assert part.get_shape() == [2, 3] and part.get_dtype() == "F32"
        assert same(part[:, 1:2], values["float32"][:, 1:2]) and same(part[1], values["float32"][1])
    with safe_open("ours.safetensors", framework="np") as f:
        assert f.get_tensor("float32").tolist() == values["float32"].tolist()

    def refused(error, text, call):
        try:
            call()
        except error as e:
            assert text in str(e), e
        else:
            raise AssertionError(text)

    x = values["float32"]
    refused(RuntimeError, "share memory", lambda: save_file({"a": x, "b": x}, "bad"))
    refused(RuntimeError, "share memory", lambda: save_file({"a": x, "b": x[1]}, "bad"))
    save({"a": x[0], "b": x[1]})  # parts that do not overlap are no shared tensors
    refused(ValueError, "non contiguous", lambda: save_file({"a": x.t()}, "bad"))
    refused(ValueError, "expected torch.Tensor", lambda: save_file({"a": 1}, "bad"))
    refused(ValueError, "dict", lambda: save_file([x], "bad"))
    refused(FileNotFoundError, "none.safetensors", lambda: load_file("none.safetensors"))
    refused(Exception, "", lambda: load_file("broken.safetensors"))

    class Tied(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.emb = torch.nn.Embedding(5, 3)
            self.norm = torch.nn.BatchNorm1d(3)
            self.head = torch.nn.Linear(3, 5, bias=False)
            self.head.weight = self.emb.weight

    a, b = Tied(), Tied()
    save_model(a, "model.safetensors")
    assert load_model(b, "model.safetensors") in (([], []), (set(), []))
    assert torch.equal(a.head.weight, b.emb.weight) and b.head.weight is b.emb.weight
    with safe_open("model.safetensors", "pt") as f:
        out["model"] = [sorted(f.keys()), f.metadata()]
    refused(RuntimeError, "Missing key(s)", lambda: load_model(torch.nn.Linear(3, 5), "model.safetensors"))
    missing, unexpected = load_model(torch.nn.Linear(3, 5), "model.safetensors", strict=False)
    out["lenient"] = [sorted(missing), sorted(unexpected)]
    print(json.dumps(out))
    """
)
HIDE = textwrap.dedent(
    """
    import importlib.machinery as m
    def hidden(cls, name, path=None, target=None, find=m.PathFinder.find_spec):
        return None if name.partition(".")[0] == "safetensors" else find(name, path, target)
    m.PathFinder.find_spec = classmethod(hidden)
    """
)


@pytest.mark.parametrize("installed", [True, False], ids=["with the package", "without it"])
def test_a_program_under_the_switch(installed, tmp_path):
    package = pytest.importorskip("safetensors.torch")
    theirs = {"bf": torch.tensor([1.5, -2.0]).bfloat16(), "i": torch.arange(3)}
    package.save_file(theirs, tmp_path / "theirs.safetensors")
    (tmp_path / "broken.safetensors").write_bytes((tmp_path / "theirs.safetensors").read_bytes()[:-1])
    (tmp_path / "program.py").write_text(PROGRAM if installed else HIDE + PROGRAM)
    done = subprocess.run(
        [sys.executable, "-m", "mindtorch", "program.py"], cwd=tmp_path, capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": SRC},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    out = json.loads(done.stdout)
    assert out["package"] == ("safetensors.torch" if installed else "mindtorch.tools.safetensors.torch")
    assert out["theirs"] == {"bf": ["torch.bfloat16", [1.5, -2.0]], "i": ["torch.int64", [0.0, 1.0, 2.0]]}
    names, metadata = out["model"]
    assert names == ["emb.weight", *(f"norm.{k}" for k in ("bias", "num_batches_tracked", "running_mean", "running_var", "weight"))]
    assert metadata == {"head.weight": "emb.weight"}
    assert out["lenient"] == [["bias", "weight"], sorted(names)]
    ours = package.load_file(tmp_path / "ours.safetensors")
    assert all(t.dtype == getattr(torch, k) for k, t in ours.items() if k not in ("scalar", "empty"))
    assert ours["bfloat16"].tolist() == [[0, 1, 2], [3, 4, 5]] and ours["scalar"].item() == 2.5


def test_by_name_without_the_switch(tmp_path):
    from mindtorch.tools.safetensors import SafetensorError, deserialize, safe_open
    from mindtorch.tools.safetensors import numpy as for_numpy
    from mindtorch.tools.safetensors import torch as for_torch

    path = tmp_path / "a.safetensors"
    for_torch.save_file({"a": mt.arange(6.0).reshape(2, 3)}, path)
    assert for_torch.load_file(path)["a"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert for_numpy.load_file(path)["a"].shape == (2, 3)
    assert for_numpy.load(for_numpy.save({"x": np.ones(2)}))["x"].tolist() == [1, 1]
    [(name, spec)] = deserialize(path.read_bytes())
    assert name == "a" and spec["dtype"] == "F32" and spec["shape"] == [2, 3] and len(spec["data"]) == 24
    with safe_open(path, "pt") as f:
        kept = f.get_tensor("a")
        with pytest.raises(SafetensorError, match="does not contain"):
            f.get_tensor("b")
        with pytest.raises(SafetensorError, match="no part"):
            f.get_slice("a")[5]
    with pytest.raises(SafetensorError, match="closed"):
        f.get_tensor("a")
    assert kept.sum().item() == 15
    with pytest.raises(SafetensorError, match="framework"):
        safe_open(path, "tf")
    with pytest.raises(ValueError, match="backend"):
        safe_open(path, "pt", backend="x")
    with pytest.raises(ValueError, match="meta"):
        for_torch.save({"a": mt.empty(2, device="meta")})
    whole = mt.arange(6.0)
    with pytest.raises(RuntimeError, match="none of them is all of it"):
        for_torch._remove_duplicate_names({"a": whole[:4], "b": whole[2:]})
