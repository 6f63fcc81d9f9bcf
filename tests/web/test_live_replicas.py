"""Is a replica that the autopilot granted on the page as it comes, marked as live, and only its team told why?"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.web.conftest import Served, make_repository, serving, token_file

STACK = """
fleet: lab
teams: {research: {users: [ada]}, serving: {users: [cy]}}
hardware: {h: {gpus: 8 x H100, vcpus: 64, memory: 1 TB}}
nodes: {n1: {hardware: h, ssh: root@n1.invalid}}
workloads:
  chat:
    user: cy
    kind: serve
    replicas: 2..6
    scale: {on: requests_per_replica, target: 40}
    each: {gpus: 1}
    run: {command: serve}
"""
#: What the autopilot does to a fleet, short of the machines.
GRANT = """
import sys
from pathlib import Path
from swarm_iac.cli.machines import autopilot_loop as loop
loop.Autopilot._apply = lambda self, layer, stack: None
root = Path.cwd()
loop.Autopilot(root, "dev", loop.of_source(root, "load.json"), print).once()
"""


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    folder = make_repository(tmp_path / "fleet", STACK)
    (folder / "load.json").write_text(json.dumps({"chat": 240}))
    with serving(folder, "--token-file", str(token_file(folder))) as found:
        yield found


def test_a_live_replica_is_shown_as_it_comes_and_why_to_its_team(served: Served) -> None:
    cy, ada = served.sign_in("cy"), served.sign_in("ada")
    assert "chat-2" not in served.ask("/workloads/chat", cookie=cy).text
    subprocess.run([sys.executable, "-c", GRANT], cwd=served.folder, check=True)
    until = time.monotonic() + 20
    while "chat-2" not in (text := served.ask("/workloads/chat", cookie=cy).text) and time.monotonic() < until:
        time.sleep(0.2)
    rows = [line for line in text.splitlines() if "<tr><td>chat-" in line]
    assert [line.endswith("live") for line in rows] == [False] * 2 + [True] * 4
    assert "chat-2 is live: requests_per_replica 240, target 40 per replica" in text
    other = served.ask("/workloads/chat", cookie=ada).text
    assert "chat-2" in other and "requests_per_replica" not in other
    assert served.ask("/nodes/n1", cookie=ada).text.count("live\n") == 4


def test_what_is_no_layer_is_said_and_the_page_stays(served: Served) -> None:
    cy = served.sign_in("cy")
    (served.folder / ".state" / "dev.live.json").write_text('{"<script>": 1}')
    until = time.monotonic() + 20
    while "is no live layer" not in (text := served.ask("/", cookie=cy).text) and time.monotonic() < until:
        time.sleep(0.2)
    assert "is no live layer" in text and "<script>" not in text.replace('<script src="/static/page.js" defer>', "")
    assert "chat-0" in served.ask("/workloads/chat", cookie=cy).text
