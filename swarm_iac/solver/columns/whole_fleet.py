"""How is a large fleet filled from nothing? Greedy passes, columns, a dive, and a last fill.

1  passes     several greedy methods; what their nodes carry are the first columns
2  generate   columns at the prices of the linear program, until its value and the bound meet
3  dive       whole nodes instead of fractions
4  fill       what still fits into the gaps
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from swarm_iac.model.device import WHOLE
from swarm_iac.solver.backend.time_limit import TimeLimit
from swarm_iac.solver.columns.diving import dive
from swarm_iac.solver.columns.generation import Generated, generate
from swarm_iac.solver.columns.greedy_fill import Floor, passes, tightest
from swarm_iac.solver.columns.interchangeable import Interchangeable, Plan, interchangeable
from swarm_iac.solver.columns.master import Master
from swarm_iac.solver.columns.pricing import Pricer
from swarm_iac.solver.columns.problem import Pattern, Problem
from swarm_iac.solver.columns.promotion import promote
from swarm_iac.solver.packing.shared_gpus import pack

#: Rounds of pricing on each level of the dive.
DIVE = 1
#: The part of the effort for columns and the bound; the dive has the rest.
GENERATED = 0.8
#: Mix and bound count as equal within this part of all GPUs, at what the least valued GPU is worth.
GAP = 4e-4


#: The pattern of each node, by shape.
Nodes = tuple[tuple[Pattern, ...], ...]
#: Hears of nodes that are filled, and of a bound on what any gain.
Tell = Callable[[Nodes, float], None]


def _nobody(nodes: Nodes, bound: float) -> None:
    """Listens to nothing."""


@dataclass(frozen=True)
class Filled:
    """A placement: for each shape the pattern of each of its nodes. `bound`: no placement gains more."""

    nodes: Nodes
    value: int
    bound: float
    rounds: int
    columns: int


def fill_fleet(problem: Problem, *, rounds: int, stop: TimeLimit = TimeLimit(), tell: Tell = _nobody) -> Filled:
    """The best placement found with so many rounds of pricing. `stop` is a guard; once true, what is there is finished.

    `tell` hears of the best greedy pass, and of every better bound.
    """
    greedy = passes(problem)
    start = _nodes(problem, max(greedy, key=Floor.worth))
    seen = interchangeable(problem)
    share = stop.part(GENERATED)
    before = share.left
    master, found = _generated(seen, greedy, rounds, share, lambda bound: tell(start, bound))
    stop.spend(before - share.left)
    plan = dive(seen, list(master.columns), found.mix, rounds=DIVE, stop=stop)
    floors = [_refilled(problem, plan, stop), *greedy]
    best = max(floors, key=Floor.worth)
    return Filled(
        nodes=_nodes(problem, best),
        value=best.value(),
        bound=max(found.bound, best.value()),
        rounds=found.rounds,
        columns=len(master.columns),
    )


def bound_of(
    problem: Problem,
    *,
    rounds: int,
    stop: TimeLimit = TimeLimit(),
    first: Sequence[tuple[int, Pattern]] = (),
    known: float = float("inf"),
) -> Generated:
    """What no placement gains more than; as `fill_fleet`, without placing anything. `first`: columns to begin with.

    `known`: what is known already; a lower bound alone is of use.
    """
    seen = interchangeable(problem)
    found = _generated(seen, passes(problem), rounds, stop, lambda bound: None, first, known)[1]
    found.caps = seen.caps(found.caps)
    return found


def _generated(
    seen: Interchangeable,
    greedy: list[Floor],
    rounds: int,
    stop: TimeLimit,
    tell: Callable[[float], None],
    first: Sequence[tuple[int, Pattern]] = (),
    known: float = float("inf"),
) -> tuple[Master, Generated]:
    problem = seen.problem
    master = Master(problem)
    for h, pattern in first:
        master.add(h, seen.pattern(pattern))
    for floor in greedy:
        for node, shape in enumerate(floor.shape):
            master.add(int(shape), seen.pattern(floor.pattern(node)))
    pricers = [Pricer(problem, h) for h in range(len(problem.shapes))]
    free = [0.0] * len(problem.kinds)
    slack = GAP * problem.unit * sum(shape.count * shape.cards for shape in problem.shapes)
    bound = sum(shape.count * pricer.loose(free).bound for shape, pricer in zip(problem.shapes, pricers, strict=True))
    return master, generate(
        problem, master, pricers, rounds=rounds, slack=slack, bound=bound, stop=stop, tell=tell, known=known
    )


def _refilled(problem: Problem, plan: Plan, stop: TimeLimit) -> Floor:
    """The plan, and what still fits beside it: the highest level first, then the largest."""
    floor = Floor(problem)
    start = [0]
    for shape in problem.shapes:
        start.append(start[-1] + shape.count)
    for (h, pattern), times in sorted(plan.items()):
        cards = _cards(problem, h, pattern)
        for node in range(start[h], start[h] + times):
            floor.put(node, pattern, cards)
        start[h] += times
    kinds = problem.kinds
    sizes = [kind.cards * kind.share for kind in kinds]
    order = sorted(range(len(kinds)), key=lambda k: (-kinds[k].worth / max(1, sizes[k]), -sizes[k], kinds[k].need, k))
    floor.fill(order, tightest)
    promote(floor, stop.stop)
    floor.fill(order, tightest)
    return floor


def _cards(problem: Problem, shape: int, pattern: Pattern) -> list[int]:
    """What is left of each card of an empty node that carries the pattern."""
    kinds = problem.kinds
    whole = sum(kinds[k].cards * n for k, n in pattern if kinds[k].share == WHOLE)
    shares = [kinds[k].share for k, n in pattern for _ in range(n) if kinds[k].cards and kinds[k].share < WHOLE]
    left = [WHOLE] * (problem.shapes[shape].cards - whole)
    chosen = pack(shares, left)
    if chosen is None:
        raise ValueError(f"the shares {shares} do not fit on {len(left)} cards")
    for share, card in zip(shares, chosen, strict=True):
        left[card] -= share
    return [0] * whole + left


def _nodes(problem: Problem, floor: Floor) -> Nodes:
    patterns: list[list[Pattern]] = [[] for _ in problem.shapes]
    for node, shape in enumerate(floor.shape):
        patterns[shape].append(floor.pattern(node))
    return tuple(tuple(found) for found in patterns)
