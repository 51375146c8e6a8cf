"""Runs a scenario on PyTorch and on mindtorch and compares what it returns, or the exception it raises."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import mindtorch.torch as mt
import torch

LIBS = (torch, mt)


def plain(x: Any) -> Any:
    """Tensors become (dtype, shape, values), dtypes their names, nodes their kind; containers are walked."""
    if isinstance(x, (torch.Tensor, mt.Tensor)):
        t = x.detach()
        if "bfloat16" in str(t.dtype):
            t = t.float()
        return ("tensor", str(x.dtype), tuple(x.shape), np.asarray(t.resolve_conj().numpy()).copy())
    if isinstance(x, (list, tuple)):
        return [plain(i) for i in x]
    if isinstance(x, dict):
        return {k: plain(v) for k, v in x.items()}
    if x is None or isinstance(x, (bool, int, float, complex, str)):
        return x
    return str(x)


def same(got: Any, want: Any, where: str = "result") -> None:
    """Assert equality; numbers to float32 rounding."""
    if isinstance(want, list):
        assert isinstance(got, list) and len(got) == len(want), f"{where}: {got} want {want}"
        for i, (g, w) in enumerate(zip(got, want)):
            same(g, w, f"{where}[{i}]")
    elif isinstance(want, tuple):
        assert isinstance(got, tuple), f"{where}: {got} want {want}"
        assert got[:3] == want[:3], f"{where}: {got[:3]} want {want[:3]}"
        np.testing.assert_allclose(got[3], want[3], rtol=1e-5, atol=1e-6, err_msg=where)
    elif isinstance(want, float):
        assert abs(got - want) <= 1e-5 * max(1.0, abs(want)), f"{where}: {got} want {want}"
    else:
        assert got == want, f"{where}: {got!r} want {want!r}"


def agree(scenario: Callable[[Any], Any]) -> Any:
    """Run on both; both must return the same, or raise the same type of exception. Returns our exception, if any."""
    kept: list[Any] = []
    for lib in LIBS:
        try:
            kept.append((plain(scenario(lib)), None))
        except Exception as err:
            kept.append((None, err))
    (want, want_err), (got, got_err) = kept
    if want_err is None and got_err is not None:
        raise AssertionError(f"raised {got_err!r}, PyTorch returned {want}") from got_err
    if want_err is not None:
        assert got_err is not None, f"returned {got}, PyTorch raised {want_err!r}"
        own = type(want_err).__module__.startswith("torch")  # a class of PyTorch's: ours has its name
        alike = type(got_err).__name__ == type(want_err).__name__ if own else type(got_err) is type(want_err)
        assert alike, f"raised {got_err!r}, PyTorch raised {want_err!r}"
        return got_err
    same(got, want)
    return None
