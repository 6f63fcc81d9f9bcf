"""Does the pipeline that `swarm init --forge gitlab` writes check a merge request? Its jobs run by a local runner, on a real repository.

GitLab itself is not here: what the jobs ask of its interface is answered in the shapes of its published description, from the
repository that they fetch from, over http.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from swarm_iac.cli import initialise, toolchain
from tests.forge.merging import STACK, solve
from tests.forge.test_web import Host, Raw

pytestmark = pytest.mark.forge
SCRIPT = Path(__file__).with_name("build-gitlab-ci-local.sh")
AT = "/api/v4/projects/fleet%2Flab"


class GitLabWithGit(Host):
    """A repository over http, and one open merge request of it."""

    def __init__(self, bare: Path, head: str) -> None:
        super().__init__()
        self.bare, self.reply = bare, self.answer
        bot = {"id": 7, "username": "swarm-bot"}
        self.pull = {"iid": 1, "author": {"id": 2, "username": "bo"}, "state": "opened", "target_branch": "main", "sha": head,
                     "source_project_id": 4, "target_project_id": 4, "merge_commit_sha": None, "squash_commit_sha": None}  # fmt: skip
        self.fixed = {
            "/api/v4/user": bot, f"{AT}/merge_requests/1": self.pull, f"{AT}/merge_requests": [self.pull],
            f"{AT}/merge_requests/1/approvals": {"approved_by": []}, f"{AT}/merge_requests/1/notes": [],
            f"{AT}/merge_requests/1/versions": [], f"{AT}/repository/commits/{head}/statuses": [],
        }  # fmt: skip

    def answer(self, path: str) -> Raw:
        where = urlsplit(path)
        if where.path.startswith("/fleet/lab.git/"):
            return self.git(where.path, where.query)
        found = self.fixed.get(where.path)
        if found is None and self.asked[-1][0] != "POST":
            return 404, {}, b'{"message": "404 Not Found"}'
        again = isinstance(found, list) and "page=1" not in where.query.split("&") and "page=" in where.query
        return 200, {}, json.dumps([] if again else found if self.asked[-1][0] == "GET" else {"id": 1}).encode()

    def git(self, path: str, query: str) -> Raw:
        """By git's own program for web servers. What came compressed is not used by our git for so small a repository."""
        env = {"PATH": os.environ["PATH"], "GIT_PROJECT_ROOT": str(self.bare.parent), "GIT_HTTP_EXPORT_ALL": "1",
               "PATH_INFO": path.replace("/fleet/lab.git", f"/{self.bare.name}"), "QUERY_STRING": query,
               "REQUEST_METHOD": self.asked[-1][0], "CONTENT_LENGTH": str(len(self.bodies[-1])),
               "CONTENT_TYPE": f"application/x-{path.rpartition('/')[2]}-request"}  # fmt: skip
        done = subprocess.run(["git", "http-backend"], env=env, input=self.bodies[-1], capture_output=True, timeout=60)
        head, _, body = done.stdout.partition(b"\r\n\r\n")
        lines = dict(line.split(": ", 1) for line in head.decode().splitlines())
        return int(lines.pop("Status", "200").split()[0]), lines, body

    def statuses(self, head: str) -> list[tuple[str, str]]:
        """State and description of what was set, in order."""
        said = zip(self.asked, self.bodies, strict=True)
        found = [json.loads(body) for (verb, path, _), body in said if verb == "POST" and path.endswith(f"/statuses/{head}")]
        return [(one["state"], one["description"]) for one in found]


def git(at: Path, *words: str) -> str:
    own = ("-c", "user.name=bo", "-c", "user.email=bo@example.org")
    return subprocess.run(["git", *own, *words], cwd=at, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[tuple[GitLabWithGit, Path, str]]:
    at = tmp_path / "lab"
    initialise.make(at, "gitlab")
    solve(at)
    git(at, "init", "-q", "-b", "main")
    git(at, "add", "-A")
    git(at, "commit", "-q", "-m", "a fleet")
    git(at, "checkout", "-q", "-b", "change")
    text = (at / STACK).read_text()
    assert "memory: 300 MB" in text
    (at / STACK).write_text(text.replace("memory: 300 MB", "memory: 320 MB"))
    solve(at)
    git(at, "commit", "-q", "-a", "-m", "grow")
    head = git(at, "rev-parse", "HEAD")
    git(at, "checkout", "-q", "main")
    bare = tmp_path / "bare.git"
    git(tmp_path, "clone", "-q", "--bare", str(at), str(bare))
    git(bare, "update-ref", "refs/merge-requests/1/head", head)
    git(bare, "config", "http.receivepack", "true")
    host = GitLabWithGit(bare, head)
    git(at, "remote", "add", "origin", f"{host.root}/fleet/lab.git")
    git(at, "fetch", "-q", "origin")
    git(at, "remote", "set-head", "origin", "main")
    yield host, at, head
    host.server.shutdown()
    host.server.server_close()


def run(at: Path, host: GitLabWithGit, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    """One or more jobs by the runner's shell, with the variables that GitLab gives them."""
    runner = toolchain.build("gitlab-ci-local", SCRIPT, print, hint="npm and Node 18 or later are needed")
    values = {"CI_SERVER_URL": host.root, "CI_PROJECT_PATH": "fleet/lab", "CI_JOB_TOKEN": "a-job", "GITLAB_CI": "true",
              "CI_PIPELINE_SOURCE": "schedule", "SWARM_FORGE_TOKEN": "a-token", **more}  # fmt: skip
    known = ("--ignore-predefined-vars", ",".join(name for name in values if not name.startswith("SWARM")))
    given = [word for name, value in values.items() for word in ("--variable", f"{name}={value}")]
    program = str(runner / "node_modules" / ".bin" / "gitlab-ci-local")
    home = {"HOME": str(at.parent / "home"), "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}
    (at.parent / "home").mkdir(exist_ok=True)
    return subprocess.run(
        [program, "--force-shell-executor", "--shell-isolation", *known, *given, *words], cwd=at, env={**os.environ, **home},
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip


def test_the_job_check_judges_an_open_merge_request(lab: tuple[GitLabWithGit, Path, str]) -> None:
    host, at, head = lab
    done = run(at, host, "check")
    assert done.returncode == 0, done.stdout + done.stderr
    states = host.statuses(head)
    assert [state for state, _ in states] == ["pending", "success"] and "may be merged" in states[-1][1], states
    posted = [json.loads(body)["body"] for (verb, path, _), body in zip(host.asked, host.bodies, strict=True)
              if verb == "POST" and path.endswith("/notes")]  # fmt: skip
    assert len(posted) == 1 and "pretrain-0" in posted[0]


def test_at_night_the_machines_are_compared_and_nothing_else_runs(lab: tuple[GitLabWithGit, Path, str]) -> None:
    host, at, _ = lab

    def jobs(**more: str) -> set[str]:
        done = run(at, host, "--list-json", **more)
        assert done.returncode == 0, done.stderr
        listed = json.loads(done.stdout[done.stdout.index("[\n") :])
        return {one["name"] for one in listed if one["when"] != "never"}

    assert jobs() == {"check", "apply"}
    assert jobs(SWARM_NIGHTLY="1") == {"nightly"}


def test_a_snapshot_is_pushed_with_the_projects_token_and_drift_turns_the_job_red(
    lab: tuple[GitLabWithGit, Path, str], tmp_path: Path
) -> None:
    """What `swarm` itself does there is tested elsewhere: here it is a script that pushes, and one machine did not answer."""
    host, at, _ = lab
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "swarm").write_text(
        "#!/bin/sh\nif [ $1 = drift ]; then git ls-remote -q origin; exit 1; fi\n"
        "git push -q origin HEAD:refs/heads/swarm-snapshot && exit 4\n"
    )
    (programs / "swarm").chmod(0o755)
    for name in ("ssh-key", "snapshot-key"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / name)], check=True)
    files = {"SWARM_SSH_KEY": "ssh-key", "SWARM_SNAPSHOT_KEY": "snapshot-key", "SWARM_KNOWN_HOSTS": "ssh-key.pub"}
    given = {name: str(tmp_path / file) for name, file in files.items()}
    before = len(host.asked)
    done = run(at, host, "nightly", SWARM_NIGHTLY="1", PATH=f"{programs}{os.pathsep}{os.environ['PATH']}", **given)
    assert done.returncode == 1, done.stdout + done.stderr
    assert git(host.bare, "rev-parse", "swarm-snapshot") == git(at, "rev-parse", "main")
    said = [(path.rpartition("/")[2], who) for _, path, who in host.asked[before:]]
    by = {name: f"Basic {base64.b64encode(f'{name}:{token}'.encode()).decode()}"
          for name, token in (("oauth2", "a-token"), ("gitlab-ci-token", "a-job"))}  # fmt: skip
    assert {who for path, who in said if "receive-pack" in path} == {by["oauth2"]}, said
    assert said[-1][1] == by["gitlab-ci-token"], "for nothing else"
