"""Measuring: the user's way and the proposed way, one after the other on the recorded arguments."""

from __future__ import annotations

import gc
from collections.abc import Callable
from dataclasses import asdict, dataclass
from time import perf_counter
from typing import Any

from mindtorch.core.tensor import Tensor

THRESHOLD = 0.03
"""Advice that saves a smaller share of the step is not given."""
BUDGET = 0.15
"""Seconds one comparison may take, beyond the two first calls of each way."""


@dataclass
class Hint:
    """One piece of advice. Times are in milliseconds a step; ``gain`` is the share of the step that was saved in the trial."""

    rule: str
    file: str
    line: int
    text: str
    message: str
    before: float
    after: float
    step: float
    gain: float
    step_kind: str = "training"

    def json(self) -> dict[str, Any]:
        """For ``--json``."""
        return asdict(self)


def pair(old: Callable[[], Any], new: Callable[[], Any], budget: float = BUDGET) -> tuple[float, float]:
    """Seconds of both ways: the least of alternating runs, so that what else the machine does cancels out."""
    old(), new()
    best = [float("inf"), float("inf")]
    enabled = gc.isenabled()
    gc.disable()
    try:
        end = perf_counter() + budget
        rounds = 0
        while rounds < 3 or (perf_counter() < end and rounds < 200):
            for i, f in enumerate((old, new)):
                start = perf_counter()
                f()
                best[i] = min(best[i], perf_counter() - start)
            rounds += 1
    finally:
        if enabled:
            gc.enable()
    return best[0], best[1]


def once(f: Callable[[], Any], budget: float = BUDGET) -> float:
    """Seconds of one way, the least of several runs."""
    return pair(f, lambda: None, budget)[0]


def leaf(value: Any) -> Any:
    """Recorded arguments as the roots of a graph of their own: same memory, same ``requires_grad``."""
    if isinstance(value, Tensor):
        return value.detach().requires_grad_(True) if value.requires_grad else value.detach()
    if isinstance(value, (list, tuple)):
        return type(value)(leaf(v) for v in value) if type(value) in (list, tuple) else value
    return value


def tensors(value: Any) -> list[Tensor]:
    """All tensors in nested lists and tuples of arguments."""
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, (list, tuple)):
        return [t for v in value for t in tensors(v)]
    return []


def both_ways(f: Callable[..., Any], args: Any) -> Callable[[], Any]:
    """``f(*args)`` and, where an argument wants a gradient, the backward pass from its results."""
    from mindtorch import torch

    args = leaf(args)
    wanted = [t for t in tensors(args) if t.requires_grad]

    def run() -> Any:
        with torch.enable_grad():
            out = f(*args)
            ends = [t for t in tensors(out) if t.requires_grad]
            if wanted and ends:
                torch.autograd.grad(ends, wanted, [torch.ones_like(t) for t in ends], allow_unused=True)
        return out

    return run


def agree(a: Any, b: Any, tolerance: float = 1e-4) -> bool:
    """Whether both ways computed the same, within float32's rounding."""
    from mindtorch import torch

    xs, ys = tensors(a), tensors(b)
    if len(xs) != len(ys) or not xs:
        return False
    for x, y in zip(xs, ys):
        if x.shape != y.shape or not torch.allclose(x.detach().double(), y.detach().double(), tolerance, tolerance, equal_nan=True):
            return False
    return True
