"""What is a fleet on a real forge? People with clones, and the host on which the jobs of the base branch run."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.conftest import SWARM, Done, Fleet
from tests.forge.merging import STACK, solve
from tests.forge.server import Person, Server

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
    """The fleet on a forge: people with clones, and the host on which `swarm pr apply` and `swarm drift` run."""

    fleet: Fleet
    server: Server
    people: dict[str, Person]
    host: Person
    token: str
    key: Path  # that signs snapshots

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

    def typed(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Any command there, its document apart from its messages."""
        return subprocess.run(
            [*SWARM, *words], cwd=self.host.at, env=self.environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=900,
        )  # fmt: skip

    def record(self) -> str:
        """The record of merges, as the state's file has it."""
        (file,) = (self.fleet.root / ".state" / ".pulumi" / "stacks").glob("*/dev.pulumi-tags")
        found = re.search(r'"swarm:merge": *"([^"]*)"', file.read_text())
        return found[1] if found else ""

    def change(self, who: str, branch: str, old: str, new: str) -> int:
        """A pull request that is posted green."""
        person = self.people[who]
        person.begin(branch)
        person.edit(STACK, old, new)
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


@contextmanager
def operating(fleet: Fleet, at: Path) -> Iterator[Operated]:
    """A forge with what is in the fleet's repository. After it the fleet is as it was."""
    fleet.swarm("up", "--yes", "--skip-preview").ok()  # another test may have left something else
    key = at / "snapshot-key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
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
        files["policies/allowed_signers"] = f"swarm-snapshot {key.with_suffix('.pub').read_text()}"
        head = people["ada"].push("main", files)
        keep("POST", f"/repos/{REPOSITORY}/branch_protections", rule_name="main", enable_push=False,
             enable_status_check=True, status_check_contexts=["swarm"])  # fmt: skip
        host = Person(people["bot"].account, REPOSITORY, at / "host")
        host.git("config", "http.extraHeader", f"Authorization: {host.account.login}")
        host.begin("main")
        token = people["bot"].account.token("write:repository", "write:issue", "read:user")
        one = Operated(fleet, server, people, host, token, key)
        one.swarm("apply", "--since", head).ok()
        yield one
    fleet.swarm("up", "--yes", "--skip-preview", "--allow-stop", "9").ok()
    fleet.swarm("assert").ok()
