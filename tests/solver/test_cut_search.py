"""What would stop is searched for longer than anything else."""

from __future__ import annotations

from pathlib import Path

import pytest

from swarm_iac.solver import solve
from swarm_iac.solver.decide import small
from tests.benchmarks.fleets.case import Case

#: Edit 5 of the drawn fleet 515025, of 35 machines.
CASE = Case.model_validate_json(Path(__file__).with_name("cut_search.json").read_text())


def stopped() -> int:
    names = {one.name for one in solve(CASE.stack, CASE.last, today=CASE.today, reasons=False).placement.allocations}
    return sum(one.name not in names for one in CASE.last.allocations if one.workload in CASE.stack.workloads)


def test_what_would_stop_is_searched_for_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    found = stopped()
    monkeypatch.setattr(small, "STOPPING", 0.0)
    assert found <= 1 < stopped(), "without it another replica stops, which holds a GPU"
