"""On one node, who takes what another has to give first?

Pinned cores have one owner at a time, and each GPU is counted in thousandths. Any other resource that nodes enforce is counted
in its unit; its row in `model/resources` says which step takes and gives it. Memory is counted for the whole node and for the
NUMA nodes that it is bound to, of what is declared of it: what a machine has beyond that is its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from swarm_iac.model.base import with_values
from swarm_iac.model.device import WHOLE, Device
from swarm_iac.model.gpus.mig import SLICES
from swarm_iac.model.hardware import numa_part
from swarm_iac.model.resources.table import COUNTED, ENFORCED
from swarm_iac.model.state import AllocationState, Declared, NodeState, Observed
from swarm_iac.model.step import Verb
from swarm_iac.plan.state import cpulist
from swarm_iac.plan.state.numa_sets import unions

Allocations = Mapping[str, AllocationState]
#: One device of a node: its kind and its number. Where any of a node's GPUs is cut, the eighths of each are counted one by one,
#: and their number comes last.
At = tuple[str, int] | tuple[str, int, int]
#: For each allocation that takes: those that must give before it may.
Waits = dict[str, set[str]]
#: The steps that take something.
TAKING = tuple(dict.fromkeys(how.step for _, how in ENFORCED))

#: The steps that can be two: an allocation gives with the first, and takes with the second.
SPLIT = (Verb.SLICE, Verb.TRAFFIC)


@dataclass(frozen=True)
class Hold:
    """What one allocation holds. `amounts`: of each counted resource, by name; `pinned`: its cores are its own.

    `devices`: of each device how much, in thousandths. `mems`: the NUMA nodes that its memory is bound to; none: all.
    """

    devices: Mapping[At, int] = field(default_factory=dict)
    cpus: frozenset[int] = frozenset()
    pinned: bool = False
    amounts: Mapping[str, int] = field(default_factory=dict)
    mems: frozenset[int] = frozenset()

    def amount(self, name: str) -> int:
        """How much of one counted resource."""
        return self.amounts.get(name, 0)

    def bound(self, parts: frozenset[int]) -> int:
        """Its memory that can lie on these NUMA nodes only. [bytes]"""
        return self.amount("memory") if self.mems and self.mems <= parts else 0

    def without_slice(self) -> Hold:
        """The same, as long as its slice is not made. Its devices are its own already."""
        rest = {row.name: self.amount(row.name) for row, how in COUNTED if how.step is not Verb.SLICE}
        return replace(self, cpus=frozenset(), pinned=False, amounts=rest)


@dataclass(frozen=True)
class Schedule:
    """When each allocation on a node takes and gives, where that is settled; the lesser first, what is not named at 0."""

    takes: Mapping[str, float] = field(default_factory=dict)
    gives: Mapping[str, float] = field(default_factory=dict)


def hold(state: AllocationState | None) -> Hold:
    """What `state` holds. Pinned is who names cores and has no quota (see plan.desired)."""
    if state is None:
        return Hold()
    return Hold(
        devices={at: part for one in state.gpus for at, part in _held(one)},
        cpus=cpulist.read(state.slice.cpus),
        pinned=bool(state.slice.cpus) and state.slice.cpu_quota_m is None,
        amounts={row.name: how.amount(state) for row, how in COUNTED},
        mems=cpulist.read(state.slice.mems),
    )


def _held(device: Device) -> Iterable[tuple[At, int]]:
    """Of a device how much; of a MIG instance all of its eighths."""
    return [((*device.at, eighth), WHOLE) for eighth in device.slices] if device.profile else [(device.at, device.part)]


def levelled(holds: Mapping[str, Hold]) -> Mapping[str, Hold]:
    """The same, with every device in eighths where any is: who has all of a card, or a part, has as much of each of them."""
    if all(len(at) == 2 for each in holds.values() for at in each.devices):
        return holds
    return {name: replace(each, devices=_in_eighths(each.devices)) for name, each in holds.items()}


def _in_eighths(devices: Mapping[At, int]) -> dict[At, int]:
    found: dict[At, int] = {}
    for at, part in devices.items():
        found |= {at: part} if len(at) == 3 else {(*at, eighth): part for eighth in range(SLICES)}
    return found


def capacity(seen: Observed, old: NodeState, new: NodeState, declared: Declared | None) -> dict[str, int]:
    """What the node has to give of each counted resource, 0 where nobody knows; and how many NUMA nodes, as `numa`."""
    return {row.name: how.has(seen.facts, old, new, declared) for row, how in COUNTED if how.has} | {
        "numa": len(seen.facts.numa)
    }


def numa_parts(holds: Iterable[Hold], has: Mapping[str, int]) -> dict[frozenset[int], int]:
    """Bytes of each set of NUMA nodes, fewer than all, whose memory has to be counted: unions of bound ones that overlap."""
    count = has.get("numa", 0)
    bound = {each.mems for each in holds if each.mems and each.amount("memory") and max(each.mems) < count}
    sizes = [len(numa_part(has["memory"], count, part)) for part in range(count)]
    return {
        parts: sum(sizes[part] for part in parts)
        for parts in sorted(unions(bound), key=lambda parts: (len(parts), sorted(parts)))
        if len(parts) < count
    }


def fits(wanted: Hold, others: Iterable[Hold], limits: Mapping[str, int]) -> bool:
    """Does `wanted` fit beside all others on a node?"""
    every = levelled({"": wanted, **{str(i): each for i, each in enumerate(others)}})
    wanted, others = every[""], [each for name, each in every.items() if name]
    if any(part + sum(each.devices.get(at, 0) for each in others) > WHOLE for at, part in wanted.devices.items()):
        return False
    if any(wanted.cpus & each.cpus and (wanted.pinned or each.pinned) for each in others):
        return False
    for parts, size in numa_parts([wanted, *others], has=limits).items() if wanted.mems else ():
        if wanted.mems <= parts and wanted.amount("memory") + sum(each.bound(parts) for each in others) > size:
            return False
    return all(
        not amount or amount + sum(each.amount(name) for each in others) <= limits[name]
        for name, amount in wanted.amounts.items()
    )


def waits(old: Allocations, new: Allocations, has: Mapping[str, int], schedule: Schedule) -> dict[Verb, Waits]:
    """By the step that takes: for each allocation in `new`, those in `old` that must give before it. `has`: see capacity."""
    both = levelled(
        {f"old {name}": hold(state) for name, state in old.items()}
        | {f"new {name}": hold(state) for name, state in new.items()}
    )
    before, after = {name: both[f"old {name}"] for name in old}, {name: both[f"new {name}"] for name in new}
    found: dict[Verb, Waits] = {verb: {name: set() for name in new} for verb in TAKING}
    for at in sorted({at for each in after.values() for at in each.devices}):
        held, wanted_ = ({name: each.devices.get(at, 0) for name, each in ones.items()} for ones in (before, after))
        for name, givers in counted(held, wanted_, WHOLE, schedule, found[Verb.SLICE], firm=True).items():
            found[Verb.SLICE][name] |= givers
    _wait_for_cores(before, after, found[Verb.SLICE])
    for row, how in COUNTED:
        held, wanted_ = ({name: each.amount(row.name) for name, each in ones.items()} for ones in (before, after))
        for name, givers in counted(held, wanted_, has.get(row.name, 0), schedule, found[how.step]).items():
            found[how.step][name] |= givers
    for parts, size in numa_parts([*before.values(), *after.values()], has).items():
        held, wanted_ = ({name: each.bound(parts) for name, each in ones.items()} for ones in (before, after))
        for name, givers in counted(held, wanted_, size, schedule, found[Verb.SLICE]).items():
            found[Verb.SLICE][name] |= givers
    return {verb: {name: givers for name, givers in each.items() if givers} for verb, each in found.items()}


def _wait_for_cores(before: Mapping[str, Hold], after: Mapping[str, Hold], found: Waits) -> None:
    """∀ t ∈ after, g ∈ before, g ≠ t: cpus'(t) ∩ cpus(g) ≠ ∅ ∧ (pinned'(t) ∨ pinned(g)) ⇒ t waits for g"""
    pins = {name for name, each in after.items() if each.pinned}
    pinned = {name for name, each in before.items() if each.pinned}
    for name, wanted in after.items():
        for giver in before if name in pins else pinned:
            if giver != name and wanted.cpus & before[giver].cpus:
                found[name].add(giver)


def counted(
    before: Mapping[str, int],
    after: Mapping[str, int],
    limit: int,
    schedule: Schedule,
    busy: Mapping[str, Iterable[str]],
    *,
    firm: bool = False,
) -> Waits:
    """Takers are served in order; the i-th waits for the least first givers G with  free + Σ_G given ≥ Σ_{j≤i} taken.

    Because the i-th waits for no less than the ones before it, no order of what is left exceeds the limit (0: unknown).
    A limit that is exceeded before or after counts as what is held then, unless it is `firm`. Who is `busy` waiting for
    others anyway is served last, unless `turn` says otherwise.
    """
    used = sum(before.values())
    free = (limit if firm else max(limit, used, sum(after.values()))) - used
    takes = {name: amount - before.get(name, 0) for name, amount in after.items() if amount > before.get(name, 0)}
    gives = {name: amount - after.get(name, 0) for name, amount in before.items() if amount > after.get(name, 0)}
    givers = sorted(gives, key=lambda name: (schedule.gives.get(name, 0), name))
    found: Waits = {}
    asked: list[str] = []
    for name in sorted(takes, key=lambda name: (schedule.takes.get(name, 0), bool(busy.get(name)), name)):
        free -= takes[name]
        while free < 0 and len(asked) < len(givers):
            free += gives[givers[len(asked)]]
            asked.append(givers[len(asked)])
        found[name] = set(asked)
    return found


def split(asking: Mapping[Verb, Waits], old: Allocations) -> dict[Verb, frozenset[str]]:
    """By step: allocations that stay and must give before they take, since others wait for them while they wait for others.

    Its traffic is shaped after its slice is made, and waits for whom that waits for. A disk is one number, of which nobody
    both gives and takes.
    """
    found = {}
    waiting: set[str] = set()
    for verb in SPLIT:
        waiting |= asking.get(verb, {}).keys()
        asked = {giver for givers in asking.get(verb, {}).values() for giver in givers}
        found[verb] = frozenset(name for name in waiting & asked if name in old)
    return found


def kept(old: AllocationState, new: AllocationState, verb: Verb | None = None) -> AllocationState:
    """What an allocation keeps while others take what it gives: the lesser of old and new in everything it holds.

    `verb`: only what that step takes. A cpuset cannot be empty (that means all), so with no core in common the new list
    stands; the caller has stopped the allocation then.
    """
    values: dict[str, Any] = {}
    for _, how in COUNTED:
        values |= how.lesser(old, new) if verb in (None, how.step) else {}
    if verb in (None, Verb.SLICE):
        common = cpulist.read(old.slice.cpus) & cpulist.read(new.slice.cpus)
        values |= {
            "gpus": _common(old.gpus, new.gpus),
            "slice.cpus": cpulist.write(common) or new.slice.cpus,
            # A quota marks who shares: to have cores alone is a thing to give as well.
            "slice.cpu_quota_m": new.slice.cpu_quota_m if old.slice.cpu_quota_m is None else old.slice.cpu_quota_m,
            # What can lie on more NUMA nodes holds less of each.
            "slice.mems": wider_mems(old, new),
        }
    return with_values(old, values)


def _common(old: Iterable[Device], new: Iterable[Device]) -> tuple[Device, ...]:
    """The lesser part of each device that is in both. A MIG instance is in both only where it is the same."""
    every = set(new)
    after = {one.at: one for one in every if not one.profile}
    return tuple(
        one if one.profile else min(one, after[one.at]) for one in old if (one in every if one.profile else one.at in after)
    )


def wider_mems(old: AllocationState, new: AllocationState) -> str:
    """The NUMA nodes of both, as a list; empty (all) where one of them is bound to none."""
    before, after = cpulist.read(old.slice.mems), cpulist.read(new.slice.mems)
    return cpulist.write(before | after) if before and after else ""


def no_core_in_common(old: AllocationState, new: AllocationState) -> bool:
    """Is there no core on which it could stay while it changes?"""
    before, after = cpulist.read(old.slice.cpus), cpulist.read(new.slice.cpus)
    return bool(before and after) and not before & after
