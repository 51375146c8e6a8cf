"""The compiled direct convolutions index without checks: run as plain Python, where a slip is an IndexError."""

from __future__ import annotations

import types
from typing import Any

import numpy as np
import pytest

from mindtorch.engine.host import conv, direct

GEOMETRIES = [
    # image, kernel, stride, padding, dilation, groups
    ((1, 30), (1, 8), (1, 1), (0, 14), (1, 4), 1),
    ((1, 23), (1, 5), (1, 2), (0, 3), (1, 3), 1),
    ((9, 7), (3, 3), (1, 1), (2, 2), (3, 3), 1),
    ((8, 9), (3, 2), (2, 3), (1, 0), (2, 2), 1),
    ((7, 6), (3, 3), (2, 2), (1, 1), (1, 1), 4),
    ((6, 7), (5, 5), (1, 1), (4, 4), (1, 1), 4),
]


@pytest.fixture
def unchecked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every kernel of the module by its source."""
    monkeypatch.setitem(vars(direct), "prange", range)
    for name in ("_forward", "_input", "_weight"):
        monkeypatch.setattr(direct, name, getattr(direct, name).source)


@pytest.mark.parametrize("case", range(len(GEOMETRIES)))
def test_no_kernel_reads_outside(unchecked: None, case: int) -> None:
    image, kernel, stride, low, dilation, groups = GEOMETRIES[case]
    geo = conv.Geometry(stride, low, dilation, groups)
    r = np.random.default_rng(case)
    x = r.standard_normal((3, 4, *image))
    w = r.standard_normal((4 if groups > 1 else 3, 4 // groups, *kernel))
    size = tuple(
        (i + 2 * p - d * (k - 1) - 1) // s + 1 for i, p, d, k, s in zip(image, low, dilation, kernel, stride)
    )
    g = r.standard_normal((3, w.shape[0], *size))
    assert isinstance(direct._weight, types.FunctionType)
    checks: list[tuple[Any, Any]] = [
        (direct.forward(x, w, None, geo, size), conv.forward(x, w, None, geo, size)),
        (direct.weight_grad(g, x, geo, kernel), conv.weight_grad(g, x, geo, kernel)),
    ]
    if stride == (1, 1) or groups == 4:
        checks.append((direct.input_grad(g, w, geo, image), conv.input_grad(g, w, geo, image)))
    for got, want in checks:
        np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-10)
