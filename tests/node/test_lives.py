"""Is an end written down for good, and only an end? What does a reboot start, and what waits?"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from swarm_node.concerns import units
from swarm_node.machine.run import Context
from swarm_node.program import boot
from swarm_node.records import ledger
from swarm_node.workload import lives

from tests.node.conftest import GUARD
from tests.node.test_units import systemd_reads


def here(root: Path, **allocations: Any) -> Any:
    book = ledger.load(str(root), check=False)
    book.guard(**GUARD)
    book.record("allocations", value=allocations)
    return Context(book, root=str(root))


def job(**unit: Any) -> dict[str, Any]:
    return {"workload": "web", "unit": {"user": "ada", "command": "train", "active": True, "restart": False, **unit}}


def says(root: Path, kind: str, want: dict[str, Any], **variables: str) -> None:
    """Run what the unit's file holds on its `kind` line, as systemd would, below `root`."""
    line = next(line for line in lives.properties("web-1", want) if line.startswith(f"{kind}=-:+"))
    shell, option, script, name, *paths = systemd_reads(line)
    for folder in (lives.ENDS, lives.SPARE, lives.ASKED):
        (root / folder[1:]).mkdir(parents=True, exist_ok=True)
    below = [str(root / path[1:]) for path in paths]
    done = subprocess.run([shell, option, script, name, *below], env={"PATH": os.environ["PATH"], **variables}, check=False)
    assert done.returncode == 0


ONE = {"INVOCATION_ID": "1"}


@pytest.mark.parametrize(("result", "restart", "told"), [
    ("success", False, "done"), ("success", True, "done"), ("exit-code", False, "failed"), ("oom-kill", False, "failed"),
    ("exit-code", True, ""),
])  # fmt: skip
def test_an_end_is_written_down_by_the_unit_itself(result: str, restart: bool, told: str, tmp_path: Path) -> None:
    want = {"restart": restart}
    if result == "success":
        says(tmp_path, "ExecStop", want, **ONE)
    says(tmp_path, "ExecStopPost", want, SERVICE_RESULT=result, **ONE)
    assert lives.end(here(tmp_path), "web-1") == told


@pytest.mark.parametrize("result", ["success", "exit-code", "timeout"])
def test_who_was_asked_to_stop_came_to_no_end(result: str, tmp_path: Path) -> None:
    says(tmp_path, "ExecStop", {"restart": False}, MAINPID="7", **ONE)
    says(tmp_path, "ExecStopPost", {"restart": False}, SERVICE_RESULT=result, **ONE)
    assert lives.end(here(tmp_path), "web-1") == ""
    if result != "exit-code":  # systemd runs it of who has not failed; a `timeout` is of processes that its command left
        says(tmp_path, "ExecStop", {"restart": False}, INVOCATION_ID="2")
    says(tmp_path, "ExecStopPost", {"restart": False}, SERVICE_RESULT=result, INVOCATION_ID="2")
    assert lives.end(here(tmp_path), "web-1") != "", "only that one run was asked"


@pytest.mark.parametrize(("invocation", "result", "told"), [
    ("1", "timeout", "stopped"), ("1", "exit-code", "stopped"), ("2", "exit-code", "failed"), ("2", "oom-kill", "failed"),
    ("3", "timeout", "failed"), ("4", "timeout", "stopped"),
])  # fmt: skip
def test_who_had_to_be_killed_after_it_was_asked_to_stop_has_not_failed(
    invocation: str, result: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that was killed in the middle of a stop never said that it was done; the job is to start again.

    The first was asked to stop, the second failed, the third ended and left processes, and of the fourth the stop took so long
    that nothing of it could be noted.
    """
    if invocation in ("1", "3"):
        says(tmp_path, "ExecStop", {"restart": False}, MAINPID="7" if invocation == "1" else "", INVOCATION_ID=invocation)
    shown = {"ActiveState": "failed", "Result": result, "InvocationID": invocation}
    monkeypatch.setattr(units.systemd, "show", lambda context, unit: shown)
    assert units.health_of(here(tmp_path), "web-1", job()["unit"]) == told
    limited = job(time_limit_s=3600)["unit"]
    assert units.health_of(here(tmp_path), "web-1", limited) == (told if invocation != "4" else "failed")


def test_an_end_is_known_when_the_disk_does_not_take_it(tmp_path: Path) -> None:
    (tmp_path / lives.ENDS[1:] / "web-1").mkdir(parents=True)  # nothing can be written there
    says(tmp_path, "ExecStopPost", {"restart": False}, SERVICE_RESULT="exit-code", **ONE)
    assert lives.end(here(tmp_path), "web-1") == "failed"


def test_a_start_forgets_the_end_before_it(tmp_path: Path) -> None:
    says(tmp_path, "ExecStopPost", {"restart": False}, SERVICE_RESULT="success", **ONE)
    lives.prepare(here(tmp_path), "web-1")
    assert lives.end(here(tmp_path), "web-1") == ""


def test_a_reboot_starts_services_and_neither_jobs_nor_what_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine given up as lost comes back: its job may have been running elsewhere for days."""
    here(
        tmp_path, **{
            "chat-0": job(on_boot="start"), "train-0": job(on_boot="wait"), "off-0": job(on_boot="start", active=False),
            "done-0": job(on_boot="start"), "gang-0": job(on_boot="wait", gang=True),
        },
    )  # fmt: skip
    (tmp_path / lives.ENDS[1:]).mkdir(parents=True)
    (tmp_path / lives.ENDS[1:] / "done-0").write_text("success\n")
    started: list[str] = []
    monkeypatch.setattr(units, "apply", lambda context, name, want: started.append(name))
    assert boot.run(str(tmp_path)) == 0
    assert started == ["chat-0"]
    seen = Context(ledger.load(str(tmp_path)), check=True, root=str(tmp_path))
    assert [name for name in ("chat-0", "train-0", "off-0", "done-0", "gang-0") if lives.waits(seen, name)] == [
        "train-0",
        "gang-0",
    ]
    lives.prepare(Context(ledger.load(str(tmp_path), check=False), root=str(tmp_path)), "train-0")
    assert not lives.waits(seen, "train-0"), "a run started it"


def test_nothing_is_left_of_a_life_that_was_released(tmp_path: Path) -> None:
    says(tmp_path, "ExecStopPost", {"restart": False}, SERVICE_RESULT="success", **ONE)
    context = here(tmp_path)
    lives.wait(context, "web-1")
    lives.release(context, "web-1")
    assert (lives.end(context, "web-1"), lives.waits(context, "web-1")) == ("", 0)
    lives.restore(context)
    assert not any((tmp_path / folder[1:]).exists() for folder in (lives.ENDS, lives.SPARE, lives.ASKED, lives.WAITING))


def test_a_member_of_a_gang_is_never_started_alone(tmp_path: Path) -> None:
    def render(**more: Any) -> str:
        return str(
            units.render(here(tmp_path), "web-1", {"user": "ada", "command": "train", "env": {}, "restart": True, **more})
        )

    assert "Restart=on-failure" in render() and "Restart=no" in render(gang=True)
