"""Which fleets has nobody, and somebody will write? Numbers at both ends of a unit, and counts far beyond the usual."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.benchmarks.fleets.written import Data

GPU = {"gpus": "8 x H100", "vcpus": 128, "memory": "1 TB", "nvme": "10 TB", "nic": "100 Gbit/s", "numa": 2}
CPU = {"vcpus": 64, "memory": "256 GB", "nvme": "2 TB", "nic": "25 Gbit/s"}
#: Ceilings that bind nobody.
WIDE = {"gpus": 10**6, "vcpus": 10**7, "memory": "9000 PB", "storage": "9000 PB"}
SSH = "root@{name}.example.org"


def _fleet(nodes: Data, workloads: Data, **rest: Any) -> Data:
    """A stack file's data; nodes are GPU machines, workloads are ada's."""
    found: Data = {
        "fleet": "odd",
        "teams": {"all": {"users": ["ada", "bo"]}},
        "limits": {"user": WIDE, "node": WIDE, "cluster": WIDE},
        "hardware": {"gpu": GPU, "cpu": CPU},
        "nodes": {name: {"hardware": "gpu", "ssh": SSH, **node} for name, node in nodes.items()},
        "workloads": {name: {"user": "ada", **one} for name, one in workloads.items()},
    }
    return found | rest


def _nodes(count: int, stem: str = "g", **entry: Any) -> Data:
    return {f"{stem}-{i:05d}": dict(entry) for i in range(count)}


def _each(gpus: Any = 0, vcpus: Any = 1, memory: str = "1 GB", **rest: Any) -> Data:
    return {"each": ({"gpus": gpus} if gpus else {}) | {"vcpus": vcpus, "memory": memory} | rest}


def empty() -> Data:
    """Nothing but a name."""
    return {"fleet": "odd"}


def nothing_to_run() -> Data:
    """2,000 nodes and no workload."""
    return _fleet(_nodes(2000), {})


def no_gpu() -> Data:
    """500 machines without a GPU, 4,000 workloads."""
    works = {f"w{i}": {"replicas": 2, **_each(0, 1 + i % 7, f"{1 + i % 9} GB")} for i in range(4000)}
    return _fleet(_nodes(500, hardware="cpu"), works)


def one_node() -> Data:
    """One machine and 60 workloads for its 8 GPUs."""
    names = ("low", "normal", "high")
    return _fleet(_nodes(1), {f"w{i}": {"priority": names[i % 3], **_each(i % 4, 3)} for i in range(60)})


def far_apart_limits() -> Data:
    """A user who may have 1 vCPU and 1 kB beside one who may have 10 PB, on machines of 10 PB."""
    limits = {
        "user": {"gpus": 100, "vcpus": 1, "memory": "1 kB", "storage": "1 B"},
        "node": {"gpus": 100, "vcpus": 1000, "memory": "10 PB", "storage": "10 PB"},
        "cluster": {"gpus": 1000, "vcpus": 100_000, "memory": "1000 PB", "storage": "1000 PB"},
        "except": [
            {"user": "bo", "vcpus": 10_000, "memory": "10 PB", "storage": "10 PB", "until": "2027-01-31", "reason": "x"}
        ],
    }
    vast = {"vast": {**CPU, "memory": "10 PB", "nvme": "10 PB"}}
    small = {f"s{i}": {"replicas": 3, **_each(0, "1m", "1 B")} for i in range(50)}
    large = {f"l{i}": {"user": "bo", **_each(0, 2, "3 PB", scratch="1 PB")} for i in range(8)}
    return _fleet(_nodes(50, hardware="vast"), small | large, limits=limits, hardware=vast)


def far_apart_sizes() -> Data:
    """1 B beside 3,333,333,333,333,333 B of memory, by one user on the same machines."""
    vast = {"vast": {**CPU, "memory": "10 PB", "nvme": "10 PB"}}
    works = {f"s{i}": {"replicas": 5, **_each(0, 1, "1 B", scratch="1 B")} for i in range(50)}
    works |= {f"l{i}": _each(0, 1, "3333333333333333 B", scratch="1 PB") for i in range(150)}
    return _fleet(_nodes(50, hardware="vast"), works, hardware=vast)


def far_apart_rates() -> Data:
    """1 bit/s beside 10 Tbit/s through one card and one uplink."""
    fast = {"fast": {**GPU, "nic": "10 Tbit/s"}}
    works = {f"s{i}": {"replicas": 4, "network": {"egress": "1 bit/s"}, **_each(1, 2)} for i in range(40)}
    works |= {f"l{i}": {"network": {"egress": "10 Tbit/s", "ingress": "1 bit/s"}, **_each(1, 2)} for i in range(30)}
    racks = {"r1": {"uplink": "10 Tbit/s"}, "r2": {"uplink": "1 bit/s"}, "r3": {}}
    nodes = {name: {"rack": f"r{1 + i % 3}"} for i, name in enumerate(_nodes(30))}
    return _fleet({name: {"hardware": "fast", **node} for name, node in nodes.items()}, works, hardware=fast, racks=racks)


def far_apart_watts() -> Data:
    """1 W beside 1 MW: a rack that carries 1 W more than its nodes may draw, and replicas that ask for 1 MW a GPU."""
    racks = {"r1": {"power": "3201 W"}, "r2": {"power": "20 MW"}, "r3": {}}
    nodes = {name: {"rack": f"r{1 + i % 3}", "tuning": "cool"} for i, name in enumerate(_nodes(12))}
    works = {f"s{i}": {"replicas": 2, **_each(1, 2, gpu_power="101 W")} for i in range(20)}
    works |= {f"l{i}": _each(1, 2, gpu_power="1 MW") for i in range(30)} | {
        f"o{i}": _each(1, 2, gpu_power="1 W") for i in range(10)
    }
    return _fleet(nodes, works, racks=racks, tuning={"cool": {"gpu_power": "100 W"}})


def thousandths() -> Data:
    """A thousandth of a vCPU each: 3,000 replicas on 5 machines."""
    return _fleet(_nodes(5, hardware="cpu"), {f"w{i}": {"replicas": 100, **_each(0, "1m", "1 MB")} for i in range(30)})


def all_unplaceable() -> Data:
    """3,000 workloads, and every one of 300 nodes is drained."""
    states = {name: {"state": "drain"} for name in _nodes(300)}
    return _fleet(states, {f"w{i}": {"replicas": 2, **_each(1 + i % 8, 4)} for i in range(3000)})


def unplaceable_by_label() -> Data:
    """2,000 workloads that ask for eight GPUs on the only machine with a label, which has none."""
    nodes = _nodes(200) | {"c-00000": {"hardware": "cpu", "labels": {"pool": "small"}}}
    return _fleet(nodes, {f"w{i}": {"place": {"select": {"pool": "small"}}, **_each(8, 8)} for i in range(2000)})


def many_workloads() -> Data:
    """100,000 workloads of one replica on 2,000 machines."""
    return _fleet(
        _nodes(2000), {f"w{i}": _each(i % 3 == 0 and 1 + i % 2, 1 + i % 5, f"{1 + i % 11} GB") for i in range(100_000)}
    )


def many_alike() -> Data:
    """As many workloads as one file holds, all alike, on 2,000 machines."""
    return _fleet(_nodes(2000), {f"w{i}": {"each": {"gpus": 1}} for i in range(14_000)})


def many_replicas() -> Data:
    """One workload of 100,000 replicas."""
    return _fleet(_nodes(2000), {"w": {"replicas": 100_000, **_each(0, 1)}})


def most_replicas() -> Data:
    """Ten workloads of 10,000 replicas, the most that one may have."""
    return _fleet(_nodes(2000), {f"w{i}": {"replicas": 10_000, **_each(i % 2, 1)} for i in range(10)})


def rack_for_each() -> Data:
    """2,000 racks of one node, each with a budget, and services spread over racks."""
    racks = {f"r{i}": {"power": "6 kW", "uplink": "50 Gbit/s"} for i in range(2000)}
    nodes = {name: {"rack": f"r{i}", "tuning": "t"} for i, name in enumerate(_nodes(2000))}
    spread = {"place": {"spread": "rack"}, "network": {"egress": "10 Gbit/s"}}
    works = {f"s{i}": {"replicas": 8, **spread, **_each(1, 4)} for i in range(600)}
    works |= {f"t{i}": _each(8, 64, gpu_power="720 W") for i in range(900)}
    return _fleet(nodes, works, racks=racks, tuning={"t": {"gpu_power": "700 W"}})


def shape_for_each() -> Data:
    """1,000 machines, each a shape of its own, 95% full."""
    shapes = {
        f"h{i}": {
            "gpus": f"{1 + i % 8} x H100",
            "vcpus": 64 + i % 61,
            "memory": f"{500_000 + 7 * i} MB",
            "nvme": f"{1000 + i} GB",
        }
        for i in range(1000)
    }
    nodes = {f"g-{i:05d}": {"hardware": f"h{i}"} for i in range(1000)}
    works = {f"w{i}": {"replicas": 3, **_each(1 + i % 4, 5 + i % 13, f"{20 + i % 40} GB")} for i in range(570)}
    return _fleet(nodes, works, hardware=shapes)


def gang_of_500() -> Data:
    """A gang of 500 whole machines on 520, beside 200 small ones of equal priority."""
    works = {"big": {"gang": 500, "kind": "train", "network": {"between": "50 Gbit/s"}, **_each(8, 64, "500 GB")}}
    return _fleet(_nodes(520), works | {f"w{i}": _each(1, 4) for i in range(200)})


def gang_in_a_rack() -> Data:
    """A gang of 500 within one rack of 260 nodes, half a machine each; the other rack has 249."""
    nodes = {name: {"rack": "r1" if i < 260 else "r2"} for i, name in enumerate(_nodes(509))}
    works = {"big": {"gang": 500, "place": {"within": "rack"}, **_each(4, 32, "100 GB")}} | {
        f"w{i}": _each(2, 4) for i in range(100)
    }
    return _fleet(nodes, works, racks={"r1": {}, "r2": {}})


def spread_over_racks() -> Data:
    """Spread over 500 racks of two nodes: 500 replicas, and once more 501."""
    nodes = {name: {"rack": f"r{i // 2}"} for i, name in enumerate(_nodes(1000))}
    wide = {"place": {"spread": "rack"}, **_each(4, 8)}
    works = {"all": {"replicas": 500, **wide}, "more": {"replicas": 501, "priority": "low", **wide}}
    return _fleet(nodes, works | {f"w{i}": _each(4, 8) for i in range(900)}, racks={f"r{i}": {} for i in range(500)})


def huge_nodes() -> Data:
    """Three machines of 1,024 GPUs."""
    shape = {"gpus": "1024 x H100", "vcpus": 100_000, "memory": "1 PB", "numa": 16}
    works = {f"w{i}": {"replicas": 5, **_each(1 + 37 * i % 300, 100, pinned=True)} for i in range(12)}
    return _fleet(_nodes(3, hardware="huge"), works, hardware={"huge": shape})


CASES: dict[str, Callable[[], Data]] = {
    case.__name__.replace("_", "-"): case
    for case in (
        empty, nothing_to_run, no_gpu, one_node, far_apart_limits, far_apart_sizes, far_apart_rates, far_apart_watts,
        thousandths, all_unplaceable, unplaceable_by_label, many_workloads, many_alike, many_replicas, most_replicas,
        rack_for_each, shape_for_each, gang_of_500, gang_in_a_rack, spread_over_racks, huge_nodes,
    )
}  # fmt: skip
