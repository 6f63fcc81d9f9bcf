"""Does counting say the same in each of its ways?"""

from __future__ import annotations

import os
import random

from swarm_iac.solver import solve
from swarm_iac.solver.explain.conflict import room_of
from swarm_iac.solver.explain.counting import EVERY, STATES, Ruled, Tally, keeping_out, reach
from swarm_iac.solver.snapshot.from_stack import scene_of
from tests.solver.crowded import crowded
from tests.solver.fleets import stack_of


def test_rules_that_keep_one_replica_out_are_those_under_which_none_can_be_added() -> None:
    tried = 0
    for seed in range(60 if os.environ.get("HYPOTHESIS_PROFILE") == "full" else 15):
        before, stack = crowded(seed)
        placement = solve(before).placement
        scene = scene_of(stack, placement)
        room = room_of(scene, placement)
        rng = random.Random(seed)
        for ask in scene.asks.values():
            if room.counts[ask.name].total() < ask.members:
                nodes, ruled = keeping_out(room, ask), Ruled(room, ask)
                for _ in range(20):
                    rules = frozenset(rng.sample(sorted(EVERY), rng.randrange(len(EVERY))))
                    tried += 1
                    assert ruled.reach(rules) == reach(room, ask, rules), (seed, ask.name, rules)
                    assert all(rules & out for out in nodes) == (reach(room, ask, rules) < 1), (seed, ask.name, rules)
    assert tried > 120


def test_a_tally_counts_what_is_reached_whoever_leaves_and_whichever_node_opens() -> None:
    reached: set[int] = set()
    for seed in range(60):
        before, stack = crowded(seed)
        placement = solve(before).placement
        scene = scene_of(stack, placement)
        rng = random.Random(seed)
        for ask in scene.asks.values():
            room = room_of(scene, placement)
            rules = frozenset(rng.sample(sorted(EVERY), rng.randrange(len(EVERY)))) if rng.random() < 0.5 else EVERY
            tally = Tally(room, ask, rules)
            others = [(scene.asks[name], dict(counts)) for name, counts in room.counts.items() if counts and name != ask.name]
            for other, counts in others:
                for node, count in counts.items():
                    room.take(other, scene.bins[node], -count)
                tally.changed(counts)
                assert tally.reach() == reach(room, ask, rules), (seed, ask.name, other.name)
                reached.add(tally.reach())
            for name in scene.bins:
                tally.open(name)
            assert tally.reach() == reach(room, ask, rules - {STATES}), (seed, ask.name)
            for name in scene.bins:
                tally.close(name)
            assert tally.reach() == reach(room, ask, rules), (seed, ask.name)
    assert len(reached) >= 4


def test_who_has_another_user_now_may_not_stay_on_a_cordoned_node() -> None:
    """It would start anew there, so the proof does not say that it could have a place."""
    wish = {"each": {"vcpus": 1}}
    last = solve(stack_of({"n": {}}, {"w": wish, "x": wish})).placement
    now = stack_of({"n": {"state": "cordon"}}, {"w": {"each": {"gpus": 1, "vcpus": 1}, "user": "bo"}, "x": wish})
    found = solve(now, last)
    assert [gone.workload for gone in found.placement.unplaced] == ["w"]
    assert found.proof.optimal and all(goal.value == goal.bound for goal in found.proof.goals)
