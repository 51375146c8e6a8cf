"""An error ends at the user's call: what lies inside operations is not shown, unless it is asked for."""

from __future__ import annotations

import os
import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import mindtorch
import mindtorch.torch as mt
import mindtorch.torch.nn.functional as F
from mindtorch.torch import nn

INSIDE = tuple(os.path.join(os.path.dirname(mindtorch.__file__), room) + os.sep for room in ("core", "ops", "engine"))
X = mt.ones(2, 3)


def stale() -> None:
    a = mt.ones(2, requires_grad=True)
    b = a * 1
    y = (b * b).sum()
    b.add_(1)
    y.backward()


def twice() -> None:
    a = mt.ones(2, requires_grad=True)
    y = (a * a).sum()
    y.backward()
    y.backward()


CASES: dict[str, Callable[[], Any]] = {
    "binary": lambda: X + mt.ones(4),
    "inplace": lambda: X.add_(mt.ones(4)),
    "matmul": lambda: X @ X,
    "cat": lambda: mt.cat([X, mt.ones(2)]),
    "reshape": lambda: X.reshape(7),
    "dimension": lambda: X.sum(5),
    "index": lambda: X[5],
    "out": lambda: mt.add(X, X, out=mt.ones(4, dtype=mt.int64)),
    "cross_entropy": lambda: F.cross_entropy(X, mt.ones(3)),
    "conv2d": lambda: F.conv2d(X, X),
    "embedding": lambda: F.embedding(mt.tensor([5]), X),
    "inverse": lambda: mt.linalg.inv(mt.zeros(2, 2)),
    "missing_argument": lambda: mt.exp(),
    "not_a_scalar": lambda: mt.ones(2, requires_grad=True).backward(),
    "grad": lambda: mt.autograd.grad(X.sum(), X),
    "stale": stale,
    "twice": twice,
}


def frames_after_the_user(err: BaseException) -> list[str]:
    frames = [f.filename for f in traceback.extract_tb(err.__traceback__)]
    last = max(i for i, f in enumerate(frames) if f == __file__)
    return frames[last + 1 :]


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("call", [1, 2])
def test_at_most_the_public_function_itself_is_left(name: str, call: int) -> None:
    """The first call compiles the operation: both must look alike."""
    for _ in range(call):
        with pytest.raises((RuntimeError, IndexError, TypeError)) as caught:
            CASES[name]()
    assert len(frames_after_the_user(caught.value)) <= 1
    assert caught.value.__context__ is None


def test_layers_are_shown_and_kernels_are_not() -> None:
    with pytest.raises(RuntimeError) as caught:
        nn.Sequential(nn.Linear(3, 2), nn.Linear(3, 2))(X)
    after = frames_after_the_user(caught.value)
    assert any(f.endswith("linear.py") for f in after)
    assert sum(f.startswith((*INSIDE, "<mindtorch")) for f in after) == 1


def test_frames_of_the_user_below_an_operation_stay() -> None:
    class Bad(mt.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return deep(g)

    def deep(g: Any) -> Any:
        raise ZeroDivisionError("mine")

    y = Bad.apply(mt.ones(2, requires_grad=True)).sum()
    with pytest.raises(ZeroDivisionError) as caught:
        y.backward()
    assert [f.name for f in traceback.extract_tb(caught.value.__traceback__)][-2:] == ["backward", "deep"]


def test_context_of_the_user_stays() -> None:
    with pytest.raises(RuntimeError) as caught:
        try:
            raise KeyError("first")
        except KeyError:
            X + mt.ones(4)
    assert "first" in "".join(traceback.format_exception(caught.value))


SCRIPT = "import mindtorch.torch as torch\ndef f(x):\n    return torch.cat([x, torch.ones(2)])  # the line\nf(torch.ones(2, 3))\n"


@pytest.mark.parametrize("way", ["plain", "runner"])
@pytest.mark.parametrize("whole", [False, True])
def test_uncaught_errors_end_at_the_line_of_the_user(tmp_path: Path, way: str, whole: bool) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    env = {k: v for k, v in os.environ.items() if k not in ("MSA_LOG", "MINDTORCH_TRACEBACK")}
    env |= {"MINDTORCH_TRACEBACK": "full"} if whole else {}
    command = [sys.executable, *(["-m", "mindtorch"] if way == "runner" else []), str(script)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=env, timeout=120)
    shown = [line for line in done.stderr.splitlines() if line.startswith("  File ")]
    assert "RuntimeError: Tensors must have same number of dimensions" in done.stderr
    assert ("dispatch.py" in done.stderr) is whole
    if not whole:
        assert "train.py" in shown[-1] and "line 3, in f" in shown[-1], done.stderr
