"""Do steps that go straight to the node program end as by Ansible, whatever a node answers?"""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from swarm_iac.converge import converge
from swarm_iac.model.state import Desired
from swarm_iac.model.step import Plan, Step, StepResult, Verb

#: An ssh that notes what it is asked, and answers as the file of the node says; `{}` stands for the ids of the steps.
SSH = """#!/usr/bin/python3
import json, pathlib, sys, time
here = pathlib.Path(__file__).parent
node = sys.argv[sys.argv.index("--") + 1]
asked = json.load(sys.stdin)
with (here / f"{node}.asked").open("a") as file:
    file.write(json.dumps([asked, sys.argv[-1]]) + "\\n")
how = json.loads((here / f"{node}.json").read_text())
results, bad = [], set()
for step in asked["steps"]:
    one = how.get(step["verb"], {})
    if "exit" in one:
        print(one.get("says", ""), file=sys.stderr)
        sys.exit(one["exit"])
    if "raw" in one:
        sys.stdout.write(one["raw"] * one.get("times", 1))
        sys.exit()
    failed = bad.intersection(step["after"])
    base = {"id": step["id"], "ok": not failed, "changed": True, "skipped": bool(failed), "message": "", "changes": []}
    results.append({**base, **one.get("result", {})})
    bad |= set() if results[-1]["ok"] else {step["id"]}
json.dump({"results": results}, sys.stdout)
"""


def step(node: str, verb: Verb, *after: str, of: str = "chat-2") -> Step:
    return Step(id=f"{node}/{verb}/{of}", node=node, verb=verb, allocation=of, after=after)


def chain(node: str, of: str = "chat-2") -> tuple[Step, ...]:
    found: list[Step] = []
    for verb in (Verb.SLICE, Verb.START, Verb.HEALTH):
        found.append(step(node, verb, *(one.id for one in found[-1:]), of=of))
    return tuple(found)


def run(
    folder: Path, monkeypatch: pytest.MonkeyPatch, script: str = SSH, more: tuple[Step, ...] = (), **nodes: dict[str, Any]
) -> dict[str, StepResult]:
    ssh = folder / "ssh"
    ssh.write_text(script)
    ssh.chmod(ssh.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    for node, how in nodes.items():
        (folder / f"{node}.json").write_text(json.dumps(how))
    desired = {node: Desired(node=node, address=f"root@{node}", fleet="lab") for node in nodes}
    steps = (*(one for node in nodes for one in chain(node)), *more)
    return converge(Plan(steps=steps), desired, lineage="L", serial=7, run="r", who="ada", directly=True)


def asked(folder: Path, node: str) -> list[Any]:
    return [json.loads(line) for line in (folder / f"{node}.asked").read_text().splitlines()]


def test_a_node_is_asked_once_for_all_of_its_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = run(tmp_path, monkeypatch, a={}, b={})
    assert len(found) == 6 and all(one.ok and one.changed for one in found.values())
    ((request, line),) = asked(tmp_path, "a")
    assert [one["verb"] for one in request["steps"]] == ["slice", "start", "health"]
    assert request["guard"] == {"fleet": "lab", "lineage": "L", "serial": 7, "run": "r"}
    assert request["run"] == {"who": "ada", "commit": ""} and request["check"] is False
    assert request["steps"][1] | {"waited": 0} == {
        "verb": "start", "id": "a/start/chat-2", "allocation": "chat-2", "want": {}, "after": ["a/slice/chat-2"], "waited": 0,
    }  # fmt: skip
    assert line.endswith(" step")


def test_the_first_replica_starts_before_the_next_has_anything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(tmp_path, monkeypatch, more=(*chain("a", "chat-10"), *chain("a", "chat-3")), a={})
    ((request, _),) = asked(tmp_path, "a")
    turn = [one["id"].removeprefix("a/") for one in request["steps"]]
    assert turn == [
        *("slice/chat-10", "start/chat-10", "slice/chat-2", "start/chat-2", "slice/chat-3", "start/chat-3"),
        *("health/chat-10", "health/chat-2", "health/chat-3"),
    ]


def test_a_step_comes_after_those_of_others_that_it_waits_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    waits = step("a", Verb.SLICE, "a/slice/chat-2", "n9/stop/x-0", of="any-0")
    found = run(tmp_path, monkeypatch, more=(waits, step("a", Verb.START, waits.id, of="any-0")), a={})
    ((request, _),) = asked(tmp_path, "a")
    assert [one["id"].removeprefix("a/") for one in request["steps"]] == [
        "slice/chat-2", "slice/any-0", "start/any-0", "start/chat-2", "health/chat-2"
    ]  # fmt: skip
    assert all(one.ok for one in found.values())


def test_what_waits_for_a_failed_step_is_not_done_and_others_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = run(tmp_path, monkeypatch, a={"slice": {"result": {"ok": False, "message": "no such card"}}}, b={})
    assert found["a/slice/chat-2"].message == "no such card" and found["a/start/chat-2"].skipped
    assert all(found[f"b/{verb}/chat-2"].ok for verb in ("slice", "start", "health"))


def test_a_step_that_is_pending_is_asked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = SSH.replace(
        "results, bad =", 'how = {} if (here / "again").exists() else how\n(here / "again").touch()\nresults, bad ='
    )
    found = run(tmp_path, monkeypatch, script, a={"health": {"result": {"ok": True, "pending": True, "message": "starting"}}})
    verbs = [[one["verb"] for one in request["steps"]] for request, _ in asked(tmp_path, "a")]
    assert verbs == [["slice", "start", "health"], ["health"]]
    assert all(one.ok and not one.pending for one in found.values())


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"exit": 255, "says": "ssh: connect to host a: No route to host"}, "No route to host"),
        ({"exit": 113}, "the node program is not installed there"),
        ({"exit": 2}, "exit status 2"),
        ({"exit": 1, "says": "\x1b[2J\x1b]0;x\x07gone"}, "gone"),
        ({"raw": "hello"}, "is not JSON"),
        ({"raw": ""}, "is not JSON"),
        ({"raw": "[" * 100_000}, "nested too deep"),
        ({"raw": "x" * 1000, "times": 6000}, "larger than"),
        ({"raw": "[]"}, "exit status 0"),
        ({"raw": '{"results": 3}'}, "gave no outcome"),
        ({"raw": '{"results": [{"id": "b/slice/chat-2", "ok": true}]}'}, "gave no outcome"),
        ({"raw": '{"results": [{"id": "a/slice/chat-2", "ok": "yes", "changes": 3}]}'}, "not understood"),
    ],
    ids=range(12),
)
def test_no_answer_passes_that_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: dict[str, Any], words: str
) -> None:
    found = run(tmp_path, monkeypatch, a={"slice": how}, b={"start": {"result": {"ok": False, "message": "b itself"}}})
    assert not found["a/slice/chat-2"].ok and words in found["a/slice/chat-2"].message
    assert found["a/slice/chat-2"].message.isprintable()
    assert not found["a/start/chat-2"].ok and not found["a/health/chat-2"].ok
    assert found["b/slice/chat-2"].ok and found["b/start/chat-2"].message == "b itself", "and no node speaks for another"
