"""What would a fleet become if these steps ran? A small pure stand-in for the nodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from swarm_iac.model.state import (
    AllocationState,
    BandwidthState,
    GpuState,
    LedgerHead,
    NodeState,
    Observed,
    SettingsState,
    UnitState,
)
from swarm_iac.model.step import Plan, Step, Verb
from swarm_iac.plan import cpulist


class Fleet:
    """Nodes that do what a step wants, and refuse what must never happen."""

    def __init__(self, observed: Mapping[str, Observed]) -> None:
        self.nodes = {name: each.state for name, each in observed.items()}
        self.facts = {name: each.facts for name, each in observed.items()}
        self.healthy = {
            (name, one) for name, each in observed.items() for one, state in each.state.allocations.items() if state.unit.active
        }

    def observed(self, agent: str = "") -> dict[str, Observed]:
        head = LedgerHead(lineage="l", serial=1, fleet="f")
        return {
            name: Observed(node=name, facts=self.facts[name], ledger=head, state=state, agent=agent)
            for name, state in self.nodes.items()
        }

    def run(self, step: Step) -> None:
        node = self.nodes.setdefault(step.node, NodeState())
        self.nodes[step.node] = getattr(self, f"_{step.verb.value}")(node, step)
        self.judge(step.node)

    def judge(self, name: str) -> None:
        """No GPU and no pinned core with two owners; no more memory than there is."""
        node = self.nodes[name]
        owners = [gpu for state in node.allocations.values() for gpu in state.gpus]
        assert len(owners) == len(set(owners)), f"{name}: a GPU has two owners"
        capacity = self.facts[name].memory if name in self.facts else 0
        assert not capacity or sum(one.slice.memory_max or 0 for one in node.allocations.values()) <= capacity, "memory"
        running = [one.slice for one in node.allocations.values() if one.unit.active]
        for one in running:
            for other in running:
                if one is not other and one.cpu_quota_m is None and one.cpus:
                    assert not cpulist.read(one.cpus) & cpulist.read(other.cpus), f"{name}: a pinned core is shared"

    def active(self) -> set[tuple[str, str]]:
        return {
            (name, one) for name, node in self.nodes.items() for one, state in node.allocations.items() if state.unit.active
        }

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
        return self._with(node, step, bandwidth=BandwidthState.model_validate(self._wanted(step).bandwidth))

    def _slice(self, node: NodeState, step: Step) -> NodeState:
        wanted, old = self._wanted(step), node.allocations.get(step.allocation)
        assert old is None or old.gpus == wanted.gpus or not old.unit.active, "GPUs change under a running unit"
        return self._with(node, step, slice=wanted.slice, gpus=wanted.gpus)

    def _directories(self, node: NodeState, step: Step) -> NodeState:
        return self._with(node, step, scratch=self._wanted(step).scratch, cache=self._wanted(step).cache)

    def _start(self, node: NodeState, step: Step) -> NodeState:
        wanted = self._wanted(step)
        return self._with(node, step, unit=wanted.unit, workload=wanted.workload)

    def _health(self, node: NodeState, step: Step) -> NodeState:
        assert node.allocations[step.allocation].unit.active, "asked for health before it runs"
        self.healthy.add((step.node, step.allocation))
        return node

    def _restore(self, node: NodeState, step: Step) -> NodeState:
        assert not node.allocations, "restored while something is allocated"
        return NodeState()


def as_converged(plan: Plan) -> list[Step]:
    """The order in which converge runs them: wave by wave, node by node, verb by verb."""
    rank = {verb: number for number, verb in enumerate(Verb)}
    return [step for wave in plan.waves() for step in sorted(wave, key=lambda step: (step.node, rank[step.verb]))]
