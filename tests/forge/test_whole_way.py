"""What does a pull request look like on a real forge, from the first push to the merge? By `swarm pr post` alone."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from swarm_iac.review.comment import MARKER
from tests.forge.conftest import Lab
from tests.forge.merging import STACK, fleet_files, solve
from tests.forge.server import No, Person, until

pytestmark = pytest.mark.forge

RIGHTS = """
rights:
  accounts: {{ada: {ada}, bo: {bo}, cy: {cy}}}
  owners:
    - {{paths: ["workloads.*"], by: own}}
    - {{paths: [rights, teams, limits, nodes, hardware, tuning], by: [cy]}}
"""


def swarm(lab: Lab, at: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """The command as the bot's host runs it: forge and token by the environment."""
    forge = {"SWARM_FORGE": "gitea", "SWARM_FORGE_URL": lab.server.root, "SWARM_FORGE_REPOSITORY": lab.repository,
             "SWARM_FORGE_TOKEN": lab.token}  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-m", "swarm_iac.cli", *words],
        cwd=at,
        env={**os.environ, **forge},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert lab.token not in done.stdout + done.stderr
    return done


@pytest.fixture
def host(lab: Lab) -> Path:
    """The bot's clone of a fleet repository with rights, whose main branch waits for the bot's status."""
    ada = lab.people["ada"]
    names = {name: lab.people[name].name for name in ("ada", "bo", "cy")}
    files = fleet_files(lab.at / "new", RIGHTS.format(**names))
    ada.begin("main")
    ada.push("main", files)
    protect = {"rule_name": "main", "enable_push": False, "enable_status_check": True, "status_check_contexts": ["swarm"]}
    lab.server.admin.ask("POST", f"/repos/{lab.repository}/branch_protections", **protect)
    return lab.clone("host").at


def change(person: Person, branch: str, old: str, new: str) -> tuple[int, str]:
    person.begin(branch)
    again(person, old, new)
    return person.opened(branch)


def again(person: Person, old: str, new: str) -> None:
    text = (person.at / STACK).read_text()
    assert old in text
    (person.at / STACK).write_text(text.replace(old, new))
    solve(person.at)


def ours(lab: Lab, number: int) -> tuple[int, str]:
    """The one comment of the bot: its id and text."""
    (found,) = (one for one in lab.bot.comments(lab.bot.pull(number)) if one.by == lab.people["bot"].name)
    assert found.body.startswith(MARKER) and len(found.body) < 60_000
    return found.id, found.body


def refused(person: Person, number: int) -> None:
    """The forge does not merge it. While it looks for conflicts, it says no more than to try again."""

    def words() -> bool:
        try:
            person.ask("POST", f"/repos/{person.repository}/pulls/{number}/merge", Do="merge")
        except No as no:
            return "status check" in str(no)
        raise AssertionError("it was merged")

    until("the refusal", words)


def test_from_the_first_push_to_the_merge(lab: Lab, host: Path) -> None:
    ada, bo = lab.people["ada"], lab.people["bo"]

    number, head = change(ada, "grow", "memory: 300 MB", "memory: 320 MB")
    done = swarm(lab, host, "pr", "post", str(number))
    assert done.returncode == 0, done.stdout + done.stderr
    first, text = ours(lab, number)
    assert "pretrain-0" in text
    status = lab.status(head, "swarm")
    assert status and (status.state, status.by) == ("success", lab.people["bot"].name)

    again(ada, "memory: 320 MB", "memory: 340 MB")
    ada.push("grow", {})
    refused(ada, number)
    assert swarm(lab, host, "pr", "post", str(number)).returncode == 0
    same, edited = ours(lab, number)
    assert same == first and edited != text, "one comment, edited in place"
    ada.merge(number)

    number, head = change(bo, "other", "memory: 340 MB", "memory: 280 MB")
    done = swarm(lab, host, "pr", "post", str(number))
    assert done.returncode == 3, done.stdout + done.stderr
    _, text = ours(lab, number)
    assert ada.name in text and "pretrain" in text and STACK in text, "line, owner and who can approve"
    status = lab.status(head, "swarm")
    assert status and status.state == "failure"
    refused(bo, number)

    ada.approve(number)
    assert swarm(lab, host, "pr", "post", str(number)).returncode == 0
    again(bo, "memory: 280 MB", "memory: 200 MB")
    larger = bo.push("other", {})
    done = swarm(lab, host, "pr", "post")
    assert done.returncode == 0, "none was named"
    status = lab.status(larger, "swarm")
    assert status and status.state == "failure"
    _, text = ours(lab, number)
    _, _, gone = text.partition("Approvals that do not hold any more")
    assert f"| {ada.name} |" in gone and "340 MB → 200 MB" in gone, "dismissed, with what it did not cover"


def test_a_red_pull_request_is_not_merged_and_says_who_can_approve(lab: Lab, host: Path) -> None:
    """An account that only reads, from a fork: its files are data, and it has no way to the token."""
    eve = lab.people["eve"]
    eve.ask("POST", f"/repos/{lab.repository}/forks", name="lab")
    own = f"{eve.name}/lab"
    until("the fork", lambda: eve.ask("GET", f"/repos/{own}/branches/main"))
    fork = Person(eve.account, own, lab.at / "fork")
    fork.begin("evil")
    again(fork, "memory: 300 MB", "memory: 100 MB")
    canary = lab.at / "canary"
    (fork.at / "__main__.py").write_text(f"open({str(canary)!r}, 'w')\n")
    (fork.at / "policies" / "x.py").write_text(f"open({str(canary)!r}, 'w')\n")
    (fork.at / ".gitattributes").write_text("* filter=evil diff=evil merge=evil\n")
    head = fork.push("evil", {})
    made = until(
        "it", lambda: eve.ask("POST", f"/repos/{lab.repository}/pulls", title="x", head=f"{eve.name}:evil", base="main")
    )
    done = swarm(lab, host, "pr", "post", str(made["number"]))
    assert done.returncode == 3, done.stdout + done.stderr
    _, text = ours(lab, made["number"])
    assert "__main__.py" in text
    status = lab.status(head, "swarm")
    assert status and status.state == "failure"
    assert not canary.exists()
    assert (host / "__main__.py").read_text() != (fork.at / "__main__.py").read_text()


def test_a_published_snapshot_is_read_by_the_check_and_may_turn_it_red(lab: Lab, host: Path, tmp_path: Path) -> None:
    import datetime

    from swarm_iac.cli.merging import published
    from swarm_iac.review.last_known import FleetSnapshot, NodeDifference, NodeReport
    from swarm_iac.review.signature import signed

    ada, key = lab.people["ada"], tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    lab.server.admin.ask("DELETE", f"/repos/{lab.repository}/branch_protections/main")
    ada.begin("main")
    base = ada.push("main", {"policies/allowed_signers": f"swarm-snapshot {key.with_suffix('.pub').read_text()}"})
    number, head = change(ada, "grow", "memory: 300 MB", "memory: 320 MB")
    node = NodeReport(differences=(NodeDifference(what='settings.sysctl["vm.swappiness"]', wanted="10", found="77"),))
    for report, code, word in ((NodeReport(), 0, "as last seen 0 min ago"), (node, 3, "is 77 and should be 10")):
        nodes = {f"gpu-0{i}": report for i in (1, 2, 3)}
        now = datetime.datetime.now(datetime.UTC)
        shot = FleetSnapshot(stack="dev", fleet="dev", commit=base, at=now, nodes=nodes)
        published.publish(host, "origin", "dev", signed(shot.text(), key), base)
        done = swarm(lab, host, "pr", "post", str(number))
        assert done.returncode == code, done.stdout + done.stderr
        assert word in ours(lab, number)[1].replace("\\", "")
    status = lab.status(head, "swarm")
    assert status and status.state == "failure"
