"""Which small fleets are the laws of change tried on? Two states of one fleet, each feasible by construction."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import strategies as st

from swarm_iac.model.state import (
    AllocationState,
    BandwidthState,
    Desired,
    DirectoryState,
    Facts,
    GpuState,
    Handover,
    LedgerHead,
    NodeState,
    Observed,
    SettingsState,
    SliceState,
    UnitState,
)
from swarm_iac.plan import cpulist

NODES = ("n1", "n2", "n3")
GPUS, CPUS, MEMORY = 3, 6, 100
HANDOVER: dict[str, Handover] = {
    "train-0": "stop-first", "train-1": "stop-first", "chat-0": "healthy-first", "chat-1": "healthy-first",
    "chat-2": "healthy-first", "gang-0": "together", "gang-1": "together",
}  # fmt: skip


def allocation(name: str, gpus: tuple[int, ...], cpus: tuple[int, ...], memory: int, command: str = "x") -> AllocationState:
    """One allocation; its shared cores are filled in by `node`."""
    return AllocationState(
        workload=name.rpartition("-")[0],
        gpus=gpus,
        slice=SliceState(cpus=cpulist.write(cpus), cpu_quota_m=None if cpus else 1000, memory_max=memory),
        scratch=DirectoryState(quota=4096, owner="ada") if memory % 2 else None,
        bandwidth=BandwidthState(out_bps=8000 if memory % 3 else None),
        unit=UnitState(user="ada", command=command),
    )


def node(allocations: Mapping[str, AllocationState], swappiness: str = "10") -> NodeState:
    """A node whose sharing allocations have the cores that nobody pins."""
    pinned = {cpu for one in allocations.values() for cpu in cpulist.read(one.slice.cpus)}
    shared = cpulist.write(set(range(CPUS)) - pinned)
    filled = {
        name: one if one.slice.cpus else one.model_copy(update={"slice": one.slice.model_copy(update={"cpus": shared})})
        for name, one in sorted(allocations.items())
    }
    power = {gpu: GpuState(power_w=300 + len(name)) for name, one in filled.items() for gpu in one.gpus}
    return NodeState(
        settings=SettingsState(sysctl={"vm.swappiness": swappiness}), gpus=power,
        interface="eth1", interface_bps=10**9, disk="/dev/vdb", allocations=filled,
    )  # fmt: skip


def observed(states: Mapping[str, NodeState]) -> dict[str, Observed]:
    head = LedgerHead(lineage="l", serial=1, fleet="f")
    facts = Facts(memory=MEMORY, cpus=CPUS)
    return {name: Observed(node=name, facts=facts, ledger=head, state=state) for name, state in states.items()}


def desired(states: Mapping[str, NodeState]) -> dict[str, Desired]:
    return {
        name: Desired(
            node=name, address="local", fleet="f", state=state, handover={one: HANDOVER[one] for one in state.allocations}
        )
        for name, state in states.items()
    }


@st.composite
def states(draw: st.DrawFn) -> dict[str, NodeState]:
    """Any feasible state: each allocation somewhere or nowhere, a gang whole or not at all; one CPU is never pinned."""
    free = {name: set(range(GPUS)) for name in NODES}
    cores = {name: set(range(1, CPUS)) for name in NODES}
    left = dict.fromkeys(NODES, MEMORY)
    found: dict[str, dict[str, AllocationState]] = {name: {} for name in NODES}
    gang = draw(st.booleans())
    for name in HANDOVER:
        home = draw(st.sampled_from(NODES if name.startswith("gang") else (*NODES, "")))
        if not home or (name.startswith("gang") and not gang):
            continue
        gpus = draw(st.sets(st.sampled_from(sorted(free[home])), max_size=2)) if free[home] else set()
        pins = draw(st.sets(st.sampled_from(sorted(cores[home])), max_size=2)) if cores[home] else set()
        memory = draw(st.integers(1, max(1, min(60, left[home] - len(HANDOVER)))))
        free[home] -= gpus
        cores[home] -= pins
        left[home] -= memory
        command = draw(st.sampled_from("xy"))
        found[home][name] = allocation(name, tuple(sorted(gpus)), tuple(sorted(pins)), memory, command)
    return {name: node(each, draw(st.sampled_from(["1", "60"]))) for name, each in found.items()}
