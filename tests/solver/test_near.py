"""Does `place.near` bring what is new to few racks, and do nothing else?"""

from __future__ import annotations

import os
import random
from typing import Any

import pytest

from swarm_iac.limits import judge
from swarm_iac.model.placement import Goal, Placement
from swarm_iac.model.stack import Stack
from swarm_iac.solver import Solution, solve
from tests.solver.fleets import stack_of
from tests.solver.oracle import as_large, as_small, check_paths, still
from tests.solver.test_balance import SHAPE, by_rack, filler, fleet
from tests.solver.test_rules import RULES, fleet_of

#: Fleets that are drawn; `NEAR_DRAWS=3000 pytest tests/solver/test_near.py` for many.
DRAWS = int(os.environ.get("NEAR_DRAWS", "40"))
PATHS = pytest.mark.parametrize("answer", [solve, as_large, as_small], ids=["exact", "large", "without time"])


def of(count: int, near: str | None = "rack", **more: Any) -> dict[str, Any]:
    """A gang that is to be near."""
    place = {**({"near": near} if near else {}), **more.pop("place", {})}
    return {"gang": count, "each": {"gpus": 1}, "place": place, **more}


def goal(solution: Solution) -> Goal:
    """The goal of racks beyond the first."""
    return next(one for one in solution.proof.goals if one.name == "near")


@PATHS
@pytest.mark.parametrize(
    ("taken", "count", "racks"), [((6, 5, 0), 5, 1), ((6, 5, 4), 5, 2), ((7, 6, 6), 5, 3), ((0, 0, 0), 24, 3)]
)
def test_a_gang_uses_the_fewest_racks_that_hold_it(answer: Any, taken: tuple[int, ...], count: int, racks: int) -> None:
    works = {"w": of(count)} | {f"full{r}": filler(f"r{r}", n) for r, n in enumerate(taken) if n}
    stack = fleet(works, each=2)
    found = answer(stack)
    used = [n for n in by_rack(stack, found.placement) if n]
    assert (sum(used), len(used)) == (count, racks)
    assert goal(found).value == racks - 1 >= goal(found).bound
    if answer is solve:
        assert goal(found).bound == racks - 1 and found.proof.optimal
    assert judge(stack, found.placement) == ()


def test_a_pass_takes_the_rack_that_it_leaves_least_of() -> None:
    stack = fleet({"w": of(4), "full0": filler("r0", 2), "full1": filler("r1", 4)})
    assert by_rack(stack, as_large(stack).placement) == [0, 4, 0]


def test_a_pass_looks_for_a_rack_that_holds_all_where_a_budget_is_short() -> None:
    """Each machine of r0 could take one of three, and its uplink only one in all."""
    nodes = {f"r{r}-{i}": {"hardware": "h", "rack": f"r{r}"} for r in range(2) for i in range(3)}
    stack = stack_of(
        nodes,
        {"w": of(3, network={"egress": "1 Gbit/s"}), "full": filler("r1", 2)},
        hardware={"h": SHAPE | {"nic": "100 Gbit/s"}},
        racks={"r0": {"uplink": "1 Gbit/s"}, "r1": {}},
    )
    assert by_rack(stack, as_large(stack).placement) == [0, 3]


@PATHS
def test_what_is_new_comes_to_the_racks_where_others_run(answer: Any) -> None:
    service = {"replicas": 3, "each": {"gpus": 1}, "place": {"select": {"rack": "r1"}}}
    full = filler("r0", 4)  # it leaves less than r1 has, and enough
    last = solve(fleet({"w": service, "full": full})).placement
    stack = fleet({"w": {"replicas": 6, "each": {"gpus": 1}, "place": {"near": "rack"}}, "full": full})
    found = answer(stack, last)
    assert by_rack(stack, found.placement) == [0, 6, 0] and not found.moves


def test_a_pass_fills_the_racks_where_others_run_before_larger_ones() -> None:
    """Three run in r1, where four more fit; in r0 and in r2 five do."""
    fillers = {f"full{r}": filler(f"r{r}", n) for r, n in enumerate((3, 1, 3))}
    service = {"replicas": 3, "each": {"gpus": 1}, "place": {"select": {"rack": "r1"}}}
    last = solve(fleet({"w": service, **fillers})).placement
    stack = fleet({"w": {"replicas": 9, "each": {"gpus": 1}, "place": {"near": "rack"}}, **fillers})
    found = as_large(stack, last)
    assert sorted(by_rack(stack, found.placement)) == [0, 2, 7] and goal(found).value == 1


@PATHS
def test_nobody_moves_stops_or_waits_for_it(answer: Any) -> None:
    """Two run in one rack and two in another one; each rack has room for all four. A rebalance brings them together."""
    apart = {"replicas": 4, "each": {"gpus": 1}, "place": {"per_rack": 2}}
    last = solve(fleet({"w": apart}, racks=2)).placement
    stack = fleet({"w": {"replicas": 4, "each": {"gpus": 1}, "place": {"near": "rack"}}}, racks=2)
    found = answer(stack, last)
    assert by_rack(stack, found.placement) == [2, 2] and not found.moves and goal(found).value == 1
    assert sorted(by_rack(stack, solve(stack, last, repair=False).placement)) == [0, 4]


def test_a_service_with_one_replica_and_a_stack_without_it_have_no_such_goal() -> None:
    for works in ({"w": of(4, None)}, {"w": {"each": {"gpus": 1}, "place": {"near": "rack"}}}):
        assert "near" not in {one.name for one in solve(fleet(works)).proof.goals}


@PATHS
def test_sites_are_counted_as_sites(answer: Any) -> None:
    changes = {f"r{r}-{i}": {"site": "s" if r < 2 else "t"} for r in range(3) for i in range(2)}
    stack = fleet({"w": of(12, "site")}, changes=changes)
    assert by_rack(stack, answer(stack).placement)[2] == 0


@pytest.mark.slow
@pytest.mark.parametrize("other", [*sorted(RULES)])
def test_beside_every_other_rule_on_all_paths(other: str) -> None:
    for seed in range(2000, 2000 + max(1, DRAWS // 40)):
        before, now = fleet_of(("near", other) if other != "near" else ("near",), seed)
        check_paths(before, now)


def test_it_changes_no_goal_before_it() -> None:
    """The same fleets with and without: what is placed, kept and moved is the same."""
    rng = random.Random(3)
    for _ in range(DRAWS // 4):
        works: dict[str, dict[str, Any]] = {}
        for name in ("a", "b", "c"):
            works[name] = of(rng.choice([2, 3, 5]), None, priority=rng.choice(["low", "normal"]))
        last = solve(fleet({name: one | {"gang": 2} for name, one in works.items()})).placement
        named = {name: one | {"place": {"near": "rack"}} for name, one in works.items()}
        stacks = [fleet(works), fleet(named)]
        values = [
            {
                one.name: one.value
                for one in solve(stack, last).proof.goals
                if one.name not in ("near", "overqualification", "nodes", "within_numa")
            }
            for stack in stacks
        ]
        assert values[0] == values[1]


def test_a_drawn_change_is_accepted_by_the_judge() -> None:
    rng, last = random.Random(9), Placement()
    stack: Stack
    for _ in range(12):
        works = {
            "w": of(rng.choice([2, 4, 6])),
            "v": {"replicas": rng.choice([1, 4]), "each": {"gpus": 1}, "place": {"near": "rack"}},
        }
        works |= {f"f{r}": filler(f"r{r}", rng.choice([1, 3, 6]), priority="normal") for r in range(3)}
        stack = fleet(works)
        found = solve(stack, last)
        assert judge(stack, found.placement, **still(found.placement, last)) == ()
        last = found.placement
