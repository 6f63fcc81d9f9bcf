"""Does a measured speed arrive on a real forge as one pull request, judged as any other, and is it renewed in place?"""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.autopilot.test_speeds import FILE
from tests.cli.typed import Ended, swarm
from tests.cli.usage.test_speed import Prometheus
from tests.forge.conftest import Lab
from tests.forge.merging import solve

pytestmark = pytest.mark.forge

BRANCH = "swarm/speed-dev"


@pytest.fixture
def prometheus() -> Iterator[Prometheus]:
    with Prometheus() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        server.rate = 50_000
        yield server
        server.shutdown()


@pytest.fixture
def clone(lab: Lab) -> Path:
    """The bot's clone of a fleet that is pushed with its lock."""
    new = lab.at / "new"
    (new / "stacks").mkdir(parents=True)
    (new / "Pulumi.yaml").write_text("name: lab\n")
    (new / "stacks" / "dev.yaml").write_text(FILE)
    solve(new)
    ada = lab.people["ada"]
    ada.begin("main")
    ada.push("main", {name: (new / name).read_text() for name in ("Pulumi.yaml", "stacks/dev.yaml", "stacks/dev.lock.yaml")})
    return lab.clone("clone").at


def proposed(lab: Lab, clone: Path, prometheus: Prometheus, monkeypatch: pytest.MonkeyPatch) -> Ended:
    for name, value in (("", "gitea"), ("_URL", lab.server.root), ("_REPOSITORY", lab.repository), ("_TOKEN", lab.token)):
        monkeypatch.setenv(f"SWARM_FORGE{name}", value)
    return swarm("speed", "dev", "--metrics", prometheus.url, "--pull-request", at=clone)


def test_a_measured_speed_is_one_pull_request(
    lab: Lab, clone: Path, prometheus: Prometheus, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = proposed(lab, clone, prometheus, monkeypatch)
    assert done.code == 0 and f"pushed, from {BRANCH} into main" in done.err, done.err
    (pull,) = lab.bot.open_pulls("main")
    shown = lab.people["ada"].ask("GET", f"/repos/{lab.repository}/pulls/{pull.number}")
    assert shown["title"] == "Speeds of dev as measured" and "| 25 kTok/s | 50 kTok/s |" in shown["body"], shown["body"]
    assert "4 → 2" in shown["body"] and lab.token not in shown["body"]
    checked = swarm("pr", "check", "--base", "origin/main", "--head", pull.head, "--author", "bot", at=clone)
    assert checked.code == 0 and "chat" in checked.out, checked.err + checked.out

    again = proposed(lab, clone, prometheus, monkeypatch)
    assert again.code == 0 and f"pull request {pull.number}: as it was" in again.err
    prometheus.rate = 34_000
    other = proposed(lab, clone, prometheus, monkeypatch)
    assert f"pull request {pull.number}: pushed" in other.err and len(lab.bot.open_pulls("main")) == 1
    body = lab.people["ada"].ask("GET", f"/repos/{lab.repository}/pulls/{pull.number}")["body"]
    assert "| 25 kTok/s | 34 kTok/s |" in body

    lab.people["ada"].merge(pull.number)
    subprocess.run(["git", "pull", "-q", "--ff-only"], cwd=clone, check=True)
    assert "H100: 34 kTok/s" in (clone / "stacks" / "dev.yaml").read_text()
    assert "nothing to suggest" in proposed(lab, clone, prometheus, monkeypatch).err and not lab.bot.open_pulls("main")


def test_who_opens_it_first_is_not_taken_for_us(
    lab: Lab, clone: Path, prometheus: Prometheus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """eve only reads, and rights and approvals of a pull request are judged by its author."""
    assert proposed(lab, clone, prometheus, monkeypatch).code == 0
    (pull,) = lab.bot.open_pulls("main")
    lab.people["ada"].ask("PATCH", f"/repos/{lab.repository}/pulls/{pull.number}", state="closed")
    eve = lab.people["eve"]
    number = eve.ask("POST", f"/repos/{lab.repository}/pulls", title="theirs", head=BRANCH, base="main")["number"]
    done = proposed(lab, clone, prometheus, monkeypatch)
    assert done.code == 3 and f"pull request {number} of the branch {BRANCH} was opened by {eve.account.name}" in done.err
