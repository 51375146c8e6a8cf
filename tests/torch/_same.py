"""Running one piece of code with PyTorch and with mindtorch, and comparing what comes out."""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np

import mindtorch.torch as mt
import torch

RTOL, ATOL = 2e-5, 2e-6


def attempt(fn: Callable[[], Any]) -> Any:
    """The value of ``fn()``, or the type and text of what it raises."""
    try:
        return fn()
    except Exception as err:
        return type(err).__name__, str(err)


def plain(x: Any) -> Any:
    """``x`` with tensors as arrays, modules and types as text, module paths neutral."""
    if isinstance(x, (torch.Tensor, mt.Tensor)):
        return x.detach().numpy().copy() if x.dtype not in (torch.bfloat16, mt.bfloat16) else x.detach().float().numpy()
    if isinstance(x, (torch.nn.Module, mt.nn.Module, type, torch.dtype, mt.dtype)):
        return repr(x).replace("mindtorch.torch", "torch")
    if isinstance(x, str):
        return x.replace("mindtorch.torch", "torch")
    if isinstance(x, (dict, OrderedDict)):
        return {k: plain(v) for k, v in x.items()}
    if isinstance(x, (list, tuple, set)):
        return [plain(v) for v in x]
    return x


def equal(a: Any, b: Any, where: str = "", rtol: float = RTOL, atol: float = ATOL) -> None:
    """Assert that two results of :func:`plain` agree."""
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        assert isinstance(a, np.ndarray) and isinstance(b, np.ndarray), f"{where}: {a!r} against {b!r}"
        assert a.shape == b.shape and a.dtype == b.dtype, f"{where}: {a.shape} {a.dtype} against {b.shape} {b.dtype}"
        np.testing.assert_allclose(a, b, rtol=rtol, atol=atol, err_msg=where)
    elif isinstance(a, list):
        assert isinstance(b, list) and len(a) == len(b), f"{where}: {a!r} against {b!r}"
        for i, (x, y) in enumerate(zip(a, b)):
            equal(x, y, f"{where}[{i}]", rtol, atol)
    elif isinstance(a, dict):
        assert isinstance(b, dict) and list(a) == list(b), f"{where}: keys {list(a)} against {list(b)}"
        for k in a:
            equal(a[k], b[k], f"{where}.{k}", rtol, atol)
    elif isinstance(a, float) and isinstance(b, float):
        np.testing.assert_allclose(a, b, rtol=rtol, atol=atol, err_msg=where)
    else:
        assert a == b, f"{where}: {a!r} against {b!r}"


def same(scenario: Callable[[Any], Any], rtol: float = RTOL, atol: float = ATOL) -> None:
    """Run ``scenario(torch)`` and ``scenario(mindtorch.torch)`` from the same seed; results must agree."""
    got = []
    for lib in (torch, mt):
        lib.manual_seed(0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            got.append(plain(scenario(lib)))
    equal(got[1], got[0], "", rtol, atol)
