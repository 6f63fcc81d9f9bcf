"""From a pull request on a real forge to the machines: is it applied once, in order, and only as approved, whatever is killed?

Every look at a node is plain ssh. Leaves the fleet as it found it.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.e2e.conftest import SWARM, Done, Fleet
from tests.e2e.test_trunk import cgroup
from tests.forge.merging import STACK, solve
from tests.forge.server import Person, Server, until

pytestmark = [pytest.mark.e2e, pytest.mark.forge]

REPOSITORY = "fleet/lab"
RIGHTS = '\nrights:\n  owners:\n    - {paths: ["workloads.*"], by: own}\n    - {paths: [rights], by: [cy]}\n'
#: What belongs into the repository; the rest of the folder is of this machine.
FILES = (
    "Pulumi.yaml",
    "Pulumi.dev.yaml",
    "__main__.py",
    ".gitignore",
    "bin",
    "policies",
    "stacks",
    "README.md",
    "stack.schema.json",
)


@dataclass
class Operated:
    """The fleet on a forge: people with clones, and the host on which `swarm pr apply` runs."""

    fleet: Fleet
    server: Server
    people: dict[str, Person]
    host: Person
    token: str

    @property
    def environment(self) -> dict[str, str]:
        return {
            **os.environ, "NO_COLOR": "1", "SWARM_FORGE": "gitea", "SWARM_FORGE_URL": self.server.root,
            "SWARM_FORGE_REPOSITORY": REPOSITORY, "SWARM_FORGE_TOKEN": self.token,
            "SWARM_SSH_CONFIG": str(self.fleet.sandbox.ssh_config), "SWARM_NODE_TIMEOUT": "90",
            "PULUMI_BACKEND_URL": (self.fleet.root / ".state").as_uri(), "PULUMI_HOME": str(self.fleet.root / ".state" / "home"),
        }  # fmt: skip

    def begin(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*SWARM, "pr", *words], cwd=self.host.at, env=self.environment, text=True, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip

    def swarm(self, *words: str) -> Done:
        process = self.begin(*words)
        text, _ = process.communicate(timeout=900)
        return Done(process.returncode, text)

    def record(self) -> str:
        """The record of merges, as the state's file has it."""
        (file,) = (self.fleet.root / ".state" / ".pulumi" / "stacks").glob("*/dev.pulumi-tags")
        found = re.search(r'"swarm:merge": *"([^"]*)"', file.read_text())
        return found[1] if found else ""

    def change(self, who: str, branch: str, old: str, new: str) -> int:
        """A pull request that is posted green."""
        person = self.people[who]
        person.begin(branch)
        text = (person.at / STACK).read_text()
        assert old in text
        (person.at / STACK).write_text(text.replace(old, new))
        solve(person.at)
        number, _ = person.opened(branch)
        return number

    def merge(self, who: str, number: int) -> str:
        self.swarm("post", str(number)).ok()
        return self.people[who].merge(number)

    def commits(self, node: str) -> list[str]:
        """The commits of the node's audit log, in order, each once for all its lines that follow each other."""
        found = [json.loads(line)["commit"] for line in self.fleet.node(node, "cat /var/lib/swarm/audit.jsonl").splitlines()]
        return [one for one, before in zip(found, [None, *found], strict=False) if one != before]


@pytest.fixture(scope="module")
def operated(fleet: Fleet, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operated]:
    fleet.swarm("up", "--yes", "--skip-preview").ok()  # another test may have left something else
    at = tmp_path_factory.mktemp("forge")
    with Server(at / "server") as server:
        keep = server.admin.ask
        keep("POST", "/orgs", username="fleet")
        keep("POST", "/orgs/fleet/repos", name="lab", private=True, default_branch="main")
        people = {}
        for name in ("ada", "bo", "cy", "bot"):
            account = server.user(name)
            keep("PUT", f"/repos/{REPOSITORY}/collaborators/{name}", permission="write")
            people[name] = Person(account, REPOSITORY, at / name)
        files = {}
        for name in FILES:
            path = fleet.root / name
            for each in [path] if path.is_file() else path.rglob("*"):
                if each.is_file() and "__pycache__" not in each.parts:
                    files[str(each.relative_to(fleet.root))] = each.read_text()
        files[STACK] += RIGHTS
        head = people["ada"].push("main", files)
        keep("POST", f"/repos/{REPOSITORY}/branch_protections", rule_name="main", enable_push=False,
             enable_status_check=True, status_check_contexts=["swarm"])  # fmt: skip
        host = Person(people["bot"].account, REPOSITORY, at / "host")
        host.git("config", "http.extraHeader", f"Authorization: {host.account.login}")
        host.begin("main")
        token = people["bot"].account.token("write:repository", "write:issue", "read:user")
        one = Operated(fleet, server, people, host, token)
        one.swarm("apply", "--since", head).ok()
        yield one
    fleet.swarm("up", "--yes", "--skip-preview", "--allow-stop", "9").ok()
    fleet.swarm("assert").ok()


def memory(operated: Operated, allocation: str, node: str = "gpu-01") -> int:
    return int(operated.fleet.node(node, f"cat {cgroup(allocation)}/memory.max"))


def near(found: int, wanted: int) -> bool:
    return abs(found - wanted) < 4096


def test_an_approved_pull_request_reaches_the_machines_once(operated: Operated) -> None:
    number = operated.change("bo", "grow", "memory: 300 MB", "memory: 280 MB")
    assert operated.swarm("post", str(number)).status == 3, "it shrinks what belongs to ada"
    operated.people["ada"].approve(number)
    commit = operated.merge("bo", number)
    operated.swarm("apply", "--merge", commit).ok()
    assert near(memory(operated, "pretrain-0"), 280_000_000)
    assert operated.commits("gpu-01")[-1] == commit[: len(operated.commits("gpu-01")[-1])]
    last = [json.loads(line) for line in operated.fleet.node("gpu-01", "cat /var/lib/swarm/audit.jsonl").splitlines()][-1]
    assert last["who"] == f"bo (pull request {number})"
    again = operated.swarm("apply", "--merge", commit).ok()
    assert "is applied already" in again.text
    assert operated.record() == f"{commit} applied"
    (comment,) = operated.people["ada"].ask("GET", f"/repos/{REPOSITORY}/issues/{number}/comments")
    assert "pretrain-0" in comment["body"]


def test_two_merges_within_a_second_are_applied_in_order(operated: Operated) -> None:
    first, second = operated.change("ada", "one", "memory: 280 MB", "memory: 290 MB"), 0
    one = operated.merge("ada", first)
    second = operated.change("bo", "two", "memory: 100 MB", "memory: 110 MB")
    two = operated.merge("bo", second)
    runs = [operated.begin("apply", "--merge", commit) for commit in (two, one)]
    ends = [run.communicate(timeout=900)[0] for run in runs]
    assert [run.returncode for run in runs] == [0, 0], ends
    assert operated.record() == f"{two} applied"
    assert near(memory(operated, "pretrain-0"), 290_000_000)
    assert near(memory(operated, "tidy-0", "gpu-03"), 110_000_000)
    assert one.startswith(operated.commits("gpu-01")[-1]) and two.startswith(operated.commits("gpu-03")[-1])


def test_drift_where_the_plan_acts_is_refused_with_its_row(operated: Operated) -> None:
    before = operated.fleet.node("gpu-01", "cat /proc/sys/vm/swappiness")
    operated.fleet.node("gpu-01", "echo 77 > /proc/sys/vm/swappiness")
    commit = operated.merge("ada", operated.change("ada", "drift", "memory: 290 MB", "memory: 310 MB"))
    refused = operated.swarm("apply", "--merge", commit)
    assert refused.status == 3, refused.text
    assert re.search(r"gpu-01: .*swappiness.*: 77 → 10", refused.text), refused.text
    assert near(memory(operated, "pretrain-0"), 290_000_000)
    operated.fleet.node("gpu-01", f"echo {before} > /proc/sys/vm/swappiness")
    operated.swarm("apply", "--merge", commit).ok()
    assert near(memory(operated, "pretrain-0"), 310_000_000)


def test_a_runner_that_is_killed_during_apply_is_resumed(operated: Operated) -> None:
    old = "ingress: 20 Mbit/s}\n    run: {command: /bin/sleep infinity}"
    number = operated.change("ada", "killed", old, old.replace("infinity", "1000000"))
    commit = operated.merge("ada", number)
    run = operated.begin("apply", "--merge", commit)
    until("the begin of it on a node", lambda: commit.startswith(operated.commits("gpu-01")[-1] or "x"), 300)
    os.killpg(run.pid, signal.SIGKILL)
    run.communicate()
    assert operated.record() == f"{commit} begun"
    time.sleep(1)
    resumed = operated.swarm("apply", "--merge", commit)
    assert resumed.status == 0, resumed.text
    assert "begun before" in resumed.text
    assert operated.record() == f"{commit} applied"
    unit = "swarm-pretrain_0.service"
    assert '"/bin/sleep" "1000000"' in operated.fleet.node("gpu-01", f"systemctl cat {unit}")
    assert operated.fleet.node("gpu-01", f"systemctl is-active {unit}") == "active"


def test_a_forge_that_goes_away_during_apply_changes_nothing_of_it(operated: Operated) -> None:
    commit = operated.merge("ada", operated.change("ada", "away", "memory: 310 MB", "memory: 300 MB"))
    run = operated.begin("apply", "--merge", commit)
    until("the begin", lambda: operated.record() == f"{commit} begun", 300)
    operated.server.stop()
    try:
        text, _ = run.communicate(timeout=900)
    finally:
        operated.server.start()
    assert run.returncode == 0, text
    assert "the forge does not show it yet" in text
    assert near(memory(operated, "pretrain-0"), 300_000_000)
    assert "is applied already" in operated.swarm("apply", "--merge", commit).ok().text


def test_no_token_or_password_is_on_a_node_or_in_the_state(operated: Operated) -> None:
    state: list[Path] = [path for path in (operated.fleet.root / ".state").rglob("*") if path.is_file()]
    assert not [path for path in state if operated.token.encode() in path.read_bytes()]
    assert operated.token not in operated.fleet.node("gpu-01", "cat /var/lib/swarm/*.json*")
