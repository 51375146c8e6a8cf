"""Graphs and eager runs are compared bit for bit, so both have to meet kernels in the same state."""

from __future__ import annotations

import pytest

from mindtorch.engine.host import jit


@pytest.fixture(autouse=True)
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels compile at once: else eager and graph could meet them on either side of that."""
    monkeypatch.setattr(jit, "_eager", True)
