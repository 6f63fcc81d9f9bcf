"""How many nodes keep a workload out, and for what? Each node is counted once, for the first thing that it lacks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from swarm_iac.model.place.groups import SITE_LINKS
from swarm_iac.model.placement import Reason
from swarm_iac.pluralize import pluralize
from swarm_iac.solver.balance.even import left
from swarm_iac.solver.explain.counting import GPU_RULE, NODE_RULES, RACK_RULES, TAINTS
from swarm_iac.solver.explain.domains import DOMAINS, LINK_RULE, NUMA_RULE, by_domain
from swarm_iac.solver.explain.messages import KEEPS_DEVICES
from swarm_iac.solver.snapshot.capacity import FreeCapacity
from swarm_iac.solver.snapshot.layout import CLUSTER, NODE, RACK, SUPPLY, TEAM, USER
from swarm_iac.solver.snapshot.snapshot import NodeCapacity, WorkloadRequest
from swarm_iac.solver.snapshot.suitability import FIT, hindering

#: What is said of one node, and of several, in the order in which a node is looked at.
_STATES = {"cordon": "cordoned", "drain": "draining", "lost": "lost"}
_LACKS = {
    **{one.rule: "capacity under limits.node" if one.level == "node" else one.noun.noun for one in NODE},
    **{one.rule: f"{one.key} of the rack" for one in RACK},
}
#: Short codes, in the order in which one is chosen. Those that Slurm has are Slurm's;
#: the Topology Manager of Kubernetes says `TopologyAffinityError`.
CODES: tuple[tuple[str, frozenset[str]], ...] = (
    ("UserLimit", frozenset(one.shown_as for one in USER)),
    ("TeamLimit", frozenset(one.shown_as for one in TEAM)),
    ("ClusterLimit", frozenset(one.shown_as for one in CLUSTER)),
    ("Moves", frozenset({"moves_stay_in_budget"})),
    ("Effort", frozenset({"effort"})),
    ("Topology", frozenset(DOMAINS)),
    ("Resources", frozenset((*(one.shown_as for one in (*NODE, *RACK)), KEEPS_DEVICES, SITE_LINKS.rule))),
    ("ReqNodeNotAvail", frozenset({"node_is_ready"})),
    ("Taints", frozenset({TAINTS})),
)


def code(reasons: Iterable[Reason]) -> str:
    """One word for a script; `BadConstraints` where no node would do whatever were free."""
    rules = {reason.rule for reason in reasons if not reason.besides}
    return next((name for name, those in CODES if not those.isdisjoint(rules)), "BadConstraints" if rules else "")


def lacking(capacity: FreeCapacity, request: WorkloadRequest) -> str:
    """As in `40 nodes: 20 have another GPU model, 12 lack GPUs, 8 are cordoned`; `capacity`: what is free."""
    found: Counter[tuple[str, str]] = Counter(_first(capacity, request, host) for host in capacity.snapshot.nodes.values())
    count = sum(found.values())
    parts = [pluralize(n, f"{_SINGLE[verb]} {what}", f"{verb} {what}") for (verb, what), n in found.most_common()]
    return f"{pluralize(count, 'node')}: {', '.join(parts)}" if parts else ""


_FREE = {NUMA_RULE: "it free only over several NUMA nodes", LINK_RULE: "it free only on GPUs that are not linked"}
_SINGLE = {"are": "is", "have": "has", "lack": "lacks", "hold": "holds"}


def _first(capacity: FreeCapacity, request: WorkloadRequest, host: NodeCapacity) -> tuple[str, str]:
    if unfit := hindering(capacity.snapshot, request)[host.name]:
        for one in FIT:
            if one.lacks and one.name in unfit:
                return "have", one.lacks if isinstance(one.lacks, str) else one.lacks(request, host)
    if host.state != "ready":
        return "are", _STATES.get(host.state, host.state)
    if lack := _lack(capacity, request, host):
        return "lack", _LACKS[lack]
    for group in request.groups:
        if left(capacity, request, group, host) == 0:
            verb, what = group.of.bars
            return verb, group.format(what)
    if request.models and capacity.by_model(request, host.model) < 1:
        return "have", "a GPU model whose limit is used up"
    full = [rule for rule in DOMAINS if request.local and by_domain(capacity, request, host, 1, rule) < 1]
    return "have", _FREE[full[0]] if full else "capacity for one"


def _lack(capacity: FreeCapacity, request: WorkloadRequest, host: NodeCapacity) -> str:
    """The first rule about something that the node or its rack has too little of."""
    if request.in_pieces and capacity.shares(request, host.name, 1) < 1:
        return GPU_RULE
    free = capacity.free[host.name]
    for i, need in request.needs:
        if need > free[i]:
            return NODE_RULES[i]
    if capacity.by_supply(request, host) < 1:
        return NODE_RULES[SUPPLY]
    if host.rack not in capacity.racks:
        return ""
    rules = zip(RACK_RULES, host.of_rack(request), capacity.racks[host.rack], strict=True)
    return next((rule for rule, need, rest in rules if need and need > rest), "")
