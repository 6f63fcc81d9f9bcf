"""Does the engine's user change one node and nothing else, and does the rest stay in the state as it is?"""

from __future__ import annotations

import pytest

from tests.provider.conftest import Project, allocation, node

pytestmark = pytest.mark.engine


def test_a_part_changes_and_the_rest_is_named_and_left(standing: Project) -> None:
    before = standing.real()
    standing.give(
        {
            "n1": node("n1", swappiness=5, train_0=allocation([0, 1])),
            "n2": node("n2", swappiness=5, other_0=allocation([1])),
        }
    )
    assert standing.changes(SWARM_ONLY="n1").keys() == {"Node n1"}
    text = standing.up(env={"SWARM_ONLY": "n1"})
    assert "--only n1:" in text and "left for later, on n2" in text
    after = standing.real()
    assert after["n1"]["state"]["settings"]["sysctl"] == {"vm.swappiness": "5"}
    assert after["n2"] == before["n2"]
    assert standing.changes().keys() == {"Node n2", "Allocation serve-0", "Allocation other-0"}
    standing.up(env={"SWARM_ALLOW_STOP": "1"})
    standing.pulumi("preview", "--expect-no-changes")


def test_a_node_that_is_new_can_be_the_part(standing: Project) -> None:
    before = standing.real()
    standing.give({"n1": node("n1", swappiness=7), "n2": node("n2", serve_0=allocation([0])), "n3": node("n3")})
    assert "left for later, on n1" in standing.up(env={"SWARM_ONLY": "n3"})
    after = standing.real()
    assert after["n3"]["ledger"] and (after["n1"], after["n2"]) == (before["n1"], before["n2"])


def test_destroy_is_never_in_part(standing: Project) -> None:
    standing.pulumi("destroy", "--yes", "--skip-preview", env={"SWARM_ONLY": "n1"})
    assert standing.real() == {"n1": {}, "n2": {}}


def test_a_name_that_is_no_part_is_refused(standing: Project) -> None:
    before = standing.real()
    standing.give({"n1": node("n1", swappiness=7), "n2": node("n2", serve_0=allocation([0]))})
    assert "--only n9: no node and no team of that name" in standing.up(ok=False, env={"SWARM_ONLY": "n9"})
    assert standing.real() == before
