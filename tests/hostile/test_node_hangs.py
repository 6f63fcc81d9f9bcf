"""Does anything that hangs on a node, a driver inside the kernel too, hold up what has nothing to do with it?

None of this has a limit on 3f04825 (which has no swarm_node/machine/watch.py, so that this file does not load there).
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from swarm_iac.model.step import Verb
from tests.node.conftest import GUARD

from swarm_node.concerns import gpus, settings, units  # isort: skip
from swarm_node.machine import watch  # isort: skip
from swarm_node.program import boot, observe, step  # isort: skip
from swarm_node.records import ledger  # isort: skip
from swarm_node.machine.run import NodeError  # isort: skip

pytestmark = pytest.mark.engine


def deaf(*_: Any) -> None:
    """As a driver that hangs: whatever it is told, it goes on."""
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM, signal.SIGTERM])
    time.sleep(60)


def asked(*steps: str, **more: Any) -> dict[str, Any]:
    wanted = {"settings": {"sysctl": {"vm.swappiness": "10"}}, "gpus": {"0": {}}}
    return {"verb": "settings", "guard": GUARD, "steps": [{"id": one, "want": wanted, **more} for one in steps]}


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step, "LIMITS_S", dict.fromkeys(step.LIMITS_S, 0.5))
    monkeypatch.setattr(watch.apart, "__defaults__", (0.5,))


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A folder that stands for `/` of a machine."""
    (tmp_path / "proc/sys/vm").mkdir(parents=True)
    (tmp_path / "proc/sys/vm/swappiness").write_text("60\n")
    return tmp_path


def test_every_kind_of_step_has_an_end() -> None:
    assert step.HANDLERS.keys() == step.LIMITS_S.keys() == {verb.value for verb in Verb}


def test_a_step_that_hears_nothing_is_ended_and_the_next_one_runs(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def touched(context: Any, allocation: str, want: Any) -> list[Any]:
        hung = Path(context.path("/hung"))
        if not hung.exists():
            hung.touch()
            deaf()
        return []

    monkeypatch.setitem(step.HANDLERS, "settings", touched)
    began = time.monotonic()
    one, two = step.perform(asked("one", "two"), root=str(machine), apart=True)["results"]
    assert time.monotonic() - began < 4
    assert (one["ok"], two["ok"]) == (False, True)
    assert one["message"].startswith("no end within 0.5 s") and one["message"].endswith(", and was ended")


def test_what_hangs_in_a_command_is_named(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def hangs(context: Any, allocation: str, want: Any) -> list[Any]:
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
        context.run(["/bin/sh", "-c", "sleep 33; true", str(machine)])
        return []

    monkeypatch.setitem(step.HANDLERS, "settings", hangs)
    (one,) = step.perform(asked("one"), root=str(machine), apart=True)["results"]
    assert "(in sh)" in one["message"]
    assert not _running(str(machine)), "nor is it left behind"


def _running(word: str) -> list[bytes]:
    """Command lines on this machine with that word."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            found.append(path.read_bytes())
    return [line for line in found if word.encode() in line]


def test_what_can_be_told_puts_back_what_it_set(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def hangs(context: Any, wanted: Any) -> None:
        time.sleep(60)

    monkeypatch.setattr(settings, "_persist", hangs)
    (one,) = step.perform(asked("one"), root=str(machine), apart=True)["results"]
    assert one["message"] == "no end within 0.5 s; put back as it was"
    assert (machine / "proc/sys/vm/swappiness").read_text().strip() == "60"


def test_a_step_that_cannot_be_ended_is_told_and_nothing_else_begins(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Inside the kernel not even SIGKILL is heard."""
    killed: list[int] = []
    monkeypatch.setattr(watch.os, "killpg", lambda group, signal: killed.append(group))
    monkeypatch.setattr(watch, "_GONE_S", 0.2)
    monkeypatch.setitem(step.HANDLERS, "settings", deaf)
    try:
        one, two = step.perform(asked("one", "two"), root=str(machine), apart=True)["results"]
    finally:
        os.kill(killed[0], signal.SIGKILL)
        os.waitpid(killed[0], 0)
    assert one["message"].endswith("only a reboot of this machine helps")
    assert (two["skipped"], two["message"]) == (True, "one hangs on this machine, so nothing else is begun here")


def test_a_roll_out_that_hangs_is_remembered(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(step.HANDLERS, "settings", deaf)
    step.perform(asked("one", sets={"a": 1}, rollout=True), root=str(machine), apart=True)
    assert ledger.load(str(machine)).data["rollout_failures"]["a"]["why"].startswith("no end within")


def test_a_driver_that_hangs_never_hides_why_a_node_is_silent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpus, "cards", deaf)
    began = time.monotonic()
    found = observe.watched(0.5, root=str(tmp_path))
    assert time.monotonic() - began < 5
    assert found["error"].startswith("this machine cannot be read: no end within 0.8 s")


def test_a_part_of_the_boot_that_hangs_never_keeps_the_rest_from_running(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ledger.opened(check=False, root=str(machine)) as book:
        book.guard(**GUARD)
        book.record("settings", value={"sysctl": {"vm.swappiness": "10"}})
        book.record("gpus", value={"0": {"power_w": 1}})
        unit = {"user": "ada", "command": "x", "active": True, "on_boot": "start"}
        book.record("allocations", "web-1", value={"workload": "web", "unit": unit})

    def started(context: Any, name: str, want: Any) -> None:
        context.write("/started", name)
        context.ledger.save_original("from a later part", 1)

    monkeypatch.setattr(gpus, "apply", deaf)
    monkeypatch.setattr(units, "apply", started)
    monkeypatch.setattr(boot, "_PART_S", 0.5)
    assert boot.run(str(machine), apart=True) == 1
    assert (machine / "started").read_text() == "web-1"
    kept = ledger.load(str(machine)).data["originals"]
    assert kept == {"sysctl:vm.swappiness": "60", "from a later part": 1}, "what one part wrote down the next does not undo"


def surprised() -> None:
    raise ValueError("no number")


def test_what_ends_without_a_word_is_a_failure(tmp_path: Path) -> None:
    with pytest.raises(NodeError, match="ended without a word"):
        watch.apart(lambda: os._exit(0), 5)
    with pytest.raises(NodeError, match="ended without a word"):
        watch.apart(lambda: os.kill(os.getpid(), signal.SIGKILL), 5)
    with pytest.raises(NodeError, match="ValueError: no number"):
        watch.apart(surprised, 5)
    assert watch.apart(lambda: {"a": "x" * 200_000}, 5) == {"a": "x" * 200_000}


def test_who_asked_never_waits_for_a_step_that_cannot_be_ended() -> None:
    """Whoever reads our output reads it to its end: nobody that hangs may hold it open."""
    package = Path(watch.__file__).parents[2]
    code = (
        "import sys, time, signal, os; sys.path.insert(0, sys.argv[1])\n"
        "from swarm_node.machine import watch\n"
        "watch._GONE_S, watch.os.killpg = 0.1, lambda *_: None\n"
        "def deaf():\n signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM]); time.sleep(8)\n"
        "try: watch.apart(deaf, 0.3, grace=0.3)\n"
        "except watch.Hung as error: print(error.ended)\n"
    )
    began = time.monotonic()
    done = subprocess.run([sys.executable, "-c", code, str(package)], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n" and time.monotonic() - began < 5
