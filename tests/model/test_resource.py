"""Does each row of the table say what it should? Its values once more, by hand: the solver and the limits share the table."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest

from swarm_iac.model.base import Value, value_at, with_values
from swarm_iac.model.device import gpu
from swarm_iac.model.hardware import Gpus, Hardware
from swarm_iac.model.placement import Allocation
from swarm_iac.model.resources.row import Capacity, Enforced, LimitKey, Resource, Uplink
from swarm_iac.model.resources.table import ENFORCED, LIMITED, RESOURCES
from swarm_iac.model.stack import LimitException, NodeCeiling
from swarm_iac.model.state import AllocationState, Declared, Facts, NodeState
from swarm_iac.model.step import Verb
from swarm_iac.model.workload import DiskIo, Each, Network, Workload
from swarm_iac.plan import rows
from swarm_iac.plan.state import format
from swarm_iac.units import GpuCount, Seconds

ROWS = {row.name: row for row in RESOURCES}
#: A replica with something of everything, what it holds, and its machine. No two figures are the same by chance.
WISH = {
    "user": "ada",
    "each": {
        "gpus": "3 x H100", "vcpus": "7..9", "pinned": True, "memory": "11..15 GB", "scratch": "13 GB", "cache": "17 GB",
        "licences": 31, "io": {"read": "111..133 MB/s", "write": "113..137 MB/s", "iops": "1117..1139"},
        "hugepages": "1153 MB", "hugepages_1g": "3 GB",
    },
    "network": {"egress": "19..61 Mbit/s", "ingress": "23..67 Mbit/s", "between": "29..31 Mbit/s"},
}  # fmt: skip
HELD = {
    "name": "w-0", "workload": "w", "index": 0, "node": "n", "gpus": (1, 2, "3:0.25"), "cpus": (4, 5, 6, 8, 9), "vcpus": 6, "memory": "10 GB",
    "storage": "29 GB", "egress": "47 Mbit/s", "ingress": "51 Mbit/s", "licences": 30,
    "io_read": "110 MB/s", "io_write": "112 MB/s", "iops": 1116, "hugepages": "1151 MB", "hugepages_1g": "2 GiB",
}  # fmt: skip
SHAPE = {
    "gpus": "8 x H100", "vcpus": 31, "memory": "37 GB", "nvme": "41 GB", "nic": "43 Mbit/s",
    "disk_read": "139 MB/s", "disk_write": "149 MB/s", "disk_iops": 1151, "hugepages": "1163 MB", "hugepages_1g": "5 GB",
}  # fmt: skip
#: What a node enforces before and after, and nothing but a value beside another. No two figures are the same by chance.
STATE, LESS, UNSET = (
    {"workload": "w", "unit": {"user": "ada"}, **held}
    for held in (
        {"slice": {"memory_max": 53, "memory_high": 43, "memory_low": 33, "memory_most": 179, "hugetlb_2m": 151, "hugetlb_1g": 163}, "scratch": {"quota": 37, "owner": "ada"},
         "cache": {"quota": 59, "owner": "ada"},
         "bandwidth": {"out_bps": 67, "out_ceil_bps": 79, "in_bps": 73, "in_ceil_bps": 81}},
        {"slice": {"memory_max": 47, "memory_high": 41, "memory_low": 29, "memory_most": 181, "hugetlb_2m": 149, "hugetlb_1g": 157}, "scratch": {"quota": 31, "owner": "ada"},
         "bandwidth": {"out_bps": 61, "out_ceil_bps": 83, "in_bps": 71, "in_ceil_bps": 89}},
        {"slice": {"memory_high": 41}},
    )
)  # fmt: skip
FACTS, DECLARED = Facts(memory=113, disks={"a": 103, "b": 107}), Declared(memory=101, hugepages=167, hugepages_1g=173)
BEFORE, AFTER = NodeState(disk="b", interface_bps=97), NodeState(disk="a", interface_bps=109)
M, G = 10**6, 10**9

#: For each row: what is asked for, held, and there; how that reads; where it is asked for and limited; what lowers it.
CASES: dict[str, dict[str, Any]] = {
    "gpus": {
        "name": "gpus", "key": "each.gpus", "path": "each.gpus", "reads": "3 GPUs", "column": "GPUs",
        "demand": 3000, "held": 2250, "less": (1, 0), "edit": ("each.gpus", "0.001 x H100"), "step": 1000,
        "hardware": "gpus", "has": 8000, "taken": 0, "rules": ("gpus_fit_node", "", ""), "verb": "",
        "limit": "gpus", "limited": "3 GPUs: GPUs; a part of one counts as much as it is.",
        "files": False, "zero": "", "pieces": "gpus", "part_of": "", "ceiling": None,
        "enforced": {
            "at": {"gpus": "gpus"}, "step": "slice", "noun": "GPUs", "has": None, "held": None, "rounded": (5007, None),
            "lesser": None, "unset": None, "needs": "", "live": False, "in_line": True,
        },
    },
    "vcpus": {
        "name": "vcpus", "key": "each.vcpus", "path": "each.vcpus", "reads": "7 vCPUs", "column": "CPUs",
        "demand": 7000, "held": 6000, "less": (1, 0), "edit": ("each.vcpus", "0.001..9"), "step": 1000,
        "hardware": "vcpus", "has": 31_000, "taken": None, "rules": ("vcpus_fit_node", "vcpus_fit_node", ""), "verb": "",
        "limit": "vcpus", "limited": "7 vCPUs: vCPUs.",
        "files": False, "zero": "lock and JSON", "pieces": "", "part_of": "", "ceiling": (9000, "6..9"),
        "enforced": None,
    },
    "cores": {
        "name": "cores", "key": "each.vcpus", "path": "each.vcpus", "reads": "7 pinned cores", "column": "pinned cores",
        "demand": 7, "held": 5, "less": (7, 0), "edit": ("each.pinned", False), "step": 1,
        "hardware": "vcpus", "has": 31, "taken": None, "rules": ("cores_fit_node", "", ""), "verb": "",
        "limit": None, "limited": "",
        "files": False, "zero": "", "pieces": "cpus", "part_of": "vcpus", "ceiling": None,
        "enforced": {
            "at": {"slice.cpus": "cpus"}, "step": "slice", "noun": "cores", "has": None, "held": None, "rounded": (5007, None),
            "lesser": None, "unset": None, "needs": "", "live": True, "in_line": True,
        },
    },
    "memory": {
        "name": "memory", "key": "each.memory", "path": "each.memory", "reads": "11 GB of memory", "column": "memory",
        "demand": 11 * G, "held": 10 * G, "less": (1, 0), "edit": ("each.memory", "1 B..15 GB"), "step": G,
        "hardware": "memory", "has": 37 * G, "taken": None, "rules": ("memory_fits_node", "memory_fits_node", ""), "verb": "",
        "limit": "memory", "limited": "11 GB of memory: RAM.",
        "files": False, "zero": "lock and JSON", "pieces": "", "part_of": "", "ceiling": (15 * G, "10..15 GB"),
        "enforced": {
            "at": {"slice.memory_max": "memoryMax"}, "step": "slice", "noun": "memory", "has": 101, "held": 53, "rounded": (4096, 0),
            "lesser": {"slice.memory_max": 47, "slice.memory_high": 41, "slice.memory_low": 29, "slice.memory_most": 179},
            "unset": {"slice.memory_max": 53, "slice.memory_high": 41, "slice.memory_low": 33, "slice.memory_most": 179},
            "needs": "", "live": True, "in_line": True,
        },
    },
    "storage": {
        "name": "storage", "key": "each.scratch", "path": "each.scratch", "reads": "30 GB of storage", "column": "storage",
        "demand": 30 * G, "held": 29 * G, "less": (1, 0), "edit": ("each.scratch", "0 B"), "step": G,
        "hardware": "nvme", "has": 41 * G, "taken": None, "rules": ("storage_fits_node", "storage_fits_node", ""), "verb": "",
        "limit": "storage", "limited": "30 GB of storage: Scratch and cache directories on local disks.",
        "files": True, "zero": "JSON", "pieces": "", "part_of": "", "ceiling": None,
        "enforced": {
            "at": {"scratch.quota": "scratch", "cache.quota": "cache"}, "step": "directories", "noun": "disk", "has": 103, "held": 96,
            "rounded": (4096, None), "lesser": {"scratch": 31, "cache": None}, "unset": {"scratch": None, "cache": None},
            "needs": "disk", "live": True, "in_line": True,
        },
    },
    "egress": {
        "name": "egress", "key": "network.egress", "path": "network.egress", "reads": "48 Mbit/s of bandwidth out", "column": "out",
        "demand": 48 * M, "held": 47 * M, "less": (1, 0), "edit": ("network.egress", "0 bit/s"), "step": M,
        "hardware": "nic", "has": 43 * M, "taken": None, "rules": ("egress_fits_nic", "nic_carries_node", "egress_fits_uplink"), "verb": "leave",
        "limit": "bandwidth", "limited": "48 Mbit/s of bandwidth: Network bandwidth, the larger of in and out.",
        "files": False, "zero": "JSON", "pieces": "", "part_of": "", "ceiling": (92 * M, "47..92 Mbit/s"),
        "enforced": {
            "at": {"bandwidth.out_bps": "bandwidthOut"}, "step": "traffic", "noun": "bandwidth", "has": 109, "held": 67, "rounded": (5000, None),
            "lesser": {"bandwidth.out_bps": 61, "bandwidth.out_ceil_bps": 83},
            "unset": {"bandwidth.out_bps": None, "bandwidth.out_ceil_bps": None}, "needs": "interface", "live": True, "in_line": True,
        },
    },
    "ingress": {
        "name": "ingress", "key": "network.ingress", "path": "network.ingress", "reads": "52 Mbit/s of bandwidth in", "column": "in",
        "demand": 52 * M, "held": 51 * M, "less": (1, 0), "edit": ("network.ingress", "0 bit/s"), "step": M,
        "hardware": "nic", "has": 43 * M, "taken": None, "rules": ("ingress_fits_nic", "nic_carries_node", "ingress_fits_uplink"), "verb": "enter",
        "limit": "bandwidth", "limited": "52 Mbit/s of bandwidth: Network bandwidth, the larger of in and out.",
        "files": False, "zero": "JSON", "pieces": "", "part_of": "", "ceiling": (98 * M, "51..98 Mbit/s"),
        "enforced": {
            "at": {"bandwidth.in_bps": "bandwidthIn"}, "step": "traffic", "noun": "bandwidth", "has": 109, "held": 73, "rounded": (5000, None),
            "lesser": {"bandwidth.in_bps": 71, "bandwidth.in_ceil_bps": 89},
            "unset": {"bandwidth.in_bps": None, "bandwidth.in_ceil_bps": None}, "needs": "interface", "live": True, "in_line": False,
        },
    },
    "licences": {
        "name": "licences", "key": "each.licences", "path": "each.licences", "reads": "31 licences", "column": "licences",
        "demand": 31, "held": 30, "less": (1, 0), "edit": ("each.licences", 1), "step": 1,
        "hardware": None, "has": None, "taken": None, "rules": ("", "", ""), "verb": "",
        "limit": "licences", "limited": "31 licences: Licences held at once; no machine has any.",
        "files": False, "zero": "", "pieces": "", "part_of": "", "ceiling": None,
        "enforced": None,
    },
    "replicas": {
        "name": "replicas", "key": "replicas", "path": "replicas", "reads": "1 replica", "column": "replicas",
        "demand": 1, "held": 1, "less": (1, 1), "edit": ("replicas", 1), "step": 1,
        "hardware": None, "has": None, "taken": None, "rules": ("", "", ""), "verb": "",
        "limit": "replicas", "limited": "1 replica: Running replicas; what has finished does not count.",
        "files": False, "zero": "", "pieces": "", "part_of": "", "ceiling": None,
        "enforced": None,
    },
    "io_read": {
        "name": "io_read", "key": "each.io.read", "path": "each.io.read", "reads": "111 MB/s of disk reads", "column": "disk reads",
        "demand": 111 * M, "held": 110 * M, "less": (1, 0), "edit": ("each.io.read", "1 B/s..133 MB/s"), "step": M,
        "hardware": "disk_read", "has": 139 * M, "taken": None, "rules": ("reads_fit_disk", "reads_fit_disk", ""), "verb": "",
        "limit": "io", "limited": "111 MB/s of disk throughput: Throughput of disks, the larger of read and written.",
        "files": False, "zero": "", "pieces": "", "part_of": "", "ceiling": (133 * M, "110..133 MB/s"),
        "enforced": None,
    },
    "io_write": {
        "name": "io_write", "key": "each.io.write", "path": "each.io.write", "reads": "113 MB/s of disk writes", "column": "disk writes",
        "demand": 113 * M, "held": 112 * M, "less": (1, 0), "edit": ("each.io.write", "1 B/s..137 MB/s"), "step": M,
        "hardware": "disk_write", "has": 149 * M, "taken": None, "rules": ("writes_fit_disk", "writes_fit_disk", ""), "verb": "",
        "limit": "io", "limited": "113 MB/s of disk throughput: Throughput of disks, the larger of read and written.",
        "files": False, "zero": "", "pieces": "", "part_of": "", "ceiling": (137 * M, "112..137 MB/s"),
        "enforced": None,
    },
    "iops": {
        "name": "iops", "key": "each.io.iops", "path": "each.io.iops", "reads": "1117 IOPS", "column": "IOPS",
        "demand": 1117, "held": 1116, "less": (1, 0), "edit": ("each.io.iops", "1..1139"), "step": 1,
        "hardware": "disk_iops", "has": 1151, "taken": None, "rules": ("iops_fit_disk", "iops_fit_disk", ""), "verb": "",
        "limit": "iops", "limited": "1117 IOPS: Operations of disks per second, the larger of reads and writes.",
        "files": False, "zero": "", "pieces": "", "part_of": "", "ceiling": (1139, "1116..1139"),
        "enforced": None,
    },
    "hugepages": {
        "name": "hugepages", "key": "each.hugepages", "path": "each.hugepages", "reads": "1153 MB of huge pages of 2 MiB",
        "column": "huge pages of 2 MiB",
        "demand": 1153 * M, "held": 1151 * M, "less": (1, 0), "edit": ("each.hugepages", "1 B"), "step": M,
        "hardware": "hugepages", "has": 1163 * M, "taken": None, "rules": ("huge_pages_fit_node", "huge_pages_fit_node", ""), "verb": "",
        "limit": "hugepages", "limited": "1153 MB of huge pages: Memory in huge pages, of each size.",
        "files": False, "zero": "", "pieces": "", "part_of": "", "ceiling": None,
        "enforced": {
            "at": {"slice.hugetlb_2m": "hugepages"}, "step": "slice", "noun": "huge pages", "has": 167, "held": 151, "rounded": (0, 0),
            "lesser": {"slice.hugetlb_2m": 149}, "unset": {"slice.hugetlb_2m": 151}, "needs": "hugepages", "live": True, "in_line": True,
        },
    },
    "hugepages_1g": {
        "name": "hugepages_1g", "key": "each.hugepages_1g", "path": "each.hugepages_1g", "reads": "3 GiB of huge pages of 1 GiB",
        "column": "huge pages of 1 GiB",
        "demand": 3 * 2**30, "held": 2 * 2**30, "less": (0, 0), "edit": ("each.hugepages_1g", "0 B"), "step": 2**30,
        "hardware": "hugepages_1g", "has": 4 * 2**30, "taken": None, "rules": ("giant_pages_fit_node", "giant_pages_fit_node", ""), "verb": "",
        "limit": "hugepages", "limited": "3 GiB of huge pages: Memory in huge pages, of each size.",
        "files": False, "zero": "", "pieces": "", "part_of": "", "ceiling": None,
        "enforced": {
            "at": {"slice.hugetlb_1g": "hugepages1G"}, "step": "slice", "noun": "huge pages", "has": 173, "held": 163, "rounded": (0, 0),
            "lesser": {"slice.hugetlb_1g": 157}, "unset": {"slice.hugetlb_1g": 163}, "needs": "hugepages_1g", "live": True, "in_line": True,
        },
    },
}  # fmt: skip

#: What bounds a process or a device on its node, and is not counted.
NOT_COUNTED = {"each.pinned", "each.tasks", "each.io", "each.gpu_power", "each.gpu_clock", "each.cache", "network.between"}
#: What a machine is, and not how much it has.
NO_AMOUNTS = {"power", "mig", "numa", "links", "interface", "disk"}


def test_every_row_has_a_case_and_every_size_a_row() -> None:
    assert list(CASES) == list(ROWS)
    sections: dict[str, type[Value]] = {"each": Each, "each.io": DiskIo, "network": Network}
    asked = {f"{section}.{key}" for section, part in sections.items() for key in part.model_fields}
    assert {row.key for row in RESOURCES if not row.itself} == asked - NOT_COUNTED
    assert {row.capacity.key for row in RESOURCES if row.capacity} == set(Hardware.model_fields) - NO_AMOUNTS
    assert set(LIMITED) == set(NodeCeiling.model_fields) == {case["limit"] for case in CASES.values()} - {None}
    assert set(LimitException.model_fields) == {*LIMITED, "gpus_by_model", "user", "team", "until", "reason"}


def facts(row: Resource) -> dict[str, Any]:
    """What a case says, as the row has it."""
    request, one, shape = Workload.model_validate(WISH), Allocation.model_validate(HELD), Hardware.model_validate(SHAPE)
    there = row.capacity
    return {
        "demand": row.demand(request),
        "held": row.held(one),
        "has": there and there.amount(shape),
        "hardware": there and there.key,
        "reads": row.amount(row.demand(request)),
        "path": row.path(request),
        "key": row.key,
        "name": row.name,
        "limit": row.limit and row.limit.key,
        "less": tuple(row.demand(row.lowered(request, amount)) for amount in (1, 0)),
        "edit": row.edit(request, 1),
        "column": row.title,
        "step": row.step(row.demand(request)),
        "files": row.files,
        "rules": (there.rule if there else "", there.judged if there else "", row.uplink.rule if row.uplink else ""),
        "verb": row.uplink.verb if row.uplink else "",
        "limited": f"{row.limit.amount(row.demand(request))}: {row.limit.description}" if row.limit else "",
        "zero": row.zero,
        "part_of": row.part_of,
        "pieces": row.pieces,
        "taken": row.taken(_with_part(request)) if row.taken else None,
        "ceiling": (row.ceiling(request), row.span(one, request)) if row.ceiling else None,
        "enforced": _enforced(row.enforced) if row.enforced else None,
    }


def _enforced(how: Enforced) -> dict[str, Any]:
    """The same of how a node enforces it. Pieces have holders, and no amount."""
    state, less, unset = (AllocationState.model_validate(one) for one in (STATE, LESS, UNSET))
    return {
        "at": dict(how.at),
        "step": how.step.value,
        "noun": how.noun,
        "has": how.has and how.has(FACTS, BEFORE, AFTER, DECLARED),
        "held": how.amount(state) if how.has else None,
        "rounded": (how.rounded(5007), how.rounded(0)),
        "lesser": {path: getattr(one, "quota", one) for path, one in how.lesser(state, less).items()} if how.has else None,
        "unset": how.lesser(state, unset) if how.has else None,
        "needs": how.needs,
        "live": how.live,
        "in_line": how.in_line,
    }


def _with_part(request: Workload) -> Workload:
    """The same with a part of one GPU."""
    gpus = Gpus(count=1, share=GpuCount(300))
    return request.model_copy(update={"each": request.each.model_copy(update={"gpus": gpus})})


@pytest.mark.parametrize("name", CASES)
def test_a_row_says_what_its_case_does(name: str) -> None:
    assert facts(ROWS[name]) == CASES[name]


@pytest.mark.parametrize(
    ("found", "declared", "given"),
    [
        (113, Declared(memory=101), 101),  # the rest is the machine's own
        (101, Declared(memory=113), 101),
        (113, None, 113),  # a state from before nodes were declared, or one that leaves
        (113, Declared(), 113),
        (0, Declared(memory=101), 0),  # nobody looked
    ],
)
def test_memory_is_given_out_as_far_as_it_is_both_found_and_declared(found: int, declared: Declared | None, given: int) -> None:
    how = ROWS["memory"].enforced
    assert how and how.has and how.has(Facts(memory=found), BEFORE, AFTER, declared) == given


#: Another value for each of a row, as a slip of the pen would write it.
SLIPS: dict[str, Any] = {
    "unit": Seconds, "noun": "things", "name": "other", "key": "each.other", "demand": lambda request: 999,
    "step": lambda need: 7, "pieces": "numa", "measured": "index", "capacity": Capacity("numa", lambda has: 999, "other", "other"),
    "taken": lambda request: 999, "ceiling": lambda request: 999_000, "enforced": Enforced({"slice.swap_max": "swap"}, Verb.PREPARE, "things"), "limit": LimitKey(Seconds, "things", "other", "Other."), "uplink": Uplink("other", "other"),
    "files": None, "part_of": "other", "zero": "other", "head": "other", "key_in": lambda request: "each.other",
    "editing": lambda request, amount: ("each.other", 999), "lowering": lambda request, amount: request,
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_no_value_of_a_row_changes_unnoticed(name: str) -> None:
    row = ROWS[name]
    assert set(SLIPS) == {one.name for one in fields(row)}
    for value, slip in SLIPS.items():
        if row.itself and value == "lowering":
            continue  # a replica is one, however small
        other = replace(row, **{value: not row.files if value == "files" else slip})
        try:
            found = facts(other)
        except (AttributeError, TypeError, ValueError):
            continue
        assert found != CASES[name], value


#: The same for how a node enforces it.
ENFORCED_SLIPS: dict[str, Any] = {
    "at": {"slice.swap_max": "swap"}, "step": Verb.PREPARE, "noun": "things", "has": lambda facts, old, new, declared: 999, "grain": 7,
    "needs": "numa", "unlimited": None, "beside": ("slice.swap_max",), "ceiling": "slice.swap_max", "live": None, "in_line": None,
}  # fmt: skip


@pytest.mark.parametrize("name", [row.name for row, _ in ENFORCED])
def test_no_value_of_what_is_enforced_changes_unnoticed(name: str) -> None:
    row = ROWS[name]
    assert row.enforced and set(ENFORCED_SLIPS) == {one.name for one in fields(row.enforced)}
    for value, slip in ENFORCED_SLIPS.items():
        if value in ("beside", "ceiling") and (not row.enforced.has or len(row.enforced.at) > 1):
            continue  # pieces have no amount, and directories change as a whole
        how = replace(row.enforced, **{value: not getattr(row.enforced, value) if slip is None else slip})
        assert _enforced(how) != CASES[name]["enforced"], value


@pytest.mark.parametrize("name", [row.name for row, _ in ENFORCED])
def test_what_is_enforced_is_shown_and_read_in_its_unit(name: str) -> None:
    how = ROWS[name].enforced
    assert how
    for path, key in how.at.items():
        full = with_values(
            AllocationState.model_validate(STATE), {path: {"gpus": (gpu(3),), "slice.cpus": "3"}.get(path, 8192)}
        )
        plain = with_values(full, {how.ceiling: None}) if how.ceiling else full
        shown = rows({"n": NodeState(allocations={"w-0": plain})})["Allocation", "w-0"]
        assert value_at(full, path) and shown[key] in ("3", ROWS[name].text(8192)), path
        if how.ceiling:
            full = with_values(full, {how.ceiling: 9216})
            assert rows({"n": NodeState(allocations={"w-0": full})})["Allocation", "w-0"][key] == "8192..9216 bit/s"
            assert format.value(how.ceiling, 9216) == "9216 bit/s"
        assert format.value(path, 8192) == ROWS[name].text(8192) or not how.has


@pytest.mark.parametrize("name", [name for name in CASES if name in ROWS and not ROWS[name].itself])
def test_a_lowered_wish_asks_for_no_more_of_it_and_no_more_of_anything(name: str) -> None:
    request, row = Workload.model_validate(WISH), ROWS[name]
    for amount in (0, 1, row.demand(request) - 1):
        less = row.lowered(request, amount)
        assert row.demand(less) <= amount or name == "cores", "fewer cores are fewer vCPUs"
        assert all(each.demand(less) <= each.demand(request) for each in RESOURCES)
    assert row.demand(row.lowered(request, 0)) == 0


def test_of_what_has_ended_only_files_are_left() -> None:
    left = Allocation.model_validate(HELD).released()
    assert {name: row.held(left) for name, row in ROWS.items() if row.held(left)} == {"storage": 29 * G}


def test_where_a_wish_is_written_in_another_way_its_path_and_edit_follow() -> None:
    other = {"gpus": {"count": 2, "memory": "80 GB"}, "cache": "5 GB"}
    request = Workload.model_validate({"user": "ada", "each": other, "network": {"between": "2 Gbit/s"}})
    for name, path, edit in (
        ("gpus", "each.gpus", ("each.gpus.share", "0.001")),
        ("storage", "each.cache", ("each.cache", "1 B")),
        ("egress", "network.between", ("network.between", "1 bit/s")),
        ("ingress", "network.between", ("network.between", "1 bit/s")),
    ):
        assert (ROWS[name].path(request), ROWS[name].edit(request, 1)) == (path, edit)
    assert ROWS["gpus"].edit(request, 1500) == ("each.gpus.count", 1)
    plain = Workload.model_validate({"user": "ada", "each": {"gpus": 2}})
    assert [ROWS["gpus"].edit(plain, n) for n in (2000, 1000, 250)] == [("each.gpus", n) for n in (2, 1, 0.25)]
    taken, part = ROWS["gpus"].taken, _with_part(request)
    assert taken and (taken(part), taken(request), ROWS["gpus"].demand(part)) == (0, 2, 300)


def test_machines_have_whole_gpus_and_replicas_may_have_parts() -> None:
    row = ROWS["gpus"]
    assert (row.of_machines.amount(2), row.amount(2000), row.amount(250)) == ("2 GPUs", "2 GPUs", "0.25 GPUs")
    two = Workload.model_validate({"user": "ada", "each": {"gpus": "2 x H100"}})
    less = {n: row.lowered(two, n).each.gpus for n in (1500, 1000, 400)}
    assert {n: str(gpus) for n, gpus in less.items()} == {1500: "1 x H100", 1000: "1 x H100", 400: "0.4 x H100"}


def test_figures_read_as_people_say_them() -> None:
    assert [ROWS["gpus"].amount(n) for n in (0, 1000, 2000)] == ["0 GPUs", "1 GPU", "2 GPUs"]
    assert [ROWS["vcpus"].amount(n) for n in (500, 1000, 1500)] == ["0.5 vCPUs", "1 vCPU", "1.5 vCPUs"]
    assert ROWS["cores"].amount(1) == "1 pinned core" and ROWS["memory"].amount(1) == "1 B of memory"
    assert (ROWS["gpus"].written(2000), ROWS["vcpus"].written(2000), ROWS["memory"].written(G)) == ("2", "2", "1 GB")
    assert [ROWS[name].step(n) for name in ("vcpus", "gpus") for n in (999, 1000)] == [50, 1000] * 2
    assert [ROWS["memory"].step(n) for n in (4 * G - 1, 4 * G)] == [M, G]
