"""Why does each node not take one more? Counted from docs/stack-file.md alone, to be compared with what is told."""

from __future__ import annotations

import datetime
import itertools
from collections import Counter
from collections.abc import Iterator

from swarm_iac.model.hardware import Hardware
from swarm_iac.model.placement import Allocation, Placement
from swarm_iac.model.stack import Stack
from swarm_iac.model.workload import PRIORITIES, Workload
from tests.benchmarks.fleets import balance
from tests.benchmarks.fleets.checker import around, parts, place, size, untolerated
from tests.benchmarks.fleets.free import Free

#: After the machine's own vCPUs, memory, storage, out and in come those of `limits.node`.
_MACHINE = ("vCPUs", "memory", "storage", "bandwidth out", "bandwidth in")
_ONE = {"is": "are", "has": "have", "lacks": "lack", "holds": "hold"}


def counted(stack: Stack, placement: Placement, name: str, today: datetime.date, *, lower: bool) -> Counter[str]:
    """How many nodes keep the workload out, by the first thing that does. `lower`: those of a lower priority are away."""
    whole = Free(stack, today, placement.allocations)
    free = Free(stack, today, without_lower(stack, placement, name)) if lower else whole
    # Where a limit is exceeded already nobody is admitted, whoever might stop for it.
    over = {node for node in stack.nodes if whole.above_models(name, node)}
    return Counter(_first(stack, free, name, node, over) for node in stack.nodes)


def without_lower(stack: Stack, placement: Placement, name: str) -> list[Allocation]:
    """All but what a lower priority holds; with what is guaranteed of that: if it went, its team would have too little."""
    asks = stack.workloads[name]
    level = {one: PRIORITIES[workload.priority] for one, workload in stack.workloads.items()}
    counts = Counter(a.workload for a in placement.allocations)

    def guaranteed(other: str) -> bool:
        workload = stack.workloads[other]
        goes = workload.each.gpus.milli * (counts[other] if workload.gang else 1)
        for team in around(stack, workload.user):
            has = sum(
                stack.workloads[one].each.gpus.milli * count
                for one, count in counts.items()
                if level[one] >= level[other] and team in around(stack, stack.workloads[one].user)
            )
            gets = asks.each.gpus.milli * (asks.members if asks.gang else 1) if team in around(stack, asks.user) else 0
            if goes and has - goes + gets < min(has, _guarantee(stack, team)):
                return True
        return False

    stay = {one for one in counts if level[one] >= level[name] or guaranteed(one)}
    return [a for a in placement.allocations if a.workload in stay]


def _guarantee(stack: Stack, team: str) -> int:
    """In thousandths of GPUs; what is guaranteed to teams inside it is guaranteed to it."""
    inside = sum(_guarantee(stack, name) for name, one in stack.teams.items() if one.parent == team)
    return max(inside, int(stack.teams[team].guarantee.gpus))


def told(text: str) -> Counter[str]:
    """The same, read in `40 nodes: 20 have another GPU model, 1 is cordoned`."""
    found: Counter[str] = Counter()
    for part in text.partition(": ")[2].split(", "):
        number, verb, rest = part.split(" ", 2)
        found[f"{_ONE.get(verb, verb)} {rest}"] += int(number)
    return found


def _first(stack: Stack, free: Free, name: str, node: str, over: set[str]) -> str:
    found = itertools.chain(
        _unsuited(stack, name, node), _short(stack, free, name, node), _shape(stack, free, name, node, over)
    )
    return next(found, "have capacity for one")


def on_one(workload: Workload, hardware: Hardware, part: tuple[int, int, int]) -> bool:
    """Has one NUMA node of these sizes the GPUs, cores and memory of a replica? What the whole machine lacks is left out."""
    gpus, (_, cores, _, memory, *_) = workload.each.gpus.count, size(workload)
    whole = (hardware.gpus.count, int(hardware.vcpus) // 1000, int(hardware.memory))
    needs = zip((gpus, cores, memory), part, whole, strict=True)
    return not (gpus or cores) or all(need <= has for need, has, most in needs if need <= most)


def _parts(hardware: Hardware) -> list[tuple[int, int, int]]:
    totals = (hardware.gpus.count, int(hardware.vcpus) // 1000, int(hardware.memory))
    sizes = [[len(part) for part in parts(total, hardware.numa)] for total in totals]
    return [(gpus, cores, memory) for gpus, cores, memory in zip(*sizes, strict=True)]


def _unsuited(stack: Stack, name: str, node: str) -> Iterator[str]:
    workload, one, hardware = stack.workloads[name], stack.nodes[node], stack.hardware_of(node)
    labels = {"site": one.site, "rack": one.rack} | one.labels
    if any(labels.get(key) != value for key, value in workload.place.select.items()):
        yield "have other labels"
    if taints := untolerated(stack, workload, node):
        yield f"have the taint {min(taints)}"
    request = workload.each.gpus
    if request.count and request.model is not None and hardware.gpus.model not in request.model.split("|"):
        yield "have another GPU model" if hardware.gpus.count else "have no GPUs"
    if request.count and int(request.memory or 0) > int(hardware.gpu_memory if hardware.gpus.count else 0):
        has = "smaller GPUs" if hardware.gpu_memory else "GPUs of unknown memory"
        yield f"have {has}" if hardware.gpus.count else "have no GPUs"
    if request.profile and (
        request.profile not in hardware.profiles or hardware.profiles[request.profile].part != request.part
    ):
        yield "have other MIG profiles" if hardware.mig else "have GPUs that may not be cut"
    if workload.place.numa and not any(on_one(workload, hardware, part) for part in _parts(hardware)):
        yield "have NUMA nodes that are too small"
    if one.state != "ready":
        yield {"cordon": "are cordoned", "drain": "are draining", "lost": "are lost"}[one.state]


def _short(stack: Stack, free: Free, name: str, node: str) -> Iterator[str]:
    workload, hardware = stack.workloads[name], stack.hardware_of(node)
    gpus, cores, *needs = size(workload)
    if workload.each.gpus.profile:
        if _instances(stack, free, workload, node) < workload.each.gpus.count:
            yield "lack GPUs"
    elif (
        sum(free.cards[node][g] + workload.each.gpus.share <= 1000 for g in range(hardware.gpus.count))
        < workload.each.gpus.count
    ):
        yield "lack GPUs"
    left = free.nodes[node]
    if needs[0] > left[0]:
        yield "lack vCPUs"
    if cores and int(hardware.vcpus) // 1000 - len(free.cores[node]) < cores:
        yield "lack whole cores"
    for what, need, rest in zip(_MACHINE[1:], needs[1:], left[1:5], strict=True):
        if need and need > rest:
            yield f"lack {what}"
    if any(need and need > rest for need, rest in zip((gpus, *needs, 1), left[5:], strict=True)):
        yield "lack capacity under limits.node"
    yield from _rack(stack, free, name, node)


def _instances(stack: Stack, free: Free, workload: Workload, node: str) -> int:
    """How many more MIG instances of its profile the cards of a node hold, beside those that lie there."""
    hardware, name = stack.hardware_of(node), workload.each.gpus.profile
    if name not in hardware.profiles:
        return workload.each.gpus.count  # another thing is told of it
    profile, found = hardware.profiles[name], 0
    devices = [one for ones in free.stands.values() for a in ones if a.node == node for one in a.gpus]
    for card in range(hardware.gpus.count):
        taken = {at for one in devices if one.index == card for at in one.slices}
        for start in profile.starts:
            spot = set(range(start, start + profile.size))
            if not spot & taken:
                taken |= spot
                found += 1
    return found


def _rack(stack: Stack, free: Free, name: str, node: str) -> Iterator[str]:
    workload, rack = stack.workloads[name], stack.nodes[node].rack
    if rack:
        gpus, (*_, out, into) = workload.each.gpus.count, size(workload)
        left = free.racks[rack]
        if (out and out > left[0]) or (into and into > left[1]):
            yield "lack uplink of the rack"
        own = int(workload.each.gpu_power or 0) - int(stack.tuning_of(node).gpu_power or 0)
        if gpus and own > 0 and own * gpus > left[2]:
            yield "lack power of the rack"


def _shape(stack: Stack, free: Free, name: str, node: str, over: set[str]) -> Iterator[str]:
    where, others = stack.workloads[name].place, free.stands[name]
    if where.spread and any(place(stack, a.node, where.spread) == place(stack, node, where.spread) for a in others):
        yield "hold a replica already"
    if where.per_node and sum(a.node == node for a in others) >= where.per_node:
        yield f"hold {where.per_node} of its replicas already"
    for kind, most in (("rack", where.per_rack), ("site", where.per_site)):
        if most and sum(place(stack, a.node, kind) == place(stack, node, kind) for a in others) >= most:
            yield f"have {most} of its replicas in the {kind} already"
    if where.balance and balance.takes_no_more(stack, name, [a.node for a in others], node):
        yield f"have as many of its replicas in the {where.balance.over} as `balance` allows"
    if where.apart and any(free.near(name, node)):
        yield "are too near to another workload with `apart`"
    workload = stack.workloads[name]
    if node in over or not free.below_models(name, node):
        yield "have a GPU model whose limit is used up"
    if where.numa and any(size(workload)[:2]) and free.devices(workload, node) is None:
        yield "have it free only over several NUMA nodes"
    if where.within and any(place(stack, a.node, where.within) != place(stack, node, where.within) for a in others):
        yield f"are outside its {where.within}"
