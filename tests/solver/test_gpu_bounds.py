"""Does a bound on what a priority could hold bound every placement? Tiny random fleets, each placement enumerated."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from functools import partial

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis.strategies import SearchStrategy

from swarm_iac.model.placement import Placement
from swarm_iac.model.stack import Stack
from swarm_iac.solver import solve
from swarm_iac.solver.backend.time_limit import TimeLimit
from swarm_iac.solver.explain.counting import possible
from swarm_iac.solver.repair.gpu_bounds import PriorityBounds, level_bounds
from swarm_iac.solver.repair.greedy import greedy
from swarm_iac.solver.snapshot.binding_limits import without_slack
from swarm_iac.solver.snapshot.from_stack import scene_of
from swarm_iac.solver.snapshot.snapshot import Scene
from swarm_iac.solver.snapshot.tasks import Pairs, by_workload, fixed_by, narrow, settle
from swarm_iac.solver.snapshot.value import size
from tests.solver.oracle import accepted, every
from tests.solver.test_oracle import fleets, fleets_of_parts

MANY = 2000 if os.environ.get("HYPOTHESIS_PROFILE") == "full" else 80


def held(scene: Scene, counts: Pairs, level: int) -> tuple[int, int]:
    """Thousandths of GPUs and replicas of one priority."""
    placed = by_workload(counts)
    mine = [ask for ask in scene.asks.values() if ask.priority == level]
    return sum(size(ask) * placed[ask.name] for ask in mine), sum(placed[ask.name] for ask in mine)


def stops(scene: Scene, counts: Pairs, level: int) -> int:
    """Replicas of one priority that ran and have no place."""
    placed = by_workload(counts)
    ran = {n: min(len(ones), scene.asks[n].members) for n, ones in scene.running.items() if scene.asks[n].priority == level}
    return sum(max(0, count - placed[name]) for name, count in ran.items())


def as_good(scene: Scene, counts: Pairs, other: Pairs, level: int) -> bool:
    """Is no priority above `level` worse off in `other`, and nobody stopped of those of which nobody is in `counts`?"""
    levels = [one for one in {ask.priority for ask in scene.asks.values()} if one >= level]
    above = [one for one in levels if one > level]
    held_too = all(a >= b for one in above for a, b in zip(held(scene, other, one), held(scene, counts, one), strict=True))
    return held_too and all(stops(scene, counts, one) or not stops(scene, other, one) for one in levels)


def check(change: bool, before: Stack, now: Stack) -> None:
    """Every bound beside a placement that some method gave."""
    last = solve(before, reasons=False).placement if change else Placement()
    scene = without_slack(scene_of(now, last))
    settled, most = settle(scene), possible(scene)
    if any(most[name] < min(len(ones), scene.asks[name].members) for name, ones in scene.running.items()):
        return  # what runs over several NUMA nodes may stay, and has no place of its own
    task = narrow(scene, settled)
    counts: Pairs = fixed_by(task) + greedy(task)
    asked = PriorityBounds(scene, most, TimeLimit(left=10.0), settled)
    every_level = level_bounds(scene, counts, most, "normal", TimeLimit(left=10.0), settled=settled)
    found = [(moves, other) for _, moves, other in every(now, last) if moves <= now.solve.moves]
    for level in {ask.priority for ask in scene.asks.values() if ask.gpus}:
        above = sum(held(scene, counts, one)[0] for one in {ask.priority for ask in scene.asks.values()} if one > level)
        bounds = [asked.of(level, counts, deep=deep) for deep in (False, True)]
        bounds.append(every_level.of(level, above, 1 << 40))
        least = min(bound for bound in bounds if bound is not None)
        more = [other for _, other in found if held(scene, other, level)[0] > least]
        for other in more:
            assert not (as_good(scene, counts, other, level) and accepted(now, last, other)), (level, bounds, Counter(other))


@pytest.mark.parametrize("change", [False, True])
@pytest.mark.parametrize("drawn", [fleets, fleets_of_parts])
def test_no_placement_exceeds_a_bound(drawn: Callable[[], SearchStrategy[tuple[Stack, Stack]]], change: bool) -> None:
    """As many GPUs as the bound says at most, whatever is placed, where those above are not worse off."""
    quiet = settings(max_examples=MANY, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))

    @quiet
    @given(drawn())
    def on_random_fleets(pair: tuple[Stack, Stack]) -> None:
        partial(check, change)(*pair)

    on_random_fleets()
