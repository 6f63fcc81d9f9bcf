"""Does a node remember who did what, and nothing that is secret?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from swarm_node.machine.run import Context, NodeError
from swarm_node.program import step
from swarm_node.records import audit

from swarm_iac.observe.history import together
from swarm_iac.reach.answer import MOST

GUARD = {"fleet": "dev", "lineage": "L1", "serial": 4}


def _request(**more: Any) -> dict[str, Any]:
    steps = [
        {"id": "a/gpus", "allocation": "", "want": {"gpus": {"0": {"power_w": 600}}}, "after": []},
        {"id": "a/gpus/x", "allocation": "x", "want": {"gpus": {"1": {"power_w": 9000}}}, "after": []},
    ]
    return {"verb": "gpus", "steps": steps, "guard": GUARD, "run": {"who": "ada@ops", "commit": "abc1234"}, **more}


def test_each_run_leaves_who_when_and_what(machine: Path, nvml: Any) -> None:
    step.perform(_request(), root=str(machine))
    (line,) = audit.lines(str(machine))
    assert (line["who"], line["commit"], line["serial"]) == ("ada@ops", "abc1234", 4)
    assert [(one["id"], one.get("ok"), one.get("changed")) for one in line["steps"]] == [
        ("a/gpus", True, True),
        ("a/gpus/x", None, None),
    ]
    assert "9000" not in str(line), "words of a failure may quote what is nobody's business"
    assert (machine / "var/lib/swarm/audit.jsonl").stat().st_mode & 0o777 == 0o600


def test_a_check_leaves_no_line(machine: Path, nvml: Any) -> None:
    step.perform(_request(check=True), root=str(machine))
    assert audit.lines(str(machine)) == []


def test_the_file_never_grows_without_end_and_survives_a_cut_line(machine: Path, nvml: Any) -> None:
    step.perform(_request(), root=str(machine))
    file = machine / "var/lib/swarm/audit.jsonl"
    file.write_text(file.read_text() * 4000)
    step.perform(_request(guard=dict(GUARD, serial=5)), root=str(machine))
    assert file.stat().st_size < 1 << 20
    with file.open("a") as cut:
        cut.write('{"t": 17')
    assert audit.lines(str(machine))[-1]["serial"] == 5


def test_moves_are_what_the_lender_told_the_journal(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def entry(message: Any, at: str = "1795696779000000") -> str:
        return json.dumps({"MESSAGE": message, "__REALTIME_TIMESTAMP": at})

    move = {"moved": {"a-0": [1, 2]}, "lent": 5, "held": 4}
    lines = [
        entry(json.dumps(move)), entry("systemctl daemon-reload: no answer"), entry([123, 34]), entry(None), entry('{"moved": 3}'),
        entry("[" * 99_999), entry(json.dumps({**move, "numa": "x" * 20_000})), entry(json.dumps(move), at="soon"), '{"MESSAGE',
        "7", entry(json.dumps({**move, "t": 1})),
    ]  # fmt: skip
    asked: list[list[str]] = []

    def told(self: Context, argv: list[str], **_: Any) -> str:
        asked.append(argv)
        return "\n".join(lines)

    monkeypatch.setattr(Context, "run", told)
    found = audit.moves(Context(None, check=True), 7)
    assert found == [{**move, "t": 1795696779.0}] * 2, "and the journal says when"
    assert asked[0][:5] == ["journalctl", "_SYSTEMD_UNIT=swarm-lender.service", "_UID=0", "-n", "7"]

    def hangs(self: Context, argv: list[str], **_: Any) -> str:
        raise NodeError("journalctl: no answer within 10 s")

    monkeypatch.setattr(Context, "run", hangs)
    assert audit.moves(Context(None, check=True)) == [{"unread": "journalctl: no answer within 10 s"}]


def test_a_move_among_many_is_told_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    """`journalctl -o json` writes null for a field of more than 4096 bytes, unless it is asked for all (journalctl(1))."""
    many = {"moved": {"a-0": [1, 2]}, "guaranteed": {f"of-many-{number}": 40 << 20 for number in range(200)}}

    def told(self: Context, argv: list[str], **_: Any) -> str:
        text = json.dumps(many)
        return json.dumps(
            {"MESSAGE": text if len(text) <= 4096 or "--all" in argv else None, "__REALTIME_TIMESTAMP": "7000000"}
        )

    monkeypatch.setattr(Context, "run", told)
    assert audit.moves(Context(None, check=True)) == [{**many, "t": 7.0}]


def test_large_moves_leave_the_rest_of_the_answer_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer of more than 4 MiB counts as none, and the audit log is in it too."""
    large = {"moved": {"a-0": [1, 2]}, "guaranteed": {f"of-many-{number}": 40 << 20 for number in range(500)}}
    lines = [json.dumps({"MESSAGE": json.dumps(large), "__REALTIME_TIMESTAMP": f"{number}000000"}) for number in range(1000)]
    monkeypatch.setattr(Context, "run", lambda *_, **__: "\n".join(lines))
    found = audit.moves(Context(None, check=True), 1000)
    assert MOST // 4 < len(json.dumps(found)) < MOST // 2
    assert [one["t"] for one in found] == list(range(1000 - len(found), 1000)), "the last ones"


def test_runs_are_put_together_from_all_nodes() -> None:
    def line(node: str, t: float, serial: int, **step: Any) -> dict[str, Any]:
        told = {"id": f"{node}/gpus", "seconds": 1.0, **step}
        return {"t": t, "fleet": "dev", "lineage": "L1", "serial": serial, "who": "ada", "commit": "c", "steps": [told]}

    runs = together(
        [line("b", 11, 1, ok=True), line("a", 10, 1, pending=True), line("a", 12, 1, ok=True), line("a", 20, 2, ok=True)]
    )
    assert [(run.serial, run.nodes, run.began, run.ended) for run in runs] == [(2, ["a"], 20, 20), (1, ["a", "b"], 10, 12)]
    assert runs[1].count("ok") == 2


def test_runs_of_a_lineage_stand_in_the_order_of_their_serials_whatever_the_clocks_say() -> None:
    def line(t: float, serial: int) -> dict[str, Any]:
        return {"t": t, "lineage": "L1", "serial": serial, "who": "ada", "commit": "c", "steps": [{"id": "a/gpus"}]}

    assert [run.serial for run in together([line(3610, 2), line(20, 3), line(5, 1)])] == [3, 2, 1]
