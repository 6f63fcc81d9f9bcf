"""Is a ceiling left out just where nothing could reach it?"""

from __future__ import annotations

from typing import Any

import pytest

from swarm_iac.limits import judge
from swarm_iac.model.placement import Placement
from swarm_iac.solver import solve
from swarm_iac.solver.snapshot.binding_limits import without_slack
from swarm_iac.solver.snapshot.from_stack import snapshot_of
from swarm_iac.solver.snapshot.layout import COUNTED
from swarm_iac.solver.snapshot.snapshot import ENDLESS
from tests.solver.fleets import stack_of

GPUS = [row.name for row in COUNTED].index("gpus")


@pytest.mark.parametrize(("limit", "binds"), [(7, True), (8, False), (9, False)])
def test_a_users_limit_binds_only_below_all_that_the_user_wants(limit: int, binds: bool) -> None:
    works = {"a": {"replicas": 3, "each": {"gpus": 2}}, "b": {"gang": 2, "each": {"gpus": 1}}}
    stack = stack_of({"n": {"hardware": "h100"}}, works, limits={"user": {"gpus": limit}})
    snapshot = without_slack(snapshot_of(stack, Placement()))
    assert {scope: limits[GPUS] < ENDLESS for scope, limits in snapshot.scopes.items()} == {
        "user ada": binds,
        "the cluster": False,
    }


@pytest.mark.parametrize(("uplink", "binds"), [("3 Gbit/s", True), ("4 Gbit/s", False)])
def test_an_uplink_binds_only_below_what_the_racks_nodes_could_send(uplink: str, binds: bool) -> None:
    """Two of the three replicas fit there, by memory; each sends 2 Gbit/s."""
    nodes: dict[str, dict[str, Any]] = {"n": {"hardware": "own", "rack": "r"}, "other": {"hardware": "own"}}
    works = {"a": {"replicas": 3, "each": {"memory": "5 GB", "vcpus": 1}, "network": {"egress": "2 Gbit/s"}}}
    hardware = {"own": {"vcpus": 8, "memory": "10 GB", "nic": "100 Gbit/s"}}
    stack = stack_of(nodes, works, hardware=hardware, racks={"r": {"uplink": uplink}})
    snapshot = without_slack(snapshot_of(stack, Placement()))
    assert (snapshot.racks["r"][0] < ENDLESS) == binds
    assert snapshot.racks["r"][1] == ENDLESS


@pytest.mark.parametrize(("budget", "placed"), [("900 W", 0), ("1700 W", 1), ("1800 W", 2)])
def test_a_racks_power_binds_where_the_node_that_draws_most_comes_last(budget: str, placed: int) -> None:
    """The four GPUs of `a` are capped, and their budget is gone at once; a replica adds 688 W there, and 750 W on `b`."""
    tuning = {"capped": {"gpu_power": "62 W"}}
    nodes: dict[str, dict[str, Any]] = {
        "a": {"hardware": "own", "rack": "r", "tuning": "capped", "labels": {"on": "a"}},
        "b": {"hardware": "own", "rack": "r"},
    }
    works = {
        "first": {"priority": "high", "gang": 4, "each": {"gpus": 1}, "place": {"select": {"on": "a"}}},
        "w": {"replicas": 2, "each": {"gpus": 1, "gpu_power": "750 W"}},
    }
    hardware = {"own": {"gpus": "4 x L40S", "vcpus": 8, "memory": "64 GB"}}
    stack = stack_of(nodes, works, hardware=hardware, racks={"r": {"power": budget}}, tuning=tuning)
    found = solve(stack).placement
    assert judge(stack, found) == ()
    assert len([one for one in found.allocations if one.workload == "w"]) == placed
