"""Is the bound on moves never above the fewest, and what the columns give a placement that the judge accepts?"""

from __future__ import annotations

import math
import os
import random
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from swarm_iac.model.placement import Allocation, Placement
from swarm_iac.model.stack import Stack
from swarm_iac.solver import solve, solve_keeping
from swarm_iac.solver.balance.even import even
from swarm_iac.solver.bounds.move_bound import Still, _change, fewest_by_columns
from swarm_iac.solver.columns.keeping import EPSILON, fewest_moves
from swarm_iac.solver.decide.clearing import kept_first
from swarm_iac.solver.decide.moves import moves_with_causes
from swarm_iac.solver.repair.fewest_moves import moved
from swarm_iac.solver.repair.newcomers import made_way
from swarm_iac.solver.repair.replica_moves import rearranged
from swarm_iac.solver.repair.restoring import restored
from swarm_iac.solver.repair.undo_moves import undo_moves
from swarm_iac.solver.snapshot.from_stack import snapshot_of
from swarm_iac.solver.snapshot.snapshot import Snapshot
from swarm_iac.solver.snapshot.tasks import Classified, Pairs, around, by_workload, classify
from tests.solver.fleets import stack_of
from tests.solver.oracle import accepted, as_large, fewest, reached, recarded, with_shares

CASES = 60 if os.environ.get("HYPOTHESIS_PROFILE") == "full" else 20


def _changes(seeds: range) -> Iterator[tuple[int, Stack, Placement, Pairs]]:
    """(seed, stack, what runs, a placement that looked at nothing that runs, so that it moves much)."""
    for seed in seeds:
        rng = random.Random(seed)
        nodes = {f"n{i}": {"hardware": rng.choice(["l40s", "h100", "h100"])} for i in range(3)}
        old = {f"old{i}": _request(rng) for i in range(3)}
        last = solve(stack_of(nodes, old)).placement
        nodes["n0"]["state"] = rng.choice(["ready", "ready", "cordon", "drain"])
        stack = stack_of(nodes, old | {"new": _request(rng)}, solve={"moves": 100})
        counts = reached(solve(stack, Placement()))
        if all(stack.nodes[node].state == "ready" for _, node in counts):
            yield seed, stack, last, counts


@pytest.mark.engine
@pytest.mark.parametrize("part", [pytest.param(0, marks=pytest.mark.slow), 1, pytest.param(2, marks=pytest.mark.slow)])
def test_columns_never_claim_more_than_the_fewest_and_mostly_find_it(part: int) -> None:
    found: Counter[str] = Counter()
    for seed, stack, last, counts in _changes(range(CASES * part, CASES * (part + 1))):
        snapshot = snapshot_of(stack, last)
        classified = classify(snapshot)
        placed = by_workload(counts)
        least = fewest(stack, last, placed)
        answer = fewest_by_columns(snapshot, classified, counts, "normal")
        assert answer.moves <= least <= _moves(snapshot, classified, counts), seed
        if answer.found is not None:
            assert by_workload(answer.found) == placed and accepted(stack, last, answer.found), seed
            assert moved(classified, answer.found) < moved(classified, counts), seed
            assert least <= _moves(snapshot, classified, answer.found) == moved(classified, answer.found), (
                "parts keep their cards"
            )
            found["better"] += 1
            found["best"] += moved(classified, answer.found) == least
        found["tight"] += answer.moves == least
        found["all"] += 1
    assert found["all"] > 2 * CASES / 3 and found["better"] > CASES / 6
    assert found["tight"] > 0.9 * found["all"] and found["best"] > 0.9 * found["better"], found


def _pressed() -> tuple[Snapshot, Classified, Pairs]:
    """Six replicas on each of four nodes, and a new one wants a node whole: five move to the others, and one stops."""
    nodes = {f"n{i}": {"hardware": "h100"} for i in range(4)}
    small, new = {"replicas": 24, "each": {"gpus": 1}}, {"each": {"gpus": 8}}
    last = solve(stack_of(nodes, {"small": small | {"place": {"per_node": 6}}})).placement
    snapshot = snapshot_of(stack_of(nodes, {"small": small, "new": new}), last)
    after: Pairs = Counter({("new", "n0"): 1, ("small", "n1"): 8, ("small", "n2"): 8, ("small", "n3"): 7})
    return snapshot, classify(snapshot), after


@pytest.mark.engine
def test_where_something_stops_a_bound_on_moves_is_looked_for_as_long_as_one_can_come() -> None:
    """Who stops may leave its node too, and is no move: a bound of no more says nothing. It comes out as without an early end."""
    cases = [_pressed()]
    for _, stack, last, counts in _changes(range(3 * CASES)):
        snapshot = snapshot_of(stack, last)
        classified = classify(snapshot)
        ran, placed = by_workload(classified.stand), by_workload(counts)
        part = next((pair for pair in sorted(counts) if 1 < placed[pair[0]] <= ran[pair[0]]), None)
        cases += [(snapshot, classified, counts - Counter({part: 1}))] if part else []
    found: list[int] = []
    ended = 0
    for case in cases:
        change = _change(*case)
        stopped = change.stopped
        whole, early = (
            fewest_moves(change.problem, change.wanted, change.columns, rounds=40, beyond=beyond) for beyond in (0, stopped)
        )
        bound, sooner = (max(0, math.ceil(each.bound - stopped - EPSILON)) for each in (whole, early))
        assert stopped and bound == sooner and early.moves is None and early.rounds <= whole.rounds
        found.append(bound)
        ended += early.rounds < whole.rounds
    assert found[0] == 5 and len(found) > CASES and ended > CASES / 10, (found, ended)


@pytest.mark.parametrize(
    ("on", "left"), [(("n0", "n1"), 3), (("n0",), 3), ((), 3), (("n0", "n2"), 2), (("n2",), 2), (("n2", "n2"), 1)]
)
def test_near_a_workload_only_those_that_run_elsewhere_have_used_the_budget(on: tuple[str, ...], left: int) -> None:
    """One that was stopped has moved nowhere; were it counted, a few nodes at a time could not even keep what they began with."""
    nodes = {f"n{i}": {"hardware": "h100"} for i in range(4)}
    work = {"w": {"replicas": 2, "each": {"gpus": 1}, "place": {"per_node": 1}}}
    last = solve(stack_of({name: nodes[name] for name in ("n0", "n1")}, work)).placement
    snapshot = snapshot_of(stack_of(nodes, work, solve={"moves": 3}), last)
    task = around(snapshot, classify(snapshot), Counter(("w", node) for node in on), frozenset({"n3"}), frozenset())
    assert task.budget == left


def test_what_left_without_need_goes_home() -> None:
    """Never fewer replicas, never more moves than the budget, nothing that the judge refuses; and it helps."""
    fewer = 0
    for seed, wide, last, counts in _changes(range(CASES)):
        stack = wide.model_copy(update={"solve": wide.solve.model_copy(update={"moves": 0})})
        snapshot = snapshot_of(stack, last)
        classified = classify(snapshot)
        found = undo_moves(snapshot, classified, counts)
        assert not by_workload(counts) - by_workload(found) and accepted(stack, last, found), seed
        assert (
            _moves(snapshot, classified, found) == moved(classified, found) <= moved(classified, counts) or found == counts
        ), seed
        fewer += moved(classified, found) < moved(classified, counts)
    assert fewer > CASES / 6


def test_who_goes_home_does_not_wait_for_one_that_would_be_uneven_there() -> None:
    """Of `pair` the first replica that finds its home free comes from the other rack, which leaves both in one."""
    nodes = {
        name: {"hardware": "h100", "rack": f"r{i % 2}"} for i, name in enumerate(("a", "b", "c", "d", "e", "f", "n0", "n1"))
    }
    one = {"each": {"gpus": 8}}
    pair = one | {"replicas": 2, "place": {"balance": "rack"}}
    last = solve(stack_of({name: nodes[name] for name in ("n0", "n1")}, {"pair": pair}, racks={"r0": {}, "r1": {}})).placement
    gang = one | {"gang": 2}
    some = solve(stack_of({name: nodes[name] for name in ("c", "d")}, {"gang": gang}, racks={"r0": {}, "r1": {}})).placement
    last = last.model_copy(update={"allocations": (*some.allocations, *last.allocations)})
    stack = stack_of(nodes, {"pair": pair, "gang": gang, "new": one}, racks={"r0": {}, "r1": {}}, solve={"moves": 3})
    snapshot = snapshot_of(stack, last)
    counts: Pairs = Counter({("pair", "a"): 1, ("pair", "b"): 1, ("new", "n0"): 1, ("gang", "c"): 1, ("gang", "e"): 1})
    found = undo_moves(snapshot, classify(snapshot), counts)
    assert found["gang", "d"] == 1 and even(snapshot, found) and accepted(stack, last, found)


def test_parts_that_are_laid_on_cards_less_well_than_they_were_find_home() -> None:
    """By name 300 and 400 thousandths come to one card, 600 to the other, and 700 to none; two cards hold them all."""
    old = {f"w{share}": {"each": {"gpus": {"count": 1, "share": share / 1000}}} for share in (300, 400, 600, 700)}
    last = solve(stack_of({"one": {"hardware": "l40s"}}, old)).placement
    nodes = {name: {"hardware": "l40s"} for name in ("one", "two")}
    snapshot = snapshot_of(stack_of(nodes, old | {"new": {"each": {"gpus": 2}}}), last)
    away: Pairs = Counter({(name, "two"): 1 for name in (*old, "new")})
    assert undo_moves(snapshot, classify(snapshot), away) == Counter({("new", "two"): 1} | {(name, "one"): 1 for name in old})


def _one_stopped(new: dict[str, Any], **rest: Any) -> tuple[Stack, Placement, Snapshot, Classified]:
    """`held` ran with all 8 GPUs of n0 and `more` with 4 of n1; `more` asks for 2 replicas now, and `new` is new."""
    nodes = {f"n{i}": {"hardware": "h100"} for i in range(2)}
    held, more = {"each": {"gpus": 8}}, {"each": {"gpus": 4}}
    last = solve(stack_of({"n0": nodes["n0"]}, {"held": held})).placement
    (also,) = solve(stack_of({"n1": nodes["n1"]}, {"more": more})).placement.allocations
    last = last.model_copy(update={"allocations": (*last.allocations, also)})
    stack = stack_of(nodes, {"more": more | {"replicas": 2}, "held": held, "new": new}, **rest)
    snapshot = with_shares(stack, last)
    return stack, last, snapshot, classify(snapshot)


GANG = {"gang": 2, "each": {"gpus": 4}}


@pytest.mark.parametrize(
    "new",
    [{("more", "n0"): 1}, {("new", "n0"): 1}, {("new", "n0"): 1, ("new", "n1"): 1}],
    ids=["a second replica", "another workload", "a gang, of which one member is in the way"],
)
def test_what_is_new_makes_way_for_an_equal_that_ran(new: dict[tuple[str, str], int]) -> None:
    stack, last, snapshot, classified = _one_stopped(GANG if len(new) == 2 else {"each": {"gpus": 4}})
    ran: Pairs = Counter({("more", "n1"): 1})
    found = list(made_way(snapshot, classified, ran + Counter(new), lambda: False))
    assert found and all(counts["held", "n0"] == 1 and accepted(stack, last, counts) for counts in found)
    assert all(not ran - counts for counts in found), "and nothing else that ran stops"


def test_who_had_moved_for_what_makes_way_goes_home() -> None:
    nodes = {f"n{i}": {"hardware": "h100"} for i in range(2)}
    old = {name: {"each": {"gpus": gpus}} for name, gpus in (("held", 4), ("small", 2), ("other", 6))}
    ones = solve(stack_of({"n0": nodes["n0"]}, {name: old[name] for name in ("held", "small")})).placement.allocations
    ones += solve(stack_of({"n1": nodes["n1"]}, {"other": old["other"]})).placement.allocations
    snapshot = snapshot_of(stack_of(nodes, old | {"new": {"each": {"gpus": 8}}}), Placement(allocations=ones))
    counts: Pairs = Counter({("other", "n1"): 1, ("small", "n1"): 1, ("new", "n0"): 1})
    found = list(made_way(snapshot, classify(snapshot), counts, lambda: False))
    assert found and all(one == Counter({("other", "n1"): 1, ("small", "n0"): 1, ("held", "n0"): 1}) for one in found)


def test_what_is_new_of_a_low_priority_makes_way_alone_where_more_need_not() -> None:
    """A limit of their user is in the way of `small`. `middle` stopped too, and nobody makes way for it: what is new of its
    priority stays where it was put.
    """
    nodes = {f"n{i}": {"hardware": "h100", "labels": {"at": f"n{i}"}} for i in range(4)}

    def work(priority: str, gpus: int, vcpus: int = 1, at: str = "") -> dict[str, Any]:
        where = {"place": {"select": {"at": at}}} if at else {}
        return {"priority": priority, "each": {"gpus": gpus, "vcpus": vcpus}} | where

    old = {"small": work("low", 4, 8, "n0"), "middle": work("normal", 8, at="n1")}
    new = {"first": work("high", 8, at="n1"), "third": work("normal", 4), "last": work("low", 4, 8)}
    limits = {"user": {"vcpus": 16}}
    snapshot = snapshot_of(stack_of(nodes, old | new, limits=limits), solve(stack_of(nodes, old)).placement)
    rest: Pairs = Counter({("first", "n1"): 1, ("third", "n3"): 1})
    found = list(made_way(snapshot, classify(snapshot), rest + Counter({("last", "n2"): 1}), lambda: False))
    assert rest + Counter({("small", "n0"): 1}) in found


def test_on_a_large_fleet_nothing_makes_way_that_a_team_is_due() -> None:
    teams = {"a": {"users": ["ada"], "share": 1}, "b": {"users": ["bo"], "share": 1}}
    new, counts = {"user": "bo", "each": {"gpus": 8}}, Counter({("more", "n1"): 1, ("new", "n0"): 1})
    back: Pairs = Counter({("more", "n1"): 2, ("held", "n0"): 1})  # and what is free then is taken
    for rest, kept in (({}, back), ({"teams": teams, "solve": {"reclaim": True}}, counts)):
        _, _, snapshot, classified = _one_stopped(new, **rest)
        assert kept_first(snapshot, classified, counts, lambda: False) == kept


def test_nothing_makes_way_for_less_that_ran_or_for_a_lower_priority() -> None:
    _, _, snapshot, classified = _one_stopped({"priority": "high", "each": {"gpus": 4}})
    whole: Pairs = Counter({("more", "n1"): 1, ("held", "n0"): 1})
    for counts in (whole, Counter({("more", "n1"): 1, ("new", "n0"): 1})):
        assert list(made_way(snapshot, classified, counts, lambda: False)) == []


@pytest.mark.parametrize(
    ("priority", "reclaim", "why"),
    [
        ("high", False, "stops for a higher priority"),
        ("high", True, "stops for a higher priority"),
        ("normal", False, "stops for others of its priority that hold more"),
        ("normal", True, "stops for others of its priority, by what teams are due"),
    ],
)
def test_nobody_is_said_to_stop_for_a_higher_priority_where_none_came(priority: str, reclaim: bool, why: str) -> None:
    works = {"a": {"each": {"vcpus": 1}}, "b": {"each": {"gpus": 1}, "priority": priority}}
    teams = {"t": {"users": ["ada"], "share": 1}}
    stack = stack_of({"n": {}}, works, teams=teams, solve={"reclaim": reclaim})
    both = {one.workload: one for one in solve(stack).placement.allocations}
    snapshot = with_shares(stack, Placement(allocations=(both["a"],)))
    (move,) = moves_with_causes(snapshot, classify(snapshot), Placement(allocations=(both["b"],)))
    assert (move.name, move.target, move.why) == ("a-0", "", why)


def test_a_replica_more_is_new_although_others_of_its_workload_run() -> None:
    """So what ran and was stopped comes before it, though it is smaller."""
    nodes = {"n0": {"hardware": "l40s"}}
    many, one = {"each": {"gpus": 2}}, {"each": {"gpus": 1}}
    last = solve(stack_of(nodes, {"many": many, "one": one})).placement
    snapshot = snapshot_of(stack_of(nodes, {"many": many | {"replicas": 2}, "one": one}), last)
    found = restored(snapshot, classify(snapshot), Counter({("many", "n0"): 1}), lambda: False)
    assert found == Counter({("many", "n0"): 1, ("one", "n0"): 1})


def test_a_replica_more_is_no_move_where_one_that_could_stay_has_moved_already() -> None:
    """The budget is used up by the one on n1, and `w` has as many replicas again as could stay."""
    nodes = {f"n{i}": {"hardware": "l40s"} for i in range(2)}
    two = {"each": {"gpus": 2}}
    last = solve(stack_of({"n0": nodes["n0"]}, {"w": two | {"replicas": 2}})).placement
    snapshot = snapshot_of(stack_of(nodes, {"w": two | {"replicas": 3}, "x": two}, solve={"moves": 1}), last)
    counts: Pairs = Counter({("w", "n0"): 1, ("w", "n1"): 1, ("x", "n0"): 1})
    assert restored(snapshot, classify(snapshot), counts, lambda: False) == counts + Counter({("w", "n1"): 1})


def test_who_lost_its_place_does_not_come_up_elsewhere_in_the_same_change() -> None:
    """A lost node brings a user back under a lowered limit, so all is decided once more: no way around `solve.moves`."""
    nodes = {f"n{i}": {"hardware": "l40s", "labels": {"at": f"n{i}"}} for i in range(3)}
    wide = {"replicas": 4, "each": {"gpus": 1, "vcpus": 10}, "place": {"per_node": 2}}
    there, bo = {"place": {"select": {"at": "n1"}}}, {"user": "bo", "each": {"gpus": 2}}
    (held,) = solve(stack_of({"n1": nodes["n1"]}, {"bo": bo})).placement.allocations
    others = solve(stack_of({name: nodes[name] for name in ("n0", "n2")}, {"wide": wide})).placement
    last = others.model_copy(update={"allocations": (held, *others.allocations)})
    work = {"wide": wide, "bo": bo, "urgent": {"user": "cy", "priority": "high", "each": {"gpus": 4}} | there}
    for moves, where in ((0, None), (1, "n0")):
        lost = nodes | {"n2": nodes["n2"] | {"state": "lost"}}
        stack = stack_of(lost, work, limits={"user": {"vcpus": 20}}, solve={"moves": moves})
        now = solve_keeping(stack, last)[1].placement.by_name()
        assert now["urgent-0"].node == "n1" and sum(name.startswith("wide") for name in now) == 2
        assert (now["bo-0"].node if "bo-0" in now else None) == where


def _moves(snapshot: Snapshot, classified: Classified, counts: Pairs) -> int:
    """All of them: of replicas to other nodes, and of parts of GPUs to other cards."""
    return moved(classified, counts) + sum(recarded(snapshot, classified, counts, node) for node in snapshot.nodes)


def _request(rng: random.Random) -> dict[str, object]:
    gpus = rng.choice([1, 2, 2, 3, 4, 8, {"count": 1, "share": 0.4}, {"count": 1, "share": 0.7}])
    each = {"gpus": gpus, "vcpus": rng.choice([4, 40]), "memory": "8 GB"}
    return {"replicas": rng.choice([1, 2]), "priority": rng.choice(["low", "normal"]), "each": each}


def test_what_is_proven_by_counting_is_not_lost_where_columns_prove_less(monkeypatch: pytest.MonkeyPatch) -> None:
    """Columns that are ended before their first round prove nothing; the six GPUs still cost a move at least."""

    def request(replicas: int, gpus: int, vcpus: int) -> dict[str, object]:
        return {"replicas": replicas, "each": {"gpus": gpus, "vcpus": vcpus, "memory": "8 GB"}}

    sizes = ((1, 5, 20), (2, 1, 40), (2, 3, 40), (1, 1, 40), (1, 2, 20), (1, 5, 40), (1, 3, 20), (2, 3, 40))
    old = {f"old{i}": request(*size) for i, size in enumerate(sizes)}
    nodes: dict[str, dict[str, object]] = {f"n{i}": {"labels": {"at": f"n{i}", "half": f"{i // 2}"}} for i in range(5)}
    at = {0: "n2", 2: "n1", 3: "n0", 4: "n0", 5: "n3", 6: "n0"}
    where: dict[int, dict[str, object]] = {i: {"select": {"at": node}} for i, node in at.items()}
    where |= {i: {"select": {"half": half}, "spread": "node"} for i, half in {1: "0", 7: "1"}.items()}
    last = solve(stack_of(nodes, {f"old{i}": old[f"old{i}"] | {"place": place} for i, place in where.items()})).placement
    stay = {name: old[name] for name in old if name not in ("old3", "old5")}
    stack = stack_of(nodes, stay | {"new": request(2, 6, 60)}, solve={"moves": 100})
    monkeypatch.setattr(sys.modules["swarm_iac.solver.decide.clearing"], "fewest_by_columns", lambda *_: Still(0, None, 0))
    (moves,) = [goal for goal in as_large(stack, last).proof.goals if goal.name == "moves"]
    assert 0 < moves.bound < moves.value


def test_a_part_that_finds_no_card_where_columns_put_it_goes_elsewhere() -> None:
    """Columns would lay two parts on one card to make room; both run, and keep the cards that they have."""

    def request(gpus: dict[str, int]) -> dict[str, object]:
        return {"each": {"gpus": gpus, "vcpus": 1, "memory": "8 GB"}}

    old = {
        "left": request({"count": 1, "share": 0.4}),
        "right": request({"count": 1, "share": 0.401}),
        "whole": request({"count": 2}),
    }
    nodes: dict[str, dict[str, object]] = {"n0": {"hardware": "l40s"}, "n1": {"hardware": "l40s"}}
    stack = stack_of(nodes, old | {"new": request({"count": 1, "share": 0.7})})
    cards = {"left": ("0:0.4",), "right": ("1:0.401",), "whole": (2, 3)}
    last = Placement(
        allocations=tuple(
            Allocation(
                name=f"{name}-0", workload=name, index=0, node="n0", gpus=gpus,
                vcpus=stack.workloads[name].each.vcpus, memory=stack.workloads[name].each.memory,
            )
            for name, gpus in cards.items()
        )
    )  # fmt: skip
    snapshot = snapshot_of(stack, last)
    number = {name: k for k, name in enumerate(stack.workloads)}
    all_on_one = {"n0": Counter(number.values())}
    found = rearranged(snapshot, classify(snapshot), Counter(list(stack.workloads)), number, all_on_one)
    assert found == Counter({("new", "n1"): 1} | {(name, "n0"): 1 for name in old})


def _gang(state: str, **rest: object) -> tuple[Stack, Placement]:
    """A gang of three fills rack r1, three nodes of r2 are free, and n0 is in `state` now."""
    nodes = {f"n{i}": {"rack": "r1" if i < 3 else "r2"} for i in range(6)}
    requests = {"g": {"gang": 3, "each": {"gpus": 8}, "place": {"within": "rack"}, "priority": "high"}}
    last = solve(
        stack_of({name: node for name, node in nodes.items() if node["rack"] == "r1"}, requests, racks={"r1": {}})
    ).placement
    nodes["n0"]["state"] = state
    return stack_of(nodes, requests, racks={"r1": {}, "r2": {}}, solve=rest), last


def test_a_gang_that_loses_a_member_moves_whole_whatever_the_budget() -> None:
    """It starts anew anyway; to stop it for want of moves would be the worse of two."""
    stack, last = _gang("drain", moves=0)
    found = solve(stack, last)
    assert {a.node for a in found.placement.allocations} == {"n3", "n4", "n5"}
    assert {(move.name, move.forced) for move in found.moves} == {("g-0", True), ("g-1", True), ("g-2", True)}
    whys = {move.why for move in found.moves}
    assert whys == {"n0 is in state drain", "its gang has to leave n0"}


def test_a_gang_that_loses_nobody_stays() -> None:
    stack, last = _gang("cordon", moves=8)
    assert solve(stack, last).placement.allocations == last.allocations
