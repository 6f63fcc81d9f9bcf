"""Which new replicas are split over NUMA nodes, and where would they be whole at no cost to what comes first?

Where everything has its place, a new replica whose devices lie on several NUMA nodes goes to another node on which one
NUMA node holds all of it beside what is placed there: none of its like more or fewer, no move, no finer GPU than
before. Nodes in use come after that. What stays is never touched.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from swarm_iac.model.device import whole_gpus
from swarm_iac.model.hardware import numa_part
from swarm_iac.model.placement import Allocation, Goal, Placement
from swarm_iac.solver.explain.conflict import room_of
from swarm_iac.solver.packing.numa_nodes import Memory, parts
from swarm_iac.solver.repair.assembly import assemble
from swarm_iac.solver.repair.greedy import Misfits
from swarm_iac.solver.snapshot.capacity import Room
from swarm_iac.solver.snapshot.layout import CORES, GPUS, MEMORY
from swarm_iac.solver.snapshot.snapshot import Ask, Bin, Scene
from swarm_iac.solver.snapshot.suitability import hindering, suits
from swarm_iac.solver.snapshot.tasks import Pairs, Settled, by_workload

Ones = tuple[Allocation, ...]
#: So many split replicas are tried to be made whole: each looks at every node.
TRIED = 200


def whole(scene: Scene, settled: Settled, counts: Pairs, ones: Ones) -> tuple[Pairs, Ones]:
    """The placement with as many split replicas made whole as one after the other can be; as it is where none can.

    Whoever left may have made room for another, so it is tried again until nobody is made whole.
    """
    before = needless(scene, settled, ones)
    if not before:
        return counts, ones
    other, misfits = counts.copy(), Misfits(scene)
    stand = {node: [a for a in ones if a.node == node] for node in scene.bins}
    room = room_of(scene, Placement(allocations=ones))
    for allocation in sorted(before, key=lambda a: (-len(a.gpus), -len(a.cpus), a.name))[:TRIED]:
        ask, was = scene.asks[allocation.workload], scene.bins[allocation.node]
        if allocation.name in settled.soft or ask.shared:
            continue
        room.take(ask, was, -1)
        cost, out = misfits.of(ask, was), hindering(scene, ask)
        targets = [
            bin_
            for bin_ in scene.bins.values()
            if not out[bin_.name] and bin_ is not was and not room.partial(bin_.name) and misfits.of(ask, bin_) <= cost
            if room.most(ask, bin_) > 0 and _home(scene, ask, bin_, stand[bin_.name]) is not None
        ]  # fmt: skip
        to = min(targets, key=lambda b: (not room.load[b.name], room.free[b.name][GPUS], b.name), default=was)
        room.take(ask, to, 1)
        if to is not was:
            other[ask.name, was.name] -= 1
            other[ask.name, to.name] += 1
            stand[was.name].remove(allocation)
            stand[to.name].append(_moved(scene, ask, to, allocation, stand[to.name]))
    found = assemble(scene, settled, +other)
    better = len(needless(scene, settled, found)) < len(before)
    return whole(scene, settled, +other, found) if better else (counts, ones)


def needless(scene: Scene, settled: Settled, ones: Iterable[Allocation]) -> list[Allocation]:
    """New replicas that are split, though one NUMA node of some node that suits them is large enough for them."""
    known: dict[tuple[object, ...], bool] = {}
    found: list[Allocation] = []
    new = (a for a in ones if _comes(settled, a) and len(a.gpus) + len(a.cpus) > 1)
    split = [a for a in new if scene.stack.hardware_of(a.node).split(a.cards, a.cpus)]
    if not split:
        return found
    # Of nodes that are alike, one stands for all.
    kinds = {(number, scene.stack.nodes[name].hardware): scene.bins[name] for name, number in scene.alike.items()}
    bins, empty = kinds.values(), Room(scene)
    for a in split:
        ask = scene.asks[a.workload]
        like = (ask.need, ask.share, ask.model, ask.gpu_memory, ask.select, ask.single)
        if like not in known:
            out = hindering(scene, ask)
            known[like] = any(not out[b.name] and empty.fits(ask, b) and _home(scene, ask, b, []) is not None for b in bins)
        if known[like]:
            found.append(a)
    return found


def _comes(settled: Settled, a: Allocation) -> bool:
    """Is it new on its node? Who ran there keeps its GPUs, also in another size, wherever they lie."""
    was = settled.soft.get(a.name)
    return a.name not in settled.stay and (was is None or was.node != a.node)


def goal(scene: Scene, settled: Settled, counts: Pairs, ones: Ones, goals: Mapping[str, Goal]) -> Goal:
    """How many of those that one NUMA node could hold are within one, and how many could be, whatever else is decided.

    Who finds no NUMA node beside what stays alone cannot, where all has its place and nobody has to move.
    """
    found = needless(scene, settled, ones)
    placed = by_workload(counts)
    bound = 0
    if all(placed[name] == ask.wanted for name, ask in scene.asks.items()) and not ("moves" in goals and goals["moves"].value):
        stay: dict[str, list[Allocation]] = {node: [] for node in scene.bins}
        for a in settled.stay.values():
            stay[a.node].append(a)
        for name in {a.workload for a in found}:
            ask = scene.asks[name]
            if not any(suits(ask, b) and _home(scene, ask, b, stay[b.name]) is not None for b in scene.bins.values()):
                bound += sum(a.workload == name for a in found)
    many = sum(_comes(settled, a) and len(a.gpus) + len(a.cpus) > 1 for a in ones)
    return Goal(name="within_numa", value=many - len(found), bound=many - bound)


def _moved(scene: Scene, ask: Ask, bin_: Bin, allocation: Allocation, beside: list[Allocation]) -> Allocation:
    """The replica on that node, within one NUMA node of it."""
    home = _home(scene, ask, bin_, beside)
    if home is None:
        raise ValueError(f"no NUMA node of {bin_.name} holds {allocation.name}")
    hardware = scene.stack.hardware_of(bin_.name)
    gpus = [i for i in numa_part(hardware.gpus.count, hardware.numa, home) if all(i not in a.cards for a in beside)]
    cpus = [i for i in numa_part(int(hardware.vcpus) // 1000, hardware.numa, home) if all(i not in a.cpus for a in beside)]
    devices = {"gpus": whole_gpus(gpus[: ask.need[GPUS]]), "cpus": tuple(cpus[: ask.need[CORES]]), "numa": (home,)}
    return allocation.model_copy(update={"node": bin_.name, **devices})


def _home(scene: Scene, ask: Ask, bin_: Bin, ones: list[Allocation]) -> int | None:
    """A NUMA node that holds all of one more replica beside these: the one with the fewest GPUs left."""
    hardware = scene.stack.hardware_of(bin_.name)
    gpus, cpus, memory = {i for a in ones for i in a.cards}, {i for a in ones for i in a.cpus}, Memory(hardware)
    for a in ones:
        memory.bind(a.numa, int(a.memory))
    free = [len({*part} - gpus) for part in parts(hardware.gpus.count, hardware.numa)]
    cores = [len({*part} - cpus) for part in parts(int(hardware.vcpus) // 1000, hardware.numa)]
    fits = [
        j
        for j in range(hardware.numa)
        if free[j] >= ask.need[GPUS] and cores[j] >= ask.need[CORES] and memory.fits((j,), ask.need[MEMORY])
    ]
    return min(fits, key=lambda j: (free[j], j), default=None)
