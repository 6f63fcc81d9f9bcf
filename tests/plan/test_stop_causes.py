"""Are all causes of a stop named, and only those? Drawn changes with several causes; what is named is taken back, and solved again."""

from __future__ import annotations

import datetime
import itertools
import random
import re
from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest

from swarm_iac.model.placement import Allocation, Placement
from swarm_iac.model.stack import Stack
from swarm_iac.model.workload import PRIORITIES
from swarm_iac.plan.show.causes import why_stopped
from swarm_iac.solver import solve
from swarm_iac.solver.explain.move_causes import moved_for
from tests.benchmarks.reasons.lift import given_up, only, opened
from tests.benchmarks.reasons.tried import Decided
from tests.solver.fleets import stack_of

TODAY = datetime.date(2026, 6, 1)
_TAKEN = re.compile(r"(?:preempted by|its place went to) (.+?)(?:, which leaves too little of (.+))?")
_STATE = re.compile(
    r"(\S+): drain, and no other node takes it|\S+ has to leave (\S+) \(drain\), and a gang runs whole or not at all"
)


def causes(why: str) -> frozenset[tuple[str, str]] | None:
    """The kind of each cause that a sentence names, and what it names; None where it gives the reasons of what is pending."""
    found = set[tuple[str, str]]()
    head, *rest = why.removesuffix(", and no other node takes it").split("; besides, ")
    if _STATE.fullmatch(head + ", and no other node takes it") or _STATE.fullmatch(head):
        state = _STATE.fullmatch(head) or _STATE.fullmatch(head + ", and no other node takes it")
        assert state
        found.add(("node", state[1] or state[2]))
    elif outgrown := re.fullmatch(r"it does not fit \S+ any more: (.+)", head):
        rest = [outgrown[1], *rest]
    elif _TAKEN.fullmatch(head):
        rest = [head, *rest]
    else:
        return None
    for one in rest:
        if taken := _TAKEN.fullmatch(one):
            found |= {("node", node) for node in re.findall(r"([\w-]+): drain", taken[1])}
            found |= {
                ("came", name)
                for name in re.sub(r"[^ ]+, which had to leave \([^)]*\)( and )?", "", taken[1]).split(" and ")
                if name
            }
            found |= {("limit", path) for path in (taken[2].split(" and ") if taken[2] else ())}
        else:
            found.add(("rule", one))
    return frozenset(found)


class Undone(Decided):
    """A decision, and what it would be without some of its causes."""

    def back(self, group: list[Allocation], those: Iterable[tuple[str, str]], *, nobody_stops: bool = False) -> bool:
        """Do all of these stay where they ran, beside all that is placed, if these causes are taken back?

        `nobody_stops`: and does nobody else stop for that who is no lower?
        """
        stack, without = self.stack, set[str]()
        for kind, what in those:
            if kind == "came":
                come = (one for one in self.now.allocations if one.workload == what)
                without |= {one.name for one in come if one.name not in self.ran or self.ran[one.name].node != one.node}
            elif kind == "node":
                stack = opened(stack, [what])
            else:
                given = given_up(stack, group[0].workload, what if kind == "rule" else _sentence(what))
                assert given is not None, what
                stack = given
        mine = {one.name for one in group}
        stack, last, names = only(stack, (self.names - without) | mine, self.last)
        found = solve(stack, last, today=self.today, reasons=False).placement.by_name()
        least = min(PRIORITIES[stack.workloads[one.workload].priority] for one in group)
        ones = [one for one in self.now.allocations if one.name not in without]
        if nobody_stops and any(
            names[one.name] not in found for one in ones if PRIORITIES[stack.workloads[one.workload].priority] >= least
        ):
            return False
        return all((now := found.get(names[one.name])) is not None and now.node == one.node for one in group)


def _sentence(path: str) -> str:
    """As `limits` says it of a limit that is exceeded."""
    level, _, what = path.removeprefix("limits.").rpartition(".")
    who = {"user": "user u holds", "team": "team t holds", "cluster": "the cluster carries", "node": "node n carries"}
    return f"{who[level]} 1 {what}"


def drawn(seed: int) -> tuple[Stack, Stack]:
    """A small fleet, and a change of it by several causes at once."""
    rng = random.Random(seed)
    names = [f"n{i}" for i in range(rng.choice([1, 2, 2, 3]))]
    nodes: dict[str, Any] = {name: {"labels": {"disk": "fast"}} for name in names}

    def work(*, priority: str) -> dict[str, Any]:
        each = {"gpus": rng.choice([0, 1, 2, 4, 4]), "memory": rng.choice(["8 GB", "40 GB", "64 GB"])}
        one = {"user": rng.choice(["ada", "bo"]), "priority": priority, "each": each}
        one["replicas"] = rng.choice([1, 1, 2])
        return one | ({"place": {"select": {"disk": "fast"}}} if rng.random() < 0.3 else {})

    works = {f"w{i}": work(priority=rng.choice(["low", "normal"])) for i in range(rng.randint(1, 3))}
    shape = {"gpus": "8 x H100", "vcpus": 64, "memory": "128 GB"}
    before = stack_of(nodes, works, hardware={"h100": shape}, solve={"moves": 0})
    limits: dict[str, Any] = {}
    if rng.random() < 0.5:
        nodes = nodes | {(gone := rng.choice(names)): nodes[gone] | {"state": "drain"}}
    if rng.random() < 0.5:
        limits |= {rng.choice(["user", "cluster"]): {rng.choice(["gpus", "memory"]): rng.choice([2, 4, 8])}}
    if rng.random() < 0.3:
        shape = shape | {"memory": "48 GB"}
    if rng.random() < 0.2:
        nodes = nodes | {(slow := rng.choice(names)): nodes[slow] | {"labels": {"disk": "slow"}}}
    if rng.random() < 0.7:
        works = works | {f"x{i}": work(priority="high") for i in range(rng.choice([1, 1, 2]))}
    limits = {
        level: {key: f"{20 * most} GB" if key == "memory" else most for key, most in one.items()}
        for level, one in limits.items()
    }
    return before, stack_of(nodes, works, hardware={"h100": shape}, limits=limits, solve={"moves": 0})


def check(seed: int, seen: Counter[str]) -> None:
    """Replicas of one node that one sentence is about belong together: all of them come back."""
    before, now = drawn(seed)
    last = solve(before, Placement(), today=TODAY).placement
    decided = Undone(before, now, last, TODAY)
    groups: dict[tuple[str, str, str], list[Allocation]] = {}
    for name, why in why_stopped(decided.stack, last, decided.now, TODAY).items():
        was = decided.ran[name]
        groups.setdefault((why, was.node, was.workload), []).append(was)
    for (why, node, _), group in groups.items():
        named = causes(why)
        if named is None:
            continue
        assert decided.back(group, named), f"seed {seed}: {group[0].name} does not come back without {why}"
        seen[" + ".join(sorted({kind for kind, _ in named}))] += 1
        several = sum(kind == "came" for kind, _ in named) > 1 or "which had to leave" in why
        for one in named:
            if several and one[0] == "came":
                continue  # each alone may be somewhere else where another one is away
            # What several break together is why not all of them come back.
            those = [each for key in groups if key[1] == node for each in groups[key]]
            found = any(turns(decided, each, named, one) for each in (group[:1], group, those))
            assert found, f"seed {seed}: {group[0].name} not for {one}: {why}"


def turns(decided: Undone, group: list[Allocation], named: frozenset[tuple[str, str]], one: tuple[str, str]) -> bool:
    """Do they come back with it that did not with some of the others?"""
    others = itertools.chain(*(itertools.combinations(named - {one}, count) for count in range(len(named))))
    return any(not decided.back(group, those, nobody_stops=True) and decided.back(group, {*those, one}) for those in others)


@pytest.mark.parametrize("seeds", [range(120), pytest.param(range(120, 700), marks=pytest.mark.slow)], ids=["some", "many"])
def test_what_is_named_is_why(seeds: range) -> None:
    seen: Counter[str] = Counter()
    for seed in seeds:
        check(seed, seen)
    assert {"node", "came", "rule", "node + rule", "came + rule", "came + limit + node"} <= seen.keys(), seen


def test_a_drained_node_and_a_limit_that_a_higher_priority_uses_up_are_both_named() -> None:
    one = {"user": "ada", "each": {"gpus": 4, "memory": "1 GB"}}
    last = solve(stack_of({"a": {}}, {"w": one}), Placement()).placement
    works = {"w": one, "x": one | {"priority": "high"}}
    now = stack_of({"a": {"state": "drain"}, "b": {}}, works, limits={"user": {"gpus": 4}})
    after = solve(now, last).placement
    why = "preempted by x, which leaves too little of limits.user.gpus"
    assert why_stopped(now, last, after) == {"w-0": f"a: drain, and no other node takes it; besides, {why}"}
    (reason,) = moved_for(now, after, "w", last, None)
    assert reason.text == f"w-0: stopped on a, because a is in state drain; besides, {why}"


def test_who_had_to_leave_a_drained_node_is_named_with_that_node() -> None:
    lo = {"user": "bo", "priority": "low", "each": {"gpus": 8, "memory": "1 GB"}, "place": {"select": {"is": "here"}}}
    hi = {"user": "ada", "each": {"gpus": 8, "memory": "1 GB"}}
    nodes: dict[str, Any] = {"a": {"labels": {"is": "here"}}, "b": {}}
    last = solve(stack_of(nodes, {"lo": lo, "hi": hi}), Placement()).placement
    now = stack_of(nodes | {"b": {"state": "drain"}}, {"lo": lo, "hi": hi})
    after = solve(now, last).placement
    assert why_stopped(now, last, after) == {"lo-0": "preempted by hi, which had to leave (b: drain)"}


def test_members_that_move_together_are_not_said_to_break_a_rule_about_each_other() -> None:
    """Put back alone, a member would be in another rack than the other one; together they were, and are, in one."""
    shapes = {"h": {"gpus": "4 x L40S", "vcpus": 32, "memory": "128 GB"}}
    nodes: dict[str, dict[str, Any]] = {f"r1-{i}": {"hardware": "h", "rack": "r1"} for i in (1, 2)}
    nodes |= {"r2-1": {"hardware": "h", "rack": "r2", "taints": {"k": "v"}}, "r3-1": {"hardware": "h", "rack": "r3"}}
    works = {
        "even": {"replicas": 7, "each": {"gpus": 1, "vcpus": 6, "memory": "16 GB"}, "place": {"balance": "rack"}},
        "ap": {
            "gang": 2, "each": {"gpus": 2, "vcpus": 4, "memory": "8 GB"}, "place": {"within": "rack", "tolerate": {"k": "v"}},
        },
    }  # fmt: skip
    racks: dict[str, dict[str, Any]] = {"r1": {}, "r2": {}, "r3": {}}
    before = stack_of(nodes, works, hardware=shapes, racks=racks)
    last = solve(before).placement
    assert {a.node for a in last.allocations if a.workload == "ap"} == {"r1-2"}, last
    after = stack_of(nodes | {"r3-1": nodes["r3-1"] | {"state": "drain"}}, works, hardware=shapes, racks=racks)
    now = solve(after, last).placement
    assert {a.node for a in now.allocations if a.workload == "ap"} == {"r2-1"}, now
    for one in moved_for(after, now, "ap", last, TODAY):
        assert one.rule == "frees_capacity", one
        assert "because of even-" in one.text, one
