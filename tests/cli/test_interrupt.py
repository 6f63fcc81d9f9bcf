"""Is Ctrl-C answered at once in every phase, and does it keep the best so far where there is one?"""

from __future__ import annotations

import contextlib
import os
import pty
import random
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from swarm_iac.errors import SwarmError
from swarm_iac.stackfile.locks import atomic_write, lock
from tests.cli.typed import ROOT, swarm

#: Within which Ctrl-C is answered. [s]
SECONDS = 2.0


def exact() -> str:
    """One model decides, and it takes a while: many sizes that do not fit each other."""
    sizes = [3, 5, 7, 2, 6, 1]
    works = "".join(
        f"  w{i}: {{user: u{i % 9}, replicas: {1 + i % 3}, each: {{gpus: {sizes[i % 6]}, vcpus: {3 + i % 7}, memory: {7 + 13 * (i % 11)} GB}}}}\n"
        for i in range(70)
    )
    return f"""\
fleet: lab
teams: {{all: {{users: [{", ".join(f"u{i}" for i in range(9))}]}}}}
limits: {{user: {{gpus: 400, vcpus: 4000, memory: 90 TB}}}}
hardware:
  h100: {{gpus: 8 x H100, vcpus: 24, memory: 256 GB}}
nodes:
  gpu-[01-45]: {{hardware: h100, ssh: "root@{{name}}.example.org"}}
workloads:
{works}solve: {{effort: thorough}}
"""


def filled() -> str:
    """Columns fill it, in some seconds: 121 nodes of eleven shapes, and no two workloads alike."""
    rng = random.Random(0)
    shapes = {f"m{k}": f"{{gpus: 8 x H100, vcpus: {47 + k}, memory: {360 - 11 * k} GB}}" for k in range(10)}
    works = ""
    for i in range(120):
        gpus = rng.choice((1, 2, 3, 5, 6, 7))
        replicas, vcpus = rng.randint(1, 4), gpus * rng.randint(4, 9) + rng.randint(0, 5)
        works += f"  w{i}: {{user: ada, replicas: {replicas}, each: {{gpus: {gpus}, vcpus: {vcpus}, memory: {gpus * rng.randint(20, 60)} GB}}}}\n"
    return f"""\
fleet: lab
teams: {{all: {{users: [ada]}}}}
limits: {{user: {{gpus: 4000, vcpus: 40000, memory: 900 TB}}}}
hardware:
{"".join(f"  {name}: {what}{chr(10)}" for name, what in shapes.items())}\
  large: {{gpus: 8 x H100, vcpus: 96, memory: 512 GB}}
nodes:
  large: {{hardware: large, ssh: root@large}}
{"".join(f"  {name}-[01-12]: {{hardware: {name}, ssh: 'root@{{name}}'}}{chr(10)}" for name in shapes)}\
workloads:
{works}solve: {{effort: thorough}}
"""


class Typed:
    """`swarm WORDS` typed at a terminal, in a repository of its own. stdout is read at the end.

    Seconds are those of an idle machine, so that another process beside it fails no test: the time that the command
    computed, or a fifth of what passed.
    """

    def __init__(self, folder: Path, *words: str) -> None:
        self.main, other = pty.openpty()
        environment = os.environ | {"PYTHONPATH": str(ROOT), "TERM": "xterm", "COLUMNS": "100"}
        command = [sys.executable, "-m", "swarm_iac.cli", *words]
        self.printed = tempfile.TemporaryFile("w+")  # noqa: SIM115 - a pipe would fill up unread
        self.process = subprocess.Popen(
            command, cwd=folder, stdin=subprocess.DEVNULL, stdout=self.printed, stderr=other, env=environment
        )
        os.close(other)
        self.seen = ""
        self.out = ""
        self.computed = 0.0

    def until(self, word: str, seconds: float = 60) -> float:
        """Read the terminal until it says `word`; how long that took. [s]"""
        took, since = self._clock(), len(self.seen)
        while word not in self.seen[since:]:
            assert took() < seconds, f"no {word!r} in {self.seen!r}"
            assert self._more(0.2), f"it ended without {word!r}: {self.seen!r}"
        return took()

    def interrupt(self) -> None:
        """Ctrl-C."""
        self.process.send_signal(signal.SIGINT)

    def ended(self, seconds: float) -> int:
        """Its exit code, within so many seconds."""
        took = self._clock()
        while self.process.poll() is None:
            assert took() < seconds, f"it goes on: {self.seen!r}"
            self._more(0.05)
        while self._more(0.05):
            pass
        os.close(self.main)
        self.printed.seek(0)
        self.out = self.printed.read()
        self.printed.close()
        return self.process.returncode

    def _clock(self) -> Callable[[], float]:
        """How long it has been since now. [s of an idle machine]"""
        start, before = time.monotonic(), self._computed()
        return lambda: max(self._computed() - before, (time.monotonic() - start) / 5)

    def _computed(self) -> float:
        """Processor time of the command so far. [s]"""
        with contextlib.suppress(psutil.Error):
            used = psutil.Process(self.process.pid).cpu_times()
            self.computed = used.user + used.system
        return self.computed

    def _more(self, seconds: float) -> bool:
        """False when the other end is closed."""
        if select.select([self.main], [], [], seconds)[0]:
            try:
                self.seen += os.read(self.main, 65536).decode(errors="replace")
            except OSError:
                return False
        return True


def repository(folder: Path, text: str) -> Path:
    """A fleet repository with one stack; its lock file."""
    (folder / "Pulumi.yaml").write_text("name: lab\n")
    (folder / "stacks").mkdir()
    (folder / "stacks" / "dev.yaml").write_text(text)
    return folder / "stacks" / "dev.lock.yaml"


def placed(lock_file: Path) -> int:
    """Replicas that the lock has; the proof beside it says that it was cut."""
    proof = lock_file.with_name("dev.proof.yaml").read_text()
    assert 'cut: "by hand"' in proof and "optimal: false" in proof
    return len(lock.parse(lock_file.read_text(), "dev.lock.yaml").placement.allocations)


@pytest.mark.parametrize(("text", "most"), [(exact(), 50), (filled(), 200)], ids=["exact", "filled"])
def test_an_interrupt_while_it_solves_keeps_the_best_so_far(tmp_path: Path, text: str, most: int) -> None:
    lock_file = repository(tmp_path, text)
    search = Typed(tmp_path, "solve")
    search.until("at best")
    search.interrupt()
    assert search.until("the best so far is kept") < SECONDS
    assert search.ended(60) == 0
    assert placed(lock_file) > most


@pytest.mark.parametrize("after", [0.0, 0.7])
def test_an_interrupt_while_columns_are_priced_keeps_the_best_so_far(tmp_path: Path, after: float) -> None:
    """Once the pricing had taken SIGINT's handler away: the process died of it, without a lock."""
    lock_file = repository(tmp_path, filled())
    search = Typed(tmp_path, "solve")
    search.until("placed")
    time.sleep(after)
    search.interrupt()
    search.until("stopping the search; the best so far is kept")
    assert search.ended(60) == 0
    assert placed(lock_file) > 200


def test_a_second_interrupt_ends_at_once_and_keeps_nothing(tmp_path: Path) -> None:
    lock_file = repository(tmp_path, filled())
    search = Typed(tmp_path, "solve")
    search.until("placed")
    search.interrupt()
    search.interrupt()
    # The first may have been answered already when the second comes.
    ended = search.ended(SECONDS)
    assert ended in (0, 130)
    assert ("nothing from this search was kept" in search.seen) == (ended == 130)
    assert lock_file.exists() == (ended == 0)


@pytest.mark.engine
@pytest.mark.parametrize(
    "words",
    [("solve",), ("plan", "--offline"), ("what-if", "solve.moves=1"), ("why", "w1"), ("rebalance",), ("rebalance", "-n1")],
)
def test_an_interrupt_while_it_reads_ends_the_command_and_leaves_the_lock(tmp_path: Path, words: tuple[str, ...]) -> None:
    """A pipe that nobody writes to is a file that is read for ever."""
    lock_file = repository(tmp_path, exact())
    lock_file.write_text("allocations:\n")
    (tmp_path / "stacks" / "dev.yaml").unlink()
    os.mkfifo(tmp_path / "stacks" / "dev.yaml")
    before = {path: path.lstat().st_mtime_ns for path in tmp_path.rglob("*")}
    command = Typed(tmp_path, *words)
    command.until("reading stacks/dev.yaml")
    command.interrupt()
    assert command.ended(SECONDS) == 130
    assert "interrupted while reading stacks/dev.yaml; nothing was written" in command.seen
    assert {path: path.lstat().st_mtime_ns for path in tmp_path.rglob("*")} == before


def test_an_interrupt_in_the_first_moment_leaves_no_traceback(tmp_path: Path) -> None:
    """Also where the command is still being loaded."""
    lock_file = repository(tmp_path, exact())
    for moment in (0.06, 0.12, 0.2, 0.3):
        command = Typed(tmp_path, "solve")
        time.sleep(moment)
        command.interrupt()
        # The interpreter's own first moments are not ours: it says 1 there. Then the signal itself ends it, later there is an answer.
        ended = command.ended(SECONDS)
        assert ended in (0, 1, 130, -signal.SIGINT)
        assert "swarm_iac" not in command.seen, "a traceback through our code"
        assert lock_file.exists() == (ended == 0)
        lock_file.unlink(missing_ok=True)


def test_a_second_interrupt_ends_a_question_too(tmp_path: Path) -> None:
    lock_file = repository(tmp_path, filled().replace("replicas: ", "replicas: 9"))
    command = Typed(tmp_path, "why", "w1")
    command.until("; Ctrl-C")
    command.interrupt()
    time.sleep(0.2)  # two signals that wait together count as one
    if command.process.poll() is None:
        command.interrupt()
    assert command.ended(SECONDS) in (0, 130, -signal.SIGINT)  # a shell says 130 for the last, too
    assert not lock_file.exists()


def test_a_lock_that_cannot_be_written_whole_is_not_written_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where the disk is full, or the process is ended, between the first byte and the last."""
    lock_file = repository(tmp_path, "fleet: lab\n")
    lock_file.write_text("before\n")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(SwarmError, match="No space left"):
        atomic_write.write_whole(lock_file, "after\n")
    assert lock_file.read_text() == "before\n"
    assert sorted(path.name for path in lock_file.parent.iterdir()) == ["dev.lock.yaml", "dev.yaml"]


def test_the_help_says_how_an_interrupt_ends() -> None:
    said = " ".join(swarm("solve", "--help", at=ROOT).out.split())
    assert "the exit code is 0. A second Ctrl-C" in said
