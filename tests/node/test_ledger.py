"""Does the ledger refuse whom it must, and keep what it was given?"""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path

import pytest
from swarm_node.machine.run import Context, NodeError
from swarm_node.records import ledger


def _write(root: Path, lineage: str = "L1", serial: int = 5) -> None:
    with ledger.opened(check=False, root=str(root)) as book:
        book.guard(lineage, serial, "dev")


def test_foreign_lineage_never_acts(machine: Path) -> None:
    _write(machine)
    with pytest.raises(NodeError, match=r"belongs to fleet dev \(lineage L1\), not to L2"):
        _write(machine, lineage="L2", serial=99)


def test_older_run_never_acts(machine: Path) -> None:
    _write(machine, serial=5)
    with pytest.raises(NodeError, match=r"a newer run \(serial 5\) has been here; this one is 4"):
        _write(machine, serial=4)


def test_newer_serial_is_recorded_for_root_alone(machine: Path) -> None:
    _write(machine, serial=5)
    _write(machine, serial=6)
    place = machine / "var/lib/swarm/ledger.json"
    assert json.loads(place.read_text())["serial"] == 6
    assert place.stat().st_mode & 0o777 == 0o600


def test_check_mode_never_writes(machine: Path) -> None:
    with ledger.opened(check=True, root=str(machine)) as book:
        book.guard("L1", 1, "dev")
        book.record("gpus", "0", value={"power_w": 600})
        book.save_original("x", 1)
    assert not (machine / "var").exists()
    assert not (machine / "run").exists()


def test_nothing_is_changed_after_the_lock_is_gone(machine: Path) -> None:
    with ledger.opened(check=False, root=str(machine)) as book:
        context = Context(book, root=str(machine))
    with pytest.raises(NodeError, match="closed"):
        context.write("/etc/x", "text")


def test_the_first_original_stays(machine: Path) -> None:
    with ledger.opened(check=False, root=str(machine)) as book:
        book.save_original("sysctl:vm.swappiness", "60")
        book.save_original("sysctl:vm.swappiness", "10")
    assert ledger.load(str(machine)).original("sysctl:vm.swappiness") == "60"


def test_a_damaged_ledger_is_refused(machine: Path) -> None:
    _write(machine)
    (machine / "var/lib/swarm/ledger.json").write_text("{")
    with pytest.raises(NodeError, match=r"ledger\.json cannot be read"):
        ledger.load(str(machine))


def test_second_run_waits_and_then_names_the_first(machine: Path) -> None:
    with ledger.opened(check=False, root=str(machine)):
        second = ledger.opened(check=False, root=str(machine), wait_s=0.2)
        with pytest.raises(NodeError, match=r"another run \(process [0-9]+\) holds /run/swarm/lock"):
            second.__enter__()


def test_who_waits_on_a_removed_lock_takes_the_new_one(machine: Path) -> None:
    entered = threading.Event()

    def wait() -> None:
        with ledger.opened(check=False, root=str(machine), wait_s=10):
            entered.set()
            assert (machine / "run/swarm/lock").exists()

    other = threading.Thread(target=wait)
    with ledger.opened(check=False, root=str(machine)) as book:
        book.guard("L1", 1, "dev")
        other.start()
        time.sleep(0.2)
        book.delete()
    other.join(10)
    assert entered.is_set()
