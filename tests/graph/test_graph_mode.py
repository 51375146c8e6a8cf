"""MindSpore's switch, ``ms.set_context(mode=ms.GRAPH_MODE)``, set by a script: each runs in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

SRC = Path(__file__).parents[2] / "src"
NET = """
import sys
import mindtorch, mindtorch.torch as torch
from mindtorch.torch import nn
import mindtorch.torch.nn.functional as F
assert "mindspore" not in sys.modules

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.head, self.table = nn.Conv2d(1, 4, 3), nn.Linear(144, 5), nn.Embedding(6, 5)
    def forward(self, x, i):
        return self.head(torch.relu(self.conv(x)).flatten(1)) + self.table(i)   # forward's line

def graphs(m):
    g = m.__dict__.get("_graph_mode")
    return 0 if g is None else sum(len(v) for v in g.entries.values())

torch.manual_seed(0)
net = Net()
x, i = torch.randn(3, 1, 8, 8), torch.tensor([1, 2, 5])
eager = net(x, i)
"""


def run(*parts: str, **env: str) -> str:
    clean = {k: v for k, v in os.environ.items() if not k.startswith("MINDTORCH_")}
    clean.update(PYTHONPATH=str(SRC), OMP_NUM_THREADS="1", MSA_LOG="2", GLOG_v="3", **env)
    code = "\n".join(textwrap.dedent(p) for p in parts)
    path = Path(env["HERE"]) / "script.py"
    path.write_text(code)
    got = subprocess.run([sys.executable, str(path)], env=clean, capture_output=True, text=True, timeout=300)
    assert got.returncode == 0, got.stderr[-2000:]
    return got.stdout + got.stderr


@pytest.mark.parametrize(
    "on, off",
    [
        ("ms.set_context(mode=ms.GRAPH_MODE)", "ms.set_context(mode=ms.PYNATIVE_MODE)"),
        ("ms.context.set_context(mode=0)", "ms.context.set_context(mode=1)"),
    ],
)
def test_the_mode_makes_modules_graphs_and_back(tmp_path: Path, on: str, off: str) -> None:
    out = run(
        NET,
        "import mindspore as ms",
        "ms.set_device('CPU')",
        "net(x, i)\nassert graphs(net) == 0",
        on,
        """
        for _ in range(8):
            out = net(x, i)
        assert graphs(net) == 1, graphs(net)
        assert not any(graphs(m) for m in net.children())     # only the outermost
        assert torch.equal(out, eager)
        net(torch.randn(2, 1, 8, 8), i[:2])
        assert graphs(net) == 2
        report = mindtorch.graph.explain(net, x, i)
        assert report.graph_count == 2 and not report.breaks, report
        """,
        off,
        """
        net(torch.randn(1, 1, 8, 8), i[:1])
        assert graphs(net) == 2                                # PyNative again: nothing new is captured
        assert not nn.modules._hooks.HOOKED                    # and calls are as short as before
        print("done")
        """,
        HERE=str(tmp_path),
    )
    assert "done" in out


def test_mindspore_loaded_first_and_in_graph_mode(tmp_path: Path) -> None:
    run(
        "import mindspore as ms\nms.set_context(mode=ms.GRAPH_MODE)\nimport sys\nkeep = sys.modules.pop('mindspore')",
        NET,
        "sys.modules['mindspore'] = keep\nfor _ in range(3): net(x, i)\nassert graphs(net) == 1",
        HERE=str(tmp_path),
    )


def test_training_in_graph_mode_gives_the_eager_numbers(tmp_path: Path) -> None:
    run(
        NET,
        """
        import copy
        twin = copy.deepcopy(net)
        def train(m, steps):
            opt = torch.optim.SGD(m.parameters(), 0.1, momentum=0.9)
            losses = []
            for _ in range(steps):
                opt.zero_grad()
                loss = F.cross_entropy(m(x, i), i.clamp(max=4))
                loss.backward()
                opt.step()
                losses.append(loss.item())
            return losses
        want = train(net, 9)
        import mindspore as ms
        ms.set_context(mode=ms.GRAPH_MODE)
        got = train(twin, 9)
        assert graphs(twin) == 1 and got == want, (got, want)
        assert all(torch.equal(a, b) for a, b in zip(net.parameters(), twin.parameters()))
        """,
        HERE=str(tmp_path),
    )


def test_the_engines_kernels_keep_running_eagerly(tmp_path: Path) -> None:
    run(
        NET,
        """
        import mindspore as ms
        ms.set_context(mode=ms.GRAPH_MODE)
        from mindtorch.engine.mindspore import door
        a, b = torch.randn(4, 16, 24, 24), torch.randn(16, 16, 3, 3)   # large enough for MindSpore's convolution
        got = F.conv2d(a, b)
        door.load()
        t = torch.as_tensor(ms.Tensor([1.0, 2.0]))
        assert t.tolist() == [1, 2] and ms.get_context("mode") == ms.GRAPH_MODE
        ms.set_context(mode=ms.PYNATIVE_MODE)
        assert torch.equal(F.conv2d(a, b), got)
        """,
        HERE=str(tmp_path),
    )


def test_errors_name_the_users_line_and_suggest_pynative(tmp_path: Path) -> None:
    line = NET.splitlines().index(next(s for s in NET.splitlines() if "forward's line" in s)) + 1
    out = run(
        NET,
        """
        import mindspore as ms
        ms.set_context(mode=ms.GRAPH_MODE)
        def message(*args):
            try:
                net(*args)
            except Exception as e:
                return f"{type(e).__name__} {e}"
        print(message(torch.randn(3, 1, 9, 9), i))       # while it is captured
        for _ in range(8): net(x, i)
        print(message(x, torch.tensor([1, 2, 6])))       # while the program runs
        ms.set_context(mode=ms.PYNATIVE_MODE)
        print(message(x, torch.tensor([1, 2, 6])))
        """,
        HERE=str(tmp_path),
    )
    captured, ran, eager = [s for s in out.splitlines() if "Error" in s]
    for text, kind in ((captured, "RuntimeError"), (ran, "IndexError")):
        assert text.startswith(kind) and f"script.py:{line}," in text, text
        assert "run it in PyNative mode first: ms.set_context(mode=ms.PYNATIVE_MODE)" in text
    assert eager.startswith("IndexError") and "PyNative" not in eager


def test_a_module_that_cannot_be_captured_says_so_and_its_parts_are_graphs(tmp_path: Path) -> None:
    out = run(
        NET,
        """
        class Outer(nn.Module):
            def __init__(self):
                super().__init__()
                self.a = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
            def forward(self, x):
                if x.tolist()[0][0] > 0:
                    x = x + 1
                return self.a(x)
        outer = Outer()
        import mindspore as ms
        ms.set_context(mode=ms.GRAPH_MODE)
        for n in range(4):
            outer(torch.ones(2, 4) * n)
        assert graphs(outer) == 0 and graphs(outer.a) == 1
        print(mindtorch.graph.explain(outer, torch.ones(2, 4)))
        import pickle, copy
        assert "_graph_mode" not in pickle.loads(pickle.dumps(net)).__dict__
        assert "_graph_mode" not in copy.deepcopy(net).__dict__
        """,
        HERE=str(tmp_path),
    )
    assert "Outer cannot be one graph" in out and "PYNATIVE_MODE" in out and "tolist reads values" in out
    assert "Sequential: 1 graph(s)" in out


def test_value_and_grad_and_interop_in_graph_mode(tmp_path: Path) -> None:
    run(
        NET,
        """
        import mindspore as ms
        import numpy as np
        from mindtorch import interop
        def all_of_it():
            torch.manual_seed(1)
            m = Net()
            opt = torch.optim.SGD(m.parameters(), 0.1)
            step = mindtorch.value_and_grad(lambda x: m(x, i).square().mean(), None, list(m.parameters()))
            losses = []
            for _ in range(6):
                loss, grads = step(x)
                opt(grads)
                losses.append(loss.item())
            cell = ms.nn.Dense(5, 2, weight_init="ones", bias_init="zeros")
            inner = interop.CellModule(cell)
            y = nn.Sequential(nn.Linear(5, 5), inner)
            v = torch.ones(3, 5, requires_grad=True)
            for _ in range(4):
                v.grad = None
                y(v).sum().backward()
            outer = interop.ModuleCell(m)
            z = outer(ms.Tensor(x.numpy()), ms.Tensor(i.numpy())).asnumpy()
            return losses, v.grad.numpy().copy(), z
        want = all_of_it()
        ms.set_context(mode=ms.GRAPH_MODE)
        got = all_of_it()
        assert got[0] == want[0] and got[0][-1] < got[0][0]
        assert np.allclose(got[1], want[1], atol=1e-6) and np.allclose(got[2], want[2], atol=1e-6)
        """,
        HERE=str(tmp_path),
    )
