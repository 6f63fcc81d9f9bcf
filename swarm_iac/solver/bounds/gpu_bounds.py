"""How many GPUs could each priority hold at most, given that those above it are not worse off?

By counting, and where a placement leaves some of it out by a relaxation with whole gangs (`relaxation`), at once for every
priority (`merging`); then by columns, where there is time for a round of them, and by the relaxation with what columns know of
single nodes (caps). Two programs of columns:

together   max Σ_{w of p and above} gpus_w · placed_w                              whatever those above give up
own        max Σ_{w of p} gpus_w · placed_w   with, for each priority q above p,
           Σ_{w of q} gpus_w · placed_w ≥ reached_q,  Σ_{w of q} placed_w ≥ replicas_q
           placed_w ≥ running_w − stops_w  for w of p and above; stops_w: as many as could stop where no more
                                           GPUs and replicas of its priority stop than in the placement

The second is tried where the first leaves a gap. Each program holds one goal, so its values are within three decades.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from swarm_iac.solver.backend.time_limit import TimeLimit
from swarm_iac.solver.bounds.merging import Merged, merged
from swarm_iac.solver.bounds.rack_rules import binds, rack_rules
from swarm_iac.solver.bounds.relaxation import PART, WIDE, WIDEST, Stand, relaxed_bound
from swarm_iac.solver.bounds.team_sums import no_less_due, team_sums
from swarm_iac.solver.columns.problem import Pattern, Problem, Row
from swarm_iac.solver.columns.whole_fleet import bound_of
from swarm_iac.solver.repair.kinds import kind_of, kinds_of, problem_of
from swarm_iac.solver.snapshot.capacity import FreeCapacity
from swarm_iac.solver.snapshot.snapshot import Snapshot, WorkloadRequest
from swarm_iac.solver.snapshot.suitability import may_stay, open_to
from swarm_iac.solver.snapshot.tasks import Classified, Pairs, by_workload
from swarm_iac.solver.snapshot.value import size

#: Rounds of pricing.
ROUNDS = {"quick": 10, "normal": 40, "thorough": 250}
#: Where nothing runs.
NOBODY = Classified({}, {})
#: A gap of less than this part of a level's GPUs is not looked at twice.
CLOSE = 5e-4
#: While a search goes on: the effort of a relaxation without caps, and the part of what is left that pricing may take.
BRIEF, DEEP = 0.1, 0.6
#: The part of what is left that one with racks may take beyond its linear program, which is nearly as strong.
FINER = 0.15
#: For a change one with racks has no more pairs of a kind and a shape: of four large fleets it took 2 to 4 s for each priority,
#: and bounded two of seven better, by 1 and 13%.
WIDEST_OF_CHANGE = 15_000
#: A relaxation without caps has so much in any case: its linear program alone knows that priorities share one fleet.
LEAST = 0.01


@dataclass(frozen=True)
class Bounds:
    """By priority, in thousandths of GPUs: what it and all above could hold `together`, and what it could hold of its `own`.

    `replicas`: how many it could have beside so many GPUs. `due`: by priority and depth of teams, what they could hold within
    what they are due, in the unit of `Entitlements`. All but `together` hold for placements in which no goal before is worse
    than in the one that they were found for.
    """

    together: dict[int, int] = field(default_factory=dict)
    own: dict[int, int] = field(default_factory=dict)
    replicas: dict[int, int] = field(default_factory=dict)
    due: dict[tuple[int, int], int] = field(default_factory=dict)

    def of(self, priority: int, above: int, otherwise: int) -> int:
        """The bound on one priority, where those above it hold `above`; `otherwise` where columns know none."""
        found = [otherwise]
        if priority in self.together:
            found.append(self.together[priority] - above)
        if priority in self.own:
            found.append(self.own[priority])
        return min(found)


def level_bounds(
    snapshot: Snapshot,
    counts: Pairs,
    possible: dict[str, int],
    effort: str,
    stop: TimeLimit,
    *,
    classified: Classified = NOBODY,
) -> Bounds:
    """The bounds beside the placement `counts`. `classified`: who may stay."""
    placed = by_workload(counts)
    found = Bounds()
    moves = int(snapshot.stack.solve.moves)
    levels = sorted({request.priority for request in snapshot.requests.values()}, reverse=True)
    mine = {
        level: [request for request in snapshot.requests.values() if request.gpus and request.priority == level]
        for level in levels
    }
    now = {level: sum(size(request) * placed[request.name] for request in mine[level]) for level in levels}
    counted = {level: sum(size(request) * possible[request.name] for request in mine[level]) for level in levels}
    above = {level: sum(now[other] for other in levels if other > level) for level in levels}

    def gap(level: int) -> int:
        return found.of(level, above[level], counted[level]) - now[level]

    elsewhere = away(snapshot)
    waits = _waits(snapshot)
    closed = {level: sum(size(request) * elsewhere[request.name] for request in mine[level]) for level in levels}

    def own(level: int, most: float | None) -> None:
        if most is not None:
            most = max(now[level], int(most + 1e-6) + closed[level])
            found.own[level] = min(most, found.own.get(level, counted[level]))

    waiting = [level for level in levels if gap(level) > 0]
    seen, small = {}, {}
    for level in waiting:  # each has a bound that is ready at once, before the first has one that takes longer
        if stop.stop():
            return found
        seen[level] = beside(snapshot, level, counts, possible, classified, size)
        problem, groups, nodes, _, stand = seen[level]
        small[level] = one = merged(problem, nodes, stand)
        brief = TimeLimit(stop.stop, BRIEF)
        own(level, relaxed_bound(one.problem, groups, brief, one.stand, moves, elsewhere=elsewhere, widest=WIDEST))
        stop.spend(BRIEF - brief.left)
    waiting = [level for level in waiting if gap(level) > CLOSE * counted[level]]
    for i, level in enumerate(waiting):
        if stop():
            break
        share = stop.part(1 / (len(waiting) - i))
        before = share.left
        problem, groups, _, first, _ = seen[level]
        one = small[level]

        def open_still(level: int = level, share: TimeLimit = share) -> bool:
            return gap(level) > CLOSE * counted[level] and not share()

        # With far more effort than it had. Of 14 relaxations of six drawn fleets that bounded one better, by a thousandth.
        if effort == "thorough" and share.left * PART > 2 * BRIEF:
            own(level, relaxed_bound(one.problem, groups, share, one.stand, moves, elsewhere=elsewhere, widest=WIDEST))
        columns = share.in_rounds(len(shape.fits) for shape in problem.shapes) >= 1  # half a round bounds nothing
        if open_still() and (snapshot.shares or binds(snapshot)):
            own(level, finer_bound(snapshot, level, counts, possible, classified, share))
        if columns and open_still():
            requests = [request for request in snapshot.requests.values() if request.gpus and request.priority >= level]
            found.together[level] = max(above[level] + now[level], _together(snapshot, requests, possible, effort, share))
        if columns and open_still() and level < levels[0]:
            known = found.of(level, above[level], counted[level]) - closed[level] - 0.5  # bounds are whole
            priced = bound_of(problem, rounds=ROUNDS[effort], stop=share, first=first, known=known)
            own(level, priced.bound)
            if open_still() and priced.caps:
                caps, widest = one.caps(priced.caps), WIDEST if waits else WIDE
                own(level, relaxed_bound(one.problem, groups, share, one.stand, moves, caps, elsewhere, widest=widest))
        stop.spend(before - share.left)
    return found


def _waits(snapshot: Snapshot) -> bool:
    """Does somebody wait for a proof? Not with a change."""
    return not snapshot.running or snapshot.stack.solve.effort == "thorough"


def finer_bound(
    snapshot: Snapshot,
    level: int,
    counts: Pairs,
    possible: dict[str, int],
    classified: Classified,
    stop: TimeLimit,
    value: Callable[[WorkloadRequest], int] = size,
    *,
    held: bool = False,
    depth: int | None = None,
) -> int | None:
    """By a relaxation that knows what teams have in `counts`, and, where it is not too large for that, racks and linked GPUs;
    None where it knows no more than the plain one.

    `value`, `held`: of `beside`. `depth`: bounds what teams inside so many others hold within what they are due.
    """
    elsewhere = away(snapshot)
    plain = snapshot.shares is None and value is size  # without racks that is known
    for racks in (one for one, asked in ((True, binds(snapshot)), (False, not plain)) if asked):
        problem, groups, nodes, _, stand = beside(
            snapshot, level, counts, possible, classified, value,
            held=held, teams=snapshot.shares is not None, racks=racks, due=depth is not None,
        )  # fmt: skip
        if racks and len(problem.kinds) * len(problem.shapes) > (WIDEST if _waits(snapshot) else WIDEST_OF_CHANGE):
            continue
        if not racks:
            one = merged(problem, nodes, stand, [snapshot.shares and snapshot.shares.weights.of(names[0]) for names in nodes])
            problem, nodes, stand = one.problem, one.nodes, one.stand
        rules = no_less_due(snapshot, counts, level, groups, nodes, elsewhere, depth)
        rules += rack_rules(snapshot, groups, nodes, elsewhere) if racks else ()
        parts = () if depth is None else team_sums(snapshot, level, depth, groups, nodes)
        moves = int(snapshot.stack.solve.moves)
        found = relaxed_bound(problem, groups, stop, stand, moves, elsewhere=elsewhere, parts=parts, rules=rules, part=FINER)
        if found is not None:
            return found
    return None


#: So many sums of GPUs are looked at, in thousandths or in the largest unit of which all are multiples.
SUMS = 20_000


@dataclass
class PriorityBounds:
    """Bounds on one priority after the other, while a search goes through them. `limit`: the effort of all of them."""

    snapshot: Snapshot
    possible: dict[str, int]
    limit: TimeLimit
    classified: Classified = field(default_factory=lambda: NOBODY)

    def of(self, level: int, counts: Pairs, *, deep: bool) -> int | None:
        """In thousandths of GPUs: what that priority could hold where those above it hold what they do in `counts`.

        By relaxation alone within a few hundredths of a second, however little is left; `deep`: with caps, for which columns
        are priced first.
        """
        if self.limit.stop() or (deep and self.limit()):
            return None
        snapshot, moves = self.snapshot, int(self.snapshot.stack.solve.moves)
        problem, groups, nodes, first, stand = beside(snapshot, level, counts, self.possible, self.classified, size)
        elsewhere, wide = away(snapshot), len(problem.kinds) * len(problem.shapes) > WIDE
        one = merged(problem, nodes, stand) if wide else Merged(problem, nodes, stand, tuple(range(len(nodes))))
        if deep:
            share = self.limit.part(DEEP)
            before = share.left
            priced = bound_of(problem, rounds=ROUNDS[snapshot.stack.solve.effort], stop=share, first=first)
            self.limit.spend(before - share.left)
            caps = one.caps(priced.caps)
            found = relaxed_bound(one.problem, groups, self.limit, one.stand, moves, caps, elsewhere)
            found = int(priced.bound + 1e-6) if found is None else min(found, int(priced.bound + 1e-6))
        else:
            brief = TimeLimit(self.limit.stop, min(BRIEF, max(LEAST, self.limit.left)))
            before = brief.left
            found = relaxed_bound(one.problem, groups, brief, one.stand, moves, elsewhere=elsewhere)
            self.limit.spend(before - brief.left)
        mine = [request for request in snapshot.requests.values() if request.gpus and request.priority == level]
        if found is None:
            return None
        top = found + sum(size(request) * elsewhere[request.name] for request in mine)
        return largest_sum(mine, {one.name: max(self.possible[one.name], _ran(snapshot, one)) for one in mine}, top)


def largest_sum(requests: list[WorkloadRequest], possible: Mapping[str, int], most: int) -> int:
    """The largest sum of their GPUs that is not above `most`, in thousandths: of up to so many replicas of each, gangs whole.

    Where more than SUMS would have to be looked at, `most` itself.
    """
    unit = math.gcd(*(size(request) for request in requests))
    if not unit or most <= 0 or most // unit > SUMS:
        return most
    sums, within = 1, (1 << (most // unit + 1)) - 1
    for request in requests:
        each, left = size(request) // unit, possible[request.name]
        if request.gang:
            each, left = each * request.members, int(left >= request.members)
        times = 1
        while left > 0:  # 1, 2, 4, … of them and the rest: any number of them is a sum of these
            taken = min(times, left)
            sums |= (sums << each * taken) & within
            left, times = left - taken, times * 2
    return (sums.bit_length() - 1) * unit


def _together(
    snapshot: Snapshot, requests: list[WorkloadRequest], possible: dict[str, int], effort: str, stop: TimeLimit
) -> int:
    problem = _problem(snapshot, requests, possible, size, priorities=False)[0]
    bound = int(bound_of(problem, rounds=ROUNDS[effort], stop=stop).bound + 1e-6)
    elsewhere = away(snapshot)
    return bound + sum(size(request) * elsewhere[request.name] for request in requests)


def beside(
    snapshot: Snapshot,
    level: int,
    counts: Pairs,
    possible: dict[str, int],
    classified: Classified,
    value: Callable[[WorkloadRequest], int],
    *,
    held: bool = False,
    teams: bool = False,
    racks: bool = False,
    due: bool = False,
) -> tuple[Problem, list[list[WorkloadRequest]], tuple[tuple[str, ...], ...], list[tuple[int, Pattern]], Stand]:
    """The problem of a level, of which each replica gains `value`, beside those above it; the workloads of its kinds, the nodes
    of its shapes, columns in which it has an answer, and who stands where and would have to move: replicas of a kind on nodes
    of a shape.

    `held`: with as many GPUs of the level as in `counts`. `teams`: kinds are of one team, and shapes of one GPU model. `racks`:
    the nodes of a shape are in one rack, with GPUs that are linked alike. `due`: of what teams are due, which with
    `solve.reclaim` comes before who of the level runs.
    """
    counted = snapshot.shares.dominant if teams and snapshot.shares else {}
    requests = [
        request
        for request in snapshot.requests.values()
        if request.priority > level
        or (request.priority == level and (request.gpus or value(request) or request.name in counted))
    ]
    gain = {request.name: value(request) if request.priority == level else 0 for request in requests}
    problem, groups, nodes = _problem(
        snapshot, requests, possible, lambda request: gain[request.name], priorities=True, teams=teams, racks=racks
    )
    number = {request.name: k for k, group in enumerate(groups) for request in group}
    shape = {name: h for h, names in enumerate(nodes) for name in names}
    on: dict[str, Counter[int]] = {}
    for (name, node), count in counts.items():
        if name in number and node in shape and open_to(snapshot.requests[name], snapshot.nodes[node]):
            on.setdefault(node, Counter())[number[name]] += count
    elsewhere = away(snapshot)
    placed, reached = by_workload(counts), Counter[int]()
    for name, k in number.items():
        reached[k] += max(0, placed[name] - elsewhere[name])
    rows = []
    for higher in sorted({request.priority for request in requests if request.priority > level or held}):
        kinds = [k for k, group in enumerate(groups) if group[0].priority == higher]
        for each in ({k: size(groups[k][0]) for k in kinds}, dict.fromkeys(kinds, 1))[: 1 if higher == level else 2]:
            least = sum(amount * reached[k] for k, amount in each.items())
            rows.append(Row(-least, tuple((k, -amount) for k, amount in each.items() if amount)))
    lost, stand = _lost(snapshot, placed), Counter[tuple[int, int]]()
    if due and snapshot.shares is not None and snapshot.shares.reclaim:
        lost.pop(level, None)
    for k, group in enumerate(groups):
        if group[0].priority in lost:
            ran = sum(max(0, _ran(snapshot, request) - elsewhere[request.name]) for request in group)
            gpus, replicas = lost[group[0].priority]
            rows.append(Row(min(replicas, gpus // size(group[0]) if group[0].gpus else replicas) - ran, ((k, -1),)))
    for a in classified.stay.values():
        if a.workload not in number or a.node not in shape or snapshot.requests[a.workload].priority not in lost:
            continue
        if open_to(snapshot.requests[a.workload], snapshot.nodes[a.node]):
            stand[number[a.workload], shape[a.node]] += 1
    stops = [
        (frozenset(k for k, group in enumerate(groups) if group[0].priority == one), replicas)
        for one, (_, replicas) in lost.items()
        if replicas
    ]
    with_rows = Problem(problem.kinds, problem.shapes, problem.rows + tuple(row for row in rows if row.limit < 0))
    columns = {(shape[node], tuple(sorted(kinds.items()))) for node, kinds in on.items()}
    return with_rows, groups, nodes, sorted(columns), Stand(stand, stops)


def _ran(snapshot: Snapshot, request: WorkloadRequest) -> int:
    return min(len(snapshot.running.get(request.name, ())), request.members)


def _lost(snapshot: Snapshot, placed: Counter[str]) -> dict[int, tuple[int, int]]:
    """By priority, thousandths of GPUs and replicas that ran and have no place: that no more stops comes before what is new."""
    found: dict[int, tuple[int, int]] = {}
    for request in snapshot.requests.values():
        gpus, replicas = found.get(request.priority, (0, 0))
        stopped = max(0, _ran(snapshot, request) - placed[request.name])
        found[request.priority] = gpus + size(request) * stopped, replicas + stopped
    return found


def _problem(
    snapshot: Snapshot,
    requests: list[WorkloadRequest],
    possible: dict[str, int],
    value: Callable[[WorkloadRequest], int],
    *,
    priorities: bool,
    teams: bool = False,
    racks: bool = False,
) -> tuple[Problem, list[list[WorkloadRequest]], tuple[tuple[str, ...], ...]]:
    """Of what could have a place if it had the fleet to itself."""
    empty = FreeCapacity(snapshot)
    lines = snapshot.shares.lines if teams and snapshot.shares else {}
    groups, dims, steps = kinds_of(
        empty,
        [request.name for request in requests if possible[request.name]],
        priorities=priorities,
        apart=lambda request: lines.get(request.user),
    )
    kinds = tuple(
        kind_of(g, sum(possible[request.name] for request in g), dims, steps, worth=value(g[0]), value=value(g[0]))
        for g in groups
    )
    problem, nodes = problem_of(empty, groups, kinds, dims, steps, models=teams, racks=racks)
    return problem, groups, nodes


def away(snapshot: Snapshot) -> dict[str, int]:
    """How many of each workload may stay on nodes that are closed to it, where columns do not see it."""
    known: dict[str, int] = snapshot.known(away)
    nodes = snapshot.nodes
    for name, request in snapshot.requests.items() if not known else ():
        known[name] = sum(
            count for node, count in snapshot.home(name).items()
            if node in nodes and may_stay(request, nodes[node]) and not open_to(request, nodes[node])
        )  # fmt: skip
    return known
