"""Guards: whatever a program was specialised for is looked at before each run; nothing stale is ever used."""

from __future__ import annotations

import copy
import os
import subprocess
import sys
from typing import Any

import pytest
from graph_models import LeNet, mlp, pair

import mindtorch
import mindtorch.torch as torch
from mindtorch.torch import nn

SCALE = 2.0


def count(graph: Any) -> int:
    graph = getattr(graph, "_graph", graph)
    assert not graph.eager_only, graph.breaks
    return sum(len(found) for found in graph.entries.values())


def test_new_shapes_dtypes_and_modes_are_captured_anew() -> None:
    model, twin = pair(LeNet)
    graph = mindtorch.graph(model, backend="host")
    calls = 0
    for size, dtype, train, grad in [
        (2, torch.float32, True, True), (3, torch.float32, True, True), (3, torch.float32, False, True),
        (3, torch.float32, False, False), (3, torch.float64, False, False),
    ]:  # fmt: skip
        model.to(dtype).train(train), twin.to(dtype).train(train)
        for _ in range(3):
            x = torch.randn(size, 1, 28, 28, dtype=dtype)
            with torch.set_grad_enabled(grad):
                torch.manual_seed(1)
                got = graph(x)
                torch.manual_seed(1)
                # Eager kernels themselves change to compiled ones once they have seen enough work.
                assert torch.allclose(got, twin(x), rtol=1e-5, atol=1e-6) and got.requires_grad is grad
        calls += 1
        assert count(graph) == calls


def test_parameters_are_read_at_each_run() -> None:
    model, twin = pair(mlp)
    graph = mindtorch.graph(model, backend="host")
    x = torch.randn(5, 8)
    graph(x), graph(x)
    other = mlp()
    for m in (model, twin):
        m.load_state_dict(other.state_dict())
    assert torch.equal(graph(x), twin(x))
    for m in (model, twin):
        m[0].weight = nn.Parameter(torch.full((16, 8), 0.25))  # another object in its place
    assert torch.equal(graph(x), twin(x)) and count(graph) == 1
    graph(x).sum().backward()
    assert model[0].weight.grad is not None
    for m in (model, twin):
        m[0].weight.requires_grad_(False)
    assert torch.equal(graph(x), twin(x)) and count(graph) == 2
    for m in (model, twin):
        m[1] = nn.Tanh()
    assert torch.equal(graph(x), twin(x)) and count(graph) == 3


def test_python_state_is_watched() -> None:
    global SCALE
    factor, options = 3.0, {"shift": 1.0}

    class Config:
        gain = 2.0

    config = Config()

    def f(x: Any, sign: int = 1) -> Any:
        return x * factor * SCALE * config.gain * sign + options["shift"]

    graph = mindtorch.graph(f, backend="host")
    x = torch.ones(2)

    def check() -> None:
        for _ in range(2):
            assert torch.equal(graph(x), f(x))

    check()
    factor = 4.0
    check()
    SCALE = 5.0
    check()
    options["shift"] = -1.0
    check()
    Config.gain = 7.0
    check()
    config.gain = 8.0
    check()
    assert torch.equal(graph(x, -1), f(x, -1)) and torch.equal(graph(x, sign=-0), f(x, 0))
    SCALE = 2.0


def test_closure_tensors_are_inputs() -> None:
    w = torch.ones(3)

    def f(x: Any) -> Any:
        return x * w

    graph = mindtorch.graph(f, backend="host")
    x = torch.ones(3)
    for v in (2.0, 3.0):
        w.fill_(v)
        assert graph(x).tolist() == [v] * 3 and graph(x).tolist() == [v] * 3
    w = torch.full((3,), 9.0)
    assert graph(x).tolist() == [9.0] * 3
    w = torch.full((3,), 9.0, dtype=torch.float64)
    assert graph(x).dtype is torch.float64


def test_the_same_tensor_twice_is_another_program() -> None:
    graph = mindtorch.graph(lambda a, b: a * 2 + b, backend="host")
    x, y = torch.ones(2), torch.full((2,), 5.0)
    assert graph(x, x).tolist() == [3, 3] and graph(x, y).tolist() == [7, 7] and graph(x, x).tolist() == [3, 3]


def test_tied_weights_untied_later() -> None:
    model = nn.ModuleList([nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False)])
    model[1].weight = model[0].weight

    def f(x: Any) -> Any:
        return model[1](model[0](x))

    graph = mindtorch.graph(f, backend="host")
    x = torch.randn(2, 4)
    assert torch.equal(graph(x), f(x)) and torch.equal(graph(x), f(x))
    model[1].weight = nn.Parameter(torch.zeros(4, 4))
    assert graph(x).abs().sum() == 0


def test_strides_and_layout() -> None:
    graph = mindtorch.graph(lambda x: x.reshape(-1) * 2, backend="host")
    x = torch.arange(6.0).reshape(2, 3)
    for _ in range(2):
        assert graph(x).tolist() == (x.reshape(-1) * 2).tolist()
        assert graph(x.t()).tolist() == (x.t().reshape(-1) * 2).tolist()


def test_module_hooks_registered_later_run() -> None:
    model = mlp()
    graph = mindtorch.graph(model, backend="host")
    x = torch.randn(5, 8)
    y = graph(x)
    graph(x)
    handle = model[0].register_forward_hook(lambda m, a, out: out * 0)
    assert torch.equal(graph(x), model(x)) and not torch.equal(graph(x), y)
    handle.remove()
    assert torch.equal(graph(x), y)


def test_copies_and_state_of_the_wrapper() -> None:
    model = torch.compile(mlp(), backend="host")
    x = torch.randn(5, 8)
    assert list(model.state_dict()) == [f"_orig_mod.{k}" for k in model._orig_mod.state_dict()]
    twin = copy.deepcopy(model)
    model(x), twin(x)
    with torch.no_grad():
        for p in twin.parameters():
            p.zero_()
    assert twin(x).abs().sum() == 0 and model(x).abs().sum() > 0
    model.eval()
    assert not model._orig_mod.training


def test_too_many_specialisations_end_in_eager() -> None:
    graph = mindtorch.graph(lambda x, n: x + n, backend="host")
    x = torch.zeros(2)
    for n in range(40):
        assert graph(x, n).tolist() == [n, n]
    assert graph.eager_only and "specialisations" in graph.breaks[-1][0]


@pytest.mark.parametrize("mode", ["autocast", "inference"])
def test_modes_that_graphs_leave_alone(mode: str) -> None:
    model, twin = pair(mlp)
    graph = mindtorch.graph(model, backend="host")
    x = torch.randn(5, 8)
    graph(x), graph(x)
    with torch.autocast("cpu") if mode == "autocast" else torch.inference_mode():
        got, want = graph(x), twin(x)
    assert got.dtype is want.dtype and torch.equal(got, want)


COLD = """
import inspect
find, called = inspect.getfile, []
def patched(what):
    called.append(what)
    return find(what)
inspect.getfile = patched
import mindtorch, mindtorch.torch as torch
def f(x):
    drawn = torch.randn(64, 64) + torch.rand_like(x) + torch.randint(0, 9, (64,)) + torch.randperm(64)
    return torch.nn.functional.gelu(x).softmax(-1) + drawn
graph = mindtorch.graph(f, backend="host")
graph(torch.randn(64, 64))
print(len(called) > 0, graph.breaks)
"""


def test_what_a_compiler_calls_is_no_part_of_the_function(tmp_path: Any) -> None:
    """Other packages patch ``inspect`` (torch.package does): numba calls that while a kernel compiles inside a capture."""
    pytest.importorskip("numba")
    script = tmp_path / "cold.py"  # a file of its own, as the patch of another package is
    script.write_text(COLD.replace("import mindtorch,", "from mindtorch.engine.host import jit; jit._eager = True; import mindtorch,"))
    env = {**os.environ, "MINDTORCH_CACHE": str(tmp_path)}
    done = subprocess.run([sys.executable, script], env=env, capture_output=True, text=True, timeout=300, check=False)
    assert done.stdout.split() == ["True", "[]"], done.stdout + done.stderr
