"""Do the MIG instances on a node fit on its cards, each at one of the positions of its profile?"""

from __future__ import annotations

from swarm_iac.model.gpus.mig import SLICES
from swarm_iac.solver.backend.cpsat import cp_model
from swarm_iac.solver.exact.fleet_model import FleetModel, Instances
from swarm_iac.solver.packing.mig_instances import mask_of, spots
from swarm_iac.solver.snapshot.layout import GPUS

Terms = list[cp_model.LinearExprT]


def instances_fit_cards(fleet: FleetModel) -> None:
    """For every node n, held card c and eighth e of it:  Σ_{i at e of c} keep_i + Σ_{p,s at e} y[p,s,c] + fixed[c,e] ≤ cut_c

    and over all other cards together  Σ_{p,s at e} y[p,s] ≤ cut: instances are intervals, and intervals of which no more than k
    lie over any point have a place on k cards (interval graphs are perfect). `keep_i`: replica i, which may stay, keeps its
    positions. What is placed has its instances:  Σ_w k_w · x[w,n] + loose_p = Σ_i k_i · keep_i + Σ_s y[p,s]  over the workloads
    and replicas of each profile p. Cards that are cut are not whole:  Σ_{w whole} gpus_w · x[w,n] + Σ_c cut_c + cut ≤ gpus_n.
    """
    for node in fleet.by_node:
        found = fleet.instances(node)
        if found is not None:
            _on_node(fleet, node, found)


def _on_node(fleet: FleetModel, node: str, found: Instances) -> None:
    model, beside = fleet.model, found.beside
    profiles = sorted({name for name, _ in found.sizes.values()} | {*(+beside.loose)})
    placed: dict[str, Terms] = {name: [] for name in profiles}
    over: dict[int, list[Terms]] = {}
    for workload, stand in sorted(found.stand.items()):
        name, each = found.sizes[workload]
        fleet.on_card[workload, node] = []
        for held in stand:
            keep = model.new_bool_var("")
            fleet.on_card[workload, node].append(keep)
            placed[name].append(keep * each)
            for one in held:
                _cover(over.setdefault(one.index, [[] for _ in range(SLICES)]), mask_of(one), keep)
        model.add(cp_model.LinearExpr.sum(fleet.on_card[workload, node]) <= fleet.x[workload, node])
    for card in beside.fixed:
        over.setdefault(card, [[] for _ in range(SLICES)])
    cut: Terms = []
    for card, eighths in sorted(over.items()):
        used = beside.fixed.get(card, 0)
        opened: cp_model.LinearExprT = 1 if used else model.new_bool_var("")
        _add_spots(fleet, beside.kind, placed, eighths, 1)
        for e in range(SLICES):
            model.add(cp_model.LinearExpr.sum([*eighths[e], used >> e & 1]) <= opened)
        cut.append(opened)
    rest: list[Terms] = [[] for _ in range(SLICES)]
    most = max(0, found.cards - len(beside.fixed))
    others = model.new_int_var(0, most, "")
    _add_spots(fleet, beside.kind, placed, rest, most)
    for terms in rest:
        model.add(cp_model.LinearExpr.sum(terms) <= others)
    for name in profiles:
        mine = [fleet.x[workload, node] * each for workload, (profile, each) in found.sizes.items() if profile == name]
        model.add(cp_model.LinearExpr.sum([*mine, beside.loose[name]]) == cp_model.LinearExpr.sum(placed[name]))
    fleet.cut_cards[node] = [*cut, others, -beside.count]
    requests = [request for name in fleet.by_node[node] if not (request := fleet.request(name)).in_pieces]
    whole = [fleet.x[request.name, node] * request.need[GPUS] for request in requests]
    model.add(cp_model.LinearExpr.sum([*whole, *fleet.cut_cards[node]]) <= max(0, fleet.task.base.free[node][GPUS]))


def _add_spots(fleet: FleetModel, kind: tuple[str, int], placed: dict[str, Terms], over: list[Terms], cards: int) -> None:
    """A variable for each position of each profile: how many of so many cards have an instance there."""
    for name, terms in placed.items():
        for _, bits in spots(kind, name):
            var = fleet.model.new_int_var(0, cards, "")
            terms.append(var)
            _cover(over, bits, var)


def _cover(over: list[Terms], bits: int, var: cp_model.IntVar) -> None:
    for e in range(SLICES):
        if bits >> e & 1:
            over[e].append(var)
