"""Does each row of the table say what it should? Its values once more, by hand: the solver and the limits share the table."""

from __future__ import annotations

from typing import Any

import pytest

from swarm_iac.model.hardware import Hardware
from swarm_iac.model.placement import Allocation
from swarm_iac.model.resource import LIMITED, RESOURCES, Resource
from swarm_iac.model.stack import Ceiling, LimitException
from swarm_iac.model.workload import Each, Network, Workload

ROWS = {row.name: row for row in RESOURCES}
#: A replica with something of everything, what it holds, and its machine. No two figures are the same by chance.
WISH = {
    "user": "ada",
    "each": {
        "gpus": "3 x H100", "vcpus": 7, "pinned": True, "memory": "11 GB", "scratch": "13 GB", "cache": "17 GB",
        "licences": 31,
    },
    "network": {"egress": "19 Mbit/s", "ingress": "23 Mbit/s", "between": "29 Mbit/s"},
}  # fmt: skip
HELD = {
    "name": "w-0", "workload": "w", "index": 0, "node": "n", "gpus": (1, 2), "cpus": (4, 5, 6, 8, 9), "vcpus": 6, "memory": "10 GB",
    "storage": "29 GB", "egress": "47 Mbit/s", "ingress": "51 Mbit/s", "licences": 30,
}  # fmt: skip
SHAPE = {"gpus": "8 x H100", "vcpus": 31, "memory": "37 GB", "nvme": "41 GB", "nic": "43 Mbit/s"}
M, G = 10**6, 10**9

#: For each row: what is asked for, held, and there; how that reads; where it is asked for and limited; what lowers it.
CASES: dict[str, dict[str, Any]] = {
    "gpus": {
        "demand": 3, "held": 2, "has": 8, "hardware": "gpus", "reads": "3 GPUs", "path": "each.gpus", "limit": "gpus",
        "edit": ("each.gpus", "1 x H100"), "column": "GPUs", "step": 1, "ended": 0,
        "rules": ("gpus_fit_node", "", ""),
    },
    "vcpus": {
        "demand": 7000, "held": 6000, "has": 31_000, "hardware": "vcpus", "reads": "7 vCPUs", "path": "each.vcpus",
        "limit": "vcpus", "edit": ("each.vcpus", "0.001"), "column": "CPUs", "step": 1000, "ended": 0,
        "rules": ("vcpus_fit_node", "vcpus_fit_node", ""),
    },
    "cores": {
        "demand": 7, "held": 5, "has": 31, "hardware": "vcpus", "reads": "7 pinned cores", "path": "each.vcpus",
        "limit": None, "edit": ("each.pinned", False), "column": "pinned cores", "step": 1, "ended": 0,
        "rules": ("cores_fit_node", "", ""),
    },
    "memory": {
        "demand": 11 * G, "held": 10 * G, "has": 37 * G, "hardware": "memory", "reads": "11 GB of memory",
        "path": "each.memory", "limit": "memory", "edit": ("each.memory", "1 B"), "column": "memory", "step": G, "ended": 0,
        "rules": ("memory_fits_node", "memory_fits_node", ""),
    },
    "storage": {
        "demand": 30 * G, "held": 29 * G, "has": 41 * G, "hardware": "nvme", "reads": "30 GB of storage",
        "path": "each.scratch", "limit": "storage", "edit": ("each.scratch", "0 B"), "column": "storage", "step": G,
        "ended": 29 * G, "rules": ("storage_fits_node", "storage_fits_node", ""),
    },
    "egress": {
        "demand": 48 * M, "held": 47 * M, "has": 43 * M, "hardware": "nic", "reads": "48 Mbit/s of bandwidth out",
        "path": "network.egress", "limit": "bandwidth", "edit": ("network.egress", "0 bit/s"), "column": "out", "step": M,
        "ended": 0, "rules": ("egress_fits_nic", "nic_carries_node", "egress_fits_uplink"),
    },
    "ingress": {
        "demand": 52 * M, "held": 51 * M, "has": 43 * M, "hardware": "nic", "reads": "52 Mbit/s of bandwidth in",
        "path": "network.ingress", "limit": "bandwidth", "edit": ("network.ingress", "0 bit/s"), "column": "in", "step": M,
        "ended": 0, "rules": ("ingress_fits_nic", "nic_carries_node", "ingress_fits_uplink"),
    },
    "licences": {
        "demand": 31, "held": 30, "has": None, "hardware": None, "reads": "31 licences", "path": "each.licences",
        "limit": "licences", "edit": ("each.licences", 1), "column": "licences", "step": 1, "ended": 0, "rules": ("", "", ""),
    },
}  # fmt: skip

#: What bounds a process or a device on its node, and is not counted.
NOT_COUNTED = {"each.pinned", "each.tasks", "each.io", "each.gpu_power", "each.gpu_clock", "each.cache", "network.between"}
#: What a machine is, and not how much it has.
NO_AMOUNTS = {"numa", "interface", "disk"}


def test_every_row_has_a_case_and_every_size_a_row() -> None:
    assert list(CASES) == list(ROWS)
    asked = {f"each.{key}" for key in Each.model_fields} | {f"network.{key}" for key in Network.model_fields}
    assert {row.key for row in RESOURCES} == asked - NOT_COUNTED
    assert {row.capacity.key for row in RESOURCES if row.capacity} == set(Hardware.model_fields) - NO_AMOUNTS
    assert set(LIMITED) == set(Ceiling.model_fields) == {case["limit"] for case in CASES.values()} - {None}
    assert set(LimitException.model_fields) == {*LIMITED, "user", "until", "why"}


def facts(row: Resource) -> dict[str, Any]:
    """What a case says, as the row has it."""
    wish, one, shape = Workload.model_validate(WISH), Allocation.model_validate(HELD), Hardware.model_validate(SHAPE)
    there = row.capacity
    return {
        "demand": row.demand(wish),
        "held": row.held(one),
        "has": there and there.of(shape),
        "hardware": there and there.key,
        "reads": row.amount(row.demand(wish)),
        "path": row.path(wish),
        "limit": row.limit and row.limit.key,
        "edit": row.edit(wish, 1),
        "column": row.title,
        "step": row.step(row.demand(wish)),
        "ended": row.held(one.given_back()),
        "rules": (there.rule if there else "", there.judged if there else "", row.uplink.rule if row.uplink else ""),
    }


@pytest.mark.parametrize("name", CASES)
def test_a_row_says_what_its_case_does(name: str) -> None:
    assert facts(ROWS[name]) == CASES[name]


@pytest.mark.parametrize("name", CASES)
def test_a_lowered_wish_asks_for_no_more_of_it_and_no_more_of_anything(name: str) -> None:
    wish, row = Workload.model_validate(WISH), ROWS[name]
    for amount in (0, 1, row.demand(wish) - 1):
        less = row.lowered(wish, amount)
        assert row.demand(less) <= amount or name == "cores", "fewer cores are fewer vCPUs"
        assert all(each.demand(less) <= each.demand(wish) for each in RESOURCES)
    assert row.demand(row.lowered(wish, 0)) == 0


def test_where_a_wish_is_written_in_another_way_its_path_and_edit_follow() -> None:
    other = {"gpus": {"count": 2, "memory": "80 GB"}, "cache": "5 GB"}
    wish = Workload.model_validate({"user": "ada", "each": other, "network": {"between": "2 Gbit/s"}})
    for name, path, edit in (
        ("gpus", "each.gpus", ("each.gpus.count", 1)),
        ("storage", "each.cache", ("each.cache", "1 B")),
        ("egress", "network.between", ("network.between", "1 bit/s")),
        ("ingress", "network.between", ("network.between", "1 bit/s")),
    ):
        assert (ROWS[name].path(wish), ROWS[name].edit(wish, 1)) == (path, edit)
    assert ROWS["gpus"].edit(Workload.model_validate({"user": "ada", "each": {"gpus": 2}}), 1) == ("each.gpus", 1)
    part = Workload.model_validate({"user": "ada", "each": {"gpus": {"count": 1, "share": 300}}})
    taken = ROWS["gpus"].taken
    assert taken and (taken(part), taken(wish), ROWS["gpus"].demand(part)) == (0, 2, 1)


def test_figures_read_as_people_say_them() -> None:
    assert [ROWS["gpus"].amount(n) for n in (0, 1, 2)] == ["0 GPUs", "1 GPU", "2 GPUs"]
    assert [ROWS["vcpus"].amount(n) for n in (500, 1000, 1500)] == ["0.5 vCPUs", "1 vCPU", "1.5 vCPUs"]
    assert ROWS["cores"].amount(1) == "1 pinned core" and ROWS["memory"].amount(1) == "1 B of memory"
    assert (ROWS["gpus"].written(2), ROWS["vcpus"].written(2000), ROWS["memory"].written(G)) == (2, "2", "1 GB")
    assert [ROWS["vcpus"].step(n) for n in (999, 1000)] == [50, 1000]
    assert [ROWS["memory"].step(n) for n in (4 * G - 1, 4 * G)] == [M, G]
