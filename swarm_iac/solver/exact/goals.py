"""What is a better placement? One table of goals, each strictly before the next.

    goal                    sense   term
    LEVEL_stay              max     Σ worth_w · min(stay_w, placed_w)       what may stay is not stopped by its equals
    LEVEL_running           max     Σ worth_w · min(running_w, placed_w)    what ran comes before what is new
    LEVEL_share             max     Σ_t min(held_t, due_t)                  see `shares`: GPUs of teams within what they are due
    LEVEL_placed            max     Σ worth_w · placed_w                    LEVEL: high, then normal, then low
    kept                    max     Σ load_w · ran_w                        of those that stop the smallest, in every resource
    moves                   min     Σ min(stay_w, placed_w) − Σ kept        replicas that leave a node they could keep,
                                    + Σ reassigned                          or the card that they hold a part of
    shifts                  min     Σ soft − Σ eased                        replicas that had to change and leave their node
    (order)                 max     Σ place_w · ran_w                       those further down in the file stop; not reported
    near                    min     Σ_w racks of w beyond the first         of those with `near`; no goal where nobody says so
    alone                   min     Σ_w,v replicas of w not beside v        of those with `prefer_with`
    beside                  min     Σ_g workloads in g beyond the first     of those with `prefer_apart`, where two say so
    preferred               min     Σ lacks[w,n] · x[w,n]                   labels of `prefer`; no goal where nobody says so
    overqualification       min     Σ finer[w,n] · x[w,n]                   GPU nodes for GPU work, small models first
    nodes                   min     Σ open[n]                               fewest nodes in use
    (tie)                   min     Σ rank[n] · x[w,n]                      fullest, then lowest name; not reported

worth_w = gpus_w · (1 + R) + 1, with R the replicas wanted at the level, and GPUs counted in thousandths on a fleet
where parts of them are asked for: GPUs first, then replicas, strictly, since all
replicas together are worth less than one GPU. Because of the order, a running allocation is stopped only where that
places a higher priority. load_w is what one replica takes of the fleet (worth.loads), ran_w = min(running_w, placed_w),
and place_w counts from the end of the file. A rebalance puts moves, shifts and (order) after nodes.

Where GPUs are shared by teams, LEVEL_guaranteed of all levels come first, and with `solve.reclaim` LEVEL_stay_without_gpus (as
LEVEL_stay, of those that hold none), LEVEL_share_stay, LEVEL_share_kept and LEVEL_share before LEVEL_stay: see `team_goals`.
"""

from __future__ import annotations

from dataclasses import replace

from swarm_iac.model.workload import PRIORITIES
from swarm_iac.solver.exact.aim import Aim
from swarm_iac.solver.exact.changes import Keeping
from swarm_iac.solver.exact.fleet_model import FleetModel, Terms
from swarm_iac.solver.exact.nearness import apartness, company, nearness, preference
from swarm_iac.solver.exact.team_goals import TeamGoals
from swarm_iac.solver.snapshot.layout import GPUS, VCPUS
from swarm_iac.solver.snapshot.value import loads

#: Part of the effort of a goal that one of tidiness has.
TIDY = 0.2
#: Goals that nobody is told of.
UNTOLD = ("(order)", "(tie)")
#: Highest first.
LEVELS = tuple(sorted(PRIORITIES, key=lambda name: -PRIORITIES[name]))


def aims(fleet: FleetModel, keeping: Keeping, possible: dict[str, int], *, repair: bool) -> list[Aim]:
    """The table for one board. `possible[w]` is the most replicas of w that an empty fleet could take."""
    found = [aim for level in LEVELS for aim in _placing(fleet, keeping, possible, level)]
    if fleet.task.snapshot.shares:
        found = _with_shares(fleet, keeping, possible, found)
    change = [_moves(keeping), _shifts(fleet, keeping)]
    liked = [*nearness(fleet, TIDY), *company(fleet, TIDY), *apartness(fleet, TIDY), *preference(fleet, TIDY)]
    tidy = [*liked, _overqualification(fleet), _nodes(fleet)]
    kept, order = _kept(fleet, keeping, possible)
    # Nobody moves for a tie.
    return [*found, kept, *([*change, order, *tidy] if repair else [*tidy, *change, order]), _tie(fleet)]


def _placing(fleet: FleetModel, keeping: Keeping, possible: dict[str, int], level: str) -> list[Aim]:
    snapshot, base = fleet.task.snapshot, fleet.task.base
    requests = [request for request in snapshot.requests.values() if request.priority == PRIORITIES[level]]
    step = 1 + sum(request.members for request in requests)
    milli = snapshot.milli
    unit = "gpu_milli" if milli else "gpus"
    worth = {request.name: request.gpus * (request.share if milli else 1) * step + 1 for request in requests}
    fixed = {request.name: base.counts[request.name].total() for request in requests}
    free = {
        request.name: min(fleet.task.free.get(request.name, 0), max(0, possible[request.name] - fixed[request.name]))
        for request in requests
    }
    constant = sum(worth[name] * count for name, count in fixed.items())

    def aim(name: str, terms: Terms, counts: frozenset[str], top: int, places: int | None = None) -> Aim:
        on_gpus = frozenset(w for w in counts if snapshot.requests[w].gpus)
        best = constant + top
        return Aim(name, terms, constant, 1, best, step, unit=unit, places=places, counts=counts, on_gpus=on_gpus)

    result = []
    for name, least in ((f"{level}_stay", keeping.stayed), (f"{level}_running", keeping.ran)):
        mine = {w: var for w, var in least.items() if w in worth}
        top = sum(worth[w] * min(fleet.top_of(var), free[w]) for w, var in mine.items())
        result.append(replace(aim(name, [(var, worth[w]) for w, var in mine.items()], frozenset(mine), top), runs=True))
    every = [(var, worth[request.name] * count) for request in requests for var, count in fleet.total(request.name)]
    top = sum(worth[name] * count for name, count in free.items())
    result.append(aim(f"{level}_placed", every, frozenset(free), top, PRIORITIES[level]))
    return result


def _with_shares(fleet: FleetModel, keeping: Keeping, possible: dict[str, int], found: list[Aim]) -> list[Aim]:
    """Shares of teams among the goals about placing: after what may stay, or with `solve.reclaim` before it."""
    teams = TeamGoals(fleet, keeping, possible)
    ordered = [aim for level in LEVELS for aim in teams.guaranteed(level, PRIORITIES[level])]
    for i, level in enumerate(LEVELS):
        stay, running, placed = found[3 * i : 3 * i + 3]
        within = teams.within(level, PRIORITIES[level])
        first = _without_gpus(fleet, keeping, possible, level) if teams.shares.reclaim else []
        reclaims = [*first, *teams.kept(level, PRIORITIES[level]), *within, stay, running, placed]
        ordered += reclaims if teams.shares.reclaim else [stay, running, *within, placed]
    return ordered


def _without_gpus(fleet: FleetModel, keeping: Keeping, possible: dict[str, int], level: str) -> list[Aim]:
    """Who holds no GPUs was lent none, and is not stopped for what a team is due."""
    snapshot, base, shares = fleet.task.snapshot, fleet.task.base, fleet.task.snapshot.shares
    assert shares is not None, "asked only where GPUs are shared by teams"
    mine = [one.name for one in snapshot.requests.values() if one.priority == PRIORITIES[level] and not shares.shared(one)]
    fixed = {name: base.counts[name].total() for name in mine}
    stay = {name: keeping.stayed[name] for name in mine if name in keeping.stayed}
    top = sum(min(fleet.top_of(var), max(0, possible[name] - fixed[name])) for name, var in stay.items())
    constant, terms = sum(fixed.values()), [(var, 1) for var in stay.values()]
    return (
        [Aim(f"{level}_stay_without_gpus", terms, constant, 1, constant + top, counts=frozenset(stay), due=True, runs=True)]
        if stay
        else []
    )


def _kept(fleet: FleetModel, keeping: Keeping, possible: dict[str, int]) -> list[Aim]:
    """Who stops, where someone has to: first by what is lost, then by the place in the file."""
    snapshot, base = fleet.task.snapshot, fleet.task.base
    tops = {
        name: min(fleet.top_of(var), fleet.task.running[name], max(0, possible[name] - base.counts[name].total()))
        for name, var in keeping.ran.items()
    }
    place = {name: len(snapshot.stack.workloads) - i for i, name in enumerate(snapshot.stack.workloads)}
    found = []
    for title, weights in (("kept", loads(snapshot)), ("(order)", place)):
        terms = [(var, weights[name]) for name, var in keeping.ran.items()]
        found.append(Aim(title, terms, 0, 1, sum(weights[name] * top for name, top in tops.items()), share=TIDY, settles=True))
    return found


def _moves(keeping: Keeping) -> Aim:
    return Aim("moves", keeping.moves(), 0, -1, 0)


def _shifts(fleet: FleetModel, keeping: Keeping) -> Aim:
    return Aim("shifts", [(var, -1) for var in keeping.eased.values()], fleet.task.soft.total(), -1, 0)


def _overqualification(fleet: FleetModel) -> Aim:
    cost = {pair: fleet.overqualification.of(fleet.request(pair[0]), fleet.node(pair[1])) for pair in fleet.x}
    terms = [(var, cost[pair]) for pair, var in fleet.x.items() if cost[pair]]
    snapshot = fleet.task.snapshot
    constant = sum(
        count * fleet.overqualification.of(snapshot.requests[name], snapshot.nodes[node])
        for name, counts in fleet.task.base.counts.items()
        for node, count in counts.items()
    )
    return Aim("overqualification", terms, constant, -1, constant, share=TIDY, turns=True)


def _nodes(fleet: FleetModel) -> Aim:
    load = fleet.task.base.load
    terms: Terms = [(var, 1) for node, var in fleet.open.items() if not load[node]]
    constant = sum(1 for count in load.values() if count)
    return Aim("nodes", terms, constant, -1, constant, share=TIDY)


def _tie(fleet: FleetModel) -> Aim:
    base = fleet.task.base
    order = sorted(fleet.by_node, key=lambda n: (not base.load[n], base.free[n][GPUS], base.free[n][VCPUS], n))
    rank = {node: i for i, node in enumerate(order)}
    terms = [(var, rank[node]) for (_, node), var in fleet.x.items() if rank[node]]
    return Aim("(tie)", terms, 0, -1, 0, share=0.1)
