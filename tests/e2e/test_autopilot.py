"""On real nodes: do replicas come and go with the load, is nobody else stopped, and does a kill of autopilot or node stop nothing?

Leaves the fleet as it found it.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Sequence

import pytest

from tests.e2e.conftest import NODES, Fleet, Running

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

UP = ("up", "--yes", "--skip-preview")
TALK = """
  talk:
    user: cy
    kind: serve
    replicas: 2..6
    scale: {on: queue, target: 10, up: {after: 5 s}, down: {after: 20 s}}
    each: {vcpus: 0.4, memory: 32 MB}
    run: {command: /bin/sleep infinity}
    stop: {grace: 2 s}
"""
#: systemctl sets units apart by an empty line.
UNITS = "systemctl show -P Id -P MainPID 'swarm-*.service' --state=active | grep . | paste - -"


def running(fleet: Fleet, nodes: Sequence[str] = NODES) -> dict[str, str]:
    """Every active unit of an allocation → node and process."""
    found = {}
    for node in nodes:
        for line in fleet.node(node, UNITS).splitlines():
            words = line.split()
            if len(words) == 2 and "_" in line:
                name, process = sorted(words, key=str.isdigit)
                found[name] = f"{node} {process}"
    return found


def talk(units: dict[str, str]) -> dict[str, str]:
    return {name: where for name, where in units.items() if "talk" in name}


def wait(what: Callable[[], bool], seconds: float) -> float:
    began = time.monotonic()
    while not what():
        assert time.monotonic() - began < seconds, "it took too long"
        time.sleep(2)
    return time.monotonic() - began


def load(fleet: Fleet, value: float) -> None:
    fresh = fleet.root / "load.new"
    fresh.write_text(json.dumps({"talk": value}))
    fresh.replace(fleet.root / "load.json")


def first_of(fleet: Fleet, names: set[str]) -> tuple[float, float]:
    """When systemd began the first of these, and when its command ran, by the clocks of their nodes. [s since 1970]"""
    keys = ("InactiveExitTimestampMonotonic", "ActiveEnterTimestampMonotonic")
    found = []
    for name, where in running(fleet).items():
        if name in names:
            shown = fleet.node(where.split()[0], f"systemctl show {name} -p {','.join(keys)}; date +%s.%N; cat /proc/uptime")
            began, ran, now, up = (float(line.rpartition("=")[2].split()[0]) for line in shown.splitlines())
            since = (now - up + began / 1e6, now - up + ran / 1e6)
            found.append(since)
    return min(found)


def decided(fleet: Fleet, before: int, after: int) -> float:
    """When the autopilot decided that last. [s since 1970]"""
    lines = map(json.loads, reversed((fleet.root / ".state" / "dev.live.log").read_text().splitlines()))
    return float(next(one["at"] for one in lines if (one.get("before"), one.get("after")) == (before, after)))


def fly(fleet: Fleet) -> Running:
    return fleet.begin("autopilot", "--metrics", "load.json", "--interval", "2", "--lease", "120")


def cut_off(fleet: Fleet, before: dict[str, str]) -> None:
    """Cut the power of a node with a live replica; nobody else notices, and it comes back with what it had."""
    layer = fleet.root / ".state" / "dev.live.json"
    load(fleet, 60)
    wait(lambda: len(talk(running(fleet))) == 6, 600)
    wait(lambda: "unapplied" not in json.loads(layer.read_text()), 300)
    now = running(fleet)
    dark = next(where.split()[0] for name, where in talk(now).items() if name not in before)
    fleet.sandbox.power_off(dark)
    time.sleep(20)  # several decisions in which it does not answer
    others = {name: where for name, where in now.items() if where.split()[0] != dark}
    assert running(fleet, [node for node in NODES if node != dark]) == others, "none stops, and none is started twice"
    fleet.sandbox.power_on(dark)
    back = wait(lambda: talk(running(fleet)).keys() == talk(now).keys(), 300)
    print(f"{dark} was cut off; its replicas run {back:.0f} s after its ssh answered")
    assert {name: where for name, where in running(fleet).items() if where.split()[0] != dark} == others


def test_replicas_come_and_go_and_nobody_else_is_stopped(fleet: Fleet) -> None:
    asked = fleet.stack.read_text()
    fleet.stack.write_text(asked.rstrip() + TALK)
    load(fleet, 20)
    fleet.swarm(*UP).ok()
    before = running(fleet)
    assert len(talk(before)) == 2, before
    pilots = [fly(fleet)]
    try:
        time.sleep(6)  # it is there
        rose = time.time()
        load(fleet, 60)
        print("2 → 6:", wait(lambda: len(talk(running(fleet))) == 6, 600), "s")
        decision = decided(fleet, 2, 6)
        began, ran = first_of(fleet, talk(running(fleet)).keys() - before.keys())
        print(f"decision {decision - rose:.1f} s after the load; the first new replica begins {began - decision:.1f} s later, and "
              f"its own start takes {ran - began:.1f} s")  # fmt: skip
        # What was promised is 5 s and 15 s; on a machine that does other work too it is told, and not asserted.
        assert rose - 1 < decision < began + 1 and began <= ran
        layer = fleet.root / ".state" / "dev.live.json"
        wait(lambda: "unapplied" not in json.loads(layer.read_text()), 300)
        now = running(fleet)
        assert {name: now.get(name) for name in before} == before, "nobody else was stopped or restarted"
        fleet.swarm("assert").ok()
        assert "nothing to change" in fleet.swarm("plan").ok().text

        pilots.append(fly(fleet))  # two at once
        time.sleep(6)
        os.kill(pilots[0].process.pid, signal.SIGKILL)
        pilots[0].end(30)
        assert running(fleet) == now, "a dead autopilot stops nothing"
        load(fleet, 20)
        print("6 → 2:", wait(lambda: len(talk(running(fleet))) == 2, 600), "s")
        assert running(fleet) == before
        text = fleet.swarm("history", "--decisions").ok().text
        assert "2 → 6" in text and "6 → 2" in text
        cut_off(fleet, before)
    finally:
        for pilot in pilots:
            if pilot.process.poll() is None:
                pilot.process.send_signal(signal.SIGTERM)
            done = pilot.end(300)
            print(done.text[-3000:])
        fleet.stack.write_text(asked)
        fleet.swarm(*UP).ok()
    fleet.swarm("assert").ok()
