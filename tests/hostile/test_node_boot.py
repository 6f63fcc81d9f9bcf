"""Does one part of what a boot restores ever keep the rest from running? Each fails on 3f04825."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.node.conftest import GUARD

from swarm_node.concerns import gpus, settings, traffic, units  # isort: skip
from swarm_node.program import boot  # isort: skip
from swarm_node.records import ledger  # isort: skip


def unit(**more: Any) -> dict[str, Any]:
    return {"workload": "web", "unit": {"user": "ada", "command": "serve", "active": True, "on_boot": "start", **more}}


def booked(root: Path, **state: Any) -> None:
    with ledger.opened(check=False, root=str(root)) as book:
        book.guard(**GUARD)
        for key, value in state.items():
            book.record(key, value=value)


@pytest.mark.parametrize("error", [ValueError("no number"), KeyError("x"), AttributeError("nvmlInit"), MemoryError()])
@pytest.mark.parametrize("part", [gpus, settings])
def test_a_part_that_fails_never_ends_the_rest(
    part: Any, error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(*_: Any) -> None:
        raise error

    ran: list[str] = []
    for one in (gpus, settings, traffic):
        monkeypatch.setattr(one, "apply", lambda *_: [])
    monkeypatch.setattr(part, "apply", fails)
    monkeypatch.setattr(units, "apply", lambda context, name, want: ran.append(name))
    booked(tmp_path, settings={"sysctl": {}}, gpus={"0": {"power_w": 1}}, interface="eth0", allocations={"web-1": unit()})
    booked(tmp_path, settings={"sysctl": {"vm.swappiness": "1"}})
    assert boot.run(str(tmp_path)) == 1
    assert ran == ["web-1"]
    assert (tmp_path / "run/swarm/booted").exists(), "who waits for the boot is not kept waiting"
    assert type(error).__name__ in capsys.readouterr().err


def test_an_end_that_cannot_be_read_never_keeps_others_from_starting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    booked(tmp_path, allocations={"a-0": {"workload": "a", "unit": "torn"}, "b-0": unit(on_boot="wait"), "web-1": unit()})
    (tmp_path / "run/swarm/waiting").parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / "run/swarm/waiting").write_text("a file where a folder should be")
    ran: list[str] = []
    monkeypatch.setattr(units, "apply", lambda context, name, want: ran.append(name))
    assert boot.run(str(tmp_path)) == 1
    assert ran == ["web-1"]


def test_an_allocation_that_is_damaged_never_costs_the_others_what_is_written_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each part runs in a process of its own and writes the ledger, which the next one has to see."""
    booted: dict[str, Any] = {"torn-0": {"workload": "a", "unit": "torn"}, "web-1": unit()}
    booked(tmp_path, settings={"sysctl": {"vm.swappiness": "1"}}, allocations=booted)
    monkeypatch.setattr(settings, "apply", lambda context, *_: context.ledger.save_original("first", 1))
    monkeypatch.setattr(units, "apply", lambda context, *_: context.ledger.save_original("second", 2))
    assert boot.run(str(tmp_path), apart=True) == 1
    assert ledger.load(str(tmp_path), whole=False).data["originals"] == {"first": 1, "second": 2}
