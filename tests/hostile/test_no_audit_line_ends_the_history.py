"""No line of a node's audit ends `swarm history`, or speaks of another node's steps.

Fails on 3f04825: one line without a key, or with a time that is text, ended the command with a traceback.
"""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from swarm_iac.cli.machines.fleet_status import history_rows
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
    runs, told = history(answers(tmp_path, monkeypatch, {"a": [GOOD, line], "z": [GOOD]}))
    assert [(run.serial, run.nodes) for run in runs] == [(3, ["a", "z"])]
    assert len(list(history_rows(runs))) == 1
    assert told == {"a": "1 of the lines of its audit log cannot be read"}


def test_a_node_tells_of_no_step_of_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = {**GOOD, "steps": [{"id": "z/restore", "ok": False}, {"id": "nothing"}]}
    runs, _ = history(answers(tmp_path, monkeypatch, {"a": [said]}))
    assert runs[0].nodes == ["a"] and set(runs[0].steps) == {"a/restore", "a/"}
