"""Does the engine's user see where a roll-out stands that failed on its first node, and is it left at that?"""

from __future__ import annotations

from typing import Any

import pytest

from tests.provider.conftest import Project, node

pytestmark = pytest.mark.engine

FAILS = "n1/settings"


def three(swappiness: int) -> dict[str, Any]:
    return {name: node(name, swappiness=swappiness) for name in ("n1", "n2", "n3")}


def values(project: Project) -> list[str]:
    return [one["state"]["settings"]["sysctl"]["vm.swappiness"] for _, one in sorted(project.real().items())]


@pytest.fixture
def halted(project: Project) -> Project:
    """Three nodes, and a value that failed on the first of them."""
    project.give(three(1))
    project.up()
    machines = project.real()
    machines["n1"]["fail"] = {FAILS: "the driver hung"}
    project.tamper(machines)
    project.give(three(20))
    text = project.up(ok=False)
    assert "the roll-out of vm.swappiness = 20 halted on n1, run" in text and "(the driver hung)" in text
    assert "untouched: n2, n3" in text and "swarm up --retry" in text
    assert values(project) == ["1", "1", "1"]
    return project


def mend(project: Project) -> None:
    machines = project.real()
    machines["n1"]["fail"] = {}
    project.tamper(machines)


def test_a_value_that_failed_is_not_tried_again_unawares(halted: Project) -> None:
    mend(halted)
    shown = halted.pulumi("preview")
    assert "halted on n1" in shown and "untouched: n2, n3" in shown
    assert not {name for name in halted.changes() if name.startswith("Node")}, "rows show what would be done"
    again = halted.up(ok=False)
    assert "halted on n1" in again and values(halted) == ["1", "1", "1"]
    halted.up(env={"SWARM_RETRY": "1"})
    assert values(halted) == ["20", "20", "20"]
    halted.pulumi("preview", "--expect-no-changes")


def test_another_value_goes_its_own_way(halted: Project) -> None:
    mend(halted)
    halted.give(three(30))
    halted.up()
    assert values(halted) == ["30", "30", "30"]


def test_a_node_that_fell_dark_over_it_holds_up_the_others(halted: Project) -> None:
    machines = halted.real()
    machines["n1"] |= {"rollout_failures": {}, "fail": {}, "dies": FAILS}
    halted.tamper(machines)
    halted.up(ok=False, env={"SWARM_RETRY": "1"})
    assert values(halted) == ["1", "1", "1"]
    assert "halted on n1" in halted.up(ok=False), "which its own ledger cannot tell"
    machines = halted.real()
    machines["n1"] |= {"error": "", "dies": ""}
    halted.tamper(machines)
    assert "halted on n1" in halted.up(ok=False) and values(halted) == ["1", "1", "1"]
