"""``torch.cpu`` and ``torch.accelerator`` without an accelerator, against PyTorch."""

from __future__ import annotations

import pytest

import mindtorch.torch as mt
import torch


def test_capabilities_of_the_cpu() -> None:
    ours, theirs = mt.cpu.get_capabilities(), torch.cpu.get_capabilities()
    assert {k: v for k, v in ours.items() if k in theirs} == {k: theirs[k] for k in ours if k in theirs}
    assert {"architecture", "num_logical_cores", "cpu_name"} <= {*ours}
    with pytest.raises(TypeError):
        ours["avx2"] = False  # type: ignore[index]


def test_events_of_the_cpu() -> None:
    event = mt.cpu.Event()
    event.record()
    event.wait()
    event.synchronize()
    assert event.query() is True
    assert [n for n in dir(torch.cpu.Event) if not n.startswith("_")] == [n for n in dir(event) if not n.startswith("_")]


@pytest.mark.parametrize("name", ["empty_host_cache", "get_device_capability", "current_device_index", "synchronize"])
def test_no_accelerator(name: str) -> None:
    for lib in (torch, mt):
        with pytest.raises(RuntimeError, match="Cannot access accelerator device when none is available"):
            getattr(lib.accelerator, name)()


def test_device_index_without_an_accelerator() -> None:
    for lib in (torch, mt):
        with lib.accelerator.device_index(None):
            pass
        with pytest.raises(RuntimeError, match="none is available"), lib.accelerator.device_index(0):
            pass


def test_dlpack_shares_memory_in_both_directions() -> None:
    theirs = torch.arange(6.0).reshape(2, 3).t()
    ours = mt.from_dlpack(theirs)
    ours[0, 1] = 9
    assert ours.tolist() == theirs.tolist()
    assert ours.stride() == theirs.stride()
    again = mt.utils.dlpack.from_dlpack(torch.utils.dlpack.to_dlpack(theirs))
    del theirs
    again.mul_(2)
    assert ours.tolist() == again.tolist() == [[0, 18], [2, 8], [4, 10]]
    capsule = mt.to_dlpack(ours)
    back = torch.from_dlpack(capsule)
    back += 1
    assert ours.tolist() == back.tolist()
    with pytest.raises((RuntimeError, ValueError)):
        torch.from_dlpack(capsule)


def test_dlpack_of_edge_shapes() -> None:
    for make in (lambda t: t.ones(0, 3), lambda t: t.tensor(2.5), lambda t: t.arange(3), lambda t: t.ones(2, dtype=t.complex64)):
        assert mt.from_dlpack(make(torch)).tolist() == mt.from_dlpack(mt.to_dlpack(make(mt))).tolist() == make(torch).tolist()
