"""Are GPUs shared by teams as docs/solver.md says, and is nobody worse off than by the share of his team?

Cases in shares/ are worked out by hand in their comments. Drawn fleets are compared with another way to work out what is due
(`due_by_subsets`), and with every placement there is (`oracle`).
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import yaml

from swarm_iac.limits import judge
from swarm_iac.model.device import WHOLE
from swarm_iac.model.placement import Placement
from swarm_iac.model.stack import Stack
from swarm_iac.solver import Solution, solve, why
from swarm_iac.solver.explain.places.possible import possible
from swarm_iac.solver.shares.entitled import entitled
from swarm_iac.solver.snapshot.from_stack import snapshot_of
from swarm_iac.solver.snapshot.layout import GPUS
from swarm_iac.solver.snapshot.snapshot import ENDLESS
from swarm_iac.solver.snapshot.suitability import suits
from swarm_iac.solver.snapshot.value import size
from swarm_iac.units import GpuCount
from tests.solver.due_by_subsets import Due
from tests.solver.fleets import stack_of
from tests.solver.oracle import as_large, as_small, check_exact, still
from tests.stops import stops_are_due

CASES = sorted(Path(__file__).with_name("shares").glob("*.yaml"))
HARDWARE: dict[str, dict[str, Any]] = {
    name: {"gpus": f"{count} x {name.upper()}", "vcpus": 64, "memory": "99 GB"}
    for name, count in (("a", 4), ("b", 3), ("c", 2))
}


def gpus_of_teams(stack: Stack, placement: Placement) -> Counter[str]:
    """Whole GPUs that each team holds, with the teams inside it."""
    found: Counter[str] = Counter()
    for one in placement.allocations:
        for team in stack.teams_of(stack.workloads[one.workload].user):
            found[team] += len(one.gpus)
    return found


@pytest.mark.parametrize("answer", [solve, as_large, as_small], ids=["exact", "large", "without time"])
@pytest.mark.parametrize("file", CASES, ids=lambda file: file.stem)
def test_case(file: Path, answer: Callable[[Stack, Placement], Solution]) -> None:
    case: dict[str, Any] = yaml.safe_load(file.read_text())
    nodes = case.get("nodes") or {f"n{i:03}": {"hardware": case["hardware"]} for i in range(case["machines"])}
    rest = {"teams": case["teams"], "solve": case.get("solve", {}), "worth": case.get("worth", {})}
    first = {name: one for name, one in case["workloads"].items() if name in case.get("first", ())}
    last = answer(stack_of(nodes, first, **rest), Placement()).placement
    stack = stack_of(nodes, case["workloads"], **rest)
    solution, expect = answer(stack, last), case["expect"]
    assert judge(stack, solution.placement, **still(solution.placement, last)) == ()
    assert stops_are_due(stack, last, solution.placement) == ()
    snapshot = snapshot_of(stack, last)
    due = entitled(snapshot, possible(snapshot)).entitlements.due
    assert {team: due[min(due)][team] // WHOLE for team in expect.get("due", {})} == expect.get("due", {})
    held = gpus_of_teams(stack, solution.placement)
    assert {team: held[team] for team in expect["holds"]} == expect["holds"]
    assert sum(not move.target for move in solution.moves) == expect["stops"]


def drawn_teams(rng: random.Random, names: list[str], most: int) -> dict[str, Any]:
    """One user in each, some inside others; the first has a share, so that GPUs are shared."""
    teams: dict[str, Any] = {}
    for i, name in enumerate(names):
        teams[name] = {"users": [f"u{i}"]}
        teams[name] |= {"parent": rng.choice(names[:i])} if i and rng.random() < 0.35 else {}
        teams[name] |= {"share": rng.randint(1, 5)} if i == 0 or rng.random() < 0.7 else {}
        teams[name] |= {"guarantee": {"gpus": rng.randint(1, most)}} if rng.random() < 0.3 else {}
        teams[name] |= {"limits": {"gpus": rng.randint(1, 4)}} if rng.random() < 0.15 else {}
    return teams


def drawn(seed: int) -> Stack:
    """Teams one inside the other over up to three models, with limits, priorities and parts of GPUs."""
    rng = random.Random(seed)
    nodes = {f"n{i}": {"hardware": rng.choice("abc")} for i in range(rng.randint(1, 3))}
    names = [f"t{i}" for i in range(rng.randint(2, 4))]
    parts, levels = rng.random() < 0.2, ["low", "normal", "high"] if rng.random() < 0.4 else ["normal"]

    def request() -> dict[str, Any]:
        count, model = rng.choice([1, 1, 1, 2, 3]), rng.choice(["", "", "A", "B", "C", "A|B", "B|C"])
        gpus: Any = f"{count} x {model}" if model else count
        if parts and rng.random() < 0.5:
            gpus = {"count": 1, "share": rng.choice([0.25, 0.3, 0.5])}
        user = f"u{rng.randrange(len(names))}"
        each = {"gpus": gpus, "memory": "1 GB"}
        return {"user": user, "replicas": rng.randint(1, 5), "each": each, "priority": rng.choice(levels)}

    limits: dict[str, Any] = {"user": {"gpus": rng.randint(1, 4)}} if rng.random() < 0.2 else {}
    limits |= {"cluster": {"gpus": rng.randint(2, 6)}} if rng.random() < 0.15 else {}
    works = {f"w{i}": request() for i in range(rng.randint(1, 6))}
    return stack_of(nodes, works, hardware=HARDWARE, teams=drawn_teams(rng, names, 4), limits=limits)


def changes(seed: int) -> tuple[Stack, Stack]:
    """A fleet so small that every placement can be tried, and what becomes of it; most of them call back what is lent."""
    rng = random.Random(seed)
    nodes = {f"n{i}": {"hardware": rng.choice("aac")} for i in range(rng.randint(1, 2))}
    names = ["t0", "t1", "t2"][: rng.randint(2, 3)]
    teams, parts = drawn_teams(rng, names, 3), rng.random() < 0.15
    levels = ["low", "normal", "high"] if rng.random() < 0.3 else ["normal"]

    def request() -> dict[str, Any]:
        count, model = rng.choice([1, 1, 1, 2, 3]), rng.choice(["", "", "A", "C"])
        gpus: Any = f"{count} x {model}" if model else count
        if parts and rng.random() < 0.5:
            gpus = {"count": 1, "share": rng.choice([0.5, 0.3])}
        found = {"user": f"u{rng.randrange(len(names))}", "each": {"gpus": gpus, "memory": "1 GB"}}
        found |= {"priority": rng.choice(levels), "gang" if rng.random() < 0.2 else "replicas": rng.randint(1, 3)}
        return found | ({"movable": False} if rng.random() < 0.15 else {})

    works = {f"w{i}": request() for i in range(rng.randint(2, 4))}
    solving = {"reclaim": rng.random() < 0.6, "moves": rng.choice([0, 1, 4])}
    rest: dict[str, Any] = {"hardware": HARDWARE, "teams": teams, "solve": solving}
    before = stack_of(nodes, {name: one for name, one in works.items() if rng.random() < 0.7}, **rest)
    states = {name: one | {"state": rng.choice(["ready"] * 5 + ["cordon", "drain"])} for name, one in nodes.items()}
    return before, stack_of(states, works | ({"w0": request()} if rng.random() < 0.3 else {}), **rest)


def counted(stack: Stack) -> tuple[dict[str, int], int]:
    """What a GPU on each node counts, and one that counts 1: the smallest integers in these proportions."""
    worth = {
        name: Fraction(int(stack.worth.get(stack.hardware_of(name).gpus.model or "", WHOLE)), WHOLE) for name in stack.nodes
    }
    one = math.lcm(*(value.denominator for value in worth.values()))
    whole = {name: int(value * one) for name, value in worth.items()}
    common = math.gcd(one, *whole.values())
    return {name: value // common for name, value in whole.items()}, one // common


def weighted(stack: Stack, seed: int) -> Stack:
    """The same, and models are worth more or less."""
    rng = random.Random(seed)
    worth = {model: rng.choice([2, 0.5, 1.25, 3, 1, 0.3]) for model in "ABC" if rng.random() < 0.8}
    return stack.model_copy(update={"worth": {model: GpuCount.parse(each) for model, each in worth.items()}})


def check_due(stack: Stack) -> None:
    """What is due, by flows, is what sets of nodes allow."""
    snapshot = snapshot_of(stack, Placement())
    most = possible(snapshot)
    wants: dict[int, dict[str, Any]] = {one.priority: {} for one in snapshot.requests.values()}
    for name, one in snapshot.requests.items():
        for level in wants:
            wants[level].setdefault(one.user, [])
        hosts = [host for host in snapshot.nodes.values() if suits(one, host) and host.capacity[GPUS] >= one.need[GPUS]]
        if most[name]:
            wants[one.priority][one.user].append((frozenset(host.name for host in hosts), size(one) * most[name]))
    limits = {f"user {user}": stack.limits.of_user(user).limit("gpus") for user in stack.users()}
    limits |= {f"team {name}": stack.limits.of_team(name, team).limit("gpus") for name, team in stack.teams.items()}
    limits["cluster"] = stack.limits.cluster.limit("gpus")
    unit = 1 if any(one.shared for one in snapshot.requests.values()) else WHOLE
    gpus = {name: host.capacity[GPUS] * WHOLE for name, host in snapshot.nodes.items()}
    weights, one = counted(stack)
    tops = dict.fromkeys(limits, 1)
    for ones in wants.values():
        for user, asked in ones.items():
            for suit, _ in asked:
                for scope in ("cluster", f"user {user}", *(f"team {team}" for team in stack.teams_of(user))):
                    tops[scope] = max([tops[scope], *(weights[node] for node in suit)])
    most_of = {name: ENDLESS if limit is None else limit * tops[name] for name, limit in limits.items()}
    due = Due(stack, gpus, most_of, unit * math.gcd(*weights.values()), weights, one)
    assert entitled(snapshot, most).entitlements.due == due.of(wants)


def check_stops(seed: int) -> None:
    """On the paths that search less, too: nothing is stopped that its team has a right to, and no bound is too low."""
    before, now = changes(seed)
    last = solve(before).placement
    for answer in (as_large, as_small):
        solution = answer(now, last)
        assert judge(now, solution.placement, **still(solution.placement, last)) == ()
        assert stops_are_due(now, last, solution.placement) == ()
        assert all(goal.value <= goal.bound for goal in solution.proof.goals if "share" in goal.name)


@pytest.mark.parametrize(
    "seeds", [range(150), pytest.param(range(150, 6000), marks=pytest.mark.slow)], ids=["some", "thousands"]
)
def test_what_is_due_equals_what_sets_of_nodes_allow(seeds: range) -> None:
    for seed in seeds:
        check_due(drawn(seed))


@pytest.mark.parametrize(
    "seeds", [range(100), pytest.param(range(100, 4000), marks=pytest.mark.slow)], ids=["some", "thousands"]
)
def test_what_is_due_by_worth_equals_what_sets_of_nodes_allow(seeds: range) -> None:
    for seed in seeds:
        check_due(weighted(drawn(seed), seed))


@pytest.mark.parametrize("seeds", [range(12), pytest.param(range(12, 1500), marks=pytest.mark.slow)], ids=["some", "thousands"])
def test_no_placement_has_more_of_what_is_due(seeds: range) -> None:
    for seed in seeds:
        check_exact(*changes(seed))


@pytest.mark.parametrize("seeds", [range(16), pytest.param(range(16, 800), marks=pytest.mark.slow)], ids=["some", "thousands"])
def test_no_placement_has_more_of_what_is_due_by_worth(seeds: range) -> None:
    for seed in seeds:
        before, now = changes(seed)
        check_exact(weighted(before, seed), weighted(now, seed), proven=False)


def test_worths_that_are_all_one_change_nothing() -> None:
    for seed in range(10):
        before, now = changes(seed)
        last = solve(before).placement
        same = now.model_copy(update={"worth": dict.fromkeys("ABC", GpuCount(WHOLE))})
        assert solve(same, last) == solve(now, last)


@pytest.mark.parametrize("seeds", [range(12), pytest.param(range(12, 600), marks=pytest.mark.slow)], ids=["some", "thousands"])
def test_nothing_is_stopped_that_its_team_has_a_right_to(seeds: range) -> None:
    for seed in seeds:
        check_stops(seed)


NODES: dict[str, Any] = {"a": {}, "b": {}, "c": {}}
TEAMS = {"vision": {"users": ["ada"], "share": 3}, "text": {"users": ["cy"], "share": 1}}
JOBS: dict[str, Any] = {
    "see": {"user": "ada", "replicas": 20, "each": {"gpus": 1}},
    "read": {"user": "cy", "replicas": 24, "each": {"gpus": 1}},
}


def lent(**rest: Any) -> tuple[Stack, Placement]:
    """text has all 24 GPUs, and then vision asks, to which 18 are due."""
    last = solve(stack_of(NODES, {"read": JOBS["read"]}, teams=TEAMS)).placement
    return stack_of(NODES, JOBS, teams=TEAMS, **rest), last


def test_who_waits_is_told_what_is_lent_and_how_to_call_it_back() -> None:
    stack, last = lent()
    found = solve(stack, last).placement
    answer = why(stack, found, "see", last=last)
    assert [(one.text, one.path) for one in answer.reasons if one.rule == "share"] == [
        (
            "team vision holds 0 GPUs and is due 18; the rest is lent to team text (24, due 6); "
            "what is lent is not called back while it runs (`solve.reclaim: false`)",
            "solve.reclaim",
        )
    ]
    assert stops_are_due(stack, last, found) == ()


def test_who_is_called_back_is_told_for_whom() -> None:
    stack, last = lent(solve={"reclaim": True})
    solution = solve(stack, last)
    text = "lent to team text, which held 24 GPUs and is due 6: called back for team vision (18, due 18)"
    assert {move.why for move in solution.moves} == {text} and len(solution.moves) == 18
    moved = why(stack, solution.placement, "read", last=last).moved
    assert all(
        one.text.endswith(f"because of {one.text.split('because of ')[1].split(';')[0]}; it was {text}") for one in moved
    )
    waits = why(stack, solution.placement, "read", last=last).reasons
    assert "team text holds 6 GPUs and is due 6; beside it team vision (18, due 18)" in [one.text for one in waits]


def test_who_lost_a_node_is_told_for_whom_something_is_called_back() -> None:
    """A team holds no more than before then, and still it is for that team."""
    jobs = {"see": JOBS["see"] | {"replicas": 8}, "read": JOBS["read"] | {"replicas": 16}}
    rest: dict[str, Any] = {"teams": TEAMS, "solve": {"reclaim": True}}
    last = solve(stack_of(NODES, jobs, **rest)).placement
    (home,) = {one.node for one in last.allocations if one.workload == "see"}
    solution = solve(stack_of(NODES | {home: {"state": "lost"}}, jobs, **rest), last)
    stopped = [move.why for move in solution.moves if not move.target]
    assert stopped == ["lent to team text, which held 16 GPUs and is due 8: called back for team vision (8, due 8)"] * 8


@pytest.mark.parametrize("answer", [solve, as_large, as_small], ids=["exact", "large", "without time"])
def test_a_guarantee_stops_nobody_for_an_equal_of_the_same_team(answer: Callable[[Stack, Placement], Solution]) -> None:
    """`new` would fit beside what is left of `cpu`, and that it comes in place of `low` is no reason to stop `cpu`."""

    def job(priority: str, vcpus: int, gpus: int = 1) -> dict[str, Any]:
        return {"user": "ada", "priority": priority, "each": {"gpus": gpus, "vcpus": vcpus}}

    jobs = {"cpu": job("high", 4, 0), "kept": job("normal", 4), "low": job("low", 2)}
    rest: dict[str, Any] = {
        "teams": {"vision": {"users": ["ada"], "guarantee": {"gpus": 2}}, "text": {"users": ["cy"], "share": 1}},
        "limits": {"user": {"vcpus": 10}},
    }
    last = answer(stack_of(NODES, jobs, **rest), Placement()).placement
    solution = answer(stack_of(NODES, jobs | {"new": job("high", 5)}, **rest), last)
    assert len(last.allocations) == 3 and solution.moves == ()


def test_who_waits_for_what_is_guaranteed_is_told_so() -> None:
    """`read` is of a higher priority; that five GPUs of vision stay has its line, in what is pending and in `why`."""
    teams = TEAMS | {"vision": {"users": ["ada"], "guarantee": {"gpus": 5}}}
    jobs = {"see": {"user": "ada", "replicas": 8, "each": {"gpus": 1}}}
    last = solve(stack_of({"a": {}}, jobs, teams=teams)).placement
    stack = stack_of({"a": {}}, jobs | {"read": JOBS["read"] | {"priority": "high", "replicas": 8}}, teams=teams)
    found = solve(stack, last).placement
    text = "team vision holds 5 GPUs and is guaranteed 5: see is not stopped for a higher priority"
    (pending,) = (one for one in found.unplaced if one.workload == "read")
    answer = why(stack, found, "read", last=last)
    for reasons in (pending.reasons, answer.reasons):
        assert (text, "teams.vision.guarantee") in [(one.text, one.path) for one in reasons]
        assert not any("cannot preempt" in one.text for one in reasons), "see is of a lower priority"
    (fix,) = [one for one in answer.fixes if str(one.edits[0]) == "teams.vision.guarantee.gpus=0"]
    assert len(fix.stops) == 8, "tried from the placement before"


def test_calling_back_is_a_fix_that_was_tried() -> None:
    last = solve(stack_of(NODES, {"read": JOBS["read"]}, teams=TEAMS)).placement
    stack = stack_of(NODES, JOBS | {"see": JOBS["see"] | {"replicas": 18}}, teams=TEAMS)
    answer = why(stack, solve(stack, last).placement, "see")
    (fix,) = [one for one in answer.fixes if str(one.edits[0]) == "solve.reclaim=true"]
    assert len(fix.stops) == 18


def test_the_judge_sees_what_a_solver_may_not_stop() -> None:
    stack, last = lent()
    called = solve(stack_of(NODES, JOBS, teams=TEAMS, solve={"reclaim": True}), last).placement
    assert {one.rule for one in stops_are_due(stack, last, called)} == {"equals_are_not_stopped"}
    guaranteed = TEAMS | {"text": TEAMS["text"] | {"guarantee": {"gpus": 9}}}
    broken = stops_are_due(stack_of(NODES, JOBS, teams=guaranteed, solve={"reclaim": True}), last, called)
    assert [(one.rule, one.subject, one.path) for one in broken] == [("guarantees_are_kept", "text", "teams.text.guarantee")]
    richer = TEAMS | {"text": TEAMS["text"] | {"share": 9}}
    broken = stops_are_due(stack_of(NODES, JOBS, teams=richer, solve={"reclaim": True}), last, called)
    assert {(one.rule, one.subject) for one in broken} == {("shares_are_kept", "text")}


def test_a_stack_without_shares_has_no_goal_about_them() -> None:
    teams = {"vision": {"users": ["ada"]}, "text": {"users": ["cy"]}}
    stack = stack_of(NODES, JOBS, teams=teams, solve={"reclaim": True})
    plain = solve(stack_of(NODES, JOBS))
    found = solve(stack)
    assert found.placement.allocations == plain.placement.allocations and found.proof.goals == plain.proof.goals


@pytest.mark.parametrize("answer", [solve, as_large, as_small], ids=["exact", "large", "without time"])
def test_nobody_without_gpus_is_stopped_for_a_share(answer: Callable[[Stack, Placement], Solution]) -> None:
    """The cores that a second replica of `see` needs are those of `count`, which holds no GPU and so was lent none."""
    hardware = {"a": {"gpus": "4 x A", "vcpus": 64, "memory": "99 GB"}}
    teams = {"vision": {"users": ["bo"], "share": 1}, "text": {"users": ["ada"], "share": 1}}
    works: dict[str, Any] = {"see": {"user": "bo", "each": {"gpus": 1, "vcpus": 8}}, "count": {"each": {"vcpus": 50}}}
    rest: dict[str, Any] = {"teams": teams, "hardware": hardware, "solve": {"reclaim": True}}
    last = answer(stack_of({"n": {"hardware": "a"}}, works, **rest), Placement()).placement
    works["see"] = works["see"] | {"replicas": 2}
    found = answer(stack_of({"n": {"hardware": "a"}}, works, **rest), last).placement
    assert {one.name for one in found.allocations} == {"see-0", "count-0"}


@pytest.mark.parametrize("answer", [solve, as_small], ids=["exact", "without time"])
def test_nothing_stops_for_an_equal_from_a_drained_node(answer: Callable[[Stack, Placement], Solution]) -> None:
    jobs: dict[str, Any] = {
        "stays": {"user": "cy", "each": {"gpus": 4}, "place": {"select": {"room": "old"}}},
        "leaves": {"user": "cy", "each": {"gpus": 8}},
    }
    nodes: dict[str, Any] = {"a": {"labels": {"room": "old"}}, "b": {}}
    teams = {"vision": {"users": ["ada"], "share": 1}, "text": {"users": ["cy"]}}
    last = answer(stack_of(nodes, jobs, teams=teams, solve={"reclaim": True}), Placement()).placement
    assert {(one.workload, one.node) for one in last.allocations} == {("stays", "a"), ("leaves", "b")}
    drained = nodes | {"b": {"state": "drain"}}
    solution = answer(stack_of(drained, jobs, teams=teams, solve={"reclaim": True}), last)
    assert [one.workload for one in solution.placement.allocations] == ["stays"]
    assert [one.workload for one in solution.placement.unplaced] == ["leaves"]


def test_of_teams_inside_each_other_those_are_named_that_keep_it_out() -> None:
    """The team around both has all that it is due; what one of them lacks, the other one holds."""
    teams = {
        "science": {"share": 1}, "vision": {"users": ["ada"], "parent": "science"},
        "speech": {"users": ["bo"], "parent": "science"}, "product": {"users": ["cy"], "share": 1},
    }  # fmt: skip
    v, s, p = ({"user": user, "replicas": 4, "each": {"gpus": 1}} for user in ("ada", "bo", "cy"))

    def of_shares(last: dict[str, Any], **works: Any) -> dict[str, list[str]]:
        before = solve(stack_of({"a": {}}, last, teams=teams)).placement if last else Placement()
        gone = solve(stack_of({"a": {}}, works, teams=teams), before).placement.unplaced
        return {one.workload: [reason.text for reason in one.reasons if reason.rule == "share"] for one in gone}

    found = of_shares({"v": v, "p": p}, v=v, p=p, s=s)
    assert found["s"] == [
        "team speech holds 0 GPUs and is due 2; the rest is lent to team vision (4, due 2); what is lent is not called "
        "back while it runs (`solve.reclaim: false`)"
    ]
    found = of_shares({}, v=v, p=p | {"replicas": 5}, s=s)
    outer = "team science holds 4 GPUs and is due 4; beside it team product (4, due 4)"
    assert found["v"] == ["team vision holds 2 GPUs and is due 2; beside it team speech (2, due 2)", outer]
    assert found["p"] == ["team product holds 4 GPUs and is due 4; beside it team science (4, due 4)"]
