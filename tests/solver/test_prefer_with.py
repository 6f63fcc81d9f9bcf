"""Does `place.prefer_with` bring replicas to those that they prefer to be with where that costs nothing, and do nothing else?"""

from __future__ import annotations

import random
from typing import Any

import pytest

from swarm_iac.model.placement import Goal
from swarm_iac.solver import Solution, solve
from swarm_iac.solver.exact.figures import figures, worse
from tests.solver.oracle import as_large, as_small, check_paths
from tests.solver.test_balance import fleet
from tests.solver.test_rules import RULES, fleet_of

PATHS = pytest.mark.parametrize("answer", [solve, as_large, as_small], ids=["exact", "large", "without time"])


def of(replicas: int, gpus: int = 1, company: dict[str, list[str]] | None = None, **place: Any) -> dict[str, Any]:
    """A workload, and with whom it would rather be."""
    return {"replicas": replicas, "each": {"gpus": gpus}, "place": place | ({"prefer_with": company} if company else {})}


def where(solution: Solution, name: str, rack: bool = False) -> set[str]:
    """The nodes that a workload is on, or its racks."""
    return {a.node.partition("-")[0] if rack else a.node for a in solution.placement.going() if a.workload == name}


def goal(solution: Solution) -> Goal:
    """The goal of replicas that are alone."""
    return next(one for one in solution.proof.goals if one.name == "alone")


@PATHS
@pytest.mark.parametrize("level", ["node", "rack"])
def test_it_comes_to_whom_it_names(answer: Any, level: str) -> None:
    """Node r0-0 is the fullest: `web` would come to it, were it not for `cache` in another rack, which runs."""
    works = {"cache": of(1, select={"rack": "r2"}), "fill": of(3, select={"rack": "r0"})}
    last = solve(fleet(works)).placement
    found = answer(fleet(works | {"web": of(1, company={level: ["cache"]})}), last)
    assert not found.moves and goal(found).value == 0
    assert where(found, "web", level == "rack") <= where(found, "cache", level == "rack")


@PATHS
def test_whom_they_name_comes_to_most_of_them(answer: Any) -> None:
    """`cache` is new, and two replicas that would rather be with it run in r0, one in r1."""
    works = {"web": of(2, company={"rack": ["cache"]}, select={"rack": "r0"}), "fill": of(1, gpus=4, select={"rack": "r1"})}
    works["job"] = of(1, company={"rack": ["cache"]}, select={"rack": "r1"})
    last = solve(fleet(works)).placement
    found = answer(fleet(works | {"cache": of(1, gpus=2)}), last)
    assert not found.moves and where(found, "cache", True) == {"r0"} and goal(found).value == 1


@PATHS
def test_one_more_of_them_comes_to_who_is_alone(answer: Any) -> None:
    """Three have `cache` with them in r0, and one in r1 has not: the second `cache` is for that one."""
    with_cache = {"company": {"rack": ["cache"]}}
    works = {"web": of(3, **with_cache, select={"rack": "r0"}), "job": of(1, **with_cache, select={"rack": "r1"})}
    last = solve(fleet(works | {"cache": of(1, select={"rack": "r0"})})).placement
    found = answer(fleet(works | {"cache": of(2)}), last)
    assert not found.moves and where(found, "cache", True) == {"r0", "r1"} and goal(found).value == 0


@PATHS
def test_nobody_is_pending_and_nobody_moves_for_it(answer: Any) -> None:
    works = {"cache": of(1, gpus=4, select={"rack": "r0"}), "web": of(2)}
    last = solve(fleet(works, racks=2, each=1)).placement
    liked = works | {"web": of(2, company={"node": ["cache"]})}
    found = answer(fleet(liked, racks=2, each=1), last)
    assert not found.moves and len(found.placement.allocations) == 3 and goal(found).value == 2
    assert answer is not solve or goal(found).bound == 2


def test_a_rebalance_moves_for_it() -> None:
    works = {"cache": of(1, select={"rack": "r0"}), "web": of(2, select={"rack": "r1"})}
    last = solve(fleet(works)).placement
    stack = fleet(works | {"web": of(2, company={"rack": ["cache"]})})
    kept, better = solve(stack, last), solve(stack, last, repair=False)
    assert where(kept, "web", True) == {"r1"} and where(better, "web", True) == {"r0"} and goal(better).value == 0
    price = worse(figures(stack, kept.placement), figures(stack, better.placement))
    assert "2 fewer replicas without one that they are to be with near them" in price


@PATHS
def test_whom_nobody_could_be_with_is_in_the_bound(answer: Any) -> None:
    """`cache` has no place, so nobody is with it, in any placement."""
    found = answer(fleet({"cache": of(1, gpus=1, select={"rack": "none"}), "web": of(3, company={"rack": ["cache"]})}))
    assert goal(found).value == 3 and (answer is as_small or goal(found).bound == 3)


@pytest.mark.parametrize("seed", range(8))
def test_alone_on_all_paths(seed: int) -> None:
    before, now = fleet_of(("prefer_with",), 700 + seed)
    check_paths(before, now)


@pytest.mark.slow
@pytest.mark.parametrize("other", [*sorted(RULES)])
def test_beside_every_other_rule_on_all_paths(other: str) -> None:
    before, now = fleet_of(("prefer_with", other) if other != "prefer_with" else ("prefer_with",), 3000)
    check_paths(before, now)


def test_nothing_that_comes_first_is_worse_for_it() -> None:
    """The same fleets with and without it: all goals before it are as good."""
    first = ("placed", "running", "stay", "kept", "moves", "shifts")
    for seed in range(40):
        rng = random.Random(f"prefer_with {seed}")
        works = {f"w{i}": of(rng.choice([1, 2, 4]), gpus=rng.choice([1, 2, 3])) for i in range(5)}
        liked = {
            name: one | {"place": {"prefer_with": {rng.choice(["node", "rack"]): [rng.choice(sorted(works.keys() - {name}))]}}}
            for name, one in works.items()
        }
        plain, found = (
            {one.name: one.value for one in solve(fleet(ones)).proof.goals if one.name.rpartition("_")[0].endswith(first)}
            for ones in (works, liked)
        )
        assert plain == found, seed
