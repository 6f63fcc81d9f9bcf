"""Is a line of the audit ever lost because two runs write at once? Fails on 3f04825."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.node.conftest import GUARD

from swarm_node.machine import run  # isort: skip
from swarm_node.program import step  # isort: skip
from swarm_node.records import audit, ledger  # isort: skip


def asked(serial: int) -> dict[str, Any]:
    return {
        "verb": "settings",
        "guard": {**GUARD, "serial": serial},
        "steps": [{"id": f"run {serial}", "want": {"settings": {}}}],
    }


def full(root: Path) -> None:
    step.perform(asked(1), root=str(root))
    file = root / "var/lib/swarm/audit.jsonl"
    file.write_text(file.read_text() * 9000)


def test_no_line_is_ever_lost_while_another_run_shortens_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    full(tmp_path)
    replace, others = run.replace, []

    def slow(path: str, text: str, mode: int) -> None:
        """Between what is read and what is put in its place, another run ends."""
        if path.endswith("audit.jsonl") and not others:
            others.append(threading.Thread(target=step.perform, args=(asked(3),), kwargs={"root": str(tmp_path)}))
            others[0].start()
            time.sleep(0.5)
        replace(path, text, mode)

    monkeypatch.setattr(run, "replace", slow)
    step.perform(asked(2), root=str(tmp_path))
    others[0].join(30)
    assert [line["serial"] for line in audit.lines(str(tmp_path))[-2:]] == [2, 3]


def test_a_run_that_hangs_with_the_lock_never_costs_another_its_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    full(tmp_path)
    size = (tmp_path / "var/lib/swarm/audit.jsonl").stat().st_size
    with ledger.opened(check=False, root=str(tmp_path)), ledger.alone(str(tmp_path), wait_s=0.1) as alone:
        assert not alone
        results = [{"id": "x", "ok": True, "skipped": False}]
        audit.note(str(tmp_path), asked(2)["guard"], {}, results, alone=alone)
    assert audit.lines(str(tmp_path))[-1]["serial"] == 2
    assert (tmp_path / "var/lib/swarm/audit.jsonl").stat().st_size > size, "nothing was removed without the lock"


def test_a_node_that_was_given_back_gets_no_folder_again(tmp_path: Path) -> None:
    with ledger.alone(str(tmp_path)) as alone:
        assert not alone
    assert not list(tmp_path.iterdir())
