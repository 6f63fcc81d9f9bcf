"""Is what somebody changes on a machine by hand named, kept in one issue of a real forge, known to checks, and put right?

Every look at a node is plain ssh, and at the issue the forge's own interface. Leaves the fleet as it found it.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import SWARM
from tests.e2e.operated import REPOSITORY, Operated
from tests.forge.merging import STACK, solve

pytestmark = [pytest.mark.e2e, pytest.mark.forge]

SWAPPINESS, SOMAXCONN = 'settings.sysctl["vm.swappiness"]', 'settings.sysctl["net.core.somaxconn"]'


def issues(operated: Operated, state: str = "open") -> list[dict[str, Any]]:
    """As one who may read the repository sees them, oldest first."""
    found = operated.people["ada"].ask("GET", f"/repos/{REPOSITORY}/issues?type=issues&state={state}")
    return sorted(found, key=lambda one: one["number"])


def drift(operated: Operated, status: int) -> dict[str, Any]:
    done = operated.typed("drift", "--json")
    assert done.returncode == status, done.stdout + done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_what_is_changed_by_hand_is_one_issue_until_it_is_put_right(operated: Operated) -> None:
    fleet, bo = operated.fleet, operated.people["bo"]
    found = drift(operated, 0)
    assert (found["differences"], found["deed"], issues(operated)) == ([], "none is needed", [])

    fleet.node("gpu-01", "echo 77 > /proc/sys/vm/swappiness")
    found = drift(operated, 1)
    (one,) = found["differences"]
    assert (one["node"], one["what"], one["wanted"], one["found"]) == ("gpu-01", SWAPPINESS, "10", "77")
    (issue,) = issues(operated)
    assert (issue["user"]["login"], found["issue"], found["deed"]) == ("bot", issue["number"], "opened")
    assert f"| gpu-01 | `{SWAPPINESS}` | 10 | 77 |" in issue["body"]

    # A stranger's issue with our text in it is theirs. A second run edits ours, and knows since when.
    copy = bo.ask("POST", f"/repos/{REPOSITORY}/issues", title=issue["title"], body=issue["body"])
    fleet.node("gpu-03", "echo 512 > /proc/sys/net/core/somaxconn")
    fleet.sandbox.power_off("gpu-02")
    try:
        found = drift(operated, 1)
    finally:
        fleet.sandbox.power_on("gpu-02")
    assert {each["node"] for each in found["differences"]} == {"gpu-01", "gpu-03"}, "a node that is off is no drift"
    assert found["unreachable"] == {"gpu-02": "(not published)"}, "an address is nothing for the log of a job"
    assert [each["since"] for each in found["differences"] if each["node"] == "gpu-01"] == [one["since"]]
    assert (found["issue"], found["deed"]) == (issue["number"], "edited")
    ours, theirs = issues(operated)
    assert (theirs["number"], theirs["body"]) == (copy["number"], copy["body"])
    assert f"| gpu-03 | `{SOMAXCONN}` | 1024 | 512 |" in ours["body"] and "gpu-02 did not answer" in ours["body"]

    done = operated.typed("up", "--yes", "--skip-preview")
    assert done.returncode == 0, done.stdout + done.stderr
    assert fleet.node("gpu-01", "cat /proc/sys/vm/swappiness") == "10"
    assert fleet.node("gpu-03", "cat /proc/sys/net/core/somaxconn") == "1024"
    found = drift(operated, 0)
    assert (found["issue"], found["deed"], found["differences"]) == (issue["number"], "closed", [])
    (left,) = issues(operated)
    assert left["number"] == copy["number"], "theirs stays"
    (word,) = bo.ask("GET", f"/repos/{REPOSITORY}/issues/{issue['number']}/comments")
    assert word["user"]["login"] == "bot" and "every node of dev is as" in word["body"]


def test_a_snapshot_written_there_is_used_by_a_check_that_reaches_nothing(operated: Operated, tmp_path: Path) -> None:
    fleet, bo, file = operated.fleet, operated.people["bo"], tmp_path / "dev.snapshot"
    before = fleet.node("gpu-01", "cat /proc/sys/vm/swappiness")
    fleet.node("gpu-01", "echo 77 > /proc/sys/vm/swappiness")
    try:
        done = operated.typed("snapshot", "--key", str(operated.key), "--publish", "--out", str(file))
    finally:
        fleet.node("gpu-01", f"echo {before} > /proc/sys/vm/swappiness")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "sleep" not in file.read_text() and "127.0.0.1" not in file.read_text(), "no command and no address"

    row = f"gpu-01: {SWAPPINESS} is 77 and should be 10"
    for branch, old, new, refused in (
        ("elsewhere", "memory: 100 MB", "memory: 110 MB", False), ("there", "memory: 300 MB", "memory: 310 MB", True),
    ):  # fmt: skip
        bo.begin(branch)
        bo.edit(STACK, old, new)
        solve(bo.at)
        number, _ = bo.opened(branch)
        said = checked(bo.at, file)
        assert (row in str(said["refused"])) == refused == bool(said["refused"]), said["refused"]
        assert "machines of dev: as last seen" in said["comment"]
    posted = operated.typed("pr", "post", str(number))
    assert posted.returncode == 3, "what is published is known to the job, too"
    (comment,) = bo.ask("GET", f"/repos/{REPOSITORY}/issues/{number}/comments")
    assert "is 77 and should be 10" in comment["body"]


def checked(at: Path, snapshot: Path) -> dict[str, Any]:
    """What `swarm pr check` says in a clone, with a network that reaches nothing."""
    words = ["pr", "check", "--base", "origin/main", "--author", "ada", "--snapshot", str(snapshot), "--json"]
    alone = ["unshare", "--net", *([] if os.geteuid() == 0 else ["--map-root-user"])]
    done = subprocess.run(
        [*alone, *SWARM, *words], cwd=at, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300
    )
    assert done.returncode in (0, 3) and done.stdout, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found
