"""How does GitHub answer? By its published description of the REST interface, version 2022-11-28.

Not tried against GitHub itself: the tests answer as its description says.
"""

from __future__ import annotations

from typing import Literal

from pydantic import AwareDatetime, Field

from swarm_iac.errors import Refused
from swarm_iac.forge.forge import LONGEST_DESCRIPTION, Comment, Commit, ForgeApproval, Issue, Login, PullRequest, State, Status
from swarm_iac.forge.issues import GitHubIssues
from swarm_iac.forge.proposal import Branch, Listed, Proposal
from swarm_iac.forge.reviews import last_words
from swarm_iac.forge.web import Reply, Web

#: Stands for an account that is gone; nobody can have its name.
_GONE = "ghost"


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
    user: _User | None = None
    state: Literal["open", "closed"]
    base: _Branch
    head: _Branch
    merged_at: str | None = None
    merge_commit_sha: Commit | None = None


class _Proposed(_Pull):
    title: str
    body: str | None = None


class _Project(Reply):
    default_branch: Branch


class _Review(Reply):
    id: int
    submitted_at: AwareDatetime | None = None
    user: _User | None = None
    state: str
    commit_id: str | None = None


class _Comment(Reply):
    id: int
    user: _User | None = None
    body: str | None = None


class _Status(Reply):
    id: int
    created_at: AwareDatetime
    context: str
    state: str
    creator: _User | None = None
    description: str | None = None


class GitHub(GitHubIssues):
    """A repository `OWNER/NAME`, used by the interface at `root`. `bot`: the account, where the token cannot ask for it."""

    kind = "github"

    def __init__(self, root: str, repository: str, token: str, bot: str = "") -> None:
        more = {"Accept": "application/vnd.github+json", "X-GitHub-Api-Version": "2022-11-28"}
        self._web = Web(root, ("Authorization", f"Bearer {token}"), more)
        self._at, self._owner, self._bot = f"/repos/{repository}", repository.partition("/")[0], bot

    def me(self) -> str:
        """See Forge. The token of an application cannot ask who it is."""
        if self._bot:
            return self._bot
        try:
            return self._web.get("/user", _User).login
        except Refused as refused:
            hint = "for the token of an application, set SWARM_FORGE_BOT to NAME[bot]"
            raise Refused(refused.message, hint=hint) from None

    def ref(self, pull: PullRequest) -> str:
        """See Forge."""
        return f"refs/pull/{pull.number}/head"

    def pull(self, number: int) -> PullRequest:
        """See Forge."""
        return _pull(self._web.get(f"{self._at}/pulls/{number}", _Pull))

    def open_pulls(self, base: str) -> tuple[PullRequest, ...]:
        """See Forge."""
        found = (_pull(one) for one in self._web.all(f"{self._at}/pulls", _Pull, state="open", base=base))
        return tuple(sorted((one for one in found if one.base == base), key=lambda one: one.number))

    def default_branch(self) -> str:
        """See Forge."""
        return self._web.get(self._at, _Project).default_branch

    def propose(self, head: str, base: str, title: str, body: str) -> PullRequest:
        """See Forge."""
        proposal, at = Proposal(head, base, title, body), f"{self._at}/pulls"
        found = self._web.all(at, _Proposed, head=f"{self._owner}:{head}", base=base, state="open")

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
        found = map(_pull, self._web.all(f"{self._at}/commits/{commit}/pulls", _Pull))
        return next((one for one in found if one.merged == commit), None)

    def approvals(self, pull: PullRequest) -> tuple[ForgeApproval, ...]:
        """See Forge. Reviews come in the order in which they were written; a dismissed one has lost its state."""
        words = ("APPROVED", "CHANGES_REQUESTED", "DISMISSED")
        return last_words(
            (one.user.login, one.state == "APPROVED", one.commit_id or "", one.submitted_at)
            for one in self._web.all(f"{self._at}/pulls/{pull.number}/reviews", _Review)
            if one.user and one.state in words
        )

    def comments(self, pull: PullRequest) -> tuple[Comment, ...]:
        """See Forge."""
        found = self._web.all(f"{self._at}/issues/{pull.number}/comments", _Comment)
        return tuple(Comment(id=one.id, by=one.user.login if one.user else None, body=one.body or "") for one in found)

    def comment(self, pull: PullRequest, body: str) -> None:
        """See Forge."""
        self._web.send("POST", f"{self._at}/issues/{pull.number}/comments", body=body)

    def edit(self, pull: PullRequest, comment: Comment, body: str) -> None:
        """See Forge."""
        self._web.send("PATCH", f"{self._at}/issues/comments/{comment.id}", again=True, body=body)

    def statuses(self, commit: str, context: str) -> tuple[Status, ...]:
        """See Forge."""
        found = self._web.all(f"{self._at}/commits/{commit}/statuses", _Status)
        return tuple(
            Status(
                context=context, state=State.of(one.state), by=one.creator.login if one.creator else None, at=one.created_at,
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
        """See Forge. GitHub takes files of a job by its own action alone: the workflow uploads them."""
        return None

    def issues(self, by: str) -> tuple[Issue, ...]:
        """See Forge."""
        return self._written_by(by, creator=by)


def _pull(one: _Pull) -> PullRequest:
    """`merge_commit_sha` of one that is open is a merge that GitHub tried, and no commit of the base branch."""
    ours = one.head.repo is not None and one.base.repo is not None and one.head.repo.id == one.base.repo.id
    return PullRequest(
        number=one.number, author=one.user.login if one.user else _GONE, base=one.base.ref, head=one.head.sha, fork=not ours,
        open=one.state == "open", merged=one.merge_commit_sha if one.merged_at else None,
    )  # fmt: skip


def _listed(one: _Proposed) -> Listed:
    return Listed(pull=_pull(one), branch=one.head.ref, title=one.title, body=one.body or "")
