"""On one node, who takes what another has to give first?

GPUs and pinned cores have one owner at a time; memory is counted. What an allocation holds is what its slice holds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from swarm_iac.model.state import AllocationState
from swarm_iac.plan import cpulist

Allocations = Mapping[str, AllocationState]


@dataclass(frozen=True)
class Hold:
    """What one allocation holds. `memory` in bytes; `pinned`: its cores are its own."""

    gpus: frozenset[int] = frozenset()
    cpus: frozenset[int] = frozenset()
    pinned: bool = False
    memory: int = 0


def hold(state: AllocationState | None) -> Hold:
    """What `state` holds. Pinned is who names cores and has no quota (see plan.desired)."""
    if state is None:
        return Hold()
    return Hold(
        gpus=frozenset(state.gpus),
        cpus=cpulist.read(state.slice.cpus),
        pinned=bool(state.slice.cpus) and state.slice.cpu_quota_m is None,
        memory=state.slice.memory_max or 0,
    )


def waits(old: Allocations, new: Allocations, capacity: int, late: frozenset[str]) -> dict[str, set[str]]:
    """For each allocation in `new`: those in `old` that must give before it may take.

    `capacity` is the node's memory in bytes, 0 when unknown. `late` are those that give only after others elsewhere are
    healthy, so memory is asked of them last.
    """
    before = {name: hold(state) for name, state in old.items()}
    after = {name: hold(state) for name, state in new.items()}
    found: dict[str, set[str]] = {name: set() for name in new}
    gpu_of = {gpu: name for name, each in before.items() for gpu in each.gpus}
    for name, wanted in after.items():
        found[name] = {gpu_of[gpu] for gpu in wanted.gpus if gpu_of.get(gpu, name) != name}
    _wait_for_cores(before, after, found)
    _wait_for_memory(before, after, found, capacity, late)
    return {name: givers for name, givers in found.items() if givers}


def _wait_for_cores(before: Mapping[str, Hold], after: Mapping[str, Hold], found: dict[str, set[str]]) -> None:
    """∀ t ∈ after, g ∈ before, g ≠ t: cpus'(t) ∩ cpus(g) ≠ ∅ ∧ (pinned'(t) ∨ pinned(g)) ⇒ t waits for g"""
    pins = {name for name, each in after.items() if each.pinned}
    pinned = {name for name, each in before.items() if each.pinned}
    for name, wanted in after.items():
        for giver in before if name in pins else pinned:
            if giver != name and wanted.cpus & before[giver].cpus:
                found[name].add(giver)


def _wait_for_memory(
    before: Mapping[str, Hold], after: Mapping[str, Hold], found: dict[str, set[str]], capacity: int, late: frozenset[str]
) -> None:
    """Takers are served in order; the i-th waits for the least first givers G with  free + Σ_G given ≥ Σ_{j≤i} taken.

    Because the i-th waits for no less than the ones before it, no order of what is left exceeds the capacity.
    """
    used = sum(each.memory for each in before.values())
    free = max(capacity, used, sum(each.memory for each in after.values())) - used
    empty = Hold()
    gives = {name: each.memory - after.get(name, empty).memory for name, each in before.items()}
    takes = {name: each.memory - before.get(name, empty).memory for name, each in after.items()}
    givers = sorted((name for name, amount in gives.items() if amount > 0), key=lambda name: (name in late, name))
    asked: list[str] = []
    for name in sorted((name for name, amount in takes.items() if amount > 0), key=lambda name: (bool(found[name]), name)):
        free -= takes[name]
        while free < 0 and len(asked) < len(givers):
            free += gives[givers[len(asked)]]
            asked.append(givers[len(asked)])
        found[name].update(asked)


def kept(old: AllocationState, new: AllocationState) -> AllocationState:
    """What an allocation keeps while others take what it gives: the lesser of old and new in everything it holds.

    A cpuset cannot be empty (that means all), so with no core in common the new list stands; whoever calls this has
    stopped the allocation then.
    """
    common = cpulist.read(old.slice.cpus) & cpulist.read(new.slice.cpus)
    ceiling = [each for each in (old.slice.memory_max, new.slice.memory_max) if each is not None]
    high = [each for each in (old.slice.memory_high, new.slice.memory_high) if each is not None]
    return old.model_copy(
        update={
            "gpus": tuple(gpu for gpu in old.gpus if gpu in new.gpus),
            "slice": old.slice.model_copy(
                update={
                    "cpus": cpulist.write(common) or new.slice.cpus,
                    # A quota marks who shares: to have cores alone is a thing to give as well.
                    "cpu_quota_m": new.slice.cpu_quota_m if old.slice.cpu_quota_m is None else old.slice.cpu_quota_m,
                    "memory_max": min(ceiling, default=None),
                    "memory_high": min(high, default=None),
                }
            ),
        }
    )


def no_core_in_common(old: AllocationState, new: AllocationState) -> bool:
    """Is there no core on which it could stay while it changes?"""
    before, after = cpulist.read(old.slice.cpus), cpulist.read(new.slice.cpus)
    return bool(before and after) and not before & after
