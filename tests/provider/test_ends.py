"""Do the rows of a preview say what becomes of a job that came to its end, and of one that waits since a reboot?"""

from __future__ import annotations

import pytest

from swarm_iac.model.state import Observed
from swarm_iac.provider import spec
from swarm_iac.provider.failures import row_of
from swarm_iac.provider.sight import Asked, Sight
from tests.plan import fleets
from tests.plan.test_lives import one

ROW = ("Allocation", "train-0")


def sight(health: str, *, hold: bool = False) -> Sight:
    wish = fleets.node({"train-0": one("train-0", (0, 1))})
    desired = {
        name: each.model_copy(update={"hold": ("train-0",) if hold else ()})
        for name, each in fleets.desired({"n1": wish}).items()
    }
    found = fleets.observed({"n1": fleets.node({"train-0": one("train-0", (0, 1), health=health)})}, {"train-0": health})
    seen: dict[str, Observed] = {"n1": found["n1"].model_copy(update={"booted": 1_795_287_780})}
    return Sight(Asked.of({"spec": spec.pack(desired), "lineage": "l"}, {}, {}), seen, "")


@pytest.mark.parametrize(("how", "shown"), [("done", "ok"), ("failed", "failed")])
def test_an_end_gives_back_and_stays_as_it_is(how: str, shown: str) -> None:
    seen = sight(how)
    before, after = seen.rows({})[ROW], seen.wanted[ROW]
    assert before["gpus"] == "0-1" and "gpus" not in after and "memoryMax" not in after
    assert after["health"] == before["health"] == shown
    assert ROW in {row_of(step) for step in seen.plan.steps}, "and there is a step that does it"


def test_who_holds_keeps_its_row() -> None:
    seen = sight("done", hold=True)
    assert seen.wanted[ROW] == seen.rows({})[ROW] and seen.plan.steps == ()


def test_who_waits_since_a_reboot_is_shown_to_start() -> None:
    seen = sight("waiting")
    assert seen.rows({})[ROW]["health"] == "waits for a run since the reboot of 2026-11-21 19:03 UTC"
    assert seen.wanted[ROW]["health"] == "ok"


@pytest.mark.parametrize("how", ["done", "failed"])
def test_an_end_within_a_run_is_no_failure_of_it(how: str) -> None:
    first, now = sight("healthy"), sight(how)
    assert now.plan.steps != () and now.as_if_running(first).plan.steps == ()
    assert now.as_if_running(now).plan.steps == now.plan.steps, "one that was known before was to be given back"
