"""Do the adapters of GitHub and GitLab ask and understand as the published descriptions say?

The answers in recorded/ have the shapes of the descriptions' examples: what may be absent or null there is so here somewhere.
Neither forge was asked.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qsl, urlencode, urlsplit

import pytest

from swarm_iac.cli.merging.posting import Artifacts, Shown, comment
from swarm_iac.errors import Refused
from swarm_iac.forge.forge import Forge, State
from swarm_iac.forge.github import GitHub
from swarm_iac.forge.gitlab import GitLab
from swarm_iac.forge.opening import run_page
from swarm_iac.review.comment import MARKER
from tests.forge.test_web import Host, Raw

RECORDED = Path(__file__).with_name("recorded")
#: How a list is read in pages: no part of what is asked.
_PAGES = ("per_page", "page")


class Recorded(Host):
    """A server that answers as recorded; every list has one page."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.answers = json.loads((RECORDED / f"{name}.json").read_text())
        self.reply = self.recorded

    def recorded(self, path: str) -> Raw:
        where = urlsplit(path)
        query = dict(parse_qsl(where.query))
        rest = urlencode({key: value for key, value in query.items() if key not in _PAGES})
        known = f"{self.asked[-1][0]} {where.path}{'?' if rest else ''}{rest}"
        if known not in self.answers:
            return 404, {}, json.dumps({"message": f"Not Found: {known}"}).encode()
        found = self.answers[known]
        return 200, {}, json.dumps([] if isinstance(found, list) and query.get("page", "1") != "1" else found).encode()

    def sent(self, method: str) -> list[str]:
        return [path for verb, path, _ in self.asked if verb == method]


@pytest.fixture
def github() -> Iterator[tuple[Recorded, GitHub]]:
    host = Recorded("github")
    yield host, GitHub(host.root, "fleet/lab", "a-token")
    host.server.shutdown()
    host.server.server_close()


@pytest.fixture
def gitlab() -> Iterator[tuple[Recorded, GitLab]]:
    host = Recorded("gitlab")
    yield host, GitLab(host.root, "fleet/lab", "a-token")
    host.server.shutdown()
    host.server.server_close()


def approvals(forge: Forge, number: int) -> dict[str, str]:
    return {one.by: one.commit for one in forge.approvals(forge.pull(number))}


def test_github_a_pull_request(github: tuple[Recorded, GitHub]) -> None:
    host, forge = github
    pull = forge.pull(12)
    assert (pull.number, pull.author, pull.base, pull.fork, pull.open) == (12, "octo-ada", "main", False, True)
    assert pull.head == "6dcb09b5b57875f334f61aebed695e2e4193db5e" and forge.ref(pull) == "refs/pull/12/head"
    assert pull.merged is None, "what GitHub names for an open one is a merge that it tried"
    gone = forge.pull(13)
    assert (gone.author, gone.fork) == ("ghost", True), "a fork that is deleted is none of ours"
    assert [(one.number, one.fork) for one in forge.open_pulls("main")] == [(14, True)]
    assert {token for _, _, token in host.asked} == {"Bearer a-token"}


def test_github_a_merge_commit(github: tuple[Recorded, GitHub]) -> None:
    _, forge = github
    pull = forge.merged_as("e5bd3914e2e596debea16f433f57875b5b90bcd6")
    assert pull and (pull.number, pull.open) == (12, False)
    assert forge.merged_as("c5b97d5ae6c19d5c5df71a34c7fbeeda2479ccbc") is None, "a commit that is in an open one only"


def test_github_approvals(github: tuple[Recorded, GitHub]) -> None:
    """The last word counts, a comment is none; dismissed, without an account or without a commit approves nothing."""
    assert approvals(github[1], 12) == {"octo-cy": "ecdd80bb57125d7ba9641ffaa4d7d2c19d3f3091"}


def test_github_a_status_over_ours_is_seen(github: tuple[Recorded, GitHub]) -> None:
    host, forge = github
    found = forge.statuses("6dcb09b5b57875f334f61aebed695e2e4193db5e", "swarm")
    assert [(one.by, one.state) for one in found] == [("swarm-bot", State.FAILURE), ("github-actions[bot]", State.SUCCESS)]
    forge.set_status("6dcb09b5b57875f334f61aebed695e2e4193db5e", "swarm", State.SUCCESS, "fine")
    assert host.sent("POST") == ["/repos/fleet/lab/statuses/6dcb09b5b57875f334f61aebed695e2e4193db5e"]


def test_github_comments(github: tuple[Recorded, GitHub]) -> None:
    host, forge = github
    pull = forge.pull(12)
    first, second = forge.comments(pull)
    assert (first.by, first.body, second.by, second.body) == ("octo-eve", "Me too", None, "")
    forge.comment(pull, "x")
    forge.edit(pull, first, "y")
    assert host.sent("PATCH") == ["/repos/fleet/lab/issues/comments/1"]
    assert forge.attach(pull, "a.html", b"x") is None


JOB = {
    "GITHUB_ACTIONS": "true",
    "GITHUB_SERVER_URL": "https://github.com",
    "GITHUB_REPOSITORY": "fleet/lab",
    "GITHUB_RUN_ID": "7",
}


def test_github_takes_no_file_so_the_job_keeps_the_pages(github: tuple[Recorded, GitHub], tmp_path: Path) -> None:
    host, forge = github
    where = "https://github.com/fleet/lab/actions/runs/7#artifacts"
    assert run_page(JOB) == where
    shown = Shown(True, "fine", f"{MARKER} -->\n\nfine\n", {"dev": "<p>all</p>"})
    pull = forge.pull(12)
    comment(forge, pull, shown, Artifacts(tmp_path / "pages", where))
    assert json.loads(host.bodies[-1])["body"].endswith(f"\n\n[Page of dev](<{where}>)\n")
    assert (tmp_path / "pages" / "pull-request-12-dev.html").read_text() == "<p>all</p>"
    comment(forge, pull, shown)
    assert json.loads(host.bodies[-1])["body"].endswith("fine"), (
        "without a job nobody would take them, and no link leads nowhere"
    )


@pytest.mark.parametrize(
    "bent",
    [{"GITEA_ACTIONS": "true"}, {"GITHUB_ACTIONS": ""}, {"GITHUB_RUN_ID": "7>)<b>"}, {"GITHUB_SERVER_URL": "https://a.b/>)"}],
)
def test_no_other_job_has_such_a_page(bent: dict[str, str]) -> None:
    assert run_page(JOB | bent) == ""


def test_github_an_application_says_who_it_is(github: tuple[Recorded, GitHub]) -> None:
    host, forge = github
    assert forge.me() == "swarm-bot"
    assert GitHub(host.root, "fleet/lab", "a-token", "fleet[bot]").me() == "fleet[bot]"
    del host.answers["GET /user"]
    with pytest.raises(Refused, match="SWARM_FORGE_BOT"):
        forge.me()


def test_gitlab_a_merge_request(gitlab: tuple[Recorded, GitLab]) -> None:
    _, forge = gitlab
    pull = forge.pull(12)
    assert (pull.number, pull.author, pull.base, pull.fork, pull.open, pull.merged) == (12, "ada", "main", False, True, None)
    assert forge.ref(pull) == "refs/merge-requests/12/head"
    assert [(one.number, one.fork) for one in forge.open_pulls("main")] == [(13, True)]
    merged = forge.merged_as("9" * 40)
    assert merged and merged.number == 12
    assert forge.me() == "swarm-bot"


def test_gitlab_an_approval_is_for_the_version_that_was_there(gitlab: tuple[Recorded, GitLab]) -> None:
    """bo took it back; what zoe wrote as a comment is no approval, though GitLab counts one that we cannot date."""
    assert approvals(gitlab[1], 12) == {"cy": "6" * 40}


def test_gitlab_statuses(gitlab: tuple[Recorded, GitLab]) -> None:
    host, forge = gitlab
    found = forge.statuses("8" * 40, "swarm")
    assert [(one.by, one.state) for one in found] == [("swarm-bot", State.SUCCESS), ("bo", State.ERROR)]
    forge.set_status("8" * 40, "swarm", State.SUCCESS, "fine")
    assert len(host.sent("POST")) == 2, "pending, and then the verdict"


def test_gitlab_no_quoted_line_is_a_command(gitlab: tuple[Recorded, GitLab]) -> None:
    """`/merge` at the begin of a line would be carried out as the account that writes the comment."""
    from swarm_iac.forge.gitlab import without_commands

    host, forge = gitlab
    text = "reason:\n/merge\n  /approve\nsee a/b"
    assert without_commands(text) == "reason:\n&#47;merge\n  &#47;approve\nsee a/b"
    pull = forge.pull(12)
    forge.comment(pull, text)
    forge.edit(pull, forge.comments(pull)[0], text)
    assert host.sent("PUT") == ["/api/v4/projects/fleet%2Flab/merge_requests/12/notes/303"]


def test_github_an_answer_that_no_github_gives_is_refused_by_name(github: tuple[Recorded, GitHub]) -> None:
    host, forge = github
    statuses = host.answers["GET /repos/fleet/lab/commits/6dcb09b5b57875f334f61aebed695e2e4193db5e/statuses"]
    for one in statuses:
        one["state"] = "splendid"
    found = forge.statuses("6dcb09b5b57875f334f61aebed695e2e4193db5e", "swarm")
    assert found and {one.state for one in found} == {State.ERROR}, "an unknown word is no success"
    host.answers["GET /repos/fleet/lab/pulls/12"]["number"] = 0
    with pytest.raises(Refused, match="number"):
        forge.pull(12)


def test_github_issues(github: tuple[Recorded, GitHub]) -> None:
    host, forge = github
    found = forge.issues("swarm-bot")
    assert [(one.number, one.body) for one in found] == [(1340, ""), (1347, "ours")], "no pull request, nobody else's"
    assert forge.open_issue("t", "b").number == 1349
    forge.edit_issue(found[1], "c")
    forge.close_issue(found[1], "well")
    assert host.sent("PATCH") == ["/repos/fleet/lab/issues/1347"] * 2
    assert host.sent("POST")[-1] == "/repos/fleet/lab/issues/1347/comments"
    assert json.loads(host.bodies[-1]) == {"state": "closed"}


def test_gitlab_issues_and_no_line_of_one_is_a_command(gitlab: tuple[Recorded, GitLab]) -> None:
    host, forge = gitlab
    found = forge.issues("swarm-bot")
    assert [(one.number, one.body) for one in found] == [(4, ""), (5, "ours")]
    assert forge.open_issue("t", "a\n/close").number == 6
    assert json.loads(host.bodies[-1]) == {"title": "t", "description": "a\n&#47;close"}
    forge.edit_issue(found[1], "/assign @all")
    assert json.loads(host.bodies[-1]) == {"description": "&#47;assign @all"}
    forge.close_issue(found[1], "/reopen")
    assert [json.loads(body) for body in host.bodies[-2:]] == [{"body": "&#47;reopen"}, {"state_event": "close"}]
    assert host.sent("PUT") == ["/api/v4/projects/fleet%2Flab/issues/5"] * 2
