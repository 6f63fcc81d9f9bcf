"""What would n moves gain, for n = 0 … all? Each point is a solve of everything within n moves."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from dataclasses import dataclass

from swarm_iac.model.placement import Placement
from swarm_iac.model.stack import Stack
from swarm_iac.pluralize import pluralize
from swarm_iac.solver.decide.solve import solve
from swarm_iac.solver.exact.figures import COSTS, figures, rank
from swarm_iac.solver.exact.watch import Watch
from swarm_iac.solver.solution import Solution

#: Up to so many moves each number has a point; beyond, they get sparser.
EVERY = 12


@dataclass(frozen=True)
class Point:
    """The best placement found within `budget` moves, and how many of them it needs. `values` are those of `figures`."""

    budget: int
    moves: int
    values: dict[str, int]
    solution: Solution


def point(stack: Stack, last: Placement, budget: int | None, today: datetime.date | None, watch: Watch | None = None) -> Point:
    """The best within so many moves; None: without a bound. What a drain or a new size forces out is no move."""
    solution = solve(stack, last, repair=False, moves=budget, today=today, watch=watch)
    moves = sum(1 for move in solution.moves if move.target and not move.forced)
    return Point(moves if budget is None else budget, moves, figures(stack, solution.placement), solution)


def curve(
    stack: Stack,
    last: Placement,
    today: datetime.date | None,
    tell: Callable[[str], None] = lambda text: None,
    so_far: Callable[[tuple[Point, ...]], None] = lambda points: None,
    watch: Watch | None = None,
) -> tuple[Point, ...]:
    """Points from no move to as many as the best of all needs. More moves are never worse.

    `so_far` hears the points whenever there is one more, that of all moves last. Once the watch is stopped, no point is
    begun, and one that was not solved to its end is left out: perhaps all.
    """
    watch = watch or Watch()
    tell("as many moves as it takes")
    free = point(stack, last, None, today, watch)
    points: list[Point] = []

    def points_so_far() -> tuple[Point, ...]:
        if free.moves and rank(free.values) > rank(points[-1].values):
            return (*(one for one in points if one.budget < free.moves), free)
        return tuple(points)

    for budget in () if watch.stopped else budgets(free.moves):
        tell(pluralize(budget, "move"))
        found = point(stack, last, budget, today, watch)
        if watch.stopped:
            break
        if points and rank(found.values) <= rank(points[-1].values):
            # Nothing is gained, or effort ended too early: what fewer moves reach stands.
            best = points[-1]
            found = Point(budget, best.moves, best.values, best.solution)
        points.append(found)
        so_far(points_so_far())
    return points_so_far() if points else ()


def budgets(most: int) -> tuple[int, ...]:
    """0, 1, 2 … most; when these are many, in steps that grow by half."""
    found = list(range(min(most, EVERY) + 1))
    while found[-1] < most:
        found.append(min(most, found[-1] + found[-1] // 2))
    return tuple(found)


def gained(points: tuple[Point, ...]) -> tuple[str, ...]:
    """The figures that differ between no move and all, most important first."""
    first, last = points[0].values, points[-1].values
    return tuple(name for name in first if first[name] != last[name])


def share(points: tuple[Point, ...], index: int, name: str) -> float:
    """The part of a figure's whole gain that a point reaches, 0 … 1; below 0 where it is worse than at first."""
    first, last = points[0].values[name], points[-1].values[name]
    return (points[index].values[name] - first) / (last - first)


def better(name: str, difference: int) -> bool:
    """Is a figure that changed so better?"""
    return difference < 0 if name in COSTS else difference > 0
