"""Do bounds that know racks and linked GPUs bound every placement? Tiny random fleets, each placement enumerated."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

from swarm_iac.model.placement import Placement
from swarm_iac.model.stack import Stack
from swarm_iac.solver import solve
from swarm_iac.solver.backend.time_limit import TimeLimit
from swarm_iac.solver.bounds.gpu_bounds import NOBODY, finer_bound
from swarm_iac.solver.snapshot.from_stack import snapshot_of
from tests.solver.fleets import stack_of
from tests.solver.test_other_bounds import check
from tests.solver.test_shares import drawn_teams, weighted

REST = {"vcpus": 16, "memory": "16 GB", "nvme": "1 TB", "nic": "10 Gbit/s", "numa": 2}
HARDWARE: dict[str, dict[str, Any]] = {
    "a": {"gpus": "4 x A", "links": {"nvlink": [[0, 1], [2, 3]]}},
    "b": {"gpus": "3 x B", "links": {"nvlink": [[0, 1, 2]]}},
    "c": {"gpus": "2 x A"},
}
PLACES: list[dict[str, Any]] = [
    {"within": "rack"}, {"spread": "rack"}, {"per_rack": 1}, {"per_rack": 2}, {"balance": "rack"},
    {"balance": {"over": "rack", "skew": 2}}, {"links": "required"}, {"links": "required", "within": "rack"}, {"per_site": 2},
]  # fmt: skip


def drawn(seed: int) -> tuple[Stack, Stack]:
    """Up to four nodes in up to three racks, some of them with a power budget, and what becomes of them; half of them are shared
    by teams.
    """
    rng = random.Random(f"racks {seed}")
    racks = {f"r{i}": {} if rng.random() < 0.7 else {"power": f"{rng.randint(1, 3)} kW"} for i in range(rng.randint(1, 3))}
    nodes = {
        f"n{i}": {"hardware": rng.choice("aabc"), "tuning": "plain"}
        | ({"rack": rng.choice([*racks])} if rng.random() < 0.9 else {})
        for i in range(rng.randint(2, 4))
    }
    names, count = ["t0", "t1"], rng.randint(2, 3)
    teams = drawn_teams(rng, names, 3) if rng.random() < 0.5 else {name: {"users": [f"u{i}"]} for i, name in enumerate(names)}

    def request() -> dict[str, Any]:
        place = rng.choice([{}, *PLACES])
        gpus, model = rng.choice([2, 2, 3] if "links" in place else [0, 1, 1, 2, 3]), rng.choice(["", "", " x A", " x B"])
        found: dict[str, Any] = {"user": f"u{rng.randrange(2)}", "priority": rng.choice(["normal", "normal", "low", "high"])}
        found["each"] = {"gpus": f"{gpus}{model}" if gpus and model else gpus, "memory": "1 GB"}
        return (
            found
            | {"gang" if rng.random() < 0.4 else "replicas": rng.choice([1, 2, 2, 3] if count == 2 else [1, 2])}
            | {"place": place}
        )

    works = {f"w{i}": request() for i in range(count)}
    hardware = {name: one | REST for name, one in HARDWARE.items()}
    rest: dict[str, Any] = {"hardware": hardware, "racks": racks, "teams": teams, "solve": {"moves": rng.choice([0, 1, 4])}}
    rest["tuning"] = {"plain": {"gpu_power": "300 W"}}
    before = stack_of(nodes, works, **rest)
    states = {name: one | {"state": rng.choice(["ready"] * 6 + ["cordon", "drain"])} for name, one in nodes.items()}
    return before, stack_of(states, works | ({"w0": request()} if rng.random() < 0.5 else {}), **rest)


@pytest.mark.parametrize("seeds", [range(60), pytest.param(range(60, 3000), marks=pytest.mark.slow)], ids=["some", "thousands"])
def test_no_placement_exceeds_a_bound(seeds: range) -> None:
    bounds = 0
    for seed in seeds:
        before, now = (weighted(one, seed) for one in drawn(seed))
        bounds += check(now, Placement())
        bounds += check(now, solve(before, reasons=False).placement)
    assert bounds


@pytest.mark.parametrize(("request_", "most"), [({"replicas": 5}, 4), ({"gang": 5}, 0), ({"gang": 4}, 4)])
def test_replicas_within_a_rack_may_be_there_in_part_and_a_gang_may_not(request_: dict[str, Any], most: int) -> None:
    nodes = {f"n{i}": {"hardware": "c", "rack": f"r{i // 2}"} for i in range(4)}
    works = {"w": request_ | {"each": {"gpus": 1}, "place": {"within": "rack"}}}
    snapshot = snapshot_of(stack_of(nodes, works, hardware={"c": HARDWARE["c"] | REST}), Placement())
    every = {"w": 5}
    found = finer_bound(snapshot, snapshot.requests["w"].priority, Counter(), every, NOBODY, TimeLimit(left=1.0))
    assert found == 1000 * most
