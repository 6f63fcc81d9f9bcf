"""Do the rows of a preview say what becomes of a job that came to its end, and of one that waits since a reboot?"""

from __future__ import annotations

import pytest

from swarm_iac.model.state import Observed
from swarm_iac.plan.state.completion import released
from swarm_iac.provider.operations import fleet_rows
from swarm_iac.provider.operations.failures import row_of
from swarm_iac.reconcile import Reconciliation, Records, Target, Transition
from tests.plan import fleets
from tests.plan.test_lives import one

ROW = ("Allocation", "train-0")


def reconciled(health: str, *, hold: bool = False) -> Reconciliation:
    request = fleets.node({"train-0": one("train-0", (0, 1))})
    desired = {
        name: each.model_copy(update={"hold": ("train-0",) if hold else ()})
        for name, each in fleets.desired({"n1": request}).items()
    }
    found = fleets.observed({"n1": fleets.node({"train-0": one("train-0", (0, 1), health=health)})}, {"train-0": health})
    seen: dict[str, Observed] = {"n1": found["n1"].model_copy(update={"booted": 1_795_287_780})}
    return Reconciliation(Transition.of(Target(desired, "l"), Records(), None), seen)


@pytest.mark.parametrize(("how", "shown"), [("done", "ok"), ("failed", "failed")])
def test_an_end_gives_back_and_stays_as_it_is(how: str, shown: str) -> None:
    seen = reconciled(how)
    before, after = fleet_rows.found(seen, {})[ROW], fleet_rows.wanted(seen)[ROW]
    assert before["gpus"] == "0-1" and "gpus" not in after and "memoryMax" not in after
    assert after["health"] == before["health"] == shown
    assert ROW in {row_of(step) for step in seen.plan.steps}, "and there is a step that does it"


def test_who_holds_keeps_its_row() -> None:
    seen = reconciled("done", hold=True)
    assert fleet_rows.wanted(seen)[ROW] == fleet_rows.found(seen, {})[ROW] and seen.plan.steps == ()


def recorded(health: str) -> Reconciliation:
    """By the lock train-0 has ended, and train-1 has its GPUs."""
    state = one("train-0", (0, 1), health=health)
    request = fleets.node({"train-0": released(one("train-0", (0, 1))), "train-1": one("train-1", (0, 1))})
    desired = {name: each.model_copy(update={"ended": ("train-0",)}) for name, each in fleets.desired({"n1": request}).items()}
    seen = fleets.observed({"n1": fleets.node({"train-0": state})}, {"train-0": health})
    return Reconciliation(Transition.of(Target(desired, "l"), Records(), None), seen)


def test_who_gets_the_place_of_a_finished_job_starts_when_it_is_over() -> None:
    over, runs = recorded("done"), recorded("healthy")
    assert ("Allocation", "train-1") in {row_of(step) for step in over.plan.steps} and not fleet_rows.blocked(over)
    assert not [step for step in runs.plan.steps if step.allocation], "nothing is taken, and nothing is given"
    assert "runs still" in fleet_rows.blocked(runs)["Allocation", "train-1"] and ROW in fleet_rows.blocked(runs), (
        "and the run says so in its error"
    )


def test_a_node_with_the_files_of_a_finished_job_may_leave_the_stack() -> None:
    """The lock knows that it ended, so nothing would be run again; what no lock knows keeps its node."""
    was, now = reconciled("done"), fleets.desired({"n2": fleets.node({})})
    before = Records("l", 1, was.transition.target.nodes)
    seen = {**was.observed, **fleets.observed({"n2": fleets.node({})})}
    left = Reconciliation(Transition.of(Target(now, "l"), before, None), seen)
    left.guard(0)
    assert [step.id for step in left.plan.steps if step.allocation] == ["n1/release/train-0"]


def test_who_waits_since_a_reboot_is_shown_to_start() -> None:
    seen = reconciled("waiting")
    assert fleet_rows.found(seen, {})[ROW]["health"] == "waits for a run since the reboot of 2026-11-21 19:03 UTC"
    assert fleet_rows.wanted(seen)[ROW]["health"] == "ok"


@pytest.mark.parametrize("how", ["done", "failed"])
def test_an_end_within_a_run_is_no_failure_of_it(how: str) -> None:
    first, now = reconciled("healthy"), reconciled(how)
    assert now.plan.steps != () and now.as_if_running(first).plan.steps == ()
    assert now.as_if_running(now).plan.steps == now.plan.steps, "one that was known before was to be given back"
