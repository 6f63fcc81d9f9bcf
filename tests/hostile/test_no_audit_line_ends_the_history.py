"""No line of a node's audit ends `swarm history`, or speaks of another node's steps.

Fails on 3f04825: one line without a key, or with a time that is text, ended the command with a traceback.
"""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from swarm_iac.cli.machines.fleet_status import history_rows, move_rows
from swarm_iac.observe import history

GOOD: dict[str, Any] = {
    "t": 1000.5, "fleet": "dev", "lineage": "L", "serial": 3, "who": "ada@here", "commit": "abc+",
    "steps": [{"id": "a/gpus", "ok": True, "changed": True, "seconds": 0.1}, {"id": "a/stop/x-0", "pending": True, "seconds": 5}],
}  # fmt: skip
BAD: list[Any] = [
    7,
    None,
    [],
    {},
    {**GOOD, "t": "yesterday"},
    {**GOOD, "t": 10**15},
    {**GOOD, "t": -1},
    {**GOOD, "serial": "3"},
    {**GOOD, "serial": 10**18},
    {**GOOD, "serial": None},
    {**GOOD, "who": ["ada"]},
    {**GOOD, "steps": {"id": "a/gpus"}},
    {**GOOD, "steps": [7]},
    {**GOOD, "steps": [{"ok": True}]},
    {**GOOD, "steps": [{"id": {"a": 1}, "ok": True}]},
    {key: value for key, value in GOOD.items() if key != "commit"},
]


def answers(folder: Path, monkeypatch: pytest.MonkeyPatch, said: dict[str, Any]) -> dict[str, str]:
    for node, lines in said.items():
        (folder / node).write_text(json.dumps(lines))
    fake = folder / "ssh"
    fake.write_text(f'#!/bin/sh\nfor one; do [ -f {folder}/"$one" ] && exec cat {folder}/"$one"; done\n')
    fake.chmod(fake.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    return {node: f"root@{node}" for node in said}


@pytest.mark.parametrize("line", BAD, ids=lambda line: str(line)[:40])
def test_a_bad_line_is_left_out_and_told(line: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    past = history(answers(tmp_path, monkeypatch, {"a": [GOOD, line], "z": [GOOD]}))
    runs, told = past.runs, past.dark
    assert [(run.serial, run.nodes) for run in runs] == [(3, ["a", "z"])]
    assert len(list(history_rows(runs))) == 1
    assert told == {"a": "1 of the lines of its audit log cannot be read"}


def test_a_node_tells_of_no_step_of_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = {**GOOD, "steps": [{"id": "z/restore", "ok": False}, {"id": "nothing"}]}
    runs = history(answers(tmp_path, monkeypatch, {"a": [said]})).runs
    assert runs[0].nodes == ["a"] and set(runs[0].steps) == {"a/restore", "a/"}


MOVE: dict[str, Any] = {
    "t": 1000.5, "moved": {"a-0": [150 << 20, 180 << 20], "b-0": [150 << 20, 120 << 20]}, "numa": "", "lent": 300 << 20,
    "held": 300 << 20, "guaranteed": {"a-0": 40 << 20, "b-0": 40 << 20}, "used": {"a-0": 140 << 20, "b-0": 20 << 20},
}  # fmt: skip


@pytest.mark.parametrize(
    "move",
    [
        {**MOVE, "moved": []},
        {**MOVE, "moved": {}},
        {**MOVE, "moved": {"a-0": [1]}},
        {**MOVE, "moved": {"a-0": [1, 2, 3]}},
        {**MOVE, "moved": {"a-0": ["1", 2]}},
        {**MOVE, "moved": {"a-0": [-1, 2]}},
        {**MOVE, "moved": {"a-0": [1, 1 << 62]}},
        {**MOVE, "moved": {f"{'a' * 300}-0": [1, 2]}},
        {**MOVE, "moved": {"\x1b[2Ja-0": [1, 2]}},
        {**MOVE, "moved": {"a-0\nz-0": [1, 2]}},
        {**MOVE, "used": {"<script>": 1}},
        {**MOVE, "moved": {f"a-{number}": [1, 2] for number in range(1001)}},
        {**MOVE, "t": "now"},
        {**MOVE, "t": 10**15},
        {**MOVE, "used": {"a-0": None}},
        {**MOVE, "lent": True},
    ],
    ids=lambda move: str(move)[:60],
)
def test_a_bad_move_is_left_out_and_told_and_the_rest_stands(
    move: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    past = history(answers(tmp_path, monkeypatch, {"a": [GOOD, MOVE, move], "z": [{**MOVE, "t": 2000}]}))
    assert [(one.node, one.t) for one in past.moves] == [("z", 2000), ("a", 1000.5)] and len(past.runs) == 1
    assert past.dark == {"a": "1 of its moves of memory cannot be read"}


def test_a_move_is_of_the_node_that_tells_it_and_steers_no_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = {**MOVE, "node": "z", "moved": {"a-0": [1_000_000, 2_999_999]}, "numa": "\x1b[2J", "used": {}}
    unread = {"unread": "journalctl: \x1b]0;x\x07" + "no answer " * 100}
    past = history(answers(tmp_path, monkeypatch, {"a": [said, unread, unread]}))
    (row,) = move_rows(past.moves)
    assert row[1] == "a" and all(cell.isprintable() for cell in row) and row[3:] == ("1 MB → 2 MB", "314 MB", "-", "41 MB")
    assert past.moves[0].numa.isprintable()
    assert past.dark["a"].isprintable() and past.dark["a"].count("cannot be read") == 1 and len(past.dark["a"]) < 400
