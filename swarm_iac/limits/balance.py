"""Has no rack, or site, many more replicas of a workload than another one that it may use?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from swarm_iac.limits.index import PlacementIndex, Violation
from swarm_iac.model.hardware import Hardware, numa_part
from swarm_iac.model.resources.table import RESOURCES
from swarm_iac.model.workload import Workload


def replicas_are_balanced(placed: PlacementIndex) -> Iterator[Violation]:
    """For every w with balance, and compared places p and q of its kind, p with an a ∉ kept of w:  |w in p| − |w in q| ≤ skew_w

    Compared are places with a ready node that w could use if nothing else ran there; with `within` of a larger kind only those
    of one such place. What stays where it ran is no reason to stop anything, however uneven it is.
    """
    for name, p, count, q, fewest in _apart(placed, placed.kept):
        balance = placed.stack.workloads[name].place.balance
        if balance is not None:
            text = f"{count} replicas of {name} are in the {balance.over} {p} and {fewest} in {q}"
            text = f"{text}, and it may have {balance.skew} more in one {balance.over} than in another"
            path = f"workloads.{name}.place.balance"
            yield Violation(rule="replicas_are_balanced", text=text, subject=name, path=path)


def beyond_balance(placed: PlacementIndex) -> frozenset[str]:
    """Allocations in places that have too many: allowed only since they ran there."""
    found = set[str]()
    for name, p, *_ in _apart(placed, frozenset()):
        balance = placed.stack.workloads[name].place.balance
        if balance is not None:
            found |= {one.name for one in placed.going[name] if placed.place(one.node, balance.over) == p}
    return frozenset(found)


def _apart(placed: PlacementIndex, kept: frozenset[str]) -> Iterator[tuple[str, str, int, str, int]]:
    """Workload, place with an allocation that is not `kept`, its count, and the place with the fewest, if that is too far."""
    alike: dict[tuple[object, ...], list[str]] = {}  # nodes that nothing but labels tells apart
    for node, one in placed.stack.nodes.items():
        taints = tuple(sorted((key, taint.value, taint.teams) for key, taint in one.taints.items()))
        alike.setdefault((one.hardware, one.tuning, one.state, taints), []).append(node)
    for name, ones in placed.going.items():
        workload = placed.stack.workloads[name]
        balance, within = workload.place.balance, workload.place.within
        if balance is None or all(one.name in kept for one in ones):
            continue
        around = {
            placed.place(node, balance.over): placed.place(node, "site") if within == "site" and balance.over == "rack" else ""
            for nodes in alike.values()
            if could_hold_but_labels(placed, workload, nodes[0])
            for node in nodes
            if not workload.place.select or workload.place.suits(placed.stack.nodes[node].labelled)
        }
        counts = Counter(placed.place(one.node, balance.over) for one in ones)
        for p in sorted({placed.place(one.node, balance.over) for one in ones if one.name not in kept} & around.keys()):
            q = min((q for q in around if around[q] == around[p]), key=lambda q: (counts[q], q))
            if counts[p] - counts[q] > balance.skew:
                yield name, p, counts[p], q, counts[q]


def could_hold_but_labels(placed: PlacementIndex, workload: Workload, name: str) -> bool:
    """Is the node ready, does it suit but for its labels, and could the empty machine hold a replica?"""
    stack, node = placed.stack, placed.stack.nodes[name]
    if node.state != "ready":
        return False
    if node.taints and not workload.place.tolerates(node.taints, stack.teams_of(workload.user)):
        return False
    hardware = stack.hardware_of(name)
    own = _gpus(hardware, workload) and _instances(hardware, workload) and _one_place(hardware, workload)
    return own and all(most is None or demand <= most for demand, most in _amounts(placed, hardware, workload))


def _gpus(hardware: Hardware, workload: Workload) -> bool:
    """Has the machine the model and the memory that are asked for?"""
    asked = workload.each.gpus
    if not asked.count:
        return True
    return asked.allows(hardware.gpus.model) and not (asked.memory and asked.memory > hardware.gpu_memory)


def _amounts(placed: PlacementIndex, hardware: Hardware, workload: Workload) -> Iterator[tuple[int, int | None]]:
    """What a replica asks for, and what the machine has of it, or `limits.node` allows."""
    for row in RESOURCES:
        demand = row.demand(workload)
        if row.capacity:
            yield demand, row.capacity.amount(hardware)
        if row.limit:
            yield demand, placed.stack.limits.node.limit(row.limit.key)


def _instances(hardware: Hardware, workload: Workload) -> bool:
    """Has the machine positions for the MIG instances of a replica?"""
    asked = workload.each.gpus
    if not asked.count or not asked.profile:
        return True
    profile = hardware.profiles.get(asked.profile)
    return profile is not None and profile.part == asked.part and asked.count <= hardware.gpus.count * len(profile.starts)


def _one_place(hardware: Hardware, workload: Workload) -> bool:
    """Is one NUMA node, one group of linked GPUs, or what they have in common, large enough for who is bound to such?"""
    each, place = workload.each, workload.place
    gpus, cores = each.gpus.count, int(each.vcpus) // 1000 if each.pinned else 0
    single = place.numa is not None and bool(gpus or cores)
    linked = place.links is not None and each.gpus.whole and gpus > 1
    able = [
        numa_part(hardware.gpus.count, hardware.numa, j)
        for j, (own, pins, memory) in enumerate(hardware.parts)
        if gpus <= own and cores <= pins and int(each.memory) <= memory
    ]
    if single and not able:
        return False
    if not linked:
        return True
    return any(
        sum(i in part for i in group) >= gpus
        for group in hardware.nvlink
        for part in (able if single else [range(hardware.gpus.count)])
    )
