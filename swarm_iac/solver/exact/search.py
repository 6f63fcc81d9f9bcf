"""Which placement is best, goal after goal?

A CP-SAT solve for each goal whose counting bound the best placement so far does not reach already; then its value is
fixed. Solvers of one worker, a fixed seed and deterministic limits: the same inputs give the same placement under any load.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from swarm_iac.model.device import WHOLE
from swarm_iac.solver.backend.cpsat import cp_model, improver, known_bound, one_worker, solved, spent
from swarm_iac.solver.bounds.gpu_bounds import Bounds, PriorityBounds
from swarm_iac.solver.exact.aim import Aim
from swarm_iac.solver.exact.fleet_model import FleetModel, Values
from swarm_iac.solver.exact.watch import Watch
from swarm_iac.solver.repair.greedy import completed, refill
from swarm_iac.solver.snapshot.tasks import Pairs, fixed_by

#: Deterministic time of one goal, in CP-SAT's units (about a second of an idle core each).
EFFORT = {"quick": 0.5, "normal": 3.0, "thorough": 30.0}
#: Once a goal was not proven, those after it get this part of the effort; from nothing only those that are not about placing.
TIRED = 0.25
#: Up to so much effort one search as CP-SAT makes it by itself is better than others in turn.
BRIEF = 0.1
#: Where bounds help, so much of a priority's effort comes before they are sought, and the rest if they leave a gap.
FIRST = 0.9
#: Of all effort, what goals that are not about placing have at least.
TIDYING = 0.05
#: Parts of the effort on what is placed: GPUs first, then replicas; all that is left where its GPUs are proven.
GPUS_FIRST, REPLICAS = 0.8, 0.25
#: Where something stops, the goals after it have together this part of what those on who runs have beyond all effort.
BESIDE = 0.25
#: Deterministic time that one variable counts for being built: most of what a short search takes.
BUILT = 3e-5
#: And for each solve: hints, presolve and reading the answer, which deterministic time leaves out.
ASKED = 1e-5
#: Above this many variables presolve is kept light: it is most of what a short search takes, and deterministic time leaves it
#: out. Of 200 searches of drawn fleets, with 500 to 3,000 variables, two found more so, none less, in a quarter less time.
HEAVY = 300
#: Above this many variables no model is built, and the greedy answer stands with its counting bound.
TOO_LARGE = 300_000

#: A goal, its value and its bound.
Score = tuple[Aim, int, int]


@dataclass
class Found:
    """A placement of the free workloads, and for each goal its value and bound."""

    counts: Pairs
    scores: list[Score]
    spent: float  # deterministic time, of solving and of building


def search(
    fleet: FleetModel,
    table: list[Aim],
    start: Pairs,
    effort: float,
    watch: Watch,
    in_all: float = math.inf,
    gpus: PriorityBounds | None = None,
    again: Callable[[Pairs, int], Pairs] | None = None,
    keeping: float = 0.0,
    *,
    measured: bool = False,
    gaining: bool = False,
) -> Found:
    """Improve `start`, goal after goal, with so much deterministic time for each, and so much in all.

    Where candidates were left out, only counting bounds are claimed, and those of `gpus`, which is asked before a priority is
    searched. `again` fills a priority in another way beside what those above it hold, where its search was not proven.
    `measured`: nothing is searched; `gaining`: nothing after what is placed, unless more is. `keeping`: what goals on who runs
    have beyond `in_all`; where something stops, those after them up to `shifts` share a part of it.
    """
    values = fleet.values(start)
    players = _Players(fleet, table)
    scores: list[Score] = []
    bounds: dict[str, int] = {}
    tired = fleet.cut
    skip = measured or len(fleet.x) > TOO_LARGE
    used = BUILT * len(fleet.x)
    beside, stops, last = keeping * BESIDE, False, [aim.name for aim in table].index("shifts")
    placing = _placing(table)
    before = [aim.measure(values) for aim in placing]
    for i, aim in enumerate(table):
        if gaining and i and table[i - 1] is placing[-1] and before == [one.measure(values) for one in placing]:
            skip = True
        value = aim.measure(values)
        bound = aim.best
        if bounds.get(aim.inside, bound) < bound:
            bound = bounds[aim.inside]
            fleet.model.add(aim.expression() <= bound - aim.constant)
        if gpus and aim.places is not None and value // aim.base < bound // aim.base and not skip and not watch.stopped:
            bound = capped(aim, value, bound, gpus.of(aim.places or 0, _placed(fleet, values), deep=False))
        most = in_all * (1 if aim.places is None else 1 - TIDYING) - used
        more = keeping if aim.runs else min(keeping, beside) if stops and i <= last else 0.0
        if aim.terms and value != bound and not skip and not watch.stopped and max(most, more) > 0:
            rest = TIRED if tired and (aim.places is None or fleet.cut or fleet.task.running) else 1
            limit = max(0.0, min(effort * aim.share * rest, most / (1 + _waiting(table[i + 1 :], values))))
            values, proven, took = _in_turn(fleet, aim, bound, values, limit + min(effort, more), watch, players, gpus)
            value = aim.measure(values)
            beyond = min(more, max(0.0, took - limit))
            used, keeping, beside = used + took - beyond, keeping - beyond, beside - beyond * (not aim.runs)
            stops = stops or (aim.runs and value < aim.best)
            if _holds_for_all(fleet, aim):
                bound = _tighter(aim, bound, proven, value)
            tired = tired or value != proven
            if aim.places is not None:  # what a search that was ended left out
                values = fleet.values(refill(fleet.task, fleet.counts(values), frozenset(fleet.x)))
                if again and aim.measure(values) // aim.base < bound // aim.base and not watch.stopped:
                    values = _better(fleet, table, values, again(fleet.counts(values), aim.places))
                value = aim.measure(values)
                bound = max(bound, value)
        elif not aim.terms and _holds_for_all(fleet, aim):
            bound = value  # nothing is left to choose
        scores.append((aim, value, bound))
        bounds[aim.name] = bound
        watch.reached(aim, value, bound)
        if not skip:
            for part in aim.split():
                _fixed(fleet, part, values)
                players.join(part)
    return Found(fleet.counts(values), [_in_the_end(values, *score) for score in scores], used)


def _in_the_end(values: Values, aim: Aim, value: int, bound: int) -> Score:
    """A goal's value in the placement that is returned: a later goal's search may have bettered it by the way."""
    found = aim.measure(values)
    return (aim, found, _tighter(aim, bound, bound, found)) if aim.sense * found > aim.sense * value else (aim, value, bound)


def _waiting(table: list[Aim], values: Values) -> int:
    """Priorities that are to have some of the effort as well, since not all of theirs is placed."""
    return sum(
        aim.places is not None and bool(aim.terms) and aim.measure(values) // aim.base < aim.best // aim.base for aim in table
    )


def _placed(fleet: FleetModel, values: Values) -> Pairs:
    return fixed_by(fleet.task) + fleet.counts(values)


def capped(aim: Aim, value: int, bound: int, most: int | None) -> int:
    """The bound on what a priority places, where it could hold `most` thousandths of GPUs at most."""
    if most is None:
        return bound
    gpus = most if aim.unit == "gpu_milli" else most // WHOLE
    return max(value, min(bound, gpus * aim.base + aim.base - 1))


def bounded(scores: list[Score]) -> Bounds:
    """What each priority could hold, where those above it hold what they do."""
    units = {aim.places: 1 if aim.unit == "gpu_milli" else WHOLE for aim, _, _ in scores}
    return Bounds(own={aim.places: bound // aim.base * units[aim.places] for aim, _, bound in scores if aim.places is not None})


def stricter(scores: list[Score], proven: list[Score]) -> list[Score]:
    """What a placement reached, with the bounds that were proven beside another one, if they are stronger.

    Each holds for all placements in which no goal before it is worse than there.
    """
    found: list[Score] = []
    holds = True
    for (aim, value, bound), (_, other, least) in zip(scores, proven, strict=True):
        found.append((aim, value, _tighter(aim, bound, least, value) if holds else bound))
        holds = holds and _no_worse(aim, value, other)
    return found


def _no_worse(aim: Aim, value: int, other: int) -> bool:
    """GPUs and replicas each: a bound beside some of both says nothing of more GPUs in fewer replicas."""
    unit = aim.base or 1
    return aim.sense * (value // unit) >= aim.sense * (other // unit) and (not aim.base or value % unit >= other % unit)


def _better(fleet: FleetModel, table: list[Aim], values: Values, other: Pairs) -> Values:
    """The better of two placements, goal after goal, of which the other may know places that the board left out."""
    if any(count > fleet.tops.get(pair, 0) for pair, count in other.items()):
        return values
    found = fleet.values(other)
    return max(values, found, key=lambda one: [aim.measure(one) for aim in _placing(table)])


def _placing(table: list[Aim]) -> list[Aim]:
    return [aim for aim in table if aim.places is not None or aim.due]


def _holds_for_all(fleet: FleetModel, aim: Aim) -> bool:
    """Does a bound of this board bound every placement?

    Not where candidates were left out or only some nodes are open. With something fixed, only after all that could be
    placed was placed without moving it, so the goals about placing, and about who stops, keep their counting bounds.
    """
    if fleet.cut or fleet.task.nodes is not None:
        return False
    return not ((aim.base or aim.settles or aim.due) and fleet.task.base.load.total())


def _in_turn(
    fleet: FleetModel,
    aim: Aim,
    bound: int,
    values: Values,
    effort: float,
    watch: Watch,
    players: _Players,
    bounds: PriorityBounds | None,
) -> tuple[Values, int, float]:
    """The best values, a bound, and the deterministic time it took: GPUs first, then replicas beside so many GPUs.

    Each is a sum of small numbers. Both in one sum, GPUs a thousandfold, make a row that presolve and linear programs can
    do little with: of 38 fleets with gaps, two goals at the same effort brought their sum from 508 to 362 points.
    """
    parts = aim.split()
    if len(parts) == 1:
        return _solve(fleet, aim, values, effort, watch, players)
    gpus, replicas = parts
    values, most, took = _most_gpus(fleet, aim, bound, values, effort * GPUS_FIRST, watch, players, bounds)
    _fixed(fleet, gpus, values)
    players.join(gpus)
    held = gpus.measure(values)
    if watch.stopped or replicas.measure(values) >= replicas.best or took >= effort:
        return values, most * aim.base + (replicas.best if held >= most else aim.base - 1), took
    # Beside GPUs that are proven replicas are worth a proof too: a goal that is cut takes the proof of all after it.
    part = effort - took if held >= most else min(effort * REPLICAS, effort - took)
    values, count, more = _solve(fleet, replicas, values, part, watch, players)
    held = gpus.measure(values)
    return values, most * aim.base + (min(count, replicas.best) if held >= most else aim.base - 1), took + more


def _most_gpus(
    fleet: FleetModel,
    aim: Aim,
    bound: int,
    values: Values,
    effort: float,
    watch: Watch,
    players: _Players,
    bounds: PriorityBounds | None,
) -> tuple[Values, int, float]:
    """The same of its GPUs: a short search, then, where `bounds` are sought, a long one up to what they allow."""
    gpus, most, took = aim.split()[0], bound // aim.base, 0.0
    deep = bounds is not None and aim.places is not None and _holds_for_all(fleet, aim)
    for turn, part in enumerate((FIRST, 1 - FIRST) if deep else (1.0,)):
        if turn and bounds is not None and gpus.measure(values) < most and not watch.stopped:
            known = bounds.of(aim.places or 0, _placed(fleet, values), deep=True)
            most = capped(aim, aim.measure(values), most * aim.base, known) // aim.base
            fleet.model.add(gpus.expression() <= most - gpus.constant)
        if not gpus.terms or gpus.measure(values) >= most or watch.stopped:
            break
        values, proven, more = _solve(fleet, gpus, values, effort * part, watch, players)
        most, took = min(most, proven), took + more
    return values, most, took


def _fixed(fleet: FleetModel, aim: Aim, values: Values) -> None:
    """Later goals leave this one no worse than it is."""
    if aim.terms:
        fleet.model.add(aim.sense * aim.expression() >= aim.sense * (aim.measure(values) - aim.constant))


def _solve(
    fleet: FleetModel, aim: Aim, values: Values, effort: float, watch: Watch, players: _Players
) -> tuple[Values, int, float]:
    """The best values, a bound, and the deterministic time it took."""
    gone = players.gone(aim)
    fleet.hint(fleet.values(_staying(fleet, values, gone)) if gone else values)
    fleet.model.clear_objective()  # type: ignore[no-untyped-call]
    (fleet.model.maximize if aim.sense > 0 else fleet.model.minimize)(aim.expression())
    solvers = _solvers(fleet, aim, effort)
    with fleet.without(gone):
        statuses = watch.solve(aim, solvers, fleet.model, proves=_holds_for_all(fleet, aim))
    for solver, status in zip(solvers, statuses, strict=True):
        if solved(status):
            found = {var.index: solver.value(var) for var in fleet.x.values()}
            for var, derive in fleet.derived:
                found[var.index] = derive(found)
            gains = aim.sense * (aim.measure(found) - aim.measure(values))
            if gains > 0 or (gains == 0 and not gone and solver is solvers[0]):
                values = players.completed(found, gone) if gone else found
    took = spent(solvers[0]) + ASKED * len(fleet.highs)
    best = known_bound(solvers[0], statuses[0])
    return values, aim.best if best is None else aim.constant + round(best), took


def _solvers(fleet: FleetModel, aim: Aim, effort: float) -> list[cp_model.CpSolver]:
    """The one that proves, and where nothing runs and one that improves has time to, that beside it."""
    solver = one_worker(effort)
    solvers = [solver]
    if aim.share == 1.0 and effort > BRIEF:
        solver.parameters.linearization_level = 2  # gangs and ceilings: without linear programs it finds and proves little
        if not fleet.task.running and fleet.task.nodes is None:
            solvers.append(improver(effort))
    elif aim.turns and fleet.task.running and effort > BRIEF and len(fleet.highs) > HEAVY:
        # As deterministic. Of 45 hard changes of drawn fleets 23 were proven so, and 14 otherwise; two came out better, none
        # worse. From nothing, three came out worse and two better. Searches for what is placed prove half as much in this way.
        solver.parameters.interleave_search = True
    if len(fleet.highs) > HEAVY:
        for one in solvers:
            one.parameters.cp_model_probing_level = 0
            one.parameters.symmetry_level = 0
            one.parameters.max_presolve_iterations = 1
    return solvers


def _staying(fleet: FleetModel, values: Values, gone: frozenset[tuple[str, str]]) -> Pairs:
    return Counter({pair: count for pair, count in fleet.counts(values).items() if pair not in gone})


class _Players:
    """Who matters to a goal: the workloads that it counts, and those that goals before it count, which it leaves as they are.

    All others are left out of its model. Without them nothing is in the way of anybody, so its optimum is the same, and a
    model without the lower priorities and without what has no GPUs is often a tenth as large. What is found is completed:
    they go back to where they ran, as far as there is capacity, and take what else is free.
    """

    def __init__(self, fleet: FleetModel, table: list[Aim]) -> None:
        self.fleet = fleet
        self.moves = next((aim for aim in table if aim.name == "moves"), None)
        # A gang of which some members are fixed is whole in any case, and what is fixed may be even only with the rest.
        begun = {
            name
            for name in fleet.by_request
            if (fleet.request(name).gang or fleet.request(name).even) and fleet.task.free[name] < fleet.request(name).members
        }
        # Without these others have no place.
        sought = {name for name in fleet.by_request if fleet.request(name).sought}
        self.names: frozenset[str] | None = frozenset(begun | sought)

    def join(self, aim: Aim) -> None:
        """From now on the goal is kept."""
        if aim.terms:
            self.names = None if self.names is None or aim.counts is None else self.names | aim.counts

    def gone(self, aim: Aim) -> frozenset[tuple[str, str]]:
        """The pairs of all workloads that do not matter."""
        if self.names is None or aim.counts is None:
            return frozenset()
        names = self.names | aim.counts
        return frozenset(pair for pair in self.fleet.x if pair[0] not in names)

    def completed(self, values: Values, gone: frozenset[tuple[str, str]]) -> Values:
        """With all those that were left out and find a place."""
        fleet = self.fleet
        counts = fleet.counts(values)
        names = frozenset(name for name, _ in gone)
        moves = self.moves.measure(values) if self.moves else 0
        found = fleet.values(completed(fleet.task, counts, names, frozenset(fleet.x), moves))
        # How parts of GPUs share cards is exact only for all of them together.
        budget = fleet.task.budget
        return found if budget is None or not self.moves or self.moves.measure(found) <= max(moves, budget) else values


def _tighter(aim: Aim, counted: int, proven: int, value: int) -> int:
    """The stronger of two bounds, never on the wrong side of what was reached."""
    best = min(counted, proven) if aim.sense > 0 else max(counted, proven)
    return max(best, value) if aim.sense > 0 else min(best, value)
