"""Is what measures a node set up with no more than is asked, read back as it is, and gone without a trace?"""

from __future__ import annotations

import grp
import json
import os
import pwd
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from swarm_node.concerns import devices, telemetry
from swarm_node.machine.run import Context, NodeError
from swarm_node.program import step
from swarm_node.records import ledger

from tests.node.conftest import GUARD

UNITS = Path("etc/systemd/system")
WANT = {"port": 9418, "scrapers": ["10.0.0.5", "fd00:1::/64"], "teams": {"ada": "vision"}}
HELD = {
    "workload": "train", "gpus": [0, "1:0.25"], "scratch": {"quota": 1 << 30, "owner": "ada", "mode": "0700"},
    "unit": {"user": "ada", "command": "/bin/train --key hunter2", "env": {"TOKEN": "hunter2"}},
}  # fmt: skip


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was run, in place of running it. Everything that systemd is asked to start is active."""
    ran: list[str] = []
    active: set[str] = set()

    def run(self: Context, argv: list[str], **_: Any) -> str:
        line = " ".join(argv)
        ran.append(line)
        if argv[:2] == ["systemctl", "start"]:
            active.update(argv[2:])
        if argv[:2] == ["systemctl", "stop"]:
            active.difference_update(argv[2:])
        if argv[:2] == ["systemctl", "show"]:
            names = [one for one in argv[2:] if one.endswith(".service")]
            return "\n\n".join(
                f"Id={one}\nActiveState={'active' if one in active else 'inactive'}\nDropInPaths=" for one in names
            )
        return ""

    monkeypatch.setattr(Context, "run", run)
    monkeypatch.setattr(telemetry, "_group", lambda context: os.getgid())
    monkeypatch.setattr(telemetry, "_user", lambda context: None)
    monkeypatch.setattr(devices, "group", lambda context: os.getgid())
    return ran


def do(root: Path, want: Any, *, check: bool = False) -> dict[str, Any]:
    one = {"id": "a/telemetry", "want": {"telemetry": want}}
    found: dict[str, Any] = step.perform({"verb": "telemetry", "steps": [one], "guard": GUARD, "check": check}, root=str(root))
    (result,) = found["results"]
    return dict(result)


def seen(root: Path) -> Any:
    book = ledger.load(str(root))
    return telemetry.observed(Context(book, check=True, root=str(root)), "", book.state)


def test_it_is_made_read_back_and_given_back(machine: Path, commands: list[str]) -> None:
    done = do(machine, WANT)
    assert done["ok"] and {one["path"] for one in done["changes"]} == {
        "telemetry.port",
        "telemetry.scrapers",
        "telemetry.teams",
    }
    assert seen(machine) == {"telemetry": WANT}
    assert do(machine, WANT)["changes"] == [], "the same again changes nothing"
    gone = do(machine, None)
    assert gone["ok"] and [one["path"] for one in gone["changes"]] == ["telemetry"]
    left = [str(path.relative_to(machine)) for path in machine.rglob("*") if re.search("sampler|exporter|telemetry", path.name)]
    assert left == [] and seen(machine) == {}


def test_a_check_changes_nothing(machine: Path, commands: list[str]) -> None:
    done = do(machine, WANT, check=True)
    assert done["changed"] and not (machine / UNITS).exists() and not commands


def test_a_node_that_measures_nothing_is_left_alone(machine: Path, commands: list[str]) -> None:
    with ledger.opened(check=False, root=str(machine)) as book:
        book.guard(**GUARD)
        assert telemetry.restore(Context(book, root=str(machine)), "", book.state) == []
        telemetry.published(Context(book, root=str(machine)))
    assert not commands and not (machine / "run/swarm-telemetry").exists()


@pytest.mark.parametrize("what", ["file", "slice", "link", "stopped", "drop-in"])
def test_what_a_hand_changes_is_drift(machine: Path, commands: list[str], monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    do(machine, WANT)
    if what == "file":
        (machine / UNITS / telemetry.SERVER).write_text("[Service]\nExecStart=/bin/true\n")
    if what == "slice":
        (machine / UNITS / telemetry.SLICE).write_text("[Slice]\nCPUQuota=900%\n")
    if what == "link":
        (machine / UNITS / "multi-user.target.wants" / telemetry.SAMPLER).unlink()
    if what in ("stopped", "drop-in"):
        state, more = ("failed", "") if what == "stopped" else ("active", "/etc/systemd/system/x.d/y.conf")
        answer = "\n\n".join(f"Id={one}\nActiveState={state}\nDropInPaths={more}" for one in telemetry.UNITS)
        monkeypatch.setattr(Context, "run", lambda self, argv, **_: answer)
    assert seen(machine) == {"telemetry": None}


HOSTILE = [
    {"port": 80}, {"port": 70000}, {"port": True}, {"port": "9418"}, {"port": None},
    {"scrapers": ["10.0.0.5\nExecStartPre=/bin/sh"]}, {"scrapers": ["10.0.0.5 %h"]}, {"scrapers": ["$(id)"]}, {"scrapers": ["any"]},
]  # fmt: skip


@pytest.mark.parametrize("bad", HOSTILE, ids=str)
def test_no_value_of_a_stack_file_adds_to_a_unit(machine: Path, commands: list[str], bad: dict[str, Any]) -> None:
    done = do(machine, {**WANT, **bad})
    assert not done["ok"] and not (machine / UNITS).exists() and "start" not in " ".join(commands)


def test_units_have_no_right_but_to_look(machine: Path, commands: list[str]) -> None:
    do(machine, WANT)
    texts = {unit: (machine / UNITS / unit).read_text().splitlines() for unit in telemetry.UNITS}
    for unit, lines in texts.items():
        assert {"CapabilityBoundingSet=", "NoNewPrivileges=yes", "ProtectSystem=strict"} <= set(lines), unit
        assert not any(line.startswith(("AmbientCapabilities", "ReadWritePaths", "User=root")) for line in lines), unit
        assert f"Slice={telemetry.SLICE}" in lines and "IPAddressDeny=any" in lines
    assert "RestrictAddressFamilies=AF_UNIX AF_NETLINK" in texts[telemetry.SAMPLER], "who opens cards sees no network"
    assert "User=swarm-sampler" in texts[telemetry.SAMPLER]
    server = texts[telemetry.SERVER]
    assert "DynamicUser=yes" in server
    assert "PrivateDevices=yes" in server and "IPAddressAllow=10.0.0.5/32 fd00:1::/64" in server, (
        "who sees the network opens no card"
    )
    assert not any("nvidia" in line or devices.GROUP in line for line in server)
    limits = (machine / UNITS / telemetry.SLICE).read_text().splitlines()
    assert {"CPUQuota=50%", "MemoryMax=256M", "MemorySwapMax=0", "TasksMax=64"} <= set(limits)
    assert not telemetry.SLICE.startswith("swarm-"), "below swarm.slice are allocations alone"


def test_labels_say_who_holds_what_and_nothing_else(machine: Path, commands: list[str]) -> None:
    with ledger.opened(check=False, root=str(machine)) as book:
        book.guard(**GUARD)
        book.record("allocations", "train-0", value=HELD)
    do(machine, WANT)
    path = machine / "run/swarm-telemetry/labels.json"
    text = path.read_text()
    assert json.loads(text)["allocations"] == {
        "train-0": {
            "workload": "train",
            "user": "ada",
            "team": "vision",
            "gpus": [0, "1:0.25"],
            "class": 0,
            "quotas": {"scratch": 1 << 30},
        }
    }
    assert "hunter2" not in text and path.stat().st_mode & 0o777 == 0o640


def test_labels_follow_each_step_and_no_step_fails_of_them(
    machine: Path, commands: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    do(machine, WANT)
    monkeypatch.setitem(
        step.HANDLERS, "slice", lambda context, name, want: context.ledger.record("allocations", name, value=HELD) or []
    )
    one = {"id": "a/slice/train-0", "allocation": "train-0"}
    request = {"verb": "slice", "steps": [one], "guard": GUARD}
    assert step.perform(request, root=str(machine))["results"][0]["ok"]
    assert "train-0" in (machine / "run/swarm-telemetry/labels.json").read_text()

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(telemetry, "publish", full)
    assert step.perform(request, root=str(machine))["results"][0]["ok"]


def test_a_new_program_starts_both_again(machine: Path, commands: list[str]) -> None:
    do(machine, WANT)
    commands.clear()
    with ledger.opened(check=False, root=str(machine)) as book:
        book.guard(**GUARD)
        telemetry.renewed(Context(book, root=str(machine)))
    assert commands[-1] == f"systemctl restart {' '.join(telemetry.UNITS)}"


def test_a_card_is_let_go_of_while_it_is_cut(machine: Path, commands: list[str]) -> None:
    from swarm_node.machine.nvml_users import released

    do(machine, WANT)
    with ledger.opened(check=False, root=str(machine)) as book:
        context = Context(book, root=str(machine))
        commands.clear()
        with pytest.raises(NodeError), released(context):
            assert commands == ["systemctl stop swarm-sampler.service"]
            raise NodeError("the card refuses")
        assert commands[-1] == "systemctl start --no-block swarm-sampler.service"
        context.ledger.record("telemetry", value=None)
        commands.clear()
        with released(context):
            pass
        assert not commands, "where nothing is measured, nobody is asked to let go"


def test_user_and_group_are_made_once_and_removed_where_they_were_made(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    known: dict[str, int] = {}

    def get(name: str) -> SimpleNamespace:
        if name not in known:
            raise KeyError(name)
        return SimpleNamespace(gr_gid=known[name])

    def run(self: Context, argv: list[str], **_: Any) -> str:
        made.append(" ".join(argv))
        if argv[0] in ("groupadd", "useradd"):
            known[argv[-1]] = 4711
        return ""

    monkeypatch.setattr(grp, "getgrnam", get)
    monkeypatch.setattr(pwd, "getpwnam", get)
    monkeypatch.setattr(Context, "run", run)
    with ledger.opened(check=False, root=str(machine)) as book:
        book.guard(**GUARD)
        context = Context(book, root="/")
        for _ in range(2):
            assert telemetry._group(context) == 4711
            telemetry._user(context)
        assert [line.split()[0] for line in made] == ["groupadd", "useradd"] and made[1].endswith(
            "--gid swarm-telemetry swarm-sampler"
        )
        made.clear()
        telemetry.restore(Context(book, root=str(machine)), "", {})
        assert made == ["userdel swarm-sampler", "groupdel swarm-telemetry"] and not book.originals("telemetry_")
        made.clear()
        telemetry.restore(Context(book, root=str(machine)), "", {})
        assert made == [], "what was there before us stays"
