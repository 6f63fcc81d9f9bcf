"""Does counting say the same about one replica in both of its ways?"""

from __future__ import annotations

import os
import random

from swarm_iac.solver import solve
from swarm_iac.solver.counting import EVERY, keeping_out, reach
from swarm_iac.solver.explain import room_of
from swarm_iac.solver.scene import scene_of
from tests.solver.crowded import crowded


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
                nodes = keeping_out(room, ask)
                for _ in range(20):
                    rules = frozenset(rng.sample(sorted(EVERY), rng.randrange(len(EVERY))))
                    tried += 1
                    assert all(rules & out for out in nodes) == (reach(room, ask, rules) < 1), (seed, ask.name, rules)
    assert tried > 120
