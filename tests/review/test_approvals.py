"""An approval holds as long as what would happen is the same as what was approved, or less."""

from __future__ import annotations

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from swarm_iac.review.approvals import Approval, beyond, standing
from swarm_iac.review.effect import (
    HARM,
    AllocationEffect,
    Amount,
    Becomes,
    ChangedFile,
    ChangedValue,
    Cost,
    Effect,
    NodeEffect,
    RaisedPriority,
    StackEffect,
)

BECOMES: tuple[Becomes, ...] = ("stopped", "moved", "restarted", "changed", "started")
NAMES = st.sampled_from(("a-0", "a-1", "b-0"))
USERS = st.sampled_from(("ada", "bo", "cy"))


def amount(old: int, new: int) -> Amount:
    return Amount(resource="gpus", old=old, new=new, text=f"{old} → {new} GPUs")


AMOUNTS = st.lists(st.builds(amount, st.integers(0, 4), st.integers(0, 4)), max_size=1).map(
    lambda found: tuple(one for one in found if one.old != one.new)
)
ALLOCATIONS = st.lists(
    st.builds(AllocationEffect, name=NAMES, user=USERS, becomes=st.sampled_from(BECOMES), amounts=AMOUNTS),
    max_size=4,
    unique_by=lambda one: (one.name, one.user),
).map(tuple)
STACKS = st.builds(
    StackEffect,
    stack=st.just("dev"),
    allocations=ALLOCATIONS,
    nodes=st.lists(
        st.builds(NodeEffect, name=st.sampled_from(("n1", "n2")), becomes=st.sampled_from(("drain", "removed"))), max_size=2
    ).map(tuple),
    values=st.lists(
        st.builds(
            ChangedValue,
            path=st.sampled_from(("limits.user.gpus", "workloads.a.each.gpus")),
            new=st.sampled_from(("8", "16")),
            by=st.sampled_from(((), ("cy",))),
        ),
        max_size=2,
    ).map(tuple),
    costs=st.lists(
        st.builds(Cost, team=st.sampled_from(("research", "")), before=st.integers(0, 3), after=st.integers(0, 3)),
        max_size=2,
        unique_by=lambda one: one.team,
    ).map(tuple),
    currency=st.just("EUR"),
)
EFFECTS = st.builds(
    Effect,
    stacks=STACKS.map(lambda one: (one,)),
    files=st.lists(
        st.builds(ChangedFile, name=st.sampled_from(("bin/x", "ci")), blob=st.sampled_from(("1", "2", ""))), max_size=2
    ).map(tuple),
)


def more_than(now: Effect, approved: Effect) -> bool:
    """Is anyone worse off, counted another way: by user and allocation, over whole effects?"""

    def harm(effect: Effect, name: str, user: str) -> int:
        found = [one for each in effect.stacks for one in each.allocations if (one.name, one.user) == (name, user)]
        return max((HARM[one.becomes] for one in found), default=0)

    every = [(one.name, one.user) for each in now.stacks for one in each.allocations]
    return any(harm(now, *one) > harm(approved, *one) for one in every) or not set(now.affected()) <= set(approved.affected())


@settings(max_examples=300, deadline=None)
@given(EFFECTS)
def test_what_was_approved_is_covered(effect: Effect) -> None:
    assert beyond(effect, effect) == ()
    assert beyond(Effect.model_validate_json(effect.model_dump_json()), effect) == ()  # as a forge keeps it
    assert beyond(effect, Effect()) == ()


@settings(max_examples=600, deadline=None)
@given(EFFECTS, EFFECTS)
def test_nobody_new_is_affected_by_what_an_approval_covers(approved: Effect, now: Effect) -> None:
    if more_than(now, approved):
        assert beyond(approved, now), (approved, now)


@settings(max_examples=300, deadline=None)
@given(EFFECTS, EFFECTS, EFFECTS)
def test_less_than_less_is_covered(first: Effect, second: Effect, third: Effect) -> None:
    """Two steps down are a step down: nobody gets further by small pushes than by one."""
    second = _within(second, first)
    third = _within(third, second)
    assert beyond(first, second) == () and beyond(second, third) == ()
    assert beyond(first, third) == ()


@settings(max_examples=300, deadline=None)
@given(EFFECTS, st.data())
def test_a_part_is_covered_and_what_is_added_is_not(effect: Effect, data: st.DataObject) -> None:
    stack = effect.stacks[0]
    kept = tuple(one for one in stack.allocations if data.draw(st.booleans()))
    assert beyond(effect, effect.model_copy(update={"stacks": (stack.model_copy(update={"allocations": kept}),)})) == ()
    new = data.draw(
        st.builds(AllocationEffect, name=st.just("c-0"), user=USERS, becomes=st.sampled_from(BECOMES), amounts=AMOUNTS)
    )
    assume(new.harms or new.becomes == "started")
    larger = effect.model_copy(update={"stacks": (stack.model_copy(update={"allocations": (*stack.allocations, new)}),)})
    lines = beyond(effect, larger)
    assert lines and all("c-0" in one for one in lines)


def _within(effect: Effect, most: Effect) -> Effect:
    """The part of an effect that another covers, one thing after the other."""
    of, stack = (
        effect.stacks[0],
        effect.stacks[0].model_copy(update={"allocations": (), "nodes": (), "values": (), "costs": ()}),
    )
    for key in ("allocations", "nodes", "values", "costs"):
        for one in getattr(of, key):
            tried = stack.model_copy(update={key: (*getattr(stack, key), one)})
            stack = tried if not beyond(most, Effect(stacks=(tried,))) else stack
    known = {(one.name, one.blob) for one in most.files}
    return Effect(stacks=(stack,), files=tuple(one for one in effect.files if (one.name, one.blob) in known))


def test_an_approval_without_an_effect_is_for_the_commits_that_it_names() -> None:
    def held(approval: Approval) -> bool:
        return bool(standing([approval], Effect(), "h" * 40, "b" * 40)[0])

    assert held(Approval(who="ada", commit="h" * 40, base="b" * 40))
    assert not held(Approval(who="ada", commit="h" * 40))
    assert not held(Approval(who="ada", commit="h" * 40, base="c" * 40))
    assert not held(Approval(who="ada", commit="a" * 40, base="b" * 40))


def test_the_last_word_of_a_person_counts() -> None:
    harm = Effect(
        stacks=(StackEffect(stack="dev", allocations=(AllocationEffect(name="a-0", user="ada", becomes="stopped"),)),)
    )
    both = [Approval(who="Ada", commit="1", effect=harm), Approval(who="ada", commit="2", effect=Effect())]
    held, gone = standing(both, harm, "h", "b")
    assert held == ()
    assert [(one.who, one.lines) for one in gone] == [("ada", ("dev: a-0 of ada is stopped",))]


def test_a_raised_priority_is_approved_with_its_height() -> None:
    def of(new: str) -> Effect:
        return Effect(
            stacks=(StackEffect(stack="dev", priorities=(RaisedPriority(workload="a", user="ada", old="low", new=new),)),)
        )

    assert beyond(of("high"), of("high")) == () and beyond(of("high"), Effect()) == ()
    assert beyond(of("normal"), of("high")) == ("dev: priority of a: low → high",)
    assert beyond(Effect(), of("normal")) == ("dev: priority of a: low → normal",)
