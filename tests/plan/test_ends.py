"""Is a job that came to its end ever run again, by drift, by a move, or by a run that was cut short?"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from swarm_iac.model.state import AllocationState, NodeState, Observed
from swarm_iac.model.step import Verb
from swarm_iac.plan import steps
from tests.plan import fleets
from tests.plan.conftest import LAWS
from tests.plan.interpreter import Fleet


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
