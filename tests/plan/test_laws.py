"""What must never happen while a fleet changes, whatever order the plan allows?"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from swarm_iac.errors import Refused
from swarm_iac.model.state import NodeState
from swarm_iac.model.step import Plan, Step, Verb
from swarm_iac.plan import rows, steps
from tests.plan import fleets
from tests.plan.interpreter import Fleet, as_converged

FEW = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
Watch = Callable[[Fleet, Step], None]


def any_order(draw: st.DataObject, plan: Plan) -> list[Step]:
    """Some order that respects `after`."""
    left, done, order = list(plan.steps), set(), []
    while left:
        ready = [step for step in left if set(step.after) <= done]
        assert ready, "steps wait for each other"
        step = ready[draw.draw(st.integers(0, len(ready) - 1))]
        left.remove(step)
        done.add(step.id)
        order.append(step)
    return order


def carry_out(old: dict[str, NodeState], order: list[Step], watch: Watch | None = None) -> Fleet:
    fleet = Fleet(fleets.observed(old))
    for step in order:
        fleet.run(step)
        if watch:
            watch(fleet, step)
    return fleet


def plan_of(old: dict[str, NodeState], new: dict[str, NodeState]) -> Plan | None:
    try:
        return steps(fleets.observed(old), fleets.desired(new))
    except Refused as refusal:
        # Only services may refuse: everything else can stop first.
        assert "chat-" in str(refusal)
        return None


@FEW
@given(fleets.states())
def test_equal_states_never_need_a_step(state: dict[str, NodeState]) -> None:
    plan = steps(fleets.observed(state), fleets.desired(state))
    assert plan.steps == () and plan.warnings == ()
    assert rows(fleets.observed(state)) == rows(fleets.desired(state))


@FEW
@given(fleets.states(), fleets.states(), st.data())
def test_no_order_breaks_ownership_or_misses_the_goal(
    old: dict[str, NodeState], new: dict[str, NodeState], draw: st.DataObject
) -> None:
    plan = plan_of(old, new)
    if plan is None:
        return
    for order in (any_order(draw, plan), as_converged(plan), list(plan.steps)):
        position = {step.id: number for number, step in enumerate(order)}
        assert all(position[before] < position[step.id] for step in order for before in step.after)
        fleet = carry_out(old, order)
        assert fleet.nodes == new
        assert fleet.healthy == fleet.active()
        assert steps(fleet.observed(), fleets.desired(new)).steps == ()


@FEW
@given(fleets.states(), fleets.states(), st.data(), st.data())
def test_a_run_killed_anywhere_is_continued(
    old: dict[str, NodeState], new: dict[str, NodeState], draw: st.DataObject, cut: st.DataObject
) -> None:
    plan = plan_of(old, new)
    if plan is None or not plan.steps:
        return
    order = any_order(draw, plan)
    fleet = carry_out(old, order[: cut.draw(st.integers(0, len(order)))])
    try:
        rest = steps(fleet.observed(), fleets.desired(new))
    except Refused:
        return
    for step in as_converged(rest):
        fleet.run(step)
    assert fleet.nodes == new


@FEW
@given(fleets.states(), fleets.states(), st.data())
def test_a_gang_never_runs_in_part(old: dict[str, NodeState], new: dict[str, NodeState], draw: st.DataObject) -> None:
    plan = plan_of(old, new)
    if plan is None:
        return
    stops = {step.id for step in plan.steps if step.verb is Verb.STOP and step.allocation.startswith("gang")}
    done: set[str] = set()

    def watch(fleet: Fleet, step: Step) -> None:
        done.add(step.id)
        if step.verb is Verb.START and step.allocation.startswith("gang") and stops:
            assert stops <= done, "a member starts while another has yet to stop"

    starts = {step.allocation for step in plan.steps if step.verb is Verb.START and step.allocation.startswith("gang")}
    assert starts in (set(), {"gang-0", "gang-1"})
    carry_out(old, any_order(draw, plan), watch)


@FEW
@given(st.permutations(range(3)), st.sets(st.integers(0, 2)), st.integers(0, 3), st.data())
def test_a_service_that_moves_to_free_places_never_has_fewer_healthy(
    homes: list[int], movers: set[int], extra: int, draw: st.DataObject
) -> None:
    """Each replica has GPU 0 of its node; movers go to GPU 1 of the next node, which is free."""

    def state(moved: bool) -> dict[str, NodeState]:
        found: dict[str, dict[str, object]] = {name: {} for name in fleets.NODES}
        for index, home in enumerate(homes):
            goes = moved and index in movers
            name, gpu = fleets.NODES[(home + goes) % 3], int(goes)
            if not (moved and index == extra):
                found[name][f"chat-{index}"] = fleets.allocation(f"chat-{index}", (gpu,), (), 20)
        return {name: fleets.node(each) for name, each in found.items()}  # type: ignore[arg-type]

    old, new = state(False), state(True)
    least = min(3, 2 if extra < 3 else 3)

    def watch(fleet: Fleet, step: Step) -> None:
        assert len({name for _, name in fleet.healthy}) >= least or extra < 3
        assert len(fleet.healthy) >= least

    plan = steps(fleets.observed(old), fleets.desired(new))
    carry_out(old, any_order(draw, plan), watch)


def test_replicas_that_restart_never_all_stop_at_once() -> None:
    def state(command: str) -> dict[str, NodeState]:
        held = {f"chat-{n}": fleets.allocation(f"chat-{n}", (n,), (), 20, command) for n in range(3)}
        return {"n1": fleets.node(held)}

    def watch(fleet: Fleet, step: Step) -> None:
        assert len(fleet.healthy) >= 2

    plan = steps(fleets.observed(state("x")), fleets.desired(state("y")))
    carry_out(state("x"), as_converged(plan), watch)


def test_services_that_swap_places_are_refused_by_name() -> None:
    def state(first: str, second: str) -> dict[str, NodeState]:
        gpus = tuple(range(fleets.GPUS))
        homes = {"n1": first, "n2": second}
        return {name: fleets.node({one: fleets.allocation(one, gpus, (), 20)}) for name, one in homes.items()}

    with pytest.raises(Refused, match=r"chat-0 on n1, chat-0 on n2, chat-1 on n1, chat-1 on n2"):
        steps(fleets.observed(state("chat-0", "chat-1")), fleets.desired(state("chat-1", "chat-0")))


@FEW
@given(st.permutations(fleets.NODES), st.permutations(fleets.NODES), st.sampled_from(["train", "gang"]), st.data())
def test_a_job_that_moves_never_runs_twice_nor_a_gang_half_moved(
    old_homes: list[str], new_homes: list[str], kind: str, draw: st.DataObject
) -> None:
    def state(homes: list[str]) -> dict[str, NodeState]:
        held = {home: {f"{kind}-{index}": index} for index, home in enumerate(homes[:2])}
        return {
            name: fleets.node({one: fleets.allocation(one, (index,), (), 20) for one, index in held.get(name, {}).items()})
            for name in fleets.NODES
        }

    old, new = state(old_homes), state(new_homes)
    plan = steps(fleets.observed(old), fleets.desired(new))
    before = {(name, one) for name, each in old.items() for one in each.allocations}
    started: set[tuple[str, str]] = set()

    def watch(fleet: Fleet, step: Step) -> None:
        assert len({one for _, one in fleet.active()}) == len(fleet.active()), "it runs in two places"
        if step.verb is Verb.START:
            started.add((step.node, step.allocation))
        if kind == "gang":
            assert not (started and fleet.active() & (before - started)), "old and new members run together"

    carry_out(old, any_order(draw, plan), watch)
