"""How is a rule told with its figures, and where in the stack file does it come from?"""

from __future__ import annotations

from swarm_iac.model.placement import Reason
from swarm_iac.solver.counting import EVERY, NODE_RULES, RACK_RULES, on_node, reach
from swarm_iac.solver.room import Room
from swarm_iac.solver.rules.fit import FIT
from swarm_iac.solver.scene import CEILING_KEYS, CEILINGS, Ask, Bin, Scene
from swarm_iac.units import BitsPerSecond, Bytes, Cpus, Watts

_TYPES: dict[str, type[int]] = {
    "gpus": int, "vcpus": Cpus, "cores": int, "memory": Bytes, "storage": Bytes,
    "egress": BitsPerSecond, "ingress": BitsPerSecond,
}  # fmt: skip
_NODE_PATHS = ("each.gpus", "each.vcpus", "each.vcpus", "each.memory", "each.scratch", "network.egress", "network.ingress")
_WORDS = {"gpus": "GPUs", "vcpus": "vCPUs", "cores": "pinned cores", "egress": "bandwidth out", "ingress": "bandwidth in"}


def shown(what: str, value: int) -> str:
    """A value with its unit and its name."""
    word = _WORDS.get(what, what)
    joint = " " if what in ("gpus", "vcpus", "cores") else " of "
    return f"{_TYPES[what](max(0, value))}{joint}{'GPU' if what == 'gpus' and value == 1 else word}"


def forbids(room: Room, ask: Ask, rule: str, core: frozenset[str]) -> Reason:
    """One rule of a conflict as a reason."""
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
    text, path = texts[rule]
    return Reason(rule=name, text=text, path=path)


def _fitting(room: Room, ask: Ask, core: frozenset[str]) -> list[Bin]:
    """Nodes that pass the rules of the core about single nodes."""
    checks = [fits for name, fits in FIT if name in core]
    return [bin_ for bin_ in room.scene.bins.values() if all(fits(ask, bin_) for fits in checks)]


def _on_node(room: Room, ask: Ask, rule: str, core: frozenset[str]) -> Reason:
    i = NODE_RULES.index(rule)
    name, _, limited = rule.partition(" ")
    what = limited or rule_dimension(i)
    others = [r for r in NODE_RULES if r in core and r != rule]
    bins = _fitting(room, ask, core)
    able = [b for b in bins if all(room.free[b.name][NODE_RULES.index(r)] >= ask.need[NODE_RULES.index(r)] for r in others)]
    best = max(able or bins, key=lambda b: (room.free[b.name][i], b.name), default=None)
    need = f"{ask.gpus} x {ask.model}" if what == "gpus" and ask.model else shown(what, ask.need[i])
    least = (
        "the most that is free is none"
        if best is None or room.free[best.name][i] <= 0
        else (f"the most that is free is {_TYPES[what](room.free[best.name][i])} on {best.name}")
    )
    if ask.gang:
        least += f"; {reach(room, ask)} of {ask.members} members find room"
    key = CEILING_KEYS[CEILINGS.index(limited)] if limited else ""
    path = f"limits.node.{key}" if limited else f"workloads.{ask.name}.{_NODE_PATHS[i]}"
    under = " under the node limit" if limited else ""
    return Reason(rule=name, text=f"needs {need} on one node{under}; {least}", path=path)


def rule_dimension(i: int) -> str:
    """What the i-th node rule is about."""
    return tuple(_TYPES)[i]


def _ceiling(room: Room, ask: Ask, name: str, what: str) -> Reason:
    i = CEILINGS.index(what)
    level = name.split("_", maxsplit=1)[0]
    left = room.users[ask.user][i] if level == "user" else room.cluster[i]
    whole = room.scene.users[ask.user][i] if level == "user" else room.scene.cluster[i]
    each = f"needs {shown(what, ask.usage[i])}" + (f" for each of {ask.members} members" if ask.gang else "")
    who = f"user {ask.user}" if level == "user" else "the cluster"
    text = f"{each}; {who} has {_TYPES[what](max(0, left))} left of {_TYPES[what](whole)}"
    return Reason(rule=name, text=text, path=f"limits.{level}.{CEILING_KEYS[i]}")


def _rack(room: Room, ask: Ask, rule: str) -> Reason:
    i = RACK_RULES.index(rule)
    unit: type[int] = Watts if i == 2 else BitsPerSecond
    name = max(room.racks, key=lambda rack: (room.racks[rack][i], rack))
    need = max((b.power_of(ask) for b in room.scene.bins.values()), default=0) if i == 2 else ask.need[5 + i]
    kind = "power" if i == 2 else "uplink"
    left = unit(max(0, room.racks[name][i]))
    text = f"needs {unit(need)} more of its rack's {kind}; the most that is left is {left} in {name}"
    return Reason(rule=rule, text=text, path=f"racks.{name}.{kind}")


def _selected(room: Room, ask: Ask) -> str:
    labels = ", ".join(f"{key}: {value}" for key, value in ask.select)
    count = sum(all(b.labels.get(key) == value for key, value in ask.select) for b in room.scene.bins.values())
    return f"asks for nodes with {labels}; {count} of {len(room.scene.bins)} have it, and they have no room"


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
            parts.append(f"{ask.gpus} of its {bin_.room[0]}{model} GPUs each, {free[0]} left")
        parts.append(f"{Cpus(max(0, free[1]))} vCPUs and {Bytes(max(0, free[3]))} of memory left")
        found.append(Reason(rule="fits", text=f"{node}: {'; '.join(parts)}", path=f"nodes.{node}"))
    return tuple(found)
