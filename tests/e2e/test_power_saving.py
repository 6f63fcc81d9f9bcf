"""On real nodes: is an idle one powered off and left out, does load bring it back, and is one that does not come reported?

The hooks work the emulated machines: a node powers itself off, and is started again by QEMU. Leaves the fleet as it found it.
"""

from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.conftest import Fleet
from tests.e2e.test_autopilot import UNITS, UP, load

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

TALK = """
  talk:
    user: cy
    kind: serve
    replicas: 1..3
    scale: {on: queue, target: 10, up: {after: 5 s}, down: {after: 20 s}}
    place: {per_node: 1}
    each: {vcpus: 0.1, memory: 32 MB}
    run: {command: /bin/sleep infinity}
    stop: {grace: 2 s}
"""
SAVING = "\npower_saving:\n  idle: {suspend_time: 30 s, resume_timeout: 10 min, suspend_timeout: 5 min}\n"
LAST = "gpu-03"


def hooks(fleet: Fleet, folder: Path) -> Path:
    """Of the sandbox. `resume` fails while there is a file `broken`."""
    sandbox = f"{sys.executable} -m swarm_iac.sandbox --root {fleet.sandbox.places.root}"
    scripts = {
        "resume": f'test ! -e {folder}/broken || exit 1\nsetsid {sandbox} fault "$1" power-on >>{folder}/log 2>&1 &',
        "suspend": f'timeout 20 {sandbox} ssh "$1" systemctl --no-block poweroff',
        "check": f'{sandbox} status | awk -v node="$1" \'$1 == node {{ print ($NF == "off") ? "off" : "on" }}\'',
    }
    folder.mkdir(mode=0o700)
    for name, text in scripts.items():
        (folder / name).write_text(f"#!/bin/sh\nexport PYTHONPATH={':'.join(filter(None, sys.path))}\n{text}\n")
        (folder / name).chmod(0o700)
    return folder


def state(fleet: Fleet) -> str:
    """What is written of the last node."""
    path = fleet.root / ".state" / "dev.live.json"
    found = json.loads(path.read_text()).get("power", {}) if path.exists() else {}
    return str(found[LAST]["state"]) if LAST in found else "on"


def powered(fleet: Fleet) -> bool:
    return next(one.running for one in fleet.sandbox.status() if one.name == LAST)


def units(fleet: Fleet, node: str) -> dict[str, str]:
    found = {}
    for line in fleet.node(node, UNITS).splitlines():
        words = line.split()
        if len(words) == 2 and "_" in line:
            name, process = sorted(words, key=str.isdigit)
            found[name] = process
    return found


def wait(what: Callable[[], bool], seconds: float, words: str) -> None:
    began = time.monotonic()
    while not what():
        assert time.monotonic() - began < seconds, f"too long: {words}"
        time.sleep(2)
    print(f"{words}: {time.monotonic() - began:.0f} s")


def test_an_idle_node_sleeps_until_load_needs_it(fleet: Fleet, tmp_path: Path) -> None:
    asked = fleet.stack.read_text()
    folder = hooks(fleet, tmp_path / "hooks")
    head = f"  {LAST}: {{hardware: l40s, "
    assert head in asked
    with_talk = asked.rstrip() + TALK + SAVING
    try:
        fleet.stack.write_text(with_talk.replace(head, f"{head}state: drain, "))
        load(fleet, 10)
        fleet.swarm(*UP).ok()
        assert not units(fleet, LAST)
        fleet.stack.write_text(with_talk.replace(head, f"{head}power_saving: idle, "))
        fleet.swarm(*UP).ok()
        before = {node: units(fleet, node) for node in ("gpu-01", "gpu-02")}
        pilot = fleet.begin("autopilot", "--metrics", "load.json", "--interval", "2", "--power-hooks", str(folder))
        try:
            sleeps_and_wakes(fleet, before, folder)
        finally:
            pilot.process.send_signal(signal.SIGTERM)
            print(pilot.end(300).text[-4000:])
    finally:
        (folder / "broken").unlink(missing_ok=True)
        if not powered(fleet):
            fleet.sandbox.power_on(LAST)
        fleet.stack.write_text(asked)
        live = fleet.root / ".state" / "dev.live.json"
        if live.exists():
            found = json.loads(live.read_text())
            live.write_text(json.dumps({**found, "power": {}}))
        fleet.swarm(*UP).ok()
    fleet.swarm("assert").ok()


def sleeps_and_wakes(fleet: Fleet, before: dict[str, dict[str, str]], folder: Path) -> None:
    wait(lambda: state(fleet) == "suspending", 120, "idle → power off asked")
    wait(lambda: state(fleet) == "off" and not powered(fleet), 300, "power off asked → off")
    fleet.swarm("assert").ok()
    text = fleet.swarm("plan").ok().text
    assert f"powered off: {LAST}" in text and "nothing to change" in text.lower()
    assert "asleep" in fleet.swarm("status").ok().text
    fleet.swarm("up", "--yes", "--skip-preview", "--expect-no-changes").ok()
    assert not powered(fleet), "nothing needs it"

    load(fleet, 30)
    wait(lambda: state(fleet) == "resuming", 120, "load → power on asked")
    wait(lambda: state(fleet) == "on", 600, "power on asked → answers")
    wait(lambda: any("talk" in name for name in units(fleet, LAST)), 600, "answers → replica runs")
    for node, was in before.items():
        assert was.items() <= units(fleet, node).items(), "nobody else was stopped or restarted"
    fleet.swarm("assert").ok()

    load(fleet, 10)
    wait(lambda: state(fleet) == "off", 900, "load falls → off again")
    (folder / "broken").touch()
    load(fleet, 30)
    wait(lambda: state(fleet) == "failed", 600, "a node that does not come has failed")
    assert f"{LAST} failed to power on since" in fleet.swarm("status").text
    decisions = fleet.swarm("history", "--decisions").ok().text
    assert "resuming → failed" in decisions and "on → suspending" in decisions
