"""What must never happen, on random fleets and random loads: is a grant ever in the way of a guarantee, or of anybody else?"""

from __future__ import annotations

import random
from typing import Any

import pytest

from swarm_iac.autopilot.reading import Reading
from swarm_iac.autopilot.tracking import History, ReplicaBounds, target
from swarm_iac.limits import judge
from swarm_iac.model.service.scaling import Scaling
from swarm_iac.solver import solve
from tests.autopilot.fleet import TODAY, Flight, chat, fleet

#: Random traces of the pure core, and flights over random fleets.
TRACES, FLIGHTS, TICKS = 3000, 60, 25


def _scaling(rng: random.Random) -> Scaling:
    return Scaling.model_validate(
        {
            "on": rng.choice(["requests_per_replica", "gpu", "queue"]),
            "target": rng.choice([1.0, 40.0, 70.0, 99.5]),
            "up": {"after": f"{rng.choice([0, 5, 30, 60])} s", "by": rng.choice([None, 1, 3])},
            "down": {"after": f"{rng.choice([0, 20, 120, 300])} s", "by": rng.choice([None, 1, 2])},
            "tolerance": rng.choice([0, 0.1, 0.5]),
        }
    )


@pytest.mark.parametrize("part", range(4))
def test_no_trace_reverses_twice_within_a_cool_down(part: int) -> None:
    for seed in range(part * TRACES // 4, (part + 1) * TRACES // 4):
        rng = random.Random(seed)
        scaling = _scaling(rng)
        least, most = (ends := sorted(rng.sample(range(1, 12), 2)))[0], ends[1]
        count, changed, history = least, None, History(0.0)
        for turn in range(120):
            now = turn * 5.0
            value = rng.choice([None, 0.0, rng.uniform(0, 2 * most * scaling.target), rng.uniform(0, 100)])
            since = now - changed[0] if changed else float("inf")
            aim = target(scaling, Reading(value), ReplicaBounds(least, most, count), history, now=now, since_change=since)
            assert least <= aim.count <= most
            if value is None:
                assert aim.count == count
            if aim.count > count:
                assert since >= int(scaling.up.after) and aim.count - count <= (scaling.up.by or most)
            if aim.count < count:
                assert min(since, now) >= int(scaling.down.after) and count - aim.count <= (scaling.down.by or most)
            if aim.count != count:
                count, changed = aim.count, (now, aim.count > count)


def _drawn(rng: random.Random) -> tuple[int, dict[str, Any], dict[str, Any]]:
    nodes = rng.randint(1, 5)
    workloads: dict[str, Any] = {}
    for i in range(rng.randint(1, 3)):
        least = rng.randint(1, 3)
        place = rng.choice([{}, {"per_node": 2}, {"spread": "node"}, {"numa": "single"}])
        gpus = rng.choice([0, 1, 2, 0.5]) if "numa" not in place else rng.choice([1, 2])
        workloads[f"s{i}"] = chat(
            replicas=f"{least}..{least + rng.randint(1, 8)}",
            each={"gpus": gpus, "vcpus": rng.choice([2, 16]), "memory": rng.choice(["8 GB", "200 GB"])},
            place=place,
            priority=rng.choice(["low", "normal", "high"]),
            scale={"up": {"after": "10 s"}, "down": {"after": "20 s"}},
        )
    for i in range(rng.randint(0, 4)):
        workloads[f"j{i}"] = {"each": {"gpus": rng.choice([1, 4, 8])}, "replicas": rng.randint(1, 3)}
    limits = rng.choice([{}, {"user": {"gpus": 12}}, {"cluster": {"gpus": 20}}, {"user": {"replicas": 9}}])
    return nodes, workloads, limits


@pytest.mark.parametrize("seed", range(FLIGHTS))
def test_every_guarantee_stays_placed_without_a_move(seed: int) -> None:
    """After each tick: lock + live keeps every rule, the lock is as it was, and a solve of it again moves nothing.

    Now and then the stack file changes, a guarantee comes, and is placed as if nothing were live.
    """
    rng = random.Random(seed)
    nodes, workloads, limits = _drawn(rng)
    flight = Flight(fleet(nodes, workloads, limits=limits))
    for turn in range(TICKS):
        if turn % 9 == 8:
            workloads = {**workloads, f"late{turn}": {"each": {"gpus": rng.choice([1, 2, 8])}}}
            flight.stack = fleet(nodes, workloads, limits=limits)
            flight.lock = solve(flight.stack, flight.lock, today=TODAY).placement
        values = {name: rng.choice([None, 0.0, rng.uniform(0, 500)]) for name in workloads if name.startswith("s")}
        found = flight.tick(**values)  # checks the certificate
        live = [one.allocation for one in flight.layer.grants]
        both = flight.lock.model_copy(update={"allocations": (*flight.lock.allocations, *live)})
        kept = frozenset(one.name for one in flight.lock.allocations)
        assert not judge(flight.stack, both, TODAY, kept=kept)
        assert found.stops <= flight.stack.solve.stops
        flight.passes(rng.choice([5, 5, 30]))
    assert solve(flight.stack, flight.lock, today=TODAY).placement.allocations == flight.lock.allocations
