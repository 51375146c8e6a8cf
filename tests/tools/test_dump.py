"""API dump on both frameworks: which calls, which values, which files, and nothing left behind."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from torch.overrides import _get_current_function_mode_stack

import mindtorch.torch as mt
import torch
from mindtorch.core import observe
from mindtorch.tools import migrator as ts

FRAMES = {"pytorch": torch, "mindtorch": mt}
STEM = {"pytorch": "torch", "mindtorch": "mindtorch"}
GOLDEN = Path(__file__).parent / "golden_ts1018" / "pt_a" / "rank0"


def dump(frame, out, body, net=None, init=None, **options):
    """Record ``body(torch, net)`` on a framework and return its reader."""
    t = FRAMES[frame]
    t.manual_seed(0)
    net = net(t) if net is not None else t.nn.Linear(2, 2)
    ts.api_dump_init(net, str(out), **(init or {}))
    ts.api_dump_start(**options)
    try:
        body(t, net)
    finally:
        ts.api_dump_stop()
    return Read(frame, out)


class Read:
    """The files of a dump."""

    def __init__(self, frame, out):
        self.folder = Path(out) / "rank0"
        stem = self.folder / f"{STEM[frame]}_api_dump"
        self.arrays, self.info = stem, Path(f"{stem}_info.csv")
        self.rows = [json.loads(line) for line in self.info.read_text().splitlines()]
        self.names = [r[0] for r in self.rows]
        self.stack = json.loads(Path(f"{stem}_stack.json").read_text())
        self.calls = [json.loads(line) for line in Path(f"{stem}_calls.jsonl").read_text().splitlines()]

    def load(self, name):
        return np.load(self.arrays / f"{name}.npy")


def both(tmp_path, body, **kwargs):
    """The dumps of both frameworks; their names must be the same."""
    got = {f: dump(f, tmp_path / f, body, **kwargs) for f in FRAMES}
    assert got["pytorch"].names == got["mindtorch"].names
    return got["mindtorch"]


def golden_net(t):
    class Net(t.nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = t.nn.Conv2d(1, 2, 3)
            self.relu = t.nn.ReLU()
            self.drop = t.nn.Dropout(0.0)
            self.fc = t.nn.Linear(2 * 4 * 4, 3)

        def forward(self, x):
            x = self.relu(self.conv(x))
            x = t.nn.functional.max_pool2d(x, 1)
            x = t.flatten(x, 1)
            x = self.drop(x)
            x = x * 2
            return self.fc(x).mean()

    return Net()


@pytest.mark.parametrize("frame", list(FRAMES))
def test_files_are_those_of_troubleshooter(frame, tmp_path):
    def body(t, net):
        net(t.ones(1, 1, 6, 6) * float(1)).backward()

    got = dump(frame, tmp_path, body, golden_net, {"retain_backward": True, "compare_statedict": True})
    golden = [json.loads(line) for line in (GOLDEN / "torch_api_dump_info.csv").read_text().splitlines()]
    want = [r[0] for r in golden]
    forward = [n for n in want if "backward" not in n]
    assert got.names[: len(forward)] == forward
    assert sorted(got.names) == sorted(want)
    assert sorted(p.stem for p in got.arrays.iterdir()) == sorted(want)
    mine = {r[0]: r for r in got.rows}
    for r in golden:
        assert mine[r[0]][1:5] == r[1:5]
        assert mine[r[0]][5][:2] == pytest.approx(r[5][:2], abs=1e-6) and mine[r[0]][5][2] != mine[r[0]][5][2]
        assert mine[r[0]][6] == r[6] == []
        assert mine[r[0]][7] == pytest.approx(r[7], abs=1e-5)
    keys = list(json.loads((GOLDEN / "torch_api_dump_stack.json").read_text()))
    assert [k for k in got.stack if k in keys] == keys
    assert "NN_ReLU_0" in got.stack and got.stack["NN_ReLU_0"] == got.stack["torch.nn.ReLU(0) forward"]
    assert got.stack["torch.flatten(0) forward"][0].endswith("in forward, \n x = t.flatten(x, 1)")
    assert (got.folder / ("pt_net.pth" if frame == "pytorch" else "ad_net.pth")).exists()
    assert stat.S_IMODE(os.stat(got.arrays).st_mode) == 0o700
    assert {stat.S_IMODE(os.stat(p).st_mode) for p in got.arrays.iterdir()} == {0o400}
    assert stat.S_IMODE(os.stat(got.info).st_mode) == 0o600


def test_names_as_written(tmp_path):
    def body(t, net):
        F = t.nn.functional
        x = t.arange(6.0).reshape(2, 3)
        x + 1, 2 - x, -x, x @ x.t(), x**2, 2 / x, x > 1
        F.relu(x), t.relu(x), x.relu()
        x[0], x[:, 1:]
        y = x.clone()
        y += 1
        y.mul_(2)
        y[0] = 5.0
        t.cat([x, x], 0)
        t.einsum("ij,kj->ik", x, x)
        t.linalg.norm(x)
        F.softmax(x, dim=1)
        t.nn.Embedding(4, 3)(t.tensor([1, 2]))
        t.nn.Flatten()(x[None])

    got = both(tmp_path, body)
    calls = [n.rpartition("_forward")[0] for n in got.names if n.endswith("output")]
    for name in ("Tensor___rsub___0", "Tensor___matmul___0", "Functional_relu_0", "Torch_relu_0", "Tensor_relu_0",
                 "Tensor___iadd___0", "Tensor_mul__0", "Torch_einsum_0", "Functional_softmax_0", "NN_Embedding_0",
                 "NN_Flatten_0", "Torch_cat_0", "Tensor___rtruediv___0"):  # fmt: skip
        assert name in calls, (name, calls)


def test_inputs_are_those_before_a_write(tmp_path):
    def body(t, net):
        x = t.ones(3)
        x.add_(1)
        y = t.nn.ReLU(inplace=True)(x - 3)
        del y

    got = both(tmp_path, body)
    assert got.load("Tensor_add__0_forward_input.0").tolist() == [1, 1, 1]
    assert got.load("Tensor_add__0_forward_output").tolist() == [2, 2, 2]
    assert got.load("NN_ReLU_0_forward_input.0").tolist() == [-1, -1, -1]
    assert got.load("NN_ReLU_0_forward_output").tolist() == [0, 0, 0]


def test_keywords_dicts_and_users_modules(tmp_path):
    def make(t):
        class Inner(t.nn.Linear):
            def forward(self, x, *, extra=None):
                return {"sum": super().forward(x) + extra, "x": x}

        return t.nn.Sequential(Inner(2, 2))

    def body(t, net):
        net[0](t.ones(1, 2), extra=t.ones(2))

    got = both(tmp_path, body, net=make)
    assert "NN_Linear_0_forward_input.extra" in got.names
    assert "NN_Linear_0_forward_output.sum" in got.names
    record = next(c for c in got.calls if c.get("call") == "NN_Linear_0")
    assert record["module"] == "0" and set(record["params"]) == {"weight", "bias"}


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "complex64", "float64"])
def test_dtypes(dtype, tmp_path):
    def body(t, net):
        x = t.tensor([1.5, -2.25]).to(getattr(t, dtype))
        x * x

    got = both(tmp_path, body)
    row = next(r for r in got.rows if r[0] == "Tensor___mul___0_forward_output")
    assert row[3] == f"torch.{dtype}"
    a = got.load(row[0])
    assert a.dtype == (np.float32 if dtype == "bfloat16" else np.dtype(dtype))
    assert np.allclose(a, [2.25, 5.0625])


def test_backward_names_the_gradient_of_each_output(tmp_path):
    def body(t, net):
        x = t.ones(4, requires_grad=True)
        a, b = (x * 2).chunk(2)
        (a.sum() + (b * 3).sum()).backward()

    got = both(tmp_path, body, init={"retain_backward": True})
    assert got.load("Tensor_chunk_0_backward_input.0").tolist() == [1, 1]
    assert got.load("Tensor_chunk_0_backward_input.1").tolist() == [3, 3]
    assert got.load("Tensor___mul___0_backward_input").tolist() == [1, 1, 3, 3]


SCOPES = {
    "list": (["Tensor___mul___1"], {"Tensor___mul___1"}),
    "range": (["Torch_exp_0", "Tensor___mul___1"], {"Torch_exp_0", "Tensor___mul___1"}),
    "api_list": (["EXP"], {"Torch_exp_0"}),
}


@pytest.mark.parametrize("mode", list(SCOPES))
def test_scopes(mode, tmp_path):
    scope, want = SCOPES[mode]

    def body(t, net):
        x = t.ones(2) * 2
        x = t.exp(x)
        x = x * 3
        x + 1

    got = both(tmp_path, body, mode=mode, scope=scope)
    assert {n.rpartition("_forward")[0] for n in got.names} == want


def test_dump_types_and_categories(tmp_path):
    def body(t, net):
        t.tensor([3.0, 4.0]) * 1

    only = both(tmp_path / "s", body, dump_type="statistics", statistic_category=["avg", "md5", "l2norm"])
    assert list(only.arrays.iterdir()) == []
    row = only.rows[0]
    assert row[5][2] == 3.5 and row[5][0] != row[5][0] and len(row[6]) == 32 and row[7] == 5.0
    values = both(tmp_path / "n", body, dump_type="npy")
    assert values.rows[0][5][0] != values.rows[0][5][0] and values.load(values.names[0]).tolist() == [3, 4]
    order = both(tmp_path / "o", body, dump_type="stack")
    assert list(order.arrays.iterdir()) == [] and order.names == values.names and "Tensor___mul___0" in order.stack


def test_filter_data_off_keeps_integers_and_numbers(tmp_path):
    def body(t, net):
        x = t.tensor([1, 2]) * 3
        x.sum() * 2.5

    got = both(tmp_path, body, filter_data=False)
    assert got.load("Tensor___mul___0_forward_input.1") == 3
    assert got.load("Tensor_sum_0_forward_output") == 9
    assert both(tmp_path / "on", body).names == []


def test_overflow_check_keeps_what_is_not_finite(tmp_path):
    def body(t, net):
        t.log(t.ones(2) * 0)

    got = both(tmp_path, body, overflow_check=True)
    assert {n.rpartition("_forward")[0] for n in got.names} == {"Torch_log_0"}


def test_wrong_arguments():
    net = mt.nn.Linear(1, 1)
    with pytest.raises(TypeError, match="nn.Module of PyTorch or mindtorch"):
        ts.api_dump_init(3)
    with pytest.raises(TypeError, match="retain_backward"):
        ts.api_dump_init(net, retain_backward=1)
    ts.api_dump_init(net, "/nowhere/x")
    for error, options in ((ValueError, {"mode": "some"}), (ValueError, {"scope": ["NN_A_0"]}), (ValueError, {"mode": "list"}),
                           (ValueError, {"mode": "list", "scope": ["NN_A"]}), (ValueError, {"mode": "range", "scope": ["A_1"]}),
                           (ValueError, {"dump_type": "x"}), (ValueError, {"statistic_category": ["sum"]}),
                           (TypeError, {"filter_data": 1})):  # fmt: skip
        with pytest.raises(error):
            ts.api_dump_start(**options)


def test_nothing_stays_behind(tmp_path):
    def body(t, net):
        class Mode(t.overrides.TorchFunctionMode):
            def __torch_function__(self, func, types, args=(), kwargs=None):
                return func(*args, **(kwargs or {}))

        with Mode():
            net(t.ones(1, 2))
            ts.api_dump_stop()  # not the innermost mode

    for frame in FRAMES:
        dump(frame, tmp_path / frame, body)
    registry = torch.nn.modules.module
    assert not registry._global_forward_hooks and not registry._global_forward_pre_hooks
    assert not mt.nn.modules.module._global_forward_hooks
    assert observe.OBSERVERS == [] and not _get_current_function_mode_stack()


def test_a_call_that_raises_is_kept_and_the_rest_recorded(tmp_path):
    def body(t, net):
        for wrong in (lambda: net(t.ones(1, 3)), lambda: t.ones(2) + t.ones(3), lambda: t.nn.functional.max_pool2d(t.ones(2), 2)):
            with pytest.raises(Exception):  # noqa: B017 - whichever error the framework has for it
                wrong()
        t.ones(2) * 2

    for frame in FRAMES:
        got = dump(frame, tmp_path / frame, body)
        failed = {c["call"] for c in got.calls if c.get("failed")}
        assert {"NN_Linear_0", "Tensor___add___0"} <= failed
        assert got.names[-2:] == ["Tensor___mul___0_forward_input.0", "Tensor___mul___0_forward_output"]


def test_steps_are_numbered(tmp_path):
    def body(t, net):
        optimizer = t.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(2):
            net(t.ones(1, 2)).sum().backward()
            optimizer.step()
        ts.api_dump_start()
        net(t.ones(1, 2))
        ts.api_dump_start()
        net(t.ones(1, 2))

    got = both(tmp_path, body)
    assert [c["step"] for c in got.calls if c.get("call", "").startswith("NN_Linear")] == [0, 1, 2, 3]


def python(code, cwd, **env):
    return subprocess.run(
        [sys.executable, "-c", code], cwd=cwd, capture_output=True, text=True, check=False, env={**os.environ, **env}, timeout=120
    )


def test_stopped_program_leaves_a_readable_dump(tmp_path):
    code = (
        "import os, mindtorch.torch as torch\nfrom mindtorch.tools import migrator as ts\n"
        "net = torch.nn.Linear(2, 2)\nts.api_dump_init(net, 'd')\nts.api_dump_start()\n"
        "for _ in range(200): net(torch.ones(1, 2))\nos._exit(3)"
    )
    assert python(code, tmp_path).returncode == 3
    got = Read("mindtorch", tmp_path / "d")
    assert len(got.rows) >= 300 and "NN_Linear_150" in got.stack
    assert not [p for p in got.arrays.iterdir() if not p.name.endswith(".npy")]


def test_workers_of_a_loader_do_not_write(tmp_path):
    def body(t, net):
        class Data(t.utils.data.Dataset):
            def __len__(self):
                return 4

            def __getitem__(self, i):
                return t.ones(2) * i

        for batch in t.utils.data.DataLoader(Data(), batch_size=2, num_workers=1):
            net(batch)

    got = both(tmp_path, body)
    assert [n for n in got.names if n.startswith("Tensor")] == []


def test_plain_pytorch_script(tmp_path):
    code = (
        "import sys\nfrom mindtorch.tools import as_troubleshooter\nas_troubleshooter()\n"
        "import torch, troubleshooter as ts\nnet = torch.nn.Linear(2, 2)\n"
        "ts.migrator.api_dump_init(net, 'd', retain_backward=True)\nts.migrator.api_dump_start()\n"
        "net(torch.ones(1, 2)).sum().backward()\nts.migrator.api_dump_stop()\n"
        "print([m for m in sys.modules if m == 'mindspore' or m.startswith('mindtorch.torch')])"
    )
    done = python(code, tmp_path, RANK="2")
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"
    assert (tmp_path / "d" / "rank2" / "torch_api_dump_info.csv").exists()


def test_troubleshooter_under_the_switch(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(
        "import sys, torch\nimport troubleshooter as ts\nfrom troubleshooter.migrator import api_dump_stop\n"
        "net = torch.nn.Linear(2, 2)\nts.migrator.api_dump_init(net, 'd')\nts.migrator.api_dump_start()\n"
        "net(torch.ones(1, 2))\napi_dump_stop()\nprint(torch.Tensor.__module__, 'mindspore' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-m", "mindtorch", str(script)], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "d" / "rank0" / "mindtorch_api_dump_info.csv").exists()


@pytest.mark.parametrize("frame", list(FRAMES))
def test_one_framework_is_enough(frame, tmp_path):
    """With the other framework made unimportable: layers, dump and comparison."""
    other, home = ("mindspore", "torch") if frame == "pytorch" else ("torch", "mindtorch.torch")
    code = (
        f"import sys; sys.modules[{other!r}] = None\n"
        f"import {home} as torch\n"
        "from mindtorch.tools import debug_layer_info, migrator as ts\n"
        "net = torch.nn.Linear(2, 2)\n"
        f"debug_layer_info(net, frame={frame!r}, file='layers.txt')\n"
        "ts.api_dump_init(net, 'd', retain_backward=True, compare_statedict=True)\nts.api_dump_start()\n"
        "net(torch.ones(1, 2)).sum().backward()\nts.api_dump_stop()\n"
        "assert ts.api_dump_compare('d', 'd/').ok\n"
        f"print({other!r} in sys.modules and sys.modules[{other!r}] is not None)"
    )
    done = python(code, tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "False"
    assert "[forward]" in (tmp_path / "layers.txt").read_text()
