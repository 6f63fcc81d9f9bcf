"""Do teams that share by dominant resource get what docs/solver.md says?

What is due is compared with the definition of max-min, in linear programs that know single nodes and no pools; what is placed
with every placement there is.
"""

from __future__ import annotations

import random
import unittest.mock
from collections import Counter
from fractions import Fraction
from typing import Any

import pytest
from ortools.linear_solver import pywraplp

from swarm_iac.limits import judge
from swarm_iac.model.device import WHOLE
from swarm_iac.model.placement import Placement
from swarm_iac.model.stack import Stack
from swarm_iac.solver import Solution, solve, why
from swarm_iac.solver.backend.linear import Linear
from swarm_iac.solver.explain.places.possible import possible
from swarm_iac.solver.shares.entitled import Worked, entitled
from swarm_iac.solver.snapshot.from_stack import snapshot_of
from swarm_iac.solver.snapshot.layout import GPUS, MACHINE
from swarm_iac.solver.snapshot.snapshot import ENDLESS, Snapshot
from swarm_iac.solver.snapshot.suitability import suits
from swarm_iac.units import CpuRange, MemoryRange
from tests.solver.fleets import stack_of
from tests.solver.oracle import as_large, as_small, check_exact, counts_on, still
from tests.stops import stops_are_due

HARDWARE: dict[str, dict[str, Any]] = {
    "a": {"gpus": "4 x A", "vcpus": 16, "memory": "64 GB"},
    "b": {"gpus": "2 x B", "vcpus": 32, "memory": "32 GB"},
    "c": {"vcpus": 32, "memory": "128 GB"},
}
#: GPUs by which what is due may be off, in exchange for so many of another team.
OFF, TINY = 0.02, 2e-5


def drawn(seed: int) -> tuple[Stack, Placement]:
    """Teams, some inside others, over nodes with and without GPUs; what they ask for has all kinds of dominant resources."""
    rng = random.Random(seed)
    nodes = {"n0": {"hardware": rng.choice("ab")}} | {
        f"n{i}": {"hardware": rng.choice("abc")} for i in range(1, rng.randint(1, 4))
    }
    names = [f"t{i}" for i in range(rng.randint(2, 4))]
    levels = ["low", "normal", "high"] if rng.random() < 0.4 else ["normal"]
    teams: dict[str, Any] = {}
    for i, name in enumerate(names):
        teams[name] = {"users": [f"u{i}"], "share": rng.randint(1, 4)}
        teams[name] |= {"parent": rng.choice(names[:i])} if i and rng.random() < 0.3 else {}
        teams[name] |= {"guarantee": {"gpus": rng.randint(1, 3)}} if rng.random() < 0.2 else {}
        teams[name] |= {"limits": {rng.choice(["gpus", "vcpus"]): rng.randint(1, 8)}} if rng.random() < 0.15 else {}

    def request() -> dict[str, Any]:
        gpus: Any = rng.choice([0, 0, 1, 1, 2, "1 x A", "1 x B", {"count": 1, "share": 0.25}])
        each = {"gpus": gpus, "vcpus": rng.choice([0.5, 1, 2, 6, 10]), "memory": f"{rng.choice([1, 2, 8, 20])} GB"}
        user = f"u{rng.randrange(len(names))}"
        return {"user": user, "replicas": rng.randint(1, 9), "each": each, "priority": rng.choice(levels)}

    works = {f"w{i}": request() for i in range(rng.randint(2, 7))}
    worth = {"A": 2, "B": 0.5} if rng.random() < 0.2 else {}
    rest: dict[str, Any] = {"hardware": HARDWARE, "teams": teams, "worth": worth, "solve": {"share_by": "dominant_resource"}}
    if rng.random() < 0.9:
        return stack_of(nodes, works, **rest), Placement()
    last = solve(stack_of(nodes, works, **rest)).placement
    return stack_of(
        {name: one | {"state": rng.choice(["ready", "cordon"])} for name, one in nodes.items()}, works, **rest
    ), last


class Program:
    """What the teams could have together, of a priority and those above."""

    def __init__(self, snapshot: Snapshot, worked: Worked, most: dict[str, int], priority: int) -> None:
        self.lp = pywraplp.Solver.CreateSolver("GLOP")
        assert self.lp
        held: dict[str, Any] = Counter()
        used: dict[tuple[str, int], Any] = Counter()
        self.one = WHOLE * worked.entitlements.weights.one
        for name, request in snapshot.requests.items():
            if request.priority < priority or not most[name]:
                continue
            every = []
            for host in snapshot.nodes.values():
                fits = suits(request, host) and all(n <= c for n, c in zip(request.need, host.capacity, strict=True))
                stays = 0 if fits else sum(ran.node == host.name for ran in snapshot.running.get(name, ()))
                if stays or (fits and (not request.gpus or host.capacity[GPUS])):
                    y = self.lp.NumVar(0, stays or most[name], "")
                    every.append(y)
                    for i in range(len(MACHINE)):
                        need = request.gpus * request.share / WHOLE if i == GPUS else request.need[i]
                        if need and host.capacity[i] < ENDLESS:
                            used[f"node {host.name}", i] += need / host.capacity[i] * y
                    for scope in request.chain:
                        for i, limit in enumerate(snapshot.scopes[scope]):
                            if request.usage[i] and limit < ENDLESS:
                                used[scope, i] += request.usage[i] / limit * y
                    for team in worked.entitlements.lines[request.user]:
                        held[team] += counts_on(snapshot, name, host.name) / self.one * y
            if every:
                self.lp.Add(sum(every) <= most[name])
        for total in used.values():
            self.lp.Add(total <= 1)
        self.held = held

    def most(self, team: str, least: dict[str, float], together: tuple[list[str], float] | None) -> float | None:
        """The most that the team could have where others have at least so much; None where they cannot."""
        for other, amount in least.items():
            if amount > TINY:
                self.lp.Add(self.held[other] >= amount - TINY)
        if together:
            self.lp.Add(sum(self.held[one] for one in together[0] if one in self.held) <= together[1] + TINY)
        if team not in self.held:
            return 0.0
        self.lp.Maximize(self.held[team])
        return self.lp.Objective().Value() if self.lp.Solve() == pywraplp.Solver.OPTIMAL else None


def check_max_min(stack: Stack, last: Placement) -> None:
    """No team could be due more unless one of those beside it were due less that has no more for its share.

    Each time that something is dealt out: exactly, beside what was dealt out before and is rounded.
    """
    snapshot = snapshot_of(stack, last)
    most = possible(snapshot)
    worked = entitled(snapshot, most)
    due, one = worked.entitlements.due, WHOLE * worked.entitlements.weights.one
    lines = set(worked.entitlements.lines.values())
    leaves = {line[-1] for line in lines}
    dealt: dict[str, int] = {}
    for step in worked.steps:
        exact = {team: float(value) / one for team, value in step.filled.exact.items()}
        higher = min((level for level in due if level > step.priority), default=None)
        floors = {team: due[higher].get(team, 0) / one for team in leaves} if higher is not None else {}
        if not step.around:
            dealt = {}
        dealt.pop(step.around, None)  # those inside it divide it
        outside = {team: amount / one for team, amount in dealt.items()}
        for claim in (claim for claim in step.filled.claims if claim.share):
            height = exact[claim.team] / claim.share
            least = outside | {
                other.team: min(exact[other.team], max(other.floor / one, height * other.share))
                for other in step.filled.claims
                if other is not claim
            }
            for leaf, floor in floors.items():
                least[leaf] = max(least.get(leaf, 0.0), floor)
            together = ([one.team for one in step.filled.claims], (step.total or 0) / one) if step.around else None
            got = Program(snapshot, worked, most, step.priority).most(claim.team, least, together)
            assert got is not None, "what is due can be had at once"
            assert min(got, claim.wants / one) <= exact[claim.team] + OFF, (step.priority, claim.team, got, exact)
        dealt |= step.filled.due if step.kind == "share" else {}


@pytest.mark.parametrize("seeds", [range(60), pytest.param(range(60, 3000), marks=pytest.mark.slow)], ids=["some", "thousands"])
def test_what_is_due_is_max_min(seeds: range) -> None:
    for seed in seeds:
        check_max_min(*drawn(seed))


def changes(seed: int) -> tuple[Stack, Stack]:
    """A fleet so small that every placement can be tried, and what becomes of it."""
    rng = random.Random(seed)
    nodes = {"n0": {"hardware": "a"}} | {f"n{i}": {"hardware": rng.choice("abc")} for i in range(1, rng.randint(1, 2))}
    names = ["t0", "t1", "t2"][: rng.randint(2, 3)]
    levels = ["low", "normal", "high"] if rng.random() < 0.3 else ["normal"]
    teams: dict[str, Any] = {}
    for i, name in enumerate(names):
        teams[name] = {"users": [f"u{i}"], "share": rng.randint(1, 4)}
        teams[name] |= {"parent": rng.choice(names[:i])} if i and rng.random() < 0.25 else {}
        teams[name] |= {"guarantee": {"gpus": rng.randint(1, 2)}} if rng.random() < 0.2 else {}
        teams[name] |= {"limits": {"gpus": rng.randint(1, 3)}} if rng.random() < 0.3 else {}

    def request() -> dict[str, Any]:
        each = {
            "gpus": rng.choice([0, 0, 1, 1, 2]),
            "vcpus": rng.choice([1, 2, 6, 10]),
            "memory": f"{rng.choice([1, 8, 30])} GB",
        }
        found: dict[str, Any] = {"user": f"u{rng.randrange(len(names))}", "each": each, "priority": rng.choice(levels)}
        return found | {"gang" if rng.random() < 0.15 else "replicas": rng.randint(1, 3)}

    works = {f"w{i}": request() for i in range(rng.randint(2, 4))}
    solving = {"reclaim": rng.random() < 0.6, "moves": rng.choice([0, 1, 4]), "share_by": "dominant_resource"}
    worth = {"A": 2, "B": 0.5} if rng.random() < 0.15 else {}
    rest: dict[str, Any] = {"hardware": HARDWARE, "teams": teams, "solve": solving, "worth": worth}
    before = stack_of(nodes, {name: one for name, one in works.items() if rng.random() < 0.7}, **rest)
    states = {name: one | {"state": rng.choice(["ready"] * 5 + ["cordon", "drain"])} for name, one in nodes.items()}
    return before, stack_of(states, works | ({"w0": request()} if rng.random() < 0.3 else {}), **rest)


@pytest.mark.parametrize("seeds", [range(6), pytest.param(range(6, 1500), marks=pytest.mark.slow)], ids=["some", "thousands"])
def test_no_placement_has_more_of_what_is_due(seeds: range) -> None:
    for seed in seeds:
        check_exact(*changes(seed), proven=not changes(seed)[1].worth)


def check_stops(seed: int) -> None:
    """On the paths that search less, too: nothing is stopped that its team has a right to, and no bound is too low."""
    before, now = changes(seed)
    last = solve(before).placement
    best = {goal.name: goal.value for goal in solve(now, last).proof.goals}
    for answer in (solve, as_large, as_small):
        solution = answer(now, last)
        assert judge(now, solution.placement, **still(solution.placement, last)) == ()
        assert stops_are_due(now, last, solution.placement) == ()
        for goal in solution.proof.goals:
            assert goal.value <= goal.bound or "share" not in goal.name, goal
            if not goal.name.startswith(("low", "normal", "high")) or goal.name not in best:
                break  # about what is placed alone
            if goal.value != best[goal.name]:  # the first that is worse bounds what the best has
                assert goal.bound >= best[goal.name], goal
                break


@pytest.mark.parametrize(
    "seeds", [(*range(6), 312, 328), pytest.param(range(800), marks=pytest.mark.slow)], ids=["some", "thousands"]
)
def test_nothing_is_stopped_that_its_team_has_a_right_to(seeds: range) -> None:
    for seed in seeds:
        check_stops(seed)


#: The example of the paper: one machine with 9 CPUs and 18 GB; tasks of 1 CPU and 4 GB, and of 3 CPUs and 1 GB.
BOX: dict[str, Any] = {"box": {"gpus": "9 x H100", "vcpus": 9, "memory": "18 GB"}}
TEAMS = {"first": {"users": ["ada"], "share": 1}, "second": {"users": ["bo"], "share": 1}}
TASKS: dict[str, Any] = {
    "a": {"user": "ada", "replicas": 9, "each": {"vcpus": 1, "memory": "4 GB"}},
    "b": {"user": "bo", "replicas": 9, "each": {"vcpus": 3, "memory": "1 GB"}},
}


def of_the_paper(tasks: dict[str, Any] = TASKS, **solving: Any) -> Stack:
    """Nobody asks for a GPU; the nine are the unit alone."""
    solving = {"share_by": "dominant_resource", **solving}
    return stack_of({"n": {"hardware": "box"}}, tasks, hardware=BOX, teams=TEAMS, solve=solving)


def by_name(solution: Solution) -> Counter[str]:
    return Counter(one.workload for one in solution.placement.allocations)


def test_the_example_of_the_paper() -> None:
    """Three tasks of the first and two of the second: each has two thirds of what it takes most, 12 of 18 GB and 6 of 9 CPUs."""
    stack = of_the_paper()
    snapshot = snapshot_of(stack, Placement())
    assert entitled(snapshot, possible(snapshot)).entitlements.due == {1: {"first": 6000, "second": 6000}}
    assert by_name(solve(stack)) == {"a": 3, "b": 2}


def test_work_without_gpus_is_called_back() -> None:
    """second had all CPUs; first is due two thirds of the memory, and is named beside the team that gives them."""
    last = solve(of_the_paper({"b": TASKS["b"]})).placement
    assert Counter(one.workload for one in last.allocations) == {"b": 3}
    kept = solve(of_the_paper(), last)
    assert by_name(kept) == {"b": 3} and kept.moves == ()
    (reason,) = [one for one in why(of_the_paper(), kept.placement, "a", last=last).reasons if one.rule == "share"]
    assert reason.text == (
        "team first holds 0 GPUs by dominant resource and is due 6; what it lacks is lent to team second (9, due 6); "
        "what is lent is not called back while it runs (`solve.reclaim: false`)"
    )
    called = solve(of_the_paper(reclaim=True), last)
    assert by_name(called) == {"a": 3, "b": 2}
    (stopped,) = [move.why for move in called.moves if not move.target]
    assert stopped == (
        "lent to team second, which held 9 GPUs by dominant resource and is due 6: called back for team first (6, due 6)"
    )
    assert stops_are_due(of_the_paper(reclaim=True), last, called.placement) == ()


def test_what_a_team_is_lent_calls_nobody_back_for_the_one_around_it() -> None:
    """t1 runs two and is due less; dept, which may have two replicas, is due more than it has. One gives way to t0, which has
    nothing, and not to a larger one of t1: that would have brought dept closer to its due, and t0 nothing.
    """
    teams = {
        "dept": {"share": 1, "limits": {"replicas": 2}},
        "t0": {"users": ["ada"], "parent": "dept", "share": 3},
        "t1": {"users": ["bo"], "parent": "dept", "share": 1},
    }
    runs: dict[str, Any] = {"runs": {"user": "bo", "replicas": 2, "each": {"gpus": 1, "vcpus": 6, "memory": "30 GB"}}}
    more: dict[str, Any] = {
        "small": {"user": "ada", "replicas": 3, "each": {"gpus": 2, "vcpus": 6, "memory": "1 GB"}},
        "large": {"user": "bo", "replicas": 3, "each": {"gpus": 2, "vcpus": 10, "memory": "8 GB"}},
    }
    nodes: dict[str, Any] = {"n0": {"hardware": "a"}, "n1": {"hardware": "a"}}
    rest: dict[str, Any] = {"hardware": HARDWARE, "teams": teams, "solve": {"reclaim": True, "share_by": "dominant_resource"}}
    last = solve(stack_of(nodes, runs, **rest)).placement
    now = stack_of(nodes, runs | more, **rest)
    solution = solve(now, last)
    assert by_name(solution) == {"runs": 1, "small": 1}
    assert stops_are_due(now, last, solution.placement) == ()


@pytest.mark.parametrize("seeds", [range(60), pytest.param(range(60, 3000), marks=pytest.mark.slow)], ids=["some", "thousands"])
def test_where_gpus_are_the_larger_part_both_ways_are_one(seeds: range) -> None:
    """A linear program and a flow: what is dealt out first is the same, within what the program knows."""
    for seed in seeds:
        stack, last = drawn(seed)
        little = {"vcpus": CpuRange.parse("0.001"), "memory": MemoryRange.parse("1 MB")}
        holding = {name: one for name, one in stack.workloads.items() if one.each.gpus.count}
        small = {name: one.model_copy(update={"each": one.each.model_copy(update=little)}) for name, one in holding.items()}
        plain = stack.model_copy(update={"workloads": small, "worth": {}})
        exact = []
        for by in ("gpus", "dominant_resource"):
            snapshot = snapshot_of(plain.model_copy(update={"solve": stack.solve.model_copy(update={"share_by": by})}), last)
            steps = entitled(snapshot, possible(snapshot)).steps
            exact.append(next((step.filled.exact for step in steps), {}))
        assert exact[0].keys() == exact[1].keys()
        assert all(abs(exact[0][team] - exact[1][team]) < Fraction(1, 10) for team in exact[0]), seed


def test_where_no_engine_says_what_is_due_the_answer_is_legal_all_the_same() -> None:
    """Nobody is held back then, and it is told."""
    before, now = changes(3)
    with unittest.mock.patch.object(Linear, "_optimum", return_value="no answer"):
        last = solve(before).placement
        solution = solve(now, last)
    assert judge(now, solution.placement, **still(solution.placement, last)) == ()
    assert any("no answer" in str(one) for one in solution.proof.parameters.values()), solution.proof.parameters
