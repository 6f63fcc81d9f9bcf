"""What do nodes, teams and workloads use at this moment? Sums over what the nodes measured, and tables of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from swarm_iac.observe import Measured
from swarm_iac.units import Watts

NODE_HEADS = ("node", "GPUs held", "busy", "GPU memory", "power", "hottest", "CPUs", "memory", "answers")
TEAM_HEADS = ("team", "GPUs", "busy", "CPUs", "memory", "allocations")
WORKLOAD_HEADS = ("workload", "user", "team", "runs", "GPUs", "busy", "CPUs", "memory", "waits", "net out/in", "disk full")


@dataclass
class InUse:
    """What one node, team or workload uses. None: nobody could tell.

    `gpus`: cards held, parts as much as they are; `busy`: how busy those are, from 0 to 1; `cpus`: used [CPUs]; `memory`,
    `memory_limit`: [bytes]; `waits`: the most of its time that one of its allocations waits for memory, CPU or a disk, from 0
    to 1, and for which; `out`, `into`: [bytes/s]; `full`: of its fullest directory, from 0 to 1; `states`: units by state.
    `known`: of the GPUs, those whose `busy` is known.
    """

    user: str = ""
    team: str = ""
    gpus: float = 0
    busy: float | None = None
    cpus: float | None = None
    memory: float | None = None
    memory_limit: float | None = None
    waits: float | None = None
    waits_for: str = ""
    out: float | None = None
    into: float | None = None
    full: float | None = None
    allocations: set[str] = field(default_factory=set)
    states: dict[str, int] = field(default_factory=dict)
    known: float = 0

    def document(self) -> dict[str, Any]:
        """As JSON."""
        found = {key: value for key, value in vars(self).items() if key != "known"}
        return {**found, "allocations": sorted(self.allocations), "gpus": round(self.gpus, 3)}


@dataclass
class NodeUsage:
    """What one node's cards and allocations use. `total`: its cards. [W], [°C], [bytes]"""

    held: InUse = field(default_factory=InUse)
    total: int | None = None
    power: float | None = None
    power_limit: float | None = None
    hottest: float | None = None
    gpu_memory: float | None = None
    gpu_memory_size: float | None = None
    stale: tuple[str, ...] = ()
    error: str = ""

    def document(self) -> dict[str, Any]:
        """As JSON."""
        return {**vars(self), "held": self.held.document(), "stale": list(self.stale)}


@dataclass(frozen=True)
class FleetUsage:
    """All of it."""

    nodes: Mapping[str, NodeUsage]
    teams: Mapping[str, InUse]
    workloads: Mapping[str, InUse]

    @property
    def dark(self) -> tuple[str, ...]:
        """Nodes that told nothing."""
        return tuple(name for name, one in self.nodes.items() if one.error)

    def document(self) -> dict[str, Any]:
        """As JSON."""
        return {
            part: {name: one.document() for name, one in found.items()}
            for part, found in (("nodes", self.nodes), ("teams", self.teams), ("workloads", self.workloads))
        }


Count = Callable[[InUse], None]


def in_use(measured: Iterable[Measured]) -> FleetUsage:
    """The sums. A node that is dark adds nothing to any, and is named."""
    nodes: dict[str, NodeUsage] = {}
    teams: dict[str, InUse] = {}
    workloads: dict[str, InUse] = {}
    for one in sorted(measured, key=lambda one: one.node):
        node = nodes[one.node] = _node(one)
        for labels, count in _held(one):
            team, workload = labels.get("team") or "no team", labels.get("workload") or "?"
            sums = [node.held, teams.setdefault(team, InUse(team=team)), workloads.setdefault(workload, InUse())]
            sums[2].user, sums[2].team = labels.get("user", ""), labels.get("team", "")
            for each in sums:
                each.allocations.add(labels.get("allocation", "?"))
                count(each)
    return FleetUsage(nodes, dict(sorted(teams.items())), dict(sorted(workloads.items())))


def _node(one: Measured) -> NodeUsage:
    if one.error:
        return NodeUsage(error=one.error)
    cards = {labels.get("gpu") for labels, _ in one.of("swarm_gpu_up")}

    def whole(family: str) -> list[float]:
        return [value for labels, value in one.of(family) if "mig" not in labels]

    def total(family: str) -> float | None:
        found = whole(family)
        return sum(found) if found else None

    stale = tuple(labels.get("collector", "?") for labels, fresh in one.of("swarm_exporter_collector_fresh") if not fresh)
    return NodeUsage(
        total=None if "gpus" in stale else len(cards),
        power=total("swarm_gpu_power_watts"),
        power_limit=total("swarm_gpu_power_limit_watts"),
        hottest=max(whole("swarm_gpu_temperature_celsius"), default=None),
        gpu_memory=total("swarm_gpu_memory_used_bytes"),
        gpu_memory_size=total("swarm_gpu_memory_size_bytes"),
        stale=stale,
    )


def _held(one: Measured) -> Iterator[tuple[Mapping[str, str], Count]]:
    """Each value of each allocation: whose it is, and how it is counted."""
    yield from _cards(one)
    for labels, value in one.of("swarm_allocation_memory_bytes"):
        yield labels, partial(_add, "memory", value)
    for labels, value in one.of("swarm_allocation_memory_limit_bytes"):
        yield labels, partial(_add, "memory_limit", value)
    for labels, value in one.grew("swarm_allocation_cpu_seconds_total"):
        yield labels, partial(_add, "cpus", value)
    for direction, key in (("out", "out"), ("in", "into")):
        for labels, value in one.grew("swarm_allocation_network_bytes_total", direction=direction):
            yield labels, partial(_add, key, value)
    # All tasks of a job rarely wait for a CPU at the same time, and one that does is enough to hold it up.
    for resource, waiting in (("memory", "full"), ("io", "full"), ("cpu", "some")):
        for labels, value in one.grew("swarm_allocation_pressure_seconds_total", resource=resource, waiting=waiting):
            yield labels, partial(_waits, resource, value)
    yield from _directories(one)
    for labels, value in one.of("swarm_allocation_unit_state"):
        if value:
            yield labels, partial(_state, labels.get("state", "?"))


def _cards(one: Measured) -> Iterator[tuple[Mapping[str, str], Count]]:
    busy: dict[tuple[str | None, str | None], float] = {}
    for family in ("swarm_gpu_busy_ratio", "swarm_gpu_sm_active_ratio"):  # the second is better, where there is one
        busy |= {(labels.get("gpu"), labels.get("mig")): value for labels, value in one.of(family)}
    for labels, part in one.of("swarm_gpu_allocated_ratio"):
        yield labels, partial(_hold, part, busy.get((labels.get("gpu"), labels.get("mig"))))


def _directories(one: Measured) -> Iterator[tuple[Mapping[str, str], Count]]:
    sizes = {_key(labels): value for labels, value in one.of("swarm_allocation_directory_quota_bytes")}
    for labels, value in one.of("swarm_allocation_directory_used_bytes"):
        if size := sizes.get(_key(labels)):
            yield labels, partial(_full, value / size)


def _add(key: str, value: float, each: InUse) -> None:
    setattr(each, key, (getattr(each, key) or 0) + value)


def _hold(part: float, busy: float | None, each: InUse) -> None:
    """A card, or a part of one, and how busy it is. What is not known counts for nothing in the mean."""
    each.gpus += part
    if busy is not None and part > 0:
        each.busy = ((each.busy or 0) * each.known + busy * part) / (each.known + part)
        each.known += part


def _full(ratio: float, each: InUse) -> None:
    each.full = max(each.full or 0, ratio)


def _state(state: str, each: InUse) -> None:
    each.states[state] = each.states.get(state, 0) + 1


def _key(labels: Mapping[str, str]) -> tuple[str | None, str | None]:
    return labels.get("allocation"), labels.get("directory")


def _waits(resource: str, value: float, each: InUse) -> None:
    if each.waits is None or value > each.waits:
        each.waits, each.waits_for = min(value, 1.0), resource


def node_rows(found: FleetUsage) -> Iterator[tuple[object, ...]]:
    """Below NODE_HEADS."""
    for name, one in found.nodes.items():
        if one.error:
            yield name, *["-"] * 7, f"dark: {one.error}"
            continue
        cards = "-" if one.total is None else f"{_plain(one.held.gpus)} of {one.total}"
        hottest = "-" if one.hottest is None else f"{one.hottest:.0f} °C"
        memory = _of(one.gpu_memory, one.gpu_memory_size)
        answers = f"yes; cannot measure {', '.join(one.stale)}" if one.stale else "yes"
        yield (
            name,
            cards,
            _ratio(one.held.busy),
            memory,
            power_text(one),
            hottest,
            _number(one.held.cpus),
            _size(one.held.memory),
            answers,
        )


def power_text(one: NodeUsage) -> str:
    """What its GPUs draw, of what they may: `312 W of 400 W`."""
    if one.power is None:
        return "-"
    return f"{Watts(round(one.power))}" + ("" if one.power_limit is None else f" of {Watts(round(one.power_limit))}")


def team_rows(found: FleetUsage) -> Iterator[tuple[object, ...]]:
    """Below TEAM_HEADS."""
    for name, one in found.teams.items():
        yield name, _plain(one.gpus), _ratio(one.busy), _number(one.cpus), _size(one.memory), len(one.allocations)


def workload_rows(found: FleetUsage) -> Iterator[tuple[object, ...]]:
    """Below WORKLOAD_HEADS."""
    for name, one in found.workloads.items():
        states = ", ".join(f"{count} {state}" for state, count in sorted(one.states.items())) or f"{len(one.allocations)} ?"
        waits = "-" if one.waits is None else f"{_ratio(one.waits)} {one.waits_for}" if one.waits >= 0.01 else "no"
        net = "-" if one.out is None and one.into is None else f"{_bits(one.out)} / {_bits(one.into)}"
        yield (
            name, one.user or "-", one.team or "-", states, _plain(one.gpus) if one.gpus else "-", _ratio(one.busy),
            _number(one.cpus), _of(one.memory, one.memory_limit), waits, net, _ratio(one.full),
        )  # fmt: skip


def _plain(value: float) -> str:
    return f"{value:.3f}".rstrip("0").rstrip(".")


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _ratio(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.0f} %"


def _size(value: float | None) -> str:
    """To a thousandth, as people read it."""
    if value is None:
        return "-"
    for unit, name in ((10**12, "TB"), (10**9, "GB"), (10**6, "MB")):
        if value >= unit:
            return f"{value / unit:.1f} {name}"
    return f"{value / 10**3:.0f} kB"


def _of(value: float | None, most: float | None) -> str:
    return _size(value) if most is None else f"{_size(value)} of {_size(most)}"


def _bits(rate: float | None) -> str:
    """[bytes/s] as bit/s."""
    if rate is None:
        return "-"
    bits = rate * 8
    for unit, name in ((10**9, "Gbit/s"), (10**6, "Mbit/s"), (10**3, "kbit/s")):
        if bits >= unit:
            return f"{bits / unit:.1f} {name}"
    return f"{bits:.0f} bit/s"
