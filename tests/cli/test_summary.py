"""Does every plan end with a line that says what it comes to, and is each stop told with its true reason?"""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from swarm_iac.cli import engine
from swarm_iac.cli.machines import fleet_view
from swarm_iac.plan.show.summary import Summary
from swarm_iac.run_options import VARIABLES
from tests.cli.typed import swarm

STACK = """\
fleet: lab
teams: {research: {users: [ada, bo]}}
hardware:
  h100: {gpus: 8 x H100, vcpus: 64, memory: 1 TB}
nodes:
  gpu-[01-02]: {hardware: h100, ssh: "root@{name}"}
workloads:
  chat: {user: ada, kind: serve, replicas: 2, priority: high, each: {gpus: 1}}
  old: {user: ada, each: {gpus: 2}}
  fine: {user: bo, replicas: 3, priority: low, each: {gpus: 4}}
"""
#: Of these edits each has one effect: old goes, chat shrinks, and pretrain needs what fine holds.
EDITED = (
    STACK.replace("  old: {user: ada, each: {gpus: 2}}\n", "").replace("replicas: 2, priority", "replicas: 1, priority")
    + "  pretrain: {user: ada, priority: high, each: {gpus: 8}}\n"
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A stack file with its lock, edited since."""
    (tmp_path / "Pulumi.yaml").write_text("name: lab\n")
    (tmp_path / "stacks").mkdir()
    path = tmp_path / "stacks" / "dev.yaml"
    path.write_text(STACK)
    assert swarm("solve", at=tmp_path).code == 0
    path.write_text(EDITED)
    return path


def test_last_line_of_a_plan_counts_and_names_what_stops(file: Path) -> None:
    shown = swarm("plan", "--offline", str(file), at=file.parent)
    last = shown.out.splitlines()[-1]
    found = json.loads(swarm("plan", "--offline", "--json", str(file), at=file.parent).out)["summary"]
    assert last == f"lab: {found['line']}"
    assert found["start"] == ["pretrain-0"]
    assert found["stop"]["old-0"] == "removed from the stack file"
    assert found["stop"]["chat-1"] == "scaled down to 1"
    preempted = {name for name, why in found["stop"].items() if why == "preempted by pretrain"}
    assert preempted and preempted <= {f"fine-{n}" for n in range(3)} and len(preempted) <= found["pending"]
    assert f"{len(found['stop'])} to stop (chat-1, scaled down to 1; {', '.join(sorted(preempted))}, preempted by" in last
    assert last.endswith(f"{found['pending']} pending")


def test_the_section_about_stops_has_a_reason_for_each(file: Path) -> None:
    words = swarm("plan", "--offline", str(file), at=file.parent).out
    section = words.partition("What stops, and why\n")[2].partition("\n\n")[0]
    rows = [line.split(maxsplit=2) for line in section.splitlines()[1:] if line.strip()]
    why = {row[0]: row[2].strip() for row in rows}
    assert why["chat-1"] == "scaled down to 1" and "preempted by pretrain" in why.values()
    assert "no longer requested here" not in words


def test_markdown_begins_and_ends_with_the_stops(file: Path) -> None:
    lines = swarm("plan", "--offline", "--markdown", str(file), at=file.parent).out.splitlines()
    assert lines[0] == f"**{lines[-1]}**"
    assert "to stop (" in lines[0] and "preempted by pretrain" in lines[0]
    assert "### What stops, and why" in lines


def test_nothing_to_change_is_said_in_the_last_line_too(file: Path) -> None:
    file.write_text(STACK)
    assert swarm("plan", "--offline", str(file), at=file.parent).out.splitlines()[-1] == "lab: nothing to change"


def test_a_refused_plan_is_shown_whole_with_every_name(file: Path) -> None:
    file.write_text(EDITED + "solve: {stops: 0}\n")
    ended = swarm("plan", "--offline", str(file), at=file.parent)
    found = json.loads(swarm("plan", "--offline", "--json", str(file), at=file.parent).out)
    assert ended.code == 3
    names = sorted(found["summary"]["stop"])
    assert "What stops, and why" in ended.out and ended.out.rstrip().endswith(found["summary"]["line"])
    assert ", ".join(names) in found["refused"]["message"] and found["refused"]["message"] in ended.err


@pytest.mark.parametrize("words", [("plan", "--offline"), ("plan", "--offline", "--json"), ("plan", "--offline", "--markdown")])
def test_detailed_exit_code_tells_nothing_changes_and_errors_apart(file: Path, words: tuple[str, ...]) -> None:
    def code(text: str, *more: str) -> int:
        file.write_text(text)
        return swarm(*words, "--detailed-exitcode", *more, at=file.parents[1]).code

    assert code(STACK) == 0
    assert code(EDITED) == 2
    assert code(EDITED + "solve: {stops: 0}\n") == 1  # refused: 3 without the option
    assert code("fleet: [\n") == 1  # 2 without the option, which would read as changes
    assert code(STACK, "--no-such-option") == 1
    assert swarm("plan", "--offline", at=file.parents[1]).code == 0


def test_detailed_exit_code_of_what_if(file: Path) -> None:
    file.write_text(STACK)
    assert swarm("what-if", "--detailed-exitcode", "workloads.chat.replicas=2", at=file.parents[1]).code == 0
    assert swarm("what-if", "--detailed-exitcode", "workloads.chat.replicas=1", at=file.parents[1]).code == 2
    assert swarm("what-if", "--detailed-exitcode", "workloads.chta.replicas=1", at=file.parents[1]).code == 1


def test_what_is_pending_is_no_change(file: Path) -> None:
    file.write_text(STACK)
    for words in (("workloads.fine.replicas=4",), ("workloads.fine.replicas=4", "--json")):
        told = swarm("what-if", "--detailed-exitcode", *words, at=file.parents[1])
        assert "lab: nothing to change, 1 pending" in told.out or json.loads(told.out)["summary"]["line"].endswith("1 pending")
        assert told.code == 0
    file.write_text(STACK.replace("replicas: 3", "replicas: 4"))
    plan = swarm("plan", "--offline", "--detailed-exitcode", at=file.parents[1])
    assert plan.code == 0 and plan.out.endswith("lab: nothing to change, 1 pending\n")


@pytest.mark.parametrize(
    ("status", "left", "code", "last"),
    [
        (0, Summary(start=("pretrain-0",), stop={"chat-1": "no longer requested here"}), 2,
         "lab: 1 to start, 1 to stop (chat-1, scaled down to 1), 2 pending"),
        (0, None, 0, "lab: nothing to change, 2 pending"),
        (255, Summary(stop={"chat-1": "x"}), 1, "lab: 1 to stop (chat-1, scaled down to 1), 2 pending"),
        (255, None, 1, ""),
    ],
)  # fmt: skip
def test_preview_ends_with_what_the_provider_left(
    file: Path, monkeypatch: pytest.MonkeyPatch, status: int, left: Summary | None, code: int, last: str
) -> None:
    def pulumi(*_: object, more: dict[str, str]) -> subprocess.CompletedProcess[str]:
        if left is not None:
            Path(more[VARIABLES["summary"]]).write_text(left.model_dump_json())
        return subprocess.CompletedProcess([], status)

    monkeypatch.setattr(engine, "pulumi", pulumi)
    ended = swarm("preview", "--detailed-exitcode", at=file.parents[1])
    assert (ended.code, ended.out.rstrip()) == (code, last)


@pytest.mark.parametrize(
    ("words", "status", "left", "last"),
    [
        ((), 0, Summary(start=("pretrain-0",), move=("chat-0",), stop={"chat-1": "x"}), "lab: 1 started, 1 moved, 1 stopped (chat-1), 2 pending"),
        ((), 0, None, "lab: nothing changed, 2 pending"),
        (("--skip-preview",), 0, None, ""),  # nobody knows
        ((), 255, Summary(start=("pretrain-0",)), ""),  # it failed, and says so itself
    ],
)  # fmt: skip
def test_up_ends_with_what_it_came_to(
    file: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], status: int, left: Summary | None, last: str
) -> None:
    def pulumi(*_: object, more: dict[str, str] | None = None, **__: object) -> subprocess.CompletedProcess[str]:
        if left is not None and more is not None:
            Path(more[VARIABLES["summary"]]).write_text(left.model_dump_json())
        return subprocess.CompletedProcess([], status, stdout="")

    monkeypatch.setattr(engine, "pulumi", pulumi)
    assert swarm("up", *words, at=file.parents[1]).out.rstrip() == last


def test_what_if_ends_with_what_it_comes_to_and_says_what_up_would_refuse(file: Path) -> None:
    """From what runs, as `swarm plan` has it once the edit is written, also where the file is not applied yet."""
    edit = "workloads.fine.replicas=1"
    ended = swarm("what-if", edit, at=file.parents[1])
    found = json.loads(swarm("what-if", edit, "--json", at=file.parents[1]).out)
    file.write_text(EDITED.replace("fine: {user: bo, replicas: 3", "fine: {user: bo, replicas: 1"))
    planned = json.loads(swarm("plan", "--offline", "--json", at=file.parents[1]).out)
    assert ended.code == 0 and ended.out.rstrip().splitlines()[-1] == f"lab: {found['summary']['line']}"
    assert found["summary"] == planned["summary"] and found["refused"] is planned["refused"] is None
    few = swarm("what-if", edit, "solve.stops=1", at=file.parents[1])
    assert few.code == 0 and "`swarm up` would refuse this: this would stop " in few.err
    assert (
        "this would stop "
        in json.loads(swarm("what-if", "solve.stops=1", "--json", at=file.parents[1]).out)["refused"]["message"]
    )


def test_what_if_says_what_becomes_of_it_without_the_edit(file: Path) -> None:
    """One that is preempted now, and not asked for with the edit: it is not "no longer requested (also without the edit)"."""
    rows = json.loads(swarm("what-if", "workloads.fine.replicas=0", "--json", at=file.parents[1]).out)["changes"]
    notes = {one["allocation"]: one["note"] for one in rows if one["allocation"].startswith("fine-")}
    assert "no longer requested; without the edit: loses its slot" in notes.values()
    assert not [note for note in notes.values() if note == "no longer requested (also without the edit)"]


def test_ps_shows_only_what_was_asked_for(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def found(*words: str) -> set[str]:
        answer = json.loads(swarm("ps", "--json", *words, at=file.parents[1]).out)
        return {one.get("name") or one["workload"] for one in answer}

    assert found("--pending") == {"fine"} and found("--pending", "--user", "ada") == set()
    read = fleet_view.read
    monkeypatch.setattr(fleet_view, "read", lambda name, **ways: read(name, **{**ways, "offline": True}))
    assert found("--user", "bo") == {"fine-0", "fine"}
    assert found("--node", "gpu-02") == {"pretrain-0"}
    assert "did you mean bo?" in swarm("ps", "--user", "boo", at=file.parents[1]).err


def test_why_of_a_node_tells_its_state_what_stands_there_and_what_is_free(file: Path) -> None:
    file.write_text(STACK)
    assert swarm("drain", "gpu-01", "--reason", "fan", at=file.parents[1]).code == 0
    found = swarm("why", "gpu-01", at=file.parents[1])
    assert found.code == 0, found.err
    assert found.out.startswith("gpu-01: drain (fan), 0 allocations, 4 leaving\n  stacks/dev.yaml:")
    leaves = found.out.partition("Leaving with the next `swarm up`\n")[2].partition("\n\n")[0].splitlines()
    assert len(leaves) == 4 and all(re.fullmatch(r"  [a-z]+-\d: (moves to gpu-02|stops)", line) for line in leaves), leaves
    assert "8 GPUs, 64 vCPUs, 1 TB of memory" in found.out and "to reopen it: swarm ready gpu-01" in found.out
    other = swarm("why", "gpu-02", at=file.parents[1]).out
    assert "chat-0 of ada: GPU " in other and "fine-" in other
    answer = json.loads(swarm("why", "gpu-02", "--json", at=file.parents[1]).out)
    assert answer["free"]["gpus"] == 8 - sum(len(one["gpus"]) for one in answer["allocations"])


def test_what_ran_on_a_machine_that_is_given_up_is_counted_where_it_has_no_other_place(file: Path) -> None:
    """No machine has a step for it, and still it is no "nothing to change"."""
    file.write_text(STACK)
    ran = [one["name"] for one in json.loads(swarm("plan", "--offline", "--json", at=file.parents[1]).out)["unplaced"]]
    assert not ran
    assert swarm("lost", "gpu-02", "--reason", "no power", at=file.parents[1]).code == 0
    shown = swarm("plan", "--offline", "--detailed-exitcode", at=file.parents[1])
    summed = json.loads(swarm("plan", "--offline", "--json", at=file.parents[1]).out)["summary"]
    assert shown.code == 2
    assert summed["lost"] and set(summed["lost"].values()) == {"gpu-02 is lost"}
    assert f"{len(summed['lost'])} given up (" in shown.out.splitlines()[-1] and "nothing to change" not in shown.out
    assert swarm("solve", at=file.parents[1]).code == 0
    assert "given up" not in swarm("plan", "--offline", at=file.parents[1]).out
