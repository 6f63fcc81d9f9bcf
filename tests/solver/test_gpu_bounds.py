"""Does a bound on what a priority could hold bound every placement? Tiny random fleets, each placement enumerated."""

from __future__ import annotations

import itertools
import os
import random
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis.strategies import SearchStrategy

from swarm_iac.model.device import WHOLE
from swarm_iac.model.placement import Placement
from swarm_iac.model.stack import Stack
from swarm_iac.model.workload import PRIORITIES
from swarm_iac.solver import solve
from swarm_iac.solver.backend.time_limit import TimeLimit
from swarm_iac.solver.bounds.gpu_bounds import PriorityBounds, largest_sum, level_bounds
from swarm_iac.solver.explain.places.possible import possible
from swarm_iac.solver.repair.greedy import greedy
from swarm_iac.solver.snapshot.binding_limits import without_slack
from swarm_iac.solver.snapshot.from_stack import snapshot_of
from swarm_iac.solver.snapshot.snapshot import Snapshot
from swarm_iac.solver.snapshot.tasks import Pairs, by_workload, classify, fixed_by, repair_task
from swarm_iac.solver.snapshot.value import size
from tests.solver.fleets import some_fleet, stack_of
from tests.solver.oracle import accepted, as_large, every
from tests.solver.test_oracle import fleets, fleets_of_parts

MANY = 2000 if os.environ.get("HYPOTHESIS_PROFILE") == "full" else 50


def held(snapshot: Snapshot, counts: Pairs, level: int) -> tuple[int, int]:
    """Thousandths of GPUs and replicas of one priority."""
    placed = by_workload(counts)
    mine = [request for request in snapshot.requests.values() if request.priority == level]
    return sum(size(request) * placed[request.name] for request in mine), sum(placed[request.name] for request in mine)


def stops(snapshot: Snapshot, counts: Pairs, level: int) -> tuple[int, int]:
    """Thousandths of GPUs and replicas of one priority that ran and have no place."""
    placed = by_workload(counts)
    mine = [request for request in snapshot.requests.values() if request.priority == level]
    gone = {one.name: max(0, min(len(snapshot.running.get(one.name, ())), one.members) - placed[one.name]) for one in mine}
    return sum(size(one) * gone[one.name] for one in mine), sum(gone.values())


def no_more(some: Iterable[int], others: Iterable[int]) -> bool:
    """Is none of them larger?"""
    return all(one <= other for one, other in zip(some, others, strict=True))


def as_good(snapshot: Snapshot, counts: Pairs, other: Pairs, level: int, *, run: bool = True) -> bool:
    """Is no priority above `level` worse off in `other`, and does no more stop of those and, if it is to `run`, of it?"""
    above = [one for one in {request.priority for request in snapshot.requests.values()} if one > level]
    levels = [*above, *([level] if run else [])]
    held_too = all(no_more(held(snapshot, counts, one), held(snapshot, other, one)) for one in above)
    return held_too and all(no_more(stops(snapshot, other, one), stops(snapshot, counts, one)) for one in levels)


def check(change: bool, before: Stack, now: Stack) -> None:
    """Every bound beside a placement that some method gave."""
    last = solve(before, reasons=False).placement if change else Placement()
    snapshot = without_slack(snapshot_of(now, last))
    classified, most = classify(snapshot), possible(snapshot)
    if any(most[name] < min(len(ones), snapshot.requests[name].members) for name, ones in snapshot.running.items()):
        return  # what runs over several NUMA nodes may stay, and has no place of its own
    task = repair_task(snapshot, classified)
    counts: Pairs = fixed_by(task) + greedy(task)
    asked = PriorityBounds(snapshot, most, TimeLimit(left=10.0), classified)
    every_level = level_bounds(snapshot, counts, most, "normal", TimeLimit(left=10.0), classified=classified)
    found = [(moves, other) for _, moves, other in every(now, last) if moves <= now.solve.moves]
    for level in {request.priority for request in snapshot.requests.values() if request.gpus}:
        above = sum(
            held(snapshot, counts, one)[0]
            for one in {request.priority for request in snapshot.requests.values()}
            if one > level
        )
        bounds = [asked.of(level, counts, deep=deep) for deep in (False, True)]
        bounds.append(every_level.of(level, above, 1 << 40))
        least = min(bound for bound in bounds if bound is not None)
        more = [other for _, other in found if held(snapshot, other, level)[0] > least]
        for other in more:
            assert not (as_good(snapshot, counts, other, level) and accepted(now, last, other)), (level, bounds, Counter(other))


@pytest.mark.parametrize("change", [False, True])
@pytest.mark.parametrize("drawn", [fleets, pytest.param(fleets_of_parts, marks=pytest.mark.engine)])
def test_no_placement_exceeds_a_bound(drawn: Callable[[], SearchStrategy[tuple[Stack, Stack]]], change: bool) -> None:
    """As many GPUs as the bound says at most, whatever is placed, where those above are not worse off."""
    quiet = settings(max_examples=MANY, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))

    @quiet
    @given(drawn())
    def on_random_fleets(pair: tuple[Stack, Stack]) -> None:
        partial(check, change)(*pair)

    on_random_fleets()


@pytest.mark.parametrize("drawn", [fleets, pytest.param(fleets_of_parts, marks=pytest.mark.engine)])
def test_no_placement_exceeds_what_an_answer_says_of_a_change(drawn: Callable[[], SearchStrategy[tuple[Stack, Stack]]]) -> None:
    """Also where a bound was found before capacity was freed, which then placed more, and stopped some."""
    told = 0

    @settings(max_examples=MANY, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(drawn())
    def on_random_fleets(pair: tuple[Stack, Stack]) -> None:
        nonlocal told
        before, now = pair
        last = solve(before, reasons=False).placement
        answer = as_large(now, last)
        snapshot = snapshot_of(now, last)
        counts: Pairs = Counter((a.workload, a.node) for a in answer.placement.going())
        goals = {goal.name: goal for goal in answer.proof.goals}
        for level in {request.priority for request in snapshot.requests.values() if request.gpus}:
            name = f"{next(word for word, one in PRIORITIES.items() if one == level)}_placed_gpu"
            goal = goals.get(f"{name}s") or goals[f"{name}_milli"]
            unit = WHOLE if goal.name.endswith("s") else 1
            told += goal.bound > goal.value
            for _, moves, other in every(now, last):
                if moves <= now.solve.moves and held(snapshot, other, level)[0] > goal.bound * unit:
                    assert not (as_good(snapshot, counts, other, level) and accepted(now, last, other)), (level, goal, other)

    on_random_fleets()
    assert told


def test_where_one_stops_the_others_still_count_as_running() -> None:
    """Of 8 GPUs 5 run on, and the 4 of another node that is lost have no place: no 8 that wait could have theirs."""
    nodes = {"n1": {"hardware": "h100"}, "n2": {"hardware": "h100"}}
    works = {"five": {"each": {"gpus": 5}}, "four": {"each": {"gpus": 4}}, "eight": {"each": {"gpus": 8}}}
    ran = {name: one for name, one in works.items() if name != "eight"}
    last = solve(stack_of(nodes, ran)).placement
    (node,) = {one.node for one in last.allocations if one.workload == "five"}
    now = stack_of({node: nodes[node]}, works)
    snapshot = snapshot_of(now, last)
    bounds = PriorityBounds(snapshot, possible(snapshot), TimeLimit(left=10.0), classify(snapshot))
    assert bounds.of(PRIORITIES["normal"], Counter({("five", node): 1}), deep=False) == 5 * WHOLE
    assert bounds.of(PRIORITIES["normal"], Counter({("eight", node): 1}), deep=False) == 8 * WHOLE


@pytest.mark.parametrize("seed", range(6))
def test_priorities_share_one_fleet_in_a_bound_however_little_effort_is_left(seed: int) -> None:
    stack = some_fleet(9, 25, seed)
    fleet = WHOLE * sum(stack.hardware_of(name).gpus.count for name in stack.nodes)
    snapshot = snapshot_of(stack, Placement())
    counts = greedy(repair_task(snapshot, classify(snapshot)))
    bounds = PriorityBounds(snapshot, possible(snapshot), TimeLimit(left=0.0))
    levels = sorted({request.priority for request in snapshot.requests.values()}, reverse=True)
    for level in levels:
        found = bounds.of(level, counts, deep=False)
        above = sum(held(snapshot, counts, other)[0] for other in levels if other > level)
        assert found is not None and held(snapshot, counts, level)[0] <= found <= fleet - above
    ended = PriorityBounds(snapshot, possible(snapshot), TimeLimit(lambda: True))
    assert ended.of(levels[0], counts, deep=False) is None


@pytest.mark.parametrize("seed", range(40))
def test_a_bound_on_gpus_is_a_sum_that_replicas_can_have(seed: int) -> None:
    """Of parts, whole ones and whole gangs: compared with all choices of how many are placed."""
    rng = random.Random(seed)
    works = {
        f"w{i}": {"each": {"gpus": rng.choice([0.25, 0.3, 0.5, 1, 2, 3])}, "replicas": rng.randint(1, 4)} for i in range(3)
    }
    works["g"] = {"each": {"gpus": rng.choice([1, 2, 4])}, "gang": rng.randint(2, 3)}
    snapshot = snapshot_of(stack_of({"n": {}}, works), Placement())
    requests = list(snapshot.requests.values())
    most = {name: rng.randint(0, one.members) for name, one in snapshot.requests.items()}
    choices = [
        [0, one.members][: 1 + (most[one.name] >= one.members)] if one.gang else range(most[one.name] + 1) for one in requests
    ]
    sums = {sum(size(one) * n for one, n in zip(requests, counts, strict=True)) for counts in itertools.product(*choices)}
    for top in (*sums, *(rng.randint(0, max(sums) + 1000) for _ in range(20))):
        assert largest_sum(requests, most, top) == max(one for one in sums if one <= top)
