"""What do racks, groups of linked GPUs and cards hold at most? Rules of a relaxation whose shapes are in one rack each.

For a kind k, a rack r, its workloads w, and y[k,r] = Σ_{h in r} y[k,h]:

    y[k,r] ≤ Σ_w most[w,r]                  `spread`, `per_rack`: each; `balance` over R racks: (members + (R − 1) · skew) / R;
                                            or as many as run there
    most[w,r] = members_w · in[w,r]         `within: rack`: Σ_r in[w,r] ≤ 1, or whole_w of a gang, of which all are there
    Σ_k u(gpus_k / largest_h) · y[k,h] ≤ groups_h · count_h    linked kinds, on nodes with so many groups of linked GPUs, for
                                                               each u of `relaxation`: a replica is within one of them
    Σ_{k whole} gpus_k · y[k,h] + p[h] + m[h] ≤ cards_h · count_h    p, m: whole cards for parts of GPUs, and for instances

What runs may stay against a rule: a workload that does is left out. Where all that run keep it, so do those of them that stay,
and who comes beside them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from swarm_iac.model.device import WHOLE
from swarm_iac.solver.backend.cpsat import cp_model
from swarm_iac.solver.balance.even import compared
from swarm_iac.solver.bounds.relaxation import TURNS, Relaxed, Rule, fits
from swarm_iac.solver.snapshot.capacity import group_of
from swarm_iac.solver.snapshot.layout import GPUS
from swarm_iac.solver.snapshot.snapshot import Snapshot, WorkloadRequest
from swarm_iac.solver.snapshot.value import size

Kinds = Sequence[Sequence[WorkloadRequest]]
Nodes = Sequence[Sequence[str]]


def binds(snapshot: Snapshot) -> bool:
    """Is there anything for these rules to say?"""
    return any(_ruled(request) or request.linked for request in snapshot.requests.values())


def rack_rules(
    snapshot: Snapshot, kinds: Kinds, nodes: Nodes, elsewhere: Mapping[str, int] = MappingProxyType({})
) -> tuple[Rule, ...]:
    """Of the kinds' workloads and the shapes' nodes. `elsewhere`: how many of a workload may stay on other nodes."""
    racks = by_rack(snapshot, nodes)

    def in_racks(relaxed: Relaxed) -> None:
        for k, group in enumerate(kinds):
            ruled = [request for request in group if _ruled(request) and _in_one(snapshot, request, elsewhere)]
            if ruled:
                rest = sum(request.members for request in group) - sum(request.members for request in ruled)
                _in_racks(snapshot, relaxed, k, ruled, rest, racks)

    def linked(relaxed: Relaxed) -> None:
        some = [
            (k, group[0].gpus)
            for k, group in enumerate(kinds)
            if group[0].linked and all(_on_linked(snapshot, request) for request in group)
        ]
        for h, names in enumerate(nodes):
            groups = snapshot.nodes[names[0]].links
            largest = max(map(len, groups), default=0)
            for amounts, limit in fits([gpus for _, gpus in some], largest, TURNS) if len(groups) > 1 else ():
                terms = [(k, h, amount) for (k, _), amount in zip(some, amounts, strict=True)]
                relaxed.at_most(terms, limit * len(groups) * len(names))

    def in_pieces(relaxed: Relaxed) -> None:
        for h, names in enumerate(nodes):
            here = [(group[0], relaxed.y[k, h]) for k, group in enumerate(kinds) if group[0].gpus and (k, h) in relaxed.y]
            if any(request.in_pieces for request, _ in here):
                _in_pieces(relaxed.model, here, snapshot.nodes[names[0]].capacity[GPUS] * len(names))

    return in_racks, linked, in_pieces


def by_rack(snapshot: Snapshot, nodes: Nodes) -> dict[str, list[int]]:
    """The shapes whose nodes are in each rack."""
    found: dict[str, list[int]] = {}
    for h, names in enumerate(nodes):
        found.setdefault(group_of(snapshot.nodes[names[0]], "rack"), []).append(h)
    return found


def _ruled(request: WorkloadRequest) -> bool:
    if request.members < 2 or not request.groups:
        return False
    return request.together == "rack" or _each(request) is not None or _even(request)


def _each(request: WorkloadRequest) -> int | None:
    """The most replicas of it in one rack, by rules on racks or on sites, since a rack is in one site."""
    return min((group.each for group in request.groups if group.each is not None and group.level != "node"), default=None)


def _even(request: WorkloadRequest) -> bool:
    return request.even is not None and request.even.level == "rack" and request.together is None


def _ran(snapshot: Snapshot, request: WorkloadRequest) -> Counter[str]:
    """How many of its replicas ran in each rack."""
    known = snapshot.nodes
    return Counter(group_of(known[a.node], "rack") for a in snapshot.running.get(request.name, ()) if a.node in known)


def _in_one(snapshot: Snapshot, request: WorkloadRequest, elsewhere: Mapping[str, int]) -> bool:
    """Of one with `within: rack`: do all that run keep it, and could all of a gang be on nodes of the relaxation?"""
    return request.together != "rack" or (len(_ran(snapshot, request)) <= 1 and not elsewhere.get(request.name))


def _on_linked(snapshot: Snapshot, request: WorkloadRequest) -> bool:
    """Are the GPUs of each replica that runs linked?"""
    known = snapshot.nodes
    return all(
        a.node not in known or any({*a.cards} <= {*group} for group in known[a.node].links)
        for a in snapshot.running.get(request.name, ())
    )


def most_in_one(snapshot: Snapshot, request: WorkloadRequest) -> int:
    """How many of its replicas one rack may have, `within` aside."""
    found, each = request.members, _each(request)
    if each is not None:
        found = min(found, each)
    if _even(request) and request.even is not None:
        racks = max(1, len(compared(snapshot, request)))
        found = min(found, (request.members + (racks - 1) * request.even.skew) // racks)
    return found


def _in_pieces(model: cp_model.CpModel, here: Sequence[tuple[WorkloadRequest, cp_model.IntVar]], cards: int) -> None:
    """`here`: a workload of each kind on so many cards of one shape, and replicas of the kind."""
    taken = [(var, request.gpus) for request, var in here if not request.in_pieces]
    for some in (
        [(var, size(request)) for request, var in here if request.shared],
        [(var, size(request)) for request, var in here if request.profile],
    ):
        opened = model.new_int_var(0, cards, "")
        taken.append((opened, 1))
        model.add(cp_model.LinearExpr.weighted_sum([var for var, _ in some], [part for _, part in some]) <= WHOLE * opened)
    model.add(cp_model.LinearExpr.weighted_sum([var for var, _ in taken], [amount for _, amount in taken]) <= cards)


def _in_racks(
    snapshot: Snapshot,
    relaxed: Relaxed,
    k: int,
    ruled: Sequence[WorkloadRequest],
    rest: int,
    racks: Mapping[str, Sequence[int]],
) -> None:
    """`ruled`: workloads of the kind with such rules; `rest`: replicas of all its others."""
    model = relaxed.model
    there = {rack: found for rack, ones in racks.items() if (found := [h for h in ones if (k, h) in relaxed.y])}
    if not there:
        return
    together = [request for request in ruled if request.together == "rack"]
    inside = relaxed.inside
    inside.update({(request.name, rack): model.new_bool_var("") for request in together for rack in there})
    for request in together:
        runs = relaxed.whole.get(request.name, 1)
        model.add(cp_model.LinearExpr.sum([inside[request.name, rack] for rack in there]) <= runs)
    tops = {request.name: (most_in_one(snapshot, request), _ran(snapshot, request)) for request in ruled}
    for rack, shapes in there.items():
        top = {name: max(most, ran[rack]) for name, (most, ran) in tops.items()}
        fixed = rest + sum(top[request.name] for request in ruled if request.together != "rack")
        held = [(relaxed.y[k, h], 1) for h in shapes]
        for request in together:
            here, most = inside[request.name, rack], top[request.name]
            if request.gang:
                held.append((here, -most))
            else:  # of these some may be missing
                some = model.new_int_var(0, most, "")
                model.add(some <= most * here)
                held.append((some, -1))
        free = model.new_int_var(0, fixed, "") if fixed else 0
        model.add(cp_model.LinearExpr.weighted_sum([var for var, _ in held], [amount for _, amount in held]) == free)
