"""Does a node remember who did what, and nothing that is secret?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from swarm_node.program import step
from swarm_node.records import audit

from swarm_iac.observe.history import together

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
