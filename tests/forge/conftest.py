"""A forge for all tests here, and a repository with accounts for each."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from swarm_iac.forge.forge import Status
from swarm_iac.forge.gitea import Gitea
from tests.forge.server import Person, Server


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("forge")) as running:
        yield running


@dataclass(frozen=True)
class Lab:
    """A repository of its own: ada, bo and cy write to it, eve only reads it, and `bot` sets the status."""

    server: Server
    repository: str
    people: dict[str, Person]
    token: str
    at: Path

    @property
    def bot(self) -> Gitea:
        return Gitea(self.server.root, self.repository, self.token)

    def clone(self, name: str) -> Person:
        """A clone in which our commands work as the bot; git has its password in the clone's settings."""
        clone = Person(self.people["bot"].account, self.repository, self.at / name)
        clone.git("config", "http.extraHeader", f"Authorization: {clone.account.login}")
        clone.begin("main")
        return clone

    def status(self, commit: str, context: str) -> Status | None:
        """The last one that was set."""
        found = self.bot.statuses(commit, context)
        return found[-1] if found else None

    def approvals(self, number: int) -> dict[str, str]:
        """Account → the commit that it approves."""
        return {one.by: one.commit for one in self.bot.approvals(self.bot.pull(number))}


@pytest.fixture
def lab(server: Server, tmp_path: Path) -> Lab:
    mark = secrets.token_hex(3)
    owner = f"fleet-{mark}"
    repository, keep = f"{owner}/lab", server.admin.ask
    keep("POST", "/orgs", username=owner)
    keep("POST", f"/orgs/{owner}/repos", name="lab", private=True, default_branch="main")
    people = {}
    for name in ("ada", "bo", "cy", "eve", "bot"):
        account = server.user(f"{name}-{mark}")
        access = "read" if name == "eve" else "write"
        keep("PUT", f"/repos/{repository}/collaborators/{account.name}", permission=access)
        people[name] = Person(account, repository, tmp_path / f"clone-{name}")
    token = people["bot"].account.token("write:repository", "write:issue", "read:user")
    people["ada"].push("main", {"README.md": "a fleet\n", "stacks/dev.yaml": "fleet: dev\n"})
    return Lab(server, repository, people, token, tmp_path)
