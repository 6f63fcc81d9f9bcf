"""Do bounds on shares, GPUs and replicas bound every placement? Tiny random fleets, each placement enumerated."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from swarm_iac.model.placement import Placement
from swarm_iac.model.stack import Stack
from swarm_iac.solver import solve
from swarm_iac.solver.backend.time_limit import TimeLimit
from swarm_iac.solver.bounds.gpu_bounds import level_bounds
from swarm_iac.solver.bounds.other_bounds import with_others
from swarm_iac.solver.explain.places.possible import possible
from swarm_iac.solver.repair.greedy import greedy
from swarm_iac.solver.snapshot.tasks import Pairs, classify, fixed_by, repair_task
from swarm_iac.solver.snapshot.value import within
from tests.solver.fleets import some_fleet
from tests.solver.oracle import accepted, as_large, every, with_shares
from tests.solver.test_gpu_bounds import as_good, held
from tests.solver.test_shares import changes, weighted


def no_worse(due: tuple[int, ...], reached: tuple[int, ...]) -> bool:
    """At each depth of teams: a bound is of the placements in which no goal before it is worse."""
    return all(one >= other for one, other in zip(due, reached, strict=True))


def check(now: Stack, last: Placement) -> int:
    """Every bound beside a greedy placement; how many are tighter than counting."""
    snapshot = with_shares(now, last)
    classified, most = classify(snapshot), possible(snapshot)
    if any(most[name] < min(len(ones), snapshot.requests[name].members) for name, ones in snapshot.running.items()):
        return 0  # what runs over several NUMA nodes may stay, and has no place of its own
    task = repair_task(snapshot, classified)
    counts: Pairs = fixed_by(task) + greedy(task)
    found = level_bounds(snapshot, counts, most, "normal", TimeLimit(left=10.0), classified=classified)
    found = with_others(snapshot, counts, most, classified, found, TimeLimit(left=10.0))
    reached = within(snapshot, counts)
    for _, moves, other in every(now, last):
        if moves > now.solve.moves:
            continue
        teams = within(snapshot, other)
        for level in {request.priority for request in snapshot.requests.values()}:
            above = all(no_worse(teams[one], reached[one]) for one in teams if one > level)
            if not above or not as_good(snapshot, counts, other, level, run=False):
                continue
            run = as_good(snapshot, counts, other, level)
            due, (gpus, replicas) = teams.get(level, ()), held(snapshot, other, level)
            known = [found.due.get((level, depth), value) for depth, value in enumerate(due)]
            before = [no_worse(due[:depth], reached[level][:depth]) for depth in range(len(due))]
            first = run or now.solve.reclaim  # what teams are due comes before who runs, or after it
            over = [depth for depth, value in enumerate(due) if first and before[depth] and value > known[depth]]
            fair = run and no_worse(due, reached.get(level, ()))
            over_gpus = fair and gpus > found.own.get(level, gpus)
            more = fair and gpus >= held(snapshot, counts, level)[0] and replicas > found.replicas.get(level, replicas)
            assert not ((over or over_gpus or more) and accepted(now, last, other)), (level, over, more, found, other)
    return len(found.own) + len(found.due) + len(found.replicas)


@pytest.mark.parametrize("seeds", [range(60), pytest.param(range(60, 3000), marks=pytest.mark.slow)], ids=["some", "thousands"])
@pytest.mark.parametrize("of", [lambda stack, seed: stack, weighted], ids=["alike", "by worth"])
def test_no_placement_exceeds_a_bound(of: Callable[[Stack, int], Stack], seeds: range) -> None:
    bounds = 0
    for seed in seeds:
        before, now = (of(one, seed) for one in changes(seed))
        bounds += check(now, Placement())
        bounds += check(now, solve(before, reasons=False).placement)
    assert bounds


@pytest.mark.parametrize("seed", range(4))
def test_what_a_crowded_fleet_cannot_place_is_not_held_against_it(seed: int) -> None:
    """Nobody could have as many replicas as are asked for, which is what counting says."""
    solution = as_large(some_fleet(9, 40, seed))
    goals = {goal.name: goal for goal in solution.proof.goals}
    waiting = sum(len(one.missing) for one in solution.placement.unplaced)
    gaps = sum(goal.bound - goal.value for name, goal in goals.items() if name.endswith("_replicas"))
    assert waiting > 20 and gaps < waiting / 2
