"""Does the benchmark's own checker see each kind of broken placement, and leave a sound one alone?"""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from swarm_iac.model.device import gpu, instance, whole_gpus
from swarm_iac.model.placement import Allocation, Goal, Placement, Proof, Reason, Unplaced
from swarm_iac.model.stack import Stack
from swarm_iac.solver import solve
from tests.benchmarks.fleets.case import Case, judged, solved
from tests.benchmarks.fleets.checker import broken
from tests.benchmarks.fleets.draw_where import BALANCED, DOMINANT, FIRST, LINKED, WORTH, more
from tests.benchmarks.fleets.draw_workloads import filled
from tests.benchmarks.fleets.edits import edited
from tests.benchmarks.fleets.free import Free
from tests.benchmarks.fleets.quality import counted_moves, honest, missed, moves_in_budget, needless, staying, told_moves
from tests.benchmarks.fleets.written import Drawn, text_of
from tests.sized import sizes

TODAY = datetime.date(2026, 11, 20)
GPU = {"gpus": "4 x H100", "vcpus": 16, "memory": "64 GB", "nvme": "1 TB", "nic": "10 Gbit/s", "numa": 2}
OTHER = {"gpus": "2 x L40S", "vcpus": 8, "memory": "32 GB", "nvme": "1 TB", "nic": "10 Gbit/s"}


def stack_of(workloads: dict[str, Any], nodes: dict[str, Any] | None = None, **rest: Any) -> Stack:
    """Two racks: a1 and a2 with four H100 in ra, b1 with two L40S in rb; c1 with four H100 in none."""
    named: dict[str, Any] = {
        "a1": {"hardware": "gpu", "rack": "ra"},
        "a2": {"hardware": "gpu", "rack": "ra"},
        "b1": {"hardware": "other", "rack": "rb", "site": "lab"},
        "c1": {"hardware": "gpu"},
    }
    for name, change in (nodes or {}).items():
        named[name] = named[name] | change
    return Stack.model_validate(
        {
            "fleet": "test",
            "teams": {"all": {"users": ["ada", "bo"]}},
            "hardware": {"gpu": GPU, "other": OTHER},
            "racks": {"ra": {}, "rb": {}},
            "nodes": {name: {"name": name, "ssh": "local", **node} for name, node in named.items()},
            "workloads": {name: {"user": "ada", **one} for name, one in workloads.items()},
            **rest,
        }
    )


def put(stack: Stack, name: str, node: str, gpus: tuple[int, ...] = (), cpus: tuple[int, ...] = (), **rest: Any) -> Allocation:
    """A replica `w-0` on a node, as large as its workload asks."""
    workload, index = name.rsplit("-", 1)
    one = stack.workloads[workload]
    data = {"name": name, "workload": workload, "index": int(index), "node": node, "cpus": cpus}
    data["gpus"] = tuple(gpu(card, int(one.each.gpus.share)) for card in gpus)
    return Allocation.model_validate({**data, **sizes(one), **rest})


def placed(*ones: Allocation) -> Placement:
    """A placement of them."""
    return Placement(allocations=tuple(sorted(ones, key=lambda a: a.name)))


ONE = {"each": {"gpus": 1, "vcpus": 2, "memory": "8 GB"}}
#: Rule, workloads, what is placed as (name, node, gpus, cpus), and the rest of the stack.
BROKEN: tuple[tuple[str, dict[str, Any], tuple[tuple[Any, ...], ...], dict[str, Any]], ...] = (
    ("gpu owner", {"w": {**ONE, "replicas": 2}}, (("w-0", "a1", (0,)), ("w-1", "a1", (0,))), {}),
    ("gpu owner", {"w": ONE}, (("w-0", "a1", (4,)),), {}),
    ("gpu owner", {"w": {"each": {"gpus": 2, "vcpus": 1, "memory": "1 GB"}}}, (("w-0", "a1", (1, 1)),), {}),
    (
        "core owner",
        {"w": {"each": {"vcpus": 1, "pinned": True, "memory": "1 GB"}, "replicas": 2}},
        (("w-0", "a1", (), (3,)), ("w-1", "a1", (), (3,))),
        {},
    ),
    ("core owner", {"w": {"each": {"vcpus": 1, "pinned": True, "memory": "1 GB"}}}, (("w-0", "b1", (), (8,)),), {}),
    ("size", {"w": ONE}, (("w-0", "a1", (0, 1)),), {}),
    ("size", {"w": {"each": {"vcpus": 2, "pinned": True, "memory": "1 GB"}}}, (("w-0", "a1"),), {}),
    ("index", {"w": ONE}, (("w-0", "a1", (0,)), ("w-1", "a1", (1,))), {}),
    ("suits", {"w": {"each": {"gpus": "1 x H100"}}}, (("w-0", "b1", (0,)),), {}),
    ("suits", {"w": {"each": {"gpus": {"count": 1, "memory": "80 GB"}}}}, (("w-0", "b1", (0,)),), {}),
    ("suits", {"w": {"each": {}, "place": {"select": {"site": "lab"}}}}, (("w-0", "a1"),), {}),
    ("suits", {"w": {"each": {}, "place": {"select": {"rack": "rb"}}}}, (("w-0", "a1"),), {}),
    ("state", {"w": ONE}, (("w-0", "a1", (0,)),), {"nodes": {"a1": {"state": "cordon"}}}),
    ("state", {"w": ONE}, (("w-0", "a1", (0,)),), {"nodes": {"a1": {"state": "drain"}}}),
    ("state", {"w": ONE}, (("w-0", "a1", (0,)),), {"nodes": {"a1": {"state": "lost"}}}),
    ("node vcpus", {"w": {"each": {"vcpus": 9, "memory": "1 GB"}, "replicas": 2}}, (("w-0", "a1"), ("w-1", "a1")), {}),
    ("node memory", {"w": {"each": {"memory": "33 GB"}, "replicas": 2}}, (("w-0", "a1"), ("w-1", "a1")), {}),
    ("node storage", {"w": {"each": {"scratch": "600 GB", "cache": "600 GB"}}}, (("w-0", "a1"),), {}),
    ("node bandwidth", {"w": {"network": {"ingress": "11 Gbit/s"}}}, (("w-0", "a1"),), {}),
    ("node bandwidth", {"w": {"gang": 1, "network": {"egress": "6 Gbit/s", "between": "5 Gbit/s"}}}, (("w-0", "a1"),), {}),
    ("limits.node gpus", {"w": {**ONE, "replicas": 2}}, (("w-0", "a1", (0,)), ("w-1", "a1", (1,))), {"limits": {"node": {"gpus": 1}}}),
    ("cluster vcpus", {"w": {**ONE, "replicas": 2}}, (("w-0", "a1", (0,)), ("w-1", "a2", (1,))), {"limits": {"cluster": {"vcpus": 3}}}),
    ("user memory", {"w": {**ONE, "replicas": 2}}, (("w-0", "a1", (0,)), ("w-1", "a2", (1,))), {"limits": {"user": {"memory": "15 GB"}}}),
    (
        "uplink",
        {"w": {"network": {"egress": "6 Gbit/s"}, "replicas": 2}},
        (("w-0", "a1"), ("w-1", "a2")),
        {"racks": {"ra": {"uplink": "10 Gbit/s"}, "rb": {}}},
    ),
    (
        "power",
        {"w": {"each": {"gpus": 1, "gpu_power": "700 W"}}},
        (("w-0", "a1", (0,)),),
        {
            "tuning": {"t": {"gpu_power": "300 W"}},
            "nodes": {"a1": {"tuning": "t"}, "a2": {"tuning": "t"}},
            "racks": {"ra": {"power": "2799 W"}, "rb": {}},
        },
    ),
    ("spread", {"w": {**ONE, "replicas": 2, "place": {"spread": "node"}}}, (("w-0", "a1", (0,)), ("w-1", "a1", (1,))), {}),
    ("spread", {"w": {**ONE, "replicas": 2, "place": {"spread": "rack"}}}, (("w-0", "a1", (0,)), ("w-1", "a2", (1,))), {}),
    ("within", {"w": {**ONE, "replicas": 2, "place": {"within": "node"}}}, (("w-0", "a1", (0,)), ("w-1", "a2", (1,))), {}),
    ("within", {"w": {**ONE, "replicas": 2, "place": {"within": "rack"}}}, (("w-0", "a1", (0,)), ("w-1", "c1", (1,))), {}),
    ("gang", {"w": {**ONE, "gang": 2}}, (("w-0", "a1", (0,)),), {}),
)  # fmt: skip


#: GPUs 0 and 1, and 2 and 3, of the large machines are joined.
JOINED = {"hardware": {"gpu": {**GPU, "links": {"nvlink": [[0, 2], [1, 3]]}}, "other": OTHER}}
PAIR: dict[str, Any] = {"each": {"gpus": 2, "vcpus": 1, "memory": "1 GB"}, "place": {"links": "required"}}


@pytest.mark.parametrize("rule, workloads, ones, rest", BROKEN)
def test_each_broken_rule_is_seen(rule: str, workloads: dict[str, Any], ones: Any, rest: dict[str, Any]) -> None:
    stack = stack_of(workloads, **rest)
    found = broken(stack, placed(*(put(stack, *one) for one in ones)), Placement(), TODAY)
    assert {one.rule for one in found} == {rule}, found


@pytest.mark.parametrize(
    ("gpus", "ran", "seen"), [((0, 2), (), False), ((0, 1), (), True), ((0, 1), (0, 1), False), ((0, 1), (0, 3), True)]
)
def test_gpus_that_are_not_joined_are_seen(gpus: tuple[int, ...], ran: tuple[int, ...], seen: bool) -> None:
    stack = stack_of({"w": PAIR}, **JOINED)
    last = placed(put(stack, "w-0", "a1", ran)) if ran else Placement()
    assert [one.rule for one in broken(stack, placed(put(stack, "w-0", "a1", gpus)), last, TODAY)] == ["links"] * seen
    switch = stack_of({"w": PAIR}, hardware={"gpu": {**GPU, "links": {"nvlink": "all"}}, "other": OTHER})
    assert broken(switch, placed(put(switch, "w-0", "a1", gpus)), last, TODAY) == []


@pytest.mark.parametrize(
    ("place", "found"), [({}, (1, 2)), ({"links": "required"}, (1, 3)), ({"links": "required", "numa": "single"}, None)]
)
def test_a_place_on_linked_gpus_is_missed_only_where_there_is_one(place: dict[str, Any], found: tuple[int, ...] | None) -> None:
    """GPU 0 of a1 is held; of the others NVLink joins 1 and 3, which are on two NUMA nodes."""
    stack = stack_of({"w": {**PAIR, "place": place}, "one": ONE}, **JOINED)
    free = Free(stack, TODAY, [put(stack, "one-0", "a1", (0,))])
    assert free.devices(stack.workloads["w"], "a1") == (None if found is None else (found, ()))


def test_unknown_names_and_doubles_are_seen() -> None:
    stack = stack_of({"w": ONE})
    one = put(stack, "w-0", "a1", (0,))
    assert broken(stack, placed(one.model_copy(update={"node": "gone"})), Placement(), TODAY)[0].rule == "names"
    twice = broken(stack, placed(one, one.model_copy(update={"gpus": whole_gpus((1,))})), Placement(), TODAY)
    assert {found.rule for found in twice} == {"index twice"}


def test_parts_of_a_card_share_it_up_to_the_whole() -> None:
    stack = stack_of({"w": {"each": {"gpus": {"count": 1, "share": 0.5}}, "replicas": 3}})
    two = (put(stack, "w-0", "a1", (0,)), put(stack, "w-1", "a1", (0,)))
    assert broken(stack, placed(*two), Placement(), TODAY) == []
    three = broken(stack, placed(*two, put(stack, "w-2", "a1", (0,))), Placement(), TODAY)
    assert [one.rule for one in three] == ["gpu owner"]


def test_a_cordoned_node_keeps_what_stood_there() -> None:
    stack = stack_of({"w": ONE}, {"a1": {"state": "cordon"}})
    now = placed(put(stack, "w-0", "a1", (0,)))
    assert broken(stack, now, now, TODAY) == []


@pytest.mark.parametrize("until, ran, seen", [("2026-11-20", 0, False), ("2026-11-19", 2, False), ("2026-11-19", 1, True)])
def test_an_exception_that_is_over_blocks_growth_and_stops_nothing(until: str, ran: int, seen: bool) -> None:
    exception = {"user": "ada", "gpus": 2, "until": until, "why": "x"}
    stack = stack_of({"w": {**ONE, "replicas": 2}}, limits={"user": {"gpus": 1}, "except": [exception]})
    ones = [put(stack, "w-0", "a1", (0,)), put(stack, "w-1", "a1", (1,))]
    found = broken(stack, placed(*ones), placed(*ones[:ran]), TODAY)
    assert [one.rule for one in found] == (["user gpus"] if seen else [])


def _needless(stack: Stack, last: Placement, now: Placement) -> list[str]:
    return [one.rule for one in needless(stack, last, now, TODAY, staying(stack, last, TODAY))]


def test_a_move_that_nobody_has_use_for_is_seen() -> None:
    stack = stack_of({"w": ONE, "new": {"each": {"gpus": 4}}})
    last = placed(put(stack, "w-0", "a1", (0,)))
    moved = put(stack, "w-0", "a2", (0,))
    assert _needless(stack, last, placed(moved)) == ["needless move"]
    assert _needless(stack, last, placed(moved, put(stack, "new-0", "a1", (0, 1, 2, 3)))) == []
    stays = staying(stack, last, TODAY)
    assert [a.name for a in counted_moves(stays, placed(moved), stack)] == ["w-0"]


def test_a_move_off_a_gpu_model_of_which_others_hold_all_that_is_allowed_is_no_needless_one() -> None:
    on_h100 = {"each": {"gpus": "2 x H100"}, "priority": "high"}
    for most, seen in ((2, []), (3, ["needless move"])):
        stack = stack_of({"w": ONE, "new": on_h100}, limits={"team": {"gpus_by_model": {"H100": most}}})
        last = placed(put(stack, "w-0", "a1", (0,)))
        assert _needless(stack, last, placed(put(stack, "w-0", "b1", (0,)), put(stack, "new-0", "a2", (0, 1)))) == seen, most


def test_a_gang_that_moves_as_a_whole_without_need_is_seen() -> None:
    stack = stack_of(
        {"w": {"each": {"gpus": 4}, "gang": 2, "place": {"within": "rack"}}}, {"c1": {"rack": "rb"}, "b1": {"hardware": "gpu"}}
    )
    last = placed(put(stack, "w-0", "a1", (0, 1, 2, 3)), put(stack, "w-1", "a2", (0, 1, 2, 3)))
    now = placed(put(stack, "w-0", "b1", (0, 1, 2, 3)), put(stack, "w-1", "c1", (0, 1, 2, 3)))
    assert _needless(stack, last, now) == ["needless move", "needless move"]


def test_other_devices_on_the_same_node_are_seen() -> None:
    stack = stack_of({"w": ONE})
    last = placed(put(stack, "w-0", "a1", (0,)))
    assert _needless(stack, last, placed(put(stack, "w-0", "a1", (1,)))) == ["needless device change"]
    assert _needless(stack, last, placed(put(stack, "w-0", "a1", (0,), numa=(1,)))) == ["needless device change"]
    assert _needless(stack, last, last) == []


def test_a_part_may_change_its_card_only_where_its_own_is_taken() -> None:
    half = {"each": {"gpus": {"count": 1, "share": 0.5}}}
    stack = stack_of({"w": half, "whole": {"each": {"gpus": 1}}})
    last, now = placed(put(stack, "w-0", "a1", (0,))), put(stack, "w-0", "a1", (1,))
    assert _needless(stack, last, placed(now)) == ["needless device change"]
    assert _needless(stack, last, placed(now, put(stack, "whole-0", "a1", (0,)))) == []


def test_a_resized_replica_keeps_its_node_and_gpus_where_it_fits() -> None:
    before, stack = stack_of({"w": ONE}), stack_of({"w": {"each": {"gpus": 1, "vcpus": 3, "memory": "8 GB"}}})
    last = placed(put(before, "w-0", "a1", (0,)))
    assert _needless(stack, last, placed(put(stack, "w-0", "a2", (0,)))) == ["needless shift"]
    assert _needless(stack, last, placed(put(stack, "w-0", "a1", (1,)))) == ["needless device shift"]
    assert _needless(stack, last, placed(put(stack, "w-0", "a1", (0,)))) == []


def test_two_instances_of_a_card_are_one_gpu_that_a_replica_keeps() -> None:
    stack = stack_of({"w": {"each": {"gpus": 3}}})
    cut = tuple(instance(0, "1g.10gb", start, 1) for start in (0, 1))
    last = placed(put(stack, "w-0", "a1").model_copy(update={"gpus": cut}))
    assert _needless(stack, last, placed(put(stack, "w-0", "a1", (0, 1, 2)))) == []
    assert _needless(stack, last, placed(put(stack, "w-0", "a1", (1, 2, 3)))) == ["needless device shift"]


def test_a_stop_needs_a_higher_priority_that_came() -> None:
    full = {"each": {"gpus": 4}}
    stack = stack_of(
        {"low": {**full, "priority": "low"}, "high": {**full, "priority": "high"}, "same": {**full, "priority": "low"}}
    )
    last = placed(put(stack, "low-0", "a1", (0, 1, 2, 3)))
    assert _needless(stack, last, placed()) == ["needless stop"]
    assert _needless(stack, last, placed(put(stack, "same-0", "a1", (0, 1, 2, 3)))) == ["needless stop"]
    assert _needless(stack, last, placed(put(stack, "high-0", "a1", (0, 1, 2, 3)))) == []
    assert _needless(stack, last, placed(put(stack, "high-0", "a2", (0, 1, 2, 3)))) == ["needless stop"]


def test_what_cannot_stay_may_be_stopped() -> None:
    before = stack_of({"w": {**ONE, "replicas": 2}})
    last = placed(put(before, "w-0", "a1", (0,)), put(before, "w-1", "a2", (0,)))
    lower = stack_of({"w": {**ONE, "replicas": 2}}, limits={"user": {"gpus": 1}})
    assert _needless(lower, last, placed(*last.allocations[:1])) == ["needless stop"], "a lowered limit stops nobody"
    gone = stack_of({"w": {**ONE, "gang": 2}}, {"a2": {"state": "lost"}})
    assert _needless(gone, last, placed()) == []


def test_places_that_are_missed_are_seen() -> None:
    one, gang = {"w": ONE}, {"w": {"each": {"gpus": 4}, "gang": 3}}
    nowhere = Placement()

    def rules(stack: Stack, now: Placement = nowhere, left: int = 4, last: Placement = nowhere) -> list[str]:
        return [found.rule for found in missed(stack, last, now, TODAY, left, staying(stack, last, TODAY))]

    assert rules(stack_of(one)) == ["missed place"]
    assert rules(stack_of(gang)) == ["missed place"]
    assert rules(stack_of(gang, {"c1": {"state": "cordon"}})) == []
    assert rules(stack_of(one, limits={"user": {"gpus": 0}})) == []
    assert rules(stack_of({"w": {**ONE, "replicas": 5, "place": {"spread": "node"}}}), placed(*(
        put(stack_of({"w": {**ONE, "replicas": 5}}), f"w-{i}", node, (0,)) for i, node in enumerate(("a1", "a2", "b1", "c1"))
    ))) == []  # fmt: skip
    ran = placed(put(stack_of(one), "w-0", "a1", (0,)))
    assert rules(stack_of(one), left=0, last=ran) == []


@pytest.mark.parametrize(("profile", "memory", "seen"), [
    ("1g.10gb", "40 GB", False), ("1g.10gb", "80 GB", True), ("2g.10gb", "40 GB", True), ("2g.10gb", "80 GB", False)
])  # fmt: skip
def test_a_mig_profile_fits_only_cards_that_have_it_as_large(profile: str, memory: str, seen: bool) -> None:
    cut = {**GPU, "gpus": {"count": 4, "model": "A100", "memory": memory}, "mig": True}
    workloads = {"w": {"each": {"gpus": f"1 x A100/{profile}", "vcpus": 2, "memory": "8 GB"}}}
    stack, nothing = stack_of(workloads, hardware={"gpu": cut, "other": OTHER}), Placement()
    found = missed(stack, nothing, nothing, TODAY, 4, staying(stack, nothing, TODAY))
    assert [one.rule for one in found] == ["missed place"] * seen
    assert bool(solve(stack, nothing, today=TODAY).placement.allocations) is seen


def test_a_proof_that_is_not_honest_is_seen() -> None:
    stack = stack_of({"w": {**ONE, "priority": "high"}})
    now = placed(put(stack, "w-0", "a1", (0,)))
    stays = staying(stack, now, TODAY)

    def rules(*goals: tuple[str, int, int], optimal: bool = False, placement: Placement = now) -> list[str]:
        given = tuple(Goal(name=name, value=value, bound=bound) for name, value, bound in goals)
        return [
            one.rule
            for one in honest(stack, now, placement, Proof(optimal=optimal, goals=given, solver="", placement=""), stays)
        ]

    assert rules(("high_placed_gpus", 1, 1), ("moves", 0, 0), optimal=True) == []
    assert rules(("high_placed_gpus", 2, 2)) == ["proof"]
    assert rules(("high_placed_replicas", 1, 0)) == ["proof"]
    assert rules(("moves", 0, 1)) == ["proof"]
    assert rules(("moves", 1, 0), optimal=True) == ["proof"]
    assert rules(("high_placed_gpus", 0, 0), placement=Placement()) == ["proof", "unplaced"]
    for text, found in (
        ("no GPU is free", []),
        (f"the most that is left is {(1 << 60) - 600_000_000_000} bit/s in r2", ["reason"]),
    ):
        told = Unplaced(workload="w", missing=(0,), reasons=(Reason(rule="x", text=text),))
        assert rules(placement=Placement(unplaced=(told,))) == found
    assert rules(placement=Placement(unplaced=(Unplaced(workload="w", missing=(0,)),))) == ["reason"]


def test_a_replica_on_a_model_that_counts_less_than_the_proof_says_is_seen() -> None:
    """All else is as it was: the share was told of the node where it stood first."""
    teams = {"all": {"users": ["ada", "bo"], "share": 1}}
    stack = stack_of({"w": {"each": {"gpus": 2}}}, teams=teams, worth={"H100": 2, "L40S": 1})
    solution, case = solve(stack), Case(today=TODAY, stack=stack, last=Placement())
    assert judged(case, solution) == []
    (one,) = solution.placement.allocations
    assert stack.hardware_of(one.node).gpus.model == "H100"
    other = one.model_copy(update={"node": "b1"})
    moved = solution.model_copy(update={"placement": solution.placement.model_copy(update={"allocations": (other,)})})
    assert [found.text for found in judged(case, moved) if found.rule == "proof"] == ["normal_share: value 4, and teams hold 2"]


def test_some_drawn_fleets_have_models_that_count_more_and_older_seeds_stay_as_they_were() -> None:
    worth = [more(filled(seed, 10), seed).data.get("worth") for seed in range(WORTH, WORTH + 40)]
    assert any(one and len(set(one.values())) > 1 for one in worth) and not all(worth)
    assert not any("worth" in more(filled(seed, 10), seed).data for seed in range(WORTH - 40, WORTH))


def test_some_drawn_fleets_share_by_dominant_resource_and_older_seeds_stay_as_they_were() -> None:
    by = [more(filled(seed, 10), seed).data["solve"].get("share_by") for seed in range(DOMINANT, DOMINANT + 40)]
    assert any(by) and not all(by)
    assert not any("share_by" in more(filled(seed, 10), seed).data["solve"] for seed in range(DOMINANT - 40, DOMINANT))


def test_moves_are_told_and_within_the_budget() -> None:
    stack = stack_of({"w": ONE}, solve={"moves": 0})
    last, now = placed(put(stack, "w-0", "a1", (0,))), placed(put(stack, "w-0", "a2", (0,)))
    assert list(moves_in_budget(stack, counted_moves(staying(stack, last, TODAY), last, stack))) == []
    assert [one.rule for one in moves_in_budget(stack, counted_moves(staying(stack, last, TODAY), now, stack))] == ["moves"]
    assert list(told_moves(stack, last, now, {"w-0": ("a1", "a2")})) == []
    for told in ({}, {"w-0": ("a1", "c1")}, {"w-0": ("a1", "a2"), "x-0": ("a1", "")}):
        assert [one.rule for one in told_moves(stack, last, now, told)] == ["told moves"]


def test_drawn_fleets_are_valid_files_and_are_the_same_again() -> None:
    for seed in range(12):
        drawn = filled(seed, 6)
        drawn.stack()
        assert text_of(filled(seed, 6).data) == text_of(drawn.data)
        assert edited(drawn, seed, 1)[1] == edited(drawn, seed, 1)[1]


def test_some_drawn_fleets_have_links_and_who_requires_them() -> None:
    ones = [more(filled(seed, 6), seed) for seed in range(LINKED, LINKED + 12)]
    stacks = [one.stack() for one in ones]
    assert {bool(shape.links.nvlink) for stack in stacks for shape in stack.hardware.values()} == {True, False}
    assert any(one.place.links and one.place.numa for stack in stacks for one in stack.workloads.values())
    assert all("links" not in text_of(more(filled(seed, 6), seed).data) for seed in (0, FIRST, LINKED - 1))


def test_some_drawn_fleets_compare_racks_and_older_seeds_stay_as_they_were() -> None:
    stacks = [more(filled(seed, 12), seed).stack() for seed in range(BALANCED, BALANCED + 12)]
    found = [one.place.balance for stack in stacks for one in stack.workloads.values() if one.place.balance]
    assert {one.place.near for stack in stacks for one in stack.workloads.values()} == {"rack", "site", None}
    assert {one.over for one in found} == {"rack", "site"} and {one.skew > 1 for one in found} == {True, False}
    texts = [text_of(more(filled(seed, 6), seed).data) for seed in (0, FIRST, LINKED, BALANCED - 1)]
    assert not any(key in text for text in texts for key in ("balance:", "near:"))
    drawn = "".join(text_of(more(filled(seed, 12), seed).data) for seed in range(BALANCED, BALANCED + 12))
    assert "balance:" in drawn and "near:" in drawn


def test_a_rack_that_is_too_far_ahead_is_seen() -> None:
    """b1 is too small for three GPUs, and c1 is a rack of its own."""
    one = {"replicas": 3, "each": {"gpus": 1, "vcpus": 1, "memory": "1 GB"}, "place": {"balance": "rack"}}
    stack = stack_of({"w": one})
    ones = [put(stack, f"w-{i}", node, (i,)) for i, node in enumerate(("a1", "a2", "c1"))]

    def rules(stack: Stack, *ones: Allocation, last: Placement = Placement()) -> list[str]:
        return [found.rule for found in broken(stack, placed(*ones), last, TODAY)]

    assert rules(stack, *ones) == ["balance"] * 2, "nothing is in rb"
    assert rules(stack, *ones, last=placed(*ones)) == [], "it ran there"
    assert rules(stack, *ones, last=placed(*ones[:1], ones[2])) == ["balance"], "one is new"
    for nodes in ({"b1": {"state": "cordon"}}, {"b1": {"taints": {"for": "a"}}}):
        assert rules(stack_of({"w": one}, nodes), *ones) == []
    large = stack_of({"w": one | {"each": {"gpus": 3, "vcpus": 1, "memory": "1 GB"}, "replicas": 2}})
    assert rules(large, put(large, "w-0", "a1", (0, 1, 2)), put(large, "w-1", "a2", (0, 1, 2))) == ["balance"] * 2
    both = put(large, "w-0", "a1", (0, 1, 2)), put(large, "w-1", "c1", (0, 1, 2))
    assert rules(large, *both) == [], "rb is too small for three"


def test_parts_and_several_models_come_after_the_file() -> None:
    stack = next(found for found in (filled(seed, 6) for seed in range(40)) if found.shares and found.models)
    assert isinstance(stack, Drawn)
    read = stack.stack()
    assert all(read.workloads[name].each.gpus.share == share for name, share in stack.shares.items())
    assert all(read.workloads[name].each.gpus.model == model for name, model in stack.models.items())


def test_a_sound_answer_has_nothing_wrong_and_an_error_is_a_row() -> None:
    stack = stack_of({"w": {**ONE, "replicas": 3}, "g": {"each": {"gpus": 4}, "gang": 2}})
    case = Case(today=TODAY, stack=stack, last=Placement())
    assert judged(case, solve(stack, today=TODAY)) == []
    fine = solved(case, {"seed": 0, "edit": 0})
    assert fine.findings == [] and fine.row["replicas"] == 5 and "error" not in fine.row
    bad = stack.model_copy(update={"nodes": {"a1": stack.nodes["a1"].model_copy(update={"hardware": "gone"})}})
    row = solved(case.model_copy(update={"stack": bad}), {"seed": 0, "edit": 0}).row
    assert "KeyError" in row["error"] and "Traceback" in row["traceback"]


def test_a_finished_job_keeps_its_files_and_nothing_else() -> None:
    """It may not go, move, hold more than its files, or come to be by a decision; and its files count."""
    stack = stack_of({"w": {"replicas": 2, "each": {"gpus": 4, "scratch": "600 GB"}}, "v": {"each": {"scratch": "600 GB"}}})
    over, runs = put(stack, "w-0", "a1", (0, 1, 2, 3)).released(), put(stack, "w-1", "a2", (0, 1, 2, 3))
    last, beside = placed(over, runs), put(stack, "v-0", "c1")
    assert broken(stack, placed(over, runs, beside), last, TODAY) == []
    for wrong in (
        [runs],
        [runs, over.model_copy(update={"node": "c1"})],
        [runs, over.model_copy(update={"gpus": whole_gpus((0,))})],
        [over, runs.released()],
    ):
        assert "finished" in {one.rule for one in broken(stack, placed(*wrong), last, TODAY)}
    full = broken(stack, placed(over, runs, put(stack, "v-0", "a1")), last, TODAY)
    assert [one.rule for one in full] == ["node storage"]


def test_memory_that_is_bound_to_several_numa_nodes_leaves_room_on_each() -> None:
    """w-0 has 30 of 64 GB, bound to both NUMA nodes of 32: the other one's memory may be all of it."""
    stack = stack_of(
        {
            "w": {"each": {"gpus": 1, "memory": "30 GB"}},
            "one": {"each": {"gpus": 1, "memory": "30 GB"}, "place": {"numa": "single"}},
        }
    )
    free = Free(stack, TODAY, [put(stack, "w-0", "a1", (0,), numa=(0, 1))])
    assert free.devices(stack.workloads["one"], "a1") == ((1,), ())
    bound = Free(stack, TODAY, [put(stack, "w-0", "a1", (0,), numa=(0,))])
    assert bound.devices(stack.workloads["one"], "a1") == ((2,), ())
