"""The real command in a process of its own, about a repository whose every text is hostile."""

from __future__ import annotations

import contextlib
import gzip
import http.client
import os
import re
import signal
import subprocess
import sys
import time
import urllib.parse
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.browser import browser, visit

__all__ = ["browser", "visit"]
ROOT = Path(__file__).resolve().parents[2]
#: What a browser would act on, wherever it was taken for markup, a script or an address.
HOSTILE = "</script><script>hacked=1</script><img src=x onerror=hacked=1><svg onload=hacked=1>{{7*7}}\u202e"
#: In the command and the environment of each team; nobody else may see it.
SECRETS = {"research": "secret-of-research", "serving": "secret-of-serving"}
TOKENS = {name: f"{name}-{'t' * 40}" for name in ("ada", "cy", "root")}
_STACK = """
fleet: lab
teams:
  research: {share: 3, users: [ada, eve]}
  serving: {share: 1, users: [cy]}
limits: {cluster: {gpus: 100, vcpus: 1000, memory: 10 TB}, user: {gpus: 40, vcpus: 800, memory: 5 TB}}
hardware:
  h100: {gpus: 4 x H100, vcpus: 64, memory: 512 GB, numa: 2, interface: eth1}
racks: {r1: {}, r2: {}}
nodes:
  n[1-2]: {hardware: h100, rack: r1, ssh: "root@{name}"}
  n3: {hardware: h100, rack: r2, ssh: root@n3, state: drain, reason: "HOSTILE"}
workloads:
  chat: {user: cy, kind: serve, replicas: 2, each: {gpus: 1, vcpus: 4, memory: 8 GB}, run: {command: "serve S2 'HOSTILE'", env: {KEY: "S2"}}}
  tune: {user: ada, kind: train, each: {gpus: 4, vcpus: 4, memory: 8 GB}, run: {command: "tune S1 'HOSTILE'", env: {KEY: "S1"}}}
  embed: {user: eve, kind: serve, each: {gpus: {count: 1, share: 0.5}, vcpus: 4, memory: 8 GB}, run: {command: "embed S1"}}
"""


def hostile_stack() -> str:
    text = _STACK.replace("HOSTILE", HOSTILE.replace("\u202e", "\\u202e"))
    return text.replace("S1", SECRETS["research"]).replace("S2", SECRETS["serving"])


def make_repository(folder: Path, stack: str, lock: str = "") -> Path:
    """A fleet repository with a commit."""
    (folder / "stacks").mkdir(parents=True)
    (folder / "Pulumi.yaml").write_text("name: fleet\nruntime: python\n")
    (folder / ".gitignore").write_text(".state/\n")
    (folder / "stacks" / "dev.yaml").write_text(stack)
    if lock:
        (folder / "stacks" / "dev.lock.yaml").write_text(lock)
    else:
        subprocess.run([sys.executable, "-m", "swarm_iac.cli", "solve", "dev"], cwd=folder, check=True, capture_output=True)
    commit(folder, HOSTILE)
    return folder


def commit(folder: Path, subject: str) -> None:
    """All of it, in the repository's history."""
    who = ["-c", "user.name=<b>Ada</b>", "-c", "user.email=ada@example.org"]
    for words in (["init", "-q"], ["add", "-A"], [*who, "commit", "-q", "-m", subject]):
        subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True)


@dataclass
class Reply:
    """An answer, with its text as it was sent."""

    status: int
    headers: dict[str, str]
    text: str
    size: int
    cookies: list[str] = field(default_factory=list)


@dataclass
class Served:
    """A page that is served, and who asks: `cookie` of a session."""

    port: int
    folder: Path
    process: subprocess.Popen[str]
    scheme: str = "http"

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def ask(self, path: str, method: str = "GET", body: str | None = None, most: int = -1, **headers: str) -> Reply:
        """One request; names of headers with `_` for `-`. `most`: bytes that are read of the answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        with contextlib.closing(connection):
            sent = {key.replace("_", "-"): value for key, value in headers.items()}
            if body is not None:
                sent.setdefault("content-type", "application/x-www-form-urlencoded")
            connection.request(method, path, body, sent)
            answer = connection.getresponse()
            data = answer.read() if most < 0 else answer.read(most)
            found = {key.lower(): value for key, value in answer.getheaders()}
            text = gzip.decompress(data) if found.get("content-encoding") == "gzip" else data
            return Reply(
                answer.status, found, text.decode("utf-8", "replace"), len(data), answer.headers.get_all("set-cookie") or []
            )

    def sign_in(self, name: str) -> str:
        """The cookie of a new session."""
        form = urllib.parse.urlencode({"token": TOKENS[name]})
        found = self.ask("/sign-in", "POST", form)
        assert found.status == 303, found.text
        return found.cookies[0].partition(";")[0]

    def settled(self, path: str, **headers: str) -> Reply:
        """The page once nothing on it is awaited."""
        until = time.monotonic() + 90
        while (found := self.ask(path, **headers)) and "Being worked out" in found.text and time.monotonic() < until:
            time.sleep(0.3)
        assert "Being worked out" not in found.text, path
        return found


@contextlib.contextmanager
def serving(folder: Path, *words: str) -> Iterator[Served]:
    """`swarm web` on a port that the kernel chooses."""
    command = [sys.executable, "-m", "swarm_iac.cli", "web", "dev", "--listen", "127.0.0.1:0", *words]
    environment = {**os.environ, "SWARM_NODE_TIMEOUT": "3"}
    process = subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True, env=environment)
    try:
        assert process.stderr
        line = process.stderr.readline()
        port = re.search(r"127\.0\.0\.1:([0-9]+)/", line)
        assert port, line + process.stderr.read()
        yield Served(int(port[1]), folder, process)
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            raise


def token_file(folder: Path) -> Path:
    """ada of research, cy of serving, and an administrator."""
    path = folder / ".state" / "people"
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"# who\nada research {TOKENS['ada']}\ncy serving {TOKENS['cy']}\nroot admin {TOKENS['root']}\n")
    path.chmod(0o600)
    return path


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The hostile repository."""
    return make_repository(tmp_path_factory.mktemp("web") / "fleet", hostile_stack())


@pytest.fixture(scope="module")
def own(lab: Path) -> Iterator[Served]:
    """Served to the own account."""
    with serving(lab) as served:
        yield served


@pytest.fixture(scope="module")
def signed(lab: Path) -> Iterator[Served]:
    """Served to people with tokens."""
    with serving(lab, "--token-file", str(token_file(lab))) as served:
        yield served
