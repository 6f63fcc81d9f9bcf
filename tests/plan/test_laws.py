"""What must never happen while a fleet changes, whatever order the plan allows?

The laws themselves are in the interpreter, which looks at all of them after every single step.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm_iac.errors import Refused
from swarm_iac.model.base import with_values
from swarm_iac.model.device import Device, gpu
from swarm_iac.model.state import Desired, NodeState, Observed
from swarm_iac.model.step import Plan, Step, Verb
from swarm_iac.plan import rows, steps
from tests.plan import fleets
from tests.plan.conftest import LAWS
from tests.plan.interpreter import Fleet, as_converged

pytestmark = pytest.mark.engine

Watch = Callable[[Fleet, Step], None]
#: Orders that try to break a law: what takes comes as early as may be, what gives as late, or just any.
GREEDY = (
    (Verb.STOP, Verb.SLICE, Verb.DIRECTORIES, Verb.TRAFFIC, Verb.GPUS, Verb.START, Verb.RELEASE, Verb.HEALTH),
    (Verb.SLICE, Verb.DIRECTORIES, Verb.TRAFFIC, Verb.GPUS, Verb.START, Verb.HEALTH, Verb.STOP, Verb.RELEASE),
    (Verb.RELEASE, Verb.STOP, Verb.START, Verb.GPUS, Verb.TRAFFIC, Verb.SLICE, Verb.HEALTH, Verb.DIRECTORIES),
)
ORDERS = st.tuples(st.sampled_from([*GREEDY, ()]), st.integers(0, 2**32))
Order = tuple[tuple[Verb, ...], int]
#: Names of allocations, and the GPUs of each.
Held = Mapping[str, tuple[int | Device, ...]]


def any_order(order: Order, plan: Plan) -> list[Step]:
    """Some order that respects `after`."""
    verbs, seed = order
    chance = random.Random(seed)
    rank = {verb: number for number, verb in enumerate(verbs)}
    left, done, found = list(plan.steps), set[str](), []
    chance.shuffle(left)
    left.sort(key=lambda step: rank.get(step.verb, len(rank)))
    while left:
        step = next((step for step in left if set(step.after) <= done), None)
        assert step is not None, "steps wait for each other"
        left.remove(step)
        done.add(step.id)
        found.append(step)
    return found


def carry_out(fleet: Fleet, order: list[Step], watch: Watch | None = None) -> Fleet:
    for step in order:
        fleet.run(step)
        if watch:
            watch(fleet, step)
    return fleet


def plan_of(observed: Mapping[str, Observed], desired: Mapping[str, Desired]) -> Plan | None:
    try:
        return steps(observed, desired)
    except Refused as refusal:
        # Only services may refuse: everything else can stop first.
        assert any(name in str(refusal) for name in ("chat", "code", "web"))
        return None


@LAWS
@given(fleets.states(), st.data())
def test_a_ceiling_alone_waits_for_nothing_and_stops_nothing(state: dict[str, NodeState], data: st.DataObject) -> None:
    """Nobody reserves what lies between guarantee and ceiling, so each node changes at once, in place."""
    after = {}
    for name, node in state.items():
        ones = {one: with_values(each, data.draw(fleets.ceilings(each))) for one, each in node.allocations.items()}
        slices = {
            one: each.slice.cpu_quota_m and each.slice.cpu_quota_m * data.draw(st.integers(1, 3)) for one, each in ones.items()
        }
        ones = {one: with_values(each, {"slice.cpu_quota_m": slices[one]}) for one, each in ones.items()}
        after[name] = node.model_copy(update={"allocations": ones})
    plan = steps(fleets.observed(state), fleets.desired(after, state))
    changed = {
        one for name in state for one in state[name].allocations if state[name].allocations[one] != after[name].allocations[one]
    }
    assert {step.allocation for step in plan.steps} == changed
    assert all(step.verb in (Verb.SLICE, Verb.TRAFFIC) for step in plan.steps)
    own = {step.id: {f"{step.node}/{Verb.SLICE}/{step.allocation}"} for step in plan.steps}
    assert all(set(step.after) <= own[step.id] for step in plan.steps), "its traffic may follow its own slice"


HEALTH = st.dictionaries(st.sampled_from(sorted(fleets.HANDOVER)), st.sampled_from(["failed", "starting"]), max_size=2)


@LAWS
@given(fleets.states())
def test_equal_states_never_need_a_step(state: dict[str, NodeState]) -> None:
    plan = steps(fleets.observed(state), fleets.desired(state))
    assert plan.steps == () and plan.warnings == ()
    assert rows(fleets.observed(state)) == rows(fleets.desired(state))


@LAWS
@given(fleets.states(), fleets.states(), HEALTH, ORDERS)
def test_no_order_breaks_a_law_or_misses_the_goal(
    old: dict[str, NodeState], new: dict[str, NodeState], health: dict[str, str], order: Order
) -> None:
    observed, desired = fleets.observed(old, health), fleets.desired(new, old)
    plan = plan_of(observed, desired)
    if plan is None:
        return
    for found in (any_order(order, plan), as_converged(plan), list(plan.steps)):
        position = {step.id: number for number, step in enumerate(found)}
        assert all(position[before] < position[step.id] for step in found for before in step.after)
        fleet = carry_out(Fleet(observed, desired), found)
        assert fleet.nodes == new
        assert steps(fleet.observed(), desired).steps == ()


@LAWS
@given(fleets.states(), fleets.states(), st.lists(st.tuples(ORDERS, st.floats(0, 1)), min_size=1, max_size=3))
def test_a_run_killed_anywhere_is_continued(
    old: dict[str, NodeState], new: dict[str, NodeState], kills: list[tuple[Order, float]]
) -> None:
    """Refused after a kill is only who was promised more meanwhile: newcomers are up now, and count."""
    observed, desired = fleets.observed(old), fleets.desired(new, old)
    plan, first = plan_of(observed, desired), Fleet(observed, desired).guaranteed
    for order, share in kills:
        if plan is None:
            return
        found = any_order(order, plan)
        cut = carry_out(Fleet(observed, desired), found[: round(share * len(found))])
        observed = cut.observed()
        plan, now = plan_of(observed, desired), Fleet(observed, desired).guaranteed
        more = any(now[service] > first[service] for service in now)
        assert plan is not None or more, "what was begun cannot be ended"
    if plan is not None:
        for found in (as_converged(plan), any_order(kills[0][0], plan)):
            assert carry_out(Fleet(observed, desired), found).nodes == new


@LAWS
@given(fleets.states(), fleets.states(), fleets.states(), ORDERS, st.floats(0, 1))
def test_a_wish_that_changes_half_way_is_reached_as_well(
    old: dict[str, NodeState], first: dict[str, NodeState], then: dict[str, NodeState], order: Order, share: float
) -> None:
    observed, desired = fleets.observed(old), fleets.desired(first, old)
    plan = plan_of(observed, desired)
    if plan is None:
        return
    found = any_order(order, plan)
    half = carry_out(Fleet(observed, desired), found[: round(share * len(found))])
    desired = fleets.desired(then, half.nodes)
    plan = plan_of(half.observed(), desired)
    if plan is not None:
        assert carry_out(Fleet(half.observed(), desired), any_order(order, plan)).nodes == then


@LAWS
@given(st.permutations(range(3)), st.sets(st.integers(0, 2)), ORDERS)
def test_a_service_that_moves_to_free_places_is_never_refused(homes: list[int], movers: set[int], order: Order) -> None:
    """Each replica has GPU 0 of its node; movers go to GPU 1 of the next node, which is free."""

    def state(moved: bool) -> dict[str, NodeState]:
        found: dict[str, dict[str, object]] = {name: {} for name in fleets.NODES}
        for index, home in enumerate(homes):
            goes = moved and index in movers
            name, gpu = fleets.NODES[(home + goes) % 3], int(goes)
            found[name][f"chat-{index}"] = fleets.allocation(f"chat-{index}", (gpu,), (), 20)
        return {name: fleets.node(each) for name, each in found.items()}  # type: ignore[arg-type]

    observed, desired = fleets.observed(state(False)), fleets.desired(state(True), state(False))
    carry_out(Fleet(observed, desired), any_order(order, steps(observed, desired)))


def full(command: str, name: str = "chat") -> dict[str, NodeState]:
    """Two nodes; one service has all of the first."""
    held = {f"{name}-{n}": fleets.allocation(f"{name}-{n}", (n,), (), 20, command) for n in range(2)}
    return {"n1": fleets.node(held), "n2": fleets.node({})}


def test_replicas_restart_behind_one_that_stands_in() -> None:
    observed, desired = fleets.observed(full("x")), fleets.desired(full("y"))
    plan = steps(observed, desired)
    assert [step.id for step in plan.steps if step.node == "n2" and step.verb in (Verb.START, Verb.RELEASE)] == [
        "n2/start/chat-0", "n2/release/chat-0",
    ]  # fmt: skip
    carry_out(Fleet(observed, desired), list(plan.steps))


def test_replicas_that_restart_are_refused_without_room_for_one_more() -> None:
    observed, desired = fleets.observed({"n1": full("x")["n1"]}), fleets.desired({"n1": full("y")["n1"]})
    with pytest.raises(Refused, match="chat needs 2 healthy replicas, but every order of steps drops it to 1"):
        steps(observed, desired)


def test_replicas_that_roll_never_all_stop_at_once() -> None:
    observed, desired = fleets.observed({"n1": full("x", "web")["n1"]}), fleets.desired({"n1": full("y", "web")["n1"]})
    carry_out(Fleet(observed, desired), list(steps(observed, desired).steps))


def swap(first: str, second: str, gpus: int = fleets.GPUS) -> dict[str, NodeState]:
    homes = {"n1": first, "n2": second}
    return {name: fleets.node({one: fleets.allocation(one, tuple(range(gpus)), (), 20)}) for name, one in homes.items()}


def test_services_that_swap_places_are_refused_by_name() -> None:
    observed, desired = fleets.observed(swap("chat-0", "code-0")), fleets.desired(swap("code-0", "chat-0"))
    with pytest.raises(Refused, match=r"chat-0 on n1, chat-0 on n2, code-0 on n1, code-0 on n2"):
        steps(observed, desired)


def test_services_swap_places_by_way_of_a_third_node() -> None:
    spare = {"n3": fleets.node({})}
    observed = fleets.observed(swap("chat-0", "code-0") | spare)
    desired = fleets.desired(swap("code-0", "chat-0") | spare)
    plan = steps(observed, desired)
    assert len({step.allocation for step in plan.steps if step.node == "n3"}) == 1, "one of them is enough"
    assert carry_out(Fleet(observed, desired), list(plan.steps)).nodes == swap("code-0", "chat-0") | spare


def holding(n1: Held, n2: Held, n3: Held, power: int = 300) -> dict[str, NodeState]:
    """Three nodes on which these have these GPUs."""
    return {
        name: fleets.node({one: fleets.allocation(one, gpus, (), 20) for one, gpus in held.items()}, power=power)
        for name, held in zip(fleets.NODES, (n1, n2, n3), strict=True)
    }


def stopped(states: dict[str, NodeState], node: str, name: str) -> dict[str, NodeState]:
    """The same, where a run that was killed left one stopped."""
    ones = states[node].allocations
    left = ones[name].model_copy(update={"unit": ones[name].unit.model_copy(update={"active": False})})
    return states | {node: states[node].model_copy(update={"allocations": ones | {name: left}})}


def reaches(old: dict[str, NodeState], new: dict[str, NodeState]) -> None:
    observed, desired = fleets.observed(old), fleets.desired(new, old)
    plan = steps(observed, desired)
    for found in (as_converged(plan), list(plan.steps)):
        assert carry_out(Fleet(observed, desired), found).nodes == new


def test_what_a_killed_run_left_stopped_is_in_nobodys_way() -> None:
    """code-0 waits for web-0 to leave GPU 0 of n2, web-0 for chat-0, chat-0 for code-0; but web-0 runs on n3."""
    old = holding({"code-0": (0, 1, 2)}, {"web-0": (gpu(0, 500),), "chat-0": (1, 2)}, {"web-0": (0,), "train-0": (1, 2)})
    new = holding({"chat-0": (0, 1, 2)}, {"web-0": (1,), "code-0": (gpu(0, 300),)}, {"train-0": (1, 2)}, power=200)
    reaches(stopped(old, "n2", "web-0"), new)


def test_nobody_waits_for_the_settings_of_a_card_that_stays_shared() -> None:
    """chat-0 has its part of GPU 0 already. Its start would wait for web-1 to leave, and so for chat-2, which waits for it."""
    every, mine = (0, 1, 2), (gpu(0, 300),)
    old = holding({"chat-1": every}, {"chat-0": mine, "web-1": (gpu(0, 500),)}, {"chat-2": every})
    new = holding({"chat-1": every}, {"chat-0": mine, "code-0": (gpu(0, 700),)}, {"web-1": (0, 1)}, power=200)
    reaches(stopped(old, "n2", "chat-0"), new)


@LAWS
@given(st.permutations(fleets.NODES), st.permutations(fleets.NODES), st.sampled_from(["train", "gang"]), ORDERS)
def test_a_job_that_moves_never_runs_twice_nor_a_gang_half_moved(
    old_homes: list[str], new_homes: list[str], kind: str, order: Order
) -> None:
    def state(homes: list[str]) -> dict[str, NodeState]:
        held = {home: {f"{kind}-{index}": index} for index, home in enumerate(homes[:2])}
        return {
            name: fleets.node({one: fleets.allocation(one, (index,), (), 20) for one, index in held.get(name, {}).items()})
            for name in fleets.NODES
        }

    observed, desired = fleets.observed(state(old_homes)), fleets.desired(state(new_homes), state(old_homes))
    plan = steps(observed, desired)
    starts = {step.allocation for step in plan.steps if step.verb is Verb.START}
    assert kind == "train" or starts in (set(), {"gang-0", "gang-1"})
    carry_out(Fleet(observed, desired), any_order(order, plan))
