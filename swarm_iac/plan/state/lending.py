"""How much of a node's memory that is guaranteed to nobody does each allocation with a range get?

What is lent is never more than what is free: the sum of `memory.max` on a node stays within its memory, for all of it and for
the NUMA nodes that memory is bound to. So each has what it was lent whatever others do, and nobody has to be killed for it:
memory that a process has written cannot be taken back from it unless it lets go.

It is shared in proportion to the guarantees, each up to its upper end (max-min fairness with weights, by progressive filling;
D. Bertsekas, R. Gallager: Data Networks, 6.5.2).

Where that is less than all of them may use, their node moves it between them by use, within the same sum
(`concerns/loans.py` of the node program): `reach` says who takes part, and how far.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction

from swarm_iac.model.hardware import Hardware, numa_part
from swarm_iac.model.placement import Allocation
from swarm_iac.model.resources.row import PAGE
from swarm_iac.model.resources.table import RESOURCES
from swarm_iac.model.state import AllocationState
from swarm_iac.model.workload import Workload
from swarm_iac.plan.state.numa_sets import unions

#: Share of memory.max above which the kernel slows an allocation down, so that it feels the ceiling before it is killed. [%]
HIGH = 95
#: The same where the node may raise memory.max: it has the more time for it. [%]
REACHING = 90
#: The keys of a slice that `limits` gives.
MEMORY = frozenset({"memory_low", "memory_high", "memory_max", "memory_most"})


def high(most: int, share: int = HIGH) -> int:
    """memory.high of a memory.max. [bytes]"""
    return most * share // 100 // PAGE * PAGE


def limits(held: int, most: int, reach: int | None = None) -> dict[str, int | None]:
    """The limits of a slice on a node where memory is lent: what is guaranteed to it, all that it may use, and up to where its
    node may raise that. [bytes]

    `memory.low` and not `memory.min`: where a machine is short of memory nonetheless, its kernel then takes from a guarantee
    what can be read again, and kills nobody for it. Who borrows is not slowed down within its guarantee.
    """
    slowed = high(most, HIGH if reach is None else REACHING)
    return {
        "memory_low": held,
        "memory_high": max(slowed, held) if most > held else slowed,
        "memory_max": most,
        "memory_most": reach,
    }


def without(state: AllocationState, most: int = 0) -> AllocationState:
    """The same without what it was lent; `most`: what it may keep of it with its guarantee. [bytes]"""
    own = state.slice
    if own.memory_low is None or own.memory_max is None or own.memory_max <= max(own.memory_low, most):
        return state
    less = limits(own.memory_low, max(own.memory_low, most))
    return state.model_copy(update={"slice": own.model_copy(update=less)})


def most(hardware: Hardware, ones: Iterable[Allocation], workloads: Mapping[str, Workload]) -> dict[str, int]:
    """By name of the allocation, memory.max of each that is lent anything. `ones`: all on one node. [bytes, in whole pages]

    For every set S of NUMA nodes:  Σ_{a: numa_a ⊆ S} (guaranteed_a + lent_a) ≤ memory of S
    """
    memory = next(row for row in RESOURCES if row.name == "memory")
    ones = [one for one in ones if memory.held(one)]
    wants = {one.name: memory.may_use(one, workloads[one.workload]) - memory.held(one) for one in ones}
    wants = {name: want for name, want in wants.items() if want}
    if not wants:
        return {}
    size, every = int(hardware.memory), frozenset(range(hardware.numa))
    parts = {one.name: frozenset(one.numa) & every or every for one in ones}
    free = {every: size - sum(map(memory.held, ones))}
    for part in unions({part for part in parts.values() if part != every}):
        inside = sum(len(numa_part(size, hardware.numa, j)) for j in part)
        free[part] = inside - sum(memory.held(one) for one in ones if parts[one.name] <= part)
    weights = {one.name: memory.held(one) for one in ones if one.name in wants}
    found = _filled(wants, weights, [({name for name in wants if parts[name] <= part}, left) for part, left in free.items()])
    return {name: (weights[name] + more) // PAGE * PAGE for name, more in found.items()}


def reach(
    hardware: Hardware, ones: Iterable[Allocation], workloads: Mapping[str, Workload], most: Mapping[str, int]
) -> dict[str, int]:
    """By name of the allocation, up to where its node may raise memory.max. `most`: of the function of that name. [bytes]

    Of those with a range that are bound to the same NUMA nodes, where anything is lent, and one has less than its upper end.
    """
    memory = next(row for row in RESOURCES if row.name == "memory")
    pools: dict[tuple[int, ...], dict[str, int]] = {}
    lent: set[tuple[int, ...]] = set()
    for one in ones:
        end = min(memory.may_use(one, workloads[one.workload]), int(hardware.memory)) // PAGE * PAGE
        if one.name in most and memory.held(one) < end:
            pools.setdefault(tuple(one.numa), {})[one.name] = max(end, most[one.name])
            lent |= {tuple(one.numa)} if most[one.name] > memory.held(one) else set()
    shared = (pool for numa, pool in pools.items() if len(pool) > 1 and numa in lent)
    short = (pool for pool in shared if any(most[name] < end for name, end in pool.items()))
    return {name: end for pool in short for name, end in pool.items()}


def _filled(wants: Mapping[str, int], weights: Mapping[str, int], bounds: list[tuple[set[str], int]]) -> dict[str, int]:
    """What each gets: all rise together, as their weights say, until they have what they want or a bound is reached."""
    found: dict[str, int] = {}
    while left := wants.keys() - found:
        stops = {name: Fraction(wants[name], weights[name]) for name in left}
        for inside, free in bounds:
            rising = inside & left
            if rising:
                rest = max(0, free - sum(found.get(name, 0) for name in inside))
                level = Fraction(rest, sum(weights[name] for name in rising))
                stops |= {name: min(stops[name], level) for name in rising}
        lowest = min(stops.values())
        found |= {name: int(lowest * weights[name]) for name, level in stops.items() if level == lowest}
    return found
