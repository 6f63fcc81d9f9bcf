"""Does each mend that `swarm why` tells really mend, at the price it names?"""

from __future__ import annotations

from collections import Counter

import pytest

from swarm_iac.limits import judge
from swarm_iac.model.edit import changed, current
from swarm_iac.model.placement import Placement
from swarm_iac.model.stack import Stack
from swarm_iac.solver import Explanation, Fix, Watch, solve, why
from swarm_iac.solver.advice.fixes import TINY
from tests.benchmarks.fleets.draw_workloads import filled
from tests.solver.crowded import crowded
from tests.solver.fleets import stack_of
from tests.solver.oracle import still

FLEETS = 200


def fixed(stack: Stack, fix: Fix) -> Stack:
    for edit in fix.edits:
        stack = changed(stack, edit)
    return stack


@pytest.mark.engine
@pytest.mark.parametrize("part", range(6))
@pytest.mark.parametrize("few", [False, True], ids=["all are searched", "few are searched"])
def test_every_mend_mends_at_the_price_it_names(part: int, few: bool) -> None:
    tiny = 0 if few else TINY
    kinds: Counter[str] = Counter()
    for seed in range(part * FLEETS // 6, (part + 1) * FLEETS // 6):
        before, stack = crowded(seed)
        last = solve(before).placement
        placement = solve(stack, last).placement
        for gone in placement.unplaced[-1:]:
            for fix in why(stack, placement, gone.workload, last=last, tiny=tiny).fixes:
                kinds[fix.kind] += 1
                after = fixed(stack, fix)
                found = solve(after, last)
                assert all(one.workload != gone.workload for one in found.placement.unplaced), f"seed {seed}: {fix}"
                assert judge(after, found.placement, **still(found.placement, last)) == ()
                now, ran = found.placement.by_name(), last.by_name()
                gone_for_good = {name for name, a in ran.items() if after.nodes[a.node].state == "lost"}
                assert set(fix.stops) == ran.keys() - now.keys() - gone_for_good, f"seed {seed}: {fix}"
                others = {a.name for a in placement.allocations if a.workload != gone.workload}
                assert {*fix.displaced, *fix.dropped} == others - now.keys() - ran.keys(), f"seed {seed}: {fix}"
                pending = {f"{one.workload}-{i}" for one in found.placement.unplaced for i in one.missing}
                assert set(fix.displaced) <= pending and not pending & set(fix.dropped), f"seed {seed}: {fix}"
                went = {name for name in ran.keys() & now.keys() if ran[name].node != now[name].node}
                assert {move.name for move in fix.moves if move.source != move.target} == went, f"seed {seed}: {fix}"
                kinds["not applied"] += bool({a.name for a in placement.allocations} ^ ran.keys())
    assert kinds.total() >= 15 and kinds["together"] and kinds["request"] and kinds["not applied"], kinds


@pytest.mark.engine
def test_no_part_of_a_mend_of_several_edits_is_enough_alone() -> None:
    tried = 0
    for seed in range(60):
        before, stack = crowded(seed)
        last = solve(before).placement
        placement = solve(stack, last).placement
        for gone in placement.unplaced[-1:]:
            for fix in why(stack, placement, gone.workload, last=last).fixes:
                if len(fix.edits) != 2:
                    continue
                for edit in fix.edits:
                    tried += 1
                    found = solve(changed(stack, edit), last).placement
                    assert any(one.workload == gone.workload for one in found.unplaced), f"seed {seed}: {edit} is enough"
    assert tried >= 10


def one_of_each() -> tuple[Stack, Placement]:
    """A node drained, a ceiling nearly reached, and a fragmented rest, with no move allowed."""
    halves = {name: {"user": "bo", "each": {"gpus": 4}, "place": {"select": {"h": h}}} for name, h in (("x", "1"), ("y", "2"))}
    nodes = {"a": {"labels": {"h": "1"}}, "b": {"labels": {"h": "2"}}, "c": {"state": "drain", "why": "fan"}}
    last = solve(stack_of(nodes, halves)).placement
    free = {name: {"user": "bo", "each": {"gpus": 4}} for name in halves}
    return stack_of(nodes, free | {"big": {"each": {"gpus": 8}}}, solve={"moves": 0}), last


def test_fragmentation_is_blamed_on_holders_and_the_budget_and_mended_by_each_kind() -> None:
    stack, last = one_of_each()
    answer = why(stack, solve(stack, last).placement, "big", last=last)
    assert [(one.rule, one.path) for one in answer.reasons] == [
        ("gpus_fit_node", "workloads.big.each.gpus"),
        ("node_is_ready", "nodes.c.state"),
        ("holds", "workloads.y"),
        ("holds", "workloads.x"),
        ("equals_are_not_stopped", "workloads.big.priority"),
        ("moves_stay_in_budget", "solve.moves"),
    ]
    told = {(fix.kind, str(fix.edits[0])) for fix in answer.fixes}
    assert {("node", "nodes.c.state=ready"), ("move", "solve.moves=1"), ("request", "workloads.big.each.gpus=4")} <= told
    (move,) = (fix for fix in answer.fixes if fix.kind == "move")
    assert len(move.moves) == 1 and move.stops == ()


@pytest.mark.parametrize("after", range(1, 6))
def test_ended_early_it_answers_with_what_is_known_by_then(after: int) -> None:
    stack, last = one_of_each()
    placement = solve(stack, last).placement
    whole = why(stack, placement, "big", last=last)
    watch, heard, tried = Watch(), list[Explanation](), list[str]()

    def tell(text: str) -> None:
        tried.append(text)
        if len(tried) == after:
            watch.stop()

    cut = why(stack, placement, "big", last=last, tell=tell, so_far=heard.append, watch=watch)
    assert cut.cut and not whole.cut and len(tried) == after
    assert cut.reasons == whole.reasons[: len(cut.reasons)] and cut.reasons
    assert {str(one.edits) for one in cut.fixes} < {str(one.edits) for one in whole.fixes}
    assert (cut.reasons, cut.fixes) == (heard[-1].reasons, heard[-1].fixes)
    assert tried[-1] not in {" ".join(map(str, one.edits)) for one in cut.fixes}, "it was not solved to its end"
    assert len(cut.fixes) >= after - 3  # of the first two, moving and what it came to, only the second is one


def test_a_ceiling_is_mended_by_exactly_what_is_short() -> None:
    stack = stack_of({"a": {}, "b": {}}, {"w": {"each": {"gpus": 3}, "replicas": 4}}, limits={"user": {"gpus": 7}})
    placement = solve(stack).placement
    answer = why(stack, placement, "w")
    assert (answer.placed, answer.missing) == (2, 2)
    assert [one.path for one in answer.reasons] == ["limits.user.gpus"]
    limits = [fix for fix in answer.fixes if fix.kind == "limit"]
    assert [(str(one.edits[0]), one.was) for one in limits] == [("limits.user.gpus=12", ("7",))]


def test_what_was_there_is_told_as_it_is_written() -> None:
    stack = stack_of({"a": {}}, {"w": {"each": {"gpus": "2 x H100", "pinned": True}, "replicas": "2..6"}})
    for path, text in {
        "workloads.w.each.gpus": "2 x H100", "workloads.w.replicas": "2..6", "workloads.w.each.pinned": "true",
        "workloads.w.place.spread": "", "limits.user.gpus": "", "nodes.a.state": "ready", "solve.moves": "4",
    }.items():  # fmt: skip
        assert current(stack, path) == text


def test_the_same_edits_in_another_order_are_no_other_fix() -> None:
    """Nor is a higher priority where a lower one does as well, beside the same other edit."""
    drawn = filled(706, 8)
    stack = drawn.stack()
    placement = solve(stack, today=drawn.today).placement
    fixes = why(stack, placement, "any-0008", today=drawn.today).fixes
    assert [len(fix.edits) for fix in fixes] and {fix.kind for fix in fixes} == {"together"}
    keys = [frozenset(edit.path for edit in fix.edits) for fix in fixes]
    assert len(keys) == len(set(keys))


def test_a_smaller_mig_profile_that_is_free_is_offered_before_larger_ones_and_those_of_no_card_are_not() -> None:
    """A card of 80 GB has no 3g.47gb, and 3g.40gb is as little free as what is asked for: 1g.20gb and 2g.20gb are."""
    works = {
        "old": {"each": {"gpus": "2 x H100/1g.10gb"}, "priority": "high"},
        "half": {"each": {"gpus": "1 x H100/3g.40gb"}, "priority": "high"},
        "w": {"each": {"gpus": "1 x H100/7g.80gb"}},
    }
    card = {"h": {"gpus": "1 x H100", "mig": True, "vcpus": 32, "memory": "256 GB"}}
    stack = stack_of({"a": {"hardware": "h"}}, works, hardware=card)
    fixes = why(stack, solve(stack).placement, "w").fixes
    free = [str(fix.edits[0]) for fix in fixes if not fix.stops]
    assert free == [f"workloads.w.each.gpus=1 x H100/{name}" for name in ("1g.20gb", "2g.20gb")]


def test_what_a_limit_leaves_is_offered_where_a_node_has_more() -> None:
    works = {"old": {"each": {"vcpus": 10}, "priority": "high"}, "w": {"each": {"vcpus": 24}}}
    stack = stack_of(
        {"a": {"hardware": "h"}}, works, hardware={"h": {"vcpus": 32, "memory": "256 GB"}}, limits={"user": {"vcpus": 26}}
    )
    fixes = why(stack, solve(stack).placement, "w").fixes
    assert "workloads.w.each.vcpus=16" in [str(fix.edits[0]) for fix in fixes]
