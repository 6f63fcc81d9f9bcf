"""On real nodes: is what they do measured, under the names of those who hold it, with no right but to look, and is it gone afterwards?

Leaves the fleet as it found it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.e2e.conftest import NODES, Fleet
from tests.exporter.text_format import Read, parse

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

UP = ("up", "--yes", "--skip-preview")
#: By the address of the node itself: whoever is not a scraper of loopback gets no answer.
ASK = "python3 -c \"import urllib.request as u; print(u.urlopen('http://127.0.0.1:9418/metrics', timeout=30).read().decode(), end='')\""
UNITS = ("swarm-sampler.service", "swarm-exporter.service")


@pytest.fixture(scope="module")
def measured(restored: Fleet) -> Iterator[Fleet]:
    restored.edit("\nworkloads:\n", "\ntelemetry: {}\n\nworkloads:\n")
    restored.swarm(*UP).ok()
    yield restored


def page(fleet: Fleet, node: str) -> Read:
    text = fleet.node(node, f"{ASK} 2>/dev/null; true")
    return parse(f"{text}\n" if text else "")


def until(look: Callable[[], Any], most: float = 240) -> Any:
    end = time.monotonic() + most
    while True:
        found = look()
        if found or time.monotonic() > end:
            return found
        time.sleep(2)


def labels_of(read: Read, name: str) -> list[dict[str, str]]:
    return [dict(labels) for each, labels in read.series if each == name]


def test_every_node_answers_and_names_join_the_lock(measured: Fleet) -> None:
    team = {"ada": "research", "bo": "research", "cy": "product"}
    for node in NODES:
        here = {name: one for name, one in measured.placed().items() if one["node"] == node}
        read = gathered(measured, node, len(here))
        held = labels_of(read, "swarm_allocation_memory_bytes")
        assert {one["allocation"] for one in held} == here.keys()
        assert all(one["team"] == team[one["user"]] and one["workload"] == one["allocation"].rpartition("-")[0] for one in held)
        cards = {(one["allocation"], int(one["gpu"])) for one in labels_of(read, "swarm_gpu_allocated_ratio")}
        assert cards == {(name, gpu) for name, one in here.items() for gpu in one.get("gpus", ())}
        names = {name for name, _ in read.series}
        assert "swarm_gpu_power_watts" in names
        # One of the nodes has no allocation.
        assert not here or {"swarm_allocation_pressure_seconds_total", "swarm_allocation_unit_state"} <= names
        quotas = {(one["allocation"], one["directory"]) for one in labels_of(read, "swarm_allocation_directory_used_bytes")}
        assert len(quotas) == sum(bool(one.get("storage")) for one in here.values()), "the quota answers without any right"
        sent = {one["allocation"] for one in labels_of(read, "swarm_allocation_network_bytes_total")}
        assert sent == {name for name in here if not name.startswith("tidy")}


def gathered(fleet: Fleet, node: str, count: int) -> Read:
    """All series that the node showed until each collector was fresh once, with all allocations. An emulated node that is busy
    samples more slowly than its values may age, so that they come and go.
    """
    every, fresh = Read(), set()

    def whole() -> bool:
        read = page(fleet, node)
        every.series.update(read.series)
        fresh.update(key for key, value in read.series.items() if key[0] == "swarm_exporter_collector_fresh" and value)
        return len(fresh) == 5 and len(labels_of(every, "swarm_allocation_unit_state")) == 5 * count

    assert until(whole, 300), (sorted(map(str, fresh)), sorted(every.series, key=str))
    return every


def test_status_shows_what_the_gpus_of_each_node_draw_of_what_they_may(measured: Fleet) -> None:
    def told() -> dict[str, dict[str, float]]:
        nodes = json.loads(measured.swarm("status", "--json").ok().text)
        found = {name: one["power"] for name, one in nodes.items() if "power" in one}
        return found if len(found) == len(NODES) else {}

    def limits(node: str) -> list[float]:
        return [value for (name, _), value in page(measured, node).series.items() if name == "swarm_gpu_power_limit_watts"]

    power = until(told)
    for node in NODES:
        assert 0 < power[node]["drawn_w"] <= power[node]["limit_w"] == sum(until(lambda node=node: limits(node)))


def test_it_may_look_and_nothing_else(measured: Fleet) -> None:
    node = NODES[0]
    for unit in UNITS:
        pid = measured.node(node, f"systemctl show -P MainPID {unit}")
        status = measured.node(node, f"cat /proc/{pid}/status")
        fields = dict(line.split(":", 1) for line in status.splitlines())
        assert int(fields["CapEff"].strip(), 16) == int(fields["CapBnd"].strip(), 16) == 0
        assert "0" not in fields["Uid"].split() and fields["NoNewPrivs"].strip() == "1" and fields["Seccomp"].strip() == "2"
        inside = f"nsenter -t {pid} -m setpriv --reuid {fields['Uid'].split()[0]} --clear-groups"
        assert "Permission denied" in measured.node(node, f"{inside} cat /var/lib/swarm/ledger.json 2>&1; true")
        assert "Read-only" in measured.node(node, f"nsenter -t {pid} -m touch /usr/x 2>&1; true")
    assert "telemetry" in measured.node(node, "cat /proc/$(systemctl show -P MainPID swarm-exporter.service)/cgroup")
    ledger = json.loads(measured.node(node, "cat /var/lib/swarm/ledger.json"))
    told = measured.node(node, "cat /run/swarm-telemetry/labels.json")
    commands = [one["unit"]["command"] for one in ledger["state"]["allocations"].values() if one["unit"].get("command")]
    assert commands and not any(command in told for command in commands)


def test_one_that_is_killed_comes_back(measured: Fleet) -> None:
    node = NODES[0]
    for unit in UNITS:
        before = measured.node(node, f"systemctl show -P MainPID {unit}")
        measured.node(node, f"kill -9 {before}")
        after = until(lambda unit=unit, before=before: _other(measured, node, unit, before))
        assert after, f"{unit} was not started again"
    assert until(lambda: _answers(measured, node))


def _other(fleet: Fleet, node: str, unit: str, before: str) -> str:
    pid = fleet.node(node, f"systemctl show -P MainPID {unit}")
    return pid if pid not in ("0", before) else ""


def _answers(fleet: Fleet, node: str) -> bool:
    return "swarm_gpu_power_watts" in fleet.node(node, f"{ASK} 2>/dev/null; true")


def test_a_hand_that_stops_it_is_drift_and_is_undone(measured: Fleet) -> None:
    measured.swarm("assert").ok()
    measured.node(NODES[1], "systemctl stop swarm-exporter.service")
    seen = measured.swarm("assert")
    assert seen.status == 1 and "telemetry.port" in seen.text and NODES[1] in seen.text
    measured.swarm(*UP).ok()
    measured.swarm("assert").ok()
    assert until(lambda: _answers(measured, NODES[1]))


def test_it_survives_a_reboot(measured: Fleet) -> None:
    node = NODES[2]
    measured.sandbox.fault(node, "reboot")
    assert until(lambda: _answers(measured, node), 240)
    here = sum(one["node"] == node for one in measured.placed().values())
    gathered(measured, node, here)


def test_nothing_is_left_of_it(measured: Fleet) -> None:
    measured.edit("\ntelemetry: {}\n\nworkloads:\n", "\nworkloads:\n")
    measured.swarm(*UP).ok()
    measured.swarm("assert").ok()
    for node in NODES:
        left = (
            "ls -d /etc/systemd/system/*swarm-sampler* /etc/systemd/system/*swarm-exporter* /etc/systemd/system/swarmtelemetry*"
        )
        assert "No such" in measured.node(node, f"{left} /run/swarm-telemetry 2>&1 >/dev/null; true")
        assert measured.node(node, f"{left} /run/swarm-telemetry /run/swarm-sampler 2>/dev/null; true") == ""
        assert measured.node(node, "getent group swarm-telemetry; getent passwd swarm-sampler; true") == ""
