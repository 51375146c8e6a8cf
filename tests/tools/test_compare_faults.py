"""Thirty faults planted in one line of a program: the comparison names the call and the line; without a fault it is silent."""

from __future__ import annotations

from pathlib import Path

import pytest
from fault_program import FAULTS, record, source_of

import mindtorch.torch as mt
import torch
from mindtorch.tools.compare.comparison import Comparison, Options, compare

QUIET = Options(with_tables=False)


@pytest.fixture(scope="module")
def reference(tmp_path_factory) -> Path:
    """PyTorch's run of the unbroken program."""
    folder = tmp_path_factory.mktemp("reference")
    record(torch, source_of(None), str(folder / "program.py"), str(folder / "dump"))
    return folder / "dump"


def named(result: Comparison, api: str, line: str) -> bool:
    """Whether the first divergence is at one of the calls, on one of the lines."""
    d = result.first
    if d is None:
        return False
    text = " ".join(d.call).replace("truediv", "div")
    return any(a in text for a in api.split("|")) and any(part in t for part in line.split("|") for t in d.lines)


def test_without_a_fault_nothing_is_reported(reference, tmp_path):
    record(mt, source_of(None), str(tmp_path / "program.py"), str(tmp_path / "dump"))
    result = compare(str(reference), str(tmp_path / "dump"), QUIET)
    assert result.ok, result.summary()
    assert not result.unmatched
    assert len(result.steps) == 2


@pytest.mark.parametrize("name", list(FAULTS))
def test_fault_is_named(name, reference, tmp_path):
    fault = FAULTS[name]
    steps = 2 if fault.api == "SGD.step" else 1
    record(mt, source_of(fault), str(tmp_path / "program.py"), str(tmp_path / "dump"), steps)
    result = compare(str(reference), str(tmp_path / "dump"), QUIET)
    assert not result.ok
    assert named(result, fault.api, fault.line), result.summary()


def test_there_are_thirty_faults():
    assert len(FAULTS) >= 30
