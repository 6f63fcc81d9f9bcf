"""How is a real forge started on loopback, and who works with it? Gitea in a folder of its own, and accounts with clones."""

from __future__ import annotations

import base64
import json
import os
import secrets
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from swarm_iac.cli import toolchain

SCRIPT = Path(__file__).with_name("build-gitea.sh")
_INI = """
[server]
HTTP_ADDR = 127.0.0.1
HTTP_PORT = {port}
ROOT_URL = http://127.0.0.1:{port}/
STATIC_ROOT_PATH = {static}
DISABLE_SSH = true
OFFLINE_MODE = true
[database]
DB_TYPE = sqlite3
[security]
INSTALL_LOCK = true
SECRET_KEY = {secret}
PASSWORD_HASH_ALGO = pbkdf2$1000$20
[actions]
DEFAULT_ACTIONS_URL = self
[indexer]
ISSUE_INDEXER_TYPE = db
[cron.update_checker]
ENABLED = false
"""
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))
_Some = TypeVar("_Some")


class No(Exception):
    """The forge, or git, refused."""


def built() -> Path:
    """The folder with `gitea`, `gitea-runner` and `static`, built if there is none on this machine."""
    return toolchain.build("gitea", SCRIPT, print, hint="set GOPROXY to a Go module proxy that you can reach")


def _free_port() -> int:
    """One that the system gives to nobody: the forge takes it later, and again after `stop`, beside other tests."""
    while True:
        port = 20_000 + secrets.randbelow(12_000)
        with socket.socket() as free, suppress(OSError):
            free.bind(("127.0.0.1", port))
            return port


def until(what: str, ask: Callable[[], _Some], seconds: float = 60) -> _Some:
    """What follows a push happens in queues of the forge: ask until it is true."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with suppress(No):
            if got := ask():
                return got
        time.sleep(0.05)
    raise AssertionError(f"never came: {what}")


@dataclass(frozen=True)
class Account:
    """An account of the forge; `word` is its password."""

    root: str
    name: str
    word: str = field(repr=False)

    @property
    def login(self) -> str:
        return "Basic " + base64.b64encode(f"{self.name}:{self.word}".encode()).decode()

    def ask(self, method: str, path: str, /, **body: Any) -> Any:
        data = json.dumps(body).encode() if body else None
        headers = {"Authorization": self.login, "Content-Type": "application/json"}
        request = urllib.request.Request(f"{self.root}/api/v1{path}", data=data, headers=headers, method=method)
        try:
            with _OPENER.open(request, timeout=30) as answer:
                raw = answer.read()
        except urllib.error.HTTPError as error:
            with error:
                raise No(f"{error.code} {error.read().decode(errors='replace')[:300]}") from None
        except OSError as error:
            raise No(str(error)) from None
        return json.loads(raw) if raw else None

    def token(self, *scopes: str) -> str:
        made = self.ask("POST", f"/users/{self.name}/tokens", name=secrets.token_hex(4), scopes=list(scopes))
        return str(made["sha1"])

    def git(self, *words: str, at: Path) -> str:
        """git as this account; its password goes by the environment alone."""
        settings = {"http.extraHeader": f"Authorization: {self.login}", "user.name": self.name,
                    "user.email": f"{self.name}@example.org", "init.defaultBranch": "main"}  # fmt: skip
        env = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "GIT_TERMINAL_PROMPT": "0"}
        for i, (key, value) in enumerate(settings.items()):
            env |= {f"GIT_CONFIG_KEY_{i}": key, f"GIT_CONFIG_VALUE_{i}": value, "GIT_CONFIG_COUNT": str(i + 1)}
        done = subprocess.run(["git", *words], cwd=at, env=env, capture_output=True, text=True, timeout=120)
        if done.returncode:
            raise No(done.stderr)
        return done.stdout.strip()


class Server:
    """A running Gitea; `with Server(folder) as server` ends it. `stop` and `start` in between: it is away."""

    def __init__(self, at: Path) -> None:
        programs, self.at = built(), at
        at.mkdir(parents=True, exist_ok=True)
        port = _free_port()
        self.root, ini = f"http://127.0.0.1:{port}", at / "app.ini"
        ini.write_text(_INI.format(port=port, static=programs / "static", secret=secrets.token_hex(32)))
        self._env = {**os.environ, "HOME": str(at), "GITEA_I_AM_BEING_UNSAFE_RUNNING_AS_ROOT": "true"}
        self._command = [str(programs / "gitea"), "--work-path", str(at), "--config", str(ini)]
        self.admin = Account(self.root, "keeper", secrets.token_urlsafe(24))
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Server:
        create = ["admin", "user", "create", "--admin", "--username", self.admin.name, "--password", self.admin.word,
                  "--email", "keeper@example.org", "--must-change-password=false"]  # fmt: skip
        for words in (["migrate"], create):
            subprocess.run([*self._command, *words], env=self._env, check=True, capture_output=True, timeout=120)
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        with (self.at / "forge.log").open("a") as log:
            self._process = process = subprocess.Popen([*self._command, "web"], env=self._env, stdout=log, stderr=log)

        def answers() -> bool:
            assert process.poll() is None, (self.at / "forge.log").read_text()[-2000:]
            with suppress(OSError), _OPENER.open(f"{self.root}/api/healthz", timeout=5):
                return True
            return False

        until("the forge", answers)

    def stop(self) -> None:
        if self._process:
            self._process.terminate()
            self._process.wait(30)
            self._process = None

    @contextmanager
    def runner(self) -> Iterator[None]:
        """Gitea's own runner, for the jobs of every repository, as processes of this machine."""
        at, program = self.at / f"runner-{secrets.token_hex(3)}", str(built() / "gitea-runner")
        at.mkdir()
        (at / "config.yaml").write_text(
            f"cache: {{enabled: false}}\nhost: {{workdir_parent: {at}/work}}\n"
            "runner: {capacity: 1, fetch_interval: 1s, fetch_interval_max: 1s, state_report_interval: 1s, "
            "labels: ['ubuntu-latest:host']}\n"
        )
        env = {"PATH": os.environ["PATH"], "HOME": str(at)}
        token = self.admin.ask("POST", "/admin/actions/runners/registration-token")["token"]
        command = [program, "--config", "config.yaml"]
        register = ["register", "--no-interactive", "--instance", self.root, "--token", token, "--name", at.name]
        subprocess.run([*command, *register], cwd=at, env=env, check=True, capture_output=True, timeout=60)
        with (at / "log").open("w") as log:
            process = subprocess.Popen([*command, "daemon"], cwd=at, env=env, stdout=log, stderr=log)
        try:
            yield
        finally:
            process.terminate()
            process.wait(30)

    def user(self, name: str) -> Account:
        made = Account(self.root, name, secrets.token_urlsafe(24))
        body = {"username": name, "password": made.word, "email": f"{name}@example.org", "must_change_password": False}
        self.admin.ask("POST", "/admin/users", **body)
        return made


class Person:
    """An account with a clone of a repository, who opens, reviews and merges pull requests."""

    def __init__(self, account: Account, repository: str, at: Path) -> None:
        self.account, self.name, self.repository, self.at = account, account.name, repository, at
        at.mkdir(parents=True)
        self.git("init", "-q")
        self.git("remote", "add", "origin", f"{account.root}/{repository}.git")

    def git(self, *words: str) -> str:
        return self.account.git(*words, at=self.at)

    def ask(self, method: str, path: str, /, **body: Any) -> Any:
        return self.account.ask(method, path, **body)

    def begin(self, branch: str, base: str = "main") -> None:
        """A new branch here, from the forge's."""
        self.git("fetch", "-q", "origin")
        self.git("checkout", "-q", "-B", branch, f"origin/{base}")

    def edit(self, name: str, old: str, new: str) -> None:
        """Put one text in the place of another, which has to be in the file."""
        text = (self.at / name).read_text()
        assert old in text
        (self.at / name).write_text(text.replace(old, new))

    def push(self, branch: str, files: Mapping[str, str], *force: str) -> str:
        """Commit these files and push; the commit, once the forge knows it."""
        for name, text in files.items():
            (self.at / name).parent.mkdir(parents=True, exist_ok=True)
            (self.at / name).write_text(text)
        self.git("add", "-A")
        for name in files:
            if name.startswith("bin/"):  # Pulumi starts what is there
                self.git("update-index", "--chmod=+x", name)
                (self.at / name).chmod(0o755)
        self.git("commit", "-q", "--allow-empty", "-m", branch)
        self.git("push", "-q", *force, "origin", f"HEAD:{branch}")
        head = self.git("rev-parse", "HEAD")
        at = f"/repos/{self.repository}/branches/{branch}"
        until("the branch", lambda: self.ask("GET", at)["commit"]["id"] == head)
        return head

    def pull(self, branch: str, files: Mapping[str, str], into: str = "") -> tuple[int, str]:
        """Open a pull request with these files changed: its number and its head."""
        self.begin(branch)
        return self.opened(branch, files, into)

    def opened(self, branch: str, files: Mapping[str, str] | None = None, into: str = "") -> tuple[int, str]:
        """The same for what is changed here already."""
        head = self.push(branch, files or {})
        into = into or self.repository
        source = branch if into == self.repository else f"{self.repository.split('/')[0]}:{branch}"
        made = until(
            "the pull request", lambda: self.ask("POST", f"/repos/{into}/pulls", title=branch, head=source, base="main")
        )
        return int(made["number"]), head

    def approve(self, number: int, into: str = "") -> None:
        self.ask("POST", f"/repos/{into or self.repository}/pulls/{number}/reviews", event="APPROVED", body="good")

    def merge(self, number: int, how: str = "merge") -> str:
        """Merge it; the commit by which that was done."""
        at = f"/repos/{self.repository}/pulls/{number}"

        def merged() -> str:
            found = self.ask("GET", at)
            if not found["merged"]:
                self.ask("POST", f"{at}/merge", Do=how)
            return str(self.ask("GET", at)["merge_commit_sha"] or "")

        return until("the merge", merged)


if __name__ == "__main__":  # for `make test`: what it runs, it says
    if toolchain.cached("gitea", SCRIPT).exists():
        print("tests/forge: with the forge that was built here")
    else:
        print("tests/forge: NOT RUN, because the forge is not built on this machine: make test-forge builds it and runs them")
        raise SystemExit(1)
