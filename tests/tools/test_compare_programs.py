"""Whole programs, unchanged, under both frameworks: without a fault the comparison reports nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from mindtorch.tools.verify import Plan, verify

PROGRAMS = Path(__file__).parents[1] / "programs"
NAMES = sorted(p.stem for p in PROGRAMS.glob("*.py") if p.stem not in ("test_programs", "text"))


@pytest.mark.parametrize("name", NAMES)
def test_program_without_a_fault_is_not_reported(name, tmp_path):
    plan = Plan(str(PROGRAMS / f"{name}.py"), [], str(tmp_path), steps=2, dump_type="statistics")
    result = verify(plan)
    assert result.ok, result.summary()
    assert not result.unmatched
    assert len(result.steps) >= 2
    assert sum(len(s.rows.calls) for s in result.steps) > 20
