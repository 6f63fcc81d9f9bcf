"""Does the memory of each NUMA node suffice, and is everyone bound to where its devices are?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from swarm_iac.limits.index import PlacementIndex, Violation
from swarm_iac.model.hardware import numa_part
from swarm_iac.model.placement import Allocation
from swarm_iac.units import Bytes

Parts = frozenset[int]


def memory_fits_numa(placed: PlacementIndex) -> Iterator[Violation]:
    """For every node n and set S of its NUMA nodes:  Σ_{a∈n: ∅ ≠ numa_a ⊆ S} memory_a ≤ Σ_{j∈S} memory_n,j   [bytes]

    By Hall's theorem all memory has a place exactly then. Who is bound nowhere may lie anywhere.
    """
    for node, ones in placed.by_node.items():
        hardware = placed.stack.hardware_of(node)
        if hardware.numa == 1:
            continue
        sizes = [len(numa_part(int(hardware.memory), hardware.numa, j)) for j in range(hardware.numa)]
        bound: Counter[Parts] = Counter()
        for one in ones:
            if one.numa:
                bound[frozenset(one.numa)] += int.__int__(one.memory)
        if bound.total() <= min(sizes):
            continue
        for parts in _unions(bound):
            used = sum(size for numa, size in bound.items() if numa <= parts)
            has = sum(sizes[j] for j in parts if j < hardware.numa)
            if used > has and len(parts) < hardware.numa:
                which = f"NUMA node{'s' * (len(parts) > 1)} {', '.join(map(str, sorted(parts)))}"
                text = f"{Bytes(used)} of memory is bound to {which} of {node}, which ha{_s(parts)} {Bytes(has)}"
                path = f"hardware.{placed.stack.nodes[node].hardware}.memory"
                yield Violation(rule="memory_fits_numa", text=text, subject=node, path=path)
                break


def numa_covers_devices(placed: PlacementIndex) -> Iterator[Violation]:
    """For every a ∉ kept with numa_a ≠ ∅:  the NUMA nodes of gpus_a and cpus_a are in numa_a

    Who runs keeps what it has: it is as fast as it was, and its memory is counted.
    """
    for one in placed.known:
        hardware = placed.stack.hardware_of(one.node)
        if not one.numa or one.name in placed.kept or max(one.numa) >= hardware.numa:
            continue
        missing = _homes(one, int(hardware.vcpus) // 1000, hardware.gpus.count, hardware.numa) - {*one.numa}
        if missing:
            names = ", ".join(map(str, one.numa))
            text = f"{one.name} has devices on NUMA node {min(missing)} of {one.node}, and is bound to {names}"
            yield Violation(rule="numa_covers_devices", text=text, subject=one.name, path=f"workloads.{one.workload}.each")


def replicas_are_on_one_numa_node(placed: PlacementIndex) -> Iterator[Violation]:
    """For every a ∉ kept of w with numa = single:  |{NUMA nodes of gpus_a and cpus_a} ∪ numa_a| ≤ 1

    Who ran there before it was asked for stays as it is: nobody is stopped for it.
    """
    for one in placed.known:
        if placed.stack.workloads[one.workload].place.numa is None or one.name in placed.kept:
            continue
        hardware = placed.stack.hardware_of(one.node)
        found = _homes(one, int(hardware.vcpus) // 1000, hardware.gpus.count, hardware.numa) | {*one.numa}
        if len(found) > 1 and (one.gpus or one.cpus):
            text = f"{one.name} is on NUMA nodes {', '.join(map(str, sorted(found)))} of {one.node}, and it is to be on one"
            path = f"workloads.{one.workload}.place.numa"
            yield Violation(rule="replicas_are_on_one_numa_node", text=text, subject=one.name, path=path)


def _homes(one: Allocation, cores: int, gpus: int, numa: int) -> set[int]:
    """The NUMA nodes of its GPUs and pinned cores."""
    return {
        j
        for j in range(numa)
        if any(gpu in numa_part(gpus, numa, j) for gpu in one.cards)
        or any(cpu in numa_part(cores, numa, j) for cpu in one.cpus)
    }


def _unions(bound: Iterable[Parts]) -> list[Parts]:
    """All unions of bound sets that overlap: of others each part is looked at by itself. The smallest first."""
    sets = list(bound)
    known = set(sets)
    todo = list(sets)
    while todo:
        union = todo.pop()
        for other in sets:
            wider = union | other
            if union & other and wider not in known:
                known.add(wider)
                todo.append(wider)
    return sorted(known, key=lambda parts: (len(parts), sorted(parts)))


def _s(parts: Parts) -> str:
    return "ve" if len(parts) > 1 else "s"
