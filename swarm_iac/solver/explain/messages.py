"""How is a rule told with its figures, and where in the stack file does it come from?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set

from swarm_iac.model.device import WHOLE
from swarm_iac.model.placement import Placement, Reason
from swarm_iac.model.workload import PRIORITIES
from swarm_iac.solver.explain.able import able, listed
from swarm_iac.solver.explain.counting import EVERY, GPU_RULE, NUMA_RULE, by_numa, on_node, reach
from swarm_iac.solver.snapshot.capacity import Room
from swarm_iac.solver.snapshot.layout import BUDGETS, CORES, COUNTED, GPUS, KEYS, MACHINE, MEMORY, NODE, UPLINK, VCPUS, Budget
from swarm_iac.solver.snapshot.single_numa import Parts, seated
from swarm_iac.solver.snapshot.snapshot import ENDLESS, Ask, Bin, Over, Scene
from swarm_iac.units import Bytes, GpuCount, Watts

#: The rule that only a solve from the next placement gets past.
ANEW = "keeps_its_devices"
#: What one NUMA node has to have for a replica, in the order of `Ask.on_one`.
_NUMA = (NODE[GPUS].noun, NODE[CORES].noun, NODE[MEMORY].noun)


def forbids(room: Room, ask: Ask, rule: str, core: frozenset[str], *, lower: bool) -> Reason:
    """One rule of a conflict as a reason. `lower`: the room leaves out what a lower priority holds."""
    told = _forbids(room, ask, rule, core)
    counted = lower and rule in BUDGETS
    return told.model_copy(update={"text": f"{told.text}, not counting what a lower priority holds"}) if counted else told


def _forbids(room: Room, ask: Ask, rule: str, core: frozenset[str]) -> Reason:
    here = f"workloads.{ask.name}"
    if budget := BUDGETS.get(rule):
        if budget.level in ("machine", "node"):
            return _on_node(room, ask, budget, core)
        return _rack(room, ask, budget) if budget.level == "rack" else _ceiling(room, ask, budget)
    texts = {
        "selector_matches": (_selected(room, ask), f"{here}.place.select"),
        "gpu_model_matches": (f"needs {ask.model}, which the nodes that would do have not", f"{here}.each.gpus"),
        "gpu_memory_suffices": (f"needs GPUs of {Bytes(ask.gpu_memory)} or more", f"{here}.each.gpus"),
        "spread_keeps_apart": (f"no two replicas on one {ask.spread}: no other {ask.spread} has room", f"{here}.place.spread"),
        "within_keeps_together": (f"all in one {ask.within}: no {ask.within} has room for all", f"{here}.place.within"),
        "gang_is_whole_or_absent": (_gang(room, ask), f"{here}.gang"),
    }
    if rule == "node_is_ready":
        return _states(room, ask)
    if rule in (NUMA_RULE, "numa_node_suffices"):
        return _numa(room, ask, rule)
    text, path = texts[rule]
    return Reason(rule=rule, text=text, path=path)


def _on_node(room: Room, ask: Ask, budget: Budget, core: frozenset[str]) -> Reason:
    i = budget.place
    nodes, those = able(room, ask, budget.rule, core)
    if ask.shared and budget.rule == GPU_RULE:
        return _part(room, ask, nodes, those)
    best = max(nodes, key=lambda b: (room.free[b.name][i], b.name), default=None)
    count = GpuCount(ask.gpus * ask.share)
    need = f"{count} x {ask.model}" if budget.row is MACHINE[GPUS] and ask.model else budget.noun.amount(ask.need[i])
    least = (
        f"{those}the most that is free is none"
        if best is None or room.free[best.name][i] <= 0
        else f"{those}the most that is free is {budget.noun.text(room.free[best.name][i])} on {best.name}"
    )
    each = ""
    if ask.gang:
        enough = best is not None and room.free[best.name][i] >= ask.need[i]
        each = f" for each of {ask.members} members" if enough else ""
        found = f"{reach(room, ask)} of {ask.members} members find room"
        least = f"{reach(room, ask)} find room" if enough else f"{least}; {found}"
    limited = budget.level == "node"
    path = f"limits.node.{budget.key}" if limited else f"workloads.{ask.name}.{MACHINE[i].key}"
    under = " under the node limit" if limited else ""
    return Reason(rule=budget.told, text=f"needs {need} on one node{under}{each}; {least}", path=path)


def _part(room: Room, ask: Ask, nodes: list[Bin], those: str) -> Reason:
    """Of a part of a GPU: how much the emptiest card has left."""
    left = {b.name: max(WHOLE * (room.free[b.name][GPUS] > 0), *room.partial(b.name).values(), 0) for b in nodes}
    best = max(left, key=lambda name: (left[name], name), default="")
    least = f"the most that is free of one is {GpuCount(left[best])} on {best}" if left.get(best) else "none has any left"
    share = f"{GpuCount(ask.share)} x {ask.model}" if ask.model else f"{GpuCount(ask.share)} of a GPU"
    each = f" for each of {ask.members} members; {reach(room, ask)} find room" if ask.gang else ""
    path = f"workloads.{ask.name}.{MACHINE[GPUS].key}"
    return Reason(rule=GPU_RULE, text=f"needs {share} on one card{each}; {those}{least}", path=path)


def _numa(room: Room, ask: Ask, rule: str) -> Reason:
    """What is free, or there, on one node and on one of its NUMA nodes: where the most of it is on one."""
    path = f"workloads.{ask.name}.place.numa"
    if rule != NUMA_RULE:
        sizes = [part for bin_ in room.scene.bins.values() for part in bin_.parts]
        i = _short(ask, sizes)
        largest = f"; the largest has {_NUMA[i].text(max(part[i] for part in sizes))}" if sizes and i is not None else ""
        need = _needed(ask, i)
        text = f"needs {need} on one NUMA node, and those of the nodes that would do are smaller{largest}"
        return Reason(rule=rule, text=text, path=path)
    bins = able(room, ask, rule, EVERY)[0]
    if ask.gang and any(by_numa(room, ask, bin_, 1) > 0 for bin_ in bins):
        text = f"needs {_needed(ask)} on one NUMA node for each of {ask.members} members; {reach(room, ask)} find room"
        return Reason(rule=rule, text=text, path=path)
    frees = {bin_.name: _free(room, bin_) for bin_ in bins}
    node = max(frees, key=lambda name: (max(frees[name]), name), default="")
    i = _short(ask, frees.get(node, []))
    text = f"{node} has free all that it needs, but no NUMA node of it"
    if i is not None:
        row, total = _NUMA[i], sum(part[i] for part in frees[node])
        text = f"{row.amount(max(0, total))} {'are' if row.many else 'is'} free on {node}, but at most "
        text += f"{row.text(max(part[i] for part in frees[node]))} on one NUMA node"
    found = f"; {reach(room, ask)} of {ask.members} members find room" if ask.gang else ""
    return Reason(rule=rule, text=f"needs {_needed(ask, i)} on one NUMA node; {text}{found}", path=path)


def _needed(ask: Ask, only: int | None = None) -> str:
    """The GPUs, cores and memory of one replica, or only one of these."""
    needs = enumerate(zip(_NUMA, ask.on_one, strict=True))
    return listed([row.amount(need) for i, (row, need) in needs if need and only in (None, i)])


def _short(ask: Ask, free: list[tuple[int, int, int]]) -> int | None:
    """The place in _NUMA of what no NUMA node has enough of; None where each thing alone is enough on some."""
    return next((i for i, need in enumerate(ask.on_one) if all(part[i] < need for part in free)), None)


def _free(room: Room, bin_: Bin) -> list[tuple[int, int, int]]:
    """GPUs, cores and memory that are free on each NUMA node, as all lies there."""
    free = Parts(room.scene, room.scene.stack.hardware_of(bin_.name), seated(room, bin_.name))
    memory = [min(free.memory.left(j), room.free[bin_.name][MEMORY]) for j in range(len(free.gpus))]
    return [(len(gpus), len(cpus), left) for gpus, cpus, left in zip(free.gpus, free.cpus, memory, strict=True)]


def over_limit(scene: Scene, over: Over) -> Reason:
    """Who holds more than they may, since a limit was lowered or an exception to it has ended."""
    row, key = COUNTED[over.resource], KEYS[over.resource]
    who = f"user {over.user}" if over.user else "the cluster"
    excepted = [one.limit(key) for one in scene.stack.limits.exceptions if over.user and one.user == over.user]
    ended = any(value is not None and value > over.most for value in excepted)
    since = " since an exception has ended" if ended else ""
    text = f"{who} holds {row.amount(over.held)} and may have {row.text(over.most)}{since}: "
    path = "limits.except" if ended else f"limits.{'user' if over.user else 'cluster'}.{key}"
    rule = f"{'user' if over.user else 'cluster'}_stays_under_limits"
    return Reason(rule=rule, text=f"{text}running replicas stay; no new ones are admitted", path=path)


def _ceiling(room: Room, ask: Ask, budget: Budget) -> Reason:
    i, noun, user = budget.place, budget.noun, ask.user if budget.level == "user" else ""
    for over in room.scene.over:
        if over.resource == i and over.user == user:
            return over_limit(room.scene, over)
    left = room.users[user][i] if user else room.cluster[i]
    whole = room.scene.users[user][i] if user else room.scene.cluster[i]
    whole += room.scene.files(user, i)
    each = f"needs {noun.amount(ask.usage[i])}" + (f" for each of {ask.members} members" if ask.gang else "")
    who = f"user {user}" if user else "the cluster"
    text = f"{each}; {who} has {noun.text(max(0, left))} left of {noun.text(whole)}"
    path = room.scene.given.get((user, i), f"limits.{budget.level}")
    return Reason(rule=budget.told, text=text, path=f"{path}.{budget.key}")


def _rack(room: Room, ask: Ask, budget: Budget) -> Reason:
    i, noun, key = budget.place, budget.noun, budget.key
    bounded = [rack for rack, left in room.racks.items() if left[i] < ENDLESS // 2]
    name = max(bounded or room.racks, key=lambda rack: (room.racks[rack][i], rack))
    need = max((b.power_of(ask) for b in room.scene.bins.values()), default=0) if budget.row is None else ask.need[UPLINK[i]]
    left = max(0, room.racks[name][i])
    # Room for one member is no room for all of them.
    each = f" for each of {ask.members} members" if ask.gang and need <= left else ""
    text = f"needs {noun.text(need)} more of its rack's {key}{each}; the most that is left is {noun.text(left)} in {name}"
    return Reason(rule=budget.told, text=text, path=f"racks.{name}.{key}")


def _selected(room: Room, ask: Ask) -> str:
    labels = ", ".join(f"{key}: {value}" for key, value in ask.select)
    count = sum(all(b.labels.get(key) == value for key, value in ask.select) for b in room.scene.bins.values())
    have = f"{count} of {len(room.scene.bins)} have it, and they have no room" if count else "no node has it"
    return f"asks for nodes with {labels}; {have}"


def _gang(room: Room, ask: Ask) -> str:
    return f"all {ask.members} members run or none; {reach(room, ask)} find room"


def _states(room: Room, ask: Ask) -> Reason:
    able = [b for b in room.scene.bins.values() if b.state != "ready" and on_node(room, ask, b, EVERY - {"node_is_ready"}, 1)]
    closed = able or [b for b in room.scene.bins.values() if b.state != "ready"]
    names = ", ".join(f"{b.name} ({b.state})" for b in closed[:3]) + (f" and {len(closed) - 3} more" if len(closed) > 3 else "")
    path = f"nodes.{closed[0].name}.state" if closed else "nodes"
    return Reason(rule="node_is_ready", text=f"nothing new may go to {names}" if closed else "there is no node", path=path)


def fits_here(scene: Scene, room: Room, ask: Ask) -> tuple[Reason, ...]:
    """Why each node of a placed workload takes it."""
    found = []
    for node, count in sorted(room.counts[ask.name].items()):
        bin_ = scene.bins[node]
        free = room.free[node]
        parts = [f"{count} here, {bin_.state}"]
        if ask.gpus:
            model = f" {bin_.model}" if bin_.model else ""
            whole = f"{ask.gpus} of its {bin_.room[GPUS]}{model} GPUs each, {free[GPUS]} left"
            part = f"{GpuCount(ask.share)} of one{model} GPU each, time-shared and not isolated; {free[GPUS]} whole ones left"
            parts.append(part if ask.shared else whole)
        vcpus, memory = (MACHINE[i].amount(max(0, free[i])) for i in (VCPUS, MEMORY))
        parts.append(f"{vcpus} and {memory} left")
        found.append(Reason(rule="fits", text=f"{node}: {'; '.join(parts)}", path=f"nodes.{node}"))
    return tuple(found)


def splits(scene: Scene, placement: Placement, workload: str) -> tuple[Reason, ...]:
    """Which of its replicas lie on several NUMA nodes of their node."""
    found = []
    for a in placement.going():
        known = a.workload == workload and a.node in scene.bins
        if known and (parts := scene.stack.hardware_of(a.node).apart(a.cards, a.cpus)):
            where = " and ".join(map(str, parts))
            ran = ": it ran so before `numa: single`, and is not stopped for it"
            ran = ran if scene.stack.workloads[workload].place.numa else ""
            found.append(
                Reason(rule="split", text=f"{a.name} is split over NUMA nodes {where} of {a.node}{ran}", path=f"nodes.{a.node}")
            )
    return tuple(found)


def closed(scene: Scene, node: str) -> Reason:
    """A node's state as a fact."""
    it = scene.stack.nodes[node]
    why = f" ({it.reason})" if it.reason else ""
    return Reason(rule="node_is_ready", text=f"{node} is in state {it.state}{why}", path=f"nodes.{node}.state")


def holds(room: Room, name: str, rules: tuple[str, ...], places: Set[str]) -> Reason:
    """What another workload holds of what the rules of a conflict are about, where that is in the way.

    `places`: the nodes that would take a replica if they were empty. Of a node's own things only theirs matter, of a
    rack's those of its racks, and of a ceiling all.
    """
    other, counts = room.scene.asks[name], room.counts[name]
    named, where = [], set[str]()
    for rule in rules:
        nodes = _in_the_way(room, rule, counts, places)
        found = list(_amounts(other, rule, sum(counts[node] for node in nodes)))
        named += found
        where |= nodes if found else set()
    on = sorted(where or _in_the_way(room, "", counts, places) or counts)
    what = " and ".join(dict.fromkeys(named)) or f"{sum(counts[node] for node in on)} places"
    more = f" and {len(on) - 4} more" if len(on) > 4 else ""
    priority = next(key for key, value in PRIORITIES.items() if value == other.priority)
    text = f"{name} ({priority}, user {other.user}) holds {what} on {', '.join(on[:4])}{more}"
    return Reason(rule="holds", text=text, path=f"workloads.{name}")


def _in_the_way(room: Room, rule: str, nodes: Iterable[str], places: Set[str]) -> set[str]:
    """Those of the nodes on which what is held counts for a rule."""
    level = BUDGETS[rule].level if rule in BUDGETS else "node"
    if level in ("user", "cluster"):
        return set(nodes)
    bins = room.scene.bins
    racks = {bins[node].rack for node in places} - {None} if level == "rack" else set()
    return {node for node in nodes if node in places or bins[node].rack in racks}


def _amounts(other: Ask, rule: str, count: int) -> Iterator[str]:
    """What `count` replicas hold of the resource that a rule bounds."""
    budget = BUDGETS.get(NODE[GPUS].rule if rule == NUMA_RULE else rule)
    if budget is None or not count:
        return
    if budget.row is None:
        if other.power is not None:
            yield f"GPUs of up to {Watts(other.power)} each"
        return
    if budget.rule == GPU_RULE and other.shared:
        yield MACHINE[GPUS].amount(other.share * count)
        return
    of = other.usage if budget.level in ("user", "cluster") else other.need
    if need := of[UPLINK[budget.place] if budget.level == "rack" else budget.place]:
        yield budget.noun.amount(need * count)


def not_stopped(room: Room, ask: Ask, holders: tuple[str, ...]) -> Reason:
    """Why nobody is stopped for it."""
    names = {value: key for key, value in PRIORITIES.items()}
    betters = sorted({room.scene.asks[name].priority for name in holders if room.scene.asks[name].priority >= ask.priority})
    higher = " and ".join(names[level] for level in betters if level > ask.priority)
    which = " or ".join(filter(None, ("equal" if ask.priority in betters else "", f"higher ({higher})" if higher else "")))
    text = f"priority {names[ask.priority]} cannot preempt workloads of {which or 'equal or higher'} priority"
    return Reason(rule="equals_are_not_stopped", text=text, path=f"workloads.{ask.name}.priority")


def budget_spent(scene: Scene, spent: int) -> Reason:
    """Why it has no other place, though there is room."""
    allowed = scene.stack.solve.moves
    text = f"lost its slot; placing it elsewhere would exceed `solve.moves`: {spent} of {allowed} are used"
    return Reason(rule="moves_stay_in_budget", text=text, path="solve.moves")


def devices_taken(ask: Ask, nodes: Iterable[str]) -> Reason:
    """Why it has no place where it ran, though there is room: only with other devices, as a new one."""
    text = f"others take the devices that it held; on {' and '.join(sorted(nodes))} it can only start anew, with other ones"
    return Reason(rule=ANEW, text=text, path=f"workloads.{ask.name}.each")


def budget(scene: Scene, needed: int) -> Reason:
    """Why nobody makes room for it."""
    allowed = scene.stack.solve.moves
    text = f"one change may move {allowed} running allocations; moving {needed} would make room"
    return Reason(rule="moves_stay_in_budget", text=text, path="solve.moves")
