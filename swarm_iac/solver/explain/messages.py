"""How is a rule told with its figures, and where in the stack file does it come from?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set
from functools import partial

from swarm_iac.model.place.groups import AWAY_FROM, SITE_LINKS
from swarm_iac.model.place.where import GROUP_RULES
from swarm_iac.model.placement import Reason
from swarm_iac.model.resources.row import Noun
from swarm_iac.model.workload import PRIORITIES
from swarm_iac.pluralize import pluralize
from swarm_iac.solver.explain import of_links, of_models
from swarm_iac.solver.explain.able import able, listed
from swarm_iac.solver.explain.counting import EVERY, GPU_RULE, on_node, reach
from swarm_iac.solver.explain.domains import DOMAINS, LINK_RULE, NUMA_RULE, by_domain
from swarm_iac.solver.explain.no_position import format_instances, no_part, no_position
from swarm_iac.solver.explain.of_balance import balance_text
from swarm_iac.solver.explain.places import of_racks, of_sites
from swarm_iac.solver.explain.places.of_members import for_each_member, members_fit
from swarm_iac.solver.snapshot.capacity import FreeCapacity, group_of
from swarm_iac.solver.snapshot.domain_seats import Parts, seated
from swarm_iac.solver.snapshot.layout import (
    BUDGETS,
    CORES,
    COUNTED,
    GPUS,
    ITSELF,
    KEYS,
    MACHINE,
    MEMORY,
    NODE,
    UPLINK,
    VCPUS,
    Budget,
)
from swarm_iac.solver.snapshot.scopes import excepted
from swarm_iac.solver.snapshot.snapshot import CLUSTER, NodeCapacity, Over, Snapshot, WorkloadRequest, of_model
from swarm_iac.solver.snapshot.suitability import FIT, gpu_model_matches
from swarm_iac.units import GpuCount, Watts

#: So many of those who hold something of a team's limit are named.
HOLDERS = 4
#: The rule that only a solve from the next placement gets past.
KEEPS_DEVICES = "keeps_its_devices"
#: Rules that keep other workloads away, from their rack or site where they say so.
_AWAY = {one.rule for one in GROUP_RULES if one.others}
#: What one NUMA node has to have for a replica, in the order of `WorkloadRequest.on_one`.
_NUMA = (NODE[GPUS].noun, NODE[CORES].noun, NODE[MEMORY].noun)


def forbids(capacity: FreeCapacity, request: WorkloadRequest, rule: str, core: frozenset[str], *, lower: str) -> Reason:
    """One rule of a conflict as a reason. `lower`: what the capacity leaves out of a lower priority."""
    budget = BUDGETS.get(rule)
    if budget and budget.by_model and (held := next(of_models.over(capacity.snapshot, request, budget), None)):
        return over_limit(capacity.snapshot, held)  # of all that is held
    found = _forbids(capacity, request, rule, core)
    return found.model_copy(update={"text": f"{found.text}, not counting {lower}"}) if lower and budget else found


def _forbids(capacity: FreeCapacity, request: WorkloadRequest, rule: str, core: frozenset[str]) -> Reason:
    here = f"workloads.{request.name}"
    if budget := BUDGETS.get(rule):
        if budget.by_model:
            return of_models.reason(capacity, request, budget)
        of_node = of_racks.supply if budget.level == "supply" else _on_node if budget.level in ("machine", "node") else None
        if of_node:
            return of_node(capacity, request, budget, core)
        return of_racks.rack(capacity, request, budget, core) if budget.level == "rack" else _ceiling(capacity, request, budget)
    if rule == "node_is_ready":
        return _states(capacity, request)
    own = partial(of_sites.reason, core=core) if rule == SITE_LINKS.rule else _OF_DOMAINS.get(rule)
    if own:
        return own(capacity, request, rule)
    text, path = _asked(capacity, request, rule)
    if rule == gpu_model_matches.__name__ and (bare := _without_gpus(capacity, request, core - {rule})):
        every = len(capacity.snapshot.nodes)
        none = pluralize(bare, f"of {every} nodes has no GPUs", f"of {every} nodes have no GPUs")
        text = f"needs {request.model}, and {none}"
    if rule == AWAY_FROM.rule and not request.place.away_from:  # another one says so
        here = f"workloads.{namer(capacity.snapshot, request)}"
    return Reason(rule=rule, text=text, path=f"{here}.{path}")


def _without_gpus(capacity: FreeCapacity, request: WorkloadRequest, rest: frozenset[str]) -> int:
    """How many nodes the GPU model alone keeps it off, beside these rules, where none of those has GPUs; else 0."""
    nodes = able(capacity, request, gpu_model_matches.__name__, rest)[0]
    others = [host for host in nodes if not gpu_model_matches(request, host)]
    return 0 if any(host.capacity[GPUS] for host in others) else len(others)


def namer(snapshot: Snapshot, request: WorkloadRequest) -> str:
    """The first workload that is to be away from this one."""
    every = snapshot.stack.workloads.items()
    return next(name for name, one in every if any(request.name in names for names in one.place.away_from.values()))


def _asked(capacity: FreeCapacity, request: WorkloadRequest, rule: str) -> tuple[str, str]:
    """What the workload asks for that cannot be had, and the path of its key."""
    if rule == "gang_is_whole_or_absent":
        return _gang(capacity, request), "gang"
    for group in (group for group in request.groups if group.of.rule == rule):
        text = balance_text(capacity, request, group) if group.of.even else group.format(group.of.text)
        return text, f"place.{group.of.key}"
    one = next(one for one in FIT if one.name == rule)
    assert one.text is not None, rule
    return one.text(capacity.snapshot, request), one.path


def _on_node(capacity: FreeCapacity, request: WorkloadRequest, budget: Budget, core: frozenset[str]) -> Reason:
    i = budget.place
    nodes, those = able(capacity, request, budget.rule, core)
    if request.profile and budget.rule == GPU_RULE:
        return no_position(capacity, request, nodes, those)
    if request.shared and budget.rule == GPU_RULE:
        return no_part(capacity, request, nodes, those)
    best = max(nodes, key=lambda b: (capacity.free[b.name][i], b.name), default=None)
    count = GpuCount(request.gpus * request.share)
    need = (
        f"{count} x {request.model}" if budget.row is MACHINE[GPUS] and request.model else budget.noun.amount(request.need[i])
    )
    least = (
        f"{those}the most that is free is none"
        if best is None or capacity.free[best.name][i] <= 0
        else f"{those}the most that is free is {budget.noun.text(capacity.free[best.name][i])} on {best.name}"
    )
    each = ""
    if request.gang:
        enough = best is not None and capacity.free[best.name][i] >= request.need[i]
        each = f" for each of {request.members} members" if enough else ""
        fit = pluralize(reach(capacity, request), "fits", "fit")
        least = fit if enough else f"{least}; {members_fit(capacity, request)}"
    limited = budget.level == "node"
    path = f"limits.node.{budget.key}" if limited else f"workloads.{request.name}.{MACHINE[i].key}"
    under = " under the node limit" if limited else ""
    return Reason(rule=budget.shown_as, text=f"needs {need} on one node{under}{each}; {least}", path=path)


def _numa(capacity: FreeCapacity, request: WorkloadRequest, rule: str) -> Reason:
    """What is free, or there, on one node and on one of its NUMA nodes: where the most of it is on one."""
    path = f"workloads.{request.name}.place.numa"
    if rule != NUMA_RULE:
        sizes = [part for host in capacity.snapshot.nodes.values() for part in host.parts]
        i = _short(request, sizes)
        largest = f"; the largest has {_NUMA[i].text(max(part[i] for part in sizes))}" if sizes and i is not None else ""
        need = _needed(request, i)
        text = f"needs {need} on one NUMA node, and those of the nodes that would do are smaller{largest}"
        return Reason(rule=rule, text=text, path=path)
    nodes = able(capacity, request, rule, EVERY)[0]
    if request.gang and any(by_domain(capacity, request, host, 1, rule) > 0 for host in nodes):
        text = f"needs {_needed(request)} on one NUMA node {for_each_member(capacity, request)}"
        return Reason(rule=rule, text=text, path=path)
    frees = {host.name: _free(capacity, host) for host in nodes}
    node = max(frees, key=lambda name: (max(frees[name]), name), default="")
    i = _short(request, frees.get(node, []))
    text = f"{node} has free all that it needs, but no NUMA node of it"
    if i is not None:
        row, total = _NUMA[i], max(0, sum(part[i] for part in frees[node]))
        several = row.many and row.text(total) != "1"
        text = f"{row.amount(total)} {'are' if several else 'is'} free on {node}, but at most "
        text += f"{row.text(max(part[i] for part in frees[node]))} on one NUMA node"
    found = f"; {members_fit(capacity, request)}" if request.gang else ""
    return Reason(rule=rule, text=f"needs {_needed(request, i)} on one NUMA node; {text}{found}", path=path)


_OF_DOMAINS = {
    NUMA_RULE: _numa, "numa_node_suffices": _numa, LINK_RULE: of_links.reason, "linked_gpus_suffice": of_links.reason,
}  # fmt: skip


def _needed(request: WorkloadRequest, only: int | None = None) -> str:
    """The GPUs, cores and memory of one replica, or only one of these."""
    needs = enumerate(zip(_NUMA, request.on_one, strict=True))
    return listed([row.amount(need) for i, (row, need) in needs if need and only in (None, i)])


def _short(request: WorkloadRequest, free: list[tuple[int, int, int]]) -> int | None:
    """The place in _NUMA of what no NUMA node has enough of; None where each thing alone is enough on some."""
    return next((i for i, need in enumerate(request.on_one) if all(part[i] < need for part in free)), None)


def _free(capacity: FreeCapacity, host: NodeCapacity) -> list[tuple[int, int, int]]:
    """GPUs, cores and memory that are free on each NUMA node, as all lies there."""
    free = Parts(capacity.snapshot, capacity.snapshot.stack.hardware_of(host.name), seated(capacity, host.name))
    memory = [min(free.memory.left(j), capacity.free[host.name][MEMORY]) for j in range(len(free.gpus))]
    return [(len(gpus), len(cpus), left) for gpus, cpus, left in zip(free.gpus, free.cpus, memory, strict=True)]


def over_limit(snapshot: Snapshot, over: Over) -> Reason:
    """Who holds more than they may, since a limit was lowered or an exception to it has ended."""
    row, key = COUNTED[over.resource], KEYS[over.resource]
    mine = [one for one in snapshot.stack.limits.exceptions if excepted(one) == over.scope]
    given = [one.gpus_by_model.get(over.model) if over.model else one.limit(key) for one in mine]
    ended = any(value is not None and value > over.most for value in given)
    since = " since an exception has ended" if ended else ""
    on = f" on {over.model}" if over.model else ""
    text = f"{over.scope} holds {row.amount(over.held)}{on} and may have {row.text(over.most)}{since}: "
    there = snapshot.given[of_model(over.scope, over.model) if over.model else over.scope, over.resource]
    path = "limits.except" if ended else there if over.model else f"{there}.{key}"
    level = "cluster" if over.scope == CLUSTER else over.scope.partition(" ")[0]
    rule = f"{level}_stays_under_limits"
    return Reason(rule=rule, text=f"{text}running replicas stay; no new ones are admitted{on}", path=path)


def _ceiling(capacity: FreeCapacity, request: WorkloadRequest, budget: Budget) -> Reason:
    i, noun, scope = budget.place, budget.noun, request.scope_of(budget)
    for over in capacity.snapshot.over:
        if over.resource == i and over.scope == scope:
            return over_limit(capacity.snapshot, over)
    left = capacity.scopes[scope][i]
    whole = capacity.snapshot.scopes[scope][i] + capacity.snapshot.files(scope, i)
    itself = i in ITSELF
    need = request.usage[i] * (request.members if request.gang and itself else 1)
    members = pluralize(request.members, "member")
    each = f"needs {noun.amount(need)}" + (f" for each of {members}" if request.gang and not itself else "")
    text = f"{each}; {scope} has {noun.text(max(0, left))} left of {noun.text(whole)}"
    text += _by_whom(capacity, scope, i, noun) if budget.level == "team" else ""
    return Reason(rule=budget.shown_as, text=text, path=f"{capacity.snapshot.given[scope, i]}.{budget.key}")


def _by_whom(capacity: FreeCapacity, team: str, resource: int, noun: Noun) -> str:
    """Who holds how much of a team's limit, the most first: its users, and the teams inside it."""
    snapshot = capacity.snapshot
    held = {
        scope: snapshot.scopes[scope][resource] - capacity.scopes[scope][resource] + snapshot.files(scope, resource)
        for scope in snapshot.inside[team]
    }
    most = sorted((scope for scope in held if held[scope] > 0), key=lambda scope: (-held[scope], scope))
    named = [f"{scope} {noun.text(held[scope])}" for scope in most[:HOLDERS]]
    if rest := sum(held[scope] for scope in most[HOLDERS:]):
        named.append(f"{len(most) - HOLDERS} more {noun.text(rest)}")
    return f", in use by {', '.join(named)}" if named else ""


def _gang(capacity: FreeCapacity, request: WorkloadRequest) -> str:
    return f"all {request.members} members run or none; {pluralize(reach(capacity, request), 'fits', 'fit')}"


def _states(capacity: FreeCapacity, request: WorkloadRequest) -> Reason:
    able = [
        b
        for b in capacity.snapshot.nodes.values()
        if b.state != "ready" and on_node(capacity, request, b, EVERY - {"node_is_ready"}, 1)
    ]
    closed = able or [b for b in capacity.snapshot.nodes.values() if b.state != "ready"]
    names = ", ".join(f"{b.name} ({b.state})" for b in closed[:3]) + (f" and {len(closed) - 3} more" if len(closed) > 3 else "")
    path = f"nodes.{closed[0].name}.state" if closed else "nodes"
    return Reason(rule="node_is_ready", text=f"nothing new may go to {names}" if closed else "there is no node", path=path)


def fits_here(snapshot: Snapshot, capacity: FreeCapacity, request: WorkloadRequest) -> tuple[Reason, ...]:
    """Why each node of a placed workload takes it."""
    found = []
    for node, count in sorted(capacity.counts[request.name].items()):
        host = snapshot.nodes[node]
        free = capacity.free[node]
        parts = [f"{count} here, {host.state}"]
        if request.gpus:
            model = f" {host.model}" if host.model else ""
            whole = f"{request.gpus} of its {pluralize(host.capacity[GPUS], f'{model} GPU'.strip())} each, {free[GPUS]} left"
            left = f"{pluralize(free[GPUS], 'whole one')} left"
            part = f"{GpuCount(request.share)} of one{model} GPU each, time-shared and not isolated; {left}"
            cut = f"{format_instances(request)} of its{model} GPUs each; {left}"
            parts.append(cut if request.profile else part if request.shared else whole)
        vcpus, memory = (MACHINE[i].amount(max(0, free[i])) for i in (VCPUS, MEMORY))
        parts.append(f"{vcpus} and {memory} left")
        found.append(Reason(rule="fits", text=f"{node}: {'; '.join(parts)}", path=f"nodes.{node}"))
    return tuple(found)


def closed(snapshot: Snapshot, node: str) -> Reason:
    """A node's state as a fact."""
    it = snapshot.stack.nodes[node]
    why = f" ({it.reason})" if it.reason else ""
    return Reason(rule="node_is_ready", text=f"{node} is in state {it.state}{why}", path=f"nodes.{node}.state")


def holds(capacity: FreeCapacity, name: str, rules: tuple[str, ...], places: Set[str]) -> Reason:
    """What another workload holds of what the rules of a conflict are about, where that is in the way.

    `places`: the nodes that would take a replica if they were empty. Of a node's own things only theirs matter, of a
    rack's those of its racks, and of a ceiling all.
    """
    other, counts = capacity.snapshot.requests[name], capacity.counts[name]
    named, where = [], set[str]()
    for rule in rules:
        nodes = _in_the_way(capacity, rule, counts, places)
        joined = rule == SITE_LINKS.rule
        found = [*(of_sites.held(capacity, name) if joined else _amounts(other, rule, sum(counts[node] for node in nodes)))]
        named += found
        where |= nodes if found else set()
    on = sorted(where or _in_the_way(capacity, "", counts, places) or counts)
    what = " and ".join(dict.fromkeys(named)) or pluralize(sum(counts[node] for node in on), "place")
    more = f" and {len(on) - 4} more" if len(on) > 4 else ""
    priority = next(key for key, value in PRIORITIES.items() if value == other.priority)
    firm = "" if other.movable else f", and is not moved ({_firmly(capacity.snapshot, name)[0]})"
    text = f"{name} ({priority}, user {other.user}) holds {what} on {', '.join(on[:4])}{more}{firm}"
    return Reason(rule="holds", text=text, path=f"workloads.{name}")


def _in_the_way(capacity: FreeCapacity, rule: str, among: Iterable[str], places: Set[str]) -> set[str]:
    """Those of the nodes on which what is held counts for a rule."""
    level = BUDGETS[rule].level if rule in BUDGETS else "node"
    if level in ("user", "team", "cluster"):
        models = {capacity.snapshot.nodes[node].model for node in places} if BUDGETS[rule].by_model else set()
        return {node for node in among if not models or capacity.snapshot.nodes[node].model in models}
    nodes, away = capacity.snapshot.nodes, capacity.snapshot.away
    if rule in _AWAY:
        groups = {group_of(nodes[node], away) for node in places}
        return {node for node in among if group_of(nodes[node], away) in groups}
    racks = {nodes[node].rack for node in places} - {None} if level == "rack" else set()
    return {node for node in among if node in places or nodes[node].rack in racks}


def _amounts(other: WorkloadRequest, rule: str, count: int) -> Iterator[str]:
    """What `count` replicas hold of the resource that a rule bounds."""
    budget = BUDGETS.get(NODE[GPUS].rule if rule in DOMAINS else rule)
    if budget is None or not count:
        return
    if budget.row is None:
        if other.power is not None:
            yield f"GPUs of up to {Watts(other.power)} each"
        return
    if budget.rule == GPU_RULE and other.in_pieces:
        yield format_instances(other, count) if other.profile else MACHINE[GPUS].amount(other.share * count)
        return
    of = other.usage if budget.level in ("user", "team", "cluster") else other.need
    if need := of[UPLINK[budget.place] if budget.level == "rack" else budget.place]:
        yield budget.noun.amount(need * count)


def not_stopped(capacity: FreeCapacity, request: WorkloadRequest, holders: tuple[str, ...]) -> Reason:
    """Why nobody is stopped for it."""
    names = {value: key for key, value in PRIORITIES.items()}
    betters = sorted(
        {
            capacity.snapshot.requests[name].priority
            for name in holders
            if capacity.snapshot.requests[name].priority >= request.priority
        }
    )
    higher = " and ".join(names[level] for level in betters if level > request.priority)
    which = " or ".join(filter(None, ("equal" if request.priority in betters else "", f"higher ({higher})" if higher else "")))
    text = f"priority {names[request.priority]} cannot preempt workloads of {which or 'equal or higher'} priority"
    return Reason(rule="equals_are_not_stopped", text=text, path=f"workloads.{request.name}.priority")


def budget_spent(snapshot: Snapshot, spent: int) -> Reason:
    """Why it has no other place, although there is capacity."""
    allowed = snapshot.stack.solve.moves
    used = pluralize(spent, f"of {allowed} is", f"of {allowed} are")
    text = f"lost its slot; placing it elsewhere would exceed `solve.moves`: {used} used"
    return Reason(rule="moves_stay_in_budget", text=text, path="solve.moves")


def not_moved(snapshot: Snapshot, names: Iterable[str]) -> Reason:
    """Who holds enough for it, and stays."""
    some = sorted(names)
    hold = "holds enough for it, and is" if len(some) == 1 else "hold enough for it, and are"
    text = f"{' and '.join(some[:3])} {hold} not moved"
    more = f" ({len(some) - 3} more)" if len(some) > 3 else ""
    why, path = _firmly(snapshot, some[0])
    return Reason(rule="immovable_stay", text=f"{text} ({why}){more}", path=path)


def _firmly(snapshot: Snapshot, name: str) -> tuple[str, str]:
    """Why a workload is not moved, and the path of what says so."""
    every = snapshot.stack.workloads
    if not every[name].movable:
        return "`movable: false`", f"workloads.{name}.movable"
    namer = next(one for one, work in every.items() for names in work.place.only_with.values() if name in names)
    return f"{namer} runs only with it", f"workloads.{namer}.place.only_with"


def slot_lost(request: WorkloadRequest) -> Reason:
    """Why it has no other place in this change, although there is capacity."""
    text = "lost its slot to a higher priority, and is not moved (`movable: false`); the next change may place it elsewhere"
    return Reason(rule="moves_stay_in_budget", text=text, path=f"workloads.{request.name}.movable")


def devices_taken(request: WorkloadRequest, nodes: Iterable[str]) -> Reason:
    """Why it has no place where it ran, although there is capacity: only with other devices, as a new one."""
    text = f"other workloads take the devices it held; on {' and '.join(sorted(nodes))} it can only restart with different ones"
    return Reason(rule=KEEPS_DEVICES, text=text, path=f"workloads.{request.name}.each")


def budget(snapshot: Snapshot, needed: int) -> Reason:
    """Why no capacity is freed for it."""
    allowed = snapshot.stack.solve.moves
    text = f"one change may move {pluralize(allowed, 'running allocation')}; moving {needed} would free enough capacity"
    return Reason(rule="moves_stay_in_budget", text=text, path="solve.moves")
