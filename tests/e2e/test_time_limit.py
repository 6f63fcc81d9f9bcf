"""Do real machines end a job at its time limit, once, and heed another limit without a stop?

On the fleet as `swarm init` made it; it is left so.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator

import pytest

from tests.e2e.conftest import Fleet
from tests.e2e.test_lives import PLACES, Stage, job

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

SLEEPS = "sh -c 'echo ran >> log; trap \"echo asked >> log; exit 0\" TERM; sleep 600 & wait'"
WISH = {
    "brief": job(SLEEPS, "one", restart="on-failure", time="25 s"),
    "long": job(SLEEPS, "two", time={"expected": "1 s", "limit": "1 h"}),
    "named": job(SLEEPS, "two", time={"limit": "5 s", "past": "report"}),
}


@pytest.fixture(scope="module")
def stage(fleet: Fleet) -> Iterator[Stage]:
    before = fleet.stack.read_text()
    yield Stage(fleet)
    fleet.stack.write_text(before)
    fleet.swarm("up", "--yes", "--skip-preview", "--allow-stop", "9")


def test_a_job_is_ended_at_its_limit_and_started_no_more(stage: Stage) -> None:
    stage.request(WISH)
    stage.up()
    end = time.monotonic() + 90
    while stage.runs("brief-0"):
        assert time.monotonic() < end
        time.sleep(1)
    time.sleep(6)  # its unit would be started again after 2 s
    told = stage.fleet.swarm("ps", COLUMNS="250").ok().text
    assert re.search(r"brief-0.*failed: reached its time limit of 25 s", told)
    assert re.search(r"named-0.*healthy; has run for .*, past its limit of 5 s", told)
    assert re.search(r"long-0.*healthy; has run for .*, and 1 s was expected", told)
    assert "brief-0" in stage.up()
    assert stage.runs("brief-0") == {}
    assert stage.cards(PLACES["one"], "brief-0") == [], "it gave its GPU back"
    assert stage.fleet.node(PLACES["one"], "cat /srv/swarm/scratch/brief-0/log").split() == ["ran", "asked"]
    stage.fleet.pulumi("preview", "--expect-no-changes").ok()


def test_another_limit_is_heeded_by_what_runs(stage: Stage) -> None:
    before, two = stage.runs("long-0"), PLACES["two"]
    stage.request({**WISH, "long": job(SLEEPS, "two", time={"limit": "2 h"})})
    stage.up()
    assert stage.runs("long-0") == before, "it was not stopped for it"
    assert stage.fleet.node(two, "systemctl show -P RuntimeMaxUSec swarm-long_0.service") == "1h 59min 55s"
    stage.fleet.node(two, "mkdir -p /etc/systemd/system/swarm-long_0.service.d")
    stage.fleet.node(two, "printf '[Service]\\nRuntimeMaxSec=infinity\\n' > /etc/systemd/system/swarm-long_0.service.d/x.conf")
    stage.fleet.node(two, "systemctl daemon-reload")
    assert "time_limit_s" in stage.fleet.swarm("assert").text, "somebody's own limit is drift"
    stage.up()
    assert stage.fleet.node(two, "systemctl show -P RuntimeMaxUSec swarm-long_0.service") == "1h 59min 55s"
    assert stage.runs("long-0") == before
