"""Of two runs that began from the same state, and so have the same serial, only the first one acts on a node.

Fails on 3f04825: the serial was all that a ledger knew of a run, and equal serials passed.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from swarm_iac.model.step import Step, Verb
from tests.hostile.conftest import Nodes
from tests.node.conftest import GUARD  # puts the node program where it can be imported

from swarm_node.program import step  # isort: skip
from swarm_node.records import ledger  # isort: skip
from swarm_node.machine.run import NodeError  # isort: skip

pytestmark = pytest.mark.engine


def guard(root: Path, serial: int, run: str) -> None:
    with ledger.opened(check=False, root=str(root)) as book:
        book.guard("L1", serial, "dev", run)


def test_an_equal_serial_of_another_run_is_refused(tmp_path: Path) -> None:
    guard(tmp_path, 5, "aaaa")
    guard(tmp_path, 5, "aaaa")
    with pytest.raises(NodeError, match="another run with the same serial 5 has been here"):
        guard(tmp_path, 5, "bbbb")
    with pytest.raises(NodeError, match="same serial"):
        guard(tmp_path, 5, "")
    guard(tmp_path, 6, "bbbb")
    with pytest.raises(NodeError, match="a newer run"):
        guard(tmp_path, 5, "aaaa")


def test_a_ledger_from_before_takes_the_name_of_its_next_run(tmp_path: Path) -> None:
    guard(tmp_path, 5, "aaaa")
    path = tmp_path / "var/lib/swarm/ledger.json"
    old = json.loads(path.read_text())
    del old["run"]
    path.write_text(json.dumps(old))
    guard(tmp_path, 5, "bbbb")
    with pytest.raises(NodeError, match="same serial"):
        guard(tmp_path, 5, "aaaa")


def test_the_second_run_changes_nothing(tmp_path: Path) -> None:
    def asked(run: str, value: str) -> dict[str, Any]:
        one = {"id": "n/settings", "want": {"settings": {"sysctl": {"vm.swappiness": value}}}}
        found: dict[str, Any] = step.perform(
            {"verb": "settings", "steps": [one], "guard": {**GUARD, "run": run}}, root=str(tmp_path)
        )
        return found["results"][0]

    place = tmp_path / "proc/sys/vm/swappiness"
    place.parent.mkdir(parents=True)
    place.write_text("60")
    assert asked("aaaa", "10")["ok"] and place.read_text() == "10"
    second = asked("bbbb", "20")
    assert not second["ok"] and "same serial" in second["message"] and place.read_text() == "10"


def test_of_a_direct_start_and_another_clones_up_only_the_first_acts(tmp_path: Path) -> None:
    """Both take the next serial after that of one state: the direct start sends its steps in one call, `up` one verb at a time."""
    place = tmp_path / "proc/sys/vm/swappiness"
    place.parent.mkdir(parents=True)

    def one(value: str) -> dict[str, Any]:
        return {"id": "n/settings", "want": {"settings": {"sysctl": {"vm.swappiness": value}}}}

    def direct(run: str, value: str) -> list[dict[str, Any]]:
        steps = [{"verb": "settings", **one(value)}, {"verb": "settings", **one(value), "id": "n/settings/2"}]
        return list(step.perform({"steps": steps, "guard": {**GUARD, "run": run}}, root=str(tmp_path))["results"])

    def up(run: str, value: str) -> list[dict[str, Any]]:
        asked = {"verb": "settings", "steps": [one(value)], "guard": {**GUARD, "run": run}}
        return list(step.perform(asked, root=str(tmp_path))["results"])

    for first, second in ((direct, up), (up, direct)):
        for file in (tmp_path / "var/lib/swarm").glob("*"):
            file.unlink()
        place.write_text("60")
        assert all(result["ok"] for result in first("aaaa", "10"))
        refused = second("bbbb", "20")
        assert all(not result["ok"] and "same serial" in result["message"] for result in refused)
        assert place.read_text() == "10"


def test_every_run_has_a_name_of_its_own(tmp_path: Path, nodes: Nodes) -> None:
    seen = tmp_path / "seen"
    nodes.program(f"""
with open({str(seen)!r}, "a") as file:
    file.write(asked["guard"]["run"] + "\\n")
print(json.dumps({{"results": [outcome(one) for one in asked["steps"]]}}))
""")
    for _ in range(2):
        found = nodes.converge(*(Step(id=f"a/{verb}", node="a", verb=verb) for verb in (Verb.SETTINGS, Verb.GPUS)))
        assert all(result.ok for result in found.values()), found
    first, same, second, _ = seen.read_text().split()
    assert first == same != second and len(base64.b16decode(first.upper())) == 8
