"""Do what-if, rebalance, record and replay answer as they should, write only what they say, and end with the right code?"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from swarm_iac.stackfile.locks import lock
from tests.cli.typed import ROOT, swarm

STACK = """\
fleet: lab
teams: {research: {users: [ada, bo]}}
limits: {user: {gpus: 16}}
hardware:
  h100: {gpus: 8 x H100, vcpus: 64, memory: 1 TB}
prices: {H100: 2.50 EUR/h}
nodes:
  gpu-[01-03]: {hardware: h100, ssh: "root@{name}.example.org"}
  gpu-03: {state: drain, reason: fan}
workloads:
  chat: {user: ada, replicas: 2, each: {gpus: 3}, place: {spread: node}}
  pretrain: {user: bo, each: {gpus: 8 x H100}}
solve: {moves: 0}
"""


@pytest.fixture
def fleet(tmp_path: Path) -> Path:
    """A fleet repository whose lock holds one chat on each node, and pretrain nowhere."""
    (tmp_path / "Pulumi.yaml").write_text("name: lab\n")
    (tmp_path / "stacks").mkdir()
    (tmp_path / "stacks" / "dev.yaml").write_text(STACK.replace("  pretrain: {user: bo, each: {gpus: 8 x H100}}\n", ""))
    assert swarm("solve", at=tmp_path).code == 0
    # One wish is wider now and one is new; what runs may stay, and no move is allowed.
    (tmp_path / "stacks" / "dev.yaml").write_text(STACK.replace(", place: {spread: node}", ""))
    assert swarm("solve", at=tmp_path).code == 0
    return tmp_path


def content(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def homes(fleet: Path) -> dict[str, str]:
    text = (fleet / "stacks" / "dev.lock.yaml").read_text()
    return {one.name: one.node for one in lock.parse(text, "dev.lock.yaml").placement.allocations}


def test_what_if_tells_placement_limits_and_cost_and_writes_nothing(fleet: Path) -> None:
    before = content(fleet)
    ended = swarm("what-if", "nodes.gpu-03.state=ready", at=fleet)
    assert ended.code == 0, ended.err
    assert re.search(r"pretrain-0 +bo +- +gpu-03 +new", ended.out)
    assert re.search(r"user bo +gpus +0 +8 +16", ended.out)
    assert "cost: 35.00 EUR/h, before 15.00 EUR/h: +20.00 EUR/h" in ended.out
    assert ended.err.endswith("nothing was written\n")
    assert content(fleet) == before


def test_what_if_tells_moves_and_for_whose_sake(fleet: Path) -> None:
    ended = swarm("what-if", "solve.moves=1", "--json", at=fleet)
    found = json.loads(ended.out)
    assert [(one["allocation"], one["note"]) for one in found["changes"]] == [("chat-1", "moves"), ("pretrain-0", "new")]
    assert "because of pretrain-0" in found["moves"][0]["text"]
    assert found["cost"] == {"before": "15.00 EUR/h", "after": "35.00 EUR/h", "difference": "20.00 EUR/h"}
    assert found["before"]["placement"]["unplaced"] and not found["after"]["placement"]["unplaced"]


def test_what_if_with_another_file_is_as_if_it_were_this_one(fleet: Path) -> None:
    text = (fleet / "stacks" / "dev.yaml").read_text()
    (fleet / "draft.yaml").write_text(text.replace("state: drain", "state: ready"))
    by_file = json.loads(swarm("what-if", "--file", "draft.yaml", "--json", at=fleet).out)
    by_edit = json.loads(swarm("what-if", "nodes.gpu-03.state=ready", "--json", at=fleet).out)
    assert by_file["changes"] == by_edit["changes"] != []
    assert by_file["after"]["placement"] == by_edit["after"]["placement"]


def test_what_if_is_what_the_edited_file_then_does(fleet: Path) -> None:
    found = json.loads(swarm("what-if", "workloads.chat.replicas=1", "--json", at=fleet).out)
    text = (fleet / "stacks" / "dev.yaml").read_text()
    (fleet / "stacks" / "dev.yaml").write_text(text.replace("replicas: 2", "replicas: 1"))
    solved = json.loads(swarm("solve", "--json", at=fleet).out)
    assert solved["placement"] == found["after"]["placement"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("workloads.chta.replicas=4",), "stacks/dev.yaml:11:3: workloads.chta.replicas: there is no 'chta' under workloads\n  hint: did you mean 'chat'?"),
        (("workloads.chat.replicas=many",), "stacks/dev.yaml:11:31: workloads.chat.replicas: 'many' is no number of replicas"),
        ((), "there is nothing to change; name an edit or --file\n  hint: as in: swarm what-if"),
        (("--file", "drift.yaml"), "drift.yaml:1:1: cannot be read: no such file or directory"),
    ],
)  # fmt: skip
def test_a_wrong_what_if_ends_with_2_and_a_hint(fleet: Path, words: tuple[str, ...], said: str) -> None:
    ended = swarm("what-if", *words, at=fleet)
    assert (ended.code, ended.out) == (2, "")
    assert said in ended.err


def test_each_mend_of_why_is_a_what_if_that_places_it(fleet: Path) -> None:
    fixes = json.loads(swarm("why", "pretrain", "--json", at=fleet).out)["fixes"]
    assert {fix["kind"] for fix in fixes} == {"node", "move", "request"}
    for fix in fixes:
        edits = [one["edit"] for one in fix["edits"]]
        after = json.loads(swarm("what-if", *edits, "--json", at=fleet).out)["after"]
        assert all(one["workload"] != "pretrain" for one in after["placement"]["unplaced"]), edits


def test_solve_looks_again_for_what_found_no_place(fleet: Path) -> None:
    text = (fleet / "stacks" / "dev.yaml").read_text()
    (fleet / "stacks" / "dev.yaml").write_text(text.replace("state: drain", "state: ready"))
    before = homes(fleet)
    assert swarm("solve", at=fleet).code == 0
    assert homes(fleet) == before | {"pretrain-0": "gpu-03"}


def test_rebalance_shows_the_curve_and_writes_the_chosen_point_only(fleet: Path) -> None:
    before = content(fleet)
    shown = swarm("rebalance", at=fleet)
    assert shown.code == 0, shown.err
    assert re.search(r"0 +6 +2 .*0%", shown.out) and re.search(r"1 +14 \(\+8\) .*100%", shown.out)
    assert "swarm rebalance --moves 1" in shown.out
    assert swarm("rebalance", "dev", at=fleet).out == swarm("rebalance", "stacks/dev.yaml", at=fleet).out == shown.out
    points = json.loads(swarm("rebalance", "--json", at=fleet).out)
    assert [len(one["moves"]) for one in points] == [0, 1]
    assert content(fleet) == before
    assert swarm("rebalance", "--moves", "0", at=fleet).code == 0
    assert homes(fleet) == {"chat-0": "gpu-01", "chat-1": "gpu-02"}
    chosen = swarm("rebalance", "--moves", "1", at=fleet)
    assert chosen.code == 0 and "proof: optimal" in chosen.err
    assert "pretrain-0" in homes(fleet)
    assert "gains nothing" in swarm("rebalance", at=fleet).out
    assert "Nothing to change" in swarm("plan", "--offline", at=fleet).out


def test_replay_gives_the_same_answer_and_tells_another_one(fleet: Path) -> None:
    assert swarm("solve", "--record", "r.json", at=fleet).code == 0
    same = swarm("replay", "r.json", at=fleet)
    assert same.code == 0 and same.err.startswith("same answer: ")
    assert json.loads(swarm("replay", "r.json", "--json", at=fleet).out)["same"]
    record = json.loads((fleet / "r.json").read_text())
    record["answer"]["allocations"][0]["node"] = "gpu-03"
    (fleet / "r.json").write_text(json.dumps(record))
    other = swarm("replay", "r.json", at=fleet)
    assert other.code == 1
    assert "chat-0: gpu-03 → gpu-01" in other.out and "different answer" in other.err
    (fleet / "r.json").write_text("{")
    broken = swarm("replay", "r.json", at=fleet)
    assert broken.code == 2 and "r.json: this is no record" in broken.err and "hint:" in broken.err


def test_solve_tells_each_goal_once_where_there_is_no_terminal(tmp_path: Path) -> None:
    (tmp_path / "Pulumi.yaml").write_text("name: lab\n")
    (tmp_path / "stacks").mkdir()
    (tmp_path / "stacks" / "dev.yaml").write_text(STACK)
    ended = swarm("solve", at=tmp_path)
    assert all(line.startswith(("cost: ", "proof: ", "lock: ")) for line in ended.err.splitlines())
    assert re.search(r"GPUs placed +normal +\d+ +\d+ +", ended.out)


@pytest.mark.parametrize("command", ["why", "what-if", "rebalance", "replay", "solve"])
def test_help_has_an_example(command: str) -> None:
    ended = swarm(command, "--help", at=ROOT)
    assert ended.code == 0
    assert "Example" in ended.out
