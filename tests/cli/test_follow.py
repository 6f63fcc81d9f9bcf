"""Is a decision followed on a terminal, silent elsewhere, and ended by Ctrl-C as far as there is something to keep?"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from swarm_iac.cli.terminal.interrupt import Interrupted
from swarm_iac.cli.terminal.progress import Following, followed
from swarm_iac.decision import WRITING
from swarm_iac.solver import Watch
from tests.cli.test_interrupt import SECONDS, Typed, exact, repository
from tests.cli.typed import ROOT, swarm

QUESTIONS = [
    ("solve",),
    ("plan", "--offline"),
    ("what-if", "solve.moves=1"),
    ("why", "chat"),
    ("rebalance",),
    ("rebalance", "--moves", "1"),
]
#: Two in `make check`.
EACH = [*QUESTIONS[:2], *(pytest.param(words, marks=pytest.mark.engine) for words in QUESTIONS[2:])]
STACK = """\
fleet: lab
teams: {research: {users: [ada]}}
hardware: {h100: {gpus: 8 x H100, vcpus: 64, memory: 1 TB}}
nodes: {gpu-01: {hardware: h100, ssh: root@gpu-01}}
workloads: {chat: {user: ada, replicas: 2, each: {gpus: 3}}}
"""


@pytest.mark.parametrize("words", EACH, ids=" ".join)
def test_a_terminal_is_told_what_is_done_from_the_first_second(tmp_path: Path, words: tuple[str, ...]) -> None:
    lock_file = repository(tmp_path, exact())
    command = Typed(tmp_path, *(word.replace("chat", "w1") for word in words))
    assert command.until("; Ctrl-C") < SECONDS
    command.interrupt()
    command.interrupt()
    assert command.ended(SECONDS) in (0, 130)
    assert lock_file.exists() <= (words[0] in ("solve", "rebalance"))


def test_a_terminal_is_told_value_bound_and_gap(tmp_path: Path) -> None:
    repository(tmp_path, exact())
    command = Typed(tmp_path, "solve")
    command.until("%")
    for word in ("reached", "at best", "gap", "Ctrl-C keeps the best so far"):
        assert word in command.seen
    command.interrupt()
    command.until("Ctrl-C again to stop now")
    assert command.ended(SECONDS) == 0


@pytest.mark.engine
@pytest.mark.parametrize("words", EACH, ids=" ".join)
def test_a_pipe_is_told_results_only(tmp_path: Path, words: tuple[str, ...]) -> None:
    repository(tmp_path, STACK)
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "swarm_iac.cli", *words]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=environment, timeout=60)
    assert done.returncode == 0
    assert all(line.startswith(("proof: ", "lock: ", "nothing was written")) for line in done.stderr.splitlines()), done.stderr


@pytest.mark.engine
@pytest.mark.parametrize("words", EACH, ids=" ".join)
def test_json_is_all_that_is_told(tmp_path: Path, words: tuple[str, ...]) -> None:
    repository(tmp_path, STACK)
    command = Typed(tmp_path, *words, "--json")
    assert command.ended(30) == 0
    assert command.seen == ""
    assert json.loads(command.out)


def answer(work: Callable[[Following, threading.Event], str], times: int = 1) -> tuple[str, Following]:
    """What `followed` gives or raises when so many interrupts come once the work has begun to wait; and what it saw."""
    begun, end, seen = threading.Event(), threading.Event(), []

    def worked(progress: Following) -> str:
        seen.append(progress)
        begun.set()
        return work(progress, end)

    def interrupt() -> None:
        begun.wait(10)
        for _ in range(times):
            pause.wait(0.3)
            os.kill(os.getpid(), signal.SIGINT)
        pause.wait(0.3)

    pause = threading.Event()
    hand = threading.Thread(target=interrupt)
    hand.start()
    try:
        return followed(worked, quiet=True), seen[0]
    except Interrupted as error:
        return str(error), seen[0]
    finally:
        end.set()
        hand.join()


def test_before_anything_is_solved_an_interrupt_ends_the_command() -> None:
    def reads(progress: Following, end: threading.Event) -> str:
        progress.phase("reading a.yaml")
        end.wait(10)
        return "read"

    assert answer(reads)[0] == "interrupted while reading a.yaml; nothing was written"


def test_while_something_is_solved_an_interrupt_ends_the_search() -> None:
    def solves(progress: Following, end: threading.Event) -> str:
        watch = progress.watch(STACK)
        while not watch.stopped:
            end.wait(0.05)
        return "the best so far"

    said, progress = answer(solves)
    assert said == "the best so far" and progress.ending
    assert isinstance(progress.solving, Watch) and progress.solving.stopped


def test_a_search_that_begins_after_the_interrupt_is_ended_too() -> None:
    def solves_twice(progress: Following, end: threading.Event) -> str:
        watch = progress.watch(STACK)
        while not watch.stopped:
            end.wait(0.05)
        return "ended" if progress.watch(STACK).stopped else "goes on"

    assert answer(solves_twice)[0] == "ended"


def test_what_nobody_can_end_early_is_ended_with_the_command() -> None:
    def asks(progress: Following, end: threading.Event) -> str:
        progress.watch(STACK)
        progress.asks("trying 3 moves")
        end.wait(10)
        return "tried"

    assert answer(asks)[0] == "interrupted while trying 3 moves; nothing was written"


@pytest.mark.engine
def test_a_question_is_answered_with_what_is_known_whatever_its_thread_does() -> None:
    def deaf(progress: Following, end: threading.Event) -> str:
        watch = progress.asks("trying 3 moves")
        progress.found("two reasons")
        end.wait(10)
        return "all" if not watch.stopped else "ended by itself"

    assert answer(deaf)[0] == "two reasons"
    assert answer(deaf, times=2)[0] == "stopped; nothing from this search was kept"


def test_a_question_that_listens_may_end_by_itself() -> None:
    def listens(progress: Following, end: threading.Event) -> str:
        watch = progress.asks("trying 3 moves")
        progress.found("two reasons")
        while not watch.stopped:
            end.wait(0.05)
        return "two reasons and a change"

    assert answer(listens)[0] == "two reasons and a change"


@pytest.mark.engine
def test_a_second_interrupt_ends_a_search_that_does_not_listen() -> None:
    def deaf(progress: Following, end: threading.Event) -> str:
        progress.watch(STACK)
        end.wait(10)
        return "solved"

    assert answer(deaf, times=2)[0] == "stopped; nothing from this search was kept"


@pytest.mark.engine
@pytest.mark.parametrize("times", [1, 2])
def test_what_is_being_written_is_written_to_its_end(times: int) -> None:
    def writes(progress: Following, end: threading.Event) -> str:
        progress.watch(STACK)
        progress.phase(WRITING)
        end.wait(0.9)
        return "written"

    assert answer(writes, times)[0] == "written"


#: What takes longer to load than a small stack takes to read. Pulumi and Ansible are for `up`, OR-Tools is for a solve.
HEAVY = ("ortools", "pandas", "numpy", "pulumi", "ansible_runner", "grpc", "google.protobuf")


@pytest.mark.parametrize("words", [("validate", "stacks/dev.yaml"), ("plan", "--offline"), ("solve",)], ids=" ".join)
def test_nothing_heavy_is_loaded_where_the_lock_holds(tmp_path: Path, words: tuple[str, ...]) -> None:
    repository(tmp_path, STACK)
    assert swarm("solve", at=tmp_path).code == 0
    code = (
        "import sys\nfrom swarm_iac.cli.__main__ import main\n"
        f"sys.argv = ['swarm', *{words!r}]\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code\n"
        f"print('loaded:', *(name for name in {HEAVY!r} if name in sys.modules))\n"
    )
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, env=environment)
    assert done.stdout.splitlines()[-1] == "loaded:", done.stdout + done.stderr
