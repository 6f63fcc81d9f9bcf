"""Are MIG instances placed by the positions that a card has, and does what runs keep its own?"""

from __future__ import annotations

import functools
import itertools
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swarm_iac.limits import judge
from swarm_iac.model.gpus.mig import PROFILES, SLICES, part_of, profiles_of
from swarm_iac.model.placement import Placement
from swarm_iac.model.stack import Stack
from swarm_iac.solver import Solution, solve, solve_keeping
from swarm_iac.solver.packing.mig_instances import CardKind, new_cards, spots
from tests.solver.fleets import stack_of

COMPUTE = {4: 4, 8: 7}


def job(gpus: str | int, **more: Any) -> dict[str, Any]:
    return {"each": {"gpus": gpus, "vcpus": 1, "memory": "1 GB"}, **more}


def lab(cards: int = 1, moves: int = 4, nodes: int = 1, mig: bool = True, **jobs: dict[str, Any]) -> Stack:
    """Nodes with so many H100 each, of 80 GB."""
    shape = {"gpus": f"{cards} x H100", "vcpus": 64, "memory": "512 GB", "mig": mig}
    names = {f"n{i}": {"hardware": "h"} for i in range(nodes)}
    return stack_of(names, jobs, hardware={"h": shape}, solve={"moves": moves})


def held(solution: Solution) -> dict[str, list[str]]:
    return {a.name: [str(one) for one in a.gpus] for a in solution.placement.allocations}


def reasons(solution: Solution) -> str:
    return " ".join(reason.text for one in solution.placement.unplaced for reason in one.reasons)


@pytest.mark.parametrize(("model", "memory"), PROFILES)
def test_what_has_its_memory_slices_has_its_compute_slices(model: str, memory: int) -> None:
    """Whatever lies side by side on a card: so positions are all that has to be counted."""
    found = profiles_of(model, memory * 10**9)
    of = next(iter(found.values())).of
    places = [(int(name[0]), range(one.start, one.stop)) for name, profile in found.items() for one in (
        range(start, start + profile.size) for start in profile.starts)]  # fmt: skip
    ways = [(0, frozenset[int]())]
    for compute, slices in places:
        ways += [(used + compute, taken | {*slices}) for used, taken in ways if taken.isdisjoint(slices)]
    assert max(used for used, _ in ways) == COMPUTE[of] and max(len(taken) for _, taken in ways) <= of


def test_figures_of_the_guide() -> None:
    """As NVIDIA has them: instances of one profile on one card."""
    most = {name: new_most("H100", 80, name) for name in profiles_of("H100", 80 * 10**9)}
    assert most == {"1g.10gb": 7, "1g.20gb": 4, "2g.20gb": 3, "3g.40gb": 2, "4g.40gb": 1, "7g.80gb": 1}
    assert {name: new_most("A30", 24, name) for name in ("1g.6gb", "2g.12gb", "4g.24gb")} == {
        "1g.6gb": 4, "2g.12gb": 2, "4g.24gb": 1,
    }  # fmt: skip
    assert (part_of("A100", "1g.10gb"), part_of("A100", "1g.5gb"), part_of("H100|A100", "1g.12gb")) == (125, 125, 0)


def new_most(model: str, memory: int, name: str) -> int:
    kind = model, memory * 10**9
    return next(n for n in range(9) if new_cards(kind, (), {name: n + 1}) > 1)


def test_positions_are_in_the_lock_and_the_judge_accepts_them() -> None:
    stack = lab(
        2, large=job("1 x H100/3g.40gb", replicas=2), mid=job("1 x H100/2g.20gb", replicas=2), small=job("3 x H100/1g.10gb")
    )
    found = solve(stack)
    assert not found.placement.unplaced and found.proof.optimal and judge(stack, found.placement) == ()
    assert len({one for ones in held(found).values() for one in ones}) == 7


def test_compute_slices_would_suffice_and_memory_slices_do_not() -> None:
    """3g, 3g and 1g: seven of seven, and nine of eight."""
    found = solve(lab(large=job("1 x H100/3g.40gb", replicas=2, priority="high"), small=job("1 x H100/1g.10gb")))
    assert [one.workload for one in found.placement.unplaced] == ["small"] and found.proof.optimal
    assert "the most that is free of a card is 0/8 of its memory" in reasons(found)


def apart(moves: int) -> tuple[Stack, Placement]:
    """One small instance in each half of the only card, as what came and went has left them; then half a card is wanted."""
    small = job("1 x H100/1g.10gb", replicas=2)
    before = lab(moves=moves, small=small)
    ran = solve(before).placement
    there = [a.model_copy(update={"gpus": (type(a.gpus[0]).parse(f"0:1g.10gb@{at}/8"),)})
             for a, at in zip(ran.allocations, (1, 5), strict=True)]  # fmt: skip
    return lab(moves=moves, small=small, large=job("1 x H100/3g.40gb")), Placement(allocations=tuple(there))


def test_a_card_that_has_to_be_cut_anew() -> None:
    """Six of eight slices are free and no half is: one of the two that run changes its position, which is a move."""
    now, last = apart(moves=1)
    found = solve(now, last)
    assert not found.placement.unplaced and judge(now, found.placement) == ()
    assert [(move.source, move.target) for move in found.moves] == [("n0", "n0")]
    assert "changes its position on a GPU" in found.moves[0].why
    stays = {a.name: a.gpus for a in last.allocations}
    assert sum(a.gpus == stays.get(a.name) for a in found.placement.allocations) == 1
    assert [goal.value for goal in found.proof.goals if goal.name == "moves"] == [1]


def test_a_card_that_must_not_be_cut_anew() -> None:
    """Without a move what runs stays where it is, and why says who lies where: by the sum it would fit."""
    now, last = apart(moves=0)
    found = solve(now, last)
    assert {a.name: a.gpus for a in found.placement.allocations} == {a.name: a.gpus for a in last.allocations}
    assert "6/8 of its memory" in reasons(found) and "none of its 2 positions is free for it" in reasons(found)
    assert "small has 1g.10gb at 1/8 and 5/8 of GPU 0" in reasons(found)


def test_what_runs_keeps_its_position_while_others_come_and_go() -> None:
    first = lab(2, a=job("1 x H100/3g.40gb"), b=job("1 x H100/1g.10gb", replicas=2), c=job("1 x H100/2g.20gb"))
    before = solve(first)
    second = lab(2, a=job("1 x H100/3g.40gb"), b=job("1 x H100/1g.10gb", replicas=2), d=job("1 x H100/1g.20gb"), e=job("1"))
    after = solve(second, before.placement)
    assert all(held(after)[name] == ones for name, ones in held(before).items() if name in held(after))
    assert not after.placement.unplaced and not after.moves


def test_an_instance_that_was_there_serves_again() -> None:
    before = solve(lab(2, a=job("1 x H100/2g.20gb", replicas=2), b=job("1 x H100/1g.10gb")))
    after = solve(lab(2, new=job("1 x H100/2g.20gb", replicas=2), b=job("1 x H100/1g.10gb")), before.placement)
    assert sorted(held(after)["new-0"] + held(after)["new-1"]) == sorted(held(before)["a-0"] + held(before)["a-1"])


@pytest.mark.parametrize("wanted", ["1 x H100/3g.40gb", "1 x H100", 1])
def test_who_asks_for_more_keeps_its_instance_until_there_is_capacity(wanted: str | int) -> None:
    rest = {"b": job("1 x H100/3g.40gb"), "c": job("1 x H100/1g.10gb", replicas=2)}
    before = solve(lab(a=job("1 x H100/1g.10gb"), **rest))
    _, after = solve_keeping(lab(a=job(wanted), **rest), before.placement)
    assert held(after) == held(before) and not after.moves
    assert [one.workload for one in after.placement.growing] == ["a"]


@pytest.mark.parametrize(("now", "kept"), [("2 x H100/7g.80gb", 2), ("0.5 x H100", 1)])
def test_who_had_whole_cards_and_asks_for_pieces_has_pieces_of_those(now: str, kept: int) -> None:
    """Others that nobody had are free, and would serve as well: it restarts with what it has."""
    before = solve(lab(cards=8, a=job("3 x H100")))
    after = solve(lab(cards=8, a=job(now)), before.placement)
    had, has = before.placement.allocations[0].cards, after.placement.allocations[0].cards
    assert len(has) == kept and {*has} <= {*had}


@pytest.mark.parametrize("other", ["1 x H100", "0.25 x H100"])
def test_a_card_is_whole_or_shared_or_cut(other: str) -> None:
    found = solve(lab(1, cut=job("1 x H100/1g.10gb", priority="high"), other=job(other)))
    assert [one.workload for one in found.placement.unplaced] == ["other"]


def test_a_card_that_may_not_be_cut_is_not() -> None:
    found = solve(lab(1, mig=False, cut=job("1 x H100/1g.10gb")))
    (one,) = found.placement.unplaced
    assert [reason.rule for reason in one.reasons] == [
        "mig_profile_exists"
    ] and one.nodes == "1 node: 1 has GPUs that may not be cut"


def test_one_name_is_another_instance_on_another_card_and_the_reason_says_how_large() -> None:
    small = {"gpus": {"count": 1, "model": "A100", "memory": "40 GB"}, "vcpus": 64, "memory": "512 GB", "mig": True}
    found = solve(stack_of({"n0": {"hardware": "h"}}, {"cut": job("1 x A100/1g.10gb")}, hardware={"h": small}))
    assert "MIG instances 1g.10gb, each 0.125 of a card, and" in reasons(found)


def brute(kind: CardKind, masks: tuple[int, ...], items: tuple[str, ...]) -> bool:
    """Do these instances fit on cards with these masks, in any way?"""

    @functools.cache
    def fits(cards: tuple[int, ...], left: tuple[str, ...]) -> bool:
        if not left:
            return True
        return any(
            fits(tuple(sorted((*cards[:i], has | bits, *cards[i + 1 :]))), left[1:])
            for i, has in enumerate(cards) if i == 0 or cards[i - 1] != has
            for _, bits in spots(kind, left[0]) if not has & bits
        )  # fmt: skip

    return fits(tuple(sorted(masks)), items)


@st.composite
def crowded(draw: st.DrawFn) -> tuple[CardKind, tuple[int, ...], tuple[str, ...]]:
    """Cards on which something lies, and what is to come."""
    model, memory = draw(st.sampled_from(sorted(PROFILES)))
    kind = (model, memory * 10**9)
    names = st.sampled_from(sorted(profiles_of(*kind)))
    masks = []
    for ones in draw(st.lists(st.lists(names, max_size=3), max_size=2)):
        has = 0
        for name in ones:
            if free := [bits for _, bits in spots(kind, name) if not has & bits]:
                has |= draw(st.sampled_from(free))
        masks.append(has)
    return kind, tuple(masks), tuple(draw(st.lists(names, min_size=1, max_size=8)))


@settings(max_examples=300, deadline=None, derandomize=True)
@given(crowded())
def test_no_way_to_lay_instances_needs_fewer_cards(drawn: tuple[CardKind, tuple[int, ...], tuple[str, ...]]) -> None:
    kind, masks, items = drawn
    new = new_cards(kind, masks, Counter(items))
    assert brute(kind, masks + (0,) * new, items)
    assert not new or not brute(kind, masks + (0,) * (new - 1), items)


def test_every_profile_lies_within_its_card() -> None:
    for (model, memory), profile in itertools.chain.from_iterable(
        [((key, one) for one in each.values()) for key, each in PROFILES.items()]
    ):
        assert all(bits < 1 << SLICES for _, bits in spots((model, memory * 10**9), profile.name))
