"""Does a kill of the autopilot at any of its writes stop nothing, double nothing, and is the next one done within 30 s?

Real processes, each killed with SIGKILL before its first write, its second one, and so on until none is left. Machines are a file
here, and `up` is what makes it as the lock and the live layer say; on real machines `tests/e2e/test_autopilot.py` does the same.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Mapping
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from swarm_iac import observe
from swarm_iac.cli import engine
from swarm_iac.cli.machines import autopilot_loop as loop
from swarm_iac.errors import Retryable
from swarm_iac.live import file as live_file
from swarm_iac.live.overlay import overlay
from swarm_iac.observe import Measured
from swarm_iac.run_options import VARIABLES
from tests.cli.power.test_powering import Site
from tests.cli.test_autopilot import STACK, pilot, swarm

TWO_NODES = STACK.replace(
    "nodes: {n1: {hardware: h, ssh: root@n1.invalid}}", 'nodes: {"n[1-2]": {hardware: h, ssh: "{name}.invalid"}}'
)
TWO_NODES = TWO_NODES.replace("    each: {gpus: 1}\n", "    each: {gpus: 1}\n    place: {per_node: 3}\n")


class Machines:
    """What runs where, as `NODE: {REPLICA: process}`. `dark`: no `up` reaches them, and they go on."""

    def __init__(self, root: Path) -> None:
        self.root, self.path, self.dark = root, root / "machines.json", root / "dark.json"

    def read(self) -> dict[str, dict[str, int]]:
        found: dict[str, dict[str, int]] = json.loads(self.path.read_text()) if self.path.exists() else {"n1": {}, "n2": {}}
        names = Counter(name for ones in found.values() for name in ones)
        assert max(names.values(), default=1) == 1, f"a replica runs twice: {found}"
        return found

    def processes(self) -> dict[str, int]:
        return {name: process for ones in self.read().values() for name, process in ones.items()}

    def up(self, root: Path, name: str, words: Any, say: Any, *, more: Mapping[str, str] = {}, **_: Any) -> Any:
        """What `up` does of these nodes, each by itself."""
        one = pilot(root)
        decision, now = one._decision(), self.read()
        layer = live_file.read(one.path, "lab", "lab")
        both = overlay(decision.stack, decision.placement, layer, now=time.time())
        dark = json.loads(self.dark.read_text()) if self.dark.exists() else []
        for node in filter(None, more[VARIABLES["only"]].split(",")):
            if node not in dark:
                names = [each.name for each in both.placement.allocations if each.node == node]
                fresh = max(self.processes().values(), default=0) + 1
                now[node] = {each: now[node].get(each, fresh + number) for number, each in enumerate(names)}
                text = self.path.with_suffix(".new")
                text.write_text(json.dumps(now))
                text.replace(self.path)
        failed = bool({*more[VARIABLES["only"]].split(",")} & {*dark})
        return subprocess.CompletedProcess([], int(failed), "error: it does not answer" if failed else "")


@pytest.fixture
def machines(root: Path, monkeypatch: pytest.MonkeyPatch) -> Machines:
    (root / "stacks" / "lab.yaml").write_text(TWO_NODES)
    monkeypatch.chdir(root)
    swarm(root, "solve", "--stack", "lab")
    (root / "Pulumi.lab.yaml").write_text("")
    load(root, 80)
    one = Machines(root)
    monkeypatch.setattr(engine, "pulumi", one.up)
    monkeypatch.setattr(engine, "at_once", lambda *_: {})
    one.up(root, "lab", [], None, more={VARIABLES["only"]: "n1,n2"})
    assert len(one.processes()) == 2
    return one


def load(root: Path, value: float) -> None:
    (root / "load.json").write_text(json.dumps({"chat": value}))


def killed_before(turn: int) -> None:
    """From now on this process dies before its write number `turn`."""
    left = count()

    def counted(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **more: Any) -> Any:
            if next(left) == turn:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*arguments, **more)

        return call

    for name in ("replace", "fsync", "write", "truncate", "unlink"):
        setattr(os, name, counted(getattr(os, name)))
    engine.pulumi = counted(engine.pulumi)


def apart(call: Callable[[], object], turn: int = -1) -> bool:
    """In a process of its own. True if it was killed; one that fails otherwise fails the test."""
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        try:
            killed_before(turn)
            call()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or os.waitstatus_to_exitcode(status) == 0
    return os.WIFSIGNALED(status)


def fly(root: Path) -> None:
    """Two ticks of one autopilot; the second sees a load that has lasted for long."""
    one, steady = pilot(root), time.monotonic
    one.once()
    time.monotonic = lambda: steady() + 1000  # in this process alone, which ends after it
    one.once()


def put_back(root: Path, folder: Path) -> None:
    """All files as they were; the folder itself stays, for we are in it."""
    for one in root.iterdir():
        shutil.rmtree(one) if one.is_dir() else one.unlink()
    shutil.copytree(folder, root, dirs_exist_ok=True)


@pytest.mark.parametrize(("before", "after", "replicas"), [(80, 240, 6), (240, 20, 2)], ids=["up", "down"])
def test_killed_before_each_write_of_replicas_the_next_one_goes_on(
    machines: Machines, before: float, after: float, replicas: int
) -> None:
    root, folder = machines.root, machines.root.with_name(f"{machines.root.name}-before")
    load(root, before)
    assert not apart(lambda: fly(root))
    load(root, after)
    shutil.copytree(root, folder)
    for turn in count():
        put_back(root, folder)
        was = machines.processes()
        killed = apart(lambda: fly(root), turn)
        stay = {name: was[name] for name in ("chat-0", "chat-1")}
        assert stay.items() <= machines.processes().items(), "a kill stops nobody whose place is guaranteed"
        began = time.monotonic()
        assert not apart(lambda: fly(root)) and not apart(lambda: fly(root))
        assert time.monotonic() - began < 30
        now, layer = machines.processes(), live_file.read(pilot(root).path, "lab", "lab")
        assert len(now) == replicas and stay.items() <= now.items(), (turn, now)
        assert {name: process for name, process in was.items() if name in now}.items() <= now.items(), "nor restarts any"
        assert not layer.unapplied and not layer.stopping and len(layer.grants) == replicas - 2, (turn, layer)
        if not killed:
            break
    assert turn >= 6, "each write was one to be killed at"


def test_a_node_that_is_dark_keeps_what_it_has_and_none_of_it_is_granted_elsewhere(machines: Machines) -> None:
    root = machines.root
    load(root, 240)
    assert not apart(lambda: fly(root))
    was = machines.read()
    machines.dark.write_text('["n2"]')
    load(root, 1)

    def tries() -> None:
        for _ in range(2):
            with pytest.raises(Retryable, match="does not answer"):
                fly(root)

    assert not apart(tries)
    layer = live_file.read(pilot(root).path, "lab", "lab")
    assert machines.read()["n2"] == was["n2"] and "n2" in layer.unapplied, "nobody knows that it has stopped"
    load(root, 240)
    assert not apart(tries)
    assert machines.read()["n2"] == was["n2"], "read() has looked that none runs twice"
    machines.dark.unlink()
    assert not apart(lambda: fly(root))
    assert len(machines.processes()) == 6 and not live_file.read(pilot(root).path, "lab", "lab").unapplied


def test_replicas_whose_node_is_dark_are_not_taken_for_idle(machines: Machines, monkeypatch: pytest.MonkeyPatch) -> None:
    """The others' cards are; with theirs the mean might be right."""
    root = machines.root
    file = root / "stacks" / "lab.yaml"
    load(root, 240)
    assert not apart(lambda: fly(root))
    was, dark = machines.read(), set[str]()
    file.write_text(file.read_text().replace("on: requests_per_replica, target: 40", "on: gpu, target: 40"))
    swarm(root, "solve", "--stack", "lab")

    def measured(targets: Mapping[str, str], **_: Any) -> dict[str, Measured]:
        found = {}
        for node in targets:
            who = [({"gpu": str(card), "allocation": name, "workload": "chat"}, 1.0) for card, name in enumerate(was[node])]
            busy = tuple(({"gpu": str(card)}, 0.01) for card in range(len(who)))
            samples = {"swarm_gpu_allocated_ratio": tuple(who), "swarm_gpu_sm_active_ratio": busy}
            found[node] = Measured(node, {}, {}, "no route") if node in dark else Measured(node, samples, {})
        return found

    monkeypatch.setattr(observe, "measurements", measured)
    monkeypatch.setattr(
        "tests.cli.test_killed_autopilot.pilot", lambda root: loop.Autopilot(root, "lab", loop.of_source(root, ""), print)
    )
    dark.add("n2")
    assert not apart(lambda: fly(root))
    assert machines.read() == was
    dark.clear()
    assert not apart(lambda: fly(root))
    assert len(machines.processes()) == 2, "all of them are idle"


def test_what_an_up_took_away_after_the_lease_runs_again_with_the_next_autopilot(machines: Machines) -> None:
    root, path = machines.root, pilot(machines.root).path
    load(root, 240)
    assert not apart(lambda: fly(root))
    layer = live_file.read(path, "lab", "lab")
    live_file.write(path, layer.model_copy(update={"at": layer.at - 2 * layer.lease}), layer.generation)
    machines.up(root, "lab", [], None, more={VARIABLES["only"]: "n1,n2"})
    assert sorted(machines.processes()) == ["chat-0", "chat-1"]
    assert not apart(lambda: fly(root))
    assert len(machines.processes()) == 6


def leads(root: Path, said: Path, number: int) -> None:
    """Without end; with each tick it says that it leads."""

    def show(_: object) -> None:
        fresh = said.with_suffix(f".{number}")
        fresh.write_text(str(number))
        fresh.replace(said)

    try:
        loop.run(pilot(root), 0.1, lambda pause: time.sleep(pause) or False, show)
    finally:
        os._exit(1)


def test_of_several_at_once_one_decides_and_the_next_is_there_within_30_s(machines: Machines) -> None:
    """Each change is decided once, whoever is killed."""
    root, children, said = machines.root, [], machines.root / "ticks"
    try:
        for number in range(3):
            child = os.fork()
            if child == 0:
                leads(root, said, number)
            children.append(child)
        led: set[str] = set()
        for value, replicas in ((240, 6), (80, 6), (240, 6)):
            load(root, value)
            began = time.monotonic()
            while not (said.exists() and said.read_text() not in led and len(machines.processes()) == replicas):
                assert time.monotonic() - began < 30, (led, machines.processes())
                time.sleep(0.05)
            led.add(leader := said.read_text())
            os.kill(children[int(leader)], signal.SIGKILL)
        assert led == {"0", "1", "2"}
    finally:
        for child in children:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
    changes = [one for one in live_file.decisions(pilot(root).path) if one["before"] != one["after"]]
    assert [(one["before"], one["after"]) for one in changes] == [(2, 6)]
    assert len(machines.processes()) == 6


def test_killed_before_each_write_of_power_the_next_one_goes_on(tmp_path: Path) -> None:
    """Down to off and back to on, with hooks that are programs."""
    for turn in count():
        site = Site(tmp_path / f"turn-{turn}")

        def sleeps(site: Site = site, state: str = "off", needs: Mapping[str, str] = {}) -> None:
            one, began = site.powering(), time.monotonic()
            while (site.layer().power["n1"].state if "n1" in site.layer().power else "on") != state:
                one.tick(site.stack(), site.layer(), needs)
                assert time.monotonic() - began < 30, site.layer().power
                time.sleep(0.02)
            one.end()

        def wakes(site: Site = site) -> None:
            sleeps(site, "on", {"n1": "work"})

        killed = [apart(sleeps, turn)]
        site.layer()
        assert not apart(sleeps)
        assert (site.machines / "n1").read_text().strip() == "off"
        killed.append(apart(wakes, turn))
        assert not apart(wakes)
        assert (site.machines / "n1").read_text().strip() == "on", "written on, it is on"
        if not any(killed):
            break
    assert turn >= 4
