"""Is a change refused only when no safe order of it exists? Judged by trying every order on tiny fleets."""

from __future__ import annotations

from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm_iac.errors import Refused
from swarm_iac.model.stack import Solve
from swarm_iac.model.state import Declared, Desired, NodeState, Observed
from swarm_iac.plan import steps
from swarm_iac.plan.order.temporary_placement import Around
from tests.plan import fleets
from tests.plan.conftest import LAWS
from tests.plan.interpreter import Fleet
from tests.plan.test_laws import ORDERS, Order, any_order, carry_out

#: A service has one replica; its place is a node and a GPU there.
Place = tuple[str, int]
Places = tuple[Place, ...]
NAMES = ("a-0", "b-0", "c-0", "d-0")


def fleet(places: Places, nodes: tuple[str, ...], gpus: int) -> tuple[dict[str, Observed], dict[str, Desired]]:
    """The same places as found and as wanted."""
    held: dict[str, dict[str, object]] = {name: {} for name in nodes}
    for name, (home, gpu) in zip(NAMES, places, strict=False):
        held[home][name] = fleets.allocation(name, (gpu,), (), 1)
    states: dict[str, NodeState] = {name: fleets.node(each) for name, each in held.items()}  # type: ignore[arg-type]
    seen = fleets.observed(states)
    seen = {
        name: one.model_copy(update={"facts": one.facts.model_copy(update={"gpus": one.facts.gpus[:gpus]})})
        for name, one in seen.items()
    }
    wanted = {
        name: Desired(node=name, address="local", fleet="f", state=state, handover=dict.fromkeys(held[name], "healthy-first"))
        for name, state in states.items()
    }
    return seen, wanted


def possible(old: Places, new: Places, slots: list[Place], temporaries: int) -> bool:
    """Is there an order? Each moves once, straight to its place; at most so many stand somewhere else before, each once."""
    start = (old, frozenset[int]())
    seen, left = {start}, deque([start])
    while left:
        places, away = left.popleft()
        if places == new:
            return True
        for one in range(len(places)):
            free = [slot for slot in slots if slot not in places]
            ways = [new[one]] if new[one] in free else []
            if one not in away and places[one] == old[one] != new[one] and len(away) < temporaries:
                ways += [slot for slot in free if slot[0] not in (old[one][0], new[one][0])]
            for slot in ways:
                moved = (*places[:one], slot, *places[one + 1 :])
                further = (moved, away | {one} if slot != new[one] else away)
                if further not in seen:
                    seen.add(further)
                    left.append(further)
    return False


@LAWS
@given(st.integers(2, 3), st.integers(1, 2), st.integers(2, 4), st.integers(0, 2), ORDERS, st.data())
def test_what_has_a_safe_order_is_never_refused_and_nothing_else_is_tried(
    size: int, gpus: int, count: int, temporaries: int, order: Order, data: st.DataObject
) -> None:
    nodes = fleets.NODES[:size]
    slots = [(name, gpu) for name in nodes for gpu in range(gpus)]
    count = min(count, len(slots))
    old, new = (tuple(data.draw(st.permutations(slots))[:count]) for _ in range(2))
    # A replica that changes its GPU on its node restarts there, which is another law's matter.
    if any(one != other and one[0] == other[0] for one, other in zip(old, new, strict=True)):
        return
    (observed, _), (_, desired) = fleet(old, nodes, gpus), fleet(new, nodes, gpus)
    try:
        plan = steps(observed, desired, budget=Solve(moves=temporaries))
    except Refused:
        assert not possible(old, new, slots, temporaries)
        return
    assert possible(old, new, slots, temporaries)
    for found in (list(plan.steps), any_order(order, plan)):
        machines = carry_out(Fleet(observed, desired), found)
        assert {name: one.state for name, one in desired.items()} == machines.nodes


def test_a_swap_without_the_budget_for_a_detour_is_refused() -> None:
    places = (("n1", 0), ("n2", 0))
    (observed, _), (_, desired) = fleet(places, fleets.NODES, 1), fleet(places[::-1], fleets.NODES, 1)
    with pytest.raises(Refused, match=r"no temporary placement was found with solve\.moves: 0"):
        steps(observed, desired, budget=Solve(moves=0))
    assert steps(observed, desired, budget=Solve(moves=1)).steps


def test_a_replica_stands_only_on_a_node_that_fits_it() -> None:
    places = (("n1", 0), ("n2", 0))
    (observed, _), (_, desired) = fleet(places, fleets.NODES, 1), fleet(places[::-1], fleets.NODES, 1)
    with pytest.raises(Refused):
        steps(observed, desired, fits=lambda workload, node, around, cards: node != "n3")
    asked = steps(observed, desired, fits=lambda workload, node, around, cards: workload == "b")
    assert {step.allocation for step in asked.steps if step.node == "n3"} == {"b-0"}


@pytest.mark.parametrize(("taken", "stands"), [(None, (1, 2)), (0, (1, 2)), (1, (0, 2))])
def test_a_replica_stands_on_linked_gpus_where_there_are_some(taken: int | None, stands: tuple[int, ...]) -> None:
    """Of n3 NVLink joins GPUs 1 and 2. Where links are required, it stands there on no others."""

    def states(first: str, second: str) -> dict[str, NodeState]:
        held = {"train-0": fleets.allocation("train-0", (taken,), (), 1)} if taken is not None else {}
        ones = [{name: fleets.allocation(name, (0, 1), (), 1)} for name in (first, second)]
        return dict(zip(fleets.NODES, map(fleets.node, [*ones, held]), strict=True))

    observed, wish = fleets.observed(states("chat-0", "code-0")), fleets.desired(states("code-0", "chat-0"))
    linked = Declared(gpus=3, gpu_model="H100", cpus=6, memory=100, numa=2, nvlink=((1, 2),))
    wish["n3"] = wish["n3"].model_copy(update={"hardware": linked})

    def required(workload: str, node: str, around: Around, cards: tuple[int, ...]) -> bool:
        return cards in ((), (1, 2))

    plan = steps(observed, wish)
    changes = (change for step in plan.steps if step.node == "n3" for change in step.changes)
    assert {tuple(one.new) for one in changes if one.path.endswith(".gpus") and one.new} == {stands}
    if stands == (1, 2):
        assert steps(observed, wish, fits=required).steps == plan.steps
    else:
        with pytest.raises(Refused):
            steps(observed, wish, fits=required)


def test_services_that_restart_need_one_temporary_placement_each_within_the_budget() -> None:
    def state(command: str) -> dict[str, NodeState]:
        held = {name: fleets.allocation(name, (gpu,), (), 1, command) for gpu, name in enumerate(("chat-0", "code-0"))}
        return {"n1": fleets.node(held), "n2": fleets.node({})}

    observed, desired = fleets.observed(state("x")), fleets.desired(state("y"))
    with pytest.raises(Refused, match=r"solve\.moves: 1, and at least 2 are needed"):
        steps(observed, desired, budget=Solve(moves=1))
    assert {step.allocation for step in steps(observed, desired).steps if step.node == "n2"} == {"chat-0", "code-0"}
