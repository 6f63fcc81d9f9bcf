"""Do drain, cordon and ready write what they say, and does a plan then do what the words mean?"""

from __future__ import annotations

import datetime
import json
from pathlib import Path

import pytest

from swarm_iac.cli.commands.operator import deadline
from swarm_iac.errors import SwarmError
from swarm_iac.stackfile import load
from tests.cli.typed import Ended, swarm

NOW = datetime.datetime(2026, 11, 21, 19, 30, tzinfo=datetime.UTC)


@pytest.fixture
def fleet(tmp_path: Path) -> Path:
    """A fleet repository whose placement is decided and applied."""
    assert swarm("init", "lab", at=tmp_path).code == 0
    assert swarm("solve", at=tmp_path / "lab").code == 0
    (tmp_path / "lab" / "Pulumi.dev.yaml").write_text("{}\n")  # and it was applied
    return tmp_path / "lab"


def stack_of(fleet: Path) -> Path:
    return fleet / "stacks" / "dev.yaml"


def done(*words: str, at: Path) -> Ended:
    ended = swarm(*words, at=at)
    assert ended.code == 0, ended.err
    return ended


def home(fleet: Path, name: str) -> str:
    """Where a plan made now would have it."""
    found = json.loads(done("solve", "--json", at=fleet).out)
    return str(next(one["node"] for one in found["placement"]["allocations"] if one["name"] == name))


def test_a_drain_is_one_line_and_ready_takes_it_back(fleet: Path) -> None:
    before = stack_of(fleet).read_text()
    ended = done("drain", "gpu-01", "--reason", "fan", at=fleet)
    added = [line for line in ended.out.splitlines() if line[:1] in "+-" and line[1:2] != line[:1]]
    assert added == ["+  gpu-01: {state: drain, reason: fan}"]
    assert stack_of(fleet).read_text() == before.replace("\nworkloads:", "  gpu-01: {state: drain, reason: fan}\n\nworkloads:")
    assert home(fleet, "pretrain-0") == "gpu-02"
    done("ready", "gpu-01", at=fleet)
    assert stack_of(fleet).read_text() == before


def test_a_dry_run_shows_the_difference_and_writes_nothing(fleet: Path) -> None:
    before = stack_of(fleet).read_text()
    ended = done("cordon", "gpu-[01-02]", "--dry-run", at=fleet)
    assert (
        '+  gpu-[01-02]: {hardware: h100, rack: r1, site: lab, tuning: train, ssh: "root@{name}", state: cordon}' in ended.out
    )
    assert stack_of(fleet).read_text() == before
    assert done("ready", "gpu-01", at=fleet).err == "stacks/dev.yaml already says so: nothing to change\n"


def test_a_lost_node_gives_its_work_to_others_and_ready_takes_it_back(fleet: Path) -> None:
    before = stack_of(fleet).read_text()
    assert "+  gpu-01: {state: lost, reason: no power}" in done("lost", "gpu-01", "--reason", "no power", at=fleet).out
    assert home(fleet, "pretrain-0") == "gpu-02"
    done("ready", "gpu-01", at=fleet)
    assert stack_of(fleet).read_text() == before


def test_until_its_deadline_a_drain_moves_nothing_and_lets_nothing_come(fleet: Path) -> None:
    done("drain", "gpu-01", "--by", "8 h", "--reason", "disks", at=fleet)
    plan = done("plan", "--offline", at=fleet).out
    assert "Nothing to change" in plan
    assert "Drains that wait" in plan and "pretrain-0" in plan and "disks" in plan
    assert home(fleet, "pretrain-0") == "gpu-01"
    stack_of(fleet).write_text(stack_of(fleet).read_text().replace("priority: high\n", "priority: high\n    gang: 2\n"))
    found = json.loads(done("solve", "--json", at=fleet).out)["placement"]["allocations"]
    assert sorted(one["node"] for one in found if one["workload"] == "pretrain") == ["gpu-01", "gpu-02"]


def test_after_its_deadline_a_drain_moves_what_is_left(fleet: Path) -> None:
    done("drain", "gpu-01", "--by", "8 h", at=fleet)
    text = stack_of(fleet).read_text()
    moment = text.partition("drain_by: ")[2][:17]
    stack_of(fleet).write_text(text.replace(moment, "2026-01-01T08:00Z"))
    moved = json.loads(done("plan", "--offline", "--json", at=fleet).out)["moves"]
    assert ("pretrain-0", "gpu-01") in {(one["allocation"], one["from"]) for one in moved}


def test_what_if_sees_the_drain_behind_a_deadline(fleet: Path) -> None:
    done("drain", "gpu-01", "--by", "8 h", at=fleet)
    assert "pretrain-0" not in done("what-if", "workloads.tidy.replicas=2", at=fleet).out
    assert "moves" in done("what-if", "nodes.gpu-01.drain_by=", at=fleet).out


@pytest.mark.parametrize(
    ("text", "nodes", "count"),
    [("", "gpu-01, gpu-03", 4), ("# nothing is left\n\n", "gpu-01, gpu-03", 4), ("half", "gpu-01", 2), ("nodes: {", "", 0)],
)
def test_of_a_refused_file_it_is_told_what_runs_on_the_nodes_it_lost(fleet: Path, text: str, nodes: str, count: int) -> None:
    whole = stack_of(fleet).read_text()
    half = "".join(line for line in whole.splitlines(keepends=True) if not line.startswith("  gpu-[01-02]"))
    stack_of(fleet).write_text(half if text == "half" else text)
    ended = swarm("plan", "--offline", at=fleet)
    assert ended.code == 2
    told = f"{count} allocations run, by the lock, on nodes that this file has no more: {nodes}\n  hint: `git checkout"
    assert (told in ended.err) == bool(count), ended.err
    assert swarm("validate", "stacks/dev.yaml", at=fleet).code == 2


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("8 h", "2026-11-22T03:30:00+00:00"),
        ("90min", "2026-11-21T21:00:00+00:00"),
        ("2026-11-22T08:00Z", "2026-11-22T08:00:00+00:00"),
        ("2026-11-22T08:00+02:00", "2026-11-22T06:00:00+00:00"),
    ],
)
def test_a_deadline_is_a_duration_or_a_moment(text: str, moment: str) -> None:
    assert deadline(text, NOW).astimezone(datetime.UTC).isoformat() == moment


def test_a_day_begins_where_the_operator_sits() -> None:
    assert deadline("2026-11-23", NOW) == datetime.datetime(2026, 11, 23).astimezone()


@pytest.mark.parametrize("text", ["soon", "8", "2026-11-31", "2026-11-20", "0 h", "99999999 d"])
def test_what_is_no_deadline_is_refused(text: str) -> None:
    with pytest.raises(SwarmError):
        deadline(text, NOW)


def test_an_unknown_node_is_named_with_the_nearest(fleet: Path) -> None:
    ended = swarm("drain", "gpu-10", at=fleet)
    assert ended.code == 2 and "there is no node 'gpu-10'" in ended.err and "did you mean 'gpu-0" in ended.err


@pytest.mark.parametrize(("begin", "end"), [("drain", "undrain"), ("cordon", "uncordon")])
def test_each_word_has_its_opposite(fleet: Path, begin: str, end: str) -> None:
    before = stack_of(fleet).read_text()
    done(begin, "gpu-01", at=fleet)
    assert stack_of(fleet).read_text() != before
    done(end, "gpu-01", at=fleet)
    assert stack_of(fleet).read_text() == before


def drained(fleet: Path) -> set[str]:
    stack = load(stack_of(fleet), today=datetime.date.today()).stack
    return {name for name, node in stack.nodes.items() if node.state == "drain"}


@pytest.mark.parametrize(
    ("words", "nodes"),
    [
        (("gpu-01,gpu-03",), {"gpu-01", "gpu-03"}),
        (("gpu-[01,02],gpu-03",), {"gpu-01", "gpu-02", "gpu-03"}),
        (("rack=r1",), {"gpu-01", "gpu-02", "gpu-03"}),
        (("disk=fast", "gpu-03"), {"gpu-02", "gpu-03"}),
    ],
)
def test_a_drain_takes_lists_racks_and_labels(fleet: Path, words: tuple[str, ...], nodes: set[str]) -> None:
    text = stack_of(fleet).read_text()
    stack_of(fleet).write_text(text.replace("\nworkloads:", "  gpu-02: {labels: {disk: fast}}\n\nworkloads:"))
    done("drain", *words, at=fleet)
    assert drained(fleet) == nodes


def test_a_rack_that_is_not_there_is_refused_with_those_that_are(fleet: Path) -> None:
    ended = swarm("drain", "rack=r9", at=fleet)
    assert ended.code == 1 and "no node has rack=r9" in ended.err and "rack is one of: r1" in ended.err
    assert not drained(fleet)
