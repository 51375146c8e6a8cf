"""Arguments of ``torch.compile`` and ``torch.jit``: each has its effect, or the log says that it has none."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest
from graph_models import mlp

import mindtorch
import mindtorch.torch as torch
from mindtorch import log
from mindtorch.graph import choice
from mindtorch.torch import nn


@pytest.fixture
def said() -> Iterator[list[str]]:
    """Messages of the log, from DEBUG on."""
    texts: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: texts.append(record.getMessage())  # type: ignore[method-assign]
    logger = log.logger()
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    yield texts
    logger.removeHandler(handler)
    logger.setLevel(level)


def branching(x: Any) -> Any:
    return x + 1 if x.sum() > 0 else x - 1


def test_refused() -> None:
    with pytest.raises(RuntimeError, match="mode"):
        torch.compile(branching, mode="fastest")
    with pytest.raises(RuntimeError, match="backend"):
        torch.compile(branching, backend="nonsense")
    with pytest.raises(RuntimeError, match="backend must be one of"):
        mindtorch.graph(branching, backend="inductor")
    with pytest.raises(RuntimeError, match="both"):
        torch.compile(branching, mode="default", options={"a": 1})


def test_forms() -> None:
    assert torch.compile(branching, disable=True) is branching
    assert torch.compile(dynamic=False)(branching)(torch.ones(2)).tolist() == [2, 2]
    assert torch.compile(branching, backend="eager")(torch.ones(2)).tolist() == [2, 2]


@pytest.mark.parametrize(
    "options, backend",
    [
        ({}, "auto"),
        ({"mode": "default"}, "auto"),
        ({"mode": "reduce-overhead"}, "host"),
        ({"mode": "max-autotune"}, "best"),
        ({"mode": "max-autotune-no-cudagraphs"}, "best"),
        ({"mode": "reduce-overhead", "backend": "mindspore"}, "mindspore"),
        ({"backend": "host"}, "host"),
        ({"dynamic": True}, "auto"),
        ({"dynamic": False}, "auto"),
        ({"options": {"triton.cudagraphs": True}}, "auto"),
        ({"backend": "aot_eager"}, "auto"),
        ({"backend": lambda module, inputs: module.forward}, "auto"),
    ],
)
def test_each_has_an_effect_or_is_logged(options: dict[str, Any], backend: str, said: list[str]) -> None:
    graph = torch.compile(mlp(), **options)
    assert graph._graph.backend == backend
    ignored = [n for n in ("mode", "dynamic", "options", "backend") if any(f"argument '{n}' has no effect" in t for t in said)]
    expected = {"dynamic": options.get("dynamic") is True, "options": "options" in options,
                "mode": backend == "mindspore", "backend": backend == "auto" and "backend" in options}  # fmt: skip
    assert ignored == [n for n in ("mode", "dynamic", "options", "backend") if expected.get(n)]


def test_max_autotune_measures_ms_jit_too() -> None:
    graph = torch.compile(mlp(), mode="max-autotune")
    x = torch.randn(4, 8)
    with torch.no_grad():
        for _ in range(3 * choice.TRIES + 2):
            graph(x)
    (entry,) = [e for found in graph._graph.entries.values() for e in found]
    assert set(entry.times) == {"eager", "host", "mindspore"} and entry.chosen in entry.times
    assert "mindspore" in str(mindtorch.graph.explain(graph, x))


def test_reduce_overhead_makes_no_eager_trial_runs() -> None:
    graph = torch.compile(nn.Linear(3, 3), mode="reduce-overhead")
    for _ in range(5):
        graph(torch.ones(2, 3))
    (entry,) = [e for found in graph._graph.entries.values() for e in found]
    assert entry.chosen == "host" and not entry.times["eager"]


def test_trace_checks_its_check_inputs(said: list[str]) -> None:
    x = torch.ones(2, 2)
    good = torch.jit.trace(branching, x, check_inputs=[(x * 2,), (-x,)])
    assert good(-x).tolist() == [[-2, -2]] * 2
    count = [0]

    def other_each_time(a: Any) -> Any:
        count[0] += 1
        return a * count[0]

    with pytest.raises(RuntimeError, match="check_inputs"):
        torch.jit.trace(other_each_time, x, check_inputs=[(x,)])
    torch.jit.trace(other_each_time, x, check_inputs=[(x,)], check_trace=False)
    torch.jit.trace(other_each_time, x, check_inputs=[(x,)], check_tolerance=10.0)
    assert not any("no effect" in t for t in said)
    torch.jit.trace(branching, x, strict=False)
    assert any("torch.jit.trace: argument 'strict' has no effect" in t for t in said)
    with pytest.raises(TypeError, match="speed"):
        torch.jit.trace(branching, x, speed=3)


def test_files_are_refused_with_the_way_that_works(tmp_path: Any) -> None:
    scripted = torch.jit.script(mlp())
    for save in (lambda: scripted.save(tmp_path / "m.pt"), lambda: torch.jit.save(scripted, tmp_path / "m.pt")):
        with pytest.raises(RuntimeError, match=r"torch.save\(model.state_dict\(\), f\)"):
            save()
    assert not list(tmp_path.iterdir())
    with pytest.raises(RuntimeError, match="python -m mindtorch convert"):
        torch.jit.load(tmp_path / "m.pt")
