"""Does a placement keep every rule of docs/stack-file.md? Written from that page alone.

It shares no code with `swarm_iac.limits` or the solver, so that a rule which both read wrongly is seen here.
"""

from __future__ import annotations

import datetime
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from swarm_iac.model.hardware import Hardware
from swarm_iac.model.placement import Allocation, Placement
from swarm_iac.model.stack import Stack
from swarm_iac.model.workload import Workload
from tests.benchmarks.fleets import balance, by_model

RESOURCES = ("gpus", "vcpus", "memory", "storage", "bandwidth")
#: All that is limited.
KEYS = (*RESOURCES, "replicas")


@dataclass(frozen=True)
class Finding:
    """Something that is wrong: which rule, in words, and the allocations that together break it."""

    rule: str
    text: str
    names: frozenset[str] = frozenset()


def held(allocations: Iterable[Allocation]) -> dict[str, int]:
    """What allocations hold together, in base units; bandwidth is the larger of in and out."""
    ones = list(allocations)
    return {
        "gpus": sum(gpu.part for a in ones for gpu in a.gpus),
        "vcpus": sum(int(a.vcpus) for a in ones),
        "memory": sum(int(a.memory) for a in ones),
        "storage": sum(int(a.storage) for a in ones),
        "bandwidth": max(sum(int(a.egress) for a in ones), sum(int(a.ingress) for a in ones)),
        "replicas": sum(not a.ended for a in ones),
    }


def wanted(workload: Workload) -> int:
    """Replicas that are placed: a gang's members, or the lower end of the range."""
    return workload.gang if workload.gang is not None else workload.replicas.least


def size(workload: Workload) -> tuple[int, ...]:
    """Thousandths of GPUs, pinned cores, vCPUs, memory, storage, bandwidth out and in of one replica."""
    each, network = workload.each, workload.network
    between = int(network.between or 0)
    return (
        each.gpus.count * each.gpus.part,
        int(each.vcpus) // 1000 if each.pinned else 0,
        int(each.vcpus),
        int(each.memory),
        int(each.scratch) + int(each.cache),
        int(network.egress or 0) + between,
        int(network.ingress or 0) + between,
    )


def size_of(a: Allocation) -> tuple[int, ...]:
    """The same of an allocation."""
    gpus = sum(gpu.part for gpu in a.gpus)
    return (gpus, len(a.cpus), int(a.vcpus), int(a.memory), int(a.storage), int(a.egress), int(a.ingress))


def suits(stack: Stack, workload: Workload, node: str) -> bool:
    """Has the node the labels, the GPU model and the GPU memory that the workload asks for?"""
    one, hardware, gpus = stack.nodes[node], stack.hardware_of(node), workload.each.gpus
    labels = {"site": one.site, "rack": one.rack} | one.labels
    if any(labels.get(key) != value for key, value in workload.place.select.items()):
        return False
    if not gpus.count:
        return True
    model = gpus.model is None or hardware.gpus.model in gpus.model.split("|")
    if gpus.profile and (gpus.profile not in hardware.profiles or hardware.profiles[gpus.profile].part != gpus.part):
        return False  # one name is another instance on a card with other memory
    return model and int(gpus.memory or 0) <= int(hardware.gpu_memory)


def untolerated(stack: Stack, workload: Workload, node: str) -> list[str]:
    """The taints of the node that keep new replicas away: not tolerated, or reserved for teams of which its user is in none."""
    found = []
    for key, taint in stack.nodes[node].taints.items():
        mine = {*around(stack, workload.user)} & {*taint.teams}
        if workload.place.tolerate.get(key) not in (taint.value, "*") or (taint.teams and not mine):
            found.append(f"{key}: {taint.value}")
    return found


def place(stack: Stack, node: str, kind: str | None) -> str:
    """The node, its rack or its site; a node without a rack stands in one of its own, a rack without a site too."""
    one = stack.nodes[node]
    rack = one.rack or f"alone {node}"
    return (one.site or f"no site {rack}") if kind == "site" else rack if kind == "rack" else node


def ceilings(stack: Stack, user: str, day: datetime.date | None) -> dict[str, int | None]:
    """The ceiling of a user on a day, in base units; without a day as if no exception had ended."""
    found: dict[str, int | None] = {}
    for key in KEYS:
        own = getattr(stack.limits.user, key)
        given = [getattr(e, key) for e in stack.limits.exceptions if e.user == user and (day is None or day <= e.until)]
        values = [int(value) for value in given if value is not None]
        found[key] = max(values) if values else None if own is None else int(own)
    return found


def around(stack: Stack, user: str) -> list[str]:
    """The user's team and the teams that it is inside of."""
    found = [name for name, team in stack.teams.items() if user in team.users]
    while found and (parent := stack.teams[found[-1]].parent):
        found.append(parent)
    return found


def team_ceilings(stack: Stack, name: str, day: datetime.date | None) -> dict[str, int | None]:
    """The same of a team."""
    found: dict[str, int | None] = {}
    for key in KEYS:
        own = getattr(stack.teams[name].limits, key)
        own = getattr(stack.limits.team, key) if own is None else own
        given = [getattr(e, key) for e in stack.limits.exceptions if e.team == name and (day is None or day <= e.until)]
        values = [int(value) for value in given if value is not None]
        found[key] = max(values) if values else None if own is None else int(own)
    return found


def broken(stack: Stack, placement: Placement, last: Placement, today: datetime.date) -> list[Finding]:
    """Every rule that the placement breaks, coming from `last`."""
    known = [a for a in placement.allocations if a.workload in stack.workloads and a.node in stack.nodes]
    found = [
        Finding("names", f"{a.name} is of a workload or on a node that the stack has not", frozenset({a.name}))
        for a in placement.allocations
        if a.workload not in stack.workloads or (a.node not in stack.nodes and not a.ended)
    ]
    found += finished(stack, placement, last)
    before = {a.name: a for a in last.allocations}
    found += one_by_one(stack, known, before)
    found += together(stack, known, last)
    found += user_ceilings(stack, known, last, today)
    found += [Finding("gpus by model", text, names) for text, names in by_model.broken(stack, known, last, today)]
    found += [Finding("balance", text, names) for text, names in balance.broken(stack, known, last)]
    found += [Finding("site links", text) for text in crossing(stack, known)]
    found += gangs(stack, [a for a in placement.allocations if a.workload in stack.workloads])
    return found


def crossing(stack: Stack, allocations: list[Allocation]) -> Iterator[str]:
    """Links between sites that carry less than members of gangs send over them: the fewer of two sides get it from the others."""
    for name, site in stack.sites.items():
        for other, rate in site.links.items():
            sent = 0
            for gang, workload in stack.workloads.items():
                ends = [stack.nodes[a.node].site for a in allocations if a.workload == gang and not a.ended]
                if workload.gang is not None:
                    sent += int(workload.network.between or 0) * min(ends.count(name), ends.count(other))
            if sent > int(rate):
                yield f"{sent} bit/s between {name} and {other}, and the link carries {int(rate)}"


def still_asked(stack: Stack, last: Placement) -> dict[str, Allocation]:
    """Jobs that finished and are still asked for: of fewer replicas the lowest numbers, no more than there are to be."""
    ones: dict[str, list[Allocation]] = defaultdict(list)
    for a in last.allocations:
        workload = stack.workloads.get(a.workload)
        if a.ended and workload is not None and a.index < (workload.gang or workload.replicas.most):
            ones[a.workload].append(a)
    kept = (sorted(of, key=lambda a: a.index)[: wanted(stack.workloads[name])] for name, of in ones.items())
    return {a.name: a for of in kept for a in of}


def finished(stack: Stack, placement: Placement, last: Placement) -> Iterator[Finding]:
    """Who finished stays as it is, holds nothing but its files, and nobody else finishes by being decided about."""
    before, now = still_asked(stack, last), {a.name: a for a in placement.allocations if a.ended}
    for name in sorted(before.keys() | now.keys()):
        if before.get(name) != now.get(name):
            yield Finding("finished", f"{name}: {before.get(name)}, and then {now.get(name)}", frozenset({name}))
    for a in now.values():
        if any(value for key, value in held([a]).items() if key != "storage") or a.cpus or a.numa:
            yield Finding("finished", f"{a.name} has finished, and holds {size_of(a)}", frozenset({a.name}))


def one_by_one(stack: Stack, allocations: list[Allocation], before: dict[str, Allocation]) -> Iterator[Finding]:
    """Index, size, suitability and state of each."""
    seen: set[tuple[str, int]] = set()
    for name, count in Counter(name for name, _ in {(a.workload, a.index) for a in allocations}).items():
        if count > (most := wanted(stack.workloads[name])):
            names = frozenset(a.name for a in allocations if a.workload == name)
            yield Finding("index", f"{count} replicas of {name} are placed, and it has {most}", names)
    for a in allocations:
        workload, only = stack.workloads[a.workload], frozenset({a.name})
        if a.name != f"{a.workload}-{a.index}" or (workload.gang is not None and a.index >= workload.gang):
            yield Finding("index", f"{a.name} is no member of the gang {a.workload}, or misnamed", only)
        if (a.workload, a.index) in seen:
            yield Finding("index twice", f"{a.name} stands twice", only)
        seen.add((a.workload, a.index))
        if a.ended:
            continue
        if size_of(a) != size(workload):
            yield Finding("size", f"{a.name} holds {size_of(a)}, and asks for {size(workload)}", only)
        if not suits(stack, workload, a.node):
            yield Finding("suits", f"{a.name} is on {a.node}, which lacks a label, the GPU model or its memory", only)
        state = stack.nodes[a.node].state
        stays = a.name in before and before[a.name].node == a.node
        if state in ("drain", "lost") or (state == "cordon" and not stays):
            yield Finding("state", f"{a.name} is on {a.node}, which is {state}", only)
        if not (stays and before[a.name].user in (None, workload.user)) and (taints := untolerated(stack, workload, a.node)):
            yield Finding("taint", f"{a.name} is new on {a.node}, which has the taint {taints[0]}", only)


def together(stack: Stack, allocations: list[Allocation], last: Placement) -> Iterator[Finding]:
    """Nodes, racks, the cluster, and the rules of `place` on groups of nodes."""
    nodes, workloads = defaultdict(list), defaultdict(list)
    for a in allocations:
        nodes[a.node].append(a)
        workloads[a.workload].append(a)
    was = {a.name: (a.node, a.gpus, a.cpus) for a in last.allocations}
    kept = frozenset(a.name for a in allocations if was.get(a.name) == (a.node, a.gpus, a.cpus))
    for node, ones in nodes.items():
        yield from _devices(stack, node, ones, kept)
        yield from _machine(stack, node, ones)
    yield from _racks(stack, nodes)
    for key in KEYS:
        most = getattr(stack.limits.cluster, key)
        yield from _above(f"cluster {key}", "the cluster", allocations, last, key, None if most is None else int(most))
    for name, ones in workloads.items():
        yield from _shape(stack, name, ones)
    yield from _apart(stack, workloads)
    yield from _away(stack, workloads)
    yield from _alone(stack, workloads, kept_nodes(allocations, last))


def parts(total: int, numa: int) -> list[range]:
    """What each NUMA node has of so many GPUs, cores or bytes."""
    return [range(j * total // numa, (j + 1) * total // numa) for j in range(numa)]


def joined(hardware: Hardware) -> list[set[int]]:
    """Groups of GPUs that NVLink joins, each with each."""
    groups = hardware.links.nvlink
    return [{*range(hardware.gpus.count)}] if groups == "all" else [{*group} for group in groups]


def lies(stack: Stack, a: Allocation) -> set[int]:
    """The NUMA nodes of its GPUs and cores."""
    h = stack.hardware_of(a.node)
    gpus, cores = parts(h.gpus.count, h.numa), parts(int(h.vcpus) // 1000, h.numa)
    return {j for j in range(h.numa) if any(i in gpus[j] for i in a.cards) or any(i in cores[j] for i in a.cpus)}


def _devices(stack: Stack, node: str, ones: list[Allocation], kept: frozenset[str]) -> Iterator[Finding]:
    hardware = stack.hardware_of(node)
    cards, cores = defaultdict(list), defaultdict(list)
    for a in ones:
        for gpu in a.cards:
            cards[gpu].append(a)
        for cpu in a.cpus:
            cores[cpu].append(a)
        if any(not 0 <= j < hardware.numa for j in a.numa):
            yield Finding("numa", f"{a.name} is on a NUMA node that {node} has not", frozenset({a.name}))
        asked = stack.workloads[a.workload].place.numa and a.name not in kept
        if asked and len(lies(stack, a) | {*a.numa}) > 1:
            yield Finding("numa single", f"{a.name} is on several NUMA nodes of {node}", frozenset({a.name}))
        required = stack.workloads[a.workload].place.links and len(a.gpus) > 1 and a.name not in kept
        if required and not any({*a.cards} <= group for group in joined(hardware)):
            text = f"{a.name} has GPUs {list(a.cards)} of {node}, which are not joined"
            yield Finding("links", text, frozenset({a.name}))
    for gpu, owners in cards.items():
        ones_there = [one for a in {a.name: a for a in owners}.values() for one in a.gpus if one.index == gpu]
        slices = [place for one in ones_there if one.profile for place in range(one.start, one.start + one.size)]
        share = sum(one.part for one in ones_there) + 1000 * bool(slices) * any(not one.profile for one in ones_there)
        twice = len(slices) > len({*slices}) or any(
            one.start not in hardware.profiles[one.profile].starts for one in ones_there if one.profile
        )
        if not 0 <= gpu < hardware.gpus.count or share > 1000 or twice:
            text = f"GPU {gpu} of {hardware.gpus.count} of {node} is held by {_some(owners)}"
            yield Finding("gpu owner", text, frozenset(a.name for a in owners))
    for cpu, owners in cores.items():
        if not 0 <= cpu < int(hardware.vcpus) // 1000 or len(owners) > 1:
            yield Finding("core owner", f"core {cpu} of {node} is held by {_some(owners)}", frozenset(a.name for a in owners))


def _machine(stack: Stack, node: str, ones: list[Allocation]) -> Iterator[Finding]:
    """Every resource of a node, by its hardware and by `limits.node`."""
    hardware, limit, use = stack.hardware_of(node), stack.limits.node, held(ones)
    has = {
        "gpus": None,
        "vcpus": hardware.vcpus,
        "memory": hardware.memory,
        "storage": hardware.nvme,
        "bandwidth": hardware.nic,
        "replicas": None,
    }
    for key in KEYS:
        for most, whose in ((has[key], "node"), (getattr(limit, key), "limits.node")):
            if most is not None and use[key] > int(most) and held(a for a in ones if not a.ended)[key]:
                names = frozenset(a.name for a in ones if held([a])[key])
                yield Finding(f"{whose} {key}", f"{node} carries {use[key]} of {key}, and {whose} has {int(most)}", names)


def _racks(stack: Stack, nodes: dict[str, list[Allocation]]) -> Iterator[Finding]:
    """Uplink, each way, and power: the caps of all GPUs, the node's or the workload's where that is higher."""
    members: dict[str, list[Allocation]] = defaultdict(list)
    watts: dict[str, int] = defaultdict(int)
    owned: dict[str, set[str]] = defaultdict(set)
    for name, node in stack.nodes.items():
        if not node.rack:
            continue
        ones = nodes.get(name, [])
        members[node.rack] += ones
        if node.state == "lost":
            continue
        cap = int(stack.tuning_of(name).gpu_power or 0)
        own: dict[int, int] = {}
        for a in ones:
            asked = int(stack.workloads[a.workload].each.gpu_power or 0)
            for gpu in a.cards:
                own[gpu] = max(own.get(gpu, cap), asked)
            if a.gpus and asked > cap:
                owned[node.rack].add(a.name)
        watts[node.rack] += cap * (stack.hardware_of(name).gpus.count - len(own)) + sum(own.values())
    for name, rack in stack.racks.items():
        use = held(members[name])["bandwidth"]
        if rack.uplink is not None and use > int(rack.uplink):
            names = frozenset(a.name for a in members[name] if held([a])["bandwidth"])
            yield Finding("uplink", f"rack {name} carries {use} bit/s, and its uplink {int(rack.uplink)}", names)
        if rack.power is not None and watts[name] > int(rack.power):
            text = f"the GPUs of rack {name} may draw {watts[name]} W of {int(rack.power)}"
            yield Finding("power", text, frozenset(owned[name]))


def _shape(stack: Stack, name: str, ones: list[Allocation]) -> Iterator[Finding]:
    where, ones = stack.workloads[name].place, [a for a in ones if not a.ended]
    names = frozenset(a.name for a in ones)
    if where.spread and len({place(stack, a.node, where.spread) for a in ones}) < len(ones):
        yield Finding("spread", f"{name} has two replicas in one {where.spread}", names)
    if where.within and len({place(stack, a.node, where.within) for a in ones}) > 1:
        yield Finding("within", f"{name} is in more than one {where.within}", names)
    if where.per_node and max(Counter(a.node for a in ones).values(), default=0) > where.per_node:
        yield Finding("per_node", f"{name} has more than {where.per_node} replicas on one node", names)
    for kind, most in (("rack", where.per_rack), ("site", where.per_site)):
        if most and max(Counter(place(stack, a.node, kind) for a in ones).values(), default=0) > most:
            yield Finding(f"per_{kind}", f"{name} has more than {most} replicas in one {kind}", names)


def _apart(stack: Stack, by_workload: dict[str, list[Allocation]]) -> Iterator[Finding]:
    """No two workloads with `apart` on one node, nor in one rack or site where one of them says so."""
    ones = [a for name, every in by_workload.items() if stack.workloads[name].place.apart for a in every if not a.ended]
    for kind in ("node", "rack", "site"):
        there: dict[str, set[str]] = defaultdict(set)
        for a in ones:
            there[place(stack, a.node, kind)].add(a.workload)
        for where, names in there.items():
            if len(names) > 1 and (kind == "node" or any(stack.workloads[name].place.apart == kind for name in names)):
                yield Finding(
                    "apart",
                    f"{', '.join(sorted(names))} are too near in {where}",
                    frozenset(a.name for a in ones if a.workload in names),
                )


def _away(stack: Stack, by_workload: dict[str, list[Allocation]]) -> Iterator[Finding]:
    """No replica near one of a workload that it is to be away from."""
    for name, ones in by_workload.items():
        for kind, others in stack.workloads[name].place.away_from.items():
            for a in (a for a in ones if not a.ended):
                for b in (b for other in others if other != name for b in by_workload.get(other, ()) if not b.ended):
                    if place(stack, a.node, kind) == place(stack, b.node, kind):
                        yield Finding("away_from", f"{a.name} and {b.name} are in one {kind}", frozenset({a.name, b.name}))


def kept_nodes(allocations: list[Allocation], last: Placement) -> frozenset[str]:
    """Those that are on the node where they ran."""
    was = {a.name: a.node for a in last.going()}
    return frozenset(a.name for a in allocations if was.get(a.name) == a.node)


def _alone(stack: Stack, by_workload: dict[str, list[Allocation]], kept: frozenset[str]) -> Iterator[Finding]:
    """No new replica where nobody is whom it is to be only with."""
    for name, ones in by_workload.items():
        for kind, others in stack.workloads[name].place.only_with.items():
            for other in others:
                there = {place(stack, b.node, kind) for b in by_workload.get(other, ()) if not b.ended}
                for a in ones:
                    if not a.ended and a.name not in kept and place(stack, a.node, kind) not in there:
                        yield Finding("only_with", f"no {other} in the {kind} of {a.name}", frozenset({a.name}))


def user_ceilings(stack: Stack, allocations: list[Allocation], last: Placement, today: datetime.date) -> Iterator[Finding]:
    """Today's ceiling of each user and team; above it only what ran, and nothing added."""
    mine, ours = defaultdict(list), defaultdict(list)
    for a in allocations:
        mine[stack.workloads[a.workload].user].append(a)
        for team in around(stack, stack.workloads[a.workload].user):
            ours[team].append(a)
    for team, ones in ours.items():
        for key, most in team_ceilings(stack, team, today).items():
            yield from _above(f"team {key}", team, ones, last, key, most)
    for user, ones in mine.items():
        for key, most in ceilings(stack, user, today).items():
            yield from _above(f"user {key}", user, ones, last, key, most)


def _above(rule: str, who: str, ones: list[Allocation], last: Placement, key: str, most: int | None) -> Iterator[Finding]:
    """More than a ceiling allows, unless each of these held as much before."""
    use = held(ones)[key]
    if most is not None and use > most:
        old = {a.name: a for a in last.allocations}
        names = frozenset(a.name for a in ones if held([a])[key])
        if any(n not in old for n in names) or use > held(old[n] for n in names)[key]:
            yield Finding(rule, f"{who} holds {use} of {key}, and may hold {most}", names)


def gangs(stack: Stack, allocations: list[Allocation]) -> Iterator[Finding]:
    """All members that have not finished, or none."""
    count: dict[str, set[str]] = defaultdict(set)
    for a in allocations:
        count[a.workload].add(a.name)
    going = {a.workload for a in allocations if not a.ended}
    for name, names in count.items():
        gang = stack.workloads[name].gang
        if gang is not None and name in going and len(names) != gang:
            yield Finding("gang", f"{len(names)} of {gang} members of {name} are placed", frozenset(names))


def _some(ones: list[Allocation]) -> str:
    return ", ".join(a.name for a in ones[:3]) + (f" and {len(ones) - 3} more" if len(ones) > 3 else "")
