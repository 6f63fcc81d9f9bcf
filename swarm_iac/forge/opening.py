"""Which forge and repository is meant, and with which token? From the environment of a job, or of an operator.

    SWARM_FORGE             github, gitea or gitlab
    SWARM_FORGE_URL         its address
    SWARM_FORGE_REPOSITORY  OWNER/NAME there
    SWARM_FORGE_TOKEN       the token of the account that comments and sets the status
    SWARM_FORGE_BOT         the name of that account, where its token cannot ask for it (an application on GitHub)

The first three are known in a job. The token is read from the environment only: a command line is readable by every account.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from swarm_iac.errors import Refused
from swarm_iac.forge.forge import Forge
from swarm_iac.forge.gitea import Gitea
from swarm_iac.forge.github import GitHub
from swarm_iac.forge.gitlab import GitLab

KINDS = ("github", "gitea", "gitlab")
#: The variable with the token.
TOKEN = "SWARM_FORGE_TOKEN"
_SERVER = re.compile(r"https?://[A-Za-z0-9.-]+(:[0-9]+)?")
_REPOSITORY = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_][A-Za-z0-9_.-]*)+")


def opened(environment: Mapping[str, str]) -> Forge:
    """The forge of this environment. Raises Refused naming the variable that is missing."""
    kind, root, repository = _place(environment)
    token = environment.get(TOKEN, "")
    for name, value in (("SWARM_FORGE_URL", root), ("SWARM_FORGE_REPOSITORY", repository), (TOKEN, token)):
        if not value:
            raise Refused(f"{name} is not set", hint="see docs/forges.md")
    if not _REPOSITORY.fullmatch(repository) or ".." in repository:
        raise Refused("SWARM_FORGE_REPOSITORY is no repository", hint="write OWNER/NAME")
    if not token.isascii() or not token.isprintable() or " " in token:
        raise Refused(f"{TOKEN} is no token: it has a character that none has", hint="is there a line end in it?")
    if kind == "gitea":
        return Gitea(root, repository, token)
    if kind == "github":
        return GitHub(root, repository, token, environment.get("SWARM_FORGE_BOT", ""))
    if kind == "gitlab":
        return GitLab(root, repository, token)
    raise Refused(f"SWARM_FORGE is {kind[:20]!r}", hint=f"one of {', '.join(KINDS)}")


def run_page(environment: Mapping[str, str]) -> str:
    """Where a job on GitHub shows the files that it keeps; empty elsewhere: other forges take files by their interface."""
    get = environment.get
    if not get("GITHUB_ACTIONS") or get("GITEA_ACTIONS"):
        return ""
    parts = [get(f"GITHUB_{name}", "") for name in ("SERVER_URL", "REPOSITORY", "RUN_ID")]
    if not _SERVER.fullmatch(parts[0]) or not _REPOSITORY.fullmatch(parts[1]) or not parts[2].isdecimal():
        return ""
    return f"{parts[0]}/{parts[1]}/actions/runs/{parts[2]}#artifacts"


def _place(environment: Mapping[str, str]) -> tuple[str, str, str]:
    """Kind, address and repository: as set, else as the job says. Gitea's jobs have GitHub's variables as well."""
    get = environment.get
    if get("GITLAB_CI"):
        known = ("gitlab", get("CI_SERVER_URL", ""), get("CI_PROJECT_PATH", ""))
    elif get("GITHUB_ACTIONS"):
        api = get("GITHUB_SERVER_URL", "") if get("GITEA_ACTIONS") else get("GITHUB_API_URL", "")
        known = ("gitea" if get("GITEA_ACTIONS") else "github", api, get("GITHUB_REPOSITORY", ""))
    else:
        known = ("", "", "")
    names = ("SWARM_FORGE", "SWARM_FORGE_URL", "SWARM_FORGE_REPOSITORY")
    kind, root, repository = (get(name) or other for name, other in zip(names, known, strict=True))
    return kind, root, repository
