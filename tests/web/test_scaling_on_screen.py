"""In Debian's Chromium: is the autopilot's scaling on the page as it happens, up and down, without a reload?

The autopilot is the real one, in a process of its own, short of the machines: what it decided counts as applied at once.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.browser import Open
from tests.web.conftest import Served, make_repository, serving
from tests.web.test_live_replicas import STACK

SCALE = "scale: {on: requests_per_replica, target: 40, up: {after: 1 s}, down: {after: 4 s}}"
AUTOPILOT = """
import sys, time
from pathlib import Path
from swarm_iac.cli.machines import autopilot_loop as loop
from swarm_iac.live import file as live_file

def applied(self, layer, stack):
    live_file.write(self.path, layer.model_copy(update={"unapplied": (), "stopping": 0}), layer.generation)

loop.Autopilot._apply = applied
root = Path.cwd()
pilot = loop.Autopilot(root, "dev", loop.of_source(root, "load.json"), print)
loop.run(pilot, 0.5, lambda pause: time.sleep(pause), lambda outcome: None)
"""


def load(folder: Path, value: float) -> None:
    fresh = folder / "load.new"
    fresh.write_text(json.dumps({"chat": value}))
    fresh.replace(folder / "load.json")


@pytest.fixture
def flown(tmp_path: Path) -> Iterator[Served]:
    """A page of a fleet that an autopilot scales."""
    stack = re.sub(r"scale: .*", SCALE, STACK).replace("fleet: lab", "fleet: lab\nsolve: {stops: 8}")
    folder = make_repository(tmp_path / "fleet", stack)
    load(folder, 80)
    with serving(folder) as served:
        pilot = subprocess.Popen([sys.executable, "-c", AUTOPILOT], cwd=folder, stdout=subprocess.DEVNULL)
        try:
            yield served
        finally:
            pilot.kill()
            pilot.wait()


def test_replicas_are_seen_to_come_and_go(flown: Served, visit: Open) -> None:
    flown.settled("/")
    opened = visit(flown.url)
    page = opened.page
    page.locator("#live", has_text="live").wait_for()
    page.evaluate("window.same = true")
    cards = "#map li:has(a[href='/nodes/n1']) span[aria-label='8 GPUs: {} serving, {} free']"
    page.locator(cards.format(2, 6)).wait_for()
    other = visit(f"{flown.url}/workloads/chat").page
    other.locator("#live", has_text="live").wait_for()
    other.evaluate("window.same = true")
    rows = other.locator("tr", has_text=re.compile(r"^\s*chat-\d"))
    assert rows.count() == 2
    for value, free, replicas in ((240, 2, 6), (80, 6, 2)):
        load(flown.folder, value)
        began = time.monotonic()
        page.locator(cards.format(replicas, free)).wait_for(timeout=60_000)
        print(f"load {value} → {replicas} replicas on screen: {time.monotonic() - began:.1f} s")
        other.wait_for_function(
            "count => [...document.querySelectorAll('tr')].filter((row) => /^\\s*chat-\\d/.test(row.textContent)).length === count",
            arg=replicas,
            timeout=60_000,
        )
        live = [text for text in rows.all_inner_texts() if "live" in text]
        assert len(live) == replicas - 2, rows.all_inner_texts()
        if replicas == 6:
            assert "requests_per_replica 240, target 40 per replica: 2 → 6 replicas" in other.locator("body").inner_text()
    assert page.evaluate("window.same") and other.evaluate("window.same"), "no page was loaded again"
    assert opened.complaints == []
