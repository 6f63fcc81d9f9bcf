"""How does GitLab answer? By its published description of the REST interface, version 4.

Not tried against GitLab itself: the tests answer as its description says. A merge request is the pull request here. An
approval does not say for which commit it was given: that is the newest version that existed when it was.
"""

from __future__ import annotations

import datetime
import re
from typing import Literal
from urllib.parse import quote

from pydantic import AwareDatetime, Field

from swarm_iac.forge.forge import LONGEST_DESCRIPTION, Comment, Commit, ForgeApproval, Issue, Login, PullRequest, State, Status
from swarm_iac.forge.proposal import Branch, Listed, Proposal
from swarm_iac.forge.web import Reply, Web, form

#: Of GitLab, and ours. What we do not know is no success.
_STATES = {"pending": State.PENDING, "running": State.PENDING, "created": State.PENDING, "success": State.SUCCESS,
           "failed": State.FAILURE}  # fmt: skip
_APPROVED = "approved this merge request"
#: A line that begins so is a command to GitLab, carried out as whoever writes the comment.
_COMMAND = re.compile(r"^(\s*)/", re.MULTILINE)


class _User(Reply):
    username: Login


class _Pull(Reply):
    iid: int = Field(ge=1)
    author: _User
    state: Literal["opened", "closed", "locked", "merged"]
    target_branch: str
    sha: Commit
    source_project_id: int | None = None
    target_project_id: int
    merge_commit_sha: Commit | None = None
    squash_commit_sha: Commit | None = None


class _Proposed(_Pull):
    source_branch: str
    title: str
    description: str | None = None


class _Project(Reply):
    default_branch: Branch


class _ApprovedBy(Reply):
    user: _User


class _Approvals(Reply):
    approved_by: tuple[_ApprovedBy, ...] = ()


class _Note(Reply):
    id: int
    author: _User | None = None
    body: str
    system: bool = False
    created_at: AwareDatetime


class _Version(Reply):
    id: int
    head_commit_sha: Commit
    created_at: AwareDatetime


class _Issue(Reply):
    iid: int = Field(ge=1)
    author: _User | None = None
    description: str | None = None


class _Status(Reply):
    id: int
    created_at: AwareDatetime
    name: str
    status: str
    author: _User | None = None
    description: str | None = None


class _Upload(Reply):
    full_path: str = Field(max_length=500, pattern=r"^/[^\s]+$")


class GitLab:
    """A project `GROUP/NAME` on the GitLab at `root`."""

    kind = "gitlab"

    def __init__(self, root: str, repository: str, token: str) -> None:
        self._root = root.rstrip("/")
        self._web = Web(f"{self._root}/api/v4", ("Authorization", f"Bearer {token}"))
        self._at = f"/projects/{quote(repository, safe='')}"

    def me(self) -> str:
        """See Forge."""
        return self._web.get("/user", _User).username

    def ref(self, pull: PullRequest) -> str:
        """See Forge."""
        return f"refs/merge-requests/{pull.number}/head"

    def pull(self, number: int) -> PullRequest:
        """See Forge."""
        return _pull(self._web.get(self._of(number), _Pull))

    def open_pulls(self, base: str) -> tuple[PullRequest, ...]:
        """See Forge."""
        found = (_pull(one) for one in self._web.all(f"{self._at}/merge_requests", _Pull, state="opened", target_branch=base))
        return tuple(sorted((one for one in found if one.base == base), key=lambda one: one.number))

    def default_branch(self) -> str:
        """See Forge."""
        return self._web.get(self._at, _Project).default_branch

    def propose(self, head: str, base: str, title: str, body: str) -> PullRequest:
        """See Forge. GitLab carries out the commands of a description, too."""
        text = without_commands(body)
        proposal, at = Proposal(head, base, title, text), f"{self._at}/merge_requests"
        found = self._web.all(at, _Proposed, source_branch=head, target_branch=base, state="opened")

        def sent(method: str, path: str, **more: object) -> Listed:
            answer = self._web.send(method, path, again=method == "PUT", title=title, description=text, **more)
            return _listed(self._web.checked(path, _Proposed, answer))

        return proposal.opened(
            map(_listed, found),
            create=lambda: sent("POST", at, source_branch=head, target_branch=base),
            update=lambda pull: sent("PUT", self._of(pull.number)),
        )

    def merged_as(self, commit: str) -> PullRequest | None:
        """See Forge."""
        found = map(_pull, self._web.all(f"{self._at}/repository/commits/{commit}/merge_requests", _Pull))
        return next((one for one in found if one.merged == commit), None)

    def approvals(self, pull: PullRequest) -> tuple[ForgeApproval, ...]:
        """See Forge. An approval whose moment is not known, or that is older than every version, is none."""
        now = {one.user.username.lower() for one in self._web.get(f"{self._of(pull.number)}/approvals", _Approvals).approved_by}
        when: dict[str, tuple[str, datetime.datetime]] = {}
        for note in self._notes(pull):
            if note.system and note.author and note.body == _APPROVED:
                when[note.author.username.lower()] = (note.author.username, note.created_at)
        versions = sorted(self._web.all(f"{self._of(pull.number)}/versions", _Version), key=lambda one: one.id)
        found = []
        for name, (shown, moment) in sorted(when.items()):
            seen = [one for one in versions if one.created_at <= moment]
            if name in now and seen:
                found.append(ForgeApproval(by=shown, commit=seen[-1].head_commit_sha, at=moment))
        return tuple(found)

    def comments(self, pull: PullRequest) -> tuple[Comment, ...]:
        """See Forge."""
        return tuple(
            Comment(id=one.id, by=one.author.username if one.author else None, body=one.body)
            for one in self._notes(pull)
            if not one.system
        )

    def comment(self, pull: PullRequest, body: str) -> None:
        """See Forge."""
        self._web.send("POST", f"{self._of(pull.number)}/notes", body=without_commands(body))

    def edit(self, pull: PullRequest, comment: Comment, body: str) -> None:
        """See Forge."""
        self._web.send("PUT", f"{self._of(pull.number)}/notes/{comment.id}", again=True, body=without_commands(body))

    def statuses(self, commit: str, context: str) -> tuple[Status, ...]:
        """See Forge."""
        found = self._web.all(f"{self._at}/repository/commits/{commit}/statuses", _Status, name=context, all="true")
        return tuple(
            Status(
                context=context, state=_STATES.get(one.status, State.ERROR), by=one.author.username if one.author else None,
                at=one.created_at, description=one.description or "",
            )
            for one in sorted(found, key=lambda one: one.id)
            if one.name == context
        )  # fmt: skip

    def set_status(self, commit: str, context: str, state: State, description: str) -> None:
        """See Forge. A success after a success makes no new entry in GitLab, and is refused: a pending one goes between."""
        word = {State.SUCCESS: "success", State.PENDING: "pending"}.get(state, "failed")
        text = description[:LONGEST_DESCRIPTION]
        for each in dict.fromkeys(("pending", word)):
            self._web.send("POST", f"{self._at}/statuses/{commit}", state=each, name=context, description=text)

    def attach(self, pull: PullRequest, name: str, data: bytes) -> str | None:
        """See Forge."""
        kind, body = form("file", name, data)
        found = self._web.once("POST", f"{self._at}/uploads", body, kind)
        return self._root + self._web.checked(f"{self._at}/uploads", _Upload, found).full_path

    def issues(self, by: str) -> tuple[Issue, ...]:
        """See Forge."""
        found = self._web.all(f"{self._at}/issues", _Issue, state="opened", author_username=by, scope="all")
        ours = (_issue(one) for one in found)
        return tuple(sorted((one for one in ours if one.by and one.by.lower() == by.lower()), key=lambda one: one.number))

    def open_issue(self, title: str, body: str) -> Issue:
        """See Forge."""
        path = f"{self._at}/issues"
        sent = self._web.send("POST", path, title=title, description=without_commands(body))
        return _issue(self._web.checked(path, _Issue, sent))

    def edit_issue(self, issue: Issue, body: str) -> None:
        """See Forge."""
        path = f"{self._at}/issues/{issue.number}"
        self._web.send("PUT", path, again=True, description=without_commands(body))

    def close_issue(self, issue: Issue, word: str) -> None:
        """See Forge."""
        self._web.send("POST", f"{self._at}/issues/{issue.number}/notes", body=without_commands(word))
        self._web.send("PUT", f"{self._at}/issues/{issue.number}", again=True, state_event="close")

    def _of(self, number: int) -> str:
        return f"{self._at}/merge_requests/{number}"

    def _notes(self, pull: PullRequest) -> tuple[_Note, ...]:
        return tuple(self._web.all(f"{self._of(pull.number)}/notes", _Note, sort="asc", order_by="created_at"))


def without_commands(body: str) -> str:
    """The text with no line that GitLab takes as a command (`/merge`): a comment quotes what others wrote."""
    return _COMMAND.sub(r"\1&#47;", body)


def _pull(one: _Pull) -> PullRequest:
    """A fast-forward merge has no commit of its own: then it is the head, or what it was squashed to."""
    merged = one.merge_commit_sha or one.squash_commit_sha or one.sha
    return PullRequest(
        number=one.iid, author=one.author.username, base=one.target_branch, head=one.sha,
        fork=one.source_project_id != one.target_project_id, open=one.state == "opened",
        merged=merged if one.state == "merged" else None,
    )  # fmt: skip


def _listed(one: _Proposed) -> Listed:
    return Listed(pull=_pull(one), branch=one.source_branch, title=one.title, body=one.description or "")


def _issue(one: _Issue) -> Issue:
    return Issue(number=one.iid, by=one.author.username if one.author else None, body=one.description or "")
