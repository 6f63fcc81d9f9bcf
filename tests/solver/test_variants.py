"""Is the variant of each workload the best choice there is, is it kept while it runs, and taken again once it fits?"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import yaml

from swarm_iac.limits import judge
from swarm_iac.model.placement import Placement
from swarm_iac.model.service.variants import applied, at, choice, chosen
from swarm_iac.model.stack import Stack
from swarm_iac.solver import Scale, Solution, Watch, solve_declared, solve_keeping
from swarm_iac.solver.decide import large, variants
from swarm_iac.solver.decide.keep_size import keeping
from swarm_iac.solver.decide.proofs import with_shares_of
from swarm_iac.solver.repair.ruin_recreate import value
from swarm_iac.solver.snapshot.from_stack import snapshot_of
from swarm_iac.solver.snapshot.tasks import Pairs
from swarm_iac.stackfile import loads
from tests.benchmarks import mixed
from tests.solver.fleets import HARDWARE, stack_of
from tests.solver.oracle import accepted, best, every, reached, still, with_shares

NODE = {"hardware": "small"}
SMALL = HARDWARE | {"small": {"gpus": "4 x H100", "vcpus": 16, "memory": "64 GB", "nvme": "1 TB", "nic": "10 Gbit/s"}}
ROLL = {"kind": "serve", "on_update": "roll"}
LEVELS = ("high", "normal", "low")


def fleet(works: dict[str, dict[str, Any]], nodes: int = 1, **rest: Any) -> Stack:
    return stack_of({f"n{i}": NODE for i in range(nodes)}, works, hardware=SMALL, **rest)


def forms(*gpus: int, worth: tuple[float, ...] = (1, 0.9, 0.5)) -> dict[str, Any]:
    """Variants that differ in their GPUs, the first preferred."""
    return {f"v{i}": {"worth": worth[i], "each": {"gpus": count}} for i, count in enumerate(gpus)}


def work(gpus: int, **more: Any) -> dict[str, Any]:
    return {"each": {"gpus": gpus}, **more}


def varying(*gpus: int, **more: Any) -> dict[str, Any]:
    return {"each": {"vcpus": 1}, "variants": forms(*gpus), **more}


def drawn(rng: random.Random, ways: list[dict[str, Any]]) -> dict[str, Any]:
    """A workload with two variants, that changes them in one of these ways."""
    return varying(*sorted(rng.sample(range(5), 2), reverse=True), **rng.choice(ways))


def of(stack: Stack, solution: Solution) -> dict[str, str]:
    return choice(stack, solution.placement)


def after(stack: Stack, last: Solution) -> Solution:
    return solve_declared(stack, last.placement)[1]


# What is chosen, against every choice and every placement there is.


def outer(stack: Stack, taken: dict[str, str], counts: Pairs) -> tuple[Any, ...]:
    """What is worse about a choice when nothing ran before, from the equations in docs/solver.md."""
    found: list[Any] = []
    placed: Counter[str] = Counter()
    for (name, _), count in counts.items():
        placed[name] += count
    for level in LEVELS:
        gpus = parts = Fraction(0)
        lost = rank = 0
        for name, one in stack.workloads.items():
            now = at(one, taken[name]) if one.variants else one
            first = at(one, next(iter(one.variants))) if one.variants else one
            part = Fraction(max(0, now.members - placed[name]), now.members)
            if one.needs:
                speed = {n: one.speed[stack.hardware_of(n).gpus.model or ""].amount for n in stack.nodes}
                done = sum(speed[node] * count for (other, node), count in counts.items() if other == name)
                slow = part == 0 and done < one.needs.amount
                part = Fraction(1) if slow else Fraction(max(0, one.needs.amount - done), one.needs.amount)
            if one.priority == level:
                parts += part
                gpus += part * first.members * first.each.gpus.count
            if one.variants and (one.lighter_for or one.priority) == level:
                worths = {key: int(each.worth) for key, each in one.variants.items()}
                lost += next(iter(worths.values())) - worths[taken[name]]
                rank += list(one.variants).index(taken[name])
        found += [gpus, parts, lost, rank]
    return tuple(found)


def within(stack: Stack) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """The least score of all choices: with the best and with the worst of the placements that the goals do not tell apart."""
    names = [name for name, one in stack.workloads.items() if one.variants]
    ends = []
    for pick in itertools.product(*(stack.workloads[name].variants for name in names)):
        taken = dict(zip(names, pick, strict=True))
        now = chosen(stack, taken)
        top = best(now, Placement())
        alike = [counts for values, _, counts in every(now, Placement()) if values == top]
        scores = []
        for counts in alike:
            if accepted(now, Placement(), counts):
                scores.append(outer(stack, taken, counts))
        ends.append((min(scores), max(scores)))
    return min(one for one, _ in ends), min(one for _, one in ends)


#: What else a workload may say, alone and in pairs with variants.
BESIDE: list[dict[str, Any]] = [
    {}, {"gang": 2}, {"replicas": 2}, {"place": {"spread": "node"}, "replicas": 2}, {"priority": "high"}, {"priority": "low"},
    {"lighter_for": "low"}, {"place": {"apart": "node"}}, {"replicas": 2, "place": {"per_node": 1}},
]  # fmt: skip


@pytest.mark.parametrize("seed", range(40))
def test_no_choice_of_variants_is_better(seed: int) -> None:
    rng = random.Random(seed)
    works = {}
    for i in range(rng.randint(2, 3)):
        gpus = tuple(sorted(rng.sample(range(5), rng.randint(2, 3)), reverse=True))
        beside = BESIDE[seed % len(BESIDE)] if i == 0 else rng.choice(BESIDE)
        varied = i == 0 or rng.random() < 0.6
        plain = {key: value for key, value in beside.items() if key != "lighter_for"}
        works[f"w{i}"] = varying(*gpus, **beside) if varied else work(rng.randint(1, 4), **plain)
    limits = {"user": {"gpus": rng.randint(3, 8)}} if rng.random() < 0.3 else {}
    stack = fleet(works, nodes=rng.randint(1, 2), **({"limits": limits} if limits else {}))
    now, found = solve_declared(stack, Placement())
    assert judge(now, found.placement) == ()
    assert now == applied(stack, found.placement)
    placed = Counter(one.workload for one in found.placement.allocations)
    counts = reached(found)
    least, most = within(stack)
    taken = of(stack, found)
    # What has no place asks for its first variant, whatever it was left out in.
    left = [name for name in taken if not placed[name]]
    picks = itertools.product(*(stack.workloads[name].variants for name in left))
    assert any(least <= outer(stack, taken | dict(zip(left, pick, strict=True)), counts) <= most for pick in picks)
    assert all(taken[name] == "v0" for name in left)
    assert "excluded" not in str(found.proof.parameters["variants"])


def test_many_choices_are_raised_one_after_the_other_and_said_to_be_unproven() -> None:
    works = {f"w{i}": varying(2, 1) for i in range(12)} | {"big": work(4, replicas=2)}
    stack = fleet(works, nodes=5)
    _, found = solve_declared(stack, Placement())
    assert not found.placement.unplaced, "12 of one GPU and two of four are 20 of 20"
    assert not found.proof.optimal and "not excluded" in str(found.proof.parameters["variants"])


def test_where_the_lightest_is_worse_one_after_the_other_is_made_lighter_that_has_no_place() -> None:
    """Nothing is idle that a variant asks for: lighter ones of high priority lose their worth, and make nobody fit."""
    models = {"v0": {"each": {"gpus": "1 x H100"}}, "v1": {"each": {"gpus": "1 x A100"}, "worth": 0.5}}
    large = {"v0": {"each": {"gpus": "2 x H100"}}, "v1": {"each": {"gpus": "1 x H100"}, "worth": 0.9}}
    works: dict[str, dict[str, Any]] = {
        f"h{i}": {"priority": "high", "each": {"vcpus": 1}, "variants": large} for i in range(2)
    } | {"n": {"each": {"gpus": "4 x H100"}}}
    works |= {f"z{i}": {"priority": "low", "each": {"vcpus": 1}, "variants": models} for i in range(5)}
    shapes = SMALL | {"other": SMALL["small"] | {"gpus": "8 x A100"}}
    stack = stack_of({"n0": NODE, "n1": {"hardware": "other"}}, works, hardware=shapes)
    _, found = solve_declared(stack, Placement())
    assert [one.workload for one in found.placement.unplaced] == ["n"]
    assert of(stack, found) == {"h0": "v0", "h1": "v0"} | {f"z{i}": "v1" for i in range(5)}


# What is kept, and what is taken again.


def test_a_stack_without_variants_is_solved_as_before() -> None:
    stack = fleet({"a": work(2), "b": work(3)})
    assert solve_declared(stack, Placement()) == solve_keeping(stack, Placement())
    assert solve_declared(stack, Placement())[0] is stack


@pytest.mark.parametrize("seed", range(25))
def test_solving_twice_changes_nothing(seed: int) -> None:
    rng = random.Random(seed)
    ways: list[dict[str, Any]] = [
        ROLL,
        {"kind": "serve"},
        {"kind": "train"},
        {"kind": "train", "on_variant": "now"},
        {"kind": "serve", "replicas": 2},
    ]
    works = {f"w{i}": drawn(rng, ways) for i in range(4)}
    stack = fleet(works, nodes=2)
    first = solve_declared(stack, Placement())[1]
    again = after(stack, first)
    assert again.placement.allocations == first.placement.allocations and not again.moves
    assert of(stack, again) == of(stack, first)


@pytest.mark.parametrize("seed", range(40))
def test_nothing_that_runs_restarts_for_a_variant_unless_that_places_more_or_it_is_preferred(seed: int) -> None:
    """Something comes, grows or goes beside four that run. Compared by hand with what is allowed, not with the score."""
    rng = random.Random(seed)
    ways: list[dict[str, Any]] = [
        ROLL,
        {"kind": "serve"},
        {"kind": "train"},
        {"kind": "train", "on_variant": "now"},
        {"kind": "batch"},
    ]
    works = {f"w{i}": drawn(rng, ways) for i in range(3)}
    works["plain"] = work(rng.randint(1, 3))
    before = fleet(works, nodes=2)
    first = solve_declared(before, Placement())[1]
    if rng.random() < 0.5:
        del works["plain"]
    else:
        works["new"] = work(rng.randint(1, 4), priority=rng.choice(["normal", "low"]))
    stack = fleet(works, nodes=2)
    now, found = solve_declared(stack, first.placement)
    assert judge(now, found.placement, **still(found.placement, first.placement)) == ()
    was, taken, ran = of(before, first), of(stack, found), {one.workload for one in first.placement.allocations}
    ones, old = found.placement.by_name(), first.placement.by_name()
    for name in was:
        index = [list(stack.workloads[name].variants).index(each[name]) for each in (was, taken)]
        if name not in ran:
            continue
        assert all(one.name in ones for one in first.placement.allocations if one.workload == name), "equals are not stopped"
        way = stack.workloads[name].changes_variant
        if index[1] > index[0]:  # lighter: it may, and somebody has more by it
            kept = solve_keeping(
                chosen(stack, was | {other: taken[other] for other in taken if other not in ran}), first.placement
            )
            assert way == "now"
            assert len(found.placement.unplaced) < len(kept[1].placement.unplaced) or kept[1].placement.growing
        elif index[1] < index[0]:
            assert way != "restart"
        else:
            assert all(ones[one.name].gpus == one.gpus for one in old.values() if one.workload == name)


def test_a_preferred_variant_is_taken_again_only_if_nothing_else_moves_or_stops() -> None:
    """w fits as v0 only if `small` moved to the other node: that is not done for a preference."""
    works = {"w": varying(3, 1, **ROLL), "big": work(3), "small": work(2)}
    first = solve_declared(fleet(works, nodes=2), Placement())[1]
    assert of(fleet(works, nodes=2), first)["w"] == "v1"
    node = next(one.node for one in first.placement.allocations if one.workload == "big")
    less = {name: one for name, one in works.items() if name != "big"} | {"other": work(2, place={"select": {"k": node}})}
    stack = stack_of({f"n{i}": NODE | {"labels": {"k": f"n{i}"}} for i in range(2)}, less, hardware=SMALL)
    found = after(stack, first)
    before, now = first.placement.by_name(), found.placement.by_name()
    assert before["small-0"] == now["small-0"] and not found.moves
    gone = solve_declared(fleet({"w": works["w"], "small": work(2)}, nodes=1), Placement())
    assert gone[1].placement.lighter, "3 and 2 do not fit 4"


def test_it_is_taken_again_with_a_restart_where_that_is_allowed_and_else_when_it_starts_anyway() -> None:
    for way, again in (({"on_update": "roll"}, True), ({"on_update": "surge"}, True), ({"on_update": "recreate"}, False)):
        works = {"w": varying(2, 1, kind="serve", **way), "b": work(3)}
        first = solve_declared(fleet(works), Placement())[1]
        assert of(fleet(works), first) == {"w": "v1"}
        alone = fleet({"w": works["w"]})
        found = after(alone, first)
        assert of(alone, found) == {"w": "v0" if again else "v1"}
        if not again:
            (reason,) = found.placement.lighter[0].reasons
            assert reason.rule == "restarts_only_anyway"
            drained = stack_of({"n0": NODE | {"state": "drain"}, "n1": NODE}, {"w": works["w"]}, hardware=SMALL)
            assert of(drained, after(drained, found)) == {"w": "v0"}, "it starts anyway"


def test_a_service_that_surges_returns_only_where_one_replica_more_fits() -> None:
    works = {"w": varying(2, 1, kind="serve"), "b": work(3)}
    first = solve_declared(fleet(works), Placement())[1]
    stack = fleet({"w": works["w"], "b": work(2)})  # 2 of 4 GPUs are free of others: w fits as v0, but not beside its old self
    assert of(stack, after(stack, first)) == {"w": "v1"}
    stack = fleet({"w": works["w"], "b": work(1)})
    assert of(stack, after(stack, first)) == {"w": "v0"}


def test_a_job_that_ended_is_not_run_again_in_another_variant() -> None:
    works = {"w": varying(2, 1, kind="batch"), "b": work(3)}
    first = solve_declared(fleet(works), Placement())[1]
    ones = tuple(one.released() if one.workload == "w" else one for one in first.placement.allocations)
    stack = fleet({"w": works["w"]})
    _, found = solve_declared(stack, first.placement.model_copy(update={"allocations": ones}))
    assert of(stack, found) == {"w": "v1"} and [one.ended for one in found.placement.allocations] == [True]


def test_a_lower_priority_makes_nothing_lighter_unless_it_may() -> None:
    for more, variant in (({}, "v0"), ({"lighter_for": "low"}, "v1")):
        stack = fleet({"w": varying(2, 1, **more), "b": work(3, priority="low")})
        assert of(stack, solve_declared(stack, Placement())[1]) == {"w": variant}


def test_of_two_the_one_that_loses_less_worth_is_lighter() -> None:
    a, b = varying(2, 1), varying(2, 1) | {"variants": forms(2, 1, worth=(1, 0.95))}
    for works in ({"a": a, "b": b}, {"b": b, "a": a}):
        stack = fleet(works | {"c": work(1)})
        assert of(stack, solve_declared(stack, Placement())[1]) == {"a": "v0", "b": "v1"}


def test_it_says_who_would_be_pending_and_what_keeps_the_first_out() -> None:
    stack = fleet({"w": varying(2, 1), "b": work(3)})
    (one,) = solve_declared(stack, Placement())[1].placement.lighter
    assert (one.variant, one.instead_of) == ("v1", ("v0",))
    assert [reason.rule for reason in one.reasons][:2] == ["lighter_places_more", "gpus_fit_node"]
    assert one.reasons[0].text in ("with w in v0, b would be pending", "in v0 it would be pending")


def test_another_layout_of_a_gang_is_a_variant() -> None:
    layout = {"tp4": {"gang": 1, "each": {"gpus": 4}}, "tp2": {"worth": 0.9, "gang": 2, "each": {"gpus": 2}}}
    stack = fleet(
        {"w": {"kind": "train", "gang": 1, "each": {"vcpus": 1}, "variants": layout}, "b": work(2, replicas=2)}, nodes=2
    )
    now, found = solve_declared(stack, Placement())
    assert not found.placement.unplaced or of(stack, found) == {"w": "tp4"}
    taken = stack_of(
        {"n0": NODE, "n1": NODE},
        {"w": stack.workloads["w"].model_dump(exclude_unset=True), "b": work(2, replicas=2, place={"spread": "node"})},
        hardware=SMALL,
    )
    now, found = solve_declared(taken, Placement())
    assert of(taken, found) == {"w": "tp2"} and now.workloads["w"].members == 2 and not found.placement.unplaced


def test_tries_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    count = 0

    def counted(*args: Any, **keys: Any) -> Any:
        nonlocal count
        count += 1
        return keeping(*args, **keys)

    monkeypatch.setattr(variants, "keeping", counted)
    solve_declared(fleet({f"w{i}": varying(4, 3, 2) for i in range(8)}, nodes=2), Placement())
    assert count <= variants.TRIES["normal"]


def test_what_would_interrupt_all_that_runs_is_not_even_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    works = {f"w{i}": varying(2, 1, kind="batch") for i in range(13)}
    first = solve_declared(fleet(works, nodes=7), Placement())[1]
    tried = []

    def watched(stack: Stack, *args: Any, **keys: Any) -> Any:
        tried.append(sum(one.each.gpus.count == 1 for one in stack.workloads.values()))
        return keeping(stack, *args, **keys)

    monkeypatch.setattr(variants, "keeping", watched)
    solution = after(fleet(works | {"b": work(4)}, nodes=7), first)
    assert [one.workload for one in solution.placement.unplaced] == ["b"] and solution.moves == ()
    assert max(tried) < 13, tried


@pytest.mark.parametrize("ends", ["improved", "by hand", "in an error"])
def test_the_choice_that_is_taken_is_improved_on_a_large_fleet(ends: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C as it begins, or an error, leaves what was found, and not what a greedy pass places."""
    stack = loads(yaml.safe_dump(mixed.stack(400, 7, "quick"), sort_keys=False), Path("stacks/mixed.yaml"), today=None).stack
    monkeypatch.setattr(Scale, "large", lambda self, snapshot: True)
    chosen: list[variants.Tried] = []
    improved = variants.VariantSearch.improved

    def begins(self: variants.VariantSearch, best: variants.Tried) -> variants.Tried:
        chosen.append(best)
        return improved(self, best)

    def phase(text: str) -> None:
        if ends == "by hand" and chosen:
            watch.stop()

    def fails(*args: Any) -> Any:
        raise RuntimeError("no exchange")

    if ends == "in an error":
        monkeypatch.setattr(large, "exchanged", fails)
    monkeypatch.setattr(variants.VariantSearch, "improved", begins)
    watch = Watch(phase=phase)
    now, found = solve_declared(stack, Placement(), watch=watch)
    (best,) = chosen
    assert judge(now, found.placement) == ()
    before, after = (
        value(snapshot_of(now, Placement()), Counter((one.workload, one.node) for one in each.placement.allocations))
        for each in (best.solution, found)
    )
    assert after > before if ends == "improved" else after == before
    counts: Pairs = Counter((one.workload, one.node) for one in found.placement.allocations)
    goals = {goal.name: goal for goal in found.proof.goals}
    assert with_shares_of(with_shares(now, Placement()), counts, goals) == goals, "teams hold what the proof says"
    assert ("no exchange" in str(found.proof.parameters.get("failed"))) == (ends == "in an error")
