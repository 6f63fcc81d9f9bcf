"""Does an answer change what could have stayed, or leave out what would fit?

could stay   a replica still wanted, of the same size, on a node that is ready or cordoned and suits it, and in no conflict
             with the others that could stay: no ceiling, rack, spread or within is broken by them all together
needless     seen by putting it back: beside everything that stands in the answer, its old place is still free
missed       seen by putting it somewhere: beside everything that stands, a ready node has room for it
"""

from __future__ import annotations

import datetime
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from swarm_iac.model.placement import Allocation, Placement, Proof
from swarm_iac.model.stack import Stack
from swarm_iac.model.workload import PRIORITIES
from tests.benchmarks.fleets.checker import (
    Finding,
    ceilings,
    gangs,
    held,
    place,
    size,
    size_of,
    still_asked,
    suits,
    together,
    untolerated,
    user_ceilings,
    wanted,
)
from tests.benchmarks.fleets.free import Free

#: Numbers as long as those that a solver has where there is no ceiling.
_ENDLESS = re.compile(r"[0-9]{18,}")


@dataclass(frozen=True)
class Staying:
    """Of what ran: `could` stay for sure, `loose` are in a gang that is not whole, `resized` fit their node still."""

    could: dict[str, Allocation]
    loose: frozenset[str]
    resized: dict[str, Allocation]


def surplus(stack: Stack, last: Placement) -> frozenset[str]:
    """What is wanted no more, of more replicas than that: first who cannot stay, then who is on a cordoned node."""
    found: dict[str, list[tuple[int, int, str]]] = defaultdict(list)
    done = Counter(a.workload for a in still_asked(stack, last).values())
    for a in last.going():
        workload, node = stack.workloads.get(a.workload), stack.nodes.get(a.node)
        if workload is not None:
            good = node is not None and node.state in ("ready", "cordon") and suits(stack, workload, a.node)
            closed = node is not None and good and (node.state == "cordon" or bool(untolerated(stack, workload, a.node)))
            rank = 0 if workload.gang is not None else 2 if not good else int(closed)
            found[a.workload].append((rank, a.index, a.name))
    return frozenset(
        name for of, ones in found.items() for _, _, name in sorted(ones)[wanted(stack.workloads[of]) - done[of] :]
    )


def staying(stack: Stack, last: Placement, today: datetime.date) -> Staying:
    """What may stay of the last placement."""
    could: dict[str, Allocation] = {}
    resized: dict[str, Allocation] = {}
    more = surplus(stack, last)
    for a in last.going():
        workload, node = stack.workloads.get(a.workload), stack.nodes.get(a.node)
        if workload is None or node is None or a.name in could or a.name in more:
            continue
        if a.user in (None, workload.user) and node.state in ("ready", "cordon") and suits(stack, workload, a.node):
            (could if size_of(a) == size(workload) else resized)[a.name] = a
    contested: set[str] = set()
    ends = list(still_asked(stack, last).values())
    ones = [*could.values(), *(a for a in ends if a.node in stack.nodes)]
    for finding in (*together(stack, ones, last), *user_ceilings(stack, ones, last, today)):
        contested |= finding.names
    broken = {could[name].workload for name in contested if name in could}
    firm = {
        name: a
        for name, a in could.items()
        if name not in contested and not (stack.workloads[a.workload].gang is not None and a.workload in broken)
    }
    loose = frozenset(name for finding in gangs(stack, [*firm.values(), *ends]) for name in finding.names)
    return Staying(firm, loose, resized)


def counted_moves(stays: Staying, now: Placement, stack: Stack) -> list[Allocation]:
    """Replicas that could stay and are elsewhere now, or have a part of another GPU."""
    after = now.by_name()
    found = []
    for name, a in stays.could.items():
        if name in stays.loose:
            continue  # its gang loses a member and starts anew
        one = after.get(name)
        part = not stack.workloads[a.workload].each.gpus.whole
        if one is not None and (one.node != a.node or (part and one.gpus != a.gpus)):
            found.append(a)
    return found


def moves_in_budget(stack: Stack, moved: list[Allocation]) -> Iterator[Finding]:
    """Not more than `solve.moves`, and nobody who is not to be moved."""
    for a in moved:
        if not stack.workloads[a.workload].movable:
            yield Finding("movable", f"{a.name} left {a.node}, and it is not movable", frozenset({a.name}))
    if len(moved) > stack.solve.moves:
        names = frozenset(a.name for a in moved)
        yield Finding(
            "moves", f"{len(moved)} replicas that could stay have moved, and solve.moves is {stack.solve.moves}", names
        )


def needless(stack: Stack, last: Placement, now: Placement, today: datetime.date, stays: Staying) -> Iterator[Finding]:
    """Moves, stops and other devices that nothing in the answer has any use for."""
    after = now.by_name()
    free = Free(stack, today, (a for a in now.allocations if a.node in stack.nodes))
    moved, stopped = defaultdict(list), defaultdict(list)
    for name, a in stays.could.items():
        one = after.get(name)
        if one is None:
            stopped[a.workload].append(a)
        elif one.node != a.node:
            moved[a.workload].append(a)
        elif a.name in stays.loose and _mends_links(stack, a, one):
            continue
        elif (one.gpus, one.cpus) != (a.gpus, a.cpus) or not _no_narrower(a, one):
            yield from _devices(stack, free, a, one)
    for name, ones in moved.items():
        for a in _back(free, name, ones, after):
            if _followed(stack, last, now, after[a.name]):
                continue
            yield Finding("needless move", f"{a.name} left {a.node}, where its place is free", frozenset({a.name}))
    for name, ones in stopped.items():
        yield from _stops(stack, last, now, free, today, stays, name, ones)
    for name, a in stays.resized.items():
        yield from _shifts(stack, free, a, after.get(name))


def _mends_links(stack: Stack, a: Allocation, one: Allocation) -> bool:
    """Are its GPUs linked now, as `links: required` asks, and were not? Who restarts in any case keeps the rule from then on."""
    hardware = stack.hardware_of(a.node)
    required = stack.workloads[a.workload].place.links == "required"
    return required and not hardware.linked(a.cards) and hardware.linked(one.cards)


def _no_narrower(a: Allocation, one: Allocation) -> bool:
    """Is it bound to the same NUMA nodes (none: to all), or to more, as memory may need?"""
    return not one.numa if not a.numa else not one.numa or {*a.numa} <= {*one.numa}


def _devices(stack: Stack, free: Free, a: Allocation, one: Allocation) -> Iterator[Finding]:
    part = not stack.workloads[a.workload].each.gpus.whole
    free.take(one, -1)
    if not part or free.could_have(a, a.node):
        text = f"{a.name} stays on {a.node} with other devices: {_of(a)}, then {_of(one)}"
        yield Finding("needless device change", text, frozenset({a.name}))
    free.take(one, 1)


def _of(a: Allocation) -> str:
    return f"gpus {list(a.cards)} cpus {list(a.cpus)} numa {list(a.numa)}"


def _followed(stack: Stack, last: Placement, now: Placement, one: Allocation) -> bool:
    """Is something new near a replica that moved, which is to be only with it?"""
    ran = {a.name: a.node for a in last.going()}
    return any(
        one.workload in others and ran.get(a.name) != a.node and place(stack, a.node, kind) == place(stack, one.node, kind)
        for a in now.allocations
        for kind, others in stack.workloads[a.workload].place.only_with.items()
    )


def _back(free: Free, name: str, ones: list[Allocation], after: dict[str, Allocation]) -> list[Allocation]:
    """Those that fit back where they stood: each alone, or else all of the workload together."""
    found: list[Allocation] = []
    for group in [[a] for a in ones] + ([ones] if len(ones) > 1 else []):
        if len(group) > 1 and found:
            break
        now = [after[a.name] for a in group]
        for one in now:
            free.take(one, -1)
        put = []
        for a in group:
            if _home(free, a):
                free.take(a, 1)
                put.append(a)
        if len(put) == len(group):
            found += group
        for a in put:
            free.take(a, -1)
        for one in now:
            free.take(one, 1)
    return found


def _home(free: Free, a: Allocation) -> bool:
    """Is the old place of an allocation free, and do the limits on the node's GPU model leave it?"""
    workload = free.stack.workloads[a.workload]
    models = not free.stack.limits_models or free.below_models(a.workload, a.node)
    return models and free.capacity(workload, a.node) and free.apart(a.workload, a.node) and free.could_have(a, a.node)


def _stops(
    stack: Stack,
    last: Placement,
    now: Placement,
    free: Free,
    today: datetime.date,
    stays: Staying,
    name: str,
    ones: list[Allocation],
) -> Iterator[Finding]:
    """Nothing of higher priority came, moved or grew; or the old place is free still."""
    workload = stack.workloads[name]
    if workload.gang is not None and any(a.name in stays.loose for a in ones):
        return
    level, before = PRIORITIES[workload.priority], last.by_name()
    broken = {before[one].workload for one in stays.loose}
    # A gang of the same priority that has to move a member weighs as a whole against those in its way.
    above = any(
        a.name not in before
        or before[a.name].node != a.node
        or size_of(before[a.name]) != size_of(a)
        or before[a.name].user not in (None, a.user)
        for a in now.allocations
        if PRIORITIES[stack.workloads[a.workload].priority] > level - (a.workload in broken)
    )
    above = above or _called_back(stack, before, now, name)
    put: list[Allocation] = []
    user = ceilings(stack, workload.user, None)
    mine = [a for a in now.allocations if stack.workloads[a.workload].user == workload.user]
    ran = held(
        a for a in last.allocations if a.workload in stack.workloads and stack.workloads[a.workload].user == workload.user
    )
    for a in ones:
        under = all(
            not value or (user[key] is None or held([*mine, *put, a])[key] <= min(int(user[key] or 0), ran[key]))
            for key, value in held([a]).items()
        )
        tables = free.around(workload.user)
        around = all(not need or need <= left for table in tables for need, left in zip(_usage(a), table, strict=True))
        if (free.below_ceilings(workload) or (under and around)) and _home(free, a):
            free.take(a, 1)
            put.append(a)
    back = len(put) == len(ones) if workload.gang is not None else bool(put)
    for a in put:
        free.take(a, -1)
    for a in put if back else () if above else ones:
        why = "where its place is free" if back else "and nothing of higher priority came"
        yield Finding("needless stop", f"{a.name} ({workload.priority}) stopped on {a.node}, {why}", frozenset({a.name}))


def _called_back(stack: Stack, before: dict[str, Allocation], now: Placement, name: str) -> bool:
    """May it have been lent to its team, and called back for another one? `tests.stops` says whether it was right."""
    workload = stack.workloads[name]

    def came(a: Allocation) -> bool:
        """It is new, or larger, or had to leave its node."""
        was = before.get(a.name)
        node = stack.nodes.get(was.node) if was else None
        return was is None or node is None or node.state not in ("ready", "cordon") or size_of(was)[0] < size_of(a)[0]

    others = (stack.workloads[a.workload] for a in now.allocations if (a.gpus or stack.solve.share_by != "gpus") and came(a))
    mine = (one for one in others if one.priority == workload.priority)
    return stack.fair and stack.solve.reclaim and any(stack.teams_of(one.user) != stack.teams_of(workload.user) for one in mine)


def _usage(a: Allocation) -> tuple[int, ...]:
    return (sum(gpu.part for gpu in a.gpus), *map(int, (a.vcpus, a.memory, a.storage, a.egress, a.ingress)), 1)


def _shifts(stack: Stack, free: Free, a: Allocation, one: Allocation | None) -> Iterator[Finding]:
    """A resized replica prefers its node, and there its GPUs, as many as it asks for."""
    if one is None:
        return
    workload = stack.workloads[a.workload]
    free.take(one, -1)
    if one.node == a.node:
        had = Counter(a.cards) if workload.each.gpus.profile else Counter({*a.cards})  # two instances may be of one card
        could = sum(free.cards[a.node][g] + int(workload.each.gpus.share) <= 1000 for g in had.elements())
        kept = (Counter(one.cards) & had).total()
        if kept < min(could, len(one.gpus)) and not (workload.place.numa or workload.place.links):
            text = f"{a.name}, resized, has other GPUs on {a.node}: {list(a.cards)}, then {list(one.cards)}"
            yield Finding("needless device shift", text, frozenset({a.name}))
    elif workload.gang is None and workload.place.within is None:
        here = free.capacity(workload, a.node) and free.apart(a.workload, a.node)
        if here and free.devices(workload, a.node) is not None:
            yield Finding("needless shift", f"{a.name}, resized, left {a.node}, where it fits", frozenset({a.name}))
    free.take(one, 1)


def missed(stack: Stack, last: Placement, now: Placement, today: datetime.date, left: int, stays: Staying) -> Iterator[Finding]:
    """Replicas without a place that would fit beside everything that stands; a gang only if all of it fits.

    `left`: moves that the budget has left; without any, what ran and lost its place may not start in another. A gang that
    goes elsewhere moves all its members that could stay.
    """
    could = Counter(a.workload for a in stays.could.values() if a.name not in stays.loose)
    free = Free(stack, today, (a for a in now.allocations if a.node in stack.nodes))
    placed = defaultdict(set)
    for a in now.allocations:
        placed[a.workload].add(a.index)
    ran = Counter(a.workload for a in last.allocations)
    done = Counter(a.workload for a in now.allocations if a.ended)
    nodes = [name for name, node in stack.nodes.items() if node.state == "ready"]
    known: set[object] = set()
    for name, workload in stack.workloads.items():
        missing = [i for i in range(wanted(workload)) if i not in placed[name]][: wanted(workload) - len(placed[name])]
        if not missing or not free.below_ceilings(workload) or (left <= 0 and ran[name] > len(placed[name])):
            continue
        if workload.gang is not None and could[name] > left:
            continue
        if not workload.movable and could[name] > len(placed[name]) - done[name]:
            continue  # one that lost its slot waits for the next change
        where = workload.place
        key = (
            size(workload),
            workload.each.gpus,
            workload.each.gpu_power,
            tuple(sorted(where.select.items())),
            tuple(sorted(where.tolerate.items())),
            (where.numa, where.links),
            workload.user,
        )
        plain = workload.gang is None and not where.groups and name not in free.strangers
        if plain and key in known:
            continue
        found = _gang(stack, free, name, missing, nodes, done[name]) if workload.gang is not None else [
            node for node in nodes if free.fits(name, node)
        ][:1]  # fmt: skip
        if found:
            what = f"the gang {name} fits on" if workload.gang is not None else f"{name}-{missing[0]} fits on"
            yield Finding("missed place", f"{what} {', '.join(found[:3])}", frozenset(f"{name}-{i}" for i in missing))
        elif plain:
            known.add(key)


def _gang(stack: Stack, free: Free, name: str, missing: list[int], nodes: list[str], ended: int) -> list[str]:
    """Where all members would fit, one after the other; empty if they do not. Within a place: each place is tried."""
    workload = stack.workloads[name]
    if len(missing) < wanted(workload) - ended:
        return []
    groups: dict[str, list[str]] = defaultdict(list)
    for node in nodes:
        if suits(stack, workload, node) and not untolerated(stack, workload, node):
            groups[place(stack, node, workload.place.within) if workload.place.within else ""].append(node)
    for group in groups.values():
        put: list[Allocation] = []
        for _ in range(len(missing) if workload.place.balance else 1):  # each rack takes one more after the others
            before = len(put)
            for node in group:
                while len(put) < len(missing) and free.below_ceilings(workload):
                    one = free.put(name, missing[len(put)], node)
                    if one is None:
                        break
                    put.append(one)
            if len(put) in (before, len(missing)):
                break
        for one in put:
            free.take(one, -1)
        if len(put) == len(missing):
            return [one.node for one in put]
    return []


def honest(stack: Stack, last: Placement, now: Placement, proof: Proof, stays: Staying) -> Iterator[Finding]:
    """Bounds on the right side, values as they are, `optimal` only where all are reached, nothing left unsaid."""
    for goal in proof.goals:
        most = goal.name in ("moves", "shifts", "near", "alone", "beside", "preferred", "overqualification", "nodes")
        if goal.value < goal.bound if most else goal.value > goal.bound:
            yield Finding("proof", f"{goal.name}: value {goal.value} is beyond its bound {goal.bound}")
        level, _, what = goal.name.partition("_placed_")
        if what and level in PRIORITIES and (truth := _placed(stack, now, level, what)) != goal.value:
            yield Finding("proof", f"{goal.name}: value {goal.value}, and {truth} are placed")
    first = next((g for g in proof.goals if g.name.endswith(("_placed_gpus", "_placed_gpu_milli"))), None)
    if first is not None and not stays.loose:
        level, _, what = first.name.partition("_placed_")
        least = _placed(stack, Placement(allocations=tuple(stays.could.values())), level, what)
        if level == "high" and least > first.bound:
            yield Finding("proof", f"{first.name}: bound {first.bound}, and {least} could stay")
    if proof.optimal and any(goal.value != goal.bound for goal in proof.goals):
        yield Finding("proof", "said to be optimal, and some goal is not at its bound")
    yield from _pending(stack, now)


def _pending(stack: Stack, now: Placement) -> Iterator[Finding]:
    """What has no place is told, with a reason that people can read."""
    after = defaultdict(set)
    for a in now.allocations:
        after[a.workload].add(a.index)
    told = {one.workload: set(one.missing) for one in now.unplaced}
    for name, workload in stack.workloads.items():
        here, said = after[name], told.get(name, set())
        missing = wanted(workload) - len(here)  # which numbers are free is no rule: replicas keep theirs beyond their count
        if len(said) != missing or said & here:
            yield Finding("unplaced", f"{name}: {missing} have no place of {sorted(here)[:5]}, and told are {sorted(said)[:5]}")
    for gone in now.unplaced:
        if not gone.reasons:
            yield Finding("reason", f"{gone.workload} has no place, and no reason is told")
        for reason in gone.reasons:
            if _ENDLESS.search(reason.text):
                yield Finding("reason", f"{gone.workload}: a number that stands for no limit is told: {reason.text}")


def _placed(stack: Stack, now: Placement, level: str, what: str) -> int:
    ones = [stack.workloads[a.workload] for a in now.going()]
    ones = [w for w in ones if w.priority == level]
    if what == "replicas":
        return len(ones)
    return sum(w.each.gpus.count * (w.each.gpus.part if what == "gpu_milli" else 1) for w in ones)


def told_moves(stack: Stack, last: Placement, now: Placement, told: dict[str, tuple[str, str]]) -> Iterator[Finding]:
    """Every replica still wanted that left its node is told, with its source and target; and nothing else is."""
    after, more, truth = now.by_name(), surplus(stack, last), {}
    for a in last.going():
        if a.workload in stack.workloads and a.name not in more:
            target = after[a.name].node if a.name in after else ""
            if target != a.node:
                truth[a.name] = (a.node, target)
    for name in sorted({*truth, *told}):
        here, said = truth.get(name), told.get(name)
        if here != said and not (here is None and said is not None and said[0] == said[1]):
            yield Finding("told moves", f"{name}: {here or 'stays'}, and told is {said or 'nothing'}", frozenset({name}))
