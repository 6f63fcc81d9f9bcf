"""Does what is known of all nodes at once leave out none that has capacity, and those at once that cannot have any?"""

from __future__ import annotations

import random

from swarm_iac.model.placement import Placement
from swarm_iac.solver.repair.greedy import greedy
from swarm_iac.solver.snapshot.capacity import capacity_with, group_of
from swarm_iac.solver.snapshot.from_stack import snapshot_of
from swarm_iac.solver.snapshot.node_slots import Slots
from swarm_iac.solver.snapshot.tasks import classify, repair_task
from tests.benchmarks.fleets.draw_workloads import filled


def test_no_node_with_capacity_is_left_out() -> None:
    """Half of a drawn fleet is filled; then whatever `FreeCapacity` finds free, for each workload on each node."""
    elsewhere = 0
    for seed in range(140_020, 140_070):
        rng = random.Random(seed)
        snapshot = snapshot_of(filled(seed, rng.randint(5, 20)).stack(), Placement())
        counts = greedy(repair_task(snapshot, classify(snapshot)))
        capacity = capacity_with(snapshot, counts)
        for (name, node), count in counts.items():
            if rng.random() < 0.5:
                capacity.take(snapshot.requests[name], snapshot.nodes[node], -rng.randint(1, count))
        slots = Slots(capacity)
        for name, request in snapshot.requests.items():
            caps, suits = slots.caps(request), slots.suits(request)
            stands = (
                {group_of(snapshot.nodes[node], request.together) for node in capacity.counts[name]}
                if request.together
                else set()
            )
            for i, host in enumerate(slots.nodes):
                if slots.ready[i] and suits[i]:
                    assert caps[i] >= capacity.most(request, host), (seed, name, host.name)
                if stands and request.together and {group_of(host, request.together)} != stands:
                    assert caps[i] == 0, (seed, name, host.name)
                    elsewhere += 1
    assert elsewhere > 100
