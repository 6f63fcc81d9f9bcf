"""Does a workload that names several GPU models get any of them, wherever it is asked? And a node's site and rack, as labels?"""

from __future__ import annotations

import datetime

import pytest

from swarm_iac.limits import judge
from swarm_iac.model.edit import changed
from swarm_iac.plan.order.temporary_placement import may_be_placed
from swarm_iac.solver import solve, why
from swarm_iac.stackfile import loads

TODAY = datetime.date(2026, 6, 1)
STACK = """\
fleet: lab
teams: {t: {users: [ada]}}
hardware:
  a: {gpus: 2 x A100, vcpus: 64, memory: 1 TB}
  h: {gpus: 2 x H100, vcpus: 64, memory: 1 TB}
  l: {gpus: 8 x L4, vcpus: 64, memory: 1 TB}
nodes:
  a-1: {hardware: a, site: ams, ssh: "root@{name}"}
  h-1: {hardware: h, site: fra, ssh: "root@{name}"}
  l-1: {hardware: l, labels: {site: fra}, ssh: "root@{name}"}
workloads:
  w: {user: ada, replicas: 2, each: {gpus: 2 x A100|H100}}
"""


def test_any_of_the_models_will_do() -> None:
    stack = loads(STACK, "lab.yaml", today=TODAY).stack
    found = solve(stack, today=TODAY).placement
    assert {one.node for one in found.allocations} == {"a-1", "h-1"} and not judge(stack, found, TODAY)
    assert [may_be_placed(stack, "w", node) for node in ("a-1", "h-1", "l-1")] == [True, True, False]


def test_what_would_help_can_be_written_as_it_is_told() -> None:
    stack = loads(STACK.replace("2, each: {gpus: 2 x", "5, each: {gpus: 1 x"), "lab.yaml", today=TODAY).stack
    found = solve(stack, today=TODAY).placement
    edits = [edit for fix in why(stack, found, "w").fixes for edit in fix.edits]
    assert edits
    for edit in edits:
        assert changed(stack, edit) != stack


@pytest.mark.parametrize(("site", "nodes"), [("fra", {"h-1", "l-1"}), ("ams", {"a-1"})])
def test_a_site_is_a_label_wherever_it_is_asked(site: str, nodes: set[str]) -> None:
    request = f"w: {{user: ada, each: {{vcpus: 1}}, place: {{select: {{site: {site}}}}}"
    text = STACK.replace("w: {user: ada, replicas: 2, each: {gpus: 2 x A100|H100}", request)
    stack = loads(text, "lab.yaml", today=TODAY).stack
    found = solve(stack, today=TODAY).placement
    assert found.allocations[0].node in nodes and not judge(stack, found, TODAY)
    assert {node for node in stack.nodes if may_be_placed(stack, "w", node)} == nodes


PAGES = """\
fleet: lab
teams: {t: {users: [ada]}}
tuning: {dpdk: {hugepages: 400 GB}}
hardware: {h: {gpus: 2 x H100, vcpus: 64, memory: 800 GB, numa: 2}}
nodes: {n: {hardware: h, tuning: dpdk, ssh: "root@{name}"}}
workloads:
  w: {user: ada, replicas: 2, each: {gpus: 1, memory: 200 GB}, place: {numa: single}}
"""


def test_huge_pages_are_memory_that_no_workload_gets() -> None:
    stack = loads(PAGES, "lab.yaml", today=TODAY).stack
    full = solve(stack, today=TODAY).placement
    assert len(full.allocations) == 2 and not judge(stack, full, TODAY)
    stack = loads(PAGES.replace("400 GB", "401 GB"), "lab.yaml", today=TODAY).stack
    (gone,) = solve(stack, today=TODAY).placement.unplaced
    assert gone.missing == (0, 1) and gone.reasons[0].text.endswith("the largest has 199500 MB")
    assert {one.rule for one in judge(stack, full, TODAY)} >= {"memory_fits_node"}
