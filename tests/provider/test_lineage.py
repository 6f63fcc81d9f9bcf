"""Who may touch a machine? A foreign clone never, a repository that lost its state only when a person says so."""

from __future__ import annotations

import shutil

import pytest

from tests.provider.conftest import Project, allocation, two_nodes

pytestmark = pytest.mark.engine


def forget(project: Project) -> None:
    """The state is gone, as in a second clone with a state of its own."""
    shutil.rmtree(project.folder / ".state")
    (project.folder / ".state").mkdir()
    project.pulumi("stack", "init")


def test_a_second_clone_changes_nothing_and_is_told_whose_it_is(standing: Project) -> None:
    lineage = standing.real()["n1"]["ledger"]["lineage"]
    forget(standing)
    standing.give(two_nodes(train_0=allocation([0, 1, 2])))
    before = standing.real()
    text = standing.up(ok=False)
    assert lineage in text
    assert standing.real() == before


def test_a_second_clone_that_wants_what_is_there_is_refused_as_well(standing: Project) -> None:
    before = standing.real()
    lineage = before["n1"]["ledger"]["lineage"]
    forget(standing)
    assert f"n1, n2: belongs to fleet lab (lineage {lineage})" in standing.up(ok=False)
    assert standing.real() == before
    assert "Fleet lab" not in standing.state()


def test_a_lost_state_is_rebuilt_from_the_ledgers_without_touching_a_machine(standing: Project) -> None:
    before = standing.real()
    forget(standing)
    standing.up(env={"SWARM_ADOPT": before["n1"]["ledger"]["lineage"]})
    assert standing.real() == before, "nothing was done, not even a serial was written"
    assert {"Node n1", "Node n2", "Allocation train-0", "Allocation serve-0"} <= standing.state().keys()
    standing.pulumi("preview", "--expect-no-changes")
    standing.give(two_nodes(train_0=allocation([0, 1, 2])))
    standing.up()
    assert standing.real()["n1"]["state"]["allocations"]["train-0"]["gpus"] == [0, 1, 2]
    assert standing.real()["n1"]["ledger"]["serial"] > before["n1"]["ledger"]["serial"]
