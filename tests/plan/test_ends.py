"""Is a job that came to its end ever run again, by drift, by a move, or by a run that was cut short?"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from swarm_iac.model.state import AllocationState, Desired, NodeState, Observed
from swarm_iac.model.step import Verb
from swarm_iac.plan import steps
from swarm_iac.plan.state.completion import released
from tests.plan import fleets
from tests.plan.conftest import LAWS
from tests.plan.interpreter import Fleet
from tests.plan.test_laws import ORDERS, Order, any_order, plan_of


def over(state: NodeState, name: str) -> NodeState:
    old = state.allocations[name]
    ended = old.model_copy(update={"unit": old.unit.model_copy(update={"active": False, "restart": False})})
    return state.model_copy(update={"allocations": {**state.allocations, name: ended}})


def job(name: str, gpus: tuple[int, ...] = (), command: str = "x", memory: int = 33) -> AllocationState:
    found = fleets.allocation(name, gpus, (), memory, command)
    return found.model_copy(update={"unit": found.unit.model_copy(update={"restart": False})})


def found(how: str, **held: AllocationState) -> dict[str, Observed]:
    states = {"n1": fleets.node({"train-0": job("train-0", (0, 1)), **held}), "n2": fleets.node({})}
    states["n1"] = over(states["n1"], "train-0")
    return fleets.observed(states, {"train-0": how})


@LAWS
@given(st.sampled_from(["done", "failed"]), st.sampled_from(["n1", "n2"]), st.sets(st.integers(0, 2)), st.sampled_from([1, 50]))
def test_the_same_job_is_never_started_again_wherever_its_place_is(how: str, home: str, gpus: set[int], memory: int) -> None:
    observed = found(how)
    moved = {"train-0": job("train-0", tuple(gpus), memory=memory)}
    desired = fleets.desired({name: fleets.node(moved if name == home else {}) for name in ("n1", "n2")}, states(observed))
    plan = steps(observed, desired)
    assert not [step for step in plan.steps if step.verb in (Verb.START, Verb.STOP, Verb.RELEASE)]
    fleet = Fleet(observed, desired)
    for step in plan.steps:
        fleet.run(step)
    again = {
        name: one.model_copy(update={"health": {"train-0": how} if "train-0" in one.state.allocations else {}})
        for name, one in fleet.observed().items()
    }
    assert steps(again, desired).steps == ()
    assert again["n1"].state.allocations["train-0"].unit.command == "x", "what ran is remembered"


def states(observed: dict[str, Observed]) -> dict[str, NodeState]:
    return {name: one.state for name, one in observed.items()}


def test_what_it_held_is_given_to_who_comes() -> None:
    observed = found("done")
    place = {"n1": {"train-1": job("train-1", (0, 1), memory=90)}, "n2": {"train-0": job("train-0")}}
    desired = fleets.desired({name: fleets.node(held) for name, held in place.items()}, states(observed))
    fleet = Fleet(observed, desired)
    for step in steps(observed, desired).steps:
        fleet.run(step)
    assert fleet.active() == {("n1", "train-1")}
    assert fleet.nodes["n1"].allocations["train-0"].gpus == ()


def test_another_command_is_another_job() -> None:
    desired = fleets.desired({"n1": fleets.node({}), "n2": fleets.node({"train-0": job("train-0", command="y")})})
    plan = steps(found("done"), desired)
    assert {step.id for step in plan.steps if step.verb in (Verb.START, Verb.RELEASE)} == {
        "n2/start/train-0",
        "n1/release/train-0",
    }


def test_an_end_goes_with_its_workload() -> None:
    plan = steps(found("done"), fleets.desired({"n1": fleets.node({}), "n2": fleets.node({})}))
    assert [step.id for step in plan.steps if step.allocation] == ["n1/release/train-0"]


JOBS = ("train-0", "train-1", "gang-0", "gang-1")
#: How a machine may find a job that has ended by the lock file, and whether its unit is active then.
FOUND = {"done": False, "failed": False, "stopped": False, "waiting": False, "gone": False,
         "healthy": True, "starting": True, "stopping": False, "unknown": False}  # fmt: skip
MAY_RUN = {"healthy", "starting", "stopping", "unknown"}


def recorded(
    before: dict[str, NodeState], after: dict[str, NodeState], how: dict[str, str]
) -> tuple[dict[str, Observed], dict[str, Desired]]:
    """`before` with those jobs as they are found, and `after` with their room given to others, since they have ended."""
    found = {node: dict(state.allocations) for node, state in before.items()}
    requested = {
        node: {one: state for one, state in each.allocations.items() if one not in how} for node, each in after.items()
    }
    ended: dict[str, list[str]] = {node: [] for node in before}
    for node, one in [(node, one) for node, ones in found.items() for one in ones if one in how]:
        state = found[node].pop(one)
        beside = sum(each.scratch.quota for each in requested[node].values() if each.scratch)
        if state.scratch and beside + state.scratch.quota > fleets.DISK:  # the solver leaves room for its files
            state = state.model_copy(update={"scratch": None})
        requested[node][one] = released(state)
        ended[node].append(one)
        if how[one] != "gone":
            unit = state.unit.model_copy(update={"active": FOUND[how[one]], "restart": False})
            found[node][one] = state.model_copy(update={"unit": unit})
    seen = {node: state.model_copy(update={"allocations": found[node]}) for node, state in before.items()}
    request = {node: after[node].model_copy(update={"allocations": requested[node]}) for node in after}
    desired = {
        node: each.model_copy(update={"ended": tuple(ended[node])}) for node, each in fleets.desired(request, seen).items()
    }  # fmt: skip
    return fleets.observed(seen, how), desired


@LAWS
@given(fleets.states(), fleets.states(), st.dictionaries(st.sampled_from(JOBS), st.sampled_from(sorted(FOUND))), ORDERS)
def test_what_ended_by_the_lock_is_never_started_and_who_comes_waits_until_it_is_over(
    before: dict[str, NodeState], after: dict[str, NodeState], how: dict[str, str], order: Order
) -> None:
    """The interpreter sees that no GPU has two owners, whatever the machines say of the one that was to be over."""
    observed, desired = recorded(before, after, how)
    plan = plan_of(observed, desired)
    if plan is None:
        return
    fleet = Fleet(observed, desired)
    held = {node: {one: state for one, state in each.allocations.items() if how.get(one) in MAY_RUN}
            for node, each in before.items()}  # fmt: skip
    for step in any_order(order, plan):
        assert not (step.allocation in how and step.verb in (Verb.START, Verb.HEALTH)), "it is over for good"
        assert not (step.allocation in how and step.verb is Verb.STOP), "and what runs all the same is left alone"
        fleet.run(step)
    for node, ones in held.items():
        for one, was in ones.items():
            still = fleet.nodes[node].allocations[one]
            assert still.gpus == was.gpus and still.slice == was.slice, "nothing is taken from what may run"
    waits = {left.step.allocation for left in plan.deferred}  # for one that runs
    for node, each in desired.items():
        for one in each.ended:
            if how[one] not in MAY_RUN and one in fleet.nodes[node].allocations and one not in waits:
                assert not fleet.nodes[node].allocations[one].gpus, "the others hold their files"


def test_a_member_that_finished_is_not_run_again_with_its_gang() -> None:
    """gang-0 is done, and gang-1 fell: it starts again, and nobody else."""
    ones = {name: fleets.allocation(name, (0,), (), 20) for name in ("gang-0", "gang-1")}
    states = {"n1": fleets.node({"gang-0": ones["gang-0"]}), "n2": fleets.node({"gang-1": ones["gang-1"]})}
    found = {
        node: state.model_copy(update={"allocations": {
            one: each.model_copy(update={"unit": each.unit.model_copy(update={"active": False})})
            for one, each in state.allocations.items()
        }})
        for node, state in states.items()
    }  # fmt: skip
    plan = steps(fleets.observed(found, {"gang-0": "done", "gang-1": "failed"}), fleets.desired(states))
    assert {step.allocation for step in plan.steps if step.verb is Verb.START} == {"gang-1"}
