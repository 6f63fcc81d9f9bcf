"""What a search that was cut would stop is searched again before it is stopped."""

from __future__ import annotations

from pathlib import Path

import pytest

from swarm_iac.solver import solve
from swarm_iac.solver.decide import small
from tests.benchmarks.fleets.case import Case

#: Edit 3 of the drawn fleet 401068, of 49 machines.
CASE = Case.model_validate_json(Path(__file__).with_name("cut_search.json").read_text())


def stopped() -> int:
    names = {one.name for one in solve(CASE.stack, CASE.last, today=CASE.today, reasons=False).placement.allocations}
    return sum(one.name not in names for one in CASE.last.allocations if one.workload in CASE.stack.workloads)


def test_what_a_search_that_was_cut_would_stop_is_searched_again(monkeypatch: pytest.MonkeyPatch) -> None:
    found = stopped()
    monkeypatch.setattr(small, "STOPPING", 0.0)
    assert found <= 1 < stopped(), "without the second search nine replicas with 33 GPUs stop"
