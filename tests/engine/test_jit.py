"""The fused decorator: fallbacks, compilation after enough work, failing sources, worker ban, lazy loading."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from mindtorch.engine.host import jit
from mindtorch.engine.host.jit import fused


def double_fall(x: np.ndarray, out: np.ndarray, nt: int) -> None:
    out[:] = 2 * x


@fused(double_fall, parallel=True)
def double(x, out, nt):  # type: ignore[no-untyped-def]
    n = x.size
    step = (n + nt - 1) // nt
    for t in prange(nt):  # type: ignore[name-defined]  # noqa: F821
        for i in range(t * step, min(n, (t + 1) * step)):
            out[i] = x[i] * 2 + 1  # one more than the fallback, to tell the two bodies apart


def broken_fall(x: np.ndarray) -> float:
    return 7.0


@fused(broken_fall)
def broken(x):  # type: ignore[no-untyped-def]
    return x.no_such_attribute


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jit, "_eager", True)
    monkeypatch.setattr(jit, "_off", False)


def run(threads: int) -> np.ndarray:
    x, out = np.ones(1000, np.float32), np.zeros(1000, np.float32)
    double(x, out, threads)
    return out


def test_fallback_until_enough_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jit, "_eager", False)
    monkeypatch.setattr(jit, "_work", 0)
    monkeypatch.setattr(double, "compiled", None)
    monkeypatch.setattr(double, "seen", 0)
    assert (run(1) == 2).all()
    if not jit._off:
        monkeypatch.setattr(jit, "_work", jit.LOAD_WORK)
        monkeypatch.setattr(double, "seen", jit.KERNEL_WORK)
        assert (run(1) == 3).all()


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("threads", [1, 2])
def test_compiled_serial_and_parallel(threads: int) -> None:
    pytest.importorskip("numba")
    assert (run(threads) == 3).all()


@pytest.mark.usefixtures("eager")
def test_source_that_does_not_compile_uses_fallback_for_ever() -> None:
    assert broken(np.ones(3)) == 7.0
    assert broken(np.ones(3)) == 7.0
    assert broken.compiled is None


def test_threads() -> None:
    before = jit.num_threads()
    try:
        jit.set_threads(3)
        assert jit.threads_for(10) == 1
        assert jit.threads_for(10**7) == 3
    finally:
        jit.set_threads(before)


def test_forbid_and_lazy_loading_in_a_fresh_process() -> None:
    code = (
        "import sys, numpy as np, mindtorch.torch as torch\n"
        "assert not {'numba', 'scipy', 'mindspore', 'torch'} & set(sys.modules)\n"
        "from mindtorch.engine.host import jit\n"
        "jit._eager = True; jit.forbid()\n"
        "torch.nn.functional.gelu(torch.ones(100000))\n"
        "assert 'numba' not in sys.modules and not jit.ready()\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
