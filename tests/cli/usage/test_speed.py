"""Is a measured speed shown, written where it belongs, and pushed as one commit of its own that nobody else's work pays for?"""

from __future__ import annotations

import datetime
import http.server
import json
import shutil
import subprocess
import threading
import urllib.parse
from collections.abc import Iterator
from pathlib import Path

import pytest

from swarm_iac.cli.merging import proposing
from swarm_iac.errors import Refused, SwarmError
from swarm_iac.stackfile.locks.companions import read_lock
from tests.autopilot.test_speeds import FILE
from tests.cli.typed import swarm

BRANCH = "swarm/speed-lab"
_ME = ("-c", "user.name=ada", "-c", "user.email=ada@b.invalid")


class Prometheus(http.server.ThreadingHTTPServer):
    """Answers as one that has measured the same rate at each moment."""

    daemon_threads = True
    rate = 31_400.0
    active = 0.95

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Answer(http.server.BaseHTTPRequestHandler):
    server: Prometheus

    def do_POST(self) -> None:
        asked = urllib.parse.parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        start, end, step = (int(asked[key][0]) for key in ("start", "end", "step"))
        value = self.server.active if "gpu_active" in asked["query"][0] else self.server.rate
        values = [[at, str(value)] for at in range(start, end + 1, step)]
        result = [{"metric": {"allocation": "chat-0", "hardware": "h"}, "values": values}]
        body = json.dumps({"status": "success", "data": {"resultType": "matrix", "result": result}}).encode()
        self.send_response(200)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def prometheus() -> Iterator[Prometheus]:
    with Prometheus() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A clone with its lock, whose remote is a bare repository beside it."""
    found = tmp_path / "fleet"
    (found / "stacks").mkdir(parents=True)
    (found / "stacks" / "lab.yaml").write_text(FILE)
    (found / "Pulumi.yaml").write_text("name: lab\n")
    (found / ".gitignore").write_text(".state/\n*.proof.yaml\n")
    done = swarm("solve", "--stack", "lab", at=found)
    assert done.code == 0, done.err
    git(tmp_path, "init", "-q", "--bare", "-b", "main", "origin")
    git(found, "init", "-q", "-b", "main")
    git(found, "remote", "add", "origin", str(tmp_path / "origin"))
    commit(found)
    git(found, "push", "-q", "origin", "main")
    return found


def git(at: Path, *words: str) -> str:
    return subprocess.run(["git", *words], cwd=at, check=True, capture_output=True, text=True).stdout


def commit(at: Path) -> None:
    git(at, "add", "-A")
    git(at, *_ME, "commit", "-qm", "x")


def pushed(root: Path, speed: str = "50 kTok/s", base: str = "main") -> bool:
    def edit(raw: bytes, file: Path) -> bytes:
        return raw.replace(b"H100: 25 kTok/s", f"H100: {speed}".encode())

    return proposing.pushed(root, "origin", base, BRANCH, "lab", edit, "Speeds", datetime.date.today())


def test_it_is_a_table_and_json(root: Path, prometheus: Prometheus) -> None:
    done = swarm("speed", "lab", "--metrics", prometheus.url, at=root, width=160)
    assert done.code == 0, done.err
    lines = [" ".join(line.split()) for line in done.out.splitlines() if line.strip()]
    assert lines[3] == "chat A100 15 kTok/s - - 0 h 7 too little is known: 0 of 30 busy moments"
    assert lines[4].startswith("chat H100 25 kTok/s 31.4 kTok/s 31.4 kTok/s to 31.4 kTok/s 16")
    assert lines[4].endswith(" h 4 suggested")
    found = json.loads(swarm("speed", "lab", "--metrics", prometheus.url, "--json", at=root).out)["speeds"]
    assert [(one["model"], one["suggested"], one["verdict"]) for one in found][1] == ("H100", "31.4 kTok/s", "suggested")
    assert (root / "stacks" / "lab.yaml").read_text() == FILE, "a look changes nothing"


def test_it_is_written_where_it_belongs(root: Path, prometheus: Prometheus) -> None:
    done = swarm("speed", "lab", "--metrics", prometheus.url, "--write", at=root)
    assert done.code == 0, done.err
    assert "+    speed: {H100: 31.4 kTok/s, A100: 15 kTok/s}   # by hand" in done.out
    assert (root / "stacks" / "lab.yaml").read_text() == FILE.replace("H100: 25 kTok/s", "H100: 31.4 kTok/s")
    done = swarm("speed", "lab", "--metrics", prometheus.url, "--write", at=root)
    assert "nothing to suggest" in done.err
    prometheus.active = 0.5
    done = swarm("speed", "lab", "--metrics", prometheus.url, "--pull-request", at=root)
    assert done.code == 0 and "no pull request was opened" in done.err, "without a token, as it needs none"


@pytest.mark.parametrize("words, said", [
    ((), "--metrics http://HOST:9090"), (("--metrics", "file:///etc/passwd"), "is no address of a Prometheus"),
    (("--metrics", "http://127.0.0.1:1"), "Prometheus did not answer"),
    (("--metrics", "http://127.0.0.1:1", "--since", "40d"), "more than 31 days ago"),
    (("--metrics", "http://127.0.0.1:1", "--write", "--pull-request"), "not both"),
])  # fmt: skip
def test_a_mistake_is_a_sentence(root: Path, words: tuple[str, ...], said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SWARM_METRICS", raising=False)
    done = swarm("speed", "lab", *words, at=root)
    assert done.code != 0 and said in done.err and "Traceback" not in done.err


def test_it_is_one_commit_with_the_lock_that_follows_from_it(root: Path) -> None:
    before = {path: path.read_bytes() for path in root.rglob("*") if path.is_file() and ".git" not in path.parts}
    head = git(root, "rev-parse", "HEAD")
    assert pushed(root)
    bare = root.parent / "origin"
    assert git(bare, "rev-list", "--count", f"main..{BRANCH}").strip() == "1"
    assert git(bare, "diff", "--name-only", "main", BRANCH).split() == ["stacks/lab.lock.yaml", "stacks/lab.yaml"]
    clone = root.parent / "clone"
    git(root.parent, "clone", "-q", "-b", BRANCH, str(bare), str(clone))
    assert (clone / "stacks" / "lab.yaml").read_text() == FILE.replace("25 kTok/s", "50 kTok/s")
    assert sum(one.workload == "chat" for one in read_lock(clone / "stacks" / "lab.lock.yaml").placement.allocations) == 2
    after = {path: path.read_bytes() for path in root.rglob("*") if path.is_file() and ".git" not in path.parts}
    assert after == before and git(root, "rev-parse", "HEAD") == head and not git(root, "status", "--porcelain")


def test_the_same_suggestion_is_not_pushed_again_and_another_one_replaces_it(root: Path) -> None:
    bare = root.parent / "origin"
    assert pushed(root)
    tip = git(bare, "rev-parse", BRANCH)
    assert not pushed(root) and git(bare, "rev-parse", BRANCH) == tip
    assert pushed(root, "34 kTok/s") and git(bare, "rev-list", "--count", f"main..{BRANCH}").strip() == "1"
    # What others merge meanwhile is what the next one begins from.
    (root / "README.md").write_text("a fleet\n")
    commit(root)
    git(root, "push", "-q", "origin", "main")
    assert pushed(root, "36 kTok/s") and "README.md" not in git(bare, "diff", "--name-only", "main", BRANCH)


def test_what_somebody_else_put_there_stays(root: Path) -> None:
    assert pushed(root)
    clone = root.parent / "clone"
    git(root.parent, "clone", "-q", "-b", BRANCH, str(root.parent / "origin"), str(clone))
    (clone / "mine.txt").write_text("work\n")
    commit(clone)
    git(clone, "push", "-q", "origin", BRANCH)
    with pytest.raises(Refused, match="has a commit of somebody else"):
        pushed(root, "36 kTok/s")
    assert "mine.txt" in git(root.parent / "origin", "ls-tree", "--name-only", BRANCH)


@pytest.mark.parametrize("base", ["nope", "--upload-pack=x", "main:refs/heads/other", ""])
def test_a_base_that_is_no_branch_is_a_sentence(root: Path, base: str) -> None:
    with pytest.raises(SwarmError):
        pushed(root, base=base)
    assert git(root.parent / "origin", "branch", "--list", "--format=%(refname:short)").split() == ["main"]


@pytest.mark.parametrize("linked", ["stacks/lab.yaml", "stacks"])
def test_a_link_in_the_base_is_not_followed(root: Path, linked: str) -> None:
    outside = root.parent / "outside"
    (root / linked).rename(outside)
    (root / linked).symlink_to(outside)
    commit(root)
    git(root, "push", "-q", "origin", "main")
    before = [one.read_text() for one in (outside.iterdir() if outside.is_dir() else (outside,))]
    with pytest.raises(Refused, match=r"has no stacks/lab\.yaml"):
        pushed(root)
    assert [one.read_text() for one in (outside.iterdir() if outside.is_dir() else (outside,))] == before


def test_a_state_that_somebody_committed_is_refused(root: Path) -> None:
    """A link of that name would let files elsewhere be removed."""
    outside = root.parent / "outside"
    outside.mkdir()
    (outside / "lab.candidate.yaml").write_text("theirs")
    shutil.rmtree(root / ".state", ignore_errors=True)
    (root / ".state").symlink_to(outside)
    (root / ".gitignore").write_text("*.proof.yaml\n")
    commit(root)
    git(root, "push", "-q", "origin", "main")
    with pytest.raises(Refused, match=r"has \.state, which belongs to a clone alone"):
        pushed(root)
    assert (outside / "lab.candidate.yaml").read_text() == "theirs"
