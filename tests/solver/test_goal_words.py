"""Does each goal that the solver reports have words, and are its figures what a person counts?"""

from __future__ import annotations

import re
from collections import Counter
from fractions import Fraction

import pytest

from swarm_iac.model.device import WHOLE
from swarm_iac.model.goals.words import WORDS, GoalText, figure, goal_texts
from swarm_iac.model.placement import Goal, Placement
from swarm_iac.model.stack import Stack
from swarm_iac.model.workload import PRIORITIES
from swarm_iac.solver import solve
from swarm_iac.solver.exact.figures import figures, worse
from swarm_iac.solver.explain.places.possible import possible
from swarm_iac.solver.shares.entitled import entitled
from swarm_iac.solver.snapshot.from_stack import snapshot_of
from tests.solver.fleets import stack_of
from tests.solver.oracle import as_large
from tests.solver.test_shares import changes, counted, weighted

WORDED = {several for _, several in WORDS.values()}


def placed(stack: Stack, placement: Placement, level: str) -> Fraction:
    """GPUs of the priority, as parts of one where a replica has a part."""
    mine = [one for one in placement.allocations if stack.workloads[one.workload].priority == level]
    return Fraction(sum(one.gpu_milli for one in mine), WHOLE)


def within_due(stack: Stack, last: Placement, placement: Placement, level: str) -> Fraction:
    """GPUs of the priority and above, by worth, that outermost teams hold of what they are due."""
    snapshot = snapshot_of(stack, last)
    due = entitled(snapshot, possible(snapshot)).entitlements.due[PRIORITIES[level]]
    weight, one = counted(stack)
    held: Counter[str] = Counter()
    for each in placement.allocations:
        work = stack.workloads[each.workload]
        if PRIORITIES[work.priority] >= PRIORITIES[level]:
            held[stack.teams_of(work.user)[-1]] += each.gpu_milli * weight[each.node]
    return Fraction(sum(min(held[team], due[team]) for team in held), WHOLE * one)


def row(rows: tuple[GoalText, ...], words: str, level: str) -> GoalText | None:
    return next((one for one in rows if one.several.split(", ")[0] == words and one.priority.split()[0:1] == [level]), None)


@pytest.mark.parametrize("answer", [solve, as_large], ids=["exact", "large"])
def test_figures_are_what_is_counted_by_hand(answer: object) -> None:
    assert callable(answer)
    seen: Counter[str] = Counter()
    for seed in range(50):
        before, now = changes(seed)
        now = weighted(now, seed) if seed % 2 else now
        last, (weight, one) = solve(before).placement, counted(now)
        found = answer(now, last)
        rows = goal_texts(found.proof.goals, now)
        assert all(each.several.split(", ")[0] in WORDED for each in rows)
        for level in PRIORITIES:
            if gpus := row(rows, "GPUs placed", level):
                assert Fraction(gpus.reached) == placed(now, found.placement, level)
                seen["parts" if "." in gpus.reached else "whole"] += 1
            if due := row(rows, "GPUs held of what teams are due", level):
                assert Fraction(due.reached) == within_due(now, last, found.placement, level)
                assert ("by worth" in due.several) == any(each != one for each in weight.values())
                seen["by worth" if "by worth" in due.several else "due"] += 1
    assert all(seen[kind] for kind in ("parts", "whole", "by worth", "due"))


@pytest.mark.parametrize(
    ("name", "value", "bound", "text"),
    [
        ("normal_placed_gpu_milli", 37500, 40000, "37.5 of 40 GPUs placed, priority normal"),
        ("normal_placed_gpu_milli", 1000, 1000, "1 GPU placed, priority normal"),
        ("low_placed_replicas", 0, 1, "0 of 1 replica placed, priority low"),
        ("high_share", 4, 4, "4 GPUs held of what teams are due, priority high"),
        ("low_share_3", 4, 4, "4 GPUs held of what teams are due, of teams inside 2 others, priority low or higher"),
        ("moves", 3, 1, "3 moves of running replicas (at best 1)"),
        ("nodes", 1, 1, "1 node in use"),
        ("of_a_later_version_2", 1, 3, "1 of 3 of_a_later_version_2"),
        ("normal_share_" + "9" * 5000, 1, 1, "1 normal_share_" + "9" * 5000),
    ],
)
def test_a_goal_is_one_sentence(name: str, value: int, bound: int, text: str) -> None:
    assert str(goal_texts([Goal(name=name, value=value, bound=bound)], stack_of({"a": {}}, {}))[0]) == text


def test_what_rebalance_compares_counts_parts_of_gpus_as_parts() -> None:
    quarter = {"user": "ada", "replicas": 3, "each": {"gpus": 0.25, "memory": "1 GB"}}
    stack = stack_of({"a": {}}, {"part": quarter})
    full = figures(stack, solve(stack).placement)
    none = figures(stack, Placement())
    assert figure("normal_gpu_milli", full["normal_gpu_milli"]).best == "0.75"
    assert worse(full, none)[0] == "0.75 fewer GPUs placed, priority normal"
    assert not any(re.search("[a-z]_[a-z]", re.sub("prefer_(apart|with)", "", words)) for words in worse(full, none))
