"""How are issues kept by GitHub's interface? Gitea has it as well, but for how one's own are asked for."""

from __future__ import annotations

from pydantic import Field

from swarm_iac.forge.forge import Issue, Login
from swarm_iac.forge.web import Reply, Web


class _User(Reply):
    login: Login


class _Issue(Reply):
    number: int = Field(ge=1)
    user: _User | None = None
    body: str | None = None
    pull_request: dict[str, object] | None = None


class GitHubIssues:
    """The part of `Forge` about issues, for the repository at `_at`."""

    _web: Web
    _at: str

    def open_issue(self, title: str, body: str) -> Issue:
        """See Forge."""
        path = f"{self._at}/issues"
        return _issue(self._web.checked(path, _Issue, self._web.send("POST", path, title=title, body=body)))

    def edit_issue(self, issue: Issue, body: str) -> None:
        """See Forge."""
        self._web.send("PATCH", f"{self._at}/issues/{issue.number}", again=True, body=body)

    def close_issue(self, issue: Issue, word: str) -> None:
        """See Forge."""
        self._web.send("POST", f"{self._at}/issues/{issue.number}/comments", body=word)
        self._web.send("PATCH", f"{self._at}/issues/{issue.number}", again=True, state="closed")

    def _written_by(self, by: str, *, size: str = "per_page", **query: object) -> tuple[Issue, ...]:
        """The open ones that answer a query, of one account, oldest first. A pull request is an issue, too."""
        found = self._web.all(f"{self._at}/issues", _Issue, size=size, state="open", **query)
        ours = (_issue(one) for one in found if one.pull_request is None)
        return tuple(sorted((one for one in ours if one.by and one.by.lower() == by.lower()), key=lambda one: one.number))


def _issue(one: _Issue) -> Issue:
    return Issue(number=one.number, by=one.user.login if one.user else None, body=one.body or "")
