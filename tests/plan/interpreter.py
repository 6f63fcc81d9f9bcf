"""What would a fleet become if these steps ran? A small pure stand-in for the nodes, that knows every law and no plan."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from swarm_iac.model.base import value_at
from swarm_iac.model.resources.table import COUNTED
from swarm_iac.model.state import (
    AllocationState,
    BandwidthState,
    Desired,
    GpuState,
    LedgerHead,
    NodeState,
    Observed,
    SettingsState,
    UnitState,
)
from swarm_iac.model.step import Plan, Step, Verb
from swarm_iac.plan.state import cpulist

At = tuple[str, str]


class Fleet:
    """Nodes that do what a step wants; after each step every law is looked at, on every node."""

    def __init__(self, observed: Mapping[str, Observed], desired: Mapping[str, Desired]) -> None:
        self.nodes = {name: each.state for name, each in observed.items()}
        self.facts = {name: each.facts for name, each in observed.items()}
        self.desired = desired
        self.memory = {name: self._memory(name) for name in self.nodes}
        self.healthy = {at for name, each in observed.items() for at in self._well(name, each)}
        self.started: set[At] = set()
        self.kind = {one: kind for each in desired.values() for one, kind in each.handover.items()}
        self.twice = self._running_twice()
        self.guaranteed = {workload: self._availability(workload) for workload in self._services()}
        self.judge()

    @staticmethod
    def _well(node: str, seen: Observed) -> list[At]:
        states = seen.state.allocations.items()
        return [(node, one) for one, state in states if state.unit.active and seen.health.get(one, "healthy") == "healthy"]

    def _services(self) -> set[str]:
        return {one.rpartition("-")[0] for one, kind in self.kind.items() if kind in ("healthy-first", "one-by-one")}

    def _availability(self, workload: str) -> int:
        wanted = [one for one, kind in self.kind.items() if one.rpartition("-")[0] == workload]
        spare = self.kind[wanted[0]] == "one-by-one"
        before = {one for _, one in self.healthy if one.rpartition("-")[0] == workload}
        return max(0, min(len(before), len(wanted)) - spare)

    def _count(self, workload: str) -> int:
        return sum(one.rpartition("-")[0] == workload for _, one in self.healthy)

    def observed(self, agent: str = "") -> dict[str, Observed]:
        head = LedgerHead(lineage="l", serial=1, fleet="f")
        return {
            name: Observed(
                node=name, facts=self.facts[name], ledger=head, state=state, agent=agent,
                health={one: self._told(name, one, each) for one, each in state.allocations.items()},
            )
            for name, state in self.nodes.items()
        }  # fmt: skip

    def _told(self, node: str, one: str, state: AllocationState) -> str:
        return "healthy" if (node, one) in self.healthy else "starting" if state.unit.active else "stopped"

    def run(self, step: Step) -> None:
        node = self.nodes.setdefault(step.node, NodeState())
        self.nodes[step.node] = getattr(self, f"_{step.verb.value}")(node, step)
        self.judge(step)

    # -- the laws

    def judge(self, step: Step | None = None) -> None:
        for name in self.nodes:
            self._one_owner(name)
            self._no_more_than_there_is(name)
        self._racks()
        self._jobs_run_once()
        for workload, guaranteed in self.guaranteed.items():
            assert self._count(workload) >= guaranteed, f"{workload}: {self._count(workload)} healthy, {guaranteed} promised"
        if step and step.verb is Verb.START and self.kind.get(step.allocation) == "together":
            self._gang_starts_whole(step.allocation.rpartition("-")[0])

    def _one_owner(self, name: str) -> None:
        node = self.nodes[name]
        held, cut = Counter[int](), Counter[tuple[int, int]]()
        for gpu in (gpu for state in node.allocations.values() for gpu in state.gpus):
            if gpu.profile:
                cut.update((gpu.index, one) for one in gpu.slices)
            else:
                held[gpu.index] += gpu.part
        assert max(held.values(), default=0) <= 1000, f"{name}: {held} thousandths of a GPU are held"
        assert max(cut.values(), default=0) <= 1, f"{name}: MIG instances overlap"
        assert not held.keys() & {card for card, _ in cut}, f"{name}: a card that is cut is held by others"
        running = [one.slice for one in node.allocations.values() if one.unit.active]
        for one in running:
            for other in running:
                if one is not other and one.cpu_quota_m is None and one.cpus:
                    assert not cpulist.read(one.cpus) & cpulist.read(other.cpus), f"{name}: a pinned core is shared"

    def _no_more_than_there_is(self, name: str) -> None:
        node, facts = self.nodes[name], self.facts.get(name)
        ones = node.allocations.values()
        for row, how in COUNTED:
            used = sum(value_at(one, path) or 0 for one in ones for path in how.at)
            limit = how.has(facts, node, node, None) if facts and how.has and row.name != "memory" else 0
            assert not limit or used <= limit, f"{name}: {used} of {limit} {row.noun}"
        for part, limit in self.memory.get(name, {}).items():
            used = _bound(node, part)
            assert used <= limit, f"{name}: {used} of {limit} bytes" + (f" of NUMA node {part}" if part else "")

    def _memory(self, name: str) -> dict[str, int]:
        """The most that may be held at any time: of all of it, and of each NUMA node. Not above what the stack file says the
        machine has (the rest is for the machine itself), nor above what is there; who holds more already may keep that."""
        facts, wanted = self.facts[name], self.desired.get(name)
        told = wanted.hardware.memory if wanted and wanted.managed and wanted.hardware else 0
        size = facts.memory if not told else told if told < facts.memory else facts.memory
        goal = wanted.state if wanted and wanted.managed else NodeState()
        parts = {"": size} | ({str(half): size // 2 for half in facts.numa} if len(facts.numa) == 2 else {})
        return {part: max(limit, _bound(self.nodes[name], part), _bound(goal, part)) for part, limit in parts.items() if size}

    def _racks(self) -> None:
        used: dict[str, int] = {}
        for name, each in self.desired.items():
            watts = sum(gpu.power_w or 0 for gpu in self.nodes.get(name, NodeState()).gpus.values())
            used[each.rack] = used.get(each.rack, 0) + watts
            assert not each.power_w or watts <= each.power_w, f"{name} draws {watts} W"
            assert not each.rack or used[each.rack] <= each.rack_power_w, f"rack {each.rack} draws {used[each.rack]} W"

    def _running_twice(self) -> set[str]:
        names = [one for _, one in self.active() if self.kind.get(one) in ("stop-first", "together")]
        return {one for one in names if names.count(one) > 1}

    def _jobs_run_once(self) -> None:
        assert self._running_twice() <= self.twice, "a job runs in two places"

    def _gang_starts_whole(self, workload: str) -> None:
        old = {at for at in self.active() if at[1].rpartition("-")[0] == workload} - self.started
        assert not old, f"{workload}: {old} still run while others start"
        for name, each in self.desired.items():
            for one, wanted in each.state.allocations.items():
                if one.rpartition("-")[0] == workload and one not in each.ended:
                    here = self.nodes[name].allocations.get(one)
                    assert here and _place(here) == _place(wanted), f"{one} has no place yet"

    def active(self) -> set[At]:
        return {
            (name, one) for name, node in self.nodes.items() for one, state in node.allocations.items() if state.unit.active
        }

    # -- what steps do

    def _with(self, node: NodeState, step: Step, **values: Any) -> NodeState:
        old = node.allocations.get(step.allocation)
        if old is None:
            wanted = self._wanted(step)
            old = AllocationState(workload=wanted.workload, unit=UnitState(user=wanted.unit.user, active=False))
        return node.model_copy(update={"allocations": {**node.allocations, step.allocation: old.model_copy(update=values)}})

    @staticmethod
    def _wanted(step: Step) -> AllocationState:
        return AllocationState.model_validate(step.want["allocations"][step.allocation])

    def _prepare(self, node: NodeState, step: Step) -> NodeState:
        return node

    def _stop(self, node: NodeState, step: Step) -> NodeState:
        self.healthy.discard((step.node, step.allocation))
        self.started.discard((step.node, step.allocation))
        unit = node.allocations[step.allocation].unit
        return self._with(node, step, unit=unit.model_copy(update={"active": False}))

    def _release(self, node: NodeState, step: Step) -> NodeState:
        assert not node.allocations[step.allocation].unit.active, "released while it runs"
        rest = {name: state for name, state in node.allocations.items() if name != step.allocation}
        return node.model_copy(update={"allocations": rest})

    def _settings(self, node: NodeState, step: Step) -> NodeState:
        return node.model_copy(update={"settings": SettingsState.model_validate(step.want["settings"])})

    def _gpus(self, node: NodeState, step: Step) -> NodeState:
        given = {int(gpu): GpuState.model_validate(state) for gpu, state in step.want["gpus"].items()}
        return node.model_copy(update={"gpus": {g: s for g, s in {**node.gpus, **given}.items() if s != GpuState()}})

    def _storage(self, node: NodeState, step: Step) -> NodeState:
        return node.model_copy(update=step.want)

    def _traffic(self, node: NodeState, step: Step) -> NodeState:
        if not step.allocation:
            return node.model_copy(update=step.want)
        assert step.allocation in node.allocations, "shaped before its cgroup is there"
        bandwidth = BandwidthState.model_validate(self._wanted(step).bandwidth)
        for rate, ceil in ((bandwidth.out_bps, bandwidth.out_ceil_bps), (bandwidth.in_bps, bandwidth.in_ceil_bps)):
            assert ceil is None or (rate is not None and rate < ceil), f"{step.id}: a ceiling without a guarantee below it"
        return self._with(node, step, bandwidth=bandwidth)

    def _slice(self, node: NodeState, step: Step) -> NodeState:
        named, old = step.want["allocations"][step.allocation], node.allocations.get(step.allocation)
        if "gpus" not in named:  # all that it does not name stays
            assert old is not None, f"{step.id}: there is nothing that could stay as it is"
            return self._with(node, step, slice=old.slice.model_copy(update=named["slice"]))
        wanted = self._wanted(step)
        assert old is None or old.gpus == wanted.gpus or not old.unit.active, "GPUs change under a running unit"
        return self._with(node, step, slice=wanted.slice, gpus=wanted.gpus)

    def _directories(self, node: NodeState, step: Step) -> NodeState:
        return self._with(node, step, scratch=self._wanted(step).scratch, cache=self._wanted(step).cache)

    def _start(self, node: NodeState, step: Step) -> NodeState:
        wanted, here = self._wanted(step), node.allocations[step.allocation]
        assert (here.gpus, here.slice) == (wanted.gpus, wanted.slice), f"{step.id} before it has its place"
        if not here.unit.active:
            self.started.add((step.node, step.allocation))
        return self._with(node, step, unit=wanted.unit, workload=wanted.workload)

    def _health(self, node: NodeState, step: Step) -> NodeState:
        assert node.allocations[step.allocation].unit.active, "asked for health before it runs"
        self.healthy.add((step.node, step.allocation))
        return node

    def _restore(self, node: NodeState, step: Step) -> NodeState:
        assert not node.allocations, "restored while something is allocated"
        return NodeState()


def _bound(node: NodeState, part: str) -> int:
    """Memory that all on a node may use together, or those that are bound to one NUMA node. [bytes]"""
    return sum(one.slice.memory_max or 0 for one in node.allocations.values() if not part or one.slice.mems == part)


def _place(one: AllocationState) -> tuple[object, ...]:
    """What it needs to start: its GPUs, and its slice without memory that is lent beyond its guarantee."""
    most = one.slice.memory_max if one.slice.memory_low is None else one.slice.memory_low
    return one.gpus, one.slice.model_copy(update={"memory_max": most, "memory_high": None, "memory_most": None})


def as_converged(plan: Plan) -> list[Step]:
    """The order in which converge runs them: wave by wave, node by node, verb by verb."""
    rank = {verb: number for number, verb in enumerate(Verb)}
    return [step for wave in plan.waves() for step in sorted(wave, key=lambda step: (step.node, rank[step.verb]))]
