"""Does work that waits get the room of a job that has finished, and only where nobody else can lose by it?"""

from __future__ import annotations

import contextlib
import datetime
import json
import re
from collections.abc import Mapping
from pathlib import Path
from unittest.mock import patch

import pytest

from swarm_iac import observe as asking
from swarm_iac import program
from swarm_iac.model.placement import Allocation, Placement
from swarm_iac.model.stack import Stack
from swarm_iac.model.state import AllocationState, LedgerHead, Observed
from swarm_iac.plan import desired
from swarm_iac.reach.node_program import agent_digest
from swarm_iac.reconcile import Request
from swarm_iac.stackfile import load
from swarm_iac.stackfile.locks import lock
from tests.cli.typed import Ended, swarm

#: `fine` and `tune` hold all of both nodes; `next` waits for either.
STACK = """\
fleet: lab
teams: {t: {users: [ada, bo]}}
limits: {user: {gpus: 16, storage: 3 TB}}
hardware: {h: {gpus: 8 x H100, vcpus: 64, memory: 1 TB, nvme: 4 TB, disk: /dev/nvme1n1}}
nodes:
  n1: {hardware: h, ssh: root@n1.invalid}
  n2: {hardware: h, ssh: root@n2.invalid}
workloads:
  fine: {user: ada, each: {gpus: 8, scratch: 1 TB}, run: {command: train --seed 7, env: {LR: "0.1"}}}
  tune: {user: bo, kind: train, each: {gpus: 8}, run: {command: tune}}
"""
NEXT = "  next: {user: ada, each: {gpus: 6, scratch: 1 TB}, run: {command: next}}\n"


def typed(root: Path, *words: str, **health: str) -> Ended:
    """Type `swarm WORDS` while each machine answers with what the lock has there, and how it is: `fine_0=done`."""
    return heard(root, answers(root, **health), *words)


def heard(root: Path, seen: Mapping[str, Observed], *words: str) -> Ended:
    def answer(targets: Mapping[str, str], **more: object) -> dict[str, Observed]:
        return {node: seen.get(node, Observed(node=node, error="no route to host")) for node in targets}

    with contextlib.ExitStack() as stack:
        stack.enter_context(patch.object(asking, "observe", answer))
        return swarm(*words, at=root, width=220)


def answers(root: Path, **health: str) -> dict[str, Observed]:
    """What every machine says that is as the lock has it, but for the health that is named."""
    stack, standing = stack_of(root), allocations(root).values()
    here = tuple(one for one in standing if one.node in stack.nodes and one.workload in stack.workloads)
    return {
        node: Observed(
            node=node, ledger=LedgerHead(lineage="l", serial=1, fleet="lab"), agent=agent_digest(),
            state=wanted.state.model_copy(update={"allocations": {
                name: lived(one, health.get(name.replace("-", "_"), "done" if name in wanted.ended else "healthy"))
                for name, one in wanted.state.allocations.items()
            }}),
            health={
                name: health.get(name.replace("-", "_"), "done" if name in wanted.ended else "healthy")
                for name in wanted.state.allocations
            },
        )
        for node, wanted in desired(stack, Placement(allocations=here)).items()
    }  # fmt: skip


def lived(state: AllocationState, health: str) -> AllocationState:
    """As it is found when it is `health`."""
    return state.model_copy(update={"unit": state.unit.model_copy(update={"active": health in ("healthy", "starting")})})


def stack_of(root: Path) -> Stack:
    return load(root / "stacks" / "lab.yaml", today=datetime.date(2026, 6, 1)).stack


def allocations(root: Path) -> dict[str, Allocation]:
    file = root / "stacks" / "lab.lock.yaml"
    return lock.parse(file.read_bytes(), file.name).placement.by_name() if file.is_file() else {}


def write(root: Path, text: str) -> None:
    (root / "stacks" / "lab.yaml").write_text(text)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A fleet that is full, and `next` has been told to wait."""
    (tmp_path / "Pulumi.yaml").write_text("name: lab\n")
    (tmp_path / "stacks").mkdir()
    for text in (STACK, STACK + NEXT):
        write(tmp_path, text)
        assert typed(tmp_path, "solve", "lab").code == 0
    assert "next-0" not in allocations(tmp_path)
    return tmp_path


def test_who_waits_gets_the_room_of_a_finished_job(root: Path) -> None:
    before = allocations(root)
    said = typed(root, "solve", "lab", fine_0="done")
    after = allocations(root)
    assert said.code == 0 and after["next-0"].node == before["fine-0"].node and len(after["next-0"].gpus) == 6
    assert after["tune-0"] == before["tune-0"], "what runs stays"
    assert after["fine-0"].ended and not after["fine-0"].gpus and after["fine-0"].storage == before["fine-0"].storage
    assert re.search(r"fine-0 .* finished: keeps 1 TB of files", said.out)
    # Once written it is known to those who have no machine to ask, and nothing is left to decide.
    assert "Nothing to change" in swarm("plan", "lab", "--offline", at=root, width=220).out


@pytest.mark.parametrize("how", ["done", "failed"])
def test_a_plan_says_so_and_stops_nothing(root: Path, how: str) -> None:
    said = typed(root, "plan", "lab", fine_0=how).out
    assert said.endswith("lab: 1 to start, 1 to change in place\n") and "What stops" not in said and "What moves" not in said
    found = json.loads(typed(root, "plan", "lab", "--json", fine_0=how).out)["summary"]
    assert found["start"] == ["next-0"] and not found["stop"] and not found["move"] and not found["pending"]
    assert "fine-0" in found["change"], "it gives back"


def test_frozen_mode_says_so(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SWARM_FROZEN", "1")
    assert typed(root, "plan", "lab").code == 0
    said = typed(root, "plan", "lab", fine_0="done")
    assert said.code and "fine-0 has ended since, and next waits for capacity" in said.err
    # Who asks no machine goes by the lock.
    assert swarm("plan", "lab", "--offline", at=root).code == 0


def test_an_end_that_a_preview_saw_stays(root: Path) -> None:
    """A plan keeps what it decided as the candidate, and who asks no machine then is told the same."""
    before = (root / "stacks" / "lab.lock.yaml").read_bytes()
    typed(root, "plan", "lab", fine_0="done")
    for seen in ({}, answers(root, fine_0="done")):
        assert json.loads(heard(root, seen, "plan", "lab", "--json").out)["summary"]["pending"] == 0
    offline = swarm("plan", "lab", "--offline", at=root, width=220).out
    assert offline.endswith("lab: 1 to start\n") and "stop" not in offline
    assert (root / "stacks" / "lab.lock.yaml").read_bytes() == before, "it is the lock once it is applied"


def test_an_up_asks_too_unless_the_machines_are_out_of_reach(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What Pulumi runs is the program alone: it decides as the commands do."""
    seen, given = answers(root, fine_0="done"), []

    class Given(Exception):
        pass

    def fleet(name: str, request: Request, opts: object) -> None:
        given.append(request.placement)
        raise Given

    monkeypatch.setattr(program, "observe", lambda targets, **more: {node: seen[node] for node in targets})
    monkeypatch.setattr(program, "Fleet", fleet)
    monkeypatch.setattr(program.pulumi, "get_stack", lambda: "lab")
    for offline in ("1", ""):
        monkeypatch.setenv("SWARM_OFFLINE", offline)
        with pytest.raises(Given):
            program.main(root)
    assert "next-0" not in given[0].by_name() and "next-0" in given[1].by_name()


def test_without_pending_work_an_end_changes_nothing(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(root, STACK)
    assert typed(root, "solve", "lab").code == 0
    before = {path: path.read_bytes() for path in (root / "stacks").iterdir()}
    monkeypatch.setenv("SWARM_FROZEN", "1")
    for words in (("plan", "lab"), ("solve", "lab"), ("ps", "lab"), ("status", "lab")):
        assert typed(root, *words, fine_0="done").code == 0
    assert {path: path.read_bytes() for path in (root / "stacks").iterdir()} == before


def test_the_room_is_there_for_what_comes_later(root: Path) -> None:
    """Nothing waits when `fine` ends. What comes then is given its room, and moves and stops nobody for it."""
    write(root, STACK)
    typed(root, "solve", "lab")
    write(root, STACK + NEXT)
    typed(root, "solve", "lab", fine_0="done")
    assert allocations(root)["next-0"].node == allocations(root)["fine-0"].node


@pytest.mark.parametrize("change", [("--seed 7", "--seed 8"), ('"0.1"', '"0.2"'), ("fine: {user: ada", "fine: {user: bo")])
def test_another_command_is_a_new_job(root: Path, change: tuple[str, str]) -> None:
    typed(root, "solve", "lab", fine_0="done")
    seen = answers(root, fine_0="done")
    write(root, STACK.replace(*change) + NEXT)
    assert "not placed there" not in heard(root, seen, "plan", "lab").out, "what is left of the old one was ours"
    said = heard(root, seen, "solve", "lab")
    assert said.code == 0 and "fine-0" not in allocations(root), "no room is left for it"
    assert "fine" in said.out and "not placed" in said.out
    write(root, STACK.replace(*change))
    heard(root, seen, "solve", "lab")
    assert not allocations(root)["fine-0"].ended and len(allocations(root)["fine-0"].gpus) == 8


def test_a_what_if_of_another_command_is_of_a_new_job(root: Path) -> None:
    typed(root, "solve", "lab", fine_0="done")
    same = swarm("what-if", "workloads.fine.each.memory=90 GB", "-s", "lab", at=root, width=200).out
    assert "Every allocation stays as it is." in same
    other = swarm("what-if", "workloads.fine.run.command=train --seed 8", "-s", "lab", at=root, width=200).out
    assert re.search(r"fine +0 +1", other), "one of it has no place"


def test_more_memory_is_no_new_job(root: Path) -> None:
    typed(root, "solve", "lab", fine_0="done")
    was = allocations(root)
    write(root, STACK.replace("scratch: 1 TB", "memory: 90 GB, scratch: 1500 GB", 1) + NEXT)
    assert "Nothing to change" in swarm("plan", "lab", "--offline", at=root).out
    assert allocations(root) == was


def test_hold_keeps_all_of_it(root: Path) -> None:
    write(root, STACK.replace("fine: {user", "fine: {hold: yes, user") + NEXT)
    typed(root, "solve", "lab", fine_0="done")
    found = allocations(root)
    assert "next-0" not in found and len(found["fine-0"].gpus) == 8 and not found["fine-0"].ended


def test_a_service_and_a_reserved_place_never_finish(root: Path) -> None:
    write(root, STACK.replace("kind: train", "kind: serve") + NEXT)
    typed(root, "solve", "lab", tune_0="done")
    assert "next-0" not in allocations(root)


def test_its_files_count_and_nothing_else(root: Path) -> None:
    """Of 3 TB that ada may have her finished job holds one: a third of one and a half has no place, by her limit."""
    more = "  big: {user: ada, each: {gpus: 1, scratch: 1500 GB}, run: {command: big}}\n"
    write(root, STACK + NEXT + more)
    typed(root, "solve", "lab", fine_0="done")
    said = swarm("why", "big", "-s", "lab", "--offline", at=root).out
    assert "user ada has 1 TB left of 3 TB" in said and "fine" not in said, said
    assert "swarm what-if 'limits.user.storage=3500 GB'" in said


def test_why_and_ps_say_that_it_is_finished(root: Path) -> None:
    typed(root, "solve", "lab", fine_0="done")
    write(root, STACK + NEXT + "  third: {user: bo, each: {gpus: 6}, run: {command: third}}\n")
    typed(root, "solve", "lab")
    why = swarm("why", "fine", "-s", "lab", "--offline", at=root).out
    assert "fine: 0 placed, 0 not placed, 1 finished" in why
    assert "fine-0: ended on n1, keeps 1 TB of files; its GPUs, CPUs, memory and bandwidth are free" in why
    assert "fine-0 of ada: finished, and keeps 1 TB" in swarm("why", "n1", "-s", "lab", at=root).out
    third = swarm("why", "third", "-s", "lab", "--offline", at=root).out
    assert "holds 6 GPUs on n1" in third and "fine" not in third, "it holds no room"
    for words in (("ps", "lab", "--offline"), ("ps", "lab")):
        row = next(line for line in typed(root, *words, fine_0="done").out.splitlines() if "fine-0" in line)
        assert "finished; keeps 1 TB of files" in row and "GPU" not in row
    for words in (("status", "lab", "--offline"), ("status", "lab")):
        assert re.search(r"n1 .* fine-0 \(finished\) next-0", typed(root, *words).out)
    found = {one.get("name"): one for one in json.loads(typed(root, "ps", "lab", "--json", fine_0="done").out)}
    assert found["fine-0"]["finished"] and found["fine-0"]["health"] == "done" and "finished" not in found["tune-0"]
    assert "failed; keeps 1 TB" in typed(root, "ps", "lab", fine_0="failed").out


GANG = """\
  gang: {user: ada, kind: train, gang: 2, each: {gpus: 8}, run: {command: gang}, place: {spread: node}}
"""


@pytest.fixture
def gang(tmp_path: Path) -> Path:
    """A gang of two on both nodes, and `next` waits."""
    (tmp_path / "Pulumi.yaml").write_text("name: lab\n")
    (tmp_path / "stacks").mkdir()
    for text in (STACK.split("  fine:", maxsplit=1)[0] + GANG, STACK.split("  fine:", maxsplit=1)[0] + GANG + NEXT):
        write(tmp_path, text)
        typed(tmp_path, "solve", "lab")
    assert sorted(allocations(tmp_path)) == ["gang-0", "gang-1"]
    return tmp_path


def test_a_gang_is_whole_with_a_member_that_finished(gang: Path) -> None:
    before, full = allocations(gang), answers(gang, gang_0="done")
    typed(gang, "solve", "lab", gang_0="done")
    after = allocations(gang)
    assert after["gang-0"].ended and after["gang-1"] == before["gang-1"] and after["next-0"].node == before["gang-0"].node
    summary = json.loads(heard(gang, full, "plan", "lab", "--json").out)["summary"]
    assert summary["start"] == ["next-0"] and not summary["restart"] and not summary["stop"]


def test_of_a_gang_that_failed_each_node_answers_for_its_own(gang: Path) -> None:
    """One member failed: the other is stopped by the next run, and its room is free when its own node says that it is."""
    typed(gang, "solve", "lab", gang_0="failed")
    assert allocations(gang)["gang-0"].ended and not allocations(gang)["gang-1"].ended
    write(gang, (gang / "stacks" / "lab.yaml").read_text() + "  more: {user: bo, each: {gpus: 8}, run: {command: more}}\n")
    typed(gang, "solve", "lab", gang_0="failed", gang_1="stopped")
    found = allocations(gang)
    assert found["gang-1"].ended and found["more-0"].node == found["gang-1"].node


@pytest.mark.parametrize("state", ["drain", "lost", ""])
def test_a_node_with_the_files_of_a_finished_job_is_left_as_any_other(root: Path, state: str) -> None:
    typed(root, "solve", "lab", fine_0="done")
    home = allocations(root)["fine-0"].node
    text = STACK + NEXT
    line = f"  {home}: {{hardware: h, ssh: root@{home}.invalid}}\n"
    write(root, text.replace(line, line.replace("}", f", state: {state}}}") if state else ""))
    said = typed(root, "solve", "lab", fine_0="done") if state else swarm("solve", "lab", "--offline", at=root)
    found = allocations(root)
    assert said.code == 0, said.err
    assert found["fine-0"].ended and found["fine-0"].node == home, "it needs no other place"
    assert "next-0" not in found
    assert swarm("plan", "lab", "--offline", at=root).code == 0


def test_a_drain_is_over_though_files_are_left(root: Path) -> None:
    """The lock says that `fine` runs; it has ended, and its node is drained: nothing has to move."""
    seen = answers(root, fine_0="done")
    write(root, STACK.replace("n1: {hardware: h", "n1: {state: drain, hardware: h") + NEXT)
    found = json.loads(heard(root, seen, "plan", "lab", "--json").out)["summary"]
    assert not found["stop"] and not found["move"] and found["pending"] == 1


def lies(root: Path, how: str) -> dict[str, Observed]:
    """n2 says of `fine-0`, which is n1's, that it has ended."""
    seen = answers(root)
    node = seen["n2"]
    if how == "of another's":
        lie = {"fine-0": lived(seen["n1"].state.allocations["fine-0"], "done")}
        state = node.state.model_copy(update={"allocations": {**node.state.allocations, **lie}})
        return {**seen, "n2": node.model_copy(update={"state": state, "health": {**node.health, "fine-0": "done"}})}
    changed: dict[str, object] = {"health": {"tune-0": "done"}}
    if how == "of another fleet":
        changed["ledger"] = LedgerHead(lineage="x", serial=1, fleet="other")
    elif how == "of nobody":
        changed["ledger"] = None
    elif how == "of another command":
        unit = node.state.allocations["tune-0"].unit.model_copy(update={"command": "true"})
        state = {"tune-0": node.state.allocations["tune-0"].model_copy(update={"unit": unit})}
        changed["state"] = node.state.model_copy(update={"allocations": state})
    elif how == "unreadable":
        changed["error"] = "no answer"
    return {**seen, "n2": node.model_copy(update=changed)}


@pytest.mark.parametrize(
    "how", ["of another's", "of another fleet", "of nobody", "of another command", "unreadable"]
)  # fmt: skip
def test_nobody_is_believed_about_what_is_not_its_own(root: Path, how: str) -> None:
    before = allocations(root)
    assert heard(root, lies(root, how), "solve", "lab").code == 0
    assert allocations(root) == before


def test_a_newcomer_waits_for_what_runs_again(root: Path) -> None:
    """By the lock `fine` has ended, and somebody started it by hand: its GPUs are given to nobody before it is over."""
    full, over = answers(root), answers(root, fine_0="done")
    typed(root, "solve", "lab", fine_0="done")
    for health in ("healthy", "starting", "stopping", "unknown"):
        seen = {**full, "n1": full["n1"].model_copy(update={"health": {"fine-0": health}})}
        said = heard(root, seen, "plan", "lab")
        assert "fine-0 runs on n1, and it has ended by the lock file: nobody gets its place before it has" in said.out
        summary = json.loads(heard(root, seen, "plan", "lab", "--json").out)["summary"]
        assert not summary["start"] and not summary["stop"] and not summary["change"] and summary["deferred"]
    assert "though it has finished according to the lock file" in heard(root, full, "ps", "lab").out
    assert json.loads(heard(root, over, "plan", "lab", "--json").out)["summary"]["start"] == ["next-0"]
