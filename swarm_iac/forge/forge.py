"""What is asked of every forge? One interface; an adapter per kind of forge answers it.

    pull request    number, author, base, head, from a fork?, merged as which commit
    approvals       by whom, and for which commit each was given
    comment         found by its marker, edited in place
    status          for exactly one commit, and who set it
    attachment      a file beside the comment, where the forge takes one
    issue           opened, found by who wrote it, edited in place, closed with a word

Everything that a forge answers was written by others. Names of accounts and commits are checked here; a text of a person
(a title, the body of a comment) is returned only where a marker is looked for, and is never evaluated.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Protocol

from pydantic import AwareDatetime, Field, StringConstraints

from swarm_iac.model.base import Value

#: A commit by its whole name: a shortened one may become another's.
Commit = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{40}([0-9a-f]{24})?$")]
#: An account of a forge. An application has `[bot]` behind its name.
Login = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}(\[bot\])?$")]
#: The longest comment that every forge takes. [characters]
LONGEST_COMMENT = 65_536
#: The longest description of a status that every forge takes. [characters]
LONGEST_DESCRIPTION = 140


class State(StrEnum):
    """Of a status: a merge waits for SUCCESS."""

    PENDING = "pending"
    SUCCESS = "success"
    FAILURE = "failure"
    ERROR = "error"

    @classmethod
    def of(cls, word: str) -> State:
        """What a forge has beside these (`warning`, `skipped`) is no success."""
        return cls(word) if word in {*cls} else cls.ERROR


class PullRequest(Value):
    """A pull request (GitLab: a merge request)."""

    number: int = Field(ge=1)
    author: Login
    base: str = Field(description="The branch it is to be merged into.")
    head: Commit
    fork: bool = Field(description="Does its head come from another repository?")
    open: bool
    merged: Commit | None = Field(default=None, description="The commit on the base branch by which it was merged.")


class ForgeApproval(Value):
    """One account's approval, for the commit that it saw, and when it was given."""

    by: Login
    commit: Commit
    at: AwareDatetime


class Comment(Value):
    """One comment. `by`: None if the account is gone."""

    id: int
    by: Login | None
    body: str


class Issue(Value):
    """An open issue. `by`: None if the account is gone."""

    number: int = Field(ge=1)
    by: Login | None
    body: str


class Status(Value):
    """What is shown beside a commit under `context`. `by`: who set it, None if the forge does not say."""

    context: str
    state: State
    by: Login | None
    at: AwareDatetime
    description: str = ""


class Forge(Protocol):
    """One repository on a forge, used as one account.

    Every method raises Refused if the forge says no or answers what it should not, and Retryable if it is away.
    """

    kind: str

    def me(self) -> str:
        """The account whose token is used."""
        ...

    def ref(self, pull: PullRequest) -> str:
        """The ref of the repository that is the head of a pull request, also of one of a fork."""
        ...

    def pull(self, number: int) -> PullRequest:
        """A pull request, as it is now."""
        ...

    def open_pulls(self, base: str) -> tuple[PullRequest, ...]:
        """All open ones into that branch, by number."""
        ...

    def default_branch(self) -> str:
        """The branch of the repository that a pull request is for, if nothing else is said."""
        ...

    def propose(self, head: str, base: str, title: str, body: str) -> PullRequest:
        """The open pull request of the branch `head` into `base`: opened, or the one that is open with this title and text.

        Both are branches of this repository; one of a fork is not touched. The author of one that is open may be another.
        """
        ...

    def merged_as(self, commit: str) -> PullRequest | None:
        """The pull request whose merge made this commit; None if there is none."""
        ...

    def approvals(self, pull: PullRequest) -> tuple[ForgeApproval, ...]:
        """Who approves it now, at most one per account: its last word counts, and what was dismissed does not."""
        ...

    def comments(self, pull: PullRequest) -> tuple[Comment, ...]:
        """All of its comments, oldest first."""
        ...

    def comment(self, pull: PullRequest, body: str) -> None:
        """Add one."""
        ...

    def edit(self, pull: PullRequest, comment: Comment, body: str) -> None:
        """Replace the text of one's own."""
        ...

    def statuses(self, commit: str, context: str) -> tuple[Status, ...]:
        """All that were set under this context for exactly this commit, the last one that counts at the end."""
        ...

    def set_status(self, commit: str, context: str, state: State, description: str) -> None:
        """Set one."""
        ...

    def attach(self, pull: PullRequest, name: str, data: bytes) -> str | None:
        """Where a file beside the pull request can be read; None if the forge's interface takes none."""
        ...

    def issues(self, by: str) -> tuple[Issue, ...]:
        """The open issues that this account wrote, oldest first; no pull request is one."""
        ...

    def open_issue(self, title: str, body: str) -> Issue:
        """Write one."""
        ...

    def edit_issue(self, issue: Issue, body: str) -> None:
        """Replace the text of one's own."""
        ...

    def close_issue(self, issue: Issue, word: str) -> None:
        """Close one's own, with a comment that says why."""
        ...
