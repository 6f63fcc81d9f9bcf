"""How are a real Postgres and a real S3 server started on loopback, each in a folder of its own, and ended?"""

from __future__ import annotations

import contextlib
import os
import pwd
import secrets
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from swarm_iac.cli import toolchain

SCRIPT = Path(__file__).with_name("build-s3.sh")


@dataclass(frozen=True)
class Backend:
    """Where a state may be kept: the address for Pulumi.yaml, and what else an operator's environment needs."""

    url: str
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)


@contextlib.contextmanager
def postgres() -> Iterator[Backend]:
    """Debian's server, as an account without rights: it refuses to run as root. Its password is that of this run.

    Its folder is its own, where that account reaches it: pytest's belong to who runs the tests, and stay closed.
    """
    programs = max(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name))
    account = pwd.getpwnam("nobody" if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name)
    with tempfile.TemporaryDirectory(prefix="swarm-postgres-", dir="/tmp") as made:
        yield from _postgres(Path(made), programs, account)


def _postgres(at: Path, programs: Path, account: pwd.struct_passwd) -> Iterator[Backend]:
    word, port = secrets.token_hex(16), _free()
    (at / "word").write_text(word)
    for path in (at, at / "word"):
        shutil.chown(path, account.pw_uid, account.pw_gid)

    def run(*words: str) -> subprocess.Popen[bytes]:
        who: dict[str, Any] = {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []} if os.geteuid() == 0 else {}
        with (at / "log").open("ab") as log:
            return subprocess.Popen(words, cwd=at, stdin=subprocess.DEVNULL, stdout=log, stderr=log, **who)

    cluster = at / "cluster"
    words = ["-D", str(cluster), "-U", "fleet", "--auth=scram-sha-256", f"--pwfile={at}/word", "-N", "-E", "UTF8"]
    assert run(str(programs / "initdb"), *words).wait(120) == 0, (at / "log").read_text()
    settings = {"listen_addresses": "127.0.0.1", "port": port, "unix_socket_directories": "", "fsync": "off"}
    more = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
    server = run(str(programs / "postgres"), "-D", str(cluster), *more)
    try:
        _until(lambda: _answers(port), server, at / "log")
        yield Backend(f"postgres://fleet:{word}@127.0.0.1:{port}/postgres?sslmode=disable")
    finally:
        server.terminate()
        server.wait(60)


@contextlib.contextmanager
def s3() -> Iterator[Backend]:
    """A server over a folder, with one bucket."""
    with tempfile.TemporaryDirectory(prefix="swarm-s3-") as made:
        yield from _s3(Path(made))


def _s3(at: Path) -> Iterator[Backend]:
    program = toolchain.build("s3", SCRIPT, print, hint="set GOPROXY to a Go module proxy that you can reach") / "versitygw"
    (at / "data" / "fleet-state").mkdir(parents=True)
    (at / "sidecar").mkdir()
    port, word = _free(), secrets.token_hex(16)
    own = {"ROOT_ACCESS_KEY": "fleet", "ROOT_SECRET_KEY": word}
    with (at / "log").open("wb") as log:
        server = subprocess.Popen(
            [str(program), "--port", f"127.0.0.1:{port}", "posix", "--sidecar", str(at / "sidecar"), str(at / "data")],
            env={**os.environ, **own}, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
        )  # fmt: skip
    try:
        _until(lambda: _answers(port), server, at / "log")
        keys = {"AWS_ACCESS_KEY_ID": "fleet", "AWS_SECRET_ACCESS_KEY": word, "AWS_REGION": "us-east-1"}
        where = f"endpoint=http://127.0.0.1:{port}&use_path_style=true&disable_https=true"
        yield Backend(f"s3://fleet-state?region=us-east-1&{where}", keys)
    finally:
        server.terminate()
        server.wait(60)


def _free() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def _answers(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


def _until(true: Callable[[], bool], server: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + 30
    while not true():
        assert server.poll() is None and time.monotonic() < end, log.read_text()[-2000:]
        time.sleep(0.05)
