"""Does a share count less for what its team used, exactly as it can be worked out with a pencil, and nothing else with it?"""

from __future__ import annotations

import random
from fractions import Fraction
from typing import Any

import pytest

from swarm_iac.limits import judge
from swarm_iac.model.gpus.past_use import PastUse, counted
from swarm_iac.model.placement import Placement
from swarm_iac.model.stack import Stack
from swarm_iac.solver import solve
from swarm_iac.solver.explain.places.possible import possible
from swarm_iac.solver.shares.entitled import entitled
from swarm_iac.solver.snapshot.from_stack import snapshot_of
from tests.solver.fleets import stack_of
from tests.solver.test_shares import changes, drawn, gpus_of_teams


def with_use(stack: Stack, hours: dict[str, int]) -> Stack:
    past = PastUse.model_validate({"until": "2026-11-01", "gpu_hours": hours})
    return stack.model_copy(update={"past_use": past})


def due(stack: Stack) -> dict[int, dict[str, int]]:
    snapshot = snapshot_of(stack, Placement())
    return {level: dict(teams) for level, teams in entitled(snapshot, possible(snapshot)).entitlements.due.items()}


def test_by_hand() -> None:
    assert counted({"a": 3, "b": 2, "c": 1}, {"a": 30, "b": 20, "c": 10}) == {"a": 1500, "b": 1000, "c": 500}
    assert counted({"a": 1, "b": 1}, {"a": 10}) == {"a": 333, "b": 1000}
    assert counted({"a": 1, "b": 1}, {"a": 30, "b": 10}) == {"a": 400, "b": 667}
    assert counted({"a": 3, "b": 1}, {}) == {"a": 3000, "b": 1000}
    assert counted({"a": 1, "b": 1000}, {"a": 10**12}) == {"a": 1, "b": 10**6}, "nobody counts nothing"


def test_no_share_is_far_from_the_formula() -> None:
    rng = random.Random(1)
    for _ in range(2000):
        shares = {name: rng.randint(1, 1000) for name in "abcde"[: rng.randint(1, 5)]}
        use = {name: rng.choice([0, 1, 7, 10**4, 10**12]) for name in shares}
        whole, used = sum(shares.values()), sum(use.values())
        for name, found in counted(shares, use).items():
            exact = Fraction(shares[name])
            if used and use[name]:
                exact /= 1 + Fraction(use[name], used) / Fraction(shares[name], whole)
            assert found == 1 or abs(Fraction(found, 1000) - exact) <= Fraction(1, 2000)


def fleet(gpus: int, **use: int) -> Stack:
    """Two teams of share 1, each of which asks for all there is."""
    jobs: dict[str, Any] = {
        f"of-{team}": {"user": f"u{team}", "replicas": gpus, "each": {"gpus": 1, "vcpus": 1, "memory": "1 GB"}} for team in "ab"
    }
    teams = {team: {"users": [f"u{team}"], "share": 1} for team in "ab"}
    nodes = {f"n{i}": {"hardware": "h100"} for i in range(gpus // 8)}
    stack = stack_of(nodes, jobs, teams=teams, limits={"user": {"gpus": 100, "vcpus": 200}})
    return with_use(stack, use) if use else stack


@pytest.mark.parametrize(
    ("use", "holds"), [({}, (8, 8)), ({"a": 30}, (4, 12)), ({"a": 50, "b": 50}, (8, 8)), ({"b": 1}, (12, 4))]
)
def test_who_used_more_gets_less_until_it_is_even(use: dict[str, int], holds: tuple[int, int]) -> None:
    stack = fleet(16, **use)
    placement = solve(stack).placement
    assert judge(stack, placement) == ()
    held = gpus_of_teams(stack, placement)
    assert (held["a"], held["b"]) == holds


def test_nothing_used_changes_nothing() -> None:
    for seed in range(60):
        stack = drawn(seed)
        assert due(with_use(stack, dict.fromkeys(stack.teams, 0))) == due(stack)
    for seed in range(8):
        before, now = changes(seed)
        last = solve(before).placement
        assert solve(with_use(now, {}), last).placement == solve(now, last).placement


def test_who_used_more_is_due_no_more() -> None:
    """And nobody else less: of teams that are beside each other and outermost."""
    seen = 0
    for seed in range(150):
        stack = drawn(seed)
        rng = random.Random(seed)
        use = {team: rng.choice([0, 10, 100]) for team in stack.teams}
        who = rng.choice([name for name, team in stack.teams.items() if team.parent is None])
        alone = {name for name, one in stack.teams.items() if one.parent is None and name != who}
        first, then = due(with_use(stack, use)), due(with_use(stack, use | {who: use[who] + 500}))
        top = max(first)  # below it what is due counts what is due above
        assert then[top].get(who, 0) <= first[top].get(who, 0)
        seen += then[top].get(who, 0) < first[top].get(who, 0) and bool(alone)
    assert seen > 5
