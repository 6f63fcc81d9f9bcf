"""What runs keeps its old size while there is no room for the new one: which size is that, and how does it read?"""

from __future__ import annotations

from collections import Counter

from swarm_iac.model.hardware import Gpus
from swarm_iac.model.placement import Allocation, Growing, Placement
from swarm_iac.model.stack import Stack
from swarm_iac.model.workload import Workload
from swarm_iac.units import BitsPerSecond, Bytes


def size(one: Allocation) -> tuple[int, ...]:
    """What an allocation holds: GPUs, pinned CPUs, thousandths of vCPUs, bytes of memory and disk, bit/s out and in."""
    rates = int(one.egress), int(one.ingress)
    return (len(one.gpus), len(one.cpus), int(one.vcpus), int(one.memory), int(one.storage), *rates)


def at_size(wish: Workload, one: Allocation, count: int) -> Workload:
    """The wish with no more of anything than what runs holds, so that nobody has more than the stack file says.

    `one`: any of the `count` replicas that run. More replicas than that are no matter of size; more members of a gang are.
    Of local disk the lock knows the sum: what has changed is taken to be the scratch.
    """
    each, network = wish.each, wish.network
    gpus = each.gpus.model_copy(update={"count": min(len(one.gpus), each.gpus.count)}) if one.gpus else Gpus(count=0)
    disk = {}
    if one.storage < wish.storage:
        cache = min(int(each.cache), int(one.storage))
        disk = {"cache": Bytes(cache), "scratch": Bytes(int(one.storage) - cache)}
    sizes = {"gpus": gpus, "vcpus": min(one.vcpus, each.vcpus), "memory": min(one.memory, each.memory)}
    pinned = each.pinned and bool(one.cpus)
    rates: dict[str, BitsPerSecond | None] = {}
    for name, now, was in (("egress", wish.egress, one.egress), ("ingress", wish.ingress, one.ingress)):
        if was < now:
            between = min(int(network.between or 0), int(was))
            rates |= {name: BitsPerSecond(int(was) - between), "between": BitsPerSecond(between) if between else None}
    return wish.model_copy(
        update={
            "each": each.model_copy(update={**sizes, **disk, "pinned": pinned}),
            "network": network.model_copy(update=rates) if rates else network,
            "gang": None if wish.gang is None else min(wish.gang, count),
        }
    )


def held(stack: Stack, placement: Placement) -> Stack:
    """The stack as it holds now: what waits to grow asks for the size that it has."""
    if not placement.growing:
        return stack
    first, count = _running(placement)
    names = [one.workload for one in placement.growing if one.workload in first and one.workload in stack.workloads]
    smaller = {name: at_size(stack.workloads[name], first[name], count[name]) for name in names}
    return stack.model_copy(update={"workloads": {**stack.workloads, **smaller}})


def told(stack: Stack, placement: Placement) -> Placement:
    """The placement, with what each that waits to grow keeps and wants, in words. `stack`: as it is written."""
    first, count = _running(placement)
    growing = tuple(
        _told(one, stack.workloads[one.workload], first[one.workload], count[one.workload])
        for one in placement.growing
        if one.workload in first
    )
    return placement.model_copy(update={"growing": growing}) if placement.growing else placement


def _running(placement: Placement) -> tuple[dict[str, Allocation], Counter[str]]:
    """The first replica of each workload that runs, and how many there are, with those that came to their end."""
    first = {one.workload: one for one in reversed(placement.allocations) if not one.ended}
    return first, Counter(one.workload for one in placement.allocations)


def _told(growing: Growing, wish: Workload, one: Allocation, count: int) -> Growing:
    each = wish.each
    pinned = int(each.vcpus) // 1000 if each.pinned else 0
    pairs: tuple[tuple[int, int, str], ...] = (
        (count, count if wish.gang is None else wish.gang, "members"),
        (len(one.gpus), each.gpus.count, "GPUs"),
        (one.vcpus, each.vcpus, "vCPUs"),
        (len(one.cpus), pinned, "pinned CPUs"),
        (one.memory, each.memory, "of memory"),
        (one.storage, wish.storage, "of local disk"),
        (one.egress, wish.egress, "out"),
        (one.ingress, wish.ingress, "in"),
    )
    changed = [(was, now, word) for was, now, word in pairs if was < now]
    keeps, wants = (", ".join(f"{pair[i]} {_one(pair[i], pair[2])}" for pair in changed) for i in (0, 1))
    return growing.model_copy(update={"keeps": keeps, "wants": wants})


def _one(count: object, word: str) -> str:
    return word[:-1] if str(count) == "1" and word.endswith("s") else word
