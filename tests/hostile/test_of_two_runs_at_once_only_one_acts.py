"""Two runs of one lineage that start at the same moment against a copied state: exactly one of them acts, anywhere.

Fails on 9edab55: each node decided by itself, so each of two runs could be the first on another node. Nodes are processes
of the real node program, each with a folder for its `/`; tests/e2e/test_two_runs_at_once.py does the same on machines.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from swarm_iac.converge import claim, claimed
from swarm_iac.errors import Refused
from swarm_iac.reach import ask
from tests.node.conftest import GUARD  # puts the node program where it can be imported

from swarm_node.records import ledger  # isort: skip

pytestmark = pytest.mark.engine
FULL = os.environ.get("HYPOTHESIS_PROFILE") == "full"

MODULES = str(Path(ledger.__file__).parents[2])
PROGRAM = "import sys; sys.path.insert(0, sys.argv[1]); from swarm_node.records import claim; claim.hold(root=sys.argv[2])"
LIES = 'import sys; sys.stdin.readline(); print(\'{"held": {"who": "mallory@evil", "serial": 9}}\', flush=True)'
HANGS = "import time; time.sleep(60)"


class Machines:
    """Nodes `a`, `b`, … as folders; `bad`: what answers on a node in place of ours."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.bad: dict[str, str] = {}

    def command(self, address: str, ssh_config: Path | None, question: str, program: str = "") -> tuple[str, ...]:
        assert question == "claim"
        name = address.removeprefix("root@")
        return (sys.executable, "-I", "-S", "-c", self.bad.get(name, PROGRAM), MODULES, str(self.folder / name))

    def add(self, names: str, serial: int = 4) -> None:
        """Nodes that a run of this serial was on."""
        for name in names:
            with ledger.opened(check=False, root=str(self.folder / name)) as book:
                book.guard("L1", serial, "dev", "the-last-one")

    def serial(self, name: str) -> int:
        found: int = json.loads((self.folder / name / "var/lib/swarm/ledger.json").read_text())["serial"]
        return found


@pytest.fixture
def machines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machines:
    found = Machines(tmp_path)
    monkeypatch.setattr(ask, "installed", found.command)
    monkeypatch.setattr(claim, "_AHEAD", 0.5)
    return found


def targets(names: str, who: str, serial: int = 5) -> claim.Targets:
    request = {**GUARD, "serial": serial, "run": f"{who}-{time.monotonic_ns()}", "who": who}
    return {name: (f"root@{name}", request) for name in names}


def at_once(*views: str, pauses: tuple[float, ...] = (), acts: float = 1.0, serial: int = 5) -> tuple[list[str], list[str]]:
    """Runs that see these nodes and begin together. Who acted, and what the others were told."""
    acted: list[str] = []
    told: list[str] = []
    ready = threading.Barrier(len(views))

    def one(number: int, seen: str) -> None:
        ready.wait()
        time.sleep(pauses[number] if pauses else 0)
        try:
            with claimed(targets(seen, f"op{number}@desk", serial)):
                acted.append(f"op{number}")
                time.sleep(acts)
        except Refused as error:
            told.append(str(error))

    threads = [threading.Thread(target=one, args=each) for each in enumerate(views)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    return acted, told


@pytest.mark.parametrize("names", ["a", "ab", "abc", "abcd", "abcdefg"])
def test_of_runs_that_begin_together_exactly_one_acts(machines: Machines, names: str) -> None:
    machines.add(names)
    chance = random.Random(len(names))
    acted, told = at_once(names, names, names, pauses=tuple(chance.uniform(0, 0.15) for _ in range(3)))
    assert len(acted) == 1 and len(told) == 2, (acted, told)
    for each in told:
        assert f"{acted[0]}@desk is changing this fleet (serial 5, since 20" in each and "nothing was changed" in each


def test_one_that_read_before_the_other_acted_and_asks_after_its_end_is_refused(machines: Machines) -> None:
    machines.add("abcd")
    acted, told = at_once("abcd", "abcd", pauses=(0, 2.5), acts=0.1)
    assert acted == ["op0"] and "another run with the same serial 5 has been here" in told[0]


@pytest.mark.parametrize("views", [("abcdef", "bcdef"), ("bcdef", "abcdef"), ("abdef", "abcde"), ("ab", "b"), ("abc", "bc")])
def test_a_node_that_is_dark_to_one_of_them_lets_never_both_act(machines: Machines, views: tuple[str, str]) -> None:
    machines.add("abcdef")
    for each in range(3):
        acted, told = at_once(*views, pauses=(0, 0.04 * each), acts=0.8, serial=5 + each)
        assert len(acted) == 1 and len(told) == 1, (views, acted, told)


@pytest.fixture
def killed(machines: Machines) -> Iterator[None]:
    """A run that has the claim and is killed, as by kill -9."""
    words = f"""
import sys, time
sys.path.insert(0, {str(Path(__file__).parents[2])!r})
from swarm_iac.converge import claimed
from swarm_iac.reach import ask
from tests.hostile.test_of_two_runs_at_once_only_one_acts import Machines, Path, targets
ask.installed = Machines(Path({str(machines.folder)!r})).command
with claimed(targets("abcd", "dead@desk")):
    print("has it", flush=True)
    time.sleep(60)
"""
    machines.add("abcd")
    process = subprocess.Popen([sys.executable, "-c", words], stdout=subprocess.PIPE, text=True)
    assert process.stdout and process.stdout.readline() == "has it\n"
    with pytest.raises(Refused, match="dead@desk is changing"), claimed(targets("abcd", "me", 6)):
        pass
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    yield


def test_a_run_that_was_killed_holds_nobody_up(machines: Machines, killed: None) -> None:
    assert machines.serial("a") == 5
    began = time.monotonic()
    with claimed(targets("abcd", "next@desk", 6)):
        assert time.monotonic() - began < 3
    assert [machines.serial(name) for name in "abcd"] == [6, 6, 6, 6]


def test_a_claim_ends_when_nothing_is_heard_of_its_run(machines: Machines, tmp_path: Path) -> None:
    machines.add("a")
    code = PROGRAM.replace("argv[2])", "argv[2], silence=1.0)")
    process = subprocess.Popen(
        [sys.executable, "-c", code, MODULES, str(tmp_path / "a")], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdin and process.stdout
    (_, (_, request)) = targets("a", "cut-off@desk").popitem()
    process.stdin.write(json.dumps(request).encode() + b"\n")
    process.stdin.flush()
    assert json.loads(process.stdout.readline()) == {"granted": True}
    for _ in range(4):
        time.sleep(0.4)
        process.stdin.write(b"\n")  # signs of life
        process.stdin.flush()
    assert process.poll() is None
    assert process.wait(5) == 0
    assert not (tmp_path / "a/run/swarm/claim").exists()
    process.stdin.close()
    process.stdout.close()


def test_a_program_that_waited_too_long_for_its_question_is_started_anew(
    machines: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All are started at once, and the first may take so long that the others' have ended meanwhile."""
    machines.add("abcd")
    slow = PROGRAM.replace("from swarm", "import time; time.sleep(3); from swarm", 1)
    leaves = "import select, sys; select.select([0], [], [], 1)[0] or sys.exit(); " + PROGRAM.removeprefix("import sys; ")
    machines.bad = {"a": slow, "b": leaves, "c": leaves, "d": leaves}
    monkeypatch.setattr(claim, "_FRESH", 0.5)
    with claimed(targets("abcd", "me")):
        pass
    assert [machines.serial(name) for name in "abcd"] == [5] * 4


@pytest.mark.parametrize("names", ["abc", "abcd", "abcdefg"] if FULL else ["abcd"])
@pytest.mark.parametrize("bad", [LIES, HANGS, "print('x' * 10**6)", "print('[' * 20000)"])
def test_one_node_of_three_cannot_keep_the_others_from_changing(machines: Machines, names: str, bad: str) -> None:
    machines.add(names)
    machines.bad = {"a": bad}
    lines: list[str] = []
    with claimed(targets(names, "me"), timeout=2, on_progress=lines.append):
        pass
    assert bool(lines) == (bad is LIES)
    assert all("a: mallory@evil is changing this fleet" in line and "so the run continues" in line for line in lines)
    assert [machines.serial(name) for name in "bc"] == [5, 5]


def test_two_nodes_that_say_so_stop_a_run_before_it_changes_anything(machines: Machines) -> None:
    machines.add("abcd")
    machines.bad = {"b": LIES, "d": LIES}
    with pytest.raises(Refused, match="b, d: mallory@evil"), claimed(targets("abcd", "me")):
        pytest.fail("it acted")
    assert [machines.serial(name) for name in "ac"] == [4, 4], "nothing is recorded by a run that does not act"
    machines.bad = {}
    with claimed(targets("abcd", "me", 5)):
        pass


def test_nothing_of_a_claim_is_left_on_a_node_that_is_nobodys(machines: Machines, tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name / "run").mkdir(parents=True)
    with claimed(targets("ab", "me")):
        assert (tmp_path / "a/run/swarm/claim").stat().st_mode & 0o777 == 0o600
    assert [*tmp_path.rglob("a/**/*")] == [tmp_path / "a/run"]


def test_giving_a_node_back_keeps_the_claim_of_the_run_that_does_it(machines: Machines) -> None:
    machines.add("a")
    with claimed(targets("a", "me")):
        with ledger.opened(check=False, root=str(machines.folder / "a")) as book:
            book.delete()
        with pytest.raises(Refused, match="me is changing"), claimed(targets("a", "other")):
            pass
    assert not (machines.folder / "a/run/swarm").exists()
