"""Does a fleet survive its operators: two at once, a second clone, an emptied file, a command that outlived its run?

Before test_trunk, which it leaves the fleet to as it found it.
"""

from __future__ import annotations

import getpass
import json
import os
import re
import shutil
import signal
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from swarm_iac.pluralize import pluralize
from tests.e2e.conftest import NODES, Done, Fleet
from tests.e2e.test_unkillable import kill_tree

T = TypeVar("T")

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

UP = ("up", "--yes", "--skip-preview")
HELD = "/run/swarm/lock"


@pytest.fixture(autouse=True)
def same_files(fleet: Fleet) -> Iterator[None]:
    """The stack file and its lock are what they were, whatever a test wrote."""
    kept = {path: path.read_bytes() for path in (fleet.root / "stacks").iterdir()}
    yield
    for path in (fleet.root / "stacks").iterdir():
        path.unlink()
    for path, content in kept.items():
        path.write_bytes(content)


def ledgers(fleet: Fleet) -> dict[str, str]:
    """Every node's ledger as it is written, and what runs there by the kernel's word."""
    command = "cat /var/lib/swarm/ledger.json; cat /sys/fs/cgroup/swarm.slice/*.slice/*.service/cgroup.procs; cat /proc/sys/vm/swappiness"
    return {node: fleet.node(node, command) for node in NODES}


def until(what: Callable[[], T], seconds: float = 120) -> T:
    """What came of it, as soon as something did."""
    end = time.monotonic() + seconds
    while not (found := what()):
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.5)
    return found


def locks(fleet: Fleet) -> list[Path]:
    return list((fleet.root / ".state" / ".pulumi" / "locks").glob("**/*.json"))


def whose(fleet: Fleet) -> int:
    """The process that the engine's lock names."""
    (lock,) = until(lambda: locks(fleet))
    return int(until(lambda: lock.read_text() and json.loads(lock.read_text())["pid"]))


def refused(fleet: Fleet, change: Callable[[str], str], told: str) -> None:
    """With this change, preview and up name what is at stake and end as failures, and nothing changes."""
    before, text = ledgers(fleet), fleet.stack.read_text()
    assert change(text) != text
    fleet.stack.write_text(change(text))
    for done in (fleet.swarm("preview"), fleet.swarm(*UP)):
        assert done.status != 0
        assert told in re.sub(r"\s+", " ", done.text), done.text
    assert ledgers(fleet) == before


def on(fleet: Fleet, *nodes: str) -> int:
    """How many allocations these nodes hold."""
    return sum(one["node"] in nodes for one in fleet.placed().values())


def test_an_emptied_stack_file_is_refused_with_what_it_would_have_stopped(fleet: Fleet) -> None:
    refused(fleet, lambda text: "", f"{on(fleet, *NODES)} allocations run, by the lock, on nodes that this file has no more")


def test_a_stack_file_without_nodes_is_refused(fleet: Fleet) -> None:
    count = on(fleet, *NODES)
    refused(fleet, lambda text: "fleet: dev\n", f"nodes that left the stack still hold {count} allocations")


def test_a_stack_file_without_workloads_is_refused(fleet: Fleet) -> None:
    count = on(fleet, *NODES)
    refused(fleet, lambda text: text.partition("workloads:")[0], f"this would stop all {count} running allocations")


def test_a_renamed_fleet_is_refused(fleet: Fleet) -> None:
    told = f"belong to the fleet dev, and the stack file says prod: {on(fleet, *NODES)} running allocations are at stake"
    refused(fleet, lambda text: text.replace("fleet: dev", "fleet: prod"), told)


def test_a_list_of_nodes_cut_in_half_is_refused(fleet: Fleet) -> None:
    count = on(fleet, "gpu-03")
    assert count
    told = f"1 node that left the stack still holds {pluralize(count, 'allocation')}"
    refused(fleet, lambda text: re.sub(r"^  gpu-03: .*\n", "", text, flags=re.MULTILINE), told)


def test_a_list_of_nodes_cut_so_that_some_work_finds_no_machine_is_refused(fleet: Fleet) -> None:
    told = f"{on(fleet, 'gpu-01', 'gpu-02')} allocations run, by the lock, on nodes that this file has no more: gpu-01"
    refused(fleet, lambda text: re.sub(r"^  gpu-\[01-02\]: .*\n", "", text, flags=re.MULTILINE), told)


def test_a_second_up_is_refused_with_the_name_of_the_first(fleet: Fleet) -> None:
    fleet.edit("swappiness: 10", "swappiness: 12")
    first = fleet.begin(*UP)
    try:
        process = whose(fleet)
        second = fleet.swarm(*UP)
        assert second.status == 4, second.text
        assert f"is being changed by {getpass.getuser()}@{socket.gethostname()} (process {process}, since" in second.text
        assert first.process.poll() is None, "the second was refused while the first ran"
    finally:
        done = first.end()
    done.ok()
    assert fleet.node("gpu-01", "cat /proc/sys/vm/swappiness") == "12"
    fleet.edit("swappiness: 12", "swappiness: 10")
    fleet.swarm(*UP).ok()


def test_the_lock_of_another_host_is_told_and_stays(fleet: Fleet) -> None:
    before = ledgers(fleet)
    folder = next((fleet.root / ".state" / ".pulumi" / "locks").glob("**/dev"))
    lock = folder / "00000000-0000-4000-8000-000000000000.json"
    said = {"pid": 4242, "username": "bo", "hostname": "desk-7", "timestamp": "2026-11-21T08:00:00Z"}
    lock.write_text(json.dumps(said))
    try:
        done = fleet.swarm(*UP)
        assert done.status == 4 and "is being changed by bo@desk-7 (process 4242, since 2026-11-21" in done.text
        assert "pulumi cancel" in done.text and lock.exists()
        bare = fleet.pulumi(*UP)
        assert bare.status != 0 and "bo@desk-7 (pid 4242)" in bare.text
    finally:
        lock.unlink()
    assert ledgers(fleet) == before


class Clone(Fleet):
    """A second clone of the repository, with a state of its own, that reaches the same machines."""

    def swarm(self, *words: str, timeout: float = 900, **variables: str) -> Done:
        reach = {"SWARM_SSH_CONFIG": str(self.sandbox.ssh_config), "SWARM_NODE_TIMEOUT": "90"}
        return super().swarm(*words, timeout=timeout, **reach, **variables)


def test_a_second_clone_with_a_state_of_its_own_changes_nothing_until_it_adopts(fleet: Fleet, tmp_path: Path) -> None:
    shutil.copytree(fleet.root, tmp_path / "clone", ignore=shutil.ignore_patterns(".state", ".sandbox", "Pulumi.dev.yaml"))
    clone = Clone(tmp_path / "clone", fleet.sandbox)
    clone.edit("swappiness: 10", "swappiness: 33")
    before = ledgers(fleet)
    lineage = json.loads(fleet.node("gpu-01", "cat /var/lib/swarm/ledger.json"))["lineage"]
    done = clone.swarm(*UP)
    assert done.status != 0
    assert "belongs to fleet dev" in done.text and lineage in done.text, done.text
    assert ledgers(fleet) == before

    adopter = Clone(tmp_path / "clone", fleet.sandbox)
    shutil.rmtree(adopter.root / ".state")
    assert lineage in adopter.swarm("adopt").ok().text
    assert adopter.swarm("adopt", "0" * 32).status == 3
    adopter.swarm("adopt", lineage).ok()
    plan = json.loads(adopter.swarm("plan", "--json").ok().text)
    assert {(step["verb"], step["node"]) for step in plan["steps"]} == {("settings", "gpu-01"), ("settings", "gpu-02")}
    assert ledgers(fleet) == before


def test_an_older_serial_is_refused_in_words(fleet: Fleet) -> None:
    before = ledgers(fleet)
    head = json.loads(fleet.node("gpu-01", "cat /var/lib/swarm/ledger.json"))
    step = {"id": "gpu-01/settings", "allocation": "", "want": {"settings": {"sysctl": {"vm.swappiness": "77"}}}, "after": []}
    for guard, words in (
        ({"lineage": head["lineage"], "serial": head["serial"] - 1, "fleet": "dev"}, f"a newer run (serial {head['serial']})"),
        ({"lineage": "of-another-clone", "serial": 999, "fleet": "dev"}, "this node belongs to fleet dev"),
    ):
        request = {"verb": "settings", "steps": [step], "guard": guard, "failed": [], "check": False, "run": {}}
        asked = f"echo '{json.dumps(request)}' | python3 -I -S /usr/local/lib/swarm/current step"
        (result,) = json.loads(fleet.node("gpu-01", asked))["results"]
        assert not result["ok"] and words in result["message"], result
    assert ledgers(fleet) == before


def test_an_interrupted_up_ends_the_step_in_hand_and_leaves_no_lock(fleet: Fleet) -> None:
    fleet.edit("swappiness: 10", "swappiness: 14")
    run = fleet.begin(*UP)
    os.kill(whose(fleet), signal.SIGINT)
    assert run.end().status != 0
    assert not locks(fleet)
    fleet.edit("swappiness: 14", "swappiness: 10")
    fleet.swarm(*UP).ok()
    fleet.swarm("assert").ok()


def test_a_command_that_outlived_its_run_is_refused_on_the_node(fleet: Fleet) -> None:
    """The old run's program waits on gpu-01 for the ledger's lock and is stopped there while a new run goes by."""
    fleet.node("gpu-01", f"systemd-run -q --unit=hold-ledger flock {HELD} sleep 900")
    try:
        fleet.edit("swappiness: 10", "swappiness: 21")
        old = fleet.begin(*UP)
        programs = "pgrep -f 'python3[^ ]* -I -S /usr/local/lib/swarm/[^ ]* step' || true"
        found = str(until(lambda: fleet.node("gpu-01", programs))).split()
        fleet.node("gpu-01", f"kill -STOP {' '.join(found)}")
        kill_tree(old.process)
    finally:
        fleet.node("gpu-01", "systemctl stop hold-ledger")
    fleet.edit("swappiness: 21", "swappiness: 22")
    done = fleet.swarm(*UP).ok()
    assert "cleared the lock of a run that ended" in done.text
    after = ledgers(fleet)
    assert json.loads(fleet.node("gpu-01", "cat /var/lib/swarm/ledger.json"))["serial"] >= 2

    left = fleet.node("gpu-01", f"ps -o pid= -p {','.join(found)} || true").split()
    assert left, "the old command is still there"
    fleet.node("gpu-01", f"kill -CONT {' '.join(left)}")
    until(lambda: not fleet.node("gpu-01", f"ps -o pid= -p {','.join(left)} || true"))
    assert fleet.node("gpu-01", "cat /proc/sys/vm/swappiness") == "22"
    assert ledgers(fleet)["gpu-01"] == after["gpu-01"]
    fleet.edit("swappiness: 22", "swappiness: 10")
    fleet.swarm(*UP).ok()


def test_a_drain_waits_for_its_deadline_and_ready_ends_it(fleet: Fleet) -> None:
    lock = {path: path.read_bytes() for path in (fleet.root / "stacks").iterdir()}
    fleet.swarm("drain", "gpu-01", "--by", "8 h", "--reason", "fan").ok()
    fleet.swarm("preview", "--expect-no-changes").ok()
    assert "drain by 20" in fleet.swarm("status").ok().text
    fleet.stack.write_text(re.sub(r"drain_by: [^,}]+", "drain_by: 2026-01-01T08:00Z", fleet.stack.read_text()))
    fleet.swarm(*UP).ok()
    assert not on(fleet, "gpu-01")
    assert fleet.node("gpu-01", "ls -d /sys/fs/cgroup/swarm.slice/*.slice 2> /dev/null; true") == ""
    fleet.swarm("ready", "gpu-01").ok()
    assert fleet.stack.read_bytes() == lock[fleet.stack]
    for path, content in lock.items():
        path.write_bytes(content)
    fleet.swarm(*UP).ok()
    fleet.swarm("assert").ok()
