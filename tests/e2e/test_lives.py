"""Do jobs live and end as promised: over an end, the death of a gang's member, a loss of power, and a node given up as lost?

On the fleet as `swarm init` made it; it is left so.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.e2e.conftest import NODES, Fleet

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

PLACES = dict(zip(("one", "two", "three"), NODES, strict=True))


def job(command: str, at: str = "", **more: Any) -> dict[str, Any]:
    each = {"gpus": 1, "vcpus": 0.25, "memory": "64 MB", "scratch": "50 MB"}
    place = {"select": {"at": at}} if at else {"spread": "node"}
    return {
        "user": "ada",
        "kind": "train",
        "each": each,
        "place": place,
        "run": {"command": command},
        "stop": {"grace": "5 s"},
        **more,
    }


WEB = {
    "user": "cy", "kind": "serve", "each": {"vcpus": 0.5, "memory": "128 MB"}, "place": {"select": {"at": "two"}},
    "run": {"command": "python3 -m http.server 8000", "port": 8000, "healthy": "/"},
}  # fmt: skip


class Stage:
    """Workloads of our own, and what the kernel knows of them."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.text: dict[str, Any] = yaml.safe_load(fleet.stack.read_text())
        for label, node in PLACES.items():
            self.text["nodes"].setdefault(node, {})["labels"] = {"at": label}

    def request(self, workloads: dict[str, Any], **nodes: str) -> None:
        self.text["workloads"] = workloads
        for label, state in nodes.items():
            self.text["nodes"][PLACES[label]]["state"] = state
        self.fleet.stack.write_text(yaml.safe_dump(self.text, sort_keys=False))

    def up(self) -> str:
        return self.fleet.swarm("up", "--yes", "--skip-preview").ok().text

    def runs(self, allocation: str) -> dict[str, str]:
        """Node → the main process of an allocation's service, where one runs."""
        unit = f"swarm-{allocation.replace('-', '_')}.service"
        found = {node: self.fleet.node(node, f"systemctl show -p MainPID --value {unit}") for node in NODES}
        return {node: pid for node, pid in found.items() if pid != "0"}

    def cards(self, node: str, allocation: str) -> list[str]:
        """GPUs that systemd lets its slice open."""
        said = self.fleet.node(node, f"systemctl show -p DeviceAllow swarm-{allocation.replace('-', '_')}.slice")
        return re.findall(r"/dev/nvidia[0-9]+", said)

    def settle(self, seconds: float = 120) -> None:
        """Wait until no short job runs any more."""
        end = time.monotonic() + seconds
        while self.runs("quick-0") or self.runs("bad-0") or self.runs("held-0"):
            assert time.monotonic() < end
            time.sleep(1)


@pytest.fixture(scope="module")
def stage(fleet: Fleet) -> Iterator[Stage]:
    before = fleet.stack.read_text()
    yield Stage(fleet)
    fleet.stack.write_text(before)
    fleet.swarm("up", "--yes", "--skip-preview", "--allow-stop", "20").ok()


ENDS = {
    "quick": job("sh -c 'echo ran >> log; sleep 50'", "two"),
    "bad": job("sh -c 'echo ran >> log; sleep 50; exit 3'", "two"),
    "held": job("sh -c 'echo ran >> log; sleep 50'", "two", hold=True),
    "pair": job("/bin/sleep infinity", gang=2),
    "twin": job("/bin/sleep infinity", gang=2, restart="on-failure"),
    "solo": job("/bin/sleep infinity", "two"),
    "web": WEB,
}


def test_ends_give_back_what_they_hold_unless_they_hold_it(stage: Stage) -> None:
    stage.request(ENDS)
    stage.up()
    stage.settle()
    two = PLACES["two"]
    stage.up()
    assert (stage.cards(two, "quick-0"), stage.cards(two, "bad-0"), len(stage.cards(two, "held-0"))) == ([], [], 1)
    logs = stage.fleet.node(two, "cat /srv/swarm/scratch/{quick,bad,held}-0/log").split()
    assert logs == ["ran"] * 3, "files stay, and nothing ran twice"
    told = stage.fleet.swarm("ps", COLUMNS="250").ok().text
    assert re.search(r"bad-0.*failed", told) and re.search(r"quick-0.*done", told)
    stage.fleet.pulumi("preview", "--expect-no-changes").ok()


def test_a_gang_of_which_a_member_dies_stops_whole_and_follows_restart(stage: Stage) -> None:
    before = {name: stage.runs(name) for name in ("pair-0", "pair-1", "twin-0", "twin-1")}
    for name in ("pair-0", "twin-0"):
        ((node, pid),) = before[name].items()
        stage.fleet.node(node, f"kill -9 {pid}")
    told = stage.up()
    assert "pair-0" in told and "failed and is not started again" in told
    assert stage.runs("pair-0") == stage.runs("pair-1") == {}, "half a gang would hold its GPUs for nothing"
    for name in ("twin-0", "twin-1"):
        assert stage.runs(name).keys() == before[name].keys() and stage.runs(name) != before[name], "all of it started anew"
    stage.fleet.pulumi("preview", "--expect-no-changes").ok()


def test_after_a_loss_of_power_services_are_back_jobs_wait_and_ends_last(stage: Stage) -> None:
    two = PLACES["two"]
    stage.fleet.sandbox.power_off(two)
    stage.fleet.sandbox.power_on(two)
    answers = "timeout 90 sh -c 'until ss -ltn | grep -q :8000; do sleep 1; done'; sleep 3"
    stage.fleet.node(two, answers, timeout=120)
    preview = stage.fleet.pulumi("preview", "--diff").ok().rows()
    assert {name for name, text in preview.items() if "waits for a run since the reboot of" in text} >= {"Allocation solo-0"}
    assert not preview.keys() & {
        "Allocation web-0",
        "Allocation quick-0",
        "Allocation bad-0",
        "Allocation held-0",
        f"Node {two}",
    }
    assert stage.runs("solo-0") == {} and stage.runs("web-0").keys() == {two}
    assert "waits for a run since" in stage.fleet.swarm("ps", COLUMNS="250").ok().text
    stage.up()
    assert stage.runs("solo-0").keys() == {two}
    assert stage.fleet.node(two, "cat /srv/swarm/scratch/{quick,bad,held}-0/log").split() == ["ran"] * 3
    stage.fleet.pulumi("preview", "--expect-no-changes").ok()


def test_a_machine_given_up_as_lost_never_runs_its_old_job_again(stage: Stage) -> None:
    request: dict[str, Any] = {"solo": job("/bin/sleep infinity", "two"), "web": WEB}
    stage.request(request)
    stage.fleet.swarm("up", "--yes", "--skip-preview", "--allow-stop", "20").ok()
    two = PLACES["two"]
    assert stage.runs("solo-0").keys() == {two}
    stage.fleet.sandbox.power_off(two)
    request = {"solo": {**job("/bin/sleep infinity"), "place": {}}}
    stage.request(request, two="lost")
    stage.up()
    home = stage.fleet.placed()["solo-0"]["node"]
    assert home != two
    stage.fleet.sandbox.power_on(two)
    there = stage.runs("solo-0")
    assert there.keys() == {home}, "it waits on the machine that came back"
    stage.request(request, two="ready")
    stage.up()
    assert stage.runs("solo-0") == there, "and who runs is not disturbed"
    assert "solo" not in stage.fleet.node(two, "cat /var/lib/swarm/ledger.json; ls /sys/fs/cgroup/swarm.slice")
    stage.fleet.pulumi("preview", "--expect-no-changes").ok()
