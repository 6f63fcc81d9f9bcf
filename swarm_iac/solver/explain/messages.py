"""How is a rule told with its figures, and where in the stack file does it come from?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from swarm_iac.model.placement import Placement, Reason
from swarm_iac.model.workload import PRIORITIES
from swarm_iac.solver.explain.counting import EVERY, NODE_RULES, NUMA_RULE, RACK_RULES, by_numa, on_node, reach
from swarm_iac.solver.snapshot.capacity import Room
from swarm_iac.solver.snapshot.single_numa import Parts, seated
from swarm_iac.solver.snapshot.snapshot import (
    CAPPED,
    CEILING_KEYS,
    CEILINGS,
    ENDLESS,
    GPUS,
    MEMORY,
    UPLINK,
    VCPUS,
    Ask,
    Bin,
    Over,
    Scene,
)
from swarm_iac.solver.snapshot.suitability import FIT
from swarm_iac.units import BitsPerSecond, Bytes, Cpus, Watts

#: The rule that only a solve from the next placement gets past.
ANEW = "keeps_its_devices"
_TYPES: dict[str, type[int]] = {
    "gpus": int, "vcpus": Cpus, "cores": int, "memory": Bytes, "storage": Bytes,
    "egress": BitsPerSecond, "ingress": BitsPerSecond,
}  # fmt: skip
_NODE_PATHS = ("each.gpus", "each.vcpus", "each.vcpus", "each.memory", "each.scratch", "network.egress", "network.ingress")
_WHICH = {
    "node_is_ready": "that are ready", "selector_matches": "with its labels", "gpu_model_matches": "with its GPU model",
    "gpu_memory_suffices": "with GPUs as large",
    "numa_node_suffices": "with NUMA nodes as large",
}  # fmt: skip
_WORDS = {"gpus": "GPUs", "vcpus": "vCPUs", "cores": "pinned cores", "egress": "bandwidth out", "ingress": "bandwidth in"}


def shown(what: str, value: int) -> str:
    """A value with its unit and its name."""
    word = _WORDS.get(what, what)
    joint = " " if what in ("gpus", "vcpus", "cores") else " of "
    return f"{_TYPES[what](max(0, value))}{joint}{'GPU' if what == 'gpus' and value == 1 else word}"


def forbids(room: Room, ask: Ask, rule: str, core: frozenset[str], *, lower: bool) -> Reason:
    """One rule of a conflict as a reason. `lower`: the room leaves out what a lower priority holds."""
    told = _forbids(room, ask, rule, core)
    counted = lower and (rule in NODE_RULES or rule in RACK_RULES or " " in rule)
    return told.model_copy(update={"text": f"{told.text}, not counting what a lower priority holds"}) if counted else told


def _forbids(room: Room, ask: Ask, rule: str, core: frozenset[str]) -> Reason:
    name, _, what = rule.partition(" ")
    here = f"workloads.{ask.name}"
    if rule in NODE_RULES:
        return _on_node(room, ask, rule, core)
    if name in ("user_stays_under_limits", "cluster_stays_under_limits"):
        return _ceiling(room, ask, name, what)
    if rule in RACK_RULES:
        return _rack(room, ask, rule)
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
    return Reason(rule=name, text=text, path=path)


def _on_node(room: Room, ask: Ask, rule: str, core: frozenset[str]) -> Reason:
    i = NODE_RULES.index(rule)
    name, _, limited = rule.partition(" ")
    what = limited or rule_dimension(i)
    able, those = _able(room, ask, rule, core)
    best = max(able, key=lambda b: (room.free[b.name][i], b.name), default=None)
    need = f"{ask.gpus} x {ask.model}" if what == "gpus" and ask.model else shown(what, ask.need[i])
    least = (
        f"{those}the most that is free is none"
        if best is None or room.free[best.name][i] <= 0
        else f"{those}the most that is free is {_TYPES[what](room.free[best.name][i])} on {best.name}"
    )
    each = ""
    if ask.gang:
        enough = best is not None and room.free[best.name][i] >= ask.need[i]
        each = f" for each of {ask.members} members" if enough else ""
        found = f"{reach(room, ask)} of {ask.members} members find room"
        least = f"{reach(room, ask)} find room" if enough else f"{least}; {found}"
    key = CEILING_KEYS[CEILINGS.index(limited)] if limited else ""
    path = f"limits.node.{key}" if limited else f"workloads.{ask.name}.{_NODE_PATHS[i]}"
    under = " under the node limit" if limited else ""
    return Reason(rule=name, text=f"needs {need} on one node{under}{each}; {least}", path=path)


def _numa(room: Room, ask: Ask, rule: str) -> Reason:
    """What is free, or there, on one node and on one of its NUMA nodes: where the most of it is on one."""
    path = f"workloads.{ask.name}.place.numa"
    if rule != NUMA_RULE:
        sizes = [part for bin_ in room.scene.bins.values() for part in bin_.parts]
        what, i = _short(ask, sizes)
        largest = f"; the largest has {_TYPES[what](max(part[i] for part in sizes))}" if sizes and what else ""
        need = _needed(ask, what)
        text = f"needs {need} on one NUMA node, and those of the nodes that would do are smaller{largest}"
        return Reason(rule=rule, text=text, path=path)
    bins = _able(room, ask, rule, EVERY)[0]
    if ask.gang and any(by_numa(room, ask, bin_, 1) > 0 for bin_ in bins):
        text = f"needs {_needed(ask)} on one NUMA node for each of {ask.members} members; {reach(room, ask)} find room"
        return Reason(rule=rule, text=text, path=path)
    frees = {bin_.name: _free(room, bin_) for bin_ in bins}
    node = max(frees, key=lambda name: (max(frees[name]), name), default="")
    what, i = _short(ask, frees.get(node, []))
    text = f"{node} has free all that it needs, but no NUMA node of it"
    if what:
        total = sum(part[i] for part in frees[node])
        text = f"{shown(what, total)} {'are' if what != 'memory' else 'is'} free on {node}, but at most "
        text += f"{_TYPES[what](max(part[i] for part in frees[node]))} on one NUMA node"
    found = f"; {reach(room, ask)} of {ask.members} members find room" if ask.gang else ""
    return Reason(rule=rule, text=f"needs {_needed(ask, what)} on one NUMA node; {text}{found}", path=path)


def _needed(ask: Ask, only: str = "") -> str:
    """The GPUs, cores and memory of one replica, or only one of these."""
    needs = zip(("gpus", "cores", "memory"), ask.on_one, strict=True)
    return _listed([shown(what, need) for what, need in needs if need and only in ("", what)])


def _short(ask: Ask, free: list[tuple[int, int, int]]) -> tuple[str, int]:
    """What no NUMA node has enough of, and its place; empty where each thing alone is enough on some."""
    short = [i for i, need in enumerate(ask.on_one) if all(part[i] < need for part in free)]
    return (("gpus", "cores", "memory")[short[0]], short[0]) if short else ("", 0)


def _free(room: Room, bin_: Bin) -> list[tuple[int, int, int]]:
    """GPUs, cores and memory that are free on each NUMA node, as all lies there."""
    free = Parts(room.scene, room.scene.stack.hardware_of(bin_.name), seated(room, bin_.name))
    memory = [min(free.memory.left(j), room.free[bin_.name][MEMORY]) for j in range(len(free.gpus))]
    return [(len(gpus), len(cpus), left) for gpus, cpus, left in zip(free.gpus, free.cpus, memory, strict=True)]


def _able(room: Room, ask: Ask, rule: str, core: frozenset[str]) -> tuple[list[Bin], str]:
    """Nodes on which no other rule of the core about one node forbids a replica, and how they differ from the others."""
    bins = list(room.scene.bins.values())
    which: list[str] = []
    enough: list[str] = []
    for name, fits in FIT:
        model = name == "gpu_model_matches" and rule == NODE_RULES[GPUS]
        rest = [b for b in bins if fits(ask, b)] if name in core or model else bins
        if rest and len(rest) < len(bins):
            bins = rest
            which += [_WHICH[name]] if not model else []
    for i, other in enumerate(NODE_RULES):
        if other in core and other != rule:
            rest = [b for b in bins if room.free[b.name][i] >= ask.need[i]]
            if rest and len(rest) < len(bins):
                bins = rest
                what = _WORDS.get(rule_dimension(i), rule_dimension(i)) if i < CAPPED else "room under limits.node"
                enough += [what] if what not in enough else []
    which += [f"with enough {_listed(enough)}"] if enough else []
    return bins, f"of those {_listed(which)} " if which else ""


def _listed(words: list[str]) -> str:
    return " and ".join(", ".join(words).rsplit(", ", 1))


def rule_dimension(i: int) -> str:
    """What the i-th node rule is about."""
    return tuple(_TYPES)[i]


def over_limit(scene: Scene, over: Over) -> Reason:
    """Who holds more than they may, since a limit was lowered or an exception to it has ended."""
    what, key = CEILINGS[over.resource], CEILING_KEYS[over.resource]
    who = f"user {over.user}" if over.user else "the cluster"
    excepted = [getattr(one, key) for one in scene.stack.limits.exceptions if over.user and one.user == over.user]
    ended = any(value is not None and int(value) > over.most for value in excepted)
    since = " since an exception has ended" if ended else ""
    text = f"{who} holds {shown(what, over.held)} and may have {_TYPES[what](over.most)}{since}: "
    path = "limits.except" if ended else f"limits.{'user' if over.user else 'cluster'}.{key}"
    rule = f"{'user' if over.user else 'cluster'}_stays_under_limits"
    return Reason(rule=rule, text=f"{text}running replicas stay; no new ones are admitted", path=path)


def _ceiling(room: Room, ask: Ask, name: str, what: str) -> Reason:
    i = CEILINGS.index(what)
    level = name.split("_", maxsplit=1)[0]
    for over in room.scene.over:
        if over.resource == i and over.user == (ask.user if level == "user" else ""):
            return over_limit(room.scene, over)
    left = room.users[ask.user][i] if level == "user" else room.cluster[i]
    whole = room.scene.users[ask.user][i] if level == "user" else room.scene.cluster[i]
    whole += room.scene.files(ask.user if level == "user" else "", i)
    each = f"needs {shown(what, ask.usage[i])}" + (f" for each of {ask.members} members" if ask.gang else "")
    who = f"user {ask.user}" if level == "user" else "the cluster"
    text = f"{each}; {who} has {_TYPES[what](max(0, left))} left of {_TYPES[what](whole)}"
    path = f"limits.{level}"
    if level == "user":
        path = room.scene.given.get((ask.user, i), path)
    return Reason(rule=name, text=text, path=f"{path}.{CEILING_KEYS[i]}")


def _rack(room: Room, ask: Ask, rule: str) -> Reason:
    i = RACK_RULES.index(rule)
    unit: type[int] = Watts if i == 2 else BitsPerSecond
    bounded = [rack for rack, left in room.racks.items() if left[i] < ENDLESS // 2]
    name = max(bounded or room.racks, key=lambda rack: (room.racks[rack][i], rack))
    need = max((b.power_of(ask) for b in room.scene.bins.values()), default=0) if i == 2 else ask.need[UPLINK[i]]
    kind = "power" if i == 2 else "uplink"
    left = unit(max(0, room.racks[name][i]))
    text = f"needs {unit(need)} more of its rack's {kind}; the most that is left is {left} in {name}"
    return Reason(rule=rule, text=text, path=f"racks.{name}.{kind}")


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
            parts.append(f"{ask.gpus} of its {bin_.room[GPUS]}{model} GPUs each, {free[GPUS]} left")
        parts.append(f"{Cpus(max(0, free[VCPUS]))} vCPUs and {Bytes(max(0, free[MEMORY]))} of memory left")
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
    why = f" ({it.why})" if it.why else ""
    return Reason(rule="node_is_ready", text=f"{node} is in state {it.state}{why}", path=f"nodes.{node}.state")


def holds(room: Room, name: str, rules: tuple[str, ...]) -> Reason:
    """What another workload holds of what the rules of a conflict are about."""
    other, counts = room.scene.asks[name], room.counts[name]
    total = counts.total()
    named = [part for rule in rules for part in _amounts(other, rule, total)]
    what = " and ".join(dict.fromkeys(named)) or f"{total} places"
    where = ", ".join(sorted(counts)[:4]) + (f" and {len(counts) - 4} more" if len(counts) > 4 else "")
    priority = next(key for key, value in PRIORITIES.items() if value == other.priority)
    text = f"{name} ({priority}, user {other.user}) holds {what} on {where}"
    return Reason(rule="holds", text=text, path=f"workloads.{name}")


def _amounts(other: Ask, rule: str, count: int) -> Iterator[str]:
    """What `count` replicas hold of the resource that a rule bounds."""
    _, _, limited = rule.partition(" ")
    if limited:
        need, what = other.usage[CEILINGS.index(limited)], limited
    elif rule in NODE_RULES:
        need, what = other.need[NODE_RULES.index(rule)], rule_dimension(NODE_RULES.index(rule))
    elif rule == NUMA_RULE:
        need, what = other.need[GPUS], "gpus"
    elif rule in RACK_RULES[:2]:
        need, what = other.need[UPLINK[RACK_RULES.index(rule)]], ("egress", "ingress")[RACK_RULES.index(rule)]
    elif rule in RACK_RULES and other.power is not None:
        yield f"GPUs of up to {Watts(other.power)} each"
        return
    else:
        return
    if need:
        yield shown(what, need * count)


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
