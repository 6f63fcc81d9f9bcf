"""Is the pull request of a branch opened once, and is one that somebody else placed under its name never touched?

The servers here answer as the published descriptions say, and list more than they are asked for: what is ours is decided here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from swarm_iac.errors import Refused
from swarm_iac.forge.forge import Forge
from swarm_iac.forge.gitea import Gitea
from swarm_iac.forge.github import GitHub
from swarm_iac.forge.gitlab import GitLab
from tests.forge.test_web import Host, Raw

HEAD, BASE, US, FORK = "speed/a#1&base=x", "main", 3, 9


class Kept(Host):
    """A forge that keeps pull requests. `answer`: what it says to a change in place of the truth."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind, self.reply = kind, self.kept
        self.pulls: list[dict[str, Any]] = []
        self.default: object = BASE
        self.answer: dict[str, Any] = {}
        self.at = "/api/v4/projects/fleet%2Flab" if kind == "gitlab" else "/repos/fleet/lab"
        if kind == "gitea":
            self.at = f"/api/v1{self.at}"
        self.list = f"{self.at}/{'merge_requests' if kind == 'gitlab' else 'pulls'}"

    def forge(self) -> Forge:
        made = {"gitea": Gitea, "github": GitHub, "gitlab": GitLab}[self.kind]
        forge: Forge = made(self.root, "fleet/lab", "a-token")
        return forge

    def place(self, ref: str = HEAD, base: str = BASE, repo: int | None = US, *, is_open: bool = True, by: str = "eve") -> int:
        """What somebody opened."""
        number = len(self.pulls) + 1
        state = "closed" if not is_open else "opened" if self.kind == "gitlab" else "open"
        one: dict[str, Any] = {"id": 100 + number, "state": state, "title": "theirs", "merge_commit_sha": None}
        if self.kind == "gitlab":
            one |= {"iid": number, "author": {"username": by}, "source_branch": ref, "target_branch": base, "sha": "8" * 40,
                    "source_project_id": repo, "target_project_id": US, "description": None}  # fmt: skip
        else:
            label = ref if self.kind == "gitea" else f"{'fleet' if repo == US else 'eve'}:{ref}"
            head = {"label": label, "ref": ref, "sha": "8" * 40, "repo": {"id": repo} if repo else None}
            at = {"ref": base, "sha": "7" * 40, "repo": {"id": US}}
            one |= {"number": number, "user": {"login": by}, "head": head, "base": at, "body": None}
        self.pulls.append(one)
        return number

    def kept(self, path: str) -> Raw:
        where = urlsplit(path)
        sent = json.loads(self.bodies[-1] or b"null")
        found: object
        match self.asked[-1][0], where.path.removeprefix(self.list):
            case "GET", "":
                found = self.pulls if dict(parse_qsl(where.query))["page"] == "1" else []
            case "GET", at if at == self.at:
                found = {"id": US, "default_branch": self.default}
            case "POST", "":
                lab = self.kind == "gitlab"
                self.place(
                    *(sent.pop(key) for key in (("source_branch", "target_branch") if lab else ("head", "base"))), by="bot"
                )
                found = self.pulls[-1] = self.pulls[-1] | sent | self.answer
            case "PATCH" | "PUT", number:
                index = int(number[1:]) - 1
                found = self.pulls[index] = self.pulls[index] | sent | self.answer
            case _:
                return 404, {}, b"{}"
        return 200, {}, json.dumps(found).encode()

    def changes(self) -> list[tuple[str, str]]:
        return [(method, path.removeprefix(self.list)) for method, path, _ in self.asked if method != "GET"]

    def text(self, number: int) -> tuple[str, str]:
        one = self.pulls[number - 1]
        return one["title"], one["description" if self.kind == "gitlab" else "body"]


@pytest.fixture(params=["gitea", "github", "gitlab"])
def kept(request: pytest.FixtureRequest) -> Iterator[Kept]:
    host = Kept(request.param)
    yield host
    host.server.shutdown()
    host.server.server_close()


def update(host: Kept) -> str:
    return "PUT" if host.kind == "gitlab" else "PATCH"


def test_it_is_opened_once_and_written_again_only_when_it_says_something_else(kept: Kept) -> None:
    forge = kept.forge()
    first = forge.propose(HEAD, BASE, "Measured", "one")
    assert (first.number, first.author, first.base, first.open, first.fork) == (1, "bot", BASE, True, False)
    assert forge.propose(HEAD, BASE, "Measured", "one") == first
    assert kept.changes() == [("POST", "")]
    assert forge.propose(HEAD, BASE, "Measured", "two") == forge.propose(HEAD, BASE, "Again", "two") == first
    assert kept.changes()[1:] == [(update(kept), "/1")] * 2
    assert kept.text(1) == ("Again", "two")


def test_one_without_a_text_is_the_same_as_one_with_an_empty_text(kept: Kept) -> None:
    kept.place()
    kept.forge().propose(HEAD, BASE, "theirs", "")
    assert kept.changes() == []


def test_no_other_pull_request_is_touched(kept: Kept) -> None:
    """A fork's branch of the same name, also where the fork is gone; on Gitea one that was pushed without a branch."""
    kept.place(repo=FORK)
    kept.place(repo=None)
    kept.place(ref="refs/pull/3/head")
    kept.place(ref=HEAD.upper())
    kept.place(base="release")
    kept.place(is_open=False)
    made = kept.forge().propose(HEAD, BASE, "Measured", "one")
    assert (made.number, made.author) == (7, "bot")
    assert kept.changes() == [("POST", "")]
    assert kept.forge().propose(HEAD, BASE, "Measured", "two").number == 7
    assert {kept.text(number)[0] for number in range(1, 7)} == {"theirs"}


def test_gitea_what_was_pushed_without_a_branch_is_not_the_one_of_a_branch() -> None:
    """Anyone who reads can do that, under any name that begins with theirs; its list says `ref` as if it were the branch."""
    host = Kept("gitea")
    host.place()
    host.pulls[0]["head"]["label"] = ""
    assert host.forge().propose(HEAD, BASE, "Measured", "one").number == 2
    assert host.changes() == [("POST", "")]
    host.server.shutdown()
    host.server.server_close()


def test_one_that_another_account_opened_from_the_branch_keeps_its_author(kept: Kept) -> None:
    """A forge opens no second one. What follows from the author is for the caller."""
    kept.place(by="ada")
    made = kept.forge().propose(HEAD, BASE, "Measured", "one")
    assert (made.number, made.author) == (1, "ada")
    assert kept.changes() == [(update(kept), "/1")] and kept.text(1) == ("Measured", "one")


def test_no_name_of_a_branch_changes_the_question(kept: Kept) -> None:
    kept.forge().propose(HEAD, BASE, "Measured", "one")
    (query, *_) = (dict(parse_qsl(urlsplit(path).query)) for _, path, _ in kept.asked)
    asked = {key: value for key, value in query.items() if key not in ("page", "per_page", "limit")}
    assert (
        asked
        == {
            "gitea": {"state": "open"},
            "github": {"head": f"fleet:{HEAD}", "base": BASE, "state": "open"},
            "gitlab": {"source_branch": HEAD, "target_branch": BASE, "state": "opened"},
        }[kept.kind]
    )


@pytest.mark.parametrize("name", [
    "", "@", "HEAD", "-f", ".x", "/x", "x/", "x.", "a..b", "a//b", "a/.b", "a.lock", "a.lock/b", "a@{1}", "a b", "a\nb", "a~1", "a^", "a?",
    "a*", "a[b", "a\\b", "eve:main", "eve/lab:main", "refs/heads/x", "refs/pull/3/head", "a\u202eb", "a\udc80", "a\x7f", "a" * 256,
])  # fmt: skip
def test_what_is_no_branch_of_ours_is_not_sent(kept: Kept, name: str) -> None:
    """`eve:main` would be the branch of a fork."""
    for head, base in ((name, BASE), (HEAD, name)):
        with pytest.raises(Refused, match="not the name of a branch") as refused:
            kept.forge().propose(head, base, "Measured", "one")
        assert refused.value.message.isprintable()
    assert kept.asked == []


def test_a_forge_that_opens_something_else_is_not_believed(kept: Kept) -> None:
    lab = kept.kind == "gitlab"
    theirs = (
        {"source_project_id": FORK} if lab else {"head": {"label": HEAD, "ref": HEAD, "sha": "8" * 40, "repo": {"id": FORK}}}
    )
    other = {"target_branch": "x"} if lab else {"base": {"ref": "x", "sha": "8" * 40, "repo": {"id": US}}}
    for kept.answer in (theirs, other, {"state": "closed"}):
        kept.pulls.clear()
        with pytest.raises(Refused, match="is not an open one from"):
            kept.forge().propose(HEAD, BASE, "Measured", "one")


def test_one_that_was_closed_in_between_is_not_returned_as_open(kept: Kept) -> None:
    kept.place()
    kept.answer = {"state": "closed"}
    with pytest.raises(Refused, match="pull request 1 is not an open one from"):
        kept.forge().propose(HEAD, BASE, "Measured", "one")


def test_a_list_that_is_not_of_this_kind_is_refused_by_the_name_of_the_field(kept: Kept) -> None:
    kept.place()
    kept.pulls[0]["title"] = {"x": "secret"}
    with pytest.raises(Refused, match="title") as refused:
        kept.forge().propose(HEAD, BASE, "Measured", "one")
    assert "secret" not in str(refused.value) and kept.changes() == []


def test_the_default_branch_is_a_branch(kept: Kept) -> None:
    kept.default = "trunk/größe"
    assert kept.forge().default_branch() == "trunk/größe"
    for kept.default in ("", None, 1, "-upload-pack=x", "a b", "refs/heads/x", "../x", "a\x1b[2J", "eve:x"):
        with pytest.raises(Refused, match="default_branch") as refused:
            kept.forge().default_branch()
        assert str(refused.value).isprintable()


def test_gitlab_carries_out_no_line_of_a_description() -> None:
    host = Kept("gitlab")
    forge = host.forge()
    forge.propose(HEAD, BASE, "Measured", "why:\n/merge\n  /approve")
    assert host.text(1)[1] == "why:\n&#47;merge\n  &#47;approve"
    forge.propose(HEAD, BASE, "Measured", "why:\n/merge\n  /approve")
    assert len(host.changes()) == 1, "and what was written so is the same text"
    forge.propose(HEAD, BASE, "Measured", "/close")
    assert host.text(1)[1] == "&#47;close"
    host.server.shutdown()
    host.server.server_close()


def test_github_says_why_nothing_can_be_merged() -> None:
    """Its message alone is `Validation Failed`."""
    host = Kept("github")
    why = {"message": "Validation Failed", "errors": [{"resource": "PullRequest", "code": "custom", "message": "No commits between"},
           {"code": "invalid"}, "x", {"message": 3}]}  # fmt: skip
    host.reply = lambda path: (422, {}, json.dumps(why).encode()) if host.asked[-1][0] == "POST" else (200, {}, b"[]")
    with pytest.raises(Refused, match=r"with 422: Validation Failed; No commits between$"):
        host.forge().propose(HEAD, BASE, "Measured", "one")
    host.server.shutdown()
    host.server.server_close()
