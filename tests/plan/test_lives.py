"""Does a life go on as it should: after its end, after the death of a member of its gang, after a reboot, after `lost`?"""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from swarm_iac.model.state import AllocationState, Desired, NodeState, Observed
from swarm_iac.model.step import Plan, Verb
from swarm_iac.plan import guards, rows, steps
from swarm_iac.plan.show.rows import health_words
from tests.plan import fleets
from tests.plan.conftest import LAWS
from tests.plan.interpreter import Fleet
from tests.plan.test_ends import job

HEALTH = {"failed": False, "done": False, "waiting": False, "stopped": False, "healthy": True}


def one(name: str, gpus: tuple[int, ...], *, health: str = "healthy", restart: bool = False) -> AllocationState:
    """A job as it is found when it is `health`."""
    found = job(name, gpus)
    unit = found.unit.model_copy(update={"restart": restart, "active": HEALTH[health]})
    return found.model_copy(update={"unit": unit})


def fleet(
    health: dict[str, str], *, restart: bool = False, hold: tuple[str, ...] = ()
) -> tuple[dict[str, Observed], dict[str, Desired]]:
    """Each allocation has two GPUs of a node of its own, and is asked for there."""
    homes = dict(zip(fleets.NODES, health, strict=False))
    found = {node: fleets.node({name: one(name, (0, 1), health=health[name], restart=restart)}) for node, name in homes.items()}
    requested = {node: fleets.node({name: one(name, (0, 1), restart=restart)}) for node, name in homes.items()}
    desired = {node: request.model_copy(update={"hold": hold}) for node, request in fleets.desired(requested, found).items()}
    return fleets.observed(found, health), desired


def done(observed: dict[str, Observed], desired: dict[str, Desired], plan: Plan) -> dict[str, NodeState]:
    """The machines after the plan, in any order that it allows; health is as it was where nothing was started."""
    machines = Fleet(observed, desired)
    left, chance = list(plan.steps), random.Random(7)
    while left:
        ids = {step.id for step in left}
        step = chance.choice([each for each in left if not ids.intersection(each.after)])
        machines.run(step)
        left.remove(step)
    return machines.nodes


def again(observed: dict[str, Observed], nodes: dict[str, NodeState], stopped: set[str]) -> dict[str, Observed]:
    """The same machines, read again."""
    return {
        name: seen.model_copy(update={
            "state": nodes[name], "health": {at: "stopped" if at in stopped else told for at, told in seen.health.items()},
        })
        for name, seen in observed.items()
    }  # fmt: skip


@LAWS
@given(st.sampled_from(["done", "failed"]), st.booleans())
def test_an_end_gives_back_all_but_its_files_unless_it_holds(how: str, hold: bool) -> None:
    observed, desired = fleet({"train-0": how}, hold=("train-0",) if hold else ())
    plan = steps(observed, desired)
    nodes = done(observed, desired, plan)
    state = nodes["n1"].allocations["train-0"]
    assert not [step for step in plan.steps if step.verb in (Verb.START, Verb.STOP, Verb.RELEASE, Verb.DIRECTORIES)]
    assert state.cards == ((0, 1) if hold else ()) and (state.slice.memory_max is not None) == hold
    assert state.scratch == desired["n1"].state.allocations["train-0"].scratch
    assert steps(again(observed, nodes, set()), desired).steps == ()


@LAWS
@given(st.sampled_from(["gang-0", "gang-1"]), st.sampled_from(["healthy", "stopped"]))
def test_a_gang_of_which_one_member_failed_stops_whole_and_stays_so(dead: str, other: str) -> None:
    health = {name: "failed" if name == dead else other for name in ("gang-0", "gang-1")}
    observed, desired = fleet(health)
    plan = steps(observed, desired)
    assert not [step for step in plan.steps if step.verb in (Verb.START, Verb.HEALTH, Verb.RELEASE)]
    alive = {name for name in health if health[name] == "healthy"}
    assert {step.allocation for step in plan.steps if step.verb is Verb.STOP} == alive
    assert guards.stopped(plan, desired) == (), "no change stops them, and none is refused for it"
    nodes = done(observed, desired, plan)
    assert not any(state.gpus for node in nodes.values() for state in node.allocations.values()), "half a gang holds nothing"
    assert steps(again(observed, nodes, alive), desired).steps == ()
    assert any(dead in warning for warning in plan.warnings)


@LAWS
@given(st.sampled_from(["failed", "stopped", "waiting"]), st.sampled_from(["failed", "healthy", "waiting"]))
def test_a_gang_that_may_restart_stops_whole_and_starts_whole(one_is: str, other_is: str) -> None:
    observed, desired = fleet({"gang-0": one_is, "gang-1": other_is}, restart=True)
    plan = steps(observed, desired)
    starts = {step.allocation for step in plan.steps if step.verb is Verb.START}
    assert starts == {"gang-0", "gang-1"}
    assert {step.allocation for step in plan.steps if step.verb is Verb.STOP} == (
        {"gang-1"} if other_is == "healthy" else set()
    )
    assert all(state.unit.active for node in done(observed, desired, plan).values() for state in node.allocations.values())


def test_another_command_is_another_gang() -> None:
    observed, desired = fleet({"gang-0": "failed", "gang-1": "stopped"})
    requested = {node: fleets.node({f"gang-{index}": job(f"gang-{index}", (0, 1), "y")}) for index, node in enumerate(desired)}
    plan = steps(observed, fleets.desired(requested))
    assert {step.allocation for step in plan.steps if step.verb is Verb.START} == {"gang-0", "gang-1"}


def test_a_member_that_was_never_started_stays_out_of_a_gang_that_failed() -> None:
    observed, desired = fleet({"gang-0": "failed", "gang-1": "stopped"})
    observed["n2"] = observed["n2"].model_copy(update={"state": fleets.node({}), "health": {}})
    assert not [step for step in steps(observed, desired).steps if step.allocation == "gang-1"]


def test_what_waits_since_a_reboot_says_so_and_is_started_by_a_run() -> None:
    observed, desired = fleet({"train-0": "waiting"})
    observed["n1"] = observed["n1"].model_copy(update={"booted": 1_795_287_780})
    told = "waits for a run since the reboot of 2026-11-21 19:03 UTC"
    assert health_words(observed["n1"], "train-0") == told
    assert rows(observed)["Allocation", "train-0"]["health"] == told
    assert rows(desired)["Allocation", "train-0"]["health"] == "ok"
    plan = steps(observed, desired)
    assert [(step.verb, step.why) for step in plan.steps if step.verb is Verb.START] == [
        (Verb.START, "waited for a run since its node booted")
    ]


@LAWS
@given(st.sampled_from(["waiting", "healthy", "done"]))
def test_a_job_placed_elsewhere_never_runs_again_on_a_machine_that_comes_back(was: str) -> None:
    """n1 was given up as lost, train-0 went to n2; now n1 is ready again, rebooted or not."""
    found = {
        "n1": fleets.node({"train-0": one("train-0", (0, 1), health=was)}),
        "n2": fleets.node({"train-0": one("train-0", (0, 1))}),
    }
    observed = fleets.observed(found, {"train-0": "healthy"})
    observed["n1"] = observed["n1"].model_copy(update={"health": {"train-0": was}})
    desired = fleets.desired({"n1": fleets.node({}), "n2": found["n2"]}, found)
    plan = steps(observed, desired)
    stops = ["n1/stop/train-0"] if was == "healthy" else []
    assert sorted(step.id for step in plan.steps if step.allocation) == ["n1/release/train-0", *stops]
    nodes = done(observed, desired, plan)
    assert nodes["n2"] == found["n2"], "what runs is not touched"
