"""Does counting say the same in each of its ways?"""

from __future__ import annotations

import os
import random
from typing import Any

from swarm_iac.solver import solve
from swarm_iac.solver.explain.conflict import capacity_of
from swarm_iac.solver.explain.counting import EVERY, STATES, Tally, reach
from swarm_iac.solver.explain.domains import DOMAINS
from swarm_iac.solver.explain.places.ruled import Ruled
from swarm_iac.solver.snapshot.from_stack import snapshot_of
from tests.solver.crowded import crowded
from tests.solver.fleets import stack_of


def test_rules_that_keep_one_replica_out_are_those_under_which_none_can_be_added() -> None:
    tried = 0
    for seed in range(60 if os.environ.get("HYPOTHESIS_PROFILE") == "full" else 15):
        before, stack = crowded(seed)
        placement = solve(before).placement
        snapshot = snapshot_of(stack, placement)
        capacity = capacity_of(snapshot, placement)
        rng = random.Random(seed)
        for request in snapshot.requests.values():
            if capacity.counts[request.name].total() < request.members:
                ruled = Ruled(capacity, request)
                for _ in range(20):
                    rules = frozenset(rng.sample(sorted(EVERY), rng.randrange(len(EVERY))))
                    tried += 1
                    most, found = reach(capacity, request, rules), ruled.reach(rules)
                    assert found == most if request.gang else (found < 1) == (most < 1), (seed, request.name, rules)
                    assert all(rules & out for out in ruled.keeping_out) == (most < 1), (seed, request.name, rules)
    assert tried > 120


def test_a_tally_counts_what_is_reached_whoever_leaves_and_whichever_node_opens() -> None:
    reached: set[int] = set()
    for seed in range(60):
        before, stack = crowded(seed)
        placement = solve(before).placement
        snapshot = snapshot_of(stack, placement)
        rng = random.Random(seed)
        for request in snapshot.requests.values():
            capacity = capacity_of(snapshot, placement)
            rules = frozenset(rng.sample(sorted(EVERY), rng.randrange(len(EVERY)))) if rng.random() < 0.5 else EVERY
            tally = Tally(capacity, request, rules)
            others = [
                (snapshot.requests[name], dict(counts))
                for name, counts in capacity.counts.items()
                if counts and name != request.name
            ]
            for other, counts in others:
                for node, count in counts.items():
                    capacity.take(other, snapshot.nodes[node], -count)
                tally.changed(counts)
                assert tally.reach() == reach(capacity, request, rules), (seed, request.name, other.name)
                reached.add(tally.reach())
            for name in snapshot.nodes:
                tally.open(name)
            assert tally.reach() == reach(capacity, request, rules - {STATES}), (seed, request.name)
            for name in snapshot.nodes:
                tally.close(name)
            assert tally.reach() == reach(capacity, request, rules), (seed, request.name)
    assert len(reached) >= 4


def test_who_has_another_user_now_may_not_stay_on_a_cordoned_node() -> None:
    """It would start anew there, so the proof does not say that it could have a place."""
    request = {"each": {"vcpus": 1}}
    last = solve(stack_of({"n": {}}, {"w": request, "x": request})).placement
    now = stack_of({"n": {"state": "cordon"}}, {"w": {"each": {"gpus": 1, "vcpus": 1}, "user": "bo"}, "x": request})
    found = solve(now, last)
    assert [gone.workload for gone in found.placement.unplaced] == ["w"]
    assert found.proof.optimal and all(goal.value == goal.bound for goal in found.proof.goals)


def test_a_gang_whose_members_are_each_on_one_numa_node_is_counted_by_what_is_free_on_those() -> None:
    """On either node two GPUs are free, one on each of its NUMA nodes."""
    one = {"numa": "single", "per_node": 1}
    runs = {name: {"replicas": 2, "each": {"gpus": 3}, "place": one} for name in "xy"}
    nodes: dict[str, dict[str, Any]] = {"n0": {}, "n1": {}}
    last = solve(stack_of(nodes, runs)).placement
    gang = {"g": {"gang": 2, "each": {"gpus": 2}, "place": {"numa": "single"}}}
    snapshot = snapshot_of(stack_of(nodes, runs | gang), last)
    capacity = capacity_of(snapshot, last)
    ruled = Ruled(capacity, snapshot.requests["g"])
    assert [ruled.reach(EVERY), ruled.reach(EVERY - {*DOMAINS})] == [0, 2]
    assert [reach(capacity, snapshot.requests["g"], rules) for rules in (EVERY, EVERY - {*DOMAINS})] == [0, 2]
    assert ruled.open == []
