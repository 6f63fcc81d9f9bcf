"""Is a workload with `place.only_with` only where those are that it names, on every path, and is nobody stopped or led away for it?"""

from __future__ import annotations

from typing import Any

import pytest

from swarm_iac.limits import judge
from swarm_iac.model.placement import Placement
from swarm_iac.plan.show.causes import why_moved
from swarm_iac.solver import solve, why
from swarm_iac.solver.balance.company import named_first
from swarm_iac.solver.repair.greedy import greedy
from swarm_iac.solver.snapshot.from_stack import snapshot_of
from swarm_iac.solver.snapshot.tasks import by_workload, classify, repair_task
from tests.solver.oracle import check_paths, still
from tests.solver.test_balance import fleet
from tests.solver.test_prefer_with import PATHS, where
from tests.solver.test_rules import RULES, fleet_of


def of(replicas: int, gpus: int = 1, company: dict[str, list[str]] | None = None, **place: Any) -> dict[str, Any]:
    """A workload, and with whom it is only."""
    return {"replicas": replicas, "each": {"gpus": gpus}, "place": place | ({"only_with": company} if company else {})}


@PATHS
@pytest.mark.parametrize(("level", "most"), [("node", 3), ("rack", 7)])
def test_it_is_pending_where_those_whom_it_names_leave_no_capacity(answer: Any, level: str, most: int) -> None:
    """Racks of two nodes with four GPUs; all are new, and there is capacity elsewhere."""
    stack = fleet({"cache": of(1), "web": of(9, company={level: ["cache"]})})
    found = answer(stack)
    assert judge(stack, found.placement) == () and sum(a.workload == "web" for a in found.placement.allocations) == most
    assert where(found, "web", level == "rack") == where(found, "cache", level == "rack")


@PATHS
def test_it_comes_where_one_of_each_is(answer: Any) -> None:
    works = {
        "cache": of(2, spread="rack"),
        "store": of(1, select={"rack": "r1"}),
        "web": of(2, company={"rack": ["cache", "store"]}),
    }
    found = answer(fleet(works))
    assert where(found, "web", True) == where(found, "store", True) <= where(found, "cache", True)


@PATHS
@pytest.mark.parametrize("runs", [False, True], ids=["all new", "a change"])
def test_it_takes_the_place_of_lower_priorities_beside_those_whom_it_names(answer: Any, runs: bool) -> None:
    """Two nodes full of low priority; `web` is of a higher one than `cache`, so that comes after it in any order by priority."""
    low = {"cache": of(1) | {"priority": "low"}, "fill": of(7) | {"priority": "low"}}
    last = solve(fleet(low, racks=1)).placement if runs else Placement()
    stack = fleet(low | {"web": of(3, company={"node": ["cache"]}) | {"priority": "high"}}, racks=1)
    found = answer(stack, last)
    assert sum(a.workload == "web" for a in found.placement.allocations) == 3 and where(found, "web") == where(found, "cache")
    assert judge(stack, found.placement, **still(found.placement, last)) == ()


def test_the_greedy_pass_places_who_is_named_just_before() -> None:
    """By size `web` is first, `cache` last: then `fill` would have taken two of the four GPUs of the only node."""
    stack = fleet({"cache": of(1, gpus=0), "fill": of(2), "web": of(1, gpus=4, company={"node": ["cache"]})}, racks=1, each=1)
    snapshot = snapshot_of(stack, Placement())
    assert by_workload(greedy(repair_task(snapshot, classify(snapshot)))) == {"cache": 1, "web": 1}


def test_a_long_chain_is_placed_from_its_end() -> None:
    chain = {f"w{i:04}": of(1, gpus=0, company={"site": [f"w{i + 1:04}"]}) for i in range(1500)} | {"w1500": of(1, gpus=0)}
    snapshot = snapshot_of(fleet(chain, racks=1, each=1), Placement())
    ordered = named_first(list(snapshot.requests.values()))
    assert [request.name for request in ordered] == sorted(chain, reverse=True)


def test_two_that_name_each_other_come_together() -> None:
    stack = fleet({name: of(2, company={"rack": [other]}) for name, other in (("a", "b"), ("b", "a"))})
    found = solve(stack)
    assert not found.placement.unplaced and found.proof.optimal and judge(stack, found.placement) == ()


@PATHS
def test_whom_it_names_moves_once_and_then_no_more(answer: Any) -> None:
    """`cache` is on a full node, so it moves for the first `web`. The next change asks for one more than is free beside it: that
    is pending, or else `cache` would move on and leave the first ones alone.
    """
    full = {"cache": of(1, select={"rack": "r0"}), "fill": of(7, select={"rack": "r0"})}
    last = solve(fleet(full)).placement
    works = {**full, "cache": of(1), "web": of(3, company={"node": ["cache"]})}
    found = answer(fleet(works), last)
    assert sum(a.workload == "web" for a in found.placement.allocations) == 3
    assert not where(found, "cache") & where(found, "fill")
    assert [move.why for move in found.moves] == ["comes to web, which runs only with it"]
    assert why_moved(fleet(works), last, found.placement) == {"cache-0": "comes to web, which runs only with it"}
    then = answer(fleet(works | {"web": of(4, company={"node": ["cache"]})}), found.placement)
    assert not then.moves and where(then, "cache") == where(found, "cache") and len(then.placement.unplaced) == 1


@PATHS
def test_what_runs_is_not_stopped_when_those_leave(answer: Any) -> None:
    """The node of `cache` is drained: it goes elsewhere, `web` in its rack stays, and a new one comes to the other rack."""
    works = {"cache": of(1, select={"rack": "r0"}), "web": of(2, company={"rack": ["cache"]})}
    before = fleet(works, racks=2)
    last = solve(before).placement
    home = next(iter(where_of(last, "cache")))
    stack = fleet(
        works | {"cache": of(1), "web": of(3, company={"rack": ["cache"]})}, racks=2, changes={home: {"state": "drain"}}
    )
    found = answer(stack, last)
    assert judge(stack, found.placement, **still(found.placement, last)) == ()
    assert all(move.target for move in found.moves) and not found.placement.unplaced


@PATHS
def test_whom_others_run_with_goes_elsewhere_before_it_stops(answer: Any) -> None:
    """`big` takes all GPUs of the node where `cache` runs with `web`; there are others."""
    works = {"cache": of(1, gpus=2), "web": of(1, company={"node": ["cache"]})}
    last = solve(fleet(works)).placement
    home = next(iter(where_of(last, "cache")))
    big = of(1, gpus=4, select={"box": "here"}) | {"priority": "high"}
    stack = fleet(works | {"big": big}, changes={home: {"labels": {"box": "here"}}})
    found = answer(stack, last)
    assert where(found, "big") == {home} and len(where(found, "cache")) == len(where(found, "web")) == 1
    assert not found.placement.unplaced and where(found, "web") == where(found, "cache")


def where_of(placement: Any, name: str) -> set[str]:
    """The nodes that a workload is on."""
    return {a.node for a in placement.going() if a.workload == name}


def test_who_is_not_moved_for_it_is_told() -> None:
    """`cache` has the GPU that `big` lacks, and a place elsewhere; `web` beside it has none."""
    works = {"cache": of(1, select={"rack": "r0"}), "web": of(1, gpus=0, company={"node": ["cache"]})}
    last = solve(fleet(works)).placement
    stack = fleet({**works, "cache": of(1), "big": of(2, gpus=4, select={"rack": "r0"})})
    found = solve(stack, last)
    assert len(found.placement.unplaced) == 1 and not found.moves
    texts = {reason.text for reason in why(stack, found.placement, "big").reasons}
    assert any(text.endswith("holds 1 GPU on r0-0, and is not moved (web runs only with it)") for text in texts), texts


@pytest.mark.parametrize("seed", range(8))
def test_on_all_paths(seed: int) -> None:
    check_paths(*fleet_of(("company_is_near",), 700 + seed))


@pytest.mark.slow
@pytest.mark.parametrize("other", [*sorted(RULES)])
def test_beside_every_other_rule_on_all_paths(other: str) -> None:
    check_paths(*fleet_of(("company_is_near", other) if other != "company_is_near" else (other,), 3000))
