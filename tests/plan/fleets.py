"""Which small fleets are the laws of change tried on? Two states of one fleet, each feasible by construction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from hypothesis import strategies as st

from swarm_iac.model.base import with_values
from swarm_iac.model.device import WHOLE, Device, gpu, instance
from swarm_iac.model.gpus.mig import SLICES, profiles_of
from swarm_iac.model.resources.table import COUNTED
from swarm_iac.model.state import (
    AllocationState,
    BandwidthState,
    Declared,
    Desired,
    DirectoryState,
    Facts,
    GpuFacts,
    GpuState,
    Handover,
    LedgerHead,
    NodeState,
    Observed,
    SettingsState,
    SliceState,
    UnitState,
)
from swarm_iac.model.step import Verb
from swarm_iac.plan.state import cpulist

NODES = ("n1", "n2", "n3")
RACKS = {"n1": "r1", "n2": "r1", "n3": ""}
GPUS, CPUS, MEMORY, DISK, WIRE = 3, 6, 100, 100, 500
NUMA = {0: "0-2", 1: "3-5"}
HANDOVER: dict[str, Handover] = {
    "train-0": "stop-first", "train-1": "stop-first", "chat-0": "healthy-first", "chat-1": "healthy-first",
    "chat-2": "healthy-first", "code-0": "healthy-first", "web-0": "one-by-one", "web-1": "one-by-one",
    "gang-0": "together", "gang-1": "together",
}  # fmt: skip
#: Parts of a GPU, in thousandths, so that two or three of them fill a card.
PARTS = (300, 500, 700)
#: So much memory has a card, and so it may be cut.
CARD_MEMORY = 80 * 10**9
PROFILES = profiles_of("H100", CARD_MEMORY)
CARDS = tuple(
    GpuFacts(index=index, pci=f"0{index}", uuid=f"u{index}", model="H100", memory=CARD_MEMORY) for index in range(GPUS)
)
FACTS = Facts(memory=MEMORY, cpus=CPUS, gpus=CARDS, disks={"/dev/vdb": DISK}, interfaces={"eth1": WIRE}, numa=NUMA)
#: What is declared of n2, which has more, as of n3; of n1 nothing is.
DECLARED = Declared(gpus=GPUS, gpu_model="H100", cpus=CPUS, memory=MEMORY, numa=len(NUMA))
MORE = {"n2": 64}
#: Counted resources that `allocation` has no word for: they are drawn as disks are.
OTHERS = {
    row.name: next(iter(how.at)) for row, how in COUNTED if row.name not in ("memory", "storage", "egress", "ingress")
}  # fmt: skip
#: What one allocation may ask for, so that two or three of them fill a node.
SIZES = (1, 20, 33, 50)


def allocation(
    name: str,
    gpus: tuple[int | Device, ...],
    cpus: tuple[int, ...],
    memory: int,
    command: str = "x",
    *,
    disk: int = 0,
    out: int = 0,
    mems: str = "",
) -> AllocationState:
    """One allocation; its shared cores are filled in by `node`."""
    return AllocationState(
        workload=name.rpartition("-")[0],
        gpus=gpus,
        slice=SliceState(cpus=cpulist.write(cpus), mems=mems, cpu_quota_m=None if cpus else 1000, memory_max=memory),
        scratch=DirectoryState(quota=disk, owner="ada") if disk else None,
        bandwidth=BandwidthState(out_bps=out or None, in_bps=WIRE - out if out else None),
        unit=UnitState(user="ada", command=command),
    )


def node(allocations: Mapping[str, AllocationState], swappiness: str = "10", power: int = 300) -> NodeState:
    """A node whose sharing allocations have the cores that nobody pins."""
    pinned = {cpu for one in allocations.values() for cpu in cpulist.read(one.slice.cpus)}
    shared = cpulist.write(set(range(CPUS)) - pinned)
    filled = {
        name: one if one.slice.cpus else one.model_copy(update={"slice": one.slice.model_copy(update={"cpus": shared})})
        for name, one in sorted(allocations.items())
    }
    # Who has a card alone may set it; of one that is shared the settings are the node's.
    gpus = {gpu: GpuState(power_w=power) for gpu in range(GPUS)}
    gpus |= {gpu: GpuState(power_w=400) for name, one in filled.items() if name.endswith("0") for gpu in _own(one)}
    return NodeState(
        settings=SettingsState(sysctl={"vm.swappiness": swappiness}), gpus=gpus,
        interface="eth1", interface_bps=WIRE, disk="/dev/vdb", allocations=filled,
    )  # fmt: skip


def _own(one: AllocationState) -> list[int]:
    return [gpu.index for gpu in one.gpus if gpu.whole]


def observed(states: Mapping[str, NodeState], health: Mapping[str, str] | None = None) -> dict[str, Observed]:
    head = LedgerHead(lineage="l", serial=1, fleet="f")
    return {
        name: Observed(
            node=name, ledger=head, state=state,
            facts=FACTS.model_copy(update={"memory": MEMORY + MORE.get(name, 0)}),
            health={one: told for one, told in (health or {}).items() if one in state.allocations},
        )
        for name, state in states.items()
    }  # fmt: skip


def desired(states: Mapping[str, NodeState], before: Mapping[str, NodeState] | None = None) -> dict[str, Desired]:
    """What is wanted; the budget of a rack, and of n1, is just enough for what it is and what it becomes."""
    budget = {rack: max(_watts(states, rack), _watts(before or {}, rack)) for rack in RACKS.values()}
    return {
        name: Desired(
            node=name, address="local", fleet="f", state=state, rack=RACKS.get(name, ""),
            rack_power_w=budget[RACKS[name]] if name in RACKS else 0,
            power_w=max(_own_watts(state), _own_watts((before or {}).get(name, NodeState()))) if name == "n1" else 0, hardware=None if name == "n1" else DECLARED,
            handover={one: HANDOVER[one] for one in state.allocations},
        )
        for name, state in states.items()
    }  # fmt: skip


def _watts(states: Mapping[str, NodeState], rack: str) -> int:
    return sum(gpu.power_w or 0 for name, state in states.items() if RACKS.get(name) == rack for gpu in state.gpus.values())


def _own_watts(state: NodeState) -> int:
    return sum(gpu.power_w or 0 for gpu in state.gpus.values())


@dataclass
class _Card:
    """What nobody has of a card: thousandths, and if it is cut the slices of its memory."""

    room: int = WHOLE
    slices: set[int] = field(default_factory=lambda: set(range(SLICES)))

    def take(self, device: Device) -> None:
        self.room = 0 if device.profile else self.room - device.part  # of a card that is cut nobody has a part
        self.slices -= set(device.slices)


@st.composite
def _gpus(draw: st.DrawFn, left: dict[int, _Card]) -> tuple[Device, ...]:
    """Up to two whole cards, the first or the last of those that nobody has, a part of any that has as much left, or up to two
    MIG instances.
    """
    part = draw(st.sampled_from([WHOLE, WHOLE, WHOLE, *PARTS, *PROFILES]))
    count = draw(st.integers(0, 2)) if part == WHOLE or part in PROFILES else 1
    if isinstance(part, str):
        its = PROFILES[part]
        found = [instance(card, part, start, its.size, its.of) for card in left for start in its.starts]
    else:
        found = [gpu(card, part) for card, one in left.items() if one.room >= part]
    if draw(st.booleans()):
        found.reverse()
    taken: dict[int, set[int]] = {}
    mine = []
    for device in found:
        one, also = left[device.index], taken.setdefault(device.index, set())
        if len(mine) < count and (not device.profile or set(device.slices) <= one.slices - also):
            also.update(device.slices)
            mine.append(device)
    return tuple(sorted(mine))


@st.composite
def ceilings(draw: st.DrawFn, one: AllocationState) -> dict[str, int | None]:
    """What it may use beyond its bandwidth, each way: nothing, a little, or all that there is."""
    rates = {how.ceiling: how.amount(one) for _, how in COUNTED if how.ceiling}
    drawn = {path: draw(st.sampled_from([None, rate + 8, WIRE])) for path, rate in rates.items()}
    return {path: most if most and most > rates[path] else None for path, most in drawn.items()}


@st.composite
def states(draw: st.DrawFn) -> dict[str, NodeState]:
    """Any feasible state: each allocation somewhere or nowhere, a gang whole or not at all; one CPU is never pinned."""
    free = {name: {card: _Card() for card in range(GPUS)} for name in NODES}
    cores = {name: set(range(1, CPUS)) for name in NODES}
    empty = NodeState(interface_bps=WIRE, disk="/dev/vdb")
    left = {name: {row.name: how.has(FACTS, empty, empty, DECLARED) for row, how in COUNTED if how.has} for name in NODES}
    rates = {name: [100, 400] for name in NODES}
    halves = {name: {"0": MEMORY // 2, "1": MEMORY // 2} for name in NODES}
    found: dict[str, dict[str, AllocationState]] = {name: {} for name in NODES}
    gang = draw(st.booleans())
    for name in draw(st.permutations(sorted(HANDOVER))):
        home = draw(st.sampled_from(NODES if name.startswith("gang") else (*NODES, "")))
        if not home or (name.startswith("gang") and not gang):
            continue
        gpus = draw(_gpus(free[home]))
        pins = draw(st.sampled_from([(), (), tuple(sorted(cores[home]))[:1], tuple(sorted(cores[home]))[-2:]]))
        sizes = {}
        for what in (row.name for row, how in COUNTED if how.step is not Verb.TRAFFIC):
            least = 1 if what == "memory" else 0
            later = len(HANDOVER) if what == "memory" else 0
            fits = [size for size in (least, *SIZES) if size <= left[home][what] - later]
            sizes[what] = draw(st.sampled_from(fits)) if fits else least
            left[home][what] -= sizes[what]
        out = draw(st.sampled_from([0, *rates[home]]))
        rates[home] = [rate for rate in rates[home] if rate != out]
        command = draw(st.sampled_from("xxxxy"))
        mems = draw(st.sampled_from(["", "0-1", *(half for half in "01" if sizes["memory"] <= halves[home][half])]))
        if mems in halves[home]:
            halves[home][mems] -= sizes["memory"]
        for one in gpus:
            free[home][one.index].take(one)
        cores[home] -= set(pins)
        one = allocation(name, tuple(gpus), pins, sizes["memory"], command, disk=sizes["storage"], out=out, mems=mems)
        one = with_values(one, {path: sizes[row] for row, path in OTHERS.items()})
        found[home][name] = with_values(one, draw(ceilings(one))) if out else one
    return {
        name: node(each, draw(st.sampled_from(["1", "60"])), draw(st.sampled_from([200, 300, 500])))
        for name, each in found.items()
    }
