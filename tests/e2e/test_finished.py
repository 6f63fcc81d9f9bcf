"""On real machines: does who waits get the place of a job that finished, whose files stay?

On the fleet as `swarm init` made it; it is left so.
"""

from __future__ import annotations

import datetime
import time
from collections.abc import Iterator
from typing import Any

import pytest

from swarm_iac.stackfile import load
from tests.e2e.conftest import Fleet
from tests.e2e.test_lives import PLACES, Stage, job

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

TWO = PLACES["two"]


@pytest.fixture(scope="module")
def stage(fleet: Fleet) -> Iterator[Stage]:
    before = fleet.stack.read_text()
    yield Stage(fleet)
    fleet.stack.write_text(before)
    fleet.swarm("up", "--yes", "--skip-preview", "--allow-stop", "9").ok()


def whole_node(stage: Stage, command: str) -> dict[str, Any]:
    """A job with every GPU of its node."""
    request = job(command, "two")
    request["each"]["gpus"] = load(stage.fleet.stack, today=datetime.date.today()).stack.hardware_of(TWO).gpus.count
    return request


def test_who_waits_starts_where_a_job_finished(stage: Stage) -> None:
    first = whole_node(stage, "sh -c 'echo ran >> log; until test -e end; do sleep 0.2; done'")
    then = whole_node(stage, "/bin/sleep infinity")
    stage.request({"first": first})
    stage.up()
    stage.request({"first": first, "then": then})
    assert "1 pending" in stage.fleet.swarm("plan").ok().text
    stage.up()
    assert stage.runs("then-0") == {}

    stage.fleet.node(TWO, "touch /srv/swarm/scratch/first-0/end")
    end = time.monotonic() + 60
    while stage.runs("first-0"):
        assert time.monotonic() < end
        time.sleep(1)
    refused = stage.fleet.swarm("plan", SWARM_FROZEN="1")
    assert refused.status == 3 and "first-0 has ended since, and then waits for capacity" in refused.text
    assert "1 to start" in stage.fleet.swarm("plan").ok().text
    stage.up()
    assert stage.runs("then-0").keys() == {TWO}
    assert (stage.cards(TWO, "first-0"), len(stage.cards(TWO, "then-0"))) == ([], first["each"]["gpus"])
    assert stage.fleet.placed()["first-0"]["ended"] is True
    assert stage.fleet.node(TWO, "cat /srv/swarm/scratch/first-0/log") == "ran", "its files stay, and it ran once"
    stage.fleet.swarm("assert").ok()
    stage.fleet.pulumi("preview", "--expect-no-changes").ok()
