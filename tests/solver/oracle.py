"""What is the best placement of a tiny fleet? Every placement, enumerated and judged apart from the solver."""

from __future__ import annotations

import itertools
import math
import unittest.mock
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from typing import ParamSpec, TypedDict, TypeVar

from swarm_iac.limits import amounts, judge
from swarm_iac.model.device import WHOLE
from swarm_iac.model.placement import Goal, Placement
from swarm_iac.model.stack import Stack
from swarm_iac.solver import Scale, Solution, solve
from swarm_iac.solver.balance.overqualification import overqualification
from swarm_iac.solver.decide.small import complete
from swarm_iac.solver.exact.search import EFFORT
from swarm_iac.solver.explain.places.possible import possible
from swarm_iac.solver.repair.assembly import assemble
from swarm_iac.solver.repair.unsplitting import split
from swarm_iac.solver.shares.entitled import shared
from swarm_iac.solver.snapshot import value
from swarm_iac.solver.snapshot.from_stack import snapshot_of
from swarm_iac.solver.snapshot.layout import GPUS, MACHINE
from swarm_iac.solver.snapshot.snapshot import Snapshot, WorkloadRequest
from swarm_iac.solver.snapshot.tasks import Classified, Pairs, by_workload, classify

P = ParamSpec("P")
T = TypeVar("T")


def spreads(snapshot: Snapshot, name: str) -> list[Counter[str]]:
    """Every way to put replicas of one workload on the nodes."""
    request = snapshot.requests[name]
    sizes = [0, request.members] if request.gang else list(range(request.members + 1))
    return [Counter(pick) for size in sizes for pick in itertools.combinations_with_replacement(list(snapshot.nodes), size)]


#: What of a score is about placing: all but so much at its end.
PLACING = -10


def score(snapshot: Snapshot, classified: Classified, counts: Counter[tuple[str, str]]) -> tuple[tuple[int, ...], int]:
    """The goals' values, larger is better, and the voluntary moves."""
    placed: Counter[str] = Counter()
    for (name, _), count in counts.items():
        placed[name] += count
    stays = Counter((a.workload, a.node) for a in classified.stay.values())
    softs = Counter((a.workload, a.node) for a in classified.soft.values())
    counted = _counted(snapshot, counts)
    values: list[int] = _guaranteed(snapshot, stays, counts, placed)
    for level in (2, 1, 0):
        requests = [a for a in snapshot.requests.values() if a.priority == level]
        before, after = _of_shares(snapshot, placed, counted, level, by_workload(stays))
        values += before
        for i, most in enumerate(
            (
                {a.name: sum(c for (n, _), c in stays.items() if n == a.name) for a in requests},
                {a.name: len(snapshot.running.get(a.name, ())) for a in requests},
                {a.name: a.members for a in requests},
            )
        ):
            values += after if i == 2 else []
            values.append(sum(a.gpus * a.share * min(most[a.name], placed[a.name]) for a in requests))
            values.append(sum(min(most[a.name], placed[a.name]) for a in requests))
    stayed = {n: sum(c for (m, _), c in stays.items() if m == n) for n, _ in stays}
    moves = sum(min(c, placed[n]) for n, c in stayed.items()) - sum(min(counts[p], c) for p, c in stays.items())
    moves += 10**6 * sum(  # whoever is not movable is not moved, whatever the budget
        min(stayed[name], placed[name]) > sum(min(counts[pair], count) for pair, count in stays.items() if pair[0] == name)
        for name in stayed
        if not snapshot.requests[name].movable
    )
    moves += sum(recarded(snapshot, classified, counts, node) for node in snapshot.nodes)
    eased = sum(max(0, min(counts[p] - stays[p], c)) for p, c in softs.items())
    load = value.loads(snapshot)
    kept = sum(load[n] * min(len(ones), placed[n]) for n, ones in snapshot.running.items())
    later = {name: place for place, name in enumerate(reversed(snapshot.stack.workloads), 1)}
    order = sum(later[n] * min(len(ones), placed[n]) for n, ones in snapshot.running.items())
    waste = sum(c * overqualification(snapshot, snapshot.requests[n], snapshot.nodes[b]) for (n, b), c in counts.items())
    near = -sum(max(0, len({_where(snapshot, b, w.place.near) for (n, b), c in counts.items() if n == name and c}) - 1)
                for name, w in snapshot.stack.workloads.items() if w.place.near)  # fmt: skip
    alone = 0
    for name, w in snapshot.stack.workloads.items():
        for level in ("node", "rack", "site"):
            for other in {*w.place.prefer_with.get(level, ()), *w.place.only_with.get(level, ())}:
                there = {_where(snapshot, b, level) for (n, b), c in counts.items() if n == other and c}
                alone -= sum(c for (n, b), c in counts.items() if n == name and _where(snapshot, b, level) not in there)
    beside = 0
    for level in ("node", "rack", "site"):
        those = {name for name, w in snapshot.stack.workloads.items() if w.place.prefer_apart == level}
        for group in {_where(snapshot, b, level) for b in snapshot.nodes}:
            inside = {n for (n, b), c in counts.items() if c and n in those and _where(snapshot, b, level) == group}
            beside -= max(0, len(inside) - 1)
    wish = {name: w.place.prefer for name, w in snapshot.stack.workloads.items()}
    labels = {name: dict(node.labels) | {"rack": node.rack, "site": node.site} for name, node in snapshot.stack.nodes.items()}
    lacks = -sum(c for (n, b), c in counts.items() for key, value in wish[n].items() if labels[b].get(key) != value)
    nodes = -len({b for (_, b), c in counts.items() if c})
    return (*values, kept, -moves, -(softs.total() - eased), order, near, alone, beside, lacks, -waste, nodes), moves


def _where(snapshot: Snapshot, node: str, kind: str) -> str:
    """The rack or the site of a node, or the node; without one it is one alone."""
    one = snapshot.stack.nodes[node]
    return (kind == "site" and one.site) or (kind == "node" and node) or f"rack {one.rack or node}"


def _held(snapshot: Snapshot, amounts: Mapping[str, int], level: int) -> Counter[str]:
    """What each team holds, of the level and those above. `amounts`: what all replicas of each workload count."""
    assert snapshot.shares is not None
    found: Counter[str] = Counter()
    for name, request in snapshot.requests.items():
        if request.priority >= level:
            for team in snapshot.shares.lines[request.user]:
                found[team] += amounts[name]
    return found


def _counted(snapshot: Snapshot, counts: Mapping[tuple[str, str], int]) -> Counter[str]:
    """By workload what all its replicas count."""
    found: Counter[str] = Counter()
    for (name, node), count in counts.items():
        found[name] += count * counts_on(snapshot, name, node)
    return found


def counts_on(snapshot: Snapshot, name: str, node: str) -> int:
    """One replica: its GPUs, as they weigh there; by dominant resource no less than the part of the fleet that it takes of
    anything else, as so many GPUs.
    """
    request = snapshot.requests[name]
    found = [request.gpus * request.share * _weight(snapshot, node)]
    if snapshot.stack.solve.share_by == "dominant_resource":
        gpus = sum(WHOLE * _weight(snapshot, host.name) * host.capacity[GPUS] for host in snapshot.nodes.values())
        for i, row in enumerate(MACHINE):
            there = sum(host.capacity[i] for host in snapshot.nodes.values())
            if i != GPUS and not row.part_of and there:
                found.append(math.ceil(Fraction(request.need[i] * gpus, there)))
    return max(found)


def shared_by_teams(snapshot: Snapshot, request: WorkloadRequest) -> bool:
    """Does it count where teams share?"""
    return bool(request.gpus) or snapshot.stack.solve.share_by == "dominant_resource"


def _weight(snapshot: Snapshot, node: str) -> int:
    """From the stack alone: the smallest integers in the proportions of what models are worth."""
    stack = snapshot.stack
    milli = {
        name: int(stack.worth.get(stack.hardware_of(name).gpus.model or "", WHOLE))
        for name in snapshot.nodes
        if stack.hardware_of(name).gpus.count
    }
    return milli.get(node, WHOLE) // math.gcd(WHOLE, *milli.values())


def _lowest(snapshot: Snapshot, name: str) -> int:
    """Of what ran, the least that a replica counts on any of its nodes."""
    nodes = (one.node for one in snapshot.running.get(name, ()) if one.node in snapshot.nodes)
    return min((counts_on(snapshot, name, node) for node in nodes), default=counts_on(snapshot, name, ""))


def _guaranteed(
    snapshot: Snapshot, stays: Counter[tuple[str, str]], counts: Counter[tuple[str, str]], placed: Counter[str]
) -> list[int]:
    """Before all, level by level: what is guaranteed to teams and may stay, beside all that they have of the levels above,
    up to what may stay of both.
    """
    if snapshot.shares is None or not snapshot.shares.guarantees:
        return []
    counted, totals = _counted(snapshot, counts), by_workload(stays)
    found = []
    for level in (2, 1, 0):
        could = _held(snapshot, _counted(snapshot, stays), level)
        mine = {name for name, one in snapshot.requests.items() if one.priority == level and shared_by_teams(snapshot, one)}
        kept = {name: min(totals[name], placed[name]) * _lowest(snapshot, name) for name in mine}
        above = {name: amount for name, amount in counted.items() if snapshot.requests[name].priority > level}
        held = _held(snapshot, Counter(above) + Counter(kept), level)
        if snapshot.stack.solve.reclaim:
            held |= _of_outer(snapshot, _held(snapshot, counted, level))
        if any(totals[name] for name in mine) and any(could[team] for team in snapshot.shares.guarantees):
            found.append(sum(min(most, could[team], held[team]) for team, most in snapshot.shares.guarantees.items()))
    return found


def _of_outer(snapshot: Snapshot, held: Counter[str]) -> Counter[str]:
    """Of those alone that have teams inside them."""
    assert snapshot.shares is not None
    return Counter({team: held[team] for line in snapshot.shares.lines.values() for team in line[:-1]})


def _could(snapshot: Snapshot) -> dict[str, int]:
    """What `possible` says, worked out once."""
    known: dict[str, int] = snapshot.known(_could)
    known.update({} if known else possible(snapshot))
    return known


def _for_those_around(snapshot: Snapshot, held: Counter[str], ran: Counter[str], due: Mapping[str, int]) -> Counter[str]:
    assert snapshot.shares is not None
    lines, found = {*snapshot.shares.lines.values()}, Counter(held)
    for outer in {team for line in lines for team in line[:-1]}:
        leaves = {line[-1] for line in lines if outer in line[:-1]}
        found[outer] = sum(min(held[leaf], max(due[leaf], ran[leaf])) for leaf in leaves)
    return found


def _of_shares(
    snapshot: Snapshot, placed: Counter[str], counted: Counter[str], level: int, stays: Counter[str]
) -> tuple[list[int], list[int]]:
    """What teams hold of what they are due: before what may stay, and after it. Before that, what may stay without GPUs."""
    if snapshot.shares is None or level not in snapshot.shares.due:
        return [], []
    due, lines = snapshot.shares.due[level], snapshot.shares.lines
    held = _held(snapshot, counted, level)
    least = {n: _lowest(snapshot, n) for n in snapshot.requests}
    ran = _held(snapshot, {n: least[n] * min(len(snapshot.running.get(n, ())), placed[n]) for n in least}, level)
    may = _held(snapshot, {n: least[n] * min(stays[n], placed[n]) for n in least}, level)
    # What is lent inside a team may be called back inside it: what is new counts for it, up to what ran and still could, and
    # what may stay.
    could, new = _could(snapshot), _of_outer(snapshot, held)
    did = _held(snapshot, {n: least[n] * min(could[n], len(snapshot.running.get(n, ()))) for n in least}, level)
    ran |= new & did
    may |= new & _held(snapshot, {n: least[n] * stays[n] for n in least}, level)
    leaves = any(
        len(snapshot.running.get(one.name, ())) > stays[one.name]
        for one in snapshot.requests.values()
        if one.priority >= level and shared_by_teams(snapshot, one)
    )
    depths = [{line[d] for line in lines.values() if len(line) > d} for d in range(max(map(len, lines.values())))]
    if snapshot.stack.solve.reclaim:  # what a team holds beyond what it is due and had calls nobody back for those around it
        held = _for_those_around(snapshot, held, did, due)
    within, kept, stay = ([sum(min(has[team], due[team]) for team in teams) for teams in depths] for has in (held, ran, may))
    kept = [*stay, *kept] if leaves else kept
    bare = [one.name for one in snapshot.requests.values() if one.priority == level and not shared_by_teams(snapshot, one)]
    first = [sum(min(stays[name], placed[name]) for name in bare)]
    return ([*first, *kept, *within], []) if snapshot.stack.solve.reclaim else ([], within)


def recarded(snapshot: Snapshot, classified: Classified, counts: Pairs, node: str) -> int:
    """The fewest parts of GPUs that stay on the node and change their card, of all ways to lay them on its cards.

    And replicas with MIG instances that change any position.
    """
    here = {name: count for (name, home), count in counts.items() if home == node and count}
    if not any(a.node == node and snapshot.requests[a.workload].in_pieces for a in classified.stay.values()):
        return 0
    wholes = sum(
        snapshot.requests[name].need[GPUS] * count
        for name, count in here.items()
        if snapshot.stack.workloads[name].each.gpus.whole
    )
    stand = {name: Counter[int]() for name in here}
    for a in classified.stay.values():
        if a.node == node and a.workload in here and snapshot.requests[a.workload].shared:
            stand[a.workload][a.cards[0]] += 1
    cards = snapshot.nodes[node].capacity[GPUS]
    ways = {(0,) * cards: 0}
    for name, count in here.items():
        if snapshot.requests[name].shared:
            ways = _laid(ways, snapshot.requests[name].share, count, stand[name])
    cut = _cut(snapshot, classified, node, here, cards)
    both = ((lost + moved, loads, full) for loads, lost in ways.items() for full, moved in cut.items())
    return min((lost for lost, loads, full in both if sum(map(bool, loads)) + full + wholes <= cards), default=0)


def _cut(snapshot: Snapshot, classified: Classified, node: str, here: dict[str, int], cards: int) -> dict[int, int]:
    """By the number of cards that are cut: the fewest replicas that stay and have another position of an instance."""
    ways: dict[frozenset[tuple[int, int]], int] = {frozenset(): 0}
    for name, count in here.items():
        gpus = snapshot.stack.workloads[name].each.gpus
        if not gpus.profile:
            continue
        profile = snapshot.stack.hardware_of(node).profiles.get(gpus.profile)
        if profile is None:  # the judge does not accept that
            return {0: 0}
        spots = [
            frozenset((card, at) for at in range(start, start + profile.size))
            for card in range(cards)
            for start in profile.starts
        ]
        had = {frozenset((one.index, at) for one in a.gpus for at in range(one.start, one.start + one.size))
               for a in classified.stay.values() if (a.workload, a.node) == (name, node)}  # fmt: skip
        each = {frozenset().union(*pick) for pick in itertools.combinations(spots, gpus.count)}
        each = {spot for spot in each if len(spot) == profile.size * gpus.count}
        for _ in range(count):
            more: dict[frozenset[tuple[int, int]], int] = {}
            for taken, kept in ways.items():
                for spot in each:
                    if not taken & spot:
                        more[taken | spot] = min(more.get(taken | spot, 99), kept - (spot in had))
            ways = more
        ways = {taken: kept + min(count, len(had)) for taken, kept in ways.items()}
    found: dict[int, int] = {}
    for taken, lost in ways.items():
        full = len({card for card, _ in taken})
        found[full] = min(lost, found.get(full, lost))
    return found


def _laid(ways: dict[tuple[int, ...], int], share: int, count: int, stand: Counter[int]) -> dict[tuple[int, ...], int]:
    """Every way to lay so many parts beside what lies there; the fewest that leave their card."""
    could = min(count, stand.total())
    found: dict[tuple[int, ...], int] = {}
    for loads, lost in ways.items():
        for pick in itertools.combinations_with_replacement(range(len(loads)), count):
            on = Counter(pick)
            more = tuple(load + share * on[card] for card, load in enumerate(loads))
            if max(more, default=0) <= WHOLE:
                cost = lost + could - min(could, (on & stand).total())
                found[more] = min(cost, found.get(more, cost))
    return found


class Ran(TypedDict):
    """What the judge is told of what ran."""

    kept: frozenset[str]
    held: dict[str, tuple[int, ...]]
    ran: dict[str, str]


def still(placement: Placement, last: Placement) -> Ran:
    """Allocations that stand where they stood, what each held that ran, and on which node."""
    both = [(a, was) for a in placement.allocations for was in last.allocations if a.name == was.name]
    both = [(a, was) for a, was in both if was.user is None or a.user == was.user]
    held = {a.name: amounts(was) for a, was in both}
    ran = {a.name: was.node for a, was in both}
    return {"kept": frozenset(a.name for a, was in both if was.node == a.node), "held": held, "ran": ran}


def every(stack: Stack, last: Placement) -> Iterator[tuple[tuple[int, ...], int, Pairs]]:
    """(values, moves, replicas by workload and node) of every way to put replicas on nodes, rules aside."""
    snapshot = with_shares(stack, last)
    classified = classify(snapshot)
    for picks in itertools.product(*(spreads(snapshot, name) for name in snapshot.requests)):
        counts = Counter({(n, b): c for n, pick in zip(snapshot.requests, picks, strict=True) for b, c in pick.items()})
        values, moves = score(snapshot, classified, counts)
        yield values, moves, counts


def with_shares(stack: Stack, last: Placement) -> Snapshot:
    """What the solver sees, with what teams are due (`test_shares` compares that with another way to work it out)."""
    snapshot = snapshot_of(stack, last)
    return shared(snapshot, possible(snapshot))


def accepted(stack: Stack, last: Placement, counts: Pairs) -> bool:
    """Does the judge accept it?"""
    snapshot = snapshot_of(stack, last)
    classified = classify(snapshot)
    try:
        placement = Placement(allocations=assemble(snapshot, classified, counts))
    except ValueError:
        return False
    if split(
        snapshot, classified, placement.allocations
    ):  # who has another size is placed anew, and the judge does not see that
        return False
    return not judge(stack, placement, **still(placement, last))


def remembered(work: Callable[P, T]) -> Callable[P, T]:
    """The same, worked out once for the same arguments: all placements are many, and some tests ask again and again."""
    known: dict[str, T] = {}

    def found(*arguments: P.args, **named: P.kwargs) -> T:
        key = repr((arguments, sorted(named.items())))
        if key not in known:
            known[key] = work(*arguments, **named)
        return known[key]

    return found


@remembered
def best(stack: Stack, last: Placement) -> tuple[int, ...]:
    """The best goals' values of all placements that the judge accepts."""
    within = [(values, counts) for values, moves, counts in every(stack, last) if moves <= stack.solve.moves]
    for values, counts in sorted(within, key=lambda pair: pair[0], reverse=True):
        if accepted(stack, last, counts):
            return values
    raise AssertionError("nothing at all is always a placement")


@remembered
def fewest(stack: Stack, last: Placement, placed: Counter[str]) -> int:
    """The fewest moves of all placements of so many replicas that the judge accepts."""

    def alike(counts: Pairs) -> bool:
        found: Counter[str] = Counter()
        for (name, _), count in counts.items():
            found[name] += count
        return +found == +placed

    for moves, counts in sorted(((m, c) for _, m, c in every(stack, last) if alike(c)), key=lambda pair: pair[0]):
        if accepted(stack, last, counts):
            return moves
    raise AssertionError("what was placed is a placement")


def reached(solution: Solution) -> Pairs:
    """The replicas of a solution by workload and node."""
    return Counter((a.workload, a.node) for a in solution.placement.allocations)


def as_large(stack: Stack, last: Placement = Placement()) -> Solution:
    """What the path of large fleets answers."""
    return solve(stack, last, scale=Scale(pairs=0, nodes=0))


def as_small(stack: Stack, last: Placement = Placement()) -> Solution:
    """What the path of small fleets answers where the one model has no time, so that it neither finds nor proves anything."""
    with unittest.mock.patch.dict(EFFORT, normal=0.0):
        return solve(stack, last)


def check_exact(before: Stack, now: Stack, *, proven: bool = True) -> None:
    """The exact path reaches the optimum, proves it, and has no other reason for leaving something out than rules.

    Not `proven`: a bound may be higher than any placement reaches, and where all is placed that could be, nothing else moves or
    stops so that somebody has GPUs that count more.
    """
    last = solve(before).placement
    solution = solve(now, last)
    assert judge(now, solution.placement, **still(solution.placement, last)) == ()
    snapshot = with_shares(now, last)
    ours, optimum = score(snapshot, classify(snapshot), reached(solution))[0], best(now, last)
    local = any(goal.name == "within_numa" for goal in solution.proof.goals)  # comes before nodes in use, which is no goal here
    # Who is not moved for others goes elsewhere before it stops: the table does not have that.
    again = "elsewhere" in solution.proof.parameters
    if again:
        assert ours[:PLACING] >= optimum[:PLACING] and not solution.proof.optimal
    elif ours != optimum if not local else ours[:-1] != optimum[:-1]:
        assert not proven and complete(reached(solution), possible(snapshot))
        assert all(move.forced for move in solution.moves)
    assert sum(1 for move in solution.moves if move.target and not move.forced) <= now.solve.moves
    assert solution.proof.optimal or local or again or not proven
    assert all(goal.value <= goal.bound for goal in solution.proof.goals if "share" in goal.name or "guaranteed" in goal.name)
    assert not [one for one in solution.placement.unplaced if any(reason.rule == "effort" for reason in one.reasons)]


def check_fill(answer: Callable[[Stack], Solution], stack: Stack) -> None:
    """From nothing, the answer is feasible, and the optimum within its bound."""
    solution = answer(stack)
    assert judge(stack, solution.placement) == ()
    goals = {goal.name: goal for goal in solution.proof.goals}
    optimum = best(stack, Placement())
    alike = True  # as many replicas on the levels above
    for goal, most, replicas in placing(stack, goals, optimum):
        assert most <= goal.bound and (goal.value <= most or not alike)
        if goal.value != most:  # the levels below had other room than in the optimum
            break
        alike = alike and replicas


def check_change(answer: Callable[[Stack, Placement], Solution], before: Stack, now: Stack) -> None:
    """After a change, too; and no placement of the same replicas moves fewer than is proven."""
    last = solve(before).placement
    solution = answer(now, last)
    assert judge(now, solution.placement, **still(solution.placement, last)) == ()
    goals = {goal.name: goal for goal in solution.proof.goals}
    optimum = best(now, last)
    for goal, most, _ in placing(now, goals, optimum):
        assert most <= goal.bound
        if goal.value != most:
            break
    assert sum(1 for move in solution.moves if move.target and not move.forced) <= now.solve.moves
    if "moves" in goals:
        placed = Counter(a.workload for a in solution.placement.allocations)
        assert goals["moves"].bound <= goals["moves"].value
        if "elsewhere" not in solution.proof.parameters:  # they have left all the same, which the table does not allow
            assert goals["moves"].bound <= fewest(now, last, placed) <= goals["moves"].value
    if (
        solution.proof.optimal and "nodes" in goals and "within_numa" not in goals
    ):  # the table of one model, which is strictly in order
        snapshot = snapshot_of(now, last)
        assert score(snapshot, classify(snapshot), reached(solution))[0] == optimum


def check_paths(before: Stack, now: Stack) -> None:
    """On every path: exactly, filled as a large fleet is, and changed as a large one and as one that is given no time."""
    check_exact(before, now)
    check_fill(as_large, now)
    for answer in (as_large, as_small):
        check_change(answer, before, now)


def placing(stack: Stack, goals: dict[str, Goal], optimum: tuple[int, ...]) -> Iterator[tuple[Goal, int, bool]]:
    """The goals on GPUs placed, highest priority first; what the optimum places; and are its replicas as many?"""
    milli = any(workload.each.gpus.count and not workload.each.gpus.whole for workload in stack.workloads.values())
    for i, level in enumerate(("high", "normal", "low")):
        goal = goals.get(f"{level}_placed_{'gpu_milli' if milli else 'gpus'}")
        if goal is not None:
            most, replicas = optimum[6 * i + 4] // (1 if milli else 1000), optimum[6 * i + 5]
            yield goal, most, goals[f"{level}_placed_replicas"].value == replicas
