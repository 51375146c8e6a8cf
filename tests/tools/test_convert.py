"""``python -m mindtorch convert`` and ``pth2ckpt``."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

import torch
from mindtorch.cli import convert as cli
from mindtorch.formats import weights
from mindtorch.tools import pth2ckpt

SRC = os.path.join(os.path.dirname(__file__), "..", "..", "src")


@pytest.fixture
def net():
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Conv1d(2, 3, 2), torch.nn.BatchNorm1d(3), torch.nn.Embedding(4, 3), torch.nn.LayerNorm(3), torch.nn.PReLU()
    )


@pytest.fixture
def there(net, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    torch.save(net.state_dict(), "a.pth")
    torch.save({"epoch": 1, "model": net.state_dict()}, "nested.pth")
    (tmp_path / "nets.py").write_text(
        "import torch.nn as nn\n"
        "def make():\n"
        "    return nn.Sequential(nn.Conv1d(2, 3, 2), nn.BatchNorm1d(3), nn.Embedding(4, 3), nn.LayerNorm(3), nn.PReLU())\n"
    )
    return tmp_path


def run(capsys, *args):
    status = cli.main(list(args))
    return status, *capsys.readouterr()


def equal(path, want):
    got = torch.load(path)
    return list(got) == list(want) and all(torch.equal(got[k], want[k]) for k in want)


def test_to_mindspore_and_back_with_a_net(there, net, capsys):
    ms = pytest.importorskip("mindspore")
    nn = ms.nn
    status, out, err = run(capsys, "a.pth", "b.ckpt", "--names", "mindspore", "--net", "nets.py:make", "--crc")
    assert status == 0 and "2.weight -> 2.embedding_table" in out and "a.pth (pth) -> b.ckpt (ckpt)" in out and not err
    cell = nn.SequentialCell(nn.Conv1d(2, 3, 2, has_bias=True), nn.BatchNorm1d(3), nn.Embedding(4, 3), nn.LayerNorm((3,)), nn.PReLU(1))
    missing, extra = ms.load_param_into_net(cell, ms.load_checkpoint("b.ckpt", crc_check=True), strict_load=True)
    assert missing == [] and extra == ["1.num_batches_tracked"]
    assert np.array_equal(cell[2].embedding_table.asnumpy(), net[2].weight.detach().numpy())
    ms.save_checkpoint(cell, "c.ckpt")
    status, *_ = run(capsys, "c.ckpt", "d.pth", "--names", "torch", "--net", "nets.py:make")
    fresh = torch.nn.Sequential(*[type(m)(*a) for m, a in zip(net, [(2, 3, 2), (3,), (4, 3), (3,), ()])])
    got = torch.load("d.pth")
    assert status == 0 and not {k for k in net.state_dict() if k not in got} - {"1.num_batches_tracked"}
    fresh.load_state_dict(got)
    assert all(torch.equal(a, b) for a, b in zip(fresh.parameters(), net.parameters()))


def test_names_that_cannot_be_told_are_said(there, capsys):
    status, out, _ = run(capsys, "a.pth", "b.ckpt", "--names", "mindspore")
    assert status == 0 and "Embedding or Linear without bias" in out and "--kind '2=KIND'" in out
    assert "2.weight" in weights.read("b.ckpt").values
    status, out, _ = run(capsys, "a.pth", "b.ckpt", "--names", "mindspore", "--kind", "2=Embedding", "--kind", "4=PReLU")
    assert status == 0 and "cannot" not in out and "does not tell" not in out
    assert {"2.embedding_table", "4.w"} <= set(weights.read("b.ckpt").values)


def test_maps(there, net, capsys):
    json.dump({"names": {"0.weight": "conv.w", "1.num_batches_tracked": None}, "patterns": [["^4", "act"]]}, open("m.json", "w"))
    assert run(capsys, "a.pth", "b.npz", "--map", "m.json", "--quiet") == (0, "", "")
    got = weights.read("b.npz").values
    assert "conv.w" in got and "act.weight" in got and "1.num_batches_tracked" not in got
    json.dump({"no.such": "x"}, open("m.json", "w"))
    status, _, err = run(capsys, "a.pth", "b.npz", "--map", "m.json")
    assert status == 2 and "no.such" in err
    open("m.json", "w").write("{")
    status, _, err = run(capsys, "a.pth", "b.npz", "--map", "m.json")
    assert status == 2 and "m.json" in err


def test_a_map_of_get_weight_map_both_ways(there, net, capsys):
    from mindtorch.tools.migrator import get_weight_map

    get_weight_map(net, "map.json", weight_name_prefix="net")
    assert run(capsys, "a.pth", "b.ckpt", "--map", "map.json", "--quiet")[0] == 0
    assert weights.read("b.ckpt").values["net.0.weight"].shape == (3, 2, 1, 2)
    assert run(capsys, "b.ckpt", "c.pth", "--map", "map.json", "--reverse", "--quiet")[0] == 0
    assert equal("c.pth", net.state_dict())


def test_nested(there, net, capsys):
    status, _, err = run(capsys, "nested.pth", "b.safetensors")
    assert status == 2 and "model (" in err and "--select" in err and not os.path.exists("b.safetensors")
    assert run(capsys, "nested.pth", "b.pth", "--select", "model")[0] == 0 and equal("b.pth", net.state_dict())
    assert run(capsys, "nested.pth", "b.pth", "--flatten")[0] == 0 and torch.load("b.pth")["epoch"] == 1


def test_list(there, capsys):
    status, out, _ = run(capsys, "--list", "a.pth")
    lines = [line.split() for line in out.splitlines() if line]
    assert status == 0 and ["0.weight", "float32", "(3,", "2,", "2)", "12", "48"] in lines
    assert ["all", "11", "47", "192", "192", "B"] in lines and "a.pth: pth" in out
    status, out, _ = run(capsys, "--list", "a.pth", "--json")
    got = json.loads(out)
    assert got["format"] == "pth" and got["tensors"][0] == {"name": "0.weight", "dtype": "float32", "shape": [3, 2, 2], "bytes": 48}
    name = "x" * 300
    torch.save({name: torch.ones(1)}, "long.pth")
    assert name in run(capsys, "--list", "long.pth")[1]


def test_diff_and_its_exit_status(there, net, capsys):
    run(capsys, "a.pth", "b.ckpt", "--names", "mindspore", "--kind", "2=Embedding", "--kind", "4=PReLU")
    status, out, _ = run(capsys, "--diff", "a.pth", "b.ckpt", "--names", "mindspore", "--kind", "2=Embedding", "--kind", "4=PReLU")
    assert status == 0 and out.strip() == "11 equal"
    with torch.no_grad():
        net[0].weight[0, 0, 0] += 0.5
    torch.save({**net.state_dict(), "0.bias": net[0].bias.detach().half(), "new": torch.ones(2)}, "c.pth")
    status, out, _ = run(capsys, "--diff", "a.pth", "c.pth")
    assert status == 1 and "9 equal" in out and "1 value" in out and "1 dtype" in out and "1 extra" in out
    row = next(line for line in out.splitlines() if line.startswith("0.weight"))
    assert row.split()[1] == "value" and "0.5" in row and "91.67%" in row
    status, out, _ = run(capsys, "--diff", "a.pth", "c.pth", "--atol", "1", "--any-dtype", "--json")
    got = json.loads(out)
    assert status == 1 and got["counts"] == {"equal": 9, "close": 2, "extra": 1}
    assert run(capsys, "--diff", "c.pth", "c.pth", "--all")[1].count("equal") == 13
    assert run(capsys, "--diff", "c.pth", "a.pth", "--quiet")[:2] == (1, "")


@pytest.mark.parametrize(
    "args, text",
    [
        (["a.pth"], "two files"), (["--list", "a.pth", "b"], "one file"), (["a.pth", "b.xyz"], "suffix"),
        (["none.pth", "b.npz"], "none.pth"), (["bad.pth", "b.npz"], "no checkpoint"), (["cut.pth", "b.npz"], "truncated|corrupted"),
        (["a.pth", "b.ckpt", "--net", "nets"], "module:callable"), (["a.pth", "b.ckpt", "--net", "nets.py:Nope"], "Nope"),
        (["a.pth", "b.ckpt", "--kind", "x"], "LAYER=KIND"), (["a.pth", "b.ckpt", "--kind", "x=y"], "unknown kind"),
        (["a.pth", "none/b.ckpt"], "none"), (["c.pth", "b.ckpt"], "complex64.*pairs"),
    ],
)  # fmt: skip
def test_errors_are_one_line_and_status_2(there, capsys, args, text):
    (there / "bad.pth").write_bytes(b"this is no checkpoint at all")
    (there / "cut.pth").write_bytes((there / "a.pth").read_bytes()[:700])
    torch.save({"c": torch.ones(1, dtype=torch.complex64)}, "c.pth")
    status, out, err = run(capsys, *args)
    assert status == 2 and out == "" and len(err.splitlines()) == 1
    import re

    assert re.search(text, err), err
    assert not os.path.exists("b.ckpt") and not os.path.exists("b.npz")


def test_neither_pytorch_nor_mindspore_is_loaded(there):
    code = (
        "import sys\n"
        "from mindtorch.cli.convert import main\n"
        "assert main(['a.pth', 'b.ckpt', '--names', 'mindspore', '--quiet']) == 0\n"
        "assert main(['b.ckpt', 'c.safetensors', '--quiet']) == 0 and main(['c.safetensors', 'd.pth', '--quiet']) == 0\n"
        "assert main(['--diff', 'b.ckpt', 'd.pth', '--quiet']) == 0\n"
        "from mindtorch.tools import pth2ckpt\n"
        "pth2ckpt('a.pth')\n"
        "print(sorted({m.partition('.')[0] for m in sys.modules} & {'torch', 'mindspore', 'safetensors', 'google', 'numba'}))\n"
        "print('mindtorch.torch' in sys.modules)\n"
    )
    env = {**os.environ, "PYTHONPATH": SRC}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env)
    assert done.stdout.splitlines()[-2:] == ["[]", "False"], done.stdout + done.stderr


def test_the_command_and_a_net_without_pytorch(there):
    """The network's ``import torch`` is mindtorch's; a pipe gets no progress bar."""
    env = {**os.environ, "PYTHONPATH": SRC}
    command = [sys.executable, "-m", "mindtorch", "convert", "a.pth", "b.ckpt", "--names", "mindspore", "--net", "nets.py:make"]
    done = subprocess.run(command, capture_output=True, text=True, env=env)
    assert done.returncode == 0 and done.stderr == "" and "embedding_table" in done.stdout


def test_the_bar_counts_bytes(monkeypatch):
    import io

    from mindtorch.tools import weight_tables

    class Terminal(io.StringIO):
        def isatty(self):
            return True

    out = Terminal()
    monkeypatch.setattr(sys, "stderr", out)
    monkeypatch.setenv("TERM", "xterm")
    with weight_tables.bar(False, {"reading": 3 << 20}) as advance:
        advance("reading", 3 << 20)
    assert "reading" in out.getvalue() and "3.1/3.1 MiB" in out.getvalue().replace("3.0/3.0", "3.1/3.1")
    out.truncate(0)
    with weight_tables.bar(True, {}) as advance:
        advance("reading", 1)
    assert out.getvalue().strip("\0") == ""


def test_progress_reaches_the_size_of_the_files(there):
    from mindtorch.tools.convert import convert

    torch.save({"a": torch.zeros(300_000), "b": torch.zeros(10, 10)}, "big.pth")
    torch.save({"a": torch.zeros(300_000), "b": torch.zeros(10, 10)}, "old.pth", _use_new_zipfile_serialization=False)
    for source, target in (("old.pth", "a.npz"), ("big.pth", "b.ckpt"), ("b.ckpt", "c.npz"), ("c.npz", "d.safetensors"), ("d.safetensors", "e.pth")):
        seen = {"reading": 0, "writing": 0}

        def count(phase, n, seen=seen):
            seen[phase] += n

        convert(source, target, progress=count)
        assert all(1_200_000 <= n <= 1_300_000 for n in seen.values()), (source, seen)


def test_pth2ckpt(there, net, capsys):
    ms = pytest.importorskip("mindspore")
    assert pth2ckpt("a.pth") == "a.ckpt" and capsys.readouterr().out == "a.pth -> a.ckpt: 11 tensors\n"
    assert list(ms.load_checkpoint("a.ckpt")) == list(net.state_dict())
    pth2ckpt("nested.pth")
    assert list(ms.load_checkpoint("nested.ckpt")) == [*net.state_dict(), "epoch"]
    torch.save({"g": {"w": torch.ones(1)}, "d": {"w": torch.zeros(1)}}, "two.pth")
    pth2ckpt("two.pth", "out.ckpt")
    assert sorted(ms.load_checkpoint("out.ckpt")) == ["d.w", "g.w"]
    pth2ckpt("a.pth", names="mindspore", rules={"kinds": {"2": "Embedding"}})
    assert "2.embedding_table" in ms.load_checkpoint("a.ckpt")
    with pytest.raises(ValueError, match="no PyTorch checkpoint but ckpt"):
        pth2ckpt("a.ckpt")
    os.rename("a.pth", "b.ckpt")
    with pytest.raises(ValueError, match="overwrite"):
        pth2ckpt("b.ckpt")


def test_pth2ckpt_as_a_module(there):
    env = {**os.environ, "PYTHONPATH": SRC}
    done = subprocess.run([sys.executable, "-m", "mindtorch.tools.pth2ckpt", "a.pth", "x.ckpt"], env=env, capture_output=True)
    assert done.returncode == 0 and weights.kind_of("x.ckpt") == "ckpt", done.stderr
    code = "import mindtorch.tools.pth2ckpt; from mindtorch.tools import pth2ckpt as f; print(f('a.pth', 'y.ckpt'))"
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert done.stdout.endswith("y.ckpt\n"), done.stderr
