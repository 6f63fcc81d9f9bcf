"""How does Gitea answer? Its interface is close to GitHub's; what differs is here.

Measured on 1.26: a push dismisses an approval 0.4 to 2.5 s later, in a queue, so who applies compares commits; a status has
its creator; the merge commit knows its pull request; a comment takes attachments.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from typing import Literal, TypeVar

from pydantic import AwareDatetime, Field

from swarm_iac.forge.forge import LONGEST_DESCRIPTION, Comment, Commit, ForgeApproval, Issue, Login, PullRequest, State, Status
from swarm_iac.forge.issues import GitHubIssues
from swarm_iac.forge.proposal import Branch, Listed, Proposal
from swarm_iac.forge.reviews import last_words
from swarm_iac.forge.web import Reply, Web, form

_Some = TypeVar("_Some", bound=Reply)


class _User(Reply):
    login: Login


class _Repository(Reply):
    id: int


class _Branch(Reply):
    ref: str
    sha: Commit
    repo: _Repository | None = None


class _Pull(Reply):
    number: int = Field(ge=1)
    user: _User
    state: Literal["open", "closed"]
    base: _Branch
    head: _Branch
    merged: bool = False
    merge_commit_sha: Commit | None = None


class _Head(_Branch):
    label: str = Field(description="The branch; empty for what was pushed to `refs/for/`: then `ref` may be the name of ours.")


class _Proposed(_Pull):
    head: _Head
    title: str
    body: str | None = None


class _Project(Reply):
    default_branch: Branch


class _Review(Reply):
    id: int
    submitted_at: AwareDatetime | None = None
    user: _User | None = None
    state: str
    commit_id: str
    dismissed: bool = False


class _Comment(Reply):
    id: int
    user: _User | None = None
    body: str


class _Status(Reply):
    id: int
    created_at: AwareDatetime
    context: str
    status: str
    creator: _User | None = None
    description: str | None = None


class _Asset(Reply):
    browser_download_url: str = Field(max_length=500)


class Gitea(GitHubIssues):
    """A repository `OWNER/NAME` on the Gitea at `root`. Forgejo answers alike, and was not tried."""

    kind = "gitea"

    def __init__(self, root: str, repository: str, token: str) -> None:
        self._web = Web(f"{root.rstrip('/')}/api/v1", ("Authorization", f"token {token}"))
        self._at = f"/repos/{repository}"

    def me(self) -> str:
        """See Forge."""
        return self._web.get("/user", _User).login

    def ref(self, pull: PullRequest) -> str:
        """See Forge."""
        return f"refs/pull/{pull.number}/head"

    def pull(self, number: int) -> PullRequest:
        """See Forge."""
        return _pull(self._web.get(f"{self._at}/pulls/{number}", _Pull))

    def open_pulls(self, base: str) -> tuple[PullRequest, ...]:
        """See Forge."""
        found = map(_pull, self._all(f"{self._at}/pulls", _Pull, state="open"))
        return tuple(sorted((one for one in found if one.base == base), key=lambda one: one.number))

    def default_branch(self) -> str:
        """See Forge."""
        return self._web.get(self._at, _Project).default_branch

    def propose(self, head: str, base: str, title: str, body: str) -> PullRequest:
        """See Forge."""
        proposal, at = Proposal(head, base, title, body), f"{self._at}/pulls"
        found = self._all(at, _Proposed, state="open")

        def sent(method: str, path: str, **more: object) -> Listed:
            answer = self._web.send(method, path, again=method == "PATCH", title=title, body=body, **more)
            return _listed(self._web.checked(path, _Proposed, answer))

        return proposal.opened(
            map(_listed, found),
            create=lambda: sent("POST", at, head=head, base=base),
            update=lambda pull: sent("PATCH", f"{at}/{pull.number}"),
        )

    def merged_as(self, commit: str) -> PullRequest | None:
        """See Forge."""
        found = self._web.find(f"{self._at}/commits/{commit}/pull", _Pull)
        pull = _pull(found) if found else None
        return pull if pull and pull.merged == commit else None

    def approvals(self, pull: PullRequest) -> tuple[ForgeApproval, ...]:
        """See Forge."""
        reviews = sorted(self._all(f"{self._at}/pulls/{pull.number}/reviews", _Review), key=lambda one: one.id)
        return last_words(
            (one.user.login, one.state == "APPROVED" and not one.dismissed, one.commit_id, one.submitted_at)
            for one in reviews
            if one.user and one.state in ("APPROVED", "REQUEST_CHANGES")
        )

    def comments(self, pull: PullRequest) -> tuple[Comment, ...]:
        """See Forge."""
        found = self._web.list(f"{self._at}/issues/{pull.number}/comments", _Comment)
        return tuple(Comment(id=one.id, by=one.user.login if one.user else None, body=one.body) for one in found)

    def comment(self, pull: PullRequest, body: str) -> None:
        """See Forge."""
        self._web.send("POST", f"{self._at}/issues/{pull.number}/comments", body=body)

    def edit(self, pull: PullRequest, comment: Comment, body: str) -> None:
        """See Forge."""
        self._web.send("PATCH", f"{self._at}/issues/comments/{comment.id}", again=True, body=body)

    def statuses(self, commit: str, context: str) -> tuple[Status, ...]:
        """See Forge."""
        found = self._all(f"{self._at}/commits/{commit}/statuses", _Status)
        return tuple(
            Status(
                context=context, state=State.of(one.status), by=one.creator.login if one.creator else None, at=one.created_at,
                description=one.description or "",
            )
            for one in sorted(found, key=lambda one: one.id)
            if one.context == context
        )  # fmt: skip

    def set_status(self, commit: str, context: str, state: State, description: str) -> None:
        """See Forge."""
        self._web.send(
            "POST", f"{self._at}/statuses/{commit}", again=True,
            context=context, state=state.value, description=description[:LONGEST_DESCRIPTION],
        )  # fmt: skip

    def attach(self, pull: PullRequest, name: str, data: bytes) -> str | None:
        """See Forge. A page is packed: as it is, Gitea takes none, since its script would run under the forge's name."""
        if name.endswith(".html"):
            packed = io.BytesIO()
            with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as file:
                file.writestr(name, data)
            name, data = f"{name.removesuffix('.html')}.zip", packed.getvalue()
        kind, body = form("attachment", name, data)
        found = self._web.once("POST", f"{self._at}/issues/{pull.number}/assets", body, kind)
        return self._web.checked(f"{self._at}/issues/{pull.number}/assets", _Asset, found).browser_download_url

    def issues(self, by: str) -> tuple[Issue, ...]:
        """See Forge."""
        return self._written_by(by, size="limit", type="issues", created_by=by)

    def _all(self, path: str, what: type[_Some], **query: object) -> Iterator[_Some]:
        return self._web.all(path, what, size="limit", **query)


def _pull(one: _Pull) -> PullRequest:
    """The head's repository is none once a fork is deleted: then it was no branch of ours."""
    ours = one.head.repo is not None and one.base.repo is not None and one.head.repo.id == one.base.repo.id
    return PullRequest(
        number=one.number, author=one.user.login, base=one.base.ref, head=one.head.sha, fork=not ours,
        open=one.state == "open", merged=one.merge_commit_sha if one.merged else None,
    )  # fmt: skip


def _listed(one: _Proposed) -> Listed:
    branch = one.head.ref if one.head.label == one.head.ref else ""
    return Listed(pull=_pull(one), branch=branch, title=one.title, body=one.body or "")
