"""Does any rack, or site, have more replicas of a workload than `balance` allows? From docs/stack-file.md alone."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator

from swarm_iac.model.hardware import Hardware
from swarm_iac.model.placement import Allocation, Placement
from swarm_iac.model.stack import Stack
from swarm_iac.model.workload import Workload

#: What is known of the stack that was asked about last: that of a large fleet is asked about thousands of times.
_last: list[tuple[Stack, dict[str, dict[str, str]]]] = []


def compared(stack: Stack, name: str) -> dict[str, str]:
    """The racks, or sites, that are compared; with `within: site` of racks the site of each."""
    if not _last or _last[0][0] is not stack:
        _last[:] = [(stack, {})]
    known = _last[0][1]
    if name not in known:
        known[name] = _compared(stack, name)
    return known[name]


def _compared(stack: Stack, name: str) -> dict[str, str]:
    workload = stack.workloads[name]
    balance, within = workload.place.balance, workload.place.within
    assert balance is not None
    by_site = within == "site" and balance.over == "rack"
    nodes = [node for node in stack.nodes if usable(stack, workload, node)]
    return {where(stack, node, balance.over): where(stack, node, "site") if by_site else "" for node in nodes}


def where(stack: Stack, node: str, kind: str) -> str:
    """The rack or site of a node; without one it is a rack of its own, and a rack without a site is a site."""
    one = stack.nodes[node]
    rack = f"rack {one.rack}" if one.rack else f"node {node}"
    return (f"site {one.site}" if one.site else rack) if kind == "site" else rack


def usable(stack: Stack, workload: Workload, name: str) -> bool:
    """Could it come to the node if that were empty? The node is ready, too."""
    node, hardware, each = stack.nodes[name], stack.hardware_of(name), workload.each
    labels = {"site": node.site, "rack": node.rack} | node.labels
    if node.state != "ready" or any(labels.get(key) != value for key, value in workload.place.select.items()):
        return False
    for key, taint in node.taints.items():
        if workload.place.tolerate.get(key) not in (taint.value, "*") or (
            taint.teams and not _inside(stack, workload.user, taint.teams)
        ):
            return False
    if each.gpus.count:
        if each.gpus.model and hardware.gpus.model not in each.gpus.model.split("|"):
            return False
        if int(each.gpus.memory or 0) > int(hardware.gpu_memory):
            return False
    return _large_enough(stack, hardware, workload) and _near_each_other(hardware, workload)


def _inside(stack: Stack, user: str, teams: Iterable[str]) -> bool:
    team = next((name for name, one in stack.teams.items() if user in one.users), None)
    while team is not None:
        if team in teams:
            return True
        team = stack.teams[team].parent
    return False


def _large_enough(stack: Stack, hardware: Hardware, workload: Workload) -> bool:
    each, network, limit = workload.each, workload.network, stack.limits.node
    between = int(network.between or 0)
    traffic = max(int(network.egress or 0), int(network.ingress or 0)) + between
    gpus, files = each.gpus.count * each.gpus.part, int(each.scratch) + int(each.cache)
    asked = [
        (gpus, hardware.gpus.count * 1000, limit.gpus),
        (int(each.vcpus), hardware.vcpus, limit.vcpus),
        (int(each.memory), hardware.memory, limit.memory),
        (files, hardware.nvme, limit.storage),
        (traffic, hardware.nic, limit.bandwidth),
    ]
    if any(need > int(has or 0) or (most is not None and need > int(most)) for need, has, most in asked if need):
        return False
    if limit.replicas is not None and limit.replicas < 1:
        return False
    if each.gpus.profile:
        profile = hardware.profiles.get(each.gpus.profile)
        return (
            profile is not None
            and profile.part == each.gpus.part
            and each.gpus.count <= len(profile.starts) * hardware.gpus.count
        )
    return True


def _near_each_other(hardware: Hardware, workload: Workload) -> bool:
    """One NUMA node, linked GPUs, or both at once."""
    each, place = workload.each, workload.place
    gpus, cores = each.gpus.count, int(each.vcpus) // 1000 if each.pinned else 0
    everything = set(range(hardware.gpus.count))
    homes = [everything]
    if place.numa and (gpus or cores):
        total = int(hardware.vcpus) // 1000
        homes = []
        for j in range(hardware.numa):
            mine = set(range(j * hardware.gpus.count // hardware.numa, (j + 1) * hardware.gpus.count // hardware.numa))
            pins = (j + 1) * total // hardware.numa - j * total // hardware.numa
            memory = (j + 1) * int(hardware.memory) // hardware.numa - j * int(hardware.memory) // hardware.numa
            if gpus <= len(mine) and cores <= pins and int(each.memory) <= memory:
                homes.append(mine)
    groups = [everything]
    if place.links and gpus > 1 and each.gpus.whole:
        joined = hardware.links.nvlink
        groups = [everything] if joined == "all" else [set(group) for group in joined]
    return bool(homes) and any(len(home & group) >= gpus for home in homes for group in groups)


def even(stack: Stack, name: str, nodes: Iterable[str]) -> bool:
    """Would replicas on these nodes all be as even as new ones have to be?"""
    balance = stack.workloads[name].place.balance
    assert balance is not None
    among = compared(stack, name)
    counts = Counter(where(stack, node, balance.over) for node in nodes)
    fewest: dict[str, int] = {}
    for q, near in among.items():
        fewest[near] = min(counts[q], fewest.get(near, counts[q]))
    return all(counts[p] - fewest[near] <= balance.skew for p, near in among.items())


def takes_no_more(stack: Stack, name: str, nodes: list[str], node: str) -> bool:
    """Is the rack, or site, of a node as far ahead of the emptiest one as it may be? What ran there may return in any case."""
    balance = stack.workloads[name].place.balance
    assert balance is not None
    among, p = compared(stack, name), where(stack, node, balance.over)
    counts = Counter(where(stack, one, balance.over) for one in nodes)
    return p in among and counts[p] + 1 - min(counts[q] for q in among if among[q] == among[p]) > balance.skew


def broken(stack: Stack, allocations: list[Allocation], last: Placement) -> Iterator[tuple[str, frozenset[str]]]:
    """Racks to which something new came, with too many more than another one."""
    old, ones = {a.name: a for a in last.allocations}, defaultdict(list)
    for a in allocations:
        if not a.ended and stack.workloads[a.workload].place.balance:
            ones[a.workload].append(a)
    for name, mine in ones.items():
        balance = stack.workloads[name].place.balance
        assert balance is not None
        among = compared(stack, name)
        counts = Counter(where(stack, a.node, balance.over) for a in mine)
        for a in mine:
            was, p = old.get(a.name), where(stack, a.node, balance.over)
            stays = was is not None and was.node == a.node and was.user in (None, stack.workloads[name].user)
            if stays or p not in among:
                continue
            least = min(counts[q] for q in among if among[q] == among[p])
            if counts[p] - least > balance.skew:
                text = f"{a.name} is new in {p}, which has {counts[p]} of {name}, and another {balance.over} has {least}"
                yield text, frozenset({a.name})
