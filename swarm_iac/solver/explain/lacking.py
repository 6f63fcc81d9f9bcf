"""How many nodes keep a workload out, and for what? Each node is counted once, for the first thing that it lacks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from swarm_iac.model.placement import Reason
from swarm_iac.solver.explain.counting import GPU_RULE, LEVELS, NODE_RULES, NUMA_RULE, RACK_RULES
from swarm_iac.solver.explain.messages import ANEW
from swarm_iac.solver.snapshot.capacity import Room, group_of
from swarm_iac.solver.snapshot.layout import CLUSTER, NODE, RACK, USER
from swarm_iac.solver.snapshot.snapshot import Ask, Bin
from swarm_iac.solver.snapshot.suitability import FIT

#: What is said of one node, and of several, in the order in which a node is looked at.
_STATES = {"cordon": "cordoned", "drain": "draining", "lost": "lost"}
_FIT = {
    "selector_matches": "other labels",
    "gpu_model_matches": "another GPU model",
    "gpu_memory_suffices": "smaller GPUs",
    "numa_node_suffices": "NUMA nodes that are too small",
}
_LACKS = {
    **{one.rule: one.noun.noun if one.level == "machine" else "room under limits.node" for one in NODE},
    **{one.rule: f"{one.key} of the rack" for one in RACK},
}
#: Short codes, in the order in which one is chosen. Those that Slurm has are Slurm's;
#: the Topology Manager of Kubernetes says `TopologyAffinityError`.
CODES: tuple[tuple[str, frozenset[str]], ...] = (
    ("UserLimit", frozenset(one.told for one in USER)),
    ("ClusterLimit", frozenset(one.told for one in CLUSTER)),
    ("Moves", frozenset({"moves_stay_in_budget"})),
    ("Effort", frozenset({"effort"})),
    ("Topology", frozenset({NUMA_RULE})),
    ("Resources", frozenset((*(one.told for one in (*NODE, *RACK)), ANEW))),
    ("ReqNodeNotAvail", frozenset({"node_is_ready"})),
)


def code(reasons: Iterable[Reason]) -> str:
    """One word for a script; `BadConstraints` where no node would do whatever were free."""
    rules = {reason.rule for reason in reasons if not reason.besides}
    return next((name for name, those in CODES if not those.isdisjoint(rules)), "BadConstraints" if rules else "")


def lacking(room: Room, ask: Ask) -> str:
    """As in `40 nodes: 20 have another GPU model, 12 lack GPUs, 8 are cordoned`; `room`: what is free."""
    groups = {level: {group_of(room.scene.bins[node], level) for node in room.counts[ask.name]} for level in LEVELS}
    found: Counter[tuple[str, str]] = Counter(_first(room, ask, bin_, groups) for bin_ in room.scene.bins.values())
    count = sum(found.values())
    parts = [f"{n} {verb if n > 1 else _SINGLE[verb]} {what}" for (verb, what), n in found.most_common()]
    return f"{count} node{'s' if count != 1 else ''}: {', '.join(parts)}" if parts else ""


_SINGLE = {"are": "is", "have": "has", "lack": "lacks", "hold": "holds"}


def _first(room: Room, ask: Ask, bin_: Bin, groups: dict[str, set[str]]) -> tuple[str, str]:
    for name, fits in FIT:
        if name != "node_is_ready" and not fits(ask, bin_):
            return "have", _FIT[name]
    if bin_.state != "ready":
        return "are", _STATES.get(bin_.state, bin_.state)
    if lack := _lack(room, ask, bin_):
        return "lack", _LACKS[lack]
    if ask.spread and group_of(bin_, ask.spread) in groups[ask.spread]:
        return "hold", "a replica already"
    if ask.single and room.by_numa(ask, bin_, 1) < 1:
        return "have", "it free only over several NUMA nodes"
    outside = ask.within and groups[ask.within] - {group_of(bin_, ask.within)}
    return ("are", f"outside its {ask.within}") if outside else ("have", "room for one")


def _lack(room: Room, ask: Ask, bin_: Bin) -> str:
    """The first rule about something that the node or its rack has too little of."""
    if ask.shared and room.shares(ask, bin_.name) < 1:
        return GPU_RULE
    rules = list(zip(NODE_RULES, ask.need, room.free[bin_.name], strict=True))
    if bin_.rack in room.racks:
        rules += zip(RACK_RULES, bin_.of_rack(ask), room.racks[bin_.rack], strict=True)
    return next((rule for rule, need, free in rules if need and need > free), "")
