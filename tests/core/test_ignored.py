"""Arguments that are accepted and change nothing say so, once per line of the user's program; defaults say nothing."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import mindtorch.torch as mt
from mindtorch import log
from mindtorch.torch import nn
from mindtorch.torch.utils.data import DataLoader

P = mt.ones(2, requires_grad=True)
LOUD: dict[str, tuple[str, Callable[[], Any]]] = {
    "freeze": ("preserved_attrs", lambda: mt.jit.freeze(nn.Linear(1, 1).eval(), preserved_attrs=["a"])),
    "data_parallel": ("device_ids", lambda: nn.DataParallel(nn.Linear(1, 1), device_ids=[0])),
    "loader": ("pin_memory_device", lambda: DataLoader([1], pin_memory_device="cuda")),
    "embedding": ("sparse", lambda: nn.functional.embedding(mt.tensor([0]), mt.ones(1, 1), sparse=True)),
    "compile_dynamic": ("dynamic", lambda: mt.compile(abs, dynamic=True)),
}
QUIET: dict[str, tuple[str, Callable[[], Any]]] = {
    "script": ("example_inputs", lambda: mt.jit.script(abs, example_inputs=[(1,)])),
    "foreach": ("foreach", lambda: mt.optim.SGD([P], lr=0.1, foreach=True)),
    "fused": ("fused", lambda: mt.optim.Adam([P], fused=True)),
    "clip": ("foreach", lambda: nn.utils.clip_grad_norm_([P], 1.0, foreach=True)),
    "to": ("non_blocking", lambda: P.to("cpu", non_blocking=True)),
    "copy": ("non_blocking", lambda: mt.ones(2).copy_(mt.ones(2), non_blocking=True)),
    "storage_to": ("non_blocking", lambda: mt.ones(2).untyped_storage().to(device="cpu", non_blocking=True)),
    "storage_copy": ("non_blocking", lambda: _storage().copy_(_storage(), non_blocking=True)),
}


def _storage() -> Any:
    return mt.ones(2).untyped_storage()


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[logging.LogRecord]:
    records: list[logging.LogRecord] = []
    logger = log.logger()
    handler = logging.Handler()
    handler.emit = records.append  # type: ignore[method-assign]
    monkeypatch.setattr(log, "_seen", set())
    logger.addHandler(handler)
    level = logger.level
    logger.setLevel(logging.DEBUG)
    yield records
    logger.removeHandler(handler)
    logger.setLevel(level)


@pytest.mark.parametrize("name", [*LOUD, *QUIET])
def test_said_once_with_the_users_line(name: str, said: list[logging.LogRecord]) -> None:
    argument, call = (LOUD | QUIET)[name]
    for _ in range(3):
        call()
    about = [r for r in said if f"argument {argument!r} has no effect" in r.getMessage()]
    assert len(about) == 1 and __file__ in about[0].getMessage()
    assert about[0].levelno == (logging.WARNING if name in LOUD else logging.DEBUG)


def test_defaults_say_nothing(said: list[logging.LogRecord]) -> None:
    mt.optim.SGD([P], lr=0.1)
    mt.optim.AdamW([P])
    DataLoader([1], pin_memory=False)
    nn.utils.clip_grad_norm_([P], 1.0)
    P.to("cpu")
    mt.compile(abs)
    nn.DataParallel(nn.Linear(1, 1))
    assert not [r for r in said if "has no effect" in r.getMessage()]


def test_unknown_options_are_refused() -> None:
    with pytest.raises(TypeError):
        mt.compile(abs, speed="high")  # type: ignore[call-arg]
    with pytest.raises(RuntimeError, match="Either mode or options"):
        mt.compile(abs, mode="default", options={})


def test_anomaly_without_the_check_for_nan() -> None:
    a = mt.zeros(2, requires_grad=True)
    with mt.autograd.set_detect_anomaly(True, check_nan=False):
        (a.sqrt() * 0).sum().backward()
    assert a.grad.isnan().all()


def test_hub_of_a_folder(tmp_path: Path, said: list[logging.LogRecord]) -> None:
    (tmp_path / "hubconf.py").write_text("def three():\n    return 3\n")
    assert mt.hub.load(str(tmp_path), "three", source="local") == 3
    assert not said
    assert mt.hub.load(str(tmp_path), "three", source="local", force_reload=True, trust_repo=True, verbose=False) == 3
    text = " ".join(r.getMessage() for r in said)
    assert all(f"argument {name!r} has no effect" in text for name in ("force_reload", "trust_repo", "verbose"))


def test_event_writer(tmp_path: Path, said: list[logging.LogRecord]) -> None:
    pytest.importorskip("tensorboard")
    from mindtorch.torch.utils.tensorboard import SummaryWriter

    with SummaryWriter(str(tmp_path)) as w:
        w.add_scalar("a", 1.0)
        w.add_hparams({"lr": 1}, {"loss": 2.0})
        assert not said
        w.add_scalar("a", 1.0, new_style=True)
        w.add_hparams({"lr": 1}, {"loss": 2.0}, run_name="run")
    text = " ".join(r.getMessage() for r in said)
    assert all(f"argument {name!r} has no effect" in text for name in ("new_style", "run_name"))
